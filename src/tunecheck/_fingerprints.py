"""Fingerprints: hashes that say whether an evaluator or a target is still the one that gave a recorded result.

A fingerprint is made of a thing's name, its arguments and its source. What has no stable state (a closure over
objects, an instance that cannot be told from another one) has none: None.
"""

import functools
import hashlib
import inspect
import sys
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import CodeType, FunctionType, MethodDescriptorType, MethodType, WrapperDescriptorType

from tunecheck._json import JSON, content_hash
from tunecheck._version import is_shipped

_OWN_ROOMS = ("calls", "evaluators", "prompts", "simulators", "episodes")
"""Our own evaluators share code; a change in any of these rooms counts as a change of each."""


def fingerprint(thing: object) -> str | None:
    """The fingerprint of a callable: a function, a class's instance, a partial, a bound method."""
    try:
        parts = _parts(thing)
        return None if parts is None else content_hash(parts)
    except Exception:  # noqa: BLE001 - looking at somebody's object runs its code; what cannot be looked at has none
        return None


def _parts(thing: object) -> JSON:
    if isinstance(thing, functools.partial):
        inner = fingerprint(thing.func)
        arguments = _as_json([list(thing.args), thing.keywords])
        return None if inner is None or arguments is None else ["partial", inner, arguments]
    if isinstance(thing, MethodType):
        inner, owner = fingerprint(thing.__func__), fingerprint(thing.__self__)
        return None if inner is None or owner is None else ["method", inner, owner]
    if isinstance(thing, FunctionType):
        return _function_parts(thing)
    arguments = stable_arguments(thing)
    if arguments is None:
        return None
    kind = type(thing)
    return ["instance", kind.__module__, kind.__qualname__, arguments, _members(kind), _source(kind)]


def stable_arguments(thing: object) -> dict[str, JSON] | None:
    """An instance's arguments as data: what it declares as `arguments`, else its attributes, if they are all data."""
    declared = getattr(thing, "arguments", None)
    data = _as_json(declared if isinstance(declared, dict) else _attributes(thing))
    return data if isinstance(data, dict) else None


def _attributes(thing: object) -> dict[str, object] | None:
    """All attributes, those in slots too; None for what keeps its state where Python does not see it."""
    kinds = [kind for kind in type(thing).__mro__ if kind is not object]
    if not all(map(_made_in_python, kinds)):
        return None
    slots = {name: getattr(thing, name) for kind in kinds for name in _slots(kind) if hasattr(thing, name)}
    return slots | getattr(thing, "__dict__", {})


def _made_in_python(kind: type) -> bool:
    return not any(isinstance(part, (WrapperDescriptorType, MethodDescriptorType)) for part in vars(kind).values())


def _slots(kind: type) -> list[str]:
    """The names of a class's slots as attributes; private ones carry the class's name."""
    declared = vars(kind).get("__slots__", ())
    names = [declared] if isinstance(declared, str) else [name for name in declared if not name.endswith("__")]
    return [f"_{kind.__name__.lstrip('_')}{name}" if name.startswith("__") else name for name in names]


def _members(kind: type) -> list[JSON]:
    """A class's methods and constants as they are in memory: the file may have changed since it was imported."""
    return [
        [owner.__qualname__, name, _member(member)]
        for owner in kind.__mro__
        if not is_shipped(owner.__module__) and owner.__module__ != "builtins"
        for name, member in vars(owner).items()
        if isinstance(_function(member), FunctionType) or (not name.startswith("__") and _is_data(member, 0))
    ]


def _member(member: object) -> JSON:
    function = _function(member)
    return _code(function.__code__) if isinstance(function, FunctionType) else _as_json(member)


def _function(member: object) -> object:
    """The function inside a static or class method or a property; anything else as it is."""
    return getattr(member, "__func__", None) or getattr(member, "fget", None) or member


