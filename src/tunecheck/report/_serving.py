"""Serve the folder of runs as pages for a browser on this machine (`tunecheck view`).

GET /?token=…                           the list of runs, from which some can be chosen for a comparison
GET /runs/{id}                          a run's report
GET /runs/{id}?against={id}&against=…   the report with a comparison with other runs; the first is the base

A run is only found by its id among the runs of the folder, so no address leads to another file. The printed address
has a token. Without it, other users of this machine see nothing. A cookie keeps the token for further pages.
"""

import asyncio
import secrets
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeAlias

import msgspec
from aiohttp import web

from tunecheck._errors import ConfigurationError
from tunecheck.report._local_pages import Handler, check_token, refuse_other_hosts, serve_pages
from tunecheck.report._page import RUNS, as_data, embed_json, page
from tunecheck.report._writing import write_report
from tunecheck.results import describe_run
from tunecheck.runs._store import Run, calibration_file, list_runs

_MOST_COMPARED = 50
"""The most runs in one report."""

_MOST_LISTED = 2_000  # runs on the page of the folder, the newest ones

_Stamp: TypeAlias = tuple[str | int, ...]


def runs_page(results_dir: Path) -> str:
    """Return the page that lists the runs of a folder, the newest first."""
    runs = [*list_runs(results_dir)][::-1]
    listed = [msgspec.to_builtins(describe_run(run)) for run in runs[:_MOST_LISTED]]

    whole, data = page(RUNS), as_data({"folder": str(results_dir), "runs": listed, "all": len(runs)})
    return whole.start("Runs · Tunecheck") + embed_json("head", data) + whole.end()


def make_app(results_dir: Path, token: str) -> web.Application:
    """Return an aiohttp application that serves the pages of a folder of runs to requests with the token."""
    pages = _Pages(results_dir)
    cookie = f"tunecheck-{token[:8]}"  # its own name, because browsers send cookies to every port of a machine

    @web.middleware
    async def with_token(request: web.Request, handler: Handler) -> web.StreamResponse:
        """Refuse requests without the token (in the address or a cookie); keep it in a cookie."""
        given = request.query.get("token", request.cookies.get(cookie, ""))
        check_token(given, token, "tunecheck view")
        response = await handler(request)
        response.set_cookie(cookie, token, httponly=True, samesite="Strict")
        return response

    app = web.Application(middlewares=[refuse_other_hosts, with_token])
    app.add_routes([web.get("/", pages.index), web.get("/runs/{run}", pages.report)])
    return app


def view(results_dir: Path, *, port: int = 0, on_ready: Callable[[str], None] | None = None) -> None:
    """Serve a folder's pages on this machine until a signal ends the process; port 0 chooses a free port.

    `on_ready` gets the address as soon as the server accepts requests.

    Raises:
        ConfigurationError: the folder does not exist, or the port is not available.
    """
    if not results_dir.is_dir():
        raise ConfigurationError(f"there is no folder {results_dir}: name the folder of runs with --results-dir")

    # 24 random bytes, 32 characters: the address cannot be guessed.
    token = secrets.token_urlsafe(24)
    asyncio.run(serve_pages(make_app(results_dir, token), port, on_ready, token))


class _Pages:
    """Builds pages on request; caches the last report while the files of its runs stay unchanged.

    Building a report takes seconds for a large run (docs/report.md), so a reload should not build it again.
    """

    def __init__(self, results_dir: Path) -> None:
        """Serve this folder; no page is made yet."""
        self._results_dir = results_dir
        self._shown: Sequence[_Stamp] = ()
        self._page = b""
        self._making = asyncio.Lock()

    async def index(self, _: web.Request) -> web.Response:
        """Return the list of runs."""
        return web.Response(text=await asyncio.to_thread(runs_page, self._results_dir), content_type="text/html")

    async def report(self, request: web.Request) -> web.StreamResponse:
        """Return the report of the run in the address, compared with the runs in its `against` parameters."""
        names = [request.match_info["run"], *request.query.getall("against", [])][:_MOST_COMPARED]

        # Threads keep the server responsive while files are read.
        runs = await asyncio.to_thread(self._runs, names)
        async with self._making:  # one page at a time, because building it uses a whole core
            page = await asyncio.to_thread(self._make_page, runs)
        return web.Response(body=page, content_type="text/html", charset="utf-8")

    def _runs(self, names: list[str]) -> list[Run]:
        """Return the runs with these ids; raise HTTPNotFound if one is not in the folder."""
        known = {run.id: run for run in list_runs(self._results_dir)}
        missing = [name for name in names if name not in known]
        if missing:
            raise web.HTTPNotFound(text=f"there is no run {missing[0][:200]!r} in this folder: see the list at /")

        return [known[name] for name in names]

    def _make_page(self, runs: list[Run]) -> bytes:
        """Return the report of the first run against the others; reuse the last one if runs and files are the same."""
        asked = [*map(_stamp, runs)]

        # A report is a file, so it is written to a folder of its own and read back.
        if asked != self._shown:
            with tempfile.TemporaryDirectory(prefix="tunecheck-view-") as folder:
                path = Path(folder, "report.html")
                write_report(runs[0], path, against=runs[1:], home="/")
                self._shown, self._page = asked, path.read_bytes()
        return self._page


def _stamp(run: Run) -> _Stamp:
    """Return a run's id with the times of its files and of the folder of calibrations."""
    calibrations = calibration_file(run.folder.parent, "").parent
    paths = (run.results, run.metrics_file, run.manifest_file, calibrations)
    return (run.id, *(path.stat().st_mtime_ns for path in paths if path.exists()))
