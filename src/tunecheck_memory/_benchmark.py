"""A benchmark: its configuration, and the definitions of its tests, which are made, stored and read.

The configuration is one of the published YAML files of the GoodAI benchmark, or your own:

config:
  run_name: Benchmark 3 - 32k       # name of the benchmark's folder; by default the file's name
  incompatibilities: [[names, name_list]]
datasets:
  args: {memory_span: 32000, dataset_examples: 3, seed: 0}      # for all data sets
  datasets:
    - name: colours                 # or the path of a Python file: kinds/haiku.py
      args: {colour_changes: 3}     # overrides the values for all data sets

The folder of definitions has the GoodAI benchmark's layout: `config.yml` and `<Title>/<example>.def.json`.
`made_of.json` records the inputs of each data set's tests. It is written last, so that an interrupted run leaves no
record. A memory run calls `make_definitions`; its results folder calls `write_definitions`.

Definitions are used again or made, in this order of rules:

1. If the folder has no definitions, or with `regenerate`, all are made anew.
2. Without a mode, the stored ones are used if `made_of.json` has the configuration's data sets, arguments, spans and
   seeds; else the run is refused.
3. With `reuse`, the stored ones are used whatever the record says; each data set must have some.

Without `--texts`, a data set that needs texts keeps its stored definitions, and is left out if it has none. With
`reuse`, data sets whose tests ask a judge are left out if they have none.
"""

import contextlib
import hashlib
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from itertools import combinations
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from tunecheck import ConfigurationError, DataError, TunecheckError, plugins
from tunecheck.plugins import FORMAT_VERSION, JSON, Trust, Written, did_you_mean, dumps, raise_as, read_as
from tunecheck.runs import dumps_readably
from tunecheck_memory._kind import GenerationContext, Kind, MemoryTest, conflicts, is_kind_file, kind_class, make_kind
from tunecheck_memory._tokens import MESSAGE_TOKENS


def _is_file_name(text: str) -> bool:
    """Return whether a file can have this name on any system: "Benchmark 3 - 32k", but not "32k/2"."""
    return bool(text.strip(". ")) and re.fullmatch(r"[^/\\:*?\"<>|\0\n\r\t]{1,120}", text) is not None


class DataSet(msgspec.Struct, frozen=True):
    """A data set of a configuration: tests of one kind.

    `name` is the data set's name in the file. `sha256` is the hash of the kind's Python file, if the user wrote one.
    """

    name: str
    kind: Kind
    examples: int
    memory_span: int
    seed: int
    sha256: str | None = None

    @property
    def title(self) -> str:
        """The title of its kind, which is unique in a configuration."""
        return self.kind.title

    def recipe(self) -> dict[str, JSON]:
        """Return everything that determines the data set's tests, for `made_of.json`."""
        recipe: dict[str, JSON] = {} if self.sha256 is None else {"sha256": self.sha256}
        recipe |= {"name": self.name, "args": dict(self.kind.arguments), "dataset_examples": self.examples}
        return recipe | {"memory_span": self.memory_span, "seed": self.seed}


class Configuration(msgspec.Struct, frozen=True):
    """A benchmark's configuration. `memory_span` is in tokens; a data set may have its own.

    `incompatibilities` are sets of titles: tests of two titles in a set never overlap. `isolated` is a setting of this
    package; published configurations lack it.
    """

    path: Path
    run_name: str
    memory_span: int
    seed: int
    data_sets: tuple[DataSet, ...]
    incompatibilities: tuple[frozenset[str], ...] = ()
    isolated: bool = False

    def settings(self) -> dict[str, JSON]:
        """Return the configuration as the data of a file that the GoodAI benchmark can read.

        Kinds with a common topic become incompatible by name, because the GoodAI benchmark has no topics.
        """
        names = {each.title: each.name for each in self.data_sets}
        blocked = conflicts([each.kind for each in self.data_sets], self.incompatibilities, by_topics=True)
        pairs: list[JSON] = [
            [names[first], names[second]] for first, second in combinations(names, 2) if second in blocked[first]
        ]

        # Each data set states its span and seed, so the section for all data sets decides nothing.
        data_sets: list[JSON] = []
        for each in self.data_sets:
            settings = {"dataset_examples": each.examples, "memory_span": each.memory_span, "seed": each.seed}
            data_sets.append({"name": each.name, "args": {**each.kind.arguments, **settings}})

        return {
            "config": {"run_name": self.run_name, "incompatibilities": pairs, "isolated": self.isolated},
            "datasets": {"args": {"memory_span": self.memory_span, "seed": self.seed}, "datasets": data_sets},
        }

    def text(self) -> bytes:
        """Return the configuration as a YAML file."""
        import yaml

        text: bytes = yaml.safe_dump(self.settings(), sort_keys=False, allow_unicode=True, width=120, encoding="utf-8")
        return text


