"""Make a benchmark's definitions from its configuration, store them in a folder, and read them from it.

The folder has the GoodAI benchmark's layout: `config.yml` and `<Title>/<example>.def.json`. `made_of.json` records the
inputs of each data set's tests. It is written last, so that an interrupted run leaves no record.

A memory run calls `make_definitions`; its results folder calls `write_definitions`.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import msgspec

from tunecheck import ConfigurationError, DataError, TunecheckError
from tunecheck.plugins import (
    FORMAT_VERSION,
    JSON,
    convert_value,
    loads,
    plain,
    raise_as,
    read_as,
    read_object,
    read_regular,
    write_file,
)
from tunecheck.runs import dumps_readably
from tunecheck_memory._configuration import Configuration, DataSet
from tunecheck_memory._kind import GenerationContext, MemoryTest

SUFFIX = ".def.json"

CONFIG, RECORD = "config.yml", "made_of.json"

MAX_BYTES = 16 << 20
"""The largest accepted file; definitions with a book's chapters have less than a hundredth of this size."""

_UNSAFE = frozenset('/\\:*?"<>|\0')

_TOKENS_A_LINE = 4
"""Tokens of a message in addition to its text."""

_ADVICE = "give --regenerate to make new definitions, or --reuse to use these"

Mode = Literal["reuse", "regenerate"]


class LeftOut(msgspec.Struct, frozen=True):
    """A data set that was left out of a memory run, and the reason."""

    title: str
    reason: str


@dataclass(frozen=True)
class DefinitionSet:
    """Definitions in the configuration's order, and the data sets left out because their texts are missing."""

    definitions: tuple[MemoryTest, ...]
    left_out: tuple[LeftOut, ...] = ()


def make_definitions(
    configuration: Configuration,
    folder: Path,
    making: GenerationContext,
    *,
    mode: Mode | None = None,
    count: Callable[[str], int] | None = None,
) -> DefinitionSet:
    """Return a configuration's definitions: those stored in `folder`, or new ones, which are then stored there.

    Args:
        configuration: The data sets; each has its own seed and memory span.
        folder: The folder of the definitions.
        making: The texts and the generator model for new definitions.
        mode: None uses existing definitions, and refuses them if their record has other data sets, arguments, spans
            or seeds. "reuse" uses them without a check of the record, "regenerate" makes all definitions again. If
            there are no definitions, each mode makes them.
        count: A function that counts the tokens of a text. If given, no test may be longer than its memory span.

    Raises:
        ConfigurationError: The record is of another configuration, a data set cannot be made, or a test is too long.
        DataError: A definition cannot be read or written.
        EndpointError: The generator failed after all retries.
    """
    stored = {data_set.title: _read_stored(folder / data_set.title) for data_set in configuration.data_sets}
    lacking_texts: dict[str, str] = {}
    for data_set in _without_texts(configuration, making):
        if not stored[data_set.title]:
            advice = "give a folder of .txt or .jsonl files with --texts"
            lacking_texts[data_set.title] = f"{data_set.name} needs texts: {advice}"
    if mode == "regenerate" or not any(stored.values()):
        stored |= _make_anew(configuration, folder, making)
    elif mode is None:
        _check_record(configuration, folder, lacking_texts)
    elif missing := [title for title, tests in stored.items() if not tests and title not in lacking_texts]:
        raise ConfigurationError(f"{folder}: has no definitions of {missing[0]}; give --regenerate")
    definitions = tuple(test for tests in stored.values() for test in tests)
    if not definitions:
        reasons = "; ".join(f"{title}: {reason}" for title, reason in lacking_texts.items())
        raise ConfigurationError(f"{configuration.path}: no data set is left to run ({reasons})")
    if count is not None:
        _check_spans(configuration, definitions, count)
    return DefinitionSet(definitions, tuple(LeftOut(title, reason) for title, reason in lacking_texts.items()))


