"""Run folders: a run's manifest, journal and results, how a run is found again, and whether this user began it."""

from __future__ import annotations

import contextlib
import datetime
import hashlib
import os
import re
import secrets
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, cast

from msgspec.structs import replace

from tunecheck import plugins
from tunecheck._describe import read_as
from tunecheck._disk import cache_folder, is_held, odd_file, write_file
from tunecheck._errors import ConfigurationError, RunError, raise_as
from tunecheck._files import (
    EarlyStop,
    EvaluatorEntry,
    JudgeCalibration,
    NewerFileError,
    RunFile,
    check_first_record,
    check_if_readable,
    read_object,
)
from tunecheck._json import JSON, content_hash, dumps, loads, plain
from tunecheck._messages import did_you_mean, plural
from tunecheck._trust import is_signed, signature

if TYPE_CHECKING:
    from tunecheck.pipeline._finished_rows import RowsView
    from tunecheck.plugins import MirrorLike

Manifest = dict[str, JSON]

_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")
_RESERVED = re.compile(r"(con|prn|aux|nul|com[1-9]|lpt[1-9])\.", re.IGNORECASE)
"""How the name of a file begins that Windows takes for a device."""
_NAMED = re.compile(r"-(\d{8}T\d{6}Z)-[0-9a-f]{6}\Z")


_SIGNED = ("id", "parent", "command", "dataset", "evaluators", "mapping", "api")
"""What resume, reuse and score act on."""

_MOST_LOOKED_AT = 100


@dataclass(frozen=True, slots=True)
class Run:
    """One folder below `eval_results/`."""

    folder: Path

    @property
    def id(self) -> str:
        """The folder's name: `<name>-<UTC time>-<6 hex digits>`."""
        return self.folder.name

    @property
    def journal(self) -> Path:
        """The append-only record of finished work."""
        return self.folder / "journal.jsonl"

    @property
    def results(self) -> Path:
        """The rows, one JSON object a line."""
        return self.folder / "eval_results.jsonl"

    @property
    def table(self) -> Path:
        """The rows as a table that is safe to open in a spreadsheet."""
        return self.folder / "eval_results.csv"

    @property
    def metrics_file(self) -> Path:
        """The metrics over all rows and by group."""
        return self.folder / "metrics.json"

    @property
    def upload_file(self) -> Path:
        """The record of uploads."""
        return self.folder / "upload.json"

    @property
    def manifest_file(self) -> Path:
        """The description of the run, and how it ended."""
        return self.folder / "run.json"

    def manifest(self) -> RunFile:
        """Return the content of `run.json`.

        Raises:
            ConfigurationError: The file is missing or damaged, or a later version wrote it.
        """
        return read_as(self.manifest_data(), RunFile, str(self.manifest_file))

    def manifest_data(self) -> Manifest:
        """Return the content of `run.json`.

        Every command begins here. So links that lead out of the folder and files of a later version are refused before
        anything is used or replaced. This holds for all files of the run.
        """
        odd = odd_file(self.folder) if self.folder.is_dir() else None
        if odd is not None:
            raise ConfigurationError(
                f"run {self.id} cannot be used: {odd}; a run folder holds files only: put a copy there"
            )
        manifest = read_object(self.manifest_file, f"run {self.id} has no run.json")
        check_first_record(self.journal)
        for path in (self.metrics_file, self.upload_file):
            check_if_readable(path)
        return manifest

    def metrics(self) -> dict[str, JSON]:
        """Return the content of `metrics.json`: `metrics`, `by`, `rows`.

        Raises:
            ConfigurationError: The run has not finished, or a later version wrote the file.
        """
        missing = f"run {self.id} has no metrics.json; if it has not finished, --resume finishes it"
        return read_object(self.metrics_file, missing)

    def rows(self) -> RowsView:
        """Return the result rows of a finished run.

        Raises:
            ConfigurationError: the run has not finished, or its file is not there, or cannot be opened, or a later
                version wrote it.
        """
        from tunecheck.pipeline._finished_rows import RowsView  # heavy, and listing runs needs no rows

        finished = False
        try:  # the version of the rows stands in `run.json`; without it, they can be read all the same
            finished = self.status() == "finished"
        except NewerFileError:
            raise
        except ConfigurationError:
            pass
        if not self.results.is_file():
            if finished:
                raise ConfigurationError(
                    f"run {self.id} has no results: it is finished, and {self.results.name} is gone"
                )
            raise ConfigurationError(f"run {self.id} has no results yet: finish it with --resume {self.id}")
        with raise_as(ConfigurationError, self.results):
            return RowsView(self.results)

    def write(self, description: RunFile) -> None:
        """Replace `run.json`; it ends with a digest of its other values."""
        values = cast("dict[str, JSON]", loads(dumps(description)))
        write_file(self.manifest_file, dumps_readably({**values, "digest": digest_of(values)}))

    def status(self) -> str:
        """Return `finished`, `running`, `interrupted`, `stopped`, `failed`, `killed` or `unknown`."""
        status = self.manifest().status or "unknown"
        if status == "running" and not is_held(self.journal):
            return "killed"
        return status


