"""The plug-ins that are installed in this environment, and those whose package is missing."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from tunecheck.plugins._interface import CORE_KINDS, Plugin

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint, EntryPoints

GROUP = "tunecheck.plugins"
CORE = "core"
"""The core's own plug-in, which comes first."""


@dataclass(frozen=True, slots=True)
class AbsentPlugin:
    """A registered plug-in that cannot be loaded: its package is missing or broken."""

    name: str
    package: str
    problem: str


@dataclass(frozen=True, slots=True)
class InstalledPlugin:
    """A plug-in and the name of its distribution."""

    plugin: Plugin
    distribution: str


@dataclass(frozen=True, slots=True)
class _Environment:
    select: Callable[..., EntryPoints]
    plugins: tuple[InstalledPlugin, ...]
    absent: tuple[AbsentPlugin, ...]


def installed_plugins() -> tuple[InstalledPlugin, ...]:
    """Return the plug-ins that are installed, the core's first, then by name."""
    return _environment(tuple(sys.path)).plugins


def absent_plugins() -> tuple[AbsentPlugin, ...]:
    """Return the plug-ins that are registered and cannot be loaded."""
    return _environment(tuple(sys.path)).absent


def kinds() -> tuple[str, ...]:
    """Return the kinds of extensions: those of the core, then those of plug-ins."""
    own = [kind for installed in installed_plugins() for kind in installed.plugin.own_kinds]
    return (*CORE_KINDS, *dict.fromkeys(own))


def command_groups() -> Mapping[str, str]:
    """Return the one-line helps of command groups, by the group's word."""
    return {word: line for installed in installed_plugins() for word, line in installed.plugin.command_groups.items()}


def registered(kind: str) -> list[EntryPoint]:
    """Return what small packages register under `tunecheck.<kind>`, without a Plugin."""
    points = _environment(tuple(sys.path)).select(group=f"tunecheck.{kind}")
    return sorted(points, key=lambda point: (point.name, point.value))


def distribution_of(point: EntryPoint) -> str:
    """Return the name of the distribution that an entry point belongs to."""
    return point.dist.name if point.dist else "an unnamed package"


@lru_cache(maxsize=4)
def _environment(path: tuple[str, ...]) -> _Environment:
    """Read the entry points on a search path; the path is a parameter so that another one is read anew."""
    from importlib.metadata import entry_points  # takes longer than all else here

    select = entry_points().select
    plugins: list[InstalledPlugin] = []
    absent: list[AbsentPlugin] = []
    # The same distribution can be seen twice on sys.path (an editable install run from its own folder).
    for point in {(each.name, each.value): each for each in select(group=GROUP)}.values():
        try:
            plugins.append(InstalledPlugin(_loaded(point), distribution_of(point)))
        except (Exception, SystemExit) as error:  # noqa: BLE001 - loading runs somebody's module
            absent.append(_absent(point, error))
    plugins.sort(key=lambda each: (each.plugin.name != CORE, each.plugin.name))
    return _Environment(select, tuple(plugins), tuple(sorted(absent, key=lambda each: each.name)))


def _loaded(point: EntryPoint) -> Plugin:
    plugin = point.load()
    if not isinstance(plugin, Plugin):
        raise TypeError(f"{point.value} is {type(plugin).__name__}, not a tunecheck.plugins.Plugin")
    return plugin


def _absent(point: EntryPoint, error: BaseException) -> AbsentPlugin:
    package = point.module.partition(".")[0]
    if isinstance(error, ModuleNotFoundError) and point.module.startswith(str(error.name)):
        return AbsentPlugin(point.name, package, f"the package {package} is not installed")
    text = " ".join(str(error).split())
    return AbsentPlugin(point.name, package, f"{point.value} does not load: {type(error).__name__}: {text}")
