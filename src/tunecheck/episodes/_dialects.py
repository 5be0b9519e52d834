"""Dialects: a model gets functions as OpenAI tools or in its prompt, and calls them as data or in its text.

A dialect turns a completion into the step that stands in the result, the step into calls, and the calls' results into
the messages that the model sees next.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

from tunecheck._json import JSON, content_hash, dumps
from tunecheck.calls._model import FunctionCall, Reading
from tunecheck.endpoints._base import Completion
from tunecheck.endpoints._target import with_calls, with_system
from tunecheck.episodes._decoding import decode_step, source_text
from tunecheck.episodes._scenario import Offer
from tunecheck.episodes._speakers import Message
from tunecheck.formats._profiles import Profile, ToolPrompt
from tunecheck.formats._reading import thought_of


class Wording(ABC):
    @abstractmethod
    def system(self, functions: Sequence[JSON]) -> str:
        """Return the system prompt: which functions there are and how to call them."""

    @abstractmethod
    def added(self, functions: Sequence[JSON] | None) -> str:
        """Return the user's message that announces more functions.

        `functions` are their documents for a prompting model, None for one that gets them as tools.
        """

    @abstractmethod
    def results(self, calls: Sequence[str], results: Sequence[str]) -> str:
        """Return the message with the results of a prompting model's calls."""

    def fingerprint(self) -> str:
        """Return a hash of the texts that answers depend on."""
        texts = [self.system([]), self.added([]), self.added(None), self.results(["f()"], ["1"])]
        return content_hash([type(self).__qualname__, *texts])


class OwnWording(Wording):
    def system(self, functions: Sequence[JSON]) -> str:
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
        sentence = "From now on there are more functions that you can call. Please go on with them."
        if functions is None:
            return sentence
        listed = "\n".join(dumps(function).decode() for function in functions)
        return f"{sentence}\n{listed}"

    def results(self, calls: Sequence[str], results: Sequence[str]) -> str:
        return dumps([{"call": call, "result": result} for call, result in zip(calls, results, strict=True)]).decode()


class FamilyWording(OwnWording):
    """The wording that a model family was trained with."""

    def __init__(self, prompt: ToolPrompt) -> None:
        self._prompt = prompt

    def system(self, functions: Sequence[JSON]) -> str:
        return self._prompt.system(functions)

    def results(self, calls: Sequence[str], results: Sequence[str]) -> str:
        return self._prompt.results(results)


def answer_step(text: str | None, tool_calls: Sequence[Mapping[str, JSON]], *, keep_nothing: bool = False) -> JSON:
    """Return the calls of an answer with calls, else its text.

    Arguments stay the text that they came as. If one of the calls has no function or no name, the whole answer is
    text, in which no calls are looked for. Some servers write no arguments as nothing at all: that becomes `{}`,
    unless `keep_nothing` says otherwise.
    """
    if not tool_calls:
        return text or ""
    entries: list[JSON] = []
    for call in tool_calls:
        function = call.get("function")
        name = function.get("name") if isinstance(function, dict) else None
        if not isinstance(function, dict) or not isinstance(name, str):
            return f"tool_calls: {dumps([dict(each) for each in tool_calls]).decode()}"
        arguments = function.get("arguments")
        if not arguments and not keep_nothing:
            arguments = {}
        entries.append({name: arguments if isinstance(arguments, str) else dumps(arguments).decode()})
    return entries


def answer_text(
    completion: Completion,
    *,
    form: Profile | str | None = None,
    tools: object = None,
    write: Callable[[FunctionCall], str] = source_text,
) -> str:
    """Return the text of an answer; calls that a server took out of it are written as call text again.

    Calls that stand in the text in this form are written as call text too, read by the definitions of `tools`.
    """
    if form is not None and (called := with_calls(completion, form, tools)).tool_calls:
        completion = replace(called, text=None)
    if completion.text or not completion.tool_calls:
        return completion.text or ""
    step = answer_step(None, completion.tool_calls)
    decoded = decode_step(step)
    if isinstance(step, str) or decoded.problem is not None:
        return step if isinstance(step, str) else dumps(step).decode()
    return f"[{', '.join(write(call) for call in decoded.calls)}]"