def digest_of(manifest: Mapping[str, JSON]) -> str:
    """Return the digest of the values of run.json, except the digest itself."""
    return content_hash({name: value for name, value in manifest.items() if name != "digest"})


def dumps_readably(value: object) -> bytes:
    """Return JSON with line breaks, for files that people open."""
    import msgspec

    text = dumps(value)
    with contextlib.suppress(msgspec.DecodeError):  # a lone surrogate somewhere: such a text stays on one line
        text = msgspec.json.format(text, indent=2)
    return text + b"\n"


def utc_now() -> datetime.datetime:
    """Return the current time in UTC, to the second."""
    return datetime.datetime.now(datetime.UTC).replace(microsecond=0)


def create_run(results_dir: Path, name: str) -> tuple[Run, int]:
    """Make a new run's folder; return it with its time in ns.

    The time is later than those of all runs there, even if the clock was set back.

    Raises:
        ConfigurationError: The folder cannot be made.
    """
    safe = _UNSAFE.sub("-", name).strip("-.")[:60] or "evaluation"
    if _RESERVED.match(safe):
        safe = safe.replace(".", "-", 1)
    known = _folders_by_second(results_dir)
    second = max([f"{utc_now():%Y%m%dT%H%M%SZ}", *known])
    created_ns = max([time.time_ns(), *(_creation_time(run)[0] + 1 for run in known.get(second, ()))])
    folder = results_dir / f"{safe}-{second}-{secrets.token_hex(3)}"
    try:
        folder.mkdir(parents=True)
    except OSError as error:
        raise ConfigurationError(f"cannot make the run folder {folder}: {error.strerror}") from None
    return Run(folder), created_ns


def list_runs(results_dir: Path) -> Iterator[Run]:
    """Yield all runs in a folder, the oldest first."""
    for _, folders in sorted(_folders_by_second(results_dir).items()):
        runs = [folder for folder in folders if os.path.lexists(folder / "run.json")]
        yield from map(Run, sorted(runs, key=_creation_time) if len(runs) > 1 else runs)


def _folders_by_second(results_dir: Path) -> dict[str, list[Path]]:
    """Return the folders in a folder by the second in their names, under `""` if there is none."""
    try:
        names = os.listdir(results_dir)  # noqa: PTH208 - names are enough, and there may be many
    except OSError:
        return {}
    found: dict[str, list[Path]] = {}
    for name in names:
        second = _NAMED.search(name)  # the run's name before it may hold hyphens
        found.setdefault(second[1] if second else "", []).append(results_dir / name)
    return found


def _creation_time(folder: Path) -> tuple[int, str]:
    """Return the creation time of a run, to order runs with the same second in their names."""
    try:
        created = Run(folder).manifest().created_ns or 0
    except ConfigurationError:
        created = 0
    return created, folder.name


