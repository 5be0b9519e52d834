"""Shared code of the commands that start runs.

The parts of this module, in its order:

* the beginning of a run: its trust, its options when it is resumed, and its arguments
* the output of a finished run
* options of configuration files and of runs' manifests: reading, consent, merging
* endpoints by name

The workspace is the folder in which the command runs. A run's manifest is its `run.json`, which this user's key signs.

**Sources of options.** `evaluate`, for example, takes `--concurrency` from the first source that gives it:

1. the command line: `tunecheck evaluate --concurrency 4 --config team.yaml`
2. the configuration file that `--config` names: a line `concurrency: 8`
3. the manifest of the run that `--resume` or `--reuse` names: `"command": {"concurrency": 16}` in its `run.json`

`--set` and `--mapping` hold several entries, which are merged by name. When a run is resumed, an option whose field is
`fixed` must keep its recorded value (`merge_resumed_options`).

**Consent.** Some options have an effect outside of the run's results. Their field names it: `acts="writes"`. Such an
option applies in these cases, in the order of the checks:

1. The configuration file is in the workspace, or this user began the run in this folder.
2. `--trust` names the configuration file, the run's folder, or a folder above it.
3. The user types it in the command. An entry of `--set` counts as typed if the command has an entry of the same name.

In any other case, the command fails and names the option.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, Unpack, get_origin

import msgspec

from tunecheck import _yaml as yamltext, endpoints, evaluation, results
from tunecheck._describe import Document, Written, read_as
from tunecheck._errors import ConfigurationError, UntrustedError
from tunecheck._json import JSON, object_or_empty
from tunecheck._messages import clean, command_line, plural
from tunecheck._trust import Trust
from tunecheck.cli import _options as declared
from tunecheck.cli._console import progress_bar
from tunecheck.cli._shared_options import ResumableOptions, RunOptions
from tunecheck.pipeline._finished_rows import read_failures
from tunecheck.runs._store import Run, began_here, command_key, command_of, find_run, holds_own_run, recorded_values
from tunecheck.views import Text, View, Words, console, print_view

if TYPE_CHECKING:
    from tunecheck.evaluation._ending import EvaluationResult

T = TypeVar("T", bound=ResumableOptions)
S = TypeVar("S", bound=declared.CommandOptions)

_MOST_ERRORS, _MOST_NOTES = 5, 3
"""Lines printed after a run: different errors, and notes. The report has all of them."""


# -- beginning a run


def trust_of(options: RunOptions) -> Trust:
    """Return the trust of a command: which files it may load.

    If the user has no run in the workspace yet, a note on stderr names the first code file that is loaded.
    """
    loaded_files: list[Path] = []

    # Code of the workspace is loaded without consent. So a user's first run says that it happens.
    def note_first_file(file: Path) -> None:
        if not loaded_files and not holds_own_run(options.folder):
            print(f"note: you have no earlier run in this folder; this run loads the code {file}", file=sys.stderr)
        loaded_files.append(file)

    return Trust.of_command(options.trust or (), note_first_file)


def begin(options: T, invocation: declared.Invocation) -> tuple[T, Trust]:
    """Prepare a command that starts or resumes a run: return its options, completed when resuming, and its trust.

    The invocation gets the command with which an interrupted run can be resumed.

    Raises:
        ConfigurationError: there is no run to resume, or an option cannot be changed.
        UntrustedError: another user's run has options that only the user may set.
    """
    # If the command is interrupted, it prints how to go on, such as `tunecheck memory run --resume …`.
    invocation.command = f"{invocation.program} {options.command}"

    trust = trust_of(options)
    if options.resume is None:
        return options, trust

    run = find_run(options.resume, options.folder)
    return merge_resumed_options(options, options_of_run(options, run, trust, invocation), run), trust


def run_arguments(
    options: ResumableOptions, title: str, **more: Unpack[evaluation.RunArguments]
) -> evaluation.RunArguments:
    """Return the arguments that all commands pass to a run, and the arguments `more` of this command.

    The progress bar shows `title`, unless the run has a name.
    """
    return {
        "concurrency": options.concurrency,
        "resume": options.resume,
        "results_dir": options.folder,
        "progress": progress_bar(options.name or title, options.quiet) or False,
        "command": as_recorded(options),
        "accept_damage": options.accept_damage,
        **more,
    }


def lasting_name(run: Path, results_dir: Path) -> str:
    """Return a name that still finds a run after another run has started, unlike `last`.

    This is its id, the name of its folder `run`, if it is in `results_dir`; else the path of the folder.
    """
    return run.name if run.parent.resolve() == results_dir.resolve() else str(run)


def note_changed(*runs: Run) -> None:
    """Print a note on stderr for each run if its results have changed since they were written."""
    from tunecheck.runs._manifest import changed_since

    for run in runs:
        if changed := changed_since(run, run.manifest()):
            print(f"note: {changed}", file=sys.stderr)


# -- output of a finished run


def run_summary(result: EvaluationResult) -> dict[str, JSON]:
    """Return the facts of a finished run that commands print with `--json`."""
    facts: dict[str, JSON] = {"run": result.run_dir.name, "run_dir": str(result.run_dir), "rows": result.row_count}
    return facts | {"failed_rows": result.failed_row_count, "simulated": result.simulated}


def print_run(
    result: EvaluationResult, noun: str, figures: Callable[[], None], files: Iterable[str], about: str = ""
) -> None:
    """Print a finished run: three sentences, the command's own figures, notes, and its files.

    `noun` names one row, `figures` prints the figures, `about` follows the number of rows. The last lines are, for
    example:

        note: 2 rows have no ground truth
        files in eval_results/bfcl-20260101T120000Z-0a1b2c · 46 rows
          bfcl/result
    """
    passed, *others = results.first_screen(Run(result.run_dir)).sentences
    print_view(View(passed, [Text([Words(passed, "strong"), *others])]), console(sys.stdout))

    figures()
    for note in result.notes[:_MOST_NOTES]:
        print(f"note: {clean(note, 300)}")
    if len(result.notes) > _MOST_NOTES:
        print(f"note: {plural(len(result.notes) - _MOST_NOTES, 'more note')} in the report")

    print(f"files in {result.run_dir} · {plural(result.row_count, noun)}{about}")
    for file in files:
        print(f"  {file}")


def run_errors(folder: Path, noun: str) -> Iterator[str]:
    """Yield a run's five most common errors, each with the number of rows (called `noun`) and the id of an example.

    For example `HTTP 401: wrong key (31 rows, e.g. row-7)`.
    """
    for group in islice(read_failures(Run(folder).rows(), {}).error_groups, _MOST_ERRORS):
        yield f"{clean(group.words, 200)} ({plural(group.rows, noun)}, e.g. {clean(group.example, 60)})"


def every_row_failed(result: EvaluationResult, noun: str) -> bool:
    """Return True if a run has rows and all failed; report that on standard error.

    `noun` names one row in the message.
    """
    failed = bool(result.row_count) and result.failed_row_count == result.row_count
    if failed:
        print(f"error: every {noun} ended in an error: see `tunecheck report {result.run_dir}`", file=sys.stderr)
    return failed


# -- options of a configuration file, or of a run's manifest (the rules are in the module's docstring)


def as_recorded(options: declared.CommandOptions) -> dict[str, JSON]:
    """Return the options that a run's manifest keeps, under the command's key unless they are at the top level.

    For example `{"dataset": "val.jsonl"}` for `evaluate`, and `{"bfcl_run": {"limit": 10}}` for `bfcl run`.
    """
    recorded = options.recorded()
    key = command_key(options.command)
    return recorded if key is None else {key: recorded}


def recorded_options(kind: type[S], run_id: str, command: JSON) -> S:
    """Return the options that the manifest of a run records under `command`, as those of this command.

    Raises:
        ConfigurationError: another command, or Python code, started the run; or a recorded value is wrong.
    """
    begun_by = command_of(command)
    if begun_by != kind.command:
        call = f"`tunecheck {begun_by} --resume {run_id}`" if begun_by else f"evaluate(…, resume={run_id!r}) in Python"
        problem = f"run {run_id} was not started by `tunecheck {kind.command}`"
        raise ConfigurationError(f"{problem}; to finish it, use {call}")

    values = recorded_values(object_or_empty(command))
    fields = declared.option_fields(kind).values()
    # Tunecheck does not record some options with an effect, such as `junit`. Another user's manifest may
    # contain them nevertheless: they are read, so that `check_acting` refuses them by name.
    kept = [field for field in fields if field.recorded or field.acts]
    return _read(kind, kept, Document(f"the command recorded in run {run_id}", values, {}))


def merge_resumed_options(options: T, recorded: T, run: Run) -> T:
    """Return the options of a resumed run: the recorded ones, overridden by the given ones.

    A fixed option must keep its value. The run itself checks whether other values fit its finished rows.

    Raises:
        ConfigurationError: an option that must keep its value has another one.
    """
    for name, value in options.given().items():
        option = declared.option_fields(type(options))[name]
        # Options without a rule of their own follow the command's: `memory run` fixes them, `evaluate` does not.
        fixed = options.fixed if option.fixed is None else option.fixed
        if option.recorded and fixed and value != getattr(recorded, name):
            advice = f"leave {option.flag} out, or start a new run {options.anew}"
            raise ConfigurationError(f"{option.flag} cannot change when run {run.id} is resumed: {advice}")

    return replace(options.over(recorded), resume=str(run.folder))


def read_config(kind: type[S], path: str) -> S:
    """Read a configuration file; its keys are the command's long options with dashes or underscores.

    Raises:
        ConfigurationError: the file cannot be read, or a key or value is wrong; the text names the line.
    """
    return _read(kind, _config_keys(kind), _underscore_keys(yamltext.read_yaml(Path(path))))


def options_of_file(given: S, path: str, trust: Trust, invocation: declared.Invocation) -> S:
    """Return the given options, completed from a configuration file.

    Raises:
        UntrustedError: the file is outside of the workspace and sets options that only the user may set.
    """
    stored = read_config(type(given), path)
    owner = f"{path} (outside of this workspace)"
    check_acting(given, stored, trust.of_options(Path(path)), owner, path, invocation)

    return given.over(stored)


def options_of_run(
    given: S, run: Run, trust: Trust, invocation: declared.Invocation, *, among: Collection[str] | None = None
) -> S:
    """Return a run's recorded options, or only those with the names in `among`; `given` are those of the command.

    Raises:
        UntrustedError: another user began the run, and it has options that only the user may set.
    """
    manifest = run.manifest()
    recorded = recorded_options(type(given), run.id, manifest.command)

    if among is not None:
        recorded = type(given)(**{name: value for name, value in recorded.given().items() if name in among})

    # A signed manifest shows that this user typed the options once, in this folder.
    if not began_here(manifest):
        owner = f"run {run.id} (not started by you here)"
        check_acting(given, recorded, trust.of(run.manifest_file), owner, str(run.folder), invocation)
    return recorded


def check_acting(given: S, stored: S, trust: Trust, owner: str, place: str, invocation: declared.Invocation) -> None:
    """Check that options with an effect from a file or run were also typed, or have a trusted source.

    `given` are the typed options, `stored` those of the file or run. `trust` is the trust in this source. `owner` and
    `place` name the source in the error. For example: `/tmp/team.yaml (outside of this workspace) needs consent to set
    --judge: type the accepted options, or accept all with:  tunecheck … --trust /tmp/team.yaml`

    Raises:
        UntrustedError: an option with an effect is neither typed nor trusted.
    """
    if trust.named_by is None:  # the source is in the workspace, or `--trust` covers it
        return

    options = declared.option_fields(type(stored))
    flags = [
        options[name].flag
        for name, value in stored.given().items()
        if options[name].acts is not None and not _is_typed(getattr(given, name), value)
    ]
    if flags:
        consent = f"{owner} needs consent to set {', '.join(flags)}: type the accepted options, or accept all with:  "
        raise UntrustedError(f"{consent}{invocation.typed} {command_line(['--trust', place])}")


def _is_typed(typed: object, stored: object) -> bool:
    """Return True if a value in the command replaces an option's stored value: for `--set`, each of its entries."""
    if isinstance(stored, dict):
        return isinstance(typed, dict) and typed.keys() >= stored.keys()
    return declared.is_given(typed)


