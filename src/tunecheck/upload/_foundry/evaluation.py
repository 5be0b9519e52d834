"""A finished run as the evals API of a Foundry project takes it: testing criteria, and an item of each row.

That API computes results and takes none. So an item holds our verdicts beside inputs and outputs, and each criterion is
a Python grader that reads its verdict there: the scores over there are ours, and no model is asked again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tunecheck._json import JSON, content_hash, dumps, dumps_line, loads
from tunecheck.runs._store import Run
from tunecheck.upload._contents import Artifact, artifact

DEFINITION, ITEMS = "evaluation.json", "evaluation_items.jsonl"

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


@dataclass
class _Criterion:
    """One metric of one evaluator, and whether its verdicts follow from score and one threshold."""

    name: str
    evaluator: str
    column: str
    threshold: float | None = None
    judged: bool = False
    by_score: bool = True

    def look_at(self, row: Mapping[str, JSON]) -> None:
        verdict = self.verdict(row)
        score, threshold, passed = (verdict[key] for key in ("score", "threshold", "passed"))
        if not isinstance(passed, bool):
            return
        if not self.judged and isinstance(threshold, (int, float)):
            self.threshold = float(threshold)
        self.judged = True
        follows = isinstance(score, (int, float)) and self.threshold is not None and threshold == self.threshold
        self.by_score &= follows and (score >= self.threshold) is passed  # type: ignore[operator]

    def verdict(self, row: Mapping[str, JSON]) -> dict[str, JSON]:
        """Score, whether it passed, reason, threshold and properties; the score is null where there is none."""
        score, label = row.get(self.column), row.get(f"{self.column}_result")
        given = {key: row.get(f"{self.column}_{key}") for key in ("reason", "threshold", "properties")}
        error = row.get(f"error.{self.evaluator}")
        if isinstance(error, dict):
            given["reason"] = error.get("message")
        scored = isinstance(score, (int, float)) and label != "not_applicable"
        passed = row.get(f"{self.column}_passed", _PASSED.get(str(label)))
        return {"score": score if scored else None, "passed": passed if scored else None, "label": label, **given}

    def grader(self) -> JSON:
        key = "score" if self.by_score or not self.judged else "passed"
        grader: dict[str, JSON] = {
            "type": "python",
            "name": self.name,
            "source": _GRADER.format(name=self.name, key=key),
        }
        if self.judged:
            grader["pass_threshold"] = self.threshold if self.by_score else 1.0
        return grader


def evaluation_artifacts(run: Run, folder: Path) -> Iterator[Artifact]:
    """The evaluation's definition, and the items of a run of it, a line each."""
    criteria = _criteria(run)
    for row in run.rows():
        for criterion in criteria:
            criterion.look_at(row)
    (folder / DEFINITION).write_bytes(dumps(_definition(run, criteria)))
    yield artifact(DEFINITION, folder / DEFINITION, "application/json")
    evaluators = tuple(f"outputs.{name}." for name in run.manifest().evaluators)
    with (folder / ITEMS).open("wb") as file:
        for row in run.rows():
            file.write(dumps_line(_item(row, criteria, evaluators)))
    yield artifact(ITEMS, folder / ITEMS)


def _criteria(run: Run) -> list[_Criterion]:
    """An evaluator's main metric, or of one that names none each number that it gives."""
    found: list[_Criterion] = []
    metrics = run.metrics().get("metrics")
    columns = {name for row in run.rows() for name in row}
    for name, entry in run.manifest().evaluators.items():
        if entry.primary is not None:
            found.append(_Criterion(name, name, f"outputs.{name}.{entry.primary}"))
        elif isinstance(metrics, dict):
            own = (metric for metric in metrics if metric.startswith(f"{name}.") and f"outputs.{metric}" in columns)
            found += [_Criterion(metric, name, f"outputs.{metric}") for metric in own]
    return found


def _definition(run: Run, criteria: list[_Criterion]) -> dict[str, JSON]:
    """What the evals API makes an evaluation of; runs with an equal one belong together, and are compared there."""
    title = f"{run.manifest().dataset.name}: {', '.join(criterion.name for criterion in criteria)}"
    definition: dict[str, JSON] = {
        "name": title[:_MOST_NAME],
        "data_source_config": {"type": "custom", "item_schema": _SCHEMA, "include_sample_schema": True},
        "testing_criteria": [criterion.grader() for criterion in criteria],
    }
    return definition | {"metadata": {"tunecheck.evaluation": content_hash(definition)}}


def _item(row: Mapping[str, JSON], criteria: list[_Criterion], evaluators: tuple[str, ...]) -> JSON:
    item: dict[str, JSON] = {
        "row_id": row.get("row_id"),
        "inputs": {name.removeprefix("inputs."): row[name] for name in row if name.startswith("inputs.")},
        "outputs": {
            name.removeprefix("outputs."): row[name]
            for name in row
            if name.startswith("outputs.") and not name.startswith(evaluators)
        },
        "verdicts": {criterion.name: criterion.verdict(row) for criterion in criteria},
        "errors": {name.removeprefix("error."): row[name] for name in row if name.startswith("error.")},
        "cause": row.get("cause"),
    }
    response = row.get("outputs.response", row.get("inputs.response"))
    text = response if isinstance(response, str) else dumps(response).decode()
    return {"item": item, "sample": {"output_text": text}}


def read_definition(path: Path) -> dict[str, JSON]:
    """The definition that was written."""
    definition = loads(path.read_bytes())
    assert isinstance(definition, dict)
    return definition
