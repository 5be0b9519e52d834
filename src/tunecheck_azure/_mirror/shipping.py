"""The mirror of `--results-dir az://…`: every two seconds, a thread ships a command's new files to the storage.

A run belongs to one machine at a time. Its blob RUN/.owner contains the machine's name and the time, for example
"node-7-3fa81c02 1764470400000000000", and changes with each shipping. So other machines need no common clock:

  the blob changes within 15 s       the machine works on the run; `claim` refuses the run
  it does not change                 the machine died; `claim` takes the run over
  there is no blob                   the run is free: its command has ended, or never shipped

A command with this address does, in this order (`kept`):

  1. `_catch_up`       ship the files that an earlier command could not ship
  2. `pull`            fetch new files
  3. `_Shipping`       ship every two seconds while the command works
  4. `end`             ship the rest, and remove the owner blobs
"""

import contextlib
import platform
import secrets
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from tunecheck import MissingExtraError, RunError
from tunecheck.plugins import clean, is_held
from tunecheck.runs import mirror_folder

try:
    from tunecheck_azure._mirror.folder import BlobStore, ContinuedElsewhereError, MirrorFolder, account_of_environment
except ImportError:
    raise MissingExtraError("az:// storage", "azure-storage") from None

_EACH_S = 2.0
"""Seconds between shippings, which also change the owner blobs."""

_STALE_S = 15.0
"""Seconds without a change after which an owner blob is stale: seven missed changes."""

_LISTED = ("run.json", "metrics.json")
"""The files that a list of runs needs of every run. Other files are fetched if a command names their run."""


class BlobMirror:
    """The runs at an `az://` address, mirrored in a folder of the user's cache."""

    def __init__(self, address: str) -> None:
        """Prepare the mirror without connecting to the storage.

        Raises:
            ConfigurationError: The address is wrong, or the environment names no account.
        """
        self.folder: Path = mirror_folder(address, *account_of_environment())
        self._mirror = MirrorFolder(self.folder, address)

    @contextlib.contextmanager
    def kept(self, tell: Callable[[str], None], *, whole: bool) -> Iterator[Callable[[str], None]]:
        """Keep the folder and the storage in step: fetch first, then ship what the command writes.

        Yield a function that claims a run, given by its id, for this machine. If `whole`, every run is fetched
        completely, else only the files that a list of runs needs. `tell` gets each line for the user.

        Raises:
            RunError: The storage cannot be read at the beginning, or cannot be written at the end. Files that were not
                shipped stay in the folder, and the next command with this address ships them.
        """
        self._catch_up(tell)
        for problem in self._mirror.pull(None if whole else lambda name: name.partition("/")[2] in _LISTED):
            tell(f"note: {problem}")

        shipping = _Shipping(self._mirror, tell)
        shipping.start()

        try:
            yield shipping.claim
        finally:
            shipping.end()

    def _catch_up(self, tell: Callable[[str], None]) -> None:
        """Ship what an earlier command could not ship. Set aside runs that another machine has continued."""
        try:
            self._mirror.push()
        except ContinuedElsewhereError as error:
            if not is_held(self.folder / error.run / "journal.jsonl"):  # otherwise, that process reports it
                aside = self._mirror.set_aside(error.run)
                tell(f"note: another machine has continued {error.run}; this machine's results are in {aside}")
                self._catch_up(tell)  # the error named one run; there may be more

    def complete(self, run: str) -> None:
        """Fetch the missing files of a run.

        Raises:
            RunError: The storage cannot be read, or the run's journal cannot be fetched.
        """
        for problem in self._mirror.pull(lambda name: name.startswith(f"{run}/")):
            raise RunError(problem)  # the first problem is enough

    def running(self, runs: Iterable[str]) -> set[str]:
        """Return the runs on which another machine works: their owner blob changes while this method waits.

        If a run has an owner, this takes seconds. It does not depend on the clocks of other machines.
        """
        try:
            return {*_active_owners(self._mirror.store, runs)}
        except RunError:  # the command that needs the storage reports the problem
            return set()


