"""`tunecheck azureml job`: write an evaluation as a job of Azure Machine Learning, and submit it."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from tunecheck import ConfigurationError, TunecheckError, __version__
from tunecheck.cli import DONE, Invocation, JsonOptions, argument, command, flag, option, print_json
from tunecheck.plugins import JSON, clean, command_line, dumps, write_file

if TYPE_CHECKING:
    from tunecheck.cli import Options


_SCHEMA = "https://azuremlschemas.azureedge.net/latest/commandJob.schema.json"
_IDENTITIES = {"managed": "managed", "user": "user_identity", "token": "aml_token"}
_REMOTE = re.compile(r"azureml:|[a-z]+://")
_DATA_INPUT, _RESULTS_OUTPUT = "dataset", "results"


@dataclass(frozen=True, kw_only=True)
class CommandJob:
    """A job that runs `tunecheck evaluate` in a copy of the workspace.

    `arguments` are the arguments of `evaluate` without --dataset. `dataset` is a path in the workspace, a file outside
    it, or an address that Azure ML resolves (`azureml:val:3`). `requirements` are installed into the environment. If a
    `wheel` is given, it replaces the published package. `output` is a path in a datastore or in blob storage
    (`az://…`) for the results. Several `instances` form a Ray cluster: the command runs on the head node, and rows run
    on all machines.
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
        """Return the job's YAML, with paths relative to the folder of the YAML file.

        Raises:
            ConfigurationError: Azure ML cannot take an argument of the command, or does not know the identity.
        """
        import yaml

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
        """Return the Dockerfile of the environment: a Python image with the job's requirements."""
        lines = [f"FROM {self.image}"]
        if self.wheel is not None:
            lines.append(f"COPY {self.wheel.name} ./")
        lines.append(f"RUN pip install --no-cache-dir {shlex.join(self.requirements)}")
        return "\n".join(lines) + "\n"

    def _command(self, workspace: Path) -> str:
        # The shell of a Linux container reads the command, also if it is written on Windows.
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
        # Not a mount, because a mounted output does not reliably keep what a run appends and syncs.
        results: dict[str, JSON] = {"type": "uri_folder", "mode": "upload"}
        return results if self.output is None else {**results, "path": self.output}


def is_storage(output: str | None) -> bool:
    """Return whether the run writes its results to blob storage, and not to an output of the job."""
    return output is not None and output.startswith("az://")


def is_remote(name: str) -> bool:
    """Return whether a name is an address that Azure ML resolves."""
    return _REMOTE.match(name) is not None


def is_input(dataset: str, workspace: Path) -> bool:
    """Return whether the data are an input of the job, because they are not in the workspace."""
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


_WHERE = "Azure ML"
_NOT_IN_A_JOB = ("resume", "results_dir", "dry_run", "reuse")
_READ = re.compile(rb"\$\{env:(\w+)(?::plain)?\}")
_AMLIGNORE = b"eval_results/\n.venv/\n.git/\n__pycache__/\nazureml/\n"


@dataclass(frozen=True, kw_only=True)
class JobOptions(JsonOptions):
    arguments: list[str] = argument("What evaluate is to be given, behind --.", "-- --dataset FILE …")
    compute: str = option("Compute that runs the job.", "NAME", _WHERE)
    name: str | None = option("The job's name and its folder's; by default the data set's.", "NAME")
    out: Path | None = option("The folder to write; by default azureml/ and the name.", "DIR")
    experiment: str = option("Experiment that lists the job.", "NAME", _WHERE, default="tunecheck")
    identity: str | None = option(
        "Identity of the job for endpoints without a key: managed (the compute's), user (the submitter's) or token "
        "(the workspace's).",
        "WHO",
        _WHERE,
    )
    output: str | None = option(
        "Where results are kept: azureml://datastores/NAME/paths/evals/, or az://container/prefix; by default with the "
        "job.",
        "PATH",
        _WHERE,
    )
    instances: int = option("Machines to use; more than one are a Ray cluster.", "N", _WHERE, default=1, least=1)
    image: str | None = option("The image of the environment; by default Python's.", "IMAGE")
    install: list[str] | None = option("One more package for the environment (repeatable).", "REQUIREMENT")
    wheel: Path | None = option("A wheel of tunecheck, in place of the published one.", "FILE")
    env: list[str] | None = option("A variable of the job; no secrets (repeatable).", "NAME=VALUE")
    overwrite: bool = flag("Replace files that are there.")
    submit: bool = flag("Submit it, with az or azure-ai-ml.", _WHERE)
    workspace: str | None = option("The Azure ML workspace.", "NAME", _WHERE)
    resource_group: str | None = option("Its resource group.", "NAME", _WHERE)
    subscription: str | None = option("Its subscription.", "ID", _WHERE)


