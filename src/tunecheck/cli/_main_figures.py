"""Choose the main metrics of a run and write them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from tunecheck._files import EvaluatorEntry
from tunecheck._json import JSON
from tunecheck.pipeline._finished_rows import REPEATED
from tunecheck.results import number_text

Metrics = Mapping[str, JSON]


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the table: an evaluator's own or a figure below it, with a cell for all rows and each group."""

    sort: Literal["evaluator", "figure", "error"]
    label: str
    cells: tuple[str, ...]


def lines_of(name: str, evaluator: EvaluatorEntry, groups: Sequence[Metrics]) -> Iterator[Line]:
    """Yield an evaluator's lines; `groups` are the metrics of all rows and of each group."""
    main, *others = _shown_metrics(name, evaluator, groups[0])
    label = name if main in ("binary_aggregate", evaluator.primary, name) else f"{name} {main}"
    yield Line("evaluator", label, tuple(_figure(name, main, evaluator, metrics) for metrics in groups))
    for key in others:
        label = "mean" if key in (evaluator.primary, name) else key.replace("_", " ")
        yield Line("figure", label, tuple(_figure(name, key, evaluator, metrics) for metrics in groups))
    for key, label in (("not_applicable_count", "not applicable"), ("error_count", "errors")):
        if groups[0].get(f"{name}.{key}"):
            cells = tuple(number_text(metrics.get(f"{name}.{key}")) for metrics in groups)
            yield Line("error" if key == "error_count" else "figure", label, cells)


def _shown_metrics(name: str, evaluator: EvaluatorEntry, metrics: Metrics) -> list[str]:
    """Return the metrics worth a line: the pass rate, means of graded metrics, and the evaluator's own sums."""
    own = [key.removeprefix(f"{name}.") for key in metrics if key.startswith(f"{name}.")]
    end = own.index("scored_count") if "scored_count" in own else len(own)
    means = [key for key in own[:end] if key != "binary_aggregate"]
    sums = [key for key in own[end:] if key not in ("scored_count", "not_applicable_count", "error_count")]
    main = [key for key in ("binary_aggregate", evaluator.primary, name) if key in own][:1]
    # The mean of a binary metric is its pass rate.
    said = evaluator.primary if main == ["binary_aggregate"] and _is_binary(evaluator, evaluator.primary) else None
    repeated = {f"{key}{ending}" for key in own for ending in REPEATED}
    scores = [key for key in means if key not in repeated and key != said]
    # A rate or count of 0 problems is not worth a line.
    fine = {key for key in sums if key.endswith(("_rate", "_count")) and not metrics[f"{name}.{key}"]}
    plain_sums = [key for key in sums if "." not in key and key not in fine]
    return list(dict.fromkeys([*main, *scores, *plain_sums])) or ["binary_aggregate"]


def _figure(name: str, key: str, evaluator: EvaluatorEntry, metrics: Metrics) -> str:
    value = metrics.get(f"{name}.{key}")
    if key == "binary_aggregate":
        return _share(value, metrics.get(f"{name}.scored_count"))
    if (_is_binary(evaluator, key) or key.endswith("_rate")) and isinstance(value, float):
        return f"{value:.1%}"
    return number_text(value)


def _share(rate: JSON, rows: JSON) -> str:
    """Write a pass rate, `85 of 102 (83.3%)`; the percentage alone if some scored rows neither passed nor failed."""
    if not isinstance(rate, (int, float)) or not 0 <= rate <= 1:
        return "–"
    passed = round(rate * rows) if isinstance(rows, int) else 0
    if not isinstance(rows, int) or not rows or passed / rows != rate:
        return f"{rate:.1%}"
    return f"{passed:,} of {rows:,} ({rate:.1%})"


def _is_binary(evaluator: EvaluatorEntry, key: str | None) -> bool:
    metric = None if key is None else evaluator.metric(key)
    return metric is not None and metric.kind == "binary"
