"""Checks of judges' inputs before a model call. They refuse the same inputs as Azure AI Evaluation.

`inputs.json` contains the JSON Schemas of the inputs.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from dataclasses import dataclass
from importlib.resources import files

import jsonschema_rs

from tunecheck.plugins import plain
from tunecheck_azure._exceptions import ErrorCategory, ErrorTarget, EvaluationException, mistake

_MOST_TOLD = 300
_TOOL_CALLS = ("tool_call", "openapi_call")


@functools.cache
def _validator(kind: str) -> jsonschema_rs.Validator:
    schemas = json.loads(files("tunecheck_azure").joinpath("inputs.json").read_bytes())
    return jsonschema_rs.validator_for({**schemas, "$ref": f"#/$defs/{kind}"})


@dataclass(frozen=True)
class InputChecks:
    """Checks of one evaluator's inputs. Calls of `refused_tools` cannot be judged.

    Each check raises an EvaluationException that names the evaluator as its target.
    """

    target: ErrorTarget
    refused_tools: frozenset[str] = frozenset()

    def conversation(self, value: object) -> None:
        """Check that a value is an object with messages."""
        self._fits("conversation", "the conversation", value)
        assert isinstance(value, dict)
        self.text_or_messages("the conversation's list of messages", value["messages"])

    def text_or_messages(self, label: str, value: object) -> None:
        """Check that a value is a text or a list of messages, and not empty."""
        if value is None or (isinstance(value, (str, list)) and not value):
            raise self._lacking(f"{label} is missing or empty")
        self._fits("said", label, value)
        for message in value if isinstance(value, list) else ():
            parts = message["content"] if message["role"] == "assistant" else ()
            for part in parts if isinstance(parts, list) else ():
                kind = part["type"]
                tool = kind if kind == "openapi_call" else str(part.get("name", "")).lower()
                if kind in _TOOL_CALLS and tool in self.refused_tools:
                    told = f"{self.target.value} cannot judge calls of {tool}"
                    raise mistake(told, ErrorCategory.NOT_APPLICABLE, self.target)

    def messages(self, value: object) -> None:
        """Check that a value is a list of messages with known roles, with at least one user and one assistant."""
        self._fits("messages", "messages", value)

    def definitions(self, value: object, *, required: bool = False) -> None:
        """Check that a value holds tool definitions: a text, or definitions in Azure's format."""
        if not value and required:
            raise self._lacking("tool_definitions are missing")
        if value and not isinstance(value, str):
            self._fits("definitions", "tool_definitions", value)

    def calls(self, value: object) -> None:
        """Check that a value holds tool calls: a text, or calls in Azure's format."""
        if not value:
            raise self._lacking("there are no tool calls, neither in the response nor in tool_calls")
        if not isinstance(value, str):
            self._fits("calls", "tool_calls", value)

    def _fits(self, kind: str, label: str, value: object) -> None:
        error = next(_validator(kind).iter_errors(plain(value)), None)
        if error is not None:
            place = "".join(f"[{step!r}]" for step in error.instance_path)
            raise mistake(f"{label}{place}: {error.message}"[:_MOST_TOLD], target=self.target, personal=True)

    def _lacking(self, told: str) -> EvaluationException:
        return mistake(told, ErrorCategory.MISSING_FIELD, self.target)


def refusal(check: Callable[..., None], *given: object) -> EvaluationException | None:
    """Return the error that a check raises for these values, or None."""
    try:
        check(*given)
    except EvaluationException as error:
        return error
    return None
