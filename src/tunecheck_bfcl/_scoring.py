"""Result files in the leaderboard's layout, and their scores: a verdict on every row, and the leaderboard's figures.

…/<model>/[<group>/]BFCL_v4_<category>_result.json

    {"id": "simple_python_0", "result": [{"f": "{\\"a\\": 1}"}]}      calls as data, arguments as JSON
    {"id": "simple_python_1", "result": "[f(a=1)]"}                calls as text
    {"id": "multi_turn_base_0", "result": [[[{"cd": "{\\"folder\\": \\"x\\"}"}], "Done."]]}
                                                                   conversation: by turn and step

`score_results` finds the files, infers how each model was asked (`asked_in_mode`), and judges each row by the first
line that fits:

  the row cannot be read                     fails: unreadable_row
  BFCL's data has no row with this id        not scored: unknown_id
  a category with one question per row       `check_single_turn`
  a category with conversations              `LeaderboardCheck`, or in the strict mode the core's `StateCheck`

Rows of the data without a result count as missing; they are not in the accuracy.
"""

import re
from collections import Counter
from collections.abc import Container, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal, get_args

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from tunecheck import ConfigurationError, DataError
from tunecheck.datasets import Record
from tunecheck.episodes import CallMode, Episode, GroundTruth, RowVerdict, Services, StateCheck
from tunecheck.plugins import JSON, dumps_line, loads, one_of, raise_as, write_file
from tunecheck.runs import dumps_readably
from tunecheck_bfcl._call_check import check_single_turn
from tunecheck_bfcl._data.files import CATEGORIES, OLD_NAMES, BfclFiles, Category, find_bfcl, model_folder_of, row_id
from tunecheck_bfcl._data.loader import read_entries
from tunecheck_bfcl._data.prompts import read_long_context
from tunecheck_bfcl._decoding import Names
from tunecheck_bfcl._dialect import LeaderboardCheck
from tunecheck_bfcl._summary import FIGURES, CategoryScore, ModelScore, ModelsSummary, ModelSummary, failed_row

# BFCL_v3_simple_result.json: version 3, category simple.
_NAME = re.compile(r"BFCL_v(?P<version>[34])_(?P<category>.+)_result\.json")

# The id in a line that is not JSON, such as a last line that was cut off: {"id": "simple_python_7", "resu
_ID = re.compile(rb'"id"\s*:\s*"([^"\\]{1,200})"')

_FROM_TOOLS = re.compile(rb'"result"\s*:\s*\[\s*(?:\{|\[\s*\[)')
"""The beginning of a result with calls as data: an answer, or the first step of a conversation's first turn.

It matches `"result": [{` and `"result": [[[`, but neither `"result": [["Done.` (text) nor `"result": []` (no call).
"""


class ResultFile(msgspec.Struct, frozen=True):
    path: Path
    model: str
    category: Category

    def rows(self) -> Iterator[tuple[str, Record | str]]:
        """Yield the id and the record of each row; for an unreadable row, the problem in place of the record.

        Raises:
            DataError: the file cannot be opened.
        """
        with raise_as(DataError, self.path):
            content = self.path.read_bytes()

        # Split at line feeds only: other separators may occur inside texts.
        for number, line in enumerate(content.split(b"\n"), 1):
            if line.strip():
                yield self._row(line, number)

    def _row(self, line: bytes, number: int) -> tuple[str, Record | str]:
        """Return the row of a line. A line that is not JSON, or has no id or no result, gives a problem.

        If no id is found, `row-<number>` is the row's id.
        """
        try:
            value = loads(line)
        except ValueError as error:
            match = _ID.search(line)
            name = match[1].decode("utf-8", "replace") if match else f"row-{number}"
            problem = f"line {number} is not JSON: {' '.join(str(error).replace('line 1 ', '').split())}"
            return row_id(name, self.category.name), problem

        if not isinstance(value, dict) or not isinstance(name := value.get("id"), str) or not name:
            defect = "has no `id`" if isinstance(value, dict) else "is not an object"
            return f"row-{number}", f"line {number} {defect}"
        return row_id(name, self.category.name), value if "result" in value else f"line {number} has no `result`"


