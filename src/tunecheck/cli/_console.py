"""Output of commands: JSON, paths, progress, files.

If the reader closes the pipe, as `head` does, output stops. A command with its own exit code keeps that code
(`until_pipe_closes`); any other ends with 0 (`cli/_app.py`).
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from tunecheck._errors import ConfigurationError, TunecheckError, raise_as
from tunecheck._json import JSON, dumps_line
from tunecheck._messages import json_without_log_commands, printable

if TYPE_CHECKING:
    from tunecheck._progress import ProgressBar
    from tunecheck.views import View


def progress_bar(name: str, quiet: bool | None) -> ProgressBar | None:
    """Return a progress bar for standard error; None if that is no terminal, or if `quiet`."""
    if quiet:
        return None
    from tunecheck.views import console

    stream = console(sys.stderr)
    if not stream.is_terminal:
        return None
    from tunecheck._progress import ProgressBar

    return ProgressBar(name, console=stream)


def stop_writing() -> None:
    """Discard further output after the reader closed the pipe, because writing would raise an error at exit."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@contextlib.contextmanager
def until_pipe_closes() -> Iterator[None]:
    """Let a command with its own exit code print; a closed pipe ends only the output."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        stop_writing()


def print_path(path: str | os.PathLike[str]) -> None:
    """Print a path unchanged for shells; on a terminal, remove control characters."""
    print(printable(os.fspath(path)) if sys.stdout.isatty() else os.fspath(path))


def print_json(value: JSON) -> None:
    """Print a value as one line of JSON, in which a CI system executes no log commands."""
    sys.stdout.write(json_without_log_commands(dumps_line(value).decode("utf-8")))


def print_result(shown: JSON | View) -> None:
    """Print a page, or any other value as JSON; if the reader closes the pipe, only the output ends."""
    from tunecheck.views import View, console, print_view

    with until_pipe_closes():
        if isinstance(shown, View):
            print_view(shown, console(sys.stdout))
        else:
            print_json(shown)


def check_output(option: str, name: str | None) -> None:
    """Check before the command starts that the file that an option names can be written; None means no file.

    Raises:
        ConfigurationError: the name is empty or that of a folder, or the file's folder does not exist.
    """
    if name is None:
        return

    path = Path(name)
    if not name or path.is_dir():
        raise ConfigurationError(f"{option} {name or '(empty)'} is not the path of a file: name a file, not a folder")
    if not path.parent.is_dir():
        raise ConfigurationError(f"{option} {name}: the folder {path.parent} does not exist: make it first")


def write_output(name: str, content: str | bytes) -> None:
    """Write a whole file or nothing; escape characters that UTF-8 cannot hold, such as `\\ud83d`.

    Raises:
        TunecheckError: the file cannot be written.
    """
    from tunecheck._disk import write_file

    with raise_as(TunecheckError, name, "cannot be written"):
        write_file(Path(name), content.encode("utf-8", "backslashreplace") if isinstance(content, str) else content)
