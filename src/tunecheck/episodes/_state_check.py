"""Judges conversations: do the model's calls give the same simulator states and results as the ground truth's?

The verdict on a conversation is the first that applies:

  no_response    the result is no list of turns
  forced_quit    the result has another number of turns than the ground truth
  no_response    a turn of the result is neither a list of steps, nor a text or an object (a turn without calls)
  forced_quit    the conversation was ended by force
  (not scored)   the simulators cannot be started, or every call of the ground truth fails
  (passed)       no turn fails by the ground truth, or by one of the row's alternatives
  (failed)       the first failure of a turn by the ground truth, see below

A turn fails by the first that applies (`_turn_failure`):

  with `final_state_only`   state_mismatch, in the last turn only
  calls are expected        empty_turn (no call at all), state_mismatch, response_mismatch (a result is missing)
  no calls are expected     called_instead_of_answering (unless the call is allowed), state_mismatch

The codes are those of faults; `_CODES` has the leaderboard's names for them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, TypeAlias, cast

import msgspec

from tunecheck._errors import DataError, PluginError
from tunecheck._faults import Fault, Verdict, sentence, verdict
from tunecheck._json import JSON
from tunecheck.calls._model import FunctionCall, Reading
from tunecheck.datasets._judging import Judging
from tunecheck.episodes._causes import TurnComparison, causes_of_calls, causes_of_ending
from tunecheck.episodes._decoding import CallMode, decode_step, mode_of, source_text
from tunecheck.episodes._episode import ABSENT, UNKNOWN, Episode, deviations, path_text
from tunecheck.episodes._playing import Attempt, GroundTruth, Services
from tunecheck.simulators._backend import OperationResult

INVALID_ENTRY = "invalid_entry"
"""The error type of a row that no answer could pass; such a row is not scored."""


@dataclass(frozen=True, slots=True)
class RowVerdict:
    """The verdict on one row.

    `valid` is None if the row itself is wrong, so that it is not scored. `error_type` is the leaderboard's name of the
    error, None if the row is valid; `code` is the code of its fault. `turn` counts from 0, for conversations only.
    `message` is a text for users. `path` is the place in the simulators' states. `causes` explain the failure further.
    `details` are several faults that replace the single one. `differences` are the differing places of the states after
    the turn: path, expected value, found value.

    Example: `RowVerdict(False, "multi_turn:instance_state_mismatch", turn=1, path="TicketAPI.ticket_queue[2].id")` is
    shown as the fault `state_mismatch` in turn 2.
    """

    valid: bool | None
    error_type: str | None = None
    turn: int | None = None
    message: str | None = None
    path: str | None = field(default=None, compare=False)
    causes: tuple[Fault, ...] = field(default=(), compare=False)
    code: str | None = field(default=None, compare=False)
    details: tuple[Fault, ...] = field(default=(), compare=False)
    differences: tuple[tuple[str, str, str], ...] = field(default=(), compare=False)

    @property
    def reason(self) -> str | None:
        """The failure and its causes as text for users; None if there is nothing to say."""
        return sentence(self.faults) if self.causes else self.message

    @property
    def faults(self) -> tuple[Fault, ...]:
        """The faults of a row that failed or is not scored, and their causes; empty if it passes.

        Their turns count from 1.
        """
        # Details replace the single fault. A row without an error has none.
        if self.error_type is None or self.details:
            return self.details

        turn = None if self.turn is None else self.turn + 1
        code = self.code or self.error_type.replace(":", ".")
        return (Fault(code=code, path=self.path, turn=turn, message=self.message), *self.causes)

    def scored(self, metric: str) -> Verdict:
        """Return the verdict as an evaluator's result for this metric."""
        differences: list[JSON] = [[*difference] for difference in self.differences]
        known = {"error_type": self.error_type, "turn": self.turn, "state_differences": differences or None}
        return verdict(
            metric,
            score=None if self.valid is None else float(self.valid),
            passed=self.valid,
            reason=self.reason,
            properties={name: value for name, value in known.items() if value is not None},
            faults=self.faults,
            not_applicable=self.valid is None,
        )


