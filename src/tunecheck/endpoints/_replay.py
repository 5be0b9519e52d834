"""The `replay` endpoint: recorded answers from a JSON Lines file, found by row id or messages.

    {"id": "row-1", "response": "The train leaves at 9:30."}
    {"id": "row-2", "tool_calls": [{"type": "function", "function": {"name": "get_weather", "arguments": "{}"}}]}
    {"messages": [{"role": "user", "content": "Hi"}], "response": "Hello!"}

A record with the row's id wins over a record with the same messages. Two records may have the same messages only if
both have an id; by messages, the first one is found.
"""

from __future__ import annotations

import contextlib
import hashlib
from codecs import BOM_UTF8
from collections.abc import Mapping, Sequence
from dataclasses import replace
from json import JSONDecodeError
from pathlib import Path
from typing import NamedTuple

from tunecheck import _errors as errors
from tunecheck._disk import MOST_IN_A_LINE, lines, open_for_reading
from tunecheck._json import JSON, canonical, loads, value_of, whole_number
from tunecheck._targets import Row
from tunecheck.endpoints._answers import FilteredError, UnreadableReplyError, read_answer, read_usage
from tunecheck.endpoints._base import ChatRequest, Completion, Definition, Endpoint, EndpointConfig, Text

_BFCL_RESULT = "_result.json"  # JSON Lines despite the name, as BFCL writes it


class NoAnswerError(errors.ReplyError):
    """The file has no answer to a request."""


def id_key(row_id: str) -> bytes:
    """Return the lookup key of a row id."""
    return b"id " + row_id.encode("utf-8", "surrogatepass")


def content_key(messages: object) -> bytes:
    """Return the lookup key of messages. Null values count as absent, and a list of text parts as their joined text.

    Raises:
        TypeError: the messages have no JSON form.
    """
    plain = [_normalized(message) for message in messages] if isinstance(messages, (list, tuple)) else messages
    return b"messages " + hashlib.blake2b(canonical(plain), digest_size=16).digest()


class ReplayConfig(EndpointConfig, frozen=True, kw_only=True):
    """A definition of kind `replay`. `response` is the key of the answer in a record."""

    path: Text
    response: Text | None = None


