"""The services of Azure AI Foundry on loopback, over TLS: they check every call, and fail where a test says so.

Blobs go through to a real Azurite, MLflow's calls to a real server where there is one.
"""

import contextlib
import datetime
import ipaddress
import json
import re
import ssl
import uuid
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import yarl
from aiohttp import web
from anyio.from_thread import start_blocking_portal
from azure.storage.blob import ContainerClient, ContainerSasPermissions, generate_container_sas
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from tests.foundry_azurite import ACCOUNT, KEY
from tests.foundry_evals import STEPS, EvalsService, Step, not_found

SCOPE = "/subscriptions/sub-1/resourceGroups/group-1/providers/Microsoft.MachineLearningServices/workspaces/project-1"
PROJECT = "/api/projects/project-1"
NAMES = ["localhost", "management.azure.com", f"{ACCOUNT}.blob.localhost"]

FOUNDRY, HUB = "2025-11-15-preview", "2024-07-01-preview"
SCOPES = {"foundry": "https://ai.azure.com/.default", "storage": "https://storage.azure.com/.default"}


def certificate(folder: Path) -> tuple[Path, Path]:
    """A self-signed certificate for all the names, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "tests")])
    now = datetime.datetime.now(datetime.UTC)
    names = [*(x509.DNSName(each) for each in NAMES), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=2))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    chain, private = folder / "certificate.pem", folder / "key.pem"
    chain.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    private.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return chain, private


@dataclass
class Asked:
    """One call as it came in."""

    step: str
    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Failure:
    """How a call fails: with a status, before the service does it (or after: the answer is lost); `times` calls do."""

    status: int = 500
    after: bool = False
    cut: bool = False
    times: int = 1
    headers: dict[str, str] = field(default_factory=dict)


_OF_HUB = "workspace, create run, datastore, secrets, blob, register artifact, properties, metric, finish"
FAILURES = {"foundry": "reserve, blob, register, create, complete".split(", "), "hub": _OF_HUB.split(", ")}
"""The steps of each kind of project, by what the fake calls them, in their order."""

_RESULT = rf"{PROJECT}/evaluationResults/[^/]+/versions/\d+"
_RUNS = rf"{PROJECT}/evaluations/runs"
_HUB = re.escape(SCOPE)
_MLFLOW = rf"/mlflow/v2\.0{_HUB}/api/2\.0/mlflow/runs"
_STEPS = (
    *STEPS,
    Step("reserve", "POST", rf"{_RESULT}/startPendingUpload", FOUNDRY, "pendingUploadType"),
    Step("register", "PATCH", _RESULT, FOUNDRY, "blobUri resultType metrics"),
    Step("create", "POST", rf"{_RUNS}:upload", FOUNDRY, "displayName properties tags"),
    Step("complete", "PATCH", rf"{_RUNS}:updateUpload/[^/]+", FOUNDRY, "displayName status outputs"),
    Step("list", "GET", _RUNS, FOUNDRY),
    Step("get", "GET", rf"{_RUNS}/[^/]+", FOUNDRY),
    Step("workspace", "GET", _HUB, HUB),
    Step("datastore", "GET", rf"{_HUB}/datastores", HUB),
    Step(
        "secrets", "POST", rf"{_HUB}/datastores/workspaceblobstore/listSecrets", HUB, "expirableSecret expireAfterHours"
    ),
    Step("create run", "POST", rf"{_MLFLOW}/create", keys="experiment_id user_id start_time tags run_name"),
    Step("get run", "GET", rf"{_MLFLOW}/get"),
    Step("search", "POST", rf"{_MLFLOW}/search"),
    Step("metric", "POST", rf"{_MLFLOW}/log-metric", keys="run_uuid key value timestamp step run_id"),
    Step("finish", "POST", rf"{_MLFLOW}/update", keys="run_uuid status end_time run_id"),
    Step(
        "register artifact", "POST", rf"/artifact/v2\.0{_HUB}/artifacts/register", keys="origin container path dataPath"
    ),
    Step("properties", "PATCH", rf"/history/v1\.0{_HUB}/experimentids/[^/]+/runs/[^/]+", keys="runId properties"),
)
_BY_NAME = {step.name: step for step in _STEPS}


class Fake(EvalsService):
    """Both kinds of project. `violations` says what no real service would have taken."""

    def __init__(self, azurite_port: int) -> None:
        super().__init__()
        self.azurite = f"http://127.0.0.1:{azurite_port}"
        self.port = 0
        self.session: aiohttp.ClientSession
        self.mlflow: str | None = None
        self.secret = "sas"
        self.asked: list[Asked] = []
        self.violations: list[str] = []
        self.failures: dict[str, Failure] = {}
        self.waits: list[float] = []
        self.results: dict[str, dict[str, Any]] = {}
        self.runs: dict[str, dict[str, Any]] = {}
        self.registered: list[dict[str, Any]] = []
        self._containers: dict[str, ContainerClient] = {}
        self.container = self._new_container("workspace")

    # -- what a test looks at

    @property
    def project(self) -> str:
        return f"https://localhost:{self.port}{PROJECT}"

    @property
    def hub(self) -> dict[str, str]:
        return {
            "subscription_id": "sub-1",
            "resource_group_name": "group-1",
            "project_name": "project-1",
            "resource_manager": f"https://localhost:{self.port}",
        }

    def steps(self) -> list[str]:
        return [asked.step for asked in self.asked]

    def of(self, step: str) -> list[Asked]:
        return [asked for asked in self.asked if asked.step == step]

    def blob(self, name: str) -> bytes:
        content: bytes = self._newest(name).download_blob(name).readall()
        return content

    def blob_md5(self, name: str) -> bytes:
        blob = self._newest(name).get_blob_client(name)
        return bytes(blob.get_blob_properties().content_settings.content_md5 or b"")

    def blobs(self) -> list[str]:
        return sorted({blob.name for container in self._containers.values() for blob in container.list_blobs()})

    def _newest(self, name: str) -> ContainerClient:
        """The container that got a blob of that name last."""
        return next(
            container for container in reversed(self._containers.values()) if container.get_blob_client(name).exists()
        )

    def _new_container(self, place: str) -> str:
        """The container of a place: a workspace has one, and each version of a result one of its own."""
        if place not in self._containers:
            name = str(uuid.uuid4())
            self._containers[place] = ContainerClient(f"{self.azurite}/{ACCOUNT}", name, credential=KEY)
            self._containers[place].create_container()
        return str(self._containers[place].container_name)

    def rows(self, name: str = "instance_results.jsonl") -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.blob(name).splitlines()]

    # -- answering

    async def answer(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        step = self._step(request)
        asked = Asked(step, request.method, request.path, dict(request.query), dict(request.headers), body)
        self.asked.append(asked)
        self._check(asked)
        failure = self._failing(step)
        if failure is None:
            return await self._do(asked, request)
        if failure.after:
            await self._do(asked, request)
        if failure.cut:
            assert request.transport is not None
            request.transport.abort()
        told = {
            "error": {"code": "Broken", "message": f"{step} is down; you sent {request.headers.get('Authorization')}"}
        }
        headers = {"x-ms-request-id": f"request-{len(self.asked)}", **failure.headers}
        return web.json_response(told, status=failure.status, headers=headers)

    def _step(self, request: web.Request) -> str:
        if request.host.startswith(f"{ACCOUNT}.blob.") or request.path.startswith(f"/{ACCOUNT}/"):
            return "blob"
        found = (step for step in _STEPS if request.method == step.method and re.fullmatch(step.path, request.path))
        return next((step.name for step in found), "unknown")

    def _failing(self, step: str) -> Failure | None:
        failure = self.failures.get(step)
        if failure is None or failure.times == 0:
            return None
        failure.times -= 1
        return failure

    def _check(self, asked: Asked) -> None:
        if asked.step == "unknown":
            self.violations.append(f"no service answers {asked.method} {asked.path}")
            return
        if asked.step == "blob":
            kind = asked.headers.get("x-ms-blob-type")
            if "comp" not in asked.query and kind != "BlockBlob":
                self.violations.append(f"a blob of type {kind}")
            return
        if asked.query.get("api-version") != _BY_NAME[asked.step].version:
            self.violations.append(f"{asked.step}: api-version {asked.query.get('api-version')}")
        if asked.step == "datastore" and asked.query.get("isDefault", "").lower() != "true":
            self.violations.append("datastore: not the default one")
        kind = asked.headers.get("Content-Type", "").partition(";")[0]
        merge = asked.step in ("register", "register rows")
        if asked.body and kind != ("application/merge-patch+json" if merge else "application/json"):
            self.violations.append(f"{asked.step}: content type {kind}")
        self._check_token(asked)
        self._check_body(asked)

    def _check_token(self, asked: Asked) -> None:
        scopes = {SCOPES["foundry"]}
        if not asked.path.startswith(PROJECT):
            scopes = {"https://management.azure.com/.default", f"https://localhost:{self.port}/.default"}
        token = asked.headers.get("Authorization", "").removeprefix("Bearer ")
        if token not in {f"token for {scope}" for scope in scopes}:
            self.violations.append(f"{asked.step}: token {token!r}")

    def _check_body(self, asked: Asked) -> None:
        """The services' requirements for each body; JSON that is not strict does not get through."""
        keys = _BY_NAME[asked.step].keys.split()
        if not keys:
            return
        try:
            body = json.loads(asked.body, parse_constant=lambda word: pytest_fail(word))
        except ValueError as error:
            self.violations.append(f"{asked.step}: {error}")
            return
        if {*body} != {*keys}:
            self.violations.append(f"{asked.step}: keys {sorted(body)}")

    # -- doing

    async def _do(self, asked: Asked, request: web.Request) -> web.StreamResponse:
        if asked.step == "blob":
            return await self._forward(asked, request, f"{self.azurite}{request.raw_path}")
        if self.mlflow is not None and asked.path.startswith("/mlflow/"):
            own = f"{asked.path.partition(SCOPE)[2]}?{request.query_string}"
            return await self._forward(asked, request, self.mlflow + own)
        done = getattr(self, f"_{asked.step.replace(' ', '_')}", None)
        if done is None:
            return not_found()
        answer: web.StreamResponse = done(asked)
        return answer

    async def _forward(self, asked: Asked, request: web.Request, url: str) -> web.StreamResponse:
        kept = {name: value for name, value in asked.headers.items() if name.lower() not in ("transfer-encoding",)}
        if asked.step != "blob":
            kept.pop("Authorization", None)
            kept.pop("Host", None)
        async with self.session.request(
            asked.method, yarl.URL(url, encoded=True), data=asked.body, headers=kept, allow_redirects=False
        ) as answer:
            content = await answer.read()
            headers = {name: value for name, value in answer.headers.items() if name.lower() not in _HOP}
            return web.Response(status=answer.status, headers=headers, body=content)

    def _sas(self, container: str) -> str:
        return generate_container_sas(
            ACCOUNT,
            container,
            account_key=KEY,
            permission=ContainerSasPermissions(read=True, add=True, create=True, write=True, list=True),
            expiry=datetime.datetime.now(datetime.UTC) + datetime.timedelta(hours=1),
        )

    def _reserve(self, asked: Asked) -> web.Response:
        name, version = asked.path.split("/")[-4], asked.path.split("/")[-2]
        if f"{name}/{version}" in self.results:
            return web.json_response({"error": {"code": "Conflict", "message": "that version exists"}}, status=409)
        container = self._new_container(f"{name}/{version}")
        address = f"https://localhost:{self.port}/{ACCOUNT}/{container}"
        place = {
            "blobUri": address,
            "storageAccountArmId": "/subscriptions/x",
            "credential": {"sasUri": f"{address}?{self._sas(container)}", "type": "SAS"},
        }
        pending = {"pendingUploadId": "p", "pendingUploadType": "TemporaryBlobReference"}
        return web.json_response({"blobReferenceForConsumption": place, "blobReference": place, **pending})

    def _reserve_rows(self, asked: Asked) -> web.Response:
        container = self._new_container(asked.path)
        address = f"https://localhost:{self.port}/{ACCOUNT}/{container}"
        place = {"blobUri": address, "credential": {"sasUri": f"{address}?{self._sas(container)}", "type": "SAS"}}
        return web.json_response({"blobReference": place, "pendingUploadId": "p"})

    def read_rows(self, address: str) -> list[dict[str, Any]]:
        container, name = address.split("/")[-2:]
        assert any(container == each.container_name for each in self._containers.values())
        return self.rows(name)

    def _register(self, asked: Asked) -> web.Response:
        name, version = asked.path.split("/")[-3], asked.path.split("/")[-1]
        new = f"{name}/{version}" not in self.results
        self.results[f"{name}/{version}"] = asked.json()
        id_ = f"azureai://accounts/a/projects/project-1/evaluationresults/{name}/versions/{version}"
        return web.json_response({"id": id_, **asked.json()}, status=201 if new else 200)

    def _create(self, asked: Asked) -> web.Response:
        id_ = str(uuid.uuid4())
        self.runs[id_] = {"id": id_, **asked.json()}
        return web.json_response(self.runs[id_])

    def _complete(self, asked: Asked) -> web.Response:
        id_ = asked.path.rpartition("/")[2]
        if id_ not in self.runs:
            return not_found()
        self.runs[id_] |= asked.json()
        page = {"AiStudioEvaluationUri": f"https://ai.azure.com/resource/build/evaluation/{id_}"}
        return web.json_response({**self.runs[id_], "properties": {**self.runs[id_]["properties"], **page}})

    def _get(self, asked: Asked) -> web.Response:
        return self._found(asked.path.rpartition("/")[2])

    def _get_run(self, asked: Asked) -> web.Response:
        return self._found(asked.query["run_id"])

    def _found(self, id_: str) -> web.Response:
        if id_ not in self.runs:
            return not_found()
        return web.json_response({"id": id_, "run": {"info": self.runs[id_].get("info", {})}})

    def _list(self, asked: Asked) -> web.Response:
        # Two pages, so that a client that looks for a run has to turn them.
        runs = list(self.runs.values())
        if "page" in asked.query:
            return web.json_response({"value": runs})
        return web.json_response(
            {"value": [], "nextLink": f"{self.project}/evaluations/runs?api-version={FOUNDRY}&page=2"}
        )

    def _workspace(self, asked: Asked) -> web.Response:
        address = f"azureml://localhost:{self.port}/mlflow/v1.0{SCOPE}"
        return web.json_response({"id": SCOPE, "name": "project-1", "properties": {"mlFlowTrackingUri": address}})

    def _datastore(self, asked: Asked) -> web.Response:
        sort = {"sas": "Sas", "key": "AccountKey", "none": "None"}[self.secret]
        own = {
            "accountName": ACCOUNT,
            "endpoint": f"localhost:{self.port}",
            "containerName": self.container,
            "credentials": {"credentialsType": sort},
        }
        return web.json_response({"value": [{"name": "workspaceblobstore", "properties": own}]})

    def _secrets(self, asked: Asked) -> web.Response:
        if self.secret == "sas":
            return web.json_response({"secretsType": "Sas", "sasToken": self._sas(self.container)})
        return web.json_response({"secretsType": "AccountKey", "key": KEY})

    def _create_run(self, asked: Asked) -> web.Response:
        id_ = str(uuid.uuid4())
        body = asked.json()
        info = {"run_id": id_, "experiment_id": "experiment-0", "run_name": body["run_name"]}
        tags = {tag["key"]: tag["value"] for tag in body["tags"]}
        self.runs[id_] = {"info": info, "tags": tags, "metrics": {}, "properties": {}, "status": "RUNNING"}
        return web.json_response({"run": {"info": info}})

    def _search(self, asked: Asked) -> web.Response:
        wanted = re.fullmatch(r"tags\.`tunecheck\.upload` = '([^']+)'", asked.json()["filter"])
        assert wanted is not None
        found = [run for run in self.runs.values() if run["tags"].get("tunecheck.upload") == wanted.group(1)]
        return web.json_response({"runs": [{"info": run["info"]} for run in found]} if found else {})

    def _metric(self, asked: Asked) -> web.Response:
        body = asked.json()
        logged = self.runs[body["run_id"]]["metrics"].setdefault(body["key"], set())
        logged.add((body["timestamp"], body["value"]))
        return web.json_response({})

    def _finish(self, asked: Asked) -> web.Response:
        self.runs[asked.json()["run_id"]]["status"] = asked.json()["status"]
        return web.json_response({})

    def _register_artifact(self, asked: Asked) -> web.Response:
        self.registered.append(asked.json())
        return web.json_response({})

    def _properties(self, asked: Asked) -> web.Response:
        if asked.json()["runId"] in self.runs:
            self.runs[asked.json()["runId"]]["properties"] |= asked.json()["properties"]
        return web.json_response({})


_HOP = {"transfer-encoding", "content-encoding", "content-length", "connection", "keep-alive", "date", "server"}


def pytest_fail(word: str) -> None:
    raise ValueError(f"{word} is not JSON")


@contextlib.contextmanager
def serving(fake: Fake, chain: Path, key: Path) -> Iterator[Fake]:
    """The fake in a thread, over TLS."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(chain, key)

    @contextlib.asynccontextmanager
    async def listening() -> AsyncIterator[None]:
        app = web.Application(client_max_size=1 << 30)
        app.router.add_route("*", "/{path:.*}", fake.answer)
        runner = web.AppRunner(app)
        async with aiohttp.ClientSession(auto_decompress=False) as fake.session:
            await runner.setup()
            await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
            fake.port = runner.addresses[0][1]
            yield
            await runner.cleanup()

    with start_blocking_portal() as portal, portal.wrap_async_context_manager(listening()):
        yield fake
