"""Results of comparisons: decisions, metrics, changed rows, and selections among several runs.

Comparison          `compare`: one or more runs against a base
  RunComparison     one run against the base: pairs, metrics, decision
    MetricComparison  one metric: figures, test, verdict, changed rows (RowChange)
    CauseChange     one cause of failure
    Part            the primary metric on a slice
    Decision        ship, keep, undecided or invalid, with its Objections
  History           one metric over all runs
  Selection         `select`: the ranking (Ranked) and each row over all runs (RowsOverRuns)
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from tunecheck._errors import ConfigurationError
from tunecheck._faults import Fault, Side
from tunecheck._files import FORMAT_VERSION
from tunecheck._messages import did_you_mean
from tunecheck.results import Kind, RunInfo
from tunecheck.statistics._results import Estimate, NonInferiority, Result, SmallestDifference

MetricVerdict = Literal["better", "worse", "no difference shown", "too little data", "judges differ"]
"""What a comparison says of a metric."""


class RowChange(Result, frozen=True, kw_only=True):
    """One row of two runs: its numbers (a pass is 1, a fail 0), and why each run failed it.

    `new_id` is the row's id in the new run if the ids differ. `base_faults` and `new_faults` are the faults in each run
    as data, `base_causes` and `new_causes` the codes of the row's causes. `gone` and `come` are the faults in the base
    only and in the new run only, in words.
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
    base_causes: tuple[str, ...] = ()
    new_causes: tuple[str, ...] = ()


class Counts(Result, frozen=True):
    """Counts of a run's rows that an evaluator scored, did not apply to, or failed on."""

    scored: int
    not_applicable: int
    errors: int


class OneSided(Result, frozen=True):
    """Counts of pairs with a number in only one of the runs."""

    base: int = 0
    new: int = 0


class RawFigures(Result, frozen=True):
    """A judge's rates before they are corrected for its errors."""

    base: Estimate
    new: Estimate
    difference: Estimate


class MetricRef(Result, frozen=True):
    """A metric to compare, of the evaluator with this name. Metrics that are not `tested` are only shown."""

    name: str
    key: str
    evaluator: str
    tested: bool


class MetricComparison(MetricRef, frozen=True):
    """One metric of two runs, over the rows with a number in both.

    For an evaluator's main metric, `name` is the evaluator's name, else `<evaluator>.<key>`. `key` is the key in
    metrics.json. `kind` is "binary" if each row, or each trial, passes or fails, else "score" or "count". `b` rows
    passed in the base only, `c` in the new run only; both are None for scores and for shares of trials. Pairs counted
    in `one_sided` are in no figure.

    Only `tested` metrics have a verdict and p-values. `p_value` comes from `test`; `p_adjusted` is Holm-corrected: the
    `primary` metric over all runs by itself, all other metrics of all runs together. If no row changed (`moved` is
    false), the metric does not count in the correction. `non_inferiority` is the test against the margin, None without
    a margin.

    If a model judges, `judge` is how its errors were treated. "corrected": by its calibration, with the uncorrected
    figures in `raw`. "scores": as judged (scores and slices are not corrected). "uncalibrated": the judge has no usable
    calibration. "different": the runs have different judges, so no difference is given.

    `regressed` rows went from pass to fail, `fixed` rows from fail to pass; all their trials agree in each run.
    `changed` rows have another number, or fail for another reason. The trials of `flaky` rows disagree in a run.
    `totals` counts all rows of each list; the lists may be cut.
    """

    kind: Kind
    higher_is_better: bool
    base: Estimate
    new: Estimate
    difference: Estimate
    base_rows: Counts
    new_rows: Counts
    one_sided: OneSided = OneSided()
    p_value: float | None = None
    test: str = "none"
    p_exact: float | None = None
    p_adjusted: float | None = None
    b: int | None = None
    c: int | None = None
    smallest_difference: SmallestDifference | None = None
    non_inferiority: NonInferiority | None = None
    verdict: MetricVerdict | None = None
    why: str = ""
    regressed: tuple[RowChange, ...] = ()
    fixed: tuple[RowChange, ...] = ()
    changed: tuple[RowChange, ...] = ()
    flaky: tuple[RowChange, ...] = ()
    totals: Mapping[str, int] = {}
    judge: Literal["corrected", "scores", "uncalibrated", "different"] | None = None
    raw: RawFigures | None = None
    primary: bool = False
    moved: bool = True

    @property
    def detectable(self) -> float | None:
        """The smallest detectable difference; None if there is none, or if it was not computed."""
        return None if self.smallest_difference is None else self.smallest_difference.value


