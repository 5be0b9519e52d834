"""Find the file that a data set's name stands for, and say where it was looked for when there is none."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path

from tunecheck._errors import DataError
from tunecheck._messages import did_you_mean
from tunecheck.datasets._csv_files import CsvSource
from tunecheck.datasets._json_files import JsonLinesSource, json_source
from tunecheck.datasets._parquet_files import ParquetSource
from tunecheck.datasets._sources import FileSource

SUFFIXES = (".jsonl", ".ndjson", ".json", ".csv", ".parquet")

_MOST_NEIGHBOURS = 1_000


def file_source(path: Path) -> FileSource:
    """What reads a file, by its suffix.

    Raises:
        DataError: the suffix is not one of `SUFFIXES`.
    """
    match path.suffix.lower():
        case ".jsonl" | ".ndjson":
            return JsonLinesSource(path)
        case ".json":
            return json_source(path)
        case ".csv":
            return CsvSource(path)
        case ".parquet":
            return ParquetSource(path)
    hint = did_you_mean(path.suffix.lower(), SUFFIXES) if path.suffix else f"; known: {', '.join(SUFFIXES)}"
    raise DataError(f"{path}: the suffix {path.suffix!r} is not one of a data file{hint}")


def locate(given: str, search: Sequence[Path]) -> Path:
    """The file of that name: as given, else in the first folder of `search` that has it.

    Raises:
        DataError: there is none, or it is not a regular file.
    """
    places = [Path(given), *(folder / given for folder in search)] if not Path(given).is_absolute() else [Path(given)]
    for path in places:
        if exists(path):
            return _regular(path)
    folders = list(dict.fromkeys(path.parent for path in places))
    looked = " and ".join(f"{str(folder)[:200]!r}" for folder in folders)
    name = Path(given).name
    hint = did_you_mean(name, _neighbours(folders))
    raise DataError(f"there is no data file {given[:200]!r} (looked in {looked}){hint}")


def exists(path: Path) -> bool:
    """Whether something of that name is there; a name that no file can have is not."""
    try:
        return path.exists()
    except (OSError, ValueError):  # a name that is too long, or holds a NUL
        return False


def _regular(path: Path) -> Path:
    if path.is_dir():
        found = sorted(_data_files(path))
        hint = f", such as {str(path / found[0])!r}" if found else ""
        raise DataError(f"{path} is a folder; give one of the data files in it{hint}")
    if not path.is_file():
        raise DataError(f"{path} is not a regular file")
    return path


def _neighbours(folders: Iterable[Path]) -> Iterator[str]:
    for folder in folders:
        yield from _data_files(folder)


def _data_files(folder: Path) -> list[str]:
    try:
        names = [path.name for path in islice(folder.iterdir(), _MOST_NEIGHBOURS)]
    except (OSError, ValueError):
        return []
    return [name for name in names if Path(name).suffix.lower() in SUFFIXES]
