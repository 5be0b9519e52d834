"""The chunks of a run that several workers share: whose each is, what has been recorded of it, and what of that counts.

    chunks                      which rows each chunk has, written once
    lease/<chunk>-<n>           who works on it, renewed all the time; the highest n holds
    segments/<chunk>/<owner>-<n>    what an owner has journaled, piece by piece
    results/<chunk>/<owner>-<what>-<n>    what an owner has made of the finished chunk: its part of the run's files
    done/<chunk>                the segments and results that count, in order, with the numbers of rows and records

Whatever of these is made, one makes it. So a worker that is taken for dead, and lives, changes no result: what it
writes is named by no `done`.
"""

from __future__ import annotations

import random
import re
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Self, TypeAlias, TypeVar
from zlib import crc32

import msgspec

from tunecheck._errors import RunError
from tunecheck._files import FORMAT_VERSION, JSON, WorkerEntry, check_version
from tunecheck._json import loads
from tunecheck._messages import counted
from tunecheck._records import WholeRecords
from tunecheck.runs._store import Run
from tunecheck.storage._address import open_store
from tunecheck.storage._store import Store

STALE_S = 6.0
"""A lease that has stood still for so long, by the clock of who looks at it, holds no more."""

_FEW_SEGMENTS = 8
"""So many are read one by one; each costs a request of whoever joins the chunks, who is one for all workers."""

_NUMBERS = re.compile(r"(0|[1-9][0-9]*)(-(0|[1-9][0-9]*))*")

_Object = TypeVar("_Object", bound=msgspec.Struct)

Ranges: TypeAlias = list[tuple[int, int]]
"""Indices of rows: from the first of each pair up to, not including, the second."""

Owner: TypeAlias = Annotated[str, msgspec.Meta(pattern=r"^[^/\\]+$")]
Segment: TypeAlias = Annotated[str, msgspec.Meta(pattern=r"^segments/[0-9]+/[^/\\]+-[0-9]+$")]
ResultName: TypeAlias = Annotated[str, msgspec.Meta(pattern=r"^results/[0-9]+/[^/\\]+-[a-z]+-[0-9]+$")]
"""Names that others have written down are read only where they lead to an object of the run."""


class Chunks(msgspec.Struct, frozen=True, kw_only=True):
    """How the rows of a run are cut."""

    format_version: int = FORMAT_VERSION
    rows: Annotated[list[Ranges], msgspec.Meta(min_length=1)]


class Moment(msgspec.Struct, frozen=True):
    """How far a worker is with its chunk."""

    answered: int = 0
    finished: int = 0
    failed: int = 0
    reused: int = 0
    under_way: int = 0
    cost: float = 0.0
    """Of its calls, in the currency of their prices."""


class Lease(msgspec.Struct, frozen=True, kw_only=True):
    """Who works on a chunk; `base` are the segments of earlier owners from which this one goes on."""

    format_version: int = FORMAT_VERSION
    owner: Owner
    base: list[Segment] = []
    beat: int = 0
    moment: Moment = Moment()
    released: bool = False


class Piece(msgspec.Struct, frozen=True, array_like=True):
    """A part of a file: its name in the storage, and its checksum."""

    name: ResultName
    crc: int


class Results(msgspec.Struct, frozen=True, kw_only=True):
    """A chunk's finished rows, the same as a table (none where its rows do not follow each other), what was counted.

    `journal` is all that was shipped of it, in one, where that were many segments.
    """

    journal: list[Piece] = []
    rows: list[Piece] = []
    table: list[Piece] = []
    outcome: list[Piece] = []


class Done(msgspec.Struct, frozen=True, kw_only=True):
    """What of a chunk counts; `api` is what its owner found out about the endpoints."""

    format_version: int = FORMAT_VERSION
    worker: WorkerEntry
    moment: Moment
    rows: int
    records: int
    segments: list[Segment]
    results: Results
    api: dict[str, JSON] = {}


