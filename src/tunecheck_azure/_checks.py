"""What judges are given, seen through before anything is asked: in Azure AI Evaluation's order and words."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tunecheck_azure._exceptions import ErrorCategory, ErrorTarget, EvaluationException, mistake

_NAMED: dict[type, str] = {str: "a string", dict: "a dictionary", list: "a list"}
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
    """Checks of one evaluator's inputs; calls of `refused_tools` have no place in them.

    Each raises an EvaluationException that says what is wrong first, and names the evaluator as its target.
    """

    target: ErrorTarget
    refused_tools: frozenset[str] = frozenset()

    def conversation(self, value: object) -> None:
        """See that it is an object with messages."""
        if not isinstance(value, dict):
            raise self._wrong("Conversation must be a dictionary.")
        self._field(value, "messages", list, "Conversation")
        self.text_or_messages("Conversation messages", value["messages"])

    def text_or_messages(self, label: str, value: object) -> None:
        """See that it is a text or a list of messages."""
        if value is None:
            raise self._lacking(f"{label} is a required input and cannot be None.")
        if not isinstance(value, (str, list)):
            raise self._wrong(f"{label} must be a string or a list of messages.")
        if not value:
            raise self._lacking(f"{label} {'string' if isinstance(value, str) else 'list'} cannot be empty.")
        if isinstance(value, str):
            return
        if not all(isinstance(message, dict) for message in value):
            raise self._wrong(f"Each message in the {label.lower()} list must be a dictionary.")
        for message in value:
            self._message(message)

    def messages(self, value: object) -> None:
        """See that it is a list of messages of known roles, with a user's and an assistant's among them."""
        if not isinstance(value, list):
            raise self._wrong("messages must be provided as a list of message dictionaries.")
        if not value:
            raise self._wrong("messages list must not be empty.")
        for place, message in enumerate(value):
            if not isinstance(message, dict):
                kind = f"item at index {place} is {type(message).__name__}"
                raise self._wrong(f"Each item in 'messages' must be a dictionary, but {kind}.")
            role = message.get("role")
            if role is None:
                without = f"message at index {place} is missing it"
                raise self._wrong(f"Each message must contain a 'role' key, but {without}.")
            if role not in [*_PART_TYPES]:
                known = sorted(_PART_TYPES)
                raise self._wrong(f"Invalid role '{role}' at message index {place}. Must be one of: {known}.")
        for role in ("user", "assistant"):
            if all(message["role"] != role for message in value):
                raise self._wrong(f"messages must contain at least one message with role '{role}'.")

    def definitions(self, value: object, *, required: bool = False) -> None:
        """See that these are definitions of tools, or the text of some."""
        if not value and required:
            raise self._lacking("Tool definitions input is required but not provided.")
        if not value or isinstance(value, str):
            return
        if not isinstance(value, list):
            raise self._wrong("Tool definitions must be provided as a list of dictionaries.")
        for definition in value:
            if isinstance(definition, dict) and definition.get("type") == "openapi":
                self._field(definition, "functions", list, "openapi tool definition")
                for function in definition["functions"]:
                    self._definition(function)
            else:
                self._definition(definition)

    def calls(self, value: object) -> None:
        """See that these are calls of tools, or the text of some."""
        if not value:
            raise self._lacking("No tool calls found in response or provided tool_calls.")
        if isinstance(value, str):
            return
        if not isinstance(value, list):
            raise self._wrong("Tool calls must be provided as a list of dictionaries.")
        for call in value:
            if not call or not isinstance(call, dict):
                raise self._wrong("Each tool call must be a dictionary.")
            self._call(call)

    def _message(self, message: Mapping[str, object]) -> None:
        for key in ("role", "content"):
            if key not in message:
                raise self._wrong(f"Each message must contain a '{key}' field.")
        role, content = message["role"], message["content"]
        parts = content if isinstance(content, list) else []
        if not isinstance(content, (str, list)) or not all(part and isinstance(part, dict) for part in parts):
            raise self._wrong("The 'content' field must be a string or a list of dictionaries messages.")
        if not content:
            raise self._wrong("The 'content' field can't be empty.")
        if not all("type" in part for part in parts):
            raise self._wrong("Each content item in the 'content' list must contain a 'type' field.")
        if role == "tool":
            if not parts:
                raise self._wrong("The 'content' field must be a list of dictionaries messages for role 'tool'.")
            self._field(message, "tool_call_id", str, "content items for role 'tool'")
        if isinstance(role, str) and role in _PART_TYPES:
            for part in parts:
                self._part(part, role)

    def _part(self, part: Mapping[str, object], role: str) -> None:
        kind, kinds = part["type"], _PART_TYPES[role]
        if kind not in kinds:
            known = "'text' or 'input_text'" if kinds is _ASKED else f"one of {[*kinds]}"
            raise self._wrong(f"Invalid content type '{kind}' for message with role '{role}'. Must be {known}.")
        if str(kind).endswith("text"):
            if "text" not in part:
                raise self._wrong(f"Each content item must contain a 'text' field for message with role '{role}'.")
            if not isinstance(part["text"], str):
                raise self._wrong("The 'text' field must be a string in content items.")
        elif role == "assistant":
            self._call(part)
            tool = "openapi_call" if kind == "openapi_call" else str(part.get("name", "")).lower()
            if kind in ("tool_call", "openapi_call") and tool in self.refused_tools:
                told = f"{tool} tool call is currently not supported for {self.target.value} evaluator."
                raise self._wrong(told, ErrorCategory.NOT_APPLICABLE)
        elif kind != "mcp_approval_response":
            self._field(part, str(kind), object, "content items for role 'tool'")

    def _call(self, call: Mapping[str, object]) -> None:
        if call.get("type") not in _CALL_TYPES:
            raise self._wrong(f"The content item must be of type {[*_CALL_TYPES]} in tool_call content item.")
        if call["type"] != "mcp_approval_request":
            self._field(call, "name", str, "tool_call content items")
            self._field(call, "arguments", dict, "tool_call content items")
            self._field(call, "tool_call_id", str, "tool_call content items")

    def _definition(self, definition: object) -> None:
        if not isinstance(definition, dict):
            raise self._wrong("Each tool definition must be a dictionary.")
        self._field(definition, "name", str, "tool definitions")
        self._field(definition, "parameters", dict, "tool definitions")

    def _field(self, item: Mapping[str, object], key: str, kind: type, place: str) -> None:
        if key not in item:
            raise self._wrong(f"Each {place} must contain a '{key}' field.")
        if not isinstance(item[key], kind):
            raise self._wrong(f"The '{key}' field must be {_NAMED[kind]} in {place}.")

    def _wrong(self, told: str, category: ErrorCategory = ErrorCategory.INVALID_VALUE) -> EvaluationException:
        return mistake(told, category, self.target)

    def _lacking(self, told: str) -> EvaluationException:
        return mistake(told, ErrorCategory.MISSING_FIELD, self.target)


def refusal(check: Callable[..., None], *given: object) -> EvaluationException | None:
    """What such a check says of this."""
    try:
        check(*given)
    except EvaluationException as error:
        return error
    return None
