"""The settings of a judge: how it is asked, and how its answer becomes a metric.

They stand in the `judge:` section of a prompt's front matter, which Azure's loader ignores, or are arguments of the
judge.
"""

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType

from tunecheck._describe import shown_value
from tunecheck._json import JSON
from tunecheck._messages import did_you_mean
from tunecheck.prompts._front_matter import Front

_MOST_SAMPLES = 1_000


def read_judge(front: Front) -> dict[str, JSON]:
    section = front.mapping("judge")
    for key, value in section.items():
        problem = setting_problem(key, value)
        if problem is not None:
            raise front.error(("judge", key), problem)
    return {key: value for key, value in section.items() if value is not None}


def setting_problem(key: str, value: object) -> str | None:
    """What is wrong with a setting of a judge; None, which says nothing, is a value of each."""
    if key not in _CHECKS:
        return f"unknown key{did_you_mean(key, _CHECKS)}"
    is_right, wanted = _CHECKS[key]
    return None if value is None or is_right(value) else f"must be {wanted}, not {shown_value(value)}"


def is_number(value: object) -> bool:
    """Whether it is a number that floats can hold; true and false are none."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:  # a whole number of hundreds of digits
        return False


def _is_name(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _is_range(value: object) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(map(is_number, value)) and value[0] < value[1]


def _is_labels(value: object) -> bool:
    return (
        isinstance(value, Mapping) and bool(value) and all(map(_is_name, value)) and all(map(is_number, value.values()))
    )


def _one_of(*words: str) -> tuple[Callable[[object], bool], str]:
    return (lambda value: value in words), " or ".join(words)


_CHECKS: Mapping[str, tuple[Callable[[object], bool], str]] = MappingProxyType(
    {
        "metric": (
            lambda value: isinstance(value, str) and value.isidentifier(),
            "a name of letters, digits and underscores",
        ),
        "score": (_is_name, "the name of an output"),
        "reason": (_is_name, "the name of an output"),
        "range": (_is_range, "two numbers, the lower one first"),
        "threshold": (is_number, "a number"),
        "higher_is_better": (lambda value: isinstance(value, bool), "true or false"),
        "kind": _one_of("score", "binary", "count"),
        "labels": (_is_labels, "a mapping from words to numbers"),
        "samples": (
            lambda value: type(value) is int and 1 <= value <= _MOST_SAMPLES,
            f"a whole number from 1 to {_MOST_SAMPLES}",
        ),
        "combine": _one_of("mean", "majority"),
    }
)
