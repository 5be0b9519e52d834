"""The table of all rows, column by column: what a page filters, sorts and searches without opening a row."""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from tunecheck._causes import cause_named
from tunecheck._files import MetricEntry
from tunecheck._json import JSON, dumps
from tunecheck.comparison._parts import tags_of
from tunecheck.pipeline._finished_rows import Verdict, errors_of, fault_groups
from tunecheck.report._calls import SideBySide
from tunecheck.report._details import Details
from tunecheck.report._reading import Columns, Evaluated, ReportedRun
from tunecheck.report._texts import cut, line
from tunecheck.results import PASS_RATE, State

MOST_ROWS = 100_000
"""Most rows that a page lists; its summary and charts are of all rows there are."""

PASS, FAIL, NOT_APPLICABLE, SCORED, ERROR, ABSENT = "p", "f", "n", "s", "e", "-"
"""What came of a row for an evaluator; scored: there is a number, and nothing that passes or fails; absent: the row is
not in this run."""

_LETTERS = {State.SCORED: SCORED, State.NOT_APPLICABLE: NOT_APPLICABLE, State.ERROR: ERROR, State.ABSENT: ERROR}
_MOST_KINDS = 1_000  # different values of a column by which rows are found
_OTHERS = "(others)"
_MOST_REASON = 200


@dataclass(slots=True)
class Coded:
    """A column of few different values: the values, and each row's as numbers of them."""

    values: list[str] = field(default_factory=list)
    rows: list[JSON] = field(default_factory=list)
    _numbers: dict[str, int] = field(default_factory=dict)

    def add(self, values: Iterable[str]) -> None:
        """The values of one more row: none, one or several."""
        codes: list[JSON] = [*dict.fromkeys(map(self._code, values))]
        self.rows.append(codes[0] if len(codes) == 1 else codes or None)

    def _code(self, value: str) -> int:
        if value not in self._numbers:
            value = value if len(self.values) < _MOST_KINDS else _OTHERS
        if value not in self._numbers:
            self._numbers[value] = len(self.values)
            self.values.append(value)
        return self._numbers[value]

    def written(self, most: int) -> JSON:
        """The first rows as the page reads them."""
        return {"values": [*self.values], "rows": self.rows[:most]}


@dataclass(frozen=True, slots=True)
class Outcomes:
    """What an evaluator found in each row: `results` a letter a row, numbers by metric, NaN for none."""

    results: str
    scores: Mapping[str, Sequence[float]]

    def written(self, evaluator: Evaluated, most: int = MOST_ROWS) -> dict[str, JSON]:
        """The first rows as the page reads them: results in one text, and the first graded metric's numbers."""
        numbers = self.scores.get(evaluator.graded[0].name) if evaluator.graded else None
        return {"results": self.results[:most], "scores": None if numbers is None else rounded(numbers[:most])}

    def reordered(self, places: Sequence[int | None]) -> Outcomes:
        """The same in the order of another run's rows; None stands for a row that is not in this one."""
        results = "".join(ABSENT if at is None else self.results[at] for at in places)
        scores = {
            name: [math.nan if at is None else numbers[at] for at in places] for name, numbers in self.scores.items()
        }
        return Outcomes(results, scores)


def outcomes_of(run: ReportedRun, evaluator: Evaluated, metrics: Iterable[MetricEntry]) -> Outcomes:
    """What an evaluator found in a run's rows, and these of its metrics."""
    table, name = run.table, evaluator.name
    own, verdicts = table.evaluators[name], table.columns.get(f"{name}.{PASS_RATE}")
    letters = [_LETTERS[state] for state in own.states]
    if verdicts is not None:
        passed = {1.0: PASS, 0.0: FAIL}
        letters = [passed.get(value, letter) for value, letter in zip(verdicts.values, letters, strict=True)]
    columns = {each.name: table.columns.get(f"{name}.{each.name}") for each in metrics}
    return Outcomes("".join(letters), {key: column.values for key, column in columns.items() if column is not None})


def number_in(value: JSON) -> float:
    """A value as a number; NaN for none, and for whole numbers beyond any float."""
    try:
        return float(value) if isinstance(value, (int, float)) else math.nan
    except OverflowError:
        return math.nan


