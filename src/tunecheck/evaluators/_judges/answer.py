"""The answer of a judge: its keys, score and threshold, the form in which it is requested, and how it is read.

`resolve_output` decides how a prompt's answers are read:

| setting   | the given one, or else the first of these that exists                                          |
|-----------|------------------------------------------------------------------------------------------------|
| metric    | the name of the prompt's file                                                                  |
| score     | an output named as the metric, `<metric>_score`, a usual name, the only number                 |
| reason    | an output with a usual name                                                                    |
| labels    | the words of an `enum`, if all mean yes or no                                                  |
| kind      | "binary" for a boolean or labels of 0 and 1; else "score"                                      |
| range     | 0 to 1 if binary, lowest and highest label or `enum` value, `minimum` and `maximum`            |
| threshold | the middle of the range                                                                        |

`asking.py` sends `AnswerForm.format` with a request, and passes the reply to `AnswerForm.read`. That method looks for
the forms of an answer in this order, and returns the valid answer of the first form that has one:

1. objects: {"reason": "…", "score": 4}, in JSON or Python's syntax
2. tags: <score>4</score>
3. marks: [[4]]
4. labelled lines: **Score:** 4
5. a reply that is only a score: 4/5

Forms 3 to 5 count only in a reply without objects. Several answers in one form must have the same score.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain, islice
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from tunecheck._describe import read_as
from tunecheck._errors import ConfigurationError, ReplyError
from tunecheck._json import JSON, canonical, dumps, plain, text_or_json
from tunecheck._messages import did_you_mean
from tunecheck.calls._model import kind_of
from tunecheck.calls._python_text import PythonScanner
from tunecheck.calls._schemas import check
from tunecheck.formats._reading import without_thoughts
from tunecheck.prompts._front_matter import JudgeOutput, JudgeSettings, Kind, is_number

if TYPE_CHECKING:
    from tunecheck.prompts._prompt import Prompt

# -- the declared output: the key of the score, its range and threshold, and the JSON schema of the answer

# usual keys, in the order in which they are tried
SCORE_NAMES = ("score", "rating", "label", "verdict", "result", "grade")
REASON_NAMES = ("reason", "reasoning", "explanation", "rationale", "chain_of_thought", "justification")
# words and their scores
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

    def passes(self, score: float) -> bool | None:
        """Return whether a row with this score passes; None if there is no threshold."""
        if self.threshold is None:
            return None
        return score >= self.threshold if self.higher_is_better else score <= self.threshold

    @property
    def names(self) -> tuple[str, ...]:
        """The keys of the score, the reason and all outputs in a reply."""
        return tuple(dict.fromkeys((self.score, *([self.reason] if self.reason else []), *self.outputs)))

    def rename(self, values: dict[str, JSON]) -> dict[str, JSON]:
        """Return a reply's values under the prompt's own keys.

        Case does not count. If the score's key is missing, the first usual name, such as `rating`, is renamed to it.
        """
        # `Score` is read as `score`, unless the reply has `score`, too.
        names = self.names
        own_keys = {key.casefold(): key for key in names if key not in values}
        renamed = {own_keys.get(name.strip().casefold(), name): value for name, value in values.items()}

        # Another usual name counts only if the prompt does not use it for another output.
        usual = (name for name in SCORE_NAMES if isinstance(renamed.get(name), (str, int, float)))
        name = next((name for name in usual if name not in names), None)
        if self.score not in renamed and name is not None:
            renamed[self.score] = renamed.pop(name)
        return renamed

    def schema(self) -> dict[str, JSON]:
        """Return the JSON schema of the judge's whole answer, in which only the score is required."""
        properties: dict[str, JSON] = {name: dict(schema) for name, schema in self.outputs.items()}
        return {"type": "object", "properties": properties, "required": [self.score]}

    def data(self) -> dict[str, JSON]:
        """Return all settings as plain data, for fingerprints and the manifest."""
        data = msgspec.structs.asdict(self)
        del data["outputs"]
        bounds = list(self.range) if self.range else None
        return {**data, "range": bounds, "labels": dict(self.labels), "schema": self.schema()}


