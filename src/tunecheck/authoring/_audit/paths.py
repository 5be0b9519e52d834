"""Calls that can be left out: what they do is done already, or undone, or overwritten before anybody looks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from tunecheck.authoring._audit.findings import AuditFinding, Replacement, found
from tunecheck.datasets._multi_turn_check import ASKS, EntryCheck, PlayedCall
from tunecheck.datasets._multi_turn_replay import copied

_LONGEST_RUN = 3
_MOST_CALLS = 40
"""A conversation with more calls is not looked at: each is left out in turn, and all others made again."""


@dataclass
class LeavingOut:
    """Leaves calls out of one conversation after another.

    Whether an operation acts is known when all rows were seen: one that changed a state, or that a later result
    depended on. Only leaving out such calls says something; one that reads is made for what it answers.
    """

    acting: set[str] = field(default_factory=set)
    _open: list[tuple[str, AuditFinding]] = field(default_factory=list)

    def look(self, name: str, check: EntryCheck) -> None:
        """One conversation."""
        played = check.played
        self.acting.update(each.call.name for each in played if each.step.changes)
        if len(played) > _MOST_CALLS or check.entry.judging.alternatives:
            return
        idle: set[int] = set()
        whole = _outcomes(check, played, ())
        for at, each in enumerate(played):
            is_last = at + 1 == len(played)  # nothing depends on it: it is made for what it answers, or does
            if each.step.result.error or (is_last and not _is_repeated(played, at)):
                continue
            if _outcomes(check, played, (at,)) == _without(whole, (at,)):
                idle.add(at)
                self._idle(name, played, at)
            elif not each.step.changes:
                self.acting.add(each.call.name)
        self._runs(name, check, whole, idle)

    def findings(self) -> Iterator[AuditFinding]:
        """All that was found, once every row was looked at."""
        return (finding for operation, finding in self._open if not operation or operation in self.acting)

    def _idle(self, name: str, played: Sequence[PlayedCall], at: int) -> None:
        each = played[at]
        text = each.text
        drop = Replacement(each.turn, text, None)
        fix = f"leave out {text}"
        if _is_repeated(played, at):
            evidence = f"{text} is made twice, with nothing changed between"
            self._open.append(("", found(name, "superfluous_call", evidence, each.turn, fix=fix, replacement=drop)))
        elif each.step.changes:
            evidence = f"what {text} changes is overwritten in the same turn"
            self._open.append(("", found(name, "superfluous_call", evidence, each.turn, fix=fix, replacement=drop)))
        elif not ASKS.search(each.call.name):
            evidence = f"{text} changes nothing, and no later result depends on it"
            finding = found(name, "already_as_wanted", evidence, each.turn, fix=fix, replacement=drop)
            self._open.append((each.call.name, finding))

    def _runs(self, name: str, check: EntryCheck, whole: _Outcome, idle: set[int]) -> None:
        """Neighbouring calls of one turn, each of which is needed for the next, and none for anything else."""
        played = check.played
        for start in range(len(played)):
            for end in range(start + 2, min(start + _LONGEST_RUN, len(played) - 1) + 1):
                run = tuple(range(start, end))
                within = played[start].turn == played[end - 1].turn
                if not within or not idle.isdisjoint(run) or any(played[at].step.result.error for at in run):
                    continue
                if all(played[at].call.name in self.acting for at in run) and (
                    _outcomes(check, played, run) == _without(whole, run)
                ):
                    texts = ", ".join(played[at].text for at in run)
                    evidence = f"after {texts} everything is as before"
                    self._open.append(
                        ("", found(name, "shorter_path", evidence, played[start].turn, fix=f"leave out {texts}"))
                    )
                    return


def _is_repeated(played: Sequence[PlayedCall], at: int) -> bool:
    """Whether the same call stands earlier in its turn."""
    return any(one.turn == played[at].turn and one.call == played[at].call for one in played[:at])


@dataclass(frozen=True, slots=True)
class _Outcome:
    results: Sequence[str | None]
    states: Sequence[object]


def _outcomes(check: EntryCheck, played: Sequence[PlayedCall], left_out: Sequence[int]) -> _Outcome:
    """The results of all calls but those, and the state after each turn."""
    backend = check.replay(check.entry.config).backend
    results: list[str | None] = []
    states: list[object] = []
    for at, each in enumerate(played):
        results.append(None if at in left_out else backend.call(each.call).text)
        if at + 1 == len(played) or played[at + 1].turn != each.turn:
            states.append(copied(backend.states()))
    return _Outcome(results, states)


def _without(outcome: _Outcome, left_out: Sequence[int]) -> _Outcome:
    results = [None if at in left_out else text for at, text in enumerate(outcome.results)]
    return _Outcome(results, outcome.states)
