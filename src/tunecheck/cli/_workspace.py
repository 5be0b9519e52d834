"""`tunecheck init`, `plugins` and `trust`: make a workspace, see what is in it, and let its files be loaded."""

import sys
from dataclasses import dataclass
from pathlib import Path

from tunecheck._errors import ConfigurationError
from tunecheck._json import JSON
from tunecheck._messages import clean
from tunecheck.cli._console import console, grid, print_json
from tunecheck.cli._invocation import Invocation
from tunecheck.cli._options import CommandOptions, argument, command
from tunecheck.cli._shared_options import JsonOptions

_FOLDERS = ("evaluators", "prompty", "endpoints", "datasets", "eval_results")

_COPIED = (
    "evaluators/asks_back.py",
    "prompty/tone.prompty",
    "endpoints/azure_ml.yaml",
    "endpoints/azure_openai.yaml",
    "endpoints/openai.yaml",
    "endpoints/simulated.yaml",
    "datasets/val.jsonl",
    "datasets/val.yaml",
)
"""Files of this repository's own workspace, which the wheel carries along."""

_IGNORED = b"eval_results/\n__pycache__/\n"


@dataclass(frozen=True, kw_only=True)
class InitOptions(CommandOptions):
    folder: Path = argument("Where; by default here.", "DIR", default=Path())


@command(InitOptions)
def init(options: InitOptions, invocation: Invocation) -> int:
    """Make a workspace: evaluators/, prompty/, endpoints/, datasets/, eval_results/ and example files.

    What is there already is left as it is.
    """
    folder = options.folder
    files = {name: _content(name) for name in _COPIED} | {".gitignore": _IGNORED}
    try:
        for name in _FOLDERS:
            (folder / name).mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            print(f"{'made' if _write_new(folder / name, content) else 'kept'}  {folder / name}")
    except OSError as error:
        raise ConfigurationError(f"{error.filename or folder}: cannot be made: {error.strerror or error}") from None
    where = "" if folder == Path() else f"cd {folder} && "
    print(f"try it:  {where}tunecheck evaluate --dataset val.jsonl")
    return 0


def _content(name: str) -> bytes:
    # An editable install has no copy in the package: the files are the repository's own.
    from importlib.resources import files

    shipped = files("tunecheck.cli") / "workspace" / name
    if shipped.is_file():
        return shipped.read_bytes()
    return (Path(__file__).resolve().parents[3] / name).read_bytes()


def _write_new(path: Path, content: bytes) -> bool:
    try:
        with path.open("xb") as file:
            file.write(content)
    except FileExistsError:
        return False
    return True


@command(JsonOptions)
def plugins(options: JsonOptions, invocation: Invocation) -> int:
    """List plug-ins, what they bring, and the files of this workspace."""
    from tunecheck.plugins import discover, kinds

    plugins_by_sort = {kind: discover(kind) for kind in kinds()}
    if options.json:
        listed: dict[str, JSON] = {
            sort: [{"name": plugin.name, "origin": plugin.origin} for plugin in group]
            for sort, group in plugins_by_sort.items()
        }
        print_json(listed)
        return 0
    from rich.text import Text

    table = grid("left", "left")
    for sort, group in plugins_by_sort.items():
        if group:
            table.add_row(Text(sort, "bold"), "")
        for plugin in group:
            table.add_row(Text(f"  {clean(plugin.name, 60)}"), Text(clean(plugin.origin), "dim"))
    console(sys.stdout).print(table)
    return 0


@dataclass(frozen=True, kw_only=True)
class RememberOptions(CommandOptions):
    path: Path = argument("A file, or a folder for all the files in it.", "PATH")


@command(RememberOptions)
def trust(options: RememberOptions, invocation: Invocation) -> int:
    """Let files be loaded that data or others' runs name, as long as their content stays what it is now.

    Kept in the user's configuration folder, one file a content; removing that file takes it back.
    """
    from tunecheck._trust import remember

    for file, mark in remember(options.path):
        print(f"trusted  {clean(file)}  ({clean(mark)})")
    return 0