def judge_settings(prompt: Prompt, given: JudgeOutput, **more: object) -> JudgeSettings:
    """Return the settings in the prompt's `judge:` section, overridden by `given`, and then by `more`.

    A setting that is None overrides nothing.

    Raises:
        ConfigurationError: a given setting does not exist or has an invalid value.
    """
    by_priority = chain(prompt.extra.items(), msgspec.structs.asdict(given).items(), more.items())
    settings = {key: value for key, value in by_priority if value is not None}
    return read_as(settings, JudgeSettings, "judge settings")


def resolve_output(prompt: Prompt, wanted: JudgeOutput) -> ResolvedOutput:
    """Decide how the judge's answer is read: which keys are score and reason, which scores are possible, which pass.

    The `wanted` settings come before the prompt's `outputs:`. The metric's default name is that of the prompt's file.
    The default threshold is the middle of the range.

    Raises:
        ConfigurationError: the score's key or meaning is unclear; the text names the prompt's file and the key.
    """
    metric, outputs = wanted.metric or prompt.path.stem, prompt.outputs

    score = wanted.score or _score_key(prompt, metric)
    reason = wanted.reason or next((name for name in REASON_NAMES if name in outputs), None)
    # Without outputs, the prompt describes its answer in words, and the usual keys are expected.
    if reason is None and not outputs:
        reason = "reason"

    for key in (score, reason):
        if key is not None and outputs and key not in outputs:
            raise ConfigurationError(f"{prompt.source}: `outputs` must have {key!r}{did_you_mean(key, outputs)}")

    schema = outputs.get(score, {})
    labels = _labels(prompt, wanted, score, schema)
    is_binary = schema.get("type") == "boolean" or (labels and set(labels.values()) <= {0.0, 1.0})
    kind: Kind = wanted.kind or ("binary" if is_binary else "score")
    bounds = wanted.range or _range(schema, labels, kind)

    threshold = wanted.threshold
    if threshold is None and bounds is not None:
        threshold = (bounds[0] + bounds[1]) / 2
    # Any other threshold would pass or fail every row.
    if threshold is not None and bounds is not None and not bounds[0] <= threshold <= bounds[1]:
        raise ConfigurationError(f"the threshold of {metric} must be {bounds[0]:g} to {bounds[1]:g}, not {threshold:g}")

    return ResolvedOutput(
        metric=metric,
        score=score,
        reason=reason,
        range=bounds,
        threshold=threshold,
        higher_is_better=wanted.higher_is_better is not False,
        kind=kind,
        labels=labels,
        # Reason first, score last, because the model writes them in this order: a score before its reason is a guess.
        outputs=dict(sorted(outputs.items(), key=lambda item: (item[0] != reason, item[0] == score))),
    )


def _score_key(prompt: Prompt, metric: str) -> str:
    """Return the answer's key of the score: the metric's name or a usual one, else the only number or boolean output.

    A prompt without outputs has the key "score".

    Raises:
        ConfigurationError: no output has such a name, and several outputs or none are numbers or booleans.
    """
    outputs = prompt.outputs
    if not outputs:
        return "score"

    for name in (metric, f"{metric}_score", *SCORE_NAMES):
        if name in outputs:
            return name

    # A single number among texts can only be the score.
    numeric = [name for name, schema in outputs.items() if schema.get("type") in ("number", "integer", "boolean")]
    if len(numeric) == 1:
        return numeric[0]

    advice = f"name one of {', '.join(outputs)} with `judge: {{score: KEY}}`"
    raise ConfigurationError(f"{prompt.source}: the score's key is unclear: {advice}")


def _labels(prompt: Prompt, output: JudgeOutput, score: str, schema: Mapping[str, JSON]) -> Mapping[str, float]:
    """Return the number of each word that the score may be; empty if the score is a number or a boolean.

    These are the declared labels, or else 1 and 0 for the words of an `enum` if all mean yes or no.

    Raises:
        ConfigurationError: no labels are declared, and the score is a text other than words for yes or no.
    """
    if output.labels is not None:
        return {label: float(number) for label, number in output.labels.items()}

    words = schema.get("enum")
    if isinstance(words, list) and words and all(isinstance(word, str) for word in words):
        # Words for yes and no have known scores.
        named = {str(word): str(word).strip().casefold() for word in words}
        if all(word in YES_NO for word in named.values()):
            return {label: YES_NO[word] for label, word in named.items()}
    elif schema.get("type") != "string":
        return {}

    advice = "give each possible text a number, as in `judge: {labels: {good: 1, bad: 0}}`"
    raise ConfigurationError(f"{prompt.source}: the score {score!r} is declared as a text: {advice}")


