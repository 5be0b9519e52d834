"""The result of a comparison: decisions, metrics, the rows behind them, and all runs together."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from tunecheck._errors import ConfigurationError
from tunecheck._faults import Fault, Side
from tunecheck._files import FORMAT_VERSION
from tunecheck._json import JSON
from tunecheck._messages import did_you_mean
from tunecheck.comparison._verdicts import Verdict
from tunecheck.results import Kind, RunInfo
from tunecheck.statistics._results import Estimate, NonInferiority, Result, SmallestDifference


@dataclass(frozen=True, slots=True, kw_only=True)
class RowChange(Result):
    """One row of two runs: its numbers (a pass is 1, a fail 0), and why each run failed it.

    `new_id` is the row's id in the new run, where that is another one. `base_faults` and `new_faults` are what is wrong
    in each run, as data; `gone` and `come` what is wrong in the one or the other only, in words.
    """

    row_id: str
    new_id: str | None = None
    base: float
    new: float
    base_reason: str | None = None
    new_reason: str | None = None
    gone: tuple[str, ...] = ()
    come: tuple[str, ...] = ()
    base_faults: tuple[Fault, ...] = ()
    new_faults: tuple[Fault, ...] = ()


@dataclass(frozen=True, slots=True)
class Counts(Result):
    """Rows of a run by what an evaluator did: scored them, did not apply to them, or failed."""

    scored: int
    not_applicable: int
    errors: int


@dataclass(frozen=True, slots=True)
class OneSided(Result):
    """Pairs that only one of the runs has a number for."""

    base: int = 0
    new: int = 0


@dataclass(frozen=True, slots=True)
class RawFigures(Result):
    """A judge's rates before they are corrected for its errors."""

    base: Estimate
    new: Estimate
    difference: Estimate


@dataclass(frozen=True, slots=True)
class MetricComparison(Result):
    """One metric of two runs, over the rows that both have a number for.

    `name` is the evaluator's for its main metric, else `<evaluator>.<key>`; `key` is the metric's key in metrics.json.
    `kind` is "binary" where each row, or each trial of it, passes or fails, else "score" or "count". Only where
    `tested` is there a verdict with p-values: `p_value` is that of `test`, `p_adjusted` the same after Holm's
    correction: over the runs of the `primary` metric, which is tested by itself, or over all other metrics of all runs.
    If no row `moved`, the metric is not a test and does not count in the correction. `b` rows passed in the base only,
    `c` in the new run only; None for scores, and for shares of trials. No figure counts the pairs of `one_sided`.
    `non_inferiority` says whether the new run is shown to be worse by less than the margin; None without a margin.

    If a model judges, `judge` says how its errors were treated: figures are `corrected` by its calibration (those of
    its verdicts are `raw`), `scores` are not, it is `uncalibrated`, or the runs have `different` judges, and no figure
    of a difference.

    `regressed` and `fixed` rows went from pass to fail and back: all their trials passed in one run and none in the
    other. `changed` rows have another number, or fail for another reason. The trials of `flaky` rows disagree in one of
    the runs. `totals` counts all of them; the lists may hold the first only.
    """

    name: str
    key: str
    evaluator: str
    kind: Kind
    higher_is_better: bool
    tested: bool
    base: Estimate
    new: Estimate
    difference: Estimate
    base_rows: Counts
    new_rows: Counts
    one_sided: OneSided = OneSided()
    p_value: float | None = None
    test: str = "none"
    p_exact: float | None = None
    p_mid: float | None = None
    p_adjusted: float | None = None
    b: int | None = None
    c: int | None = None
    smallest_difference: SmallestDifference | None = None
    non_inferiority: NonInferiority | None = None
    verdict: Verdict | None = None
    why: str = ""
    regressed: tuple[RowChange, ...] = ()
    fixed: tuple[RowChange, ...] = ()
    changed: tuple[RowChange, ...] = ()
    flaky: tuple[RowChange, ...] = ()
    totals: Mapping[str, int] = field(default_factory=dict)
    judge: Literal["corrected", "scores", "uncalibrated", "different"] | None = None
    raw: RawFigures | None = None
    primary: bool = False
    moved: bool = True


