"""The `simulated` endpoint: a seeded substitute for a fine-tuned model, to try things out without a model.

It answers a row with the row's ground truth or, at given rates, with a typical mistake of fine-tuned models. Every
answer is marked as simulated.

The steps of an answer:

1. The ground truth is the first of the columns `answer` and `ground_truth` (or the one column that the definition
   names) with a value; for a question of BFCL, the first accepted answer. If the value contains calls, the row is a
   call row, else an answer row.
2. The seed and the row's id seed a random generator. Its first number, from 0 to 1, picks at most one mistake: the
   rates of the row's group (CALL_MISTAKES or ANSWER_MISTAKES) are added up in the group's order until they exceed it.
3. The mistake changes the ground truth. If the row gives no occasion for it (no date in the arguments, no tools), the
   answer is the ground truth.

A mistake in an argument changes one scalar, picked at random from all calls of the ground truth.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from hashlib import blake2b
from importlib.resources import files
from random import Random
from types import MappingProxyType
from typing import Annotated, Any, TypeAlias, TypeGuard, cast

import msgspec

from tunecheck import _yaml as yamltext
from tunecheck._errors import ReplyError
from tunecheck._json import JSON, ValuePath, canonical, dumps, object_or_empty, text_or_json
from tunecheck._messages import did_you_mean
from tunecheck._targets import Row
from tunecheck.calls._model import FunctionCall, tool_name, write_calls
from tunecheck.calls.matching import first_value, may_be_left_out
from tunecheck.endpoints._base import ChatRequest, Completion, Definition, Endpoint, EndpointConfig, Place, Text, Usage
from tunecheck.endpoints._target import parameters_by_name
from tunecheck.formats._reading import read_calls

GROUND_TRUTH_COLUMNS = ("answer", "ground_truth")
"""Columns searched for the ground truth, in this order, unless the definition names a column."""

Tools: TypeAlias = Sequence[Mapping[str, JSON]]
"""OpenAI tools."""

_NO_CALL = "None of these functions does that."
# The answer to a request without a row, such as that of `tunecheck check`.
_NO_ROW = "This is a simulated model. It only answers rows of a data set, and this request has no row."


def default_definition() -> str:
    """Return the default definition as YAML text, used by runs without an endpoint and written by `init`."""
    return (files("tunecheck.endpoints") / "default_simulated.yaml").read_text(encoding="utf-8")


class SimulatedConfig(EndpointConfig, frozen=True, kw_only=True):
    """A definition of kind `simulated`; all keys but the kind are optional.

    `seed` is the seed of the mistakes. `rates` are the probabilities of mistakes by name (default_simulated.yaml
    explains them and has the defaults). The rates of call rows must not exceed 1 in total, nor those of answer rows.
    `ground_truth` is the column of the right answer. `latency_ms` is the average time of an answer; 0 answers at once.
    """

    seed: Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)] = 0
    rates: dict[str, Any] | None = None
    ground_truth: Text | None = None
    latency_ms: Annotated[float, msgspec.Meta(ge=0, le=600_000)] = 0.0


class SimulatedEndpoint(Endpoint):
    """Answers with the ground truth plus seeded mistakes.

    An answer depends on the seed, the row's id and the row's content, never on the order of requests. A request
    without a row gets a fixed sentence.
    """

    kind = "simulated"
    config_type = SimulatedConfig
    simulated = True
    depends_on_row = True

    def __init__(self, definition: Definition) -> None:
        """Check the definition; without rates, use those of default_simulated.yaml.

        Raises:
            ConfigurationError: the definition has an unknown key, a wrong value, an unknown mistake or wrong rates.
        """
        config = definition.read(SimulatedConfig)
        self.name = definition.name
        self._seed = config.seed
        rates = config.rates
        if rates is None:
            own_file = yamltext.parse_yaml(default_definition(), "default_simulated.yaml")
            rates = cast("dict[str, dict[str, float]]", own_file)["rates"]
        self._rates = _check_rates(rates, definition.at("rates"))
        self._columns = (config.ground_truth,) if config.ground_truth else GROUND_TRUTH_COLUMNS
        self._latency_ms = config.latency_ms

    async def complete(self, request: ChatRequest) -> Completion:
        """Return the row's ground truth or a mistake, drawn from the seed and the row's id.

        Tokens are estimated. The latency is drawn, too, but only waited for if the definition sets one.

        Raises:
            ReplyError: the row has no ground truth.
        """
        # Ids come from data, so they may contain half a surrogate pair, which plain UTF-8 cannot encode.
        row_id = (request.row.id if request.row else "").encode("utf-8", "surrogatepass")
        stem = blake2b(b"%d\0%s" % (self._seed, row_id), digest_size=8).hexdigest()
        rng = Random(stem)

        answer = self._answer(request, rng)

        # A token is about four characters of English text.
        input_tokens = len(canonical([list(request.messages), list(request.tools or ())])) // 4 + 1
        calls_length = sum(len(call.name) + len(dumps(call.arguments)) for call in answer.calls)
        output_tokens = (len(answer.text or "") + calls_length) // 4 + 1

        # By default 180 ms, and 12 ms for each token of the answer; times vary by half in both directions.
        latency_ms = round(rng.uniform(0.5, 1.5) * (self._latency_ms or 180 + 12 * output_tokens), 1)

        if self._latency_ms:
            await asyncio.sleep(latency_ms / 1000)

        return Completion(
            text=answer.text,
            tool_calls=_tool_calls(answer.calls, stem),
            usage=Usage(input_tokens, output_tokens),
            latency_ms=latency_ms,
            finish_reason="tool_calls" if answer.calls else "stop",
            request_id=f"simulated-{stem}",
            simulated=True,
        )

    def settings(self) -> dict[str, JSON]:
        """Return the seed, rates, ground truth columns and latency."""
        return {"name": self.name, **self.answer_settings(), "latency_ms": self._latency_ms}

    def answer_settings(self) -> dict[str, JSON]:
        """Return the settings that answers depend on: all but the latency."""
        return {
            "kind": self.kind,
            "simulated": True,
            "seed": self._seed,
            "rates": dict(self._rates),
            "ground_truth": list(self._columns),
        }

    def _answer(self, request: ChatRequest, rng: Random) -> SimulatedAnswer:
        """Return the ground truth, or the ground truth with one mistake, drawn by the rates.

        A request without a row gets a fixed text.

        Raises:
            ReplyError: the row has no ground truth.
        """
        if request.row is None:
            return SimulatedAnswer(text=_NO_ROW)

        truth = _ground_truth(request.row, self._columns, request.tools)
        mistakes = CALL_MISTAKES if truth.calls else ANSWER_MISTAKES

        # Each mistake has a part of the range from 0 to 1, as long as its rate. The rest is for no mistake.
        drawn, total = rng.random(), 0.0
        for name, mistake in mistakes.items():
            total += self._rates.get(name, 0)
            if drawn < total:
                return mistake(truth, Situation.of_request(request), rng) or truth
        return truth


def _check_rates(rates: dict[str, Any], place: Place) -> dict[str, float]:
    """Check the rates of mistakes at this place in the definition, and return them unchanged.

    Raises:
        ConfigurationError: a name is unknown, a rate is not from 0 to 1, or the rates of call rows or of answer rows
            exceed 1 in total.
    """
    known = {**CALL_MISTAKES, **ANSWER_MISTAKES}
    for name, rate in rates.items():
        if name not in known:
            raise place.error(f"the mistake {name!r} is unknown{did_you_mean(name, known)}")
        if isinstance(rate, bool) or not isinstance(rate, (int, float)) or not 0 <= rate <= 1:
            raise place.error(f"the rate of the mistake {name} must be a number from 0 to 1, not {rate!r:.60}")

    for group, answers in ((CALL_MISTAKES, "calls"), (ANSWER_MISTAKES, "text answers")):
        total = math.fsum(rates.get(name, 0) for name in group)

        # The tolerance is for rates such as 0.1, which binary numbers only approximate.
        if total > 1 + 1e-9:
            raise place.error(f"the rates of mistakes in {answers} add up to {total:g}: lower the sum to 1")
    return rates


def _ground_truth(row: Row, columns: tuple[str, ...], tools: Tools | None) -> SimulatedAnswer:
    """Return the text and calls in the first of these columns that has a value.

    Raises:
        ReplyError: none of the columns has a value.
    """
    functions = row.values.get("functions")
    # In a request without tools, the prompt may describe the functions.
    if not tools and isinstance(functions, list):
        tools = [{"function": function} for function in functions]
    values = {**row.values, "ground_truth": first_accepted_answer(row.values, tools or ())}

    for column in columns:
        value = values.get(column)
        if value is not None:
            reading = read_calls(value)
            text = reading.text if reading.calls else text_or_json(value)
            return SimulatedAnswer(text or None, reading.calls)

    names = " or ".join(repr(column) for column in columns)
    raise ReplyError(
        f"row {row.id}: the simulated endpoint finds no ground truth in the column {names}: name the column in the "
        "endpoint's definition (ground_truth: COLUMN)"
    )


def first_accepted_answer(values: Mapping[str, JSON], tools: Tools) -> JSON:
    """Return the ground truth of a row; for a question of BFCL, which lists accepted values, the first accepted answer.

    The column `check` marks these questions. If it is `irrelevance`, the answer has no call. If it is `relevance`, the
    answer calls the first function. Other calls have the first accepted value of each argument that a right call must
    have. `tools` define the functions.
    """
    check, truth = values.get("check"), values.get("ground_truth")
    # The form of the ground truth is tested, too, because other data may also have a column `check`.
    if check == "irrelevance" and not truth:
        return _NO_CALL

    schemas = parameters_by_name(tools)
    # Any call is right, so the first function is called without arguments.
    if check == "relevance" and not truth:
        return write_calls([FunctionCall(name) for name in [*schemas][:1]], "openai")

    reading = read_calls(truth)
    if check not in ("simple", "multiple", "parallel") or reading.format != "bfcl":
        return truth

    required = {name for schema in schemas.values() for name in (schema.get("required") or ())}
    texts_only = values.get("language") in ("java", "javascript")

    calls: list[FunctionCall] = []
    for call in reading.calls:
        arguments = _first_accepted(call.arguments, required)
        # BFCL's Java and JavaScript rows expect every value as source text.
        if texts_only:
            arguments = {key: text_or_json(value) for key, value in arguments.items()}
        # Tools have names without dots: `math.gcd` is offered as `math_gcd`.
        calls.append(FunctionCall(call.name if call.name in schemas else tool_name(call.name), arguments))

    return write_calls(calls, "openai")


def _first_accepted(options: Mapping[str, JSON], required: set[str]) -> dict[str, JSON]:
    """Return the first accepted value of each argument that a right call must have.

    `options` lists the accepted values of all arguments, and `required` the names of required parameters.
    """
    arguments: dict[str, JSON] = {}
    for name, values in options.items():
        non_empty = [value for value in values if value != ""] if isinstance(values, list) else values
        # BFCL allows some required parameters to be left out. They still get the first accepted value, if any.
        if not may_be_left_out(values) or (name in required and non_empty):
            arguments[name] = first_value(non_empty)
    return arguments


def _tool_calls(calls: tuple[FunctionCall, ...], stem: str) -> tuple[Mapping[str, JSON], ...]:
    """Return the calls as OpenAI tool calls, with ids made from `stem`."""
    numbered = [replace(call, id=f"call_{stem}_{index}") for index, call in enumerate(calls)]
    return tuple(cast("list[Mapping[str, JSON]]", write_calls(numbered, "openai")))


# -- the mistakes: each turns a right answer into a wrong one, or returns None


class SimulatedAnswer(msgspec.Struct, frozen=True):
    """A simulated answer: text, calls, or both."""

    text: str | None = None
    calls: tuple[FunctionCall, ...] = ()


class Situation(msgspec.Struct, frozen=True):
    """The input of a mistake: the last message sent to the model, and each function's parameter schema.

    `message` is the end of that message (at most 2,000 characters); wrong values take names and words from it.
    """

    message: str = ""
    functions: Mapping[str, Mapping[str, JSON]] = msgspec.field(default_factory=dict)

    @classmethod
    def of_request(cls, request: ChatRequest) -> Situation:
        """Return the situation of a chat request. Only messages and functions in the usual form count."""
        texts = [text for message in request.messages if isinstance(text := message.get("content"), str)]
        return cls(texts[-1][-2000:] if texts else "", parameters_by_name(request.tools or ()))


Mistake: TypeAlias = Callable[[SimulatedAnswer, Situation, Random], SimulatedAnswer | None]
"""Turns a right answer into a wrong one, or returns None if this mistake is impossible."""


def number_as_string(draft: SimulatedAnswer, _: Situation, rng: Random) -> SimulatedAnswer | None:
    """Turn a number among the arguments into text: 5 becomes "5"; None if no argument is a number."""
    return _change_one(draft, rng, lambda _, value: str(value) if _is_number(value) else None)


def number_conversion(draft: SimulatedAnswer, _: Situation, rng: Random) -> SimulatedAnswer | None:
    """Convert a number, such as 5 percent to 0.05 or 250000 to 250 (thousand); None if no argument allows it."""

    def converted(path: ValuePath, value: JSON) -> JSON:
        """Convert an argument's number; names in its path, such as `rate`, tell whether it is a rate."""
        return converted_number(value, is_rate=any(isinstance(step, str) and _RATE.search(step) for step in path))

    return _change_one(draft, rng, converted)