def _range(schema: Mapping[str, JSON], labels: Mapping[str, float], kind: Kind) -> tuple[float, float] | None:
    """Return the lowest and highest possible score; None if they are unknown.

    A binary score is from 0 to 1. Other bounds come from the labels or the schema's `enum`, else from the schema's
    `minimum` and `maximum`.
    """
    if kind == "binary":
        return (0.0, 1.0)

    choices = schema.get("enum")
    possible: list[JSON] = [*labels.values()] or (choices if isinstance(choices, list) else [])
    numbers = [float(value) for value in possible if is_number(value)]
    if numbers and min(numbers) < max(numbers):
        return (min(numbers), max(numbers))

    low, high = schema.get("minimum"), schema.get("maximum")
    if isinstance(low, (int, float)) and isinstance(high, (int, float)) and low < high:
        return (float(low), float(high))
    return None


# -- answers

_MOST_CHARACTERS = 1_000_000  # of a reply
_SKIPPED = "skipped"
"""The `status` that Azure AI Evaluation's prompts use if there is nothing to judge."""

_Candidate: TypeAlias = dict[str, JSON]
"""The values of a possible answer in a reply, by key."""

Objection = Callable[[Mapping[str, JSON], float], str | None]
"""Returns why a formally valid answer, given by its values and score, contradicts itself, or None."""


class JudgementError(ReplyError):
    """A judge's reply has no valid answer, and neither has its repair."""


class JudgeRefusalError(JudgementError):
    """The judge refused to judge."""


class JudgeAnswer(msgspec.Struct, frozen=True):
    """A valid answer: all values, the score as a number (None: nothing to judge) and as written, and the reason."""

    values: Mapping[str, JSON]
    score: float | None
    written_score: JSON
    reason: str | None


