"""A finished run into any MLflow server: parameters, metrics, the table of rows and the report, over its REST API."""

import base64
import hashlib
import os
import random
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import quote, urlencode, urlsplit

from tunecheck._errors import ConfigurationError, MissingExtraError
from tunecheck._json import JSON, dumps
from tunecheck.endpoints._auth import Auth, KeyAuth, NoAuth
from tunecheck.endpoints._limits import Clock
from tunecheck.endpoints._masking import Secret
from tunecheck.endpoints._urls import is_loopback
from tunecheck.pipeline._finished_rows import REPEATED
from tunecheck.runs._store import Run
from tunecheck_mlflow._run import MlflowRun
from tunecheck_mlflow._traces import Traces
from tunecheck_upload._calls import Calls, Step, UploadError, value_at
from tunecheck_upload._contents import Artifact, Contents, artifact, cell, common_artifacts, metric_keys, table_columns
from tunecheck_upload._record import Destination, UploadRecord
from tunecheck_upload._uploader import RunUpload, Uploader

# -- what is logged

TABLE = "eval_results.json"

_PARTS = ("dataset", "target", "evaluators", "mapping", "group_by", "command", "versions")

_NOT_LOGGED = frozenset({"metrics", "primary"})
"""What an evaluator says of its metrics is not an argument."""

_MOST_CHARACTERS = 500
"""Longest value that servers of all ages take; `run.json`, which is uploaded too, has them whole."""


def parameters(manifest: Mapping[str, JSON]) -> dict[str, str]:
    """The run's arguments, flat: `dataset.path`, `evaluators.bleu.threshold`; secrets are masked in them already."""
    flat = {"name": str(manifest.get("name"))}
    for part in _PARTS:
        flat.update(_flat(part, manifest.get(part)))
    keys = metric_keys(flat)
    longest = _MOST_CHARACTERS
    return {keys[name]: value if len(value) <= longest else f"{value[: longest - 1]}…" for name, value in flat.items()}


def _flat(name: str, value: JSON) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for key, entry in value.items():
            if key not in _NOT_LOGGED:
                yield from _flat(name if key == "arguments" else f"{name}.{key}", entry)
    elif isinstance(value, str):
        yield name, value
    elif value is not None:
        yield name, dumps(value).decode()


def repeated_figures(metrics: Mapping[str, float], run: Run) -> set[str]:
    """Figures that only say another one once more: the mean of passes beside the pass rate, a score by two names."""
    evaluators = run.manifest().evaluators
    repeated = {f"{name}{ending}" for name in metrics for ending in REPEATED} & metrics.keys()
    binary = {
        f"{name}.{metric.name}"
        for name, entry in evaluators.items()
        for metric in entry.metrics
        if metric.kind == "binary" and f"{name}.binary_aggregate" in metrics
    }
    return repeated | (binary & metrics.keys())


def mlflow_artifacts(run: Run, folder: Path) -> Iterator[Artifact]:
    """The table as MLflow shows tables, manifest and metrics, logs of conversations, and the report."""
    columns = ["row_id", *table_columns(run.rows())]
    with (folder / TABLE).open("wb") as file:
        file.write(b'{"columns": ' + dumps(columns) + b', "data": [')
        for number, row in enumerate(run.rows()):
            file.write((b",\n" if number else b"\n") + dumps([cell(row, name) for name in columns]))
        file.write(b"\n]}\n")
    yield artifact(TABLE, folder / TABLE, "application/json")
    for path in (run.folder / "run.json", run.metrics_file):
        yield artifact(path.name, path, "application/json")
    yield from common_artifacts(run, folder)


# -- the upload

DEFAULT_EXPERIMENT = "tunecheck"

EXPERIMENT = Step("find the experiment")
NEW_EXPERIMENT = Step("create the experiment")
PARAMETERS = Step("log the parameters")
METRICS = Step("log the metrics")
TAGS = Step("write the tags")
DATASET = Step("log the data set")
TRACES = Step("send the traces")

_WITHOUT_TRACES = frozenset({404, 405, 501})
"""How a server answers that takes no traces: one from before version 3.6, or without a database."""
_SPANS, _DIGEST = 50, 36


