"""Fingerprints: hashes that say whether an evaluator or a target is still the one that gave a recorded result.

A fingerprint is made of a thing's name, its arguments and its source. What has no stable state (a closure over
objects, an instance that cannot be told from another one) has none: None.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import sys
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import CodeType, FunctionType, MethodType

from tunecheck.jsontext import JSON, canonical

__all__ = ["content_hash", "fingerprint", "package_source_hash", "stable_arguments"]

_OWN_ROOMS = ("calls", "evaluators", "prompts", "simulators", "conversations")
"""Our own evaluators share code; a change in any of these rooms counts as a change of each."""


def content_hash(value: object) -> str:
    """16 hex digits that equal values share, whatever the order of their keys.

    Raises:
        TypeError: the value has no JSON form.
    """
    return hashlib.blake2b(canonical(value), digest_size=8).hexdigest()


def fingerprint(thing: object) -> str | None:
    """The fingerprint of a callable: a function, a class's instance, a partial, a bound method."""
    parts = _parts(thing)
    if parts is None:
        return None
    try:
        return content_hash(parts)
    except TypeError:
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
    return ["instance", kind.__module__, kind.__qualname__, arguments, _source(kind)]


def stable_arguments(thing: object) -> dict[str, JSON] | None:
    """An instance's arguments as data: what it declares as `arguments`, else its attributes, if they are all data."""
    declared = getattr(thing, "arguments", None)
    state = declared if isinstance(declared, dict) else getattr(thing, "__dict__", None)
    if state is None:
        return None if hasattr(type(thing), "__slots__") else {}
    data = _as_json(state)
    return data if isinstance(data, dict) else None


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
    if top == "tunecheck":
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
    # The rest of a script changes all the time (which evaluators, which file): only the definition itself counts.
    try:
        return hashlib.blake2b(inspect.getsource(thing).encode(), digest_size=8).hexdigest()
    except (OSError, TypeError):
        return ""


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
