"""Result files in the leaderboard's layout: their models, categories and rows.

`find_results()` finds the files for the commands that score them. Each `ResultFile` yields its rows.

…/<model>/[<group>/]BFCL_v4_<category>_result.json
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tunecheck import DataError
from tunecheck.episodes import UNKNOWN, CallMode, Episode, mode_of
from tunecheck.plugins import JSON, loads, raise_as
from tunecheck_bfcl._data.categories import CATEGORIES, OLD_NAMES, Category, model_folder_of, row_id

_NAME = re.compile(r"BFCL_v(?P<version>[34])_(?P<category>.+)_result\.json")
_ID = re.compile(rb'"id"\s*:\s*"([^"\\]{1,200})"')

_FROM_TOOLS = re.compile(rb'"result"\s*:\s*\[\s*(?:\{|\[\s*\[)')
"""The beginning of a result with calls as data: an answer, or the first step of a conversation's first turn."""


@dataclass(frozen=True, slots=True)
class RecordedResult:
    """One row of a result file. If it cannot be read, `problem` is the reason and there is no result.

    `episode` is the recorded course of the conversation.
    """

    id: str
    result: JSON = None
    problem: str | None = None
    episode: Episode = UNKNOWN


@dataclass(frozen=True, slots=True)
class ResultFile:
    path: Path
    model: str
    category: Category

    def rows(self) -> Iterator[RecordedResult]:
        """Yield the rows of the file, which is JSON Lines or one JSON array. An unreadable row has a `problem`.

        Raises:
            DataError: the file cannot be opened.
        """
        with raise_as(DataError, self.path):
            content = self.path.read_bytes()
        try:
            array = _array(content)
        except ValueError as error:
            yield RecordedResult("row-1", problem=f"the file is not JSON: {error}")
            return
        if array is not None:
            for number, value in enumerate(array, 1):
                yield self._record(value, number)
            return
        for number, line in enumerate(content.split(b"\n"), 1):
            if line.strip():
                yield self._line(line, number)

    def _line(self, line: bytes, number: int) -> RecordedResult:
        """Return the row of a line. If the line is not JSON, the row has a `problem`, and its id if one is found."""
        try:
            value = loads(line)
        except ValueError as error:
            match = _ID.search(line)
            name = match[1].decode("utf-8", "replace") if match else f"row-{number}"
            problem = f"line {number} is not JSON: {' '.join(str(error).split())}"
            return RecordedResult(row_id(name, self.category.name), problem=problem)
        return self._record(value, number)

    def _record(self, value: JSON, number: int) -> RecordedResult:
        """Return the row of a JSON value. A value without an id or result becomes a row with a `problem`."""
        if not isinstance(value, dict):
            return RecordedResult(f"row-{number}", problem=f"row {number} is not an object")
        name = value.get("id")
        if not isinstance(name, str) or not name:
            return RecordedResult(f"row-{number}", problem=f"row {number} has no id")
        name = row_id(name, self.category.name)
        if "result" not in value:
            return RecordedResult(name, problem=f"row {number} has no result")
        episode = Episode.read(value) if self.category.multi_turn else UNKNOWN
        return RecordedResult(name, value["result"], episode=episode)


@dataclass(frozen=True, slots=True)
class ResultTree:
    """The result files below a path, by model. `passed_over` are files of categories that Tunecheck does not check."""

    models: dict[str, list[ResultFile]]
    passed_over: list[Path]


def find_results(path: Path) -> ResultTree:
    """Return the result files at a path, which is a result file or a folder with result files below it.

    Raises:
        DataError: there are no result files, or a model has two of the same category.
    """
    categories: dict[Path, Category] = {}
    passed_over: list[Path] = []
    for file in _result_paths(path):
        category = _category(file)
        if category is None:
            passed_over.append(file)
        else:
            categories[file] = category
    if not categories:
        raise DataError(
            f"{path}: Tunecheck cannot check these files: {', '.join(file.name for file in passed_over[:5])}"
        )
    folders = {file: model_folder_of(file.resolve()) for file in categories}
    names = _model_names(path, set(folders.values()))
    models: dict[str, list[ResultFile]] = {}
    for file, category in categories.items():
        model = names[folders[file]]
        files = models.setdefault(model, [])
        twin = next((other.path for other in files if other.category is category), None)
        if twin is not None:
            raise DataError(f"{twin} and {file} both hold {category.name} results of {model}; remove one")
        files.append(ResultFile(file, model, category))
    order = list(CATEGORIES)
    for files in models.values():
        files.sort(key=lambda result: order.index(result.category.name))
    return ResultTree(models, passed_over)


def _result_paths(path: Path) -> list[Path]:
    """Return the paths of the result files at a path or below it, sorted.

    Raises:
        DataError: there are none, or one is not a regular file.
    """
    if path.is_file():
        if _NAME.fullmatch(path.name) is None:
            raise DataError(f"{path}: rename the file to BFCL_v4_<category>_result.json")
        return [path]
    paths = sorted(file for file in path.rglob("*_result.json") if _NAME.fullmatch(file.name))
    if not paths:
        text = "has no file BFCL_v4_<category>_result.json" if path.exists() else "there is no such file or folder"
        raise DataError(f"{path}: {text}")
    for file in paths:
        if not file.is_file():  # reading a pipe or a device would never end
            raise DataError(f"{file}: is not a regular file")
    return paths


def _category(path: Path) -> Category | None:
    """Return the category in the name of a result file, or None if Tunecheck does not check that category."""
    match = _NAME.fullmatch(path.name)
    name = match["category"] if match else ""
    return CATEGORIES.get(OLD_NAMES.get(name, name))


def asked_in_mode(files: Sequence[ResultFile]) -> CallMode:
    """Return how a model was asked, inferred from its files.

    It had tools if any result has calls as data or the model's name has the part FC. The mode is needed because no
    calls are read from the text answers of a model with tools.
    """
    for file in files:
        with file.path.open("rb") as opened:
            if _FROM_TOOLS.search(opened.read()):
                return "tools"
    return mode_of((), model=files[0].model)


def _array(content: bytes) -> list[JSON] | None:
    """Return the rows of a file that is one JSON array, or None for JSON Lines, even if the first line is an array.

    Raises:
        ValueError: neither the file nor its first line is JSON.
    """
    start = content.lstrip()
    if start[:1] != b"[":
        return None
    try:
        values = loads(start)
    except ValueError:
        loads(start.partition(b"\n")[0])
        return None
    return values if isinstance(values, list) else None


def _model_names(path: Path, folders: set[Path]) -> dict[Path, str]:
    """Return each model's name: the name of the folder, or the folder's path if two folders have the same name."""
    names = [folder.name for folder in folders]
    root = path.resolve()
    return {
        folder: (folder.name or "model") if names.count(folder.name) == 1 else folder.relative_to(root).as_posix()
        for folder in folders
    }
