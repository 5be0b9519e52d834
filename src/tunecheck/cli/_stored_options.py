"""Reads options from a file: a configuration (`--config eval.yaml`), or the manifest of a resumed run.

Options that act need trust: the file must be in the workspace, or this user must have started the run.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_origin

import msgspec

from tunecheck import _yaml as yamltext
from tunecheck._describe import Written, read_as
from tunecheck._errors import ConfigurationError, UntrustedError
from tunecheck._json import JSON
from tunecheck._messages import command_line
from tunecheck._trust import Trust
from tunecheck._yaml import Document
from tunecheck.cli._named_endpoints import is_embedded
from tunecheck.cli._options import CommandOptions, Invocation, OptionField, is_given, option_fields
from tunecheck.cli._shared_options import ResumableOptions
from tunecheck.runs._store import COMMAND_KEYS, Run, began_here, command_of

T = TypeVar("T", bound=CommandOptions)
R = TypeVar("R", bound=ResumableOptions)


def as_recorded(options: CommandOptions) -> dict[str, JSON]:
    recorded = options.recorded()
    key = COMMAND_KEYS.get(options.command)
    return recorded if key is None else {key: recorded}


def recorded_options(kind: type[T], run_id: str, command: JSON) -> T:
    """Return the options in a run's manifest; raise ConfigurationError if another command started the run."""
    begun = command_of(command)
    if begun is None:
        raise ConfigurationError(
            f"run {run_id} was not started from the command line: finish it in Python, evaluate(…, resume={run_id!r})"
        )
    if begun != kind.command:
        raise ConfigurationError(
            f"run {run_id} was not started by `tunecheck {kind.command}`: "
            f"go on with `tunecheck {begun} --resume {run_id}`"
        )
    key = COMMAND_KEYS.get(begun)
    kept = command[key] if key is not None and isinstance(command, dict) else command
    known = [each for each in option_fields(kind).values() if each.description.recorded or each.description.acts]
    return _read(kind, known, Document(f"the command recorded in run {run_id}", kept, {}))


def merge_resumed_options(options: R, recorded: R, run: Run) -> R:
    """Return the options of a resumed run: the recorded ones, overridden by the given ones.

    A fixed option must keep its value. The run itself checks whether other values fit its finished rows.
    """
    for name, value in options.given().items():
        described = option_fields(type(options))[name]
        fixed = options.fixed if described.description.fixed is None else described.description.fixed
        if described.description.recorded and fixed and value != getattr(recorded, name):
            kept = "keeps its name" if name == "name" else "goes on as it was begun"
            raise ConfigurationError(
                f"{described.flag}: run {run.id} {kept}; leave {described.flag} out, or start a new one {options.anew}"
            )
    return replace(options.over(recorded), resume=str(run.folder))


def read_config(kind: type[T], path: str) -> T:
    """Read a configuration file, whose keys are the command's long options with dashes or underscores."""
    return _read(kind, _config_keys(kind), _underscore_keys(yamltext.read_yaml(Path(path))))


def options_of_file(given: T, path: str, trust: Trust, invocation: Invocation) -> T:
    """Return the given options, completed from a configuration file."""
    read = read_config(type(given), path)
    owner = f"{path}, which lies outside of this workspace,"
    check_acting(given, read, trust.of_options(Path(path)), owner, path, invocation)
    return given.over(read)


def options_of_run(
    given: T, run: Run, trust: Trust, invocation: Invocation, *, among: Collection[str] | None = None
) -> T:
    """Return a run's recorded options, or only those with the names in `among`."""
    manifest = run.manifest()
    recorded = recorded_options(type(given), run.id, manifest.command)
    if among is not None:
        recorded = type(given)(**{name: value for name, value in recorded.given().items() if name in among})
    if not began_here(manifest):
        owner = f"run {run.id}, which you did not begin here,"
        check_acting(given, recorded, trust.of(run.manifest_file), owner, str(run.folder), invocation)
    return recorded


def check_acting(given: T, stored: T, trust: Trust, owner: str, place: str, invocation: Invocation) -> None:
    """Raise UntrustedError for stored options that act, unless they are also typed or their file is trusted.

    As in data, an option may name an endpoint of the workspace.
    """
    if trust.named_by is None:
        return
    acting: list[str] = []
    for name, value in stored.given().items():
        each, typed = option_fields(type(stored))[name], getattr(given, name)
        if isinstance(value, dict):
            untyped = any(_names_file(entry) for key, entry in value.items() if key not in (typed or {}))
            acting += [each.flag] if untyped and each.description.acts else []
        elif not is_given(typed) and _needs_trust(each, value, trust):
            acting.append(each.flag)
    if acting:
        raise UntrustedError(
            f"{owner} sets options that only you may set ({', '.join(acting)}): give them yourself, or accept all of "
            f"its options; to do so, type it: {invocation.typed} {command_line(['--trust', place])}"
        )