class MlflowUploader(Uploader):
    """Logs runs to one MLflow server, signed in by MLFLOW_TRACKING_TOKEN, or _USERNAME and _PASSWORD, where set.

    Args:
        uri: the server's address. `experiment`: by default what MLFLOW_EXPERIMENT_NAME says, else `tunecheck`; it is
            created where it does not exist.
        allow_simulated: log runs that no model answered; they are tagged as such.
        clock, rng: the time and the random numbers of waits, for tests.

    Raises:
        ConfigurationError: that is not a server's address, or a password would go over a plain line.
    """

    def __init__(
        self,
        uri: str,
        *,
        experiment: str | None = None,
        allow_simulated: bool = False,
        clock: Clock | None = None,
        rng: random.Random | None = None,
    ) -> None:
        self.uri = _read_uri(uri)
        self._experiment = experiment or os.environ.get("MLFLOW_EXPERIMENT_NAME") or DEFAULT_EXPERIMENT
        super().__init__(
            f"{self.uri} {self._experiment}",
            ("--mlflow", self.uri),
            to=self.uri,
            allow_simulated=allow_simulated,
            clock=clock,
            rng=rng,
        )
        self._secret = _secret()
        if self._secret is not None and self.uri.startswith("http:") and not is_loopback(str(urlsplit(uri).hostname)):
            raise ConfigurationError("MLFLOW_TRACKING_TOKEN or _PASSWORD is set: it is not sent over plain http")

    def _artifacts(self, run: Run, folder: Path) -> Iterator[Artifact]:
        return mlflow_artifacts(run, folder)

    def _upload_of(self, calls: Calls, record: UploadRecord, contents: Contents) -> RunUpload:
        auth: Auth = NoAuth()
        if self._secret is not None:
            calls.redactor.add(Secret(self._secret.reveal().partition(" ")[2]))
            auth = KeyAuth(self._secret)
        return _MlflowUpload(self.uri, self._experiment, calls, auth, record, contents)

    def _metric_count(self, contents: Contents) -> int:
        return len(contents.metrics) - len(repeated_figures(contents.metrics, contents.run))

    def _page(self, known: Destination) -> str:
        return f"{self.uri}/#/experiments/{known.experiment_id}/runs/{known.run_id}"


