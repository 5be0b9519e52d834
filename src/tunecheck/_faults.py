"""What is wrong with a row, as data: faults with codes, from which every sentence and every count is made."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from tunecheck._json import JSON

CODES: dict[str, str] = {
    "missing_call": "missing call",
    "extra_call": "extra call",
    "misnamed_call": "misnamed call",
    "call_out_of_order": "call out of order",
    "missing_argument": "missing argument",
    "unexpected_argument": "unexpected argument",
    "wrong_argument": "wrong argument",  # with the kind behind it: wrong_argument.number_as_text
    "called_instead_of_answering": "called when it should have answered",
    "answered_instead_of_calling": "answered when it should have called",
    "unreadable_call": "a call cannot be read",
    "unknown_function": "called a function that is not among the tools",
    "schema_violation": "a call breaks its schema",
    "below_threshold": "below the threshold",
    "own": "another reason",
}
"""Every code of our own evaluators, with its name in headings and counts; a code may have a kind behind a dot."""


class Fault(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One thing that is wrong with a row.

    `code` is one of `CODES`, or an evaluator's own; `call` the name of the function it is about; `path` the place in
    its arguments, or in a state; `turn` the turn of a conversation, from 1; `expected` and `actual` what stands there.
    """

    code: str
    call: str | None = None
    path: str | None = None
    turn: int | None = None
    expected: Any = None
    actual: Any = None


def to_json(faults: Iterable[Fault]) -> list[JSON]:
    """Faults as they stand in `<metric>_properties`."""
    found: list[JSON] = msgspec.to_builtins(list(faults))
    return found


def title(code: str) -> str:
    """What a heading calls a code: `wrong argument: number as text`; an unknown one is its own name."""
    head, _, kind = code.partition(".")
    known = CODES.get(head, head.replace("_", " "))
    return f"{known}: {kind.replace('_', ' ')}" if kind else known
