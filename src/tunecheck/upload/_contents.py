"""What is uploaded of a finished run: its name, tags, metrics, names of evaluators, and files."""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from tunecheck._errors import ConfigurationError
from tunecheck._json import JSON, canonical, dumps_line
from tunecheck.runs._failures import read_failures
from tunecheck.runs._store import Run

# -- files

_LOGS, _REPORT = "multi_turn_logs.jsonl", "report.html"

_LOG_COLUMN = "outputs.inference_log"
"""A conversation's whole log: too long for a cell of a table, so it goes into a file of its own."""

_BYTES = "application/octet-stream"


@dataclass(frozen=True, slots=True)
class Artifact:
    """A file to upload: its name over there, where it is here, its type, size and SHA-256."""

    name: str
    path: Path
    kind: str
    size: int
    sha256: str


def artifact(name: str, path: Path, kind: str = _BYTES) -> Artifact:
    """A file as it is now."""
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256")
    return Artifact(name, path, kind, path.stat().st_size, digest.hexdigest())


def common_artifacts(run: Run, folder: Path) -> Iterator[Artifact]:
    """The logs of conversations, where there are any, and the report, where it was made."""
    with (folder / _LOGS).open("wb") as file:
        written = _write_logs(run, file)
    if written:
        yield artifact(_LOGS, folder / _LOGS)
    if (run.folder / _REPORT).is_file():
        yield artifact(_REPORT, run.folder / _REPORT, "text/html")


def _write_logs(run: Run, file: BinaryIO) -> int:
    written = 0
    for number, row in enumerate(run.rows()):
        log = row.get(_LOG_COLUMN)
        if log is not None:
            line = {"line_number": number, "row_id": row.get("row_id"), "inference_log": log}
            written += file.write(dumps_line(line))
    return written


def table_columns(rows: Iterable[Mapping[str, JSON]]) -> list[str]:
    """The columns of the table: inputs, outputs, and `outputs.error.<stage>` where rows have errors.

    Every row of the table has every column, null where it has no value: readers take the columns from any row.
    """
    names = dict.fromkeys(name for row in rows for name in row)
    shown = [name for name in names if name.startswith(("inputs.", "outputs.")) and name != _LOG_COLUMN]
    errors = (f"outputs.{name}" for name in names if name.startswith("error."))
    return [*shown, *(name for name in errors if name not in names)]


def cell(row: Mapping[str, JSON], name: str) -> JSON:
    """What stands in a column of the table."""
    if name in row or not name.startswith("outputs.error."):
        return row.get(name)
    error = row.get(name.removeprefix("outputs."))
    return f"{error.get('type')}: {error.get('message')}" if isinstance(error, dict) else error


# -- the whole

_MOST_CODES = 100  # of one evaluator: a user's own may make codes of data

_BUILT_IN: Mapping[str, str] = {
    "BleuScoreEvaluator": "bleu_score",
    "CodeVulnerabilityEvaluator": "code_vulnerability",
    "CoherenceEvaluator": "coherence",
    "ContentSafetyEvaluator": "content_safety",
    "DocumentRetrievalEvaluator": "document_retrieval",
    "F1ScoreEvaluator": "f1_score",
    "FluencyEvaluator": "fluency",
    "GleuScoreEvaluator": "gleu_score",
    "GroundednessEvaluator": "groundedness",
    "GroundednessProEvaluator": "groundedness_pro",
    "HateUnfairnessEvaluator": "hate_unfairness",
    "IndirectAttackEvaluator": "indirect_attack",
    "IntentResolutionEvaluator": "intent_resolution",
    "MeteorScoreEvaluator": "meteor_score",
    "ProtectedMaterialEvaluator": "protected_material",
    "QAEvaluator": "qa",
    "RelevanceEvaluator": "relevance",
    "ResponseCompletenessEvaluator": "response_completeness",
    "RetrievalEvaluator": "retrieval",
    "RougeScoreEvaluator": "rouge_score",
    "SelfHarmEvaluator": "self_harm",
    "SexualEvaluator": "sexual",
    "SimilarityEvaluator": "similarity",
    "TaskAdherenceEvaluator": "task_adherence",
    "ToolCallAccuracyEvaluator": "tool_call_accuracy",
    "UngroundedAttributesEvaluator": "ungrounded_attributes",
    "ViolenceEvaluator": "violence",
}
"""The portal's ids of the evaluators that it knows, by class: Azure's own, and ours that return the same keys."""


