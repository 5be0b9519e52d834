"""How a model is told of functions and calls them: as OpenAI tools, or in its text.

A dialect turns a completion into the step that stands in the result, the step into calls, and the calls' results into
the messages that the model sees next.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace

from tunecheck._json import JSON, dumps, find
from tunecheck.calls._model import tool_name
from tunecheck.endpoints._base import Completion
from tunecheck.endpoints._target import with_calls, with_system
from tunecheck.episodes._decoding import decode_step
from tunecheck.episodes._nested import Decoded, NestedCall
from tunecheck.episodes._scenario import Offer
from tunecheck.episodes._speakers import Message
from tunecheck.episodes._wording import Wording
from tunecheck.formats._choosing import AUTO
from tunecheck.formats._profiles import Profile
from tunecheck.formats._reading import thought_of
from tunecheck_bfcl._text import decode_text_as_bfcl


def answer_step(text: str | None, tool_calls: Sequence[Mapping[str, JSON]], *, compat: bool = False) -> JSON:
    """The calls of an answer with calls, else its text.

    Arguments stay the text that they came as. Where one of the calls is none (no function, no name), the whole answer
    is text, which nobody takes for calls. Some servers write no arguments as nothing at all: that is `{}`,
    unless `compat` keeps it as it came.
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
        if not arguments and not compat:
            arguments = {}
        entries.append({name: arguments if isinstance(arguments, str) else dumps(arguments).decode()})
    return entries


def answer_text(
    completion: Completion,
    *,
    profile: Profile | None = None,
    any_form: bool = False,
    tools: object = None,
    declared: JSON = None,
) -> str:
    """The text of an answer; calls that a server took out of it are written as call text again.

    So are those in it that stand there in the form of the `profile`, read by the definitions of `tools`; with
    `any_form` in that of any family, where the leaderboard's decoder reads no call. `declared` are functions with
    another language's types, whose values are given as its source: texts are written as they are, and in quotes where
    the type is a text's.
    """
    form: Profile | str | None = profile
    if form is None and any_form and completion.text and decode_text_as_bfcl(completion.text).problem is not None:
        form = AUTO
    if form is not None and (called := with_calls(completion, form, tools)).tool_calls:
        completion = replace(called, text=None)
    if completion.text or not completion.tool_calls:
        return completion.text or ""
    step = answer_step(None, completion.tool_calls)
    decoded = decode_step(step)
    if isinstance(step, str) or decoded.problem is not None:
        return step if isinstance(step, str) else dumps(step).decode()
    return f"[{', '.join(call.text() if declared is None else _source_text(call, declared) for call in decoded.calls)}]"


def _source_text(call: NestedCall, declared: JSON) -> str:
    documents = [each for each in declared if isinstance(each, dict)] if isinstance(declared, list) else []
    own = (each for each in documents if tool_name(str(each.get("name"))) == tool_name(call.name))
    kinds = find(next(own, {}), ("parameters", "properties"))
    given = (
        f"{name}={_source(value, find(kinds, (name, 'type')) if isinstance(kinds, dict) else None)}"
        for name, value in call.arguments.items()
    )
    return f"{call.name}({', '.join(given)})"


def _source(value: object, kind: object) -> str:
    """A value as source: a text is that already, where it is not the plain value of a text's type."""
    plain = kind in ("String", "string") and str(value)[:1] not in ('"', "'")
    return value if isinstance(value, str) and not plain else dumps(value).decode()


