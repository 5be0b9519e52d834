"""Where APIs keep calls, reasoning and messages: one table of calls as objects, for all of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from tunecheck.formats._spellings import ANSWERING, first_of, is_definition

if TYPE_CHECKING:
    from tunecheck.formats._collector import CallCollector

_Object: TypeAlias = Mapping[Any, Any]  # of any keys and values: given by a user, or decoded from JSON

_THOUGHT_TEXTS = ("reasoning_content", "reasoning", "thinking", "tool_plan")
_THOUGHT_LISTS = ("reasoning_details", "thinking_blocks")
REASONING_FIELDS = (*_THOUGHT_TEXTS, *_THOUGHT_LISTS)
"""The fields of a message in which APIs give the reasoning: several often hold the same."""


# -- single calls -----------------------------------------------------------------------------------------------------

FUNCTION_NAME = re.compile(r"[^\s{}\[\]()\"'<>]+")
_BARE_KEYS = {"name", "arguments", "parameters", "id", "type", "call_id", "tool_call_id", "index", "status"}
_IDS = ("call_id", "tool_call_id", "toolUseId", "id")


@dataclass(frozen=True, slots=True)
class CallShape:
    """How an API writes one call as an object.

    Args:
        format: the format's name.
        arguments: the keys that may hold the arguments.
        type: the object's `type`, if the API gives one.
        inside: the keys that lead to the object with name and arguments; the id may stand anywhere on the way.
        needs: keys that this object must have.
        name: the key that holds the name.
        also: what else must be true of the whole object.
        ambiguous: data can look like that, too.
    """

    format: str
    arguments: tuple[str, ...]
    type: str | None = None
    inside: tuple[str, ...] = ()
    needs: tuple[str, ...] = ("name",)
    name: str = "name"
    also: Callable[[_Object], bool] | None = None
    ambiguous: bool = False

    def matches(self, item: _Object) -> bool:
        """True if the object is a call in this shape."""
        if self.type is not None and item.get("type") != self.type:
            return False
        held: Any = item
        for key in self.inside:
            held = held.get(key)
            if not isinstance(held, dict):
                return False
        return all(key in held for key in self.needs) and (self.also is None or self.also(item))

    def take(self, item: _Object, collector: CallCollector) -> None:
        """Add the call; Command's call of the tool that only answers is none."""
        held, identity = item, first_of(item, *_IDS)
        for key in self.inside:
            held = held[key]
            identity = first_of(held, *_IDS) or identity
        name = held.get(self.name)
        if self.name == "tool_name" and isinstance(name, str) and name in ANSWERING:
            return
        collector.ambiguous = collector.ambiguous or self.ambiguous
        if self.name == "recipient_name":
            collector.add_tool_use(self.format, held)
        else:
            collector.add(self.format, name, first_of(held, *self.arguments), identity)


def _is_bare(item: _Object) -> bool:
    return "parameters" not in item and _BARE_KEYS.issuperset(item)


def _is_llama(item: _Object) -> bool:
    """True for Llama's `{"name", "parameters"}`, unless it is the definition of a function."""
    name, parameters = item["name"], item["parameters"]
    if not isinstance(name, str) or not isinstance(parameters, dict) or not _BARE_KEYS.issuperset(item):
        return False
    return "arguments" not in item and bool(FUNCTION_NAME.fullmatch(name)) and not is_definition(parameters)


LEGACY = CallShape(
    "function_call", ("arguments",), inside=("function_call",), needs=(), also=lambda item: "role" not in item
)
_SHAPES = (
    CallShape("openai", ("arguments",), inside=("function",), needs=("name", "arguments")),
    CallShape("openai", ("arguments",), inside=("function",), also=lambda item: "id" in item),  # no arguments
    CallShape("anthropic", ("input",), type="tool_use"),
    CallShape("gemini", ("args",), inside=("functionCall",), needs=()),
    CallShape("gemini", ("args",), inside=("function_call",), needs=("args",)),  # of its Python client
    CallShape("bedrock", ("input",), inside=("toolUse",), needs=()),
    CallShape("openai", ("arguments",), type="function_call"),  # of the Responses API
    CallShape("azure_agent", ("arguments", "args"), type="tool_call"),  # and LangChain's
    CallShape("azure_agent", ("arguments",), type="tool_call", inside=("tool_call", "function"), needs=()),
    CallShape("azure_agent", ("arguments",), type="tool_call", inside=("tool_call",), needs=()),
    CallShape("tool_uses", ("parameters",), needs=("recipient_name",), name="recipient_name"),
    CallShape(
        "command_r",
        ("parameters",),
        needs=("tool_name", "parameters"),
        name="tool_name",
        also=lambda item: isinstance(item["parameters"], dict),
        ambiguous=True,
    ),
    LEGACY,
    CallShape("function_call", ("arguments",), needs=("name", "arguments"), also=_is_bare, ambiguous=True),
    CallShape("llama", ("parameters",), needs=("name", "parameters"), also=_is_llama, ambiguous=True),
)
"""The first that matches counts. A tool definition looks like OpenAI's call, and has neither arguments nor an id."""


