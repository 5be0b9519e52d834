"""The upload to an MLflow server with MLflow's own client: parameters, metrics, files, data set, and rows as traces.

The steps in order, for a run with these contents:

| step | content | on a repeated upload |
|---|---|---|
| create the run | its name, and the upload's marker as a tag | skipped |
| parameters | the run's arguments, such as `dataset.path` | sent again |
| metrics | all finite metrics that do not repeat another one | sent again |
| data set | its name, and its SHA-256 as digest | sent again |
| files | the table, `run.json`, metrics, logs and report | only new or changed files |
| traces | at most 1,000 rows, failed rows first | skipped, unless the table has changed |
| tags | the run's tags and id | sent again |
| end | the status FINISHED | sent again |

Metrics have the time at which the run wrote them: MLflow counts a metric that is sent twice with the same time once.

A trace is MLflow's record of one row. It consists of a description (`TraceInfo`) with the evaluators' verdicts, called
assessments, and of one span: the row's inputs, outputs and latency.
"""

import datetime
import hashlib
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from http import HTTPStatus
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

import tunecheck_upload as uploads
from tunecheck import ConfigurationError, MissingExtraError, Run, pipeline
from tunecheck.endpoints import Redactor, Secret, can_import, is_loopback
from tunecheck.pipeline import ResultRow
from tunecheck.plugins import JSON, dumps, value_of

MOST = 1_000
"""The most rows that become traces. Failed rows come first."""

_LONGEST_PREVIEW, _LONGEST_REASON = 1_000, 10_000
"""The most characters of a trace's previews and of an assessment's rationale."""