class RowIndex:
    """Collects the columns of a run's rows."""

    def __init__(self, run: ReportedRun) -> None:
        self.ids: list[str] = []
        self.fingerprints: list[str] = []
        self.questions: list[str] = []
        self.answers: list[str] = []
        self.notes: list[str] = []
        self.kinds, self.functions, self.called = Coded(), Coded(), Coded()
        self.reasons, self.errors, self.differences = Coded(), Coded(), Coded()
        self.confused, self.causes = Coded(), Coded()
        self.groups = {column: Coded() for column in run.manifest.group_by if column != "row_kind"}
        self.latency, self.input_tokens, self.output_tokens = array("d"), array("d"), array("d")
        self.first_token, self.reasoning_tokens = array("d"), array("d")
        self.outcomes = [outcomes_of(run, each, each.metrics) for each in run.evaluators]
        self.thresholds: list[Counter[float]] = [Counter() for _ in run.evaluators]
        self.sources: list[str] = []
        self.simulated = 0
        self.failed_rows = 0

    def add(self, row: Mapping[str, JSON], columns: Columns, details: Details) -> None:
        """One more row."""
        self.ids.append(cut(str(row.get("row_id")), 2_000))
        self.fingerprints.append(str(row.get("row_fingerprint")))
        self.questions.append(details.question)
        self.answers.append(details.answer)
        kind = row.get("row_kind")
        self.kinds.add([kind] if isinstance(kind, str) else [])
        cause = row.get("cause")
        self.causes.add([cause_named(cause).title] if isinstance(cause, str) else [])
        for counts, verdict in zip(self.thresholds, details.verdicts, strict=True):
            if verdict.threshold is not None and len(counts) < _MOST_KINDS:
                counts[verdict.threshold] += 1
        self._add_calls(details.calls)
        self._add_faults(row, columns, [verdict for verdict in details.verdicts if verdict.word == "fail"])
        self._add_figures(row)
        for column, coded in self.groups.items():
            coded.add(tags_of(row.get(f"inputs.{column}")))
        if "inputs.source_id" in row and "inputs.trial" in row:
            self.sources.append(str(row["inputs.source_id"]))

    def _add_calls(self, calls: SideBySide) -> None:
        self.functions.add(calls.expected_names)
        self.called.add(calls.called_names)
        self.confused.add(dict.fromkeys(dumps(list(pair)).decode() for pair in calls.confused))

    def _add_faults(self, row: Mapping[str, JSON], columns: Columns, failed_by: Sequence[Verdict]) -> None:
        if not failed_by and not columns.errors:
            self.reasons.add([])
            self.errors.add([])
            self.differences.add([])
            self.notes.append("")
            return
        self.reasons.add(name for each in failed_by for name in fault_groups(each.faults, each.reason).values())
        errors = [*errors_of(row)] if columns.errors else []
        self.errors.add(f"{stage}: {kind}" for stage, kind, _ in errors)
        self.differences.add(_kinds_of_differences(row, columns))
        self.failed_rows += bool(columns.errors)
        words = [*(words for _, _, words in errors), *(each.reason for each in failed_by)]
        self.notes.append(line("; ".join(dict.fromkeys(filter(None, words))), _MOST_REASON))

    def _add_figures(self, row: Mapping[str, JSON]) -> None:
        usage = row.get("outputs.usage")
        counts = usage if isinstance(usage, dict) else {}
        self.latency.append(number_in(row.get("outputs.latency_ms")))
        self.input_tokens.append(number_in(counts.get("input_tokens")))
        self.output_tokens.append(number_in(counts.get("output_tokens")))
        self.first_token.append(number_in(row.get("outputs.first_token_ms")))
        self.reasoning_tokens.append(number_in(counts.get("reasoning_tokens")))
        self.simulated += row.get("outputs.simulated") is True

    def written(self, evaluators: Sequence[Evaluated], most: int = MOST_ROWS) -> dict[str, JSON]:
        """The first rows as the page reads them; what they do not have is left out."""
        lists: dict[str, JSON] = {"ids": [*self.ids[:most]], "questions": [*self.questions[:most]]}
        lists |= {"answers": [*self.answers[:most]], "notes": [*self.notes[:most]] if any(self.notes) else None}
        coded = {"kinds": self.kinds, "functions": self.functions, "called": self.called, "reasons": self.reasons}
        coded |= {
            "causes": self.causes,
            "errors": self.errors,
            "differences": self.differences,
            "confused": self.confused,
        }
        lists |= {name: column.written(most) for name, column in coded.items() if column.values}
        lists["groups"] = [[name, column.written(most)] for name, column in self.groups.items() if column.values]
        figures = {"latency": self.latency, "input_tokens": self.input_tokens, "output_tokens": self.output_tokens}
        known = {name: numbers for name, numbers in figures.items() if any(map(math.isfinite, numbers))}
        lists |= {name: rounded(numbers[:most]) for name, numbers in known.items()}
        pairs = zip(evaluators, self.outcomes, strict=True)
        lists["outcomes"] = [{"name": each.name, **outcomes.written(each, most)} for each, outcomes in pairs]
        return lists


def rounded(numbers: Iterable[float]) -> list[JSON]:
    """Numbers as a page needs them: few digits, null for none, whole ones without a point."""
    return [_rounded(number) for number in numbers]


def _rounded(number: float) -> JSON:
    if not math.isfinite(number):
        return None
    if number == int(number) and abs(number) < 1e15:
        return int(number)
    return float(f"{number:.5g}")


def _kinds_of_differences(row: Mapping[str, JSON], columns: Columns) -> Iterable[str]:
    """What judges say a difference is."""
    for own in columns.evaluators:
        listed = row[own.differences] if own.differences is not None else None
        for item in listed if isinstance(listed, list) else ():
            kind = item.get("kind") if isinstance(item, dict) else None
            if isinstance(kind, str):
                yield cut(kind, 100)