@dataclass(frozen=True, slots=True)
class Contents:
    """All that is uploaded of a run. `left_out` names metrics that are no finite numbers."""

    run: Run
    name: str
    tags: Mapping[str, str]
    manifest: Mapping[str, JSON]
    metrics: Mapping[str, float]
    left_out: tuple[str, ...]
    name_map: Mapping[str, str]
    artifacts: tuple[Artifact, ...]
    simulated: bool

    @property
    def fingerprint(self) -> str:
        """A hash of all of it: an upload with the same one has nothing new."""
        files: list[JSON] = [[artifact.name, artifact.sha256] for artifact in self.artifacts]
        parts: list[JSON] = [self.name, dict(self.tags), dict(self.metrics), dict(self.name_map), files]
        return hashlib.sha256(canonical(parts)).hexdigest()


def collect(run: Run, artifacts: Iterable[Artifact], *, allow_simulated: bool) -> Contents:
    """What is uploaded of a run, with these files, which are made only if it may be uploaded at all."""
    manifest = run.manifest_data()
    if manifest.get("status") != "finished":
        raise ConfigurationError(f"run {run.id} has not finished: finish it with --resume {run.id}, then upload it")
    summary = run.metrics()
    simulated = manifest.get("simulated") is True or summary.get("simulated") is True
    if simulated and not allow_simulated:
        raise ConfigurationError(
            f"run {run.id} is simulated: no model gave its answers, and among real results it would mislead; "
            "upload it with --allow-simulated (allow_simulated=True), and it is marked as such"
        )
    metrics, left_out = finite_metrics(summary.get("metrics"))
    return Contents(
        run=run,
        name=str(manifest.get("name") or run.id),
        tags=_tags(manifest.get("tags"), simulated=simulated),
        manifest=manifest,
        metrics={**_fault_counts(run, metrics), **metrics},
        left_out=left_out,
        name_map=name_map(manifest.get("evaluators")),
        artifacts=tuple(artifacts),
        simulated=simulated,
    )


def _fault_counts(run: Run, metrics: Mapping[str, float]) -> dict[str, float]:
    """`failed.<evaluator>.<code>`: the rows that failed, by fault code, the commonest codes of each evaluator."""
    primaries = {name: entry.primary for name, entry in run.manifest().evaluators.items()}
    passing = {name: primary for name, primary in primaries.items() if f"{name}.binary_aggregate" in metrics}
    failures = read_failures(run.rows(), passing)
    counts: dict[str, float] = {}
    for name in passing:
        codes: Counter[str] = Counter()
        for key, group in failures.told(name).items():
            codes["own" if key.startswith("own: ") else key] += group.rows
        counts |= {f"failed.{name}.{code}": rows for code, rows in codes.most_common(_MOST_CODES)}
    return counts


def finite_metrics(metrics: JSON) -> tuple[dict[str, float], tuple[str, ...]]:
    """The metrics that are finite numbers, and the names of the others."""
    entries = metrics if isinstance(metrics, dict) else {}
    numbers = {name: number for name, value in entries.items() if (number := _finite(value)) is not None}
    return numbers, tuple(name for name in entries if name not in numbers)


def _finite(value: JSON) -> float | None:
    if not isinstance(value, (int, float)):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def _tags(tags: JSON, *, simulated: bool) -> dict[str, str]:
    own = {name: str(value) for name, value in tags.items()} if isinstance(tags, dict) else {}
    return {**own, "simulated": "true"} if simulated else own


def name_map(evaluators: JSON) -> dict[str, str]:
    """`{"my_f1": "f1_score"}`: the portal's ids of the run's evaluators; those it does not know are left out."""
    entries = evaluators if isinstance(evaluators, dict) else {}
    known = {}
    for name, entry in entries.items():
        kind = str(entry.get("type")) if isinstance(entry, dict) else ""
        id_ = _BUILT_IN.get(kind.rpartition(".")[2])
        if id_ is not None and kind.startswith(("azure.ai.evaluation.", "tunecheck.")):
            known[name] = id_
    return known


def metric_keys(names: Iterable[str]) -> dict[str, str]:
    """The metrics' names in MLflow, each its own: letters, digits and `_-. :` only, and at most 250 characters."""
    keys: dict[str, str] = {}
    taken: set[str] = set()
    for name in names:
        plain = "".join(c if (c.isascii() and c.isalnum()) or c in "_-. :" else "_" for c in name)[:240]
        plain = f"_{plain[1:]}" if plain.startswith(".") else plain
        key, number = plain, 1
        while key in taken:
            number += 1
            key = f"{plain}_{number}"
        taken.add(key)
        keys[name] = key
    return keys
