"""The session's own texts: introduction, filler, farewells to finished tests, and lines worded at run time.

* `SessionWording`: all texts of `data/wording.yml`. The user's file (`--wording`) may have any of its keys; the shipped
  file supplies the others.
* `Menu`: the restaurant's menu, read from a JSON or YAML file.
* `FillerPool` and `FillerWriter`: quiz questions with answers, and messages of a requested length made from them.
"""

from __future__ import annotations

import hashlib
import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TypeAlias

import msgspec
from msgspec import Meta, structs

from tunecheck import ConfigurationError, DataError
from tunecheck.datasets import JsonLinesSource
from tunecheck.plugins import JSON, Written, dumps, load_yaml, raise_as, read_as, read_regular, read_yaml, value_of
from tunecheck_memory._tokens import Tokenizer

OWN = Path(__file__).with_name("data") / "wording.yml"
"""The shipped wording."""

# A text must contain these placeholders, because the agent needs their values.
_WithList: TypeAlias = Annotated[str, Meta(pattern=r"\{list\}")]
_WithItem: TypeAlias = Annotated[str, Meta(pattern=r"\{item\}")]


def fill(template: str, values: Mapping[str, str]) -> str:
    """Replace each `{name}` in a template by its value; unknown names and braces inside values are kept.

    `str.format` would fail for a user's text with other braces: "Answer with {"a": 1}, {name}."
    """
    return re.sub(r"\{(\w+)\}", lambda match: values.get(match[1], match[0]), template)


DRINKS = "Beverages"
"""The section of drinks."""

# The name of a section or of an entry: one line, not blank
_Line: TypeAlias = Annotated[str, Meta(pattern=r"^[^\r\n]*\S[^\r\n]*$", max_length=500)]


@dataclass(frozen=True)
class Menu:
    """Sections by name, each with its entries, numbered from 1 in their order."""

    sections: Mapping[str, tuple[str, ...]]

    @classmethod
    def read(cls, value: JSON, source: str) -> Menu:
        """Read the menu of a file: `{"Starters": ["Tomato Soup", …], …, "Beverages": […]}`.

        Raises:
            ConfigurationError: The value is no menu, or too small for a mix-up; names `source` and the section.
        """
        sections = read_as(value, dict[_Line, list[_Line]], source)
        for section, entries in sections.items():
            if section != DRINKS and len(set(entries)) < 3:
                raise ConfigurationError(
                    f"{source}: the section {section!r} needs at least three different entries: "
                    "a sold-out dish, its replacement, and a dish that the waiter brings by mistake"
                )

        menu = cls({section: tuple(entries) for section, entries in sections.items()})
        if not menu.dishes:
            raise ConfigurationError(f"{source}: the menu has no section of dishes besides {DRINKS!r}; add a section")
        return menu

    @cached_property
    def numbered(self) -> Mapping[int, tuple[str, str]]:
        """The section and the entry of each number of the menu, from 1."""
        pairs = ((section, entry) for section, entries in self.sections.items() for entry in entries)
        return dict(enumerate(pairs, 1))

    @cached_property
    def dishes(self) -> Mapping[int, str]:
        """The entries that are no drinks, by their numbers."""
        return {number: entry for number, (section, entry) in self.numbered.items() if section != DRINKS}

    @cached_property
    def text(self) -> str:
        r"""The menu as text: each section with its numbered entries, "Starters:\n1. Tomato Soup\n2. …"."""
        lines: dict[str, list[str]] = {section: [f"{section}:"] for section in self.sections}
        for number, (section, entry) in self.numbered.items():
            lines[section].append(f"{number}. {entry}")
        return "\n\n".join("\n".join(section) for section in lines.values())

    def entry_with(self, item: str) -> tuple[str, Sequence[str]] | None:
        """Return the first entry that contains the item, and all entries of its section; None if no entry does."""
        return next(
            ((entry, entries) for entries in self.sections.values() for entry in entries if item in entry), None
        )