def config_file(kind: type[declared.CommandOptions]) -> type[msgspec.Struct]:
    """Return the structure of a command's configuration file, for its JSON Schema."""
    return _struct_type(_config_keys(kind))


def _config_keys(kind: type[declared.CommandOptions]) -> list[declared.OptionField]:
    """Return the options that a configuration file may set: all except `config` and `trust`."""
    # `config` would name another file, and no file may trust itself or others.
    return [option for option in declared.option_fields(kind).values() if option.name not in ("config", "trust")]


def _underscore_keys(document: Document) -> Document:
    """Return the document with underscores in its keys, such as `group_by` for `group-by`; an empty file has no keys.

    Raises:
        ConfigurationError: it holds no options, or gives one twice.
    """
    values = {} if document.value is None else document.value
    if not isinstance(values, dict):
        raise ConfigurationError(f"{document.name} must have one `option: value` per line, without a leading dash")

    renamed: dict[str, JSON] = {}
    for key, value in values.items():
        if (name := key.replace("-", "_")) in renamed:
            raise ConfigurationError(f"{document.where(key)}: the option {key!r} is given twice: give it once")
        renamed[name] = value

    # The lines of errors are found by the same keys. Only the first step is an option: `set: {my-metric.limit: 2}`.
    paths = {path: tuple(str(step).replace("-", "_") for step in path[:1]) + path[1:] for path in document.lines}
    return Document(document.name, renamed, {paths[path]: line for path, line in document.lines.items()})


