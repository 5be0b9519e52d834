"""Goes through a data set once, row by row, and collects what is probably wrong with it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from tunecheck.datasets._multi_turn_check import CheckedRow
from tunecheck.runs._store import Run
from tunecheck_authoring._audit.dialogue import Dialogue, DialogueReader
from tunecheck_authoring._audit.failing import failing_alike
from tunecheck_authoring._audit.findings import AuditFinding, found, of_check, worst_first
from tunecheck_authoring._audit.paths import LeavingOut
from tunecheck_authoring._audit.readings import reading_findings
from tunecheck_authoring._audit.repeats import Rows, known_row
from tunecheck_authoring._audit.requests import request_findings
from tunecheck_authoring._audit.reruns import Reruns
from tunecheck_authoring._audit.skill import may_pass_calling, passes_calling, passes_idle
from tunecheck_authoring._audit.steps import step_findings
from tunecheck_authoring._audit.values import value_findings


@dataclass(frozen=True, slots=True)
class Audit:
    """What was found, worst first, and what agents without any skill would score.

    `idle` are the rows that an agent passes which calls nothing; `calling` those of one that calls everything: of
    conversations, of which `played` could be run, those that it passes, of questions those that it can pass at most.
    """

    rows: int
    findings: Sequence[AuditFinding]
    idle: int
    calling: int
    played: int

    @property
    def flagged(self) -> set[str]:
        """The rows with a finding that is sure or likely."""
        return {finding.id for finding in self.findings if finding.certainty != "look"}

    @property
    def unread(self) -> set[str]:
        """The rows of which something could not be looked at."""
        return {finding.id for finding in self.findings if finding.kind == "not_looked_at"}


def audit(
    rows: Iterable[CheckedRow], reader: DialogueReader, *, training: Iterable[Dialogue] = (), runs: Sequence[Run] = ()
) -> Audit:
    """Everything that is probably wrong with these rows, in time that grows as their number does.

    Args:
        rows: as `datasets check` leaves them.
        reader: reads them as dialogues.
        training: rows that are trained on, of which none may be among these.
        runs: that tested these rows.
    """
    trained = Rows()
    for each in training:
        trained.add(known_row(each))
    auditing = _Auditing(reader, trained)
    findings = [finding for row in rows for finding in auditing.findings(row)]
    findings += auditing.leaving_out.findings()
    findings += failing_alike(runs, auditing.names)
    return Audit(auditing.rows, worst_first(findings), auditing.idle, auditing.calling, auditing.played)


@dataclass
class _Auditing:
    """Looks at one row after another, and remembers of each what those after it are compared with."""

    reader: DialogueReader
    trained: Rows
    own: Rows = field(default_factory=Rows)
    leaving_out: LeavingOut = field(default_factory=LeavingOut)
    names: set[str] = field(default_factory=set)
    rows: int = 0
    idle: int = 0
    calling: int = 0
    played: int = 0

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
        yield from step_findings(dialogue)
        known = known_row(dialogue, self.reader.cluster_of(row))
        yield from self.own.repeated(known)
        self.own.add(known)
        yield from self.trained.leaked(known)
        passes = passes_idle(row, dialogue)
        self.idle += passes
        if passes and dialogue.calls:
            evidence = "its calls leave the state as it was, and nothing else is judged"
            yield found(row.name, "passes_idle", evidence, fix="judge the calls, too")
        yield from self._replayed(row, dialogue)

    def _replayed(self, row: CheckedRow, dialogue: Dialogue) -> Iterator[AuditFinding]:
        """What needs the calls to be made again; the others can be judged by what stands in the row alone."""
        if row.replayed is None:
            self.calling += may_pass_calling(row, dialogue)
            return
        try:
            reruns = Reruns(row.replayed)
            self.calling += passes_calling(dialogue, reruns)
            self.played += 1
            if row.replayed.entry.judging.alternatives:
                yield found(row.name, "not_looked_at", "which calls may be left out: it has other ground truths, too")
                return
            yield from reading_findings(dialogue, reruns)
            self.leaving_out.look(row.name, reruns)
        except Exception as error:  # noqa: BLE001 - a user's simulator, asked for what nobody has asked it for before
            yield found(row.name, "not_looked_at", f"which calls may be left out: {type(error).__name__}: {error}")
            return
        if reruns.are_used_up:
            yield found(row.name, "not_looked_at", "all calls that may be left out: there are too many")
