"""Build the table of all rows, column by column, and compute the numbers of the charts from its columns.

The page filters, sorts and searches the table without opening a row. `report._writing` adds each row to a `RowIndex`
and writes the index and its `charts` to the page.

Values that repeat are stored once, and each row has only their codes. Example: the kinds call, text, call are
`{"values": ["call", "text"], "rows": [0, 1, 0]}`. Results have one letter per row, such as `ppfn`.
"""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from tunecheck._faults import cause_named, causes
from tunecheck._json import JSON, dumps, loads, object_or_empty
from tunecheck.comparison._pairs import tags_of
from tunecheck.pipeline._costs import cost_text
from tunecheck.pipeline._finished_rows import errors_of, fault_groups
from tunecheck.report._calls import SERVING_FAULT
from tunecheck.report._details import Details
from tunecheck.report._page import cut, line
from tunecheck.report._reading import Columns, Evaluated, ReportedRun
from tunecheck.results import PASS_RATE, State
from tunecheck.results._building import number_of
from tunecheck.statistics._results import wilson

MOST_ROWS = 100_000
"""The most rows that a page lists; its summary and charts cover all rows."""

PASS, FAIL, NOT_APPLICABLE, SCORED, ERROR, ABSENT = "p", "f", "n", "s", "e", "-"
"""The result of a row. SCORED: a number without pass or fail. ABSENT: the run has no such row."""

_LETTERS = {State.SCORED: SCORED, State.NOT_APPLICABLE: NOT_APPLICABLE, State.ERROR: ERROR, State.ABSENT: ERROR}
_MOST_VALUES = 1_000  # different values of a column that can be filtered
_OTHERS = "(others)"
_MOST_REASON = 200  # characters of the text that explains a failed row in the table


class Coded(msgspec.Struct):
    """A column with few different values.

    `values` has each value once; its place is its code. `rows` has for each row a code, a list of codes, or None.
    """

    values: list[str] = []
    rows: list[JSON] = []
    _codes: dict[str, int] = {}

    def add(self, values: Iterable[str]) -> None:
        """Add a row with any number of values.

        One value is stored as its code, several as a list of codes, and no value as None.
        """
        codes: list[JSON] = [*dict.fromkeys(map(self._code, values))]
        self.rows.append(codes[0] if len(codes) == 1 else codes or None)

    def _code(self, value: str) -> int:
        """Return the code of a value; after 1,000 different values, all new ones share one code."""
        if value not in self._codes and len(self.values) >= _MOST_VALUES:
            # The page can filter by each value, so a column of free text must not fill it.
            value = _OTHERS
        if value not in self._codes:
            self._codes[value] = len(self.values)
            self.values.append(value)
        return self._codes[value]

    def rows_by_value(self) -> list[list[int]]:
        """Return for each value the numbers of the rows that have it."""
        rows: list[list[int]] = [[] for _ in self.values]
        for row, codes in enumerate(self.rows):
            if codes is not None:
                for code in codes if isinstance(codes, list) else [codes]:
                    rows[code].append(row)  # type: ignore[index]  # `add` keeps numbers
        return rows

    def as_json(self) -> JSON:
        """Return all values, and the first rows, as the page reads them."""
        return {"values": [*self.values], "rows": self.rows[:MOST_ROWS]}


class Outcomes(msgspec.Struct, frozen=True):
    """An evaluator's outcome for each row: `results` has a letter per row, `scores` numbers of a metric (or NaN)."""

    results: str
    scores: Sequence[float] | None

    def as_json(self) -> dict[str, JSON]:
        """Return the first rows for the page: results as one text, and numbers, or null without a graded metric."""
        scores = None if self.scores is None else round_numbers(self.scores)
        return {"results": self.results[:MOST_ROWS], "scores": scores}


def outcomes_of(run: ReportedRun, evaluator: Evaluated, rows: Sequence[int | None]) -> Outcomes:
    """Return an evaluator's outcomes for these rows of a run, with the numbers of its first graded metric.

    `rows` are numbers of rows, and None for a row that the run lacks.
    """
    table, name = run.table, evaluator.name
    letters = [_LETTERS[state] for state in table.evaluators[name].states]

    # A verdict is more than SCORED: rows with one get the letter for pass or fail.
    pass_rate = table.columns.get(f"{name}.{PASS_RATE}")
    if pass_rate is not None:
        passed = {1.0: PASS, 0.0: FAIL}
        letters = [passed.get(value, letter) for value, letter in zip(pass_rate.values, letters, strict=True)]

    results = "".join(ABSENT if row is None else letters[row] for row in rows)
    column = table.columns.get(f"{name}.{evaluator.graded[0].name}") if evaluator.graded else None
    scores = None if column is None else [math.nan if row is None else column.values[row] for row in rows]
    return Outcomes(results, scores)


