"""What the session itself says: introduction, filler, farewells to finished tests, and the lines of dynamic kinds."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from tunecheck import ConfigurationError
from tunecheck.plugins import Written, read_as, read_yaml, told_as

if TYPE_CHECKING:
    from tunecheck_memory._kinds.menu import Menu

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

_SECTIONS = ("filler", "restaurant", "jokes")


def fill(template: str, values: Mapping[str, str]) -> str:
    """The template with `{name}` replaced by its value; nothing within a value is replaced, other braces stay."""
    return re.sub(r"\{(\w+)\}", lambda match: values.get(match[1], match[0]), template)


class FillerWording(Written, frozen=True):
    preface: str
    line: str


class RestaurantWording(Written, frozen=True, dict=True, rename={"menu_line": "menu"}):
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
    menu_file: str

    @cached_property
    def menu(self) -> Menu:
        from tunecheck.plugins import loads
        from tunecheck_memory._kinds.menu import Menu

        file = Path(self.menu_file)
        with told_as(ConfigurationError, file):
            content = file.read_bytes()
        try:
            value = loads(content)
        except ValueError as error:
            raise ConfigurationError(f"{file}: not JSON: {error}") from None
        return Menu.read(value, str(file))


class JokesWording(Written, frozen=True):
    question: str


class Wording(Written, frozen=True):
    """All texts that stand in no definition; `reset` is by title."""

    introduction: str
    filler: FillerWording
    reset: dict[str, str]
    restaurant: RestaurantWording
    jokes: JokesWording

    def farewell(self, title: str) -> str | None:
        """What makes the agent forget a finished test; `*` in `reset` stands for titles that it does not name."""
        return self.reset.get(title) or self.reset.get("*")


def load_wording(path: Path | str | None = None) -> Wording:
    """The wording of a YAML file in the format of the one that ships; what it leaves out is taken from there.

    Raises:
        ConfigurationError: the file cannot be read, or an entry is unknown or no text; names file and line.
    """
    shipped = _read(OWN, {})
    return shipped if path is None else _read(path, msgspec.to_builtins(shipped))


def _read(path: Path | str, shipped: Mapping[str, Any]) -> Wording:
    """The texts of a file over those that ship; a menu's file is looked for beside it."""
    document = read_yaml(path)
    texts = document.value
    if isinstance(texts, dict):
        own = {key: value for key, value in texts.items() if value is not None}
        for section in _SECTIONS:
            if isinstance(given := own.get(section), dict):
                lines = {name: text for name, text in given.items() if text is not None}
                if isinstance(menu := lines.get("menu_file"), str):
                    lines["menu_file"] = str(Path(path).parent / menu)
                own[section] = {**shipped.get(section, {}), **lines}
        texts = {**shipped, **own}
    wording = read_as(texts, Wording, document.where)
    filled: Mapping[str, Any] = msgspec.to_builtins(wording)
    for (section, name), placeholders in _PLACEHOLDERS.items():
        for placeholder in placeholders.split():
            if placeholder not in filled[section][name]:
                raise ConfigurationError(
                    f"{document.where(section, name)}: {section}.{name} has no {placeholder} in it"
                )
    return wording
