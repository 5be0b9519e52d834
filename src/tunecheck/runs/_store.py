"""Run folders: a run's manifest, journal and results, how runs are found, and whether this user began a run.

    eval_results/                               the results folder
      val-20260101T120000Z-0a1b2c/              a run: its id is <name>-<UTC time>-<6 hex digits>
        run.json                                the manifest
        journal.jsonl  eval_results.jsonl  …    see `Run`
      judges/0a1b2c3d4e5f6071.json              the calibration of a judge

A mirror is a local copy of runs in remote storage, such as `az://container/prefix`. A signature is made with this
user's key, so that a run of another user is recognised.

**Finding a run** (`find_run`). A user's text is compared in this order; the first match wins:

| text | match |
|---|---|
| `eval_results/val-20260101T120000Z-0a1b2c` | a folder with `run.json` |
| `last` | the newest run |
| `val-20260101T120000Z-0a1b2c` | a run's id |
| `val` | the newest run of this name |
| `val-20260101` | the beginning of exactly one run's id |

**Order of runs** (`list_runs`). Runs are sorted by the second in their id. Runs of one second are sorted by the
creation time in nanoseconds in `run.json`, which is read for them only.
"""

from __future__ import annotations

import contextlib
import datetime
import hashlib
import os
import re
import secrets
import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, cast

import msgspec
from msgspec.structs import replace

from tunecheck import _files as files, plugins
from tunecheck._describe import read_as, read_fitting
from tunecheck._disk import cache_folder, irregular_file, is_held, write_file
from tunecheck._errors import ConfigurationError, RunError, raise_as
from tunecheck._json import JSON, content_hash, dumps, loads, plain, text_or_none
from tunecheck._messages import command_line, did_you_mean, plural
from tunecheck._trust import is_signed, signature

if TYPE_CHECKING:
    from tunecheck.pipeline._finished_rows import RowsView

Manifest = dict[str, JSON]

RESULTS_DIR = "eval_results"
"""Default folder of run folders."""

_UNSAFE_CHARACTERS = re.compile(r"[^A-Za-z0-9._-]+")
"""Characters that a file system may refuse in the name of a run's folder, such as `: ` in `val: German`."""

_DEVICE_NAME = re.compile(r"(con|prn|aux|nul|com[1-9]|lpt[1-9])\.", re.IGNORECASE)
"""The beginning of file names that Windows treats as devices, such as `con.` in `con.v2`.

A name without a dot, such as `con`, is safe: in a run's id, a dash and the time follow it.
"""

_TIME_AND_DIGITS = re.compile(r"-(?P<second>\d{8}T\d{6}Z)-[0-9a-f]{6}\Z")
"""The end of a run's id, after the run's name: `-20260101T120000Z-0a1b2c`."""

_SIGNED = ("id", "parent", "command", "dataset", "evaluators", "mapping", "api")
"""The keys of `run.json` that resume, reuse and score depend on."""

_MOST_RUNS_CHECKED = 100
"""The most manifests that are read to find out whether a user has an earlier run."""