class CauseChange(Result, frozen=True):
    """The number of paired rows with a cause of failure, in each run and in one run only.

    `side` is the part that has to change, "serving" or "model". `p_value` comes from McNemar's test; `p_adjusted` is
    Holm-corrected over all causes.
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


class Part(Result, frozen=True):
    """A slice of the rows (one value of a column) on one metric, or a plug-in's weighted figure of slices.

    `p_adjusted` is Holm-corrected over the slices of the column; a plug-in's `overall` is tested by itself. If `moved`
    is false, no row changed and the slice does not count in the correction. `verdict` is None if no difference is
    shown. `smallest_difference` is the difference detectable with 80% power, None for weighted figures. `title` is the
    heading of a plug-in's figures. `named` columns are those that the run was grouped by; other columns were found in
    the data.
    """

    column: str
    value: str
    base: Estimate
    new: Estimate
    difference: Estimate
    p_value: float | None
    p_adjusted: float | None = None
    verdict: MetricVerdict | None = None
    moved: bool = True
    smallest_difference: SmallestDifference | None = None
    title: str = ""
    named: bool = True


class Pairs(Result, frozen=True):
    """How two runs' rows were paired.

    `only_in_base` and `only_in_new` have the ids of rows without a partner, `other_content` the ids that both runs have
    with different content. `by_id_alone` is True if contents should have been compared, but could not be. Rows with the
    same value of the column `cluster` form one of the `clusters`.
    """

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


class Objection(Result, frozen=True):
    """Something that a comparison found against a candidate, and its effect on the decision."""

    code: str
    text: str
    effect: Effect = "none"


class Decision(Result, frozen=True, kw_only=True):
    """The decision whether a candidate replaces its base.

    `ship`: the candidate is better (with a margin: worse by less than the margin, if at all), and no objection has an
    effect. `keep`: it is worse, an objection requires it, or the difference is irrelevant. `undecided`: the data do not
    decide. `invalid`: the runs do not measure the same thing. The strongest effect wins: invalid, then keep, then
    undecided.

    `difference` holds the lower limit, the estimate and the upper limit for `metric`, the primary metric. `next` is the
    step that would settle an open decision.
    """

    decision: Choice
    candidate: str
    base: str
    metric: str
    difference: tuple[float | None, float | None, float | None]
    because: tuple[str, ...]
    objections: tuple[Objection, ...] = ()
    next: str | None = None


class RunComparison(Result, frozen=True):
    """One run against the base.

    `causes` are the causes of failed rows, largest growth first. `parts` are slices of the primary metric
    (`part_metric`) by columns of the data. Plug-ins provide `figures` and, by name, `tables` about both runs.
    """

    new: RunInfo
    pairs: Pairs
    metrics: Mapping[str, MetricComparison]
    decision: Decision
    notes: tuple[str, ...] = ()
    causes: tuple[CauseChange, ...] = ()
    tables: Mapping[str, Any] = {}
    part_metric: str = ""
    parts: tuple[Part, ...] = ()
    figures: tuple[Part, ...] = ()

    def metric(self, name: str) -> MetricComparison:
        """Return the metric with this name, or with this key in metrics.json.

        Raises:
            ConfigurationError: no metric has this name.
        """
        for metric in self.metrics.values():
            if name in (metric.name, metric.key):
                return metric
        raise ConfigurationError(f"this comparison has no metric {name!r}{did_you_mean(name, self.metrics)}")

    @property
    def tested(self) -> list[MetricComparison]:
        """The metrics that were tested; each has a verdict."""
        return [metric for metric in self.metrics.values() if metric.tested]


class History(Result, frozen=True):
    """One metric's figure in each run, over the rows with a number in every run."""

    name: str
    kind: Kind
    values: tuple[Estimate, ...]