def date_format(draft: SimulatedAnswer, _: Situation, rng: Random) -> SimulatedAnswer | None:
    """Write a date or time in another format, such as 14:30 as 2:30 PM; None if no argument is a date or time."""
    return _change_one(draft, rng, lambda _, value: other_date_or_time(value, rng))


def wrong_argument(draft: SimulatedAnswer, situation: Situation, rng: Random) -> SimulatedAnswer | None:
    """Replace an argument by another value of its type, such as a close number; None if no argument has another."""
    # Null and punctuation have no other value of the same kind.
    places = [
        (index, path, value)
        for index, path, value in _scalar_arguments(draft)
        if value is not None and (not isinstance(value, str) or any(map(str.isalnum, value)))
    ]

    if not places:
        return None

    index, path, value = rng.choice(places)

    # Follow the path through the schema: names lead into `properties`, list indexes into `items`.
    schema = situation.functions.get(draft.calls[index].name, {})
    for step in path:
        inner = object_or_empty(schema.get("properties")).get(step) if isinstance(step, str) else schema.get("items")
        schema = object_or_empty(inner)

    other = _different_value(value, schema, situation.message, rng)
    return None if other is None else _with_value(draft, index, path, other)


def missing_argument(draft: SimulatedAnswer, situation: Situation, rng: Random) -> SimulatedAnswer | None:
    """Leave out an argument, a required one if there is one; None without arguments."""
    places = [(index, name) for index, call in enumerate(draft.calls) for name in call.arguments]
    if not places:
        return None

    required_names = [_names(situation.functions.get(call.name, {}).get("required")) for call in draft.calls]
    required = [(index, name) for index, name in places if name in required_names[index]]
    index, omitted = rng.choice(required or places)

    arguments = {name: value for name, value in draft.calls[index].arguments.items() if name != omitted}
    return _with_call(draft, index, replace(draft.calls[index], arguments=arguments))