class LostLeaseError(Exception):
    """Somebody else has the chunk now, and its results do not come from here."""


@dataclass(frozen=True, slots=True)
class _Held:
    number: int
    version: str
    since: float
    """When this version was first seen, by this process's clock."""
    lease: Lease


def size_of(ranges: Ranges) -> int:
    """How many rows they are."""
    return sum(end - begin for begin, end in ranges)


class Claims:
    """What one process sees of the chunks of a run, and claims of them."""

    def __init__(self, store: Store, owner: str, clock: Callable[[], float] = time.monotonic) -> None:
        self.owner = owner
        self._store = store
        self._clock = clock
        self._held: dict[int, _Held] = {}
        self._next = 0
        self._chunks: list[Ranges] = []
        self._done: set[int] = set()
        self._done_with: dict[int, Done] = {}

    @classmethod
    def of(cls, run: Run, owner: str = "") -> Self:
        """Those of a run; `owner` is the name of who claims."""
        return cls(open_store(run.shared), owner)

    def prepare(self, rows: list[Ranges]) -> None:
        """Cut the run so, unless it is cut already."""
        if self._store.read("chunks") is None:
            self._store.create("chunks", msgspec.json.encode(Chunks(rows=rows)))

    @property
    def exist(self) -> bool:
        """Whether the run is cut into chunks."""
        return self._store.read("chunks") is not None

    @property
    def chunks(self) -> Sequence[Ranges]:
        """Which rows each chunk has."""
        if not self._chunks:
            self._chunks = read_object(self._store, "chunks", Chunks)[0].rows
            self._next = random.randrange(len(self._chunks))  # not all workers begin at the same
        return self._chunks

    def done(self) -> set[int]:
        """The chunks that are finished."""
        names = (_numbers(name.removeprefix("done/")) for name in self._store.list("done/"))
        self._done |= {number for numbers in names for number in numbers if number < len(self.chunks)}
        return self._done

    @property
    def finished(self) -> bool:
        """Whether all chunks are, or the results are written already."""
        return not self.exist or len(self.done()) == len(self.chunks)

    def claim(self) -> Claim | None:
        """A chunk that nobody works on, which is this process's now; None where there is none at present."""
        count = len(self.chunks)
        done, held = self.done(), self.held()
        free = [chunk for chunk in range(count) if chunk not in done and self._is_free(held.get(chunk))]
        # The largest first, so that nobody works long on the last one.
        for chunk in sorted(free, key=lambda chunk: (-size_of(self.chunks[chunk]), (chunk - self._next) % count)):
            now = held.get(chunk)
            number, base = (1, []) if now is None else (now.number + 1, self._segments_of(chunk, now.lease))
            lease = Lease(owner=f"{self.owner}.{number}", base=base)  # it may have had the chunk before, and lost it
            name = f"lease/{chunk}-{number}"
            if self._store.create(name, msgspec.json.encode(lease)):
                if not self.exist:  # what was done was removed meanwhile, because all is
                    self._store.delete(name)
                    return None
                self._next = (chunk + 1) % count
                return Claim(self._store, chunk, number, lease, self.chunks[chunk])
        return None

    def held(self) -> dict[int, _Held]:
        """Who holds each chunk that was ever claimed."""
        newest: dict[int, tuple[int, str]] = {}
        for name, version in self._store.list("lease/").items():
            numbers = _numbers(name.removeprefix("lease/"))
            if len(numbers) == 2 and numbers[0] < len(self.chunks):
                chunk, number = numbers
                newest[chunk] = max(newest.get(chunk, (0, "")), (number, version))
        for chunk, (number, version) in newest.items():
            before = self._held.get(chunk)
            if before is None or (before.number, before.version) != (number, version):
                lease, _ = read_object(self._store, f"lease/{chunk}-{number}", Lease)
                self._held[chunk] = _Held(number, version, self._clock(), lease)
        return self._held

    def _is_free(self, held: _Held | None) -> bool:
        return held is None or held.lease.released or self._clock() - held.since > STALE_S

    def _segments_of(self, chunk: int, lease: Lease) -> list[str]:
        """What a chunk's last owner has recorded, with what it began from."""
        begin = _segment(chunk, lease.owner, "")
        numbers = sorted(number for name in self._store.list(begin) for number in _numbers(name.removeprefix(begin)))
        whole = [number for place, number in enumerate(numbers) if number == place]  # behind a gap nothing can be read
        return [*lease.base, *(f"{begin}{number}" for number in whole)]

    def release(self, owner: str) -> None:
        """Free what a worker held that is known to have ended; its name begins so."""
        for chunk, held in self.held().items():
            if held.lease.owner.startswith(owner) and not held.lease.released:
                name, lease = f"lease/{chunk}-{held.number}", msgspec.structs.replace(held.lease, released=True)
                self._store.put(name, msgspec.json.encode(lease))

    @property
    def held_by_anybody(self) -> bool:
        """Whether a chunk that is not finished was claimed and not given back."""
        if not self.exist:
            return False
        done = self.done()
        return any(chunk not in done and not held.lease.released for chunk, held in self.held().items())

    def working(self) -> list[_Held]:
        """The leases of chunks that are being worked on."""
        done = self._done
        return [held for chunk, held in self._held.items() if chunk not in done and not self._is_free(held)]

    def moment(self) -> Moment:
        """How far all workers are together."""
        done = self.done()
        left = [held.lease.moment for chunk, held in self.held().items() if chunk not in done]
        return _sum([*left, *(self.done_with(chunk).moment for chunk in done)])

    def done_with(self, chunk: int) -> Done:
        """What a finished chunk came to."""
        if chunk not in self._done_with:
            self._done_with[chunk], _ = read_object(self._store, f"done/{chunk}", Done)
        return self._done_with[chunk]

    def records(self) -> Iterator[bytes]:
        """The lines of all journals that count, chunk by chunk.

        Raises:
            RunError: something of them is not as it was committed.
        """
        for chunk, ranges in enumerate(self.chunks):
            done = self.done_with(chunk)
            with tempfile.TemporaryFile() as journal:
                kept = done.results.journal
                journal.writelines(self.contents(kept) if kept else [_joined(self._store, done.segments)])
                journal.seek(0)
                records = WholeRecords(None, journal)
                lines = [line for _, line in records]
            if records.damage.lost or (len(lines), done.rows) != (done.records, size_of(ranges)):
                raise RunError(
                    f"chunk {chunk} has {counted(len(lines), 'whole record')} of {done.records} and "
                    f"{counted(done.rows, 'row')} of {size_of(ranges)}: what workers wrote is damaged; begin a new run"
                )
            yield from lines[1:]  # each journal begins with its version

    def contents(self, pieces: Sequence[Piece]) -> Iterator[bytes]:
        """A file that a worker has committed, part by part.

        Raises:
            RunError: it is not as it was committed.
        """
        for piece in pieces:
            stored = self._store.read(piece.name)
            if stored is None or crc32(stored.content) != piece.crc:
                raise RunError(f"{piece.name} is damaged, which a worker has committed: begin a new run")
            yield stored.content

    def clear(self) -> None:
        """Remove everything, when the results are written."""
        self._store.delete("chunks")  # first: without it, nobody takes what is gone for what is not done yet
        self._store.clear()