class Traces:
    """The traces of one run. Ids are computed from `marker` and the row's id, so a repeated upload adds no traces."""

    def __init__(self, run: Run, marker: str, moment_ms: int) -> None:
        """Prepare the traces. `marker` identifies the upload, and `moment_ms` is the time of all traces since 1970."""
        self._run, self._marker, self._moment_ms = run, marker, moment_ms
        self._evaluators = run.manifest().evaluators

        primaries = {name: entry.primary for name, entry in self._evaluators.items()}
        # The metric of each evaluator that decides pass or fail; its other numbers are no verdict.
        counted = pipeline.counted_metrics(run.rows(), primaries)
        self._readers = [pipeline.VerdictReader(name, metric) for name, metric in counted.items()]
        self._evaluator_columns = tuple(f"outputs.{name}." for name in counted)

    def rows(self) -> list[ResultRow]:
        """Return the rows that become traces, at most `MOST`: failed rows first, then the others, each in their order.

        A row failed if the target failed, or if an evaluator's verdict is "fail" or "error".
        """
        failed: list[ResultRow] = []
        others: list[ResultRow] = []

        for row in self._run.rows():
            verdicts = {reader.word(row) for reader in self._readers}
            kept = failed if verdicts & {"fail", "error"} or "error.target" in row else others
            # A run may have more rows than fit into memory, so no list grows beyond the limit.
            if len(kept) < MOST:
                kept.append(row)
        return [*failed, *others][:MOST]

    def spans(self, rows: Sequence[ResultRow]) -> JSON:
        """Return the body of an OTLP request with one span per row.

        It follows the OpenTelemetry protocol 1.7, "JSON Protobuf Encoding": times are texts of nanoseconds, kind 1 is
        an internal span, and the status codes are 1 (OK) and 2 (error). The attributes are MLflow's, with JSON texts as
        values.
        """
        spans: list[JSON] = [self._span(row) for row in rows]
        return {"resourceSpans": [{"scopeSpans": [{"scope": {"name": "tunecheck"}, "spans": spans}]}]}

    def _span(self, row: ResultRow) -> JSON:
        """Return a row as an OTLP span, which starts when the metrics were written and lasts for the row's latency."""
        start_ns = self._moment_ms * 1_000_000
        inputs, outputs = _columns(row, "inputs."), _columns(row, "outputs.", self._evaluator_columns)
        attributes = {"mlflow.spanType": "CHAIN", "mlflow.spanInputs": inputs, "mlflow.spanOutputs": outputs}

        status: dict[str, JSON] = {"code": 1}
        if "error.target" in row:
            status = {"code": 2, "message": ": ".join(_code_and_message(row["error.target"]))}

        return {
            "traceId": self._id(row),
            "spanId": self._id(row)[:16],
            "name": "row",
            "kind": 1,
            "startTimeUnixNano": str(start_ns),
            "endTimeUnixNano": str(start_ns + round(_latency_ms(row) * 1_000_000)),
            "attributes": [
                {"key": key, "value": {"stringValue": dumps(value).decode()}} for key, value in attributes.items()
            ],
            "status": status,
        }

    def info(self, row: ResultRow, experiment: str, run_id: str) -> JSON:
        """Return the description of a row's trace with its assessments: `TraceInfo` of MLflow's REST API, version 3.

        `experiment` and `run_id` are the ids of the experiment and of the run in MLflow.
        """
        outputs = _columns(row, "outputs.", self._evaluator_columns)
        trace: dict[str, JSON] = {
            "trace_id": f"tr-{self._id(row)}",
            "client_request_id": str(row["row_id"])[:50],
            "trace_location": {"type": "MLFLOW_EXPERIMENT", "mlflow_experiment": {"experiment_id": experiment}},
            "request_preview": dumps(_columns(row, "inputs.")).decode()[:_LONGEST_PREVIEW],
            "response_preview": dumps(outputs).decode()[:_LONGEST_PREVIEW],
            "request_time": _timestamp(self._moment_ms),
            "execution_duration": f"{_latency_ms(row) / 1_000:.3f}s",
            "state": "ERROR" if "error.target" in row else "OK",
            "trace_metadata": {"mlflow.sourceRun": run_id},
            # Long ids are cut; the trace's own id is computed from the whole id.
            "tags": {"mlflow.traceName": "row", "tunecheck.row_id": str(row["row_id"])[:5_000]},
            "assessments": [*self._assessments(row)],
        }
        return {"trace": {"trace_info": trace}}

    def _assessments(self, row: ResultRow) -> Iterator[JSON]:
        """Yield each evaluator's verdict or error on a row, unless it is not applicable or has no value."""
        for reader in self._readers:
            verdict = reader.read(row)
            feedback = _feedback(verdict, row.get(f"error.{reader.name}"))
            if verdict.word == "not_applicable" or feedback is None:
                continue

            moment, entry = _timestamp(self._moment_ms), self._evaluators[reader.name]
            source_type = "CODE" if entry.judge is None else "LLM_JUDGE"
            assessment: dict[str, JSON] = {
                "assessment_id": f"a-{self._id(row, reader.name)}",
                "assessment_name": reader.name[:250],
                "source": {"source_type": source_type, "source_id": (entry.type or "evaluator")[:250]},
                "create_time": moment,
                "last_update_time": moment,
                "feedback": feedback,
            }

            if isinstance(verdict.score, (int, float)):
                assessment["metadata"] = {"score": str(verdict.score)}
            if verdict.reason:
                assessment["rationale"] = verdict.reason[:_LONGEST_REASON]
            yield assessment

    def _id(self, row: ResultRow, evaluator: str = "") -> str:
        """Return the id of a row's trace, or of the trace's assessment by an evaluator: 32 hexadecimal digits.

        OpenTelemetry's ids of traces have this length, those of spans half of it.
        """
        return hashlib.blake2b(dumps([self._marker, row["row_id"], evaluator]), digest_size=16).hexdigest()


def _feedback(verdict: pipeline.RecordedVerdict, error: JSON) -> dict[str, JSON] | None:
    """Return a verdict as MLflow's feedback; None if it has neither a result nor a score nor an error.

    `error` is the row's recorded error of the evaluator.

    For example `{"value": true}` for a pass, `{"value": 0.7}` for a score without a threshold, and `{"value": null,
    "error": {"error_code": "TimedOutError", "error_message": …}}` for an evaluator that failed.
    """
    if verdict.word == "error":
        code, message = _code_and_message(error)
        return {"value": None, "error": {"error_code": code, "error_message": message}}

    value = {"pass": True, "fail": False}.get(verdict.word, verdict.score)
    return None if value is None else {"value": value}


