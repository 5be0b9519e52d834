"""Names that only azure-ai-evaluation has."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from tunecheck_azure._exceptions import not_installed

_PACKAGE = "azure.ai.evaluation"


def adopted(name: str, module: str = _PACKAGE) -> object:
    """Return that name of the package. If the package is not installed, return a class that says so when it is made.

    Raises:
        AttributeError: the package has no such name.
    """
    try:
        package = import_module(module)
    except ModuleNotFoundError as error:
        if not str(error.name).startswith("azure"):
            raise
        return not_installed(name)
    return getattr(package, name)


def names_of(module: str) -> Callable[[str], object]:
    """The `__getattr__` of a module that has the names of the package's module."""

    def named(name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)
        return adopted(name, f"{_PACKAGE}.{module}")

    return named