def _without_texts(configuration: Configuration, making: GenerationContext) -> list[DataSet]:
    """Return the data sets whose tests cannot be made because no texts are given."""
    return [data_set for data_set in configuration.data_sets if data_set.kind.needs_texts and making.texts is None]


def _check_spans(configuration: Configuration, definitions: Iterable[MemoryTest], count: Callable[[str], int]) -> None:
    """Raise ConfigurationError for a test that has at least as many tokens as its memory span."""
    spans = {data_set.title: data_set.memory_span for data_set in configuration.data_sets}
    for definition in definitions:
        tokens = sum(count(line) + _TOKENS_A_LINE for line in definition.script)
        if tokens >= spans[definition.title]:
            raise ConfigurationError(
                f"{configuration.path}: the test {definition.id!r} has {tokens:,} tokens and does not fit into its "
                f"memory_span of {spans[definition.title]:,} tokens; increase memory_span, or leave the data set out"
            )


def _check_record(configuration: Configuration, folder: Path, left_out: Mapping[str, str]) -> None:
    """Raise ConfigurationError if the record of stored definitions is missing, unreadable or of another configuration.

    The keys of `left_out` are the titles of data sets that are left out.
    """
    missing = f"{folder}: the record of its definitions, {RECORD}, is missing; {_ADVICE}"
    record = read_object(folder / RECORD, missing)
    record.pop("format_version", None)
    wanted = {title: recipe for title, recipe in _recipes(configuration).items() if title not in left_out}
    if difference := _difference(record, wanted):
        problem = f"its definitions were made from another configuration: {difference}"
        raise ConfigurationError(f"{folder}: {problem}; {_ADVICE}")


def _make_anew(configuration: Configuration, folder: Path, making: GenerationContext) -> dict[str, list[MemoryTest]]:
    """Make the tests of all data sets and store them in place of the old ones; return them by title.

    Data sets that lack their texts keep their old tests. All tests are made before any is deleted.
    """
    keep = {data_set.title for data_set in _without_texts(configuration, making)}
    to_make = [data_set for data_set in configuration.data_sets if data_set.title not in keep]
    new = {data_set.title: _make(data_set, configuration, making) for data_set in to_make}
    with raise_as(ConfigurationError, folder, "cannot be written"):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / RECORD).unlink(missing_ok=True)
        for old in [path for path in folder.glob("*/") if path.name not in keep]:
            for file in old.glob(f"*{SUFFIX}"):
                file.unlink()
            if not any(old.iterdir()):
                old.rmdir()
        write_definitions((test for tests in new.values() for test in tests), folder)
        recipes = {title: recipe for title, recipe in _recipes(configuration).items() if _read_stored(folder / title)}
        write_file(folder / CONFIG, configuration.text())
        write_file(folder / RECORD, dumps_readably({"format_version": FORMAT_VERSION, **recipes}))
    return {title: _read_stored(folder / title) for title in new}


def _make(data_set: DataSet, configuration: Configuration, making: GenerationContext) -> list[MemoryTest]:
    """Return the new tests of one data set.

    Raises:
        ConfigurationError: The kind's code fails, or returns anything but valid tests with distinct examples.
    """
    where = f"{configuration.path}: the data set {data_set.title!r} cannot be made"
    context = GenerationContext(data_set.seed, data_set.memory_span, making.texts, making.generator)
    try:
        tests: object = data_set.kind.definitions(data_set.examples, context)
    except TunecheckError:
        raise
    except Exception as error:  # noqa: BLE001 - a user's kind may raise anything
        raise ConfigurationError(f"{where}: {type(error).__name__}: {error}") from error
    if not isinstance(tests, (list, tuple)):
        raise ConfigurationError(f"{where}: the kind returned {tests!r:.60}, not a list of tests")
    by_example: dict[str, MemoryTest] = {}
    for test in tests:
        problem = _problem(test, data_set.title)
        if problem is None and test.example in by_example:
            problem = f"the kind made two tests with the example {test.example!r}"
        if problem is not None:
            raise ConfigurationError(f"{where}: {problem}")
        by_example[test.example] = test
    return [*by_example.values()]


