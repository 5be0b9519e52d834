"""`tunecheck init`: a workspace for somebody who installed the wheel: folders, example files, the sample data."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tunecheck.cli._parameters import Debug

Folder = Annotated[Path, typer.Argument(metavar="DIR", help="Where; by default here.")]


def init(folder: Folder = Path(), debug: Debug = False) -> int:
    """Make a workspace: evaluators/, prompty/, endpoints/, datasets/, eval_results/ and example files.

    What is there already is left as it is.
    """
    from tunecheck._errors import ConfigurationError
    from tunecheck.cli._workspace_files import FOLDERS, workspace_files

    try:
        for name in FOLDERS:
            (folder / name).mkdir(parents=True, exist_ok=True)
        for name, content in workspace_files():
            print(f"{'made' if _write_new(folder / name, content) else 'kept'}  {folder / name}")
    except OSError as error:
        raise ConfigurationError(f"{error.filename or folder}: cannot be made: {error.strerror or error}") from None
    where = "" if folder == Path() else f"cd {folder} && "
    print(f"try it:  {where}tunecheck evaluate --dataset val.jsonl")
    return 0


def _write_new(path: Path, content: bytes) -> bool:
    """Write a file unless something of that name is there."""
    try:
        with path.open("xb") as file:
            file.write(content)
    except FileExistsError:
        return False
    return True
