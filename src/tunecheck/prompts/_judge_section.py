"""The `judge:` section of a prompt's front matter: how its answer becomes a metric. Azure's loader ignores it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from tunecheck._json import JSON
from tunecheck._messages import did_you_mean
from tunecheck.prompts._front_matter import Front, shown

_MOST_SAMPLES = 1_000


def read_judge(front: Front) -> dict[str, JSON]:
    """The section, checked.

    Raises:
        PromptError: a key is unknown, or its value is wrong.
    """
    section = front.mapping("judge")
    for key, value in section.items():
        if key not in _CHECKS:
            raise front.error(("judge", key), f"unknown key{did_you_mean(key, _CHECKS)}")
        is_right, wanted = _CHECKS[key]
        if value is not None and not is_right(value):
            raise front.error(("judge", key), f"must be {wanted}, not {shown(value)}")
    return {key: value for key, value in section.items() if value is not None}


def _is_name(value: JSON) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _is_metric(value: JSON) -> bool:
    return isinstance(value, str) and value.isidentifier()


def _is_number(value: JSON) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_range(value: JSON) -> bool:
    if not isinstance(value, list) or len(value) != 2 or not all(map(_is_number, value)):
        return False
    low, high = value
    return low < high  # type: ignore[operator]  # both are numbers


def _is_samples(value: JSON) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= _MOST_SAMPLES


def _is_labels(value: JSON) -> bool:
    if not isinstance(value, dict) or not value:
        return False
    return all(word.strip() and _is_number(worth) for word, worth in value.items())


def _one_of(*words: str) -> tuple[Callable[[JSON], bool], str]:
    return (lambda value: value in words), " or ".join(words)


_CHECKS: Mapping[str, tuple[Callable[[JSON], bool], str]] = MappingProxyType(
    {
        "metric": (_is_metric, "a name of letters, digits and underscores"),
        "score": (_is_name, "the name of an output"),
        "reason": (_is_name, "the name of an output"),
        "range": (_is_range, "two numbers, the lower one first"),
        "threshold": (_is_number, "a number"),
        "higher_is_better": (lambda value: isinstance(value, bool), "true or false"),
        "kind": _one_of("score", "binary", "count"),
        "labels": (_is_labels, "a mapping from words to numbers"),
        "samples": (_is_samples, f"a whole number from 1 to {_MOST_SAMPLES}"),
        "combine": _one_of("mean", "majority"),
    }
)