class Claim:
    """A chunk that this process works on."""

    def __init__(self, store: Store, chunk: int, number: int, lease: Lease, rows: Ranges) -> None:
        self.chunk = chunk
        self.rows = rows
        self.size = size_of(rows)
        self.taken_over = bool(number > 1)
        self._store = store
        self._number = number
        self._lease = lease
        self._segments: list[str] = []

    def journal(self) -> bytes:
        """What earlier owners have recorded."""
        return _joined(self._store, self._lease.base)

    def renew(self, moment: Moment) -> None:
        """Say that this process lives, and how far it is.

        Raises:
            LostLeaseError: it was taken for dead.
        """
        begin = f"lease/{self.chunk}-"
        numbers = [number for name in self._store.list(begin) for number in _numbers(name.removeprefix(begin))]
        if max(numbers, default=0) > self._number:
            raise LostLeaseError(f"chunk {self.chunk} was taken over")
        self._put(msgspec.structs.replace(self._lease, beat=self._lease.beat + 1, moment=moment))

    def release(self) -> None:
        """Leave the chunk to others."""
        self._put(msgspec.structs.replace(self._lease, released=True))

    def _put(self, lease: Lease) -> None:
        self._lease = lease
        self._store.put(f"lease/{self.chunk}-{self._number}", msgspec.json.encode(lease))

    @property
    def is_scattered(self) -> bool:
        """Whether its journal is in so many segments that who joins the chunks had better read it from one place."""
        return len(self._lease.base) + len(self._segments) > _FEW_SEGMENTS

    def ship(self, lines: bytes) -> None:
        """Keep what was journaled since the last call."""
        name = _segment(self.chunk, self._lease.owner, str(len(self._segments)))
        if not self._store.create(name, lines):
            raise LostLeaseError(f"{name} is there already: two workers have one name")
        self._segments.append(name)

    def keep(self, what: str, blocks: Iterable[bytes]) -> list[Piece]:
        """Keep a file of the finished chunk; each block becomes a part of it."""
        pieces = []
        for number, block in enumerate(blocks):
            name = f"results/{self.chunk}/{self._lease.owner}-{what}-{number}"
            self._store.put(name, block)
            pieces.append(Piece(name, crc32(block)))
        return pieces

    def commit(self, worker: WorkerEntry, moment: Moment, records: int, api: dict[str, JSON], results: Results) -> None:
        """Say that the chunk is finished with what was shipped.

        Raises:
            LostLeaseError: somebody else has finished it.
        """
        done = Done(
            worker=worker,
            moment=moment,
            rows=moment.finished,
            records=records,
            segments=[*self._lease.base, *self._segments],
            api=api,
            results=results,
        )
        if not self._store.create(f"done/{self.chunk}", msgspec.json.encode(done)):
            raise LostLeaseError(f"chunk {self.chunk} was finished by another worker")


