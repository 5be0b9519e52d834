"""A memory run in its report: its figures, and how its tests were interleaved in their conversations."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from tunecheck.plugins import JSON, check_version, loads, read_regular
from tunecheck_memory._session_log import is_test_log, moment_of

_MOST_BYTES = 4 << 20
_MOST_SETS = 200
_MOST_CHARACTERS = 100

_LABELS: Mapping[str, str] = {
    "score": "score",
    "max_score": "of at most",
    "std": "±",
    "accuracy": "accuracy",
    "tokens_per_second": "tokens/s",
    "verbosity": "verbosity, tokens",
    "memory_span": "remembered over, tokens",
    "longest_span": "longest span, tokens",
    "tokens": "tokens of a conversation",
    "messages": "its messages",
    "fillers": "of them filler",
}


def memory_figures(run: Path) -> JSON:
    """`{"figures": [[label, number], …], "datasets": [[title, tests, scored, mean, std], …]}` of a run's folder.

    None where the run has none, or none that can be read: the rest of the report does without.
    """
    summary = _read(run / "memory" / "summary.json")
    if summary is None:
        return None
    figures: list[JSON] = [
        [label, value] for key, label in _LABELS.items() if (value := _number(summary.get(key))) is not None
    ]
    data_sets = summary.get("datasets")
    sets = [*data_sets.items()][:_MOST_SETS] if isinstance(data_sets, dict) else []
    datasets: list[JSON] = [
        [title[:_MOST_CHARACTERS], *(_number(each.get(key)) for key in ("tests", "scored", "mean", "std"))]
        for title, each in sets
        if isinstance(each, dict)
    ]
    return {"figures": figures, "datasets": datasets}


def _read(path: Path) -> dict[str, JSON] | None:
    try:
        value = loads(read_regular(path, _MOST_BYTES))
    except (OSError, ValueError):
        return None
    if isinstance(value, dict):
        check_version(value, path)
    return value if isinstance(value, dict) else None


def _number(value: JSON) -> float | None:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return value if is_number and isinstance(value, (int, float)) and math.isfinite(value) else None


_MOST_SESSIONS = 10
_MOST_TESTS = 500
_MOST_MARKS = 100
_MOST_GAPS = 2_000
_JUMP_S = 60
"""Between two messages, from which on time is said to have passed with nothing said."""

_KINDS = ("statement", "question", "judge", "callback", "callback over", "wait", "end")
"""What is marked, by the number under which the page knows it."""


@dataclass(frozen=True, slots=True)
class _Said:
    """A message of a test: its place, where the tokens stand before and after it, and when."""

    message: int
    before: int
    after: int
    at: str


@dataclass(slots=True)
class _Session:
    """One conversation: its tests, and their messages."""

    tests: list[JSON] = field(default_factory=list)
    said: list[_Said] = field(default_factory=list)
    left_out: int = 0


class Timeline:
    """Collects the tests of a run, row by row."""

    def __init__(self) -> None:
        self._sessions: dict[str, _Session] = {}

    def add(self, number: int, row: Mapping[str, JSON], score: float | None) -> None:
        """One more row; what is not a memory test is passed over."""
        log = row.get("outputs.log")
        if not is_test_log(log):
            return
        name = str(row.get("outputs.session"))[:100]
        if name not in self._sessions and len(self._sessions) >= _MOST_SESSIONS:
            return
        session = self._sessions.setdefault(name, _Session())
        marks = [mark for entry in log if isinstance(entry, dict) and (mark := _mark(entry)) is not None]  # type: ignore[union-attr]
        session.said += [said for entry in log if isinstance(entry, dict) and (said := _said(entry)) is not None]  # type: ignore[union-attr]
        if len(session.tests) >= _MOST_TESTS:
            session.left_out += 1
            return
        ended = row.get("outputs.ended")
        end = moment_of(ended) if isinstance(ended, dict) else None
        begin = moment_of(log[0])  # type: ignore[index,arg-type]  # as a test's log begins
        assert begin is not None
        session.tests.append(
            {
                "id": str(row.get("row_id"))[:200],
                "row": number,
                "score": score if score is not None and math.isfinite(score) else None,
                "begin": begin[1],
                "end": end[1] if end is not None else begin[1],
                "marks": [*marks[:_MOST_MARKS]],
            }
        )

    def written(self) -> JSON:
        """As the page reads it; None where no row is a memory test."""
        if not self._sessions:
            return None
        return [_written(name, session) for name, session in self._sessions.items()]


def _mark(entry: Mapping[str, JSON]) -> JSON:
    """`[kind, tokens, message, time]`."""
    moment, what = moment_of(entry), entry.get("what")
    if moment is None or what not in _KINDS:
        return None
    return [_KINDS.index(str(what)), moment[1], moment[0], moment[2]]


def _said(entry: Mapping[str, JSON]) -> _Said | None:
    moment, size = moment_of(entry), entry.get("size")
    if moment is None or not isinstance(size, int) or isinstance(size, bool) or not 0 <= size < 1 << 53:
        return None
    return _Said(moment[0], moment[1], moment[1] + size, moment[2])


def _written(name: str, session: _Session) -> JSON:
    said = sorted(session.said, key=lambda each: each.message)
    filler: list[JSON] = []
    passed: list[JSON] = []
    before: _Said | None = None
    for each in said:
        start = before.after if before is not None else 0
        if each.before > start and len(filler) < _MOST_GAPS:
            filler.append([start, each.before])
        seconds = _seconds(before.at, each.at) if before is not None else 0
        if seconds > _JUMP_S and len(passed) < _MOST_GAPS:
            passed.append([each.before, seconds])
        before = each
    tests = sorted(session.tests, key=lambda test: (test["begin"], test["row"]))  # type: ignore[index,call-overload]
    return {
        "name": name,
        "tokens": max((each.after for each in said), default=0),
        "messages": said[-1].message + 1 if said else 0,
        "tests": tests,
        "left_out": session.left_out,
        "filler": filler,
        "passed": passed,
    }


def _seconds(before: str, after: str) -> int:
    try:
        return int((datetime.fromisoformat(after) - datetime.fromisoformat(before)).total_seconds())
    except (ValueError, TypeError):  # no time, or one of them without a zone
        return 0