class ReplayEndpoint(Endpoint):
    """Recorded answers.

    Each line of the file is an object with a row's `id`, or `messages`, or both, and an answer:

    * `response`: a text, OpenAI tool calls, a message or a chat completion; any other value becomes its JSON text; or
    * `tool_calls` and `text`.

    A record with an `error` instead is no answer.

    `usage`, `latency_ms`, `finish_reason`, `request_id` and `simulated` are returned as recorded. The key
    `response` names another key for the answer. `path` may also be a result file of BFCL (`BFCL_v…_result.json`), or a
    folder that contains result files at any depth. Their answers are under `result`, and conversations have recorded
    steps (see `recorded_result`).
    """

    kind = "replay"
    config_type = ReplayConfig
    depends_on_row = True

    def __init__(self, definition: Definition) -> None:
        """Index the file, or all result files of BFCL in a folder. `path` is relative to the definition's folder.

        Raises:
            ConfigurationError: a key of the definition is wrong.
            DataError: the file cannot be used; the error names the line.
        """
        config = definition.read(ReplayConfig)
        self.name = definition.name
        self._path = definition.file(config.path)
        files = _result_files(self._path)
        self._response = config.response or ("result" if files[0].name.endswith(_BFCL_RESULT) else "response")
        self._files = [RecordedFile(file, (self._response, "tool_calls", "text", "error")) for file in files]

    async def complete(self, request: ChatRequest) -> Completion:
        """Return the answer recorded for the row's id, else for the messages, without delay.

        Raises:
            NoAnswerError: there is no record, or the record holds an `error`.
            ContentFilterError: a content filter stopped the recorded answer.
            ReplyError: the answer is unreadable, or the file has changed since it was indexed.
        """
        record = self._find(id_key(request.row.id)) if request.row else None
        record = record or self._find(content_key(request.messages))

        row_or_request = f"row {request.row.id}" if request.row else "a request without a row"
        if record is None:
            hint = "" if request.row else ", or name the rows' data set (serve: --dataset)"
            raise NoAnswerError(f"{self._path} has no recorded answer for {row_or_request}: add a record for it{hint}")

        if record.get("error") is not None:
            raise NoAnswerError(f"{row_or_request}: the record in {self._path} holds an error: record an answer")

        values = (record.get(self._response), record.get("tool_calls"), record.get("text"))
        try:
            answer = read_answer(next((value for value in values if value is not None), None))
        except FilteredError as error:
            raise errors.ContentFilterError(f"{row_or_request}: {error}") from None
        except UnreadableReplyError as error:
            raise errors.ReplyError(f"{row_or_request}: the answer in {self._path} cannot be read: {error}") from None

        # The recorded answer gives text and calls. In the other fields, the record wins over a message in it.
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
        """Return the settings with a hash of the files' content in place of the path."""
        sha256 = "".join(file.sha256 for file in self._files)
        # One hash, so that the settings do not grow with the number of files.
        if len(self._files) > 1:
            sha256 = hashlib.sha256(sha256.encode()).hexdigest()
        return {"kind": self.kind, "sha256": sha256, "response": self._response}

    def recorded_result(self, row: Row) -> Mapping[str, JSON] | None:
        """Return the record of a row if its answer is under `result`, as in BFCL's files, or is a list of turns.

        The returned record has the answer under `result` in both cases. None means that the record has a single answer,
        which `complete` returns.

        Raises:
            NoAnswerError: the file has no record of the row.
        """
        record = self._find(id_key(row.id))
        if record is None:
            raise NoAnswerError(f"{self._path} has no recorded answer for row {row.id}: add a record for it")

        value = record.get(self._response)

        # A list of turns, each a list of steps, is a recorded conversation.
        if self._response == "result" or (isinstance(value, list) and any(isinstance(turn, list) for turn in value)):
            return {**record, "result": value}
        return None

    def _find(self, key: bytes) -> dict[str, JSON] | None:
        """Return the first record with this key in any of the files, or None."""
        return next((record for file in self._files if (record := file.find(key)) is not None), None)


def _result_files(path: Path) -> list[Path]:
    """Return the path in a list, or the result files of BFCL at any depth if it is a folder.

    Raises:
        DataError: the folder has no result files.
    """
    if not path.is_dir():
        return [path]

    files = sorted(path.rglob(f"BFCL_v*{_BFCL_RESULT}"))
    if not files:
        advice = "give the path of a file with answers"
        raise errors.DataError(f"{path}: the folder has no BFCL result files (BFCL_v…{_BFCL_RESULT}): {advice}")
    return files


# -- the file


class _RecordPlace(NamedTuple):
    """The place of a record in the file: its line from 1, and the byte where it begins."""

    line: int
    offset: int
    has_id: bool


