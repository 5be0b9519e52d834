"""The base of uploads of finished runs: a run's contents, the steps of an upload, and its record in `upload.json`.

An upload is checked first, done in steps, and can be repeated or resumed. `upload.json` in the run's folder has an
entry for each destination, and is saved before an upload relies on it. The steps in order:

1. Lock the run, and collect its contents. A run that is not finished or has simulated answers is refused
2. If the destination's run was deleted there, stop, or with `again`, start anew
3. If the upload was completed and the contents have the same fingerprint, do nothing
4. Create the run. The record first notes that the run is asked for. If the reply is lost, the next attempt looks for a
   run with the record's marker, so that no second run is made
5. Send what is missing. A file counts as sent if the record has its SHA-256
6. Note the upload as complete, with the fingerprint

A step that fails at the destination raises UploadError, with the command that continues the upload.

A destination is a Foundry project or an MLflow server, an artifact is a file of the upload, and a marker is a random id
that finds the uploaded run again.
"""

import abc
import contextlib
import hashlib
import itertools
import os
import re
import tempfile
import uuid
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import msgspec

from tunecheck import ConfigurationError, Run, RunError, plugins
from tunecheck.plugins import JSON
from tunecheck.runs import dumps_readably, stopped_text

MARKER = "tunecheck.upload"
"""The tag or property that holds the record's marker in the run at its destination."""


class Destination(msgspec.Struct, omit_defaults=True):
    """The state of the upload to one destination.

    `marker` is a random id, which the run at the destination carries, too. `run_asked_for` is true while the reply to
    the run's creation is missing; the marker then finds the run if it was created. `fingerprint` is the hash of the
    contents at the destination, and `result_of` the hash of those in a Foundry project's result. `artifacts` has the
    SHA-256 of each file at the destination. `traces_of` is the SHA-256 of the table with the rows sent as traces.
    `complete` is true after the last step. `result_name` and `version` name the results in a Foundry project: changed
    results become the next version of the same name.
    """

    marker: str
    complete: bool = False
    run_asked_for: bool = False
    run_id: str | None = None
    experiment_id: str | None = None
    result_name: str | None = None
    result_id: str | None = None
    result_of: str | None = None
    version: int = 0
    artifacts: dict[str, str] = {}
    traces_of: str | None = None
    fingerprint: str | None = None
    url: str | None = None


class UploadFile(msgspec.Struct):
    """Content of `upload.json`.

    `signature` proves that this user uploaded the run. It is needed because later uploads change the runs that this
    file names.
    """

    format_version: int = plugins.FORMAT_VERSION
    uploads: dict[str, Destination] = {}
    signature: str | None = None

    def content(self, run: Run) -> JSON:
        """Return the content for the signature."""
        return [str(run.folder.resolve()), plugins.plain(self.uploads)]


class UploadRecord:
    """The part of `upload.json` about one destination. Changes are saved before an upload relies on them."""

    def __init__(self, run: Run, destination: str) -> None:
        """Read the run's record of uploads, and set `known` to the state at this destination, new if there is none."""
        self.path = run.upload_file
        self._run = run
        self._file = _read(run, self.path)
        self._destination = destination
        self.known = self._file.uploads.get(destination) or self.renew()

    def renew(self) -> Destination:
        """Set `known` to an empty state with a new marker, for a run that was deleted at the destination; return it."""
        self.known = self._file.uploads[self._destination] = Destination(str(uuid.uuid4()))
        return self.known

    def save(self) -> None:
        """Sign the record and write it to `upload.json`.

        Raises:
            RunError: the file cannot be written.
        """
        self._file.signature = plugins.signature(self._file.content(self._run))
        try:
            plugins.write_file(self.path, dumps_readably(plugins.loads(plugins.dumps(self._file))))
        except OSError as error:
            raise RunError(f"{self.path}: cannot be written: {error.strerror}") from None