_BY_KEY = tuple(((shape.inside or shape.needs)[0], shape) for shape in _SHAPES)
_KEYS = frozenset(key for key, _ in _BY_KEY)


def shape_of(item: _Object) -> CallShape | None:
    """Return the shape of an object that is one call, or None if it is something else."""
    if _KEYS.isdisjoint(item):
        return None
    return next((shape for key, shape in _BY_KEY if key in item and shape.matches(item)), None)


# -- messages ---------------------------------------------------------------------------------------------------------


def content_of(message: Mapping[str, Any]) -> object:
    """The content of a message: a text or a list of parts, which Gemini keeps under `parts`."""
    content = message.get("content")
    return message.get("parts") if content is None else content


def take_thoughts_of(message: Mapping[str, Any], collector: CallCollector) -> None:
    """What a message's fields say that the model thought."""
    said = (text for key in _THOUGHT_TEXTS if isinstance(text := message.get(key), str) and text.strip())
    listed = (text for key in _THOUGHT_LISTS if (text := "\n".join(_texts(_listed(message.get(key))))))
    thought = next(said, None) or next(listed, None)
    if thought is not None:
        collector.thoughts.append(thought.strip())


def take_part(part: Mapping[str, Any], collector: CallCollector) -> bool:
    """Take a part of a message that is a call or a thought; False for any other part."""
    if isinstance(held := part.get("reasoningContent"), dict):
        collector.thoughts += _texts([held.get("reasoningText")])
    elif part.get("type") in ("thinking", "reasoning") or part.get("thought") is True:
        collector.thoughts += _texts([part])
    elif shape := shape_of(part):
        shape.take(part, collector)
    else:
        return False
    return True


def text_of(part: Mapping[str, Any]) -> str:
    """Return the text of a part of a message, or an empty text."""
    text = part.get("text") if part.get("type") in (None, "text", "output_text") else None
    return text if isinstance(text, str) else ""


_REASONS = ("stop_reason", "stopReason", "finish_reason")


def message_of(reply: Mapping[str, Any]) -> object:
    """The message in Gemini's (`candidates`) or Bedrock's (`output`) reply, as one of the assistant; None without."""
    candidates, output = reply.get("candidates"), reply.get("output")
    first = candidates[0] if isinstance(candidates, list) and candidates else None
    content = first.get("content", {} if "finishReason" in first else None) if isinstance(first, dict) else None
    if isinstance(content, dict):
        return {"role": "model", **content}
    message = output.get("message") if isinstance(output, dict) else None
    return {"role": "assistant", **message} if isinstance(message, dict) and "content" in message else None


def reason_of_end(reply: Mapping[str, Any]) -> str | None:
    """Why the answer in a reply of Anthropic, Bedrock, Gemini or Cohere ended, in the service's word; None unsaid."""
    candidates = reply.get("candidates")
    first = candidates[0] if isinstance(candidates, list) and candidates else None
    told = (*(reply.get(key) for key in _REASONS), first.get("finishReason") if isinstance(first, dict) else None)
    return next((reason for reason in told if isinstance(reason, str)), None)


def _texts(items: Iterable[object], *, nested: bool = True) -> list[str]:
    """The texts in a list of thoughts: texts, or objects with a text or (`nested`) a list of such."""
    texts: list[str] = []
    for item in items:
        held = [item.get(key) for key in ("thinking", "text", "summary")] if isinstance(item, dict) else [item]
        for value in held:
            if isinstance(value, list) and nested:
                texts += _texts(value, nested=False)
            elif isinstance(value, str) and value.strip():
                texts.append(value.strip())
    return texts


def _listed(value: object) -> list[object]:
    return value if isinstance(value, list) else []
