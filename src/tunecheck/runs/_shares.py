"""What the workers of a run have of its limits and its budget: one object, `shares`, swapped by its version.

A worker's part of the requests and tokens a minute holds for some seconds after it was renewed. Money is spent when it
is granted. What a worker had that died stays reserved until who takes over its chunk has read what it recorded; what is
left then may have been spent on calls whose answers were lost, and stays reserved for good.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

import msgspec
from msgspec.structs import replace

from tunecheck._files import FORMAT_VERSION
from tunecheck.runs._claims import STALE_S, read_object
from tunecheck.runs._store import Run
from tunecheck.storage._address import open_store
from tunecheck.storage._store import Store

_NAME = "shares"

_FOR_EACH_S = 0.2
"""So much longer a part holds for each worker that there is, from thirty on: all of them swap one object."""


class Share(msgspec.Struct, frozen=True, kw_only=True):
    """What one worker has, for the chunk that it works on; None: it works on none, or somebody has taken it over."""

    chunk: int | None
    beat: int = 0
    part: float = 0.0
    """Of the requests and tokens a minute."""
    lasts_s: float = STALE_S
    """How long, from when it was renewed."""
    money: float = 0.0
    """Spent on the chunk, or granted for it."""
    unread: float = 0.0
    """What earlier owners of the chunk may have spent beyond what is read by now of what they recorded."""
    starved: bool = False
    """It has calls to make, none under way, and not the money for one."""


class Shares(msgspec.Struct, frozen=True, kw_only=True):
    """Those of all workers; `most` is what all may spend together, `settled` was spent on finished chunks."""

    format_version: int = FORMAT_VERSION
    most: float | None = None
    settled: float = 0.0
    lost: float = 0.0
    """What workers that died may have spent, and nobody has recorded."""
    left: dict[int, float] = {}
    """By chunk, what was spent on it by workers that ended in order before it was finished."""
    workers: dict[str, Share] = {}

    def granted(self) -> float:
        """What is spent, or may be."""
        held = sum(share.money + share.unread for share in self.workers.values())
        return self.settled + self.lost + sum(self.left.values()) + held


@dataclass(frozen=True, slots=True)
class Needs:
    """What a worker asks for its chunk."""

    spent: float = 0.0
    read: float = 0.0
    """Of that, what earlier owners had recorded."""
    held: float = 0.0
    """It keeps at least this: spent, and set aside for calls under way."""
    least: float = 0.0
    """With this, one more call can be made."""
    wanted: float = 0.0
    least_part: float = 0.0
    """A smaller part of the limits is of no use."""

    @property
    def starving(self) -> bool:
        """Whether nothing is under way that could give money back, and a call waits."""
        return self.held <= self.spent < self.least


class FencedError(Exception):
    """Somebody else has taken over the chunk and what was granted for it."""


class SharedLimits:
    """What one process sees and changes of a run's shares; several seconds without a renewal end a part."""

    def __init__(self, store: Store, owner: str, clock: Callable[[], float] = time.monotonic) -> None:
        self.owner = owner
        self._store = store
        self._clock = clock
        self._seen: dict[str, tuple[int, float]] = {}
        self._entered: int | None = None
        self._inherited = 0.0

    @classmethod
    def of(cls, run: Run, owner: str = "") -> Self:
        """Those of a run."""
        return cls(open_store(run.shared), owner)

    def prepare(self, most: float | None) -> None:
        """Let the workers spend this much together."""
        while True:
            if self._store.create(_NAME, msgspec.json.encode(Shares(most=most))):
                return
            shares, version = self.read()
            if self.swap(replace(shares, most=most), version):
                return

    def read(self) -> tuple[Shares, str]:
        """What stands there, with its version.

        Raises:
            RunError: nothing does, as the run is finished, or the storage cannot be reached.
        """
        return read_object(self._store, _NAME, Shares)

    def swap(self, shares: Shares, version: str) -> bool:
        """Write what was made of that version; whether nobody was faster."""
        return self._store.replace(_NAME, msgspec.json.encode(shares), version)

    # -- what becomes of them; nothing below writes

    def renewed(self, shares: Shares, chunk: int, needs: Needs) -> Shares:
        """With this worker's share, for some seconds from now on.

        Raises:
            FencedError: another one has its chunk.
        """
        own = shares.workers.get(self.owner, Share(chunk=None))
        if self._entered != chunk:
            shares, self._inherited = _taken_over(shares, chunk)
            own = replace(own, chunk=chunk, money=0.0, unread=0.0)
        elif own.chunk != chunk:
            raise FencedError
        living = self._living(shares)
        others = {
            name: share
            for name, share in shares.workers.items()
            if name != self.owner and (name in living or share.chunk is not None)
        }
        unread = max(0.0, self._inherited - needs.read)
        money = needs.held
        if shares.most is not None:
            elsewhere = replace(shares, workers=others).granted() + unread
            busy = 1 + sum(others[name].chunk is not None for name in living)
            money = _money(shares.most - elsewhere, busy, needs)
        own = replace(
            own,
            beat=own.beat + 1,
            lasts_s=max(STALE_S, _FOR_EACH_S * len(others)),
            part=_part([others[name] for name in living], needs.least_part),
            money=money,
            unread=unread,
            starved=money < needs.least and needs.starving,
        )
        return replace(shares, workers={**others, self.owner: own})

    def entered(self, chunk: int | None) -> None:
        """The share of a chunk is written; None: it was left."""
        self._entered = chunk

    def left(self, shares: Shares, chunk: int, needs: Needs, *, finished: bool) -> Shares:
        """When this worker's work on a chunk has ended."""
        own = shares.workers.get(self.owner)
        if own is None or own.chunk != chunk:
            return shares
        if finished:
            shares = replace(shares, settled=shares.settled + needs.spent, lost=shares.lost + own.unread)
        else:
            shares = replace(shares, left={**shares.left, chunk: needs.spent + own.unread})
        ended = replace(own, chunk=None, beat=own.beat + 1, part=0.0, money=0.0, unread=0.0, starved=False)
        return replace(shares, workers={**shares.workers, self.owner: ended})

    def exhausted(self, shares: Shares) -> bool:
        """Whether no worker that lives has anything that it could give back or go on with."""
        living = [shares.workers[name] for name in {*self._living(shares), self.owner} if name in shares.workers]
        return all(share.starved for share in living if share.chunk is not None)

    def _living(self, shares: Shares) -> list[str]:
        """The other workers whose share has been renewed in time, by this process's own clock."""
        now, seen = self._clock(), self._seen
        self._seen = {}
        for name, share in shares.workers.items():
            beat, since = seen.get(name, (-1, now))
            self._seen[name] = (share.beat, since if beat == share.beat else now)
        still = {name: now - since for name, (_, since) in self._seen.items() if name != self.owner}
        return [name for name, seconds in still.items() if seconds <= shares.workers[name].lasts_s]


