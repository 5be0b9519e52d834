"""The files of a command job: its YAML and the Docker file of its environment."""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from tunecheck import ConfigurationError
from tunecheck.plugins import JSON

_SCHEMA = "https://azuremlschemas.azureedge.net/latest/commandJob.schema.json"
_IDENTITIES = {"managed": "managed", "user": "user_identity", "token": "aml_token"}
_REMOTE = re.compile(r"azureml:|[a-z]+://")
_DATA_INPUT, _RESULTS_OUTPUT = "dataset", "results"


@dataclass(frozen=True, kw_only=True)
class CommandJob:
    """A job that runs `tunecheck evaluate` in a copy of the workspace.

    `arguments` are those of evaluate, without --dataset; `dataset` is a path in the workspace, a file elsewhere, or
    what Azure ML calls by an address (`azureml:val:3`). `requirements` are installed into the environment; a `wheel`
    takes the place of the published package. `output` is a path of a datastore for the results, or of blob storage
    (`az://…`). Several `instances` are a Ray cluster: the command runs on its head, the rows on all machines.
    """

    name: str
    compute: str
    arguments: Sequence[str]
    dataset: str
    requirements: Sequence[str] = ()
    wheel: Path | None = None
    image: str = f"python:{sys.version_info.major}.{sys.version_info.minor}-slim"
    variables: Mapping[str, str] = field(default_factory=dict)
    identity: str | None = None
    experiment: str = "tunecheck"
    output: str | None = None
    instances: int = 1

    def yaml_text(self, folder: Path, workspace: Path) -> str:
        """The job's YAML, with paths as seen from the folder in which it will stand.

        Raises:
            ConfigurationError: a word of the command, or an identity, is none that Azure ML takes.
        """
        job: dict[str, JSON] = {
            "$schema": _SCHEMA,
            "type": "command",
            "display_name": self.name,
            "experiment_name": self.experiment,
            "code": _seen_from(folder, workspace),
            "command": self._command(workspace),
            "inputs": self._inputs(folder, workspace),
            "outputs": {} if is_storage(self.output) else {_RESULTS_OUTPUT: self._results()},
            "environment": {"build": {"path": "environment"}},
            "environment_variables": dict(self.variables),
            "compute": self.compute if is_remote(self.compute) else f"azureml:{self.compute}",
            "identity": None if self.identity is None else {"type": _identity(self.identity)},
            # Azure ML starts a Ray cluster on the job's machines and runs the command on its head.
            "distribution": {"type": "ray"} if self.instances > 1 else None,
            "resources": {"instance_count": self.instances},
        }
        return yaml.safe_dump(
            {key: value for key, value in job.items() if value}, sort_keys=False, allow_unicode=True, width=120
        )

    def dockerfile(self) -> str:
        """The Docker file of the environment: a Python image, and what the job needs in it."""
        lines = [f"FROM {self.image}"]
        if self.wheel is not None:
            lines.append(f"COPY {self.wheel.name} ./")
        lines.append(f"RUN pip install --no-cache-dir {shlex.join(self.requirements)}")
        return "\n".join(lines) + "\n"

    def _command(self, workspace: Path) -> str:
        # For the shell of a Linux container, whatever system this one is.
        words = [shlex.quote(_check_word(word)) for word in self.arguments]
        dataset = f"${{{{inputs.{_DATA_INPUT}}}}}"
        if not is_input(self.dataset, workspace):
            dataset = shlex.quote(_check_word(self.dataset))
        results = f"--results-dir ${{{{outputs.{_RESULTS_OUTPUT}}}}}"
        if self.output is not None and is_storage(self.output):
            results = f"--results-dir {shlex.quote(_check_word(self.output))}"
        elsewhere = ["--on ray:auto"] if self.instances > 1 else []
        return " ".join(["tunecheck evaluate --dataset", dataset, *words, results, *elsewhere])

    def _inputs(self, folder: Path, workspace: Path) -> JSON:
        if not is_input(self.dataset, workspace):
            return {}
        path = self.dataset if is_remote(self.dataset) else _seen_from(folder, Path(self.dataset))
        return {_DATA_INPUT: {"type": "uri_file", "mode": "download", "path": path}}

    def _results(self) -> JSON:
        # Not a mount: what a run appends and syncs would not be kept there as on a disk.
        results: dict[str, JSON] = {"type": "uri_folder", "mode": "upload"}
        return results if self.output is None else {**results, "path": self.output}


def is_storage(output: str | None) -> bool:
    """Whether results go to blob storage as the run writes them, not to an output of the job."""
    return output is not None and output.startswith("az://")


def is_remote(name: str) -> bool:
    """Whether a name is an address that Azure ML follows."""
    return _REMOTE.match(name) is not None


def is_input(dataset: str, workspace: Path) -> bool:
    """Whether data do not come with the workspace."""
    return is_remote(dataset) or not (workspace / dataset).resolve().is_relative_to(workspace.resolve())


def _check_word(word: str) -> str:
    if "${{" in word:
        raise ConfigurationError(
            f"{word!r}: Azure ML fills in ${{{{…}}}} of a job's command itself; write it otherwise"
        )
    return word


def _identity(name: str) -> str:
    if name not in _IDENTITIES:
        raise ConfigurationError(f"--identity {name}: give {', '.join(_IDENTITIES)}")
    return _IDENTITIES[name]


def _seen_from(folder: Path, path: Path) -> str:
    return Path(os.path.relpath(path.resolve(), folder.resolve())).as_posix()