def _read(run: Run, path: Path) -> UploadFile:
    """Return the content of `upload.json`, empty if there is no such file.

    Raises:
        ConfigurationError: the file is damaged, or another user wrote it.
    """
    try:
        file = msgspec.convert(plugins.loads(plugins.read_regular(path)), UploadFile)
    except FileNotFoundError:
        return UploadFile()
    except (OSError, ValueError) as error:
        raise ConfigurationError(
            f"{path}: cannot be read: {error}; repair the file, or delete it to upload the run again as a new run"
        ) from None

    content = file.content(run)
    # Without a key file, this user has no signature to compare.
    if file.uploads and not plugins.is_signed(content, file.signature) and plugins.signature(content) is not None:
        raise ConfigurationError(
            f"{path}: another user wrote this record of uploads, the file was edited, or the run's folder was moved; "
            "delete the file to upload the run again as a new run"
        )
    return file


# -- files

_LOGS, _REPORT = "multi_turn_logs.jsonl", "report.html"

_CAUSE = "cause"
LOG_COLUMN = "outputs.inference_log"
"""The column with a conversation's whole log. It is too long for a table's cell and gets its own file."""


class Artifact:
    """A file to upload, with its name at the destination, local path, media type, size in bytes and SHA-256."""

    def __init__(self, path: Path, kind: str = "application/octet-stream") -> None:
        """Read the size and SHA-256 of a file, which keeps its name at the destination; `kind` is its media type."""
        self.name, self.path, self.kind = path.name, path, kind
        self.size, self.sha256 = path.stat().st_size, plugins.sha256_of(path)


def common_artifacts(run: Run, folder: Path) -> Iterator[Artifact]:
    """Yield the file with the conversations' logs, if there are any, and the report, if it was written.

    The file with the logs is written to `folder`.
    """
    written = 0
    with (folder / _LOGS).open("wb") as file:
        for number, row in enumerate(run.rows()):
            log = row.get(LOG_COLUMN)
            if log is not None:
                line = {"line_number": number, "row_id": row.get("row_id"), "inference_log": log}
                written += file.write(plugins.dumps_line(line))

    if written:
        yield Artifact(folder / _LOGS)
    if (run.folder / _REPORT).is_file():
        yield Artifact(run.folder / _REPORT, "text/html")


def table_columns(rows: Iterable[Mapping[str, JSON]]) -> list[str]:
    """Return the columns of the uploaded table: inputs, outputs, causes of failures, and `outputs.error.<stage>`.

    For example `inputs.query`, `outputs.response`, `outputs.bleu.bleu`, `outputs.error.target`, `outputs.cause`. Every
    row of the table gets every column, with null for missing values, because readers take the columns from any row.
    """
    # In the order in which rows first have them.
    names = dict.fromkeys(name for row in rows for name in row)
    shown = [name for name in names if name.startswith(("inputs.", "outputs.")) and name != LOG_COLUMN]

    more = (f"outputs.{name}" for name in names if name.startswith("error.") or name == _CAUSE)
    # A target may have an output named `cause`; its column stays.
    return [*shown, *(name for name in more if name not in names)]


def cell(row: Mapping[str, JSON], name: str) -> JSON:
    """Return a row's value in a column of the table; None if it has none.

    The row's cause and errors are in the columns `outputs.cause` and `outputs.error.<stage>`. Errors become text:
    `TimedOutError: no answer within 60 s`.
    """
    if name in row or not (name.startswith("outputs.error.") or name == f"outputs.{_CAUSE}"):
        return row.get(name)

    error = row.get(name.removeprefix("outputs."))
    return f"{error.get('type')}: {error.get('message')}" if isinstance(error, dict) else error


# -- contents

_PORTAL_IDS = """bleu_score code_vulnerability coherence content_safety document_retrieval f1_score fluency gleu_score
    groundedness groundedness_pro hate_unfairness indirect_attack intent_resolution meteor_score protected_material qa
    relevance response_completeness retrieval rouge_score self_harm sexual similarity task_adherence tool_call_accuracy
    ungrounded_attributes violence"""
"""Ids of the evaluators that the portal knows. Tunecheck's evaluators with the same keys use them, too."""