def extra_argument(draft: SimulatedAnswer, situation: Situation, rng: Random) -> SimulatedAnswer | None:
    """Add a needless argument: an optional one of the schema, else one that the function does not have; never None."""
    index = rng.randrange(len(draft.calls))
    call = draft.calls[index]
    properties = object_or_empty(situation.functions.get(call.name, {}).get("properties"))

    free = [name for name, schema in properties.items() if name not in call.arguments and isinstance(schema, dict)]
    if free:
        name = rng.choice(free)
        schema = object_or_empty(properties[name])
        value = _random_value(schema, situation.message, rng)
        # Passing a default explicitly would not be a mistake. A missing default is `...`, and equals no value.
        if value == schema.get("default", ...):
            value = _different_value(value, schema, situation.message, rng)
    else:
        name, value = rng.choice([pair for pair in _UNASKED if pair[0] not in call.arguments] or [("note", "none")])

    return _with_call(draft, index, replace(call, arguments={**call.arguments, name: value}))


def wrong_function(draft: SimulatedAnswer, situation: Situation, rng: Random) -> SimulatedAnswer | None:
    """Call another offered function, or use a slightly wrong name if there is no other function; never None."""
    index = rng.randrange(len(draft.calls))
    call = draft.calls[index]
    others = [name for name in situation.functions if name != call.name]
    # `get_weather` becomes `fetch_weather`.
    invented = [synonym + call.name.removeprefix(verb) for verb, synonym in _VERBS if call.name.startswith(verb)]

    return _with_call(draft, index, replace(call, name=rng.choice(others or invented[:1] or [f"get_{call.name}"])))


