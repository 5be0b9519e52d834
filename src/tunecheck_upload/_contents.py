"""The contents of an upload: name, tags, metrics, names of evaluators, and files of a finished run."""

import contextlib
import hashlib
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tunecheck import ConfigurationError, Run
from tunecheck.pipeline import read_failures
from tunecheck.plugins import JSON, canonical, dumps_line, sha256_of
from tunecheck.runs import stopped_text

# -- files

_LOGS, _REPORT = "multi_turn_logs.jsonl", "report.html"

_CAUSE = "cause"
LOG_COLUMN = "outputs.inference_log"
"""A conversation's whole log: too long for a cell of a table, so it goes into a file of its own."""

_BYTES = "application/octet-stream"


@dataclass(frozen=True, slots=True)
class Artifact:
    """A file to upload: its name at the destination, its place here, its type, size and SHA-256."""

    name: str
    path: Path
    kind: str
    size: int
    sha256: str


def artifact(name: str, path: Path, kind: str = _BYTES) -> Artifact:
    return Artifact(name, path, kind, path.stat().st_size, sha256_of(path))


def common_artifacts(run: Run, folder: Path) -> Iterator[Artifact]:
    """The logs of conversations, where there are any, and the report, where it was made."""
    written = 0
    with (folder / _LOGS).open("wb") as file:
        for number, row in enumerate(run.rows()):
            log = row.get(LOG_COLUMN)
            if log is not None:
                line = {"line_number": number, "row_id": row.get("row_id"), "inference_log": log}
                written += file.write(dumps_line(line))
    if written:
        yield artifact(_LOGS, folder / _LOGS)
    if (run.folder / _REPORT).is_file():
        yield artifact(_REPORT, run.folder / _REPORT, "text/html")


def table_columns(rows: Iterable[Mapping[str, JSON]]) -> list[str]:
    """The columns of the table: inputs, outputs, why rows failed, and `outputs.error.<stage>` where rows have errors.

    Every row of the table has every column, null where it has no value: readers take the columns from any row.
    """
    names = dict.fromkeys(name for row in rows for name in row)
    shown = [name for name in names if name.startswith(("inputs.", "outputs.")) and name != LOG_COLUMN]
    more = (f"outputs.{name}" for name in names if name.startswith("error.") or name == _CAUSE)
    return [*shown, *(name for name in more if name not in names)]


def cell(row: Mapping[str, JSON], name: str) -> JSON:
    if name in row or not (name.startswith("outputs.error.") or name == f"outputs.{_CAUSE}"):
        return row.get(name)
    error = row.get(name.removeprefix("outputs."))
    return f"{error.get('type')}: {error.get('message')}" if isinstance(error, dict) else error


# -- the whole

_MOST_CODES = 100  # of one evaluator: a user's own may make codes of data

_PORTAL_IDS = """bleu_score code_vulnerability coherence content_safety document_retrieval f1_score fluency gleu_score
    groundedness groundedness_pro hate_unfairness indirect_attack intent_resolution meteor_score protected_material qa
    relevance response_completeness retrieval rouge_score self_harm sexual similarity task_adherence tool_call_accuracy
    ungrounded_attributes violence"""
"""The portal's ids of the evaluators that it knows: Azure's own, and ours that return the same keys."""

_BY_CLASS = {f"{id_.replace('_', '')}evaluator": id_ for id_ in _PORTAL_IDS.split()}


@dataclass(frozen=True, slots=True)
class Contents:
    """All that is uploaded of a run. `left_out` names metrics that are not finite numbers."""

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
    def moment_ms(self) -> int:
        """When the metrics were written: a metric that is logged twice at the same time counts once."""
        return self.run.metrics_file.stat().st_mtime_ns // 1_000_000

    @property
    def fingerprint(self) -> str:
        """A hash of all of it: an upload with the same one has nothing new."""
        files: list[JSON] = [[artifact.name, artifact.sha256] for artifact in self.artifacts]
        parts: list[JSON] = [self.name, dict(self.tags), dict(self.metrics), dict(self.name_map), files]
        return hashlib.sha256(canonical(parts)).hexdigest()


def collect(run: Run, artifacts: Iterable[Artifact], *, allow_simulated: bool) -> Contents:
    """Collect what is uploaded of a run. The files are made only if the run may be uploaded."""
    manifest = run.manifest_data()
    if manifest.get("status") != "finished":
        raise ConfigurationError(f"run {run.id} has not finished: finish it with --resume {run.id}, then upload it")
    summary = run.metrics()
    simulated = manifest.get("simulated") is True
    if simulated and not allow_simulated:
        raise ConfigurationError(
            f"run {run.id} is simulated: no model gave its answers, and among real results it would mislead; "
            "upload it with --allow-simulated (allow_simulated=True), and it is marked as such"
        )
    metrics, left_out = finite_metrics(summary.get("metrics"))
    given = manifest.get("tags")
    tags = {name: str(value) for name, value in given.items()} if isinstance(given, dict) else {}
    return Contents(
        run=run,
        name=str(manifest.get("name") or run.id),
        tags=tags | _marks(run, simulated),
        manifest=manifest,
        metrics={**_fault_counts(run, metrics), **metrics},
        left_out=left_out,
        name_map=name_map(manifest.get("evaluators")),
        artifacts=tuple(artifacts),
        simulated=simulated,
    )


def _marks(run: Run, simulated: bool) -> dict[str, str]:
    """Tags that readers of a run's metrics need: simulated answers, an early stop."""
    marks = {"stopped_early": stopped_text(run.manifest().stopped), "simulated": "true" if simulated else ""}
    return {name: said for name, said in marks.items() if said}


def _fault_counts(run: Run, metrics: Mapping[str, float]) -> dict[str, float]:
    """`failed.<evaluator>.<code>`: the rows that failed, by fault code, the commonest codes of each evaluator."""
    primaries = {name: entry.primary for name, entry in run.manifest().evaluators.items()}
    passing = {name: primary for name, primary in primaries.items() if f"{name}.binary_aggregate" in metrics}
    failures = read_failures(run.rows(), passing)
    counts: dict[str, float] = {}
    for name in passing:
        codes = failures.by_code(name)
        if codes.keys() - {"below_threshold"}:
            counts |= {f"failed.{name}.{code}": rows for code, rows in codes.most_common(_MOST_CODES)}
    return counts


def finite_metrics(metrics: JSON) -> tuple[dict[str, float], tuple[str, ...]]:
    entries = metrics if isinstance(metrics, dict) else {}
    numbers: dict[str, float] = {}
    for name, value in entries.items():
        with contextlib.suppress(OverflowError):  # an integer too large for a float
            if isinstance(value, (int, float)) and math.isfinite(value):
                numbers[name] = float(value)
    return numbers, tuple(name for name in entries if name not in numbers)


def name_map(evaluators: JSON) -> dict[str, str]:
    """`{"my_f1": "f1_score"}`: the portal's ids of the run's evaluators; those it does not know are left out."""
    entries = evaluators if isinstance(evaluators, dict) else {}
    known = {}
    for name, entry in entries.items():
        kind = str(entry.get("type")) if isinstance(entry, dict) else ""
        id_ = _BY_CLASS.get(kind.rpartition(".")[2].lower())
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
