"""What a valid answer of a judge is: how its form is asked for, and whether a reply has it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tunecheck._errors import ConfigurationError
from tunecheck._json import JSON, canonical
from tunecheck.calls._schemas.check import check
from tunecheck.evaluators._judges.output import ResolvedOutput, is_number
from tunecheck.evaluators._judges.reply import JudgementError, ReplyKeys, read_reply

_REFUSED_KEYWORDS = frozenset(
    [
        *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
        *("minLength", "maxLength", "pattern", "format", "minItems", "maxItems", "uniqueItems", "default", "examples"),
    ]
)
"""Keywords that some services refuse in a schema of theirs (Azure OpenAI refuses `minimum`)."""

_DEEPEST = 50
_SKIPPED = "skipped"
"""The `status` of Azure AI Evaluation's prompts where there is nothing to judge."""


@dataclass(frozen=True, slots=True)
class Answer:
    """One valid answer: all its values, the score as a number (None: there is nothing to judge) and as it was said."""

    values: Mapping[str, JSON]
    score: float | None
    said: JSON
    reason: str | None


class AnswerForm:
    """The form of a judge's answer.

    `formats` are `response_format`s to ask for it by, the most helpful first, None (not asking) last. A prompt that has
    one of its own is asked by that.

    Raises:
        ConfigurationError: the outputs are no usable JSON schema.
    """

    def __init__(self, output: ResolvedOutput, where: str, own_format: JSON = None) -> None:
        self._output = output
        self._schema = canonical(output.schema())
        self._keys = ReplyKeys(output.score, output.reason, tuple(output.outputs), tuple(output.labels))
        self.formats: tuple[JSON, ...] = _formats(output) if own_format is None else (own_format, None)
        problem = check("the outputs", self._schema, {}).problem
        if problem is not None:
            raise ConfigurationError(f"{where}: outputs: {problem}")

    @property
    def order(self) -> tuple[str, ...]:
        """The keys of an answer, in the order in which they are asked for."""
        keys = tuple(self._output.outputs)
        return keys or tuple(key for key in (self._output.reason, self._output.score) if key is not None)

    def read(self, text: str) -> Answer:
        """The answer in a reply.

        Raises:
            JudgementError: there is none, or it is not of this form; says what is wrong, without the reply itself.
        """
        values = read_reply(text, self._keys)
        reason = values.get(self._output.reason) if self._output.reason is not None else None
        words = reason if isinstance(reason, str) else None
        said = values.get(self._output.score)
        if said is None and values.get("status") == _SKIPPED:
            return Answer(values, None, None, words)
        score, said = self._score(said, missing=self._output.score not in values)
        values[self._output.score] = said
        self._check(values)
        return Answer(values, score, said, words)

    def _score(self, said: JSON, *, missing: bool) -> tuple[float, JSON]:
        """The score as a number, and as the schema has it."""
        name = self._output.score
        if missing:
            raise JudgementError(f"it has no {name!r}")
        if self._output.labels:
            return self._labelled(said)
        if isinstance(said, str):
            said = _number_in(said)
        if isinstance(said, bool) and self._output.kind == "binary":
            return float(said), said
        if isinstance(said, bool) or not isinstance(said, (int, float)) or not is_number(said):
            raise JudgementError(f"{name!r} is {_sort(said)}, not a {self._wanted()}")
        if self._output.kind == "binary" and said not in (0, 1):
            raise JudgementError(f"{name!r} is {said}, neither 0 nor 1")
        bounds = self._output.range
        if bounds is not None and not bounds[0] <= said <= bounds[1]:
            raise JudgementError(f"{name!r} is {said}, outside of {bounds[0]:g} to {bounds[1]:g}")
        return float(said), said

    def _labelled(self, said: JSON) -> tuple[float, JSON]:
        word = said.strip().casefold() if isinstance(said, str) else said
        for label, worth in self._output.labels.items():
            if word == label.casefold():
                return worth, label
        shown = repr(said[:40]) if isinstance(said, str) else _sort(said)
        raise JudgementError(f"{self._output.score!r} is {shown}, none of {', '.join(self._output.labels)}")

    def _wanted(self) -> str:
        if self._output.kind == "binary":
            return "true or false"
        bounds = self._output.range
        return f"number from {bounds[0]:g} to {bounds[1]:g}" if bounds else "number"

    def _check(self, values: Mapping[str, JSON]) -> None:
        outcome = check("the reply", self._schema, values)
        problem = outcome.problem or "; ".join(outcome.violations)
        if problem:
            raise JudgementError(problem)


def _number_in(text: str) -> JSON:
    """The number that a text is (models write `"4"` for `4`); else the text."""
    try:
        number = float(text) if text.strip().replace(".", "", 1).lstrip("+-").isdigit() and text.isascii() else None
    except ValueError:
        return text
    if number is None:
        return text
    return int(number) if number.is_integer() and "." not in text else number


def _sort(value: JSON) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return "null"
    return "an object" if isinstance(value, dict) else "a list" if isinstance(value, list) else _plain_sort(value)


def _plain_sort(value: str | float) -> str:
    return "a text" if isinstance(value, str) else "a number"


# -- asking for it


def _formats(output: ResolvedOutput) -> tuple[JSON, ...]:
    if not output.outputs:
        return (None,)
    full = _strict(output.schema(), 0, bare=False)
    bare = _strict(output.schema(), 0, bare=True)
    schemas = [full] if full == bare else [full, bare]
    asked: list[JSON] = [
        {"type": "json_schema", "json_schema": {"name": "judgement", "strict": True, "schema": schema}}
        for schema in schemas
    ]
    return (*asked, {"type": "json_object"}, None)


def _strict(schema: JSON, depth: int, *, bare: bool) -> JSON:
    """A schema as strict structured output wants it: every object closed, all of its keys required.

    `bare`: without the keywords that some services refuse.
    """
    if depth > _DEEPEST or not isinstance(schema, dict):
        return schema
    made = {key: value for key, value in schema.items() if not (bare and key in _REFUSED_KEYWORDS)}
    properties = made.get("properties")
    if isinstance(properties, dict):
        made["properties"] = {name: _strict(value, depth + 1, bare=bare) for name, value in properties.items()}
        made["required"] = list(properties)
        made["additionalProperties"] = False
    if "items" in made:
        made["items"] = _strict(made["items"], depth + 1, bare=bare)
    return made
