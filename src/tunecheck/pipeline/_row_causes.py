"""Why a row failed: the first cause that holds, from its answer, its errors and the faults that evaluators found.

A cause is a `Fault` whose code is one of `CAUSES`; its other fields say what it is about. A fault that an evaluator
gives with such a code counts as that cause. A row that passes is not looked at: deciding costs it nothing.
"""

from collections.abc import Iterator, Mapping, Sequence

from msgspec.structs import replace

from tunecheck._causes import CAUSES, error_cause, place_of
from tunecheck._faults import Fault, read_faults
from tunecheck.calls._model import FunctionCall, tool_name
from tunecheck.pipeline._answer_causes import Answer, answer_causes, encoded_twice, is_text
from tunecheck.pipeline._results import RowState
from tunecheck.pipeline._scoring import BoundEvaluator

_FAILED, _RESULT, _PROPERTIES = "fail", "_result", "_properties"

_CAUSES = {
    "answered_instead_of_calling": "answered_instead_of_calling",
    "call_out_of_order": "wrong_function",
    "called_instead_of_answering": "extra_call",
    "empty_turn": "answered_instead_of_calling",
    "missing_argument": "wrong_argument.missing",
    "misnamed_call": "wrong_function",
    "no_matching_call": "wrong_argument.other",
    "no_response": "server_fault",
    "schema_violation": "wrong_argument.schema",
    "unexpected_argument": "wrong_argument.unexpected",
    "wrong_argument": "wrong_argument.other",
}
"""The cause that a fault is, where its code is another one."""

_UNEXPLAINED = frozenset({"call_count", "no_matching_call", "wrong_argument.other"})
"""Faults that, without a path, say that calls differ, and not how."""


def decide_cause(state: RowState, evaluators: Sequence[BoundEvaluator]) -> Fault | None:
    """The cause of a row's failure; None where nothing that is known holds."""
    try:
        return min(_causes(state, evaluators), key=lambda cause: place_of(cause.code), default=None)
    except Exception:  # noqa: BLE001 - a row may hold objects of any class, which raise anything: then nothing is known
        return None


def _causes(state: RowState, evaluators: Sequence[BoundEvaluator]) -> Iterator[Fault]:
    if (error := state.errors.get("target")) is not None:
        yield Fault(code=error.cause or error_cause(f"{error.type}: {error.message}"))
        return
    failing = {name: output for name, output in state.outputs.items() if _fails(output)}
    if not failing:
        return
    arguments: dict[str, object] = {}
    given = [each for each in evaluators if each.name in state.outputs]
    for evaluator in sorted(given, key=lambda each: each.name in failing):  # what a failing one was given counts
        arguments |= evaluator.bind(state.row.values, state.target)
    faults = tuple(
        fault
        for output in (failing[each.name] for each in given if each.name in failing)
        for key, value in output.items()
        if key.endswith(_PROPERTIES)
        for fault in read_faults(value)
    )
    answer = Answer.read(state.kind, state.row.values, state.target, arguments, faults)
    by_answer = [*answer_causes(answer)]
    yield from by_answer
    if any(cause.code == "thinking_used_budget" for cause in by_answer):
        faults = tuple(fault for fault in faults if fault.code != "cut_off")  # the same, told less exactly
    explained = [each for fault in faults for each in _explained(fault, answer)]
    yield from _swapped(explained)
    for fault in explained:
        yield from _of_fault(fault, answer)


def _fails(output: Mapping[str, object]) -> bool:
    return any(value == _FAILED and key.endswith(_RESULT) for key, value in output.items())


def _explained(fault: Fault, answer: Answer) -> Sequence[Fault]:
    """The fault itself, or what more can be said in its place."""
    if fault.code not in _UNEXPLAINED or fault.path is not None:
        return [fault]
    if compared := [*_compared(answer)]:
        return compared
    if fault.code == "call_count":
        more = len(answer.reading.calls) > len(answer.wanted.calls)
        return [replace(fault, code="extra_call" if more else "missing_call")]
    return [fault]


def _swapped(faults: Sequence[Fault]) -> Iterator[Fault]:
    """A call too many where another one is missing."""
    missing = next((fault for fault in faults if fault.code == "missing_call"), None)
    extra = next((fault for fault in faults if fault.code == "extra_call"), None)
    if missing is not None and extra is not None:
        wanted, made = {"name": missing.call}, {"name": extra.call}
        yield Fault(code="wrong_function", call=missing.call, turn=missing.turn, expected=wanted, actual=made)


def _of_fault(fault: Fault, answer: Answer) -> Iterator[Fault]:
    if encoded_twice(fault, answer.tools):
        yield replace(fault, code="double_encoded")
    if fault.code == "unreadable_call" and not answer.reading.calls and not answer.expects_call:
        yield replace(fault, code="unreadable")
    code = _CAUSES.get(fault.code, fault.code)
    if code in CAUSES or code.startswith("wrong_argument."):
        yield fault if code == fault.code else replace(fault, code=code)


def _compared(answer: Answer) -> Iterator[Fault]:
    """How calls differ from possible answers, which name for each argument the values that are right."""
    made, wanted = (_plainly_named(calls) for calls in (answer.reading.calls, answer.wanted.calls))
    if not made or not wanted:
        return
    from tunecheck.calls._matching.match import (  # rows of texts need none of it
        argument_faults,
        call_faults,
        match_calls,
    )
    from tunecheck.calls._matching.values import MatchPolicy

    # What the leaderboard accepts is not to blame.
    loose = MatchPolicy(alternatives=True, ignore_case=True, ignore_whitespace=True, int_equals_float=True)
    match = match_calls(made, wanted, loose)
    yield from call_faults(match, loose)
    for fault in argument_faults(match):
        if fault.path is not None and not is_text(fault, answer.tools):
            yield fault


def _plainly_named(calls: Sequence[FunctionCall]) -> list[FunctionCall]:
    return [FunctionCall(tool_name(call.name), call.arguments) for call in calls]
