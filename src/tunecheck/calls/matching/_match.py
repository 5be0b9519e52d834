"""Match actual function calls with expected ones, and explain the differences.

Calls are paired first, then the arguments of each pair are compared. Differences become faults.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from msgspec import UNSET

from tunecheck._faults import MOST_VALUE, Fault, cut
from tunecheck._json import JSON
from tunecheck.calls._model import FunctionCall, tool_name
from tunecheck.calls._python_text import bind_positional
from tunecheck.calls._schemas import ToolDefinitions
from tunecheck.calls.matching._pairing import pair_up
from tunecheck.calls.matching._values import Difference, MatchPolicy, Positions, ValueComparison

_PREFIX = "functions."
_MOST_DIFFERENCES, _MOST_PROBLEMS = 50, 5  # of one call; a hostile argument could have a million


@dataclass(frozen=True, slots=True)
class Pair:
    """An expected call, the actual call paired with it, and the differences of their arguments."""

    expected: FunctionCall
    actual: FunctionCall
    differences: tuple[Difference, ...] = ()


@dataclass(frozen=True, slots=True)
class Violation:
    """An actual call that violates its function's schema, with the first few messages."""

    call: FunctionCall
    messages: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Match:
    """The result of matching actual with expected calls.

    `pairs` and `moved` are pairs of the same function; `moved` pairs are out of order. `misnamed` pairs differ in the
    function's name. `missing` (expected) and `extra` (actual) calls have no partner. `unknown` are actual calls of
    undefined functions, `violations` those that violate their schema, and `checked` is the number of validated calls.
    `notes` say what could not be compared or validated, and why.
    """

    pairs: tuple[Pair, ...] = ()
    moved: tuple[Pair, ...] = ()
    misnamed: tuple[Pair, ...] = ()
    missing: tuple[FunctionCall, ...] = ()
    extra: tuple[FunctionCall, ...] = ()
    unknown: tuple[FunctionCall, ...] = ()
    violations: tuple[Violation, ...] = ()
    checked: int = 0
    notes: tuple[str, ...] = ()

    @property
    def complete(self) -> bool:
        """True if every expected call was made, in order if the policy demands it."""
        return not (self.missing or self.misnamed or self.moved)

    @property
    def arguments_right(self) -> bool:
        """True if the arguments of all pairs match."""
        return not any(pair.differences for pair in self.pairs)


def match_calls(
    actual: Sequence[FunctionCall],
    expected: Sequence[FunctionCall],
    policy: MatchPolicy | None = None,
    definitions: ToolDefinitions | None = None,
) -> Match:
    """Match the calls that a model made with the expected calls.

    Args:
        actual: the calls made, in order.
        expected: the ground truth's calls; with the policy `alternatives` each argument is a list of accepted values.
        policy: what counts as the same; strict by default.
        definitions: the tools, used for defaults, number types, names of positional arguments and validation.
    """
    policy = policy or MatchPolicy()
    actual, expected = _respell(actual, expected, policy, definitions)
    if definitions:
        actual, expected = (
            [named_arguments(call, definitions) if "0" in call.arguments else call for call in calls]
            for calls in (actual, expected)
        )
    compare = ValueComparison(policy)
    unknown, violations, checked, problems = _validate_calls(definitions, actual, policy)
    if len(expected) == len(actual) == 1 and expected[0].name == actual[0].name and not policy.ordered:
        only = _pair(compare, expected[0], actual[0], definitions)  # most rows have one call on each side
        return Match((only,), unknown=unknown, violations=violations, checked=checked, notes=problems)
    pairing = pair_up(expected, actual, policy, definitions)

    def compared(positions: Positions) -> tuple[Pair, ...]:
        return tuple(_pair(compare, expected[row], actual[column], definitions) for row, column in positions)

    partnered = [*pairing.pairs, *pairing.moved, *pairing.misnamed]
    rows, columns = {row for row, _ in partnered}, {column for _, column in partnered}
    return Match(
        pairs=compared(pairing.pairs),
        moved=compared(pairing.moved),
        misnamed=compared(pairing.misnamed),
        missing=tuple(call for row, call in enumerate(expected) if row not in rows),
        extra=tuple(call for column, call in enumerate(actual) if column not in columns),
        unknown=unknown,
        violations=violations,
        checked=checked,
        notes=(*pairing.notes, *problems),
    )


