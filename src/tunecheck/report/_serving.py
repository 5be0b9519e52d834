"""`tunecheck view`: the folder of runs as pages for a browser on this machine.

GET /                                   the runs, and the choice of some to compare
GET /runs/{id}                          a run's report
GET /runs/{id}?against={id}&against=…   the same, held against others, the first of which is the base

Runs are found by their ids among those that the folder has, so that no address leads to another file.
"""

import asyncio
import contextlib
import tempfile
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import TypeAlias

from aiohttp import web

from tunecheck._errors import ConfigurationError
from tunecheck.report._local_pages import guarded, serve_pages
from tunecheck.report._run_list import runs_page
from tunecheck.report._writing import write_report
from tunecheck.runs._store import Run, list_runs

_MOST_COMPARED = 50
"""Runs of one page; a page that holds more would say less."""
_KEPT = 20
"""Pages that are kept; the one that was asked for longest ago gives way."""

_Stamp: TypeAlias = tuple[int, ...]


def make_app(results_dir: Path) -> web.Application:
    """The pages of a folder of runs as an aiohttp application."""
    pages = _Pages(results_dir)
    app = web.Application(middlewares=[guarded])
    app.add_routes([web.get("/", pages.index), web.get("/runs/{run}", pages.report)])
    app.cleanup_ctx.append(pages.folder)
    return app


def view(results_dir: Path, *, port: int = 0, on_ready: Callable[[str], None] | None = None) -> None:
    """Serve a folder's pages on this machine until the process is asked to end. Port 0 takes a free one.

    Raises:
        ConfigurationError: there is no such folder, or the port cannot be taken.
    """
    if not results_dir.is_dir():
        raise ConfigurationError(f"there is no folder {results_dir}; name the folder of runs with --results-dir")
    asyncio.run(serve_pages(make_app(results_dir), port, on_ready))


class _Pages:
    """Makes pages as they are asked for, and keeps them as long as their runs stay as they are."""

    def __init__(self, results_dir: Path) -> None:
        self._results_dir = results_dir
        self._kept: OrderedDict[tuple[str, ...], tuple[_Stamp, Path]] = OrderedDict()
        self._folder = Path()
        self._numbers = 0
        self._making = asyncio.Lock()

    async def folder(self, _: web.Application) -> AsyncIterator[None]:
        """Holds the folder of made pages while the server runs."""
        with tempfile.TemporaryDirectory(prefix="tunecheck-view-") as folder:
            self._folder = Path(folder)
            yield

    async def index(self, _: web.Request) -> web.Response:
        """The runs."""
        return web.Response(text=await asyncio.to_thread(runs_page, self._results_dir), content_type="text/html")

    async def report(self, request: web.Request) -> web.StreamResponse:
        """A run's report."""
        names = [request.match_info["run"], *request.query.getall("against", [])][:_MOST_COMPARED]
        runs = await asyncio.to_thread(self._runs, names)
        async with self._making:  # one at a time: making a page takes a whole processor
            page = await asyncio.to_thread(self._page, runs)
        return web.FileResponse(page, headers={"Content-Type": "text/html; charset=utf-8"})

    def _runs(self, names: list[str]) -> list[Run]:
        known = {run.id: run for run in list_runs(self._results_dir)}
        missing = [name for name in names if name not in known]
        if missing:
            raise web.HTTPNotFound(text=f"there is no run {missing[0][:200]!r} here")
        return [known[name] for name in names]

    def _page(self, runs: list[Run]) -> Path:
        key = tuple(run.id for run in runs)
        stamp = tuple(part for run in runs for part in _stamp(run))
        kept = self._kept.pop(key, None)
        if kept is not None and kept[0] == stamp:
            self._kept[key] = kept
            return kept[1]
        self._numbers += 1
        path = self._folder / f"{self._numbers}.html"
        write_report(runs[0], path, against=runs[1:], home="/")
        self._kept[key] = (stamp, path)
        if kept is not None:
            kept[1].unlink(missing_ok=True)
        if len(self._kept) > _KEPT:
            self._kept.popitem(last=False)[1][1].unlink(missing_ok=True)
        return path


def _stamp(run: Run) -> _Stamp:
    """When a run's files were last written, and how large they are."""
    stamp: list[int] = []
    for path in (run.results, run.metrics_file, run.folder / "run.json"):
        with contextlib.suppress(OSError):
            status = path.stat()
            stamp += (status.st_mtime_ns, status.st_size)
    return tuple(stamp)
