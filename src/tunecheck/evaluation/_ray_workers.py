"""Workers of a run on Ray: each an actor that Ray restarts, with a worker process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tunecheck._errors import INTERRUPTED, MissingExtraError, RunError
from tunecheck._messages import clean

if TYPE_CHECKING:
    from tunecheck.runs._claims import Claims

_GRACE_S = 15.0
_PATIENCE_S = 180.0
"""So long workers may die while no row gets finished; that a node is gone may take Ray a minute to see."""

_AGAIN_S = 1.0
"""An actor that is being restarted is asked again after this."""

_LEFT_HERE = ["eval_results", ".venv", ".git", "azureml"]
"""What of the workspace no worker elsewhere needs."""


class Claimant:
    """What runs in an actor: one worker process, which ends when the actor does, for its standard input ends then."""

    def __init__(self, command: Sequence[str], folder: str | None) -> None:
        self._command, self._folder = command, folder
        self._process: subprocess.Popen[bytes] | None = None

    def work(self) -> tuple[int, str]:
        """Run a worker to its end; gives its exit code, negative for a signal, and its last words."""
        with tempfile.TemporaryFile() as said:
            self._process = subprocess.Popen(  # noqa: S603 - our own program
                [sys.executable, *self._command],  # the Python of this node
                cwd=self._folder,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=said,
            )
            code = self._process.wait()
            said.seek(0)
            words = said.read().decode(errors="replace").strip().splitlines()
        return code, words[-1] if words else f"a worker ended with {code}"

    def stop(self) -> None:
        """Have the worker end in order."""
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()


@dataclass
class _Actor:
    handle: Any  # Ray's actors have no types
    work: Any = None
    again_at: float = 0.0


@dataclass
class RayWorkers:
    """Workers on the Ray cluster at an address, one a core; without one, on a cluster of this machine, which ends with
    the run."""

    command: Sequence[str]
    """What starts a worker, behind Python, but for the run."""
    address: str | None = None
    cores: int = 1
    """Of this machine."""
    by_id: bool = False
    """Whether workers find the run by its id, in a storage; else by its folder."""
    _actors: list[_Actor] = field(default_factory=list)
    _finished: int = -1
    _dying_since: float | None = None

    @property
    def count(self) -> int:
        """As `Launcher.count`; the cluster is asked.

        Raises:
            MissingExtraError: Ray is not installed.
            RunError: the cluster cannot be reached.
        """
        ray = _ray()
        if not ray.is_initialized():
            self._connect(ray)
        return self.cores if self.address is None else int(ray.cluster_resources().get("CPU", 1))

    def _connect(self, ray: Any) -> None:  # noqa: ANN401 - the module
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # else Ray reports to its makers
        if self.address is None:
            # "local": without an address, Ray would join any cluster that this machine is part of.
            settings = {"address": "local", "num_cpus": self.cores, "include_dashboard": False}
        else:
            settings = {"address": self.address, "runtime_env": {"working_dir": ".", "excludes": _LEFT_HERE}}
        try:
            ray.init(log_to_driver=False, logging_level="ERROR", **settings)
        except (ConnectionError, RuntimeError, ValueError, TimeoutError) as error:
            raise RunError(f"Ray{f' at {self.address}' if self.address else ''}: {clean(error, 500)}") from None

    def start(self, run: Path) -> None:
        """As `Launcher.start`."""
        count = self.count
        kind = _ray().remote(num_cpus=1, max_restarts=-1, max_task_retries=0, max_concurrency=2)(Claimant)
        folder = str(Path.cwd()) if self.address is None else None
        path = str(run.absolute())
        # On another node the run is nobody's own; here it was typed that it is to be worked on there.
        command = [*self.command, "--trust", path, run.name if self.by_id else path]
        for _ in range(count):
            actor = _Actor(kind.remote(command, folder))
            actor.work = actor.handle.work.remote()
            self._actors.append(actor)

    def look(self, claims: Claims, finished: int) -> None:
        """As `Launcher.look`."""
        if finished > self._finished:
            self._finished, self._dying_since = finished, None
        for actor in self._actors:
            if actor.work is None and time.monotonic() >= actor.again_at:
                actor.work = actor.handle.work.remote()
            ended = self._ended(actor)
            if ended is None:
                continue
            code, words = ended
            if code > 0 and code != INTERRUPTED:
                raise RunError(words)
            actor.work, actor.again_at = None, time.monotonic() + _AGAIN_S
            if code:
                self._dying_since = self._dying_since or time.monotonic()
                if time.monotonic() - self._dying_since > _PATIENCE_S:
                    raise RunError(f"workers die again and again: {clean(words, 500)}")

    def _ended(self, actor: _Actor) -> tuple[int, str] | None:
        """The exit code and last words of an actor's worker, once it has ended, or the actor was lost."""
        ray = _ray()
        if actor.work is None or not ray.wait([actor.work], timeout=0)[0]:
            return None
        try:
            code, words = ray.get(actor.work)
        except ray.exceptions.RayError as error:  # with its process or its node; Ray starts it anew
            return -1, str(error).partition("\n")[0]
        return code, words

    def wait(self, seconds: float) -> None:
        """As `Launcher.wait`: an actor that was lost is started again seconds later in any case."""
        time.sleep(seconds)

    def stop(self) -> None:
        """As `Launcher.stop`."""
        ray = _ray()
        for actor in self._actors:
            actor.handle.stop.remote()
        under_way = [actor.work for actor in self._actors if actor.work is not None]
        if under_way:
            ray.wait(under_way, num_returns=len(under_way), timeout=_GRACE_S)
        for actor in self._actors:
            ray.kill(actor.handle)
        self._actors.clear()
        ray.shutdown()


def _ray() -> Any:  # noqa: ANN401 - a module without types for what is used of it
    try:
        import ray
        import ray.exceptions
    except ImportError:
        raise MissingExtraError("--on ray", "ray") from None
    return ray
