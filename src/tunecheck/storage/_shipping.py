"""Shipping while a command runs: what it writes into a mirror is in the storage seconds later."""

from __future__ import annotations

import contextlib
import platform
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from tunecheck._disk import is_held
from tunecheck._errors import RunError, TunecheckError
from tunecheck._messages import clean
from tunecheck.storage._mirror import GoneOnElsewhereError, Mirror, mirror_folder

_EACH_S = 2.0
_STALE_S = 15.0
_LISTED = ("run.json", "metrics.json")
"""Files of every run that a list of runs needs; the others are fetched where a run is named."""


@contextlib.contextmanager
def mirrored(address: str, tell: Callable[[str], None], *, whole: bool = False) -> Iterator[Shipping]:
    """Keep a mirror of an address while a command runs: what is written into its folder is shipped, at last at the end.

    `whole` fetches every run, not only what a list of runs needs. `tell` gets what there is to say, a line each.

    Raises:
        ConfigurationError, MissingExtraError: as `open_store`.
        RunError: the storage cannot be read at the beginning, or not be written at the end: what was written stays in
            the folder, and the next command with this address ships it.
    """
    mirror = Mirror(mirror_folder(address), address)
    _catch_up(mirror, tell)
    for problem in mirror.pull(None if whole else _is_listed):
        tell(f"note: {problem}")
    shipping = Shipping(mirror, tell)
    shipping.start()
    try:
        yield shipping
    finally:
        shipping.end()


def _catch_up(mirror: Mirror, tell: Callable[[str], None]) -> None:
    """Ship what an earlier command could not ship, but of runs that other machines have gone on with."""
    try:
        mirror.push()
    except GoneOnElsewhereError as error:
        if is_held(mirror.folder / error.run / "journal.jsonl"):  # it goes on here, too, and will say so
            return
        aside = mirror.set_aside(error.run)
        tell(f"note: another machine has gone on with {error.run}: what only this one had of it is kept in {aside}")
        _catch_up(mirror, tell)


def _is_listed(name: str) -> bool:
    return name.partition("/")[2] in _LISTED


def complete(run: Path) -> None:
    """Fetch what is missing of a run, where its folder is in a mirror.

    Raises:
        RunError: the storage cannot be read.
    """
    mirror = Mirror.found(run.parent)
    if mirror is not None:
        for problem in mirror.pull(lambda name: name.startswith(f"{run.name}/")):
            raise RunError(problem)


def running_elsewhere(runs: Sequence[Path]) -> set[Path]:
    """The runs whose owner's mark in the storage changes while we look: another machine works on them.

    It takes seconds if some run has an owner. Clocks of other machines play no part.
    """
    first = {run: version for run in runs if (version := _owner_version(run)) is not None}
    found: set[Path] = set()
    until = time.monotonic() + _STALE_S
    while len(found) < len(first) and time.monotonic() < until:
        time.sleep(_EACH_S / 4)
        found |= {run for run, version in first.items() if run not in found and _owner_version(run) != version}
    return found


def _owner_version(run: Path) -> str | None:
    try:
        mirror = Mirror.found(run.absolute().parent)
        owner = None if mirror is None else mirror.store.read(_owner(run.name))
    except TunecheckError:  # the command that needs the storage says what is wrong with it
        return None
    return None if owner is None else owner.version


class Shipping(threading.Thread):
    """Ships every few seconds; a storage that cannot be reached is tried again, and told of once.

    Of a run whose journal grows here, other machines are told by an object that changes at each turn.
    """

    def __init__(self, mirror: Mirror, tell: Callable[[str], None]) -> None:
        super().__init__(name="shipping", daemon=True)
        self._mirror, self._tell = mirror, tell
        self._name = f"{platform.node()}-{secrets.token_hex(4)}"
        self._ended = threading.Event()
        self._owned: set[str] = set()
        self._runs: set[str] = set()

    def claim(self, run: str) -> None:
        """Make a run that is to go on ours; one whose owner stood still for a while is taken over.

        Raises:
            RunError: another machine is at work on it, or the storage cannot be read.
        """
        store, name = self._mirror.store, _owner(run)
        owner = store.read(name)
        until = time.monotonic() + _STALE_S
        while owner is not None and time.monotonic() < until:
            time.sleep(_EACH_S / 2)
            seen = store.read(name)
            if seen is not None and seen.version != owner.version:
                machine = clean(seen.content.decode(errors="replace").partition(" ")[0], 100)
                raise RunError(f"run {run} is being worked on by {machine}: wait until it is done, or stop it there")
            owner = seen
        self._owned.add(run)
        self._beat()

    def run(self) -> None:
        told = False
        while not self._ended.wait(_EACH_S):
            try:
                self._push()
                self._beat()
            except (GoneOnElsewhereError, RunError) as error:
                if not told:
                    self._tell(f"note: {error}" + "; it is tried again" * isinstance(error, RunError))
                told = True

    def end(self) -> None:
        """Ship what is left, and give back what is ours."""
        self._ended.set()
        self.join()
        try:
            self._push()
            for run in self._owned:
                self._mirror.store.delete(_owner(run))
        except GoneOnElsewhereError as error:
            raise RunError(str(error)) from None
        except RunError as error:
            raise RunError(
                f"{error}; nothing is lost: it is in {self._mirror.folder}, and the next command with --results-dir "
                f"{self._mirror.address} ships it"
            ) from None
        for run in sorted(self._runs):
            self._tell(f"shipped to {self._mirror.address}/{run}")

    def _push(self) -> None:
        for name in self._mirror.push():
            run, _, file = name.partition("/")
            self._runs.add(run)
            if file == "journal.jsonl":
                self._owned.add(run)

    def _beat(self) -> None:
        for run in self._owned:
            self._mirror.store.put(_owner(run), f"{self._name} {time.time_ns()}".encode())


def _owner(run: str) -> str:
    return f"{run}/.owner"
