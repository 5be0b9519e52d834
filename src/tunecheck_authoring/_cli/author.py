"""`tunecheck datasets author`: a test set from your own services, in stages."""

from __future__ import annotations

import re
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import to_builtins

from tunecheck import ConfigurationError
from tunecheck.cli import DONE, Invocation, JsonOptions, TrustOptions, argument, command, flag, option, print_json
from tunecheck.plugins import Trust, clean, did_you_mean, plural

if TYPE_CHECKING:
    from tunecheck.simulators import Backends
    from tunecheck_authoring._author.files import Variant
    from tunecheck_authoring._author.pipeline import AuthorReport
    from tunecheck_authoring._author.writing import EndpointModels

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
_WORLD, _SET, _WORDS = "The services", "The data set", "Words by a model"


@dataclass(frozen=True, kw_only=True)
class AuthorOptions(JsonOptions, TrustOptions):
    name: str = argument("Name of the data set, which is written to datasets/NAME.jsonl.", "NAME")
    simulator: list[str] | None = option(
        "Service to use: a simulator's name, or its file in simulators/ (repeatable).", "NAME|FILE", _WORLD
    )
    openapi: Path | None = option(
        "Make the service from an OpenAPI file (2.0, 3.0, 3.1); an existing simulators/NAME.py is kept.", "FILE", _WORLD
    )
    only: list[str] | None = option(
        "Use only operations whose path, tag or operationId matches, such as '/pets*' (repeatable).", "PATTERN", _WORLD
    )
    mcp: str | None = option(
        "MCP server to record: its URL, or its command (a new folder replaces {folder}).", "COMMAND|URL", _WORLD
    )
    tasks: int = option("Number of conversations.", "N", _SET, default=50, least=1, most=100_000)
    turns: str = option("Turns per conversation, e.g. 3 or 2-4; 1 makes single-turn rows.", "A-B", _SET, default="2-4")
    seed: int = option("Seed of all random choices.", "N", _SET, default=0, least=0)
    variants: list[str] | None = option(
        "Kinds of variants, or none; each conversation gets one kind. Default: all of missing_parameter, "
        "missing_function, long_context, composite, distractors, irrelevant, change_of_mind.",
        "KINDS",
        _SET,
        names=True,
    )
    split: float = option(
        "Share of conversations to move to datasets/NAME-train.jsonl.", "SHARE", _SET, default=0.0, least=0, most=0.9
    )
    work: Path | None = option("Folder for the files of the stages; by default authoring/NAME.", "DIR", _SET)
    stage: str | None = option("Stop after this stage: world, graph, tasks or variants.", "STAGE", _SET)
    draw: Path | None = option("Write the function graph to this file, as a Mermaid diagram.", "FILE.mmd", _SET)
    overwrite: bool = flag("Replace an existing data set.", _SET)
    writer: str | None = option(
        "Model that rewrites the requests: a definition file, or its name in endpoints/.", "FILE", _WORDS
    )
    solver: str | None = option("Model that must solve each row; by default the writer.", "FILE", _WORDS)
    personas: Path | None = option("User personas (YAML): `name: description, way of speaking`.", "FILE", _WORDS)
    max_cost: float | None = option("Stop before writer plus solver cost more than this.", "AMOUNT", _WORDS, least=0)

    @property
    def folder(self) -> Path:
        """Return the folder of the stages' files."""
        return self.work or Path("authoring") / self.name

    @property
    def out(self) -> Path:
        """Return the path of the data set."""
        return Path("datasets") / f"{self.name}.jsonl"

    def turn_range(self) -> tuple[int, int]:
        """Return the least and most turns of --turns, or raise ConfigurationError for another format."""
        found = re.fullmatch(r"(\d{1,2})(?:-(\d{1,2}))?", self.turns)
        least, most = (int(found[1]), int(found[2] or found[1])) if found else (0, 0)
        if not 1 <= least <= most:
            raise ConfigurationError(f"--turns {self.turns!r} must be a number or a range, such as 3 or 2-4")
        if least == 1 < most:
            hint = f"conversations need at least two turns (--turns 2-{most}); for single-turn rows, give --turns 1"
            raise ConfigurationError(f"--turns {self.turns}: {hint}")
        return least, most

    def kinds(self) -> list[Variant]:
        """Return the chosen kinds of variants: all without --variants, none for `none`.

        Raises:
            ConfigurationError: a kind is unknown.
        """
        from tunecheck_authoring._author.files import VARIANTS

        for name in self.variants or ():
            if name not in (*VARIANTS, "none"):
                raise ConfigurationError(f"--variants: there is no variant {name!r}{did_you_mean(name, VARIANTS)}")
        return [known for known in VARIANTS if self.variants is None or known in self.variants]


