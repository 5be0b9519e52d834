"""A JSON Lines file of recorded answers, looked up by row id or by the content of the messages.

The file is read once, line by line, and only the keys and the offset of each record are kept (about 200 bytes a
record). A record is read again when it is asked for, so that large answers do not fill the memory.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO, NamedTuple

from tunecheck._errors import DataError, ReplyError
from tunecheck._json import JSON, canonical, loads, value_of, whole_number

MAX_LINE_BYTES = 64 << 20
"""Longest record that is read."""

_BOM = b"\xef\xbb\xbf"
_LARGEST_ID = 10**300


class NoAnswerError(ReplyError):
    """Nothing is recorded for what was asked."""


def id_key(row_id: str) -> bytes:
    """The lookup key of a row id."""
    return b"id " + row_id.encode("utf-8", "surrogatepass")


def content_key(messages: object) -> bytes:
    """The lookup key of messages; absent and None-valued keys are equal, as are a text and its parts.

    Raises:
        TypeError: the messages have no JSON form.
    """
    plain = [_essence(message) for message in messages] if isinstance(messages, (list, tuple)) else messages
    return b"messages " + hashlib.blake2b(canonical(plain), digest_size=16).digest()


class _Place(NamedTuple):
    """Where a record stands; `has_id`: the record has an `id`."""

    line: int
    offset: int
    has_id: bool


class RecordedFile:
    """Recorded answers by key.

    A record has an `id`, or `messages`, or both, and at least one of the `answer_keys`. `sha256` is that of the file's
    bytes; `records` counts its records.

    Raises:
        DataError: the file cannot be read, a line is not an object, a record has no key or no answer, or
            two records answer the same.
    """

    def __init__(self, path: Path, answer_keys: Sequence[str]) -> None:
        self.path = path
        self._answer_keys = answer_keys
        self.records = 0
        try:
            self._file: BinaryIO = path.open("rb")
        except OSError as error:
            raise DataError(f"{path}: recorded answers cannot be read: {error.strerror or error}") from None
        self._places: dict[bytes, _Place] = {}
        try:
            self.sha256 = self._index()
        except BaseException:  # noqa: BLE001 - nobody else closes a file whose owner was not made
            self._file.close()
            raise

    def find(self, key: bytes) -> dict[str, JSON] | None:
        """Return the record with this key, the first one if several answer the same messages.

        Raises:
            ReplyError: the file has changed since it was opened.
        """
        place = self._places.get(key)
        if place is None:
            return None
        self._file.seek(place.offset)
        record = value_of(self._file.readline(MAX_LINE_BYTES).removeprefix(_BOM))
        if not isinstance(record, dict) or key not in _keys(record):
            raise ReplyError(f"{self.path}: the recorded answers have changed since they were opened; start again")
        return record

    def close(self) -> None:
        self._file.close()

    def _index(self) -> str:
        digest = hashlib.sha256()
        for number, offset, line in self._lines():
            digest.update(line)
            if line.strip():
                record = self._parsed(line, number)
                place = _Place(number, offset, "id" in record)
                for key in _keys(record, self._where(number)):
                    self._add(key, place)
                self.records += 1
        if not self.records:
            raise DataError(f"{self.path}: holds no recorded answers")
        return digest.hexdigest()

    def _add(self, key: bytes, place: _Place) -> None:
        first = self._places.setdefault(key, place)
        by_id = key.startswith(b"id ")
        # Rows may share their messages as long as their ids tell them apart.
        if first is not place and (by_id or not (first.has_id and place.has_id)):
            what = f"the id {key[3:].decode('utf-8', 'surrogatepass')!r}" if by_id else "the same messages"
            raise DataError(f"{self.path}, lines {first.line} and {place.line}: both answer {what}; keep one of them")

    def _lines(self) -> Iterator[tuple[int, int, bytes]]:
        self._file.seek(0)
        offset = number = 0
        while line := self._file.readline(MAX_LINE_BYTES + 1):
            number += 1
            if len(line) > MAX_LINE_BYTES:
                raise DataError(f"{self._where(number)}: longer than {MAX_LINE_BYTES >> 20} MiB")
            yield number, offset, line
            offset += len(line)

    def _parsed(self, line: bytes, number: int) -> dict[str, JSON]:
        try:
            record = loads(line.removeprefix(_BOM) if number == 1 else line)
        except ValueError as error:
            raise DataError(f"{self._where(number)}: not JSON: {error}; each line must be one object") from None
        if not isinstance(record, dict):
            raise DataError(
                f"{self._where(number)}: each line must be one object, with an id or messages and an answer"
            )
        if not any(key in record for key in self._answer_keys):
            raise DataError(f"{self._where(number)}: holds no answer: none of {', '.join(self._answer_keys)}")
        return record

    def _where(self, number: int) -> str:
        return f"{self.path}, line {number}"


def _keys(record: Mapping[str, JSON], where: str = "") -> list[bytes]:
    keys = []
    row_id, messages = record.get("id"), record.get("messages")
    number = whole_number(row_id)
    if isinstance(row_id, str) or (number is not None and abs(number) < _LARGEST_ID):
        keys.append(id_key(str(row_id)))
    elif row_id is not None:
        raise DataError(f"{where}: the id must be text or a whole number")
    if messages is not None:
        try:
            keys.append(content_key(messages))
        except TypeError as error:
            raise DataError(f"{where}: messages: {error}") from None
    if not keys:
        raise DataError(f"{where}: has neither an id nor messages, so what it answers is unknown")
    return keys


def _essence(message: object) -> object:
    if not isinstance(message, Mapping):
        return message
    essence = {name: value for name, value in message.items() if value is not None}
    content = essence.get("content")
    if isinstance(content, list):
        parts = [part for part in content if isinstance(part, dict) and part.get("type") == "text"]
        texts = [part["text"] for part in parts if isinstance(part.get("text"), str)]
        essence["content"] = "".join(texts) if len(texts) == len(content) else content
    return essence