def value_text(value: object, most: int = 200) -> str:
    """Return a value's Python repr for a message, at most `most` characters; only its type if it has no repr."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # an integer of thousands of digits, or a value nested too deeply
        return f"a {type(value).__name__}"
    return text if len(text) <= most else f"{text[: most - 1]}…"


Turn: TypeAlias = "list[tuple[FunctionCall, ...]]"
"""The calls of each step of a turn; a step without calls is empty."""

Results: TypeAlias = "Counter[int]"
"""Counts of results by the hash of their text, because results may be gigabytes long."""

_LONGEST_PATH = 10_000  # characters of a path, which is compared with the paths to ignore
_SHOWN = 120  # characters of a value of the state in a message
_MOST_DIFFERENCES = 20  # kept with a verdict
_MOST_EXPLAINED = 300  # calls of a conversation, because all simulator data is compared after each call

PASSED = RowVerdict(True)

# The leaderboard's error types, with the codes of the faults that they become.
_CODES = {
    "multi_turn:empty_turn_model_response": "empty_turn",
    "multi_turn:execution_response_mismatch": "response_mismatch",
    "multi_turn:force_terminated": "forced_quit",
    "multi_turn:inference_error": "no_response",
    "multi_turn:instance_state_mismatch": "state_mismatch",
    "multi_turn:irrelevance_error": "called_instead_of_answering",
}
_MISSING_RESULT, _WRONG_STATE = "multi_turn:execution_response_mismatch", "multi_turn:instance_state_mismatch"
_EXPLAINED = (_WRONG_STATE, _MISSING_RESULT, "multi_turn:force_terminated")
"""Errors that a comparison of the calls explains further."""


def failed_verdict(error_type: str, message: str, turn: int | None = None, path: str | None = None) -> RowVerdict:
    """Return the verdict on a failed conversation; `turn` counts from 0, `path` is a place in the states."""
    return RowVerdict(False, error_type, turn, message, path, code=_CODES[error_type])


class Given(msgspec.Struct, frozen=True):
    """A conversation to judge.

    `turns` are the model's calls by turn and step. `named`: all arguments have names, as in JSON calls. `episode` is
    the course of the conversation, `model` the model's name.
    """

    truth: GroundTruth
    turns: Sequence[Turn]
    named: bool = True
    episode: Episode = UNKNOWN
    model: str = "model"


class StateCheck:
    """Judges conversations strictly.

    The calls of each turn are made on their own simulators, and the ground truth's on others. After every turn, the
    states must be equal, and the model must have got every result of the ground truth's calls. Each result counts for
    one ground-truth call. A call in a turn without expected calls fails, and so does a conversation that was ended by
    force. If all ground-truth calls of a row fail, the row is not scored.

    Args:
        services: starts the simulators; share one instance among rows.
    """

    strict: ClassVar[bool] = True

    def __init__(self, services: Services) -> None:
        self.services = services

    def check(
        self,
        row: Mapping[str, object],
        result: object,
        *,
        mode: CallMode | None = None,
        episode: Episode = UNKNOWN,
        model: str = "model",
    ) -> RowVerdict:
        """Judge one conversation by the row's ground truth; a failed verdict includes the causes that were found.

        Args:
            row: the columns `ground_truth`, `involved_classes`, `initial_config`, `long_context`.
            result: by turn, the steps: `[{"f": "<arguments as JSON>"}, …]`, or text.
            mode: how the model was prompted, if the result alone does not decide.
            episode: the course of the conversation. A strict judgement uses the calls that it records, even if `result`
                would be read differently today.
            model: the model's name.

        Raises:
            ValueError: the row's ground truth has the wrong form.
            DataError: the constants for long context are needed but missing.
        """
        truth, mode = GroundTruth.read(row), mode or mode_of(result)
        turns: Sequence[Turn] = ()
        verdict = _unplayable(truth, result)

        # With a wrong number of turns, the verdict is already known, but its causes may need the calls.
        if verdict is None or verdict.error_type in _EXPLAINED:
            turns = self._turns(cast("list[object]", result), mode, episode)

        if verdict is None:
            verdict = self.judge(Given(truth, turns, mode == "tools", episode, model))
        if verdict.valid is not False:
            return verdict

        causes = [*causes_of_ending(episode, verdict.turn)]
        if verdict.turn is not None and verdict.error_type in _EXPLAINED:
            messages = row.get("turns")
            causes += self._explain(truth, messages, turns[: verdict.turn + 1], verdict.error_type == _MISSING_RESULT)

        return replace(verdict, causes=tuple(causes))

    def judge(self, given: Given) -> RowVerdict:
        """Judge a conversation with as many turns as the ground truth, without searching for causes.

        If the row's simulators cannot be started, it is not scored; a benchmark's rules (not `strict`) fail it.

        Raises:
            DataError: the constants for long context are needed but missing.
        """
        if given.truth.long_context:
            _ = self.services.constants  # raises here, because missing constants are not the row's fault

        try:
            return self.verdict(given)
        except (PluginError, DataError) as error:
            verdict = RowVerdict(None, INVALID_ENTRY, message=f"the conversation cannot be replayed: {error}")
            return verdict if self.strict else replace(verdict, valid=False)

    def decode(self, step: object, mode: CallMode) -> Reading:
        """Read the calls of a step (one answer in the result); a lone call may stand without a list around it."""
        return decode_step([step] if isinstance(step, dict) else step, text_mode=mode == "text")

    def verdict(self, given: Given) -> RowVerdict:
        """Judge by the ground truth and, if that fails, by the row's alternatives; passing any of them is enough.

        A conversation that was ended by force fails without being judged.
        """
        if given.episode.forced_quit:
            text = "the conversation stopped early"
            return failed_verdict("multi_turn:force_terminated", text, len(given.turns) - 1)

        verdict = self._judge_by_truth(given)
        if verdict.valid is not False:
            return verdict

        alternatives = [
            msgspec.structs.replace(given.truth, turns=turns) for turns in given.truth.judging.alternative_ground_truths
        ]
        passes = any(self._judge_by_truth(msgspec.structs.replace(given, truth=truth)).valid for truth in alternatives)
        return PASSED if passes else verdict

    def _judge_by_truth(self, given: Given) -> RowVerdict:
        """Make the calls of the model and of the ground truth turn by turn; return the first failure, or `PASSED`.

        If every call of the ground truth fails, the row is not scored.

        Example of results: the ground truth's two calls of a turn both return "ok". The model must have got "ok" twice
        by then, from any functions.
        """
        model, truth = Attempt(self.services, given.truth, named=given.named), Attempt(self.services, given.truth)
        unused: Results = Counter()  # the model's results that no call of the ground truth has used up
        failure: RowVerdict | None = None
        # A ground truth works if it has no call, or if at least one call succeeds.
        truth_works = not any(given.truth.turns)
        for number, (turn, items) in enumerate(zip(given.turns, given.truth.turns, strict=True)):
            expected = [result for result in truth.make_truth(items) if not result.error]
            truth_works = truth_works or bool(expected)

            # Results of earlier turns count as well, so a model may look something up before it is asked to.
            if failure is None:
                unused.update(made_results(model, turn))
                failure = _turn_failure(given, number, truth, model, missing_result(expected, unused))
                unused -= Counter(hash(result.text) for result in expected)
            elif truth_works:  # otherwise, go on: the row is scored only if a later call of the ground truth succeeds
                break

        if not truth_works:
            return RowVerdict(None, INVALID_ENTRY, message="every call of the ground truth fails")
        return failure or PASSED

    def _turns(self, result: Sequence[object], mode: CallMode, episode: Episode) -> list[Turn]:
        """Return the calls of a conversation's result by turn and step. A turn that is not a list has no steps.

        A strict judgement takes the calls that were executed in each step. A step that the episode does not record
        keeps the calls that `result` has.
        """
        turns: list[Turn] = []
        for number, steps in enumerate(result):
            readings = [self.decode(step, mode) for step in steps] if isinstance(steps, list) else []
            if self.strict:
                readings = [episode.decoded(number, position, reading) for position, reading in enumerate(readings)]
            turns.append([reading.calls for reading in readings])
        return turns

    def _explain(
        self, truth: GroundTruth, messages: object, turns: Sequence[Turn], lacks_results: bool
    ) -> Sequence[Fault]:
        """Return the causes of the failure in the last of these turns; none if the search fails or would take long.

        `messages` are the user's messages by turn. `lacks_results` is True if the turn failed for missing results.
        """
        calls = [[call for step in turn for call in step] for turn in turns]
        if sum(map(len, calls)) > _MOST_EXPLAINED:
            return ()

        try:
            compared = TurnComparison(truth, messages, calls, self.services, lacks_results=lacks_results)
            return [*causes_of_calls(compared)]
        except Exception:  # noqa: BLE001 - simulators of users and values of models may raise anything; the verdict needs no causes
            return ()


def _unplayable(truth: GroundTruth, result: object) -> RowVerdict | None:
    """Return a failure if the result is no list, has an unreadable turn, or not as many turns as the ground truth.

    Return None for any other result.
    """
    if not isinstance(result, list):
        return failed_verdict("multi_turn:inference_error", f"the result is not a list of turns: {value_text(result)}")

    if len(result) != len(truth.turns):
        text = f"turns in the result: {len(result)}; in the ground truth: {len(truth.turns)}"
        # If turns are missing, the last recorded turn has failed. If there are too many, no turn has.
        last_turn = len(result) - 1 if 0 < len(result) < len(truth.turns) else None
        return failed_verdict("multi_turn:force_terminated", text, last_turn)

    # A text or an object in place of a list of steps is a turn without calls.
    unreadable = next((number for number, turn in enumerate(result) if not isinstance(turn, (list, str, dict))), None)
    if unreadable is None:
        return None

    text = f"the turn is {value_text(result[unreadable], 60)}, not a list of steps"
    return failed_verdict("multi_turn:inference_error", text, unreadable)


def _turn_failure(
    given: Given, number: int, truth: Attempt, model: Attempt, missing: RowVerdict | None
) -> RowVerdict | None:
    """Return the failure after both sides have made the calls of a turn (`number`, from 0); None if the turn is right.

    With `final_state_only`, only the state after the last turn counts. Otherwise, a turn with expected calls fails
    without a call, with a wrong state, or with `missing`, the failure if results are missing. A turn without expected
    calls fails with a call that the row's settings do not allow, or with a wrong state after allowed calls. It is right
    if the model makes no call in it.
    """
    turn, judging = given.turns[number], given.truth.judging
    calls = [call for step in turn for call in step]

    failure: RowVerdict | None = None
    if judging.final_state_only:
        failure = wrong_state(truth, model, judging) if number == len(given.turns) - 1 else None
    elif given.truth.turns[number]:
        failure = no_call(turn) or wrong_state(truth, model, judging) or missing
    elif calls:
        failure = _refused_call(calls, judging) or wrong_state(truth, model, judging)

    return failure and replace(failure, turn=number)


def _refused_call(calls: Sequence[FunctionCall], judging: Judging) -> RowVerdict | None:
    """Return a failure if one of the calls is not allowed in a turn without expected calls; else None.

    With the setting "read_only", no call is refused here: the check of the states finds calls that write.
    """
    refused = next((call for call in calls if not judging.is_free(call.name)), None)
    if refused is None:
        return None
    text = f"called {value_text(source_text(refused))} in a turn that asks for no call"
    return failed_verdict("multi_turn:irrelevance_error", text)


def made_results(model: Attempt, turn: Turn) -> list[int]:
    """Make the model's calls of a turn; return the hashes of their results for `Results`."""
    return [hash(model.make(call).text) for step in turn for call in step]


