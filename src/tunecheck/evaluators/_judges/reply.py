"""A judge's reply read as data, and whether it has the form that was asked for.

A reply is JSON, fenced or with text around it, tagged text, or the bare score.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tunecheck._errors import ConfigurationError, ReplyError
from tunecheck._json import JSON, canonical, dumps, plain
from tunecheck._messages import clean
from tunecheck.calls._schemas import check
from tunecheck.evaluators._judges.output import ResolvedOutput
from tunecheck.prompts._judge_section import is_number

_MOST_CHARACTERS = 1_000_000
_WORK = 20_000_000
"""Characters gone through in vain at most: a reply may be full of braces that open nothing."""

_SHOWN_HEAD, _SHOWN_TAIL = 240, 80

_OBJECT = re.compile(r'\{(?=\s*["}])')
_NUMBER = re.compile(r"[-+]?[0-9]{1,15}(?:\.[0-9]{1,15})?")
_BARE = re.compile(r"(?:[\w ]{1,40}(?::|=|\bis\b) ?)?(?P<value>\S.{0,60})", re.IGNORECASE)
_FENCE = re.compile(r"```[\w-]{0,20}\s*(.{1,80})```", re.DOTALL)
_THOUGHTS = ("<think>", "</think>")
_TAGS_OF_AZURE = {"score": "S2", "reason": "S1"}
"""How the prompts of older releases of Azure AI Evaluation ask for thoughts, explanation and score."""

_DEEPEST = 50
_SKIPPED = "skipped"
"""The `status` of Azure AI Evaluation's prompts where there is nothing to judge."""

_decode = json.JSONDecoder(strict=False, parse_constant=lambda _: None).raw_decode
# Line feeds inside of strings are forgiven, which models write into their reasons.


class JudgementError(ReplyError):
    """A judge's reply without a valid verdict, after one attempt to have it repaired."""


class JudgeRefusalError(JudgementError):
    """The judge declined to judge."""


@dataclass(frozen=True, slots=True)
class ReplyKeys:
    """What is looked for in a reply: the keys of score and reason, and those of all declared outputs."""

    score: str
    reason: str | None = None
    declared: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    """Words that a bare reply may be, in place of a number."""

    def all(self) -> tuple[str, ...]:
        named = (self.score, *([self.reason] if self.reason else []), *self.declared)
        return tuple(dict.fromkeys(named))


def read_reply(text: str, keys: ReplyKeys) -> dict[str, JSON]:
    """The values in a reply, under the keys as they are declared (letter case aside).

    Of several objects the last that has a score counts: what stands before it is the judge thinking aloud.

    Raises:
        JudgementError: there is nothing of the kind in it; says what is wrong, without the reply itself.
    """
    if len(text) > _MOST_CHARACTERS:
        raise JudgementError(f"it is {len(text):,} characters long")
    said = text.strip()
    if said.startswith(_THOUGHTS[0]):  # a reasoning model thought aloud before it
        said = said.rpartition(_THOUGHTS[1])[2].strip() if _THOUGHTS[1] in said else ""
    if not said:
        raise JudgementError("it is empty")
    raw = _from_objects(said, keys) or _from_tags(said, keys) or _from_bare(said, keys)
    if raw is None:
        raise JudgementError(
            "its JSON breaks off or is broken" if _OBJECT.search(said) else "there is no JSON object in it"
        )
    try:
        values = plain(raw)
    except TypeError as error:
        raise JudgementError(f"it holds what cannot be kept: {error}") from None
    assert isinstance(values, dict)
    return values


def shortened(text: str) -> str:
    """A reply as an error shows it: one line, its beginning and its end."""
    line = clean(text[: 4 * _SHOWN_HEAD], _SHOWN_HEAD)
    if len(text) <= _SHOWN_HEAD:
        return line
    return f"{line} [{len(text):,} characters] …{clean(text[-_SHOWN_TAIL:], _SHOWN_TAIL)}"


# -- objects


def _from_objects(text: str, keys: ReplyKeys) -> dict[str, JSON] | None:
    last: dict[str, JSON] | None = None
    scored: dict[str, JSON] | None = None
    for value in _objects(text):
        # Declared keys under their declared names: models write `Score` for `score`.
        wanted = {key.casefold(): key for key in keys.all() if key not in value}
        last = {wanted.get(name.strip().casefold(), name): entry for name, entry in value.items()}
        if keys.score in last:
            scored = last
    return scored or last