@command(JobOptions)
def job(options: JobOptions, invocation: Invocation) -> int:
    """Write an evaluation as a command job of Azure Machine Learning, and with --submit hand it over.

    The job runs in a copy of this folder, and its results are an output of the job: download them, and every command
    reads them. The words behind -- are arguments of `tunecheck evaluate`:

    tunecheck azureml job --compute cpu -- --dataset val.jsonl --endpoint my-endpoint
    """

    given = _evaluate_options(options.arguments)
    name = options.name or _name(given.dataset)
    folder = options.out or Path("azureml") / name
    file = _write(_describe(options, given, name), folder, overwrite=options.overwrite)
    where = AzureWorkspace(
        workspace=options.workspace, resource_group=options.resource_group, subscription=options.subscription
    )
    read = {*_variables_read(given), *(["AZURE_STORAGE_ACCOUNT_NAME"] if is_storage(options.output) else [])}
    needed = sorted(read - _variables(options.env).keys())
    at = submit(file, where) if options.submit else None
    if options.json:
        print_json({"job": str(file), "submit": by_hand(file, where), "url": at, "variables_needed": [*needed]})
        return DONE
    print(f"written {file}")
    for variable in needed:
        print(
            f"{clean(variable)} is read from the environment, but the job does not set it. For a secret, use "
            "auth: {type: entra} in the endpoint and --identity instead; for other values, --env NAME=VALUE"
        )
    print(f"submitted: {clean(at)}" if at is not None else f"submit it:  {by_hand(file, where)}")
    return DONE


def _evaluate_options(arguments: list[str]) -> Options:
    """Return the options of `evaluate` for these arguments. Refuse options that cannot be used in a job."""
    from tunecheck.cli import evaluate

    # Wrong arguments are refused here, before a job waits for its machine.
    options = evaluate.parse("tunecheck evaluate", arguments)
    wrong = next((name for name in _NOT_IN_A_JOB if name in options.given()), None)
    if wrong is not None:
        raise ConfigurationError(f"--{wrong.replace('_', '-')}: a job makes a run of its own, in its own output")
    return options


def _describe(options: JobOptions, given: Options, name: str) -> CommandJob:

    wheel = options.wheel
    if wheel is not None and not wheel.is_file():
        raise ConfigurationError(f"--wheel {wheel}: there is no such file")
    shared = is_storage(options.output)
    if given.on is not None:
        raise ConfigurationError("--on: give --instances N in front of the --")
    chosen = ",".join([*(["azure-storage"] if shared else []), *(["ray"] if options.instances > 1 else [])])
    chosen = f"[{chosen}]" if chosen else ""
    package = f"./{wheel.name}{chosen}" if wheel is not None else f"tunecheck{chosen}=={__version__}"
    extras = ["azure-identity"] if options.identity is not None else []
    image = {} if options.image is None else {"image": options.image}
    return CommandJob(
        name=name,
        compute=options.compute,
        arguments=_without_dataset(options.arguments),
        dataset=_checked_data(given.dataset),
        requirements=[package, *extras, *(options.install or [])],
        wheel=wheel,
        variables=_variables(options.env),
        identity=options.identity,
        experiment=options.experiment,
        output=options.output,
        instances=options.instances,
        **image,
    )