def read_configuration(path: Path | str, *, seed: int | None = None, trust: Trust | None = None) -> Configuration:
    """Read a configuration file; `seed` takes precedence over the file's seed.

    `trust` decides which Python files of kinds may load; by default all. Their paths are relative to the configuration.
    Other names refer to installed kinds, or to kinds in the workspace's `memory/`.

    Raises:
        ConfigurationError: The file is unreadable, or a key, name or argument is wrong; the message names the line.
    """
    document, path = plugins.read_yaml(path), Path(path)
    file = read_as(document.value, ConfigurationFile, document.where)
    config, shared = file.config or _Config(), file.datasets.args or {}

    run_name = (path.stem if config.run_name is None else config.run_name).strip()
    if not _is_file_name(run_name):
        problem = "run_name must be a folder's name: not blank, at most 120 characters, none of /\\:*?\"<>|"
        raise ConfigurationError(f"{document.where('config', 'run_name')}: {problem}")

    common = read_as(shared, _CommonArguments, document.where, above="datasets.args")
    data_sets: dict[str, DataSet] = {}
    for index, entry in enumerate(file.datasets.datasets):
        with _errors_at(document.where("datasets", "datasets", index)):
            data_set = _read_data_set(entry, path.parent, shared, seed, trust)
            if data_set.title in data_sets:
                raise ConfigurationError(f"the data set {data_set.title!r} is listed twice; list it once")
            data_sets[data_set.title] = data_set

    known = {*COMMON_ARGUMENTS, *(name for each in data_sets.values() for name in each.kind.argument_names())}
    if unknown := next((name for name in shared if name not in known), None):
        problem = f"no data set of this file has an argument {unknown!r}{did_you_mean(unknown, known)}"
        raise ConfigurationError(f"{document.where('datasets', 'args', unknown)}: {problem}")

    # A set of incompatibilities may also name kinds that this configuration does not use.
    titles = {data_set.name: title for title, data_set in data_sets.items()}
    with _errors_at(document.where("config", "incompatibilities")):
        incompatibilities = tuple(
            frozenset(titles.get(name) or kind_class(name, folder=path.parent, trust=trust).title for name in names)
            for names in config.incompatibilities or ()
        )
    return Configuration(
        path=path,
        run_name=run_name,
        memory_span=common.memory_span,
        seed=common.seed if seed is None else seed,
        data_sets=tuple(data_sets.values()),
        incompatibilities=incompatibilities,
        isolated=config.isolated,
    )


class _CommonArguments(msgspec.Struct, frozen=True):
    """The arguments that every data set has: the number of its tests, its span in tokens, and its seed."""

    dataset_examples: Annotated[int, Meta(ge=1, le=10_000)] = 1
    memory_span: Annotated[int, Meta(ge=1, le=1_000_000_000)] = 32_000
    seed: Annotated[int, Meta(ge=1 - 2**63, le=2**63 - 1)] = 0


COMMON_ARGUMENTS = _CommonArguments.__struct_fields__


class _Config(Written, frozen=True):
    run_name: str | None = None
    debug: bool = False
    incompatibilities: list[list[str]] | None = None
    isolated: bool = False


