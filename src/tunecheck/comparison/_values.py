"""Single values of a result row, which stay raw JSON until they are needed."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from tunecheck._json import JSON, dumps, loads

RawRow = Mapping[str, msgspec.Raw]
"""A row by column, its values not decoded."""

_decode_row = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


def decode_row(line: bytes) -> RawRow:
    """One row's columns.

    Raises:
        ValueError: the text is no JSON object.
    """
    try:
        return _decode_row(line)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        value = loads(line)
        if not isinstance(value, dict):
            raise ValueError("not a JSON object") from None
        return {key: msgspec.Raw(dumps(item)) for key, item in value.items()}


def value_of(raw: msgspec.Raw | None) -> JSON:
    """A value as plain JSON; None where there is none, or it cannot be read."""
    if raw is None:
        return None
    try:
        return loads(bytes(raw))
    except ValueError:
        return None


def text_of(raw: msgspec.Raw | None) -> str | None:
    """A value that is text, or None."""
    value = value_of(raw)
    return value if isinstance(value, str) else None


def as_text(raw: msgspec.Raw) -> str | None:
    """A value as a label: a text as it is, everything else as JSON; None for null."""
    value = value_of(raw)
    if value is None or isinstance(value, str):
        return value
    return bytes(raw).decode("utf-8", "backslashreplace")
