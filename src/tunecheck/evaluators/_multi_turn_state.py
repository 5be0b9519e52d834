"""Evaluates whether a conversation's calls left the simulators in the expected states: `MultiTurnStateEvaluator`."""

from collections.abc import Mapping
from functools import cached_property
from inspect import Parameter, Signature
from pathlib import Path
from typing import ClassVar, Literal, TypeAlias, get_args

from tunecheck._describe import one_of
from tunecheck._faults import Verdict, verdict
from tunecheck._trust import Trust
from tunecheck.episodes._dialects import benchmark_of, find_benchmark
from tunecheck.episodes._episode import Episode
from tunecheck.episodes._playing import Services
from tunecheck.episodes._state_check import StateCheck
from tunecheck.evaluators._base import Evaluator, Metric

_METRIC = "multi_turn_state"

STRICT = "strict"

AnyMode: TypeAlias = Literal["auto", "tools", "text"]

MODES: tuple[AnyMode, ...] = get_args(AnyMode)


_EPISODE_COLUMNS = ("calls_made", "finish_reasons", "forced_quit", "ended_by")
_COLUMNS = (
    "result", "ground_truth", "involved_classes", "initial_config", "turns", "long_context", "category", "id", "check",
    "error", *_EPISODE_COLUMNS, "free_calls", "final_state_only", "alternative_ground_truths", "ignored_state",
)  # fmt: skip
_PARAMETERS = [Parameter(name, Parameter.KEYWORD_ONLY, default=None, annotation="object") for name in _COLUMNS]
_SIGNATURE = Signature([Parameter("self", Parameter.POSITIONAL_ONLY), *_PARAMETERS])


class MultiTurnStateEvaluator(Evaluator):
    """After every turn, the model's simulators are in the ground truth's state, and the model got the same results.

    The score is 1.0 if this holds after each turn, else 0.0. The reason is the first difference: the turn, and the path
    of the first different value in the states with both values, or the missing result. `multi_turn_state_properties`
    holds `error_type` (the leaderboard's name of the error), `turn` (from 0), and `state_differences` after that turn,
    each as `[path, expected, found]`. In strict mode, a row with an impossible ground truth is not applicable.

    The columns of a row:
        result: the conversation target's result: the steps by turn, as in BFCL's result files.
        ground_truth: the calls by turn: texts such as `cd(folder='x')` or in any other format.
        involved_classes: the names of the simulators.
        initial_config: the initial configuration of each simulator, by name.
        turns: the messages of each turn, by which invented argument values are found.
        long_context: true if BFCL's constants extend the simulators' data.
        category: BFCL's category, if the row is BFCL's.
        id: the row's id.
        check: "multi_turn"; BFCL's other rows are judged by `call_check` and are not applicable here.
        error: the conversation target's error, if there is no result.
        forced_quit: true if the conversation was ended by force.
        ended_by: the reason of a forced end: `step_limit` or `overflow`.
        calls_made: by turn and step, the texts of the executed calls.
        finish_reasons: by turn and step, the finish reason of the answer.
        free_calls: in strict mode, functions that may also be called in turns without expected calls; "read_only": all
            functions that keep the state right.
        final_state_only: in strict mode, judge only the state after the last turn.
        alternative_ground_truths: in strict mode, other ground truths; following any of them passes.
        ignored_state: in strict mode, paths in the state that are not compared, such as `Shelf.things.book`.

    Args:
        compat: "strict" fails a call in a turn without expected calls and a conversation that was ended by force. A
            benchmark's name ("bfcl") gives the benchmark's own verdicts, gaps included; "auto" does so for the
            benchmark's own rows, and is "strict" for others.
        mode: how the model was prompted, "tools" or "text"; "auto" decides by the result.
        data: the copy of the benchmark with long-context constants, if not in the usual place.
        time_limit_s: seconds after which a call of a simulator is abandoned.
        model: the model's name, which the leaderboard inserts into some calls.

    Raises:
        ConfigurationError: `mode` has another value.
        PluginError: `compat` is neither of these nor an installed benchmark.
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
        """Check the arguments, which the class describes; no simulator is loaded yet."""
        self._compat = compat
        if compat not in ("auto", STRICT):
            find_benchmark(compat)
        self._mode = one_of(mode, MODES, "mode")
        self._data = data
        self._time_limit_s = time_limit_s
        self._model = model

        # Without `model`: it differs between any two models, and runs with other arguments are not compared.
        super().__init__(compat=compat, mode=mode, data=data, time_limit_s=time_limit_s)

    def set_trust(self, trust: Trust) -> None:
        """Set the trust that decides which simulators rows may load; drop the checks made with the former trust."""
        self._trust = trust
        vars(self).pop("_checks", None)

    def __call__(self, **columns: object) -> Verdict:
        """Judge one row; the class describes each column.

        Raises:
            TypeError: a column has a name that the class does not describe.
            ValueError: the ground truth, the simulators' names or the configuration have the wrong form.
            DataError: the long-context constants are needed but missing.
        """
        row = {**dict.fromkeys(_COLUMNS), **_SIGNATURE.bind(self, **columns).kwargs}
        # BFCL's other rows have one question and no state.
        if row["check"] not in (None, "multi_turn"):
            return verdict(_METRIC, not_applicable=True, reason="the row has one question")

        outcome = self._check(row["category"]).check(
            row,
            row["error"] if row["result"] is None else row["result"],
            mode=None if self._mode == "auto" else self._mode,
            model=self._model or "model",
            episode=Episode.of_columns(**{name: row[name] for name in _EPISODE_COLUMNS}),
        )
        return outcome.scored(_METRIC)

    # Frameworks that call evaluators pass only the columns that the signature names.
    __call__.__signature__ = _SIGNATURE  # type: ignore[attr-defined]

    def __getstate__(self) -> Mapping[str, object]:
        """Return the state without the simulators' classes and constants, which a copy loads again."""
        return {name: value for name, value in vars(self).items() if name != "_checks"}

    def _check(self, category: object) -> StateCheck:
        """Return the state check that judges rows of this category, created once for each set of rules.

        With `compat` "auto", a benchmark judges its own rows; the strict check judges all others.
        """
        name, data = self._compat, Path(self._data) if self._data else None
        if name == "auto":
            name = benchmark_of({"category": category, "check": "multi_turn"}) or STRICT

        if name not in self._checks:
            services = Services(data=data, time_limit_s=self._time_limit_s, trust=self._trust)
            benchmark = None if name == STRICT else find_benchmark(name)(data)
            self._checks[name] = StateCheck(services) if benchmark is None else benchmark.state_check(services)
        return self._checks[name]

    @cached_property
    def _checks(self) -> dict[str, StateCheck]:
        """The state checks made so far, by "strict" or the benchmark's name."""
        return {}