def _function_parts(function: FunctionType) -> JSON:
    closure = [cell.cell_contents for cell in function.__closure__ or ()]
    captured = _as_json([closure, list(function.__defaults__ or ()), function.__kwdefaults__ or {}])
    if captured is None:
        return None
    return [
        "function",
        function.__module__,
        function.__qualname__,
        captured,
        _code(function.__code__),
        _source(function),
    ]


def _as_json(value: object) -> JSON:
    """The value, if it is plain data throughout, else None. Lenient encoders would hide an object behind a text."""
    return value if _is_data(value, 0) else None  # type: ignore[return-value]


def _is_data(value: object, depth: int) -> bool:
    if value is None or type(value) in (bool, int, float, str):
        return True
    if depth > 20:
        return False
    if type(value) in (list, tuple):
        return all(_is_data(item, depth + 1) for item in value)  # type: ignore[attr-defined]
    if type(value) is dict:
        return all(type(key) is str and _is_data(item, depth + 1) for key, item in value.items())
    return False


def _code(code: CodeType) -> str:
    """A hash of what the code does, stable from process to process."""
    digest = hashlib.blake2b(code.co_code, digest_size=8)
    for constant in code.co_consts:
        digest.update((_code(constant) if isinstance(constant, CodeType) else _constant(constant)).encode())
    digest.update(repr((code.co_names, code.co_varnames)).encode())
    return digest.hexdigest()


def _constant(value: object) -> str:
    # A set's order changes with the hash seed.
    return repr(sorted(map(repr, value))) if isinstance(value, frozenset) else repr(value)


def _source(thing: Callable[..., object] | type) -> str:
    """A hash of the source behind a class or function: its module's file, and its package's version."""
    module = thing.__module__
    top = module.partition(".")[0]
    if is_shipped(module):
        return package_source_hash(_OWN_ROOMS)
    if module == "__main__":
        return _own_source(thing)
    path = getattr(sys.modules.get(module), "__file__", None)
    try:
        source = hashlib.blake2b(Path(path).read_bytes(), digest_size=8).hexdigest() if path else ""
    except OSError:
        source = ""
    return f"{source} {_version(top)}"


def _own_source(thing: Callable[..., object] | type) -> str:
    # The rest of a script changes all the time (which evaluators, which file): only the definition counts, and what
    # it uses of the script.
    try:
        text = inspect.getsource(thing)
    except (OSError, TypeError):
        text = ""
    return content_hash([text, _used(thing, set())])


def _used(thing: object, seen: set[int]) -> list[JSON]:
    """The functions, classes and constants of its own script that a function or a class uses, and those they use."""
    used: list[JSON] = []
    members = vars(thing).values() if isinstance(thing, type) else [thing]
    for function in filter(lambda member: isinstance(member, FunctionType), map(_function, members)):
        assert isinstance(function, FunctionType)
        for name in sorted(_names(function.__code__) & function.__globals__.keys()):
            value = function.__globals__[name]
            if id(value) not in seen:
                seen.add(id(value))
                used.append([name, _used_value(value, seen)])
    return used


def _used_value(value: object, seen: set[int]) -> JSON:
    if isinstance(value, FunctionType):
        return [_code(value.__code__), _source(value)] if value.__module__ != "__main__" else _used_own(value, seen)
    if isinstance(value, type):
        return _source(value) if value.__module__ != "__main__" else [_members(value), _used(value, seen)]
    return _as_json(value)


def _used_own(function: FunctionType, seen: set[int]) -> JSON:
    return [_code(function.__code__), _as_json(list(function.__defaults__ or ())), _used(function, seen)]


def _names(code: CodeType) -> set[str]:
    return set(code.co_names).union(
        *(_names(constant) for constant in code.co_consts if isinstance(constant, CodeType))
    )


def _version(package: str) -> str:
    try:
        return version(package)
    except (PackageNotFoundError, ValueError):
        return ""


@functools.cache
def package_source_hash(rooms: tuple[str, ...]) -> str:
    """A hash of the source of some rooms of this package."""
    digest = hashlib.blake2b(digest_size=8)
    root = Path(__file__).parent
    for room in rooms:
        for path in sorted((root / room).rglob("*.py")):
            digest.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()
