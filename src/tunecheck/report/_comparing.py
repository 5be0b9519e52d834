"""A row's expected and actual answer side by side: its calls in pairs, each argument marked that differs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tunecheck._json import JSON
from tunecheck.calls._formats.reading import read_calls
from tunecheck.calls._matching.match import Match, Pair, match_calls
from tunecheck.calls._matching.policy import MatchPolicy
from tunecheck.calls._model import FunctionCall, Reading
from tunecheck.calls._schemas.definitions import ToolDefinitions
from tunecheck.report._texts import as_json, as_text, cut

ANSWER = "(an answer)"
"""What stands for the function where an answer in words was expected or given."""
UNREADABLE, NO_CALL = "(unreadable call)", "(no call)"

_MOST_CALLS = 100
_MOST_ARGUMENTS = 200
_MOST_DIFFERENCES = 30
_ACCEPTED = MatchPolicy(alternatives=True, int_equals_float=True, ignore_case=True, ignore_whitespace=True)
"""Near enough to how BFCL's possible answers are judged to show where a call differs from them."""


@dataclass(slots=True)
class Compared:
    """What a page shows of both sides, and the functions by which rows are found.

    `pairs` are `[expected call | None, actual call | None, status, [[path, fault], …]]`, where a call is
    `[name, [[argument, value, mark], …]]`. `confused` pairs an expected function with what was called in its place.
    `wanted` is the ground truth as it was read.
    """

    expected: dict[str, JSON] = field(default_factory=dict)
    actual: dict[str, JSON] = field(default_factory=dict)
    pairs: list[JSON] = field(default_factory=list)
    expected_names: list[str] = field(default_factory=list)
    called_names: list[str] = field(default_factory=list)
    confused: list[tuple[str, str]] = field(default_factory=list)
    wanted: Reading | None = None


def compare(
    ground_truth: JSON,
    response: JSON,
    text: JSON,
    tools: JSON,
    policy: MatchPolicy,
    *,
    known_equal: bool,
    wanted: Reading | None = None,
) -> Compared:
    """Put a response beside its ground truth; `known_equal` where an evaluator has found no difference.

    `text` is what the model said beside its calls, `wanted` the ground truth where it was read before. Never raises:
    what cannot be read is shown as it is.
    """
    wanted = read = _read(ground_truth) if wanted is None else wanted
    made = _read(response)
    accepted = _possible_answers(ground_truth)
    if accepted:
        wanted, policy = Reading(calls=accepted, format="bfcl"), _ACCEPTED
        made = replace(made, calls=tuple(_renamed(made.calls, accepted)))
    found = Compared(_side(wanted, ground_truth, None), _side(made, response, text), wanted=read)
    found.expected_names = names_of(wanted.calls)
    found.called_names = names_of(made.calls)
    if not (wanted.calls and made.calls):
        found.pairs = [*_alone(wanted.calls, made.calls, alternatives=policy.alternatives)][:_MOST_CALLS]
    elif not known_equal or len(wanted.calls) != len(made.calls):
        match = _match(made.calls, wanted.calls, policy, tools)
        found.pairs = [*_pairs(match, alternatives=policy.alternatives)][:_MOST_CALLS]
        found.confused = [*_confused(match)]
    else:
        found.pairs = [
            [shown_call(one, alternatives=policy.alternatives), shown_call(other), "same", []]
            for one, other in _as_called(wanted.calls[:_MOST_CALLS], made.calls[:_MOST_CALLS])
        ]
        found.confused = [(call.name, call.name) for call in wanted.calls]
    if ground_truth is None:
        found.confused = []
    elif not (wanted.calls and made.calls):
        found.confused = [*_answered(wanted, made, spoke=bool(found.actual))]
    return found


def names_of(calls: Iterable[FunctionCall]) -> list[str]:
    """The functions called, each once, in order."""
    return list(dict.fromkeys(call.name[:200] for call in calls))[:_MOST_CALLS]


def _read(value: JSON) -> Reading:
    if isinstance(value, dict) and len(value) == 1 and all(isinstance(item, dict) for item in value.values()):
        return read_calls([value])
    return read_calls(value)


def _possible_answers(value: JSON) -> tuple[FunctionCall, ...]:
    """The calls of BFCL's possible answers, `[{"f": {"a": [1, 2]}}, …]`; none where it is anything else."""
    if not isinstance(value, list) or not value:
        return ()
    calls = []
    for item in value:
        name, arguments = next(iter(item.items())) if isinstance(item, dict) and len(item) == 1 else ("", None)
        if not isinstance(arguments, dict) or not all(isinstance(each, list) for each in arguments.values()):
            return ()
        calls.append(FunctionCall(name, arguments))
    return tuple(calls) if any(call.arguments for call in calls) else ()


