"""Files of the workspace as modules, and the extension that each of them offers.

A file `evaluators/word_count.py` offers its object named `word_count` or `evaluator`, else its class with that `kind`,
else its only public class or function.
"""

import importlib.util
import inspect
import sys
import typing
from collections.abc import Sequence
from enum import Enum
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import spec_from_loader
from pathlib import Path
from types import FunctionType, ModuleType
from typing import TypeAlias

from tunecheck._errors import PluginError
from tunecheck._version import is_shipped

WORKSPACE_MODULES = "tunecheck_workspace"
"""Modules loaded from a workspace's files are named `tunecheck_workspace.<folder>.<file>`."""

_Named: TypeAlias = "type[object] | FunctionType"

_LOADED_FROM = "__tunecheck_loaded_from__"


def load_file(path: Path, module_name: str) -> ModuleType:
    """Run a workspace file as a module of that name and register it, so that its classes can be pickled.

    A file that has changed since it was loaded is loaded again.

    Raises:
        PluginError: The file cannot be read as a module.
    """
    known, state = sys.modules.get(module_name), _file_state(path)
    if known is not None and vars(known).get(_LOADED_FROM) == state:
        return known
    loader = SourceFileLoader(module_name, str(path))
    module = importlib.util.module_from_spec(spec_from_loader(module_name, loader) or ModuleSpec(module_name, loader))
    vars(module)[_LOADED_FROM] = state
    _register_packages(module_name)
    sys.modules[module_name] = module
    try:
        # Not by the loader, which would litter the workspace with compiled files and takes them by the second.
        exec(loader.source_to_code(path.read_bytes(), str(path)), vars(module))  # noqa: S102
    except BaseException:  # noqa: BLE001 - a module that is half loaded must not stay, whatever ended it
        del sys.modules[module_name]
        raise
    return module


def _register_packages(module_name: str) -> None:
    """Register the packages of a dotted name as empty modules: pickling imports them."""
    parts = module_name.split(".")[:-1]
    for length in range(1, len(parts) + 1):
        package = ModuleType(".".join(parts[:length]))
        package.__path__ = []
        sys.modules.setdefault(package.__name__, package)


def _file_state(path: Path) -> tuple[str, int, int]:
    try:
        status = path.stat()
    except OSError as error:
        raise PluginError(f"{path} cannot be read: {error.strerror}") from None
    return str(path), status.st_mtime_ns, status.st_size


def offered_by(path: Path) -> object:
    """Load a file of the workspace and return what it offers.

    Raises:
        PluginError: It offers nothing, or several things.
    """
    folder, path = path.parent.name, path.resolve()
    module = load_file(path, f"{WORKSPACE_MODULES}.{folder}.{path.stem}")
    names = (path.stem, folder.removesuffix("s"))
    for name in names:
        if hasattr(module, name):
            return getattr(module, name)
    own = [
        value
        for name, value in vars(module).items()
        if not name.startswith("_")
        and (inspect.isclass(value) or inspect.isfunction(value))
        and value.__module__ == module.__name__
    ]
    own = [value for value in own if vars(value).get("kind") == path.stem] or _plugins_among(own)
    if len(own) != 1:
        wanted = " or ".join(map(repr, names)) + (
            f", or set its kind = {path.stem!r}" if names[1] == "endpoint" else ""
        )
        raise PluginError(f"{path} defines {len(own)} public classes and functions; call the one to use {wanted}")
    return own[0]


def _plugins_among(own: Sequence[_Named]) -> list[_Named]:
    """Return the classes and functions that may be a plug-in; if just one is a subclass of ours, only that."""
    able = [each for each in own if not typing.is_typeddict(each)]
    able = [each for each in able if not (isinstance(each, type) and issubclass(each, (Enum, BaseException, tuple)))]
    ours: list[_Named] = [each for each in able if isinstance(each, type) and any(map(_is_ours, each.__mro__))]
    return ours if len(ours) == 1 else able


def _is_ours(owner: type) -> bool:
    return is_shipped(owner.__module__)
