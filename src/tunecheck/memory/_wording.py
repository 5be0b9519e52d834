"""What the session itself says: introduction, filler, farewells to finished tests, and the lines of dynamic kinds."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from tunecheck import _yaml as yamltext
from tunecheck._describe import Written, read_as
from tunecheck._errors import ConfigurationError, told_as

if TYPE_CHECKING:
    from tunecheck.memory._menu import Menu

OWN = Path(__file__).with_name("data") / "wording.yml"
"""The wording that ships."""

_PLACEHOLDERS: Mapping[tuple[str, str], str] = {
    ("restaurant", "speaker"): "{line}",
    ("restaurant", "menu"): "{menu}",
    ("restaurant", "drink_served"): "{list}",
    ("restaurant", "order_taken"): "{list}",
    ("restaurant", "unavailable"): "{item}",
    ("restaurant", "changed"): "{list}",
    ("restaurant", "served"): "{list}",
    ("restaurant", "amended"): "{item}",
    ("jokes", "question"): "{elapsed}",
    ("filler", "line"): "{question} {answer}",
}
"""What must stand in a text: without it the agent would not be told what it is asked about."""


def fill(template: str, values: Mapping[str, str]) -> str:
    """The template with `{name}` replaced by its value; nothing within a value is replaced, other braces stay."""
    return re.sub(r"\{(\w+)\}", lambda match: values.get(match[1], match[0]), template)


@dataclass(frozen=True)
class RestaurantWording:
    """`menu_file` holds `{section: [entries]}` as JSON."""

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
        from tunecheck._json import loads
        from tunecheck.memory._menu import Menu

        with told_as(ConfigurationError, self.menu_file):
            content = self.menu_file.read_bytes()
        try:
            value = loads(content)
        except ValueError as error:
            raise ConfigurationError(f"{self.menu_file}: not JSON: {error}") from None
        return Menu.read(value, str(self.menu_file))


@dataclass(frozen=True, slots=True)
class JokesWording:
    question: str


@dataclass(frozen=True)
class Wording:
    """All texts that stand in no definition; `name` says where they come from, `reset` is by title."""

    name: str
    introduction: str
    filler_preface: str
    filler_line: str
    reset: Mapping[str, str]
    restaurant: RestaurantWording
    jokes: JokesWording

    def farewell(self, title: str) -> str | None:
        """What makes the agent forget a finished test; `*` in `reset` stands for titles that it does not name."""
        return self.reset.get(title) or self.reset.get("*")


# The texts of a file, each of which may be left out.


class _Filler(Written, frozen=True, omit_defaults=True):
    preface: str | None = None
    line: str | None = None


class _Restaurant(Written, frozen=True, omit_defaults=True):
    setup: str | None = None
    speaker: str | None = None
    menu: str | None = None
    drink_served: str | None = None
    order_taken: str | None = None
    unavailable: str | None = None
    changed: str | None = None
    served: str | None = None
    apology: str | None = None
    amended: str | None = None
    menu_file: str | None = None


class _Jokes(Written, frozen=True, omit_defaults=True):
    question: str | None = None


class _File(Written, frozen=True, omit_defaults=True):
    introduction: str | None = None
    filler: _Filler | None = None
    reset: dict[str, str] | None = None
    restaurant: _Restaurant | None = None
    jokes: _Jokes | None = None


def load_wording(path: Path | str | None = None) -> Wording:
    """The wording of a YAML file in the format of the one that ships; what it leaves out is taken from there.

    Raises:
        ConfigurationError: the file cannot be read, or an entry is unknown or no text; names file and line.
    """
    texts = _read(OWN)
    own = {} if path is None else _read(path)
    for section in ("filler", "restaurant", "jokes"):
        texts[section] = {**texts[section], **own.get(section, {})}
    texts = {**texts, **{key: value for key, value in own.items() if key in ("introduction", "reset")}}
    lines = texts["restaurant"]
    return Wording(
        name=Path(path or OWN).name,
        introduction=texts["introduction"],
        filler_preface=texts["filler"]["preface"],
        filler_line=texts["filler"]["line"],
        reset=texts["reset"],
        restaurant=RestaurantWording(menu_line=lines.pop("menu"), menu_file=Path(lines.pop("menu_file")), **lines),
        jokes=JokesWording(texts["jokes"]["question"]),
    )


def _read(path: Path | str) -> dict[str, Any]:
    """The texts of a file, its menu's file as a path."""
    document = yamltext.read(path)
    texts: dict[str, Any] = msgspec.to_builtins(read_as(document.value, _File, document.where))
    for (section, name), placeholders in _PLACEHOLDERS.items():
        text = texts.get(section, {}).get(name)
        for placeholder in placeholders.split() if text is not None else ():
            if placeholder not in text:
                raise ConfigurationError(
                    f"{document.where(section, name)}: {section}.{name} has no {placeholder} in it"
                )
    if menu := texts.get("restaurant", {}).get("menu_file"):
        texts["restaurant"]["menu_file"] = str(Path(path).parent / menu)
    return texts
