"""A match in words: one readable line that names every call and argument that is not as it should be."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from tunecheck import _json as jsontext
from tunecheck._json import JSON
from tunecheck.calls._matching.match import Match, Pair
from tunecheck.calls._matching.policy import MatchPolicy
from tunecheck.calls._matching.values import Difference
from tunecheck.calls._model import FunctionCall

_MOST_VALUE = 80
_MOST_CALL = 160
_MOST_REASON = 2_000
_MOST_CALLS = 5
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")  # from names; values are shown as JSON
_BEFORE_DIFFERENCE = 16  # characters shown before the first one in which two long texts differ


def joined(faults: Iterable[str]) -> str | None:
    """The faults as one text of bounded length; None where there is none."""
    parts: list[str] = []
    length = left_out = 0
    for fault in faults:
        length += len(fault) + 2
        if parts and length > _MOST_REASON:
            left_out += 1
        else:
            parts.append(fault)
    if left_out:
        parts.append(f"and {left_out} more")
    return _CONTROL.sub(" ", "; ".join(parts)) or None


def call_faults(match: Match, policy: MatchPolicy) -> Iterator[str]:
    """What is wrong with which functions were called: missing, extra, misnamed calls and those out of order."""
    for pair in match.misnamed:
        yield f"misnamed call {shown_call(pair.actual)}, expected {shown_call(pair.expected, policy)}"
    for pair in match.moved:
        yield f"call out of order {shown_call(pair.actual)}"
    for call in match.missing:
        yield f"missing call {shown_call(call, policy)}"
    if not policy.allow_extra_calls:
        for call in match.extra:
            yield f"extra call {shown_call(call)}"


def argument_faults(match: Match) -> Iterator[str]:
    """What is wrong with the arguments of calls that have a partner."""
    for pair in (*match.pairs, *match.moved):
        yield from _pair_faults(pair)


def schema_faults(match: Match) -> Iterator[str]:
    """What breaks the tool definitions, and what could not be held against them."""
    for call in match.unknown:
        yield f"{_name(call)} is not among the tools"
    for violation in match.violations:
        for message in violation.messages:
            yield f"{_name(violation.call)} breaks its schema: {message}"
    yield from match.notes


def shown_calls(calls: Iterable[FunctionCall], policy: MatchPolicy | None = None) -> str:
    """Calls in a row, the first few; the policy is that of expected calls."""
    listed = list(calls)
    text = ", ".join(shown_call(call, policy) for call in listed[:_MOST_CALLS])
    return f"{text} and {len(listed) - _MOST_CALLS} more" if len(listed) > _MOST_CALLS else text


def shown_call(call: FunctionCall, policy: MatchPolicy | None = None) -> str:
    """`name(key=json, …)`, cut to a readable length; for expected calls under their policy, with what is accepted."""
    any_of = policy is not None and policy.alternatives
    arguments: list[str] = []
    length = 0
    for key, value in call.arguments.items():
        text = f"{_cut(key, _MOST_VALUE)}={_accepted(value) if any_of else shown_value(value)}"
        length += len(text) + 2
        if arguments and length > _MOST_CALL:
            arguments.append("…")
            break
        arguments.append(text)
    return f"{_name(call)}({', '.join(arguments)})"


def shown_value(value: JSON) -> str:
    """The value as JSON, cut to a readable length."""
    if isinstance(value, str) and len(value) > _MOST_VALUE:
        value = value[:_MOST_VALUE] + "…"
    elif isinstance(value, (list, dict)) and len(value) > _MOST_VALUE:
        return f"{'a list' if isinstance(value, list) else 'an object'} of {len(value):,} values"
    try:
        return _cut(jsontext.dumps(value).decode("utf-8"), 2 * _MOST_VALUE)
    except (TypeError, ValueError):  # nested too deeply, or an integer of more digits than Python writes
        return f"a {type(value).__name__} too large to show"


def _pair_faults(pair: Pair) -> Iterator[str]:
    for difference in pair.differences:
        yield f"{_name(pair.expected)}: {_fault(difference)}"


def _fault(difference: Difference) -> str:
    name = jsontext.dumps(_cut(difference.path, _MOST_VALUE)).decode("utf-8")
    if difference.fault == "missing":
        return f"missing argument {name}, expected {_expected(difference)}"
    if difference.fault == "unexpected":
        return f"unexpected argument {name}, got {shown_value(difference.actual)}"
    expected, actual = _expected(difference), shown_value(difference.actual)
    if isinstance(difference.expected, str) and isinstance(difference.actual, str):
        expected, actual = _around_difference(difference.expected, difference.actual)
    return f"argument {name} expected {expected}, got {actual} ({difference.kind})"


def _expected(difference: Difference) -> str:
    return _accepted(difference.expected) if difference.any_of else shown_value(difference.expected)


def _accepted(values: JSON) -> str:
    """Several accepted values, without the empty text that says that the argument may be left out."""
    if not isinstance(values, list):
        return shown_value(values)
    choices = [choice for choice in values if choice != ""] or values
    shown = " or ".join(map(shown_value, choices[:_MOST_CALLS]))
    return f"{shown} or {len(choices) - _MOST_CALLS} other values" if len(choices) > _MOST_CALLS else shown


def _around_difference(expected: str, actual: str) -> tuple[str, str]:
    """Two long texts from shortly before the place where they begin to differ."""
    if max(len(expected), len(actual)) <= _MOST_VALUE:
        return shown_value(expected), shown_value(actual)
    start = _common_beginning(expected, actual) - _BEFORE_DIFFERENCE
    if start <= 0:
        return shown_value(expected), shown_value(actual)
    return shown_value("…" + expected[start:]), shown_value("…" + actual[start:])


def _common_beginning(one: str, other: str) -> int:
    shorter = min(len(one), len(other))
    return next((at for at in range(shorter) if one[at] != other[at]), shorter)


def _name(call: FunctionCall) -> str:
    return _cut(call.name, _MOST_VALUE)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]}…"
