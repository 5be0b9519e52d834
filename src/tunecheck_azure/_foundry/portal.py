"""Data of a run for the Foundry portal: properties that name its table, and the table itself."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from tunecheck import Run
from tunecheck.plugins import JSON, dumps, dumps_line
from tunecheck_upload import MARKER, Artifact, Contents, artifact, cell, common_artifacts, table_columns

_TABLE = "instance_results.jsonl"

_SEGMENT, _MOST_SEGMENTS = 950, 10


def properties(contents: Contents, marker: str) -> dict[str, JSON]:
    """Properties by which the portal knows that a run is an evaluation, and where its table is."""
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
    """The map as JSON in segments of at most 950 characters; of a longer one the portal gets the length -1."""
    text = dumps(dict(names)).decode()
    segments = [text[start : start + _SEGMENT] for start in range(0, len(text), _SEGMENT)]
    key = "_azureml.evaluation_name_map"
    if len(segments) > _MOST_SEGMENTS:
        return {f"{key}_length": -1}
    return {f"{key}_length": len(segments), **{f"{key}_{index}": segment for index, segment in enumerate(segments)}}


def portal_artifacts(run: Run, folder: Path) -> Iterator[Artifact]:
    """The files that the portal is given. Files that the run's folder lacks are written to `folder`, row by row."""
    columns = table_columns(run.rows())
    with (folder / _TABLE).open("wb") as file:
        for number, row in enumerate(run.rows()):
            # A line's number is what the portal tells its rows apart by.
            file.write(dumps_line({**{name: cell(row, name) for name in columns}, "line_number": number}))
    yield artifact(_TABLE, folder / _TABLE)
    yield from common_artifacts(run, folder)
