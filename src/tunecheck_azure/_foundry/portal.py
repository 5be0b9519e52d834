"""Data of a run for the Foundry portal: the table of rows, and the properties that point to it."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from tunecheck import Run
from tunecheck.plugins import JSON, dumps, dumps_line
from tunecheck_upload import MARKER, Artifact, Contents, artifact, cell, common_artifacts, table_columns

_TABLE = "instance_results.jsonl"

_SEGMENT, _MOST_SEGMENTS = 950, 10


def properties(contents: Contents, marker: str) -> dict[str, JSON]:
    """Return properties that tell the portal that a run is an evaluation, and where the run's table is."""
    from tunecheck import __version__

    table: list[JSON] = [{"path": _TABLE, "type": "table"}]
    return {
        "runType": "eval_run",
        "_azureml.evaluation_sdk_name": f"tunecheck:{__version__}",
        "_azureml.evaluate_artifacts": dumps(table).decode(),
        **_name_map_properties(contents.name_map),
        "tunecheck.run": contents.run.id,
        MARKER: marker,
    }


def _name_map_properties(names: Mapping[str, str]) -> dict[str, JSON]:
    """Return the map of metric names as properties: JSON in at most ten segments of 950 characters, and their number.

    If the map is longer, the number is -1 and there are no segments.
    """
    text = dumps(dict(names)).decode()
    segments = [text[start : start + _SEGMENT] for start in range(0, len(text), _SEGMENT)]
    key = "_azureml.evaluation_name_map"
    if len(segments) > _MOST_SEGMENTS:
        return {f"{key}_length": -1}
    return {f"{key}_length": len(segments), **{f"{key}_{index}": segment for index, segment in enumerate(segments)}}


def portal_artifacts(run: Run, folder: Path) -> Iterator[Artifact]:
    """Yield the files for the portal. Files that are not in the run's folder are written to `folder`."""
    columns = table_columns(run.rows())
    with (folder / _TABLE).open("wb") as file:
        for number, row in enumerate(run.rows()):
            # The portal identifies rows by their line number.
            file.write(dumps_line({**{name: cell(row, name) for name in columns}, "line_number": number}))
    yield artifact(_TABLE, folder / _TABLE)
    yield from common_artifacts(run, folder)