class Ranked(Result, frozen=True):
    """One run of a selection: its figure, and its difference from the best of the other runs.

    The intervals of all runs' `difference` hold at once. `may_be_best` is True if the run cannot be distinguished from
    the best run.
    """

    run: str
    value: Estimate
    difference: Estimate
    may_be_best: bool


RowHistory = Literal["right", "never right", "fixed", "broken", "back and forth", "flaky"]


class RowOverRuns(Result, frozen=True):
    """One row over all runs.

    `passed` has the share of its trials that passed in each run. `since` is the run that fixed or broke the row.
    """

    row_id: str
    outcome: RowHistory
    passed: tuple[float, ...]
    since: str | None = None


class RowsOverRuns(Result, frozen=True):
    """The history of each row over all runs, by its verdicts on one metric. Only rows in every run are included.

    A row is `right` or `never right` if that holds in every run. `fixed` and `broken` rows changed once and stayed so.
    `back and forth` rows changed more than once. All others are `flaky`: their trials disagree in the last run, in some
    run while all others agree, or while they went back and forth. `counts` includes all rows; `broken_since` counts
    broken rows by the run that broke them. `rows` holds the first rows of each outcome except `right`.
    """

    metric: str
    runs: tuple[str, ...]
    counts: Mapping[RowHistory, int]
    broken_since: Mapping[str, int]
    rows: tuple[RowOverRuns, ...]


class Selection(Result, frozen=True, kw_only=True):
    """The run to ship; the fields are those of `tunecheck select --json`.

    `ranking` has the best run first, over the `rows` with a figure in every run. `decisions` has a decision for each
    candidate against the base. `decision` is the one to act on: that of the highest candidate to ship, else of the
    highest that is undecided, kept or invalid, in this order. `regressed_since` is the best run if the last run is
    shown to be worse. `optimism` is how much the best of three or more runs is overestimated on average if all are
    equally good. `notes` list rows left out and other limits.
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
        """Return the notebook's HTML: the decision, a chart of each run's distance from the best, and the ranking."""
        from tunecheck.comparison._view import selection_view
        from tunecheck.views import html

        return html(selection_view(self))


class Comparison(Result, frozen=True, kw_only=True):
    """One or more runs against a base; the fields are those of `tunecheck compare --out FILE`.

    `against` has one entry per run, in the order given. `decision` is whether to ship. For several runs it is the
    decision of `select`, with the whole selection in `best`. `history` has each tested metric over the base and all
    runs. `metrics`, `pairs` and `notes` are those of the last run. `cluster` is the setting: a column, `none` or None;
    `pairs` has the column that was used. `simulated` is True if a run has simulated answers.
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
    def decided(self) -> RunComparison:
        """The comparison of the run that the decision is about."""
        # The difference tells runs with equal ids apart.
        about = self.decision.candidate, self.decision.difference
        return next(other for other in self.against if (other.new.id, other.decision.difference) == about)

    @property
    def runs(self) -> list[RunInfo]:
        """The base and all runs, in order."""
        return [self.base, *(comparison.new for comparison in self.against)]

    @property
    def metrics(self) -> Mapping[str, MetricComparison]:
        """The metrics of the last run against the base, by name."""
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
        """Return the last run's metric with this name, or with this key in metrics.json.

        Raises:
            ConfigurationError: no metric has this name.
        """
        return self.against[-1].metric(name)

    def _repr_html_(self) -> str:
        """Return the notebook's HTML: the decision, differences as a chart, and the figures."""
        from tunecheck.comparison._view import comparison_view
        from tunecheck.views import html

        return html(comparison_view(self))
