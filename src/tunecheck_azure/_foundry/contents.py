"""A finished run as files and properties for a Foundry project: for the portal's results, and for the evals API.

The portal shows a table of rows (`portal_artifacts`), to which properties of the run point (`properties`).

The evals API computes results itself and accepts no finished results. So an item contains inputs, outputs and
verdicts, and each criterion is a Python grader that reads its verdict from the item. Foundry then shows the run's
scores without another model call.

  item            a row of the run
  criterion       a metric of the run; its grader is the Python function that returns the metric's value for an item
  counted metric  the metric that decides whether an evaluator passes a row (`counted_metrics`)
  score, verdict  the metric's number for a row; and the run's decision with it: pass or fail

Foundry decides by itself which rows pass: those whose grader returns at least the criterion's `pass_threshold`. So
the grader returns a value from which Foundry decides as the run did. The first line that holds counts:

  no row passed or failed              the score, without a threshold: Foundry shows only the number
  each verdict follows from its score  the score, with the run's threshold
  otherwise                            1 for pass and 0 for fail, with the threshold 1

A verdict follows from its score if the row passed exactly when score >= threshold, with one threshold for all rows.
Three examples that do not: rows pass below a limit ("at most 3 words"), rows have different thresholds, or an
evaluator gives pass or fail without a threshold. The item still contains the score of these rows.

`evaluation_artifacts` writes both files. It calls, in this order:

  1. `_criteria`                one criterion per counted metric, found in the run's metrics and columns
  2. `_Criterion.note_verdict`  for all rows: does each verdict follow from its score?
  3. `_definition`              the name, and each criterion's `grader`; only after 2, which chooses its value
  4. `_item`                    for each row: its columns, and its verdicts (`as_verdict`) for the graders to read
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from tunecheck import ConfigurationError, Run, __version__
from tunecheck.pipeline import VerdictReader, counted_metrics
from tunecheck.plugins import JSON, content_hash, dumps, dumps_line
from tunecheck_upload import LOG_COLUMN, MARKER, Artifact, Contents, cell, common_artifacts, table_columns

_TABLE = "instance_results.jsonl"

_SEGMENT, _MOST_SEGMENTS = 950, 10
"""Characters in a segment of the name map, and the number of segments. azure-ai-evaluation has the same limits."""


def properties(contents: Contents, marker: str) -> dict[str, JSON]:
    """Return properties that tell the portal that a run is an evaluation, and where the run's table is.

    `marker` is the upload's random id, by which a later attempt finds this run.
    """
    table: list[JSON] = [{"path": _TABLE, "type": "table"}]
    return {
        # Names that the portal knows from azure-ai-evaluation, except the last two.
        "runType": "eval_run",
        "_azureml.evaluation_sdk_name": f"tunecheck:{__version__}",
        "_azureml.evaluate_artifacts": dumps(table).decode(),
        **_name_map_properties(contents.name_map),
        "tunecheck.run": contents.run.id,
        MARKER: marker,
    }


def _name_map_properties(names: Mapping[str, str]) -> dict[str, JSON]:
    """Return the map of metric names as properties: JSON in at most ten segments of 950 characters, and their number.

    If the map is longer, the number is -1 and there are no segments. A short map is
    `{"…_length": 1, "…_0": '{"my_f1":"f1_score"}'}`.
    """
    text = dumps(dict(names)).decode()
    segments = [text[start : start + _SEGMENT] for start in range(0, len(text), _SEGMENT)]

    key = "_azureml.evaluation_name_map"
    if len(segments) > _MOST_SEGMENTS:
        return {f"{key}_length": -1}
    return {f"{key}_length": len(segments), **{f"{key}_{index}": segment for index, segment in enumerate(segments)}}


def portal_artifacts(run: Run, folder: Path) -> Iterator[Artifact]:
    """Yield the files for the portal. Files that are not in the run's folder are written to `folder`."""
    # The rows are read twice: a row may lack columns that a later row has.
    columns = table_columns(run.rows())

    with (folder / _TABLE).open("wb") as file:
        for number, row in enumerate(run.rows()):
            # The portal identifies rows by their line number.
            file.write(dumps_line({**{name: cell(row, name) for name in columns}, "line_number": number}))

    yield Artifact(folder / _TABLE)
    yield from common_artifacts(run, folder)


DEFINITION, ITEMS = "evaluation.json", "evaluation_items.jsonl"

HASH = "tunecheck.evaluation"
"""The key of the definition's hash in an evaluation's metadata."""

_MOST_NAME = 200
"""The most characters of an evaluation's name, which lists all criteria."""

_PASSED = {"pass": True, "fail": False}
"""Outcomes with a verdict. The others are "scored", "not applicable" and "error"."""

# Inputs and outputs differ from run to run, so the schema does not list their columns.
_SCHEMA: JSON = {
    "type": "object",
    "properties": {
        "row_id": {"type": "string"},
        **{name: {"type": "object"} for name in ("inputs", "outputs", "verdicts", "errors")},
    },
    "required": ["row_id", "inputs", "outputs", "verdicts"],
}

