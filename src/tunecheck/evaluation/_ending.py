"""How a run ended early: what its manifest says of it, and what is raised."""

from __future__ import annotations

import asyncio
import contextlib

from msgspec.structs import replace

from tunecheck._errors import ConfigurationError, RunError, RunInterruptedError, TunecheckError, told
from tunecheck._files import RunFile
from tunecheck.runs._store import Run, utc_now


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
