"""Typed matching of function calls: what was called against what should have been, explained."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

from tunecheck.calls._matching.pairs import Positions, pair_up
from tunecheck.calls._matching.policy import MatchPolicy
from tunecheck.calls._matching.values import Comparison, Difference
from tunecheck.calls._model import FunctionCall
from tunecheck.calls._python_text import bind_positional
from tunecheck.calls._schemas.definitions import ToolDefinitions

_MOST_DIFFERENCES = 50  # of one call; a hostile argument could have a million
_MOST_PROBLEMS = 5


@dataclass(frozen=True, slots=True)
class Pair:
    """An expected call, the actual one that goes with it, and where their arguments differ (empty: they match)."""

    expected: FunctionCall
    actual: FunctionCall
    differences: tuple[Difference, ...] = ()


@dataclass(frozen=True, slots=True)
class Violation:
    """An actual call that breaks its function's schema, and how: the first few messages."""

    call: FunctionCall
    messages: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Match:
    """How actual calls compare with expected ones.

    `pairs` are calls of the same function; `moved` too, but out of the order asked for; `misnamed` pairs differ in
    the function's name and are probably meant for each other; `missing` and `extra` have no partner. `unknown` are
    actual calls of functions that no definition has, `violations` those that break their schema; `checked` counts
    the calls that were held against one. `notes` say what could not be done, and why.
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
        """Whether every expected call was made, in order where asked."""
        return not (self.missing or self.misnamed or self.moved)

    @property
    def arguments_right(self) -> bool:
        """Whether the arguments of all pairs match."""
        return not any(pair.differences for pair in self.pairs)


def match_calls(
    actual: Sequence[FunctionCall],
    expected: Sequence[FunctionCall],
    policy: MatchPolicy | None = None,
    definitions: ToolDefinitions | None = None,
) -> Match:
    """Match the calls a model made with those it should have made.

    Args:
        actual: the calls made, in order.
        expected: the ground truth's calls; with the policy `alternatives` each argument is a list of accepted values.
        policy: what counts as the same; strict by default.
        definitions: the tools; they give defaults, number types, names of positional arguments and schemas.
    """
    policy = policy or MatchPolicy()
    if definitions:
        actual, expected = (_named(calls, definitions) for calls in (actual, expected))
    compare = Comparison(policy)
    unknown, violations, checked, problems = _held_against(definitions, actual)
    if len(expected) == len(actual) == 1 and expected[0].name == actual[0].name and not policy.ordered:
        only = _pair(compare, expected[0], actual[0], definitions)  # most rows: there is nothing to assign
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


def _named(calls: Sequence[FunctionCall], definitions: ToolDefinitions) -> list[FunctionCall]:
    """The calls with positional arguments under the names of their parameters."""
    return [_named_call(call, definitions) if "0" in call.arguments else call for call in calls]


def _named_call(call: FunctionCall, definitions: ToolDefinitions) -> FunctionCall:
    definition = definitions.get(call.name)
    return bind_positional(call, definition.parameter_names) if definition else call


def _pair(
    comparison: Comparison, expected: FunctionCall, actual: FunctionCall, definitions: ToolDefinitions | None
) -> Pair:
    definition = definitions.get(expected.name) if definitions else None
    schema = definition.schema if definition else None
    differences = comparison.arguments(expected.arguments, actual.arguments, schema)
    return Pair(expected, actual, tuple(islice(differences, _MOST_DIFFERENCES)))


def _held_against(
    definitions: ToolDefinitions | None, calls: Sequence[FunctionCall]
) -> tuple[tuple[FunctionCall, ...], tuple[Violation, ...], int, tuple[str, ...]]:
    """The calls of unknown functions, those that break their schema, how many were checked, and problems of schemas."""
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
        if check.problem:
            problems[check.problem] = None
            continue
        checked += 1
        if check.violations:
            violations.append(Violation(call, check.violations))
    return tuple(unknown), tuple(violations), checked, tuple(problems)[:_MOST_PROBLEMS]
