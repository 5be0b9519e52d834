"""The base of uploads of finished runs: checked first, done step by step, repeatable, resumed after a failure."""

import abc
import contextlib
import copy
import hashlib
import math
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tunecheck import ConfigurationError, Run, RunError
from tunecheck.pipeline import read_failures
from tunecheck.plugins import JSON, canonical, command_line, dumps_line, sha256_of
from tunecheck.runs import stopped_text
from tunecheck_upload._record import Destination, UploadRecord, one_at_a_time

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


class UploadError(RunError):
    """An upload that did not get through.

    `step` says where, `status` is the service's HTTP status and `request_id` its own id of the call, where there are
    any. `unsure`: it is unknown whether the service did what it was asked.
    """

    def __init__(
        self,
        message: str,
        *,
        step: str = "",
        status: int | None = None,
        request_id: str | None = None,
        unsure: bool = False,
    ) -> None:
        super().__init__(message)
        self.step = step
        self.status = status
        self.request_id = request_id
        self.unsure = unsure


@dataclass(frozen=True, slots=True)
class UploadStep:
    """One step of an upload, in words that an error begins with. `repeatable`: safe to do twice."""

    words: str
    repeatable: bool = True

    def failed(
        self, reason: object, *, status: int | None = None, request_id: str | None = None, unsure: bool = False
    ) -> UploadError:
        message = f"{self.words}: {reason}"
        return UploadError(message, step=self.words, status=status, request_id=request_id, unsure=unsure)


FIND = UploadStep("look for the run")
CREATE = UploadStep("create the run", repeatable=False)
FINISH = UploadStep("finish the run")
GONE = UploadStep("the run")


@dataclass(frozen=True, slots=True)
class Uploaded:
    """The outcome of an upload.

    `url`: the run's page, if there is one. `left_out`: metrics that are not finite numbers. `unchanged`: everything
    was there already and nothing was sent.
    """

    to: str
    run_id: str
    url: str | None
    files: tuple[str, ...]
    metrics: int
    left_out: tuple[str, ...]
    unchanged: bool


class RunUpload(abc.ABC):
    """One run on its way to one destination, with the one step that must not happen twice: creating it there."""

    def __init__(self, record: UploadRecord, contents: Contents) -> None:
        self._record = record
        self._known = record.known
        self._contents = contents

    @abc.abstractmethod
    def send(self) -> str | None:
        """Do the steps that are not done yet, and return the run's page if the service names it."""

    @abc.abstractmethod
    def is_there(self) -> bool:
        """Whether the run that was created is still there."""

    @abc.abstractmethod
    def close(self) -> None:
        """Close connections."""

    @abc.abstractmethod
    def _find_run(self) -> bool:
        """Look for the run that carries the record's marker; note its id if it is there."""

    @abc.abstractmethod
    def _create_run(self) -> None:
        """Create the run, and note its id."""

    @property
    def _run_id(self) -> str:
        return str(self._known.run_id)

    def _ensure_run(self) -> None:
        """Create the run unless it exists. If a creation was sent and never answered, look for its run first."""
        if self._known.run_id is not None:
            return
        exists = self._find_run() if self._known.run_asked_for else False
        if not exists:
            self._known.run_asked_for = True
            self._record.save()
            try:
                self._create_run()
            except UploadError as error:
                if not error.unsure:
                    self._known.run_asked_for = False
                    self._record.save()
                raise
        self._known.run_asked_for = False
        self._record.save()

    def _unsent(self) -> list[Artifact]:
        sent = self._known.artifacts
        return [artifact for artifact in self._contents.artifacts if sent.get(artifact.name) != artifact.sha256]

    def _note_sent(self, artifact: Artifact) -> None:
        self._known.artifacts[artifact.name] = artifact.sha256
        self._record.save()


