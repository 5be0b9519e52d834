"""Find the kinds of records in an OpenAPI file, and write a simulator as a short class and a JSON file of tables.

**Kinds** (`ResourceModel`). Each path such as `/pets/{petId}` gives a kind, `pet`. Short paths come first. A longer
path with the same schema in its answer and the same last name is the same kind: `/owners/{id}/pets/{petId}`. Parameters
before the record's own, such as the owner's id, are the kind's scopes: they become fields of each record.

**Effect of an operation** (`_effect`). The first row that applies decides:

| operation | effect |
|---|---|
| path ends with the key of a kind, `/pets/{petId}` | GET reads, DELETE deletes, others update |
| GET with a list as the answer | list; read, if the kind has only one record |
| POST at a kind's path | create |
| POST without parameters in the path, with a known schema in answer or body | create |
| PUT or PATCH with a known schema and the parameter of its key | update |
| another GET | read, if there is only one record or the key is given; else list |
| another method at a kind's path | DELETE deletes, POST creates, others update |
| below a record, `POST /orders/{id}/cancel` | act: change that record |
| any other | create, of a new kind |

**Parameters of an action** (`_action`) are the key of the record, filters (parts of the path and, unless the operation
changes records, queries with a field's name), references to other kinds (`ownerId`), a search text, and a limit.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Literal, cast

import msgspec
from msgspec import to_builtins

from tunecheck import ConfigurationError
from tunecheck.plugins import JSON, raise_as, write_file
from tunecheck.runs import dumps_readably
from tunecheck_authoring._author.wording import singular, words_of
from tunecheck_authoring._author.world import plain_values
from tunecheck_authoring._openapi import ApiOperation, Schema, identifier, is_parameter, read_operations, unused_name
from tunecheck_authoring._table_simulators import Action, Resource, Resources, made_key

_SEARCH = frozenset("q query search keyword keywords term text".split())
_LIMIT = frozenset("limit per_page page_size pagesize max_results maxresults size count top first".split())
"""Names of parameters for a text that a listed record must contain, and for the most records to list."""

_IDS = ("id", "uuid", "key", "name", "slug", "code", "number")
"""Names of fields that may be the key of a record, the likeliest first."""

Place = tuple[str, ...]
"""The parts of a collection's path, with {} for each parameter: `("owners", "{}", "pets")`."""


class ResourceKind(msgspec.Struct):
    """A kind of records, such as pets. If `key` is None, there is only one record.

    `scopes` holds the path parameters before the record's own, each with the kind that it identifies (None: unknown).
    `required` are the fields that a new record must have.
    """

    name: str
    key: str | None
    fields: dict[str, Schema] = msgspec.field(default_factory=dict)
    scopes: dict[str, ResourceKind | None] = msgspec.field(default_factory=dict)
    required: list[str] = msgspec.field(default_factory=list)

    def field_of(self, parameter: str) -> str | None:
        """Return the field with a parameter's name, spelled alike (`pet_id` for `petId`, `tags` for `tag`), or None."""
        wanted = _spelling(parameter)
        return next((name for name in self.fields if _spelling(name) == wanted), None)

    @property
    def makes(self) -> Literal["number", "uuid", "text"]:
        """Return the kind of key that new records get."""
        schema = self.fields.get(self.key or "", {})

        if schema.get("type") in ("integer", "number"):
            return "number"
        return "uuid" if schema.get("format") == "uuid" else "text"

    def resource(self) -> Resource:
        """Return the kind as a table row of the simulator, with the default values of its fields."""
        values = {name: schema.get("default") for name, schema in self.fields.items() if name != self.key}
        defaults = {name: value for name, value in values.items() if value is not None}
        return Resource(key=self.key, makes=self.makes, defaults=defaults)


def _spelling(name: str) -> str:
    """Return a name without case, separators and a plural s: `petid` for `petId`, `pet_id` and `petIds`."""
    return "".join(words_of(name)).removesuffix("s")