def _needs_trust(option: OptionField, value: object, trust: Trust) -> bool:
    """Return True if the option's value has an effect that needs trust."""
    from tunecheck.endpoints._definition import check_named
    from tunecheck.evaluation import DEFAULT_CONCURRENCY
    from tunecheck.pipeline import DEFAULT_TIMEOUT_S

    how = option.description.acts
    if how == "asks" and isinstance(value, str):
        try:
            if not is_embedded(value):
                check_named(value, trust)
        except ConfigurationError:
            return True
        return False
    if how == "speeds":
        usual = {"repeat": 1, "evaluator_timeout": DEFAULT_TIMEOUT_S}.get(option.name, DEFAULT_CONCURRENCY)
        return isinstance(value, (int, float)) and value > usual
    if how == "loads" and isinstance(value, str):  # a configuration without code is data
        path = Path(value)
        return not trust.has(path) or (path.is_file() and ".py" in str(yamltext.load_yaml(path)))
    return how is not None


def _names_file(value: object) -> bool:
    """Return True if the value contains a text that may be a path or an address, or reads the environment."""
    if isinstance(value, (list, dict)):
        return any(map(_names_file, value.values() if isinstance(value, dict) else value))
    return isinstance(value, str) and ("/" in value or "\\" in value or "${env:" in value or Path(value).exists())


def config_file(kind: type[CommandOptions]) -> type[msgspec.Struct]:
    return _struct_type(_config_keys(kind))


def _config_keys(kind: type[CommandOptions]) -> list[OptionField]:
    return [each for each in option_fields(kind).values() if each.name not in ("config", "trust")]


def _underscore_keys(document: Document) -> Document:
    """Return the document with underscores in its keys, such as `group_by` for `group-by`."""
    values = {} if document.value is None else document.value
    if not isinstance(values, dict):
        raise ConfigurationError(f"{document.name}: a configuration holds options, one `option: value` a line")
    renamed: dict[str, JSON] = {}
    for key, value in values.items():
        name = key.replace("-", "_")
        if name in renamed:
            raise ConfigurationError(f"{document.where(key)}: the option {key!r} is given twice")
        renamed[name] = value
    lines = {(str(path[0]).replace("-", "_"), *path[1:]) if path else path: at for path, at in document.lines.items()}
    return Document(document.name, renamed, lines)


def _read(kind: type[T], described: Sequence[OptionField], document: Document) -> T:
    values = read_as(document.value, _struct_type(described), document.where)
    given: dict[str, Any] = {each.name: _value(each, values, document) for each in described}
    return kind(**{name: value for name, value in given.items() if value is not None})


def _struct_type(described: Sequence[OptionField]) -> type[msgspec.Struct]:
    return msgspec.defstruct("Options", [(each.name, _type(each), None) for each in described], bases=(Written,))


def _type(described: OptionField) -> Any:  # noqa: ANN401 - a type
    """Return the type of an option's value in a file."""
    kind, said = described.kind, described.description
    if get_origin(kind) is list:
        return str | list[Annotated[str, msgspec.Meta(min_length=1)]] | None
    if get_origin(kind) is dict:
        return dict[str, Any] | None
    if kind is str:
        return Annotated[str, msgspec.Meta(min_length=1)] | None
    if kind in (int, float):
        return Annotated[kind, msgspec.Meta(ge=said.least, le=said.most)] | None
    return kind | None


def _value(described: OptionField, values: msgspec.Struct, document: Document) -> object:
    value = getattr(values, described.name)
    if isinstance(value, dict):
        return _entries(value, described.name, document)
    if get_origin(described.kind) is not list or value is None:
        return value
    texts = [value] if isinstance(value, str) else value
    if not described.description.names:
        return texts
    names = [name.strip() for text in texts for name in text.split(",") if name.strip()]
    if len(set(names)) != len(names):
        raise ConfigurationError(f"{document.where(described.name)}: {described.name}: has a name twice")
    return names


def _entries(value: Mapping[str, JSON], option: str, document: Document) -> dict[str, JSON]:
    """Return `{bleu.threshold: 0.4}` for `{bleu: {threshold: 0.4}}`."""
    entries: dict[str, JSON] = {}
    for name, setting in value.items():
        inner = setting if isinstance(setting, dict) and "." not in name else {"": setting}
        for parameter, each in inner.items():
            full = f"{name}.{parameter}" if parameter else name
            if full in entries:
                raise ConfigurationError(f"{document.where(option)}: {option}: gives {full!r} twice")
            entries[full] = each
    return entries