class _FileOfRun:
    """A property of `Run`: the path of a file in the run's folder."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, run: Run, owner: type[Run]) -> Path:
        return run.folder / self._name


class Run(msgspec.Struct, frozen=True):
    """One folder below `eval_results/`."""

    folder: Path

    @property
    def id(self) -> str:
        """The folder's name: `<name>-<UTC time>-<6 hex digits>`."""
        return self.folder.name

    journal = _FileOfRun("journal.jsonl")
    """The append-only record of finished work."""
    results = _FileOfRun("eval_results.jsonl")
    """The rows, one JSON object per line."""
    table = _FileOfRun("eval_results.csv")
    """The rows as a table that is safe to open in a spreadsheet."""
    metrics_file = _FileOfRun("metrics.json")
    """The metrics over all rows and by group."""
    upload_file = _FileOfRun("upload.json")
    """The record of uploads."""
    manifest_file = _FileOfRun("run.json")
    """The description of the run, and how it ended."""

    def manifest(self) -> files.RunFile:
        """Return the content of `run.json`, without parts of a wrong type.

        Raises:
            ConfigurationError: The file is missing or damaged, or a later version wrote it.
        """
        return read_fitting(self.manifest_data(), files.RunFile, str(self.manifest_file))

    def manifest_data(self) -> Manifest:
        """Return the content of `run.json` with unchecked types; refuse a folder that is unsafe or too new to read.

        Every command calls this first, so it checks the whole folder before the command uses or replaces a file.

        Raises:
            ConfigurationError: `run.json` is missing or damaged, the folder contains a link, pipe or device, or a
                later version wrote a file of the run.
        """
        problem = irregular_file(self.folder) if self.folder.is_dir() else None
        if problem is not None:
            raise ConfigurationError(f"run {self.id} cannot be used ({problem}): put a regular file in its place")

        manifest = files.read_object(self.manifest_file, f"run {self.id} has no run.json: restore this file")
        files.check_first_record(self.journal)
        for path in (self.metrics_file, self.upload_file):
            files.check_if_readable(path)

        return manifest

    def metrics(self) -> dict[str, JSON]:
        """Return the content of `metrics.json`: `metrics`, `by`, `rows`.

        Raises:
            ConfigurationError: The run has not finished, or a later version wrote the file.
        """
        missing = f"run {self.id} has no metrics.json: resume the run, or if it has finished, restore the file"
        return files.read_object(self.metrics_file, missing)

    def rows(self) -> RowsView:
        """Return the result rows of a finished run.

        Raises:
            ConfigurationError: The file is missing (as in a run that has not finished), cannot be opened, or was
                written by a later version.
        """
        from tunecheck.pipeline._finished_rows import RowsView  # slow to import, and listing runs needs no rows

        self.require_results()
        with raise_as(ConfigurationError, self.results):
            return RowsView(self.results)

    def require_results(self) -> None:
        """Check that the run's file of rows exists and that no later version wrote it.

        If `run.json` is damaged, the version cannot be checked, and the file's existence is enough.

        Raises:
            ConfigurationError: the file does not exist, and the text says what to do; or a later version wrote it.
        """
        files.check_if_readable(self.manifest_file)  # it has the version of the rows
        if self.results.is_file():
            return

        status = self.status()
        problem = f"is not finished ({status}): finish it with {self.resuming()}"
        if status == "running":
            problem = "is still running: wait for its end"
        elif status == "finished":
            problem = f"is finished, but {self.results.name} is missing: restore this file, or evaluate again"
        raise ConfigurationError(f"run {self.id} has no results, because it {problem}")

    def write(self, description: files.RunFile) -> None:
        """Replace `run.json`, and add a digest of its values."""
        values = cast("dict[str, JSON]", loads(dumps(description)))
        write_file(self.manifest_file, dumps_readably({**values, "digest": digest_of(values)}))

    def status(self) -> str:
        """Return `finished`, `running`, `interrupted`, `stopped`, `failed`, `killed` or `unknown`.

        `killed`: the manifest says running, but no process holds the journal. `unknown`: the manifest has no status.

        Raises:
            ConfigurationError: `run.json` is missing or damaged, or a later version wrote it.
        """
        status = self.manifest().status or "unknown"
        # A killed process cannot write its end, but the system releases its lock on the journal.
        if status == "running" and not is_held(self.journal):
            return "killed"
        return status

    @property
    def fails_again(self) -> bool:
        """True if the finished run was resumed, and as many rows as before ended in an error."""
        before = self.manifest().failed_before
        return isinstance(before, int) and 0 < before == self.metrics().get("failed_rows")

    def resuming(self, folder_option: Sequence[str] | None = None, *, all_rows: bool = False) -> str:
        """Return the command that finishes the run, or the Python call if Python code started it.

        With `all_rows`, it also asks the rows that an early stop left out.

        For example `tunecheck evaluate --resume small-20260101T120000Z-0a1b2c`. If `run.json` is damaged, the result is
        only the option `--resume ID`. `folder_option` locates the folder of runs; by default it is the run's `place`.
        """
        try:
            command = command_of(self.manifest().command)
        except ConfigurationError:
            return command_line(["--resume", self.id])

        if command is None:
            return f"the same Python call and resume={self.id!r}" + (", until_decided=False" if all_rows else "")

        options = [*(["--all"] if all_rows else []), *(self.place if folder_option is None else folder_option)]
        return command_line(["tunecheck", *command.split(), "--resume", self.id, *options])

    @contextlib.contextmanager
    def writing(self, path: Path) -> Iterator[None]:
        """Within this block, which writes a file or folder of the finished run, turn an OSError into a RunError.

        Its message says how to write the path again.
        """
        try:
            yield
        except OSError as error:
            problem = f"run {self.id} is finished, but {path} cannot be written: {error.strerror or error}"
            raise RunError(f"{problem}; correct the cause, then write it with {self.resuming()}") from None

    @property
    def place(self) -> list[str]:
        """The option that locates the folder of runs; empty for the default folder."""
        folder = self.folder.parent
        return [] if folder.resolve() == Path(RESULTS_DIR).resolve() else ["--results-dir", str(folder)]


