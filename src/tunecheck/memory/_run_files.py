"""What a memory run leaves beside the files of every run, below `RUN/memory/`.

session-1/events.jsonl             a session's events: the truth
<benchmark>/definitions/…          its tests, as they were
<benchmark>/results/<agent>/…      what came of them, in the GoodAI benchmark's layout
summary.json                       the figures
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tunecheck._errors import RunError
from tunecheck._files.versions import versioned
from tunecheck._json import JSON
from tunecheck.memory._event_log import FOLDER, event_log_path, read_events
from tunecheck.memory._figures import RunFigures, read_scored, run_figures
from tunecheck.memory._goodai.files import LegacyScore, agent_folder, write_results
from tunecheck.memory._model import Definition
from tunecheck.memory._target import MemoryTarget
from tunecheck.memory._test_states import SessionBook
from tunecheck.runs._store import Run, dumps_readably, write_file

SUMMARY = "summary.json"

EVALUATOR = "memory"
_SCORE, _REASON = f"outputs.{EVALUATOR}.memory", f"outputs.{EVALUATOR}.memory_reason"


@dataclass(frozen=True)
class RunFiles:
    """The figures of a run, and the folders of its results, one a repetition."""

    figures: RunFigures
    results: Sequence[Path]


def write_run_files(
    run: Run,
    target: MemoryTarget,
    definitions: Sequence[Definition],
    benchmark: Path,
    repeat: int,
    usage: Mapping[str, JSON],
    more: Mapping[str, JSON],
) -> RunFiles:
    """Write the figures and results of a finished run; `more` stands in the summary, too.

    Raises:
        RunError: a file cannot be written.
    """
    rows = [*run.rows()]
    books = {trial: _book(run, target, trial) for trial in range(1, repeat + 1)}
    figures = run_figures(read_scored(rows, _SCORE), books.values())
    scores, costs = _scores(rows), _costs(usage, repeat)
    by_id = {definition.id: definition for definition in definitions}
    folders = []
    try:
        for trial, book in books.items():
            folders.append(agent_folder(benchmark, target.name, trial))
            write_results(folders[-1], event_log_path(run.folder, trial), book, by_id, scores[trial], costs)
        summary = {**figures.data(), "usage": dict(usage), **more}
        write_file(run.folder / FOLDER / SUMMARY, dumps_readably(versioned(summary)))
    except OSError as error:
        raise RunError(f"{benchmark}: cannot be written: {error.strerror}; run {run.id} is finished") from error
    return RunFiles(figures, folders)


def _book(run: Run, target: MemoryTarget, trial: int) -> SessionBook:
    """The books of a session: as they were kept, or folded from the log of one that was over already."""
    book = target.books.get(trial)
    if book is None:
        book = target.make_book()
        for event in read_events(event_log_path(run.folder, trial)):
            if event.outcome is not None:
                book.note(event.effect, event.outcome)
    return book


def _scores(rows: Sequence[Mapping[str, JSON]]) -> dict[int, dict[str, LegacyScore]]:
    """By repetition and test."""
    found: dict[int, dict[str, LegacyScore]] = {}
    for row in rows:
        trial, test = row.get("inputs.trial", 1), row.get("inputs.source_id", row.get("row_id"))
        score, reason = row.get(_SCORE), row.get(_REASON)
        number = score if isinstance(score, (int, float)) and not isinstance(score, bool) else None
        if isinstance(trial, int):
            of_trial = found.setdefault(trial, {})
            of_trial[str(test)] = LegacyScore(number, [] if reason is None else [str(reason)])
    return found


def _costs(usage: Mapping[str, JSON], repeat: int) -> dict[str, JSON]:
    """What the benchmark's statistics say of cost, in dollars; several conversations were paid for together."""
    agent, *managing = (_dollars(usage.get(name)) for name in ("target", "judge", EVALUATOR))
    known = [cost for cost in managing if cost is not None]
    return {
        "agent_costs_usd": agent if repeat == 1 else None,
        "managing_costs_usd": sum(known) if known and repeat == 1 else None,
    }


def _dollars(spent: JSON) -> float | None:
    cost = spent.get("cost") if isinstance(spent, dict) and spent.get("currency") == "USD" else None
    return float(cost) if isinstance(cost, (int, float)) else None
