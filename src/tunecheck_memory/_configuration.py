"""Read a benchmark's configuration: the published YAML files of the GoodAI benchmark, or your own.

config:
  run_name: Benchmark 3 - 32k       # name of the benchmark's folder; by default the file's name
  incompatibilities: [[names, name_list]]
datasets:
  args: {memory_span: 32000, dataset_examples: 3, seed: 0}      # for all data sets
  datasets:
    - name: colours                 # or the path of a Python file: kinds/haiku.py
      args: {colour_changes: 3}     # overrides the values for all data sets
"""

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import combinations
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import msgspec
from msgspec import Meta

from tunecheck import ConfigurationError, PluginError
from tunecheck.plugins import (
    JSON,
    Candidate,
    Document,
    Trust,
    Written,
    did_you_mean,
    discover,
    find,
    load,
    load_offer,
    read_as,
    read_yaml,
)
from tunecheck_memory._kind import GROUP, Kind, conflicts
from tunecheck_memory.plugin import PLUGIN

_FOLDER_NAME = re.compile(r"[^/\\:*?\"<>|\0\n\r\t]{1,120}")


@dataclass(frozen=True)
class DataSet:
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
        return self.kind.title

    def recipe(self) -> dict[str, JSON]:
        """Return everything that determines the data set's tests, for `made_of.json`."""
        recipe: dict[str, JSON] = {} if self.sha256 is None else {"sha256": self.sha256}
        recipe |= {"name": self.name, "args": dict(self.kind.arguments), "dataset_examples": self.examples}
        return recipe | {"memory_span": self.memory_span, "seed": self.seed}


@dataclass(frozen=True)
class Configuration:
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
        together: list[JSON] = [
            [names[first], names[second]] for first, second in combinations(names, 2) if second in blocked[first]
        ]
        config: dict[str, JSON] = {"run_name": self.run_name, "incompatibilities": together, "isolated": self.isolated}
        shared: dict[str, JSON] = {"memory_span": self.memory_span, "seed": self.seed}
        data_sets: list[JSON] = []
        for each in self.data_sets:
            settings = {"dataset_examples": each.examples, "memory_span": each.memory_span, "seed": each.seed}
            data_sets.append({"name": each.name, "args": {**each.kind.arguments, **settings}})
        return {"config": config, "datasets": {"args": shared, "datasets": data_sets}}

    def text(self) -> bytes:
        """Return the configuration as a YAML file."""
        import yaml

        text: str = yaml.safe_dump(self.settings(), sort_keys=False, allow_unicode=True, width=120)
        return text.encode()


def read_configuration(path: Path | str, *, seed: int | None = None, trust: Trust | None = None) -> Configuration:
    """Read a configuration file; `seed` takes precedence over the file's seed.

    `trust` decides which Python files of kinds may load; by default all. Their paths are relative to the configuration.
    Other names refer to installed kinds, or to kinds in the workspace's `memory/`.

    Raises:
        ConfigurationError: The file is unreadable, or a key, name or argument is wrong; the message names the line.
    """
    return _Reader(read_yaml(path), Path(path), seed, trust).read()


class _CommonArguments(msgspec.Struct, frozen=True):
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


_Path: TypeAlias = tuple[str | int, ...]


@dataclass
class _Reader:
    document: Document
    path: Path
    seed: int | None
    trust: Trust | None

    def read(self) -> Configuration:
        """Check the whole file and return the configuration.

        Raises:
            ConfigurationError: A key, a name or an argument is wrong; the message names the line.
        """
        file = read_as(self.document.value, ConfigurationFile, self.document.where)
        config, common, entries = file.config or _Config(), file.datasets.args or {}, file.datasets.datasets
        kinds = [self._kind(entry.name, ("datasets", "datasets", at)) for at, entry in enumerate(entries)]
        shared = self._common(common, ("datasets", "args"))
        self._check_shared(common, kinds)
        data_sets: dict[str, DataSet] = {}
        for at, (entry, kind) in enumerate(zip(entries, kinds, strict=True)):
            if kind.title in data_sets:
                problem = f"the data set {kind.title!r} is listed twice: list it once"
                raise self._mistake(("datasets", "datasets", at), problem)
            data_sets[kind.title] = self._data_set(entry, kind, common, ("datasets", "datasets", at, "args"))
        titles = {entry.name: kind.title for entry, kind in zip(entries, kinds, strict=True)}
        groups = tuple(
            frozenset(titles.get(name) or self._kind(name, ("config", "incompatibilities", at)).title for name in names)
            for at, names in enumerate(config.incompatibilities or ())
        )
        all_ = tuple(data_sets.values())
        return Configuration(
            self.path, self._run_name(config), shared.memory_span, shared.seed, all_, groups, config.isolated
        )

    def _common(self, args: Mapping[str, JSON], path: _Path) -> _CommonArguments:
        """Return the arguments that every data set has; a seed of the caller replaces the file's."""
        read = read_as(args, _CommonArguments, lambda *below: self.document.where(*path, *below))
        return read if self.seed is None else msgspec.structs.replace(read, seed=self.seed)

    def _run_name(self, config: _Config) -> str:
        """Return the benchmark's name, by default the file's; raise ConfigurationError if no folder can have it."""
        name = self.path.stem if config.run_name is None else config.run_name
        if not name.strip(". ") or _FOLDER_NAME.fullmatch(name) is None:
            problem = "run_name must be a folder's name: not blank, at most 120 characters, none of /\\:*?\"<>|"
            raise self._mistake(("config", "run_name"), problem)
        return name.strip()

    def _data_set(self, entry: _DataSetEntry, kind: type[Kind], shared: Mapping[str, JSON], path: _Path) -> DataSet:
        """Return a data set with its own arguments, and those for all data sets (`shared`) that its kind accepts.

        Raises:
            ConfigurationError: An argument is wrong; the message names the line.
        """
        args, accepted = {**shared, **(entry.args or {})}, {*kind.argument_names(), *(entry.args or {})}
        common = self._common(args, path)
        arguments = {name: args[name] for name in args if name in accepted and name not in COMMON_ARGUMENTS}
        try:
            test_kind = make_kind(kind, arguments)
        except ConfigurationError as error:
            raise self._mistake(path, str(error)) from error.__cause__
        file = self.path.parent / entry.name
        sha256 = hashlib.sha256(file.read_bytes()).hexdigest() if is_kind_file(entry.name) else None
        return DataSet(entry.name, test_kind, common.dataset_examples, common.memory_span, common.seed, sha256)

    def _check_shared(self, arguments: Mapping[str, JSON], kinds: Sequence[type[Kind]]) -> None:
        """Raise ConfigurationError for an argument in the section for all data sets that no data set has."""
        known = {*COMMON_ARGUMENTS, *(argument for kind in kinds for argument in kind.argument_names())}
        for key in arguments:
            if key not in known:
                problem = f"no data set of this file has an argument {key!r}{did_you_mean(key, known)}"
                raise self._mistake(("datasets", "args", key), problem)

    def _kind(self, name: str, path: _Path) -> type[Kind]:
        """Return the class of a kind; an error names the line at `path`."""
        try:
            return kind_class(name, folder=self.path.parent, trust=self.trust)
        except PluginError as error:
            raise PluginError(f"{self.document.where(*path)}: {error}") from error.__cause__

    def _mistake(self, path: _Path, problem: str) -> ConfigurationError:
        return ConfigurationError(f"{self.document.where(*path)}: {problem}")


