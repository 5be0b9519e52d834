"""Evaluates if a conversation's calls left the simulators in the expected states: `MultiTurnStateEvaluator`."""

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import ClassVar, Literal, TypeAlias, get_args

from tunecheck._describe import one_of
from tunecheck._faults import Verdict, verdict
from tunecheck._trust import Trust
from tunecheck.episodes._benchmark import benchmark_of, find_benchmark
from tunecheck.episodes._episode import Episode
from tunecheck.episodes._playing import Services
from tunecheck.episodes._state_check import StateCheck
from tunecheck.evaluators._base import Evaluator, Metric

_METRIC = "multi_turn_state"

STRICT = "strict"

AnyMode: TypeAlias = Literal["auto", "tools", "text"]

MODES: tuple[AnyMode, ...] = get_args(AnyMode)


class MultiTurnStateEvaluator(Evaluator):
    """After every turn, the model's simulators are in the ground truth's state, and the model got the same results.

    The score is 1.0 if this holds after each turn, else 0.0. The reason is the first difference: the turn, and the path
    of the first different value in the states with both values, or the missing result. `multi_turn_state_properties`
    holds `error_type` (the leaderboard's name of the error), `turn` (from 0), and `state_differences` after that turn,
    each as `[path, expected, found]`. In strict mode, a row with an impossible ground truth is not applicable.

    The columns of a row:
        result: The result of the conversation target: by turn, the steps, as in BFCL's result files.
        ground_truth: By turn, the calls: texts such as `cd(folder='x')` or in any other format.
        involved_classes: The names of the simulators.
        initial_config: By simulator, what it starts from.
        turns: The messages of each turn, in which given values are looked up.
        long_context: Whether the simulators are padded with BFCL's constants.
        category: BFCL's category, for one of its rows.
        id: The row's id.
        check: "multi_turn"; rows of BFCL that hold another word are `call_check`'s, and not applicable here.
        error: The conversation target's error in place of a result.
        forced_quit: Whether the conversation was ended by force.
        ended_by: What ended it: `step_limit` or `overflow`.
        calls_made: By turn and step, the texts of the calls that were made.
        finish_reasons: By turn and step, why the answer ended.
        free_calls: Strictly, functions that may also be called in turns that ask for no call; "read_only": all that
            leave the state as it should be.
        final_state_only: Strictly, judge only the state after the last turn.
        alternative_ground_truths: Strictly, other ground truths; following any of them passes.
        ignored_state: Strictly, paths in the state that are not compared, such as `Shelf.things.book`.

    Args:
        compat: "strict" fails a call in a turn that asks for none and a conversation that was ended by force. A
            benchmark's name ("bfcl") gives its own verdicts, gaps included; "auto" does so for the benchmark's own
            rows, and is "strict" for others.
        mode: how the model was asked, "tools" or "text"; "auto" tells it from the result.
        data: The copy of the benchmark to read long-context constants from, if not the usual one.
        time_limit_s: seconds after which a call of a simulator is abandoned.
        model: The model's name, which the leaderboard mixes into some calls.

    Raises:
        ConfigurationError: `mode` is none of these.
        PluginError: `compat` is none of these, nor an installed benchmark.
    """

    metrics: ClassVar[tuple[Metric, ...]] = (Metric(_METRIC, kind="binary"),)
    primary: ClassVar[str] = _METRIC
    cpu_bound: ClassVar[bool] = True
    _trust: Trust | None = None

    def __init__(
        self,
        *,
        compat: str = "auto",
        mode: AnyMode = "auto",
        data: str | None = None,
        time_limit_s: float = 10,
        model: str | None = None,
    ) -> None:
        self._compat = compat
        if compat not in ("auto", STRICT):
            find_benchmark(compat)
        self._mode = one_of(mode, MODES, "mode")
        self._data = data
        self._time_limit_s = time_limit_s
        self._model = model
        named = {} if model is None else {"model": model}
        super().__init__(compat=compat, mode=mode, data=data, time_limit_s=time_limit_s, **named)

    def entrust(self, trust: Trust) -> None:
        """Set the trust for the rows to judge, which name simulators."""
        self._trust = trust
        vars(self).pop("_checks", None)

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
        """Judge one row; the class describes each column.

        Raises:
            ValueError: the ground truth, the simulators' names or the configuration have the wrong form.
            DataError: the long-context constants are needed but missing.
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
        outcome = self._check(category).check(
            row,
            error if result is None else result,
            mode=None if self._mode == "auto" else self._mode,
            model=self._model or "model",
            episode=Episode.of_columns(
                calls_made=calls_made, finish_reasons=finish_reasons, forced_quit=forced_quit, ended_by=ended_by
            ),
        )
        return outcome.scored(_METRIC)

    def __getstate__(self) -> Mapping[str, object]:
        """Return the state without the simulators' classes and constants, which a copy loads again."""
        return {name: value for name, value in vars(self).items() if name != "_checks"}

    def _check(self, category: object) -> StateCheck:
        """Return the state check for rows of this category; keep it for further rows."""
        name, data = self._compat, Path(self._data) if self._data else None
        if name == "auto":
            name = benchmark_of({"category": category, "check": "multi_turn"}) or STRICT
        if name not in self._checks:
            services = Services(data=data, time_limit_s=self._time_limit_s, trust=self._trust)
            strict = name == STRICT
            self._checks[name] = StateCheck(services) if strict else find_benchmark(name)(data).state_check(services)
        return self._checks[name]

    @cached_property
    def _checks(self) -> dict[str, StateCheck]:
        return {}
