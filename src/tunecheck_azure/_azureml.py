"""`tunecheck azureml job`: write an evaluation as a job of Azure Machine Learning, and submit it.

The command writes a folder, by default azureml/NAME:

  job.yml                   the job: command, data, results, compute, identity
  environment/Dockerfile    a Python image with Tunecheck
  environment/*.whl         only with --wheel

Azure ML copies the working folder into the job, except what .amlignore lists. The data set is in that copy, or it is
an input that Azure ML downloads, by the first line that fits:

  an address, such as azureml:val:1 or https://…   an input
  a path outside the working folder                an input, which Azure ML uploads from this machine
  a path in the working folder                     part of the copy
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import MISSING
from pathlib import Path

from tunecheck import ConfigurationError, TunecheckError, __version__, cli
from tunecheck.endpoints import looks_secret, storable_settings
from tunecheck.plugins import JSON, clean, command_line, dumps, write_file

_SCHEMA = "https://azuremlschemas.azureedge.net/latest/commandJob.schema.json"
_IDENTITIES = {"managed": "managed", "user": "user_identity", "token": "aml_token"}
"""The words of --identity, and the identity types of Azure ML."""

# An address for Azure ML: azureml:val:1, azureml://datastores/… or https://host/val.jsonl.
_REMOTE = re.compile(r"azureml:|[a-z]+://")

_DATA_INPUT, _RESULTS_OUTPUT = "dataset", "results"
"""The names of the job's input and output, as in `${{inputs.dataset}}`."""

_PANEL = "Azure ML"

# A job is a new run, and its results go to an output or to --output.
_NOT_IN_A_JOB = ("resume", "results_dir", "dry_run", "reuse")

# A reference to an environment variable in a definition: ${env:NAME}, or ${env:NAME:plain} for a value that is no
# secret.
_VARIABLE = re.compile(rb"\$\{env:(\w+)(?::plain)?\}")
_SECRETS = "For secrets, use auth: {type: entra} in the endpoint and --identity; for other values, --env NAME=VALUE"
_AGAIN = "correct the cause, and repeat the command with --overwrite"
_AMLIGNORE = (
    b"eval_results/\n.venv/\n.git/\n__pycache__/\nazureml/\n"
    b".env\n.env.*\n*.env\n*.pem\n*.key\n*.pfx\nid_rsa*\nid_ed25519*\n.netrc\n.pypirc\n"
)
"""Patterns of what is not copied into the job: folders that it does not need, and files that may hold secrets."""


class JobOptions(cli.JsonOptions):
    arguments: list[str] = cli.argument("Arguments of `tunecheck evaluate`, after --.", "-- --dataset FILE …")
    compute: str = cli.option("Compute that runs the job.", "NAME", _PANEL, default=MISSING)
    name: str | None = cli.option("Name of the job and of its folder; default: the data set's name.", "NAME")
    out: Path | None = cli.option("Folder to write; default: azureml/NAME.", "DIR")
    experiment: str = cli.option("Experiment that lists the job.", "NAME", _PANEL, default="tunecheck")
    identity: str | None = cli.option(
        "Identity for endpoints without a key: managed (the compute's), user (yours) or token (Azure ML's).",
        "WHO",
        _PANEL,
    )
    output: str | None = cli.option(
        "Results: azureml://datastores/NAME/paths/evals/ or az://container/prefix; default: a job output.",
        "PATH",
        _PANEL,
    )
    instances: int = cli.option("Number of machines; several form a Ray cluster.", "N", _PANEL, default=1, least=1)
    image: str | None = cli.option("Base image of the Docker environment; default: python:VERSION-slim.", "IMAGE")
    install: list[str] | None = cli.option("Package to add to the environment (repeatable).", "REQUIREMENT")
    wheel: Path | None = cli.option("Wheel of tunecheck to install instead of the published package.", "FILE")
    env: list[str] | None = cli.option("Environment variable of the job; not for secrets (repeatable).", "NAME=VALUE")
    overwrite: bool = cli.flag("Replace existing files.")
    submit: bool = cli.flag("Also submit the job, with the Azure CLI or azure-ai-ml.", _PANEL)
    workspace: str | None = cli.option("The Azure ML workspace.", "NAME", _PANEL)
    resource_group: str | None = cli.option("The workspace's resource group.", "NAME", _PANEL)
    subscription: str | None = cli.option("The workspace's subscription.", "ID", _PANEL)


