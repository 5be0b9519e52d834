"""Files that options name for a command to write: checked before it starts, written whole or not at all."""

from pathlib import Path

from tunecheck._errors import ConfigurationError, TunecheckError, told_as


def check_output(option: str, name: str | None) -> None:
    if name is None:
        return
    path = Path(name)
    if not name or path.is_dir():
        raise ConfigurationError(f"{option} {name}: that is a folder; name a file")
    if not path.parent.is_dir():
        raise ConfigurationError(f"{option} {name}: the folder {path.parent} does not exist; make it first")


def write_output(name: str, content: str | bytes) -> None:
    """Write a file; what UTF-8 cannot hold of a text is escaped."""
    from tunecheck._disk import write_file

    with told_as(TunecheckError, name, "cannot be written"):
        write_file(Path(name), content.encode("utf-8", "backslashreplace") if isinstance(content, str) else content)
