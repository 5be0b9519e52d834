"""Handing a job over to Azure Machine Learning: by `az`, or by azure-ai-ml where that is installed."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from tunecheck import ConfigurationError, TunecheckError
from tunecheck.plugins import clean, command_line


@dataclass(frozen=True, kw_only=True)
class AzureWorkspace:
    """Where a job is to run; what is None, `az` knows from its own defaults."""

    workspace: str | None = None
    resource_group: str | None = None
    subscription: str | None = None

    def arguments(self) -> list[str]:
        """As `az ml` takes them."""
        given = {
            "--workspace-name": self.workspace,
            "--resource-group": self.resource_group,
            "--subscription": self.subscription,
        }
        return [word for flag, value in given.items() if value is not None for word in (flag, value)]


def az_command(job: Path, where: AzureWorkspace) -> Sequence[str]:
    """The command that submits a job's file."""
    return ["az", "ml", "job", "create", "--file", str(job), *where.arguments()]


def submit(job: Path, where: AzureWorkspace) -> str:
    """Submit a job; gives what there is to say of it: where it can be watched.

    Raises:
        ConfigurationError: neither `az` nor azure-ai-ml is there, or azure-ai-ml needs to be told the workspace.
        TunecheckError: the job was not taken.
    """
    az = shutil.which("az")
    if az is not None:
        return _submit_by_az(az, job, where)
    if find_spec("azure.ai") is not None and find_spec("azure.ai.ml") is not None:
        return _submit_by_package(job, where)
    raise ConfigurationError(
        "--submit needs the Azure CLI with its extension (az extension add --name ml), or pip install azure-ai-ml "
        "azure-identity; the job's file is written"
    )


def _submit_by_az(az: str, job: Path, where: AzureWorkspace) -> str:
    command = [az, *az_command(job, where)[1:], "--query", "services.Studio.endpoint", "--output", "tsv"]
    done = subprocess.run(  # noqa: S603 - the Azure CLI, with words that the user typed
        command, stdin=subprocess.DEVNULL, capture_output=True, encoding="utf-8", errors="replace"
    )
    if done.returncode != 0:
        said = done.stderr.strip().splitlines()
        raise TunecheckError(
            f"az did not take the job: {clean(said[-1] if said else f'exit {done.returncode}', 1_000)}"
        )
    return done.stdout.strip()


def _submit_by_package(job: Path, where: AzureWorkspace) -> str:
    from azure.ai.ml import MLClient, load_job
    from azure.core.exceptions import AzureError
    from azure.identity import DefaultAzureCredential

    missing = [word for word in ("subscription", "resource_group", "workspace") if getattr(where, word) is None]
    if missing:
        flags = ", ".join("--" + name.replace("_", "-") for name in missing)
        raise ConfigurationError(f"--submit by azure-ai-ml needs {flags}")
    client = MLClient(DefaultAzureCredential(), where.subscription, where.resource_group, where.workspace)
    try:
        made = client.jobs.create_or_update(load_job(job))
    except AzureError as error:
        raise TunecheckError(f"Azure ML did not take the job: {clean(error, 1_000)}") from None
    return str(made.studio_url)


def by_hand(job: Path, where: AzureWorkspace) -> str:
    """The command to type where it is not submitted here."""
    return command_line(az_command(job, where))
