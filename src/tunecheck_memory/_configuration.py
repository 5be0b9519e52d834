"""A benchmark's configuration: the YAML files of the GoodAI benchmark as published, and data sets of one's own.

config:
  run_name: Benchmark 3 - 32k       # the benchmark's folder; by default the file's name
  incompatibilities: [[names, name_list]]
datasets:
  args: {memory_span: 32000, dataset_examples: 3, seed: 0}      # for all data sets
  datasets:
    - name: colours                 # or a file beside this one: kinds/haiku.py, kinds/parking.yaml
      args: {colour_changes: 3}     # what all have may be overridden here
"""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, NoReturn

import msgspec
from msgspec import Meta

from tunecheck import _yaml as yamltext
from tunecheck._describe import Written, read_as
from tunecheck._errors import ConfigurationError
from tunecheck._json import JSON
from tunecheck._messages import did_you_mean
from tunecheck._trust import Trust
from tunecheck_memory._kind import Kind
from tunecheck_memory._kinds.registry import Kinds, is_kind_file

_OLD = ("filler_tokens_low", "filler_tokens_high", "pre_question_filler")
"""What configurations of the reference's versions 1 and 2 say, which its present version does not read either."""

_UNSAFE = frozenset('/\\:*?"<>|\0\n\r\t')
_LONGEST_NAME = 120


