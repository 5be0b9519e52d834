"""A response beside its ground truth: both read, their calls matched, and what is wrong with them as faults."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from tunecheck import _json as jsontext
from tunecheck._faults import Fault
from tunecheck._json import JSON
from tunecheck.calls._matching.match import Match, argument_faults, call_faults, match_calls, schema_faults
from tunecheck.calls._matching.values import MatchPolicy
from tunecheck.calls._model import FunctionCall, Reading
from tunecheck.calls._schemas import ToolDefinitions
from tunecheck.formats._choosing import AUTO
from tunecheck.formats._profiles import Profile
from tunecheck.formats._reading import read_calls, read_once, tools_once

_MOST_SHOWN = 200


@dataclass(frozen=True)
class CallComparison:
    """A response beside its ground truth: what was read, and how the calls match; evaluators of one row share it."""

    policy: MatchPolicy
    response: Reading
    ground_truth: Reading
    match: Match

    @property
    def expects_call(self) -> bool:
        """Whether the ground truth is a call (else an answer)."""
        return bool(self.ground_truth.calls)

    @property
    def has_call(self) -> bool:
        """Whether a call was made, readable or not."""
        return bool(self.response.calls) or self.response.problem is not None

    @cached_property
    def functions_match(self) -> bool:
        """Whether the right functions were called: all, in order and nothing else where the policy wants that."""
        if self.has_call != self.expects_call or self.response.problem is not None:
            return False
        if self.match.extra and not self.policy.allow_extra_calls:
            return False
        return self.match.complete and not (self.policy.validate_schema and self.match.unknown)

    @cached_property
    def arguments_match(self) -> bool:
        """Whether each call has a partner whose arguments are right."""
        if self.policy.validate_schema and self.match.violations:
            return False
        return self.functions_match and self.match.arguments_right

    @cached_property
    def function_faults(self) -> list[Fault]:
        """What is wrong with which functions were called."""
        return self._plain_faults() or [*call_faults(self.match, self.policy), *self._schema_faults()]

    @cached_property
    def faults(self) -> list[Fault]:
        """What is wrong with the calls, arguments included."""
        listed = (*call_faults(self.match, self.policy), *argument_faults(self.match), *self._schema_faults())
        return self._plain_faults() or [*listed]

    def _schema_faults(self) -> Iterator[Fault]:
        return schema_faults(self.match) if self.policy.validate_schema else iter(())

    def _plain_faults(self) -> list[Fault]:
        """What is wrong where the two are not of a sort, or there is nothing to match."""
        if self.response.problem is not None:
            words = f"the response's call cannot be read: {self.response.problem}"
            return [Fault(code="unreadable_call", message=words)]
        if self.has_call and not self.expects_call:
            return [
                Fault(code="called_instead_of_answering", call=call.name, actual=call.arguments)
                for call in self.response.calls
            ]
        if self.expects_call and not self.has_call:
            any_of = self.policy.alternatives
            return [
                Fault(code="answered_instead_of_calling", call=call.name, expected=call.arguments, any_of=any_of)
                for call in self.ground_truth.calls
            ]
        return []


def compare_calls(
    response: object, ground_truth: object, tool_definitions: object, *, policy: MatchPolicy, format: str | Profile
) -> CallComparison:
    """Read both sides, in whatever format each is, and match their calls.

    Raises:
        ValueError: the ground truth or the tool definitions cannot be read.
    """
    definitions = tools_once(_given(tool_definitions))
    made = _read(response, definitions, format)
    wanted = _read_ground_truth(ground_truth, definitions, alternatives=policy.alternatives)
    return CallComparison(policy, made, wanted, match_calls(made.calls, wanted.calls, policy, definitions))


def _read(value: object, tools: ToolDefinitions | None = None, format: str | Profile = AUTO) -> Reading:
    value = _given(value)
    reading = read_once(value, tools) if format == AUTO else read_calls(value, tools=tools, format=format)
    if not tools and isinstance(value, dict) and not reading.calls and not reading.problem and _is_single(value):
        return read_calls([value])  # {"f": {…}}: BFCL's form without the list; as a text it would be any JSON answer
    return reading


def _read_ground_truth(value: object, tools: ToolDefinitions, *, alternatives: bool) -> Reading:
    value = _given(value)
    if alternatives and (answers := _possible_answers(_as_data(value))):
        return Reading(calls=answers, format="bfcl")
    reading = _read(value, tools)
    if reading.problem is not None:
        raise ValueError(f"the ground truth's call cannot be read: {reading.problem}")
    if isinstance(value, (dict, list)) and value and not reading.calls and reading.text == _json(value):
        raise ValueError(f"the ground truth is data in which there is no call: {reading.text[:_MOST_SHOWN]}")
    return reading


def _as_data(value: object) -> object:
    """The value, or the data whose JSON text it is."""
    return jsontext.value_of(value) if isinstance(value, str) else value


def _possible_answers(value: object) -> tuple[FunctionCall, ...]:
    """The calls of `[{"f": {…}}, …]` or of one such object, as they stand; empty where it is anything else."""
    items = value if isinstance(value, list) else [value]
    calls = [FunctionCall(*next(iter(item.items()))) for item in items if isinstance(item, dict) and _is_single(item)]
    return tuple(calls) if len(calls) == len(items) else ()


def _is_single(value: dict[str, JSON]) -> bool:
    return len(value) == 1 and all(isinstance(key, str) and isinstance(item, dict) for key, item in value.items())


def _json(value: object) -> str:
    try:
        return jsontext.dumps(value).decode("utf-8")
    except (TypeError, ValueError):
        return ""


def _given(value: object) -> object:
    """The value; None for an empty list or object, and for the NaN that pandas puts where a column has nothing."""
    empty = isinstance(value, (list, tuple, dict)) and not value
    return None if empty or (isinstance(value, float) and value != value) else value