@dataclass(frozen=True, slots=True)
class CauseChange(Result):
    """One cause in two runs, over the paired rows: how many have it in each, and how many in the one only.

    `side` is "serving" or "model": what has to change. `p_value` is McNemar's, `p_adjusted` the same after Holm's
    correction over all causes.
    """

    cause: str
    title: str
    side: Side
    base: int
    new: int
    only_base: int
    only_new: int
    p_value: float
    p_adjusted: float


@dataclass(frozen=True, slots=True)
class Part(Result):
    """A part of the rows, those with one value of a column, on one metric; or a figure that weighs parts.

    `p_adjusted` is after Holm's correction over the parts of its column, but for `overall`, which is tested by itself.
    If `moved` is false, no row changed and the part is not a test. `verdict` is None if no difference is shown.
    `smallest_difference` is what these rows would show with 80% power, None for figures that weigh parts. `title`
    heads the parts that a plug-in computes. A column is `named` if the run was grouped by it; the others were found in
    the data.
    """

    column: str
    value: str
    base: Estimate
    new: Estimate
    difference: Estimate
    p_value: float | None
    p_adjusted: float | None = None
    verdict: Verdict | None = None
    moved: bool = True
    smallest_difference: SmallestDifference | None = None
    title: str = ""
    named: bool = True


@dataclass(frozen=True, slots=True)
class Pairs(Result):
    """How two runs' rows were paired; the others are named. `cluster` is what rows of one of the `clusters` share."""

    paired: int
    by_content: int
    by_id_alone: bool
    only_in_base: tuple[str, ...]
    only_in_new: tuple[str, ...]
    other_content: tuple[str, ...]
    clusters: int | None = None
    cluster: str | None = None


Choice = Literal["ship", "keep", "undecided", "invalid"]
Effect = Literal["invalid", "keep", "undecided", "none"]


@dataclass(frozen=True, slots=True)
class Objection(Result):
    """Something that a comparison found against a candidate, and its effect on the decision."""

    code: str
    text: str
    effect: Effect = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision(Result):
    """Whether a candidate replaces its base.

    `ship`: the candidate is better (with a margin: at most that much worse), and no objection has an effect. `keep`: it
    is worse, an objection says so, or no relevant difference exists. `undecided`: the data cannot tell. `invalid`: the
    runs do not measure the same thing. The strongest effect wins: invalid, then keep, then undecided.

    `difference` holds the lower limit, the estimate and the upper limit of `metric`, the primary one. `next` says what
    would settle an open decision.
    """

    decision: Choice
    candidate: str
    base: str
    metric: str
    difference: tuple[float | None, float | None, float | None]
    because: tuple[str, ...]
    objections: tuple[Objection, ...] = ()
    next: str | None = None


@dataclass(frozen=True, slots=True)
class RunComparison(Result):
    """One run against the base; `causes` of failed rows, those that grew most first.

    `parts` say where the primary metric (`part_metric`) differs, by columns of the data. `figures` and `tables` (by
    name) are what plug-ins say of both runs.
    """

    new: RunInfo
    pairs: Pairs
    metrics: Mapping[str, MetricComparison]
    decision: Decision
    notes: tuple[str, ...] = ()
    causes: tuple[CauseChange, ...] = ()
    tables: Mapping[str, Any] = field(default_factory=dict)
    part_metric: str = ""
    parts: tuple[Part, ...] = ()
    figures: tuple[Part, ...] = ()

    def metric(self, name: str) -> MetricComparison:
        """A metric by its name, or by its key in metrics.json.

        Raises:
            ConfigurationError: there is none of that name.
        """
        for each in self.metrics.values():
            if name in (each.name, each.key):
                return each
        raise ConfigurationError(f"no metric {name!r} was compared{did_you_mean(name, self.metrics)}")

    @property
    def tested(self) -> list[MetricComparison]:
        """The metrics with a verdict."""
        return [each for each in self.metrics.values() if each.tested]


@dataclass(frozen=True, slots=True)
class History(Result):
    """One metric over all runs, over the rows that every run has a number for."""

    name: str
    kind: Kind
    values: tuple[Estimate, ...]


@dataclass(frozen=True, slots=True)
class Ranked(Result):
    """One run of a selection: its figure, and how far it is from the best of the other runs.

    `difference` has a simultaneous interval: the intervals of all runs hold at once. A run that cannot be told from the
    best one `may_be_best`.
    """

    run: str
    value: Estimate
    difference: Estimate
    may_be_best: bool