def answered_instead_of_called(draft: SimulatedAnswer, _: Situation, rng: Random) -> SimulatedAnswer | None:
    """Answer with text instead of a call; never None."""
    # The function's name in words: `get_weather` becomes "get weather".
    subject = re.sub(r"[_.\W]+", " ", draft.calls[0].name).strip() or "do that"
    return SimulatedAnswer(text=rng.choice(_REFUSALS).format(subject=subject))


def called_instead_of_answered(draft: SimulatedAnswer, situation: Situation, rng: Random) -> SimulatedAnswer | None:
    """Call one of the offered functions instead of answering with text; None if no function is offered.

    The call does not depend on `draft`, the answer that it replaces.
    """
    if not situation.functions:
        return None

    name = rng.choice(list(situation.functions))
    arguments = _random_value({**situation.functions[name], "type": "object"}, situation.message, rng)
    return SimulatedAnswer(calls=(FunctionCall(name, object_or_empty(arguments)),))


def reword_answer(draft: SimulatedAnswer, _: Situation, rng: Random) -> SimulatedAnswer | None:
    """Paraphrase a text answer; None if it is empty."""
    text = paraphrase(draft.text or "", rng)
    return None if text is None else msgspec.structs.replace(draft, text=text)


CALL_MISTAKES: Mapping[str, Mistake] = MappingProxyType({
    "number_as_string": number_as_string, "number_conversion": number_conversion, "date_format": date_format,
    "wrong_argument": wrong_argument, "missing_argument": missing_argument, "extra_argument": extra_argument,
    "wrong_function": wrong_function, "answered_instead_of_called": answered_instead_of_called,
})  # fmt: skip
"""Mistakes for rows with calls in the ground truth, by the name of their rate."""