class _DataSetEntry(Written, frozen=True):
    name: str
    args: dict[str, Any] | None = None


class _DataSets(Written, frozen=True):
    datasets: Annotated[list[_DataSetEntry], Meta(min_length=1)]
    args: dict[str, Any] | None = None


class ConfigurationFile(Written, frozen=True):
    """The content of a configuration file."""

    datasets: _DataSets
    config: _Config | None = None


@contextlib.contextmanager
def _errors_at(place: str) -> Iterator[None]:
    """Put a place of the file before the text of a ConfigurationError from this block."""
    try:
        yield
    except ConfigurationError as error:
        error.args = (f"{place}: {error}",)
        raise


def _read_data_set(
    entry: _DataSetEntry, folder: Path, shared: Mapping[str, JSON], seed: int | None, trust: Trust | None
) -> DataSet:
    """Return a data set with its own arguments, and those for all data sets (`shared`) that its kind accepts.

    `seed` replaces the file's seed if it is given.

    Raises:
        ConfigurationError: There is no such kind, or an argument is wrong.
    """
    kind = kind_class(entry.name, folder=folder, trust=trust)
    # Arguments for all data sets reach only kinds that have them; the data set's own are never dropped.
    own = entry.args or {}
    args, accepted = {**shared, **own}, {*kind.argument_names(), *own}
    common = read_as(args, _CommonArguments, "args")
    arguments = {name: args[name] for name in args if name in accepted and name not in COMMON_ARGUMENTS}

    file = folder / entry.name
    sha256 = hashlib.sha256(file.read_bytes()).hexdigest() if is_kind_file(entry.name) else None
    made = make_kind(kind, arguments)
    own_seed = common.seed if seed is None else seed
    return DataSet(entry.name, made, common.dataset_examples, common.memory_span, own_seed, sha256)


SUFFIX = ".def.json"

CONFIG, RECORD = "config.yml", "made_of.json"

_REUSE = ", or --reuse to use the existing ones"

Mode = Literal["reuse", "regenerate"]


class LeftOut(msgspec.Struct, frozen=True):
    """A data set that was left out of a memory run, and the reason."""

    title: str
    reason: str


class DefinitionSet(msgspec.Struct, frozen=True):
    """Definitions in the configuration's order, and the data sets left out because they lack texts or a judge."""

    definitions: tuple[MemoryTest, ...]
    left_out: tuple[LeftOut, ...] = ()


def definition_set(configuration: Configuration, definitions: Iterable[MemoryTest]) -> DefinitionSet:
    """Return these definitions; the data sets of the configuration that have none are left out."""
    known = tuple(definitions)
    titles = {definition.title for definition in known}
    absent = [data_set for data_set in configuration.data_sets if data_set.title not in titles]
    return DefinitionSet(known, tuple(LeftOut(each.title, _absence(each.kind)) for each in absent))


def _absence(kind: Kind) -> str:
    """Return why a run has no tests of a kind, and what a new run needs for them."""
    if kind.needs_texts:
        return f"{kind.name} needs texts; give a folder of .jsonl files with --texts"
    return "the tests ask a judge while they run; start a run with --judge"


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
    lacking = {each.title for each in _without_texts(configuration, making)}
    if mode == "reuse":  # a run without a judge has none of these tests, also when it is resumed with one
        lacking |= {each.title for each in configuration.data_sets if each.kind.consults}
    left_out = {title for title in lacking if not stored[title]}
    missing = [title for title, tests in stored.items() if not tests and title not in left_out]

    if mode == "regenerate" or not any(stored.values()):
        stored |= _make_anew(configuration, folder, making)
    elif mode is None:
        _check_record(configuration, folder, left_out, "" if missing else _REUSE)
    elif missing:
        raise ConfigurationError(f"{folder}: data set {missing[0]!r} has no definitions; make them with --regenerate")

    suite = definition_set(configuration, (test for tests in stored.values() for test in tests))
    if count is not None:
        _check_spans(configuration, suite.definitions, count)
    return suite