class AnswerForm:
    """The required form of a judge's answer.

    `format` is the `response_format` of the request, None if the prompt declares no outputs. `objection` returns why an
    answer contradicts itself.

    Raises:
        ConfigurationError: the outputs are not a usable JSON schema.
    """

    def __init__(self, output: ResolvedOutput, prompt: str, objection: Objection = lambda values, score: None) -> None:
        """Make the request's `format` and the rules for reading replies. `prompt` is its file or name in errors.

        Raises:
            ConfigurationError: the outputs are not a usable JSON schema.
        """
        self._output = output
        self._objection = objection
        self._schema = canonical(output.schema())

        self.format: JSON = None
        if output.outputs:
            schema: JSON = {"name": "judgement", "strict": True, "schema": _strict(output.schema(), 0)}
            self.format = {"type": "json_schema", "json_schema": schema}

        # An empty answer is checked only to find out whether the schema can be used.
        problem = check("the outputs", self._schema, {}).problem
        if problem is not None:
            raise ConfigurationError(f"{prompt}: {problem}")

    @property
    def order(self) -> tuple[str, ...]:
        """The keys of the answer in the order in which the judge should write them."""
        keys = tuple(self._output.outputs)
        return keys or tuple(key for key in (self._output.reason, self._output.score) if key is not None)

    def read(self, text: str) -> JudgeAnswer:
        """Return the judge's answer in a reply. The reply may have one of several forms, and may repeat the answer.

        Raises:
            JudgementError: the reply has no answer of this form, or contradicts itself; the text describes the problem
                without the reply.
        """
        if len(text) > _MOST_CHARACTERS:
            raise JudgementError(f"the reply is longer than {_MOST_CHARACTERS:,} characters")
        reply = without_thoughts(text)[1].strip()
        if not reply:
            raise JudgementError("the reply has no answer (empty, or only reasoning)")

        # The first form with a valid answer decides. If no form has one, the first problem is reported.
        problem: JudgementError | None = None
        for candidates in _candidates_by_form(reply, self._output):
            answers = []
            for candidate in candidates:
                try:
                    answers.append(self._check_candidate(candidate))
                except JudgementError as error:
                    problem = problem or error
            if answers:
                return self._agreed_answer(answers)

        if problem is None:
            broken = _OBJECT_START.search(reply)
            problem = JudgementError("the reply's JSON is broken" if broken else "the reply has no JSON object")
        raise problem

    def _agreed_answer(self, answers: list[JudgeAnswer]) -> JudgeAnswer:
        """Return the last of several answers in one reply.

        Raises:
            JudgementError: their scores differ, or the last answer contradicts itself.
        """
        if len({answer.score for answer in answers}) > 1:
            scores = list(dict.fromkeys(dumps(answer.written_score).decode() for answer in answers))
            raise JudgementError(f"the reply contradicts itself: {self._output.score!r} is {' and '.join(scores[:4])}")

        # A model may repeat its answer. The last one has the final reason.
        last = answers[-1]
        objection = None if last.score is None else self._objection(last.values, last.score)
        if objection is not None:
            raise JudgementError(f"the reply contradicts itself: {objection}")
        return last

    def _check_candidate(self, candidate: _Candidate) -> JudgeAnswer:
        """Check a candidate, and return it as an answer.

        An answer with status "skipped" needs no score: there is nothing to judge.

        Raises:
            JudgementError: the score is missing or invalid, or the values violate the schema of the outputs.
        """
        try:
            values = plain(candidate)
        except TypeError as error:
            raise JudgementError(f"the reply has a value that cannot be stored: {error}") from None
        assert isinstance(values, dict)

        key, reason_key = self._output.score, self._output.reason
        reason = values.get(reason_key) if reason_key is not None else None
        reason_text = None if reason is None else text_or_json(reason)

        written = values.get(key)
        if written is None and values.get("status") == _SKIPPED:
            return JudgeAnswer(values, None, None, reason_text)
        if key not in values:
            raise JudgementError(f"the reply has no key {key!r}")

        if isinstance(written, dict):  # {"score": {"value": 4}}
            inner_keys = (key, "score", "value", "rating", "label")
            written = next((written[inner] for inner in inner_keys if inner in written), written)
        score, values[key] = self._read_score(written)

        # The schema is checked last, because models write 4 as "4", which is converted first.
        outcome = check("the reply", self._schema, values)
        problem = outcome.problem or "; ".join(outcome.violations)
        if problem:
            raise JudgementError(problem)
        return JudgeAnswer(values, score, values[key], reason_text)

    def _read_score(self, written: JSON) -> tuple[float, JSON]:
        """Return the score as a float, and as the value to store.

        The value to store is a label (of a score with labels), a boolean, 0 or 1 (of a binary score), or the number. A
        binary score may also be written as a word for yes or no.

        Raises:
            JudgementError: the score is no label or number, is outside the range, or (if binary) is neither yes nor no.
        """
        output = self._output
        if output.labels:
            return self._read_label(written)

        key, bounds, is_binary = output.score, output.range, output.kind == "binary"
        number = written
        if isinstance(written, str):
            stated = _stated_number(written, most=None if bounds is None or is_binary else bounds[1])
            number = YES_NO.get(_bare_word(written), stated) if is_binary else stated

        if is_binary:
            if not isinstance(number, (bool, int, float)):
                raise JudgementError(f"the reply's {key!r} must be true or false, not {kind_of(written)}")
            if number not in (0, 1):
                raise JudgementError(f"the reply's {key!r} must be 0 or 1, not {number}")
            # The declared type decides. Without one, a boolean stays a boolean, and a word or number becomes 0 or 1.
            declared = output.outputs.get(key, {}).get("type", "boolean" if isinstance(written, bool) else None)
            return float(number), bool(number) if declared == "boolean" else int(number)

        if not is_number(number):
            expected = "number" if bounds is None else f"number from {bounds[0]:g} to {bounds[1]:g}"
            raise JudgementError(f"the reply's {key!r} is {kind_of(number)}, not a {expected}")
        if bounds is not None and not bounds[0] <= number <= bounds[1]:
            raise JudgementError(f"the reply's {key!r} must be from {bounds[0]:g} to {bounds[1]:g}, not {number}")
        return float(number), number

    def _read_label(self, written: JSON) -> tuple[float, JSON]:
        """Return the number of the label that the score names, and the label.

        If all labels mean yes or no, a boolean and any other word for yes or no name a label, too.

        Raises:
            JudgementError: the score names none of the labels.
        """
        word = _bare_word(written) if isinstance(written, str) else ""
        labels = {label.casefold(): label for label in self._output.labels}
        label = labels.get(word)

        # For the labels "pass" and "fail", true and "yes" mean "pass".
        truth = written if isinstance(written, bool) else YES_NO.get(word)
        all_mean_yes_or_no = all(name in YES_NO for name in labels)
        if label is None and truth is not None and all_mean_yes_or_no:
            label = next((labels[name] for name in labels if YES_NO[name] == truth), None)

        if label is None:
            shown = repr(written[:40]) if isinstance(written, str) else kind_of(written)
            names = ", ".join(self._output.labels)
            raise JudgementError(f"the reply's {self._output.score!r} must be one of {names}, not {shown}")
        return self._output.labels[label], label