def _checked_data(dataset: str | None) -> str:
    """Return the data set's name. Refuse local data that are missing or have a sidecar file outside the workspace."""
    from tunecheck.datasets import open_dataset, sidecar_path

    if dataset is None:
        raise ConfigurationError("no data: give --dataset behind the --")
    if not is_remote(dataset):
        open_dataset(dataset)
    beside = sidecar_path(Path(dataset))
    if is_input(dataset, Path()) and beside.exists():
        raise ConfigurationError(
            f"{beside} would not be copied with the data set: copy it and {dataset} into datasets/"
        )
    return dataset


def _without_dataset(arguments: list[str]) -> list[str]:
    left: list[str] = []
    words = iter(arguments)
    for word in words:
        if word == "--dataset":
            next(words, None)
        elif not word.startswith("--dataset="):
            left.append(word)
    return left


def _variables(entries: list[str] | None) -> dict[str, str]:
    variables: dict[str, str] = {}
    for entry in entries or []:
        name, equals, value = entry.partition("=")
        if not equals or not name:
            raise ConfigurationError(f"--env {entry!r}: write NAME=VALUE")
        variables[name] = value
    return variables


def _variables_read(given: Options) -> Iterator[str]:
    """Yield the environment variables that the definitions of the endpoint and the judge read."""
    from tunecheck.cli import is_embedded
    from tunecheck.endpoints import read_definition

    for name in (given.endpoint, given.judge):
        if name is not None and not is_embedded(name):
            yield from (found.decode() for found in _READ.findall(dumps(read_definition(name).data)))


def _name(dataset: str | None) -> str:
    stem = "evaluation" if dataset is None else Path(dataset.partition(":")[2] or dataset).stem
    return re.sub(r"[^\w.-]+", "-", stem, flags=re.ASCII).strip("-.") or "evaluation"


def _write(job: CommandJob, folder: Path, *, overwrite: bool) -> Path:
    """Write the job's folder, and return the path of the YAML file."""
    file = folder / "job.yml"
    if file.exists() and not overwrite:
        raise ConfigurationError(f"{file} is there already: give --overwrite to replace it, or another --name")
    text = job.yaml_text(folder, Path())
    environment = folder / "environment"
    environment.mkdir(parents=True, exist_ok=True)
    write_file(environment / "Dockerfile", job.dockerfile().encode())
    if job.wheel is not None:
        shutil.copyfile(job.wheel, environment / job.wheel.name)
    if not any(Path(name).exists() for name in (".amlignore", ".gitignore")):
        write_file(Path(".amlignore"), _AMLIGNORE)
    write_file(file, text.encode())
    return file


# -- submitting: by `az`, or by azure-ai-ml if `az` is not installed


@dataclass(frozen=True, kw_only=True)
class AzureWorkspace:
    """The Azure ML workspace of a job. For fields that are None, the defaults of `az` are used."""

    workspace: str | None = None
    resource_group: str | None = None
    subscription: str | None = None

    def arguments(self) -> list[str]:
        """Return the options of `az ml`."""
        given = {
            "--workspace-name": self.workspace,
            "--resource-group": self.resource_group,
            "--subscription": self.subscription,
        }
        return [word for flag, value in given.items() if value is not None for word in (flag, value)]


def az_command(job: Path, where: AzureWorkspace) -> Sequence[str]:
    """Return the command that submits a job's file."""
    return ["az", "ml", "job", "create", "--file", str(job), *where.arguments()]


def submit(job: Path, where: AzureWorkspace) -> str:
    """Submit a job, and return the address of its page in the studio.

    Raises:
        ConfigurationError: neither `az` nor azure-ai-ml is installed, or azure-ai-ml needs the workspace.
        TunecheckError: Azure ML refused the job.
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
    """Return the command with which the user can submit the job."""
    return command_line(az_command(job, where))