_TEXTS = ("ids", "questions", "answers", "notes")
_CODED = ("kinds", "functions", "called", "reasons", "causes", "errors", "differences", "confused")
_FIGURES = ("latency_ms", "first_token_ms")
_TOKENS = ("input_tokens", "output_tokens", "reasoning_tokens")


class RowIndex:
    """Collects the columns of a run's rows.

    `texts` are written unchanged, `coded` have few values, `figures` are numbers by their name in the row.
    """

    def __init__(self, run: ReportedRun) -> None:
        """Start without rows, except that the evaluators' outcomes are read at once from the run's table."""
        self.texts: dict[str, list[JSON]] = {name: [] for name in _TEXTS}
        self.coded = {name: Coded() for name in _CODED}
        self.groups = {column: Coded() for column in run.manifest.group_by if column != "row_kind"}
        self.figures = {name: array("d") for name in (*_FIGURES, *_TOKENS)}

        rows = range(run.table.info.rows)
        self.outcomes = {evaluator.name: outcomes_of(run, evaluator, rows) for evaluator in run.evaluators}
        self.thresholds: list[set[float]] = [set() for _ in run.evaluators]
        self.simulated = 0
        self.failed_rows = 0

    def add(self, row: Mapping[str, JSON], details: Details) -> None:
        """Add a row to every column of the index."""
        columns = details.columns
        # Only failed verdicts have reasons; errors say for themselves why there is no verdict.
        failures = [verdict for verdict in details.verdicts if verdict.word == "fail"]
        errors = [*errors_of(row)] if columns.errors else []
        messages = [*(message for *_, message in errors), *(failure.reason for failure in failures)]

        texts, coded = self.texts, self.coded
        texts["ids"].append(cut(str(row.get("row_id")), 2_000))
        texts["questions"].append(details.question)
        texts["answers"].append(details.answer)
        texts["notes"].append(line("; ".join(dict.fromkeys(filter(None, messages))), _MOST_REASON))

        kind, calls, code = row.get("row_kind"), details.calls, row.get("cause")
        cause = cause_named(code) if isinstance(code, str) else None
        coded["kinds"].add([kind] if isinstance(kind, str) else ())
        coded["functions"].add(calls.expected_names)

        is_serving = cause is not None and cause.side == "serving"
        coded["called"].add(() if is_serving else calls.called_names)

        groups = [fault_groups(failure.faults, failure.reason) for failure in failures]
        # Each fault once per evaluator, by its title.
        coded["reasons"].add(title for group in groups for title in group.values())
        coded["causes"].add([] if cause is None else [cause.title])
        coded["errors"].add(f"{stage}: {error}" for stage, _, error, _ in errors)
        coded["differences"].add(_kinds_of_differences(row, columns) if failures or errors else ())

        # A production client would not have received the call of such a row, so it is no call of the model.
        confused = [(expected, SERVING_FAULT) for expected, _ in calls.confused] if is_serving else calls.confused
        coded["confused"].add(dumps(list(pair)).decode() for pair in confused)

        # The values as slices count them: a list of texts puts its row into several groups.
        for name, column in self.groups.items():
            column.add(tags_of(row.get(f"inputs.{name}")))

        # A threshold may differ from row to row; the chart shows it only if all rows share one.
        for thresholds, verdict in zip(self.thresholds, details.verdicts, strict=True):
            if verdict.threshold is not None and len(thresholds) < 2:
                thresholds.add(verdict.threshold)

        # Latencies stand in the row itself, numbers of tokens in its usage; NaN for a missing one.
        usage = object_or_empty(row.get("outputs.usage"))
        for name, numbers in self.figures.items():
            numbers.append(number_of(usage.get(name) if name in _TOKENS else row.get(f"outputs.{name}")))

        self.failed_rows += bool(columns.errors)
        self.simulated += row.get("outputs.simulated") is True

    def as_json(self) -> dict[str, JSON]:
        """Return the first rows as the page reads them, without empty columns."""
        page: dict[str, JSON] = {name: texts[:MOST_ROWS] for name, texts in self.texts.items()}
        page |= {name: column.as_json() for name, column in self.coded.items() if column.values}
        page["groups"] = [[name, column.as_json()] for name, column in self.groups.items() if column.values]

        # Columns of the table; the other figures are in charts only.
        for name in ("latency_ms", "input_tokens", "output_tokens"):
            if any(map(math.isfinite, self.figures[name])):
                page[name.removesuffix("_ms")] = round_numbers(self.figures[name])

        page["outcomes"] = [{"name": name, **outcomes.as_json()} for name, outcomes in self.outcomes.items()]
        return page