def no_call(turn: Turn) -> RowVerdict | None:
    """Return a failure if the model made no call in a turn that expects calls; else None."""
    if any(turn):
        return None
    return failed_verdict("multi_turn:empty_turn_model_response", "the turn has no call, but needs one")


def wrong_state(truth: Attempt, model: Attempt, judging: Judging) -> RowVerdict | None:
    """Return a failure if the simulators' states differ between model and ground truth; None if they are equal.

    Paths that the row's settings ignore do not count. The first differences, at most 20, are kept.
    """
    differences: list[tuple[str, str, str]] = []
    for change in deviations(truth.backend.states(), model.backend.states()):
        path = path_text(change.path, _LONGEST_PATH)
        if not judging.ignores(path):
            differences.append((path, _text(change.before), _text(change.after)))
        if len(differences) == _MOST_DIFFERENCES:
            break

    if not differences:
        return None

    path, expected, actual = differences[0]
    failure = failed_verdict(_WRONG_STATE, f"{path} is {actual}; expected {expected}", path=path)
    return replace(failure, differences=(*differences,))


def _text(value: object) -> str:
    """Return a value of the state as a short text; `missing` if the state lacks it."""
    return "missing" if value is ABSENT else value_text(value, _SHOWN)


def missing_result(expected: Sequence[OperationResult], obtained: Results) -> RowVerdict | None:
    """Return a failure if the model lacks results of the ground truth's calls; else None.

    `obtained` counts the results that the model got.
    """
    missing = Counter(hash(result.text) for result in expected) - obtained
    if not missing:
        return None

    first = next(result.text for result in expected if hash(result.text) in missing)
    others = missing.total() - 1
    more = f" (and {others} more)" if others else ""
    return failed_verdict(_MISSING_RESULT, f"missing the result {value_text(first)}{more}")
