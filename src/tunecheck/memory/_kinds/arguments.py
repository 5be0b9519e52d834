"""Values of a data set's arguments, checked; what cannot be is a ConfigurationError that says what can."""

from __future__ import annotations

from collections.abc import Sequence

from tunecheck._errors import ConfigurationError
from tunecheck._messages import did_you_mean


def whole(name: str, value: object, *, least: int, most: int) -> int:
    """A whole number between two others, both included."""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise ConfigurationError(f"{name} must be a whole number from {least:,} to {most:,}, not {_shown(value)}")
    return value


def share(name: str, value: object) -> float:
    """A number from 0 to 1."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 1:
        raise ConfigurationError(f"{name} must be a number from 0 to 1, not {_shown(value)}")
    return float(value)


def text(name: str, value: object, *, longest: int = 10_000) -> str:
    """A text of at most so many characters."""
    if not isinstance(value, str) or len(value) > longest:
        raise ConfigurationError(f"{name} must be a text of at most {longest:,} characters, not {_shown(value)}")
    return value


def choice(name: str, value: object, known: Sequence[str]) -> str:
    """One of the words that are known."""
    if not isinstance(value, str) or value not in known:
        hint = did_you_mean(value, known) if isinstance(value, str) else ""
        raise ConfigurationError(f"{name} must be one of {', '.join(known)}, not {_shown(value)}{hint}")
    return value


def _shown(value: object) -> str:
    shown = repr(value)
    return shown if len(shown) <= 60 else f"{shown[:60]}…"