ANSWER_MISTAKES: Mapping[str, Mistake] = MappingProxyType(
    {"called_instead_of_answered": called_instead_of_answered, "paraphrase": reword_answer}
)
"""Mistakes for rows with a text as ground truth, by the name of their rate."""

# Texts in place of a call: a refusal, a question, a missing ability, and a false claim.
_REFUSALS = (
    "I'm sorry, but I can't {subject} at the moment. Is there anything else I can help you with?",
    "Of course! Before I {subject}, could you give me a few more details?",
    "I'm afraid I don't have the ability to {subject}. You could try a website or an app for that.",
    "Sure, I have taken care of that for you.",
)
# Invented arguments, for functions without a free parameter.
_UNASKED: tuple[tuple[str, JSON], ...] = (("language", "en"), ("limit", 10), ("verbose", False), ("format", "json"))
# Verbs that begin function names, each with a synonym.
_VERBS = (("get", "fetch"), ("search", "find"), ("calculate", "compute"), ("create", "make"), ("generate", "create"))
# A word of at least four letters: "hotel" in "a hotel in Paris".
_WORD = re.compile(r"[^\W\d_]{4,}")
# A capital within a sentence, not at its beginning: "Paris" in "Find a hotel in Paris".
_NAME = re.compile(r"(?<=[\w,;] )[A-ZÀ-Þ][^\W\d_]{2,}")
# Parameters that are rates, so that 5 means 5 percent: `interest_rate`, `tipPercentage`.
_RATE = re.compile(r"rate|percent|ratio|interest|tip|tax|discount", re.IGNORECASE)


