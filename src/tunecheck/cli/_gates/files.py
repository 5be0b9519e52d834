"""What a pipeline reads of a run: the files of `--junit` and `--markdown`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tunecheck._errors import ConfigurationError, TunecheckError

if TYPE_CHECKING:
    from tunecheck.cli._evaluate.options import Options
    from tunecheck.cli._evaluate.summary import Summary


def check_folders(options: Options) -> None:
    """See before the run that the files can be written after it.

    Raises:
        ConfigurationError: a folder is not there, or the name is a folder's.
    """
    for option, name in (("--junit", options.junit), ("--markdown", options.markdown)):
        if name is None:
            continue
        path = Path(name)
        if not name or path.is_dir():
            raise ConfigurationError(f"{option} {name!r}: that is a folder; name a file")
        if not path.parent.is_dir():
            raise ConfigurationError(f"{option}: the folder {path.parent} does not exist; make it first")


def write_files(options: Options, summary: Summary, allowed_errors: float | None, run: Path) -> None:
    """Write the files that are asked for, each whole or not at all.

    Raises:
        TunecheckError: one cannot be written.
    """
    if options.junit is not None:
        from tunecheck.cli._gates.junit import junit_xml

        _write(options.junit, junit_xml(summary, allowed_errors))
    if options.markdown is not None:
        from tunecheck.cli._gates.markdown import markdown_summary

        _write(options.markdown, markdown_summary(summary, run).encode("utf-8", "backslashreplace"))


def _write(name: str, content: bytes) -> None:
    from tunecheck.runs._store import write_file

    try:
        write_file(Path(name), content)
    except OSError as error:
        raise TunecheckError(f"{name}: cannot be written: {error.strerror or error}") from None
