"""Writes a run's report: reads the rows once, and writes them out as they come."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

from tunecheck._errors import ConfigurationError
from tunecheck._json import JSON, dumps
from tunecheck._whole_files import replacing
from tunecheck.comparison._pairing import PAIR_BY
from tunecheck.report._blocks import Blocks, Shared, packed
from tunecheck.report._changes import Base
from tunecheck.report._charts import charts
from tunecheck.report._details import DetailReader, Details
from tunecheck.report._index import MOST_ROWS, Table
from tunecheck.report._page import REPORT, as_data, embedded, page
from tunecheck.report._reading import ReportedRun, ShapeReader, read_run
from tunecheck.report._summary import summary
from tunecheck.report._texts import as_json
from tunecheck.report._timeline import Timeline, memory_figures
from tunecheck.runs._store import Run
from tunecheck.runs._verify import changed_since

MOST_BYTES = 300_000_000
"""About how many characters packed rows may take; rows after that are listed, but cannot be opened."""


def write_report(
    run: Run, out: Path, *, against: Run | None = None, pair_by: str = PAIR_BY[0], home: str | None = None
) -> None:
    """Write the report of a finished run as one HTML file.

    Args:
        run: the run.
        out: the file, which is replaced if it is there.
        against: a run that it is compared with, row by row.
        pair_by: how rows are paired, as `tunecheck.compare` does: by `content` or by `id`.
        home: the address of the list of runs, where there is a server that has one.

    Raises:
        ConfigurationError: a run has not finished, its files are damaged, no row of one run is in the other, or the
            file cannot be written.
        DataError: a run's rows are damaged.
    """
    new = read_run(run)
    base = read_run(against) if against is not None else None
    try:
        with replacing(out) as temporary, temporary.open("w", encoding="utf-8", errors="replace") as file:
            _Report(file, new, base, pair_by).write(home)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise ConfigurationError(f"the report {os.fspath(out)} cannot be written: {reason}") from None


class _Report:
    """One report on its way into a file."""

    def __init__(self, file: TextIO, run: ReportedRun, against: ReportedRun | None, pair_by: str) -> None:
        self._file = file
        self._size = 0
        self._run = run
        self._shared, self._rows = Blocks("shared", self._block), Blocks("rows", self._block)
        shared = Shared(self._shared)
        self._reader = DetailReader(run, shared)
        self._table = Table(run)
        self._timeline = Timeline()
        self._base = None if against is None else Base.of(against, run, DetailReader(against, shared), pair_by)

    def write(self, home: str | None) -> None:
        """Write everything."""
        whole = page(REPORT)
        self._file.write(whole.start(f"{self._run.run.id} · report"))
        self._read_rows()
        for blocks in (self._shared, self._rows):
            blocks.flush()
        self._file.write(embedded("head", as_data(self._head() | {"home": home})))
        self._file.write(embedded("index", as_data(packed(dumps(self._table.written(self._run.evaluators))))))
        self._file.write(whole.end())

    def _block(self, name: str, text: str) -> None:
        self._size += len(text)
        self._file.write(embedded(name, as_data(text)))

    def _read_rows(self) -> None:
        shapes = ShapeReader(self._run.evaluators)
        for at, row in enumerate(self._run.run.rows()):
            columns = shapes.columns(row)
            details = self._reader.read(row, columns)
            self._table.add(row, columns, details)
            self._timeline.add(at, row, _score(details))
            before = self._base.answer(at, details) if self._base is not None else None
            if at < MOST_ROWS and self._size < MOST_BYTES:
                self._rows.add(details.shown if before is None else {**details.shown, "base": before})

    def _head(self) -> dict[str, JSON]:
        """What the page shows before any row is looked at."""
        table, run, base = self._table, self._run, self._base
        return {
            "run": run.run.id,
            "facts": [*_facts(run)],
            "rows": len(table.ids),
            "failed_rows": table.failed_rows,
            "simulated": run.simulated,
            "simulated_rows": table.simulated,
            "notes": [*_notes(run)],
            "summary": summary(run, table),
            "charts": charts(run, table),
            "timeline": self._timeline.written(),
            "memory": memory_figures(run.run.folder),
            "blocks": {"rows": [*self._rows.starts], "shared": [*self._shared.starts], "count": self._rows.count},
            "against": None if base is None else {**base.written(run), "facts": [*_facts(base.run)]},
            "manifest": as_json(run.run.manifest_data(), readable=True),
        }


def _score(details: Details) -> float | None:
    """The score that the first evaluator to have one gives a row."""
    scores = (verdict.score for verdict in details.verdicts)
    score = next((score for score in scores if isinstance(score, (int, float))), None)
    try:
        return None if score is None else float(score)
    except OverflowError:  # an integer beyond any float
        return None


def _facts(run: ReportedRun) -> Iterator[JSON]:
    """What was run, in a few words, as `[name, text]`."""
    manifest = run.manifest
    yield ["data", manifest.dataset.path or manifest.dataset.name or "?"]
    if target := manifest.target:
        model = target.get("model") or target.get("deployment")
        kind = target.get("kind") or target.get("type")
        yield ["answers", " · ".join(str(part) for part in (target.get("name"), kind, model) if part)]
    else:
        yield ["answers", "as the data holds them"]
    for name, value in (("begun", manifest.created), ("ended", manifest.ended), ("reused from", manifest.parent)):
        if value:
            yield [name, f"{value[:19].replace('T', ' ')} UTC" if value.endswith("+00:00") else value]
    status = run.run.status()
    if manifest.status and status != "finished":
        yield ["state", f"not finished ({status}): the rows are those of before"]
    if manifest.tags:
        yield ["tags", ", ".join(f"{name}={value}" for name, value in manifest.tags.items())]
    if version := manifest.versions.get("tunecheck"):
        yield ["tunecheck", version]


def _notes(run: ReportedRun) -> Iterator[str]:
    """What a reader should know: that the results are not what the run wrote, and what was noted when it ended."""
    if changed := changed_since(run.run, run.manifest):
        yield changed
    noted = run.metrics.get("notes")
    yield from map(str, noted if isinstance(noted, list) else ())