class ResourceModel:
    """The kinds of records of an API, and the actions of its operations on them."""

    def __init__(self, operations: Sequence[ApiOperation]) -> None:
        """Find the kinds of records first, from short paths to long ones, and then the action of each operation."""
        self.kinds: dict[str, ResourceKind] = {}
        self.actions: dict[str, Action] = {}
        self._by_place: dict[Place, ResourceKind] = {}
        self._by_schema: dict[str, ResourceKind] = {}

        # Collections come before what is inside them, so that a scope finds its kind.
        by_length = sorted(operations, key=lambda each: len(each.parts))
        for operation in by_length:
            if operation.ends_with_key:
                self._add_items(operation)
        for operation in by_length:
            self._add_fields(operation)

        effects = [self._effect(operation) for operation in operations]  # adds the last kinds
        for operation, (kind, does) in zip(operations, effects, strict=True):
            self.actions[operation.name] = self._action(operation, kind, does)

    def _add_items(self, operation: ApiOperation) -> None:
        """Add the kind of records at a path such as `/pets/{petId}`, unless an earlier path has the same kind."""
        place = _place(operation.parts[:-1])
        if place in self._by_place or not operation.in_path:
            return
        known = self._by_schema.get(operation.answer.name) if operation.answer.name else None

        # A schema alone is not enough: different collections may share one, such as users and members.
        if known is not None and known.name == _named_by(place):
            self._by_place[place] = known
        else:
            known = self._new_kind(place, operation.in_path[-1])

        if operation.answer.name and not operation.answer.is_list:
            self._by_schema.setdefault(operation.answer.name, known)

    def _new_kind(self, place: Place, key: str | None) -> ResourceKind:
        """Add and return a kind for the collection at a place. If its name is taken, it gets a longer one.

        `key` is the field or parameter that identifies a record; None if there is only one record.
        """
        name = _named_by(place)
        if name in self.kinds:
            # For example `pet_toy` for `/pets/{}/toys` if there is a kind `toy`.
            longer = [each for each in place if each != "{}"][-2:]
            name = identifier("_".join(map(singular, longer))).lower()
        name = unused_name(name, self.kinds)
        kind = self.kinds[name] = self._by_place[place] = ResourceKind(name, key)
        return kind

    def _add_fields(self, operation: ApiOperation) -> None:
        """Add an operation's fields and required fields to the kind of records at its path, if there is one.

        Path parameters before the record's own become the kind's scopes: a pet belongs to the owner in
        `/owners/{id}/pets`.
        """
        kind = self._place_kind(operation)
        if kind is None:
            return

        has_key = operation.ends_with_key
        body = {each.original: each.schema for each in operation.parameters.values() if each.place == "body"}
        # Copies, because `readOnly` is removed below.
        answered = {name: dict(each) for name, each in operation.answer.fields.items()}

        if operation.method in ("get", "post", "put", "patch"):
            # Fields in the order of the body. If the answer has the field, too, its schema counts.
            for name, schema in ({**body, **answered} if body else answered).items():
                schema.pop("readOnly", None)
                kind.fields.setdefault(name, schema)

        if operation.method == "post" and not has_key:
            kind.required += [each.original for each in operation.parameters.values() if each.required]
        for at, parameter in enumerate(operation.in_path[:-1] if has_key else operation.in_path):
            kind.scopes.setdefault(parameter, self._owner(operation, at))

        if has_key and kind.key == operation.in_path[-1] and kind.key not in kind.fields:
            schema = operation.parameters[kind.key].schema
            kind.key = _key_field(kind, schema)
            kind.fields.setdefault(kind.key, schema)

    def _owner(self, operation: ApiOperation, number: int = -1) -> ResourceKind | None:
        """Return the kind of records that a path parameter identifies, or None if it is unknown.

        `number` counts the path's parameters; by default the last one, such as the order in `/orders/{id}/cancel`.
        """
        keys = [at for at, part in enumerate(operation.parts) if is_parameter(part)]
        has_parameter = -len(keys) <= number < len(keys)
        return self._by_place.get(_place(operation.parts[: keys[number]])) if has_parameter else None

    def _place_kind(self, operation: ApiOperation) -> ResourceKind | None:
        """Return the kind at the operation's path, without a last parameter, or None."""
        return self._by_place.get(_place(operation.parts[:-1] if operation.ends_with_key else operation.parts))

    def _effect(self, operation: ApiOperation) -> tuple[ResourceKind, str]:
        """Return the kind of records that an operation works on, and what it does: "read", "list", "create", …

        The path decides first, then the schema's name in the answer or body. If neither names a kind, one is added.
        """
        kind, method = self._place_kind(operation), operation.method
        if operation.ends_with_key and kind is not None:
            return kind, {"get": "read", "delete": "delete"}.get(method, "update")

        known = self._by_schema.get(operation.answer.name) or self._by_schema.get(operation.body_name)
        if method == "get" and operation.answer.is_list:
            kind = kind or known or self._add_kind_here(operation, "id")
            return kind, "list" if kind.key is not None else "read"
        if method == "post" and (kind is not None and kind.key is not None):
            return kind, "create"

        if method == "post" and known is not None and not operation.in_path:
            return known, "create"
        if method in ("put", "patch") and known is not None and self._key_parameter(operation, known) is not None:
            return known, "update"

        owner = self._owner(operation)
        if method == "get":
            kind = kind or self._add_kind_here(operation, None if owner is None else operation.in_path[-1])
            return kind, "read" if kind.key is None or self._key_parameter(operation, kind) else "list"

        if kind is not None:
            return kind, {"delete": "delete", "post": "create"}.get(method, "update")
        return (owner, "act") if owner is not None else (self._add_kind_here(operation, "id"), "create")

    def _add_kind_here(self, operation: ApiOperation, key: str | None) -> ResourceKind:
        """Add and return a kind of records for a path without one.

        `key` is the field that identifies a record: a number `id`, or the path's last parameter, which names the record
        around it (the user of `/users/{userId}/settings`). None: there is only one record.
        """
        kind = self._new_kind(_place(operation.parts), key)
        self._add_fields(operation)
        if key == "id":
            kind.fields.setdefault("id", {"type": "integer"})
        elif key is not None and key in operation.parameters:
            kind.fields[key] = operation.parameters[key].schema
            kind.scopes[key] = self._owner(operation, len(operation.in_path) - 1)
        return kind

    def _key_parameter(self, operation: ApiOperation, kind: ResourceKind) -> str | None:
        """Return the parameter that identifies the record: the last of the path, or the one named like the key.

        None if there is no such parameter.
        """
        if operation.in_path and (operation.ends_with_key or kind is self._owner(operation)):
            return operation.in_path[-1]

        by_field = {kind.field_of(each.original): name for name, each in operation.parameters.items()}
        return None if kind.key is None else by_field.get(kind.key)

    def _action(self, operation: ApiOperation, kind: ResourceKind, does: str) -> Action:
        """Return an operation as an action of the simulator on a kind of records.

        `does` is what the operation does. Parameters are sorted by their effect: the key, filters, references to other
        records, a search text, a limit, and those without effect.
        """
        key = self._key_parameter(operation, kind) if does in ("read", "update", "delete", "act") else None

        parameters = operation.parameters
        others = [name for name in parameters if name != key]
        from_path = [name for name in operation.in_path if name != key]

        writes = does in ("create", "update", "act")
        queries = [name for name in others if parameters[name].place == "query"]
        fields = [name for name in queries if kind.field_of(parameters[name].original)]
        filters = from_path if writes or does == "delete" else [*from_path, *fields]

        listed = others if does == "list" else []
        search = next((name for name in listed if name.lower() in _SEARCH), None)
        integers = (name for name in listed if parameters[name].schema.get("type") == "integer")
        limit = next((name for name in integers if name.lower() in _LIMIT), None)

        # A new record with a text as key gets its key from the call.
        needed = self._key_parameter(operation, kind) if does == "create" and kind.makes == "text" else None

        owners = {name: kind.scopes.get(name) for name in from_path}
        scopes = {name: owner.name for name, owner in owners.items() if owner is not None and owner is not kind}

        return Action(
            does=cast("Literal['create', 'read', 'update', 'delete', 'list', 'act']", does),
            resource=kind.name,
            description=operation.description or " ".join(words_of(operation.name)),
            parameters={name: parameter.schema for name, parameter in parameters.items()},
            required=[name for name, parameter in parameters.items() if parameter.required or name == needed],
            key=key,
            matches={name: kind.field_of(name) or name for name in filters if name not in (search, limit)},
            refers={**dict(self._references(operation, key)), **scopes},
            search=search,
            limit=limit,
            sets=_sets(operation, kind) if does == "act" else {},
            answers=operation.answer.field or None,
            ignores=[name for name in others if writes and parameters[name].place in ("query", "header")],
        )

    def _references(self, operation: ApiOperation, key: str | None) -> Iterator[tuple[str, str]]:
        """Yield each parameter that holds the key of another record, and that record's kind: `petId` and `pet`.

        `key` is the parameter with the operation's own record.
        """
        for name, parameter in operation.parameters.items():
            other = referred_kind(parameter.original, self.kinds)
            if name == key or parameter.place == "path" or other is None:
                continue
            # A reference has the type of the key: a number, if the keys are numbers.
            if (parameter.schema.get("type") in ("integer", "number")) == (other.makes == "number"):
                yield name, other.name


