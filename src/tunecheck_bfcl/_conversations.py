"""Conversations as the leaderboard judges them (its `multi_turn_checker.py`), and as it makes their calls."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cached_property
from typing import ClassVar

from tunecheck.calls import FunctionCall, Reading
from tunecheck.datasets import Judging
from tunecheck.episodes import (
    PASSED,
    Attempt,
    CallMode,
    Given,
    GroundTruth,
    Results,
    RowVerdict,
    Services,
    StateCheck,
    made_results,
    missing_result,
    no_call,
    results_of,
    source_text,
    wrong_state,
)
from tunecheck.formats import read_python_calls
from tunecheck.simulators import OperationResult, failure
from tunecheck_bfcl._decoding import decode_step

_BEFORE_BRACKET = re.compile(r"\b([a-zA-Z_]\w*+)\s*+(?=\()")
_NOT_IN_A_NAME = re.compile(r"[-./:]")
_COMPARED = Judging()


class LeaderboardCheck(StateCheck):
    """Judges conversations exactly as the leaderboard does, error types included.

    Turns that ask for no call are not looked at; a result that the model once had counts for every later turn.
    """

    strict: ClassVar[bool] = False

    def decode(self, step: object, mode: CallMode) -> Reading:
        """Return the calls that the leaderboard reads in a step."""
        if mode == "text" and not isinstance(step, str):
            return Reading()
        return decode_step([step] if isinstance(step, dict) else step, text_mode=mode == "text")

    def verdict(self, given: Given) -> RowVerdict:
        """Return the leaderboard's verdict."""
        answered = LeaderboardAttempt(self.services, given.truth, role=given.model, named=given.named)
        truth = LeaderboardAttempt(self.services, given.truth, role=f"{given.model}_ground_truth")
        had: Results = Counter()
        for at, (turn, items) in enumerate(zip(given.turns, given.truth.turns, strict=True)):
            had.update(made_results(answered, turn))
            expected = results_of(truth, items)
            if not items:
                continue
            failed = no_call(turn) or wrong_state(truth, answered, _COMPARED) or missing_result(expected, had)
            if failed is not None:
                return replace(failed, turn=at)
        return PASSED


class LeaderboardAttempt(Attempt):
    """One side's calls, made as the leaderboard makes them.

    Its `execute_multi_turn_func_call` puts the name of the object that has the operation before every known operation's
    name that a bracket follows, and takes white space before brackets away: inside texts too. A tweet `please comment
    (soon)` is posted as `please x_TwitterAPI_instance.comment(soon)`, with another name on either side, so that the
    states never agree.

    Args:
        services: Starts the simulators.
        truth: The ground truth with the simulators' configuration.
        role: The first part of the names of that side's objects; the row's id follows.
        named: Whether the model's calls name all of their arguments, as JSON.
    """

    def __init__(self, services: Services, truth: GroundTruth, *, role: str, named: bool = True) -> None:
        super().__init__(services, truth, named=named)
        self._prefix = f"{role}_eval_{truth.id}"

    def make(self, call: FunctionCall) -> OperationResult:
        """Make a model's call. Never raises."""
        if not _holds_bracket(call.arguments.values()) or (self._named and "0" in call.arguments):
            return super().make(call)
        results = self._make(read_python_calls(self._add_owners(source_text(call, ","))))
        return results[0] if len(results) == 1 else failure("several calls in the place of one")

    def make_truth(self, item: object) -> list[OperationResult]:
        """Make the calls of an item of the ground truth. Never raises."""
        if isinstance(item, str) and item.count("(") > 1:
            return self._make(read_python_calls(self._add_owners(item)))
        return super().make_truth(item)

    def _make_read(self, call: FunctionCall) -> OperationResult:
        owner, _, operation = call.name.rpartition(".")
        known = owner and self._owners.get(operation) == owner
        return self.backend.call(FunctionCall(operation, call.arguments) if known else call)

    def _add_owners(self, call: str) -> str:
        return _BEFORE_BRACKET.sub(self._owned_name, call)

    def _owned_name(self, name: re.Match[str]) -> str:
        owner = self._owners.get(name[1])
        return name[1] if owner is None else f"{owner}.{name[1]}"

    @cached_property
    def _owners(self) -> Mapping[str, str]:
        return {
            operation: _NOT_IN_A_NAME.sub("_", f"{self._prefix}_{owner}_instance")
            for owner, simulator in self.backend.simulators.items()
            for operation in simulator.operations()
        }


def _holds_bracket(values: Iterable[object]) -> bool:
    """Return True if any text among the values, at any depth, holds an opening bracket."""
    for value in values:
        if isinstance(value, str):
            if "(" in value:
                return True
        elif isinstance(value, Mapping):
            if _holds_bracket(value.keys()) or _holds_bracket(value.values()):
                return True
        elif isinstance(value, (list, tuple)) and _holds_bracket(value):
            return True
    return False
