"""Values of a row's columns, each of the type that its reader needs; what is of another is refused in one line."""

from typing import NoReturn

from tunecheck._json import JSON

ROLES = ("system", "developer", "user", "assistant", "tool", "function")
"""What the role of a message may be."""

_KINDS = {dict: "an object", list: "an array", str: "a text", bool: "a boolean", type(None): "null"}


class UnusableRowError(ValueError):
    """A row, or an entry of a data file, without the shape that it needs; its text says what is wrong with it."""


def kind(value: object) -> str:
    """Return the kind of a value in JSON's words."""
    return _KINDS.get(type(value), "a number" if isinstance(value, (int, float)) else f"a {type(value).__name__}")


def as_list(value: object, what: str) -> list[JSON]:
    """Return the value if it is a list; `what` names it in the error."""
    return value if isinstance(value, list) else refuse(f"{what} must be a list, not {_kind(value)}")


def as_object(value: object, what: str) -> dict[str, JSON]:
    return value if isinstance(value, dict) else refuse(f"{what} must be an object, not {_kind(value)}")


def as_text(value: object, what: str) -> str:
    return value if isinstance(value, str) else refuse(f"{what} must be text, not {_kind(value)}")


def refuse(what: str) -> NoReturn:
    raise UnusableRowError(what)


def _kind(value: object) -> str:
    return "missing" if value is None else kind(value)
