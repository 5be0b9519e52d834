"""The table of all rows, column by column: what a page filters, sorts and searches without opening a row."""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from tunecheck._causes import cause_named
from tunecheck._json import JSON, dumps
from tunecheck.comparison._parts import tags_of
from tunecheck.pipeline._finished_rows import Verdict, Word, errors_of, fault_groups
from tunecheck.report._calls import SideBySide
from tunecheck.report._details import Details
from tunecheck.report._reading import Columns, Evaluated, EvaluatorColumns, ReportedRun
from tunecheck.report._texts import cut, line

MOST_ROWS = 100_000
"""Most rows that a page lists; its summary and charts are of all rows there are."""

PASS, FAIL, NOT_APPLICABLE, SCORED, ERROR, ABSENT = "p", "f", "n", "s", "e", "-"
"""What came of a row for an evaluator; scored: there is a number, and nothing that passes or fails; absent: the row is
not in this run."""

_LETTERS: Mapping[Word, str] = {
    "pass": PASS, "fail": FAIL, "not_applicable": NOT_APPLICABLE, "scored": SCORED, "error": ERROR,
}  # fmt: skip
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
        codes: list[JSON] = [*dict.fromkeys(map(self._number, values))]
        self.rows.append(codes[0] if len(codes) == 1 else codes or None)

    def _number(self, value: str) -> int:
        if value not in self._numbers:
            value = value if len(self.values) < _MOST_KINDS else _OTHERS
        if value not in self._numbers:
            self._numbers[value] = len(self.values)
            self.values.append(value)
        return self._numbers[value]

    def written(self, most: int) -> JSON:
        """The first rows as the page reads them."""
        return {"values": [*self.values], "rows": self.rows[:most]}


@dataclass(slots=True)
class Outcomes:
    """What an evaluator found in each row: `results` a letter a row, `scores` numbers by metric, NaN for none.

    `thresholds` are counted, unless they are None.
    """

    results: list[str] = field(default_factory=list)
    scores: dict[str, array[float]] = field(default_factory=dict)
    thresholds: Counter[float] | None = field(default_factory=Counter)

    def add(self, row: Mapping[str, JSON], own: EvaluatorColumns, verdict: Verdict) -> None:
        """One more row."""
        self.results.append(_LETTERS[verdict.word])
        for metric, numbers in self.scores.items():
            key = own.numbers.get(metric)
            numbers.append(_number(row[key]) if key is not None else math.nan)
        threshold = verdict.threshold
        counts = self.thresholds
        if counts is not None and threshold is not None and (threshold in counts or len(counts) < _MOST_KINDS):
            counts[threshold] += 1

    def add_none(self) -> None:
        """A row that is not in this run."""
        self.results.append(ABSENT)
        for numbers in self.scores.values():
            numbers.append(math.nan)

    def written(self, evaluator: Evaluated, most: int = MOST_ROWS) -> dict[str, JSON]:
        """The first rows as the page reads them: results in one text, and the first graded metric's numbers."""
        graded = evaluator.graded[0].name if evaluator.graded else None
        numbers = self.scores.get(graded) if graded is not None else None
        scores = None if numbers is None else rounded(numbers[:most])
        return {"results": "".join(self.results[:most]), "scores": scores}


def _number(value: JSON) -> float:
    if type(value) is float:  # nearly always; the other question takes long
        return value
    if not isinstance(value, (int, float)):
        return math.nan
    try:
        return float(value)
    except OverflowError:  # an integer beyond any float
        return math.nan


def outcomes_of(run: ReportedRun) -> list[Outcomes]:
    """For each evaluator of a run, what is yet to be read."""
    return [Outcomes(scores={metric.name: array("d") for metric in each.metrics}) for each in run.evaluators]


def listed_outcomes_of(run: ReportedRun, listed: Mapping[str, Evaluated]) -> list[Outcomes]:
    """The same of a run that is held against another one, whose evaluators are `listed`: no more than is written."""
    return [
        Outcomes(scores={metric.name: array("d") for metric in listed[each.name].graded[:1]}, thresholds=None)
        if each.name in listed
        else Outcomes(thresholds=None)
        for each in run.evaluators
    ]


class Table:
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
        self.outcomes = outcomes_of(run)
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
        for outcomes, own, verdict in zip(self.outcomes, columns.evaluators, details.verdicts, strict=True):
            outcomes.add(row, own, verdict)
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
        self.latency.append(_number(row.get("outputs.latency_ms")))
        self.input_tokens.append(_number(counts.get("input_tokens")))
        self.output_tokens.append(_number(counts.get("output_tokens")))
        self.first_token.append(_number(row.get("outputs.first_token_ms")))
        self.reasoning_tokens.append(_number(counts.get("reasoning_tokens")))
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
