"""Early stopping: evaluate rows in random order until the comparison with the base is decided."""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tunecheck._errors import ConfigurationError, RunError
from tunecheck._files import DecidedMetric, EarlyStop
from tunecheck._json import JSON
from tunecheck._records import Journal
from tunecheck._targets import Row, Target
from tunecheck.comparison._common_metrics import choose_metrics, default_primary
from tunecheck.comparison._measuring import item_values
from tunecheck.comparison._pairing import pair
from tunecheck.pipeline._finished_rows import RESULT, WORDS
from tunecheck.pipeline._plan import RandomOrder
from tunecheck.pipeline._results import RowState
from tunecheck.results import AboutToRun, MetricColumn, RunLike, RunTable, read_runs
from tunecheck.statistics._sequential import EarlyTest, Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """The question of early stopping: is the run better or worse than the base, or at most a margin worse?

    `metrics` are evaluators, or keys of metrics.json; None means the primary metric.
    """

    base: RunLike
    margin: float | None
    metrics: Sequence[str] | None = None
    confidence: float = 0.95
    seed: int = 0
    allow_simulated: bool = False


class Deciding:
    """The decision while a run is in progress."""

    def __init__(self, question: Question, rows: AboutToRun, evaluators: Collection[str], results_dir: Path) -> None:
        """Read the base, and pair it with the rows to be evaluated.

        Raises:
            ConfigurationError: the base cannot be read, lacks a metric or all rows, or a metric has no declared range.
        """
        if rows.dataset.scan().rows is None:
            raise ConfigurationError("until_decided reads rows in random order: give a path, a list or a DataFrame")
        table, asked = read_runs([question.base, rows], results_dir)
        if table.info.simulated and not question.allow_simulated:
            raise _about(table, "its answers are simulated, not a model's: accept them with allow_simulated=True")
        self.question, self.against, self._dataset = question, table.info.id, rows.dataset
        pairing = pair(table, asked)
        base_of = dict(zip(pairing.new, pairing.base, strict=True))
        self._items = range(len(asked.row_ids)) if asked.items.of_row is None else asked.items.of_row
        self._labels = None if asked.clusters is None else asked.clusters.labels
        self._base_items = {row: base_of[item] for row, item in enumerate(self._items) if item in base_of}
        self._tests = [
            _Test(*each, table, question) for each in _choose_metrics(question, table, evaluators, asked.opened.primary)
        ]

    def begin(self, target: Target | None) -> RandomOrder:
        """Begin the tests, and return the rows in random order for this target; rows that the base lacks come last."""
        units: dict[Hashable, list[int]] = {}

        def label(row: Row) -> Hashable:
            """Return the row's label, and add the row to the unit of that label."""
            found = self._label(row, target)
            units.setdefault(found, []).append(row.index)
            return found

        self._order = RandomOrder(self._dataset.rows(), label, self.question.seed, self._enough, self._has_base_row)
        for test in self._tests:
            test.begin([[self._base_items.get(row) for row in unit] for unit in units.values()])
        return self._order

    def finish(self, answered: Iterable[int], journal: Journal) -> EarlyStop:
        """Return the decision; if it stopped the run, record in the journal which rows count and which are left.

        `answered` are the rows that were requested before the run was resumed.
        """
        order, question = self._order, self.question
        asked, judged = order.asked.union(answered), order.judged()
        not_asked = [row.id for row in order.unjudged() if row.index not in asked]
        for test in self._tests if len(judged) == order.total else ():
            test.complete()
        decision = EarlyStop(
            outcome=self.outcome,
            against=self.against,
            margin=question.margin,
            confidence=question.confidence,
            seed=question.seed,
            rows=len(judged),
            of=order.total,
            asked_beyond=order.total - len(judged) - len(not_asked),
            not_asked=len(not_asked),
            metrics=[test.decided() for test in self._tests],
        )
        if decision.stopped:
            journal.stopped(judged, not_asked)
        return decision

    def _label(self, row: Row, target: Target | None) -> Hashable:
        """Return a row's label. Rows share it if they depend on each other or must be requested in sequence."""
        item, column = self._items[row.index], self._dataset.defaults.group_key
        group: JSON = None if target is None else target.group_key(row)
        if group is None and column is not None:
            group = row.values.get(column)
        if group is None and self._labels is not None:
            group = self._labels[item]
        return ("item", item) if group is None else ("group", str(group))

    def _has_base_row(self, unit: Sequence[Row]) -> bool:
        """Return whether the base has any row of the unit."""
        return any(row.index in self._base_items for row in unit)

    def _enough(self, unit: Sequence[RowState]) -> bool:
        """Test a unit of rows that the new run has judged; return whether the comparison is decided now."""
        paired = [(self._base_items[state.row.index], state) for state in unit if state.row.index in self._base_items]
        for test in self._tests:
            test.see(paired)
        return self.outcome != "undecided"

    @property
    def outcome(self) -> Outcome:
        """The outcome of all metrics: worse if any is worse, else undecided if they differ."""
        outcomes = {test.outcome for test in self._tests}
        return "worse" if "worse" in outcomes else "undecided" if len(outcomes) > 1 else outcomes.pop()


def gated_primary(table: RunTable, evaluators: Collection[str], primary: str | None = None) -> str:
    """Return the metric to decide by: the declared `primary`, else the default among the common evaluators.

    Raises:
        ConfigurationError: there is no common evaluator.
    """
    names = [name for name in table.evaluators if name in evaluators and name not in table.opened.derived]
    if not names:
        own = ", ".join(table.evaluators)
        raise _about(table, f"it has none of the evaluators {', '.join(evaluators)}, only {own}")
    return primary if primary in names else default_primary(names, table)


