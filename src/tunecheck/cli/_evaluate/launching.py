"""`--on`: where the workers are that share a run."""

from __future__ import annotations

import os
import re
import sys
from typing import TYPE_CHECKING

from tunecheck._errors import ConfigurationError
from tunecheck.cli._evaluate.options import Options

if TYPE_CHECKING:
    from tunecheck.evaluation._workers import Launcher

_PLACE = re.compile(r"local(?::(?P<count>[1-9]\d{0,3}))?")


def launcher_of(options: Options) -> Launcher | None:
    """What starts the workers that `--on` asks for."""
    if options.on is None:
        return None
    place = _PLACE.fullmatch(options.on)
    if place is None:
        raise ConfigurationError(f"--on {options.on}: expected local, or local:N with the number of processes")
    from tunecheck.evaluation._workers import LocalWorkers

    allowed = [word for path in options.trust or () for word in ("--trust", path)]
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    count = int(place["count"] or cores)
    started = [sys.executable, "-m", "tunecheck", "worker", "--attached", "--of", str(count), *allowed]
    return LocalWorkers(count, started)