# -- words and numbers in a score

# `4`, `-0.5`
_NUMBER = r"[-+]?[0-9]{1,15}(?:\.[0-9]{1,15})?"
# a number and the maximum: `4/5`, `4 out of 5`
_SHARE = re.compile(rf"(?P<number>{_NUMBER})\s?(?:/|out of|of)\s?(?P<most>{_NUMBER})")
# a number and words: `4 (good)`, `4: good`
_WITH_WORDS = re.compile(rf"(?P<number>{_NUMBER})(?:\s?[(:–—-]|,|;|\s-)\s?[^0-9]{{0,200}}")
_AROUND_WORDS = " \t\n*_`\"'[]"  # Markdown, quotes and brackets around a word


def _bare_word(text: str) -> str:
    """Return a text in lower case, without marks and punctuation around it."""
    return text.strip(_AROUND_WORDS).rstrip(".!").rstrip(_AROUND_WORDS).casefold()


def _stated_number(text: str, *, most: float | None = None) -> JSON:
    """Return the number in a text such as `4`, `4 (good)`, or `4/5` if `most` is 5; else the text itself."""
    number = _bare_word(text)
    share, with_words = _SHARE.fullmatch(number), _WITH_WORDS.fullmatch(number)

    # A share counts only of the scale's maximum: `4/10` is no score from 1 to 5.
    if share is not None:
        if float(share["most"]) != most:
            return text
        number = share["number"]
    elif with_words is not None:
        number = with_words["number"]

    if not re.fullmatch(_NUMBER, number):
        return text
    return float(number) if "." in number else int(number)


# -- candidates in a reply: objects, tags, marks, labelled lines, or the bare reply

_MOST_CANDIDATES = 20  # of one form in a reply
_MOST_WORDS = 3  # of a reply that is only a score
_DEEPEST = 4  # levels of objects in which a score is looked for

# a brace that may open an object: a quotation mark or the closing brace follows
_OBJECT_START = re.compile(r"\{(?=\s*[\"'}])")
# a reply in a code block: "```json\n4\n```"
_FENCE = re.compile(r"```[\w-]{0,20}\s*(?P<inside>.{1,80})```", re.DOTALL)
# a score in double brackets, such as [[4]]
_MARK = re.compile(r"\[\[\s*(?P<score>[^\[\]\n,]{1,40}?)\s*\]\]")
# a reply that is only a score, perhaps after a label: `4`, `Score: 4`, `the answer is yes`
_BARE = re.compile(r"(?:[\w ]{1,40}(?::|=|\bis\b) ?)?(?P<score>\S.{0,60})", re.IGNORECASE)
_AROUND = " \t*_`\"'"  # Markdown and quotes around a value
_SCORE_TAG_OF_AZURE, _REASON_TAG_OF_AZURE = "S2", "S1"  # in prompts of older releases of Azure AI Evaluation