class Dialect(ABC):
    """One conversation's way of calling. `tools` is what a request offers now, None where it offers none."""

    separator: str = ", "
    """Between the arguments of a call's text in the log."""

    def __init__(self, offer: Offer, wording: Wording) -> None:
        self.tools: Sequence[Mapping[str, JSON]] | None = None
        self._offer = offer
        self._wording = wording

    @abstractmethod
    def open(self, messages: Sequence[Message]) -> list[Message]:
        """Return the first turn's messages for the model."""

    @abstractmethod
    def add(self, offer: Offer, messages: Sequence[Message]) -> list[Message]:
        """Return the messages, for the model, of a turn that adds functions."""

    @abstractmethod
    def step(self, completion: Completion) -> JSON:
        """Return the answer's step in the result."""

    @abstractmethod
    def decode(self, step: JSON) -> Reading:
        """Return the calls of a step."""

    @abstractmethod
    def said(self, completion: Completion, step: JSON, decoded: Reading, stem: str) -> Message:
        """Return the answer as an assistant message.

        `stem` makes ids for calls that came without.
        """

    def within_turn(self, message: Message, completion: Completion) -> Message:
        """Return the message that the model gets back within the same turn."""
        return message

    @abstractmethod
    def results(self, message: Message, decoded: Reading, results: Sequence[str]) -> list[Message]:
        """Return the messages with the results of a message's calls."""


class ToolsDialect(Dialect):
    """A function-calling endpoint: tools in the request, `tool_calls` in the answer, a tool message for each result."""

    separator = ","

    refuses_unreadable: ClassVar[bool] = True
    """Calls that cannot be read go back as text, which every server accepts."""

    def __init__(self, offer: Offer, wording: Wording) -> None:
        super().__init__(offer, wording)
        self.tools = list(offer.tools)

    def open(self, messages: Sequence[Message]) -> list[Message]:
        return list(messages)

    def add(self, offer: Offer, messages: Sequence[Message]) -> list[Message]:
        """Add the tools; if the user says nothing, a message announces them."""
        self.tools = [*(self.tools or ()), *offer.tools]
        return list(messages) or [{"role": "user", "content": self._wording.added(None)}]

    def step(self, completion: Completion) -> JSON:
        return answer_step(completion.text, completion.tool_calls)

    def decode(self, step: JSON) -> Reading:
        return decode_step(step)

    def said(self, completion: Completion, step: JSON, decoded: Reading, stem: str) -> Message:
        """Return text and calls as they came."""
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
        """With the reasoning, where it came: APIs want it back in a loop of calls, some unchanged to the letter."""
        opening = "" if completion.raw_text is None else thought_of(completion.raw_text)
        fields: dict[str, JSON] = {"content": f"{opening}{completion.text or ''}"} if opening else {}
        fields |= completion.reasoning_fields
        if message.get("content") != completion.text:
            fields.pop("content", None)  # calls that could not be read stand there
        return {**message, **fields}

    def results(self, message: Message, decoded: Reading, results: Sequence[str]) -> list[Message]:
        calls = message.get("tool_calls")
        ids = [call.get("id") for call in calls if isinstance(call, dict)] if isinstance(calls, list) else []
        return [
            {"role": "tool", "content": result, "tool_call_id": id_} for id_, result in zip(ids, results, strict=False)
        ]


class TextDialect(Dialect):
    """A model that gets functions in its prompt and writes its calls as text, in the form of the profile."""

    def __init__(self, offer: Offer, wording: Wording, profile: Profile | None = None) -> None:
        super().__init__(offer, wording)
        self._functions = list(offer.functions)
        self._profile = profile

    def open(self, messages: Sequence[Message]) -> list[Message]:
        """Return the messages behind the system prompt; it takes in the first system message."""
        return with_system(messages, self._wording.system(self._offer.functions))

    def add(self, offer: Offer, messages: Sequence[Message]) -> list[Message]:
        self._functions += offer.functions
        return [{"role": "user", "content": self._wording.added(offer.functions)}, *messages]

    def step(self, completion: Completion) -> JSON:
        return answer_text(completion, form=self._profile, tools=self._functions)

    def decode(self, step: JSON) -> Reading:
        return decode_step(step, text_mode=True, tools=self._functions)

    def said(self, completion: Completion, step: JSON, decoded: Reading, stem: str) -> Message:
        return {"role": "assistant", "content": completion.text or step}

    def results(self, message: Message, decoded: Reading, results: Sequence[str]) -> list[Message]:
        texts = [source_text(call) for call in decoded.calls]
        return [{"role": "user", "content": self._wording.results(texts, results)}]


_SIGNATURES = ("extra_content", "thought_signature", "thoughtSignature")
"""What Gemini signs its thoughts with, beside a call: it refuses the call without."""


def _sent_back(call: Mapping[str, JSON], id_: str) -> JSON:
    """Return a call for the server: only the parts of OpenAI's schema, and signatures."""
    function = call.get("function")
    assert isinstance(function, dict)
    arguments = function.get("arguments")
    text = arguments if isinstance(arguments, str) and arguments else dumps(arguments or {}).decode()
    given = call.get("id")
    return {
        "id": given if isinstance(given, str) and given else id_,
        "type": "function",
        "function": {"name": function.get("name"), "arguments": text},
        **{name: call[name] for name in _SIGNATURES if call.get(name)},
    }