def _taken_over(shares: Shares, chunk: int) -> tuple[Shares, float]:
    """Without what others had for a chunk, and how much that was."""
    before = {name: share for name, share in shares.workers.items() if share.chunk == chunk}
    money = shares.left.get(chunk, 0.0) + sum(share.money + share.unread for share in before.values())
    # Their part of the limits stays theirs for its time: one that was only taken for dead may go by it.
    fenced = {name: replace(share, chunk=None, money=0.0, unread=0.0) for name, share in before.items()}
    left = {each: spent for each, spent in shares.left.items() if each != chunk}
    return replace(shares, left=left, workers={**shares.workers, **fenced}), money


def _money(free: float, busy: int, needs: Needs) -> float:
    """What of the free money a worker gets: as much as it wants, but half of its fair part of what is left at most.

    What is not enough for one call is of no use, and left to others.
    """
    fair = needs.held + (free - needs.held) / (2 * busy)
    money = min(needs.wanted, max(needs.least, fair), free)
    return needs.held if money < needs.least else max(needs.held, money)


def _part(others: list[Share], least: float) -> float:
    """What of the limits a worker gets: as much as each that has work to do, of what the others have left."""
    busy = 1 + sum(share.chunk is not None for share in others)
    part = min(max(1 / busy, least), 1 - sum(share.part for share in others))
    return part if part >= least else 0.0