def _candidates_by_form(text: str, output: ResolvedOutput) -> Iterator[list[_Candidate]]:
    """Yield the candidates of each form in a reply, the most certain form first.

    If the reply contains JSON, complete or broken, only JSON and tags count, because its strings may contain other
    forms.

    Raises:
        JudgementError: an object contains a key twice with different values.
    """
    from_objects = _from_objects(text, output)
    yield from_objects
    yield _from_tags(text, output)
    if not from_objects and not _OBJECT_START.search(text):
        yield [{output.score: mark["score"]} for mark in _MARK.finditer(text)]
        yield _from_lines(text, output)
        yield _from_bare(text, output)


def _from_objects(text: str, output: ResolvedOutput) -> list[_Candidate]:
    """Return the JSON objects in a reply that have a score; if none has, only the last object."""
    scored: list[_Candidate] = []
    last: _Candidate | None = None
    for last in _objects(text):
        scored += islice(_scored_objects(last, output, 0), _MOST_CANDIDATES)
    # After the loop, `last` is the reply's last object.
    return [output.rename(last)] if not scored and last is not None else scored


def _scored_objects(value: JSON, output: ResolvedOutput, depth: int) -> Iterator[_Candidate]:
    """Yield the objects with a score in a value, down to a few levels. Each also has the entries of outer objects.

    `depth` is the number of objects and lists around the value. A text counts as the first object in it.
    """
    if isinstance(value, str) and value.lstrip().startswith("{"):  # the arguments of a call
        value = next(_objects(value), None)
    if isinstance(value, list) and depth < _DEEPEST:
        for item in value:
            yield from _scored_objects(item, output, depth + 1)

    if not isinstance(value, dict):
        return

    renamed = output.rename(value)
    if output.score in renamed:
        yield renamed
    elif depth < _DEEPEST:
        for member in renamed.values():
            for scored in _scored_objects(member, output, depth + 1):
                yield {**renamed, **scored}


_WORK = 20_000_000
"""Maximum number of characters scanned without result: a reply may contain many braces that open no object."""


