"""The `replay` endpoint: recorded answers from a JSON Lines file, by row id or by the content of the messages."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from tunecheck._errors import (
    ContentFilterError,
    DataError,
    EndpointError,
    RefusedError,
    ReplyError,
    ThrottledError,
    TimedOutError,
)
from tunecheck._json import JSON, whole_number
from tunecheck._targets import Row
from tunecheck.endpoints._answers import FilteredError, UnreadableReplyError, read_answer, read_usage
from tunecheck.endpoints._base import ChatRequest, Completion, Endpoint, text_or_none
from tunecheck.endpoints._config import Definition, EndpointConfig, Text
from tunecheck.endpoints._recorded import NoAnswerError, RecordedFile, content_key, id_key

_BFCL_RESULT = "_result.json"  # JSON Lines despite the name, as BFCL writes it

_ERRORS = (EndpointError, ContentFilterError, RefusedError, ReplyError, ThrottledError, TimedOutError)


class ReplayConfig(EndpointConfig, frozen=True, kw_only=True):
    """A definition of kind `replay`; `response` is the key that holds the answer."""

    path: Text
    response: Text | None = None


class ReplayEndpoint(Endpoint):
    """Recorded answers.

    Each line of the file is an object with an `id` (a row's) or `messages`, or both, and the answer: `response` (text,
    OpenAI tool calls, a message or a chat completion; anything else is passed on as its JSON text), `tool_calls` and
    `text`, or `error` with `type` and `message`, which is raised. `usage`, `latency_ms`, `finish_reason`, `request_id`
    and `simulated` are passed on. `response` names another key that holds the answer, such as BFCL's `result`.

    `path` may also be a result file of BFCL (`BFCL_v…_result.json`), or a folder that holds some, as deep as they are:
    its answers are those under `result`, and conversations give their recorded steps (`recorded_result`).

    Raises:
        DataError: the file cannot be used; names the line.
    """

    kind = "replay"
    config_type = ReplayConfig
    depends_on_row = True

    def __init__(self, path: Path | str, *, name: str = "replay", response: str | None = None) -> None:
        self.name = name
        self._path = Path(path)
        files = _result_files(self._path)
        self._response = response or ("result" if files[0].name.endswith(_BFCL_RESULT) else "response")
        self._files = [RecordedFile(file, (self._response, "tool_calls", "text", "error")) for file in files]

    @classmethod
    def from_definition(cls, definition: Definition) -> ReplayEndpoint:
        """`path`: the file or folder, relative to the definition's folder; `response`: the answer's key."""
        config = definition.read(ReplayConfig)
        return cls(definition.file(config.path), name=definition.name, response=config.response)

    async def complete(self, request: ChatRequest) -> Completion:
        """The recorded answer, at once."""
        record = self._find(id_key(request.row.id)) if request.row else None
        record = record or self._find(content_key(request.messages))
        asked = f"row {request.row.id}" if request.row else "a request without a row"
        if record is None:
            raise NoAnswerError(f"{asked}: no recorded answer in {self._path}")
        if record.get("error") is not None:
            raise _recorded_error(record)
        values = (record.get(self._response), record.get("tool_calls"), record.get("text"))
        try:
            answer = read_answer(next((value for value in values if value is not None), None))
        except FilteredError as error:
            raise ContentFilterError(f"{asked}: {error}") from None
        except UnreadableReplyError as error:
            raise ReplyError(f"{asked}: the recorded answer cannot be read: {error}") from None
        recorded = Completion.of_columns(record)
        return replace(
            recorded,
            text=recorded.text if answer.text is None else answer.text,
            tool_calls=answer.tool_calls,
            reasoning=recorded.reasoning or answer.reasoning,
            raw_text=recorded.raw_text or answer.raw_text,
            reasoning_fields=recorded.reasoning_fields or answer.reasoning_fields,
            usage=read_usage(dict(record)),
            finish_reason=recorded.finish_reason or answer.finish_reason,
        )

    def settings(self) -> dict[str, JSON]:
        return {"kind": self.kind, "name": self.name, "path": str(self._path), **self.answer_settings()}

    def answer_settings(self) -> dict[str, JSON]:
        """The content of the file, wherever it lies."""
        sha256 = "".join(file.sha256 for file in self._files)
        if len(self._files) > 1:
            sha256 = hashlib.sha256(sha256.encode()).hexdigest()
        return {"kind": self.kind, "sha256": sha256, "response": self._response}

    def recorded_result(self, row: Row) -> Mapping[str, JSON] | None:
        """The record of this row, where results of BFCL's layout are recorded."""
        record = self._find(id_key(row.id))
        if record is None:
            raise NoAnswerError(f"row {row.id}: no recorded answer in {self._path}")
        value = record.get(self._response)
        if self._response == "result" or (isinstance(value, list) and any(isinstance(turn, list) for turn in value)):
            return {**record, "result": value}
        return None

    async def close(self) -> None:
        for file in self._files:
            file.close()

    def _find(self, key: bytes) -> dict[str, JSON] | None:
        return next((record for file in self._files if (record := file.find(key)) is not None), None)


def _result_files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    files = sorted(path.rglob(f"BFCL_v*{_BFCL_RESULT}"))
    if not files:
        raise DataError(f"{path}: a folder without result files of BFCL (BFCL_v…{_BFCL_RESULT}); name a file")
    return files


def _recorded_error(record: Mapping[str, JSON]) -> EndpointError:
    """The error that was recorded, as the same type where it is one of ours."""
    error = record["error"]
    told = error if isinstance(error, dict) else {"message": error}
    name, text = text_or_none(told.get("type")) or "EndpointError", text_or_none(told.get("message"))
    known = {kind.__name__: kind for kind in _ERRORS}
    text = text or "an error was recorded in place of an answer"
    return known.get(name, EndpointError)(
        text if name in known else f"{name}: {text}",
        status=whole_number(told.get("status")),
        request_id=text_or_none(told.get("request_id")) or text_or_none(record.get("request_id")),
    )
