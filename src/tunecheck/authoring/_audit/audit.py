"""Goes through a data set once, row by row, and collects what is probably wrong with it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from tunecheck.authoring._audit.dialogue import Dialogue, DialogueReader
from tunecheck.authoring._audit.failing import failing_alike
from tunecheck.authoring._audit.findings import AuditFinding, found, of_check, worst_first
from tunecheck.authoring._audit.paths import LeavingOut
from tunecheck.authoring._audit.repeats import Rows
from tunecheck.authoring._audit.requests import request_findings
from tunecheck.authoring._audit.values import value_findings
from tunecheck.datasets._multi_turn_check import CheckedRow
from tunecheck.runs._store import Run

_ANY_CALL = "relevance"


@dataclass(frozen=True, slots=True)
class Audit:
    """What was found, worst first, and what agents without any skill would score.

    `idle` are the rows that an agent passes which calls nothing; `calling` those that ask for a call in every turn, the
    most that an agent can pass which calls something whatever it is asked.
    """

    rows: int
    findings: Sequence[AuditFinding]
    idle: int
    calling: int

    @property
    def flagged(self) -> set[str]:
        """The rows with a finding that is sure or likely."""
        return {finding.id for finding in self.findings if finding.certainty != "look"}


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
        trained.add(each)
    own, leaving_out = Rows(), LeavingOut()
    findings: list[AuditFinding] = []
    count = idle = calling = 0
    for row in rows:
        count += 1
        findings += (of_check(finding) for finding in row.findings if not finding.is_remark)
        dialogue = reader.read(row)
        if dialogue is None:
            continue
        findings += _of_row(dialogue, row, own, trained, leaving_out)
        passes_idle = _passes_idle(row, dialogue)
        idle += passes_idle
        calling += _calls_throughout(row, dialogue)
        if passes_idle and dialogue.calls:
            evidence = "its calls leave the state as it was, and nothing else is judged"
            findings.append(found(row.name, "passes_idle", evidence, fix="judge the calls, too"))
    findings += leaving_out.findings()
    findings += failing_alike(runs)
    return Audit(count, worst_first(findings), idle, calling)


def _of_row(
    dialogue: Dialogue, row: CheckedRow, own: Rows, trained: Rows, leaving_out: LeavingOut
) -> Iterator[AuditFinding]:
    yield from value_findings(dialogue)
    yield from request_findings(dialogue)
    if row.replayed is not None:
        leaving_out.look(row.name, row.replayed)
    yield from own.repeated(dialogue)
    own.add(dialogue)
    yield from trained.leaked(dialogue)


def _passes_idle(row: CheckedRow, dialogue: Dialogue) -> bool:
    if row.replayed is not None and row.replayed.entry.judging.final_state_only:
        return row.replayed.is_unchanged
    return not dialogue.calls and row.values.get("check") != _ANY_CALL


def _calls_throughout(row: CheckedRow, dialogue: Dialogue) -> bool:
    return row.values.get("check") == _ANY_CALL or all(dialogue.of_turn(turn) for turn in range(len(dialogue.asked)))