def _active_owners(store: BlobStore, runs: Iterable[str]) -> dict[str, str]:
    """Return the names of the machines that work on these runs, by run.

    Waits until each owner blob has changed, which shows that its machine works, or for the time after which it is
    stale.
    """
    first = {run: owner.version for run in runs if (owner := store.read(_owner_blob(run))) is not None}

    found: dict[str, str] = {}
    until = time.monotonic() + _STALE_S
    while len(found) < len(first) and time.monotonic() < until:
        # Four looks per shipping interval, so the answer comes soon after a change.
        time.sleep(_EACH_S / 4)
        for run in first.keys() - found.keys():
            owner = store.read(_owner_blob(run))
            # The command on the other machine has just ended.
            if owner is None:
                del first[run]
            elif owner.version != first[run]:
                found[run] = clean(owner.content.decode(errors="replace").partition(" ")[0], 100)

    return found


class _Shipping(threading.Thread):
    """A thread that ships every two seconds. If this fails, it tells the user once and tries again.

    Each time it also changes a run's owner blob, which tells other machines that this one works on the run.
    """

    def __init__(self, mirror: MirrorFolder, tell: Callable[[str], None]) -> None:
        """Prepare the thread, with a name for this process in the owner blobs of its runs."""
        super().__init__(name="shipping", daemon=True)
        self._mirror, self._tell = mirror, tell
        self._name = f"{platform.node()}-{secrets.token_hex(4)}"
        self._ended = threading.Event()
        self._owned: set[str] = set()
        self._runs: set[str] = set()

    def claim(self, run: str) -> None:
        """Make this machine the owner of a run. An owner blob that has stopped changing is replaced.

        Raises:
            RunError: Another machine works on the run, or the storage cannot be read.
        """
        if machine := _active_owners(self._mirror.store, [run]).get(run):
            raise RunError(f"{machine} is working on run {run}; wait until the run ends, or stop the run there")
        # Owned at once: other machines must see the owner before the first file is shipped.
        self._owned.add(run)
        self._renew_owners()

    def run(self) -> None:
        """Ship files and change owner blobs every two seconds until `end` is called; report only the first failure."""
        is_reported = False
        while not self._ended.wait(_EACH_S):
            try:
                self._push()
                self._renew_owners()
            except (ContinuedElsewhereError, RunError) as error:
                if not is_reported:
                    # A run that continues elsewhere stays there; other failures may pass.
                    is_final = isinstance(error, ContinuedElsewhereError)
                    self._tell(f"note: {error}{'' if is_final else '; Tunecheck tries again'}")
                is_reported = True

    def end(self) -> None:
        """Stop the thread, ship the rest, and remove the owner blobs of this machine.

        Raises:
            RunError: the rest cannot be shipped, or another machine has continued a run.
        """
        # The thread ends first, so that two pushes never run at the same time.
        self._ended.set()
        self.join()

        try:
            self._push()
            for run in self._owned:
                self._mirror.store.delete(_owner_blob(run))
        except ContinuedElsewhereError as error:
            raise RunError(str(error)) from None
        except RunError as error:
            kept = f"the files are in {self._mirror.folder}, and the next command with --results-dir"
            raise RunError(f"{error}; nothing is lost: {kept} {self._mirror.address} uploads them") from None
        for run in sorted(self._runs):
            self._tell(f"shipped to {self._mirror.address}/{run}")

    def _push(self) -> None:
        """Ship changed files. A shipped journal makes this machine the owner of its run."""
        for name in self._mirror.push():
            run, _, file = name.partition("/")
            self._runs.add(run)
            # A journal grows while a command works on its run.
            if file == "journal.jsonl":
                self._owned.add(run)

    def _renew_owners(self) -> None:
        """Write the owner blob of each of this machine's runs with new content."""
        for run in self._owned:
            # The time makes the content new; only the change matters, not the time itself.
            self._mirror.store.put(_owner_blob(run), f"{self._name} {time.time_ns()}".encode())


def _owner_blob(run: str) -> str:
    """Return the name of the blob that names the machine that works on a run."""
    return f"{run}/.owner"
