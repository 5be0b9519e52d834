"""Requests and reads a judge's answer: finds possible verdicts in a reply and returns the valid one."""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import islice

from tunecheck._errors import ConfigurationError, ReplyError
from tunecheck._json import JSON, canonical, dumps, plain, text_or_json
from tunecheck._messages import clean
from tunecheck.calls._python_text import PythonScanner
from tunecheck.calls._schemas import check
from tunecheck.calls._strict_json import kind_of
from tunecheck.evaluators._judges.output import REASON_NAMES, SCORE_NAMES, YES_NO, ResolvedOutput
from tunecheck.formats._reading import without_thoughts
from tunecheck.prompts._front_matter import is_number

# -- where verdicts may stand in a reply: objects, tags, marks, labelled lines, or the bare reply

_WORK = 20_000_000
"""Maximum number of characters scanned without result: a reply may contain many braces that open no object."""

_MOST_VERDICTS = 20
_MOST_WORDS = 3
_DEEPEST = 4
_SHOWN_HEAD, _SHOWN_TAIL = 240, 80

# a brace that may open an object: a quotation mark or the closing brace follows
_OBJECT = re.compile(r"\{(?=\s*[\"'}])")
_FENCE = re.compile(r"```[\w-]{0,20}\s*(.{1,80})```", re.DOTALL)
# a verdict in double brackets, such as [[4]]
_MARK = re.compile(r"\[\[\s*([^\[\]\n,]{1,40}?)\s*\]\]")
# a reply that is only a verdict, perhaps after a label: `4`, `Score: 4`, `the answer is yes`
_BARE = re.compile(r"(?:[\w ]{1,40}(?::|=|\bis\b) ?)?(?P<value>\S.{0,60})", re.IGNORECASE)
_AROUND = " \t*_`\"'"
_TAGS_OF_AZURE = {"score": "S2", "reason": "S1"}
"""The tags for score and reason in prompts of older releases of Azure AI Evaluation."""


class JudgementError(ReplyError):
    """A judge's reply has no valid verdict, and neither has its repair."""


class JudgeRefusalError(JudgementError):
    """The judge refused to judge."""


@dataclass(frozen=True)
class ReplyKeys:
    """The keys of the score, the reason and all declared outputs in a reply."""

    score: str
    reason: str | None = None
    declared: tuple[str, ...] = ()

    @cached_property
    def all(self) -> tuple[str, ...]:
        named = (self.score, *([self.reason] if self.reason else []), *self.declared)
        return tuple(dict.fromkeys(named))

    def named(self, values: dict[str, JSON]) -> dict[str, JSON]:
        """Return a reply's values under the prompt's own keys.

        Case does not count, and a score under another common name, such as `rating`, is renamed.
        """
        wanted = {key.casefold(): key for key in self.all if key not in values}
        named = {wanted.get(name.strip().casefold(), name): value for name, value in values.items()}
        others = (name for name in SCORE_NAMES if isinstance(named.get(name), (str, int, float)))
        other = next((name for name in others if name not in self.all), None)
        if self.score not in named and other is not None:
            named[self.score] = named.pop(other)
        return named


def verdicts(text: str, keys: ReplyKeys) -> Iterator[list[dict[str, JSON]]]:
    """Yield lists of possible verdicts in a reply, one list for each form of verdict, the most certain form first.

    If the reply contains JSON, complete or broken, only JSON and tags count, because its strings may contain other
    forms.

    Raises:
        JudgementError: an object contains a key twice with different values.
    """
    found = list(_from_objects(text, keys))
    yield found
    yield _from_tags(text, keys)
    if not found and not _OBJECT.search(text):
        yield [{keys.score: marked[1]} for marked in _MARK.finditer(text)]
        yield _from_lines(text, keys)
        yield _from_bare(text, keys)


def problem_of(text: str) -> str:
    """Return why no verdict was found in a reply, as a part of a sentence."""
    return "its JSON breaks off or is broken" if _OBJECT.search(text) else "there is no JSON object in it"


def shorten_reply(text: str) -> str:
    """Return the beginning and end of a reply on one line, for an error."""
    line = clean(text[: 4 * _SHOWN_HEAD], _SHOWN_HEAD)
    if len(text) <= _SHOWN_HEAD:
        return line
    return f"{line} [{len(text):,} characters] …{clean(text[-_SHOWN_TAIL:], _SHOWN_TAIL)}"


# -- objects


