"""The output of a judge: the key of the score, its range and threshold, and the JSON schema of the answer."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain
from typing import TYPE_CHECKING

import msgspec

from tunecheck._describe import read_as
from tunecheck._errors import ConfigurationError
from tunecheck._json import JSON
from tunecheck._messages import did_you_mean
from tunecheck.evaluators._base import Metric
from tunecheck.prompts._front_matter import JudgeOutput, JudgeSettings, Kind, is_number

if TYPE_CHECKING:
    from tunecheck.prompts._prompt import Prompt

SCORE_NAMES = ("score", "rating", "label", "verdict", "result", "grade")
REASON_NAMES = ("reason", "reasoning", "explanation", "rationale", "chain_of_thought", "justification")
YES_NO = {"pass": 1.0, "fail": 0.0, "yes": 1.0, "no": 0.0, "true": 1.0, "false": 0.0}


class ResolvedOutput(msgspec.Struct, frozen=True):
    """A `JudgeOutput` with all defaults; `outputs` are the JSON schemas of the answer's keys, reason first."""

    metric: str
    score: str
    reason: str | None
    range: tuple[float, float] | None
    threshold: float | None
    higher_is_better: bool
    kind: Kind
    labels: Mapping[str, float]
    outputs: Mapping[str, Mapping[str, JSON]]
    required: tuple[str, ...]

    def as_metric(self) -> Metric:
        return Metric(self.metric, kind=self.kind, range=self.range, higher_is_better=self.higher_is_better)

    def passes(self, score: float) -> bool | None:
        """Return whether a row with this score passes; None if there is no threshold."""
        if self.threshold is None:
            return None
        return score >= self.threshold if self.higher_is_better else score <= self.threshold

    def schema(self) -> dict[str, JSON]:
        """Return the JSON schema of the judge's whole answer."""
        properties: dict[str, JSON] = {name: dict(schema) for name, schema in self.outputs.items()}
        return {"type": "object", "properties": properties, "required": list(self.required)}

    def data(self) -> dict[str, JSON]:
        """Return all settings as plain data, for fingerprints and the manifest."""
        data = msgspec.structs.asdict(self)
        del data["outputs"], data["required"]
        bounds = list(self.range) if self.range else None
        return {**data, "range": bounds, "labels": dict(self.labels), "schema": self.schema()}


def judge_settings(prompt: Prompt, given: JudgeOutput, **more: object) -> JudgeSettings:
    """Return the settings in the prompt's `judge:` section, overridden by the given ones that are not None.

    Raises:
        ConfigurationError: a given setting does not exist or has an invalid value.
    """
    said = chain(prompt.extra.items(), msgspec.structs.asdict(given).items(), more.items())
    settings = {key: value for key, value in said if value is not None}
    return read_as(settings, JudgeSettings, "judge settings")


def resolve_output(
    prompt: Prompt, wanted: JudgeOutput, *, stem: str, schemas: Mapping[str, Mapping[str, JSON]] | None = None
) -> ResolvedOutput:
    """Decide how the judge's answer is read: which keys are score and reason, which scores are possible, which pass.

    The `wanted` settings come before the prompt's `outputs:`. `stem` is the default name of the metric. `schemas` are
    required outputs besides the score; if the prompt declares them, they replace the prompt's own schemas.

    Raises:
        ConfigurationError: the score's key or meaning is unclear; the text names the prompt's file and the key.
    """
    metric = wanted.metric or stem
    must = {name: schema for name, schema in (schemas or {}).items() if name in prompt.outputs}
    outputs = {**prompt.outputs, **must}
    score = wanted.score or _score_key(prompt, metric)
    reason = wanted.reason or next((name for name in REASON_NAMES if name in outputs), None)
    if reason is None and not outputs:
        reason = "reason"
    for key in (score, reason):
        if key is not None and outputs and key not in outputs:
            raise ConfigurationError(f"{place_of(prompt)}: outputs has no {key!r}{did_you_mean(key, outputs)}")
    schema = outputs.get(score, {})
    labels = _labels(prompt, wanted, score, schema)
    binary = schema.get("type") == "boolean" or (labels and set(labels.values()) <= {0.0, 1.0})
    kind: Kind = wanted.kind or ("binary" if binary else "score")
    bounds = wanted.range or _range(schema, labels, kind)
    threshold = wanted.threshold
    if threshold is None and bounds is not None:
        threshold = (bounds[0] + bounds[1]) / 2
    if threshold is not None and bounds is not None and not bounds[0] <= threshold <= bounds[1]:
        raise ConfigurationError(f"the threshold {threshold:g} is not a score from {bounds[0]:g} to {bounds[1]:g}")
    return ResolvedOutput(
        metric=metric,
        score=score,
        reason=reason,
        range=bounds,
        threshold=threshold,
        higher_is_better=wanted.higher_is_better is not False,
        kind=kind,
        labels=labels,
        # In the order in which the model should write them: a score before its reason would be a guess.
        outputs=dict(sorted(outputs.items(), key=lambda item: (item[0] != reason, item[0] == score))),
        required=(score, *must),
    )


def place_of(prompt: Prompt) -> str:
    return prompt.source or prompt.name


def _score_key(prompt: Prompt, metric: str) -> str:
    """Return the answer's key of the score: the metric's name or a usual one, else the only number among the outputs.

    Raises:
        ConfigurationError: it cannot be decided.
    """
    outputs = prompt.outputs
    if not outputs:
        return "score"
    for name in (metric, f"{metric}_score", *SCORE_NAMES):
        if name in outputs:
            return name
    numeric = [name for name, schema in outputs.items() if schema.get("type") in ("number", "integer", "boolean")]
    if len(numeric) == 1:
        return numeric[0]
    raise ConfigurationError(
        f"{place_of(prompt)}: name one output as the score ({', '.join(outputs)}) with `judge: {{score: NAME}}`"
    )


def _labels(prompt: Prompt, output: JudgeOutput, score: str, schema: Mapping[str, JSON]) -> Mapping[str, float]:
    """Return the score of each word if the score is a word; empty if it is a number or a boolean.

    Words that mean yes or no need no declaration.

    Raises:
        ConfigurationError: the score is a word of another kind, and no labels are declared.
    """
    if output.labels is not None:
        return {label: float(worth) for label, worth in output.labels.items()}
    words = schema.get("enum")
    if isinstance(words, list) and words and all(isinstance(word, str) for word in words):
        named = {str(word): str(word).strip().casefold() for word in words}
        if all(word in YES_NO for word in named.values()):
            return {label: YES_NO[word] for label, word in named.items()}
    elif schema.get("type") != "string":
        return {}
    raise ConfigurationError(
        f"{place_of(prompt)}: the score {score!r} is a word: give each word a number, "
        "as in `judge: {labels: {good: 1, bad: 0}}`"
    )


def _range(schema: Mapping[str, JSON], labels: Mapping[str, float], kind: Kind) -> tuple[float, float] | None:
    """Return the lowest and highest possible score by kind, labels or schema; None if neither bounds it."""
    if kind == "binary":
        return (0.0, 1.0)
    choices = schema.get("enum")
    worths: list[JSON] = [*labels.values()] or (choices if isinstance(choices, list) else [])
    numbers = [float(value) for value in worths if is_number(value)]
    if numbers and min(numbers) < max(numbers):
        return (min(numbers), max(numbers))
    low, high = schema.get("minimum"), schema.get("maximum")
    if isinstance(low, (int, float)) and isinstance(high, (int, float)) and low < high:
        return (float(low), float(high))
    return None
