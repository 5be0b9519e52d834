"""Graders of OpenAI's Evals: their keys, their templates, and an evaluator that works like a text grader.

A grader compares `input` with `reference`. Both are templates: `{{ sample.output_text }}` is the model's answer, and
`{{ item.answer }}` a value of the row's item.

| type | score | passes if |
|---|---|---|
| `string_check`, `eq` or `ne` | 1 if the texts are equal or different, else 0 | 1 |
| `string_check`, `like` or `ilike` | 1 if `input` contains `reference`, with or without regard to case | 1 |
| `text_similarity` | `evaluation_metric`, from 0 to 1 | at least `pass_threshold` |
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, TypeAlias, cast

import msgspec

from tunecheck import ConfigurationError, Evaluator, Metric, plugins, read_calls, verdict, write_calls
from tunecheck.evaluators import TextEvaluator
from tunecheck.plugins import Missing, Verdict, clean, dumps, find, find_value, loads, parse_path, read_as, value_of

VARIABLE = re.compile(r"\{\{((?:(?!\{\{).)*?)\}\}", re.DOTALL)
"""A variable in a template, such as `{{ item.answer }}`."""
# How a failed text check is worded, by operation.
_FAILS = {"eq": "is not", "ne": "is", "like": "does not contain", "ilike": "does not contain (ignoring case)"}
_OF_SAMPLE = ("output_text", "output_tools", "output_json")
# The keys that each type of grader needs; `Grader` makes all of them optional.
_NEEDED = {
    "string_check": ("input", "operation"),
    "text_similarity": ("input", "evaluation_metric", "pass_threshold"),
    "score_model": ("input", "model"),
    "label_model": ("input", "model", "labels", "passing_labels"),
    "python": ("source",),
}
TextMetric: TypeAlias = Literal[
    "fuzzy_match", "bleu", "gleu", "meteor", "rouge_1", "rouge_2", "rouge_3", "rouge_4", "rouge_5", "rouge_l"
]


class GraderMessage(msgspec.Struct, frozen=True):
    """A message of a template."""

    role: Literal["system", "developer", "user", "assistant"]
    content: Any


class Grader(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A grader in an eval's `testing_criteria`; its type decides which keys it needs."""

    type: Literal["string_check", "text_similarity", "score_model", "label_model", "python"]
    name: str
    input: str | list[GraderMessage] = ""
    reference: str = ""
    operation: Literal["eq", "ne", "like", "ilike"] | None = None
    evaluation_metric: TextMetric | None = None
    pass_threshold: float | None = None
    model: str = ""
    sampling_params: dict[str, Any] | None = None
    range: tuple[float, float] = (0, 1)
    labels: list[str] = []
    passing_labels: list[str] = []
    source: str = ""

    def __post_init__(self) -> None:
        """Raise ValueError if a key that the type needs is missing, or `input` is of another type's form."""
        if lacking := [key for key in _NEEDED[self.type] if getattr(self, key) in ("", None, [])]:
            raise ValueError(f"the {self.type} grader lacks the key {lacking[0]!r}; add it")
        if isinstance(self.input, list) is not self.type.endswith("_model"):
            raise ValueError("`input` must be a list of messages in a model grader, and a text in any other grader")


def read_json(path: Path) -> plugins.JSON:
    """Return the JSON value in a file.

    Raises:
        ConfigurationError: the file cannot be read, or is not JSON.
    """
    try:
        return loads(plugins.read_regular(path, links=True))
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from None


def path_of(found: re.Match[str]) -> tuple[str | int, ...]:
    """Return the path of a template's variable, such as `{{ item.answer }}`.

    Raises:
        ValueError: The path begins neither with `item` nor with a known part of `sample`.
    """
    path = parse_path(found[1].strip())
    is_of_sample = len(path) > 1 and path[0] == "sample" and path[1] in _OF_SAMPLE
    if path[:1] != ("item",) and not is_of_sample:
        known = " or ".join(f"sample.{name}" for name in _OF_SAMPLE)
        raise ValueError(f"the variable {clean(found[0], 80)} is unknown; use item.NAME or {known}")
    return path


