"""Dialects: how a model gets its functions (as OpenAI tools or in the prompt) and calls them (as data or in text).

A dialect converts a completion to a step of the result, a step to calls, and the calls' results to the model's next
messages. For the call `cd(folder='docs')`:

          functions                step of the result                   results
  tools   `tools` of the request   [{"cd": "{\"folder\": \"docs\"}"}]   a message with the role `tool` for each
  text    in the system prompt     "[cd(folder='docs')]"                one message of the user

Benchmarks have their own prompts, call formats and judgement; plug-ins register them as a `BenchmarkDialect`. A run
follows the benchmark of `compat`, if it names one. Otherwise, a row in text mode follows the benchmark that `owns` it.
The texts for models are read from the user's copy of the benchmark; none are part of this package.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, TypeAlias

from tunecheck._errors import DataError, PluginError
from tunecheck._json import JSON, dumps, text_or_json
from tunecheck.calls._model import FunctionCall, Reading
from tunecheck.endpoints._base import Completion
from tunecheck.endpoints._target import with_calls, with_system
from tunecheck.episodes._decoding import decode_step, source_text
from tunecheck.episodes._scenario import Message, Offer
from tunecheck.formats._profiles import Profile, ToolPrompt
from tunecheck.formats._reading import thought_of
from tunecheck.plugins import discover, find

if TYPE_CHECKING:
    from tunecheck.episodes._state_check import StateCheck


class Wording:
    """The texts for models, here Tunecheck's own. Benchmarks and model families have subclasses with other texts."""

    def system(self, functions: Sequence[JSON]) -> str:
        """Return the system prompt, which lists the functions and explains how to call them."""
        listed = "\n".join(dumps(function).decode() for function in functions)
        return (
            "You act for the user by calling functions. To call, answer with nothing but a list of calls in Python's "
            "syntax, every argument named:\n"
            "[first_function(text='a', number=1), second_function(flag=True)]\n"
            "You are then told what the calls came to, and may call again. When the user's request is done, or cannot "
            "be done with these functions or without something that the user has not said, answer in plain words "
            f"instead.\n\nThe functions, each with its parameters as JSON Schema:\n{listed}"
        )

    def added(self, functions: Sequence[JSON] | None) -> str:
        """Return the user message that announces more functions.

        `functions` are their documents if the functions are in the prompt, None if the model gets them as tools.
        """
        sentence = "From now on there are more functions that you can call. Please go on with them."
        if functions is None:
            return sentence
        listed = "\n".join(dumps(function).decode() for function in functions)
        return f"{sentence}\n{listed}"

    def results(self, calls: Sequence[str], results: Sequence[str]) -> str:
        """Return the message with the results of calls, for a model with functions in the prompt."""
        return dumps([{"call": call, "result": result} for call, result in zip(calls, results, strict=True)]).decode()


class FamilyWording(Wording):
    """The prompt texts that a model family was trained with."""

    def __init__(self, prompt: ToolPrompt) -> None:
        self._prompt = prompt

    def system(self, functions: Sequence[JSON]) -> str:
        """Return the family's system prompt, which lists the functions and shows the form of a call."""
        return self._prompt.system(functions)

    def results(self, calls: Sequence[str], results: Sequence[str]) -> str:
        """Return the results in the family's format; `calls` are not repeated."""
        return self._prompt.results(results)


def answer_step(text: str | None, tool_calls: Sequence[Mapping[str, JSON]], *, keep_nothing: bool = False) -> JSON:
    """Return a model's answer as a step of the result: its calls as `{name: "<arguments as JSON>"}`, or else its text.

    Arguments given as text stay as received. If a call has no function or no name, the whole answer becomes a text
    without calls. Some servers send empty arguments as nothing; these become `{}`, unless `keep_nothing` is set.
    """
    if not tool_calls:
        return text or ""

    entries: list[JSON] = []
    for call in tool_calls:
        function = call.get("function")
        name = function.get("name") if isinstance(function, dict) else None
        # Whatever the server sent stays visible in the result.
        if not isinstance(function, dict) or not isinstance(name, str):
            return f"tool_calls: {dumps([dict(tool_call) for tool_call in tool_calls]).decode()}"

        arguments = function.get("arguments")
        if not arguments and not keep_nothing:
            arguments = {}
        entries.append({name: text_or_json(arguments)})

    return entries