# The class RougeScoreEvaluator has the key `rougescoreevaluator` and the id `rouge_score`.
_BY_CLASS = {f"{id_.replace('_', '')}evaluator": id_ for id_ in _PORTAL_IDS.split()}


class Contents:
    """The contents of an upload.

    `left_out` names the metrics that are not finite numbers. `name_map` has the portal's ids of evaluators, see the
    function of that name. `tags` are the run's own tags, and marks of simulated answers and of an early stop.
    """

    def __init__(self, run: Run, artifacts: Iterable[Artifact], *, allow_simulated: bool) -> None:
        """Collect the contents. `artifacts`, which may write files, is read only if the run may be uploaded.

        Raises:
            ConfigurationError: the run has not finished, or has simulated answers without `allow_simulated`.
        """
        self.run, self.manifest = run, run.manifest_data()
        if self.manifest.get("status") != "finished":
            raise ConfigurationError(f"run {run.id} has not finished; finish it with {run.resuming()}, then upload it")

        self.simulated = self.manifest.get("simulated") is True
        if self.simulated and not allow_simulated:
            raise ConfigurationError(
                f"run {run.id} has simulated answers; give {plugins.ALLOW_SIMULATED} to upload the run, marked as "
                "simulated"
            )

        self.name = str(self.manifest.get("name") or run.id)
        self.name_map = name_map(self.manifest.get("evaluators"))
        recorded = run.metrics().get("metrics")
        entries = recorded if isinstance(recorded, dict) else {}
        self.metrics = {name: float(value) for name, value in entries.items() if isinstance(value, (int, float))}
        self.left_out = tuple(name for name in entries if name not in self.metrics)

        recorded_tags = self.manifest.get("tags")
        tags = {name: str(value) for name, value in recorded_tags.items()} if isinstance(recorded_tags, dict) else {}
        marks = {"stopped_early": stopped_text(run.manifest().stopped), "simulated": "true" if self.simulated else ""}
        self.tags = tags | {name: text for name, text in marks.items() if text}
        self.artifacts = tuple(artifacts)

    @property
    def moment_ms(self) -> int:
        """The time when the metrics were written, in milliseconds since 1970.

        A metric that is logged twice with the same time counts once.
        """
        return self.run.metrics_file.stat().st_mtime_ns // 1_000_000

    @property
    def fingerprint(self) -> str:
        """A hash of the contents. It is equal if there is nothing new to upload."""
        files: list[JSON] = [[artifact.name, artifact.sha256] for artifact in self.artifacts]
        parts: list[JSON] = [self.name, dict(self.tags), dict(self.metrics), dict(self.name_map), files]
        return hashlib.sha256(plugins.canonical(parts)).hexdigest()


def name_map(evaluators: JSON) -> dict[str, str]:
    """Return the ids of the evaluators that Foundry's portal knows, by the run's names: `{"my_f1": "f1_score"}`.

    Only classes of azure-ai-evaluation and of Tunecheck count: another package may use the same class name.
    """
    entries = evaluators if isinstance(evaluators, dict) else {}
    known = {}
    for name, entry in entries.items():
        kind = str(entry.get("type")) if isinstance(entry, dict) else ""
        id_ = _BY_CLASS.get(kind.rpartition(".")[2].lower())
        if id_ is not None and kind.startswith(("azure.ai.evaluation.", "tunecheck.")):
            known[name] = id_
    return known


def metric_keys(names: Iterable[str]) -> dict[str, str]:
    """Return a unique MLflow name for each name, of letters, digits and `_-. :`, with at most 250 characters.

    For example `top_5_2` for `top@5` after `top_5`.
    """
    keys: dict[str, str] = {}
    taken: set[str] = set()
    for name in names:
        # MLflow takes 250 characters. 240 leave room for a number.
        key = "".join(c if (c.isascii() and c.isalnum()) or c in "_-. :" else "_" for c in name)[:240]
        # A server may store values by name in files, so it refuses names such as `..`.
        key = f"_{key[1:]}" if key.startswith(".") else key

        numbered = (f"{key}_{number}" for number in itertools.count(2))
        keys[name] = key if key not in taken else next(other for other in numbered if other not in taken)
        taken.add(keys[name])
    return keys


