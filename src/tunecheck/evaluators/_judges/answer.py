"""The form of a judge's answer: how it is asked for, and the one valid verdict of a reply."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tunecheck._errors import ConfigurationError
from tunecheck._json import JSON, canonical, dumps, plain
from tunecheck.calls._schemas import check
from tunecheck.evaluators._judges.output import YES_NO, ResolvedOutput
from tunecheck.evaluators._judges.reply import JudgementError, ReplyKeys, problem_of, verdicts
from tunecheck.formats._reading import without_thoughts
from tunecheck.prompts._judge_section import is_number

_MOST_CHARACTERS = 1_000_000
_DEEPEST = 50
_SKIPPED = "skipped"
"""The `status` of Azure AI Evaluation's prompts where there is nothing to judge."""

_NUMBER = r"[-+]?[0-9]{1,15}(?:\.[0-9]{1,15})?"
_SHARE = re.compile(rf"({_NUMBER})\s?(?:/|out of|of)\s?({_NUMBER})")
_WITH_WORDS = re.compile(rf"({_NUMBER})(?:\s?[(:–—-]|,|;|\s-)\s?[^0-9]{{0,200}}")
_AROUND = " \t\n*_`\"'[]"

Objection = Callable[[Mapping[str, JSON], float], str | None]
"""What is wrong with an answer that is valid but for what it says; None where nothing is."""


@dataclass(frozen=True, slots=True)
class JudgeAnswer:
    """One valid answer: all its values, the score as a number (None: there is nothing to judge) and as it was said."""

    values: Mapping[str, JSON]
    score: float | None
    said: JSON
    reason: str | None


class AnswerForm:
    """The form of a judge's answer.

    `format` is the `response_format` to ask for it by, None where the prompt declares no outputs. `objection` says
    where an answer contradicts itself.

    Raises:
        ConfigurationError: the outputs are not usable JSON schema.
    """

    def __init__(self, output: ResolvedOutput, where: str, objection: Objection = lambda values, score: None) -> None:
        self._output = output
        self._objection = objection
        self._schema = canonical(output.schema())
        self._keys = ReplyKeys(output.score, output.reason, tuple(output.outputs))
        self.format: JSON = _format(output) if output.outputs else None
        problem = check("the outputs", self._schema, {}).problem
        if problem is not None:
            raise ConfigurationError(f"{where}: outputs: {problem}")

    @property
    def order(self) -> tuple[str, ...]:
        keys = tuple(self._output.outputs)
        return keys or tuple(key for key in (self._output.reason, self._output.score) if key is not None)

    def read(self, text: str) -> JudgeAnswer:
        """The answer in a reply, whatever its form; equal verdicts may stand in it more than once.

        Raises:
            JudgementError: there is none, it is not of this form, or it contradicts itself or another one; says what is
                wrong, without the reply itself.
        """
        if len(text) > _MOST_CHARACTERS:
            raise JudgementError(f"it is {len(text):,} characters long")
        said = without_thoughts(text)[1].strip()
        if not said:
            raise JudgementError("it is empty")
        problem: JudgementError | None = None
        for candidates in verdicts(said, self._keys):
            answers = []
            for values in candidates:
                try:
                    answers.append(self._answer(values))
                except JudgementError as error:
                    problem = problem or error
            if answers:
                return self._agreed(answers)
        raise problem or JudgementError(problem_of(said))

    def _agreed(self, answers: list[JudgeAnswer]) -> JudgeAnswer:
        """The last of several answers with one score."""
        shown = list(dict.fromkeys(dumps(answer.said).decode() for answer in answers))
        if len({answer.score for answer in answers}) > 1:
            raise JudgementError(f"it contradicts itself: {self._output.score!r} is {' and '.join(shown[:4])}")
        last = answers[-1]
        objection = None if last.score is None else self._objection(last.values, last.score)
        if objection is not None:
            raise JudgementError(f"it contradicts itself: {objection}")
        return last

    def _answer(self, found: Mapping[str, JSON]) -> JudgeAnswer:
        try:
            values = plain(dict(found))
        except TypeError as error:
            raise JudgementError(f"it holds what cannot be kept: {error}") from None
        assert isinstance(values, dict)
        reason = values.get(self._output.reason) if self._output.reason is not None else None
        words = reason if reason is None or isinstance(reason, str) else dumps(reason).decode()
        said = values.get(self._output.score)
        if said is None and values.get("status") == _SKIPPED:
            return JudgeAnswer(values, None, None, words)
        if self._output.score not in values:
            raise JudgementError(f"it has no {self._output.score!r}")
        if isinstance(said, dict):  # {"score": {"value": 4}}
            inner = [said[key] for key in (self._output.score, "score", "value", "rating", "label") if key in said]
            said = inner[0] if inner else said
        score, said = self._score(said)
        values[self._output.score] = said
        outcome = check("the reply", self._schema, values)
        problem = outcome.problem or "; ".join(outcome.violations)
        if problem:
            raise JudgementError(problem)
        return JudgeAnswer(values, score, said, words)

    def _score(self, said: JSON) -> tuple[float, JSON]:
        name, bounds = self._output.score, self._output.range
        if self._output.labels:
            return self._labelled(said)
        if self._output.kind == "binary":
            return self._binary(said)
        if isinstance(said, str):
            said = _number_in(said, None if bounds is None else bounds[1])
        if isinstance(said, bool) or not isinstance(said, (int, float)) or not is_number(said):
            wanted = "number" if bounds is None else f"number from {bounds[0]:g} to {bounds[1]:g}"
            raise JudgementError(f"{name!r} is {_sort(said)}, not a {wanted}")
        if bounds is not None and not bounds[0] <= said <= bounds[1]:
            raise JudgementError(f"{name!r} is {said}, outside of {bounds[0]:g} to {bounds[1]:g}")
        return float(said), said

    def _binary(self, said: JSON) -> tuple[float, JSON]:
        """True or false, 0 or 1, or a word for it; of the type that is declared."""
        name = self._output.score
        number = YES_NO.get(_word(said), _number_in(said, None)) if isinstance(said, str) else said
        if not isinstance(number, (bool, int, float)):
            raise JudgementError(f"{name!r} is {_sort(said)}, not a true or false")
        if number not in (0, 1):
            raise JudgementError(f"{name!r} is {number}, neither 0 nor 1")
        declared = self._output.outputs.get(name, {}).get("type")
        if declared == "boolean" or (declared is None and isinstance(said, bool)):
            return float(number), bool(number)
        return float(number), int(number)

    def _labelled(self, said: JSON) -> tuple[float, JSON]:
        word = _word(said) if isinstance(said, str) else None
        by_word = {label.casefold(): label for label in self._output.labels}
        label = by_word.get(word or "")
        truth = said if isinstance(said, bool) else YES_NO.get(word or "")
        if label is None and truth is not None and all(known in YES_NO for known in by_word):
            label = next((by_word[known] for known in by_word if YES_NO[known] == truth), None)
        if label is None:
            shown = repr(said[:40]) if isinstance(said, str) else _sort(said)
            raise JudgementError(f"{self._output.score!r} is {shown}, none of {', '.join(self._output.labels)}")
        return self._output.labels[label], label


