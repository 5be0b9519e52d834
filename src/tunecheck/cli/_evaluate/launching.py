"""`--on`: where the workers are that share a run."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tunecheck._errors import ConfigurationError
from tunecheck.cli._evaluate.options import Options
from tunecheck.storage._address import is_remote

if TYPE_CHECKING:
    from tunecheck.evaluation._workers import Launcher

_PLACE = re.compile(r"local(?::(?P<count>[1-9]\d{0,3}))?|(?P<ray>ray)(?::(?P<address>\S+))?")


def launcher_of(options: Options) -> Launcher | None:
    """What starts the workers that `--on` asks for."""
    if options.on is None:
        return None
    place = _PLACE.fullmatch(options.on)
    if place is None:
        raise ConfigurationError(
            f"--on {options.on}: expected local, local:N with the number of processes, ray, or ray:ADDRESS of a cluster"
        )
    allowed = [word for path in options.trust or () for word in ("--trust", path)]
    started = ["-m", "tunecheck", "worker", "--attached", *allowed]
    if place["ray"]:
        return _on_ray(options, place["address"], started)
    from tunecheck.evaluation._workers import LocalWorkers

    count = int(place["count"] or _cores())
    return LocalWorkers(count, [sys.executable, *started])


def _on_ray(options: Options, address: str | None, started: Sequence[str]) -> Launcher:
    from tunecheck.evaluation._ray_workers import RayWorkers

    if address is None:
        return RayWorkers(started, cores=_cores())
    place = options.results_dir or ""
    if not is_remote(place):
        return RayWorkers(started, address=address)
    return RayWorkers([*started, "--results-dir", place], address=address, by_id=True)


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
