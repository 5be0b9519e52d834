"""Endpoint definitions: a YAML file or a mapping, read key by key, and the endpoint that it defines.

A kind's class reads what it needs from its `Definition`; a key that nobody asked for is an error, so that a typing
mistake is never ignored.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import NoReturn

from tunecheck import _plugins as plugins
from tunecheck._errors import ConfigurationError, PluginError
from tunecheck._json import JSON, dumps, plain
from tunecheck._messages import did_you_mean
from tunecheck._yaml import Document, read
from tunecheck.endpoints._base import Endpoint

_SUFFIXES = (".yaml", ".yml")


class Section:
    """One mapping of a definition. Its reading methods check types and ranges and name the place of a mistake.

    All of them raise ConfigurationError, with the file, the line, the key and what was expected.
    """

    def __init__(self, values: Mapping[str, JSON], document: Document, path: tuple[str, ...] = ()) -> None:
        self._values = values
        self._document = document
        self._path = path
        self._asked: set[str] = set()
        self._sections: dict[str, Section] = {}

    def error(self, key: str | None, problem: str) -> ConfigurationError:
        """The error to raise about a key (None: about the section itself): where, which key, what is wrong."""
        path = (*self._path, key) if key else self._path
        label = f"{'.'.join(path)}: " if path else ""
        return ConfigurationError(f"{self._document.where(*path)}: {label}{problem}")

    def has(self, key: str) -> bool:
        """Whether the definition gives this key a value other than null."""
        self._asked.add(key)
        return self._values.get(key) is not None

    def value(self, key: str) -> JSON:
        """The value as it stands, None where there is none."""
        self._asked.add(key)
        return self._values.get(key)

    def maybe_text(self, key: str) -> str | None:
        """A non-empty text, or None where the key is absent."""
        value = self.value(key)
        if value is None:
            return None
        if not isinstance(value, str) or not value.strip():
            raise self.error(key, f"must be a text, not {_shown(value)}")
        return value

    def text(self, key: str) -> str:
        """A non-empty text that must be there."""
        value = self.maybe_text(key)
        return value if value is not None else self._missing(key)

    def choice(self, key: str, choices: Collection[str], default: str) -> str:
        """One of several words."""
        value = self.maybe_text(key) or default
        if value not in choices:
            raise self.error(key, f"{value!r} is none of {', '.join(choices)}{did_you_mean(value, choices)}")
        return value

    def flag(self, key: str, default: bool) -> bool:
        """true or false."""
        value = self.value(key)
        if value is not None and not isinstance(value, bool):
            raise self.error(key, f"must be true or false, not {_shown(value)}")
        return default if value is None else value

    def integer(self, key: str, default: int, *, least: int, most: int) -> int:
        """A whole number within inclusive bounds."""
        value = self.value(key)
        if value is None:
            return default
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            raise self.error(key, f"must be a whole number from {least} to {most}, not {_shown(value)}")
        return value

    def maybe_number(self, key: str, *, above: float = -math.inf, most: float = math.inf) -> float | None:
        """A number greater than `above` and at most `most`, or None where the key is absent."""
        value = self.value(key)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not above < value <= most:
            raise self.error(key, f"must be a number{_bounds(above, most)}, not {_shown(value)}")
        return float(value)

    def number(self, key: str, default: float, *, above: float = -math.inf, most: float = math.inf) -> float:
        """A number greater than `above` and at most `most`."""
        value = self.maybe_number(key, above=above, most=most)
        return default if value is None else value

    def mapping(self, key: str) -> dict[str, JSON]:
        """A mapping with keys of the user's choice (empty where absent)."""
        value = self.value(key)
        if value is None:
            return {}
        if not isinstance(value, dict):
            raise self.error(key, f"must be a mapping, not {_shown(value)}")
        return value

    def section(self, key: str) -> Section:
        """A mapping with keys of ours (empty where absent), to be read in the same way."""
        if key not in self._sections:
            self._sections[key] = Section(self.mapping(key), self._document, (*self._path, key))
        return self._sections[key]

    def finish(self) -> None:
        """Refuse the keys that nobody asked for, here and in the sections below."""
        for key in self._values:
            if key not in self._asked:
                raise self.error(key, f"unknown key{did_you_mean(key, self._asked - self._values.keys())}")
        for section in self._sections.values():
            section.finish()

    def _missing(self, key: str) -> NoReturn:
        unread = [name for name in self._values if name not in self._asked]
        hint = did_you_mean(key, unread)
        raise self.error(None, f"{key} is missing{hint if 'did you mean' in hint else ''}")