def _place(parts: Sequence[str]) -> Place:
    """Return the parts of a path with {} for each parameter."""
    return tuple("{}" if is_parameter(part) else part for part in parts)


def _named_by(place: Place) -> str:
    """Return a kind's name: the last fixed part of its path in the singular, such as `pet` for `/owners/{id}/pets`."""
    words = words_of(next((part for part in reversed(place) if part != "{}"), "item")) or ["item"]
    return identifier("_".join([*words[:-1], singular(words[-1])])).lower()


def _key_field(kind: ResourceKind, schema: Schema) -> str:
    """Return the field that holds a path's last parameter (`id` for `petId`), or else the parameter's own name.

    Candidates in their order: the parameter (`petId`), the parameter without the kind's name (`id`), and the names in
    `_IDS` if the parameter says no more than they do. The field must have the parameter's type.
    """
    parameter = kind.key or "id"
    kind_words = {*words_of(kind.name)}
    rest = "_".join(word for word in words_of(parameter) if singular(word) not in kind_words)

    candidates = (parameter, rest, *(_IDS if rest in ("", "id") or parameter.lower() in _IDS else ()))
    for each in candidates:
        found = kind.field_of(each) if each else None
        if found is not None and kind.fields[found].get("type", "string") == schema.get("type", "string"):
            return found
    return parameter


