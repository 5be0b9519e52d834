"""Scores of result trees: a verdict on every row, and the leaderboard's figures."""

from __future__ import annotations

import os
from collections.abc import Container, Iterable, Mapping, Sequence, Set
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from multiprocessing import get_context
from pathlib import Path
from typing import get_args

from tunecheck.datasets import JsonLinesSource
from tunecheck.episodes import CallMode, RowVerdict, Services, StateCheck
from tunecheck.plugins import JSON, one_of
from tunecheck_bfcl._call_check import check_single_turn
from tunecheck_bfcl._data.categories import CATEGORIES, Category
from tunecheck_bfcl._data.files import BfclFiles, find_bfcl
from tunecheck_bfcl._data.prompts import read_long_context
from tunecheck_bfcl._decoding import Names
from tunecheck_bfcl._dialect import LeaderboardCheck
from tunecheck_bfcl._result_files import RecordedResult, ResultFile, asked_in_mode, find_results
from tunecheck_bfcl._summary import CategoryScore, ModelScore, failed_row

CheckRow = Mapping[str, JSON]


def read_entries(files: BfclFiles, category: Category) -> dict[str, CheckRow]:
    """Return the rows of a category by id, with the columns that the checks need.

    Raises:
        DataError: a file is missing or is not JSON Lines.
    """
    answers = _records_by_id(files.data / category.answers) if category.answers else {}
    rows: dict[str, CheckRow] = {}
    for name, entry in _records_by_id(files.data / category.questions).items():
        row: dict[str, JSON] = {
            "id": name,
            "check": category.check,
            "language": category.language,
            "question": entry.get("question"),
            "ground_truth": answers.get(name, {}).get("ground_truth"),
        }
        if category.multi_turn:
            row["involved_classes"] = entry.get("involved_classes")
            row["initial_config"] = entry.get("initial_config")
            row["long_context"] = category.long_context
        else:
            row["functions"] = entry.get("function")
        rows[name] = row
    return rows


def _records_by_id(path: Path) -> dict[str, dict[str, JSON]]:
    return {str(record.get("id")): record for _, record in JsonLinesSource(path).records()}


_UNREADABLE = "unreadable_row"
_BYTES_A_WORKER = 20_000_000  # some seconds of work; a process takes half a second to start


@dataclass(frozen=True, slots=True)
class Scores:
    """The scores of models by name. `passed_over` are result files of categories that Tunecheck does not check."""

    compat: bool
    models: dict[str, ModelScore]
    passed_over: list[Path]


def score_results(
    path: Path,
    *,
    compat: bool = True,
    mode: CallMode | None = None,
    names: Names = "auto",
    data: Path | None = None,
    workers: int = 1,
) -> Scores:
    """Score a result file, or all result files below a folder.

    Args:
        path: a file `BFCL_v4_<category>_result.json`, or a folder with result files below it.
        compat: judge exactly as the leaderboard does; otherwise judge strictly.
        mode: how the models were asked, "tools" or "text"; by default inferred from each model's results.
        names: how the leaderboard expects functions with dots in their names: "dotted", "underscored", or "auto" for
            the spelling of each row's calls. In the strict mode, both spellings are right.
        data: the copy of BFCL; by default as in `find_bfcl`.
        workers: number of processes. With several, a script needs `if __name__ == "__main__":` around the call.

    Raises:
        ConfigurationError: `names` has another value.
        DataError: there are no result files, or the data is missing.
    """
    one_of(names, get_args(Names), "names")
    tree = find_results(path)
    by_category: dict[str, list[tuple[ResultFile, CallMode]]] = {}
    for group in tree.models.values():
        group_mode = mode or asked_in_mode(group)
        for file in group:
            by_category.setdefault(file.category.name, []).append((file, group_mode))
    scorer = LeaderboardScorer(find_bfcl(data), compat=compat, names=names)
    scored = _score_files(scorer, by_category, workers)
    models = {
        name: ModelScore(name, {file.category.name: scored[file.path] for file in group})
        for name, group in tree.models.items()
    }
    return Scores(compat, models, tree.passed_over)


def _score_files(
    scorer: LeaderboardScorer, by_category: Mapping[str, Sequence[tuple[ResultFile, CallMode]]], workers: int
) -> dict[Path, CategoryScore]:
    """Return the score of each result file by path. With several workers, processes score a category each."""
    if workers < 2:
        scores = [scorer.score(CATEGORIES[name], files) for name, files in by_category.items()]
    else:
        largest_first = sorted(by_category, key=lambda name: -_size(file for file, _ in by_category[name]))
        with ProcessPoolExecutor(workers, get_context("spawn")) as pool:
            tasks = [pool.submit(scorer.score, CATEGORIES[name], by_category[name]) for name in largest_first]
            scores = [task.result() for task in tasks]
    return {path: score for each in scores for path, score in each.items()}


def useful_workers(path: Path) -> int:
    """Return the number of processes that is worthwhile for the result files below a path."""
    files = [file for group in find_results(path).models.values() for file in group]
    available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(available, len({file.category.name for file in files}), _size(files) // _BYTES_A_WORKER))


def _size(files: Iterable[ResultFile]) -> int:
    return sum(file.path.stat().st_size for file in files)


class LeaderboardScorer:
    """A scorer of result files with one copy of BFCL."""

    def __init__(self, files: BfclFiles, *, compat: bool, names: Names) -> None:
        self._files = files
        self._compat = compat
        self._names = names

    def score(self, category: Category, files: Sequence[tuple[ResultFile, CallMode]]) -> dict[Path, CategoryScore]:
        """Score the result files of one category. Each comes with the mode in which the model was asked."""
        entries = read_entries(self._files, category)
        return {file.path: self._score(file, mode, entries) for file, mode in files}

    def score_rows(self, file: ResultFile, mode: CallMode, ids: Container[str]) -> dict[str, RowVerdict]:
        """Return the verdicts on the rows of a file with these ids."""
        entries = read_entries(self._files, file.category)
        records = (record for record in file.rows() if record.id in ids)
        return {record.id: self._verdict(record, entries.get(record.id), file, mode) for record in records}

    def entry_ids(self, category: Category) -> Set[str]:
        """Return the ids of all entries of a category."""
        return _records_by_id(self._files.data / category.questions).keys()

    def _score(self, file: ResultFile, mode: CallMode, entries: Mapping[str, CheckRow]) -> CategoryScore:
        """Return the score of one file: the verdict on each of its rows, and the number of missing entries."""
        verdicts = [(record.id, self._verdict(record, entries.get(record.id), file, mode)) for record in file.rows()]
        return CategoryScore(file.category.name, verdicts, len(entries.keys() - {name for name, _ in verdicts}))

    def _verdict(self, record: RecordedResult, row: CheckRow | None, file: ResultFile, mode: CallMode) -> RowVerdict:
        """Return the verdict on a recorded row. An unreadable row fails; a row unknown to BFCL's data is not scored."""
        if record.problem is not None:
            return failed_row(_UNREADABLE, record.problem)
        if row is None:
            return RowVerdict(None, "unknown_id", None, f"BFCL has no entry with this id in {file.category.name}")
        try:
            if not file.category.multi_turn:
                return check_single_turn(row, record.result, compat=self._compat, mode=mode, names=self._names)
            return self._check.check(row, record.result, mode=mode, episode=record.episode, model=file.model)
        except RecursionError:
            return failed_row(_UNREADABLE, "the result is nested too deeply")

    @cached_property
    def _check(self) -> StateCheck:
        services = Services(long_context=lambda: read_long_context(self._files))
        return LeaderboardCheck(services) if self._compat else StateCheck(services)