class Dialect(ABC):
    """One conversation's way of calling. `tools` is what a request offers now, None where it offers none."""

    separator: str = ", "
    """Between the arguments of a call's text in the log."""

    def __init__(self, offer: Offer, wording: Wording, *, compat: bool) -> None:
        self.tools: Sequence[Mapping[str, JSON]] | None = None
        self._offer = offer
        self._wording = wording
        self._compat = compat

    @abstractmethod
    def open(self, messages: Sequence[Message]) -> list[Message]:
        """The messages of the first turn, as the model gets them."""

    @abstractmethod
    def add(self, offer: Offer, messages: Sequence[Message]) -> list[Message]:
        """The messages of a turn in which functions are added, as the model gets them."""

    @abstractmethod
    def step(self, completion: Completion) -> JSON:
        """The answer as it stands in the result."""

    @abstractmethod
    def decode(self, step: JSON) -> Decoded:
        """The calls of a step."""

    @abstractmethod
    def said(self, completion: Completion, step: JSON, decoded: Decoded, stem: str) -> Message:
        """The answer as a message of the model's.

        `stem` makes ids for calls that came without.
        """

    def within_turn(self, message: Message, completion: Completion) -> Message:
        """The message as the model gets it back within the same turn."""
        return message

    @abstractmethod
    def results(self, message: Message, decoded: Decoded, results: Sequence[str]) -> list[Message]:
        """What the calls of that message came to, as the model gets it."""


class ToolsDialect(Dialect):
    """A function-calling endpoint: tools in the request, `tool_calls` in the answer, a tool message for each result."""

    separator = ","

    def __init__(self, offer: Offer, wording: Wording, *, compat: bool) -> None:
        super().__init__(offer, wording, compat=compat)
        self.tools = list(offer.tools)

    def open(self, messages: Sequence[Message]) -> list[Message]:
        return list(messages)

    def add(self, offer: Offer, messages: Sequence[Message]) -> list[Message]:
        """The tools join the others; a message says so where the user says nothing."""
        self.tools = [*(self.tools or ()), *offer.tools]
        return list(messages) or [{"role": "user", "content": self._wording.added(None)}]

    def step(self, completion: Completion) -> JSON:
        return answer_step(completion.text, completion.tool_calls, compat=self._compat)

    def decode(self, step: JSON) -> Decoded:
        return decode_step(step, compat=self._compat)

    def said(self, completion: Completion, step: JSON, decoded: Decoded, stem: str) -> Message:
        """Text and calls as they came; calls that cannot be read go back as text, which every server accepts."""
        if not completion.tool_calls or isinstance(step, str):
            return {"role": "assistant", "content": completion.text or ("" if isinstance(step, list) else step)}
        if decoded.problem is not None and not self._compat:
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

    def results(self, message: Message, decoded: Decoded, results: Sequence[str]) -> list[Message]:
        calls = message.get("tool_calls")
        ids = [call.get("id") for call in calls if isinstance(call, dict)] if isinstance(calls, list) else []
        return [
            {"role": "tool", "content": result, "tool_call_id": id_} for id_, result in zip(ids, results, strict=False)
        ]


class TextDialect(Dialect):
    def __init__(
        self, offer: Offer, wording: Wording, *, compat: bool, profile: Profile | None = None, any_form: bool = False
    ) -> None:
        super().__init__(offer, wording, compat=compat)
        self._functions = list(offer.functions)
        self._profile = profile
        self._any_form = any_form

    def open(self, messages: Sequence[Message]) -> list[Message]:
        """The system prompt before them; a system message that is there already follows in the same one."""
        return with_system(messages, self._wording.system(self._offer.functions))

    def add(self, offer: Offer, messages: Sequence[Message]) -> list[Message]:
        self._functions += offer.functions
        return [{"role": "user", "content": self._wording.added(offer.functions)}, *messages]

    def step(self, completion: Completion) -> JSON:
        return answer_text(completion, profile=self._profile, any_form=self._any_form, tools=self._functions)

    def decode(self, step: JSON) -> Decoded:
        return decode_step(step, text_mode=True, compat=self._compat, tools=self._functions)

    def said(self, completion: Completion, step: JSON, decoded: Decoded, stem: str) -> Message:
        return {"role": "assistant", "content": completion.text or step}

    def results(self, message: Message, decoded: Decoded, results: Sequence[str]) -> list[Message]:
        texts = [call.text() for call in decoded.calls]
        return [{"role": "user", "content": self._wording.results(texts, results)}]


_SIGNATURES = ("extra_content", "thought_signature", "thoughtSignature")
"""What Gemini signs its thoughts with, beside a call: it refuses the call without."""


def _sent_back(call: Mapping[str, JSON], id_: str) -> JSON:
    """A call as it goes back to the server: the parts of OpenAI's schema and signatures, and no others."""
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