def _objects(text: str) -> Iterator[_Candidate]:
    """Yield the complete objects in a text. Stop after too many broken objects, to bound the time.

    Raises:
        JudgementError: an object contains a key twice with different values.
    """
    # A broken object may cost a scan of the rest, so a longer text has fewer attempts.
    attempts = max(16, min(500, _WORK // max(1, len(text))))

    position = 0
    while attempts and (start := _OBJECT_START.search(text, position)):
        try:
            value, position = _decode(text, start.start())
        except (ValueError, RecursionError):
            # A Python literal has apostrophes, or a comma after the last item.
            scanner = PythonScanner(text, start.start())
            try:
                value, position = scanner.value(), scanner.position
            except (ValueError, RecursionError):
                attempts -= 1
                position = start.end()
                continue
        if isinstance(value, dict):
            yield value


def _unique_keys(pairs: list[tuple[str, JSON]]) -> dict[str, JSON]:
    """Return the object's entries; raise JudgementError if a key has two different values."""
    values: dict[str, JSON] = {}
    for name, value in pairs:
        if name in values and values[name] != value:
            raise JudgementError(f"the reply gives {name!r} two different values")
        values[name] = value
    return values


# Not strict: models write line feeds into their reasons.
_decode: Callable[[str, int], tuple[JSON, int]] = json.JSONDecoder(
    strict=False, parse_constant=lambda _: None, object_pairs_hook=_unique_keys
).raw_decode


def _from_tags(text: str, output: ResolvedOutput) -> list[_Candidate]:
    """Return the candidates in tags such as `<score>4</score>`, with the other values in their own tags."""
    aliases = {output.score: _SCORE_TAG_OF_AZURE, output.reason: _REASON_TAG_OF_AZURE}
    texts = {key: _tag_texts(text, key) or _tag_texts(text, aliases.get(key, key)) for key in output.names}
    # With several scores, each is a candidate. The other values are those of their last tags.
    last_texts: _Candidate = {key: values[-1] for key, values in texts.items() if values}
    return [{**last_texts, output.score: score} for score in texts[output.score]]


def _tag_texts(text: str, name: str) -> list[str]:
    """Return the texts inside elements of this name, such as `<score>4</score>`."""
    tag = re.escape(name)
    # an element that contains no other element of its name
    elements = re.finditer(rf"(?s)<{tag}>(?P<inside>(?:(?!</?{tag}>).)*+)</{tag}>", text)
    return [element["inside"].strip() for element in islice(elements, _MOST_CANDIDATES)]


def _from_lines(text: str, output: ResolvedOutput) -> list[_Candidate]:
    """Return the candidates in lines such as `Score: 4`, with the reason from another line."""
    reasons = list(_after_labels(text, (output.reason or "reason", *REASON_NAMES)))
    reason: _Candidate = {output.reason: reasons[-1]} if output.reason is not None and reasons else {}
    scores = islice(_after_labels(text, (output.score, *SCORE_NAMES)), _MOST_CANDIDATES)
    return [{**reason, output.score: score} for score in scores]


def _after_labels(text: str, names: Iterable[str]) -> Iterator[str]:
    """Yield the text after each label with one of these names at the start of a line, such as `**Score:** 4`."""
    any_name = "|".join(re.escape(name).replace("_", "[_ ]") for name in names)
    # Markdown's marks at the beginning of a line, and words before the label: `> **Score:** 4`, `My final rating is 4`
    begin = r"^[\s>#*_`\"'-]{0,12}(?:(?:the|my|final|overall) )*"

    line = rf"{begin}(?:{any_name})[*_`\"']{{0,4}}\s?(?:[:=]|is\b)(?P<rest>.{{1,2000}})$"

    return (label["rest"].strip(_AROUND) for label in re.finditer(line, text, re.IGNORECASE | re.MULTILINE))


def _from_bare(text: str, output: ResolvedOutput) -> list[_Candidate]:
    """Return the candidates in a reply that is only a score: the whole line, and its part after a label.

    The list is empty if the reply has several lines or over 100 characters. A candidate has at most three words, unless
    it begins with a digit.
    """
    fence = _FENCE.fullmatch(text)
    line = (fence["inside"] if fence else text).strip().strip(_AROUND).strip()
    bare = _BARE.fullmatch(line) if len(line) <= 100 and "\n" not in line else None
    if bare is None:
        return []

    scores = [score.strip(_AROUND) for score in dict.fromkeys((line, bare["score"]))]
    return [{output.score: score} for score in scores if score[:1].isdigit() or len(score.split()) <= _MOST_WORDS]


# -- the schema in a request

_DEEPEST_SCHEMA = 50
_MOST_LISTED = 100
"""Maximum size of an integer range that is sent as a list, which every service accepts and enforces."""

_REFUSED_KEYWORDS = frozenset(
    """minimum maximum exclusiveMinimum exclusiveMaximum multipleOf minLength maxLength pattern format minItems maxItems
    uniqueItems default examples""".split()
)
"""Schema keywords that some services refuse (Azure OpenAI: `minimum`); replies are still checked against them."""


def _strict(schema: JSON, depth: int) -> JSON:
    """Return a schema in the form that strict structured output requires: closed objects with all keys required.

    Keywords that some services refuse are left out; a small range of integers becomes a list: `{"type": "integer",
    "minimum": 1, "maximum": 3}` becomes `{"type": "integer", "enum": [1, 2, 3]}`. `depth` is the number of schemas
    around this one; very deep ones stay unchanged.
    """
    if depth > _DEEPEST_SCHEMA or not isinstance(schema, dict):
        return schema

    strict = {key: value for key, value in schema.items() if key not in _REFUSED_KEYWORDS}
    match schema:
        case {"type": "integer", "minimum": int(least), "maximum": int(most)} if 0 <= most - least < _MOST_LISTED:
            strict.setdefault("enum", list(range(least, most + 1)))

    properties = strict.get("properties")
    if isinstance(properties, dict):
        strict["properties"] = {name: _strict(value, depth + 1) for name, value in properties.items()}
        strict["required"] = list(properties)
        strict["additionalProperties"] = False

    if "items" in strict:
        strict["items"] = _strict(strict["items"], depth + 1)
    return strict