def find_results(path: Path) -> tuple[dict[str, list[ResultFile]], list[Path]]:
    """Return the result files at a path by model, and the files of categories that Tunecheck does not check.

    The path is a result file or a folder with result files below it.

    Raises:
        DataError: there are no result files of known categories, one is not a regular file, or a model has two of the
            same category.
    """
    all_files = {file: _category_of_file(file) for file in _result_paths(path)}
    passed_over = [file for file, category in all_files.items() if category is None]
    categories = {file: category for file, category in all_files.items() if category is not None}

    # Resolved, so that a relative path such as "." still has a folder name for the model.
    folders = {file: model_folder_of(file.resolve()) for file in categories}
    counts = Counter(folder.name for folder in {*folders.values()})

    found: dict[str, dict[str, ResultFile]] = {}
    for file, category in categories.items():
        model = folders[file].name or "model"
        if counts[model] > 1:  # two iterations of a model, such as r1/m and r2/m
            relative = model_folder_of(file.relative_to(path))
            model = relative.as_posix() if relative.name else model

        files = found.setdefault(model, {})
        # Old and new names, such as simple and simple_python, are one category.
        twin = files.get(category.name)
        if twin is not None:
            raise DataError(f"{twin.path} and {file} both hold {category.name} results of {model}; remove one file")
        files[category.name] = ResultFile(file, model, category)

    if not found:
        names = ", ".join(file.name for file in passed_over[:5])
        raise DataError(f"{path}: Tunecheck cannot score the categories of {names}; give result files of BFCL V3")
    in_order = {model: [files[name] for name in CATEGORIES if name in files] for model, files in found.items()}
    return in_order, passed_over


def _result_paths(path: Path) -> list[Path]:
    """Return the paths of the result files at a path or below it, sorted.

    Raises:
        DataError: there are none, or one is not a regular file.
    """
    if path.is_file():
        if _NAME.fullmatch(path.name) is None:
            raise DataError(f"{path}: the name is no result file's; rename the file to BFCL_v4_<category>_result.json")
        return [path]

    paths = sorted(file for file in path.rglob("*_result.json") if _NAME.fullmatch(file.name))
    if not paths:
        text = "there is no file BFCL_v4_<category>_result.json" if path.exists() else "there is no such file or folder"
        raise DataError(f"{path}: {text}; correct the path")

    for file in paths:
        if not file.is_file():  # reading a pipe or a device would never end
            raise DataError(f"{file} is not a regular file; remove it from the folder")
    return paths


def _category_of_file(path: Path) -> Category | None:
    """Return the category in the name of a result file, or None if Tunecheck does not check that category."""
    match = _NAME.fullmatch(path.name)
    name = match["category"] if match else ""
    return CATEGORIES.get(OLD_NAMES.get(name, name))


def asked_in_mode(files: Sequence[ResultFile]) -> CallMode:
    """Return how a model was asked, inferred from its files.

    The model had tools if the result of any row begins with a call as data, or if its name has the part FC, as in
    `gpt-4o-FC`. The mode is needed because no calls are read from the text answers of a model with tools.
    """
    # The whole file is searched, because its first rows may have no call.
    for file in files:
        with file.path.open("rb") as opened:
            if _FROM_TOOLS.search(opened.read()):
                return "tools"
    name_parts = files[0].model.rpartition("/")[2].replace("_", "-").split("-")
    return "tools" if "FC" in name_parts else "text"


CheckRow = Mapping[str, JSON]
"""An entry of BFCL's data with the columns that the checks need: check, language, turns, ground_truth and others."""


def check_rows(files: BfclFiles, category: Category) -> dict[str, CheckRow]:
    """Return the entries of a category by id, with the columns that the checks need.

    Unlike a data set's rows, they have no tools and no hints, which scoring does not need.

    Raises:
        DataError: a file is missing or is not JSON Lines, or a conversation's ground truth has another form.
    """
    columns: dict[str, JSON] = {
        "check": category.check,
        "language": category.language,
        "long_context": category.long_context,
    }

    def read(entry: Record) -> Record:
        row = {**entry, **columns, "turns": entry.get("question"), "functions": entry.get("function")}
        if category.multi_turn:
            GroundTruth.read(row)
        return row

    return {str(row.get("id")): row for row in read_entries(files, category, read)}


# -- scores

_UNREADABLE = "unreadable_row"


class Scores(msgspec.Struct, frozen=True):
    """The scores of models by name. `passed_over` are result files of categories that Tunecheck does not check."""

    compat: bool
    models: dict[str, ModelScore]
    passed_over: list[Path]

    def write(self, folder: Path) -> ModelSummary | ModelsSummary:
        """Write the verdicts of each category and the summaries below a folder, and return the summary.

        Several models get a subfolder each, and a summary of all models is written above them.

        Raises:
            ConfigurationError: the folder cannot be written.
        """
        compat: Literal["bfcl", "strict"] = "bfcl" if self.compat else "strict"
        summaries: dict[str, ModelSummary] = {}

        with raise_as(ConfigurationError, folder, "cannot be written"):
            for name, model in self.models.items():
                model_folder = folder if len(self.models) == 1 else folder / name
                model_folder.mkdir(parents=True, exist_ok=True)
                for category, score in model.categories.items():
                    write_file(model_folder / f"{category}.verdicts.jsonl", b"".join(map(dumps_line, score.lines())))
                summary = model.summary(compat)
                write_file(model_folder / "summary.json", dumps_readably(summary))
                # In the file of several models, only the outer object has the format version.
                summaries[name] = replace(summary, format_version=UNSET)

            if len(summaries) == 1:
                return summary
            models_summary = ModelsSummary(compat=compat, models=summaries)
            write_file(folder / "summary.json", dumps_readably(models_summary))
        return models_summary

    def table_lines(self, most_categories: int) -> Iterator[list[str]]:
        """Yield a table's lines, with a cell for each model: categories with results, then the leaderboard's figures.

        Figures that no model has are left out. More than `most_categories` categories are replaced by one line that
        names the file with their results.
        """
        models = list(self.models.values())
        shown = [category for category in CATEGORIES if any(category in model.categories for model in models)]

        if len(shown) <= most_categories:
            for category in shown:
                yield [category, *(_cell(model.categories.get(category)) for model in models)]

        for version, names in FIGURES.items():
            for name in names:
                figures = [model.figures(version)[name] for model in models]
                if any(figure is not None for figure in figures):
                    yield [f"{version.upper()} {name.replace('_', ' ')}", *map(_share, figures)]

        if len(shown) > most_categories:
            yield [f"{len(shown)} categories: bfcl_score/summary.json", *("" for _ in models)]


