"""A finished run into any MLflow server: parameters, metrics, the table of rows and the report, over its REST API."""

from __future__ import annotations

import base64
import os
import random
import shlex
import tempfile
import time
from pathlib import Path
from urllib.parse import quote, urlencode, urlsplit

from tunecheck._errors import ConfigurationError, MissingExtraError
from tunecheck._json import JSON, dumps
from tunecheck.endpoints._auth import Auth, KeyAuth, NoAuth
from tunecheck.endpoints._limits import Clock
from tunecheck.endpoints._masking import Redactor, Secret
from tunecheck.endpoints._urls import is_loopback
from tunecheck.runs._store import Run
from tunecheck.upload._foundry.calls import Answer, Calls, Step
from tunecheck.upload._foundry.contents import Contents, collect, metric_keys, refuse_simulated
from tunecheck.upload._foundry.faults import UploadError, field
from tunecheck.upload._foundry.files import Artifact
from tunecheck.upload._foundry.record import UploadRecord, one_at_a_time
from tunecheck.upload._foundry.upload import Uploaded, run_in_loop, user_agent
from tunecheck.upload._mlflow.contents import TABLE, mlflow_artifacts, parameters

DEFAULT_EXPERIMENT = "tunecheck"

_MOST_PARAMETERS, _MOST_METRICS = 100, 1000
"""What MLflow takes in one request."""

EXPERIMENT = Step("find the experiment")
NEW_EXPERIMENT = Step("create the experiment")
FIND = Step("look for the run")
CREATE = Step("create the run", repeatable=False)
READ = Step("read the run")
PARAMETERS = Step("log the parameters")
METRICS = Step("log the metrics")
TAGS = Step("write the tags")
FINISH = Step("finish the run")


