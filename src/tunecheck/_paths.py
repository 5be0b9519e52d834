"""Paths into data: `choices[0].message`, `meta.id`, `row['a column']`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, TypeAlias

from tunecheck._json import JSON

ValuePath: TypeAlias = tuple[str | int, ...]

MAX_LENGTH = 1_000
"""Longest path in characters; following one goes as deep as it has steps."""

_STEP = re.compile(r"""\.?([^.\[\]{}'"]+)|\[(\d{1,9})\]|\[(?:'([^']*)'|"([^"]*)")\]""")


class Missing:
    """The type of MISSING."""


MISSING: Final = Missing()
"""What a path that leads nowhere gives; a path may well lead to None."""


def parse_path(text: str) -> ValuePath:
    """`choices[0].message`, `output.0.text`, `data['a column']` as steps; bare digits may be a key or an index.

    Raises:
        ValueError: the text is not a path.
    """
    steps: list[str | int] = []
    position = 0
    if len(text) > MAX_LENGTH:
        raise ValueError(f"a path of more than {MAX_LENGTH} characters")
    while position < len(text):
        match = _STEP.match(text, position)
        if match is None or (match.group(1) and bool(steps) != (text[position] == ".")):
            raise ValueError(f"not a path at character {position + 1}: {text!r}")
        name, index, single, double = match.groups()
        steps.append(int(index) if index else next(part for part in (name, single, double) if part is not None))
        position = match.end()
    return tuple(steps)


def find(value: object, path: ValuePath) -> JSON | Missing:
    """What stands at the end of a path, or MISSING.

    A key may hold dots itself, as in a table that was flattened: where `meta` leads nowhere, `meta.id` is looked for.
    """
    if not path:
        return value  # type: ignore[return-value]  # what holds JSON holds JSON
    first, rest = path[0], path[1:]
    here = _step(value, first)
    found = MISSING if isinstance(here, Missing) else find(here, rest)
    if not isinstance(found, Missing) or not isinstance(value, Mapping) or not rest or not isinstance(rest[0], str):
        return found
    return find(value, (f"{first}.{rest[0]}", *rest[1:]))


def _step(value: object, step: str | int) -> object:
    if isinstance(value, Mapping):
        return value.get(step, MISSING) if isinstance(step, str) else value.get(str(step), MISSING)
    if isinstance(value, (list, tuple)) and (isinstance(step, int) or _is_index(step)):
        index = int(step)
        return value[index] if index < len(value) else MISSING
    return MISSING


def _is_index(step: str) -> bool:
    return step.isascii() and step.isdigit() and len(step) < 10