def answer_text(
    completion: Completion,
    *,
    form: Profile | str | None = None,
    tools: object = None,
    write: Callable[[FunctionCall], str] = source_text,
) -> str:
    """Return an answer as text; structured calls, and calls in the text in this `form`, become call text (`[f(a=1)]`).

    `tools` are the definitions for reading calls in the text; `write` writes a call. Other text is unchanged. Without a
    `form`, an answer with text stays that text, without its structured calls.
    """
    # Calls of a family's format leave the text and become structured calls; the other text is dropped.
    if form is not None:
        called = with_calls(completion, form, tools)
        completion = replace(called, text=None) if called.tool_calls else completion

    if completion.text or not completion.tool_calls:
        return completion.text or ""

    # Through the step and back: calls are written as the result file would hold them.
    step = answer_step(None, completion.tool_calls)
    decoded = decode_step(step)
    if isinstance(step, str) or decoded.problem is not None:
        return text_or_json(step)
    return f"[{', '.join(write(call) for call in decoded.calls)}]"


class ToolsDialect:
    """A function-calling endpoint: tools in the request, `tool_calls` in the answer, a tool message for each result.

    `tools` are the tools of the next request. The log separates a call's arguments with `separator`.
    """

    separator = ","

    refuses_unreadable: ClassVar[bool] = True
    """Send unreadable calls back as text, which every server accepts."""

    def __init__(self, offer: Offer, wording: Wording) -> None:
        self.tools: Sequence[Mapping[str, JSON]] | None = list(offer.tools)
        self._wording = wording

    def open(self, messages: Sequence[Message]) -> list[Message]:
        """Return the messages that begin the conversation, made from the first turn's messages."""
        return list(messages)

    def add(self, offer: Offer, messages: Sequence[Message]) -> list[Message]:
        """Offer more functions from this turn on. Return the turn's messages, or one that announces the functions."""
        self.tools = [*(self.tools or ()), *offer.tools]
        # The request has the tools; a model needs a user message to answer.
        return list(messages) or [{"role": "user", "content": self._wording.added(None)}]

    def step(self, completion: Completion) -> JSON:
        """Convert the model's answer to a step of the result: a list of calls, or text."""
        return answer_step(completion.text, completion.tool_calls)

    def decode(self, step: JSON) -> Reading:
        """Read the calls of a step; an unreadable call is the reading's problem."""
        return decode_step(step)

    def said(self, completion: Completion, step: JSON, decoded: Reading, stem: str) -> Message:
        """Return the answer as an assistant message for later requests, with its text and calls as received.

        `step` is the answer as a step of the result, and `decoded` the calls in it. Calls without an id get ids that
        begin with `call_` and `stem`. Unreadable calls go back as text, unless `refuses_unreadable` is False.
        """
        # A step is a text if a call had no name: then the text shows what the server sent.
        if not completion.tool_calls or isinstance(step, str):
            return {"role": "assistant", "content": completion.text or ("" if isinstance(step, list) else step)}

        if decoded.problem is not None and self.refuses_unreadable:
            text = dumps(step).decode()
            return {"role": "assistant", "content": f"{completion.text}\n{text}" if completion.text else text}

        calls: list[JSON] = [
            _sent_back(call, f"call_{stem}_{index}") for index, call in enumerate(completion.tool_calls)
        ]
        return {"role": "assistant", "content": completion.text, "tool_calls": calls}

    def within_turn(self, message: Message, completion: Completion) -> Message:
        """Return the assistant message with the model's reasoning, for the next requests of the same turn.

        APIs require the reasoning within a turn of calls, some exactly as received.
        """
        opening = "" if completion.raw_text is None else thought_of(completion.raw_text)

        # A server that keeps the reasoning in the text gets it back where it was.
        fields: dict[str, JSON] = {"content": f"{opening}{completion.text or ''}"} if opening else {}
        fields |= completion.reasoning_fields

        if message.get("content") != completion.text:
            fields.pop("content", None)  # the content holds calls that could not be read
        return {**message, **fields}

    def results(self, message: Message, decoded: Reading, results: Sequence[str]) -> list[Message]:
        """Return one tool message for each result, with the id of its call in `message`; `decoded` is not needed."""
        # A message without calls was sent back as text; it gets no tool messages, because these need the id of a call.
        calls = message.get("tool_calls")
        ids = [call.get("id") for call in calls if isinstance(call, dict)] if isinstance(calls, list) else []
        return [
            {"role": "tool", "content": result, "tool_call_id": id_} for id_, result in zip(ids, results, strict=False)
        ]