def _sets(operation: ApiOperation, kind: ResourceKind) -> dict[str, JSON]:
    """Return the field and value that the last word of an operation's path sets, its verb; empty if it sets none.

    `/orders/{id}/cancel` sets `status` to `cancelled`, because this enum value begins with the verb.
    """
    verb = next((part for part in reversed(operation.parts) if not is_parameter(part)), "").lower()
    for name, schema in kind.fields.items():
        choices = schema.get("enum")
        for choice in choices if isinstance(choices, list) else ():
            # The verb's last letter may change: `deny` sets `denied`.
            if isinstance(choice, str) and len(verb) > 3 and choice.lower()[: len(verb) - 1] == verb[:-1]:
                return {name: choice}
    return {}


def referred_kind(name: str, kinds: Mapping[str, ResourceKind]) -> ResourceKind | None:
    """Return the kind to which a field or parameter refers by its name (`petId` refers to `pet`), or None."""
    *words, last = words_of(name) or [""]
    kind = kinds.get(singular("_".join(words))) if last == "id" else None
    return None if kind is None or kind.key is None else kind


def references(kind: ResourceKind, kinds: Mapping[str, ResourceKind]) -> dict[str, ResourceKind]:
    """Return the fields that hold the keys of other kinds, with these kinds."""
    found = {name: referred_kind(name, kinds) for name in kind.fields if name != kind.key}
    return {name: other for name, other in found.items() if other is not None}


