"""A benchmark's definitions: made of its configuration, kept in a folder, and taken from there the next time.

The folder is laid out as the GoodAI benchmark's: `config.yml` and `<Title>/<example>.def.json`. Beside them stands
`made_of.json`, which says what each data set's tests were made of; where it is absent, `config.yml` is asked. A data
set's folder appears whole, so that making can be broken off and gone on with.
"""

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tunecheck._errors import ConfigurationError, TunecheckError, told_as
from tunecheck._files import FORMAT_VERSION, LeftOut, NewerFileError, read_object
from tunecheck._json import JSON, plain
from tunecheck._trust import Trust
from tunecheck._whole_files import write_file
from tunecheck.runs._store import dumps_readably
from tunecheck_memory._configuration import Configuration, DataSet, read_configuration
from tunecheck_memory._definitions import SUFFIX, definition_data, read_definition, write_definitions
from tunecheck_memory._kind import Making
from tunecheck_memory._kinds.chapterbreak import MissingTextsError
from tunecheck_memory._model import Definition

Mode = Literal["reuse", "regenerate"]

CONFIG, RECORD = "config.yml", "made_of.json"

_TOKENS_A_LINE = 4
"""What each message weighs beyond its text."""

_ANSWER = "give --regenerate to make them anew, or --reuse to take them as they are"


@dataclass(frozen=True)
class Made:
    """Definitions in the configuration's order, the titles that were made now, and the data sets left out."""

    definitions: tuple[Definition, ...]
    made: tuple[str, ...] = ()
    left_out: tuple[LeftOut, ...] = ()


def make_definitions(
    configuration: Configuration,
    folder: Path,
    making: Making,
    *,
    mode: Mode | None = None,
    count: Callable[[str], int] | None = None,
) -> Made:
    """The definitions of a configuration: those in `folder`, or new ones that are then kept there.

    What is there is taken where it was made of the same data sets, arguments, spans and seeds; with "reuse" in any
    case; with "regenerate" never. Data sets that are not there yet are made. `making` has the texts and the generator;
    seed and span are each data set's own. `count` gives a text's tokens: then no test may be longer than its span.

    Raises:
        ConfigurationError: what is there was made of something else; a data set cannot be made; a test is too long.
        DataError: a definition cannot be read or written.
        EndpointError: the generator failed for good.
    """
    maker = _Maker(configuration, folder, making)
    if mode is None:
        maker.check_record()
    result = maker.renew() if mode == "regenerate" else maker.complete()
    if not result.definitions:
        reasons = "; ".join(f"{each.title}: {each.reason}" for each in result.left_out)
        raise ConfigurationError(f"{configuration.path}: no data set is left to run ({reasons})")
    if count is None:
        return result
    spans = {each.title: each.memory_span for each in configuration.data_sets}
    for definition in result.definitions:
        tokens = sum(count(line) + _TOKENS_A_LINE for line in definition.script)
        if tokens >= spans[definition.title]:
            raise ConfigurationError(
                f"{configuration.path}: the test {definition.id!r} has {tokens:,} tokens, and its memory span is "
                f"{spans[definition.title]:,}; give a larger memory_span, or leave the data set out"
            )
    return result