def _code_and_message(error: JSON) -> tuple[str, str]:
    """Return the type and the message of a row's error. A damaged file of rows may have a value of any type."""
    known = error if isinstance(error, dict) else {"message": error}
    return str(known.get("type") or "Error"), str(known.get("message") or "")


def _columns(row: ResultRow, prefix: str, excluded: tuple[str, ...] = ()) -> dict[str, JSON]:
    """Return the columns with this prefix, by their names without it; no log and no columns with an excluded prefix."""
    names = [name for name in row if name.startswith(prefix) and not name.startswith(excluded)]
    return {name.removeprefix(prefix): _within_64_bits(row[name]) for name in names if name != uploads.LOG_COLUMN}


def _within_64_bits(value: JSON) -> JSON:
    """Return a value with all integers beyond 64 bits as text: MLflow could not read a trace with such integers."""
    if isinstance(value, dict):
        return {key: _within_64_bits(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_within_64_bits(each) for each in value]
    return str(value) if isinstance(value, int) and not -(1 << 63) <= value < 1 << 63 else value


def _latency_ms(row: ResultRow) -> float:
    """Return the row's latency in milliseconds; 0 if it is missing, negative, or at least 1e9 ms (eleven days)."""
    latency = row.get("outputs.latency_ms")
    return float(latency) if isinstance(latency, (int, float)) and 0 <= latency < 1e9 else 0.0


def _timestamp(moment_ms: int) -> str:
    """Return a time in milliseconds as text, such as `2025-01-31T12:00:00.000Z`."""
    moment = datetime.datetime.fromtimestamp(moment_ms / 1_000, datetime.UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


# -- contents

TABLE = "eval_results.json"
"""The file with all rows as a table that MLflow shows: `{"columns": ["row_id", …], "data": [["1", …], …]}`."""

_PARTS = ("dataset", "target", "evaluators", "mapping", "group_by", "command", "versions")
"""The parts of `run.json` that become parameters."""

_NOT_LOGGED = frozenset({"metrics", "primary"})
"""Keys of an evaluator's entry that are not logged as parameters."""

_MOST_CHARACTERS = 500
"""The longest value that all versions of the server take. The uploaded `run.json` has the full values."""


def parameters(manifest: Mapping[str, JSON]) -> dict[str, str]:
    """Return the run's arguments by flat keys that MLflow accepts, such as `evaluators.bleu.threshold`.

    Values of more than `_MOST_CHARACTERS` characters are cut. The manifest already masks secrets.
    """
    flat = {"name": str(manifest.get("name"))}
    for part in _PARTS:
        flat.update(_flat(part, manifest.get(part)))

    keys = uploads.metric_keys(flat)
    longest = _MOST_CHARACTERS
    return {keys[name]: value if len(value) <= longest else f"{value[: longest - 1]}…" for name, value in flat.items()}


def _flat(name: str, value: JSON) -> Iterator[tuple[str, str]]:
    """Yield the values of nested objects as text with dotted names.

    For example `bleu` with `{"arguments": {"threshold": 0.4}}` yields `("bleu.threshold", "0.4")`: the key `arguments`
    is no part of the name. Null values and keys in `_NOT_LOGGED` are left out.
    """
    if isinstance(value, dict):
        for key, entry in value.items():
            if key not in _NOT_LOGGED:
                yield from _flat(name if key == "arguments" else f"{name}.{key}", entry)
    elif isinstance(value, str):
        yield name, value
    elif value is not None:
        yield name, dumps(value).decode()


def repeated_figures(metrics: Mapping[str, float], run: Run) -> set[str]:
    """Return the names of metrics that repeat another metric, such as the mean of passes, which is the pass rate."""
    evaluators = run.manifest().evaluators
    # For example `bleu.bleu_score` repeats `bleu.bleu`.
    repeated = {f"{name}{ending}" for name in metrics for ending in pipeline.REPEATED} & metrics.keys()

    # The mean of a binary metric (0 or 1) is its pass rate.
    binary = {
        f"{name}.{metric.name}"
        for name in pipeline.primaries_with_pass_rate(evaluators, metrics)
        for metric in evaluators[name].metrics
        if metric.kind == "binary"
    }
    return repeated | (binary & metrics.keys())


# -- the upload

REACH = uploads.UploadStep("reach the server")
EXPERIMENT = uploads.UploadStep("find the experiment")
TRACES = uploads.UploadStep("send the traces")
STORE = uploads.UploadStep("find the file storage")

_REST = "/api/2.0/mlflow/"
_PROXY = "/api/2.0/mlflow-artifacts/artifacts"
"""Path under which a server started with --serve-artifacts, the default, takes files."""

_CLOUD_STORES = frozenset({"s3", "gs", "wasbs", "abfss", "dbfs", "azureml"})
"""URL schemes of stores in a cloud, to which MLflow's client may send files."""

_MOST_ENTRIES = 100
"""The most parameters, metrics or tags in one request."""

_PERHAPS_DONE = (408, 500, 502, 503, 504)
"""Statuses after which the server may still have carried out the request."""

_WITHOUT_TRACES = frozenset({404, 405, 501})
"""Statuses of a server that takes no traces, because it is older than 3.6 or has no database."""
_SPANS, _DIGEST = 50, 36
"""The most spans in one request, and the longest digest of a data set in characters, which is MLflow's limit."""

T = TypeVar("T")


class MlflowUploader(uploads.Uploader):
    """The uploader to one MLflow server. Like MLflow's client, it signs in with the environment's MLFLOW_… variables.

    Args:
        uri: the server's address.
        experiment: the experiment's name, by default that in MLFLOW_EXPERIMENT_NAME, else `tunecheck`. The experiment
            is created if it does not exist.
        allow_simulated: upload runs with simulated answers, too; they are tagged as simulated.

    Raises:
        ConfigurationError: `uri` is not a server's address, or a secret would be sent without encryption.
        MissingExtraError: MLflow is not installed.
    """

    def __init__(self, uri: str, *, experiment: str | None = None, allow_simulated: bool = False) -> None:
        """Check the server's address (`uri`) and the sign-in before a run. This sends no request.

        `experiment` is a name; by default that in MLFLOW_EXPERIMENT_NAME, else `tunecheck`. `allow_simulated` permits
        runs with simulated answers.

        Raises:
            MissingExtraError: MLflow is not installed.
            ConfigurationError: the address is wrong, or a secret would be sent without encryption.
        """
        self.uri = _read_uri(uri)
        self._experiment = experiment or os.environ.get("MLFLOW_EXPERIMENT_NAME") or "tunecheck"

        destination = f"{self.uri} {self._experiment}"
        super().__init__(destination, ("--mlflow", self.uri), to=self.uri, allow_simulated=allow_simulated)

        if _secrets() and self.uri.startswith("http:") and not is_loopback(str(urlsplit(uri).hostname)):
            names = "MLFLOW_TRACKING_TOKEN and MLFLOW_TRACKING_PASSWORD"
            raise ConfigurationError(f"{self.uri}: {names} are sent only over https; use an https:// address")
        if not can_import("mlflow"):
            raise MissingExtraError("uploading to MLflow", "mlflow")

    def _artifacts(self, run: Run, folder: Path) -> Iterator[uploads.Artifact]:
        """Yield the files: the table in MLflow's format, manifest, metrics, logs of conversations, and the report."""
        columns = ["row_id", *uploads.table_columns(run.rows())]
        # The table is written row by row, so that a long run does not fill the memory.
        with (folder / TABLE).open("wb") as file:
            file.write(b'{"columns": ' + dumps(columns) + b', "data": [')
            for number, row in enumerate(run.rows()):
                file.write((b",\n" if number else b"\n") + dumps([uploads.cell(row, name) for name in columns]))
            file.write(b"\n]}\n")

        yield uploads.Artifact(folder / TABLE, "application/json")
        for path in (run.folder / "run.json", run.metrics_file):
            yield uploads.Artifact(path, "application/json")
        yield from uploads.common_artifacts(run, folder)

    def _upload_of(self, record: uploads.UploadRecord, contents: uploads.Contents) -> uploads.RunUpload:
        return _MlflowUpload(self.uri, self._experiment, record, contents)

    def _metric_count(self, contents: uploads.Contents) -> int:
        return len(contents.metrics) - len(repeated_figures(contents.metrics, contents.run))

    def _page(self, known: uploads.Destination) -> str:
        return f"{self.uri}/#/experiments/{known.experiment_id}/runs/{known.run_id}"


class _MlflowUpload(uploads.RunUpload):
    def __init__(self, uri: str, experiment: str, record: uploads.UploadRecord, contents: uploads.Contents) -> None:
        """Create MLflow's client for the server; secrets of the environment are masked in errors.

        `experiment` is the experiment's name.

        Raises:
            UploadError: the server cannot be reached.
        """
        super().__init__(record, contents)
        # By default, MLflow's package reports its use to its makers.
        os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
        os.environ.setdefault("MLFLOW_ALLOW_HTTP_REDIRECTS", "false")  # a redirect could lead to any host

        from mlflow import MlflowClient

        self._uri = uri
        self._experiment = experiment
        self._client = MlflowClient(tracking_uri=uri)

        self._redactor = Redactor()
        for secret in _secrets():
            self._redactor.add(Secret(secret))

        # Any reply will do, also that of a server without this path. MLflow's defaults try unreachable servers for
        # minutes. Connecting may take 5 seconds, and the answer 120, because a server may start slowly.
        retries = int(os.environ.get("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "2"))
        self._request(REACH, "GET", "/version", max_retries=retries, timeout=(5, 120))

    def send(self) -> None:
        """Do the remaining steps of the upload and end the run.

        Files and traces that were sent before are not sent again; parameters, metrics, data set and tags are.
        """
        if self._known.run_id is None:
            self._known.experiment_id = uploads.checked_id(EXPERIMENT, self._call(EXPERIMENT, self._experiment_id))
            self._record.save()

        self._ensure_run()
        self._log_values()
        self._call(uploads.UploadStep("log the data set"), self._log_dataset)

        store = self._file_store()
        for unsent in self._unsent():
            self._call(uploads.UploadStep(f"upload {unsent.name}"), store.log_artifact, str(unsent.path))
            self._note_sent(unsent)

        self._send_traces()
        self._write_tags()
        end: JSON = {"run_id": self._run_id, "status": "FINISHED", "end_time": time.time_ns() // 1_000_000}
        self._post(uploads.FINISH, f"{_REST}runs/update", end)  # the client's method prints to stdout

    def is_there(self) -> bool:
        """Return whether the recorded run still exists on the server and is not deleted."""
        try:
            run = self._call(uploads.FIND, self._client.get_run, self._run_id)
        except uploads.UploadError as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise
            return False
        return bool(run.info.lifecycle_stage != "deleted")

    def _file_store(self) -> Any:  # noqa: ANN401 - MLflow's package has no types
        """Return MLflow's client of the store that the server names for the run's files.

        The server may name only itself, a cloud's storage, or, on this machine, a folder. Otherwise it could replace
        local files, or send the files and its token to another host.

        Raises:
            UploadError: the store is at another place.
        """
        from mlflow.store.artifact.artifact_repository_registry import get_artifact_repository
        from mlflow.store.artifact.http_artifact_repo import HttpArtifactRepository

        uri = str(self._call(STORE, self._client.get_run, self._run_id).info.artifact_uri)
        store, server = urlsplit(uri), urlsplit(self._uri)
        # `mlflow-artifacts:/path` means the server itself; with a host, it may name another one.
        if store.scheme == "mlflow-artifacts" and store.netloc in ("", server.netloc):
            return HttpArtifactRepository(f"{self._uri}{_PROXY}{store.path}")

        is_local = store.scheme in ("", "file") and is_loopback(str(server.hostname))
        if is_local or store.scheme in _CLOUD_STORES:
            return self._call(STORE, get_artifact_repository, uri)

        reason = f"Tunecheck cannot write to the server's files at {uri[:200]}; start the server with --serve-artifacts"
        raise uploads.UploadError(STORE, reason)

    def _experiment_id(self) -> str:
        """Return the id of the experiment, which is created if it does not exist."""
        found = self._client.get_experiment_by_name(self._experiment)
        return str(self._client.create_experiment(self._experiment) if found is None else found.experiment_id)

    def _find_run(self) -> bool:
        """Look for a run with this upload's marker. Note its id in the record, and return whether it was found."""
        marked = f"tags.`{uploads.MARKER}` = '{self._known.marker}'"
        found = self._call(uploads.FIND, self._client.search_runs, [self._known.experiment_id], marked, max_results=1)
        if found:
            self._known.run_id = uploads.checked_id(uploads.FIND, found[0].info.run_id)
        return bool(found)

    def _create_run(self) -> None:
        """Create the run with the upload's marker as a tag, without retries, and note its id in the record.

        Raises:
            UploadError: the server refused, or its answer has no id.
        """
        # Not with the client's own method, which would send the request again if the reply is lost.
        body: JSON = {
            "experiment_id": self._known.experiment_id,
            "run_name": self._contents.name,
            "start_time": self._contents.moment_ms,
            "tags": [{"key": uploads.MARKER, "value": self._known.marker}],
        }
        reply = self._post(uploads.CREATE, f"{_REST}runs/create", body, max_retries=0)
        self._known.run_id = uploads.checked_id(uploads.CREATE, uploads.value_at(reply, "run", "info", "run_id"))

    def _log_values(self) -> None:
        """Log the run's arguments as parameters, and its metrics without those that repeat another one."""
        from mlflow.entities import Metric, Param

        params = [Param(key, value) for key, value in parameters(self._contents.manifest).items()]
        self._log_entries(uploads.UploadStep("log the parameters"), "params", params)

        metrics, moment = self._contents.metrics, self._contents.moment_ms
        keys, repeated = uploads.metric_keys(metrics), repeated_figures(metrics, self._contents.run)
        logged = [Metric(keys[name], value, moment, step=0) for name, value in metrics.items() if name not in repeated]
        self._log_entries(uploads.UploadStep("log the metrics"), "metrics", logged)

    def _log_entries(self, step: uploads.UploadStep, kind: str, entries: Sequence[object]) -> None:
        """Log entries in batches. `kind` is their argument of MLflow's `log_batch`: params, metrics or tags."""
        for batch in _batches(entries, _MOST_ENTRIES):
            self._call(step, self._client.log_batch, self._run_id, **{kind: batch})

    def _log_dataset(self) -> None:
        """Log the data set as an input of the run. MLflow groups runs with the same input."""
        from mlflow.entities import Dataset, DatasetInput, InputTag

        data = self._contents.run.manifest().dataset
        name = data.name or "data"
        digest = (data.sha256 or hashlib.sha256(name.encode()).hexdigest())[:_DIGEST]
        source = dumps({"uri": data.path or name}).decode()
        profile = dumps({"num_rows": data.rows}).decode()

        # 500 characters are MLflow's limit for a name.
        dataset = Dataset(name[:500], digest, "local", source, profile=profile)
        tag = InputTag("mlflow.data.context", "evaluation")
        self._client.log_inputs(self._run_id, [DatasetInput(dataset, [tag])])

    def _send_traces(self) -> None:
        """Send rows as traces and record the table's hash, unless the record has the same hash already.

        A server that takes no traces is no error; the hash is recorded as well.
        """
        table = next(artifact for artifact in self._contents.artifacts if artifact.name == TABLE)
        if self._known.traces_of == table.sha256:
            return

        traces = Traces(self._contents.run, f"{self._known.marker} {table.sha256}", self._contents.moment_ms)
        rows, experiment = traces.rows(), str(self._known.experiment_id)
        headers = {"x-mlflow-experiment-id": experiment, "x-mlflow-run-id": self._run_id}
        try:
            for batch in _batches(rows, _SPANS):
                self._post(TRACES, "/v1/traces", traces.spans(batch), extra_headers=headers)
            for row in rows:
                self._post(TRACES, "/api/3.0/mlflow/traces", traces.info(row, experiment, self._run_id))
        except uploads.UploadError as error:
            if error.status not in _WITHOUT_TRACES:
                raise

        self._known.traces_of = table.sha256
        self._record.save()

    def _write_tags(self) -> None:
        """Write the run's tags, its id, and the tag by which MLflow shows the table of rows."""
        from mlflow.entities import RunTag

        logged: list[JSON] = [{"path": TABLE, "type": "table"}]
        tags = {
            **self._contents.tags,
            "tunecheck.run": self._contents.run.id,
            "mlflow.loggedArtifacts": dumps(logged).decode(),
        }

        run_tags = [RunTag(key[:250], value[:5000]) for key, value in tags.items()]
        self._log_entries(uploads.UploadStep("write the tags"), "tags", run_tags)

    # -- calls

    def _call(self, step: uploads.UploadStep, action: Callable[..., T], *arguments: Any, **options: Any) -> T:  # noqa: ANN401 - the action's
        """Call a function of MLflow's package and return its result.

        Raises:
            UploadError: the function failed, also by an error of the file storage. The error is `unsure` if the server
                may still have carried out the request.
        """
        from mlflow.exceptions import MlflowException

        try:
            return action(*arguments, **options)
        except Exception as error:  # noqa: BLE001 - the file storage may raise any error
            status = error.get_http_status_code() if isinstance(error, MlflowException) else None
            unsure = status is None or status in _PERHAPS_DONE
            raise uploads.UploadError(step, self._redactor.text(str(error)), status=status, unsure=unsure) from None

    def _request(self, step: uploads.UploadStep, method: str, path: str, **options: Any) -> Any:  # noqa: ANN401 - MLflow's package has no types
        """Send a request to a path of the server with the client's sign-in, and return the reply of any status.

        `options` are further arguments of MLflow's `http_request`.

        Raises:
            UploadError: the request failed.
        """
        from mlflow.utils.credentials import get_default_host_creds
        from mlflow.utils.rest_utils import http_request

        host = get_default_host_creds(self._uri)
        return self._call(step, http_request, host, path, method, raise_on_status=False, **options)

    def _post(self, step: uploads.UploadStep, path: str, body: JSON, **options: Any) -> JSON:  # noqa: ANN401 - those of `_request`
        """Post JSON with `_request`, and return the reply's value; None if the reply is not JSON.

        Raises:
            UploadError: the request failed, or the reply has an error status.
        """
        reply = self._request(step, "POST", path, json=body, **options)

        if reply.ok:
            return value_of(reply.content)
        reason = f"{reply.status_code} {reply.reason}: {self._redactor.text(reply.text)}"
        raise uploads.UploadError(step, reason, status=reply.status_code, unsure=reply.status_code in _PERHAPS_DONE)


def _batches(entries: Sequence[T], most: int) -> Iterator[Sequence[T]]:
    """Yield parts of the entries with at most `most` entries each."""
    return (entries[start : start + most] for start in range(0, len(entries), most))


def _read_uri(text: str) -> str:
    """Return the server's address without a slash at its end.

    Raises:
        ConfigurationError: the text is no http address, or contains a query, fragment, user or password.
    """
    try:
        parts = urlsplit(text.strip())
        host, _ = parts.hostname, parts.port  # reading a wrong port raises ValueError
    except ValueError:
        host = None

    if host is None or parts.scheme not in ("http", "https") or parts.query or parts.fragment:
        raise ConfigurationError("the MLflow address must be http(s)://HOST[:PORT][/PATH], without query or fragment")

    # The address is written to `upload.json` and printed, so it must not contain a password.
    if parts.username is not None or parts.password is not None:
        raise ConfigurationError(
            "the MLflow address has a user or password; set MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD"
        )
    return text.strip().rstrip("/")


def _secrets() -> list[str]:
    """Return the token and the password that MLflow reads from the environment, each only if it is set."""
    names = ("MLFLOW_TRACKING_TOKEN", "MLFLOW_TRACKING_PASSWORD")
    return [value for name in names if (value := os.environ.get(name))]
