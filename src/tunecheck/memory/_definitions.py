"""Definition files: `<benchmark>/definitions/<Title>/<example>.def.json`, as the GoodAI benchmark lays them out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from tunecheck._errors import DataError
from tunecheck._json import JSON, loads
from tunecheck.memory._model import Definition, Wait

SUFFIX = ".def.json"

MAX_BYTES = 16 << 20
"""Largest file that is read; those with a book's chapters have less than a hundredth of it."""

MAX_TOKENS = 1_000_000_000
MAX_SECONDS = 100 * 366 * 86_400
MAX_PERCENTAGE = 1_000_000.0

_UNSAFE = frozenset('/\\:*?"<>|\0')


def read_definitions(folder: Path | str) -> list[Definition]:
    """All definitions of a benchmark's folder `definitions`, sorted by id.

    Raises:
        DataError: it holds none, or one of them cannot be read; names the file.
    """
    place = Path(folder)
    try:
        files = [file for file in place.glob(f"*/*{SUFFIX}") if file.is_file()]
    except OSError as error:
        raise DataError(f"{place}: cannot be read: {error.strerror or error}") from None
    if not files:
        raise DataError(f"{place}: holds no definitions, such as Colours/0{SUFFIX}")
    return sorted(map(read_definition, files), key=lambda definition: definition.id)


def read_definition(file: Path | str) -> Definition:
    """The definition of one file; folder and name say which test it is.

    Raises:
        DataError: it cannot be read, or is no definition; names file and key.
    """
    path = Path(file)
    return _Reader(str(path), _content(path)).definition(path.parent.name, path.name.removesuffix(SUFFIX))


def _content(path: Path) -> Mapping[str, JSON]:
    try:
        with path.open("rb") as opened:
            raw = opened.read(MAX_BYTES + 1)
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror or error}") from None
    if len(raw) > MAX_BYTES:
        raise DataError(f"{path}: larger than {MAX_BYTES >> 20} MiB, which no definition should be")
    try:
        value = loads(raw)
    except ValueError as error:
        raise DataError(f"{path}: not JSON: {error}") from None
    if not isinstance(value, dict):
        raise DataError(f"{path}: a definition is one JSON object")
    return value


class _Reader:
    """Reads the keys of one file."""

    def __init__(self, name: str, content: Mapping[str, JSON]) -> None:
        self._name = name
        self._content = content

    def definition(self, title: str, example: str) -> Definition:
        script = tuple(self._text(line, f"script[{place}]") for place, line in enumerate(self._list("script")))
        is_question = tuple(
            self._flag(value, f"is_question[{place}]") for place, value in enumerate(self._list("is_question"))
        )
        waits = tuple(self._wait(value, f"waits[{place}]") for place, value in enumerate(self._list("waits")))
        definition = Definition(
            title,
            example,
            script,
            is_question,
            waits or default_waits(len(is_question)),
            self._list("expected_responses"),
            can_be_interleaved=self._flag(self._content.get("can_be_interleaved", True), "can_be_interleaved"),
            is_temporal=self._flag(self._content.get("is_temporal", False), "is_temporal"),
            uses_callback=self._flag(self._content.get("uses_callback", False), "uses_callback"),
        )
        self._check_lengths(definition)
        return definition

    def _check_lengths(self, definition: Definition) -> None:
        lines, questions, waits = len(definition.script), len(definition.is_question), len(definition.waits)
        if questions != waits:
            raise DataError(f"{self._name}: {questions} entries in is_question, {waits} in waits")
        if questions != lines and not (definition.is_temporal and questions == lines + 1):
            raise DataError(f"{self._name}: {lines} entries in script, {questions} in is_question")

    def _list(self, key: str) -> Sequence[JSON]:
        value = self._content.get(key)
        if value is None:
            return []
        if not isinstance(value, list):
            raise DataError(f"{self._name}: {key} must be a list")
        return value

    def _text(self, value: JSON, where: str) -> str:
        if not isinstance(value, str):
            raise DataError(f"{self._name}: {where} must be a text")
        return value

    def _flag(self, value: JSON, where: str) -> bool:
        if not isinstance(value, bool):
            raise DataError(f"{self._name}: {where} must be true or false")
        return value

    def _wait(self, value: JSON, where: str) -> Wait:
        if not isinstance(value, dict):
            raise DataError(f"{self._name}: {where} must be an object with tokens, time or percentage_finished")
        for key in value:
            if key not in ("tokens", "time", "percentage_finished"):
                raise DataError(f"{self._name}: {where}.{key} is none of tokens, time (seconds), percentage_finished")
        return Wait(
            tokens=round(self._number(value.get("tokens"), MAX_TOKENS, f"{where}.tokens")),
            seconds=round(self._number(value.get("time"), MAX_SECONDS, f"{where}.time")),
            percentage=self._number(value.get("percentage_finished"), MAX_PERCENTAGE, f"{where}.percentage_finished"),
        )

    def _number(self, value: JSON, most: float, where: str) -> float:
        if value is None:
            return 0
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= most:
            raise DataError(f"{self._name}: {where} must be a number from 0 to {most:,.0f}")
        return value


def default_waits(lines: int) -> tuple[Wait, ...]:
    """Waits that spread so many lines evenly over the first nine tenths of the memory span; none after the last."""
    share = 90 / (lines - 1) if lines > 1 else 0
    return tuple(Wait(percentage=(line + 1) * share) for line in range(lines - 1)) + (Wait(),) * (lines > 0)


def write_definitions(definitions: Iterable[Definition], folder: Path | str) -> list[Path]:
    """Write each to its file below the folder; gives the files.

    Raises:
        DataError: a title or an example's name cannot be a file's name, or a file cannot be written.
    """
    return [write_definition(definition, folder) for definition in definitions]


def write_definition(definition: Definition, folder: Path | str) -> Path:
    """Write one to its file below the folder; gives the file.

    Raises:
        DataError: as `write_definitions`.
    """
    from tunecheck.runs._store import dumps_readably, write_file

    path = definition_path(folder, definition)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_file(path, dumps_readably(definition_data(definition)), synced=False)
    except OSError as error:
        raise DataError(f"{path}: cannot be written: {error.strerror or error}") from None
    return path


def definition_path(folder: Path | str, definition: Definition) -> Path:
    """Where a definition's file stands below the folder `definitions`.

    Raises:
        DataError: its title or example cannot be a file's name.
    """
    for name in (definition.title, definition.example):
        if not name.strip(". ") or _UNSAFE & set(name):
            raise DataError(f"{definition.id!r}: {name!r} cannot be the name of a file")
    return Path(folder) / definition.title / f"{definition.example}{SUFFIX}"


def definition_data(definition: Definition) -> dict[str, JSON]:
    """What a definition's file holds; a wait says only what it waits for."""
    return {
        "script": list(definition.script),
        "is_question": list(definition.is_question),
        "waits": [_wait_data(wait) for wait in definition.waits],
        "expected_responses": list(definition.expected),
        "can_be_interleaved": definition.can_be_interleaved,
        "is_temporal": definition.is_temporal,
        "uses_callback": definition.uses_callback,
    }


def _wait_data(wait: Wait) -> dict[str, JSON]:
    entries: dict[str, JSON] = {
        "tokens": wait.tokens,
        "time": wait.seconds,
        "percentage_finished": wait.percentage,
    }
    return {key: value for key, value in entries.items() if value}
