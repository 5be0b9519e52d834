"""Kinds of memory tests by name, or in a Python file that a configuration names.

Installed kinds are those of plug-ins and of packages under the entry point `tunecheck.memory`. Files of the workspace's
folder `memory/` offer kinds by their names.
"""

import inspect
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from tunecheck import ConfigurationError, PluginError
from tunecheck.plugins import JSON, Candidate, Trust, did_you_mean, discover, find, load, offered_by
from tunecheck_memory._kind import GROUP, Kind


def find_kind(
    name: str, arguments: Mapping[str, JSON] | None = None, *, folder: Path | None = None, trust: Trust | None = None
) -> Kind:
    """Make the kind of this name ("colours"), or of this file ("kinds/haiku.py", relative to `folder`).

    `trust` says who gives the name; by default somebody who may load any file.

    Raises:
        PluginError: No kind has this name, or its code does not load.
        ConfigurationError: An argument is unknown or wrong.
    """
    return make_kind(kind_class(name, folder=folder, trust=trust), arguments or {})


def kind_class(name: str, *, folder: Path | None = None, trust: Trust | None = None) -> type[Kind]:
    """Return the class of a kind; arguments and errors as of `find_kind`."""
    if is_kind_file(name):
        loaded = _of_file((folder or Path()) / name, trust)
    else:
        installed = discover(GROUP)
        names = [each.name for each in installed]
        if name not in names:
            raise PluginError(f"there is no data set {name!r}{did_you_mean(name, names)}")
        loaded = find(GROUP, name, among=installed, trust=trust)
    if isinstance(loaded, type) and issubclass(loaded, Kind):
        return loaded
    raise PluginError(f"{name!r} is not a kind of memory test: it must be a class derived from tunecheck_memory.Kind")


def is_kind_file(name: str) -> bool:
    return name.lower().endswith(".py")


def _of_file(path: Path, trust: Trust | None) -> object:
    if not path.is_file():
        raise PluginError(f"{path}: there is no such file; a data set's file is looked for beside the configuration")
    path = path.resolve()
    if trust is not None:
        trust.check(path, "run its code as a kind of memory test", folder=GROUP)
    return load(Candidate(GROUP, path.stem, str(path), partial(offered_by, path), path))


def argument_names(kind: type[Kind]) -> frozenset[str]:
    if kind.__init__ is object.__init__:
        return frozenset()
    parameters = inspect.signature(kind).parameters.values()
    return frozenset(each.name for each in parameters if each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY))


def make_kind(kind: type[Kind], arguments: Mapping[str, JSON]) -> Kind:
    """Make a kind with the arguments of a configuration; errors as of `find_kind`."""
    known = argument_names(kind)
    for name in arguments:
        if name not in known:
            hint = did_you_mean(name, known) or "; it takes none"
            raise ConfigurationError(f"the data set {kind.name!r} has no argument {name!r}{hint}")
    try:
        return kind(**arguments)
    except ConfigurationError:
        raise
    except Exception as error:  # noqa: BLE001 - a kind may be somebody's own code
        problem = f"{type(error).__name__}: {error}"
        raise ConfigurationError(f"the data set {kind.name!r} cannot be made: {problem}") from error