RowHistory = Literal["right", "never right", "fixed", "broken", "back and forth", "flaky"]


@dataclass(frozen=True, slots=True)
class RowOverRuns(Result):
    """One row over all runs: the share of its trials that passed in each; `since` is the run that fixed or broke it."""

    row_id: str
    outcome: RowHistory
    passed: tuple[float, ...]
    since: str | None = None


@dataclass(frozen=True, slots=True)
class RowsOverRuns(Result):
    """The history of each row over all runs, by its verdicts on one metric. Every run has these rows.

    `right` and `never right` are so in every run. `fixed` and `broken` went to the other side once and stayed there.
    `back and forth` changed more than once. `flaky` are all others: their trials disagree in the last run, or in some
    run while all others agree, or while they went back and forth. `counts` is complete; `broken_since` counts by the
    run that broke them. `rows` holds the first of those that are not right.
    """

    metric: str
    runs: tuple[str, ...]
    counts: Mapping[RowHistory, int]
    broken_since: Mapping[str, int]
    rows: tuple[RowOverRuns, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection(Result):
    """Which run to ship: `ranking` has the best first, over the `rows` that every run has a figure for.

    `decisions` holds every candidate against the base, `decision` the one to act on: the highest candidate that ships,
    else the highest one that is undecided, kept or invalid, in this order. `regressed_since` is the best run if the
    last one is shown to be worse. `optimism` is how much too good the best of three or more runs looks on average if
    all are equal. `notes` say what is left out. Its fields are those of `tunecheck select --json`.
    """

    format_version: int = FORMAT_VERSION
    decision: Decision
    decisions: tuple[Decision, ...]
    regressed_since: str | None
    metric: str
    kind: Kind
    higher_is_better: bool
    rows: int
    clusters: int | None
    cluster: str | None
    confidence: float
    base: str
    ranking: tuple[Ranked, ...]
    rows_over_runs: RowsOverRuns | None = None
    optimism: float | None = None
    notes: tuple[str, ...] = ()
    simulated: bool = False

    def _repr_html_(self) -> str:
        """How a notebook shows it: the sentence, how far each run is from the best as a chart, and the ranking."""
        from tunecheck.comparison._view import selection_view
        from tunecheck.views import html

        return html(selection_view(self))

    def to_json(self) -> dict[str, JSON]:
        """Everything, as plain JSON values."""
        return self.as_json()


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison(Result):
    """One or more runs against a base: `against` has one entry a run, in the order given.

    `decision` says whether to ship: of several runs, what `select` says of them, which `best` holds. `history` follows
    each tested metric over the base and all runs.
    `metrics`, `pairs` and `notes` are those of the last run. `cluster` is what was asked for: a column, `none`, or
    None: see `pairs` for what was taken. `simulated` is whether some run asked no model. Its fields are those of
    `tunecheck compare --out FILE`.
    """

    format_version: int = FORMAT_VERSION
    base: RunInfo
    decision: Decision
    against: Sequence[RunComparison]
    history: Sequence[History]
    best: Selection | None = None
    confidence: float
    margin: float | None = None
    cluster: str | None = None
    simulated: bool = False

    @property
    def new(self) -> RunInfo:
        """The last run."""
        return self.against[-1].new

    @property
    def runs(self) -> list[RunInfo]:
        """The base and all runs, in order."""
        return [self.base, *(each.new for each in self.against)]

    @property
    def metrics(self) -> Mapping[str, MetricComparison]:
        """The last run's metrics against the base, by name."""
        return self.against[-1].metrics

    @property
    def pairs(self) -> Pairs:
        """How the last run's rows were paired with the base's."""
        return self.against[-1].pairs

    @property
    def notes(self) -> tuple[str, ...]:
        """Remarks on the last run's comparison."""
        return self.against[-1].notes

    def metric(self, name: str) -> MetricComparison:
        """A metric of the last run by its name, or by its key in metrics.json.

        Raises:
            ConfigurationError: there is none of that name.
        """
        return self.against[-1].metric(name)

    def _repr_html_(self) -> str:
        """Return the notebook's HTML: the decision, differences as a chart, and the figures."""
        from tunecheck.comparison._view import comparison_view
        from tunecheck.views import html

        return html(comparison_view(self))

    def to_json(self) -> dict[str, JSON]:
        """Everything, as plain JSON values."""
        return self.as_json()