class _MlflowUpload(MlflowRun):
    def __init__(
        self, uri: str, experiment: str, calls: Calls, auth: Auth, record: UploadRecord, contents: Contents
    ) -> None:
        super().__init__(calls, auth, record, contents)
        self._uri = uri
        self._experiment_name = experiment

    async def run(self) -> None:
        if self._known.run_id is None:
            self._experiment = await self._experiment_id()
            await self._ensure_run()
        await self._log_parameters()
        await self._log_metrics()
        await self._log_dataset()
        await self._send_files()
        await self._send_traces()
        await self._write_tags()
        await self._finish()

    async def _experiment_id(self) -> str:
        id_ = await self._known_experiment()
        if id_ is None:
            try:
                reply = await self._post(NEW_EXPERIMENT, "experiments/create", {"name": self._experiment_name})
                id_ = value_at(reply.body, "experiment_id")
            except UploadError as error:
                if error.status != 400:  # another client, or an attempt whose answer was lost, created it first
                    raise
                id_ = await self._known_experiment()
                if id_ is None:
                    raise
        self._known.experiment_id = str(id_)
        self._record.save(EXPERIMENT)
        return str(id_)

    async def _known_experiment(self) -> JSON:
        url = self._url(f"experiments/get-by-name?{urlencode({'experiment_name': self._experiment_name})}")
        return value_at(await self._read(EXPERIMENT, url), "experiment", "experiment_id")

    async def _create_run(self) -> None:
        await self._create({}, {})

    async def _log_parameters(self) -> None:
        entries = parameters(self._contents.manifest).items()
        await self._log(PARAMETERS, "params", [{"key": key, "value": value} for key, value in entries], 100)

    async def _log_metrics(self) -> None:
        keys, moment = metric_keys(self._contents.metrics), self._record.moment()
        repeated = repeated_figures(self._contents.metrics, self._contents.run)
        entries: list[JSON] = [
            {"key": keys[name], "value": value, "timestamp": moment, "step": 0}
            for name, value in self._contents.metrics.items()
            if name not in repeated
        ]
        await self._log(METRICS, "metrics", entries, 1000)

    async def _log(self, step: Step, kind: str, entries: list[JSON], most: int) -> None:
        # `most` is what MLflow takes of this kind in one request.
        for start in range(0, len(entries), most):
            batch = entries[start : start + most]
            await self._post(step, "runs/log-batch", {"run_id": self._run_id, kind: batch})
        self._record.save(step)

    async def _log_dataset(self) -> None:
        """The data as an input of the run, by which MLflow groups runs on the same rows."""
        data = self._contents.run.manifest().dataset
        name = data.name or "data"
        digest = (data.sha256 or hashlib.sha256(name.encode()).hexdigest())[:_DIGEST]
        dataset: JSON = {
            "name": name[:500],
            "digest": digest,
            "source_type": "local",
            "source": dumps({"uri": data.path or name}).decode(),
            "profile": dumps({"num_rows": data.rows}).decode(),
        }
        tags: JSON = [{"key": "mlflow.data.context", "value": "evaluation"}]
        body: JSON = {"run_id": self._run_id, "datasets": [{"dataset": dataset, "tags": tags}]}
        await self._post(DATASET, "runs/log-inputs", body)
        self._record.save(DATASET)

    async def _send_traces(self) -> None:
        """Rows as traces, unless they are there, or the server is from before there were any."""
        table = next(each for each in self._contents.artifacts if each.name == TABLE)
        if self._known.traces_of == table.sha256:
            return
        traces = Traces(self._contents.run, f"{self._known.marker} {table.sha256}", self._record.moment())
        rows, experiment = traces.rows(), str(self._known.experiment_id)
        headers = {"x-mlflow-experiment-id": experiment, "x-mlflow-run-id": self._run_id}
        try:
            for start in range(0, len(rows), _SPANS):
                body = traces.spans(rows[start : start + _SPANS])
                await self._calls.json(TRACES, "POST", f"{self._uri}/v1/traces", self._auth, body, headers=headers)
            url = f"{self._uri}/api/3.0/mlflow/traces"
            for row in rows:
                await self._calls.json(TRACES, "POST", url, self._auth, traces.info(row, experiment, self._run_id))
        except UploadError as error:
            if error.status not in _WITHOUT_TRACES:
                raise
        self._known.traces_of = table.sha256
        self._record.save(TRACES)

    async def _send_files(self) -> None:
        unsent = self._unsent()
        if not unsent:
            return
        address = value_at(await self._info(), "artifact_uri")
        address = address if isinstance(address, str) else ""
        for unsent_file in unsent:
            if address.startswith("mlflow-artifacts:/") and not address.startswith("mlflow-artifacts://"):
                await self._send_through_server(unsent_file, address.removeprefix("mlflow-artifacts:/"))
            else:
                self._send_with_package(unsent_file, address)
            self._note_sent(unsent_file)

    async def _send_through_server(self, artifact: Artifact, folder: str) -> None:
        step = Step(f"upload {artifact.name}")
        path = quote(f"{folder.strip('/')}/{artifact.name}")
        url = f"{self._uri}/api/2.0/mlflow-artifacts/artifacts/{path}"
        await self._calls.send(
            step, "PUT", url, self._auth, lambda: artifact.path.open("rb"), artifact.size, artifact.kind
        )

    def _send_with_package(self, artifact: Artifact, address: str) -> None:
        """The server leaves files to its clients, at an address that MLflow's own package knows how to reach."""
        place = urlsplit(address).scheme or "a folder"
        try:
            from mlflow import MlflowClient
        except ImportError:
            raise MissingExtraError(
                f"this MLflow server has its files written by the client ({place}), which", "mlflow"
            ) from None
        try:
            MlflowClient(tracking_uri=self._uri).log_artifact(
                self._run_id, str(artifact.path), artifact.name.rpartition("/")[0] or None
            )
        except Exception as error:  # noqa: BLE001 - of whatever storage it is
            raise Step(f"upload {artifact.name}").failed(self._calls.redactor.text(str(error))) from None

    async def _write_tags(self) -> None:
        logged: list[JSON] = [{"path": TABLE, "type": "table"}]
        own = {
            **self._contents.tags,
            "tunecheck.run": self._contents.run.id,
            "mlflow.loggedArtifacts": dumps(logged).decode(),
        }
        tags: list[JSON] = [{"key": key[:250], "value": value[:5000]} for key, value in own.items()]
        await self._log(TAGS, "tags", tags, 100)

    def _url(self, path: str) -> str:
        return f"{self._uri}/api/2.0/mlflow/{path}"


def _read_uri(text: str) -> str:
    try:
        parts = urlsplit(text.strip())
        host, _ = parts.hostname, parts.port
    except ValueError:
        host = None
    if host is None or parts.scheme not in ("http", "https") or parts.query or parts.fragment:
        raise ConfigurationError("the MLflow server must be an address such as https://mlflow.example.org")
    if parts.username is not None or parts.password is not None:
        raise ConfigurationError(
            "the MLflow server's address holds a password: set MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD"
        )
    return text.strip().rstrip("/")


def _secret() -> Secret | None:
    token = os.environ.get("MLFLOW_TRACKING_TOKEN")
    if token:
        return Secret(f"Bearer {token}")
    name, word = os.environ.get("MLFLOW_TRACKING_USERNAME"), os.environ.get("MLFLOW_TRACKING_PASSWORD")
    if not name or word is None:
        return None
    return Secret("Basic " + base64.b64encode(f"{name}:{word}".encode()).decode())
