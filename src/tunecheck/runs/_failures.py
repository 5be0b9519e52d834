"""Why rows failed: a run's faults counted by code and its errors by their words, in one pass and flat memory."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from tunecheck._causes import cause_named
from tunecheck._faults import Fault, checked, sentence, title
from tunecheck._json import JSON
from tunecheck._messages import clean
from tunecheck.pipeline._aggregate import VerdictReader, counted_metrics

MAX_GROUPS = 2_000
"""Most groups kept for one evaluator; what comes after them is counted as another reason."""

_OWN = "own: "
_MOST_READ = 4_000
_LONGEST_TITLE = 100
_QUOTED = re.compile(r'"[^"]*"|\'[^\']*\'')
_NUMBER = re.compile(r"\d[\d.,:]*")


@dataclass(slots=True)
class FailureGroup:
    """Failures of one kind: what they are called, how many rows they are in, one of these, and the words there."""

    title: str
    rows: int
    example: str
    words: str


@dataclass(slots=True)
class Failures:
    """What went wrong in a run.

    `failed` counts the rows that each evaluator failed, `faults` why, by code (the evaluators' own reasons by their
    words); `causes` has the rows of each cause, with the evidence in words; `errors` holds the errors by stage
    (`target`, or an evaluator's name); `simulated_answers` the rows whose answer no model gave.
    """

    failed: dict[str, int] = field(default_factory=dict)
    faults: dict[str, dict[str, FailureGroup]] = field(default_factory=dict)
    errors: dict[str, dict[str, FailureGroup]] = field(default_factory=dict)
    causes: dict[str, FailureGroup] = field(default_factory=dict)
    simulated_answers: int = 0

    def told(self, name: str) -> Mapping[str, FailureGroup]:
        """An evaluator's groups; none where they only say that scores are below the threshold."""
        groups = self.faults.get(name, {})
        return groups if groups.keys() - {"below_threshold"} else {}

    def by_code(self, name: str) -> Counter[str]:
        """The rows that an evaluator failed, by fault code alone: its own reasons, whatever their words, are `own`."""
        codes: Counter[str] = Counter()
        for key, group in self.faults.get(name, {}).items():
            codes["own" if key.startswith(_OWN) else key] += group.rows
        return codes

    @property
    def error_groups(self) -> list[FailureGroup]:
        """The errors of all stages, the commonest first."""
        groups = [group for of_stage in self.errors.values() for group in of_stage.values()]
        return sorted(groups, key=lambda group: -group.rows)


def read_failures(rows: Iterable[Mapping[str, JSON]], primaries: Mapping[str, str | None]) -> Failures:
    """Count what went wrong; `rows` may be read twice, `primaries` has each evaluator's declared primary metric."""
    readers = [VerdictReader(name, metric) for name, metric in counted_metrics(rows, primaries).items()]
    failures = Failures()
    for row in rows:
        row_id = str(row.get("row_id"))
        failures.simulated_answers += row.get("outputs.simulated") is True
        if isinstance(code := row.get("cause"), str):
            _count(failures.causes, code, cause_named(code).title, row_id, evidence_of(row))
        for reader in readers:
            verdict = reader.read(row)
            if verdict.word == "fail":
                failures.failed[reader.name] = failures.failed.get(reader.name, 0) + 1
                groups = failures.faults.setdefault(reader.name, {})
                for key, called in fault_groups(verdict.faults, verdict.reason).items():
                    _count(groups, key, called, row_id, verdict.reason)
        for stage, key, words in errors_of(row):
            _count(failures.errors.setdefault(stage, {}), key, key, row_id, words)
    return failures


def evidence_of(row: Mapping[str, JSON]) -> str:
    """What a row's cause is about, in words; empty where nothing more is known."""
    evidence = row.get("cause_evidence")
    listed = [{**evidence, "code": row.get("cause")}] if isinstance(evidence, dict) else []
    return sentence(checked(listed)) or ""


def fault_groups(faults: Iterable[Fault], reason: str) -> dict[str, str]:
    """What a row's faults count as, each once, with its name: a code; an evaluator's own reason is its first line."""
    groups: dict[str, str] = {}
    for fault in faults:
        first_line = _first_line(reason) if fault.code == "own" else ""
        groups[_OWN + first_line if first_line else fault.code] = first_line or title(fault.code)
    return groups


@lru_cache(maxsize=4_096)  # many rows, and several evaluators of one row, say the same
def _first_line(reason: str) -> str:
    return clean(reason.strip().partition("\n")[0], _LONGEST_TITLE)


def errors_of(row: Mapping[str, JSON]) -> Iterator[tuple[str, str, str]]:
    """A row's errors: the stage, the kind (type and message without the values in it), and the words."""
    for key, error in row.items():
        if key.startswith("error.") and isinstance(error, dict):
            words = f"{error.get('type')}: {error.get('message')}"[:_MOST_READ]
            row_id = str(row.get("row_id"))
            alike = words.replace(row_id, "…") if len(row_id) > 2 else words
            yield key.removeprefix("error."), clean(_NUMBER.sub("…", _QUOTED.sub("…", alike)), 200), words


def _count(groups: dict[str, FailureGroup], key: str, called: str, row_id: str, words: str) -> None:
    if key not in groups and len(groups) >= MAX_GROUPS:
        key, called = "own", title("own")
    known = groups.get(key)
    if known is None:
        groups[key] = FailureGroup(called, 1, row_id, words[:_MOST_READ])
    else:
        known.rows += 1