def _choose_metrics(
    question: Question, table: RunTable, evaluators: Collection[str], primary: str | None
) -> Iterator[tuple[str, MetricColumn, tuple[float, float]]]:
    """Yield the name, the base's column and the range of each metric to decide by.

    Raises:
        ConfigurationError: a metric is not of all rows, has no range, or its evaluator is not in the new run.
    """
    names = question.metrics or [gated_primary(table, evaluators, primary or table.opened.primary)]
    for chosen in choose_metrics(table, table, names)[0]:
        if not chosen.tested:
            continue
        if chosen.key not in table.columns:
            raise _about(table, f"early stopping needs a metric of all rows, not of a slice such as {chosen.name}")
        if chosen.evaluator not in evaluators:
            raise _about(table, f"the new run has no evaluator {chosen.evaluator!r}: add it, or name another metric")
        column = table.columns[chosen.key]
        bounds = (0.0, 1.0) if column.kind == "binary" else column.bounds
        if bounds is None:
            raise _about(
                table, f"early stopping needs the lowest and highest value of {chosen.name}, which are not declared"
            )
        yield chosen.name, column, bounds


def _about(table: RunTable, what: str) -> ConfigurationError:
    return ConfigurationError(f"the base {table.info.id}: {what}")


class _Test:
    """One metric with its test and the base's number of each item; scores are scaled to 0 to 1, higher is better."""

    _test: EarlyTest

    def __init__(
        self, name: str, column: MetricColumn, bounds: tuple[float, float], table: RunTable, question: Question
    ) -> None:
        """Read the base's numbers of a metric with this range; refuse a margin that covers the whole range."""
        self.name, self.column = name, column
        self.outcome: Outcome = "undecided"
        self._pairs, self._values = 0, item_values(table, column.name)
        self._low, self._range = bounds[0], bounds[1] - bounds[0]
        self._confidence, margin = question.confidence, question.margin
        if margin is not None and margin >= self._range:
            raise _about(table, f"the margin {margin:g} covers the whole range of {name}: give a smaller one")
        self._margin = None if margin is None else margin / self._range

    def begin(self, units: Sequence[Sequence[int | None]]) -> None:
        """Create the test for units of dependent rows; each unit lists the base's items, None for rows it lacks."""
        known = [score for unit in units for item in unit if (score := self.base_score(item)) is not None]
        total = sum(any(self.base_score(item) is not None for item in unit) for unit in units)
        # A mean over several rows is no verdict, even if each row passes or fails.
        is_verdict = self.column.passes == self.column.name and all(score in (0, 1) for score in known)
        verdicts = is_verdict and max(map(len, units)) == 1
        self._test = EarlyTest(self._margin, self._confidence, total, verdicts=verdicts)

    def base_score(self, item: int | None) -> float | None:
        """Return the base's score of an item, from 0 to 1; None if it has none."""
        value = math.nan if item is None else float(self._values[item])
        return None if math.isnan(value) else self._score(value)

    def _score(self, value: float) -> float:
        """Return a number scaled to 0 to 1, so that higher is better."""
        scaled = (value - self._low) / self._range
        return scaled if self.column.higher_is_better else 1 - scaled

    def see(self, unit: Sequence[tuple[int, RowState]]) -> None:
        """Pass a unit to the test as one pair: the means over its rows with a number in both runs."""
        before = [(self.base_score(item), state) for item, state in unit]
        both = [(old, new) for old, state in before if old is not None and (new := self._new_score(state)) is not None]
        if not both:
            if any(old is not None for old, _ in before):
                self._test.skip()
            return
        outcome = self._test.see(*(math.fsum(side) / len(both) for side in zip(*both, strict=True)))
        if self.outcome == "undecided":
            self.outcome, self._pairs = outcome, self._test.pairs

    def _new_score(self, state: RowState) -> float | None:
        """Return the new run's score of a row, from 0 to 1; None if the evaluator failed or does not apply.

        Raises:
            RunError: the number is outside the metric's declared range.
        """
        column = self.column
        output = state.outputs.get(column.evaluator)
        if output is None or column.evaluator in state.errors:
            return None
        if column.passes == column.name:
            word = WORDS.get(str(output.get(f"{column.metric}{RESULT}")))
            return {"pass": 1.0, "fail": 0.0}.get(word or "")
        value = output.get(column.name.removeprefix(f"{column.evaluator}."))
        if not isinstance(value, (int, float)) or math.isnan(value):
            return None
        score = self._score(value)
        if not 0 <= score <= 1:
            raise RunError(f"row {state.row.id}: {self.name} is {value!r}, outside its declared range: correct either")
        return score

    def complete(self) -> None:
        """Decide from all rows if the outcome is still undecided."""
        if self.outcome == "undecided":
            self.outcome, self._pairs = self._test.complete(), self._test.pairs

    def decided(self) -> DecidedMetric:
        """Return the outcome with its figures in the metric's own unit and direction."""
        test, up = self._test, self.column.higher_is_better
        interval = test.interval()
        means: tuple[float | None, float | None] = (None, None)
        if test.pairs:
            base, new = (self._low + self._range * (mean if up else 1 - mean) for mean in test.means)
            means = base, new
        ends = (interval.low, interval.high) if up else (_minus(interval.high), _minus(interval.low))
        value = interval.value if up else _minus(interval.value)
        difference, low, high = (None if each is None else each * self._range for each in (value, *ends))
        return DecidedMetric(
            name=self.name,
            key=self.column.name,
            kind=self.column.kind,
            outcome=self.outcome,
            pairs=self._pairs,
            base=means[0],
            new=means[1],
            difference=difference,
            low=low,
            high=high,
            p_value=test.p_value() if test.pairs else 1.0,
        )


def _minus(value: float | None) -> float | None:
    return None if value is None else -value
