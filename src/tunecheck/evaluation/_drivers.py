"""Drivers: targets that take an endpoint through rows which one request does not answer, by name.

A data set whose `target` is `conversation` is answered by `ConversationTarget(endpoint)`. Installed packages offer
others as a plug-in's `targets`: a callable that takes an Endpoint and returns a Target.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from tunecheck import plugins
from tunecheck._errors import PluginError
from tunecheck._json import JSON
from tunecheck._targets import Target
from tunecheck._trust import Trust
from tunecheck.datasets._reading import Dataset
from tunecheck.endpoints._base import Endpoint
from tunecheck.formats._reading import chosen
from tunecheck.pipeline._scoring import BoundEvaluator

if TYPE_CHECKING:
    from tunecheck.formats._profiles import Profile

GROUP = "targets"


def is_driver(name: str | None) -> bool:
    """Whether a data set's default target names a driver, rather than an endpoint."""
    return name is not None and any(plugin.name == name for plugin in plugins.discover(GROUP))


def entrust(trust: Trust, dataset: Dataset, target: Target | None, evaluators: Iterable[BoundEvaluator]) -> None:
    """Tell whatever loads the simulators that rows name whose rows they are.

    Raises:
        ConfigurationError: the first row names one that it may not.
    """
    things: list[object] = [target, *(evaluator.function for evaluator in evaluators)]
    loading = [each for each in things if isinstance(each, _LoadsByName)]
    for each in loading:
        each.entrust(trust)
    if loading and trust.named_by is not None:  # before anything is asked, rather than an error in every row
        first = next(dataset.rows(), None)
        names = None if first is None else first.values.get("involved_classes")
        for plugin in plugins.discover("simulators"):
            if isinstance(names, list) and plugin.name in names:
                plugins.check(plugin, trust)


def in_format_of(target: Target | None, evaluator: object) -> object:
    """The evaluator, reading calls as the target's endpoint writes them, where its definition says how."""
    profile = getattr(getattr(target, "endpoint", None), "profile", None)
    if profile is None or not isinstance(evaluator, _ReadsCalls):
        return evaluator
    return (evaluator() if isinstance(evaluator, type) else evaluator).in_format(profile)


@runtime_checkable
class _ReadsCalls(Protocol):
    def in_format(self, profile: Profile) -> object: ...


@runtime_checkable
class _LoadsByName(Protocol):
    def entrust(self, trust: Trust) -> None: ...


def drive(name: str, endpoint: Endpoint, parameters: Mapping[str, JSON], trust: Trust) -> Target:
    """The endpoint as the target that the driver of that name makes of it, with the parameters that data declares.

    `trust` says whose data that is: its `format` may be a file of the workspace.

    Raises:
        PluginError: there is no such driver, or what it makes is not a target.
        ConfigurationError: a parameter cannot be, or names what it may not.
    """
    if isinstance(parameters.get("format"), str):
        chosen(str(parameters["format"]), trust=trust)
    driver = plugins.find(GROUP, name)
    target = driver(endpoint, **parameters) if callable(driver) else None
    if not isinstance(target, Target):
        raise PluginError(f"the plugin {name!r} of the {GROUP} makes no Target of an endpoint")
    return target
