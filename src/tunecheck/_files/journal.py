"""The records of journal.jsonl, one JSON object a line; `k` says which one it is.

Other kinds of records are passed over, so that a journal may hold more than its reader knows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec
from msgspec import UNSET, UnsetType

from tunecheck._files.versions import FORMAT_VERSION

if TYPE_CHECKING:
    from tunecheck._json import JSON
else:
    JSON = Any  # msgspec reads no type that stands in itself

RowVerdicts: TypeAlias = dict[str, tuple[str | None, dict[str, JSON]]]
"""The verdicts of one row in a chunk: by evaluator, the hash of its inputs and its output."""


class Header(msgspec.Struct, tag_field="k", tag="journal", frozen=True):
    """The first record: the version of them all."""

    format_version: int = FORMAT_VERSION


class Answer(msgspec.Struct, tag_field="k", tag="answer", frozen=True):
    """A target's answer to the row of index `i`, from inputs of the hash `h`."""

    i: int
    id: str
    h: str | None
    out: dict[str, JSON]


class Step(msgspec.Struct, tag_field="k", tag="step", frozen=True):
    """A finished part `p` of an answer that takes several calls."""

    i: int
    id: str
    h: str | None
    p: str
    out: JSON


class Verdicts(msgspec.Struct, tag_field="k", tag="verdicts", frozen=True):
    """The verdicts of some evaluators on a chunk of rows, by the rows' index."""

    rows: list[tuple[int, RowVerdicts]]


class ModelCall(msgspec.Struct, tag_field="k", tag="call", frozen=True):
    """A model's answer to an evaluator `e`, and its cost; `e` is null where another run paid for it."""

    e: str | None
    h: str
    cost: float | None
    cur: str | None
    out: dict[str, JSON]


class Error(msgspec.Struct, tag_field="k", tag="error", frozen=True):
    """A failure, noted for people: what failed is tried again, never replayed."""

    i: int
    id: str
    stage: str
    type: str
    message: str
    request_id: str | UnsetType = UNSET


Record: TypeAlias = Header | Answer | Step | Verdicts | ModelCall | Error
