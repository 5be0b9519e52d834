"""What a run's manifest says of its evaluators and of where the answers stand: read without trust."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tunecheck._errors import ConfigurationError
from tunecheck._json import JSON
from tunecheck.comparison._run_table import Kind

_KINDS: Mapping[str, Kind] = {"binary": "binary", "score": "score", "count": "count"}


@dataclass(frozen=True, slots=True)
class DeclaredMetric:
    """What a metric's numbers mean."""

    kind: Kind = "score"
    higher_is_better: bool = True
    bounds: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True)
class Declared:
    """What an evaluator says of itself; `metrics` is empty where it says nothing."""

    primary: str | None = None
    metrics: Mapping[str, DeclaredMetric] = field(default_factory=dict)
    arguments: Mapping[str, JSON] = field(default_factory=dict)
    fingerprint: str | None = None


def read_declared(manifest: Mapping[str, JSON]) -> dict[str, Declared] | None:
    """The evaluators of a run in order; None where the manifest lists none."""
    evaluators = manifest.get("evaluators")
    if not isinstance(evaluators, dict):
        return None
    return {name: _declared(entry if isinstance(entry, dict) else {}) for name, entry in evaluators.items()}


def _declared(entry: Mapping[str, JSON]) -> Declared:
    primary, metrics, arguments = entry.get("primary"), entry.get("metrics"), entry.get("arguments")
    fingerprint = entry.get("fingerprint")
    found = {
        str(metric["name"]): DeclaredMetric(
            _KINDS.get(str(metric.get("kind")), "score"),
            metric.get("higher_is_better") is not False,
            read_bounds(metric.get("range")),
        )
        for metric in (metrics if isinstance(metrics, list) else [])
        if isinstance(metric, dict) and "name" in metric
    }
    return Declared(
        primary if isinstance(primary, str) and primary else None,
        found,
        arguments if isinstance(arguments, dict) else {},
        fingerprint if isinstance(fingerprint, str) else None,
    )


def read_bounds(value: JSON) -> tuple[float, float] | None:
    """The lowest and the highest value that a metric declares, as a manifest has them; None where there are none."""
    if not isinstance(value, list) or len(value) != 2:
        return None
    low, high = value
    if isinstance(low, bool) or isinstance(high, bool):
        return None
    if not isinstance(low, (int, float)) or not isinstance(high, (int, float)) or not -1e100 < low < high < 1e100:
        return None
    return float(low), float(high)


def answer_columns(manifest: Mapping[str, JSON]) -> frozenset[str]:
    """The data's columns that hold answers, in a run that asked nobody: what `response` is mapped to.

    They are no part of the question: two iterations whose answers stand in the data are the same rows.
    """
    from tunecheck.pipeline._mapping import Reference, parse_mapping

    found = {"response"}
    mapping = manifest.get("mapping")
    for layer in mapping.values() if isinstance(mapping, dict) else ():
        entry = layer.get("response") if isinstance(layer, dict) else None
        try:
            mapped = parse_mapping({"response": entry}, "mapping")["response"]
        except ConfigurationError:
            continue
        if isinstance(mapped, Reference) and mapped.source == "data":
            found.add(str(mapped.steps[0]))
    return frozenset(found)
