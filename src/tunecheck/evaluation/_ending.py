"""How a run ended: what it came to; or early, what its manifest says of it and what is raised."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from tunecheck._errors import ConfigurationError, RunError, RunInterruptedError, TunecheckError, told
from tunecheck._files import Decision, Failure, RunFile
from tunecheck._json import JSON
from tunecheck.pipeline._finished_rows import ResultRow, RowsView
from tunecheck.pipeline._own_aggregates import Metrics
from tunecheck.runs._store import Run, utc_now


@dataclass(frozen=True)
class Finished:
    """What a run came to."""

    run: Run
    rows: RowsView
    loaded: Sequence[ResultRow]
    """The same, in memory where they are few."""
    metrics: Metrics
    by_group: dict[str, dict[str, Metrics]]
    usage: dict[str, JSON]
    row_count: int
    failed_row_count: int
    simulated: bool
    notes: list[str]
    reused: dict[str, int]
    aggregate_errors: dict[str, Failure]
    unanswered_count: int
    decision: Decision | None


def stopped_by(run: Run, manifest: RunFile, error: BaseException) -> BaseException:
    """Note in the manifest how a run ended early; what to raise for it."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    interrupted = isinstance(error, (RunInterruptedError, KeyboardInterrupt, asyncio.CancelledError))
    expected = isinstance(error, (TunecheckError, OSError))
    status = "interrupted" if interrupted else "stopped" if expected else "failed"
    reason = "interrupted" if interrupted else told(error) if expected else f"{type(error).__name__}: {error}"
    with contextlib.suppress(OSError):  # the disk may be full, which is why it stopped
        run.write(replace(manifest, status=status, reason=reason, ended=now()))
    if interrupted:
        return RunInterruptedError(run.folder)
    if isinstance(error, ConfigurationError) or not isinstance(error, Exception):
        return error
    if not run.journal.exists():
        gone = f"its folder {run.folder} was removed or moved while it went on"
        return RunError(f"run {run.id} stopped: {gone}; start it again, or if it was moved, --resume its new folder")
    return RunError(f"run {run.id} stopped: {reason}; go on with --resume {run.id}")


def now() -> str:
    """The time, as manifests say it."""
    return utc_now().isoformat()