# -- steps


class UploadStep(msgspec.Struct, frozen=True):
    """A step of an upload. Error texts begin with `words`. `repeatable` is true if the step is safe to do twice."""

    words: str
    repeatable: bool = True


class UploadError(RunError):
    """The error of a failed upload.

    `step` is the step that failed. `status` and `request_id` are the service's HTTP status and id of the request, if
    known. `unsure` is true if the service may have carried out the request.
    """

    def __init__(
        self,
        step: UploadStep,
        reason: object,
        *,
        status: int | None = None,
        request_id: str | None = None,
        unsure: bool = False,
    ) -> None:
        """Set the text to the step's words and the reason. `unsure`: the service may have carried out the request.

        `status` and `request_id` are those of the service's reply.
        """
        super().__init__(plugins.clean(f"{step.words}: {reason}", 700))
        self.step = step
        self.status = status
        self.request_id = request_id
        self.unsure = unsure


FIND = UploadStep("look for the run")
CREATE = UploadStep("create the run", repeatable=False)
FINISH = UploadStep("finish the run")
GONE = UploadStep("find the uploaded run")


class Uploaded(msgspec.Struct, frozen=True):
    """The result of an upload.

    `url` is the address of the run's page, if there is one. `left_out` names the metrics that are not finite numbers.
    `unchanged` is true if the destination had everything already and nothing was sent.
    """

    to: str
    run_id: str
    url: str | None
    files: tuple[str, ...]
    metrics: int
    left_out: tuple[str, ...]
    unchanged: bool


class RunUpload(abc.ABC):
    """The upload of one run to one destination. It makes sure that the run is created only once."""

    def __init__(self, record: UploadRecord, contents: Contents) -> None:
        self._record = record
        self._known = record.known
        self._contents = contents

    @abc.abstractmethod
    def send(self) -> str | None:
        """Do the remaining steps, and return the address of the run's page; None if the service does not give it."""

    @abc.abstractmethod
    def is_there(self) -> bool:
        """Return whether the created run still exists at the destination."""

    def close(self) -> None:
        """Close connections."""

    @abc.abstractmethod
    def _find_run(self) -> bool:
        """Look for the run with the record's marker; note its id in the record and return whether it exists."""

    @abc.abstractmethod
    def _create_run(self) -> None:
        """Create the run and set its id in the record."""

    @property
    def _run_id(self) -> str:
        """The id of the created run at the destination."""
        return str(self._known.run_id)

    def _ensure_run(self) -> None:
        """Create the run unless the record has its id.

        If the reply to an earlier creation was lost, look for that run first. The record is saved before and after, so
        that no interruption leads to a second run.

        Raises:
            UploadError: the run cannot be found or created.
        """
        if self._known.run_id is not None:
            return

        exists = self._find_run() if self._known.run_asked_for else False
        if not exists:
            self._known.run_asked_for = True
            self._record.save()
            try:
                self._create_run()
            except UploadError as error:
                # The service surely made no run, so the next attempt need not look for one.
                if not error.unsure:
                    self._known.run_asked_for = False
                    self._record.save()
                raise

        self._known.run_asked_for = False
        self._record.save()

    def _unsent(self) -> list[Artifact]:
        """Return the files that the destination lacks or has with other content, according to the record."""
        sent = self._known.artifacts
        return [artifact for artifact in self._contents.artifacts if sent.get(artifact.name) != artifact.sha256]

    def _note_sent(self, artifact: Artifact) -> None:
        """Record that the destination has the file."""
        self._known.artifacts[artifact.name] = artifact.sha256
        self._record.save()


