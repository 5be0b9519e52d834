"""Which keyword parameters a callable takes, as the mapping needs to know."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tunecheck._errors import ConfigurationError


@dataclass(frozen=True, slots=True)
class Signature:
    """The ways in which a callable can be called.

    Each choice maps parameter names to whether they are required; most callables have one choice, one with overloads
    (as Azure AI Evaluation's evaluators) has several, tried in order. `takes_any`: it has `**kwargs`.
    """

    choices: Sequence[Mapping[str, bool]]
    takes_any: bool = False


def read_signature(function: Callable[..., object], what: str) -> Signature:
    """The signature of a function or of an instance's `__call__`; `what` names it in errors.

    Raises:
        ConfigurationError: it has parameters that cannot be given by name, or none can be found.
    """
    overloads = _overloads(function)
    if overloads:
        return Signature([_parameters(overload, what)[0] for overload in overloads])
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        raise ConfigurationError(f"{what}: its parameters cannot be read; wrap it in a function with names") from None
    choice, takes_any = _parameters(signature, what)
    return Signature([choice], takes_any)


def _overloads(function: Callable[..., object]) -> list[inspect.Signature]:
    call = vars(type(function)).get("__call__") or getattr(type(function), "__call__", None)
    if inspect.isfunction(function) or not inspect.isfunction(call):
        return []
    found = [inspect.signature(overload) for overload in typing.get_overloads(call)]
    return [signature.replace(parameters=list(signature.parameters.values())[1:]) for signature in found]


def _parameters(signature: inspect.Signature, what: str) -> tuple[dict[str, bool], bool]:
    choice: dict[str, bool] = {}
    takes_any = False
    for parameter in signature.parameters.values():
        if parameter.kind is parameter.VAR_KEYWORD:
            takes_any = True
        elif parameter.kind is parameter.POSITIONAL_ONLY and parameter.default is parameter.empty:
            raise ConfigurationError(f"{what}: parameter {parameter.name!r} cannot be given by name")
        elif parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            choice[parameter.name] = parameter.default is parameter.empty
    return choice, takes_any


def is_async(function: Callable[..., object]) -> bool:
    """Whether calling it gives an awaitable: a coroutine function, or an object whose `__call__` is one."""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None))