def find_run(run: str | os.PathLike[str], results_dir: Path) -> Run:
    """Find a run by its folder, its id, its name (the newest of that name), the beginning of its id, or `last`.

    If a storage holds the run, its files are fetched.

    Raises:
        ConfigurationError: There is no such run, or there are several.
        RunError: The storage cannot be read.
    """
    found = _find(run, results_dir)
    mirror = mirror_at(found.folder.parent)
    if mirror is not None:
        mirror.complete(found.id)
    return found


def _find(run: str | os.PathLike[str], results_dir: Path) -> Run:
    path = Path(run)
    name = os.fspath(run)
    if not name:
        raise ConfigurationError("the name of a run is empty; give its folder, its id, or 'last'")
    if os.path.lexists(path / "run.json"):
        return Run(path)
    runs = list(list_runs(results_dir))
    if name == "last" and runs:
        return runs[-1]
    by_id = [known for known in runs if known.id == name]
    if by_name := by_id or [known for known in runs if given_name(known.id) == name]:
        return by_name[-1]
    matching = [known for known in runs if known.id.startswith(name)]
    if len(matching) == 1:
        return matching[0]
    if matching:
        listed = ", ".join(known.id for known in matching[:5]) + (", …" if len(matching) > 5 else "")
        raise ConfigurationError(f"{name!r} matches {len(matching)} runs: {listed}; give more of the id")
    if path.is_dir():
        raise ConfigurationError(f"the folder {name} holds no run: it has no run.json")
    is_whole = re.search(r"-\d{8}T\d", name) is not None  # an id, which names without a time resemble little
    hint = did_you_mean(name, [known.id if is_whole else given_name(known.id) for known in runs])
    raise ConfigurationError(f"there is no run {name!r} in {results_dir}{hint}")


def given_name(run_id: str) -> str:
    """Return a run's name without the time and the number that its id ends with."""
    return _NAMED.sub("", run_id)


def damage_error(run: Run, what: str) -> RunError:
    """Return the error for a run with damaged files."""
    return RunError(
        f"run {run.id} is damaged: {what}. Put back whole files (`tunecheck runs {run.id} --verify` checks them), or "
        "go on all the same with --accept-damage (accept_damage=True)"
    )


COMMAND_KEYS = {"bfcl run": "bfcl_run", "judge calibrate": "judge_calibrate", "memory run": "memory_run"}
"""Commands with options under a key of their own in manifests; those of `evaluate` and `score` are at the top."""


def command_of(recorded: JSON) -> str | None:
    """Return the command that began a run, by its manifest's `command`; None if it was begun in Python."""
    if not isinstance(recorded, dict) or not recorded:
        return None
    return next((command for command, key in COMMAND_KEYS.items() if key in recorded), "evaluate")


def stopped_text(decision: EarlyStop | None) -> str:
    """Return `STOPPED EARLY: worse than base-…, 123 of 1,240 rows` for a run that stopped early.

    Return an empty text for a run with all its rows.
    """
    if decision is None or not decision.stopped:
        return ""
    return f"STOPPED EARLY: {_outcome_text(decision)}, {decision.rows:,} of {plural(decision.of, 'row')}"


def _outcome_text(decision: EarlyStop) -> str:
    """Return `worse than base-…`, or `at most 2 points worse than base-…`; a margin of scores has their unit."""
    rates = all(metric.kind == "binary" for metric in decision.metrics)
    margin = (
        "" if decision.margin is None else f"{100 * decision.margin:g} points " if rates else f"{decision.margin:g} "
    )
    match decision.outcome:
        case "better":
            return f"better than {decision.against}"
        case "worse":
            return f"{margin}or more worse than {decision.against}" if margin else f"worse than {decision.against}"
        case "not_worse":
            return f"at most {margin}worse than {decision.against}"
        case "undecided":
            return f"undecided against {decision.against}"


# -- whose run it is


def sign_manifest(manifest: RunFile) -> RunFile:
    """Return the manifest with the signature of this user; without one if no key can be kept."""
    return replace(manifest, signature=signature(_content(manifest)))