@cli.command(JobOptions)
def job(options: JobOptions, invocation: cli.Invocation) -> int:
    """Write the file of an Azure Machine Learning command job that runs an evaluation; --submit also submits the job.

    The job runs in a copy of this folder. The results are an output of the job. After a download, every command can
    read the results. The words after -- are arguments of `tunecheck evaluate`:

    tunecheck azureml job --compute cpu -- --dataset val.jsonl --endpoint my-endpoint
    """
    evaluation = _evaluate_options(options)
    name = options.name or _default_name(evaluation.dataset)
    file = _write_job(options, _checked_data(evaluation.dataset), name)

    # A run that writes to az:// reads the name of the storage account from the environment.
    read = {*_variables_read(evaluation), *(["AZURE_STORAGE_ACCOUNT_NAME"] if _is_storage(options.output) else [])}
    missing = sorted(read - _job_variables(options.env).keys())

    command = command_line(_az_command(file, options))
    url = _submit(file, options) if options.submit else None

    if options.json:
        cli.print_json({"job": str(file), "submit": command, "url": url, "variables_needed": [*missing]})
        return cli.DONE
    print(f"written {file}")
    for variable in missing:
        print(f"the evaluation reads the environment variable {clean(variable)}, which the job does not set.", _SECRETS)
    print(f"submitted: {clean(url)}" if url is not None else f"submit it:  {command}")
    return cli.DONE


def _evaluate_options(options: JobOptions) -> cli.Options:
    """Return the parsed options of `evaluate` after `--`. Refuse options that cannot be used in a job."""
    # Wrong arguments are refused here, before a job waits for its machine.
    parsed = cli.evaluate.parse("tunecheck evaluate", options.arguments)
    refused = next((name for name in _NOT_IN_A_JOB if name in parsed.given()), None)
    if refused is not None:
        raise ConfigurationError(f"--{refused.replace('_', '-')} does not work in a job; leave out this option")
    if options.wheel is not None and not options.wheel.is_file():
        raise ConfigurationError(f"--wheel {options.wheel}: there is no such file; give the path of a wheel")
    if parsed.on is not None:
        raise ConfigurationError("--on does not work in a job; for several machines, give --instances N before `--`")
    return parsed


def _checked_data(dataset: str | None) -> str:
    """Return the data set's name, after checks that need no job.

    Raises:
        ConfigurationError: no data set is given, or its sidecar file would not be copied with it.
        DataError: local data is missing or cannot be read.
    """
    from tunecheck.datasets import open_dataset, sidecar_path

    if dataset is None:
        raise ConfigurationError("no data set is given; give --dataset FILE after the `--`")

    # Opened once, so that a mistake is found here and not after the wait for a machine.
    if not _is_remote(dataset):
        open_dataset(dataset)

    sidecar = sidecar_path(Path(dataset))
    if _is_input(dataset) and sidecar.exists():
        raise ConfigurationError(f"{dataset}: the job would lack its sidecar {sidecar}; move both files into datasets/")
    return dataset


def _without_dataset(arguments: list[str]) -> list[str]:
    """Return the arguments without `--dataset` and its value, because the job has its own path for the data."""
    kept_words: list[str] = []
    words = iter(arguments)
    for word in words:
        # The value is the next word.
        if word == "--dataset":
            next(words, None)
        elif not word.startswith("--dataset="):
            kept_words.append(word)
    return kept_words


def _job_variables(entries: list[str] | None) -> dict[str, str]:
    """Return the variables of --env by name.

    Raises:
        ConfigurationError: an entry has no name or no `=`, or would write a secret into the job's file.
    """
    variables: dict[str, str] = {}
    for entry in entries or []:
        name, equals, value = entry.partition("=")
        if not equals or not name:
            raise ConfigurationError(f"--env {entry!r}: a variable must have the form NAME=VALUE")

        if looks_secret(name, value) or storable_settings(value, name) != value:
            raise ConfigurationError(f"--env {name}: job.yml would show this possible secret. {_SECRETS}")

        variables[name] = value
    return variables


def _variables_read(options: cli.Options) -> Iterator[str]:
    """Yield the environment variables that the definitions of the endpoint and the judge read."""
    from tunecheck.endpoints import read_definition

    for name in (options.endpoint, options.judge):
        if name is not None and not cli.is_embedded(name):
            yield from (name_bytes.decode() for name_bytes in _VARIABLE.findall(dumps(read_definition(name).data)))


def _default_name(dataset: str | None) -> str:
    """Return a name for the job, made from the data set's name; "evaluation" if that gives none."""
    # The part after the colon of a data set such as bfcl:simple_python.
    stem = "evaluation" if dataset is None else Path(dataset.partition(":")[2] or dataset).stem
    return re.sub(r"[^\w.-]+", "-", stem, flags=re.ASCII).strip("-.") or "evaluation"