class FillerWording(Written, frozen=True):
    """The texts of a filler message: its beginning, and a line for each question with its answer."""

    preface: str
    line: Annotated[str, Meta(pattern=r"(?s)(?=.*\{question\}).*\{answer\}")]


class RestaurantWording(Written, frozen=True, dict=True, rename={"menu_line": "menu"}):
    """The waiter's lines; `menu_file` is a JSON or YAML file with `{section: [entries]}`."""

    setup: str
    speaker: Annotated[str, Meta(pattern=r"\{line\}")]
    menu_line: Annotated[str, Meta(pattern=r"\{menu\}")]
    drink_served: _WithList
    order_taken: _WithList
    unavailable: _WithItem
    changed: _WithList
    served: _WithList
    apology: str
    amended: _WithItem
    menu_file: str

    @cached_property
    def menu(self) -> Menu:
        """The menu in `menu_file`.

        Raises:
            ConfigurationError: The file cannot be read, or is no menu.
        """
        # JSON is tried first, because YAML reads its escapes of emoji as two halves, and refuses tabs.
        with raise_as(ConfigurationError, self.menu_file):
            value = value_of(read_regular(Path(self.menu_file), links=True))
        return Menu.read(load_yaml(self.menu_file) if value is None else value, self.menu_file)


class JokesWording(Written, frozen=True):
    """The question for a joke, with the time that has passed since."""

    question: Annotated[str, Meta(pattern=r"\{elapsed\}")]


class SessionWording(Written, frozen=True):
    """All texts of a session that are not in definitions; `reset` holds farewells by title."""

    introduction: str
    filler: FillerWording
    reset: dict[str, str]
    restaurant: RestaurantWording
    jokes: JokesWording

    def farewell(self, title: str) -> str | None:
        """Return the message that makes the agent forget a finished test; `*` is the default. None without either."""
        return self.reset.get(title) or self.reset.get("*")


def load_wording(path: Path | str | None = None) -> SessionWording:
    """Read a wording from a YAML file; missing texts are taken from the shipped one.

    Raises:
        ConfigurationError: The file cannot be read, or an entry is unknown or invalid; names file and line.
    """
    wording = _read(OWN, {})
    if path is not None:
        wording = _read(path, msgspec.to_builtins(wording))
    _ = wording.restaurant.menu.dishes  # reads the menu, so that an error in its file is found here
    return wording


def _read(path: Path | str, shipped: Mapping[str, Any]) -> SessionWording:
    """Read a wording file; texts that it lacks are the shipped ones, and its menu file is relative to it.

    Raises:
        ConfigurationError: The file cannot be read, or an entry is wrong; the message names the line.
    """
    document = read_yaml(path)
    texts = document.value
    if isinstance(texts, dict):
        # A file that names some farewells has no others.
        own_farewells: dict[str, Any] = {} if texts.get("reset") is None else {"reset": {}}
        texts = _merged({**shipped, **own_farewells}, texts)

    wording = read_as(texts, SessionWording, document.where)
    menu_file = str(Path(path).parent / wording.restaurant.menu_file)
    return structs.replace(wording, restaurant=structs.replace(wording.restaurant, menu_file=menu_file))


def _merged(shipped: Any, own: JSON) -> Any:  # noqa: ANN401 - texts, or sections of texts
    """Return the user's own texts, with the shipped ones for those that are missing or null."""
    if isinstance(shipped, dict) and isinstance(own, dict):
        return {**shipped, **{name: _merged(shipped.get(name), text) for name, text in own.items()}}
    return shipped if own is None else own


SHIPPED_FILLER = Path(__file__).with_name("data") / "filler.jsonl"
"""The shipped pool."""


class Filler(msgspec.Struct, frozen=True):
    """A filler message, the reply that the agent may adopt, and the indexes of its entries in the pool."""

    message: str
    suggested: str
    draws: tuple[int, ...]


@dataclass(frozen=True)
class FillerPool:
    """Questions with their answers, in file order: a random draw is an index."""

    pairs: Sequence[tuple[str, str]]

    @cached_property
    def sha256(self) -> str:
        """The hash of the questions and answers, which decide the filler of a run."""
        return hashlib.sha256(dumps([list(pair) for pair in self.pairs])).hexdigest()


