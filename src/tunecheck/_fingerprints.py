"""Fingerprints: hashes by which a later run detects that an evaluator or a target has changed.

A fingerprint covers a name, arguments, and the code that decides verdicts:

    a class of Tunecheck       its `scoring_version`, which is raised whenever a verdict can change
    a class of a user          its methods and constants in memory, and the source of its module
    a function                 its code, defaults and captured values, and the source of its module
    a function of a script     the same without the source, but with the functions and constants that it uses
    an instance                its class, and its dict `arguments`, else all its attributes
    a partial, a bound method  the function or instance behind it, and the bound arguments

The source is hashed without comments and docstrings, together with the version of its package. Objects with hidden
state or code have no fingerprint; their results are not reused.
"""

import ast
import dis
import functools
import json
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import CodeType, FunctionType, MethodType

from tunecheck._json import JSON, content_hash
from tunecheck._version import __version__, is_shipped


class _Plain:
    """A class whose instances keep all state in `__dict__`."""


HIDDEN: dict[str, str] = {}
"""Values from the environment in evaluators' settings, with the references that replace them."""


def fingerprint(thing: object) -> str | None:
    """Return the fingerprint of a function, an instance, a partial or a bound method; None if it cannot have one."""
    try:
        return content_hash(_parts(thing))
    except Exception:  # noqa: BLE001 - reading a user's object runs its code; an unreadable one has no fingerprint
        return None


def stable_arguments(thing: object) -> dict[str, JSON] | None:
    """Return an instance's arguments for the manifest: its dict `arguments`, else its attributes.

    None if they are not plain data.
    """
    try:
        arguments: dict[str, JSON] = json.loads(_data(_arguments(thing)))
    except Exception:  # noqa: BLE001 - reading a user's object runs its code
        return None
    return arguments


def _parts(thing: object) -> JSON:
    """Return the content to hash for a fingerprint: kind, name, arguments and code.

    Raises:
        Exception: the thing has hidden state or code, so it has no fingerprint.
    """
    if isinstance(thing, functools.partial):
        return ["partial", _parts(thing.func), _data([thing.args, thing.keywords])]
    if isinstance(thing, MethodType):
        return ["method", thing.__func__.__name__, _parts(thing.__self__)]
    if isinstance(thing, FunctionType):
        return ["function", thing.__module__, thing.__qualname__, _function(thing, set()), _source(thing)]
    kind = type(thing)

    return ["instance", kind.__module__, kind.__qualname__, _data(_arguments(thing)), _class(kind, set())]


def _arguments(thing: object) -> dict[str, object]:
    """Return an instance's settings: its dict `arguments`, else all its attributes.

    Raises:
        TypeError: the instance keeps state outside of its attributes.
    """
    declared = getattr(thing, "arguments", None)
    if isinstance(declared, dict):
        return declared

    # A larger instance keeps state outside of `__dict__`: in slots, or in a base class written in C.
    if type(thing).__basicsize__ != _Plain.__basicsize__:
        raise TypeError(f"a {type(thing).__name__} has settings outside `__dict__`: list all in a dict `arguments`")
    return vars(thing)


def _data(value: object) -> str:
    """Return a plain value as JSON, with values from the environment replaced by their references.

    Raises:
        TypeError: the value contains an object.
    """
    text = json.dumps(value, sort_keys=True)
    # The reference counts, not the value of the variable. `[1:-1]` removes the quotation marks of a JSON text.
    for hidden, reference in HIDDEN.items():
        text = text.replace(json.dumps(hidden)[1:-1], json.dumps(reference)[1:-1])
    return text


def _class(kind: type, seen: set[int]) -> JSON:
    """Return what decides the verdicts of a class: the scoring version of our base classes, and users' code.

    `seen` has the ids of values already included, so that references in circles end.
    """
    owners = [owner for owner in kind.__mro__ if _package(owner) not in sys.stdlib_module_names]
    user_classes = [owner for owner in owners if not is_shipped(owner.__module__)]
    # If not all owners are user classes, one of them is ours and has a version.
    parts: list[JSON] = [kind.scoring_version] if len(user_classes) < len(owners) else []  # type: ignore[attr-defined]

    for owner in user_classes:
        members = {name: _member(name, member, seen) for name, member in vars(owner).items()}
        parts.append([owner.__qualname__, {name: part for name, part in members.items() if part is not None}])
        parts.append(_source(owner))
    return parts