def _from_objects(text: str, keys: ReplyKeys) -> Iterator[dict[str, JSON]]:
    """Yield the JSON objects in a reply that have a score; if none has, only the last object."""
    last: dict[str, JSON] | None = None
    scored = False
    for value in _objects(text):
        last = value
        for inner in islice(_scored_objects(value, keys, 0), _MOST_VERDICTS):
            scored = True
            yield inner
    if not scored and last is not None:
        yield keys.named(last)


def _scored_objects(value: JSON, keys: ReplyKeys, depth: int) -> Iterator[dict[str, JSON]]:
    """Yield the objects with a score inside a value, at any depth, each with the keys of the objects around it."""
    if isinstance(value, str) and value.lstrip().startswith("{"):  # the arguments of a call
        value = next(_objects(value), None)
    if isinstance(value, list) and depth < _DEEPEST:
        for item in value:
            yield from _scored_objects(item, keys, depth + 1)
    if not isinstance(value, dict):
        return
    named = keys.named(value)
    if keys.score in named:
        yield named
    elif depth < _DEEPEST:
        for inner in named.values():
            for found in _scored_objects(inner, keys, depth + 1):
                yield {**named, **found}


def _objects(text: str) -> Iterator[dict[str, JSON]]:
    """Yield the complete objects in a text; gives up after a number of broken ones, to bound the time."""
    failures = max(16, min(500, _WORK // max(1, len(text))))
    position = 0
    while failures and (start := _OBJECT.search(text, position)):
        try:
            value, position = _object_at(text, start.start())
        except (ValueError, RecursionError):
            failures -= 1
            position = start.end()
            continue
        if isinstance(value, dict):
            yield value


def _object_at(text: str, position: int) -> tuple[JSON, int]:
    """Read the object at a position, as JSON or as a Python literal (apostrophes, a trailing comma).

    Returns it with the position after it.

    Raises:
        ValueError: it is neither.
    """
    try:
        return _decode(text, position)
    except ValueError:
        scanner = PythonScanner(text, position)
        return scanner.value(), scanner.position


def _unique_keys(pairs: list[tuple[str, JSON]]) -> dict[str, JSON]:
    """Return the object's entries; raise JudgementError if a key has two different values."""
    values: dict[str, JSON] = {}
    for name, value in pairs:
        if name in values and values[name] != value:
            raise JudgementError(f"it gives {name!r} twice, with two values")
        values[name] = value
    return values


_decode: Callable[[str, int], tuple[JSON, int]] = json.JSONDecoder(
    strict=False, parse_constant=lambda _: None, object_pairs_hook=_unique_keys
).raw_decode
# Line feeds inside strings are accepted, because models write them into their reasons.


# -- other forms


def _from_tags(text: str, keys: ReplyKeys) -> list[dict[str, JSON]]:
    """Return the verdicts in tags such as `<score>4</score>`, with the other values in their own tags."""
    named = {key: [key] for key in keys.all}
    named[keys.score].append(_TAGS_OF_AZURE["score"])
    named.get(keys.reason or "", []).append(_TAGS_OF_AZURE["reason"])
    found = {key: values for key, names in named.items() if (values := _tag_texts(text, names))}
    others: dict[str, JSON] = {key: values[-1] for key, values in found.items()}
    return [{**others, keys.score: score} for score in found.get(keys.score, [])]


def _tag_texts(text: str, names: Iterable[str]) -> list[str]:
    """Return the texts inside tags of the first of these names that occurs."""
    for name in names:
        values: list[str] = []
        position = 0
        while len(values) < _MOST_VERDICTS and (end := text.find(f"</{name}>", position)) >= 0:
            start = text.rfind(f"<{name}>", position, end)
            position = end + len(name) + 3
            values += [text[start + len(name) + 2 : end].strip()] if start >= 0 else []
        if values:
            return values
    return []


def _from_lines(text: str, keys: ReplyKeys) -> list[dict[str, JSON]]:
    """Return the verdicts in lines such as `Score: 4`, with the reason from another line."""
    reasons = list(_labelled(text, (keys.reason or "reason", *REASON_NAMES)))
    reason: dict[str, JSON] = {keys.reason: reasons[-1]} if keys.reason is not None and reasons else {}
    scores = islice(_labelled(text, (keys.score, *SCORE_NAMES)), _MOST_VERDICTS)
    return [{**reason, keys.score: score} for score in scores]


def _labelled(text: str, names: Iterable[str]) -> Iterator[str]:
    """Yield the text after each label with one of these names at the start of a line, such as `**Score:** 4`."""
    any_name = "|".join(re.escape(name).replace("_", "[_ ]") for name in names)
    begin = r"^[\s>#*_`\"'-]{0,12}(?:(?:the|my|final|overall) )*"
    line = rf"{begin}(?:{any_name})[*_`\"']{{0,4}}\s?(?:[:=]|is\b)(.{{1,2000}})$"
    return (found[1].strip(_AROUND) for found in re.finditer(line, text, re.IGNORECASE | re.MULTILINE))


def _from_bare(text: str, keys: ReplyKeys) -> list[dict[str, JSON]]:
    """Return the possible verdicts of a reply that is only a score: the whole line, and its part after a label.

    Empty if the reply has several lines or more than a few words.
    """
    fenced = _FENCE.fullmatch(text)
    line = (fenced[1] if fenced else text).strip().strip(_AROUND).strip()
    matched = _BARE.fullmatch(line) if len(line) <= 100 and "\n" not in line else None
    if matched is None:
        return []
    said = [each.strip(_AROUND) for each in dict.fromkeys((line, matched["value"]))]
    return [{keys.score: each} for each in said if each[:1].isdigit() or len(each.split()) <= _MOST_WORDS]


_MOST_CHARACTERS = 1_000_000
_DEEPEST_SCHEMA = 50
_SKIPPED = "skipped"
"""The `status` that Azure AI Evaluation's prompts use if there is nothing to judge."""

_NUMBER = r"[-+]?[0-9]{1,15}(?:\.[0-9]{1,15})?"
_SHARE = re.compile(rf"({_NUMBER})\s?(?:/|out of|of)\s?({_NUMBER})")
_WITH_WORDS = re.compile(rf"({_NUMBER})(?:\s?[(:–—-]|,|;|\s-)\s?[^0-9]{{0,200}}")
_AROUND_WORDS = " \t\n*_`\"'[]"

Objection = Callable[[Mapping[str, JSON], float], str | None]
"""Returns why a formally valid answer contradicts itself, or None."""


@dataclass(frozen=True, slots=True)
class JudgeAnswer:
    """A valid answer: all values, the score as a number (None: nothing to judge), and the score as written (`said`)."""

    values: Mapping[str, JSON]
    score: float | None
    said: JSON
    reason: str | None


class AnswerForm:
    """The required form of a judge's answer.

    `format` is the `response_format` of the request, None if the prompt declares no outputs. `objection` returns why an
    answer contradicts itself.

    Raises:
        ConfigurationError: the outputs are not a usable JSON schema.
    """

    def __init__(self, output: ResolvedOutput, where: str, objection: Objection = lambda values, score: None) -> None:
        """Derive from the output how replies are read and requested; `where` is the prompt's name in errors."""
        self._output = output
        self._objection = objection
        self._schema = canonical(output.schema())
        self._keys = ReplyKeys(output.score, output.reason, tuple(output.outputs))
        self.format: JSON = None
        if output.outputs:
            schema: JSON = {"name": "judgement", "strict": True, "schema": _strict(output.schema(), 0)}
            self.format = {"type": "json_schema", "json_schema": schema}
        problem = check("the outputs", self._schema, {}).problem
        if problem is not None:
            raise ConfigurationError(f"{where}: outputs: {problem}")

    @property
    def order(self) -> tuple[str, ...]:
        keys = tuple(self._output.outputs)
        return keys or tuple(key for key in (self._output.reason, self._output.score) if key is not None)

    def read(self, text: str) -> JudgeAnswer:
        """Return the judge's answer in a reply, which may write it in several forms and repeat it.

        Raises:
            JudgementError: the reply has no answer of this form, or contradicts itself; the text describes the problem
                without the reply.
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
                return self._agreed_answer(answers)
        raise problem or JudgementError(problem_of(said))

    def _agreed_answer(self, answers: list[JudgeAnswer]) -> JudgeAnswer:
        """Return the last of several answers in one reply.

        Raises:
            JudgementError: their scores differ, or the last answer contradicts itself.
        """
        shown = list(dict.fromkeys(dumps(answer.said).decode() for answer in answers))
        if len({answer.score for answer in answers}) > 1:
            raise JudgementError(f"it contradicts itself: {self._output.score!r} is {' and '.join(shown[:4])}")
        last = answers[-1]
        objection = None if last.score is None else self._objection(last.values, last.score)
        if objection is not None:
            raise JudgementError(f"it contradicts itself: {objection}")
        return last

    def _answer(self, found: Mapping[str, JSON]) -> JudgeAnswer:
        """Check the values that were found in a reply, and return them as an answer.

        An answer with status "skipped" needs no score: there is nothing to judge.

        Raises:
            JudgementError: the score is missing or invalid, or the values violate the schema of the outputs.
        """
        try:
            values = plain(dict(found))
        except TypeError as error:
            raise JudgementError(f"it has a value that cannot be stored: {error}") from None
        assert isinstance(values, dict)
        reason = values.get(self._output.reason) if self._output.reason is not None else None
        words = None if reason is None else text_or_json(reason)
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
        """Return the score as a number, and as it should be written in the answer.

        Raises:
            JudgementError: it is no number, or outside the range.
        """
        name, bounds = self._output.score, self._output.range
        if self._output.labels:
            return self._labelled(said)
        if self._output.kind == "binary":
            return self._binary(said)
        if isinstance(said, str):
            said = _number_in(said, None if bounds is None else bounds[1])
        if isinstance(said, bool) or not isinstance(said, (int, float)) or not is_number(said):
            wanted = "number" if bounds is None else f"number from {bounds[0]:g} to {bounds[1]:g}"
            raise JudgementError(f"{name!r} is {kind_of(said)}, not a {wanted}")
        if bounds is not None and not bounds[0] <= said <= bounds[1]:
            raise JudgementError(f"{name!r} is {said}, outside of {bounds[0]:g} to {bounds[1]:g}")
        return float(said), said

    def _binary(self, said: JSON) -> tuple[float, JSON]:
        """Return a score of yes or no as 1.0 or 0.0, and in the type that the outputs declare.

        Raises:
            JudgementError: it is neither a boolean, nor 0 or 1, nor such a word.
        """
        name = self._output.score
        number = YES_NO.get(_word(said), _number_in(said, None)) if isinstance(said, str) else said
        if not isinstance(number, (bool, int, float)):
            raise JudgementError(f"{name!r} is {kind_of(said)}, not true or false")
        if number not in (0, 1):
            raise JudgementError(f"{name!r} is {number}, neither 0 nor 1")
        declared = self._output.outputs.get(name, {}).get("type")
        if declared == "boolean" or (declared is None and isinstance(said, bool)):
            return float(number), bool(number)
        return float(number), int(number)

    def _labelled(self, said: JSON) -> tuple[float, JSON]:
        """Return the number of the score's label, and the label; if all labels mean yes or no, any such word fits.

        Raises:
            JudgementError: it is none of the labels.
        """
        word = _word(said) if isinstance(said, str) else None
        by_word = {label.casefold(): label for label in self._output.labels}
        label = by_word.get(word or "")
        truth = said if isinstance(said, bool) else YES_NO.get(word or "")
        if label is None and truth is not None and all(known in YES_NO for known in by_word):
            label = next((by_word[known] for known in by_word if YES_NO[known] == truth), None)
        if label is None:
            shown = repr(said[:40]) if isinstance(said, str) else kind_of(said)
            raise JudgementError(f"{self._output.score!r} is {shown}, none of {', '.join(self._output.labels)}")
        return self._output.labels[label], label


def _word(text: str) -> str:
    """Return a text in lower case, without marks and punctuation around it."""
    return text.strip(_AROUND_WORDS).rstrip(".!").rstrip(_AROUND_WORDS).casefold()


def _number_in(text: str, most: float | None) -> JSON:
    """Return the number that a text states: `4`, `4/5` if 5 is the maximum, `4 (good)`; any other text is returned
    unchanged.
    """
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


# -- asking for it


_REFUSED_KEYWORDS = frozenset(
    """minimum maximum exclusiveMinimum exclusiveMaximum multipleOf minLength maxLength pattern format minItems maxItems
    uniqueItems default examples""".split()
)
"""Schema keywords that some services refuse (Azure OpenAI: `minimum`); replies are still checked against them."""


_MOST_LISTED = 100
"""Maximum size of an integer range that is sent as a list, which every service accepts and enforces."""


def _strict(schema: JSON, depth: int) -> JSON:
    """Return a schema in the form that strict structured output requires: closed objects with all keys required.

    Keywords that some services refuse are left out; a small range of integers becomes a list.
    """
    if depth > _DEEPEST_SCHEMA or not isinstance(schema, dict):
        return schema
    made = {key: value for key, value in schema.items() if key not in _REFUSED_KEYWORDS}
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