def load_filler(path: Path | str | None = None) -> FillerPool:
    """Read a pool from a file, by default the shipped one.

    The file is JSON Lines with `question` and `answer`, or the GoodAI benchmark's `trivia.json`: one object with a list
    `Data` of objects with `Question` and `AnswerValue`.

    Raises:
        DataError: The file cannot be read, or an entry is invalid; the message names the file and the entry's place.
    """
    file = Path(path or SHIPPED_FILLER)
    with raise_as(DataError, file):
        whole = value_of(read_regular(file, links=True))
    entries = whole.get("Data") if isinstance(whole, dict) else None

    read: Sequence[_Pair | _Trivia]
    if isinstance(entries, list):
        read = [read_as(each, _Trivia, f"{file}, Data[{index}]", error=DataError) for index, each in enumerate(entries)]
    else:
        records = JsonLinesSource(file).records()
        read = [read_as(each, _Pair, f"{file}, line {line}", error=DataError) for line, each in records]

    if not read:
        raise DataError(f"{file}: contains no questions; add a question")
    return FillerPool(tuple((each.question, each.answer) for each in read))


class _Pair(msgspec.Struct):
    """An entry of a pool in JSON Lines."""

    question: str
    answer: str


class _Trivia(msgspec.Struct, rename={"question": "Question", "answer": "AnswerValue"}):
    """An entry of the GoodAI benchmark's `trivia.json`."""

    question: str
    answer: str


class _WordingEntry(NamedTuple):
    """Token counts of a line, and of its answer followed by a comma (`inner`) or by a bracket (`last`)."""

    line: str
    tokens: int
    inner: int
    last: int


class FillerWriter:
    """Writer of filler messages with a requested number of tokens.

    The rule of the GoodAI benchmark: the preface, the lines and the answers as a Python list must together have at
    least the requested number of tokens. The list is counted in pieces that end after a comma, as encodings never join
    tokens there. A further entry then requires no new count of the whole list.

    Example: the answers `['Flour', 'Eight']` count as `['Flour',` (`open_list`) and ` 'Eight']` (`last`). A third
    answer continues the open list with ` 'Eight',` (`inner`).
    """

    def __init__(self, pool: FillerPool, wording: SessionWording, tokenizer: Tokenizer) -> None:
        """Count the preface once; entries of the pool are counted when they are first drawn."""
        self._pairs = pool.pairs
        self._wording = wording
        self._count = tokenizer.count
        self._preface = tokenizer.count(wording.filler.preface)
        self._entry = cache(self._make_entry)

    def write(self, source: random.Random, tokens: int) -> Filler:
        """Return a filler message of randomly drawn entries; with its answers, it has at least this many tokens."""
        draws = [source.randrange(len(self._pairs))]
        answer = repr(self._pairs[draws[0]][1])
        # `before`: tokens of message text; `size`: tokens of the list of answers; `open_list`: the list to be continued
        before, size = self._preface + self._entry(draws[0]).tokens, self._count(f"[{answer}]")
        open_list = self._count(f"[{answer},")

        # A new answer closes the open list (`entry.last`); for a later answer, it continues the list (`entry.inner`).
        while before + size < tokens:
            draws.append(source.randrange(len(self._pairs)))
            entry = self._entry(draws[-1])
            before += entry.tokens
            size = open_list + entry.last
            open_list += entry.inner

        lines = "".join(self._entry(index).line for index in draws)
        answers = str([self._pairs[index][1] for index in draws])
        return Filler(self._wording.filler.preface + lines, answers, tuple(draws))

    def _make_entry(self, index: int) -> _WordingEntry:
        """Return the line of the pool's entry at this index, with the token counts of line and answer."""
        question, answer = self._pairs[index]
        line, quoted = fill(self._wording.filler.line, {"question": question, "answer": answer}), repr(answer)
        return _WordingEntry(line, self._count(line), self._count(f" {quoted},"), self._count(f" {quoted}]"))