class RecordedFile:
    """A JSON Lines file of recorded answers, looked up by row id or by the content of the messages.

    The file is read once, line by line. Only keys and offsets stay in memory (about 200 bytes per record). A record has
    an `id`, or `messages`, or both, and at least one of the `answer_keys`.

    Raises:
        DataError: the file cannot be read, a line is not an object, a record has no key or no answer, or two records
            have the same key.
    """

    def __init__(self, path: Path, answer_keys: Sequence[str]) -> None:
        """Read the file once, remember where each record begins, and hash the content (`sha256`).

        Each record must have one of the `answer_keys`.

        Raises:
            DataError: the file is unreadable or empty, a line is not a record, or two records have the same key.
        """
        self.path = path
        self._answer_keys = answer_keys
        self._places: dict[bytes, _RecordPlace] = {}

        digest, offset = hashlib.sha256(), 0
        try:
            with open_for_reading(path) as file:
                for number, line in enumerate(lines(file), 1):
                    self._index(line, number, offset)
                    digest.update(line)
                    offset += len(line)
        except OSError as error:
            raise errors.DataError(f"the recorded answers {path} cannot be read: {error.strerror or error}") from None

        if not self._places:
            raise errors.DataError(f"{path}: the file has no recorded answers: write one JSON object per line")
        self.sha256 = digest.hexdigest()

    def find(self, key: bytes) -> dict[str, JSON] | None:
        """Return the record with this key, the first if several have the same messages; None if no record has it.

        Raises:
            ReplyError: the file has changed since it was indexed.
        """
        place = self._places.get(key)
        if place is None:
            return None

        record: JSON = None
        with contextlib.suppress(OSError), self.path.open("rb") as file:
            file.seek(place.offset)
            record = value_of(file.readline(MOST_IN_A_LINE).removeprefix(BOM_UTF8))

        # The offset may now be in the middle of another line.
        if not isinstance(record, dict) or key not in _keys(record):
            raise errors.ReplyError(f"the recorded answers {self.path} changed during the run: start a new run")
        return record

    def _index(self, line: bytes, number: int, offset: int) -> None:
        """Remember where the record in a line begins, by its id and messages; skip a blank line.

        `number` is the line's number, from 1, and `offset` the position of its first byte in the file.

        Raises:
            DataError: the line is no record, or another record has the same key.
        """
        place = f"{self.path}, line {number}"

        if not line.strip():
            return

        try:
            record = loads(line.removeprefix(BOM_UTF8) if number == 1 else line)
        except ValueError as error:
            # The end of an unfinished line is the column after its last character, not after the line feed.
            if isinstance(error, JSONDecodeError):
                place += f", column {min(error.pos, len(error.doc.rstrip())) + 1}"
            reason = error.msg if isinstance(error, JSONDecodeError) else error
            raise errors.DataError(f"{place}: the line is not JSON: {reason}; write one object on each line") from None

        if not isinstance(record, dict):
            raise errors.DataError(f"{place}: a recorded answer must be an object with an answer and an id or messages")
        if not any(key in record for key in self._answer_keys):
            raise errors.DataError(f"{place}: the record has no answer: add the key {' or '.join(self._answer_keys)}")

        current = _RecordPlace(number, offset, "id" in record)
        for key in _keys(record, place):
            first = self._places.setdefault(key, current)
            is_id = key.startswith(b"id ")
            may_share = not is_id and first.has_id and current.has_id  # the same messages, told apart by their ids

            if first is not current and not may_share:
                shared = f"the id {key[3:].decode('utf-8', 'surrogatepass')!r}" if is_id else "the same messages"
                raise errors.DataError(f"{self.path}, lines {first.line} and {number} both answer {shared}: keep one")


def _keys(record: Mapping[str, JSON], place: str = "") -> list[bytes]:
    """Return the lookup keys of a record: of its id, its messages, or both.

    Raises:
        DataError: the record has neither, or they have the wrong type. The message begins with `place`: file and line.
    """
    keys = []
    row_id, messages = record.get("id"), record.get("messages")
    if isinstance(row_id, str) or whole_number(row_id) is not None:
        keys.append(id_key(str(row_id)))
    elif row_id is not None:
        raise errors.DataError(f"{place}: the record's id must be a text or a whole number")

    if messages is not None:
        try:
            keys.append(content_key(messages))
        except TypeError as error:
            raise errors.DataError(f"{place}: the record's messages cannot be compared with a row's: {error}") from None

    if not keys:
        raise errors.DataError(f"{place}: the record has no id and no messages: add the id or the messages of its row")
    return keys


def _normalized(message: object) -> object:
    """Return a message without null values, and with a list of text parts joined to one text. Other lists stay."""
    if not isinstance(message, Mapping):
        return message

    normalized = {name: value for name, value in message.items() if value is not None}
    content = normalized.get("content")

    # Some clients send a text as a list with one part.
    if isinstance(content, list):
        parts = [part for part in content if isinstance(part, dict) and part.get("type") == "text"]
        texts = [part["text"] for part in parts if isinstance(part.get("text"), str)]
        normalized["content"] = "".join(texts) if len(texts) == len(content) else content
    return normalized
