"""The errors of a finished run, as the commands that start runs say them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from tunecheck._messages import clean, counted
from tunecheck.runs._failures import read_failures
from tunecheck.runs._store import Run

if TYPE_CHECKING:
    from tunecheck.evaluation._evaluate import EvaluationResult


def run_errors(folder: Path, noun: str) -> Iterator[str]:
    """The kinds of errors, the commonest first, with a row each; `noun` is what a row stands for."""
    for group in read_failures(Run(folder).rows(), {}).error_groups:
        yield f"{clean(group.words, 200)} ({counted(group.rows, noun)}, e.g. {clean(group.example, 60)})"


def every_row_failed(result: EvaluationResult, noun: str) -> bool:
    """Whether nothing came of a run, which is then said on standard error."""
    failed = bool(result.row_count) and result.failed_row_count == result.row_count
    if failed:
        print(f"error: every {noun} ended in an error", file=sys.stderr)
    return failed
