"""A finished run as files and properties for a Foundry project: for the portal's results, and for the evals API.

The portal shows a table of rows, to which properties of the run point. The evals API computes results itself and
accepts no finished results. So an item contains inputs, outputs and verdicts, and each criterion is a Python grader
that reads its verdict from the item. Foundry then shows the run's scores without another model call.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tunecheck import ConfigurationError, Run, __version__
from tunecheck.pipeline import VerdictReader, counted_metrics
from tunecheck.plugins import JSON, content_hash, dumps, dumps_line, loads
from tunecheck_upload import LOG_COLUMN, MARKER, Artifact, Contents, artifact, cell, common_artifacts, table_columns

_TABLE = "instance_results.jsonl"

_SEGMENT, _MOST_SEGMENTS = 950, 10


def properties(contents: Contents, marker: str) -> dict[str, JSON]:
    """Return properties that tell the portal that a run is an evaluation, and where the run's table is."""
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


DEFINITION, ITEMS = "evaluation.json", "evaluation_items.jsonl"

HASH = "tunecheck.evaluation"
"""The key of the definition's hash in an evaluation's metadata."""

_MOST_NAME = 200
_PASSED = {"pass": True, "fail": False}

_SCHEMA: JSON = {
    "type": "object",
    "properties": {
        "row_id": {"type": "string"},
        **{name: {"type": "object"} for name in ("inputs", "outputs", "verdicts", "errors")},
    },
    "required": ["row_id", "inputs", "outputs", "verdicts"],
}

_GRADER = """def grade(sample, item):
    verdict = item["verdicts"][{name!r}]
    if verdict[{key!r}] is None:
        raise ValueError(verdict["reason"] or "not scored")
    return float(verdict[{key!r}])
"""


def evaluation_artifacts(run: Run, folder: Path) -> Iterator[Artifact]:
    """Write the evaluation's definition and the run's items, one per line, and yield the two files.

    Raises:
        ConfigurationError: the run has neither verdicts nor numbers.
    """
    criteria = _criteria(run)
    if not criteria:
        raise ConfigurationError(
            f"run {run.id} has no verdicts and no numbers to upload; make a run that has them: "
            f"tunecheck score {run.id} --evaluators NAME"
        )
    for row in run.rows():
        for criterion in criteria:
            criterion.note_verdict(row)
    (folder / DEFINITION).write_bytes(dumps(_definition(run, criteria)))
    yield artifact(DEFINITION, folder / DEFINITION, "application/json")
    evaluator_prefixes = tuple(f"{name}." for name in run.manifest().evaluators)
    with (folder / ITEMS).open("wb") as file:
        for row in run.rows():
            file.write(dumps_line(_item(row, criteria, evaluator_prefixes)))
    yield artifact(ITEMS, folder / ITEMS)


def read_definition(path: Path) -> dict[str, JSON]:
    """Return the evaluation's definition in a file that `evaluation_artifacts` wrote."""
    definition = loads(path.read_bytes())
    assert isinstance(definition, dict)
    return definition


@dataclass
class _Criterion:
    """A metric of an evaluator, which becomes a testing criterion.

    Foundry has one threshold for all rows, and passes a row if the grader's value reaches it. `threshold` is that of
    the first row that passed or failed. `by_score` is true while every row passed exactly if its score reached this
    threshold. Otherwise, Foundry would decide some rows differently, so the grader returns pass or fail instead of the
    score. `note_verdict` must see all rows before `grader`.
    """

    name: str
    reader: VerdictReader
    judged: bool = False
    threshold: float | None = None
    by_score: bool = True

    def note_verdict(self, row: Mapping[str, JSON]) -> None:
        """Note the threshold of the first verdict, and whether this row's verdict follows from its score."""
        verdict = self.reader.read(row)
        if verdict.word not in _PASSED:
            return
        if not self.judged:
            self.judged, self.threshold = True, verdict.threshold
        reached = _reaches(verdict.score, self.threshold)
        if verdict.threshold != self.threshold or reached is not _PASSED[verdict.word]:
            self.by_score = False

    def grader(self) -> JSON:
        """Return the Python grader that reads this criterion's value from an item.

        The value is the score or, if verdicts do not follow from the score, pass or fail as 1 or 0.
        """
        source = _GRADER.format(name=self.name, key="score" if self.by_score else "passed")
        grader: dict[str, JSON] = {"type": "python", "name": self.name, "source": source}
        if self.judged:
            grader["pass_threshold"] = self.threshold if self.by_score else 1.0
        return grader


