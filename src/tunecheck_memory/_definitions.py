"""Definition files: `<benchmark>/definitions/<Title>/<example>.def.json`, as the GoodAI benchmark lays them out."""

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from tunecheck import DataError
from tunecheck.plugins import JSON, Written, loads, read_as, told_as
from tunecheck_memory._model import Definition, Wait

SUFFIX = ".def.json"

MAX_BYTES = 16 << 20
"""Largest file that is read; those with a book's chapters have less than a hundredth of it."""

MAX_TOKENS = 1_000_000_000
MAX_SECONDS = 100 * 366 * 86_400
MAX_PERCENTAGE = 1_000_000

_UNSAFE = frozenset('/\\:*?"<>|\0')


def safe_name(text: str) -> str:
    """The text with what no file name may hold replaced."""
    name = "".join("_" if letter in _UNSAFE or not letter.isprintable() else letter for letter in text)
    return name.strip(". ") or "run"


_SHARE = Meta(ge=0, le=MAX_PERCENTAGE)


class _Wait(Written, frozen=True, omit_defaults=True):
    tokens: Annotated[float, Meta(ge=0, le=MAX_TOKENS)] | None = None
    time: Annotated[float, Meta(ge=0, le=MAX_SECONDS)] | None = None
    # As given: the hash that a run is resumed by tells 90 from 90.0.
    percentage_finished: Annotated[int, _SHARE] | Annotated[float, _SHARE] | None = None


class _File(msgspec.Struct, frozen=True):
    """The benchmark's own definitions have other keys beside these."""

    script: list[str] | None = None
    is_question: list[bool] | None = None
    waits: list[_Wait] | None = None
    expected_responses: list[Any] | None = None
    can_be_interleaved: bool = True
    is_temporal: bool = False
    uses_callback: bool = False


def read_definition(file: Path | str) -> Definition:
    """The definition of one file; folder and name say which test it is.

    Raises:
        DataError: it cannot be read, or is not a definition; names file and key.
    """
    path = Path(file)
    content = read_as(_content(path), _File, str(path), error=DataError)
    questions = tuple(content.is_question or ())
    waits = tuple(
        Wait(round(wait.tokens or 0), round(wait.time or 0), wait.percentage_finished or 0)
        for wait in content.waits or ()
    )
    definition = Definition(
        title=path.parent.name,
        example=path.name.removesuffix(SUFFIX),
        script=tuple(content.script or ()),
        is_question=questions,
        waits=waits or default_waits(len(questions)),
        expected=content.expected_responses or [],
        can_be_interleaved=content.can_be_interleaved,
        is_temporal=content.is_temporal,
        uses_callback=content.uses_callback,
    )
    lines, marked, waited = len(definition.script), len(questions), len(definition.waits)
    if marked != waited:
        raise DataError(f"{path}: {marked} entries in is_question, {waited} in waits")
    if marked != lines and not (definition.is_temporal and marked == lines + 1):
        raise DataError(f"{path}: {lines} entries in script, {marked} in is_question")
    return definition


def _content(path: Path) -> JSON:
    with told_as(DataError, path), path.open("rb") as opened:
        raw = opened.read(MAX_BYTES + 1)
    if len(raw) > MAX_BYTES:
        raise DataError(f"{path}: larger than {MAX_BYTES >> 20} MiB, which no definition should be")
    try:
        return loads(raw)
    except ValueError as error:
        raise DataError(f"{path}: not JSON: {error}") from None


def default_waits(lines: int) -> tuple[Wait, ...]:
    """Waits that spread so many lines evenly over the first nine tenths of the memory span; none after the last."""
    share = 90 / (lines - 1) if lines > 1 else 0
    return tuple(Wait(percentage=(line + 1) * share) for line in range(lines - 1)) + (Wait(),) * (lines > 0)


def write_definitions(definitions: Iterable[Definition], folder: Path | str) -> list[Path]:
    """Write each to its file below a folder in which nobody reads yet; gives the files.

    Raises:
        DataError: a title or an example's name cannot be a file's name, or a file cannot be written.
    """
    from tunecheck.runs import dumps_readably

    paths = []
    for definition in definitions:
        path = definition_path(folder, definition)
        with told_as(DataError, path, "cannot be written"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(dumps_readably(definition_data(definition)))
        paths.append(path)
    return paths


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
    waits = [_Wait(wait.tokens or None, wait.seconds or None, wait.percentage or None) for wait in definition.waits]
    return {
        "script": list(definition.script),
        "is_question": list(definition.is_question),
        "waits": msgspec.to_builtins(waits),
        "expected_responses": list(definition.expected),
        "can_be_interleaved": definition.can_be_interleaved,
        "is_temporal": definition.is_temporal,
        "uses_callback": definition.uses_callback,
    }