def _word(text: str) -> str:
    """A text without the marks around it, in lower case."""
    return text.strip(_AROUND).rstrip(".!").rstrip(_AROUND).casefold()


def _number_in(text: str, most: float | None) -> JSON:
    """The number that a text is: `4`, `4/5` where 5 is the most, `4 (good)`; else the text."""
    said = _word(text)
    share = _SHARE.fullmatch(said)
    worded = _WITH_WORDS.fullmatch(said)
    if share is not None:
        said = share[1] if most is not None and float(share[2]) == most else ""
    elif worded is not None:
        said = worded[1]
    if not re.fullmatch(_NUMBER, said):
        return text
    return float(said) if "." in said else int(said)


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


_BOUNDS = frozenset(
    """minimum maximum exclusiveMinimum exclusiveMaximum multipleOf minLength maxLength pattern format minItems maxItems
    uniqueItems default examples""".split()
)
"""Keywords that some services refuse in a schema (Azure OpenAI refuses `minimum`); replies are checked against them."""


_MOST_LISTED = 100
"""Whole numbers between bounds are sent as a list up to this many: every service takes a list and keeps to it."""


def _format(output: ResolvedOutput) -> JSON:
    schema = _strict(output.schema(), 0)
    return {"type": "json_schema", "json_schema": {"name": "judgement", "strict": True, "schema": schema}}


def _strict(schema: JSON, depth: int) -> JSON:
    """Return a schema as strict structured output wants it: every object closed, all keys required, and for
    bounds the list of whole numbers between them."""
    if depth > _DEEPEST or not isinstance(schema, dict):
        return schema
    made = {key: value for key, value in schema.items() if key not in _BOUNDS}
    match schema:
        case {"type": "integer", "minimum": int(least), "maximum": int(most)} if 0 <= most - least < _MOST_LISTED:
            made.setdefault("enum", list(range(least, most + 1)))
    properties = made.get("properties")
    if isinstance(properties, dict):
        made["properties"] = {name: _strict(value, depth + 1) for name, value in properties.items()}
        made["required"] = list(properties)
        made["additionalProperties"] = False
    if "items" in made:
        made["items"] = _strict(made["items"], depth + 1)
    return made