def _renamed(calls: Iterable[FunctionCall], accepted: Sequence[FunctionCall]) -> Iterator[FunctionCall]:
    """A model cannot be told of dots in a function's name: `math.hcf` is offered, and called, as `math_hcf`."""
    names = {call.name.replace(".", "_"): call.name for call in accepted}
    for call in calls:
        yield FunctionCall(names.get(call.name, call.name), call.arguments, call.id)


def _side(reading: Reading, value: JSON, text: JSON) -> dict[str, JSON]:
    words = reading.text if reading.calls else value
    if isinstance(text, str) and text.strip() and text != words:
        words = f"{words}\n{text}" if isinstance(words, str) and words.strip() else text
    found: dict[str, JSON] = {}
    if isinstance(words, str) and words.strip():
        found["text"] = cut(words)
    elif words not in (None, "", [], {}) and not isinstance(words, str):
        found["data"] = as_text(words)
    if reading.problem is not None:
        found["problem"] = cut(reading.problem, 2_000)
    if len(reading.calls) > _MOST_CALLS:
        found["more"] = len(reading.calls) - _MOST_CALLS
    return found


def _match(made: Sequence[FunctionCall], wanted: Sequence[FunctionCall], policy: MatchPolicy, tools: JSON) -> Match:
    return match_calls(made, wanted, policy, _definitions(tools))


def _definitions(tools: JSON) -> ToolDefinitions | None:
    try:
        return ToolDefinitions.read(tools)
    except ValueError:
        return None


def _as_called(
    wanted: Sequence[FunctionCall], made: Sequence[FunctionCall]
) -> Iterator[tuple[FunctionCall, FunctionCall]]:
    """Equal calls beside each other, whatever order they came in."""
    if [call.name for call in wanted] == [call.name for call in made]:
        yield from zip(wanted, made, strict=True)
        return
    left = list(made)
    for call in wanted:
        at = next((at for at, other in enumerate(left) if other.name == call.name), 0)
        yield call, left.pop(at)


def _pairs(match: Match, *, alternatives: bool) -> Iterator[JSON]:
    for pairs, status in ((match.pairs, "same"), (match.moved, "moved"), (match.misnamed, "misnamed")):
        for pair in pairs:
            yield _pair(pair, status, alternatives=alternatives)
    yield from _alone(match.missing, match.extra, alternatives=alternatives)


def _alone(missing: Iterable[FunctionCall], extra: Iterable[FunctionCall], *, alternatives: bool) -> Iterator[JSON]:
    for call in missing:
        yield [shown_call(call, alternatives=alternatives), None, "missing", []]
    for call in extra:
        yield [None, shown_call(call), "extra", []]


def _pair(pair: Pair, status: str, *, alternatives: bool) -> JSON:
    marks: dict[str, str] = {}
    notes: list[JSON] = []
    for one in pair.differences:
        fault = one.fault if len(one.place) == 1 else "wrong"
        marks.setdefault(str(one.place[0]), fault)
        notes.append([cut(one.path, 300), one.fault if one.kind is None else one.kind.replace("_", " ")])
    if status == "same" and marks:
        status = "differs"
    expected = shown_call(pair.expected, marks, alternatives=alternatives)
    return [expected, shown_call(pair.actual, marks), status, notes[:_MOST_DIFFERENCES]]


def shown_call(call: FunctionCall, marks: Mapping[str, str] | None = None, *, alternatives: bool = False) -> JSON:
    """A call as `[name, [[argument, value, mark], …]]`, values as JSON text; accepted values beside each other."""
    marks = marks or {}
    arguments: list[JSON] = [
        [cut(name, 200), _accepted(value) if alternatives else as_json(value), marks.get(name, "")]
        for name, value in list(call.arguments.items())[:_MOST_ARGUMENTS]
    ]
    return [cut(call.name, 200), arguments]


def _accepted(value: JSON) -> str:
    if not isinstance(value, list):
        return as_json(value)
    shown = [as_json(each) for each in value if each != ""]
    return cut(" | ".join([*shown, *(["(may be left out)"] if "" in value else [])]))


def _confused(match: Match) -> Iterator[tuple[str, str]]:
    for pairs in (match.pairs, match.moved, match.misnamed):
        for pair in pairs:
            yield pair.expected.name[:200], pair.actual.name[:200]
    # What is missing on one side and too much on the other was most likely taken for each other.
    for at in range(max(len(match.missing), len(match.extra))):
        expected = match.missing[at].name[:200] if at < len(match.missing) else NO_CALL
        yield expected, match.extra[at].name[:200] if at < len(match.extra) else NO_CALL


def _answered(wanted: Reading, made: Reading, *, spoke: bool) -> Iterator[tuple[str, str]]:
    """Where at least one side has no readable call."""
    other = UNREADABLE if made.problem is not None else ANSWER if spoke else NO_CALL
    if wanted.calls:
        yield from ((name, other) for name in names_of(wanted.calls))
    elif made.calls:
        yield from ((ANSWER, name) for name in names_of(made.calls))
    else:
        yield ANSWER, other