def _objects(text: str) -> Iterator[dict[str, JSON]]:
    failures = max(16, min(500, _WORK // len(text)))
    position = 0
    while failures and (start := _OBJECT.search(text, position)):
        try:
            value, position = _decode(text, start.start())
        except (ValueError, RecursionError):
            failures -= 1
            position = start.end()
            continue
        if isinstance(value, dict):
            yield value


# -- tags


def _from_tags(text: str, keys: ReplyKeys) -> dict[str, JSON] | None:
    values = {key: value for key in keys.all() if (value := _tagged(text, key)) is not None}
    for key, sort in ((keys.score, "score"), (keys.reason, "reason")):
        value = _tagged(text, _TAGS_OF_AZURE[sort])
        if key is not None and key not in values and value is not None:
            values[key] = value
    if keys.score not in values:
        return None
    return {**values, keys.score: _scalar(values[keys.score])}


def _tagged(text: str, name: str) -> str | None:
    end = text.rfind(f"</{name}>")
    start = text.rfind(f"<{name}>", 0, end) if end >= 0 else -1
    return text[start + len(name) + 2 : end].strip() if start >= 0 else None


def _scalar(text: str) -> JSON:
    """A number, true or false, where the text is one; else the text."""
    if _NUMBER.fullmatch(text):
        return float(text) if "." in text else int(text)
    return {"true": True, "false": False}.get(text.casefold(), text)


# -- the bare score


def _from_bare(text: str, keys: ReplyKeys) -> dict[str, JSON] | None:
    fenced = _FENCE.fullmatch(text)
    line = (fenced[1] if fenced else text).strip().strip("*_`\"'").strip()
    matched = _BARE.fullmatch(line) if len(line) <= 100 and "\n" not in line else None
    if matched is None:
        return None
    for said in (line, matched["value"]):
        word = said.strip("*_`\"' ").removesuffix(".")
        value = _scalar(word)
        if not isinstance(value, str) or word.casefold() in (label.casefold() for label in keys.labels):
            return {keys.score: value}
    return None


# -- the form of an answer


@dataclass(frozen=True, slots=True)
class JudgeAnswer:
    """One valid answer: all its values, the score as a number (None: there is nothing to judge) and as it was said."""

    values: Mapping[str, JSON]
    score: float | None
    said: JSON
    reason: str | None


class AnswerForm:
    """The form of a judge's answer.

    `format` is the `response_format` to ask for it by, None where the prompt declares no outputs.

    Raises:
        ConfigurationError: the outputs are not usable JSON schema.
    """

    def __init__(self, output: ResolvedOutput, where: str) -> None:
        self._output = output
        self._schema = canonical(output.schema())
        self._keys = ReplyKeys(output.score, output.reason, tuple(output.outputs), tuple(output.labels))
        self.format: JSON = _format(output) if output.outputs else None
        problem = check("the outputs", self._schema, {}).problem
        if problem is not None:
            raise ConfigurationError(f"{where}: outputs: {problem}")

    @property
    def order(self) -> tuple[str, ...]:
        keys = tuple(self._output.outputs)
        return keys or tuple(key for key in (self._output.reason, self._output.score) if key is not None)

    def read(self, text: str) -> JudgeAnswer:
        """The answer in a reply.

        Raises:
            JudgementError: there is none, or it is not of this form; says what is wrong, without the reply itself.
        """
        values = read_reply(text, self._keys)
        reason = values.get(self._output.reason) if self._output.reason is not None else None
        words = reason if isinstance(reason, str) else None
        said = values.get(self._output.score)
        if said is None and values.get("status") == _SKIPPED:
            return JudgeAnswer(values, None, None, words)
        score, said = self._score(said, missing=self._output.score not in values)
        values[self._output.score] = said
        outcome = check("the reply", self._schema, values)
        problem = outcome.problem or "; ".join(outcome.violations)
        if problem:
            raise JudgementError(problem)
        return JudgeAnswer(values, score, said, words)

    def _score(self, said: JSON, *, missing: bool) -> tuple[float, JSON]:
        name, bounds = self._output.score, self._output.range
        if missing:
            raise JudgementError(f"it has no {name!r}")
        if self._output.labels:
            return self._labelled(said)
        if isinstance(said, str):
            said = _number_in(said)
        if isinstance(said, bool) and self._output.kind == "binary":
            return float(said), said
        if isinstance(said, bool) or not isinstance(said, (int, float)) or not is_number(said):
            wanted = "number" if bounds is None else f"number from {bounds[0]:g} to {bounds[1]:g}"
            wanted = "true or false" if self._output.kind == "binary" else wanted
            raise JudgementError(f"{name!r} is {_sort(said)}, not a {wanted}")
        if self._output.kind == "binary" and said not in (0, 1):
            raise JudgementError(f"{name!r} is {said}, neither 0 nor 1")
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
    match value:
        case None | bool():
            return dumps(value).decode()
        case dict():
            return "an object"
        case list():
            return "a list"
        case str():
            return "a text"
        case _:
            return "a number"


# -- asking for it


def _format(output: ResolvedOutput) -> JSON:
    schema = _strict(output.schema(), 0)
    return {"type": "json_schema", "json_schema": {"name": "judgement", "strict": True, "schema": schema}}


def _strict(schema: JSON, depth: int) -> JSON:
    """A schema as strict structured output wants it: every object closed, all of its keys required."""
    if depth > _DEEPEST or not isinstance(schema, dict):
        return schema
    made = dict(schema)
    properties = made.get("properties")
    if isinstance(properties, dict):
        made["properties"] = {name: _strict(value, depth + 1) for name, value in properties.items()}
        made["required"] = list(properties)
        made["additionalProperties"] = False
    if "items" in made:
        made["items"] = _strict(made["items"], depth + 1)
    return made
