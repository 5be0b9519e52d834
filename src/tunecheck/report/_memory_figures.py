"""The figures of a memory run as its report shows them, from the run's own `memory/summary.json`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

from tunecheck._files.versions import check_version
from tunecheck._json import JSON, loads

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
    found = summary.get("datasets")
    sets = [*found.items()][:_MOST_SETS] if isinstance(found, dict) else []
    datasets: list[JSON] = [_line(title, each) for title, each in sets if isinstance(each, dict)]
    return {"figures": figures, "datasets": datasets}


def _read(path: Path) -> dict[str, JSON] | None:
    try:
        if not path.is_file() or path.stat().st_size > _MOST_BYTES:
            return None
        value = loads(path.read_bytes())
    except (OSError, ValueError):
        return None
    if isinstance(value, dict):
        check_version(value, path)
    return value if isinstance(value, dict) else None


def _line(title: str, found: Mapping[str, JSON]) -> JSON:
    return [title[:_MOST_CHARACTERS], *(_number(found.get(key)) for key in ("tests", "scored", "mean", "std"))]


def _number(value: JSON) -> float | None:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return value if is_number and isinstance(value, (int, float)) and math.isfinite(value) else None