def _pair(
    comparison: ValueComparison, expected: FunctionCall, actual: FunctionCall, definitions: ToolDefinitions | None
) -> Pair:
    definition = definitions.get(expected.name) if definitions else None
    schema = definition.schema if definition else None
    differences = comparison.arguments(expected.arguments, actual.arguments, schema)
    return Pair(expected, actual, tuple(islice(differences, _MOST_DIFFERENCES)))


def _validate_calls(
    definitions: ToolDefinitions | None, calls: Sequence[FunctionCall], policy: MatchPolicy
) -> tuple[tuple[FunctionCall, ...], tuple[Violation, ...], int, tuple[str, ...]]:
    """Return the calls of unknown functions, the violations, the number of checked calls, and problems of schemas."""
    unknown: list[FunctionCall] = []
    violations: list[Violation] = []
    problems: dict[str, None] = {}
    checked = 0
    for call in calls if definitions else ():
        definition = definitions.get(call.name) if definitions else None
        if definition is None:
            unknown.append(call)
            continue
        check = definition.check(call.arguments)
        if check.violations and policy.null_equals_absent:
            check = definition.check({name: value for name, value in call.arguments.items() if value is not None})
        if check.problem:
            problems[check.problem] = None
            continue
        checked += 1
        if check.violations:
            violations.append(Violation(call, check.violations))
    return tuple(unknown), tuple(violations), checked, tuple(problems)[:_MOST_PROBLEMS]


# -- names of functions and of positional arguments


def _respell(
    actual: Sequence[FunctionCall],
    expected: Sequence[FunctionCall],
    policy: MatchPolicy,
    definitions: ToolDefinitions | None,
) -> tuple[Sequence[FunctionCall], Sequence[FunctionCall]]:
    """Rename calls to the names of the definitions or of the expected calls, if the policy treats them as equal."""
    if not (policy.dots_equal_underscores or policy.ignore_functions_prefix):
        return actual, expected
    spelling: dict[str, str] = {}
    known = set(definitions or ())
    for name in definitions or ():
        spelling.setdefault(_key(name, policy), name)

    def spelled(call: FunctionCall) -> FunctionCall:
        name = call.name if call.name in known else spelling.get(_key(call.name, policy), call.name)
        return call if name == call.name else replace(call, name=name)

    wanted = [spelled(call) for call in expected]
    for call in wanted:
        known.add(call.name)
        spelling.setdefault(_key(call.name, policy), call.name)
    return [spelled(call) for call in actual], wanted


def _key(name: str, policy: MatchPolicy) -> str:
    name = name.removeprefix(_PREFIX) if policy.ignore_functions_prefix else name
    return tool_name(name) if policy.dots_equal_underscores else name


def named_arguments(call: FunctionCall, definitions: ToolDefinitions) -> FunctionCall:
    """Return the call with its positional arguments under their names, if its function is defined."""
    definition = definitions.get(call.name)
    return bind_positional(call, definition.parameter_names) if definition else call


# -- faults


def call_faults(match: Match, policy: MatchPolicy) -> Iterator[Fault]:
    """Yield the faults of the calls themselves: missing, extra, misnamed and out of order."""
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
    """Yield the faults of the arguments of paired calls."""
    for pair in (*match.pairs, *match.moved):
        for difference in pair.differences:
            yield _argument_fault(pair.expected.name, difference)


def schema_faults(match: Match) -> Iterator[Fault]:
    """Yield the violations of the tool definitions, and the calls that could not be validated."""
    for call in match.unknown:
        yield Fault(code="unknown_function", call=call.name)
    for violation in match.violations:
        for message in violation.messages:
            name = violation.call.name
            words = f"{cut(name, MOST_VALUE)} breaks its schema: {message}"
            yield Fault(code="schema_violation", call=name, message=words)
    for note in match.notes:
        yield Fault(code="unchecked_call", message=note)


def _argument_fault(call: str, one: Difference) -> Fault:
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
