"""Whether a run's files are whole, and belong together."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from msgspec import UNSET

from tunecheck._disk import open_regular, sha256_of
from tunecheck._errors import ConfigurationError, RunError, told_as
from tunecheck._files import RunFile
from tunecheck._messages import counted
from tunecheck._records import WholeRecords
from tunecheck.pipeline._journal import Recorded
from tunecheck.runs._store import Run, damaged

_LOGS = "*/*/events.jsonl"  # of sessions, below a plug-in's folder
_MOST_NAMES = 5


@dataclass(frozen=True, slots=True)
class Verified:
    """What was found of a run: where it is damaged, and what could not be checked."""

    run: Run
    status: str
    rows: int | None
    damage: tuple[str, ...]
    unchecked: tuple[str, ...]

    @property
    def whole(self) -> bool:
        """Whether all that could be checked is as the run wrote it."""
        return not self.damage


def verify(run: Run) -> Verified:
    """Read all that a run keeps, and hold its parts against each other."""
    try:
        manifest, status = run.manifest(), run.status()
    except ConfigurationError as error:
        return Verified(run, "unreadable", None, (str(error),), ())
    damage, unchecked = [*_damaged_logs(run)], []
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
    if manifest.sha256 is UNSET and status == "finished":
        unchecked.append("results and metrics: the version that wrote them kept no digests")
    rows = manifest.row_count if status == "finished" else manifest.dataset.rows
    return Verified(run, status, rows or None, tuple(damage), tuple(unchecked))


def _damaged_logs(run: Run) -> Iterator[str]:
    """Check the event logs of a run's sessions."""
    for path in sorted(run.folder.glob(_LOGS)):
        with told_as(ConfigurationError, path), open_regular(path) as file:
            damage = WholeRecords(path, file).read()
        if damage.lost:
            yield f"{path.relative_to(run.folder).as_posix()}: {damage}"


def _read_journal(run: Run, manifest: RunFile) -> Recorded:
    return Recorded(
        run.journal,
        by_row=True,
        evaluators=frozenset(manifest.evaluators),
        answers=bool(manifest.target),
        at_least=manifest.records or 0,
    )


def _damaged_results(run: Run, manifest: RunFile, recorded: Recorded) -> Iterator[str]:
    """Where a finished run's files are not those that it wrote, or do not belong together."""
    changed = [_changed(path, manifest) for path in (run.results, run.table, run.metrics_file)]
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
        yield f"eval_results.jsonl has {counted(count, 'row')}, and the run has {manifest.row_count}"
    if others:
        more = f" and {len(others) - _MOST_NAMES} more" if len(others) > _MOST_NAMES else ""
        named = f"{', '.join(others[:_MOST_NAMES])}{more}"
        yield f"eval_results.jsonl and journal.jsonl have other answers to rows {named}"


def refuse_changed(run: Run, manifest: RunFile) -> None:
    """Refuse rows that are not those that the run wrote; what wrote no digest is not known to be changed.

    Raises:
        RunError: they are not.
    """
    changed = _changed(run.results, manifest)
    if changed is not None:
        raise damaged(run, changed)


def changed_since(run: Run, manifest: RunFile) -> str | None:
    """What of a run's results is not as it wrote them, as far as a glance tells; for whoever only shows them.

    Digests are made of files alone that were written to after `run.json`, the last one that a run writes.
    """
    ended = run.manifest_file.stat().st_mtime_ns
    for path in (run.results, run.metrics_file):
        if not path.is_file():
            continue
        if _has_other_size(path, manifest) or (path.stat().st_mtime_ns > ended and _changed(path, manifest)):
            return f"{run.id}: {path.name} is not as the run wrote it: see `tunecheck verify {run.id}`"
    return None


def _changed(path: Path, manifest: RunFile) -> str | None:
    written = (manifest.sha256 or {}).get(path.name)
    if written is None:
        return None
    with told_as(ConfigurationError, path):  # a file that has grown to gigabytes is not read to its end
        if _has_other_size(path, manifest) or sha256_of(path) != written:
            return f"{path.name} is not as the run wrote it"
    return None


def _has_other_size(path: Path, manifest: RunFile) -> bool:
    return (manifest.sizes or {}).get(path.name) not in (None, path.stat().st_size)
