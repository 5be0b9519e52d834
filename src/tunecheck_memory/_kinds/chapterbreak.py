"""Chapter break: the agent hears pages of a book and must find the true beginning of the next chapter.

The texts come from the user's folder. A `.jsonl` file holds a passage in each line:
`{"context": "…", "next": "…", "others": ["…", …]}` with at least five other beginnings, and optionally
`"split": "…"`. `ctx`, `pos` and `negs` are accepted as other names.

The numbers of a reply are choices by these rules, in this order:

1. A total is not a choice: "of 6", "/6", "6 options".
2. If a number follows a word such as "option", only such numbers count: "Option 2, because of the 3 letters".
3. A number that the reply denies does not count: "2, not 3".

The score is 1 if the one choice is right. With several choices, it is 0 and not sure.
"""

from __future__ import annotations

import re
from pathlib import Path
from random import Random
from typing import Annotated, TypeAlias

import msgspec
from msgspec import Meta

from tunecheck import ConfigurationError, DataError
from tunecheck.datasets import JsonLinesSource
from tunecheck.plugins import one_of, read_as
from tunecheck_memory import FinishedTest, GenerationContext, Kind, MemoryTest, Score, Wait, scripted_test
from tunecheck_memory._kinds.replies import expected_text, is_denied, last_reply
from tunecheck_memory._kinds.scripts import read_line, whole

OPTIONS = 6
"""The number of options."""

CONTEXT_CHARACTERS = 36_000
"""The most characters of context, about ten thousand tokens."""

OPTION_CHARACTERS = 1_000
"""The most characters of an option."""

# The end of a sentence with its quotation marks, or of a paragraph
_SENTENCE_END = re.compile(r"[.!?…]+[\"”’')\]]*\s+|\n\s*\n")


def find_passages(path: Path, split: str | None) -> list[tuple[str, _Passage]]:
    """Return the passages of a folder's files, or of one file, each with its place, in the order of the files' names.

    A `split` selects the lines that name it; None means all.

    Raises:
        ConfigurationError: The path does not exist, or holds no `.jsonl` file.
        DataError: A file cannot be read, or a line is no passage; the message names file and line.
    """
    files = sorted(file for file in path.rglob("*") if file.is_file()) if path.is_dir() else [path]
    passage_files = [file for file in files if file.suffix.lower() == ".jsonl"]
    if not passage_files:
        raise ConfigurationError(f"{path}: there is no .jsonl file (passages); correct the path")

    passages: list[tuple[str, _Passage]] = []
    for file in passage_files:
        for number, record in JsonLinesSource(file).records():
            where = f"{file}, line {number}"
            renamed = {_NAMES.get(name, name): each for name, each in record.items()}
            passage = read_as(renamed, _Passage, where, error=DataError)
            if split in (None, passage.split):
                # Only the parts that a test shows are kept: contexts may be whole books.
                shown = msgspec.structs.replace(passage, context=_tail(passage.context), next=_head(passage.next))
                passages.append((where, shown))
    return passages


def pages_of(text: str, size: int) -> list[str]:
    """Split a text into pages of at most `size` characters. Only blanks after the last page are dropped.

    A page ends with a sentence or a word if possible.
    """
    pages: list[str] = []
    start = 0

    while len(text) - start > size:
        ends = [match.end() for match in _SENTENCE_END.finditer(text, start, start + size)]
        blank = max(text.rfind(" ", start + 1, start + size), text.rfind("\n", start + 1, start + size))
        # After the last sentence that fits, else after the last blank, else in the middle of a word.
        end = ends[-1] if ends else blank + 1 if blank > start else start + size

        pages.append(text[start:end])
        start = end
    return [*pages, text[start:]] if text[start:].strip() or not pages else pages


_NAMES = {"ctx": "context", "pos": "next", "negs": "others"}
_Text: TypeAlias = Annotated[str, Meta(pattern=r"\S")]


class _Passage(msgspec.Struct, frozen=True):
    """A line of a `.jsonl` file: a context, the text after it, and other texts with wrong beginnings."""

    context: _Text
    next: _Text
    others: list[str]
    split: str | None = None

    def wrong_options(self, random: Random, where: str) -> list[str]:
        """Return the wrong beginnings that are drawn for a question; `where` is the passage's place for errors.

        Raises:
            DataError: There are too few wrong beginnings.
        """
        count = OPTIONS - 1
        different = dict.fromkeys(_head(each) for each in self.others if each.strip())
        wrong = [each for each in different if each != self.next]
        if len(wrong) < count:
            needs = f"a question needs {count} wrong options (beginnings of other chapters)"
            raise DataError(f"{where}: {needs}, but there are only {len(wrong)}; add entries to `others`")
        return random.sample(wrong, count)