def digest_of(manifest: Mapping[str, JSON]) -> str:
    """Return the digest of all values of `run.json` except the digest itself."""
    return content_hash({name: value for name, value in manifest.items() if name != "digest"})


def dumps_readably(value: object) -> bytes:
    """Return a value as JSON with line breaks, for files that people read."""
    text = dumps(value)
    with contextlib.suppress(msgspec.DecodeError):  # msgspec cannot format lone surrogates: the text stays on one line
        text = msgspec.json.format(text, indent=2)
    return text + b"\n"


def utc_now() -> datetime.datetime:
    """Return the current time in UTC, to the second."""
    return datetime.datetime.now(datetime.UTC).replace(microsecond=0)


def create_run(results_dir: Path, name: str) -> tuple[Run, int]:
    """Create the folder of a new run; return the run and its creation time in nanoseconds.

    The folder has the run's name, without characters that file systems refuse. Even if the clock was set back, the time
    is later than the times of all runs in `results_dir`.

    Raises:
        ConfigurationError: The folder cannot be created.
    """
    safe_name = _UNSAFE_CHARACTERS.sub("-", name).strip("-.")[:60] or "evaluation"
    if _DEVICE_NAME.match(safe_name):
        safe_name = safe_name.replace(".", "-", 1)

    # The clock may have been set back: take the latest second of all runs, and a later nanosecond than theirs.
    folders = _folders_by_second(results_dir)
    second = max([f"{utc_now():%Y%m%dT%H%M%SZ}", *folders])
    created_ns = max([time.time_ns(), *(_creation_key(path)[0] + 1 for path in folders.get(second, ()))])

    folder = results_dir / f"{safe_name}-{second}-{secrets.token_hex(3)}"
    try:
        folder.mkdir(parents=True)
    except OSError as error:
        problem = f"the run folder {folder} cannot be made ({error.strerror})"
        raise ConfigurationError(f"{problem}: give another --results-dir (results_dir=…)") from None
    return Run(folder), created_ns


def list_runs(results_dir: Path) -> Iterator[Run]:
    """Yield all runs in a folder, the oldest first; runs without a time in their id come before all others."""
    for _, folders in sorted(_folders_by_second(results_dir).items()):
        # Only runs of the same second are read. A folder without `run.json` is no run.
        runs = [folder for folder in folders if os.path.lexists(folder / "run.json")]
        yield from map(Run, sorted(runs, key=_creation_key) if len(runs) > 1 else runs)


def _folders_by_second(results_dir: Path) -> dict[str, list[Path]]:
    """Return all folders by the creation second at the end of their names; the key `""` has those without a second.

    Other files are included, too. Without a folder `results_dir`, the result is empty.
    """
    try:
        names = os.listdir(results_dir)  # noqa: PTH208 - names are enough, and there may be many
    except OSError:
        return {}

    folders: dict[str, list[Path]] = {}
    for name in names:
        ending = _TIME_AND_DIGITS.search(name)
        folders.setdefault(ending["second"] if ending else "", []).append(results_dir / name)
    return folders


def _creation_key(folder: Path) -> tuple[int, str]:
    """Return a run's creation time in nanoseconds (0 if unknown) and its folder's name, to sort runs of one second."""
    created = 0
    with contextlib.suppress(ConfigurationError):
        created = Run(folder).manifest().created_ns or 0
    return created, folder.name


def find_run(run: str | os.PathLike[str], results_dir: Path) -> Run:
    """Find a run by its folder, its id, its name (the newest of that name), the beginning of its id, or `last`.

    If a remote storage holds the run, its files are downloaded.

    Raises:
        ConfigurationError: No run matches, or several do.
        RunError: The remote storage cannot be read.
    """
    found = _find_local(run, results_dir)
    mirror = mirror_at(found.folder.parent)
    if mirror is not None:
        mirror.complete(found.id)
    return found


