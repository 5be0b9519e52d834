"""Checks that a run's files are complete, unchanged and consistent."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from msgspec import UNSET

from tunecheck._disk import open_regular, sha256_of
from tunecheck._errors import ConfigurationError, RunError, raise_as
from tunecheck._files import RunFile
from tunecheck._messages import plural
from tunecheck._records import WholeRecords
from tunecheck.pipeline._journal_reader import JournalReader
from tunecheck.runs._store import Run, damage_error, digest_of

_LOGS = "*/*/events.jsonl"  # of sessions, below a plug-in's folder
_MOST_NAMES = 5


@dataclass(frozen=True, slots=True)
class Verified:
    """The result of a check: the damage, and the parts that could not be checked."""

    run: Run
    status: str
    rows: int | None
    damage: tuple[str, ...]
    unchecked: tuple[str, ...]

    @property
    def whole(self) -> bool:
        """True if no damage was found."""
        return not self.damage


def verify(run: Run) -> Verified:
    """Read all files of a run and check them against each other."""
    try:
        manifest, status = run.manifest(), run.status()
    except ConfigurationError as error:
        return Verified(run, "unreadable", None, (str(error),), ())
    damage, unchecked = [*_damaged_logs(run)], []
    if manifest.digest is not UNSET and manifest.digest != digest_of(run.manifest_data()):
        damage.append("run.json is not as the run wrote it")
    if status == "running":
        unchecked.append("another process is writing it now")
    try:
        recorded = _read_journal(run, manifest)
        with contextlib.closing(recorded):
            loss = recorded.told_loss(manifest.row_count or 0)
            damage += [f"journal.jsonl: {loss}"] if loss is not None else []
            if status == "finished":
                damage += [*_damaged_results(run, manifest, recorded)]
    except (ConfigurationError, RunError) as error:
        damage.append(str(error))
    if UNSET in (manifest.sha256, manifest.digest) and status == "finished":
        unchecked.append("results and metrics: the version that wrote them kept no digests")
    rows = manifest.row_count if status == "finished" else manifest.dataset.rows
    return Verified(run, status, rows or None, tuple(damage), tuple(unchecked))


def _damaged_logs(run: Run) -> Iterator[str]:
    """Yield the damage in the event logs of a run's sessions."""
    for path in sorted(run.folder.glob(_LOGS)):
        with raise_as(ConfigurationError, path), open_regular(path) as file:
            damage = WholeRecords(path, file).read()
        if damage.lost:
            yield f"{path.relative_to(run.folder).as_posix()}: {damage}"


def _read_journal(run: Run, manifest: RunFile) -> JournalReader:
    return JournalReader(
        run.journal,
        by_row=True,
        evaluators=frozenset(manifest.evaluators),
        answers=bool(manifest.target),
        at_least=manifest.records or 0,
    )


def _damaged_results(run: Run, manifest: RunFile, recorded: JournalReader) -> Iterator[str]:
    """Yield the damage in a finished run's files: changes since the run wrote them, and contradictions."""
    changed = [_change_of_file(path, manifest) for path in (run.results, run.table, run.metrics_file)]
    yield from (each for each in changed if each is not None)
    if run.metrics().get("rows") != manifest.row_count:
        yield f"metrics.json is of {run.metrics().get('rows')} rows, and the run has {manifest.row_count}"
    others: list[str] = []
    rows = run.rows()
    count = len(rows)
    for index, row in zip(recorded.indices(count), rows, strict=True):
        if manifest.target and "error.target" not in row and "error.results" not in row:
            answer = recorded.answer(index, recorded.answer_hash(index))
            if answer is None or any(row.get(f"outputs.{name}") != value for name, value in answer.items()):
                others.append(str(row.get("row_id")))
    if count != manifest.row_count:
        yield f"eval_results.jsonl has {plural(count, 'row')}, and the run has {manifest.row_count}"
    if others:
        more = f" and {len(others) - _MOST_NAMES} more" if len(others) > _MOST_NAMES else ""
        named = f"{', '.join(others[:_MOST_NAMES])}{more}"
        yield f"eval_results.jsonl and journal.jsonl have other answers to rows {named}"


def refuse_changed(run: Run, manifest: RunFile) -> None:
    """Refuse rows that have changed since the run wrote them; without a digest, changes cannot be detected.

    Raises:
        RunError: The rows have changed.
    """
    changed = _change_of_file(run.results, manifest)
    if changed is not None:
        raise damage_error(run, changed)


def changed_since(run: Run, manifest: RunFile) -> str | None:
    """Return a note if a run's results have changed since the run wrote them; a quick check that may miss changes.

    Digests are computed only for files that are newer than `run.json`, which the run writes last.
    """
    ended = run.manifest_file.stat().st_mtime_ns
    for path in (run.results, run.metrics_file):
        if not path.is_file():
            continue
        if _has_other_size(path, manifest) or (path.stat().st_mtime_ns > ended and _change_of_file(path, manifest)):
            return f"{run.id}: {path.name} is not as the run wrote it: see `tunecheck runs {run.id} --verify`"
    return None


def _change_of_file(path: Path, manifest: RunFile) -> str | None:
    written = (manifest.sha256 or {}).get(path.name)
    if written is None:
        return None
    with raise_as(ConfigurationError, path):  # the size comes first, so that a file that grew huge is not read
        if _has_other_size(path, manifest) or sha256_of(path) != written:
            return f"{path.name} is not as the run wrote it"
    return None


def _has_other_size(path: Path, manifest: RunFile) -> bool:
    return (manifest.sizes or {}).get(path.name) not in (None, path.stat().st_size)