def as_verdict(reader: VerdictReader, row: Mapping[str, JSON]) -> dict[str, JSON]:
    """Return a row's verdict with Foundry's names. `score` and `passed` are None if the row was not scored."""
    verdict = reader.read(row)
    scored = verdict.word in ("pass", "fail", "scored")
    error = row.get(f"error.{reader.name}")
    return {
        "score": verdict.score if scored and isinstance(verdict.score, (int, float)) else None,
        "passed": _PASSED.get(verdict.word),
        "reason": error.get("message") if isinstance(error, dict) else verdict.reason or None,
        "threshold": verdict.threshold,
        "properties": row.get(f"outputs.{reader.name}.{reader.metric}_properties"),
    }


def _reaches(score: object, threshold: float | None) -> bool | None:
    """Return whether a score reaches the threshold, or None if one of them is no number."""
    if not isinstance(score, (int, float)) or threshold is None:
        return None
    return score >= threshold


def _criteria(run: Run) -> list[_Criterion]:
    """Return a criterion for the metric that each evaluator counts.

    An evaluator without pass or fail gets one for each of its numbers.
    """
    criteria: list[_Criterion] = []
    evaluators = run.manifest().evaluators
    run_metrics = run.metrics().get("metrics")
    columns = {name for row in run.rows() for name in row}
    counted = counted_metrics(run.rows(), {name: entry.primary for name, entry in evaluators.items()})
    for evaluator, counted_metric in counted.items():
        if counted_metric is not None:
            criteria.append(_Criterion(evaluator, VerdictReader(evaluator, counted_metric)))
        elif isinstance(run_metrics, dict):
            prefix = f"{evaluator}."
            names = [name for name in run_metrics if name.startswith(prefix) and f"outputs.{name}" in columns]
            criteria += [_Criterion(name, VerdictReader(evaluator, name.removeprefix(prefix))) for name in names]
    return criteria


def _definition(run: Run, criteria: list[_Criterion]) -> dict[str, JSON]:
    """Return an evaluation's definition for the evals API. Foundry compares the runs of equal definitions."""
    title = f"{run.manifest().dataset.name}: {', '.join(criterion.name for criterion in criteria)}"
    definition: dict[str, JSON] = {
        "name": title[:_MOST_NAME],
        "data_source_config": {"type": "custom", "item_schema": _SCHEMA, "include_sample_schema": True},
        "testing_criteria": [criterion.grader() for criterion in criteria],
    }
    return definition | {"metadata": {HASH: content_hash(definition)}}


def _item(row: Mapping[str, JSON], criteria: list[_Criterion], evaluator_prefixes: tuple[str, ...]) -> JSON:
    """Return a row as an item of the evals API: inputs, outputs, verdicts, errors, and the response as text.

    Outputs whose names begin with `evaluator_prefixes` are verdicts already.
    """
    outputs = _columns(row, "outputs.")
    outputs.pop(LOG_COLUMN.removeprefix("outputs."), None)
    item: dict[str, JSON] = {
        "row_id": row.get("row_id"),
        "inputs": _columns(row, "inputs."),
        "outputs": {name: value for name, value in outputs.items() if not name.startswith(evaluator_prefixes)},
        "verdicts": {criterion.name: as_verdict(criterion.reader, row) for criterion in criteria},
        "errors": _columns(row, "error."),
        "cause": row.get("cause"),
    }
    response = row.get("outputs.response", row.get("inputs.response"))
    text = response if isinstance(response, str) else dumps(response).decode()
    return {"item": item, "sample": {"output_text": text}}


def _columns(row: Mapping[str, JSON], prefix: str) -> dict[str, JSON]:
    """Return the row's columns with this prefix, by their names without it."""
    return {name.removeprefix(prefix): value for name, value in row.items() if name.startswith(prefix)}
