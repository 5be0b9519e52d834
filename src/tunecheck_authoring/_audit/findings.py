"""The kinds of findings: their descriptions, how certain each is, and their order, worst first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Final, Literal, TypeAlias

from tunecheck.plugins import JSON
from tunecheck_authoring._audit.conversations import PROBLEMS
from tunecheck_authoring._audit.rows import Finding

Certainty: TypeAlias = Literal["sure", "likely", "look"]

CERTAINTIES: Final[tuple[Certainty, ...]] = ("sure", "likely", "look")

_LIKELY: Final = {
    "nearly_quoted": "an argument is nearly, not quite, what the user quoted",
    "mistyped_value": "an argument is one character away from what is given, and given nowhere itself",
    "ungrounded_number": "a number is in nothing that was said, configured or answered, and follows from none of it",
    "stale_copy": "an argument shares much with an earlier result, and is not it",
    "unanswered_request": "the user asks for something that no call does",
    "unused_text": "the user quotes something that no call has",
    "superfluous_call": "the same call is made twice, with nothing changed between",
    "renamed_original": "something is copied and then renamed itself, not its copy",
    "conflicting_answers": "the same request has other right calls in another row",
    "in_training_data": "the row is in the training data",
    "passes_idle": "an agent that does nothing passes the row",
    "fails_alike": "all runs fail the row in the same way",
}
_LOOK: Final = {
    "ungrounded_value": "a text is in nothing that was said, configured or answered",
    "near_duplicate": "the row is nearly another one",
    "not_looked_at": "not looked at",
}

KINDS: Final[Mapping[str, str]] = {**PROBLEMS, **_LIKELY, **_LOOK}
"""Descriptions of the kinds of findings; those of `check` are sure."""

_ORDER = {kind: at for at, kind in enumerate(KINDS)}
_MOST_EVIDENCE = 400


@dataclass(frozen=True, slots=True)
class Replacement:
    """An automatic fix: replace this call of the turn's ground truth by `new`, or delete it if `new` is None."""

    turn: int
    old: str
    new: str | None


@dataclass(frozen=True, slots=True)
class AuditFinding:
    """A probable mistake in the row `id`; `turn` counts from 0, and is None if the finding concerns the whole row."""

    id: str
    kind: str
    certainty: Certainty
    turn: int | None
    evidence: str
    fix: str | None = None
    replacement: Replacement | None = None

    def as_json(self) -> dict[str, JSON]:
        return {name: value for name, value in asdict(self).items() if name != "replacement"}


def found(
    row: str,
    kind: str,
    evidence: str,
    turn: int | None = None,
    *,
    fix: str | None = None,
    replacement: Replacement | None = None,
    certainty: Certainty | None = None,
) -> AuditFinding:
    """Return a finding of this kind, with the kind's usual certainty unless one is given."""
    usual: Certainty = "look" if kind in _LOOK else "likely" if kind in _LIKELY else "sure"
    text = " ".join(evidence.split())
    text = text if len(text) <= _MOST_EVIDENCE else f"{text[:_MOST_EVIDENCE]}…"
    return AuditFinding(row, kind, certainty or usual, turn, text, fix, replacement)


def of_check(finding: Finding) -> AuditFinding:
    """Return the finding for a problem that `check` found."""
    call = f"{finding.call}: " if finding.call else ""
    return found(finding.entry, finding.problem, f"{call}{finding.text}", finding.turn)


def worst_first(findings: Iterable[AuditFinding]) -> list[AuditFinding]:
    return sorted(findings, key=lambda each: (CERTAINTIES.index(each.certainty), _ORDER[each.kind]))