class Definition(Section):
    """A whole definition: its kind, its name, and where it stands.

    `data` is the definition as it was written, references to the environment unresolved; `folder` is where relative
    paths in it are looked for.
    """

    def __init__(self, document: Document, *, name: str | None = None, folder: Path | None = None) -> None:
        if not isinstance(document.value, dict):
            raise ConfigurationError(f"{document.name}: an endpoint definition is a mapping with `kind:` and more")
        super().__init__(document.value, document)
        self.data: dict[str, JSON] = document.value
        self.kind = self.text("kind")
        self.name = name or self.kind
        self.folder = folder or Path()

    def path(self, key: str) -> Path | None:
        """A file's path, relative ones from the definition's own folder; None where the key is absent."""
        text = self.maybe_text(key)
        return None if text is None else self.folder / Path(text).expanduser()


def load_endpoint(
    source: str | Path | Mapping[str, object], *, name: str | None = None, workspace: Path | None = None
) -> Endpoint:
    """The endpoint of a definition: a file, the name of one in the workspace's `endpoints/` folder, or a mapping.

    `name` is what the endpoint is called in results and errors; without it, the file's stem, else the kind.

    Raises:
        ConfigurationError: the definition cannot be read or is wrong; names file, line and key.
        PluginError: there is no endpoint kind of that name.
    """
    definition = read_definition(source, name=name, workspace=workspace)
    try:
        kind = plugins.find("tunecheck.endpoints", definition.kind, workspace=workspace)
    except PluginError as error:
        raise PluginError(str(definition.error("kind", str(error)))) from error.__cause__
    if not (isinstance(kind, type) and issubclass(kind, Endpoint)):
        raise PluginError(f"the endpoint kind {definition.kind!r} is not a subclass of tunecheck.endpoints.Endpoint")
    endpoint = kind.from_definition(definition)
    definition.finish()
    return endpoint


def read_definition(
    source: str | Path | Mapping[str, object], *, name: str | None = None, workspace: Path | None = None
) -> Definition:
    """A definition, read but not yet understood by its kind.

    Raises:
        ConfigurationError: it cannot be read; names file and line.
    """
    if isinstance(source, Mapping):
        return Definition(_given(source), name=name, folder=workspace)
    path = _find(Path(source), workspace or Path())
    return Definition(read(path), name=name or path.stem, folder=path.parent)


def _given(values: Mapping[str, object]) -> Document:
    try:
        return Document("endpoint definition", plain(dict(values)), {})
    except TypeError as error:
        raise ConfigurationError(f"endpoint definition: {error}") from None


def _find(path: Path, workspace: Path) -> Path:
    folder = workspace / "endpoints"
    for base in (path, folder / path):
        for candidate in (base, *(base.with_name(base.name + suffix) for suffix in _SUFFIXES)):
            if candidate.is_file():
                return candidate
    known = [file.stem for file in folder.glob("*.y*ml")] if folder.is_dir() else []
    raise ConfigurationError(f"there is no endpoint definition {str(path)!r}{did_you_mean(path.stem, known)}")


def _bounds(above: float, most: float) -> str:
    low = f" above {above:g}" if above > -math.inf else ""
    return f"{low}{' and' if low else ''} up to {most:g}" if most < math.inf else low


def _shown(value: JSON) -> str:
    """A value in a message: short, and never a long text's content."""
    if isinstance(value, str):
        return f'"{value}"' if len(value) <= 40 else f"a text of {len(value)} characters"
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    return dumps(value).decode()[:40]
