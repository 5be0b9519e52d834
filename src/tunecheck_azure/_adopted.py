"""Classes that only azure-ai-evaluation has. Their errors are raised as errors of `tunecheck_azure`.

A name such as ViolenceEvaluator becomes, by the first line that fits:

  azure-ai-evaluation is not installed    a class whose instances cannot be made; the error says what to install
  an enumeration, a function or a value   the package's own object
  a class                                 a subclass of the same name, whose `__init__` and `__call__` raise our errors
"""

import functools
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any, cast

from tunecheck_azure._exceptions import ErrorBlame, ErrorCategory, ErrorTarget, EvaluationException, not_installed

_PACKAGE = "azure.ai.evaluation"


def adopt_name(name: str, module: str = _PACKAGE) -> object:
    """Return an object of azure-ai-evaluation by its name.

    For a class, return a subclass of the same name that raises our EvaluationException. If the package is not
    installed, return a class that raises an error with install advice when an instance is made.

    Raises:
        AttributeError: the package has no such name.
    """
    try:
        return _subclass(name, module)
    except ModuleNotFoundError as error:
        # Another missing package is a fault of the installation, which must not be hidden.
        if not str(error.name).startswith("azure"):
            raise
        return not_installed(name)


def module_getattr(module: str) -> Callable[[str], object]:
    """Return a `__getattr__` for a module that offers the names of this module of azure-ai-evaluation."""

    def load_name(name: str) -> object:
        # Python itself asks for names such as __path__. They must not import the package.
        if name.startswith("__"):
            raise AttributeError(name)
        return adopt_name(name, f"{_PACKAGE}.{module}")

    return load_name


@functools.cache
def _subclass(name: str, module: str) -> object:
    """Return a class as a subclass that raises our errors from `__init__` and `__call__`, and other objects unchanged.

    Public parents of the class become subclasses in the same way, so that `isinstance` holds between adopted classes.
    """
    package = import_module(module)
    original: object = getattr(package, name)
    # Enumerations, which have `__members__`, cannot have subclasses.
    if not isinstance(original, type) or "__members__" in dir(original):
        return original

    parents = [each for each in original.__mro__[1:] if vars(package).get(each.__name__) is each]
    bases = (original, *(cast("type", _subclass(each.__name__, module)) for each in parents))

    attributes = {"__module__": module.replace(_PACKAGE, "tunecheck_azure"), "__doc__": original.__doc__}

    for method in ("__init__", "__call__"):
        function = next((vars(each)[method] for each in original.__mro__ if method in vars(each)), None)
        if inspect.isfunction(function):
            attributes[method] = _translate_errors(function)
    return type(original)(name, bases, attributes)


def _translate_errors(function: Callable[..., Any]) -> Any:  # noqa: ANN401 - a method of a class that is not typed here
    """Return a function or coroutine function that raises our EvaluationException for the package's."""
    if not inspect.iscoroutinefunction(function):
        return translate_errors()(function)  # a context manager that decorates the function

    @functools.wraps(function)
    async def awaited(*args: object, **kwargs: object) -> object:
        with translate_errors():
            return await function(*args, **kwargs)

    return awaited


@contextmanager
def translate_errors() -> Iterator[None]:
    """Raise EvaluationExceptions of azure-ai-evaluation as those of `tunecheck_azure`.

    Targets and categories that only azure-ai-evaluation knows stay unchanged.
    """
    theirs = import_module(f"{_PACKAGE}._exceptions").EvaluationException
    try:
        yield
    except theirs as error:
        raise EvaluationException(
            error.message,
            internal_message=error.internal_message,
            target=ErrorTarget.__members__.get(error.target.name, error.target),
            category=ErrorCategory.__members__.get(error.category.name, error.category),
            blame=ErrorBlame.__members__[error.blame.name],
            tsg_link=error.tsg_link,
        ) from error
