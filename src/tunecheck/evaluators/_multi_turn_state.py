"""Whether a conversation's calls left the simulators as they should be: `MultiTurnStateEvaluator`."""

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import ClassVar, Literal, TypeAlias, cast, get_args

from tunecheck._describe import one_of
from tunecheck._faults import Verdict, verdict
from tunecheck._json import JSON
from tunecheck._trust import Trust
from tunecheck.episodes._inference_log import Course
from tunecheck.evaluators._base import Evaluator, Metric
from tunecheck_bfcl._data.categories import CATEGORIES
from tunecheck_bfcl._multi_turn import check_multi_turn
from tunecheck_bfcl._replay import Simulators
from tunecheck_bfcl._verdicts import Verdict as RowVerdict

_METRIC = "multi_turn_state"

Compat: TypeAlias = Literal["auto", "bfcl", "strict"]
"""How to judge: `bfcl` as the leaderboard does, `strict` without its gaps, `auto` the first for BFCL's own rows."""

AnyMode: TypeAlias = Literal["auto", "tools", "text"]

COMPATS: tuple[Compat, ...] = get_args(Compat)
MODES: tuple[AnyMode, ...] = get_args(AnyMode)


class MultiTurnStateEvaluator(Evaluator):
    """After every turn, the model's simulators hold what the ground truth's do, and it had the same results.

    1.0 where that is so after each turn, else 0.0, with the first thing that is wrong as the reason: the turn, and the
    first difference of the states as a path with both values, or the result that is missing.
    `multi_turn_state_properties` holds `error_type`, the leaderboard's name of it, and `turn`, counted from 0. A row
    whose ground truth cannot work is not applicable in the strict mode.

    Args:
        compat: "bfcl" gives the leaderboard's verdicts, gaps included; "strict" fails a call in a turn that asks for
            none and a conversation that was ended by force; "auto" is "bfcl" for BFCL's own rows, else "strict".
        mode: how the model was asked, "tools" or "text"; "auto" tells it from the result.
        data: the copy of BFCL to read long-context constants from, where not the usual one.
        time_limit_s: seconds after which a call of a simulator is abandoned.

    Raises:
        ConfigurationError: `compat` or `mode` is none of these.
    """

    metrics: ClassVar[tuple[Metric, ...]] = (Metric(_METRIC, kind="binary"),)
    primary: ClassVar[str] = _METRIC
    cpu_bound: ClassVar[bool] = True
    _trust: Trust | None = None

    def __init__(
        self, *, compat: Compat = "auto", mode: AnyMode = "auto", data: str | None = None, time_limit_s: float = 10
    ) -> None:
        self._compat = one_of(compat, COMPATS, "compat")
        self._mode = one_of(mode, MODES, "mode")
        self._data = data
        self._time_limit_s = time_limit_s
        super().__init__(compat=compat, mode=mode, data=data, time_limit_s=time_limit_s)

    def entrust(self, trust: Trust) -> None:
        """Say whose rows it judges, which name simulators."""
        self._trust = trust
        for simulators in ("_plain", "_padded"):
            vars(self).pop(simulators, None)

    def __call__(
        self,
        *,
        result: object = None,
        ground_truth: object = None,
        involved_classes: object = None,
        initial_config: object = None,
        turns: object = None,
        long_context: object = False,
        category: object = None,
        id: object = None,
        check: object = None,
        error: object = None,
        forced_quit: object = None,
        ended_by: object = None,
        calls_made: object = None,
        finish_reasons: object = None,
        free_calls: object = None,
        final_state_only: object = None,
        alternative_ground_truths: object = None,
        ignored_state: object = None,
    ) -> Verdict:
        """Judge one row.

        Args:
            result: what the conversation target recorded: by turn, the steps, as in BFCL's result files.
            ground_truth: by turn, the calls, as texts such as `cd(folder='x')` or in any other format.
            involved_classes: the names of the simulators.
            initial_config: by simulator, what it starts from.
            turns: the messages of each turn, to know which values had been given.
            long_context: whether they are padded with BFCL's constants.
            category: BFCL's, where it is one of its rows.
            id: the row's.
            check: "multi_turn"; rows of BFCL that hold another word are `call_check`'s, and not applicable here.
            error: what the conversation target says instead of a result.
            forced_quit: whether the conversation was ended by force, where that is known.
            ended_by: by what, `step_limit` or `overflow`.
            calls_made: by turn and step, the calls that were made when it took place, as texts.
            finish_reasons: by turn and step, why the answer ended.
            free_calls: strictly: functions that may be called in turns that ask for no call, too; "read_only": all that
                leave the state as it should be.
            final_state_only: strictly: judge nothing but the state after the last turn.
            alternative_ground_truths: strictly: others of which any will do as well.
            ignored_state: strictly: paths in the state that are not compared, such as `Shelf.things.book`.

        Raises:
            ValueError: the ground truth, the simulators' names or the configuration have another form.
            DataError: the long-context constants are needed and not there.
        """
        if check is not None and check != "multi_turn":
            return verdict(_METRIC, not_applicable=True, reason="a row of one question")
        row = {
            "id": id,
            "ground_truth": ground_truth,
            "involved_classes": involved_classes,
            "initial_config": initial_config,
            "turns": turns,
            "free_calls": free_calls,
            "final_state_only": final_state_only,
            "alternative_ground_truths": alternative_ground_truths,
            "ignored_state": ignored_state,
            "long_context": long_context,
        }
        outcome = check_multi_turn(
            row,
            error if result is None else result,
            compat=compat_for(self._compat, category, check),
            simulators=self._padded if long_context is True else self._plain,
            mode=None if self._mode == "auto" else self._mode,
            course=Course(
                calls_made=cast("JSON", calls_made),
                finish_reasons=cast("JSON", finish_reasons),
                forced_quit=forced_quit is True,
                ended_by=ended_by if isinstance(ended_by, str) else None,
            ),
        )
        return scored(_METRIC, outcome)

    def __getstate__(self) -> Mapping[str, object]:
        """Without the simulators' classes and constants, which a copy finds again."""
        return {name: value for name, value in vars(self).items() if name not in ("_plain", "_padded")}

    @cached_property
    def _plain(self) -> Simulators:
        return Simulators(time_limit_s=self._time_limit_s, trust=self._trust)

    @cached_property
    def _padded(self) -> Simulators:
        from tunecheck.episodes._wording import BfclCopy

        constants = BfclCopy(Path(self._data) if self._data else None).long_context
        return Simulators(long_context=constants, time_limit_s=self._time_limit_s, trust=self._trust)


def compat_for(compat: str, category: object, check: object) -> bool:
    """Whether a row is judged as the leaderboard does: always, never, or where category and check make it BFCL's.

    The category alone does for conversations; others have names, such as "multiple", that anybody's data may use.
    """
    if compat != "auto":
        return compat == "bfcl"
    known = CATEGORIES.get(category) if isinstance(category, str) else None
    return known is not None and (known.check == check or (check is None and known.multi_turn))


def scored(metric: str, outcome: RowVerdict) -> Verdict:
    properties = {"error_type": outcome.error_type, "turn": outcome.turn}
    return verdict(
        metric,
        score=None if outcome.valid is None else float(outcome.valid),
        passed=outcome.valid,
        reason=outcome.reason,
        properties={name: value for name, value in properties.items() if value is not None},
        faults=outcome.faults,
        not_applicable=outcome.valid is None,
    )
