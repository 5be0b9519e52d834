"""`name=value` options and lists of names: `--set bleu.threshold=0.4`, `--mapping response=…`, `--evaluators a,b`."""

import contextlib
from collections.abc import Iterable, Mapping

from tunecheck._errors import ConfigurationError
from tunecheck._json import JSON, loads
from tunecheck._messages import did_you_mean

_NO_NUMBERS = ("NaN", "Infinity", "-Infinity")  # lenient readers take them for numbers; here they are words


def parse_names(text: str, option: str) -> list[str]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise ConfigurationError(f"{option} names nothing: write {option} bleu,function_call_match")
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ConfigurationError(f"{option} names {twice!r} twice")
    return names


def parse_assignments(texts: Iterable[str], option: str) -> dict[str, JSON]:
    """`name=value` texts as a mapping; a value that reads as JSON is that, anything else is text."""
    assignments: dict[str, JSON] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        name = name.strip()
        if not equals or not name:
            raise ConfigurationError(f"{option} {text!r}: write name=value")
        if name in assignments:
            raise ConfigurationError(f"{option} gives {name!r} twice")
        assignments[name] = value
        if value.strip() not in _NO_NUMBERS:
            with contextlib.suppress(ValueError):
                assignments[name] = loads(value)
    return assignments


def settings_by_evaluator(entries: Mapping[str, JSON], evaluators: Iterable[str]) -> dict[str, dict[str, JSON]]:
    """`{"bleu.threshold": 0.4}` as `{"bleu": {"threshold": 0.4}}`."""
    known = list(evaluators)
    settings: dict[str, dict[str, JSON]] = {}
    for name, value in entries.items():
        evaluator, dot, parameter = name.rpartition(".")
        if not dot or not evaluator or not parameter:
            raise ConfigurationError(f"set {name!r}: write evaluator.parameter=value, e.g. bleu.threshold=0.4")
        if evaluator not in known:
            raise ConfigurationError(
                f"set {name!r}: this run has no evaluator {evaluator!r}{did_you_mean(evaluator, known)}"
            )
        settings.setdefault(evaluator, {})[parameter] = value
    return settings


def mapping_layers(entries: Mapping[str, JSON], evaluators: Iterable[str]) -> dict[str, dict[str, JSON]]:
    """`{"response": …, "bleu.response": …, "target.messages": …}` by layer: `default`, an evaluator's, `target`'s."""
    known = [*evaluators, "target", "default"]
    layers: dict[str, dict[str, JSON]] = {}
    for name, value in entries.items():
        layer, dot, parameter = name.rpartition(".")
        if dot and layer not in known:
            raise ConfigurationError(
                f"mapping {name!r}: this run has no evaluator {layer!r}{did_you_mean(layer, known)}"
            )
        if not parameter:
            raise ConfigurationError(f"mapping {name!r}: write parameter=value or evaluator.parameter=value")
        layers.setdefault(layer or "default", {})[parameter] = value
    return layers