def round_numbers(numbers: Sequence[float]) -> list[JSON]:
    """Return the numbers of the first rows for the page, with few digits."""
    return [_round(number) for number in numbers[:MOST_ROWS]]


def _round(number: float) -> JSON:
    """Return a number with five digits; null for NaN and infinity, a whole number without a point."""
    if not math.isfinite(number):
        return None
    # Above 1e15 a float may not be exact as a whole number.
    if number == int(number) and abs(number) < 1e15:
        return int(number)
    return float(f"{number:.5g}")


def _kinds_of_differences(row: Mapping[str, JSON], columns: Columns) -> Iterable[str]:
    """Yield the kind of each difference that a judge lists."""
    for evaluator in columns.evaluators:
        differences = row.get(evaluator.verdicts.differences)
        for difference in differences if isinstance(differences, list) else ():
            kind = difference.get("kind") if isinstance(difference, dict) else None
            if isinstance(kind, str):
                yield cut(kind, 100)


# -- charts

_BINS = 20  # of a histogram
_MOST_FUNCTIONS = 40  # in the chart of pass rates by function
_MOST_CONFUSED = 12  # functions named in the table of confusions
_MOST_BARS = 15  # reasons, errors or differences
_BARS = ("reasons", "errors", "differences")
_WIDE = 50.0
"""Values that span more than this factor are shown on a logarithmic axis."""


def charts(run: ReportedRun, table: RowIndex) -> dict[str, JSON]:
    """Return all charts of a run that have data."""
    coded = table.coded
    drawn: dict[str, JSON] = {
        "functions": _functions(table),
        "distributions": [*_distributions(run, table)],
        "confusion": _confusion(coded["confused"]),
        "causes": _causes(coded["causes"]),
        **{name: [[value, n] for value, n in _count_values(coded[name]).most_common(_MOST_BARS)] for name in _BARS},
        **{name.removesuffix("_ms"): _figures_histogram(numbers) for name, numbers in table.figures.items()},
        "spent": _spent(run.metrics.get("usage")),
    }
    return {name: chart for name, chart in drawn.items() if chart}


def _functions(table: RowIndex) -> JSON:
    """Return the chart of pass rates by expected function; None without verdicts.

    `all` is the number of functions, and `shown` the number in the chart: at most 40, those that most rows expect. `by`
    has a list for each evaluator, with `[function, passed rows, judged rows, low, high]` (the interval of the rate).
    """
    expected, rows_of = table.coded["functions"], table.coded["functions"].rows_by_value()
    # The functions that most rows expect come first, whatever their pass rates are.
    codes = sorted(range(len(rows_of)), key=lambda code: -len(rows_of[code]))[:_MOST_FUNCTIONS]

    functions: dict[str, JSON] = {}
    for name, outcomes in table.outcomes.items():
        shown: list[JSON] = []

        for code in codes:
            results = [outcomes.results[row] for row in rows_of[code]]
            # Rows with an error or without a verdict are in no rate.
            passed, judged = results.count(PASS), results.count(PASS) + results.count(FAIL)
            if judged:
                rate = wilson(passed, judged)
                shown.append([expected.values[code], passed, judged, rate.low, rate.high])

        if shown:
            functions[name] = shown

    return {"shown": len(codes), "all": len(rows_of), "by": functions} if functions else None


def _distributions(run: ReportedRun, table: RowIndex) -> Iterator[JSON]:
    """Yield a histogram for each graded metric with more than two values.

    It has the threshold if the metric is the evaluator's main one, and all rows share the threshold.
    """
    for evaluator, thresholds in zip(run.evaluators, table.thresholds, strict=True):
        for metric in evaluator.graded:
            column = run.table.columns.get(f"{evaluator.name}.{metric.name}")
            values = [] if column is None else [*filter(math.isfinite, column.values)]
            if len(set(values)) > 2:
                # `thresholds` has those of the main metric only.
                is_main = metric.name in (evaluator.primary, evaluator.name)
                threshold = next(iter(thresholds)) if is_main and len(thresholds) == 1 else None
                name = evaluator.name if is_main else f"{evaluator.name} {metric.name}"

                # Scores between 0 and 1 get this whole range as their axis, all others their own.
                low, high = min(values), max(values)
                low, high = (0.0, 1.0) if low >= 0 and high <= 1 else (low, high)
                mean = sum(values) / len(values)
                yield {"name": name, "threshold": threshold, "mean": mean, **histogram(values, low, high)}