@command(AuthorOptions)
def author(options: AuthorOptions, invocation: Invocation) -> int:
    """Make a validated data set of conversations with simulated services.

    Each stage leaves a file that you can read and edit: the functions, which result feeds which parameter, the calls
    and words of each conversation, its variants. Unchanged parts are not made again.
    """
    from tunecheck_authoring._author.pipeline import author as author_dataset

    _check(options)
    models = _models(options)
    simulators = [*map(_simulator, options.simulator or ()), *_made_services(options)]
    command = _command_line(options, invocation.typed)
    with _backends(options) as backends:
        report = author_dataset(options, simulators, backends, command=command, models=models)
    if options.json:
        print_json(to_builtins(report, enc_hook=str))
    else:
        _show(report)
    return DONE


def _made_services(options: AuthorOptions) -> list[str]:
    """Write the simulator of --openapi or --mcp, unless it exists, and return its name in a list.

    Without these options, the list is empty.

    Raises:
        ConfigurationError: both options are given.
    """
    name = options.name.replace("-", "_")
    path = Path("simulators") / f"{name}.py"
    if options.openapi is not None and options.mcp is not None:
        raise ConfigurationError(f"--openapi and --mcp both write {path}; give one of the two services as --simulator")
    if options.openapi is not None:
        from tunecheck_authoring._service_file import write_simulator

        is_new = write_simulator(options.openapi, path, only=options.only or (), seed=options.seed)
    elif options.mcp is not None:
        from tunecheck_authoring._mcp.service import write_recorded

        is_new = write_recorded(options.mcp, path)
    else:
        return []
    if not options.json:
        print(f"{path}: {'made' if is_new else 'exists, and is kept'}")
    return [name]


def _backends(options: AuthorOptions) -> AbstractContextManager[Backends]:
    """Return a context manager that gives the simulators' backends.

    With --mcp, the service's simulator asks the server for answers that are not recorded.
    """
    from tunecheck.simulators import Backends

    backends = Backends(trust=Trust.of_command(options.trust or ()))
    if options.mcp is None:
        return nullcontext(backends)
    from tunecheck_authoring._mcp.service import recording_backends

    return recording_backends(options.mcp, options.name.replace("-", "_"), backends)


def _command_line(options: AuthorOptions, command: str) -> str:
    """Return the command line for the data set's card, without the secrets in a server's command."""
    if options.mcp is None:
        return command
    from tunecheck_authoring._mcp.client import shown_server

    return command.replace(options.mcp, shown_server(options.mcp))


def _check(options: AuthorOptions) -> None:
    """Raise ConfigurationError for a wrong name, stage, number of turns or variant, or if no simulator is given."""
    from tunecheck_authoring._author.pipeline import STAGES

    if not _NAME.fullmatch(options.name):
        raise ConfigurationError(f"NAME {options.name!r} cannot be a file name; use letters, digits, - and _")
    if options.stage is not None and options.stage not in STAGES:
        raise ConfigurationError(f"there is no --stage {options.stage!r}{did_you_mean(options.stage, STAGES)}")
    if not options.simulator and options.openapi is None and options.mcp is None:
        raise ConfigurationError("no simulator is given; give --simulator NAME, --openapi FILE, or --mcp COMMAND")
    options.turn_range()
    options.kinds()


def _models(options: AuthorOptions) -> EndpointModels | None:
    """Return the writer and the solver, or None without --writer. Other options for models need it.

    Raises:
        ConfigurationError: such an option is given without --writer.
    """
    if options.writer is None:
        for name, value in (("solver", options.solver), ("personas", options.personas), ("max-cost", options.max_cost)):
            if value is not None:
                raise ConfigurationError(f"--{name} needs a writer model; name it with --writer")
        return None
    from tunecheck_authoring._author.writing import EndpointModels

    trust = Trust.of_command(options.trust or ())
    return EndpointModels(options.writer, options.solver or options.writer, options.folder, options.max_cost, trust)


def _simulator(given: str) -> str:
    """Return the plugin name of a simulator that is given by its name or its file.

    Raises:
        ConfigurationError: the file is not in the folder simulators/.
    """
    path = Path(given)
    if path.suffix != ".py":
        return given
    if path.resolve().parent != Path("simulators").resolve():
        raise ConfigurationError(f"--simulator {path}: rows load simulators only from simulators/; put a copy there")
    return path.stem


def _show(report: AuthorReport) -> None:
    """Print what happened to each stage's file and, if the data set was written, its rows, rejections and files."""
    from tunecheck_authoring._author.dataset import plain_turns

    for file, what in report.stages.items():
        print(f"{clean(report.work / file)}: {what}")
    if not report.written:
        return
    train = f", {plural(report.train, 'training row')}" if report.train else ""
    kinds = ", ".join(f"{count:,} {kind}" for kind, count in report.variants.items())
    print(f"{plural(report.rows, 'test row')}{train}: {kinds}")
    for line in plain_turns(report.plain):
        print(line)
    for reason, count in report.rejected.most_common():
        print(f"rejected {count:,}: {clean(reason)}")
    for path in report.written:
        print(f"written {clean(path)}")
