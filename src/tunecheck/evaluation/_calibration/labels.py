"""Labels that people gave to rows, read: pass or fail in any of the usual words, scores, or classes of their own."""

import math
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final, Literal, TypeAlias

from tunecheck._errors import ConfigurationError
from tunecheck._json import JSON, dumps

LabelKind: TypeAlias = Literal["pass_fail", "score", "class"]

KINDS: tuple[LabelKind, ...] = ("pass_fail", "score", "class")

PASS: Final = "pass"  # noqa: S105 - no password
FAIL: Final = "fail"

_WORDS: Mapping[str, str] = MappingProxyType(
    dict.fromkeys(("pass", "passed", "true", "yes", "1"), PASS)
    | dict.fromkeys(("fail", "failed", "false", "no", "0"), FAIL)
)


def is_empty(label: JSON) -> bool:
    """Whether nobody labelled the row: null, or a text with nothing in it."""
    return label is None or (isinstance(label, str) and not label.strip())


def as_pass_or_fail(label: JSON) -> str | None:
    """`pass` or `fail` for the words that stand for them (true, yes, 1, …); None for anything else."""
    return _WORDS.get(as_class(label) or "")


def as_number(label: JSON) -> float | None:
    """The label as a finite number, also where a file has it as text; None where it is none."""
    if isinstance(label, bool) or not isinstance(label, (int, float, str)):
        return None
    try:
        number = float(label) if "_" not in str(label) else math.nan
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def as_class(label: JSON) -> str | None:
    """A label as the name of a class; None for what has no name.

    White space around it and upper case do not matter, and 4, 4.0 and "4" are the same.
    """
    if isinstance(label, bool):
        return "true" if label else "false"
    number = as_number(label)
    if number is not None:
        return str(int(number)) if number.is_integer() else repr(number)
    return label.strip().casefold() or None if isinstance(label, str) else None


def kind_of(labels: Iterable[tuple[str, JSON]], wanted: LabelKind | None, *, classes: bool) -> LabelKind:
    """What labels, by row id, are; `wanted` is what somebody says they are, `classes` whether they may be classes.

    Raises:
        ConfigurationError: a label is not what the others are, or not what it is said to be; names the row.
    """
    left = list(KINDS) if wanted is None else [wanted]
    for row_id, label in labels:
        possible = _possible(label)
        left = [kind for kind in left if kind in possible]
        if not left:
            raise ConfigurationError(f"row {row_id}: the label {_shown(label)} is not {_meant(wanted)}")
        if left == ["class"] and wanted is None and not classes:
            raise ConfigurationError(
                f"row {row_id}: the label {_shown(label)} is neither pass or fail (true or false, yes or no, 1 or 0) "
                "nor a number, as the others are; where labels are classes, say so: label_kind class"
            )
    return left[0]


def _possible(label: JSON) -> tuple[LabelKind, ...]:
    """What one label can be."""
    if as_class(label) is None:
        return ()
    verdict: tuple[LabelKind, ...] = ("pass_fail",) if as_pass_or_fail(label) else ()
    number: tuple[LabelKind, ...] = ("score",) if as_number(label) is not None else ()
    return (*verdict, *number, "class")


def _meant(wanted: LabelKind | None) -> str:
    if wanted is None:
        return "a text, a number, or true or false"
    return {"pass_fail": "pass or fail (true or false, yes or no, 1 or 0)", "score": "a number", "class": "a class"}[
        wanted
    ]


def _shown(label: JSON) -> str:
    text = dumps(label).decode("utf-8")
    return text if len(text) <= 60 else f"{text[:60]}…"