# -- samples

_RECORDS = 6
"""Sample records of each kind."""
_MOST_FIELDS = 8
"""The most fields of a sample record besides its key and scopes."""
# Fields of a kind of people: its `name` is a person's, not a thing's.
_PERSONAL = frozenset("email username userName firstName first_name lastName last_name phone".split())
_THINGS = ("Juniper", "Cobalt", "Harbour", "Maple", "Quartz", "Willow")
# Fields of links and technical ids, which no user would mention: `_meta`, `html_url`, `node_id`, `url`.
_SAYS_NOTHING = re.compile(r"_|.*(_url|_links|href|node_id|etag)$|(self|url)$", re.IGNORECASE)


def sample_configuration(kinds: Mapping[str, ResourceKind], seed: int) -> dict[str, JSON]:
    """Return sample records of each kind. The seed determines their values.

    Conversations draw some of the records (`$some`), unless records of another kind refer to them.
    """
    random = Random(f"samples {seed}")
    referred_names = {other.name for kind in kinds.values() for other in references(kind, kinds).values()}
    referred_names |= {owner.name for kind in kinds.values() for owner in kind.scopes.values() if owner is not None}

    configuration: dict[str, JSON] = {}
    for name, kind in kinds.items():
        if kind.key is None:
            configuration[name] = _sample_record(kind, kinds, 1, random)
            continue
        records: list[JSON] = [_sample_record(kind, kinds, number, random) for number in range(1, _RECORDS + 1)]
        # Records that others refer to must all exist in each conversation.
        configuration[name] = records if name in referred_names else {"$some": records}
    return configuration


def _sample_record(
    kind: ResourceKind, kinds: Mapping[str, ResourceKind], number: int, random: Random
) -> dict[str, JSON]:
    """Return a sample record of a kind, with the keys of the records to which it belongs or refers.

    `number` counts the kind's records from 1. The best fields are filled: first required ones, then those with choices.
    """
    record: dict[str, JSON] = {} if kind.key is None else {kind.key: _sample_key(kind, number)}
    next_number = number % _RECORDS + 1
    for at, (parameter, owner) in enumerate(kind.scopes.items(), 1):
        name = kind.field_of(parameter) or parameter
        if name not in record and owner is not None:
            record[name] = _sample_key(owner, next_number)
        elif name not in record:
            # One of two texts, so that several records have the same one
            record[name] = _value(name, {"type": "string"}, at + number % 2, random)

    others = references(kind, kinds)
    useful = [name for name in kind.fields if not _SAYS_NOTHING.match(name)]
    useful.sort(key=lambda name: (name not in kind.required, "enum" not in kind.fields[name]))
    for name in kind.fields:
        if name in record or name not in useful[:_MOST_FIELDS]:
            continue
        if name in others:
            # A reference points to any record of the other kind; a scope (above) to the one of the next number.
            record[name] = _sample_key(others[name], random.randint(1, _RECORDS) % _RECORDS + 1)
        elif name == "name" and not _PERSONAL.intersection(kind.fields):
            record[name] = _THINGS[number % len(_THINGS)]
        else:
            record[name] = _value(name, kind.fields[name], number, random)
    return record


