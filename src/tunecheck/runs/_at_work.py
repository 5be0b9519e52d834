"""Whether somebody is at work on a run: seen by what changes in its storage, whatever clocks say on other machines."""

from __future__ import annotations

import time
from collections.abc import Iterable

from tunecheck._errors import TunecheckError
from tunecheck.runs._claims import STALE_S, Claims
from tunecheck.runs._store import Run
from tunecheck.storage._address import open_store
from tunecheck.storage._shipping import owner_version

_LOOKED_EVERY_S = 0.5


def at_work_elsewhere(runs: Iterable[Run]) -> set[str]:
    """Those of these runs that workers, or another machine, are at work on; seconds later, where it may be."""
    first = {run: beats for run in runs if (beats := _beats(run, first=True))}
    found: set[str] = set()
    until = time.monotonic() + STALE_S
    while len(found) < len(first) and time.monotonic() < until:
        time.sleep(_LOOKED_EVERY_S)
        found |= {run.id for run, beats in first.items() if run.id not in found and _beats(run) - beats}
    return found


def _beats(run: Run, *, first: bool = False) -> set[tuple[str, str | None]]:
    """The versions of what changes every second or two while somebody works; at first only if somebody may."""
    try:
        owner = owner_version(run.folder)
        if first and owner is None and not Claims.of(run).held_by_anybody:
            return set()
        return {*open_store(run.shared).list("lease/").items(), ("owner", owner)}
    except TunecheckError:  # what cannot be read is said by who needs it
        return set()
