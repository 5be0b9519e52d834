"""A real MLflow server in an environment of its own, on loopback; this file is also what that environment runs."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

__all__ = ["MLFLOW", "mlflow_server"]

MLFLOW = ("mlflow==3.17.2",)


@contextlib.contextmanager
def mlflow_server(python: Path, folder: Path) -> Iterator[str]:
    """A server with a database in `folder`, through which clients send their files; gives its address."""
    from tests.foundry_azurite import free_port, wait_until_up

    port = free_port()
    own = {
        "_MLFLOW_SERVER_FILE_STORE": f"sqlite:///{folder}/mlflow.db",
        "_MLFLOW_SERVER_ARTIFACT_ROOT": "mlflow-artifacts:/",
        "_MLFLOW_SERVER_ARTIFACT_DESTINATION": str(folder / "artifacts"),
        "_MLFLOW_SERVER_SERVE_ARTIFACTS": "true",
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "DO_NOT_TRACK": "true",
    }
    with (folder / "server.log").open("wb") as log:
        command = [str(python), str(Path(__file__)), str(port)]
        # The application alone, in one process: the server's own command starts four, which takes a minute.
        with subprocess.Popen(command, cwd=folder, env=os.environ | own, stdout=log, stderr=log) as process:
            try:
                wait_until_up(f"http://127.0.0.1:{port}/health", process)
                yield f"http://127.0.0.1:{port}"
            finally:
                process.terminate()


def _serve(port: int) -> None:
    import uvicorn
    from mlflow.server.fastapi_app import app

    uvicorn.run(app, host="127.0.0.1", port=port, log_level="warning")


if __name__ == "__main__":
    _serve(int(sys.argv[1]))