class TextDialect:
    """A model with functions in its prompt and calls in its text, in the format of the profile."""

    separator = ", "
    tools = None

    def __init__(self, offer: Offer, wording: Wording, profile: Profile | None = None) -> None:
        self._offer, self._wording = offer, wording
        self._functions = list(offer.functions)
        self._profile = profile

    def open(self, messages: Sequence[Message]) -> list[Message]:
        """Return the messages with the system prompt in front, which includes the first system message."""
        return with_system(messages, self._wording.system(self._offer.functions))

    def add(self, offer: Offer, messages: Sequence[Message]) -> list[Message]:
        """Offer more functions from this turn on. Return a message that describes them, and the turn's messages."""
        # The system prompt has been sent, so the message has the documents of the added functions.
        self._functions += offer.functions
        return [{"role": "user", "content": self._wording.added(offer.functions)}, *messages]

    def step(self, completion: Completion) -> JSON:
        """Convert the model's answer to a step of the result, a text; calls that were read become call text."""
        return answer_text(completion, form=self._profile, tools=self._functions)

    def decode(self, step: JSON) -> Reading:
        """Read the calls in a step's text; an unreadable call is the reading's problem."""
        return decode_step(step, text_mode=True, tools=self._functions)

    def said(self, completion: Completion, step: JSON, decoded: Reading, stem: str) -> Message:
        """Return the answer as an assistant message for later requests, as text; `stem` is not needed."""
        # If the server took the calls out of the text, the model gets both back.
        if completion.text and completion.tool_calls and decoded.calls and step != completion.text:
            return {"role": "assistant", "content": f"{completion.text}\n{step}"}
        return {"role": "assistant", "content": completion.text or step}

    def within_turn(self, message: Message, completion: Completion) -> Message:
        """Return the message itself: a text answer goes back without its reasoning."""
        return message

    def results(self, message: Message, decoded: Reading, results: Sequence[str]) -> list[Message]:
        """Return one message of the user with the calls in `decoded` and their results; `message` is not needed."""
        texts = [source_text(call) for call in decoded.calls]
        return [{"role": "user", "content": self._wording.results(texts, results)}]


Dialect: TypeAlias = ToolsDialect | TextDialect
"""The dialect of one conversation."""

_SIGNATURES = ("extra_content", "thought_signature", "thoughtSignature")
"""Gemini's signatures of its thoughts next to a call; it refuses the call without them."""


