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

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from tunecheck import _yaml as yamltext
from tunecheck._errors import ConfigurationError
from tunecheck._json import JSON
from tunecheck._messages import did_you_mean
from tunecheck.memory._kind import Kind
from tunecheck.memory._kinds.registry import Kinds, is_kind_file

MAX_EXAMPLES = 10_000
MAX_SPAN = 1_000_000_000
MAX_SEED = 2**63 - 1
DEFAULT_EXAMPLES, DEFAULT_SPAN = 1, 32_000

_CONFIG = ("run_name", "debug", "incompatibilities", "isolated")
_DATASETS = ("args", "datasets")
_UNIVERSAL = ("memory_span", "dataset_examples", "seed")
_OLD = ("filler_tokens_low", "filler_tokens_high", "pre_question_filler")
"""What configurations of the reference's versions 1 and 2 say, which its present version does not read either."""

_UNSAFE = frozenset('/\\:*?"<>|\0\n\r\t')
_LONGEST_NAME = 120


@dataclass(frozen=True)
class DataSet:
    """One data set of a configuration: its kind, made with its arguments, and how many tests of it there are.

    `name` is what the configuration calls it, `seed` what its tests are generated from; `sha256` is that of the kind's
    own file, where it has one.
    """

    name: str
    kind: Kind
    examples: int
    memory_span: int
    seed: int
    sha256: str | None = None

    @property
    def title(self) -> str:
        """The folder of its definitions, and how its tests' ids begin."""
        return self.kind.title

    def recipe(self) -> dict[str, JSON]:
        """What its definitions are made of: two with the same recipe have the same tests."""
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
    """What a run of the benchmark is made of. `memory_span` is in tokens; each data set has its own, mostly this one.

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
        """The data set of this title, if there is one."""
        return next((each for each in self.data_sets if each.title == title), None)

    def settings(self) -> dict[str, JSON]:
        """The configuration as data, in the form of its file, with all that was left to defaults."""
        together: list[JSON] = [list(names) for names in self.incompatible_names]
        config: dict[str, JSON] = {"run_name": self.run_name, "incompatibilities": together, "isolated": self.isolated}
        data_sets: list[JSON] = [_data_set_settings(each, self) for each in self.data_sets]
        args: dict[str, JSON] = {"memory_span": self.memory_span, "seed": self.seed}
        return {"config": config, "datasets": {"args": args, "datasets": data_sets}}


def _data_set_settings(data_set: DataSet, configuration: Configuration) -> dict[str, JSON]:
    args: dict[str, JSON] = {**data_set.kind.arguments, "dataset_examples": data_set.examples}
    if data_set.memory_span != configuration.memory_span:
        args["memory_span"] = data_set.memory_span
    if data_set.seed != configuration.seed:
        args["seed"] = data_set.seed
    return {"name": data_set.name, "args": args}


def read_configuration(path: Path | str, *, seed: int | None = None) -> Configuration:
    """The configuration of a file; `seed` is given from outside and goes before what the file says.

    Files that it names are looked for beside it, other kinds among the installed ones and in the workspace's `memory/`.

    Raises:
        ConfigurationError: it cannot be read, or a key, name or argument is unknown or wrong; names file and line.
    """
    return _Reader(yamltext.read(path), Path(path), seed).configuration()


@dataclass(frozen=True)
class _Shared:
    """What all data sets have unless they say otherwise."""

    arguments: Mapping[str, JSON]
    examples: int
    memory_span: int
    seed: int


class _Reader:
    """Reads one file, with errors that name its lines."""

    def __init__(self, document: yamltext.Document, path: Path, seed: int | None) -> None:
        self._document = document
        self._path = path
        self._seed = seed
        self._kinds = Kinds(path.parent)

    def configuration(self) -> Configuration:
        content = self._mapping(self._document.value, (), ("config", "datasets"))
        config = self._mapping(content.get("config"), ("config",), _CONFIG)
        datasets = self._mapping(content.get("datasets"), ("datasets",), _DATASETS)
        path = ("datasets", "args")
        universal = self._mapping(datasets.get("args"), path, None)
        shared = _Shared(
            {key: value for key, value in universal.items() if key not in _UNIVERSAL},
            self._whole(universal, path, "dataset_examples", DEFAULT_EXAMPLES, 1, MAX_EXAMPLES),
            self._whole(universal, path, "memory_span", DEFAULT_SPAN, 1, MAX_SPAN),
            self._seed_of(universal, path, 0),
        )
        data_sets = self._data_sets(datasets, shared)
        incompatible = self._incompatible_names(config)
        return Configuration(
            path=self._path,
            run_name=self._run_name(config),
            memory_span=shared.memory_span,
            seed=shared.seed,
            data_sets=data_sets,
            incompatibilities=self._incompatibilities(incompatible, data_sets),
            isolated=self._flag(config, "isolated"),
            incompatible_names=incompatible,
        )

    def _run_name(self, config: Mapping[str, JSON]) -> str:
        self._flag(config, "debug")
        name = config.get("run_name", self._path.stem)
        path = ("config", "run_name")
        if not isinstance(name, str) or not name.strip(". "):
            self._refuse(path, "run_name must be a text")
        if _UNSAFE & set(name) or len(name) > _LONGEST_NAME:
            self._refuse(path, f"run_name is a folder's name: at most {_LONGEST_NAME} characters, none of /\\:*?\"<>|")
        return name.strip()

    def _data_sets(self, datasets: Mapping[str, JSON], shared: _Shared) -> tuple[DataSet, ...]:
        entries = datasets.get("datasets")
        if not isinstance(entries, list) or not entries:
            self._refuse(("datasets", "datasets"), "datasets.datasets must be a list of data sets, each with a 'name'")
        self._check_universal(entries, shared)
        found: dict[str, DataSet] = {}
        for place, entry in enumerate(entries):
            data_set = self._data_set(entry, ("datasets", "datasets", place), shared)
            if data_set.title in found:
                self._refuse(
                    ("datasets", "datasets", place), f"the data set {data_set.title!r} stands here a second time"
                )
            found[data_set.title] = data_set
        return tuple(found.values())

    def _data_set(self, entry: JSON, path: tuple[str | int, ...], shared: _Shared) -> DataSet:
        content = self._mapping(entry, path, ("name", "args"))
        name = content.get("name")
        if not isinstance(name, str):
            self._refuse(path, "a data set needs a 'name'")
        own_path = (*path, "args")
        own = self._mapping(content.get("args"), own_path, None)
        where = self._document.where(*path)
        accepted = self._kinds.arguments(name, where=where)
        arguments = {key: value for key, value in shared.arguments.items() if key in accepted}
        arguments |= {key: value for key, value in own.items() if key not in _UNIVERSAL}
        self._refuse_old(arguments, accepted, own_path)
        return DataSet(
            name=name,
            kind=self._kinds.make(name, arguments, where=self._document.where(*own_path)),
            examples=self._whole(own, own_path, "dataset_examples", shared.examples, 1, MAX_EXAMPLES),
            memory_span=self._whole(own, own_path, "memory_span", shared.memory_span, 1, MAX_SPAN),
            seed=self._seed_of(own, own_path, shared.seed),
            sha256=self._content(name),
        )

    def _content(self, name: str) -> str | None:
        if not is_kind_file(name):
            return None
        return hashlib.sha256((self._path.parent / name).read_bytes()).hexdigest()

    def _check_universal(self, entries: list[JSON], shared: _Shared) -> None:
        """An argument for all data sets must be one of some."""
        path = ("datasets", "args")
        self._refuse_old(shared.arguments, frozenset(), path)
        if not shared.arguments:
            return
        names = [entry.get("name") for entry in entries if isinstance(entry, dict)]
        known = {
            argument
            for name in names
            if isinstance(name, str)
            for argument in self._kinds.arguments(name, where=self._document.where(*path))
        }
        for key in shared.arguments:
            if key not in known:
                self._refuse((*path, key), f"no data set here has an argument {key!r}{self._meant(key, known)}")

    def _meant(self, key: str, known: set[str]) -> str:
        return did_you_mean(key, {*known, *_UNIVERSAL})

    def _refuse_old(self, arguments: Mapping[str, JSON], accepted: frozenset[str], path: tuple[str | int, ...]) -> None:
        for key in arguments:
            if key in _OLD and key not in accepted:
                self._refuse(
                    (*path, key), f"{key!r} is of the benchmark's versions 1 and 2; give a memory_span instead"
                )

    def _incompatible_names(self, config: Mapping[str, JSON]) -> tuple[tuple[str, ...], ...]:
        path = ("config", "incompatibilities")
        groups = config.get("incompatibilities")
        if groups is None:
            return ()
        if not isinstance(groups, list):
            self._refuse(path, "incompatibilities must be a list of lists of data sets' names")
        return tuple(self._group(group, (*path, place)) for place, group in enumerate(groups))

    def _group(self, group: JSON, path: tuple[str | int, ...]) -> tuple[str, ...]:
        names = [name for name in group if isinstance(name, str)] if isinstance(group, list) else []
        if not isinstance(group, list) or len(names) != len(group):
            self._refuse(path, "a group of incompatible data sets must be a list of their names")
        return tuple(names)

    def _incompatibilities(
        self, groups: tuple[tuple[str, ...], ...], data_sets: tuple[DataSet, ...]
    ) -> tuple[frozenset[str], ...]:
        titles = {each.name: each.title for each in data_sets}
        return tuple(
            frozenset(titles.get(name) or self._title(name, ("config", "incompatibilities", place)) for name in group)
            for place, group in enumerate(groups)
        )

    def _title(self, name: str, path: tuple[str | int, ...]) -> str:
        return self._kinds.kind(name, where=self._document.where(*path)).title

    def _seed_of(self, args: Mapping[str, JSON], path: tuple[str | int, ...], default: int) -> int:
        seed = self._whole(args, path, "seed", default, -MAX_SEED, MAX_SEED)
        return seed if self._seed is None else self._seed

    def _whole(
        self, args: Mapping[str, JSON], path: tuple[str | int, ...], key: str, default: int, least: int, most: int
    ) -> int:
        value = args.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            self._refuse((*path, key), f"{key} must be a whole number from {least:,} to {most:,}")
        return value

    def _flag(self, config: Mapping[str, JSON], key: str) -> bool:
        value = config.get(key, False)
        if not isinstance(value, bool):
            self._refuse(("config", key), f"{key} must be true or false")
        return value

    def _mapping(self, value: JSON, path: tuple[str | int, ...], known: tuple[str, ...] | None) -> Mapping[str, JSON]:
        """A mapping with no other keys than these; nothing is an empty one, but for the whole file."""
        where = ".".join(map(str, path)) or "a configuration"
        if value is None and path:
            return {}
        if not isinstance(value, dict):
            self._refuse(path, f"{where} must be a mapping" + (f" with {', '.join(known)}" if known else ""))
        for key in value:
            if known is not None and key not in known:
                self._refuse((*path, key), f"{where} has no key {key!r}{did_you_mean(key, known)}")
        return value

    def _refuse(self, path: tuple[str | int, ...], problem: str) -> NoReturn:
        raise ConfigurationError(f"{self._document.where(*path)}: {problem}")
