"""Rows that several runs fail alike: where all are wrong in the same way, the ground truth may be."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass

from tunecheck import Run
from tunecheck.calls import FunctionCall, canonical_text
from tunecheck.datasets import SOURCE_ID, TRIAL
from tunecheck.formats import read_calls
from tunecheck.pipeline import VerdictReader, counted_metrics, evidence_of
from tunecheck.runs import value_reader
from tunecheck_authoring._audit.findings import AuditFinding, found

FEWEST_RUNS = 2


@dataclass(frozen=True, slots=True)
class _Failure:
    """What a run answered to a row that it failed, in one wording for equal calls, and why."""

    answer: str
    cause: str
    evidence: str


def failing_alike(runs: Sequence[Run], names: Container[str]) -> Iterator[AuditFinding]:
    """Of each of these rows that all runs failed: whether most gave the same calls, or all have the same cause."""
    failed: dict[str, list[_Failure]] = {}
    for run in runs:
        for name, failure in ((name, failure) for name, failure in _failures(run) if name in names):
            failed.setdefault(name, []).append(failure)
    for name, failures in failed.items():
        if len(failures) >= FEWEST_RUNS and len(failures) == len(runs):
            yield from _alike(name, failures)


def _failures(run: Run) -> Iterator[tuple[str, _Failure]]:
    manifest = run.manifest()
    response = value_reader(manifest, "response", ("response",))
    primaries = {name: entry.primary for name, entry in manifest.evaluators.items()}
    readers = [VerdictReader(name, metric) for name, metric in counted_metrics(run.rows(), primaries).items()]
    for row in run.rows():
        if row.get(f"inputs.{TRIAL}") in (None, 1) and any(reader.word(row) == "fail" for reader in readers):
            data, target = (
                {key.removeprefix(prefix): value for key, value in row.items() if key.startswith(prefix)}
                for prefix in ("inputs.", "outputs.")
            )
            name = str(data.get(SOURCE_ID, row.get("row_id")))
            calls = sorted(read_calls(response(data, target)).calls, key=lambda call: call.name)
            answer = [FunctionCall(call.name, dict(sorted(call.arguments.items()))) for call in calls]
            yield name, _Failure(canonical_text(answer), str(row.get("cause") or ""), evidence_of(row))


def _alike(name: str, failures: Sequence[_Failure]) -> Iterator[AuditFinding]:
    [(answer, count)] = Counter(each.answer for each in failures).most_common(1)
    first = next(each for each in failures if each.answer == answer)
    why = f"{first.cause or 'no cause known'}{f': {first.evidence}' if first.evidence else ''}"
    if answer and 2 * count > len(failures) and count > 1:
        who = f"all {count} runs" if count == len(failures) else f"all {len(failures)} runs fail it, {count} of them"
        yield found(name, "fails_alike", f"{who} answer {answer} ({why})", fix=f"is {answer} right?")
    elif first.cause and all((each.cause, each.evidence) == (first.cause, first.evidence) for each in failures):
        text = f"all {len(failures)} runs fail it for the same cause ({why})"
        yield found(name, "fails_alike", text, certainty="look")