def find_kind(
    name: str, arguments: Mapping[str, JSON] | None = None, *, folder: Path | None = None, trust: Trust | None = None
) -> Kind:
    """Return the kind with this name ("colours"), or in this file ("kinds/haiku.py", relative to `folder`).

    `trust` decides which files may load; by default all.

    Raises:
        PluginError: No kind has this name, or its code does not load.
        ConfigurationError: An argument is unknown or wrong.
    """
    return make_kind(kind_class(name, folder=folder, trust=trust), arguments or {})


def kind_class(name: str, *, folder: Path | None = None, trust: Trust | None = None) -> type[Kind]:
    """Return the class of a kind, by name or file, like `find_kind`.

    Raises:
        PluginError: No kind has this name, or its code does not load.
        UntrustedError: `trust` does not allow the file.
    """
    if is_kind_file(name):
        path = ((folder or Path()) / name).resolve()
        if not path.is_file():
            raise PluginError(
                f"{path}: there is no such file; give the path of a data set relative to the configuration's folder"
            )
        if trust is not None:
            trust.check(path, "run its code as a kind of memory test", folder=GROUP)
        loaded = load(Candidate(GROUP, path.stem, str(path), partial(load_offer, path), path))
    else:
        installed = discover(GROUP)
        names = [each.name for each in installed]
        if name not in names:
            raise PluginError(f"there is no data set {name!r}{did_you_mean(name, names)}")
        loaded = find(GROUP, name, among=installed, trust=trust)
    if isinstance(loaded, type) and issubclass(loaded, Kind):
        return loaded
    raise PluginError(f"{name!r} is not a kind of memory test: it must be a class derived from tunecheck_memory.Kind")


def is_kind_file(name: str) -> bool:
    return name.lower().endswith(".py")


def make_kind(kind: type[Kind], arguments: Mapping[str, JSON]) -> Kind:
    """Return a kind with these arguments of a configuration.

    Raises:
        ConfigurationError: An argument is unknown, or the kind refuses the arguments.
    """
    known = kind.argument_names()
    for name in arguments:
        if name not in known:
            hint = did_you_mean(name, known) or "; it takes none"
            raise ConfigurationError(f"the data set {kind.name!r} has no argument {name!r}{hint}")
    try:
        instance = kind(**arguments)
        dict(instance.arguments)  # raises if the kind does not store its arguments
        return instance
    except ConfigurationError:
        raise
    except Exception as error:  # noqa: BLE001 - a user's kind may raise anything
        problem = f"{type(error).__name__}: {error}"
        raise ConfigurationError(f"the data set {kind.name!r} cannot be made: {problem}") from error


_ALIASES = {"keyvaluepairs": "kv", "conflictingpersonalinformation": "conflictingpersonalinfo"}


@lru_cache(maxsize=64)
def shipped_kind(title: str) -> type[Kind] | None:
    """Return the shipped kind with this title or name ("Spy Meeting", "spy_meeting"), or None."""
    name = plain_title(title)
    return shipped_kinds().get(_ALIASES.get(name, name))


@lru_cache(maxsize=1)
def shipped_kinds() -> Mapping[str, type[Kind]]:
    """Return the shipped kinds by their plain names."""
    kinds = {}
    for name, extension in PLUGIN.own_kinds[GROUP].items():
        kind = extension.load()
        assert isinstance(kind, type) and issubclass(kind, Kind)
        kinds[plain_title(name)] = kind
    return kinds


def plain_title(title: str) -> str:
    """Return a title in lower case, with letters and digits only."""
    return re.sub(r"[\W_]+", "", title[:200].lower())