def _problem(test: object, title: str) -> str | None:
    """Return what is wrong with a test that a kind test, as a part of a sentence, or None if it is valid."""
    if not isinstance(test, MemoryTest):
        return f"the kind returned {test!r:.60}, not a MemoryTest"
    if test.title != title:
        return f"the kind made a test with the title {test.title!r}, not {title!r}"
    try:
        plain([*test.expected])
        convert_value(msgspec.to_builtins(test), MemoryTest)
    except (TypeError, ValueError, AttributeError) as error:
        return f"the test {test.example!r} cannot be written as JSON: {error}"
    return None


def _recipes(configuration: Configuration) -> dict[str, JSON]:
    return {data_set.title: data_set.recipe() for data_set in configuration.data_sets}


def _difference(stored: dict[str, JSON], wanted: dict[str, JSON]) -> str | None:
    """Return the first difference of the stored record from the wanted one as a sentence; None if they are equal."""
    for title in dict.fromkeys([*wanted, *stored]):
        old, new = stored.get(title), wanted.get(title)
        if new is None or old is None:
            return f"{title} is {'not in this configuration' if new is None else 'new'}"
        if not isinstance(old, dict) or not isinstance(new, dict):
            return f"{title} is unreadable"
        for key in dict.fromkeys([*new, *old]):
            if old.get(key) != new.get(key):
                return f"{title} was made with {key} {_value_text(old.get(key))}, not {_value_text(new.get(key))}"
    return None


def _value_text(value: JSON) -> str:
    """Return a value of a record for a message; arguments as `key: value`, and "none" without arguments."""
    if isinstance(value, dict):
        return ", ".join(f"{key}: {item}" for key, item in value.items()) or "none"
    return str(value)


def _read_stored(folder: Path) -> list[MemoryTest]:
    return [read_definition(file) for file in sorted(folder.glob(f"*{SUFFIX}"))]


def read_definition(file: Path | str) -> MemoryTest:
    """Read a test's definition from its file; the names of its folder and file are title and example.

    Raises:
        DataError: The file cannot be read, or is no definition; the message names file and key.
    """
    path = Path(file)
    with raise_as(DataError, path):
        raw = read_regular(path, MAX_BYTES)
    try:
        content = loads(raw)
    except ValueError as error:
        raise DataError(f"{path}: not JSON: {error}") from None
    if isinstance(content, dict):
        content |= {"title": path.parent.name, "example": path.name.removesuffix(SUFFIX)}
    return read_as(content, MemoryTest, str(path), error=DataError)


def write_definitions(definitions: Iterable[MemoryTest], folder: Path | str) -> list[Path]:
    """Write each definition to its file in a folder, over any old one; return the files.

    Raises:
        DataError: A title or an example cannot be a file name, or a file cannot be written.
    """
    paths = []
    for definition in definitions:
        path = definition_path(folder, definition)
        with raise_as(DataError, path, "cannot be written"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(dumps_readably(definition_data(definition)))
        paths.append(path)
    return paths


def definition_path(folder: Path | str, definition: MemoryTest) -> Path:
    """Return the path of a definition's file below this folder.

    Raises:
        DataError: Its title or example cannot be a file name.
    """
    for name in (definition.title, definition.example):
        if not name.strip(". ") or _UNSAFE & set(name):
            raise DataError(f"{definition.id!r}: {name!r} cannot be a file name: choose another name")
    return Path(folder) / definition.title / f"{definition.example}{SUFFIX}"


def definition_data(definition: MemoryTest) -> dict[str, JSON]:
    """Return a definition in the form of its file."""
    return {name: value for name, value in msgspec.to_builtins(definition).items() if name not in ("title", "example")}


def safe_name(text: str) -> str:
    """Replace the characters of a text that file names cannot contain."""
    name = "".join("_" if letter in _UNSAFE or not letter.isprintable() else letter for letter in text)
    return name.strip(". ") or "run"
