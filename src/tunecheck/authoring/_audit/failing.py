"""Rows that several runs fail alike: where all are wrong in the same way, the ground truth may be."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tunecheck._json import JSON, dumps
from tunecheck.authoring._audit.findings import AuditFinding, found
from tunecheck.datasets._repeated import SOURCE_ID, TRIAL
from tunecheck.formats._reading import read_calls
from tunecheck.pipeline._aggregate import VerdictReader, counted_metrics
from tunecheck.runs._failures import evidence_of
from tunecheck.runs._store import Run

_FEWEST_RUNS = 2


def failing_alike(runs: Sequence[Run]) -> Iterator[AuditFinding]:
    """Of each row that every run answered and failed: whether all gave the same calls, or failed for the same cause."""
    failed: dict[str, list[Mapping[str, Any]]] = {}
    for run in runs:
        entries = run.manifest().evaluators
        primaries = {name: entry.primary for name, entry in entries.items()}
        readers = [VerdictReader(name, metric) for name, metric in counted_metrics(run.rows(), primaries).items()]
        for row in run.rows():
            if row.get(f"inputs.{TRIAL}") in (None, 1) and any(reader.word(row) == "fail" for reader in readers):
                name = row.get(f"inputs.{SOURCE_ID}", row.get("row_id"))
                failed.setdefault(str(name), []).append(row)
    for name, rows in failed.items():
        if len(rows) >= _FEWEST_RUNS and len(rows) == len(runs):
            yield from _alike(name, rows)


def _alike(name: str, rows: Sequence[Mapping[str, JSON]]) -> Iterator[AuditFinding]:
    answers = Counter(_answer(row) for row in rows)
    causes = Counter((row.get("cause"), evidence_of(row)) for row in rows)
    answer, same_answers = answers.most_common(1)[0]
    (cause, evidence), same_causes = causes.most_common(1)[0]
    why = f"{cause or 'no cause known'}: {evidence}" if evidence else f"{cause or 'no cause known'}"
    if same_answers == len(rows) and answer:
        text = f"all {len(rows)} runs answer {answer} ({why})"
        yield found(name, "fails_alike", text, fix=f"is {answer} right?")
    elif same_causes == len(rows) and cause:
        yield found(name, "fails_alike", f"all {len(rows)} runs fail it for the same cause ({why})", certainty="look")


def _answer(row: Mapping[str, JSON]) -> str:
    """The calls that a run answered, in one wording for equal ones; empty where it called nothing."""
    response = row.get("outputs.response")
    calls = read_calls(response).calls
    return "; ".join(f"{call.name}({dumps(dict(sorted(call.arguments.items()))).decode()})" for call in calls)
