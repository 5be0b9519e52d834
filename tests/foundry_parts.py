"""Shared parts of the tests of uploads: a finished run, a credential, services on loopback, names that resolve."""

import socket
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.foundry_fake import NAMES, Fake, certificate, serving

from tunecheck import Run, evaluate
from tunecheck_azure import FoundryUploader

ROWS = [
    {"id": "a", "response": "Rome is sunny", "ground_truth": "Rome is very sunny", "weight": 0.1 + 0.2},
    {"id": "b", "response": "café = 5 €", "ground_truth": "café = 5 €", "weight": 1 / 3},
    {"id": "c", "response": "", "ground_truth": "nothing", "weight": 12345678901234567890},
]


class Credential:
    """Gives tokens that say what they are for; counts its calls."""

    def __init__(self) -> None:
        self.scopes: list[str] = []

    def get_token(self, *scopes: str, **options: Any) -> Any:
        self.scopes += scopes
        return SimpleNamespace(token=f"token for {scopes[0]}", expires_on=4_000_000_000)


def length(*, response: str, weight: float) -> dict[str, object]:
    return {"words": len(response.split()), "weight": weight, "note": "ok" if response else None}


def finished_run(folder: Path, rows: list[dict[str, Any]] | None = None, **options: Any) -> Run:
    """A run of two evaluators over a few rows."""
    evaluators = {"my_f1": "f1_score", "length": length}
    given = {"data": rows or ROWS, "evaluators": evaluators, "evaluation_name": "iteration 7", **options}
    return Run(evaluate(results_dir=folder, **{"tags": {"team": "blue"}, **given}).run_dir)


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return certificate(tmp_path_factory.mktemp("certificates"))


@pytest.fixture
def fake(blob_port: int, certificates: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> Iterator[Fake]:
    """The services; this process trusts their certificate, finds their names on loopback, and only notes waits."""
    monkeypatch.setenv("SSL_CERT_FILE", str(certificates[0]))
    waits: list[float] = []
    monkeypatch.setattr(time, "sleep", waits.append)  # of Azure's clients
    find = socket.getaddrinfo
    monkeypatch.setattr(
        socket, "getaddrinfo", lambda host, *rest, **more: find("127.0.0.1" if host in NAMES else host, *rest, **more)
    )
    with serving(Fake(blob_port), *certificates) as found:
        found.waits = waits
        yield found
        assert found.violations == []


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return finished_run(tmp_path / "runs")


def uploader(project: object, **options: Any) -> FoundryUploader:
    """An uploader that is signed in."""
    given: dict[str, Any] = {"credential": Credential(), **options}
    return FoundryUploader(project, **given)
