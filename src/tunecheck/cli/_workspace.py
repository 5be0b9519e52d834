"""Commands on a workspace's files: `init`, `plugins`, `endpoints list`, `trust` and `datasets convert`."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import to_builtins

from tunecheck import datasets, endpoints
from tunecheck._errors import ConfigurationError, raise_as
from tunecheck._json import JSON
from tunecheck._messages import clean, did_you_mean, plural
from tunecheck._trust import remember
from tunecheck.cli._console import print_result
from tunecheck.cli._options import DONE, CommandOptions, Invocation, argument, command, flag, option
from tunecheck.cli._shared_options import JsonOptions
from tunecheck.plugins import Candidate, absent_plugins, discover, installed_plugins, kinds
from tunecheck.views import Cell, Table, Text, View, Words

_MOST_SHOWN = 20
"""The most unreadable conversations that `datasets convert` lists."""
_FOLDERS = ("evaluators", "prompty", "endpoints", "datasets", "eval_results")

_COPIED = (
    "evaluators/asks_back.py", "prompty/tone.prompty",
    "endpoints/azure_ml.yaml", "endpoints/azure_openai.yaml", "endpoints/openai.yaml", "endpoints/simulated.yaml",
    "datasets/val.jsonl", "datasets/val.yaml",
)  # fmt: skip
"""The example files that the wheel includes."""

_IGNORED = b"eval_results/\n__pycache__/\n.env\n"
"""The content of the workspace's .gitignore: runs, compiled code, and `.env`, which may hold secrets."""


class InitOptions(CommandOptions):
    folder: Path = argument("Folder of the workspace; by default the current one.", "[DIR]", default=Path())


@command(InitOptions)
def init(options: InitOptions, invocation: Invocation) -> int:
    """Make a workspace: evaluators/, prompty/, endpoints/, datasets/, eval_results/ and example files.

    Existing files are kept.
    """
    folder = options.folder
    files = {name: _content(name) for name in _COPIED} | {".gitignore": _IGNORED}

    for name in _FOLDERS:
        with raise_as(ConfigurationError, folder / name, "cannot be made"):
            (folder / name).mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        with raise_as(ConfigurationError, folder / name, "cannot be made"):
            # A link counts as existing, even a broken one, so that `init` writes no file outside of the folder.
            is_new = not os.path.lexists(folder / name)
            if is_new:
                (folder / name).write_bytes(content)
            print(f"{'made' if is_new else 'kept'}  {folder / name}")

    change_folder = "" if folder == Path() else f"cd {folder} && "
    print(f"try it:  {change_folder}tunecheck evaluate --dataset val.jsonl")
    return DONE


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
        print_result({"plugins": listed, "missing": to_builtins([*absent])})
        return DONE

    tables = [_table(name, by_kind) for name, by_kind in origins.items()]
    lines = [f"missing: {clean(plugin.name)} ({clean(plugin.problem)})" for plugin in absent]
    print_result(View("plug-ins", [*tables, *([Text(lines)] if lines else [])]))
    return DONE


def _extensions_by_origin() -> dict[str, dict[str, list[Candidate]]]:
    """Return extensions by plug-in and kind; those of other packages and of workspace files come last."""
    origins: dict[str, dict[str, list[Candidate]]] = {plugin.name: {} for plugin in installed_plugins()}
    for kind in kinds():
        for candidate in discover(kind):
            origin = "this workspace" if candidate.file else "small packages"
            if candidate.plugin is not None:
                origin = candidate.plugin.name
            origins.setdefault(origin, {}).setdefault(kind, []).append(candidate)
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
    from tunecheck.cli._running import SIMULATED, WORKSPACE_SIMULATED, is_embedded

    listed: list[dict[str, JSON]] = []

    for path in sorted(WORKSPACE_SIMULATED.parent.glob("*.y*ml")):
        try:
            # A definition may contain secrets: only settings that files may hold are printed.
            data = endpoints.storable_settings(dict(endpoints.read_definition(path).data))
            assert isinstance(data, dict)
            model = data.get("model") or data.get("deployment")
            listed.append({"name": path.stem, "kind": data.get("kind"), "model": model, "url": data.get("url")})
        except ConfigurationError as error:
            listed.append({"name": path.stem, "problem": str(error)})

    if is_embedded(SIMULATED):
        listed.append({"name": SIMULATED, "kind": SIMULATED, "model": None, "url": None})

    rows = [[Words(clean(value or "", 200), foreign=True) for value in facts.values()] for facts in listed]
    table = Table(["name", "kind", "model", "url"], rows, "l")
    print_result([*listed] if options.json else View("endpoints", [table]))
    return DONE


