"""Rows of several turns: do the model's calls leave the simulators as the ground truth's do, and find out the same?"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from itertools import zip_longest
from typing import TypeAlias, cast

from tunecheck._errors import DataError, PluginError
from tunecheck._faults import Fault
from tunecheck._json import JSON
from tunecheck.datasets._judging import Judging
from tunecheck.episodes._decoding import decode_step
from tunecheck.episodes._inference_log import UNKNOWN, Course
from tunecheck.episodes._nested import Decoded, NestedCall
from tunecheck.simulators._backend import Result
from tunecheck_bfcl._conversation_causes import causes_of_calls, causes_of_ending
from tunecheck_bfcl._decoding import Mode, mode_of
from tunecheck_bfcl._entries import Entry
from tunecheck_bfcl._replay import Attempt, Simulators
from tunecheck_bfcl._turns_made import Sides
from tunecheck_bfcl._verdicts import INVALID_ENTRY, Verdict, failed, shown

Turn: TypeAlias = "list[tuple[NestedCall, ...]]"
"""The calls of each step of a turn; a step without any is empty."""

_Results: TypeAlias = "Counter[str | bytes]"
"""How often there was which result: its text, or the digest of a long one, of which a model may ask for gigabytes."""

_LONG = 2_000  # from how many characters on a result counts as long
_PASSED = Verdict(True)
_COMPARED = Judging()

_EXPLAINED = (
    "multi_turn:instance_state_mismatch",
    "multi_turn:execution_response_mismatch",
    "multi_turn:force_terminated",
)
"""Errors of which a comparison of the calls says more."""

_MOST_EXPLAINED = 300  # calls of a conversation: after each, all that the simulators hold is looked at

_NOTHING = object()
_DEEPEST = 200
_SHOWN = 120


def check_multi_turn(
    row: Mapping[str, object],
    result: object,
    *,
    compat: bool,
    simulators: Simulators | None = None,
    mode: Mode | None = None,
    course: Course = UNKNOWN,
    model: str = "model",
) -> Verdict:
    """The verdict of one row.

    The calls of each turn are made on simulators of their own, and the ground truth's on others; after every turn
    their states must be equal, and the model must have had every result that the ground truth's calls give.

    Args:
        row: the columns `ground_truth`, `involved_classes`, `initial_config`, `long_context`, as a data set
            `bfcl:multi_turn_…` has them.
        result: as in a result file: by turn, the steps: `[{"f": "<arguments as JSON>"}, …]`, or text.
        compat: judge exactly as the leaderboard does, error types included. Else strictly: a call in a turn that asks
            for none fails, so does a conversation that was ended by force, each result of a call counts for one call
            of the ground truth, and a row whose ground-truth calls all fail is invalid and not scored.
        simulators: makes the backends; share one among rows. Rows with long context need one that has the constants.
        mode: how the model was asked, where the result alone does not say.
        course: how the conversation went: strictly, one that was ended by force fails, and the calls are those that
            were made then, however the result would be read today.
        model: the model's name, which the leaderboard mixes into some calls.

    Raises:
        ValueError: the row has no ground truth of this form.
        DataError: the long-context constants are needed and not there.
    """
    entry = Entry.read(row)
    simulators, mode = simulators or Simulators(), mode or mode_of([result])
    turns: Sequence[Turn] = ()
    verdict = _unplayable(entry, result)
    if verdict is None or verdict.error_type in _EXPLAINED:
        turns = _turns(cast("list[object]", result), mode, compat=compat, course=course)
    if verdict is None:
        verdict = judged(entry, turns, simulators, mode=mode, compat=compat, course=course, model=model)
    if verdict.valid is not False:
        return verdict
    causes = [*causes_of_ending(course, verdict.turn)]
    if verdict.turn is not None and verdict.error_type in _EXPLAINED:
        causes += _explained(entry, row, turns[: verdict.turn + 1], verdict, simulators)
    return replace(verdict, causes=tuple(causes))


def _explained(
    entry: Entry, row: Mapping[str, object], turns: Sequence[Turn], verdict: Verdict, simulators: Simulators
) -> list[Fault]:
    said = row.get("turns") or row.get("question")
    calls = [[call for step in turn for call in step] for turn in turns]
    lacks_results = verdict.error_type == "multi_turn:execution_response_mismatch"
    if sum(map(len, calls)) > _MOST_EXPLAINED:
        return []
    try:
        return [*causes_of_calls(Sides(entry, said, calls, simulators, lacks_results=lacks_results))]
    except Exception:  # noqa: BLE001 - users' simulators and models' values do what they like; the verdict stands alone
        return []


def _unplayable(entry: Entry, result: object) -> Verdict | None:
    """What is wrong with a result that has not a list of steps for each turn."""
    if not isinstance(result, list):
        return failed("multi_turn:inference_error", f"no list of turns was recorded: {shown(result)}")
    if len(result) != len(entry.truth):
        recorded = "1 turn was" if len(result) == 1 else f"{len(result)} turns were"
        text = f"{recorded} recorded; the ground truth has {len(entry.truth)}"
        at = len(result) - 1 if 0 < len(result) < len(entry.truth) else None
        return failed("multi_turn:force_terminated", text, at)
    unreadable = next((at for at, turn in enumerate(result) if not isinstance(turn, (list, str, dict))), None)
    if unreadable is None:
        return None
    text = f"the turn is {shown(result[unreadable], 60)}, no list of steps"
    return failed("multi_turn:inference_error", text, unreadable)


def judged(
    entry: Entry,
    turns: Sequence[Turn],
    simulators: Simulators,
    *,
    compat: bool,
    mode: Mode = "tools",
    course: Course = UNKNOWN,
    model: str = "model",
) -> Verdict:
    """The verdict on as many turns as the ground truth has, as `check_multi_turn` gives it, without its causes."""
    if entry.long_context and not simulators.has_long_context:
        raise DataError("this row needs BFCL's long-context constants; get them with: tunecheck datasets get bfcl")
    try:
        if compat:
            return _as_leaderboard(entry, turns, simulators, named=mode == "tools", model=model)
        if course.forced_quit:
            return failed("multi_turn:force_terminated", "the conversation was ended by force", len(turns) - 1)
        return _strictly(entry, turns, simulators, named=mode == "tools")
    except (PluginError, DataError) as error:
        return Verdict(False if compat else None, INVALID_ENTRY, None, f"the entry cannot be replayed: {error}")


def _turns(result: Sequence[object], mode: Mode, *, compat: bool, course: Course) -> list[Turn]:
    """The calls of each step of each turn: those that the leaderboard reads, or strictly those that were made."""
    steps = [turn if isinstance(turn, list) else [] for turn in result]
    decoded = [[_decoded(step, mode, compat=compat) for step in turn] for turn in steps]
    if compat:
        return [[step.calls for step in turn] for turn in decoded]
    return [
        [course.decoded(number, at, step).calls for at, step in enumerate(turn)] for number, turn in enumerate(decoded)
    ]


def _decoded(step: object, mode: Mode, *, compat: bool) -> Decoded:
    if compat and mode == "text" and not isinstance(step, str):
        return Decoded()
    return decode_step([step] if isinstance(step, dict) else step, text_mode=mode == "text", compat=compat)


def _as_leaderboard(entry: Entry, turns: Sequence[Turn], simulators: Simulators, *, named: bool, model: str) -> Verdict:
    """The leaderboard's verdict (its `multi_turn_checker.py`).

    Turns that ask for no call are not looked at; a result that the model once had counts for every later turn.
    `named` says that the model's calls came as JSON.
    """
    answered = Attempt(simulators, entry, role=model, named=named)
    truth = Attempt(simulators, entry, role=f"{model}_ground_truth")
    had: _Results = Counter()
    for at, (turn, items) in enumerate(zip(turns, entry.truth, strict=True)):
        had.update(_key(answered.make(call)) for step in turn for call in step)
        expected = _expected(truth, items)
        if not items:
            continue
        failure = _empty(turn) or _state_mismatch(truth, answered) or _missing(expected, had)
        if failure is not None:
            return replace(failure, turn=at)
    return _PASSED


def _strictly(entry: Entry, turns: Sequence[Turn], simulators: Simulators, *, named: bool) -> Verdict:
    """The strict verdict by the ground truth, or by the first of its alternatives by which the row passes."""
    verdict = _by_truth(entry, turns, simulators, named=named)
    for truth in entry.judging.alternatives if verdict.valid is False else ():
        if _by_truth(replace(entry, truth=truth), turns, simulators, named=named).valid:
            return _PASSED
    return verdict


def _by_truth(entry: Entry, turns: Sequence[Turn], simulators: Simulators, *, named: bool) -> Verdict:
    answered, truth = Attempt(simulators, entry, named=named), Attempt(simulators, entry)
    had: _Results = Counter()
    failure: Verdict | None = None
    some_work = not any(entry.truth)
    for at, (turn, items) in enumerate(zip(turns, entry.truth, strict=True)):
        expected = _expected(truth, items)
        some_work = some_work or not all(result.error for result in expected)
        if failure is None:
            had.update(_key(answered.make(call)) for step in turn for call in step)
            wanted = [result for result in expected if not result.error]
            if not entry.judging.final_state_only:
                failure = _strict_failure(turn, items, truth, answered, entry.judging)
                failure = failure or (_missing(wanted, had) if items else None)
            elif at == len(turns) - 1:
                failure = _state_mismatch(truth, answered, entry.judging)
            failure = failure and replace(failure, turn=at)
            had -= Counter(map(_key, wanted))
        elif some_work:
            break
    if not some_work:
        return Verdict(None, INVALID_ENTRY, None, "every call of the ground truth fails")
    return failure or _PASSED


def _strict_failure(
    turn: Turn, items: Sequence[JSON], truth: Attempt, answered: Attempt, judging: Judging
) -> Verdict | None:
    if items:
        return _empty(turn) or _state_mismatch(truth, answered, judging)
    calls = [call for step in turn for call in step]
    made = next((call for call in calls if not (judging.reads_are_free or call.name in judging.free)), None)
    if made is None:
        return _state_mismatch(truth, answered, judging) if calls else None
    return failed("multi_turn:irrelevance_error", f"called {shown(made.text())}; this turn asks for no call")


def _key(result: Result) -> str | bytes:
    text = result.text
    return text if len(text) < _LONG else blake2b(text.encode("utf-8", "surrogatepass")).digest()


def _expected(truth: Attempt, items: Sequence[JSON]) -> list[Result]:
    return [result for item in items for result in truth.make_truth(item)]


def _empty(turn: Turn) -> Verdict | None:
    if any(turn):
        return None
    return failed("multi_turn:empty_turn_model_response", "no call was made; the ground truth makes some")


def _state_mismatch(truth: Attempt, answered: Attempt, judging: Judging = _COMPARED) -> Verdict | None:
    found = differences(truth.backend.states(), answered.backend.states())
    difference = next((each for each in found if not judging.ignores(each.path)), None)
    if difference is None:
        return None
    return failed("multi_turn:instance_state_mismatch", str(difference), path=difference.path)


def _missing(expected: Sequence[Result], had: _Results) -> Verdict | None:
    missing = Counter(map(_key, expected)) - had
    if not missing:
        return None
    first = next(result.text for result in expected if _key(result) in missing)
    others = missing.total() - 1
    more = f" (and {others} more)" if others else ""
    return failed("multi_turn:execution_response_mismatch", f"missing the result {shown(first)}{more}")


@dataclass(frozen=True, slots=True)
class StateDifference:
    """`path` leads to the first difference; `expected` and `actual` are what stands there, as text."""

    path: str
    expected: str
    actual: str

    def __str__(self) -> str:
        return f"{self.path} is {self.actual}; expected {self.expected}"


def differences(
    expected: Mapping[str, Mapping[str, object]], actual: Mapping[str, Mapping[str, object]]
) -> Iterator[StateDifference]:
    """The differences of two backends' states, one after another.

    Both are live states: they are compared where they stand, and nothing is copied. Only what differs is gone into.
    """
    for simulator, state in expected.items():
        other = actual.get(simulator, {})
        if state == other:
            continue
        for name, value in state.items():
            if value != other.get(name, _NOTHING):
                yield from _located(value, other.get(name, _NOTHING), f"{simulator}.{name}", 0)


def _located(expected: object, actual: object, path: str, depth: int) -> Iterator[StateDifference]:
    parts: Iterator[tuple[str, object, object]] = iter(())
    if depth < _DEEPEST:
        if isinstance(expected, dict) and isinstance(actual, dict):
            keys = {**expected, **actual}
            parts = ((_step(key), expected.get(key, _NOTHING), actual.get(key, _NOTHING)) for key in keys)
        elif isinstance(expected, (list, tuple)) and type(expected) is type(actual):
            pairs = zip_longest(expected, cast("Sequence[object]", actual), fillvalue=_NOTHING)
            parts = ((f"[{place}]", *pair) for place, pair in enumerate(pairs))
    whole = True
    for step, value, other in parts:
        if value is not other and value != other:
            whole = False
            yield from _located(value, other, f"{path}{step}", depth + 1)
    if whole:
        yield StateDifference(path, _text(expected), _text(actual))


def _step(key: object) -> str:
    return f".{key}" if isinstance(key, str) and key.isidentifier() else f"[{shown(key, _SHOWN)}]"


def _text(value: object) -> str:
    return "missing" if value is _NOTHING else shown(value, _SHOWN)
