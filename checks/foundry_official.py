"""Run by a python that has azure-ai-evaluation: one evaluation uploaded by it, and one by us, to the same services."""

from __future__ import annotations

import contextlib
import json
import socket
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any


class Credential:
    def get_token(self, *scopes: str, **options: Any) -> Any:
        return SimpleNamespace(token=f"token for {scopes[0]}", expires_on=4_000_000_000)


def words(*, response: str, weight: float) -> dict[str, object]:
    return {"words": len(response.split()), "weight": weight}


def find_on_loopback(names: list[str], port: int) -> None:
    """Names that the client has built in lead to the services of the test."""
    find = socket.getaddrinfo

    def found(host: Any, asked: Any, *rest: Any, **more: Any) -> Any:
        if host in names:
            return find("127.0.0.1", port if asked in (443, "443", "https") else asked, *rest, **more)
        return find(host, asked, *rest, **more)

    socket.getaddrinfo = found  # type: ignore[assignment]


def main(given: dict[str, Any]) -> None:
    find_on_loopback(given["names"], given["port"])
    from azure.ai.evaluation import F1ScoreEvaluator, evaluate

    import tunecheck
    from tunecheck.runs._store import Run
    from tunecheck_azure._foundry.upload import FoundryUploader

    pages = []
    for project, ours in given["projects"]:
        options: dict[str, Any] = {
            "data": given["data"],
            "evaluators": {"f1": F1ScoreEvaluator(), "words": words},
            "evaluation_name": "iteration 7",
            "tags": {"team": "blue"},
        }
        with contextlib.redirect_stdout(sys.stderr):
            theirs = evaluate(**options, azure_ai_project=project, credential=Credential())
            pages.append(theirs["studio_url"])
            run = tunecheck.evaluate(**options, results_dir=Path(given["data"]).parent / "runs").run_dir
            pages.append(FoundryUploader(ours, credential=Credential()).upload(Run(run)).url)
    print(json.dumps(pages))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