def _change_one(
    draft: SimulatedAnswer, rng: Random, change: Callable[[ValuePath, JSON], JSON]
) -> SimulatedAnswer | None:
    """Change one random scalar argument. `change` returns its new value, or None if this argument cannot be changed.

    Return None if no argument can be changed.
    """
    tries = [(index, path, change(path, value)) for index, path, value in _scalar_arguments(draft)]
    changes = [(index, path, changed) for index, path, changed in tries if changed is not None]
    return _with_value(draft, *rng.choice(changes)) if changes else None


def _scalar_arguments(draft: SimulatedAnswer) -> Iterator[tuple[int, ValuePath, JSON]]:
    """Yield every scalar argument as the call's index, the path in its arguments, and the value.

    `plan_trip(to={"city": "Oslo"})` gives (0, ("to", "city"), "Oslo").
    """
    for index, call in enumerate(draft.calls):
        for path, value in _scalars(call.arguments):
            yield index, path, value


def _scalars(value: JSON, path: ValuePath = ()) -> Iterator[tuple[ValuePath, JSON]]:
    """Yield the path and value of every scalar in nested arguments."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _scalars(item, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _scalars(item, (*path, index))
    else:
        yield path, value


def _with_value(draft: SimulatedAnswer, index: int, path: ValuePath, value: JSON) -> SimulatedAnswer:
    """Return the answer with another value at this path in the arguments of the call at `index`."""
    # A copy, because the ground truth belongs to the row.
    arguments = copy.deepcopy(draft.calls[index].arguments)
    container: Any = arguments
    for step in path[:-1]:
        container = container[step]
    container[path[-1]] = value

    return _with_call(draft, index, replace(draft.calls[index], arguments=arguments))


def _with_call(draft: SimulatedAnswer, index: int, call: FunctionCall) -> SimulatedAnswer:
    """Return the answer with another call at this index."""
    return msgspec.structs.replace(draft, calls=(*draft.calls[:index], call, *draft.calls[index + 1 :]))


def _different_value(value: JSON, schema: Mapping[str, JSON], message: str, rng: Random) -> JSON:
    """Return another value of the same type: from the schema's enum, else one close to `value`.

    A text may become a name in `message`. Return None for null, lists and objects without an enum.
    """
    choices = schema.get("enum")
    others = [choice for choice in choices if choice != value] if isinstance(choices, list) else []

    if others:
        return rng.choice(others)

    if isinstance(value, bool):
        return not value
    if isinstance(value, (int, float)):
        # Floats above 2**53 do not change if 1 is added.
        return value + rng.choice((1, 2)) if abs(value) < 2**53 else 0
    return _different_text(value, message, rng) if isinstance(value, str) else None


def _different_text(text: str, message: str, rng: Random) -> str:
    """Return another text, by the first rule that applies.

    1. A date or time: the next or previous day or hour.
    2. More than two words: all but the first or the last.
    3. A name in the message: that name.
    4. Else the text with one letter doubled.
    """
    if (shifted := shifted_date_or_time(text, rng)) is not None:
        return shifted

    words = text.split()
    if len(words) > 2:
        return " ".join(words[:-1] if rng.random() < 0.5 else words[1:])

    known = {word.casefold() for word in words}
    others: list[str] = [word for word in _NAME.findall(message) if word.casefold() not in known]
    if others:
        return rng.choice(others)

    # Double one letter, so that the texts differ in more than case or spacing.
    doubled = rng.choice([index for index, letter in enumerate(text) if letter.isalnum()] or [0])
    return text[: doubled + 1] + text[doubled:]


def _random_value(schema: Mapping[str, JSON], message: str, rng: Random) -> JSON:
    """Return a random value that fits the type, enum and required properties of a schema.

    A text is a name or word from `message`.
    """
    choices = schema.get("enum")
    if isinstance(choices, list) and choices:
        return rng.choice(choices)

    match schema.get("type"):
        case "integer" | "number":
            return rng.randint(1, 10)
        case "boolean":
            return rng.random() < 0.5
        case "array":
            return [_random_value(object_or_empty(schema.get("items")), message, rng)]
        case "object":
            properties = object_or_empty(schema.get("properties"))
            names = [name for name in _names(schema.get("required")) if name in properties]
            return {name: _random_value(object_or_empty(properties[name]), message, rng) for name in names}

    # Strings and unknown types get a name or a word from the message.
    return str(rng.choice(_NAME.findall(message) or _WORD.findall(message) or ["example"]))


def _names(value: JSON) -> list[str]:
    """Return the texts in a list; empty for other values."""
    return [name for name in value if isinstance(name, str)] if isinstance(value, list) else []


_LARGEST_NUMBER = 10**15
"""Larger numbers stay as they are. Up to this limit, Python writes floats without an exponent."""


def _is_number(value: JSON) -> TypeGuard[int | float]:
    """Return whether a value is a number of at most 10**15."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) <= _LARGEST_NUMBER


