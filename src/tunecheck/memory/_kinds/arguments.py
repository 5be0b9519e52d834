"""What a data set's arguments in a configuration may be, checked with errors for people."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence

from tunecheck._errors import ConfigurationError
from tunecheck._json import JSON
from tunecheck._messages import did_you_mean
from tunecheck.memory._kind import Kind


def argument_names(kind: type[Kind]) -> frozenset[str]:
    """The names of the keyword arguments that a kind is made with."""
    if kind.__init__ is object.__init__:
        return frozenset()
    parameters = inspect.signature(kind).parameters.values()
    return frozenset(each.name for each in parameters if each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY))


def check_names(kind: type[Kind], arguments: Mapping[str, JSON], before: str = "") -> None:
    """Refuse an argument that the kind does not have; `before` begins the error's text.

    Raises:
        ConfigurationError: there is one.
    """
    known = argument_names(kind)
    for name in arguments:
        if name not in known:
            hint = did_you_mean(name, known) or "; it takes none"
            raise ConfigurationError(f"{before}the data set {kind.name!r} has no argument {name!r}{hint}")


def whole(name: str, value: object, *, least: int, most: int) -> int:
    """A whole number between two others, both included.

    Raises:
        ConfigurationError: it is none.
    """
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise ConfigurationError(f"{name} must be a whole number from {least:,} to {most:,}, not {_shown(value)}")
    return value


def share(name: str, value: object) -> float:
    """A number from 0 to 1.

    Raises:
        ConfigurationError: it is none.
    """
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 1:
        raise ConfigurationError(f"{name} must be a number from 0 to 1, not {_shown(value)}")
    return float(value)


def text(name: str, value: object, *, longest: int = 10_000) -> str:
    """A text of at most so many characters.

    Raises:
        ConfigurationError: it is none.
    """
    if not isinstance(value, str) or len(value) > longest:
        raise ConfigurationError(f"{name} must be a text of at most {longest:,} characters, not {_shown(value)}")
    return value


def choice(name: str, value: object, known: Sequence[str]) -> str:
    """One of the words that are known.

    Raises:
        ConfigurationError: it is none of them.
    """
    if not isinstance(value, str) or value not in known:
        hint = did_you_mean(value, known) if isinstance(value, str) else ""
        raise ConfigurationError(f"{name} must be one of {', '.join(known)}, not {_shown(value)}{hint}")
    return value


def _shown(value: object) -> str:
    shown = repr(value)
    return shown if len(shown) <= 60 else f"{shown[:60]}…"