def _write_job(options: JobOptions, dataset: str, name: str) -> Path:
    """Write the job's folder (job.yml, environment, wheel) and, if needed, `.amlignore`; return the path of job.yml.

    Raises:
        ConfigurationError: job.yml exists already, Azure ML cannot take an argument, or the identity is unknown.
    """
    folder = options.out or Path("azureml") / name
    file = folder / "job.yml"
    if file.exists() and not options.overwrite:
        raise ConfigurationError(f"{file} exists; choose another --out, or replace the file with --overwrite")

    # Before anything is written: this refuses wrong arguments.
    text = _job_yaml(options, dataset, name, folder)
    environment = folder / "environment"
    environment.mkdir(parents=True, exist_ok=True)
    write_file(environment / "Dockerfile", _dockerfile(options).encode())
    if options.wheel is not None:
        shutil.copyfile(options.wheel, environment / options.wheel.name)

    ignored = Path(".amlignore")
    if not ignored.exists():  # Azure ML then no longer reads .gitignore, so its lines are copied
        source = Path(".gitignore")
        write_file(ignored, (source.read_bytes().rstrip(b"\n") + b"\n" if source.is_file() else b"") + _AMLIGNORE)

    # Last, so that a job.yml means a complete folder.
    write_file(file, text.encode())
    return file


def _job_yaml(options: JobOptions, dataset: str, name: str, folder: Path) -> str:
    """Return the job's YAML, with paths relative to the folder of the YAML file.

    Raises:
        ConfigurationError: the identity is unknown, an argument contains `${{`, or a variable of --env is refused.
    """
    import yaml

    compute, identity = options.compute, options.identity
    if identity is not None and identity not in _IDENTITIES:
        raise ConfigurationError(f"--identity {identity}: the identity must be one of {', '.join(_IDENTITIES)}")

    path = dataset if _is_remote(dataset) else _relative_path(folder, Path(dataset))
    # Not mounts, because a mounted output does not reliably keep what a run appends and syncs.
    results: dict[str, JSON] = {"type": "uri_folder", "mode": "upload"}
    results |= {} if options.output is None else {"path": options.output}
    job: dict[str, JSON] = {
        "$schema": _SCHEMA,
        "type": "command",
        "display_name": name,
        "experiment_name": options.experiment,
        "code": _relative_path(folder, Path()),
        "command": _evaluate_command(options, dataset),
        "inputs": {_DATA_INPUT: {"type": "uri_file", "mode": "download", "path": path}} if _is_input(dataset) else {},
        "outputs": {} if _is_storage(options.output) else {_RESULTS_OUTPUT: results},
        "environment": {"build": {"path": "environment"}},
        "environment_variables": {**_job_variables(options.env)},
        "compute": compute if _is_remote(compute) else f"azureml:{compute}",
        "identity": None if identity is None else {"type": _IDENTITIES[identity]},
        # Azure ML starts a Ray cluster on the job's machines and runs the command on its head.
        "distribution": {"type": "ray"} if options.instances > 1 else None,
        "resources": {"instance_count": options.instances},
    }

    settings = {key: value for key, value in job.items() if value}
    return yaml.safe_dump(settings, sort_keys=False, allow_unicode=True, width=120)


def _dockerfile(options: JobOptions) -> str:
    """Return the Dockerfile of the environment: a Python image with Tunecheck, as published or from a wheel."""
    wheel = options.wheel
    extras = [*(["azure-storage"] if _is_storage(options.output) else []), *(["ray"] if options.instances > 1 else [])]
    suffix = f"[{','.join(extras)}]" if extras else ""
    package = f"./{wheel.name}{suffix}" if wheel is not None else f"tunecheck{suffix}=={__version__}"

    packages = [package, *(["azure-identity"] if options.identity is not None else []), *(options.install or [])]

    lines = [f"FROM {options.image or f'python:{sys.version_info.major}.{sys.version_info.minor}-slim'}"]
    lines += [f"COPY {wheel.name} ./"] if wheel is not None else []
    return "\n".join([*lines, f"RUN pip install --no-cache-dir {shlex.join(packages)}", ""])


def _evaluate_command(options: JobOptions, dataset: str) -> str:
    """Return the job's command. The shell of a Linux container reads it, also if it is written on Windows.

    Example: `tunecheck evaluate --dataset ${{inputs.dataset}} --endpoint m --results-dir ${{outputs.results}}`.
    """
    data = f"${{{{inputs.{_DATA_INPUT}}}}}" if _is_input(dataset) else _shell_quoted(dataset)
    words = map(_shell_quoted, _without_dataset(options.arguments))

    results = f"${{{{outputs.{_RESULTS_OUTPUT}}}}}"
    if options.output is not None and _is_storage(options.output):
        results = _shell_quoted(options.output)

    # Several machines form a Ray cluster, which the command finds on its head.
    cluster = ["--on ray:auto"] if options.instances > 1 else []
    return " ".join(["tunecheck evaluate --dataset", data, *words, "--results-dir", results, *cluster])