class RememberOptions(CommandOptions):
    path: Path = argument("A file, or a folder with all its files.", "PATH")


@command(RememberOptions)
def trust(options: RememberOptions, invocation: Invocation) -> int:
    """Approve files to which data or other people's runs refer, until their content changes.

    Approvals are files in your configuration folder; remove one to withdraw it.
    """
    for file, record in remember(options.path):
        print(f"trusted  {clean(file)}  ({clean(record)})")
    return DONE


class ConvertOptions(CommandOptions):
    source: Path = argument("File of conversations: a JSON array, JSON Lines or Parquet.", "FILE")
    form: str | None = option(
        "openai, sharegpt, xlam, glaive or openai-evals; default: detected.", "FORM", flags=("--from",)
    )
    graders: Path | None = option("With openai-evals: the eval's JSON, whose graders become evaluators.", "FILE")
    out: Path | None = option("Data set to write; default: datasets/NAME.jsonl, with FILE's name.", "FILE")
    overwrite: bool = flag("Replace an existing data set.")


@command(ConvertOptions)
def convert(options: ConvertOptions, invocation: Invocation) -> int:
    """Convert conversations to rows, one for each turn of the assistant, and write the rows' defaults beside them.

    Conversations that cannot be read are reported by number and left out.
    """
    from tunecheck.datasets._reading import file_source, locate, training_form

    known = datasets.forms()
    form = known.get(options.form or "")
    if form is None and options.form is not None:
        raise ConfigurationError(f"--from: there is no format {options.form!r}{did_you_mean(options.form, known)}")

    source = file_source(locate(str(options.source), []))
    form = form or training_form(source)
    if form is None:
        next(source.records(), None)  # a file that cannot be read raises its own error
        advice = f"name the format with --from ({', '.join(known)}); a file of rows needs no conversion"
        raise ConfigurationError(f"the file {options.source} does not begin with a record of a known format: {advice}")

    if options.graders is not None:
        if form.with_graders is None:
            raise ConfigurationError(f"{form.words} has no graders: leave --graders out")
        form = form.with_graders(options.graders)

    out = options.out or Path("datasets") / f"{options.source.stem}.jsonl"
    _print_conversion(datasets.convert(options.source, form, out, overwrite=options.overwrite), form)
    return DONE


def _print_conversion(report: datasets.ConversionReport, form: datasets.Form) -> None:
    """Print how many conversations and rows were converted, what was left out, and the files written."""
    left_out = len(report.unreadable)
    read = f"{report.conversations - left_out:,} of {plural(report.conversations, form.unit)}"
    calls = f", {report.call_rows:,} with {plural(report.calls, 'function call')}" if report.calls else ""
    print(f"{read}: {plural(report.rows, 'row')}{calls}")

    for number, reason in [*report.unreadable.items()][:_MOST_SHOWN]:
        print(f"  left out number {number}: {clean(reason)}")
    if left_out > _MOST_SHOWN:
        print(f"  and {left_out - _MOST_SHOWN:,} more")

    print(f"written {report.out}")
    kept = "not replaced: its content differs" if report.sidecar_kept else "its defaults"
    print(f"        {report.sidecar} ({kept})", *(f"        {name}" for name in form.files), sep="\n")