class MlflowUploader:
    """Logs runs to one MLflow server, signed in by MLFLOW_TRACKING_TOKEN, or _USERNAME and _PASSWORD, where set.

    Args:
        uri: the server's address. `experiment`: by default what MLFLOW_EXPERIMENT_NAME says, else `tunecheck`; it is
            created where it does not exist.
        allow_simulated: log runs that no model answered; they are tagged as such.
        clock, rng: the time and the chance of waits, for tests.

    Raises:
        ConfigurationError: that is no server's address, or a password would go over a plain line.
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
        self._secret = _secret()
        if self._secret is not None and self.uri.startswith("http:") and not is_loopback(str(urlsplit(uri).hostname)):
            raise ConfigurationError("MLFLOW_TRACKING_TOKEN or _PASSWORD is set: it is not sent over plain http")
        self._allow_simulated = allow_simulated
        self._clock = clock
        self._rng = rng

    def check(self, *, simulated: bool) -> None:
        """Refuse before anything is asked what would be refused at the end.

        Raises:
            ConfigurationError: the answers would be simulated, and those are not uploaded.
        """
        refuse_simulated(simulated=simulated, allowed=self._allow_simulated)

    def upload(self, run: Run) -> Uploaded:
        """Log a finished run, or go on with it, or bring what is over there up to date.

        Raises:
            ConfigurationError: the run cannot be uploaded.
            UploadError: a step failed; the run's folder is whole, and the upload can be repeated.
        """
        with one_at_a_time(run), tempfile.TemporaryDirectory(prefix="tunecheck-") as folder:
            files = mlflow_artifacts(run, Path(folder))
            contents = collect(run, files, allow_simulated=self._allow_simulated)
            record = UploadRecord(run, f"{self.uri} {self._experiment}")
            unchanged = record.is_true("complete") and record.get("fingerprint") == contents.fingerprint
            if not unchanged:
                record.keep(complete=False)
                try:
                    run_in_loop(self._upload(record, contents))
                except UploadError as error:
                    again = f"{shlex.quote(str(run.folder))} --mlflow {shlex.quote(self.uri)}"
                    again += " --allow-simulated" if contents.simulated else ""
                    raise error.explained(again, record.path, deleted=record.get("run_id") is not None) from None
                record.keep(complete=True, fingerprint=contents.fingerprint)
            return Uploaded(
                to=self.uri,
                run_id=str(record.get("run_id")),
                url=f"{self.uri}/#/experiments/{record.get('experiment_id')}/runs/{record.get('run_id')}",
                files=tuple(artifact.name for artifact in contents.artifacts),
                metrics=len(contents.metrics),
                left_out=contents.left_out,
                unchanged=unchanged,
            )

    async def _upload(self, record: UploadRecord, contents: Contents) -> None:
        redactor = Redactor()
        auth: Auth = NoAuth()
        if self._secret is not None:
            redactor.add(Secret(self._secret.reveal().partition(" ")[2]))
            auth = KeyAuth(self._secret)
        async with Calls(redactor, user_agent=user_agent(None), clock=self._clock, rng=self._rng) as calls:
            await _MlflowUpload(self.uri, self._experiment, calls, auth, record, contents).run()


class _MlflowUpload:
    """One run into one experiment."""

    def __init__(
        self, uri: str, experiment: str, calls: Calls, auth: Auth, record: UploadRecord, contents: Contents
    ) -> None:
        self._uri = uri
        self._experiment = experiment
        self._calls = calls
        self._auth = auth
        self._record = record
        self._contents = contents

    async def run(self) -> None:
        if self._record.get("run_id") is None:
            await self._create_run(await self._experiment_id())
        await self._log_parameters()
        await self._log_metrics()
        await self._send_files()
        await self._write_tags()
        await self._finish()

    @property
    def _run_id(self) -> str:
        return str(self._record.get("run_id"))

    async def _experiment_id(self) -> str:
        found = await self._known_experiment()
        if found is None:
            try:
                answer = await self._post(NEW_EXPERIMENT, "experiments/create", {"name": self._experiment})
                found = field(answer.body, "experiment_id")
            except UploadError as error:
                if error.status != 400:  # somebody else, or an attempt that went unanswered, was quicker
                    raise
                found = await self._known_experiment()
                if found is None:
                    raise
        self._record.keep(EXPERIMENT.words, experiment_id=str(found))
        return str(found)

    async def _known_experiment(self) -> JSON:
        url = self._url(f"experiments/get-by-name?{urlencode({'experiment_name': self._experiment})}")
        try:
            answer = await self._calls.json(EXPERIMENT, "GET", url, self._auth)
        except UploadError as error:
            if error.status != 404:
                raise
            return None
        return field(answer.body, "experiment", "experiment_id")

    async def _create_run(self, experiment: str) -> None:
        info = await self._existing_run(experiment) if self._record.is_true("run_asked_for") else None
        if info is None:
            info = await self._new_run(experiment)
        run = field(info, "run_id")
        if not isinstance(run, str) or not run:
            raise UploadError(f"{CREATE.words}: the server's answer has no run_id", step=CREATE.words, unsure=True)
        self._record.keep(CREATE.words, run_id=run, run_asked_for=None)

    async def _new_run(self, experiment: str) -> JSON:
        self._record.keep(run_asked_for=True)
        body: JSON = {
            "experiment_id": experiment,
            "run_name": self._contents.name,
            "start_time": self._record.moment(),
            "tags": [{"key": "tunecheck.upload", "value": self._record.marker}],
        }
        try:
            answer = await self._post(CREATE, "runs/create", body)
        except UploadError as error:
            if not error.unsure:
                self._record.keep(run_asked_for=None)
            raise
        return field(answer.body, "run", "info")

    async def _existing_run(self, experiment: str) -> JSON:
        """The run whose creation was asked for, and nobody heard the answer."""
        body: JSON = {
            "experiment_ids": [experiment],
            "filter": f"tags.`tunecheck.upload` = '{self._record.marker}'",
            "max_results": 1,
        }
        answer = await self._post(FIND, "runs/search", body)
        return field(answer.body, "runs", 0, "info")

    async def _log_parameters(self) -> None:
        entries: list[JSON] = [
            {"key": key, "value": value} for key, value in parameters(self._contents.manifest).items()
        ]
        for start in range(0, len(entries), _MOST_PARAMETERS):
            some = entries[start : start + _MOST_PARAMETERS]
            await self._post(PARAMETERS, "runs/log-batch", {"run_id": self._run_id, "params": some})
        self._record.keep(PARAMETERS.words)

    async def _log_metrics(self) -> None:
        keys, moment = metric_keys(self._contents.metrics), self._record.moment()
        entries: list[JSON] = [
            {"key": keys[name], "value": value, "timestamp": moment, "step": 0}
            for name, value in self._contents.metrics.items()
        ]
        for start in range(0, len(entries), _MOST_METRICS):
            some = entries[start : start + _MOST_METRICS]
            await self._post(METRICS, "runs/log-batch", {"run_id": self._run_id, "metrics": some})
        self._record.keep(METRICS.words)

    async def _send_files(self) -> None:
        waiting = [one for one in self._contents.artifacts if self._record.sent(one.name) != one.sha256]
        if not waiting:
            return
        query = urlencode({"run_id": self._run_id})
        answer = await self._calls.json(READ, "GET", self._url(f"runs/get?{query}"), self._auth)
        address = field(answer.body, "run", "info", "artifact_uri")
        address = address if isinstance(address, str) else ""
        for artifact in waiting:
            if address.startswith("mlflow-artifacts:/") and not address.startswith("mlflow-artifacts://"):
                await self._send_through_server(artifact, address.removeprefix("mlflow-artifacts:/"))
            else:
                self._send_with_package(artifact, address)
            self._record.keep_artifact(artifact.name, artifact.sha256)

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
            words = f"upload {artifact.name}"
            reason = self._calls.redactor.text(str(error))
            raise UploadError(f"{words}: {reason}", step=words) from None

    async def _write_tags(self) -> None:
        logged: list[JSON] = [{"path": TABLE, "type": "table"}]
        own = {
            **self._contents.tags,
            "tunecheck.run": self._contents.run.id,
            "mlflow.loggedArtifacts": dumps(logged).decode(),
        }
        tags: list[JSON] = [{"key": key[:250], "value": value[:5000]} for key, value in own.items()]
        await self._post(TAGS, "runs/log-batch", {"run_id": self._run_id, "tags": tags})
        self._record.keep(TAGS.words)

    async def _finish(self) -> None:
        end = time.time_ns() // 1_000_000
        await self._post(FINISH, "runs/update", {"run_id": self._run_id, "status": "FINISHED", "end_time": end})
        self._record.keep(FINISH.words)

    async def _post(self, step: Step, path: str, body: JSON) -> Answer:
        return await self._calls.json(step, "POST", self._url(path), self._auth, body)

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
