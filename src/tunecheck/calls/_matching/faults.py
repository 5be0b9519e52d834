"""What is wrong with calls, as faults made from how they match."""

from collections.abc import Iterator

from msgspec import UNSET

from tunecheck._faults import MOST_VALUE, Fault, cut
from tunecheck._json import JSON
from tunecheck.calls._matching.match import Match
from tunecheck.calls._matching.values import Difference, MatchPolicy
from tunecheck.calls._model import FunctionCall


def call_faults(match: Match, policy: MatchPolicy) -> Iterator[Fault]:
    """What is wrong with which functions were called: missing, extra, misnamed calls and those out of order."""
    any_of = policy.alternatives
    for pair in match.misnamed:
        wanted, made = (as_value(call) for call in (pair.expected, pair.actual))
        yield Fault(code="misnamed_call", call=pair.expected.name, expected=wanted, actual=made, any_of=any_of)
    for pair in match.moved:
        yield Fault(code="call_out_of_order", call=pair.actual.name, actual=pair.actual.arguments)
    for call in match.missing:
        yield Fault(code="missing_call", call=call.name, expected=call.arguments, any_of=any_of)
    if not policy.allow_extra_calls:
        for call in match.extra:
            yield Fault(code="extra_call", call=call.name, actual=call.arguments)


def argument_faults(match: Match) -> Iterator[Fault]:
    """What is wrong with the arguments of calls that have a partner."""
    for pair in (*match.pairs, *match.moved):
        for difference in pair.differences:
            yield _of_argument(pair.expected.name, difference)


def schema_faults(match: Match) -> Iterator[Fault]:
    """What breaks the tool definitions, and what could not be held against them."""
    for call in match.unknown:
        yield Fault(code="unknown_function", call=call.name)
    for violation in match.violations:
        for message in violation.messages:
            name = violation.call.name
            words = f"{cut(name, MOST_VALUE)} breaks its schema: {message}"
            yield Fault(code="schema_violation", call=name, message=words)
    for note in match.notes:
        yield Fault(code="unchecked_call", message=note)


def _of_argument(call: str, one: Difference) -> Fault:
    return Fault(
        code=f"wrong_argument.{one.kind}" if one.fault == "wrong" else f"{one.fault}_argument",
        call=call,
        path=one.path,
        expected=UNSET if one.fault == "unexpected" else one.expected,
        actual=UNSET if one.fault == "missing" else one.actual,
        any_of=one.any_of,
    )


def as_value(call: FunctionCall) -> JSON:
    return {"name": call.name, "arguments": call.arguments}
