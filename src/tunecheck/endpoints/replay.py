"""The `replay` endpoint: recorded answers from a JSON Lines file, by row id or by the content of the messages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import ClassVar, NoReturn

from tunecheck.endpoints.answers import Answer, FilteredError, UnreadableError, read_answer, read_usage
from tunecheck.endpoints.base import ChatRequest, Completion, Endpoint
from tunecheck.endpoints.definition import Definition
from tunecheck.endpoints.recorded import NoAnswerError, RecordedFile, content_key, id_key
from tunecheck.errors import (
    ContentFilterError,
    EndpointError,
    RefusedError,
    ReplyError,
    ThrottledError,
    TimedOutError,
)
from tunecheck.jsontext import JSON

__all__ = ["ReplayEndpoint"]


_ERRORS = (EndpointError, ContentFilterError, RefusedError, ReplyError, ThrottledError, TimedOutError)


class ReplayEndpoint(Endpoint):
    """Recorded answers.

    Each line of the file is an object with an `id` (a row's) or `messages`, or both, and the answer: `response` (text,
    OpenAI tool calls, a message or a chat completion; anything else is passed on as its JSON text), `tool_calls` and
    `text`, or `error` with `type` and `message`, which is raised. `usage`, `latency_ms`, `finish_reason`, `request_id`
    and `simulated` are passed on. `response` names another key that holds the answer, such as BFCL's `result`.

    Raises:
        DataError: the file cannot be used; names the line.
    """

    kind: ClassVar[str] = "replay"
    depends_on_row = True

    def __init__(self, path: Path | str, *, name: str = "replay", response: str = "response") -> None:
        self.name = name
        self._response = response
        self._answer_keys = (response, "tool_calls", "text", "error")
        self._file = RecordedFile(Path(path), self._answer_keys)

    @classmethod
    def from_definition(cls, definition: Definition) -> ReplayEndpoint:
        """`path`: the file, relative to the definition's folder; `response`: the answer's key."""
        definition.text("path")
        path = definition.path("path")
        assert path is not None
        return cls(path, name=definition.name, response=definition.maybe_text("response") or "response")

    async def complete(self, request: ChatRequest) -> Completion:
        """The recorded answer, at once.

        Raises:
            NoAnswerError: nothing is recorded for this row.
            EndpointError: the recorded answer is an error, or cannot be read (ReplyError).
        """
        record = self._find(request)
        if record is None:
            raise NoAnswerError(f"{_asked(request)}: no recorded answer in {self._file.path}")
        if record.get("error") is not None:
            _raise_recorded(record["error"], record)
        return _completion(record, self._answer(record, request))

    def settings(self) -> dict[str, JSON]:
        """File, its hash, and which key holds the answer."""
        return {"kind": self.kind, "name": self.name, "path": str(self._file.path), **self.answer_settings()}

    def answer_settings(self) -> dict[str, JSON]:
        """The content of the file, wherever it lies."""
        return {"kind": self.kind, "sha256": self._file.sha256, "response": self._response}

    async def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _find(self, request: ChatRequest) -> dict[str, JSON] | None:
        found = self._file.find(id_key(request.row.id)) if request.row else None
        return found or self._file.find(content_key(request.messages))

    def _answer(self, record: Mapping[str, JSON], request: ChatRequest) -> Answer:
        values = (record.get(self._response), record.get("tool_calls"), record.get("text"))
        try:
            return read_answer(next((value for value in values if value is not None), None))
        except FilteredError as error:
            raise ContentFilterError(f"{_asked(request)}: {error}") from None
        except UnreadableError as error:
            raise ReplyError(f"{_asked(request)}: the recorded answer cannot be read: {error}") from None


def _asked(request: ChatRequest) -> str:
    return f"row {request.row.id}" if request.row else "a request without a row"


def _completion(record: Mapping[str, JSON], answer: Answer) -> Completion:
    return replace(
        answer.completion(
            usage=read_usage(dict(record)),
            latency_ms=_number(record.get("latency_ms")),
            request_id=_maybe_text(record.get("request_id")),
        ),
        text=_maybe_text(record.get("text")) if answer.text is None else answer.text,
        finish_reason=_maybe_text(record.get("finish_reason")) or answer.finish_reason,
        simulated=record.get("simulated") is True,
    )


def _whole(value: JSON) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _number(value: JSON) -> float | None:
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _maybe_text(value: JSON) -> str | None:
    return value if isinstance(value, str) else None


def _raise_recorded(error: JSON, record: Mapping[str, JSON]) -> NoReturn:
    """Raise the error that was recorded, as the same type where it is one of ours."""
    told = error if isinstance(error, dict) else {"message": error}
    name = _maybe_text(told.get("type")) or "EndpointError"
    text = _maybe_text(told.get("message")) or "an error was recorded in place of an answer"
    known = {kind.__name__: kind for kind in _ERRORS}
    raise known.get(name, EndpointError)(
        text if name in known else f"{name}: {text}",
        status=_whole(told.get("status")),
        request_id=_maybe_text(told.get("request_id")) or _maybe_text(record.get("request_id")),
    )