def _without_texts(configuration: Configuration, making: GenerationContext) -> list[DataSet]:
    """Return the data sets whose tests cannot be made because no texts are given."""
    return [data_set for data_set in configuration.data_sets if data_set.kind.needs_texts and making.texts is None]


def _check_spans(configuration: Configuration, definitions: Iterable[MemoryTest], count: Callable[[str], int]) -> None:
    """Raise ConfigurationError for a test that has at least as many tokens as its memory span.

    `count` counts the tokens of a text.
    """
    spans = {data_set.title: data_set.memory_span for data_set in configuration.data_sets}
    for definition in definitions:
        # Replies and filler come on top: such a test could never end within its span.
        tokens = sum(count(line) + MESSAGE_TOKENS for line in definition.script)
        if tokens >= spans[definition.title]:
            raise ConfigurationError(
                f"{configuration.path}: the test {definition.id!r} has {tokens:,} tokens and does not fit into its "
                f"memory_span of {spans[definition.title]:,} tokens; increase memory_span, or leave the data set out"
            )


def _check_record(configuration: Configuration, folder: Path, left_out: Collection[str], reuse: str) -> None:
    """Raise ConfigurationError if the record of stored definitions is missing, unreadable or of another configuration.

    `left_out` holds the titles of data sets that are left out. `reuse` ends the advice of the errors.
    """
    advice = f"give --regenerate to make new definitions{reuse}"
    missing = f"{folder}: {RECORD}, the record of the definitions, is missing; {advice}"
    record = plugins.read_object(folder / RECORD, missing)
    record.pop("format_version", None)
    wanted = {title: recipe for title, recipe in _recipes(configuration).items() if title not in left_out}

    if difference := _difference(record, wanted):
        raise ConfigurationError(
            f"{folder}: the definitions were made from another configuration ({difference}); {advice}"
        )


def _make_anew(configuration: Configuration, folder: Path, making: GenerationContext) -> dict[str, list[MemoryTest]]:
    """Make the tests of all data sets and store them in place of the old ones; return them by title.

    Data sets that lack their texts keep their old tests. All tests are made before any is deleted.
    """
    keep = {data_set.title for data_set in _without_texts(configuration, making)}
    new = {each.title: _make(each, configuration, making) for each in configuration.data_sets if each.title not in keep}

    with raise_as(ConfigurationError, folder, "cannot be written"):
        folder.mkdir(parents=True, exist_ok=True)
        # The record is deleted first and written last: an interrupted run leaves definitions without a record.
        (folder / RECORD).unlink(missing_ok=True)
        for old_folder in [path for path in folder.glob("*/") if path.name not in keep]:
            for file in old_folder.glob(f"*{SUFFIX}"):
                file.unlink()
            if not any(old_folder.iterdir()):
                old_folder.rmdir()

        write_definitions((test for tests in new.values() for test in tests), folder)
        # Read back in the order of the files, which later runs get, too.
        stored = {data_set.title: _read_stored(folder / data_set.title) for data_set in configuration.data_sets}
        recipes = {title: recipe for title, recipe in _recipes(configuration).items() if stored[title]}
        plugins.write_file(folder / CONFIG, configuration.text())
        plugins.write_file(folder / RECORD, dumps_readably({"format_version": FORMAT_VERSION, **recipes}))

    return {title: stored[title] for title in new}