def _segment(chunk: int, owner: str, number: str) -> str:
    return f"segments/{chunk}/{owner}-{number}"


def _numbers(name: str) -> list[int]:
    """The numbers of which a name is made; none where it is another one, as a file manager's copy has."""
    return [*map(int, name.split("-"))] if _NUMBERS.fullmatch(name) else []


def _joined(store: Store, names: Sequence[str]) -> bytes:
    parts = [store.read(name) for name in names]
    if None in parts:
        raise RunError(f"{names[parts.index(None)]} is gone, which a worker has recorded: begin a new run")
    return b"".join(part.content for part in parts if part is not None)


def _sum(moments: Sequence[Moment]) -> Moment:
    columns = zip(*map(msgspec.structs.astuple, moments), strict=True)
    return Moment(*map(sum, columns)) if moments else Moment()


def read_object(store: Store, name: str, kind: type[_Object]) -> tuple[_Object, str]:
    """An object that workers share, with its version.

    Raises:
        RunError: it is not there, or damaged.
    """
    stored = store.read(name)
    if stored is None:
        raise RunError(f"{name} is not where the run's chunks are kept: it was removed, or the run is finished")
    try:
        content = loads(stored.content)
        if isinstance(content, dict):
            check_version(content, name)
        return msgspec.convert(content, kind, str_keys=True), stored.version
    except (ValueError, msgspec.ValidationError) as error:
        again = name.startswith(("lease/", "done/"))  # what they say is found out anew
        way_on = "remove it, and go on with --resume" if again else "begin a new run"
        raise RunError(f"{store.place}/{name} is damaged: {error}; {way_on}") from None
