"""Records that a simulated API starts from: plausible ones, by examples, enums, formats and names."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from random import Random

from tunecheck.plugins import JSON
from tunecheck.simulators import made_key
from tunecheck_authoring._author.values import plain_values
from tunecheck_authoring._author.wording import words_of
from tunecheck_authoring._openapi.document import Schema
from tunecheck_authoring._openapi.resources import ResourceKind, references

_RECORDS = 6
_MOST_FIELDS = 8
_PERSONAL = frozenset("email username userName firstName first_name lastName last_name phone".split())
_THINGS = ("Juniper", "Cobalt", "Harbour", "Maple", "Quartz", "Willow")
_SAYS_NOTHING = re.compile(r"_|.*(_url|_links|href|node_id|etag)$|(self|url)$", re.IGNORECASE)


def sample_configuration(kinds: Mapping[str, ResourceKind], seed: int) -> dict[str, JSON]:
    """Of each kind some records, fewer or more in each conversation where no other records speak of them."""
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
        """The records of a kind; those that they speak of are made before."""
        if kind.name not in self._made:
            self._made[kind.name] = []  # kinds may speak of each other
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
        for name in self._chosen(kind):
            if name not in record:
                other = others.get(name)
                if other is not None:
                    record[name] = self._key_of(other, self._random.randint(1, _RECORDS))
                elif name == "name" and not _PERSONAL.intersection(kind.fields):
                    record[name] = _THINGS[number % len(_THINGS)]
                else:
                    record[name] = self._value(name, kind.fields[name], number)
        return record

    def _chosen(self, kind: ResourceKind) -> Iterator[str]:
        """The fields that say most: those that one must give, those with choices, then the first."""
        useful = [name for name in kind.fields if not _SAYS_NOTHING.match(name)]
        order = sorted(useful, key=lambda name: (name not in kind.required, "enum" not in kind.fields[name]))
        chosen = {*order[:_MOST_FIELDS]}
        return (name for name in kind.fields if name in chosen)

    def _key(self, kind: ResourceKind, number: int) -> JSON:
        """A key: a name where it is one, else as the service makes them."""
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
        """A value, another one for each record as far as there are some."""
        values = [*plain_values(name, schema, self._random)]
        if "enum" in schema:
            return self._random.choice(values)
        if len(values) == 1:  # an example alone makes all records alike
            values += plain_values(name, {**schema, "examples": []}, self._random)
        return values[number % len(values)]