def began_here(manifest: RunFile) -> bool:
    """Return whether this user began the run in the current folder, to which its paths are relative."""
    return is_signed(_content(manifest), manifest.signature)


def holds_own_run(results_dir: Path) -> bool:
    """Return whether one of the newest runs in a folder is this user's."""
    for run in islice(reversed([*list_runs(results_dir)]), _MOST_LOOKED_AT):
        with contextlib.suppress(ConfigurationError):
            if began_here(run.manifest()):
                return True
    return False


def _content(manifest: RunFile) -> JSON:
    return [str(Path().resolve()), *(plain(getattr(manifest, name)) for name in _SIGNED)]


# -- storage that a folder mirrors

MIRROR_STATE = ".mirror.json"
"""File of a mirror: a JSON object whose `address` is what the folder mirrors."""

_URL = re.compile(r"(?P<scheme>[a-z][a-z0-9+.-]+)://.*", re.DOTALL | re.IGNORECASE)


def is_remote(place: str) -> bool:
    """Return whether a place is the address of a storage service, not a folder."""
    return _URL.fullmatch(place) is not None


def open_mirror(address: str) -> MirrorLike:
    """Open the mirror of the runs at an address.

    Raises:
        ConfigurationError: No plug-in knows the address's scheme, or the address is wrong.
        MissingExtraError: The package for this storage is not installed.
    """
    scheme = address.partition("://")[0].lower()
    known = [each.name for each in plugins.discover("mirrors")]
    if scheme not in known:
        offered = ", ".join(f"{name}://" for name in known)
        raise ConfigurationError(f"{scheme}://… was never tried as storage: give a folder, or an address of {offered}")
    return plugins.mirror(scheme)(address)


def mirror_folder(address: str, *account: str) -> Path:
    """Return the folder in the user's cache that mirrors an address; each account has its own."""
    digest = hashlib.sha256("\n".join([address.rstrip("/"), *account]).encode())
    return _mirrors() / digest.hexdigest()[:16]


def mirror_at(folder: Path) -> MirrorLike | None:
    """Return the mirror that a folder is, if it stands where mirrors do and its file names an address."""
    if folder.parent != _mirrors():
        return None
    try:
        address = read_object(folder / MIRROR_STATE).get("address")
    except ConfigurationError:
        return None
    return open_mirror(address) if isinstance(address, str) else None


def _mirrors() -> Path:
    return cache_folder() / "results"


# -- calibrations of judges

_JUDGE = re.compile(r"[0-9a-f]{16}")


def calibration_file(results_dir: Path, judge: str) -> Path:
    """Return the path of a judge's calibration."""
    return results_dir / "judges" / f"{judge}.json"


def is_uncalibrated(results_dir: Path, evaluator: EvaluatorEntry) -> bool:
    """Return whether a model judges and has no calibration."""
    return evaluator.judge is not None and not calibration_file(results_dir, evaluator.judge).is_file()


def save_calibration(results_dir: Path, calibration: JudgeCalibration) -> Path:
    """Write a calibration, replace an earlier one of the same judge, and return the file's path.

    Raises:
        RunError: The file cannot be written.
    """
    path = calibration_file(results_dir, calibration.judge)
    try:
        path.parent.mkdir(exist_ok=True)
        write_file(path, dumps_readably(calibration))
    except OSError as error:
        raise RunError(f"cannot write {path}: {error.strerror}; run {calibration.run} is finished") from error
    return path


def find_calibration(results_dir: Path, judge: str | None) -> JudgeCalibration | None:
    """Return the calibration of a judge, or None.

    Raises:
        ConfigurationError: The file cannot be read, or a later version wrote it.
    """
    if judge is None or _JUDGE.fullmatch(judge) is None:
        return None
    path = calibration_file(results_dir, judge)
    if not path.is_file():
        return None
    return read_as(read_object(path), JudgeCalibration, str(path))
