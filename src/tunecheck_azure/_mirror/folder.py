"""A folder that mirrors blobs: files are fetched before they are read, and shipped after they are written.

A journal grows, so it is shipped as numbered parts, `<name>.parts/00000000` and on. Each part is created once: of two
machines that write the same part, the second gets an error. Every other file is shipped as a whole.
The folder records what it has shipped (`MirrorState`). The next process that uses it ships the rest.

The storage of a run "r1" and its copy in the folder:

  r1/run.json                            r1/run.json
  r1/journal.jsonl.parts/00000000        r1/journal.jsonl, the parts in order
  r1/journal.jsonl.parts/00000001
  r1/.owner (see shipping.py)            not fetched

`push` ships the files in the order of `_names`. `pull` treats each blob by the first line that fits:

  not selected, a folder, or no run's file   ignored (`_SAFE`)
  a part of a journal                        appended to the journal if the folder lacks it (`_fetch_parts`)
  the file has changed here                  kept; `push` ships it
  the blob's version is new                  fetched

Then it removes unchanged files whose blobs are gone (`_remove_deleted`).

If two machines continue one run, the results of the machine whose part came first count. The other machine's push
raises ContinuedElsewhereError, and its copy of the run is moved to `.unshipped` (`set_aside`); nothing is deleted.
"""

import contextlib
import os
import re
import shutil
import time
from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path
from typing import BinaryIO, NamedTuple
from urllib.parse import urlsplit

import msgspec
from azure.core import exceptions as azure_errors
from azure.core.credentials import AzureNamedKeyCredential, AzureSasCredential, TokenCredential
from azure.storage.blob import BlobServiceClient, ContainerClient, ExponentialRetry

from tunecheck import ConfigurationError, RunError
from tunecheck.endpoints import is_loopback
from tunecheck.plugins import open_regular, raise_as, write_file
from tunecheck.runs import MIRROR_STATE

BLOCK_BYTES = 8 << 20
"""Size of a block, and of the largest blob that is sent whole."""

RETRIES = 5
"""The most retries of a call. The client allows three of them after statuses, three after failed connections and three
after lost replies, and waits 2, 4 and 8 seconds, each up to a second more or less."""

# Matches az://evals and az://evals/team-a/runs.
_PLACE = re.compile(r"az://(?P<container>[^/?#@:]+)(?:/(?P<prefix>[^?#]*))?")
_CONTAINER = re.compile(r"(?=.{3,63}\Z)[a-z0-9]+(?:-[a-z0-9]+)*")


class StoredBlob(NamedTuple):
    """A blob's content, and its ETag, which changes whenever the blob is written."""

    content: bytes
    version: str