def _read(kind: type[S], options: Sequence[declared.OptionField], document: Document) -> S:
    """Return a document's values for these `options` as a `kind`; options without a value keep their defaults.

    Raises:
        ConfigurationError: a key or value is wrong; for a configuration file, the text names the line.
    """
    values = read_as(document.value, _struct_type(options), document.where)
    return kind(**{each.name: value for each in options if (value := _value(each, values, document)) is not None})


def _struct_type(options: Sequence[declared.OptionField]) -> type[msgspec.Struct]:
    """Return a msgspec type with these options as optional keys, which refuses other keys."""
    return msgspec.defstruct("Options", [(option.name, _type(option), None) for option in options], bases=(Written,))


def _type(option: declared.OptionField) -> Any:  # noqa: ANN401 - a type
    """Return the type of an option's value in a file.

    | field | accepts |
    |---|---|
    | list | `group_by: language` and `group_by: [language, domain]` |
    | dict | `set: {bleu.threshold: 0.4}` |
    | str, int, float | a text that is not empty, a number in the option's range |
    | bool | `details: true` |
    """
    kind = option.kind
    if get_origin(kind) is list:
        return str | list[Annotated[str, msgspec.Meta(min_length=1)]] | None
    if get_origin(kind) is dict:
        return dict[str, Any] | None
    if kind is str:
        return Annotated[str, msgspec.Meta(min_length=1)] | None
    if kind in (int, float):
        return Annotated[kind, msgspec.Meta(ge=option.least, le=option.most)] | None
    return kind | None