def _cell(score: CategoryScore | None) -> str:
    """Return a category's table cell, such as "31 of 46 (2 missing)  67.39%", or "–" without a score."""
    if score is None:
        return _share(None)
    not_scored = len(score.verdicts) - score.total
    notes = f" ({not_scored} not scored)" if not_scored else ""
    notes += f" ({score.missing} missing)" if score.missing else ""
    return f"{score.correct:,} of {score.total:,}{notes}  {_share(score.accuracy)}"


def _share(share: float | None) -> str:
    """Return a share as a percentage, or "–" for None."""
    return "–" if share is None else f"{share:.2%}"


def score_results(
    path: Path, *, compat: bool = True, mode: CallMode | None = None, names: Names = "auto", data: Path | None = None
) -> Scores:
    """Score a result file, or all result files below a folder.

    Args:
        path: a file `BFCL_v4_<category>_result.json`, or a folder with result files below it.
        compat: judge exactly as the leaderboard does; otherwise judge strictly.
        mode: how the models were asked, "tools" or "text"; by default inferred from each model's results.
        names: how the leaderboard expects functions with dots in their names: "dotted", "underscored", or "auto" for
            the spelling of each row's calls. In the strict mode, both spellings are right.
        data: the copy of BFCL; by default as in `find_bfcl`.

    Raises:
        ConfigurationError: `names` has another value.
        DataError: there are no result files, or the data is missing.
    """
    one_of(names, get_args(Names), "names")
    found, passed_over = find_results(path)
    modes = {name: mode or asked_in_mode(files) for name, files in found.items()}

    scorer = LeaderboardScorer(find_bfcl(data), compat=compat, names=names)
    scores: dict[str, dict[str, CategoryScore]] = {name: {} for name in found}
    for category in CATEGORIES.values():
        result_files = [file for files in found.values() for file in files if file.category is category]
        entries = check_rows(scorer.files, category) if result_files else {}  # read once for all models
        for file in result_files:
            verdicts = scorer.verdicts(file, modes[file.model], entries)
            scores[file.model][category.name] = CategoryScore(category.name, verdicts, entries.keys())

    models = {name: ModelScore(name, categories) for name, categories in scores.items()}
    return Scores(compat, models, passed_over)


class LeaderboardScorer:
    """A scorer of result files with one copy of BFCL."""

    def __init__(self, files: BfclFiles, *, compat: bool, names: Names) -> None:
        self.files = files
        self._compat = compat
        self._names = names
        # The long-context constants are read only if a row needs them.
        services = Services(long_context=lambda: read_long_context(files))
        self._check = LeaderboardCheck(services) if compat else StateCheck(services)

    def verdicts(
        self, file: ResultFile, mode: CallMode, entries: Mapping[str, CheckRow], ids: Container[str] | None = None
    ) -> list[tuple[str, RowVerdict]]:
        """Return the verdicts on the rows of a file, or only on the rows with these `ids`."""
        records = ((name, record) for name, record in file.rows() if ids is None or name in ids)
        return [(name, self._verdict(record, entries.get(name), file, mode)) for name, record in records]

    def _verdict(self, record: Record | str, row: CheckRow | None, file: ResultFile, mode: CallMode) -> RowVerdict:
        """Return the verdict on a recorded row. An unreadable row fails; a row unknown to BFCL's data is not scored."""
        if isinstance(record, str):
            return failed_row(_UNREADABLE, record)
        if row is None:
            return RowVerdict(None, "unknown_id", message=f"BFCL has no entry with this id in {file.category.name}")

        try:
            if not file.category.multi_turn:
                return check_single_turn(row, record["result"], compat=self._compat, mode=mode, names=self._names)
            episode = Episode.read(record)
            return self._check.check(row, record["result"], mode=mode, episode=episode, model=file.model)
        except RecursionError:
            return failed_row(_UNREADABLE, "the result is nested too deeply")
