"""Calls that can be left out, or do with one in place of two: what they do is done already, undone, or overwritten."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations, pairwise, product

from tunecheck._json import JSON
from tunecheck.calls._model import FunctionCall
from tunecheck.datasets._multi_turn_check import ASKS, PlayedCall
from tunecheck.datasets._row_check import call_text
from tunecheck.simulators._base import Operation
from tunecheck_authoring._audit.findings import AuditFinding, Replacement, found
from tunecheck_authoring._audit.reruns import Reruns

_LARGEST_PART = 3
"""Most calls of a turn that are left out at once."""


@dataclass
class LeavingOut:
    """Leaves calls out of one conversation after another.

    Whether an operation acts is known when all rows were seen: one that changed a state, or that a later result
    depended on. Only leaving out such calls says something; one that reads is made for what it answers.
    """

    acting: set[str] = field(default_factory=set)
    _open: list[tuple[str, AuditFinding]] = field(default_factory=list)

    def look(self, name: str, reruns: Reruns) -> None:
        """One conversation."""
        played = reruns.played
        self.acting.update(each.call.name for each in played if each.step.changes)
        idle: set[int] = set()
        for at, each in enumerate(played):
            is_last = at + 1 == len(played)  # nothing depends on it: it is made for what it answers, or does
            if each.step.result.error or (is_last and not _is_repeated(played, at)) or reruns.are_used_up:
                continue
            if reruns.changes_nothing({at: None}):
                idle.add(at)
                self._idle(name, played, at)
            elif not each.step.changes:
                self.acting.add(each.call.name)
        shorter = self._parts(name, reruns, idle) or _in_one(name, reruns)
        if shorter is not None:
            self._open.append(("", shorter))

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

    def _parts(self, name: str, reruns: Reruns, idle: set[int]) -> AuditFinding | None:
        """Calls of one turn, each of which is needed for the next, and none for anything else."""
        played = reruns.played
        for turn in _turns(played):
            acting = [at for at in turn if at not in idle and played[at].call.name in self.acting]
            acting = [at for at in acting if not played[at].step.result.error]
            for size in range(2, _LARGEST_PART + 1):
                for part in combinations(acting, size):
                    if played[part[-1]].step.changes or part[-1] + 1 < len(played):
                        if reruns.are_used_up:
                            return None
                        if reruns.changes_nothing(dict.fromkeys(part)):
                            texts = ", ".join(played[at].text for at in part)
                            evidence = f"after {texts} everything is as before"
                            fix = f"leave out {texts}"
                            return found(name, "shorter_path", evidence, played[part[0]].turn, fix=fix)
        return None


def _in_one(name: str, reruns: Reruns) -> AuditFinding | None:
    """A call that leaves the state as two neighbours do, made of their values."""
    played = reruns.played
    for turn in _turns(played):
        changing = [at for at in turn if played[at].step.changes and not played[at].step.result.error]
        for one, two in pairwise(changing):
            for call in _made_of(reruns, one, two):
                if reruns.are_used_up:
                    return None
                if reruns.changes_nothing({one: None, two: call}):
                    texts = f"{played[one].text}, {played[two].text}"
                    evidence = f"{call_text(call)} alone leaves everything as {texts} do"
                    return found(name, "shorter_path", evidence, played[one].turn, certainty="look")
    return None


def _made_of(reruns: Reruns, one: int, two: int) -> Iterator[FunctionCall]:
    """Calls of functions of their service on offer, whose arguments are among those of the two."""
    calls = [reruns.played[at].call for at in (one, two)]
    offered = reruns.check.offered(reruns.played[one].turn)
    for simulator in reruns.check.replay(reruns.check.entry.config).backend.simulators.values():
        operations = simulator.operations()
        for operation in operations.values() if all(call.name in operations for call in calls) else ():
            if operation.name in offered and not ASKS.search(operation.name):
                for values in product(*(_values(calls, each, operation) for each in operation.required)):
                    call = FunctionCall(operation.name, dict(zip(operation.required, values, strict=True)))
                    if call not in calls:
                        yield call


def _values(calls: Sequence[FunctionCall], parameter: str, operation: Operation) -> list[JSON]:
    """What the calls have for a parameter of this name; of any, where the operation has no other."""
    values: list[JSON] = []
    for call in calls:
        for name, value in call.arguments.items():
            if value not in values and (name == parameter or len(operation.required) == 1):
                values.append(value)
    return values


def _turns(played: Sequence[PlayedCall]) -> Iterator[list[int]]:
    """The numbers of each turn's calls."""
    for turn in dict.fromkeys(each.turn for each in played):
        yield [at for at, each in enumerate(played) if each.turn == turn]


def _is_repeated(played: Sequence[PlayedCall], at: int) -> bool:
    """Whether the same call stands earlier in its turn."""
    return any(one.turn == played[at].turn and one.call == played[at].call for one in played[:at])