class BlobStore:
    """Blobs below `az://container/prefix`. Each call is atomic, also if many machines call at once.

    Every method raises RunError if the storage cannot be reached or refuses the call. The text gives the reason and
    contains no secret.
    """

    def __init__(self, address: str) -> None:
        """Check the address; connect to nothing yet.

        Raises:
            ConfigurationError: The address is wrong, or the environment names no account or an endpoint without https.
        """
        parts = _PLACE.fullmatch(address)
        if parts is None:  # not shown, because text behind a question mark may be a secret
            advice = "set credentials only in AZURE_STORAGE_… variables"
            raise ConfigurationError(f"the storage address must be az://container/prefix; {advice}")
        if _CONTAINER.fullmatch(parts["container"]) is None:
            rule = "3 to 63 lowercase letters, digits or inner single hyphens"
            raise ConfigurationError(f"{address}: the container's name is wrong; use {rule}")
        self.place = address.rstrip("/")
        # "team-a/runs/" for az://evals/team-a/runs, "" for az://evals.
        self._prefix = f"{(parts['prefix'] or '').strip('/')}/".lstrip("/")
        self._name = parts["container"]
        self._account_url = _account_url(self.place)

    @cached_property
    def _container(self) -> ContainerClient:
        """The client of the container, which retries failed calls."""
        retries = ExponentialRetry(initial_backoff=0, increment_base=2, random_jitter_range=1, retry_total=RETRIES)
        service = BlobServiceClient(
            self._account_url,
            credential=_credential(),
            retry_policy=retries,
            max_single_put_size=BLOCK_BYTES,
            max_block_size=BLOCK_BYTES,
            permit_redirects=False,
            connection_verify=os.environ.get("SSL_CERT_FILE") or True,
        )
        return service.get_container_client(self._name)

    def create(self, name: str, content: bytes) -> bool:
        """Write a blob unless it exists; return True if the blob now has this content.

        It may exist with this content because the reply to an earlier attempt was lost.
        """
        with self._errors_of(name, "cannot be written"):
            # By default, the client refuses to replace a blob, so only one of several machines can create it.
            try:
                self._container.upload_blob(self._prefix + name, content)
            except azure_errors.ResourceExistsError:
                stored = self.read(name)  # the reply to an earlier attempt of this call may have been lost
                return stored is not None and stored.content == content
        return True

    def put(self, name: str, content: bytes | BinaryIO) -> None:
        """Write or replace a blob. Only a few MB of a file are in memory at once."""
        with self._errors_of(name, "cannot be written"):
            self._container.upload_blob(self._prefix + name, content, overwrite=True)

    def read(self, name: str) -> StoredBlob | None:
        """Return a blob, or None if it does not exist.

        Raises:
            RunError: the container does not exist, or the storage cannot be reached.
        """
        with self._errors_of(name, "cannot be read"):
            try:
                found = self._container.download_blob(self._prefix + name)
            except azure_errors.ResourceNotFoundError as error:
                if getattr(error, "error_code", None) == "ContainerNotFound":
                    raise
                return None
            return StoredBlob(found.readall(), found.properties.etag.strip('"'))

    def list(self, prefix: str) -> dict[str, str]:
        """Return the names that begin with a prefix, in sorted order, each with the blob's version."""
        with self._errors_of(prefix, "cannot be listed"):
            found = {
                blob.name.removeprefix(self._prefix): blob.etag.strip('"')
                for blob in self._container.list_blobs(name_starts_with=self._prefix + prefix)
            }
        return dict(sorted(found.items()))

    def delete(self, name: str) -> None:
        """Remove a blob if it exists."""
        with self._errors_of(name, "cannot be removed"), contextlib.suppress(azure_errors.ResourceNotFoundError):
            self._container.delete_blob(self._prefix + name)

    @contextlib.contextmanager
    def _errors_of(self, name: str, problem: str) -> Iterator[None]:
        """Turn storage errors into RunErrors with the `name` and the `problem`, without the address's signature."""
        try:
            yield
        except (azure_errors.AzureError, OSError) as error:
            raise RunError(f"{self.place}/{name}: {problem}: {_reason(error)}") from None


def account_of_environment() -> tuple[str, str]:
    """Return the storage account's name and endpoint from the environment, each empty if it is not set."""
    return os.environ.get("AZURE_STORAGE_ACCOUNT_NAME", ""), os.environ.get("AZURE_STORAGE_ENDPOINT", "")


def _account_url(place: str) -> str:
    """Return the address of the storage account that the environment names. `place` is for the error.

    Raises:
        ConfigurationError: the environment names no account, or an endpoint without https.
    """
    name, endpoint = account_of_environment()
    if not name:
        raise ConfigurationError(f"{place}: AZURE_STORAGE_ACCOUNT_NAME is unset; set it to the storage account's name")
    address = urlsplit(endpoint or f"https://{name}.blob.core.windows.net")

    # A key or token must not travel unencrypted; only an emulator on this machine may be without https.
    if address.scheme != "https" and not is_loopback(address.hostname or ""):
        raise ConfigurationError(f"{place}: the address in AZURE_STORAGE_ENDPOINT must begin with https://")
    return address.geturl()


def _credential() -> AzureNamedKeyCredential | AzureSasCredential | TokenCredential:
    """Return the credential of the environment: an account key, else a SAS token, else an identity."""
    if key := os.environ.get("AZURE_STORAGE_ACCOUNT_KEY"):
        return AzureNamedKeyCredential(account_of_environment()[0], key)

    if token := os.environ.get("AZURE_STORAGE_SAS_TOKEN"):
        return AzureSasCredential(token.removeprefix("?"))

    from azure.identity import DefaultAzureCredential

    return DefaultAzureCredential()


def _reason(error: Exception) -> str:
    """Return the reason of an error without the address, which may contain a signature."""
    if isinstance(error, (azure_errors.ServiceRequestError, azure_errors.ServiceResponseError, OSError)):
        return "the storage cannot be reached; check the connection and AZURE_STORAGE_ACCOUNT_NAME"

    code = getattr(error, "error_code", None)  # set by the storage client: a member of its enumeration, or a text
    code, status = getattr(code, "value", code), getattr(error, "status_code", None)
    reason = str(error).partition("\n")[0] if status is None else f"{code} ({status})" if code else f"HTTP {status}"
    if status == 403 or isinstance(error, azure_errors.ClientAuthenticationError):
        return f"{reason}; check the credentials in AZURE_STORAGE_… variables or `az login`, and their permissions"
    return f"{reason}; create the container first" if code == "ContainerNotFound" else reason


