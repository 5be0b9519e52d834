"""Traces of a step that is missing: a place that the user names and no call goes to, an original moved for its copy."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from tunecheck.datasets._multi_turn_replay import Change
from tunecheck_authoring._audit.dialogue import Dialogue
from tunecheck_authoring._audit.findings import AuditFinding, found
from tunecheck_authoring._audit.given import Given

_PLACE = r"(?:directory|folder|album|playlist|channel|board|collection|database|bucket|list)"
_CALLED = rf"\b{_PLACE} (?:named|called|titled) ['\"`“‘]?([\w.-]+)"
# Without such a word "list" is rather what somebody is asked to do.
_BY_NAME = rf"\b(?!list){_PLACE} ['\"`“‘]?([\w.-]+)"
_NAMED = re.compile(rf"['\"`“‘]?([\w.-]+)['\"`”’]? {_PLACE}\b|{_CALLED}|{_BY_NAME}", re.IGNORECASE)


def step_findings(dialogue: Dialogue) -> Iterator[AuditFinding]:
    """What tells of a missing step though every call works."""
    if dialogue.is_conversation:
        yield from _unvisited(dialogue)
        yield from _moved_originals(dialogue)


def _unvisited(dialogue: Dialogue) -> Iterator[AuditFinding]:
    """Places of the configuration that no call or answer names by the end of the turn, and where nothing is done."""
    places = {name.casefold() for name in _containers(dialogue.start)}
    paths = [change.path for call in dialogue.calls for change in call.changes]
    places -= {str(step).casefold() for path in paths for step in path[:-1]} if paths else places
    known, waiting = Given(), ""  # what is asked for in turns without calls: a function is added, or asked back for
    for turn, asked in enumerate(dialogue.asked):
        waiting = f"{waiting}\n{asked}"
        calls = dialogue.of_turn(turn)
        known.add([[*call.right.accepted.values(), call.result] for call in calls])
        for match in _NAMED.finditer(waiting) if calls else ():
            place = match[1] or match[2] or match[3]
            if place.casefold() in places and not known.has_text(place):
                evidence = f"the user says {match[0]!r}, which is there, and no call has {place!r}"
                yield found(dialogue.name, "unvisited_place", evidence, turn)
        waiting = "" if calls else waiting


def _moved_originals(dialogue: Dialogue) -> Iterator[AuditFinding]:
    """What a call copies in a turn, and a later one takes from its old place."""
    for turn in range(len(dialogue.asked)):
        copies: list[tuple[str, Change]] = []
        for call in dialogue.of_turn(turn):
            gone = [change for change in call.changes if change.is_gone]
            made = next((text for text, copy in copies if any(_is_original(each, copy) for each in gone)), None)
            if made is not None:
                evidence = f"{made} makes a copy, and {call.text} takes the original away"
                yield found(dialogue.name, "moved_original", evidence, turn)
            elif not gone:
                copies += ((call.text, change) for change in call.changes if change.is_new)


def _is_original(gone: Change, copy: Change) -> bool:
    return gone.path != copy.path and gone.before == copy.after


def _containers(value: object) -> Iterator[str]:
    """The names of what holds other things."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            if isinstance(item, (Mapping, list)):
                yield str(key)
            yield from _containers(item)
    elif isinstance(value, list):
        for item in value:
            yield from _containers(item)
