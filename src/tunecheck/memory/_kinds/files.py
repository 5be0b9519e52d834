"""Kinds of memory tests from a user's file: a class in Python, or a declaration in YAML."""

from __future__ import annotations

import inspect
from pathlib import Path

from tunecheck._errors import PluginError
from tunecheck.memory._kind import Kind

_PYTHON, _YAML = (".py",), (".yaml", ".yml")


def is_kind_file(name: str) -> bool:
    """Whether a data set's name in a configuration is that of a file."""
    return name.lower().endswith((*_PYTHON, *_YAML))


def kind_from_file(path: Path) -> type[Kind]:
    """The kind that a file defines: a `.py` file's one class derived from Kind, or what a `.yaml` file declares.

    Raises:
        PluginError: the file does not load, or defines no kind, or several.
        ConfigurationError: the declaration is wrong; names the line.
    """
    if not path.is_file():
        raise PluginError(f"{path}: there is no such file; a data set's file is looked for beside the configuration")
    if path.suffix.lower() in _YAML:
        from tunecheck.memory._kinds.declared import declared_kind

        return declared_kind(path)
    return _python_kind(path.resolve())


def _python_kind(path: Path) -> type[Kind]:
    from tunecheck._plugins import WORKSPACE_MODULES, load_file

    module_name = f"{WORKSPACE_MODULES}.memory.{path.stem}"
    try:
        module = load_file(path, module_name)
    except PluginError:
        raise
    except (Exception, SystemExit) as error:  # loading runs somebody's module, which may raise anything
        reason = " ".join(str(error).split())
        raise PluginError(f"{path} does not load: {type(error).__name__}: {reason}") from error
    kinds = [
        value
        for value in vars(module).values()
        if inspect.isclass(value) and issubclass(value, Kind) and value.__module__ == module_name
    ]
    if len(kinds) != 1:
        found = ", ".join(kind.__name__ for kind in kinds) or "none"
        raise PluginError(f"{path} must define one class derived from tunecheck.memory._kind.Kind; found: {found}")
    return kinds[0]
