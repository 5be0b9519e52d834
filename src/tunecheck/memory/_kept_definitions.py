"""The definitions that a run was begun with, kept in its folder, so that it goes on whatever becomes of the others."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from itertools import combinations
from pathlib import Path

from tunecheck._errors import RunError
from tunecheck._json import JSON
from tunecheck.memory._configuration import Configuration
from tunecheck.memory._definitions import definition_data, definition_path
from tunecheck.memory._event_log import FOLDER
from tunecheck.memory._model import Definition
from tunecheck.memory._tasks import conflicts
from tunecheck.runs._store import dumps_readably

ISOLATED = " (isolated)"

_UNSAFE = frozenset('/\\:*?"<>|')


def safe_name(text: str) -> str:
    """A name as a file may have it."""
    name = "".join("_" if letter in _UNSAFE or not letter.isprintable() else letter for letter in text)
    return name.strip(". ") or "run"


def benchmark_folder(run: Path, configuration: Configuration, *, isolated: bool) -> Path:
    """Where a run's definitions and results are, in the GoodAI benchmark's own layout."""
    return run / FOLDER / safe_name(configuration.run_name + (ISOLATED if isolated else ""))


def keep_definitions(benchmark: Path, configuration: Configuration, definitions: Iterable[Definition]) -> None:
    """Write a run's definitions into its folder, unless they are there. They appear whole.

    Raises:
        RunError: they cannot be written.
    """
    folder = benchmark / "definitions"
    if folder.is_dir():
        return
    building = folder.with_name(".definitions")
    try:
        shutil.rmtree(building, ignore_errors=True)
        building.mkdir(parents=True)
        (building / "config.yml").write_bytes(_configuration_text(configuration))
        for definition in definitions:
            path = definition_path(building, definition)
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(dumps_readably(definition_data(definition)))
        building.replace(folder)
    except OSError as error:
        raise RunError(f"{folder}: cannot be written: {error.strerror}") from error


def _configuration_text(configuration: Configuration) -> bytes:
    """The configuration, which kinds exclude one another by their topics spelt out: the benchmark knows no topics."""
    import yaml

    settings = configuration.settings()
    config = settings["config"]
    assert isinstance(config, dict)
    config["incompatibilities"] = _pairs(configuration)
    text: str = yaml.safe_dump(settings, sort_keys=False, allow_unicode=True, width=120)
    return text.encode()


def _pairs(configuration: Configuration) -> list[JSON]:
    """The pairs of data sets of which no two tests are at work at once, by the names they have in configurations."""
    names = {each.title: each.kind.name for each in configuration.data_sets}
    blocked = conflicts((each.kind for each in configuration.data_sets), configuration.incompatibilities, True)
    return [[names[one], names[other]] for one, other in combinations(names, 2) if other in blocked[one]]
