"""Checks of the inputs of judges, before a model call: Azure AI Evaluation refuses the same inputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tunecheck_azure._exceptions import ErrorCategory, ErrorTarget, EvaluationException, mistake

_ASKED = ("text", "input_text")
_PART_TYPES = {
    "system": _ASKED,
    "developer": _ASKED,
    "user": _ASKED,
    "assistant": ("text", "output_text", "tool_call", "function_call", "mcp_approval_request", "openapi_call"),
    "tool": ("tool_result", "function_call_output", "mcp_approval_response", "openapi_call_output"),
}
"""By a message's role, the types of the parts of its content."""
_CALL_TYPES = ("tool_call", "function_call", "openapi_call", "mcp_approval_request")


@dataclass(frozen=True)
class InputChecks:
    """Checks of one evaluator's inputs. Calls of `refused_tools` cannot be judged.

    Each check raises an EvaluationException that names the evaluator as its target.
    """

    target: ErrorTarget
    refused_tools: frozenset[str] = frozenset()

    def conversation(self, value: object) -> None:
        """Check that it is an object with messages."""
        self._require(isinstance(value, dict), "the conversation must be an object")
        assert isinstance(value, dict)
        self._has_fields(value, "the conversation", messages=list)
        self.text_or_messages("the conversation's list of messages", value["messages"])

    def text_or_messages(self, label: str, value: object) -> None:
        """Check that it is a text or a list of messages, and not empty."""
        if value is None or (isinstance(value, (str, list)) and not value):
            raise self._lacking(f"{label} is missing or empty")
        self._require(isinstance(value, (str, list)), f"{label} must be a text or a list of messages")
        for message in value if isinstance(value, list) else ():
            self._message(message)

    def messages(self, value: object) -> None:
        """Check that it is a list of messages of known roles, with a user's and an assistant's among them."""
        self._require(isinstance(value, list), "messages must be a list")
        assert isinstance(value, list)
        roles = [message.get("role") if isinstance(message, dict) else None for message in value]
        self._require(
            all(role in [*_PART_TYPES] for role in roles), f"a message's role must be one of {[*_PART_TYPES]}"
        )
        self._require({"user", "assistant"} <= {*roles}, "messages must have one of the user and one of the assistant")

    def definitions(self, value: object, *, required: bool = False) -> None:
        """Check that these are definitions of tools, or the text of some."""
        if not value and required:
            raise self._lacking("tool_definitions are missing")
        if not value or isinstance(value, str):
            return
        self._require(isinstance(value, list), "tool_definitions must be a list")
        assert isinstance(value, list)
        for definition in value:
            if isinstance(definition, dict) and definition.get("type") == "openapi":
                self._has_fields(definition, "a definition of type openapi", functions=list)
                functions = definition["functions"]
            else:
                functions = [definition]
            for function in functions:
                self._has_fields(function, "a tool definition", name=str, parameters=dict)

    def calls(self, value: object) -> None:
        """Check that these are calls of tools, or the text of some."""
        if not value:
            raise self._lacking("there are no tool calls, neither in the response nor in tool_calls")
        if isinstance(value, str):
            return
        self._require(isinstance(value, list), "tool_calls must be a list")
        assert isinstance(value, list)
        for call in value:
            self._call(call)

    def _message(self, message: object) -> None:
        self._has_fields(message, "a message", role=object, content=(str, list))
        assert isinstance(message, dict)
        role, content = message["role"], message["content"]
        parts = content if isinstance(content, list) else []
        self._require(bool(content), "a message's content must not be empty")
        for part in parts:
            self._has_fields(part, "a part of a message's content", type=object)
        if role == "tool":
            self._require(bool(parts), "the content of a tool's message must be a list of parts")
            self._has_fields(message, "a tool's message", tool_call_id=str)
        for part in parts if isinstance(role, str) and role in _PART_TYPES else ():
            self._part(part, role)

    def _part(self, part: Mapping[str, object], role: str) -> None:
        kind, kinds = part["type"], _PART_TYPES[role]
        self._require(kind in kinds, f"a part of a message of role {role!r} cannot have type {kind!r}, only {[*kinds]}")
        if str(kind).endswith("text"):
            self._has_fields(part, "a text", text=str)
        elif role == "assistant":
            self._call(part)
            tool = "openapi_call" if kind == "openapi_call" else str(part.get("name", "")).lower()
            if kind in ("tool_call", "openapi_call") and tool in self.refused_tools:
                told = f"{self.target.value} cannot judge calls of {tool}"
                raise mistake(told, ErrorCategory.NOT_APPLICABLE, self.target)
        elif kind != "mcp_approval_response":
            self._has_fields(part, "a tool's result", **{str(kind): object})

    def _call(self, call: object) -> None:
        self._require(bool(call), "a tool call must not be empty")
        self._has_fields(call, "a tool call", type=object)
        assert isinstance(call, dict)
        self._require(call["type"] in _CALL_TYPES, f"a tool call's type must be one of {[*_CALL_TYPES]}")
        if call["type"] != "mcp_approval_request":
            self._has_fields(call, "a tool call", name=str, arguments=dict, tool_call_id=str)

    def _has_fields(self, item: object, place: str, **kinds: type | tuple[type, ...]) -> None:
        self._require(isinstance(item, dict), f"{place} must be an object")
        assert isinstance(item, dict)
        for key, kind in kinds.items():
            self._require(key in item, f"{place} must have the key {key!r}")
            self._require(
                isinstance(item[key], kind), f"{key!r} of {place} has the wrong type: {type(item[key]).__name__}"
            )

    def _require(self, right: bool, told: str) -> None:
        if not right:
            raise mistake(told, target=self.target)

    def _lacking(self, told: str) -> EvaluationException:
        return mistake(told, ErrorCategory.MISSING_FIELD, self.target)


def refusal(check: Callable[..., None], *given: object) -> EvaluationException | None:
    """The error that a check raises for these values."""
    try:
        check(*given)
    except EvaluationException as error:
        return error
    return None