def _sample_key(kind: ResourceKind, number: int) -> JSON:
    """Return the key of the n-th record: a name if keys are names, else a key like the simulator's.

    A record that is identified by the record around it, such as the settings of a user, has that record's key.
    """
    known: set[str] = set()  # kinds may be scopes of each other
    while kind.name not in known and (owner := kind.scopes.get(kind.key or "")) is not None:
        known.add(kind.name)
        kind, number = owner, number % _RECORDS + 1

    last = words_of(kind.key or "")[-1:]
    # A text key such as `username` gets a name. Keys called id, or like the kind itself, are made like the simulator's.
    if kind.key is not None and kind.makes == "text" and last != ["id"] and last != words_of(kind.name)[-1:]:
        named = [*dict.fromkeys(map(str, plain_values(kind.key, kind.fields.get(kind.key, {}), Random(0))))]
        if number <= len(named):
            return named[number - 1]
    return made_key(kind.name, kind.makes, number)


def _value(name: str, schema: Schema, number: int, random: Random) -> JSON:
    """Return a value for a field of the record with this number; records differ if several values are plausible."""
    values = [*plain_values(name, schema, random)]
    if "enum" in schema:
        return random.choice(values)
    if len(values) == 1:  # a single example would make all records equal
        values += plain_values(name, {**schema, "examples": []}, random)
    return values[number % len(values)]


_SOURCE = '''\
"""A simulated service that `tunecheck datasets author` made. Edit its tables in {tables} as you like.

{tables_are}
If the tables cannot describe a function, write it as a method marked with `tunecheck.simulators.tool`.
"""

from pathlib import Path

from tunecheck_authoring import {base}


class {name}({base}):
    tables = Path(__file__).with_suffix(".tables.json")
'''
_RESOURCES = """\
`resources` lists the kinds of records, `actions` the effect of each function, and `configuration` the records at the
start of a conversation."""


def write_simulator(openapi: Path, path: Path, *, only: Sequence[str] = (), seed: int = 0) -> bool:
    """Write the simulator of an OpenAPI file; return False and keep the file if it exists, as it may be edited.

    `only` has patterns for the path, a tag or the operationId of the operations to use; empty, all are used. The seed
    determines the values of the sample records.

    Raises:
        ConfigurationError: The OpenAPI file cannot be used, or the simulator's file cannot be written or has an invalid
            name.
    """
    require_name(path)
    if path.exists():
        return False

    model = ResourceModel(read_operations(openapi, only))
    tables: dict[str, JSON] = {
        "resources": {name: _table_row(kind.resource()) for name, kind in model.kinds.items()},
        "actions": {name: _table_row(action) for name, action in model.actions.items()},
        "configuration": sample_configuration(model.kinds, seed),
    }
    write_service(path, Resources.__name__, _RESOURCES, tables)
    return True


def _table_row(row: Resource | Action) -> dict[str, JSON]:
    """Return a row of a table without its empty values."""
    kept = ("key",) if isinstance(row, Resource) else ()  # without a key, there is only one record
    return {name: value for name, value in to_builtins(row).items() if value or name in kept}


def require_name(path: Path) -> None:
    """Raise ConfigurationError unless a simulator's file has a Python name without a leading underscore."""
    if not path.stem.isidentifier() or keyword.iskeyword(path.stem) or path.stem.startswith("_"):
        raise ConfigurationError(f"{path}: the name must be a Python name without leading _; give one like my_service")


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
    tables_file, name = path.with_suffix(".tables.json"), _class_name(path.stem, base)
    text = _SOURCE.format(tables=tables_file.name, tables_are=tables_are, base=base, name=name)
    with raise_as(ConfigurationError, path, "cannot be written"):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_file(tables_file, dumps_readably(tables))
        write_file(path, f"{text}{more}".encode())


def _class_name(name: str, base: str) -> str:
    """Return a class name for a simulator, which must differ from the class that it inherits from (`base`).

    For example `MyService` for `my_service`, and `ResourcesService` for `resources`.
    """
    words = "".join(part[:1].upper() + part[1:] for part in identifier(name).split("_"))
    return f"{words}Service" if words == base or keyword.iskeyword(words) else words
