"""A service that was made for a data set, as two files: a class of a few lines, and its tables as JSON."""

from __future__ import annotations

import keyword
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from tunecheck import ConfigurationError
from tunecheck.plugins import JSON, told_as, write_file
from tunecheck.runs import dumps_readably
from tunecheck.simulators import Resource, Resources
from tunecheck_authoring._openapi.document import ApiDocument
from tunecheck_authoring._openapi.operations import identifier, read_operations
from tunecheck_authoring._openapi.resources import ResourceModel
from tunecheck_authoring._openapi.samples import sample_configuration

_SOURCE = '''\
"""A simulated service that `tunecheck datasets author` made. Edit its tables in {tables} as you like.

{tables_are}
What tables cannot say is a method marked with `tunecheck.simulators.tool`.
"""

from pathlib import Path

from tunecheck.simulators import {base}


class {name}({base}):
    tables = Path(__file__).with_suffix(".tables.json")
'''
_RESOURCES = """\
`resources` are the kinds of records, `actions` what each function does to them, `configuration` what conversations
start from."""


def write_simulator(openapi: Path, path: Path, *, only: Sequence[str] = (), seed: int = 0) -> bool:
    """Write the simulator of an OpenAPI file; False where the file is there: somebody may have edited it.

    Raises:
        ConfigurationError: the OpenAPI file cannot be used, the simulator's cannot be written, or its name is no name.
    """
    require_name(path)
    if path.exists():
        return False
    made = ResourceModel(read_operations(ApiDocument(openapi), only))
    tables: dict[str, JSON] = {
        "resources": {name: _resource(kind.resource()) for name, kind in made.kinds.items()},
        "actions": {
            name: {key: value for key, value in asdict(action).items() if value or key == "does"}
            for name, action in made.actions.items()
        },
        "configuration": sample_configuration(made.kinds, seed),
    }
    write_service(path, Resources.__name__, _RESOURCES, tables)
    return True


def _resource(resource: Resource) -> JSON:
    return {name: value for name, value in asdict(resource).items() if value or name == "key"}


def require_name(path: Path) -> None:
    """Refuse a simulator's file whose name could not name the simulator."""
    if not path.stem.isidentifier() or keyword.iskeyword(path.stem) or path.stem.startswith("_"):
        raise ConfigurationError(f"{path}: a simulator's file is named by letters, digits and _, as my_service.py")


def write_service(path: Path, base: str, tables_are: str, tables: Mapping[str, JSON], more: str = "") -> None:
    """Write a simulator's file and its tables.

    Args:
        path: The file.
        base: The class that it inherits from.
        tables_are: What its tables hold, in words.
        tables: The tables by name.
        more: Further lines of the class.

    Raises:
        ConfigurationError: A file cannot be written.
    """
    text = _SOURCE.format(
        tables=path.with_suffix(".tables.json").name,
        tables_are=tables_are,
        base=base,
        name=_class_name(path.stem, base),
    )
    with told_as(ConfigurationError, path, "cannot be written"):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_file(path.with_suffix(".tables.json"), dumps_readably(tables))
        write_file(path, f"{text}{more}".encode())


def _class_name(name: str, base: str) -> str:
    words = "".join(part[:1].upper() + part[1:] for part in identifier(name).split("_"))
    return f"{words}Service" if words == base or keyword.iskeyword(words) else words