def _shell_quoted(word: str) -> str:
    """Return a word quoted for the shell.

    Raises:
        ConfigurationError: the word contains `${{`, which Azure ML would replace.
    """
    if "${{" in word:
        raise ConfigurationError(f"{word!r}: Azure ML would replace ${{{{…}}}} in this argument; remove ${{{{…}}}}")
    return shlex.quote(word)


def _is_storage(output: str | None) -> bool:
    """Return whether the run writes its results to blob storage, and not to an output of the job."""
    return output is not None and output.startswith("az://")


def _is_remote(name: str) -> bool:
    """Return whether a name is an address that Azure ML resolves."""
    return _REMOTE.match(name) is not None


def _is_input(dataset: str) -> bool:
    """Return whether the data are an input of the job, because they are not in the workspace."""
    return _is_remote(dataset) or not Path(dataset).resolve().is_relative_to(Path().resolve())


def _relative_path(folder: Path, path: Path) -> str:
    """Return a path relative to a folder, with forward slashes."""
    return Path(os.path.relpath(path.resolve(), folder.resolve())).as_posix()


# -- submitting: by `az`, or by azure-ai-ml if `az` is not installed


def _az_command(job: Path, options: JobOptions) -> list[str]:
    """Return the command that submits a job's file; without a workspace, `az` takes its default."""
    flags = {
        "--workspace-name": options.workspace,
        "--resource-group": options.resource_group,
        "--subscription": options.subscription,
    }
    words = [word for flag, value in flags.items() if value is not None for word in (flag, value)]
    return ["az", "ml", "job", "create", "--file", str(job), *words]


def _submit(job: Path, options: JobOptions) -> str:
    """Submit a job, and return the address of its page in the studio.

    Raises:
        ConfigurationError: neither `az` nor azure-ai-ml is installed, or azure-ai-ml needs the workspace.
        TunecheckError: the job was not submitted.
    """
    from tunecheck.endpoints import can_import

    # The Azure CLI first: it has its own defaults for the workspace.
    if az := shutil.which("az"):
        return _submit_by_az([az, *_az_command(job, options)[1:]])

    if can_import("azure.ai.ml") and can_import("azure.identity"):
        return _submit_by_package(job, options)

    needed = "the Azure CLI (az extension add --name ml) or two packages (pip install azure-ai-ml azure-identity)"
    raise ConfigurationError(f"--submit needs {needed}; install either, and repeat the command with --overwrite")


def _submit_by_az(command: list[str]) -> str:
    """Submit a job with the Azure CLI and return its page's address, or raise TunecheckError with az's last line."""
    query = [*command, "--query", "services.Studio.endpoint", "--output", "tsv"]
    result = subprocess.run(  # noqa: S603 - the Azure CLI, with words that the user typed
        query, stdin=subprocess.DEVNULL, capture_output=True, encoding="utf-8", errors="replace"
    )

    if result.returncode != 0:
        lines = result.stderr.strip().splitlines() or [f"exit {result.returncode}"]
        raise TunecheckError(f"az did not submit the job: {clean(lines[-1], 1_000)}; {_AGAIN}")
    return result.stdout.strip()


def _submit_by_package(job: Path, options: JobOptions) -> str:
    """Submit a job with azure-ai-ml and return its page's address.

    Raises:
        ConfigurationError: an option that names the workspace is missing.
        TunecheckError: the job was not submitted.
    """
    from azure.ai.ml import MLClient, load_job
    from azure.core.exceptions import AzureError
    from azure.identity import DefaultAzureCredential

    missing = [word for word in ("subscription", "resource_group", "workspace") if getattr(options, word) is None]
    if missing:
        flags = ", ".join("--" + name.replace("_", "-") for name in missing)
        raise ConfigurationError(f"--submit without the Azure CLI needs {flags}; give these options and --overwrite")

    client = MLClient(DefaultAzureCredential(), options.subscription, options.resource_group, options.workspace)
    try:
        submitted = client.jobs.create_or_update(load_job(job))
    except AzureError as error:
        raise TunecheckError(f"azure-ai-ml did not submit the job: {clean(error, 1_000)}; {_AGAIN}") from None
    return str(submitted.studio_url)