def _make(data_set: DataSet, configuration: Configuration, making: GenerationContext) -> list[MemoryTest]:
    """Return the new tests of one data set.

    Raises:
        ConfigurationError: The kind's code fails, or returns anything but valid tests with distinct examples.
        TunecheckError: The kind raised this error itself, for example because a call to the generator failed.
    """
    kind_place = f"{configuration.path}: the kind of the data set {data_set.title!r}"
    context = GenerationContext(data_set.seed, data_set.memory_span, making.texts, making.generator)
    try:
        made = data_set.kind.definitions(data_set.examples, context)
    except TunecheckError:
        raise
    except Exception as error:  # noqa: BLE001 - a user's kind may raise anything
        raise ConfigurationError(f"{kind_place}: definitions() failed: {type(error).__name__}: {error}") from error

    try:
        tests = plugins.convert_value(msgspec.to_builtins(made), list[MemoryTest])
        plugins.plain([test.expected for test in made])  # msgspec would write sets and dates as JSON
    except (AttributeError, TypeError, ValueError) as error:
        raise ConfigurationError(f"{kind_place}: definitions() returned no list of valid tests: {error}") from error

    for test in tests:
        if test.title != data_set.title:
            raise ConfigurationError(
                f"{kind_place}: definitions() made a test with the title {test.title!r}; use the kind's title"
            )
    if len({test.example for test in tests}) < len(tests):
        raise ConfigurationError(f"{kind_place}: definitions() made two tests with the same example; number the tests")
    return tests


def _recipes(configuration: Configuration) -> dict[str, JSON]:
    """Return the inputs of each data set's tests by its title."""
    return {data_set.title: data_set.recipe() for data_set in configuration.data_sets}


def _difference(stored: dict[str, JSON], wanted: dict[str, JSON]) -> str | None:
    """Return the first difference of the stored record from the wanted one as a sentence; None if they are equal.

    Examples: "Locker is new", "Colours was made with seed 0, not 7".
    """
    for title in dict.fromkeys([*wanted, *stored]):
        old, new = stored.get(title), wanted.get(title)
        if not isinstance(old, dict) or not isinstance(new, dict):
            return f"{title} is {'not in this configuration' if new is None else 'new'}"

        for key in dict.fromkeys([*new, *old]):
            if old.get(key) != new.get(key):
                before, now = (dumps(each.get(key)).decode() for each in (old, new))
                return f"{title} was made with {key} {before}, not {now}"
    return None


def _read_stored(folder: Path) -> list[MemoryTest]:
    """Return the tests of the definition files in a folder; empty if there are none. Raise DataError for a bad file."""
    return [read_definition(file) for file in sorted(folder.glob(f"*{SUFFIX}"))]


def read_definition(file: Path | str) -> MemoryTest:
    """Read a test's definition from its file; the names of its folder and file are title and example.

    Raises:
        DataError: The file cannot be read, or is no definition; the message names file and key.
    """
    path = Path(file)
    try:
        content = plugins.read_object(path)
    except ConfigurationError as error:
        raise DataError(str(error)) from None
    content |= {"title": path.parent.name, "example": path.name.removesuffix(SUFFIX)}
    return read_as(content, MemoryTest, str(path), error=DataError)


def write_definitions(definitions: Iterable[MemoryTest], folder: Path | str) -> None:
    """Write each definition to its file in a folder, over any old one.

    Raises:
        DataError: A title or an example cannot be a file name, or a file cannot be written.
    """
    for definition in definitions:
        path = definition_path(folder, definition)
        with raise_as(DataError, path, "cannot be written"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(dumps_readably(definition_data(definition)))


def definition_path(folder: Path | str, definition: MemoryTest) -> Path:
    """Return the path of a definition's file below this folder.

    Raises:
        DataError: Its title or example cannot be a file name.
    """
    for name in (definition.title, definition.example):
        if not _is_file_name(name):
            raise DataError(f"test {definition.id!r}: the title or example {name!r} cannot be a file name; rename it")
    return Path(folder) / definition.title / f"{definition.example}{SUFFIX}"


def definition_data(definition: MemoryTest) -> dict[str, JSON]:
    """Return a definition in the form of its file."""
    return {name: value for name, value in msgspec.to_builtins(definition).items() if name not in ("title", "example")}


def safe_name(text: str) -> str:
    """Replace the characters of a text that file names cannot contain: "gpt-4/mini" becomes "gpt-4_mini"."""
    name = "".join(letter if letter.isprintable() and _is_file_name(f"a{letter}") else "_" for letter in text)
    return name.strip(". ") or "run"
