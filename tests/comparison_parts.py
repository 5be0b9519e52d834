"""Shared parts of the tests of comparisons: run folders made by hand, so that every figure can be counted."""

import itertools
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

_STAMPS = itertools.count(1)

JSONRow = dict[str, object]


def verdict(metric: str, passed: bool | None, reason: str | None = None, score: float | None = None) -> JSONRow:
    """The eight keys of an evaluator `metric` for its metric of the same name."""
    start = f"outputs.{metric}.{metric}"
    number = score if score is not None else None if passed is None else float(passed)
    return {
        start: number,
        f"{start}_score": number,
        f"{start}_passed": passed,
        f"{start}_result": "not_applicable" if passed is None else "pass" if passed else "fail",
        f"{start}_reason": reason,
        f"{start}_status": "skipped" if passed is None else "completed",
        f"{start}_threshold": 0.5 if score is not None else None,
        f"{start}_properties": None,
    }


def row(number: int, *parts: Mapping[str, object], **inputs: object) -> JSONRow:
    """A result row `q<number>` with its number as content."""
    found: JSONRow = {
        "row_id": f"q{number}",
        "row_fingerprint": f"{number:016x}",
        "inputs.question": f"question {number}",
    }
    found |= {f"inputs.{name}": value for name, value in inputs.items()}
    for part in parts:
        found |= part
    return found


def declares(name: str, kind: str = "binary", **more: object) -> JSONRow:
    """A manifest's entry for an evaluator `name` with one metric of the same name."""
    metric = {"name": name, "kind": kind, "higher_is_better": True, **more}
    return {name: {"type": "t", "arguments": {}, "fingerprint": "f", "primary": name, "metrics": [metric]}}


def write_run(
    folder: Path, name: str, rows: Iterable[Mapping[str, object]], evaluators: Mapping[str, object], **manifest: object
) -> Path:
    """A finished run's folder below `folder`."""
    own = folder / f"{name}-20260101T{next(_STAMPS):06d}Z-000000"
    own.mkdir(parents=True)
    about = {"name": name, "status": "finished", "evaluators": evaluators, "target": {"name": "model"}}
    (own / "run.json").write_text(json.dumps({**about, **manifest}), "utf-8")
    lines = "".join(json.dumps(each) + "\n" for each in rows)
    (own / "eval_results.jsonl").write_text(lines, "utf-8")
    return own


Outcomes = Sequence[bool | None]


def passes(
    folder: Path,
    name: str,
    outcomes: Outcomes | Mapping[str, Outcomes],
    columns: Mapping[str, Sequence[object]] | None = None,
    **manifest: object,
) -> Path:
    """A run that passes and fails rows: by the evaluator `match`, or by each of these; `columns` are further keys."""
    metrics = outcomes if isinstance(outcomes, Mapping) else {"match": outcomes}
    rows = [
        row(number, *map(verdict, metrics, passed)) | {key: values[number] for key, values in (columns or {}).items()}
        for number, passed in enumerate(zip(*metrics.values(), strict=True))
    ]
    declared = {key: entry for metric in metrics for key, entry in declares(metric).items()}
    return write_run(folder, name, rows, **{"evaluators": declared, **manifest})  # type: ignore[arg-type]


def scores(folder: Path, name: str, values: Sequence[float | None], **metric: object) -> Path:
    """A run of one evaluator `bleu` that scores rows and passes none."""
    rows = [row(number, {"outputs.bleu.bleu": value}) for number, value in enumerate(values)]
    return write_run(folder, name, rows, declares("bleu", "score", **metric))