def histogram(values: Sequence[float], low: float, high: float, *, logarithmic: bool = False) -> dict[str, JSON]:
    """Count the values in 20 equally wide bins from `low` to `high`; `logarithmic` bins are equally wide in logarithms.

    Example: 20 bins from 0 to 1 are 0.05 wide. The value 1 is in the last bin.
    """
    span = (math.log(high) - math.log(low)) if logarithmic else high - low
    counts = [0] * _BINS
    for value in values:
        part = (math.log(value) - math.log(low) if logarithmic else value - low) / span if span else 0.0
        # The highest value belongs to the last bin. A part that is not finite counts in the first.
        counts[min(_BINS - 1, max(0, int(part * _BINS))) if math.isfinite(part) else 0] += 1

    return {"low": low, "high": high, "counts": [*counts], "log": logarithmic}


def _figures_histogram(numbers: Iterable[float]) -> JSON:
    """Return the histogram and quantiles of latencies or token counts; None if no number is above 0.

    If the largest value is more than 50 times the smallest, the axis is logarithmic.
    """
    values = sorted(number for number in numbers if math.isfinite(number) and number >= 0)
    if not values or values[-1] == 0:
        return None

    # A logarithm needs values above 0; the first value is the smallest.
    wide = values[0] > 0 and values[-1] / values[0] > _WIDE

    # Nearest-rank quantiles are values that occurred.
    quantiles: dict[str, JSON] = {
        f"p{share}": values[max(0, math.ceil(share / 100 * len(values)) - 1)] for share in (50, 90, 99)
    }

    bins = histogram(values, values[0] if wide else 0.0, values[-1], logarithmic=wide)
    return {**bins, **quantiles, "n": len(values), "sum": sum(values)}


def _confusion(confused: Coded) -> JSON:
    """Return a table of expected and called functions; None if no function was called in place of another.

    `names` are the most confused functions. `cells` are `[expected, called, rows]`, both as positions in `names`; −1
    stands for any function without a name there.
    """
    counts = _count_values(confused)
    # Pairs were stored as JSON, `["expected", "called"]`, because a column's values are texts.
    pairs = {tuple(map(str, loads(text))): count for text, count in counts.items() if text.startswith("[")}  # type: ignore[arg-type]
    if not any(expected != called for expected, called in pairs):
        return None

    weight: Counter[str] = Counter()
    for pair, count in pairs.items():
        for name in pair:
            # One confusion outweighs any number of right calls.
            weight[name] += count * (1_000_000 if len({*pair}) > 1 else 1)

    names = [name for name, _ in weight.most_common(_MOST_CONFUSED)]
    cells: Counter[tuple[int, ...]] = Counter()
    for pair, count in pairs.items():
        cells[tuple(names.index(name) if name in names else -1 for name in pair)] += count
    # Pairs of two functions without a name say nothing.
    del cells[-1, -1]
    return {"names": [*names], "cells": [[*positions, count] for positions, count in cells.items()]}


def _causes(coded: Coded) -> JSON:
    """Return `[title, rows, advice]` of each cause, by side: serving first, the most frequent cause first."""
    counts = _count_values(coded)
    # Problems of serving come first: they hide what the model can do.
    sides: dict[str, JSON] = {}
    for side in ("serving", "unknown", "model"):
        listed = [cause for cause in causes().values() if cause.side == side and counts[cause.title]]
        if listed:
            listed.sort(key=lambda cause: -counts[cause.title])
            sides[side] = [[cause.title, counts[cause.title], cause.advice] for cause in listed]
    return sides


def _count_values(coded: Coded) -> Counter[str]:
    """Return the number of rows with each value."""
    return Counter(dict(zip(coded.values, map(len, coded.rows_by_value()), strict=True)))


def _spent(usage: JSON) -> JSON:
    """Return a row for each part of the run that calls models: `[part, calls, tokens in, tokens out, cost]`."""
    rows = usage.items() if isinstance(usage, Mapping) else ()
    return [
        [name, *(spent.get(key) for key in ("calls", "input_tokens", "output_tokens")), cost_text(spent)]
        for name, spent in rows
        if isinstance(spent, dict)
    ]
