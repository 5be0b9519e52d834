"""What a replay takes from a benchmark's configuration; what else is in it may be as it likes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tunecheck import _yaml as yamltext
from tunecheck._errors import ConfigurationError
from tunecheck._json import JSON
from tunecheck.memory._kind import Kind


@dataclass(frozen=True)
class LegacyConfiguration:
    """A configuration as it was published, or as a run of ours keeps it.

    `given` says that somebody named the file, and did not just have it lying beside the definitions: only then are
    data sets in files that it names loaded, which for a Python file means that it is run.
    """

    document: yamltext.Document
    given: bool

    @classmethod
    def find(cls, given: Path | str | None, definitions: Path) -> LegacyConfiguration | None:
        """The configuration that is given, else the one beside the definitions, if there is one.

        Raises:
            ConfigurationError: it cannot be read; names file and line.
        """
        file = Path(given) if given is not None else definitions / "config.yml"
        if given is None and not file.is_file():
            return None
        return cls(yamltext.read(file), given is not None)

    @property
    def name(self) -> str:
        """The file."""
        return self.document.name

    @property
    def memory_span(self) -> int | None:
        """The memory span of all data sets that have none of their own, in tokens.

        Raises:
            ConfigurationError: it is no whole number over 0; names file and line.
        """
        return self._span(_below(self.document.value, "datasets", "args"), "datasets", "args")

    @property
    def filler_seed(self) -> int:
        """The filler's seed. A run of ours, which says whether it is isolated, keeps it; the reference's is 0."""
        value = self.document.value
        seed = _below(value, "datasets", "args", "seed")
        ours = isinstance(_below(value, "config", "isolated"), bool)
        return seed if ours and isinstance(seed, int) and not isinstance(seed, bool) else 0

    def spans(self, kinds: Iterable[Kind]) -> Mapping[str, int]:
        """By title, the memory spans of data sets that have their own.

        Raises:
            ConfigurationError: as `memory_span`.
        """
        titles = _titles(kinds)
        spans = {}
        for place, entry in enumerate(self._data_sets()):
            span = self._span(_below(entry, "args"), "datasets", "datasets", place, "args")
            title = titles.get(str(_below(entry, "name")))
            if span is not None and title is not None:
                spans[title] = span
        return spans

    def incompatibilities(self, kinds: Iterable[Kind]) -> list[frozenset[str]]:
        """Sets of titles of which no two are at work at once; names that are none of these kinds' are passed over.

        Raises:
            ConfigurationError: they are no lists of names; names file and line.
        """
        titles = _titles(kinds)
        return [frozenset(titles[name] for name in group if name in titles) for group in self._groups()]

    def kinds_of_files(self) -> Iterator[Kind]:
        """The kinds of data sets that are files, relative to a configuration that was given."""
        from tunecheck.memory._kinds import find_kind
        from tunecheck.memory._kinds.files import is_kind_file

        for place, entry in enumerate(self._data_sets() if self.given else ()):
            name, arguments = _below(entry, "name"), _below(entry, "args")
            if isinstance(name, str) and is_kind_file(name):
                where = self.document.where("datasets", "datasets", place)
                own = dict(arguments) if isinstance(arguments, dict) else {}
                for universal in ("dataset_examples", "memory_span", "seed"):
                    own.pop(universal, None)
                yield find_kind(name, own, folder=Path(self.name).parent, where=where)

    def _data_sets(self) -> list[JSON]:
        return _list(_below(self.document.value, "datasets", "datasets"))

    def _groups(self) -> Iterator[list[str]]:
        for place, group in enumerate(_list(_below(self.document.value, "config", "incompatibilities"))):
            if not isinstance(group, list):
                where = self.document.where("config", "incompatibilities", place)
                raise ConfigurationError(f"{where}: incompatibilities are lists of data sets' names")
            yield [str(name) for name in group]

    def _span(self, arguments: JSON, *path: str | int) -> int | None:
        span = _below(arguments, "memory_span")
        if span is None:
            return None
        if isinstance(span, bool) or not isinstance(span, int) or span <= 0:
            where = self.document.where(*path, "memory_span")
            raise ConfigurationError(f"{where}: memory_span must be a whole number over 0")
        return span


def _titles(kinds: Iterable[Kind]) -> dict[str, str]:
    """Titles by the names that configurations have for them."""
    return {kind.name: kind.title for kind in kinds}


def _below(value: JSON, *path: str) -> JSON:
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _list(value: JSON) -> list[JSON]:
    return value if isinstance(value, list) else []