# -- the folder

_LOCK = ".mirror.lock"
_UNSHIPPED = ".unshipped"
_JOURNAL = "journal.jsonl"
_MANIFEST = "run.json"

# Matches r1/journal.jsonl.parts/00000012: the file r1/journal.jsonl and its part 12.
_PART = re.compile(rf"(?P<file>.+/{re.escape(_JOURNAL)})\.parts/(?P<number>\d{{8}})", re.ASCII)

_MOST_IN_A_PART = 4 << 20
"""Bytes of a part. A longer line still goes into one part, because a part contains whole lines only."""

_SAFE = re.compile(r"(?:[A-Za-z0-9_@+-][A-Za-z0-9_@+. -]*/)+[A-Za-z0-9_@+-][A-Za-z0-9_@+. -]*")
"""Blob names that may become files in the folder: below a run, not hidden, and without `..`.

r1/run.json matches. run.json (below no run), r1/.owner, r1/../x and /etc/passwd do not: anyone who can write to the
container chooses these names.
"""


class ContinuedElsewhereError(Exception):
    """The error if this machine and another one have both continued the same run."""

    def __init__(self, folder: Path, run: str) -> None:
        """Name the run and its copy in this folder of the mirror."""
        self.run = run
        advice = f"this machine's next command with this address moves {folder / run} to {_UNSHIPPED}"
        super().__init__(f"another machine has continued {run}, and its results count; {advice}")


class FileStamp(NamedTuple):
    """A file's size and modification time: if they change, the file has changed."""

    size: int
    mtime_ns: int


class SyncedFile(msgspec.Struct, frozen=True):
    """The blob's version and the file's stamp when the blob and the file were last equal."""

    version: str
    size: int
    mtime_ns: int


class ShippedParts(msgspec.Struct, frozen=True):
    """The number of parts of a growing file, and their bytes, that both the storage and the folder have."""

    number: int = 0
    size: int = 0


class MirrorState(msgspec.Struct):
    """Content of `.mirror.json`: the state of each file at the last moment when the storage and the folder were equal.

    `files` has whole files by name, such as "r1/run.json", and `growing` has journals. A file with another stamp has
    changed here; a blob with another version has changed in the storage.
    """

    address: str
    files: dict[str, SyncedFile] = {}
    growing: dict[str, ShippedParts] = {}