@dataclass(frozen=True)
class DataSet:
    """`name` is what the configuration calls it, `seed` what its tests are generated from.

    `sha256` is that of the kind's own file, where it has one.
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
        content = {} if self.sha256 is None else {"sha256": self.sha256}
        return {
            **content,
            "name": self.name,
            "args": dict(self.kind.arguments),
            "dataset_examples": self.examples,
            "memory_span": self.memory_span,
            "seed": self.seed,
        }


@dataclass(frozen=True)
class Configuration:
    """`memory_span` is in tokens; each data set has its own, mostly this one.

    `incompatibilities` are sets of titles of which no two are at work at once, `incompatible_names` the same by name.
    `isolated` is what the file says of it, which nothing published does.
    """

    path: Path
    run_name: str
    memory_span: int
    seed: int
    data_sets: tuple[DataSet, ...]
    incompatibilities: tuple[frozenset[str], ...] = ()
    isolated: bool = False
    incompatible_names: tuple[tuple[str, ...], ...] = ()

    def data_set(self, title: str) -> DataSet | None:
        return next((each for each in self.data_sets if each.title == title), None)

    def settings(self) -> dict[str, JSON]:
        together: list[JSON] = [list(names) for names in self.incompatible_names]
        config: dict[str, JSON] = {"run_name": self.run_name, "incompatibilities": together, "isolated": self.isolated}
        shared: dict[str, JSON] = {"memory_span": self.memory_span, "seed": self.seed}
        data_sets: list[JSON] = []
        for each in self.data_sets:
            own: dict[str, JSON] = {"memory_span": each.memory_span, "seed": each.seed}
            differing = {name: value for name, value in own.items() if value != shared[name]}
            args = {**each.kind.arguments, "dataset_examples": each.examples, **differing}
            data_sets.append({"name": each.name, "args": args})
        return {"config": config, "datasets": {"args": shared, "datasets": data_sets}}


def read_configuration(path: Path | str, *, seed: int | None = None, trust: Trust | None = None) -> Configuration:
    """The configuration of a file; `seed` is given from outside and goes before what the file says.

    `trust` says who names its kinds; without it, somebody who may.

    Files that it names are looked for beside it, other kinds among the installed ones and in the workspace's `memory/`.

    Raises:
        ConfigurationError: it cannot be read, or a key, name or argument is unknown or wrong; names file and line.
    """
    return _Reader(yamltext.read(path), Path(path), seed, trust).configuration()


class _Universal(msgspec.Struct, frozen=True):
    dataset_examples: Annotated[int, Meta(ge=1, le=10_000)] = 1
    memory_span: Annotated[int, Meta(ge=1, le=1_000_000_000)] = 32_000
    seed: Annotated[int, Meta(ge=1 - 2**63, le=2**63 - 1)] = 0


UNIVERSAL = _Universal.__struct_fields__


class _Config(Written, frozen=True):
    run_name: str | None = None
    debug: bool = False
    incompatibilities: list[list[str]] | None = None
    isolated: bool = False


class _Entry(Written, frozen=True):
    name: str
    args: dict[str, Any] | None = None


class _DataSets(Written, frozen=True):
    datasets: Annotated[list[_Entry], Meta(min_length=1)]
    args: dict[str, Any] | None = None


class ConfigurationFile(Written, frozen=True):
    """A configuration as people write it."""

    datasets: _DataSets
    config: _Config | None = None


class _Reader:
    def __init__(self, document: yamltext.Document, path: Path, seed: int | None, trust: Trust | None) -> None:
        self._document = document
        self._path = path
        self._seed = seed
        self._kinds = Kinds(path.parent, trust)

    def configuration(self) -> Configuration:
        content = read_as(self._document.value, ConfigurationFile, self._document.where)
        config = content.config or _Config()
        path = ("datasets", "args")
        given = content.datasets.args or {}
        shared = self._universal({**msgspec.to_builtins(_Universal()), **given}, path)
        arguments = {key: value for key, value in given.items() if key not in UNIVERSAL}
        self._check_shared(arguments, content.datasets.datasets)
        data_sets: dict[str, DataSet] = {}
        for number, entry in enumerate(content.datasets.datasets):
            place = ("datasets", "datasets", number)
            data_set = self._data_set(entry, place, shared, arguments)
            if data_set.title in data_sets:
                self._refuse(place, f"the data set {data_set.title!r} is listed a second time")
            data_sets[data_set.title] = data_set
        groups = tuple(map(tuple, config.incompatibilities or ()))
        return Configuration(
            path=self._path,
            run_name=self._run_name(config),
            memory_span=shared.memory_span,
            seed=shared.seed,
            data_sets=tuple(data_sets.values()),
            incompatibilities=self._incompatibilities(groups, data_sets.values()),
            isolated=config.isolated,
            incompatible_names=groups,
        )

    def _universal(self, args: Mapping[str, JSON], path: tuple[str | int, ...]) -> _Universal:
        read = read_as(args, _Universal, lambda *below: self._document.where(*path, *below))
        return read if self._seed is None else msgspec.structs.replace(read, seed=self._seed)

    def _run_name(self, config: _Config) -> str:
        name = self._path.stem if config.run_name is None else config.run_name
        path = ("config", "run_name")
        if not name.strip(". "):
            self._refuse(path, "run_name must be a text that is not blank")
        if _UNSAFE & set(name) or len(name) > _LONGEST_NAME:
            self._refuse(path, f"run_name is a folder's name: at most {_LONGEST_NAME} characters, none of /\\:*?\"<>|")
        return name.strip()

    def _data_set(
        self, entry: _Entry, path: tuple[str | int, ...], shared: _Universal, arguments: Mapping[str, JSON]
    ) -> DataSet:
        own, own_path = entry.args or {}, (*path, "args")
        universal = self._universal({**msgspec.to_builtins(shared), **own}, own_path)
        accepted = self._kinds.arguments(entry.name, where=self._document.where(*path))
        arguments = {key: value for key, value in arguments.items() if key in accepted}
        arguments |= {key: value for key, value in own.items() if key not in UNIVERSAL}
        self._refuse_old(arguments, accepted, own_path)
        file = self._path.parent / entry.name
        return DataSet(
            name=entry.name,
            kind=self._kinds.make(entry.name, arguments, where=self._document.where(*own_path)),
            examples=universal.dataset_examples,
            memory_span=universal.memory_span,
            seed=universal.seed,
            sha256=hashlib.sha256(file.read_bytes()).hexdigest() if is_kind_file(entry.name) else None,
        )

    def _check_shared(self, arguments: Mapping[str, JSON], entries: Iterable[_Entry]) -> None:
        """An argument for all data sets must be one that some data set has."""
        path = ("datasets", "args")
        self._refuse_old(arguments, frozenset(), path)
        if not arguments:
            return
        where = self._document.where(*path)
        known = {argument for entry in entries for argument in self._kinds.arguments(entry.name, where=where)}
        for key in arguments:
            if key not in known:
                meant = did_you_mean(key, {*known, *UNIVERSAL})
                self._refuse((*path, key), f"no data set here has an argument {key!r}{meant}")

    def _refuse_old(self, arguments: Mapping[str, JSON], accepted: frozenset[str], path: tuple[str | int, ...]) -> None:
        for key in arguments:
            if key in _OLD and key not in accepted:
                self._refuse(
                    (*path, key), f"{key!r} is of the benchmark's versions 1 and 2; give a memory_span instead"
                )

    def _incompatibilities(
        self, groups: Iterable[tuple[str, ...]], data_sets: Iterable[DataSet]
    ) -> tuple[frozenset[str], ...]:
        titles = {each.name: each.title for each in data_sets}
        sets = []
        for place, group in enumerate(groups):
            where = self._document.where("config", "incompatibilities", place)
            sets.append(frozenset(titles.get(name) or self._kinds.kind(name, where=where).title for name in group))
        return tuple(sets)

    def _refuse(self, path: tuple[str | int, ...], problem: str) -> NoReturn:
        raise ConfigurationError(f"{self._document.where(*path)}: {problem}")
