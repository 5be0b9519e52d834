"""`tunecheck init`, `plugins`, `endpoints list` and `trust`: make a workspace, list its content, approve files."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tunecheck._errors import ConfigurationError
from tunecheck._json import JSON
from tunecheck._messages import clean
from tunecheck._trust import remember
from tunecheck.cli._console import print_json
from tunecheck.cli._options import DONE, CommandOptions, Invocation, argument, command
from tunecheck.cli._running import SIMULATED, WORKSPACE_SIMULATED, is_embedded
from tunecheck.cli._shared_options import JsonOptions
from tunecheck.plugins import Candidate, absent_plugins, discover, installed_plugins, kinds
from tunecheck.views import Cell, Table, Text, View, Words, console, print_view

_FOLDERS = ("evaluators", "prompty", "endpoints", "datasets", "eval_results")

_COPIED = (
    "evaluators/asks_back.py", "prompty/tone.prompty",
    "endpoints/azure_ml.yaml", "endpoints/azure_openai.yaml", "endpoints/openai.yaml", "endpoints/simulated.yaml",
    "datasets/val.jsonl", "datasets/val.yaml",
)  # fmt: skip
"""The example files that the wheel includes."""

_IGNORED = b"eval_results/\n__pycache__/\n.env\n"


@dataclass(frozen=True, kw_only=True)
class InitOptions(CommandOptions):
    folder: Path = argument("Folder of the workspace; by default the current one.", "[DIR]", default=Path())


@command(InitOptions)
def init(options: InitOptions, invocation: Invocation) -> int:
    """Make a workspace: evaluators/, prompty/, endpoints/, datasets/, eval_results/ and example files.

    Existing files are kept.
    """
    folder = options.folder
    files = {name: _content(name) for name in _COPIED} | {".gitignore": _IGNORED}
    try:
        for name in _FOLDERS:
            (folder / name).mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            is_new = not os.path.lexists(folder / name)
            if is_new:
                (folder / name).write_bytes(content)
            print(f"{'made' if is_new else 'kept'}  {folder / name}")
    except OSError as error:
        raise ConfigurationError(f"{error.filename or folder}: cannot be made: {error.strerror or error}") from None
    where = "" if folder == Path() else f"cd {folder} && "
    print(f"try it:  {where}tunecheck evaluate --dataset val.jsonl")
    return 0


def _content(name: str) -> bytes:
    """Return the content of an example file that `init` writes."""
    # An editable install has no copy in the package, so use the repository's files.
    here = Path(__file__).resolve()
    shipped = here.parent / "workspace" / name
    return (shipped if shipped.is_file() else here.parents[3] / name).read_bytes()


@command(JsonOptions)
def plugins(options: JsonOptions, invocation: Invocation) -> int:
    """List plug-ins, their extensions, and the files of this workspace."""
    origins = _extensions_by_origin()
    absent = absent_plugins()
    if options.json:
        listed: list[JSON] = [
            {"name": name, "brings": {kind: [*map(_as_json, extensions)] for kind, extensions in by_kind.items()}}
            for name, by_kind in origins.items()
        ]
        missing: list[JSON] = [
            {"name": plugin.name, "package": plugin.package, "problem": plugin.problem} for plugin in absent
        ]
        print_json({"plugins": listed, "missing": missing})
        return 0
    tables = [_table(name, by_kind) for name, by_kind in origins.items()]
    lines = [f"missing: {clean(plugin.name)} ({clean(plugin.problem)})" for plugin in absent]
    print_view(View("plug-ins", [*tables, *([Text(lines)] if lines else [])]), console(sys.stdout))
    return 0


def _extensions_by_origin() -> dict[str, dict[str, list[Candidate]]]:
    """Return extensions by plug-in and kind; those of other packages and of workspace files come last."""
    origins: dict[str, dict[str, list[Candidate]]] = {installed.plugin.name: {} for installed in installed_plugins()}
    for candidate in (candidate for kind in kinds() for candidate in discover(kind)):
        origin = "this workspace" if candidate.file else "small packages"
        if candidate.plugin is not None:
            origin = candidate.plugin.name
        origins.setdefault(origin, {}).setdefault(candidate.kind, []).append(candidate)
    return origins


def _as_json(candidate: Candidate) -> JSON:
    """Return an extension as JSON."""
    return {"name": candidate.name, "help": candidate.help, "origin": candidate.origin}


def _table(name: str, by_kind: Mapping[str, Sequence[Candidate]]) -> Table:
    """Return a table of one plug-in's extensions with kind, name and help; a kind is named once."""
    rows: list[tuple[Cell, ...]] = [(Words(clean(name), "strong"), "", "")]
    for kind, candidates in by_kind.items():
        label = kind.replace("_", " ")
        for candidate in candidates:
            text = candidate.help or candidate.origin
            rows.append((f"  {label}", clean(candidate.name, 60), Words(clean(text), "dim")))
            label = ""
    return Table(("", "", ""), rows, "l")


@command(JsonOptions)
def list_endpoints(options: JsonOptions, invocation: Invocation) -> int:
    """List the endpoints of this workspace, with their kind, model and address."""
    from tunecheck.endpoints._definition import read_definition
    from tunecheck.endpoints._masking import storable_settings

    listed: list[dict[str, JSON]] = []
    for path in sorted(WORKSPACE_SIMULATED.parent.glob("*.y*ml")):
        try:
            data = storable_settings(dict(read_definition(path).data))
            assert isinstance(data, dict)
            model = data.get("model") or data.get("deployment")
            listed.append({"name": path.stem, "kind": data.get("kind"), "model": model, "url": data.get("url")})
        except ConfigurationError as error:
            listed.append({"name": path.stem, "problem": str(error)})
    if is_embedded(SIMULATED):
        listed.append({"name": SIMULATED, "kind": SIMULATED, "model": None, "url": None})
    if options.json:
        print_json([*listed])
        return DONE
    rows = [[Words(clean(value or "", 200), foreign=True) for value in facts.values()] for facts in listed]
    print_view(View("endpoints", [Table(["name", "kind", "model", "url"], rows, "l")]), console(sys.stdout))
    return DONE


@dataclass(frozen=True, kw_only=True)
class RememberOptions(CommandOptions):
    path: Path = argument("A file, or a folder with all its files.", "PATH")


@command(RememberOptions)
def trust(options: RememberOptions, invocation: Invocation) -> int:
    """Approve files that data or other people's runs name, until their content changes.

    Approvals are files in your configuration folder; remove one to withdraw it.
    """
    for file, mark in remember(options.path):
        print(f"trusted  {clean(file)}  ({clean(mark)})")
    return 0
