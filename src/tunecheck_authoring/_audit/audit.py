"""Go through a data set once, row by row, and collect its probable mistakes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from tunecheck import Run
from tunecheck.calls import FunctionCall, canonical_text
from tunecheck.datasets import SOURCE_ID, TRIAL
from tunecheck.episodes import Change
from tunecheck.formats import read_calls
from tunecheck.pipeline import VerdictReader, counted_metrics, evidence_of
from tunecheck.runs import value_reader
from tunecheck_authoring._audit.conversations import CheckedRow, EntryCheck
from tunecheck_authoring._audit.dialogue import Dialogue, DialogueReader
from tunecheck_authoring._audit.findings import AuditFinding, Replacement, found, of_check, worst_first
from tunecheck_authoring._audit.repeats import KnownRows, known_row
from tunecheck_authoring._audit.requests import request_findings
from tunecheck_authoring._audit.values import value_findings

FEWEST_RUNS = 2
"""Runs that are needed to see that all fail alike."""


@dataclass(frozen=True, slots=True)
class Audit:
    """The findings, worst first; `idle` counts the rows that an agent passes without calling a function."""

    rows: int
    findings: Sequence[AuditFinding]
    idle: int

    @property
    def flagged(self) -> set[str]:
        """Return the rows with a sure or likely finding."""
        return {finding.id for finding in self.findings if finding.certainty != "look"}

    @property
    def unread(self) -> set[str]:
        """Return the rows that could not be checked completely."""
        return {finding.id for finding in self.findings if finding.kind == "not_looked_at"}


def audit(
    rows: Iterable[CheckedRow], reader: DialogueReader, *, training: Iterable[Dialogue] = (), runs: Sequence[Run] = ()
) -> Audit:
    """Return the probable mistakes in these rows. The time is proportional to their number.

    Args:
        rows: The rows as `check` returns them.
        reader: Reads the rows as dialogues.
        training: Training rows; none of them may be among `rows`.
        runs: Runs that tested these rows.
    """
    trained = KnownRows()
    for each in training:
        trained.add(known_row(each))
    auditing = _Auditing(reader, trained)
    findings = [finding for row in rows for finding in auditing.findings(row)]
    findings += failing_alike(runs, auditing.names)
    return Audit(auditing.rows, worst_first(findings), auditing.idle)


@dataclass
class _Auditing:
    """Checks one row after another, and keeps a digest of each for comparison with later rows."""

    reader: DialogueReader
    trained: KnownRows
    own: KnownRows = field(default_factory=KnownRows)
    names: set[str] = field(default_factory=set)
    rows: int = 0
    idle: int = 0

    def findings(self, row: CheckedRow) -> Iterator[AuditFinding]:
        self.rows += 1
        self.names.add(row.name)
        yield from (of_check(finding) for finding in row.findings if not finding.is_remark)
        dialogue = self.reader.read(row)
        if isinstance(dialogue, str):
            yield found(row.name, "not_looked_at", dialogue)
            return
        if dialogue.unknown is not None:
            yield found(row.name, "not_looked_at", dialogue.unknown)
        yield from value_findings(dialogue)
        yield from request_findings(dialogue)
        known = known_row(dialogue, self.reader.cluster_of(row))
        yield from self.own.repeated(known)
        self.own.add(known)
        yield from self.trained.leaked(known)
        passes = passes_idle(row, dialogue)
        self.idle += passes
        if passes and dialogue.calls:
            evidence = "its calls leave the state as it was, and nothing else is judged"
            yield found(row.name, "passes_idle", evidence, fix="judge the calls, too")
        if row.replayed is not None:
            yield from renamed_originals(row.name, row.replayed)
            yield from self._repeated_calls(row.name, row.replayed)

    def _repeated_calls(self, name: str, check: EntryCheck) -> Iterator[AuditFinding]:
        try:
            yield from repeated_calls(name, check)
        except Exception as error:  # noqa: BLE001 - a user's simulator may fail on calls that no other check makes
            yield found(name, "not_looked_at", f"calls that are made twice: {type(error).__name__}: {error}")


def passes_idle(row: CheckedRow, dialogue: Dialogue) -> bool:
    """Return whether an agent passes the row without calling a function."""
    if row.replayed is not None and row.replayed.entry.judging.final_state_only:
        return row.replayed.is_unchanged
    return not (dialogue.calls or dialogue.unknown or row.values.get("check") == "relevance")


def repeated_calls(name: str, check: EntryCheck) -> Iterator[AuditFinding]:
    """Yield each call that stands earlier in its turn, too, and without which all else is the same."""
    played = check.played
    for at, each in enumerate(played):
        earlier = [one for one in played[:at] if one.turn == each.turn and one.call == each.call]
        if earlier and not each.step.changes and not each.step.result.error and _can_be_left_out(check, at):
            evidence = f"{each.text} is made twice, with nothing changed between"
            drop = Replacement(each.turn, each.text, None)
            yield found(name, "superfluous_call", evidence, each.turn, fix=f"leave out {each.text}", replacement=drop)


def renamed_originals(name: str, check: EntryCheck) -> Iterator[AuditFinding]:
    """Yield each call that renames what an earlier call of its turn copied elsewhere: the copy may be meant."""
    for at, each in enumerate(check.played):
        copied = [
            (one, change)
            for one in check.played[:at]
            if one.turn == each.turn
            for change in one.step.changes
            if change.is_new
        ]
        for gone in each.step.changes:
            same = [(one, copy) for one, copy in copied if copy.path[-1] == gone.path[-1] and copy.path != gone.path]
            if gone.is_gone and _is_renamed(gone, each.step.changes) and same and same[-1][1].after == gone.before:
                evidence = f"{same[-1][0].text} copies {gone.path[-1]!r}, and {each.text} renames it where it was"
                yield found(name, "renamed_original", evidence, each.turn, fix="is the copy meant?")


def _is_renamed(gone: Change, changes: Sequence[Change]) -> bool:
    beside = (change for change in changes if change.is_new and change.path[:-1] == gone.path[:-1])
    return any(change.after == gone.before for change in beside)


def _can_be_left_out(check: EntryCheck, at: int) -> bool:
    others = [each for number, each in enumerate(check.played) if number != at]
    whole, shorter = (check.replay(check.entry.config) for _ in range(2))
    for each in check.played:
        whole.call(each.call)
    results = [shorter.call(each.call).result.text for each in others]
    return results == [each.step.result.text for each in others] and shorter.state == whole.state


@dataclass(frozen=True, slots=True)
class _Failure:
    """A run's wrong answer to a row, in one spelling for equal calls, and the cause."""

    answer: str
    cause: str
    evidence: str


def failing_alike(runs: Sequence[Run], names: Container[str]) -> Iterator[AuditFinding]:
    """Yield a finding for each row that all runs failed with the same calls, or for the same cause."""
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