def _tail(text: str) -> str:
    """Return the end of a long text, from the beginning of a sentence on; a short text is returned whole."""
    if len(text) <= CONTEXT_CHARACTERS:
        return text.strip()

    start = len(text) - CONTEXT_CHARACTERS
    sentence = _SENTENCE_END.search(text, start)
    return text[sentence.end() if sentence else start :].strip()


def _head(text: str) -> str:
    """Return the beginning of a text, up to the end of a sentence."""
    return pages_of(text.strip(), OPTION_CHARACTERS)[0].strip()


SPLITS = ("all", "goodai", "pg19", "ao3")

_CHARACTERS_A_TOKEN = 3.6
"""Characters of a token in English prose, slightly underestimated so that a page stays below its size."""


class ChapterBreak(Kind):
    """The user sends pages of a book and six beginnings of chapters, and asks for the true one, without a pause.

    `split` selects the lines that name it ("all" and "goodai" select everything). `max_message_size` is the approximate
    size of a page in tokens.
    """

    name = "chapterbreak"
    title = "ChapterBreak"
    resets = True
    needs_texts = True

    def __init__(self, *, split: str = "all", max_message_size: int = 1024) -> None:
        self.split = one_of(split, SPLITS, "split")
        self.max_message_size = whole("max_message_size", max_message_size, least=50, most=1_000_000)

    def definitions(self, count: int, making: GenerationContext) -> list[MemoryTest]:
        """Make `count` tests from passages in random order (by the seed); each passage is used once.

        Raises:
            ConfigurationError: There are no texts, or too few passages.
        """
        if making.texts is None:
            raise ConfigurationError("chapterbreak needs texts; give the folder of the texts with --texts")
        passages = find_passages(making.texts, None if self.split in ("all", "goodai") else self.split)
        if len(passages) < count:
            needs = f"chapterbreak needs {count} passages, but the texts have {len(passages)} of split {self.split!r}"
            raise ConfigurationError(f"{making.texts}: {needs}; add lines of it to a .jsonl file")

        making.random(self.title, "texts").shuffle(passages)
        return [self._definition(str(number), *passages[number], making) for number in range(count)]

    def _definition(self, example: str, where: str, passage: _Passage, making: GenerationContext) -> MemoryTest:
        """Return the test of one passage: its pages, six numbered beginnings in random order, and the question.

        `where` is the passage's place for errors.
        """
        options = passage.wrong_options(making.random(self.title, example), where)
        answer = making.random(self.title, f"{example}/answer").randrange(OPTIONS)
        options.insert(answer, passage.next)

        pages = pages_of(passage.context, int(self.max_message_size * _CHARACTERS_A_TOKEN))
        statements = [
            read_line("book"),
            *(
                read_line("page of a book", number=number, count=len(pages), text=page.strip())
                for number, page in enumerate(pages, 1)
            ),
            read_line("end of the chapter", count=len(options)),
            *(read_line("text to choose", number=number, text=option) for number, option in enumerate(options, 1)),
        ]

        # No waits: the book is read without a pause.
        waits = [Wait()] * (len(statements) + 1)
        return scripted_test(self, example, statements, [read_line("true beginning")], [str(answer + 1)], waits=waits)

    def score(self, given: FinishedTest) -> Score | None:
        """Score 1 if the reply chooses the right option, and no other. With several choices, the score is not sure.

        A total ("of 6") and a denied number ("not 3") are no choices. If numbers follow words such as "option", only
        these count.

        Raises:
            UndecidedError: the row has no reply, or its expected answer has another form.
        """
        reply, answer = last_reply(given), expected_text(given)
        text = _OF_HOW_MANY.sub(" ", reply)
        options = [*_NAMED_OPTION.finditer(text)] or [*_DIGITS.finditer(text)]
        # The number is the pattern's group, or the whole match of `_DIGITS`, which has no group.
        chosen = {match[match.lastindex or 0] for match in options if not is_denied(text, *match.span())}

        is_right = chosen == {answer.strip()}
        shown = ", ".join(sorted(chosen)[:6]) or "none"
        reason = f"the reply chooses {shown}" + ("" if is_right else f", not {answer} alone")
        return Score(float(is_right), (reason,), sure=len(chosen) < 2)


_DIGITS = re.compile(r"\d+")


# "2 of 6", "out of the six", "2/6", "6 options"
_OF_HOW_MANY = re.compile(
    r"(?:\bout)?\s{1,3}of(?:\s{1,3}the)?\s{1,3}(?:\d{1,3}|six)\b|(?<=\d)\s?/\s?\d{1,3}"
    r"|\b\d{1,3}\s{1,3}(?:\w{1,20}\s)?(?:options|choices)\b",
    re.IGNORECASE,
)


# "Option 2", "number (2)", "**Choice:** 2"
_NAMED_OPTION = re.compile(r"\b(?:options?|number|no\.?|choice|chapter)[\s:#*\"'(]{0,5}(\d{1,3})\b", re.IGNORECASE)
