"""An endpoint definition: its place, the keys that every kind shares, and errors that name the line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TypeVar

import msgspec

from tunecheck._describe import Written, read_as
from tunecheck._errors import ConfigurationError
from tunecheck._json import JSON
from tunecheck.formats._reading import AUTO

if TYPE_CHECKING:
    from tunecheck._yaml import Document

Text = Annotated[str, msgspec.Meta(min_length=1)]
"""A text that is not empty."""


class EndpointConfig(Written, frozen=True, kw_only=True):
    """The keys of every definition. A kind of your own adds its keys, with their types and defaults, in a subclass.

    `format`: the model family that decides how calls are read from text. `tools`: `text` describes the tools in the
    prompt, in the family's form, instead of sending them to the API.
    """

    kind: Text
    format: Text = AUTO
    tools: Literal["api", "text"] = "api"


class ConcurrencyLimit(Written, frozen=True):
    """The maximum number of concurrent calls."""

    concurrency: Annotated[int, msgspec.Meta(ge=1, le=10_000)] = 16


C = TypeVar("C", bound=msgspec.Struct)


@dataclass(frozen=True, slots=True)
class Place:
    """A value within a definition, for errors about it."""

    document: Document
    path: tuple[str | int, ...] = ()

    def at(self, *path: str | int) -> Place:
        """A place below this one."""
        return Place(self.document, (*self.path, *path))

    def error(self, problem: str) -> ConfigurationError:
        """The error to raise about this value: in which file and line, at which key, what is wrong."""
        steps = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in self.path).lstrip(".")
        label = f"{steps}: " if steps else ""
        return ConfigurationError(f"{self.document.where(*self.path)}: {label}{problem}")


@dataclass(frozen=True, slots=True)
class Definition:
    """A definition as it was written, references to the environment unresolved; `kind` is what reads it.

    `name` is what the endpoint is called in results and errors; `folder` is where relative paths are looked for.
    """

    document: Document
    data: Mapping[str, JSON]
    kind: str
    name: str
    folder: Path

    def read(self, config: type[C]) -> C:
        """The definition as its kind describes it. A key with nothing behind it counts as absent.

        Raises:
            ConfigurationError: a key is unknown or missing, or its value is not of its type.
        """
        known = {field.encode_name for field in msgspec.structs.fields(config)}
        given = {key: value for key, value in self.data.items() if value is not None or key not in known}
        return read_as(given, config, self.document.where)

    def at(self, *path: str | int) -> Place:
        """A value of this definition, for errors about it."""
        return Place(self.document, path)

    def file(self, path: str) -> Path:
        """A file that the definition names, looked for from its own folder."""
        return self.folder / Path(path).expanduser()