@dataclass(frozen=True)
class _Maker:
    configuration: Configuration
    folder: Path
    making: Making

    def check_record(self) -> None:
        stored = self._record()
        if not any(any((self.folder / each.title).glob(f"*{SUFFIX}")) for each in self.configuration.data_sets):
            return
        if stored is None:
            raise ConfigurationError(f"{self.folder}: nothing says what its definitions were made of; {_ANSWER}")
        difference = _difference(stored, _recipes(self.configuration))
        if difference:
            problem = f"its definitions are of another configuration: {difference}"
            raise ConfigurationError(f"{self.folder}: {problem}; {_ANSWER}")

    def complete(self) -> Made:
        """What is there; what is not is made."""
        stored = {each.title: self._stored(each.title) for each in self.configuration.data_sets}
        new, left_out = self._generated([each for each in self.configuration.data_sets if not stored[each.title]])
        if not any(stored.values()):
            self._write_record(_recipes(self.configuration))
        elif new:
            recipes = _recipes(self.configuration)
            self._write_record({**(self._record() or {}), **{title: recipes[title] for title in new}})
        return self._made({**stored, **self._written(new)}, tuple(new), left_out)

    def renew(self) -> Made:
        """Make everything anew; old definitions go once all is made. What cannot be made now stays as it was."""
        new, left_out = self._generated(self.configuration.data_sets)
        stored = {each.title: self._stored(each.title) for each in left_out}
        with _writing(self.folder):
            (self.folder / RECORD).unlink(missing_ok=True)
            for file in self.folder.glob(f"*/*{SUFFIX}"):
                if not stored.get(file.parent.name):
                    file.unlink()
            for place in self.folder.glob("*/"):
                if not any(place.iterdir()):
                    place.rmdir()
        self._write_record(_recipes(self.configuration))
        missing = [each for each in left_out if not stored[each.title]]
        return self._made({**stored, **self._written(new)}, tuple(new), missing)

    def _generated(self, data_sets: Sequence[DataSet]) -> tuple[dict[str, list[Definition]], list[LeftOut]]:
        """New definitions by title; a data set whose texts were not given is left out."""
        new: dict[str, list[Definition]] = {}
        left_out: list[LeftOut] = []
        for each in data_sets:
            making = Making(each.seed, each.memory_span, self.making.texts, self.making.generator)
            try:
                new[each.title] = self._made_of(each, making)
            except MissingTextsError as error:
                left_out.append(LeftOut(each.title, str(error)))
        return new, left_out

    def _made_of(self, data_set: DataSet, making: Making) -> list[Definition]:
        where = f"{self.configuration.path}: the data set {data_set.title!r} cannot be made"
        try:
            made: object = data_set.kind.definitions(data_set.examples, making)
        except TunecheckError:
            raise
        except Exception as error:  # noqa: BLE001 - a kind may be somebody's own code
            raise ConfigurationError(f"{where}: {type(error).__name__}: {error}") from error
        try:
            return _checked(data_set.title, made)
        except ConfigurationError as error:
            raise ConfigurationError(f"{where}: {error}") from None

    def _stored(self, title: str) -> list[Definition]:
        return [read_definition(file) for file in sorted((self.folder / title).glob(f"*{SUFFIX}"))]

    def _written(self, new: dict[str, list[Definition]]) -> dict[str, list[Definition]]:
        """Write the data sets, each of which appears whole; gives what their files say."""
        building = self.folder / f".making-{os.getpid()}"
        try:
            for title, definitions in new.items():
                write_definitions(definitions, building)
                self._appear(building / title)
        finally:
            shutil.rmtree(building, ignore_errors=True)
        return {title: self._stored(title) for title in new}

    def _appear(self, made: Path) -> None:
        """Move a data set's folder to its place, unless another run made the same just now."""
        there = self.folder / made.name
        with _writing(self.folder):
            try:
                made.replace(there)
            except OSError:
                if _files(there) == _files(made):
                    return
                if any(there.glob(f"*{SUFFIX}")):
                    raise ConfigurationError(
                        f"{there}: another run has just made other definitions; {_ANSWER}"
                    ) from None
                raise

    def _made(self, by_title: dict[str, list[Definition]], new: tuple[str, ...], left_out: Sequence[LeftOut]) -> Made:
        titles = [each.title for each in self.configuration.data_sets]
        return Made(tuple(each for title in titles for each in by_title.get(title, ())), new, tuple(left_out))

    def _write_record(self, recipes: dict[str, JSON]) -> None:
        import yaml

        text = yaml.safe_dump(self.configuration.settings(), sort_keys=False, allow_unicode=True, width=120)
        with _writing(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
            write_file(self.folder / CONFIG, text.encode())
            write_file(self.folder / RECORD, dumps_readably({"format_version": FORMAT_VERSION, **recipes}))

    def _record(self) -> dict[str, JSON] | None:
        """What the definitions in the folder were made of, by title."""
        config = self.folder / CONFIG
        if not (self.folder / RECORD).is_file():
            return _recipes(read_configuration(config, trust=Trust().of(config))) if config.is_file() else None
        try:
            record = read_object(self.folder / RECORD)
        except NewerFileError:
            raise
        except ConfigurationError as error:
            raise ConfigurationError(f"{error}; {_ANSWER}") from None
        record.pop("format_version", None)
        return record


def _checked(title: str, made: object) -> list[Definition]:
    if not isinstance(made, (list, tuple)):
        raise ConfigurationError(f"it made {made!r:.60}, and no list of definitions")
    known: set[str] = set()
    for each in made:
        if not isinstance(each, Definition):
            raise ConfigurationError(f"it made {each!r:.60} where a Definition is due")
        if each.title != title:
            raise ConfigurationError(f"it made a test of {each.title!r}, and its title is {title!r}")
        if each.example in known:
            raise ConfigurationError(f"it made two tests with the example {each.example!r}")
        known.add(each.example)
        try:
            plain(definition_data(each))
        except (TypeError, ValueError, AttributeError) as error:
            raise ConfigurationError(f"its test {each.example!r} has no JSON form: {error}") from None
    return [*made]


def _files(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.glob(f"*{SUFFIX}")}


@contextmanager
def _writing(folder: Path) -> Iterator[None]:
    with told_as(ConfigurationError, folder, "cannot be written"):
        yield


def _recipes(configuration: Configuration) -> dict[str, JSON]:
    return {each.title: each.recipe() for each in configuration.data_sets}


def _difference(stored: dict[str, JSON], wanted: dict[str, JSON]) -> str | None:
    for title in [*wanted, *(title for title in stored if title not in wanted)]:
        there, here = stored.get(title), wanted.get(title)
        if there is None or here is None:
            return f"{title} is {'new' if there is None else 'not in this one'}"
        if not isinstance(there, dict) or not isinstance(here, dict):
            return f"{title} cannot be compared"
        for key in [*here, *(key for key in there if key not in here)]:
            if there.get(key) != here.get(key):
                return f"{title} was made with {key} {_shown(there.get(key))}, not {_shown(here.get(key))}"
    return None


def _shown(value: JSON) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key}: {each}" for key, each in value.items()) or "none"
    return str(value)