def _member(name: str, member: object, seen: set[int]) -> JSON:
    """Return the fingerprint of a class's method or constant; None for other members and unreadable values.

    The object in memory counts, because its file may have changed since the import. `seen` has the ids of values
    already included.
    """
    # Static methods, class methods and properties wrap the function.
    function = getattr(member, "__func__", None) or getattr(member, "fget", None) or member
    if isinstance(function, FunctionType):
        return _fingerprint_of_value(function, seen)
    return None if name.startswith("__") or isinstance(member, type) else _fingerprint_of_value(member, seen)


def _function(function: FunctionType, seen: set[int]) -> JSON:
    """Return a function's code and captured values; for a script, also the functions and constants that it uses.

    The rest of a script does not count, because its file names and evaluators change often. The ids of the values that
    are used by name are added to `seen`, so that each is included once.
    """
    closure = [cell.cell_contents for cell in function.__closure__ or ()]
    captured = _data([closure, function.__defaults__, function.__kwdefaults__])

    # Other modules are covered as a whole by the hash of their source.
    names = _names(function.__code__) & function.__globals__.keys() if function.__module__ == "__main__" else ()

    used: dict[str, JSON] = {}
    for name in sorted(names):
        value = function.__globals__[name]
        if id(value) not in seen:
            seen.add(id(value))
            used[name] = _fingerprint_of_value(value, seen)

    return [captured, _code(function.__code__), used]


def _fingerprint_of_value(value: object, seen: set[int]) -> JSON:
    """Return the fingerprint of a function, class or constant that other code uses; None for other values.

    `seen` has the ids of values already included; a function adds those of the values that it uses.
    """
    try:
        if isinstance(value, FunctionType):
            return [_function(value, seen), _source(value)]
        return _class(value, seen) if isinstance(value, type) else _data(value)
    except (TypeError, ValueError, AttributeError):
        return None


def _code(code: CodeType) -> str:
    """Return a hash of bytecode that is the same in every process; docstrings do not count."""
    steps = [(step.opname, step.argval) for step in dis.get_instructions(code)]
    stable = [[name, _code(value) if isinstance(value, CodeType) else _constant(value)] for name, value in steps]
    return content_hash([stable, code.co_varnames])


def _constant(value: object) -> str:
    """Return a constant of bytecode as text that is the same in every process."""
    # A set's order changes with the hash seed.
    return repr(sorted(map(repr, value))) if isinstance(value, frozenset) else repr(value)


def _names(code: CodeType) -> set[str]:
    """Return the global names and attributes that a function uses, also in its inner functions."""
    inner = (_names(constant) for constant in code.co_consts if isinstance(constant, CodeType))
    return set(code.co_names).union(*inner)


def _package(thing: FunctionType | type) -> str:
    """Return the name of the top-level package in which a function or class is defined."""
    return thing.__module__.partition(".")[0]


def _source(thing: FunctionType | type) -> str:
    """Return a text that changes with the source of the module: the source's hash and its package's version.

    For a module of Tunecheck, this is Tunecheck's version; for a script, an empty text.
    """
    if is_shipped(thing.__module__):
        return __version__

    if thing.__module__ == "__main__":
        return ""
    path = getattr(sys.modules.get(thing.__module__), "__file__", None) or ""

    try:
        installed = version(_package(thing))
    except (PackageNotFoundError, ValueError):
        installed = ""
    return f"{_hash_without_comments(Path(path).read_bytes()) if path.endswith('.py') else ''} {installed}"


@functools.lru_cache(maxsize=64)
def _hash_without_comments(source: bytes) -> str:
    """Return a hash of source code that ignores comments, layout and docstrings."""
    tree = ast.parse(source)

    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for node in ast.walk(tree):
        # A class or function may consist of a docstring only.
        if isinstance(node, documented) and ast.get_docstring(node):
            node.body = node.body[1:] or [ast.Pass()]
    return content_hash(ast.dump(tree))