def _find_local(run: str | os.PathLike[str], results_dir: Path) -> Run:
    """Find a run as `find_run` does, without downloading files.

    Raises:
        ConfigurationError: no run matches, or the beginning of an id matches several.
    """
    path = Path(run)
    name = os.fspath(run)

    if not name:
        raise ConfigurationError("the run is given as an empty text: give its folder, its id, or 'last'")
    if os.path.lexists(path / "run.json"):
        return Run(path)

    runs = {listed.id: listed for listed in list_runs(results_dir)}
    if name in runs and name != "last":
        return runs[name]

    # The newest of the matching runs, which are in the order of their creation. `last` matches every run.
    if found := [run_id for run_id in runs if name in ("last", given_name(run_id))]:
        return runs[found[-1]]

    matching = [run_id for run_id in runs if run_id.startswith(name)]
    if len(matching) == 1:
        return runs[matching[0]]
    if matching:
        examples = ", ".join(matching[:5]) + (", …" if len(matching) > 5 else "")
        raise ConfigurationError(f"{name!r} matches {len(matching)} runs ({examples}): write more of the id")

    if path.exists():
        alternatives = "name a run's folder or id (`compare` also reads Azure's evaluation_results.json)"
        raise ConfigurationError(f"{name} has no run.json, so it is not a run: {alternatives}")

    is_id = re.search(r"-\d{8}T\d", name) is not None  # an id is compared with ids, a name with names
    hint = did_you_mean(name, runs if is_id else map(given_name, runs)) or "; it holds no runs yet"
    raise ConfigurationError(f"there is no run {name!r} in {results_dir}{hint}")


def given_name(run_id: str) -> str:
    """Return the name in a run's id: `val` for `val-20260101T120000Z-0a1b2c`."""
    return _TIME_AND_DIGITS.sub("", run_id)


def damage_error(run: Run, damage: str) -> RunError:
    """Return the error for a run with damaged files."""
    return RunError(
        f"run {run.id} is damaged: {damage}; restore its files (`tunecheck runs {run.id} --verify` checks them), or "
        "continue with --accept-damage (accept_damage=True)"
    )


def command_key(command: str) -> str | None:
    """Return the key under which manifests keep a command's options; None if they are at the top level.

    For example, `run.json` has `"command": {"bfcl_run": {"limit": 10}}` for `bfcl run`. The options of `evaluate` and
    `score` are at the top level: `"command": {"limit": 10}`.
    """
    return None if command in ("evaluate", "score") else command.replace(" ", "_")


def command_of(recorded: JSON) -> str | None:
    """Return the command that started a run, by its manifest's `command`; None if Python code started it.

    `evaluate` also stands for `score`, whose runs are resumed by `evaluate --resume`.
    """
    if not isinstance(recorded, dict) or not recorded:
        return None
    names = [command.name for command in plugins.discover("commands")]
    # An option of `evaluate` may have the name of a command, but no value that is an object of options.
    return next((name for name in names if isinstance(recorded.get(command_key(name) or ""), dict)), "evaluate")


def endpoint_of(manifest: files.RunFile) -> str | None:
    """Return the name of the endpoint that answered a run, for `tunecheck check`.

    Return None if a Python function answered, or if the data has the answers.
    """
    target = manifest.target or {}
    return None if target.get("kind", "function") == "function" else text_or_none(target.get("name"))


def recorded_values(command: dict[str, JSON]) -> JSON:
    """Return the options by name in a manifest's `command`; most commands keep them under their `command_key`."""
    key = command_key(command_of(command) or "evaluate")
    return command if key is None else command[key]


def stopped_text(decision: files.EarlyStop | None) -> str:
    """Return the notice for a run that stopped early; an empty text for a run with all its rows.

    For example `STOPPED EARLY: worse than base-…, 123 of 1,240 rows`.
    """
    if decision is None or not decision.stopped:
        return ""

    # The margin is in points for pass rates, else in the metric's unit.
    margin = ""
    if decision.margin is not None:
        are_rates = all(metric.kind == "binary" for metric in decision.metrics)
        margin = f"{100 * decision.margin:g} points " if are_rates else f"{decision.margin:g} "

    texts = {
        "better": f"better than {decision.against}",
        "worse": f"worse than {decision.against}" + (f" by {margin}or more" if margin else ""),
        "not_worse": f"at most {margin}worse than {decision.against}",
        "undecided": f"undecided against {decision.against}",
    }

    return f"STOPPED EARLY: {texts[decision.outcome]}, {decision.rows:,} of {plural(decision.of, 'row')}"


# -- signatures: whether this user began a run


def sign_manifest(manifest: files.RunFile) -> files.RunFile:
    """Return the manifest with this user's signature; without a signature if no key can be stored."""
    return replace(manifest, signature=signature(_signed_content(manifest)))


def began_here(manifest: files.RunFile) -> bool:
    """Return True if this user began the run in the current working folder, to which the run's paths are relative."""
    return is_signed(_signed_content(manifest), manifest.signature)