def _value(option: declared.OptionField, values: msgspec.Struct, document: Document) -> Any:  # noqa: ANN401 - the option's own type
    """Return an option's value among a document's `values`, as the command line would give it; None without a value.

    For example, `evaluators: match,rouge` gives `["match", "rouge"]`.

    Raises:
        ConfigurationError: a name is given twice, a list of names is empty, or a key without a dot has a mapping.
    """
    value, place = getattr(values, option.name), f"{document.where(option.name)}: {option.name}"
    if isinstance(value, dict):
        # A value below a dotted key may be a mapping: `call_check.names: {a: b}`.
        for name in (name for name, setting in value.items() if isinstance(setting, dict) and "." not in name):
            raise ConfigurationError(f"{place}: {name!r} has a mapping: write each entry as `{name}.PARAMETER: VALUE`")

    if get_origin(option.kind) is not list or value is None:
        return value

    texts = [value] if isinstance(value, str) else value
    return declared.parse_names(",".join(texts), place) if option.names else texts


# -- endpoints by name


SIMULATED = "simulated"
"""The name of the built-in simulated endpoint."""

WORKSPACE_SIMULATED = Path("endpoints") / "simulated.yaml"
"""The file by which a workspace defines its own endpoint `simulated`."""


def is_embedded(name: str) -> bool:
    """Return True if the name means the built-in simulated endpoint, because the workspace defines no other."""
    return name == SIMULATED and not WORKSPACE_SIMULATED.is_file()


def load_named(name: str, trust: Trust, seed: int | None = None) -> endpoints.Endpoint:
    """Return the endpoint of a definition file or a name; the name `simulated` always exists.

    `trust` is the trust in the source of the name; `seed` replaces the seed of a simulated endpoint.

    Raises:
        ConfigurationError: the definition does not exist, is wrong, or is not trusted.
    """
    seeds = {} if seed is None else {"seed": seed}
    if is_embedded(name):
        embedded = yamltext.parse_yaml(endpoints.default_definition(), "the embedded simulated endpoint")
        assert isinstance(embedded, dict)
        return endpoints.load_endpoint({**embedded, **seeds}, name=SIMULATED)

    endpoint = endpoints.load_endpoint(name, trust=trust)
    # Only simulated endpoints have a seed.
    if seed is None or endpoint.kind != SIMULATED:
        return endpoint

    # The seed must be in the definition before the endpoint is made: load it again with the seed.
    definition = endpoints.read_definition(name)
    return endpoints.load_endpoint({**definition.data, **seeds}, name=definition.name, workspace=definition.folder)