class Uploader(abc.ABC):
    """Uploads runs to one destination, which a subclass knows how to reach.

    Making one checks what can be checked beforehand, so that an evaluation of hours does not end at a wrong name.
    `destination` is what the record calls it; `option` is how the command line names it.
    """

    def __init__(
        self, destination: str, option: tuple[str, ...], *, to: str | None = None, allow_simulated: bool = False
    ) -> None:
        self._destination = destination
        self._option = option
        self._to = to or destination
        self._allow_simulated = allow_simulated

    def check(self, *, simulated: bool) -> None:
        """Refuse before the run what an upload would refuse after it."""
        if simulated and not self._allow_simulated:
            raise ConfigurationError(
                "the answers are simulated and would not be uploaded: "
                "give an endpoint, or --allow-simulated (allow_simulated=True) to try the upload out"
            )

    def upload(self, run: Run | str | os.PathLike[str], *, again: bool = False) -> Uploaded:
        """Upload a finished run (or the one in this folder), resume its upload, or update what is there.

        `again`: create the run anew if it was deleted at the destination.

        Raises:
            ConfigurationError: the run cannot be uploaded.
            UploadError: a step failed, or the run was deleted at the destination; the run's folder is whole, and the
                upload can be repeated.
        """
        run = run if isinstance(run, Run) else Run(Path(run))
        with one_at_a_time(run), tempfile.TemporaryDirectory(prefix="tunecheck-") as folder:
            contents = collect(run, self._artifacts(run, Path(folder)), allow_simulated=self._allow_simulated)
            record = UploadRecord(run, self._destination)
            try:
                unchanged = self._send(record, contents, again=again)
            except UploadError as error:
                raise self._with_advice(error, contents) from None
            known = record.known
            return Uploaded(
                to=self._to,
                run_id=str(known.run_id),
                url=self._page(known),
                files=tuple(artifact.name for artifact in contents.artifacts),
                metrics=self._metric_count(contents),
                left_out=contents.left_out,
                unchanged=unchanged,
            )

    @abc.abstractmethod
    def _artifacts(self, run: Run, folder: Path) -> Iterator[Artifact]:
        """The files to upload; those that are not in the run's folder are made in `folder`."""

    @abc.abstractmethod
    def _upload_of(self, record: UploadRecord, contents: Contents) -> RunUpload:
        """The run on its way."""

    def _metric_count(self, contents: Contents) -> int:
        return len(contents.metrics)

    def _page(self, known: Destination) -> str | None:
        return known.url

    def _send(self, record: UploadRecord, contents: Contents, *, again: bool) -> bool:
        """Do the steps that are not done yet, and return whether there were none."""
        with contextlib.closing(self._upload_of(record, contents)) as upload:
            if record.known.run_id is not None and not upload.is_there():
                if not again:
                    raise GONE.failed(f"{record.known.run_id} was deleted at the destination")
                record.renew()
                return self._send(record, contents, again=False)
            known = record.known
            if known.complete and known.fingerprint == contents.fingerprint:
                return True
            known.complete = False
            record.save()
            known.url = upload.send()
            known.complete, known.fingerprint = True, contents.fingerprint
            record.save()
            return False

    def _with_advice(self, error: UploadError, contents: Contents) -> UploadError:
        command = ["tunecheck", "upload", str(contents.run.folder), *self._option]
        command += ["--allow-simulated"] if contents.simulated else []
        if error.step == GONE.words:
            advice = f"make it anew with: {command_line([*command, '--again'])}"
        else:
            advice = f"the run itself is whole; go on with: {command_line(command)}"
        advised = copy.copy(error)
        advised.args = (f"upload failed: {error}; {advice}",)
        return advised


def value_at(value: JSON, *path: str | int) -> JSON:
    """The value under these keys and positions, None if there is none."""
    for key in path:
        if isinstance(key, int):
            value = value[key] if isinstance(value, list) and key < len(value) else None
        else:
            value = value.get(key) if isinstance(value, dict) else None
    return value