def converted_number(value: JSON, *, is_rate: bool = False) -> int | float | None:
    """Convert a number from a fraction to percent, from percent to a fraction, or from units to thousands.

    The first rule that fits the absolute value applies:

        below 1                             times 100         0.05 becomes 5
        from 1000                           divided by 1000   250000 becomes 250
        from 10 (floats and rates: from 1)  divided by 100    30 becomes 0.3

    Return None for other values, for 0, for numbers beyond 10**15, and for integers below ten (probably counts) unless
    they are rates.
    """
    if not _is_number(value) or not value:
        return None

    # Decimal, because 0.07 * 100 is 7.000000000000001 in binary.
    exact = Decimal(repr(value))

    if abs(exact) < 1:
        changed = exact * 100
    elif abs(exact) >= 1000:
        changed = exact / 1000
    elif abs(exact) >= 10 or isinstance(value, float) or is_rate:
        changed = exact / 100
    else:
        return None

    return int(changed) if changed == changed.to_integral_value() else float(changed)


def other_date_or_time(text: JSON, rng: Random) -> str | None:
    """Return a date, a time or both in another format (14:30 as 2:30 PM); None for other values."""
    if not isinstance(text, str):
        return None

    date_and_time = _DATE_AND_TIME.fullmatch(text)
    if date_and_time:
        day, clock = other_date_or_time(date_and_time["date"], rng), other_date_or_time(date_and_time["time"], rng)
        return f"{day} {clock}" if day and clock else None

    recognised = _recognise_time(text)
    if recognised is None:
        return None

    moment, own_format, family = recognised
    others = [_format_time(moment, form) for form in dict.fromkeys(family.values()) if form != own_format]
    return rng.choice([other for other in others if other != text] or [None])


