"""What the session itself says: introduction, filler, farewells to finished tests, and the lines of dynamic kinds."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from tunecheck import _yaml as yamltext
from tunecheck._errors import ConfigurationError
from tunecheck._json import JSON
from tunecheck._messages import did_you_mean

if TYPE_CHECKING:
    from tunecheck.memory._menu import Menu

OWN = Path(__file__).with_name("data") / "wording.yml"
"""The wording that ships."""

_ANY = "*"
"""The farewell of kinds that the wording does not know by title."""

_PLACEHOLDERS: Mapping[str, tuple[str, ...]] = {
    "filler.line": ("question", "answer"),
    "restaurant.speaker": ("line",),
    "restaurant.menu": ("menu",),
    "restaurant.drink_served": ("list",),
    "restaurant.order_taken": ("list",),
    "restaurant.unavailable": ("item",),
    "restaurant.changed": ("list",),
    "restaurant.served": ("list",),
    "restaurant.amended": ("item",),
    "jokes.question": ("elapsed",),
}
"""What must stand in a text, in braces: without it the agent would not be told what it is asked about."""

_RESTAURANT = (
    "setup", "speaker", "menu", "drink_served", "order_taken", "unavailable", "changed", "served", "apology", "amended"
)  # fmt: skip


def fill(template: str, values: Mapping[str, str]) -> str:
    """The template with `{name}` replaced by its value; nothing within a value is replaced, other braces stay."""
    return re.sub(r"\{(\w+)\}", lambda found: values.get(found[1], found[0]), template)


@dataclass(frozen=True)
class RestaurantWording:
    """The waiter's lines, and the file of the menu: `{section: [entries]}` as JSON, "Beverages" among them."""

    setup: str
    speaker: str
    menu_line: str
    drink_served: str
    order_taken: str
    unavailable: str
    changed: str
    served: str
    apology: str
    amended: str
    menu_file: Path

    @cached_property
    def menu(self) -> Menu:
        """The menu, read when it is first asked for.

        Raises:
            ConfigurationError: the file cannot be read, or holds no menu.
        """
        from tunecheck._json import loads
        from tunecheck.memory._menu import Menu

        try:
            value = loads(self.menu_file.read_bytes())
        except OSError as error:
            raise ConfigurationError(f"{self.menu_file}: cannot be read: {error.strerror or error}") from None
        except ValueError as error:
            raise ConfigurationError(f"{self.menu_file}: not JSON: {error}") from None
        return Menu.read(value, str(self.menu_file))


@dataclass(frozen=True, slots=True)
class JokesWording:
    """The question of a temporal test; `{elapsed}` ends with a space where it is not empty."""

    question: str


@dataclass(frozen=True)
class Wording:
    """All texts that stand in no definition. `name` says where they come from.

    `filler_line` has `{question}` and `{answer}`; `reset` has, by title, what is said when a test is over.
    """

    name: str
    introduction: str
    filler_preface: str
    filler_line: str
    reset: Mapping[str, str]
    restaurant: RestaurantWording
    jokes: JokesWording

    def farewell(self, title: str) -> str | None:
        """What makes the agent forget a finished test of this kind."""
        return self.reset.get(title) or self.reset.get(_ANY)


def load_wording(path: Path | str | None = None) -> Wording:
    """The wording of a YAML file in the format of the one that ships; what it leaves out is taken from there.

    Raises:
        ConfigurationError: the file cannot be read, or an entry is unknown or no text; names file and line.
    """
    own = _Reader(yamltext.read(OWN), None)
    return (_Reader(yamltext.read(path), own) if path is not None else own).wording()


class _Reader:
    """Reads one document; `other` stands in for what it leaves out."""

    def __init__(self, document: yamltext.Document, other: _Reader | None) -> None:
        self._document = document
        self._other = other

    def wording(self) -> Wording:
        self._only((), ("introduction", "filler", "reset", "restaurant", "jokes"))
        self._only(("filler",), ("preface", "line"))
        self._only(("restaurant",), (*_RESTAURANT, "menu_file"))
        self._only(("jokes",), ("question",))
        return Wording(
            name=Path(self._document.name).name,
            introduction=self.text("introduction"),
            filler_preface=self.text("filler", "preface"),
            filler_line=self.text("filler", "line"),
            reset=self._texts("reset"),
            restaurant=self._restaurant(),
            jokes=JokesWording(self.text("jokes", "question")),
        )

    def text(self, *path: str) -> str:
        value = self.value(path)
        if value is None and self._other is not None:
            return self._other.text(*path)
        if not isinstance(value, str):
            self._refuse(path, f"{'.'.join(path)} must be a text")
        for name in _PLACEHOLDERS.get(".".join(path), ()):
            if f"{{{name}}}" not in value:
                self._refuse(path, f"{'.'.join(path)} has no {{{name}}} in it")
        return value

    def value(self, path: Iterable[str]) -> JSON:
        value = self._document.value
        for key in path:
            value = value.get(key) if isinstance(value, dict) else None
        return value

    def menu_file(self) -> Path:
        if self._other is not None and self.value(("restaurant", "menu_file")) is None:
            return self._other.menu_file()
        return Path(self._document.name).parent / self.text("restaurant", "menu_file")

    def _restaurant(self) -> RestaurantWording:
        lines = {name: self.text("restaurant", name) for name in _RESTAURANT}
        return RestaurantWording(menu_line=lines.pop("menu"), menu_file=self.menu_file(), **lines)

    def _texts(self, key: str) -> Mapping[str, str]:
        value = self.value((key,))
        if value is None and self._other is not None:
            return self._other._texts(key)
        if not isinstance(value, dict):
            self._refuse((key,), f"{key} must be a mapping of data sets to texts")
        return {title: self.text(key, title) for title in value}

    def _only(self, path: tuple[str, ...], known: Iterable[str]) -> None:
        value = self.value(path)
        if value is None and path:
            return
        if not isinstance(value, dict):
            self._refuse(path, f"{'.'.join(path) or 'a wording'} must be a mapping")
        for key in value:
            if key not in known:
                self._refuse((*path, key), f"there is no text {key!r}{did_you_mean(key, known)}")

    def _refuse(self, path: Iterable[str], problem: str) -> NoReturn:
        raise ConfigurationError(f"{self._document.where(*path)}: {problem}")
