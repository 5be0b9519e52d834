"""Write a service for a data set as two files: a short class, and its tables as JSON."""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from random import Random

from tunecheck import ConfigurationError
from tunecheck.plugins import JSON, told_as, write_file
from tunecheck.runs import dumps_readably
from tunecheck_authoring._author.values import plain_values
from tunecheck_authoring._author.wording import words_of
from tunecheck_authoring._openapi.document import ApiDocument, Schema
from tunecheck_authoring._openapi.operations import identifier, read_operations
from tunecheck_authoring._openapi.resources import ResourceKind, ResourceModel, references
from tunecheck_authoring._services.resources import Resource, Resources, made_key

_RECORDS = 6
_MOST_FIELDS = 8
_PERSONAL = frozenset("email username userName firstName first_name lastName last_name phone".split())
_THINGS = ("Juniper", "Cobalt", "Harbour", "Maple", "Quartz", "Willow")
_SAYS_NOTHING = re.compile(r"_|.*(_url|_links|href|node_id|etag)$|(self|url)$", re.IGNORECASE)


def sample_configuration(kinds: Mapping[str, ResourceKind], seed: int) -> dict[str, JSON]:
    """Return records of each kind; conversations draw some of them if no other records refer to them."""
    samples = _Samples(kinds, Random(f"samples {seed}"))
    spoken_of = {other.name for kind in kinds.values() for _, other in references(kind, kinds)}
    spoken_of |= {owner for kind in kinds.values() for owner in kind.scopes.values() if owner is not None}
    configuration: dict[str, JSON] = {}
    for name, kind in kinds.items():
        records: list[JSON] = [*samples.of(kind)]
        if kind.key is None:
            configuration[name] = records[0]
        else:
            configuration[name] = records if name in spoken_of else {"$some": records}
    return configuration


class _Samples:
    def __init__(self, kinds: Mapping[str, ResourceKind], random: Random) -> None:
        self._kinds, self._random = kinds, random
        self._made: dict[str, list[dict[str, JSON]]] = {}

    def of(self, kind: ResourceKind) -> list[dict[str, JSON]]:
        """Return the records of a kind; records that they refer to are made first."""
        if kind.name not in self._made:
            self._made[kind.name] = []  # kinds may refer to each other
            count = 1 if kind.key is None else _RECORDS
            self._made[kind.name] = [self._record(kind, number) for number in range(1, count + 1)]
        return self._made[kind.name]

    def _record(self, kind: ResourceKind, number: int) -> dict[str, JSON]:
        record: dict[str, JSON] = {}
        if kind.key is not None and kind.key not in kind.scopes:
            record[kind.key] = self._key(kind, number)
        for at, (parameter, owner) in enumerate(kind.scopes.items(), 1):
            name = kind.field_of(parameter) or parameter
            record[name] = self._value(name, {"type": "string"}, at + number % 2) if owner is None else None
            if owner is not None:
                record[name] = self._key_of(self._kinds[owner], number)
        others = dict(references(kind, self._kinds))
        for name in self._choose_fields(kind):
            if name not in record:
                other = others.get(name)
                if other is not None:
                    record[name] = self._key_of(other, self._random.randint(1, _RECORDS))
                elif name == "name" and not _PERSONAL.intersection(kind.fields):
                    record[name] = _THINGS[number % len(_THINGS)]
                else:
                    record[name] = self._value(name, kind.fields[name], number)
        return record

    def _choose_fields(self, kind: ResourceKind) -> Iterator[str]:
        """Yield the most informative fields: required ones, those with choices, then the first ones."""
        useful = [name for name in kind.fields if not _SAYS_NOTHING.match(name)]
        order = sorted(useful, key=lambda name: (name not in kind.required, "enum" not in kind.fields[name]))
        chosen = {*order[:_MOST_FIELDS]}
        return (name for name in kind.fields if name in chosen)

    def _key(self, kind: ResourceKind, number: int) -> JSON:
        """Return a key: a name if keys are names, else one as the service makes them."""
        assert kind.key is not None
        schema = kind.fields.get(kind.key, {})
        named = [*dict.fromkeys(map(str, plain_values(kind.key, schema, self._random)))]
        last = words_of(kind.key)[-1:]
        if kind.makes == "text" and last != ["id"] and last != words_of(kind.name)[-1:] and number <= len(named):
            return named[number - 1]
        return made_key(kind.name, kind.makes, number)

    def _key_of(self, kind: ResourceKind, number: int) -> JSON:
        known = self.of(kind)
        if not known or kind.key is None:
            return made_key(kind.name, kind.makes, number)
        return known[number % len(known)][kind.key]

    def _value(self, name: str, schema: Schema, number: int) -> JSON:
        """Return a value, different for each record if possible."""
        values = [*plain_values(name, schema, self._random)]
        if "enum" in schema:
            return self._random.choice(values)
        if len(values) == 1:  # a single example would make all records equal
            values += plain_values(name, {**schema, "examples": []}, self._random)
        return values[number % len(values)]


_SOURCE = '''\
"""A simulated service that `tunecheck datasets author` made. Edit its tables in {tables} as you like.

{tables_are}
What tables cannot say is a method marked with `tunecheck.simulators.tool`.
"""

from pathlib import Path

from tunecheck_authoring import {base}


class {name}({base}):
    tables = Path(__file__).with_suffix(".tables.json")
'''
_RESOURCES = """\
`resources` are the kinds of records, `actions` what each function does to them, `configuration` what conversations
start from."""


def write_simulator(openapi: Path, path: Path, *, only: Sequence[str] = (), seed: int = 0) -> bool:
    """Write the simulator of an OpenAPI file; return False and keep the file if it exists, as it may be edited.

    Raises:
        ConfigurationError: The OpenAPI file cannot be used, the simulator's cannot be written, or has no valid name.
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
    """Refuse a simulator's file name that is no valid identifier."""
    if not path.stem.isidentifier() or keyword.iskeyword(path.stem) or path.stem.startswith("_"):
        raise ConfigurationError(f"{path}: a simulator's file is named by letters, digits and _, as my_service.py")


def write_service(path: Path, base: str, tables_are: str, tables: Mapping[str, JSON], more: str = "") -> None:
    """Write a simulator's file and its tables.

    Args:
        path: The file.
        base: The class that it inherits from.
        tables_are: A description of its tables.
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
