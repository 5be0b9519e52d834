"""`tunecheck init`: a workspace for somebody who installed the wheel: folders, example files, the sample data."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tunecheck._errors import ConfigurationError
from tunecheck.cli._invocation import Invocation
from tunecheck.cli._options import CommandOptions, argument, command

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
    """The options of `init`."""

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
    """A file from the wheel, or from the repository that an editable install runs from."""
    from importlib.resources import files

    shipped = files("tunecheck.cli") / "workspace" / name
    if shipped.is_file():
        return shipped.read_bytes()
    return (Path(__file__).resolve().parents[3] / name).read_bytes()


def _write_new(path: Path, content: bytes) -> bool:
    """Write a file unless something of that name is there."""
    try:
        with path.open("xb") as file:
            file.write(content)
    except FileExistsError:
        return False
    return True
