"""A simulated API as a Python file: tables that a person can read and edit.

All that comes from the OpenAPI file is written as a literal or as an identifier made of letters, digits and `_`.
"""

from __future__ import annotations

import dataclasses
import keyword
import math
import textwrap
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from tunecheck._errors import ConfigurationError, told_as
from tunecheck._json import JSON, canonical
from tunecheck._whole_files import write_file
from tunecheck.simulators._resources import Action, Resource
from tunecheck_authoring._author.wording import words_of
from tunecheck_authoring._openapi.document import ApiDocument
from tunecheck_authoring._openapi.operations import identifier, read_operations, unused
from tunecheck_authoring._openapi.resources import Resourced
from tunecheck_authoring._openapi.samples import sample_configuration

_WIDTH = 116
_SHARED_FROM = 50
"""Characters from which a schema that several actions have is written once."""

_HEAD = '''\
"""A simulated service, made from an OpenAPI file by `tunecheck datasets author`: edit it as you like.

`resources` are the kinds of records, `actions` what each function does to them, `configuration` what conversations
start from. What the tables cannot say is a method marked with `tunecheck.simulators.tool`.
"""

from tunecheck.simulators import Action, Resource, Resources
'''


class Name(str):
    """A name in the source, written as it is."""

    __slots__ = ()


def write_simulator(openapi: Path, path: Path, *, only: Sequence[str] = (), seed: int = 0) -> bool:
    """Write the simulator of an OpenAPI file; False where the file is there: somebody may have edited it.

    Raises:
        ConfigurationError: the OpenAPI file cannot be used, the simulator's cannot be written, or its name is no name.
    """
    require_name(path)
    if path.exists():
        return False
    document = ApiDocument(openapi)
    made = Resourced(read_operations(document, only))
    resources = {name: kind.resource() for name, kind in made.kinds.items()}
    text = source(path.stem, resources, made.actions, sample_configuration(made.kinds, seed))
    with told_as(ConfigurationError, path, "cannot be written"):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_file(path, text.encode())
    return True


def require_name(path: Path) -> None:
    """Refuse a simulator's file whose name could not name the simulator."""
    if not path.stem.isidentifier() or keyword.iskeyword(path.stem) or path.stem.startswith("_"):
        raise ConfigurationError(f"{path}: a simulator's file is named by letters, digits and _, as my_service.py")


def source(
    name: str, resources: Mapping[str, Resource], actions: Mapping[str, Action], configuration: Mapping[str, JSON]
) -> str:
    """The file's text."""
    constants, shared = _shared(actions)
    tables = {
        "resources": dict(resources),
        "actions": {each: dataclasses.replace(action, parameters=shared[each]) for each, action in actions.items()},
        "configuration": dict(configuration),
    }
    blocks = [f"{constant} = {written(schema, '')}\n" for constant, schema in constants.items()]
    body = "\n".join(f"    {table} = {written(content, '    ')}" for table, content in tables.items())
    return "\n".join([_HEAD, *blocks, f"\nclass {class_name(name)}(Resources):\n{body}\n"])


def class_name(name: str) -> str:
    words = "".join(part[:1].upper() + part[1:] for part in identifier(name).split("_"))
    return f"{words}Service" if words in ("Action", "Resource", "Resources") or keyword.iskeyword(words) else words


def _shared(actions: Mapping[str, Action]) -> tuple[dict[str, JSON], dict[str, dict[str, Mapping[str, JSON]]]]:
    """Long schemas that several actions have, by the name of a constant; and all actions' parameters with these."""
    texts = Counter(canonical(schema) for action in actions.values() for schema in action.parameters.values())
    constants: dict[str, JSON] = {}
    names: dict[bytes, str] = {}
    parameters: dict[str, dict[str, Mapping[str, JSON]]] = {}
    for each, action in actions.items():
        parameters[each] = {}
        for parameter, schema in action.parameters.items():
            text = canonical(schema)
            if texts[text] > 1 and len(text) >= _SHARED_FROM:
                if text not in names:
                    names[text] = unused(_constant(action.resource, parameter), constants)
                    constants[names[text]] = dict(schema)
                parameters[each][parameter] = Name(names[text])  # type: ignore[assignment]  # written as a name
            else:
                parameters[each][parameter] = schema
    return constants, parameters


def _constant(*names: str) -> str:
    return identifier("_".join(word for name in names for word in words_of(name))).upper()


def written(value: object, indent: str) -> str:
    """A value as Python source, broken where it would be too long for a line."""
    short = _short(value)
    if len(indent) + len(short) <= _WIDTH:
        return short
    deeper = f"{indent}    "
    if isinstance(value, Mapping):
        lines = [f"{_short(key)}: {written(each, deeper)}," for key, each in value.items()]
        return _broken("{", lines, "}", indent)
    if isinstance(value, (list, tuple)):
        return _broken("[", [f"{written(each, deeper)}," for each in value], "]", indent)
    if isinstance(value, (Action, Resource)):
        lines = [f"{name}={written(each, deeper)}," for name, each in _given(value)]
        return _broken(f"{type(value).__name__}(", lines, ")", indent)
    if isinstance(value, str) and " " in value:
        width = max(40, _WIDTH - len(deeper) - 8)
        pieces = textwrap.wrap(value, width, drop_whitespace=False, break_long_words=False, break_on_hyphens=False)
        if "".join(pieces) == value:
            return _broken("(", [_short(piece) for piece in pieces], ")", indent)
    return short


def _broken(opened: str, lines: Sequence[str], closed: str, indent: str) -> str:
    return "\n".join([opened, *(f"{indent}    {line}" for line in lines), f"{indent}{closed}"])


def _given(value: Action | Resource) -> list[tuple[str, object]]:
    """The fields that are not as they are anyway."""
    bare = Resource() if isinstance(value, Resource) else Action(value.does, value.resource)
    pairs = [(each.name, getattr(value, each.name)) for each in dataclasses.fields(value)]
    always = ("does", "resource") if isinstance(value, Action) else ()
    return [(name, each) for name, each in pairs if name in always or not _is_same(each, getattr(bare, name))]


def _is_same(value: object, default: object) -> bool:
    return value == default or (not value and not default and isinstance(default, (Sequence, Mapping)))


def _short(value: object) -> str:
    """On one line."""
    if isinstance(value, Name):
        return str(value)
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_short(key)}: {_short(each)}" for key, each in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_short, value)) + "]"
    if isinstance(value, (Action, Resource)):
        return f"{type(value).__name__}({', '.join(f'{name}={_short(each)}' for name, each in _given(value))})"
    if isinstance(value, float) and not math.isfinite(value):
        return "None"
    return _quoted(value) if isinstance(value, str) else repr(value)


def _quoted(text: str) -> str:
    """As `repr` writes it, in double quotes where that needs no more escapes."""
    plain = repr(text)
    return f'"{plain[1:-1]}"' if plain[0] == "'" and '"' not in plain and "\\" not in plain else plain