class MirrorFolder:
    """The folder that mirrors an address. It is created if it does not exist.

    Raises:
        ConfigurationError: The address is wrong, or the environment names no account or an endpoint without https.
        RunError: The folder cannot be made.
    """

    def __init__(self, folder: Path, address: str) -> None:
        """Create the folder if it does not exist. The storage is not called yet."""
        self.folder, self.address = folder, address
        self.store = BlobStore(address)
        with raise_as(RunError, folder, "cannot be made"):
            folder.mkdir(parents=True, exist_ok=True)

    def pull(self, is_selected: Callable[[str], bool] | None = None) -> list[str]:
        """Fetch blobs that have changed, and return a note for each journal that cannot be fetched.

        `is_selected` selects files by name; None fetches all files. A file that has also changed on this machine is
        kept. A file that was removed from the storage is removed here. Blobs that are not files of a run are ignored.

        Raises:
            RunError: The storage cannot be read.
        """
        with self._state() as state:
            blobs = self.store.list("")
            folders = {name.rpartition("/")[0] for name in blobs}  # some tools leave blobs that represent folders

            parts: dict[str, list[int]] = {}
            for name, version in blobs.items():
                part = _PART.fullmatch(name)
                file = name if part is None else part["file"]
                is_wanted = is_selected is None or is_selected(file)
                if not is_wanted or not _SAFE.fullmatch(file) or file in folders:
                    continue

                known = state.files.get(file)
                is_current = known is not None and known.version == version and self._stat(file) is not None
                if part is not None:
                    parts.setdefault(file, []).append(int(part["number"]))
                # A journal exists only as parts: a blob of its name, or below it, is of another tool.
                elif f"/{_JOURNAL}" not in name and not is_current and self._changed_stamp(state, file) is None:
                    self._fetch(state, file)

            problems = [self._fetch_parts(state, file, numbers) for file, numbers in parts.items()]
            self._remove_deleted(state, blobs)
            return [problem for problem in problems if problem]

    def push(self) -> list[str]:
        """Ship changed files, and return their names.

        Raises:
            ContinuedElsewhereError: Another machine has continued a run. The other runs are shipped.
            RunError: The storage cannot be written.
        """
        with self._state() as state:
            shipped = []
            elsewhere: dict[str, ContinuedElsewhereError] = {}
            for name in self._names(state):
                run = name.partition("/")[0]
                # Other runs are still shipped: the error of one run must not hold back their results.
                if run in elsewhere:
                    continue

                ship = self._ship_parts if _is_journal(name) else self._ship
                try:
                    shipped += [name] if ship(state, name) else []
                except ContinuedElsewhereError as error:
                    elsewhere[run] = error

            if elsewhere:
                raise next(iter(elsewhere.values()))
            return shipped

    def _names(self, state: MirrorState) -> list[str]:
        """Return the names of the folder's files in the order of shipping, without links, locks and unsafe names.

        The storage gets a finished `run.json` after the run's results, and a journal after the run's first `run.json`.
        Once `run.json` is shipped, the journal comes first: if another machine has continued the run, this is noticed
        before any file of the run is overwritten.
        """
        files = (path for path in self.folder.glob("*/**/*") if path.is_file() and not path.is_symlink())
        names = [path.relative_to(self.folder).as_posix() for path in files]
        safe = [name for name in names if _SAFE.fullmatch(name) and not name.endswith(".lock")]

        def order_key(name: str) -> tuple[int, str]:
            """Return a key for sorting; files with a lower number are shipped first."""
            run, _, file = name.partition("/")
            if _is_journal(name):
                return (0 if f"{run}/{_MANIFEST}" in state.files else 3), name
            return (2 if file == _MANIFEST else 1), name

        return sorted(safe, key=order_key)

    def _changed_stamp(self, state: MirrorState, name: str) -> FileStamp | None:
        """Return a file's stamp if the file has changed since it was last equal to its blob.

        Return None for an unchanged file and for a file that does not exist.
        """
        current, known = self._stat(name), state.files.get(name)
        return None if known is not None and (known.size, known.mtime_ns) == current else current

    def _stat(self, name: str) -> FileStamp | None:
        """Return the size and time of a file of the folder, or None if it does not exist."""
        try:
            found = os.lstat(self.folder / name)
        except FileNotFoundError:
            return None
        return FileStamp(found.st_size, found.st_mtime_ns)

    def _fetch(self, state: MirrorState, name: str) -> None:
        """Replace a file by its blob and note that both are equal. A blob that was just removed is skipped."""
        stored = self.store.read(name)
        if stored is None:
            return
        path = self.folder / name
        with raise_as(RunError, path, "cannot be written"):
            path.parent.mkdir(parents=True, exist_ok=True)
            write_file(path, stored.content)
        stamp = self._stat(name)
        if stamp is not None:
            state.files[name] = SyncedFile(stored.version, *stamp)

    def _ship(self, state: MirrorState, name: str) -> bool:
        """Ship a file if it has changed; return whether it was shipped.

        Raises:
            ContinuedElsewhereError: the storage has a part of the run's journal that this machine did not write.
        """
        stamp = self._changed_stamp(state, name)
        if stamp is None:
            return False

        # The next part of the journal can only be from a machine that continued the run.
        run = name.partition("/")[0]
        known = state.growing.get(f"{run}/{_JOURNAL}")
        if known is not None and self.store.read(_part_name(f"{run}/{_JOURNAL}", known.number)) is not None:
            raise ContinuedElsewhereError(self.folder, run)

        with raise_as(RunError, self.folder / name), open_regular(self.folder / name) as file:
            self.store.put(name, file)
        # The list has the blob's new version. The stamp is from before reading: a change during the upload is shipped
        # next time.
        state.files[name] = SyncedFile(self.store.list(name).get(name, ""), *stamp)
        return True

    def _ship_parts(self, state: MirrorState, name: str) -> bool:
        """Ship the complete lines that a growing file has got since the last part; return whether there were any.

        Raises:
            ContinuedElsewhereError: another machine has written the next part.
        """
        known = state.growing.get(name, ShippedParts())
        known_before = known

        with raise_as(RunError, self.folder / name), open_regular(self.folder / name) as file:
            file.seek(known.size)
            while True:
                chunk = file.read(_MOST_IN_A_PART)
                content = chunk[: chunk.rfind(b"\n") + 1]  # without an incomplete last line
                if chunk and not content:  # a line that is longer than a part
                    content = chunk + file.readline()

                # A last line without its end is still being written. It is shipped next time.
                if not content.endswith(b"\n"):
                    break

                if not self.store.create(_part_name(name, known.number), content):
                    stored = self.store.read(_part_name(name, known.number))
                    content = b"" if stored is None else stored.content
                    file.seek(known.size)
                    # The part may be this machine's: the reply to an earlier attempt was lost, then the journal grew.
                    if not content or file.read(len(content)) != content:
                        raise ContinuedElsewhereError(self.folder, name.partition("/")[0])

                known = ShippedParts(known.number + 1, known.size + len(content))
                state.growing[name] = known
                # Back to the end of this part: the chunk may have ended within a line.
                file.seek(known.size)
        return known != known_before

    def _fetch_parts(self, state: MirrorState, name: str, numbers: list[int]) -> str:
        """Append missing parts to a growing file; return an empty text, or the reason why this is impossible.

        `numbers` are those of the parts in the storage. A file of another size than the parts shipped or fetched so far
        was continued here, too.
        """
        known, path = state.growing.get(name, ShippedParts()), self.folder / name
        current = self._stat(name)
        if len(numbers) <= known.number and current is not None:
            return ""

        # Parts are numbered from 0 without gaps, so a number above the last position shows a missing part.
        if max(numbers) >= len(numbers):
            missing = min({*range(len(numbers))} - {*numbers})
            advice = "restore this part, or remove the later parts and repeat their rows with --resume"
            return f"{self.address}/{_part_name(name, missing)} is missing; {advice}"

        if current is None:
            known = ShippedParts()
        elif current.size != known.size:
            return str(ContinuedElsewhereError(self.folder, name.partition("/")[0]))

        with raise_as(RunError, path, "cannot be written"):
            path.parent.mkdir(parents=True, exist_ok=True)
            with open_regular(path, "ab") as file:
                for number in range(known.number, len(numbers)):
                    stored = self.store.read(_part_name(name, number))
                    if stored is None:
                        return f"{self.address}/{_part_name(name, number)} has just been removed; run the command again"
                    file.write(stored.content)
                    known = ShippedParts(number + 1, known.size + len(stored.content))
                    # Noted after each part: if a later part fails, the next pull continues here.
                    state.growing[name] = known
        return ""

    def set_aside(self, run: str) -> Path:
        """Move this machine's copy of a run to a new folder, and return that folder; `pull` fetches the run again.

        Raises:
            RunError: the run's folder cannot be moved.
        """
        aside = self.folder / _UNSHIPPED / f"{run}-{time.time_ns()}"
        with self._state(), raise_as(RunError, self.folder / run, "cannot be renamed"):
            aside.parent.mkdir(parents=True, exist_ok=True)
            (self.folder / run).rename(aside)
        return aside

    def _remove_deleted(self, state: MirrorState, blobs: dict[str, str]) -> None:
        """Remove files that were removed from the storage and have not changed on this machine.

        A run that is no longer in the storage is removed as a whole, unless its journal has grown here.
        """
        for name in [name for name in state.files if name not in blobs and self._changed_stamp(state, name) is None]:
            del state.files[name]
            with raise_as(RunError, self.folder / name, "cannot be removed"):
                (self.folder / name).unlink(missing_ok=True)

        runs = {name.partition("/")[0] for name in blobs}
        for name, known in [*state.growing.items()]:
            run, current = name.partition("/")[0], self._stat(name)
            if run not in runs and (current is None or current.size == known.size):
                del state.growing[name]
                shutil.rmtree(self.folder / run, ignore_errors=True)

    @contextlib.contextmanager
    def _state(self) -> Iterator[MirrorState]:
        """Lock the folder, yield the recorded state, and write it at the end, also after an error."""
        from filelock import lock_descriptor

        with raise_as(RunError, self.folder / _LOCK, "cannot be locked"):
            lock_file = open_regular(self.folder / _LOCK, "ab")
        with lock_file:
            # Other processes on this machine wait here. The lock ends with the file, also if this process is killed.
            lock_descriptor(lock_file.fileno())
            state = _read_state(self.folder) or MirrorState(self.address)
            try:
                yield state
            finally:
                with raise_as(RunError, self.folder / MIRROR_STATE, "cannot be written"):
                    write_file(self.folder / MIRROR_STATE, msgspec.json.encode(state))


def _part_name(name: str, number: int) -> str:
    """Return the name of the blob with a numbered part of a journal."""
    return f"{name}.parts/{number:08}"


def _is_journal(name: str) -> bool:
    """Return whether a file is the journal of a run, which is shipped in parts."""
    return name.endswith(f"/{_JOURNAL}")


def _read_state(folder: Path) -> MirrorState | None:
    """Return the recorded state of a folder, or None if it is missing or damaged: every file then counts as changed."""
    try:
        return msgspec.json.decode((folder / MIRROR_STATE).read_bytes(), type=MirrorState)
    except (OSError, msgspec.MsgspecError):
        return None
