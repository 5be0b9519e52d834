"""What a run's manifest says of its parts, and what has changed since: the base of resume and reuse."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version

from tunecheck._fingerprints import stable_arguments
from tunecheck._json import JSON
from tunecheck._targets import Target
from tunecheck.pipeline._mapping import Mapped, Reference
from tunecheck.pipeline._scoring import BoundEvaluator, MetricDeclaration

_SHOWN_VERSIONS = ("tunecheck", "nltk", "rouge-score", "rapidfuzz", "jsonschema-rs", "aiohttp", "msgspec")

Manifest = Mapping[str, JSON]


def versions() -> dict[str, JSON]:
    """The versions that results may depend on."""
    found: dict[str, JSON] = {"python": platform.python_version()}
    for package in _SHOWN_VERSIONS:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def describe_evaluators(evaluators: Sequence[BoundEvaluator]) -> dict[str, JSON]:
    """Each evaluator's class or function, arguments, fingerprint and declared metrics."""
    return {evaluator.name: _describe(evaluator) for evaluator in evaluators}


def _describe(evaluator: BoundEvaluator) -> dict[str, JSON]:
    function = evaluator.function
    kind = function if hasattr(function, "__qualname__") else type(function)
    return {
        "type": f"{kind.__module__}.{getattr(kind, '__qualname__', kind)}",
        "arguments": stable_arguments(function) if kind is not function else {},
        "fingerprint": evaluator.fingerprint,
        "primary": evaluator.primary,
        "metrics": [
            {
                "name": metric.name,
                "kind": metric.kind,
                "range": _bounds(metric),
                "higher_is_better": metric.higher_is_better,
            }
            for metric in evaluator.metrics
        ],
    }


def _bounds(metric: MetricDeclaration) -> JSON:
    """The lowest and the highest value, where the metric declares them."""
    bounds = getattr(metric, "range", None)
    if not isinstance(bounds, (list, tuple)) or not all(isinstance(bound, (int, float)) for bound in bounds):
        return None
    return [float(bound) for bound in bounds]


def describe_target(target: Target | None) -> dict[str, JSON] | None:
    """The target's settings (secrets masked by itself), its fingerprint, and whether it is simulated."""
    if target is None:
        return None
    return {**target.describe(), "fingerprint": target.fingerprint(), "simulated": target.simulated}


def describe_mapping(mapping: Mapping[str, Mapping[str, Mapped]]) -> dict[str, JSON]:
    """The merged mapping as it would be written."""
    return {
        name: {parameter: _written(mapped) for parameter, mapped in entries.items()}
        for name, entries in mapping.items()
    }


def _written(mapped: Mapped) -> JSON:
    return mapped.text if isinstance(mapped, Reference) else mapped.value


def same_evaluators(before: Manifest, now: Manifest) -> frozenset[str]:
    """The evaluators whose recorded verdicts still hold: the same fingerprint, and one there is."""
    old, new = _part(before, "evaluators"), _part(now, "evaluators")
    return frozenset(
        name
        for name, entry in new.items()
        if _fingerprint(entry) is not None and _fingerprint(entry) == _fingerprint(old.get(name))
    )


def _fingerprint(entry: JSON) -> JSON:
    return entry.get("fingerprint") if isinstance(entry, dict) else None


def _part(manifest: Manifest, key: str) -> dict[str, JSON]:
    part = manifest.get(key)
    return part if isinstance(part, dict) else {}


def differences(before: Manifest, now: Manifest) -> list[str]:
    """What keeps a run from being finished in its own folder: each changed part, in words."""
    found = _changed_data(_part(before, "dataset"), _part(now, "dataset"))
    found += _changed_target(_part(before, "target"), _part(now, "target"))
    found += _changed_evaluators(_part(before, "evaluators"), _part(now, "evaluators"))
    for name in sorted({*_part(before, "mapping"), *_part(now, "mapping")}):
        old, new = _part(before, "mapping").get(name), _part(now, "mapping").get(name)
        if old != new and (name in _part(now, "evaluators") or name == "target"):
            found.append(f"the mapping of {name!r} was {old}, is {new}")
    if before.get("group_by") != now.get("group_by"):
        found.append(f"group_by was {before.get('group_by')}, is {now.get('group_by')}")
    return found


def _changed_data(old: Mapping[str, JSON], new: Mapping[str, JSON]) -> list[str]:
    if old.get("sha256") != new.get("sha256"):
        return [f"the data {old.get('path') or old.get('name')} has changed"]
    if old.get("rows") != new.get("rows"):
        return [f"it had {old.get('rows')} rows, now {new.get('rows')} (limit)"]
    return []


def _changed_target(old: Mapping[str, JSON], new: Mapping[str, JSON]) -> list[str]:
    if bool(old) != bool(new):
        return ["it had a target, now it has none" if old else "it had no target, now it has one"]
    if old.get("fingerprint") == new.get("fingerprint"):
        return []
    was = {key: value for key, value in old.items() if key != "fingerprint"}
    now = {key: value for key, value in new.items() if key != "fingerprint"}
    return [f"the target's {change}" for change in _changed_values(was, now)] or ["the target's code has changed"]


def _changed_values(old: Mapping[str, JSON], new: Mapping[str, JSON], above: str = "") -> list[str]:
    """Each value that changed, by its name; where a mapping changed, by the names in it."""
    found = []
    for key in {**old, **new}:
        was, now = old.get(key), new.get(key)
        if was != now and isinstance(was, dict) and isinstance(now, dict):
            found += _changed_values(was, now, f"{above}{key}.")
        elif was != now:
            found.append(f"{above}{key} was {was}, is {now}")
    return found


def _changed_evaluators(old: Mapping[str, JSON], new: Mapping[str, JSON]) -> list[str]:
    found = [f"evaluator {name!r} was there, now it is not" for name in old if name not in new]
    for name, entry in new.items():
        if name not in old:
            found.append(f"evaluator {name!r} is new")
        elif _fingerprint(entry) != _fingerprint(old[name]):
            found.append(f"evaluator {name!r} {_how(old[name], entry)}")
    return found


def _how(old: JSON, new: JSON) -> str:
    before, now = (_part(entry, "arguments") if isinstance(entry, dict) else {} for entry in (old, new))
    changed = [
        f"{key} {before.get(key)} → {now.get(key)}" for key in {**before, **now} if before.get(key) != now.get(key)
    ]
    return f"has other arguments ({', '.join(changed)})" if changed else "has other code"
