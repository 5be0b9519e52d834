"""Scores of result trees: a verdict for every row, and the figures that the leaderboard makes of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from tunecheck.bfcl._decoding import Mode
from tunecheck.bfcl._entry_files import CheckRow, read_entries
from tunecheck.bfcl._multi_turn import check_multi_turn
from tunecheck.bfcl._replay import Simulators
from tunecheck.bfcl._result_files import Recorded, ResultFile, asked_in_mode, find_results
from tunecheck.bfcl._single_turn import check_single_turn
from tunecheck.bfcl._summary import CategoryScore, ModelScore
from tunecheck.bfcl._verdicts import Verdict
from tunecheck.datasets._bfcl.categories import Category
from tunecheck.datasets._bfcl.files import BfclFiles, find_bfcl

UNREADABLE = "unreadable_row"
UNKNOWN = "unknown_id"

Told = Callable[[ResultFile, CategoryScore], None]


@dataclass(frozen=True, slots=True)
class Scores:
    """What was scored: `models` by name, and the files of categories that are not checked here."""

    compat: bool
    models: dict[str, ModelScore]
    passed_over: list[Path]


def score_results(
    path: Path,
    *,
    compat: bool = True,
    mode: Mode | None = None,
    data: Path | None = None,
    workers: int | None = None,
    told: Told | None = None,
) -> Scores:
    """Score a result file or a tree of them.

    Args:
        path: a file `BFCL_v4_<category>_result.json`, or a folder above some.
        compat: judge exactly as the leaderboard does; else strictly.
        mode: how the models were asked, where that is known; by default their results tell.
        data: the copy of BFCL, where not the usual one.
        workers: how many processes; by default as many as pay for their start.
        told: is called for each file that is done.

    Raises:
        DataError: there are no result files, or the data is not there.
    """
    from tunecheck.bfcl._score_workers import score_side_by_side, worth_while

    tree = find_results(path)
    files = find_bfcl(data)
    tasks = [(file, mode or asked_in_mode(group)) for group in tree.models.values() for file in group]
    count = worth_while([file for file, _ in tasks]) if workers is None else workers
    if count > 1:
        scored = score_side_by_side(tasks, files, compat=compat, workers=count, told=told)
    else:
        scored = _score_here(tasks, Scorer(files, compat=compat), told)
    models = {
        name: ModelScore(name, {file.category.name: scored[file.path] for file in group})
        for name, group in tree.models.items()
    }
    return Scores(compat, models, tree.passed_over)


def _score_here(tasks: list[tuple[ResultFile, Mode]], scorer: Scorer, told: Told | None) -> dict[Path, CategoryScore]:
    scored = {}
    for file, mode in tasks:
        scored[file.path] = score = scorer.score(file, mode)
        if told is not None:
            told(file, score)
    return scored


class Scorer:
    """Scores result files against one copy of BFCL; each category's entries are read once."""

    def __init__(self, files: BfclFiles, *, compat: bool) -> None:
        self._files = files
        self._compat = compat
        self._entries: dict[str, dict[str, CheckRow]] = {}

    def score(self, file: ResultFile, mode: Mode) -> CategoryScore:
        """The verdicts of a file's rows.

        Raises:
            DataError: the file, or the data of its category, cannot be read.
        """
        entries = self._entries_of(file.category)
        verdicts: list[tuple[str, Verdict]] = []
        for record in file.rows():
            verdicts.append((record.id, self._verdict(record, entries.get(record.id), file, mode)))
        return CategoryScore(file.category.name, verdicts, len(entries.keys() - {name for name, _ in verdicts}))

    def _entries_of(self, category: Category) -> dict[str, CheckRow]:
        if category.name not in self._entries:
            self._entries[category.name] = read_entries(self._files, category)
        return self._entries[category.name]

    def _verdict(self, record: Recorded, row: CheckRow | None, file: ResultFile, mode: Mode) -> Verdict:
        if record.problem is not None:
            return Verdict(False, UNREADABLE, None, record.problem)
        if row is None:
            return Verdict(None, UNKNOWN, None, f"BFCL's data has no entry of this id in {file.category.name}")
        try:
            if not file.category.multi_turn:
                return check_single_turn(row, record.result, compat=self._compat, mode=mode)
            return check_multi_turn(
                row,
                record.result,
                compat=self._compat,
                simulators=self._padded if row["long_context"] else self._plain,
                mode=mode,
                forced_quit=record.forced_quit,
                model=file.model,
            )
        except RecursionError:
            return Verdict(False, UNREADABLE, None, "the result is nested too deeply")

    @cached_property
    def _plain(self) -> Simulators:
        return Simulators()

    @cached_property
    def _padded(self) -> Simulators:
        from tunecheck.simulators._long_context import LongContext

        return Simulators(long_context=LongContext.read(self._files.package))
