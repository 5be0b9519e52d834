"""Scores one result file after another; as `python -m tunecheck_bfcl._scorer`, a worker process that does so.

A task goes to a worker as one line of JSON, and its verdicts come back as one.
"""

import sys
from functools import cached_property
from pathlib import Path
from typing import cast

from msgspec import structs

from tunecheck._errors import TunecheckError
from tunecheck._json import JSON, dumps_line, loads
from tunecheck.episodes._decoding import CallMode
from tunecheck.episodes._playing import Services
from tunecheck.episodes._state_check import StateCheck
from tunecheck.episodes._verdicts import RowVerdict
from tunecheck_bfcl._conversations import LeaderboardCheck
from tunecheck_bfcl._data.categories import CATEGORIES
from tunecheck_bfcl._data.files import BfclFiles
from tunecheck_bfcl._data.long_context import read_long_context
from tunecheck_bfcl._decoding import Names
from tunecheck_bfcl._entries import CheckRow, read_entries
from tunecheck_bfcl._result_files import Recorded, ResultFile
from tunecheck_bfcl._single_turn import check_single_turn
from tunecheck_bfcl._summary import CategoryScore
from tunecheck_bfcl._verdicts import failed

_UNREADABLE = "unreadable_row"


class Scorer:
    """Scores result files against one copy of BFCL; each category's entries are read once."""

    def __init__(self, files: BfclFiles, *, compat: bool, names: Names) -> None:
        self._files = files
        self._compat = compat
        self._names = names
        self._entries: dict[str, dict[str, CheckRow]] = {}

    def score(self, file: ResultFile, mode: CallMode) -> CategoryScore:
        category = file.category
        if category.name not in self._entries:
            self._entries[category.name] = read_entries(self._files, category)
        entries = self._entries[category.name]
        verdicts = [(record.id, self._verdict(record, entries.get(record.id), file, mode)) for record in file.rows()]
        return CategoryScore(category.name, verdicts, len(entries.keys() - {name for name, _ in verdicts}))

    def _verdict(self, record: Recorded, row: CheckRow | None, file: ResultFile, mode: CallMode) -> RowVerdict:
        if record.problem is not None:
            return failed(_UNREADABLE, record.problem)
        if row is None:
            return RowVerdict(None, "unknown_id", None, f"BFCL's data has no entry of this id in {file.category.name}")
        try:
            if not file.category.multi_turn:
                return check_single_turn(row, record.result, compat=self._compat, mode=mode, names=self._names)
            return self._check.check(row, record.result, mode=mode, course=record.course, model=file.model)
        except RecursionError:
            return failed(_UNREADABLE, "the result is nested too deeply")

    @cached_property
    def _check(self) -> StateCheck:
        services = Services(long_context=lambda: read_long_context(self._files.package))
        return LeaderboardCheck(services) if self._compat else StateCheck(services)


def main() -> None:
    """Score the files that standard input names, a task a line, and answer each with a line, until it ends."""
    settings = cast("dict[str, str]", loads(sys.stdin.buffer.readline()))
    files = BfclFiles(Path(settings["package"]), Path(settings["data"]))
    scorer = Scorer(files, compat=bool(settings["compat"]), names=cast("Names", settings["names"]))
    for line in sys.stdin.buffer:
        sys.stdout.buffer.write(dumps_line(_scored(scorer, cast("dict[str, str]", loads(line)))))
        sys.stdout.buffer.flush()


def _scored(scorer: Scorer, task: dict[str, str]) -> dict[str, JSON]:
    file = ResultFile(Path(task["path"]), task["model"], CATEGORIES[task["category"]])
    try:
        score = scorer.score(file, "text" if task["mode"] == "text" else "tools")
    except TunecheckError as error:
        return {"error": str(error)}
    return {"lines": [structs.asdict(line) for line in score.lines()], "missing": score.missing}


if __name__ == "__main__":
    main()