def shifted_date_or_time(text: str, rng: Random) -> str | None:
    """Return the next or previous day of a date, or hour of a time, in the same format; None for other texts."""
    date_and_time = _DATE_AND_TIME.fullmatch(text)
    first_part = date_and_time["date"] if date_and_time else text
    recognised = _recognise_time(first_part)
    if recognised is None:
        return None

    moment, form, family = recognised
    step = timedelta(days=1) if family is _DATES else timedelta(hours=1)
    return _format_time(moment + step * rng.choice((-1, 1)), form) + text[len(first_part) :]


def _recognise_time(text: str) -> tuple[datetime, str, Mapping[str, str]] | None:
    """Return the date or time in a text, its format, and all formats of dates or of times; None for other texts.

    "14:30" gives 14:30 on 1900-01-01, "%H:%M" and `_TIMES`: a time without a date gets strptime's default day.
    """
    if not text.isascii() or len(text) < _SHORTEST_TIME:
        return None

    for family in (_DATES, _TIMES):
        for read, written in family.items():
            # ValueError: the format does not fit, or there is no such day or hour.
            with contextlib.suppress(ValueError):
                moment = datetime.strptime(text, read)  # noqa: DTZ007 - a day or a clock time without zone

                # Years of four digits, and room to shift the date within the years that datetime knows.
                if 1000 <= moment.year <= 9990:
                    return moment, written, family
    return None


def _format_time(moment: datetime, form: str) -> str:
    """Return a moment in this format, in which `{day}` and `{hour}` (of 12) have no leading zero."""
    return moment.strftime(form.replace("{day}", str(moment.day)).replace("{hour}", str((moment.hour - 1) % 12 + 1)))


_SHORTEST_TIME = 4
"""Characters of the shortest time, such as 9:05; shorter texts are no times, although strptime reads 1:2."""
_DATES: Mapping[str, str] = {
    "%Y-%m-%d": "%Y-%m-%d",
    "%m/%d/%Y": "%m/%d/%Y",
    "%d.%m.%Y": "%d.%m.%Y",
    "%B %d, %Y": "%B {day}, %Y",
    "%d %B %Y": "{day} %B %Y",
}
"""Formats for writing dates, by the format for reading. `{day}` and `{hour}` have no leading zero."""
# The same for times; seconds are read, but not written.
_TIMES: Mapping[str, str] = {
    "%H:%M": "%H:%M",
    "%H:%M:%S": "%H:%M",
    "%I:%M %p": "{hour}:%M %p",
    "%I:%M%p": "{hour}:%M %p",
}
# 2026-03-05T14:30, 2026-03-05 14:30:00 or 2026-03-05T14:30:00Z.
_DATE_AND_TIME = re.compile(r"(?P<date>\d{4}-\d\d-\d\d)[T ](?P<time>\d\d:\d\d(?::\d\d)?)Z?", re.ASCII)

# Sentences that a paraphrase puts before and after the answer.
_OPENERS = ("Sure! ", "Of course. ", "Certainly. ", "All right: ", "Here you go. ")
# Matches "Of course! " and "Sure, " at the beginning of an answer.
_KNOWN_OPENER = re.compile(r"(?:sure|of course|certainly|all right|okay|great|absolutely)[!.,:]+\s+", re.IGNORECASE)
_CLOSERS = (
    " Let me know if you need anything else.",
    " Is there anything else you would like to know?",
    " I hope that helps.",
    " Just ask if something is unclear.",
)


def paraphrase(text: str, rng: Random) -> str | None:
    """Return the text with another opening or closing line; None if it is empty.

    An opener that the text already has is removed: "Sure! It rains." may become "Certainly. It rains."
    """
    if not text.strip():
        return None

    opener = _KNOWN_OPENER.match(text)
    body = text[opener.end() :] if opener else ""
    body = body[:1].upper() + body[1:] if body else text  # an opener alone is kept, as the whole answer

    paraphrases = [begin + body + end for begin in ("", *_OPENERS) for end in ("", *_CLOSERS)]
    return rng.choice([changed for changed in paraphrases if changed != text])