def fill_template(template: str, values: Mapping[str, object]) -> str:
    """Return a template with its variables replaced: texts are inserted unchanged, other values as JSON.

    Raises:
        ValueError: A variable is unknown, or has no value.
    """

    def text(found: re.Match[str]) -> str:
        """Return the value of a variable as text."""
        value = find_value(values, path_of(found))
        if isinstance(value, Missing):
            raise ValueError(f"the row has no value for the variable {clean(found[0], 80)}; add it")
        return value if isinstance(value, str) else dumps(value).decode()

    return VARIABLE.sub(text, template)


class GraderEvaluator(Evaluator):
    """Evaluator that compares texts like the `string_check` or `text_similarity` grader in a file of `graders/`."""

    pure = True

    def __init__(self, grader: Path | str) -> None:
        """Read the grader's file. Its name becomes the metric's name.

        Raises:
            ConfigurationError: the file cannot be read, or is not a text grader.
        """
        path = Path(grader)
        value = read_json(path)
        self._grader = read_as(value, Grader, str(path))
        if self._grader.type not in ("string_check", "text_similarity"):
            raise ConfigurationError(f"{path}: type must be string_check or text_similarity, not {self._grader.type}")
        super().__init__(grader=value)

        metric = self._grader.evaluation_metric
        self._similarity: TextEvaluator | None = None
        if metric not in (None, "fuzzy_match"):
            # `rouge_1` to `rouge_5` and `rouge_l` are one evaluator with a type.
            more = {"rouge_type": f"rouge{metric[-1].upper()}"} if metric.startswith("rouge") else {}
            kind_of_text = cast("type[Any]", find("evaluators", metric.partition("_")[0]))
            self._similarity = kind_of_text(render_calls=True, **more)

        # A check has no evaluation metric and only passes or fails.
        kind: Literal["score", "binary"] = "binary" if metric is None else "score"
        # An evaluator's metrics belong to its class; these belong to the file.
        vars(self).update(metrics=(Metric(path.stem, kind=kind),), primary=path.stem)

    def __call__(self, *, response: object, item: object = None) -> Verdict:
        """Judge one row; `item` holds the values of the template variables `item.NAME`."""
        reading = read_calls(response)
        # A list of calls may contain a text, too. Templates get the calls as `sample.output_tools`.
        text = response if isinstance(response, str) else reading.text
        tools = write_calls(reading.calls, "openai")
        values = {"item": item, "sample": {"output_text": text, "output_tools": tools, "output_json": value_of(text)}}

        assert isinstance(self._grader.input, str)
        actual, expected = (fill_template(each, values) for each in (self._grader.input, self._grader.reference))

        score = self._score(actual, expected)
        threshold = self._grader.pass_threshold if self._grader.evaluation_metric else None
        passed = score >= (1 if threshold is None else threshold)

        relation = _FAILS.get(self._grader.operation or "", f"has too low a {self._grader.evaluation_metric} against")
        reason = None if passed else f"{clean(actual, 100)!r} {relation} {clean(expected, 100)!r}"
        return verdict(self.primary, score=score, passed=passed, threshold=threshold, reason=reason)

    def _score(self, actual: str, expected: str) -> float:
        """Return the score of the actual text: its similarity to the expected one, from 0 to 1, or a check's 1 or 0."""
        if self._similarity is not None:
            score = self._similarity(response=actual, ground_truth=expected)[self._similarity.primary]
            assert isinstance(score, (int, float))
            return score
        match self._grader.operation:
            case "eq" | "ne" as operation:  # `eq` expects equal texts, `ne` different ones
                return float((actual == expected) is (operation == "eq"))
            case "like":
                return float(expected in actual)
            case "ilike":
                return float(expected.casefold() in actual.casefold())
        from rapidfuzz import fuzz

        return fuzz.ratio(actual, expected) / 100
