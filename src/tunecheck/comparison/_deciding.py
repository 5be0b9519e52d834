"""Early stopping: evaluate rows in random order until the comparison with a base run is decided.

A run (`evaluation._execution`) makes an `EarlyStopping` before it starts, evaluates rows in the order that `begin`
returns, and writes the `EarlyStop` that `finish` returns to run.json.

An item is a row of the data with all its trials; a unit is a group of rows that depend on each other. Each unit adds
one pair of scores, the base's and the new run's, to the test of every metric. The run stops if one metric is worse, or
if all metrics have the same outcome (`EarlyStopping._outcome`).

Rows belong to one unit if they share the first of these that is known: the group of the target (such as a
conversation), the value of the data's group key, the cluster, the item.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tunecheck._errors import ConfigurationError, RunError
from tunecheck._files import DecidedMetric, EarlyStop, Stopped
from tunecheck._json import JSON
from tunecheck._messages import ALLOW_SIMULATED
from tunecheck._records import Journal
from tunecheck._targets import Row, Target
from tunecheck.comparison._measuring import ComparisonSettings, choose_metrics, default_primary, item_values
from tunecheck.comparison._pairs import pair
from tunecheck.pipeline._finished_rows import RESULT, WORDS
from tunecheck.pipeline._plan import RandomOrder
from tunecheck.pipeline._results import RowState
from tunecheck.results import AboutToRun, MetricColumn, RunLike, RunTable, read_runs
from tunecheck.statistics._sequential import EarlyTest, Outcome


class EarlyStopping:
    """The decision whether a run is better or worse than its base, or at most a margin worse, while it is in progress.

    The settings' metrics decide, by default the primary metric.
    """

    def __init__(
        self, base: RunLike, settings: ComparisonSettings, rows: AboutToRun, evaluators: Sequence[str], folder: Path
    ) -> None:
        """Read the base and pair it with the rows to be evaluated; `folder` is the folder of runs.

        Raises:
            ConfigurationError: the base cannot be read, is simulated, or shares no row with the data, or a metric
                cannot decide, for example without a declared range.
        """
        # `rows` is read like a run that has no answers yet, so its rows have the ids and contents of a run.
        table, new = read_runs([base, rows], folder)
        if table.info.simulated and not settings.allow_simulated:
            raise _refusal(table, f"its answers are simulated, not a model's: accept them with {ALLOW_SIMULATED}")

        self._settings, self._base_id, self._dataset = settings, table.info.id, rows.dataset
        # The item of each row: without several trials, every row is an item.
        self._items = range(len(new.row_ids)) if new.items.of_row is None else new.items.of_row
        self._clusters = None if new.clusters is None else new.clusters.labels

        pairing = pair(table, new)
        # Each row of the run gets the base's item that is paired with the row's item. A row that the base lacks has no
        # entry.
        base_item_of = dict(zip(pairing.new, pairing.base, strict=True))
        self._base_items = {row: base_item_of[item] for row, item in enumerate(self._items) if item in base_item_of}

        self._tests = _tests(settings, table, evaluators, new.opened.primary)

    def begin(self, target: Target | None) -> RandomOrder:
        """Begin the tests, and return the rows in random order for this target; rows that the base lacks come last.

        The order passes each evaluated unit to the tests, until they have decided.
        """
        self._order = RandomOrder(
            self._dataset.rows(),
            label=lambda row: self._unit_label(row, target),
            seed=self._settings.seed,
            enough=self._add_unit,
            is_useful=lambda unit: any(row.index in self._base_items for row in unit),
        )

        # The tests need to know beforehand how many pairs the complete run has.
        units = [[self._base_items.get(row.index) for row in unit] for unit in self._order.units]
        for test in self._tests:
            test.begin(units)

        return self._order

    def _unit_label(self, row: Row, target: Target | None) -> Hashable:
        """Return a row's label. Rows share it if they depend on each other or must be requested in sequence.

        It is the row's group by the `target` (None: no endpoint answers), else by the data's group key, else its
        cluster, else its item.
        """
        item, column = self._items[row.index], self._dataset.defaults.group_key
        group: JSON = None if target is None else target.group_key(row)

        if group is None and column is not None:
            group = row.values.get(column)
        if group is None and self._clusters is not None:
            group = self._clusters[item]

        # The first part of the label keeps an item's number apart from a group of the same name.
        return ("item", item) if group is None else ("group", str(group))

    def _add_unit(self, unit: Sequence[RowState]) -> bool:
        """Pass a unit of evaluated rows to the tests; return whether the comparison is decided now.

        Raises:
            RunError: a number is outside its metric's declared range.
        """
        # Rows that the base lacks are evaluated, too, but add nothing to the tests.
        paired = [(self._base_items[state.row.index], state) for state in unit if state.row.index in self._base_items]
        for test in self._tests:
            test.add_unit(paired)
        return self._outcome() != "undecided"

    def _outcome(self) -> Outcome:
        """Return the outcome of all metrics: worse if any is worse, else undecided if they differ."""
        outcomes = {test.outcome for test in self._tests}
        # One metric that is worse is enough to stop: the run would be kept back anyway.
        if "worse" in outcomes:
            return "worse"
        return outcomes.pop() if len(outcomes) == 1 else "undecided"

    def finish(self, answered: Iterable[int], journal: Journal) -> EarlyStop:
        """Return the decision; if it stopped the run, journal which rows count, and which were never requested.

        `answered` has the numbers of the rows that were requested before the run was resumed.
        """
        order, settings = self._order, self._settings
        # Rows that were sent before the decision may have finished after it. They are recorded, but do not count.
        requested = order.asked.union(answered)

        judged = order.judged()
        not_requested = [row.id for row in order.unjudged() if row.index not in requested]

        # If all rows are evaluated, a test that is still undecided decides from the complete run.
        if len(judged) == order.total:
            for test in self._tests:
                test.complete()

        decision = EarlyStop(
            outcome=self._outcome(),
            against=self._base_id,
            margin=settings.margin,
            confidence=settings.confidence,
            seed=settings.seed,
            rows=len(judged),
            of=order.total,
            asked_beyond=order.total - len(judged) - len(not_requested),
            not_asked=len(not_requested),
            # The figures of every test, also of those that were not decided.
            metrics=[test.decided_metric() for test in self._tests],
        )

        if decision.stopped:
            journal.append(Stopped(judged, not_requested))
        return decision


def gated_primary(base: RunTable, evaluators: Collection[str], primary: str | None = None) -> str:
    """Return the evaluator to decide by: `primary` if the base and the new run have it, else their default one.

    Raises:
        ConfigurationError: there is no common evaluator.
    """
    # Derived evaluators have their verdicts only after the run.
    common = [name for name in base.evaluators if name in evaluators and name not in base.opened.derived]
    if not common:
        wanted, own = ", ".join(evaluators), ", ".join(base.evaluators)
        advice = f"score it with `tunecheck score {base.info.id} --evaluators NAME`, and use the new run as the base"
        raise _refusal(base, f"it has no verdict of {wanted} (only of: {own or 'none'}): {advice}")
    return primary if primary in common else default_primary(common, base)


def _tests(
    settings: ComparisonSettings, base: RunTable, evaluators: Collection[str], primary: str | None
) -> list[_MetricTest]:
    """Return a test for each named metric; without any, for the primary metric of the data (`primary`) or of the base.

    Raises:
        ConfigurationError: a metric is not of all rows, has no range, or its evaluator is not in the new run; or the
            margin covers the whole range.
    """
    tests = []
    names = settings.named or [gated_primary(base, evaluators, primary or base.opened.primary)]

    # The base stands for both runs: the new run has no columns before it has rows.
    chosen_metrics, _ = choose_metrics(base, base, names)
    for chosen in (metric for metric in chosen_metrics if metric.tested):
        name, margin = chosen.name, settings.margin
        if chosen.key not in base.columns:
            raise ConfigurationError(f"{name} covers a slice and cannot stop a run early: name a metric of all rows")
        if chosen.evaluator not in evaluators:
            raise ConfigurationError(f"{name} needs evaluator {chosen.evaluator}: add it, or name another metric")

        # The tests need scores from 0 to 1, so a metric without a range cannot decide.
        column = base.columns[chosen.key]
        bounds = (0.0, 1.0) if column.kind == "binary" else column.bounds
        if bounds is None:
            advice = "declare the metric's range in the evaluator, or name another metric"
            raise ConfigurationError(f"{name} has no declared range, so it cannot stop a run early: {advice}")

        worst, best = bounds if column.higher_is_better else bounds[::-1]
        if margin is not None and margin >= abs(best - worst):
            raise ConfigurationError(f"the margin {margin:g} covers the whole range of {name}: give a smaller margin")
        base_scores = (item_values(base, column.name) - worst) / (best - worst)
        tests.append(_MetricTest(name, column, base_scores.tolist(), worst, best - worst, settings))

    return tests


def _refusal(base: RunTable, problem: str) -> ConfigurationError:
    """Return the error for a problem with the base run."""
    return ConfigurationError(f"run {base.info.id} cannot be the base: {problem}")


@dataclass
class _MetricTest:
    """The test of one metric, with the base's score of each item; NaN if it has none.

    Scores range from 0 (the worst value) to 1; `span` is the best value less the worst one. `outcome` is final once it
    is no longer undecided, although later units still add to the figures.

    Example: for marks from 1 to 5, lower is better, `worst` is 5 and `span` −4. The mark 2 has the score 0.75.
    """

    name: str
    column: MetricColumn
    base_scores: Sequence[float]
    worst: float
    span: float
    settings: ComparisonSettings
    outcome: Outcome = "undecided"
    pairs_at_outcome: int = 0
    test: EarlyTest = field(init=False)  # `begin` sets it

    @property
    def _has_verdicts(self) -> bool:
        """True if the metric's numbers are verdicts: 1 for a pass, 0 for a fail."""
        return self.column.passes == self.column.name

    def begin(self, units: Sequence[Sequence[int | None]]) -> None:
        """Create the test for all units of the run; each unit lists the base's items, None for rows that it lacks."""
        known = [[item for item in unit if item is not None and self._has_score(item)] for unit in units]
        # The number of pairs of the complete run: one for each unit in which the base has a score.
        total = sum(map(bool, known))

        # The mean of several rows lies between pass and fail, even if each row passes or fails.
        single_rows = max(map(len, units)) == 1
        verdicts = self._has_verdicts and single_rows
        verdicts = verdicts and all(self.base_scores[item] in (0, 1) for unit in known for item in unit)

        margin = None if self.settings.margin is None else self.settings.margin / abs(self.span)
        self.test = EarlyTest(margin, self.settings.confidence, total, verdicts=verdicts)

    def add_unit(self, unit: Sequence[tuple[int, RowState]]) -> None:
        """Add one pair to the test: the mean scores of a unit in the base and in the new run.

        `unit` has the base's item of each row, and the row as the new run evaluated it. The means are over the rows
        with a score in both runs. A unit without such rows is no pair.

        Raises:
            RunError: a number is outside the metric's declared range.
        """
        with_base = [(self.base_scores[item], self._new_score(state)) for item, state in unit if self._has_score(item)]
        pairs = [(base, new) for base, new in with_base if new is not None]

        # A pair has the mean of the same rows on both sides; otherwise rows that one side lacks would be a difference.
        if pairs:
            base, new = (math.fsum(scores) / len(pairs) for scores in zip(*pairs, strict=True))
            self._settle(self.test.see(base, new))
        elif with_base:
            self.test.skip()  # `begin` counted a pair for this unit

    def _has_score(self, item: int) -> bool:
        """Return True if the base has a score of this item."""
        return not math.isnan(self.base_scores[item])

    def _new_score(self, state: RowState) -> float | None:
        """Return the new run's score of a row, from 0 to 1; None if the evaluator failed or gave no verdict or number.

        Raises:
            RunError: the number is outside the metric's declared range.
        """
        column = self.column
        output = state.outputs.get(column.evaluator)
        if output is None or column.evaluator in state.errors:
            return None

        # The verdict comes from `<metric>_result`, as in a finished run.
        if self._has_verdicts:
            word = WORDS.get(str(output.get(f"{column.metric}{RESULT}")))
            return {"pass": 1.0, "fail": 0.0}.get(word or "")

        value = output.get(column.name.removeprefix(f"{column.evaluator}."))
        if not isinstance(value, (int, float)) or math.isnan(value):
            return None

        score = (value - self.worst) / self.span
        if not 0 <= score <= 1:
            problem = f"{self.name} is {value!r}, outside of its declared range"
            raise RunError(f"row {state.row.id}: {problem}: correct the evaluator")
        return score

    def complete(self) -> None:
        """Decide from all rows if the outcome is still undecided."""
        if self.outcome == "undecided":
            self._settle(self.test.complete())

    def _settle(self, outcome: Outcome) -> None:
        """Take the test's outcome and its number of pairs, unless an earlier outcome is final."""
        # Units in flight add to the figures after the decision, but cannot revise it.
        if self.outcome == "undecided":
            self.outcome, self.pairs_at_outcome = outcome, self.test.pairs

    def decided_metric(self) -> DecidedMetric:
        """Return the outcome with its figures on the metric's own scale."""
        test, interval, span = self.test, self.test.interval(), self.span
        base = new = None
        if test.pairs:
            base, new = (self.worst + span * mean for mean in test.means)

        # With lower values as better, the ends of the interval change places.
        low, high = (interval.low, interval.high) if span > 0 else (interval.high, interval.low)
        difference, low, high = (None if score is None else score * span for score in (interval.value, low, high))

        return DecidedMetric(
            name=self.name,
            key=self.column.name,
            kind=self.column.kind,
            outcome=self.outcome,
            pairs=self.pairs_at_outcome,
            base=base,
            new=new,
            difference=difference,
            low=low,
            high=high,
            p_value=test.p_value() if test.pairs else 1.0,
        )