def _sent_back(call: Mapping[str, JSON], id_: str) -> JSON:
    """Return a call as the model may get it back: the fields of OpenAI's schema and Gemini's signatures.

    A call without an id gets `id_`, and empty arguments become `{}`.
    """
    function = call.get("function")
    assert isinstance(function, dict)
    arguments = function.get("arguments")
    # The API wants a text; some servers answer with an object.
    text = arguments if isinstance(arguments, str) and arguments else dumps(arguments or {}).decode()

    own_id = call.get("id")
    return {
        "id": own_id if isinstance(own_id, str) and own_id else id_,
        "type": "function",
        "function": {"name": function.get("name"), "arguments": text},
        **{name: call[name] for name in _SIGNATURES if call.get(name)},
    }


# -- benchmarks

_KIND = "dialects"


class BenchmarkDialect(ABC):
    """A benchmark's way of running conversations; a plug-in registers a subclass under a value of `compat`.

    Args:
        data: the user's copy of the benchmark, if not in the usual place.
    """

    tools_dialect: ClassVar[type[ToolsDialect]] = ToolsDialect
    """Prompts a model and reads its calls as the benchmark does, with OpenAI tools."""

    state_check: ClassVar[type[StateCheck]]
    """Judges conversations by the benchmark's own rules."""

    text_dialect: ClassVar[Callable[..., TextDialect]]
    """A subclass of TextDialect that describes functions and reads calls in text, as the benchmark does.

    It is called with a row, an offer, the prompt texts and the model family's call format, if known: calls in this
    format are converted to the benchmark's format. With `exact`, the dialect reads only these two formats. Otherwise it
    may detect other formats, too.
    """

    def __init_subclass__(cls) -> None:
        missing = [name for name in ("state_check", "text_dialect") if not hasattr(cls, name)]
        if missing:
            raise PluginError(f"the benchmark class {cls.__name__} lacks the class attribute {missing[0]!r}: set it")

    def __init__(self, data: Path | None = None) -> None:
        self.data = data

    @classmethod
    @abstractmethod
    def owns(cls, category: object, check: object) -> bool:
        """Return True for the benchmark's own rows, by their columns `category` and `check`."""

    @property
    @abstractmethod
    def wording(self) -> Wording:
        """The texts that the benchmark sends to models, read from the user's copy.

        Raises:
            DataError: there is no copy; the message says how to get one.
        """

    @abstractmethod
    def long_context(self) -> Mapping[str, JSON]:
        """Return the texts and lists that extend the simulators' data in rows with long context.

        Raises:
            DataError: there is no copy; the message says how to get one.
        """


def find_benchmark(name: str) -> type[BenchmarkDialect]:
    """Return the class of benchmark that a plug-in registered under this value of `compat`.

    Raises:
        PluginError: no benchmark is registered under this name, or its class is not a `BenchmarkDialect`.
    """
    found = find(_KIND, name)
    if not (isinstance(found, type) and issubclass(found, BenchmarkDialect)):
        raise PluginError(f"the benchmark plug-in {name!r} must be a subclass of tunecheck.episodes.BenchmarkDialect")
    return found


def benchmark_of(values: Mapping[str, object]) -> str | None:
    """Return the name of the installed benchmark that claims a row with these columns; None if no benchmark does."""
    category, check = values.get("category"), values.get("check")
    if not isinstance(category, str) or check is None:
        return None
    return next((name for name, each in _benchmarks() if each.owns(category, check)), None)


def registered_constants(data: Path | None = None) -> Mapping[str, JSON]:
    """Return the long-context constants of the first installed benchmark, read from its copy in `data`.

    None means the usual place.

    Raises:
        DataError: no such benchmark is installed, or there is no copy of its data.
    """
    for _, benchmark in _benchmarks():
        return benchmark(data).long_context()
    raise DataError("rows with `long_context` need a benchmark's texts: install a benchmark, such as tunecheck[bfcl]")


@cache
def _benchmarks() -> tuple[tuple[str, type[BenchmarkDialect]], ...]:
    """Return the installed benchmarks, each with its name."""
    return tuple((plugin.name, find_benchmark(plugin.name)) for plugin in discover(_KIND))