class Uploader(abc.ABC):
    """An uploader of runs to one destination. A subclass implements the calls to the destination.

    The constructor checks what can be checked beforehand, so that a long evaluation does not end with a wrong name.
    `destination` is the key in the upload record; `option` is the part of the command line that names the destination.
    """

    def __init__(
        self, destination: str, option: tuple[str, ...], *, to: str | None = None, allow_simulated: bool = False
    ) -> None:
        """Set the destination.

        `destination` is its key in the upload record, `option` the part of the command line that names it, and `to` its
        name for the user.
        """
        self._destination = destination
        self._option = option
        self._to = to or destination
        self._allow_simulated = allow_simulated

    def check(self, *, simulated: bool) -> None:
        """Raise ConfigurationError before a run if the upload after it would be refused.

        `simulated` is true if the run has simulated answers.
        """
        if simulated and not self._allow_simulated:
            raise ConfigurationError(
                "the answers are simulated, and simulated runs are not uploaded; "
                f"evaluate a real endpoint, or give {plugins.ALLOW_SIMULATED} to test the upload"
            )

    def upload(self, run: Run | str | os.PathLike[str], *, again: bool = False) -> Uploaded:
        """Upload a finished run; `run` may be its folder. Resume an earlier upload, or update the uploaded run.

        If `again`, a run that was deleted at the destination is created anew.

        Raises:
            ConfigurationError: the run cannot be uploaded.
            RunError: another process is uploading the run, or its record cannot be written.
            UploadError: a step failed, or the run was deleted at the destination. The run's folder is intact, and the
                upload can be repeated.
        """
        run = run if isinstance(run, Run) else Run(Path(run))
        run.manifest()  # an unreadable run is refused before a lock file is written
        held = f"another process is uploading run {run.id}; wait until it ends"
        with (
            plugins.lock(run.folder / ".upload.lock", held),
            tempfile.TemporaryDirectory(prefix="tunecheck-") as folder,
        ):
            # Written files are in the temporary folder, which must exist until they are sent.
            contents = Contents(run, self._artifacts(run, Path(folder)), allow_simulated=self._allow_simulated)

            record = UploadRecord(run, self._destination)

            try:
                unchanged = self._send(record, contents, again=again)
            except UploadError as error:
                error.args = (f"upload failed: could not {error}; {self._advice(error, contents)}",)
                raise

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
        """Yield the files to upload. Files that are not in the run's folder are written to `folder`."""

    @abc.abstractmethod
    def _upload_of(self, record: UploadRecord, contents: Contents) -> RunUpload:
        """Return the upload of one run, which `send` then carries out."""

    def _metric_count(self, contents: Contents) -> int:
        return len(contents.metrics)

    def _page(self, known: Destination) -> str | None:
        return known.url

    def _send(self, record: UploadRecord, contents: Contents, *, again: bool) -> bool:
        """Do the remaining steps of an upload, and return True if there were none.

        A run that was deleted at the destination is created anew if `again`.

        Raises:
            UploadError: a step failed, or the run was deleted and `again` is False.
        """
        with contextlib.closing(self._upload_of(record, contents)) as upload:
            if record.known.run_id is not None and not upload.is_there():
                if not again:
                    raise UploadError(GONE, f"run {record.known.run_id} was deleted at the destination")
                record.renew()
                record.save()
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

    def _advice(self, error: UploadError, contents: Contents) -> str:
        """Return what to do after a failed upload, with the command that continues it."""
        command = ["tunecheck", "upload", str(contents.run.folder), *self._option]
        command += ["--allow-simulated"] if contents.simulated else []

        if error.step is GONE:
            return f"upload the run again with: {plugins.command_line([*command, '--again'])}"
        return f"the run itself is intact; continue with: {plugins.command_line(command)}"


_ID = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]{0,255}")
"""An id such as `0a1b2c` or `run-3.1`: without a slash or a leading dot, so that it is one part of a path."""


def checked_id(step: UploadStep, value: object) -> str:
    """Return a value of a service's reply if it is an id that can be a part of a path.

    Raises:
        UploadError: the value is missing, or no such id.
    """
    if not isinstance(value, str) or not _ID.fullmatch(value):
        raise UploadError(step, "the upload service's reply has no valid id; check the service's address", unsure=True)
    return value


def value_at(value: JSON, *path: str | int) -> JSON:
    """Return the value that these keys and positions lead to, such as `"run", "info", "run_id"`; None without one."""
    found = plugins.find_value(value, path)
    return None if isinstance(found, plugins.Missing) else found