# Foundry calls this function for each item. For a row without a value it raises an error, because 0 would count as a
# failed row. `key` is "score" or "passed"; float(True) is 1.0.
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
        advice = f"add an evaluator: tunecheck score {run.id} --evaluators NAME"
        raise ConfigurationError(f"run {run.id} has no verdicts and no numbers to upload; {advice}")

    # The rows are read twice: the graders in the definition depend on the verdicts of all rows.
    for row in run.rows():
        for criterion in criteria:
            criterion.note_verdict(row)

    (folder / DEFINITION).write_bytes(dumps(_definition(run, criteria)))
    yield Artifact(folder / DEFINITION, "application/json")

    evaluator_prefixes = tuple(f"{name}." for name in run.manifest().evaluators)
    with (folder / ITEMS).open("wb") as file:
        for row in run.rows():
            file.write(dumps_line(_item(row, criteria, evaluator_prefixes)))
    yield Artifact(folder / ITEMS)


class _Criterion(msgspec.Struct):
    """A metric of an evaluator, which becomes a testing criterion.

    `name` is the criterion's name in Foundry, and the key of its verdict in each item: "my_f1" or "length.words".

    Foundry has one threshold for all rows, and passes a row if the grader's value reaches it. `judged` is true once a
    row passed or failed, and `threshold` is the threshold of the first such row. `by_score` is true while every row
    passed exactly if its score reached this threshold. Otherwise, Foundry would decide some rows differently, so the
    grader returns pass or fail as 1 or 0 instead of the score.

    Example: an evaluator passes answers of at most 3 words. By scores 3, 4 and 0 and the threshold 3, Foundry would
    pass the second row and fail the third. By 1, 0 and 1 and the threshold 1, it decides as the run did.

    `note_verdict` must see all rows before `grader`: the last row can still show that the score does not decide.
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

        # None, for a missing score or threshold, equals neither verdict.
        score, threshold = verdict.score, self.threshold
        reached = score >= threshold if isinstance(score, (int, float)) and threshold is not None else None
        if verdict.threshold != self.threshold or reached is not _PASSED[verdict.word]:
            self.by_score = False

    def grader(self) -> JSON:
        """Return the Python grader that reads this criterion's value from an item.

        The value is the score or, if verdicts do not follow from the score, pass or fail as 1 or 0.
        """
        source = _GRADER.format(name=self.name, key="score" if self.by_score else "passed")
        grader: dict[str, JSON] = {"type": "python", "name": self.name, "source": source}

        # Without pass or fail in the run, Foundry gets no threshold and decides nothing.
        if self.judged:
            grader["pass_threshold"] = self.threshold if self.by_score else 1.0

        return grader


def as_verdict(reader: VerdictReader, row: Mapping[str, JSON]) -> dict[str, JSON]:
    """Return a row's verdict as the graders read it; `tunecheck serve --evaluator` replies with it, too.

    `score` is None if the row has an error, was not applicable, or has a score that is no number. `passed` is None
    unless the row passed or failed. The reason of a row with an error is the error's message.
    """
    verdict = reader.read(row)
    # Not "error" and not "not applicable": such a row may still have a number among its outputs.
    scored = verdict.word in ("pass", "fail", "scored")
    error = row.get(f"error.{reader.name}")

    return {
        "score": verdict.score if scored and isinstance(verdict.score, (int, float)) else None,
        "passed": _PASSED.get(verdict.word),
        "reason": error.get("message") if isinstance(error, dict) else verdict.reason or None,
        "threshold": verdict.threshold,
        "properties": row.get(f"outputs.{reader.name}.{reader.metric}_properties"),
    }


def _criteria(run: Run) -> list[_Criterion]:
    """Return a criterion with the evaluator's name for each evaluator's counted metric, which decides pass or fail.

    An evaluator without pass or fail gets one for each of its numbers: "length.words" and "length.weight". Only
    metrics with a column count, because a criterion needs a value for each row.
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
            # An aggregate such as a pass rate is a metric without a column.
            names = [name for name in run_metrics if name.startswith(prefix) and f"outputs.{name}" in columns]
            criteria += [_Criterion(name, VerdictReader(evaluator, name.removeprefix(prefix))) for name in names]

    return criteria


def _definition(run: Run, criteria: list[_Criterion]) -> dict[str, JSON]:
    """Return an evaluation's definition for the evals API. Foundry compares the runs of one evaluation.

    The hash in the metadata lets the next upload with an equal definition find this evaluation (`EvalsUpload`).
    """
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
    # A conversation's log is too long for an item.
    outputs.pop(LOG_COLUMN.removeprefix("outputs."), None)

    item: dict[str, JSON] = {
        "row_id": row.get("row_id"),
        "inputs": _columns(row, "inputs."),
        "outputs": {name: value for name, value in outputs.items() if not name.startswith(evaluator_prefixes)},
        "verdicts": {criterion.name: as_verdict(criterion.reader, row) for criterion in criteria},
        "errors": _columns(row, "error."),
        "cause": row.get("cause"),
    }

    # Foundry shows the text of `sample` as the answer. If the data has the answers, they are inputs.
    response = row.get("outputs.response", row.get("inputs.response"))
    text = response if isinstance(response, str) else dumps(response).decode()
    return {"item": item, "sample": {"output_text": text}}


def _columns(row: Mapping[str, JSON], prefix: str) -> dict[str, JSON]:
    """Return the row's columns with this prefix, by their names without it."""
    return {name.removeprefix(prefix): value for name, value in row.items() if name.startswith(prefix)}