def holds_own_run(results_dir: Path) -> bool:
    """Return True if this user began one of the newest 100 runs in a folder."""
    for run in islice(reversed([*list_runs(results_dir)]), _MOST_RUNS_CHECKED):
        # A damaged run says nothing about its user.
        with contextlib.suppress(ConfigurationError):
            if began_here(run.manifest()):
                return True
    return False


def _signed_content(manifest: files.RunFile) -> JSON:
    """Return the values that the signature covers: the current working folder, and the `_SIGNED` keys of `run.json`.

    The folder is part of it because a run's paths are relative to it. So a run that was moved to another workspace
    counts as another user's.
    """
    return [str(Path().resolve()), *(plain(getattr(manifest, name)) for name in _SIGNED)]


# -- local mirrors of remote storage

MIRROR_STATE = ".mirror.json"
"""The file of a mirror with a JSON object; its `address` is that of the remote storage."""

_URL = re.compile(r"(?P<scheme>[a-z][a-z0-9+.-]+)://.*", re.DOTALL | re.IGNORECASE)
"""An address such as `az://container/prefix`. A scheme has at least two letters, unlike a drive of Windows."""


def is_remote(place: str) -> bool:
    """Return True if a place is the address of remote storage (`scheme://…`), not a folder."""
    return _URL.fullmatch(place) is not None


def open_mirror(address: str) -> plugins.MirrorLike:
    """Open the local mirror of the runs at an address.

    Raises:
        ConfigurationError: No plug-in supports the address's scheme, or the address is wrong.
        MissingExtraError: The package for this storage is not installed.
    """
    scheme = address.partition("://")[0].lower()
    known = [mirror.name for mirror in plugins.discover("mirrors")]
    if scheme not in known:
        offered = ", ".join(f"{name}://" for name in known)
        raise ConfigurationError(f"storage at {scheme}:// is not supported: give a folder, or an address of {offered}")

    mirror: plugins.MirrorLike = plugins.find("mirrors", scheme)(address)
    return mirror


def mirror_folder(address: str, *account: str) -> Path:
    """Return the folder in the user's cache that mirrors an address; each account has its own."""
    digest = hashlib.sha256("\n".join([address.rstrip("/"), *account]).encode())
    return _mirrors_folder() / digest.hexdigest()[:16]


def mirror_at(folder: Path) -> plugins.MirrorLike | None:
    """Return the mirror of remote storage in a folder; None if the folder is no mirror."""
    # All mirrors are in one folder: any other folder is no mirror.
    if folder.parent != _mirrors_folder():
        return None

    try:
        address = files.read_object(folder / MIRROR_STATE).get("address")
    except ConfigurationError:
        return None

    return open_mirror(address) if isinstance(address, str) else None


def _mirrors_folder() -> Path:
    """Return the folder that contains all mirrors."""
    return cache_folder() / "results"


# -- calibrations of judges

_JUDGE = re.compile(r"[0-9a-f]{16}")
"""A judge's hash, such as `0a1b2c3d4e5f6071`. It becomes a file's name, so no other text from a manifest may be one."""


def calibration_file(results_dir: Path, judge: str) -> Path:
    """Return the path of the calibration of the judge with this hash; the file may not exist."""
    return results_dir / "judges" / f"{judge}.json"


def is_uncalibrated(results_dir: Path, evaluator: files.EvaluatorEntry) -> bool:
    """Return True if the evaluator is a model judge without a calibration in this results folder."""
    return evaluator.judge is not None and not calibration_file(results_dir, evaluator.judge).is_file()


def save_calibration(results_dir: Path, calibration: files.JudgeCalibration) -> Path:
    """Write a calibration and return the file's path; an earlier calibration of the same judge is replaced.

    Raises:
        RunError: The file cannot be written.
    """
    path = calibration_file(results_dir, calibration.judge)
    with raise_as(RunError, path, f"run {calibration.run} is finished, but this file cannot be written"):
        path.parent.mkdir(exist_ok=True)
        write_file(path, dumps_readably(calibration))
    return path


def find_calibration(results_dir: Path, judge: str | None) -> files.JudgeCalibration | None:
    """Return the calibration of the judge with this hash; None if the hash is invalid or there is no calibration.

    Raises:
        ConfigurationError: The file cannot be read, or a later version wrote it.
    """
    if judge is None or _JUDGE.fullmatch(judge) is None:
        return None

    path = calibration_file(results_dir, judge)
    if not path.is_file():
        return None
    return read_as(files.read_object(path), files.JudgeCalibration, str(path))
