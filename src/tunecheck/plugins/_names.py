"""Extensions by kind and name: from installed plug-ins, then from small packages, then from workspace files.

A plug-in's `Plugin` lists its extensions. A small package may register extensions under `tunecheck.<kind>` instead. In
a workspace, a file `evaluators/word_count.py` provides the evaluator `word_count`, and a file
`prompty/politeness.prompty` the evaluator `politeness`, a judge with that prompt. If an installed judge has the file's
name, the file replaces its prompt.

`discover()` lists the extensions of a kind, `find()` loads one by its name, and `load_all()` loads all of them.

A name must mean exactly one extension: no source wins over another one. The only exception is a judge and the
workspace's prompt for it. `load_offer()` says which object of a Python file is the extension.
"""

from __future__ import annotations

import importlib.util
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from enum import Enum
from functools import lru_cache, partial
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import find_spec, spec_from_loader
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from tunecheck._errors import MissingExtraError, PluginError, TunecheckError, raise_as
from tunecheck._messages import did_you_mean
from tunecheck._version import is_shipped
from tunecheck.plugins import _interface as interface

if TYPE_CHECKING:
    from importlib.metadata import Distribution, EntryPoint, EntryPoints

    from tunecheck._trust import Trust

T = TypeVar("T")

GROUP = "tunecheck.plugins"
"""The entry point group of plug-ins."""
CORE = "core"
"""The core's own plug-in, which comes first."""


class AbsentPlugin(msgspec.Struct, frozen=True):
    """A registered plug-in that cannot be loaded: its package is missing or broken."""

    name: str
    package: str
    problem: str
    is_missing: bool
    """True if the package is not installed; False if the package is broken."""


# `select` is kept to find the entry points of other groups, because reading all entry points again takes long.
class _Environment(msgspec.Struct, frozen=True):
    select: Callable[..., EntryPoints]
    plugins: tuple[interface.Plugin, ...]
    absent: tuple[AbsentPlugin, ...]


def installed_plugins() -> tuple[interface.Plugin, ...]:
    """Return the plug-ins that are installed, the core's first, then by name."""
    return _environment(tuple(sys.path)).plugins


def absent_plugins() -> tuple[AbsentPlugin, ...]:
    """Return the plug-ins that are registered and cannot be loaded."""
    return _environment(tuple(sys.path)).absent


def kinds() -> tuple[str, ...]:
    """Return the kinds of extensions: those of the core, then those of plug-ins."""
    of_plugins = [kind for plugin in installed_plugins() for kind in plugin.own_kinds]
    return (*interface.CORE_KINDS, *dict.fromkeys(of_plugins))


def command_groups() -> Mapping[str, str]:
    """Return the one-line helps of command groups, by the group's word."""
    return {word: line for plugin in installed_plugins() for word, line in plugin.command_groups.items()}


def distribution_of(point: EntryPoint) -> str:
    """Return the name of the distribution that an entry point belongs to."""
    return _distribution_name(point.dist) if point.dist else "an unnamed package"


@lru_cache(maxsize=64)
def _distribution_name(distribution: Distribution) -> str:
    """Return a distribution's name; cached, because each access reads all its metadata again, with its README."""
    return distribution.name


@lru_cache(maxsize=4)
def _environment(path: tuple[str, ...]) -> _Environment:
    """Return the plug-ins on a search path, also those that fail to load (`absent`); cached for each path."""
    from importlib.metadata import entry_points  # takes longer than all else here

    select = entry_points().select
    plugins: list[interface.Plugin] = []
    absent: list[AbsentPlugin] = []

    # The same distribution can be seen twice on sys.path (an editable install run from its own folder).
    for point in {(point.name, point.value): point for point in select(group=GROUP)}.values():
        try:
            plugin = point.load()
            if not isinstance(plugin, interface.Plugin):
                raise TypeError(f"{point.value} must be a tunecheck.plugins.Plugin, not {type(plugin).__name__}")
            plugins.append(msgspec.structs.replace(plugin, distribution=distribution_of(point)))
        except (Exception, SystemExit) as error:  # noqa: BLE001 - loading runs the plug-in's code
            absent.append(_absent(point, error))

    plugins.sort(key=lambda plugin: (plugin.name != CORE, plugin.name))
    absent.sort(key=lambda plugin: plugin.name)
    return _Environment(select, tuple(plugins), tuple(absent))


def _absent(point: EntryPoint, error: BaseException) -> AbsentPlugin:
    """Return why a registered plug-in cannot be loaded: its package is missing, or loading raised this error."""
    package = point.module.partition(".")[0]
    problem = f"{point.value} does not load: {type(error).__name__}: {' '.join(str(error).split())}"
    # The module that was not found is the plug-in's own, or a package that contains it.
    is_missing = isinstance(error, ModuleNotFoundError) and f"{point.module}.".startswith(f"{error.name}.")
    if is_missing:
        problem = f"the package {package} is not installed"
    return AbsentPlugin(point.name, package, problem, is_missing)


_OFFERED_BY_FILES = ("evaluators", "endpoints", "simulators", "datasets", "formats")
"""Kinds of the core that a Python file in the workspace's folder of the same name offers."""


class Candidate(msgspec.Struct, frozen=True):
    """An extension that a name may mean; `origin` says where it comes from, for people.

    `file` is the workspace's file that offers it, None if it is installed. `plugin` is the plug-in that brings it, None
    for a file or a small package.
    """

    kind: str
    name: str
    origin: str
    load: Callable[[], object]
    file: Path | None = None
    help: str = ""
    plugin: interface.Plugin | None = None


def find(
    kind: str,
    name: str,
    *,
    workspace: Path | None = None,
    among: Sequence[Candidate] | None = None,
    trust: Trust | None = None,
) -> Any:  # noqa: ANN401 - an extension of any kind; the fields of `Plugin` describe them
    """Load the extension of a kind with this name.

    Args:
        kind: `evaluators`, `endpoints`, … (see Plugin), or a plug-in's own kind.
        name: the extension's name.
        workspace: the folder of workspace files; by default the current folder.
        among: the result of `discover`, for callers that look up several names.
        trust: the trust in the source of the name; by default every workspace file may be loaded.

    Raises:
        PluginError: no extension or several have the name, or the extension's code does not load.
        MissingExtraError: the extension needs a package that is not installed.
        ConfigurationError: the source of the name may not load the file.
    """
    candidates = discover(kind, workspace=workspace) if among is None else among
    named = [candidate for candidate in candidates if candidate.name == name]
    if not named:
        hint = did_you_mean(Path(name).name, (candidate.name for candidate in candidates)) + absence_hint()
        if name.endswith(".py") and "did you mean" not in hint:
            hint += f"; a file in {kind}/ is given by its name, without .py"
        raise PluginError(f"there is no {name!r} among the {kind}{hint}")

    # A judge and the workspace's prompt for it may share a name; discover() lists the judge first.
    is_judge_with_prompt = len(named) == 2 and _is_prompt_of(named[1], named[0])
    if len(named) > 1 and not is_judge_with_prompt:
        origins = f"{named[0].origin} and {named[1].origin}"
        raise PluginError(f"two {kind} have the name {name!r} ({origins}): rename or remove one of them")

    if trust is not None:
        check(named[0], trust)
    return load(named[0])


def absence_hint() -> str:
    """Return the end of an error about an unknown name: the plug-ins that cannot be loaded; "" if all can."""
    absent: dict[str, list[str]] = {}
    for plugin in absent_plugins():
        state = "is not installed" if plugin.is_missing else "does not load (see `tunecheck plugins`)"
        absent.setdefault(state, []).append(f"{plugin.name} ({plugin.package})")
    return "".join(f"; it may belong to a plug-in that {state}: {', '.join(names)}" for state, names in absent.items())


def check(candidate: Candidate, trust: Trust) -> None:
    """Check that the source that names an extension may load its workspace file; installed ones may always be loaded.

    Raises:
        ConfigurationError: the source may not load the file.
    """
    if candidate.file is not None:
        folder = candidate.file.parent.name
        trust.check(candidate.file, f"load the {candidate.kind.removesuffix('s')} {candidate.name!r}", folder=folder)


def load(candidate: Candidate, *, check_requirements: bool = True) -> object:
    """Load an extension.

    Raises:
        MissingExtraError: a package of the plug-in's extra is missing; with `check_requirements`, any of those that the
            plug-in requires, else only one that the extension imports.
        PluginError: loading raised any other error.
    """
    # Only a plug-in with an extra can lack its packages.
    plugin = candidate.plugin if candidate.plugin and candidate.plugin.extra else None
    try:
        # Say which extra is missing before an import fails in the middle of the plug-in. Finding a module of a package
        # imports the package, which may fail.
        if check_requirements and plugin is not None and not all(map(find_spec, plugin.requires)):
            raise ModuleNotFoundError(f"not all of {', '.join(plugin.requires)} are installed")
        return candidate.load()
    except (PluginError, MissingExtraError):
        raise
    except (Exception, SystemExit) as error:  # noqa: BLE001 - loading runs the plug-in's code
        if isinstance(error, ModuleNotFoundError) and plugin is not None:
            feature = f"the {candidate.kind.removesuffix('s').replace('_', ' ')} {candidate.name!r}"
            raise MissingExtraError(feature, str(plugin.extra), plugin.distribution) from error
        reason = f"{type(error).__name__}: {' '.join(str(error).split())}"
        raise PluginError(f"plug-in {candidate.name!r} ({candidate.origin}) does not load: {reason}") from error


def call(origin: Candidate, function: Callable[..., T], *given: object, returns: Any = object, **named: object) -> T:  # noqa: ANN401 - a class or a union
    """Call a function of the extension `origin` and return its result, which must be an instance of `returns`.

    Raises:
        TunecheckError: the function raises it.
        PluginError: the function raises another exception or returns something else; the text names the plug-in.
    """
    try:
        result = function(*given, **named)
        if not isinstance(result, returns):
            name, expected = getattr(function, "__qualname__", function), getattr(returns, "__name__", returns)
            raise TypeError(f"{name} returned an object of type {type(result).__name__}, not {expected}")
    except TunecheckError:
        raise
    except Exception as error:  # noqa: BLE001 - the plug-in's code
        reason = f"{type(error).__name__}: {' '.join(str(error).split())}"
        raise PluginError(f"plug-in {origin.name!r} ({origin.origin}) fails: {reason}") from error
    return result


def discover(kind: str, *, workspace: Path | None = None) -> list[Candidate]:
    """Return all extensions of a kind without loading them, first the installed ones, then the workspace's."""
    candidates = [*_plugin_candidates(kind)]
    # Small packages register extensions without a Plugin.
    for point in sorted(_environment(tuple(sys.path)).select(group=f"tunecheck.{kind}")):
        candidates.append(Candidate(kind, point.name, f"{point.value} of {distribution_of(point)}", point.load))

    candidates += _file_candidates(kind, workspace or Path())
    # sys.path can contain a distribution twice (an editable install run from its own folder).
    return list({(candidate.name, candidate.origin): candidate for candidate in candidates}.values())


def _plugin_candidates(kind: str) -> Iterator[Candidate]:
    """Yield the extensions of a kind that the lists of installed plug-ins name."""
    for plugin in installed_plugins():
        for name, extension in plugin.brings(kind).items():
            origin = f"{extension.loader} of {plugin.distribution}"
            yield Candidate(kind, name, origin, extension.load, None, extension.help, plugin)


def _file_candidates(kind: str, workspace: Path) -> Iterator[Candidate]:
    """Yield the extensions of a kind that workspace files offer: Python files, and judges' prompt files."""
    if kind in _OFFERED_BY_FILES or any(kind in plugin.own_kinds for plugin in installed_plugins()):
        for path in _files(workspace, f"{kind}/*.py"):
            if path.stem.isidentifier() and not path.stem.startswith("_"):
                yield Candidate(kind, path.stem, str(path), partial(load_offer, path), path)

    if kind == "evaluators":
        # The name of such an extension is a pattern of files: `prompty/*.prompty`.
        for maker in _plugin_candidates("evaluator_files"):
            for path in _files(workspace, maker.name):
                yield Candidate(kind, path.stem, str(path), partial(_load_with_path, maker, path), path)


def _load_with_path(maker: Candidate, path: Path) -> object:
    """Return the class that `maker` loads, with the path bound as the first argument of its constructor."""
    kind = load(maker)
    assert callable(kind)
    return partial(kind, path)


def _files(workspace: Path, pattern: str) -> list[Path]:
    """Return the regular files of the workspace that match a pattern, by name."""
    return [path for path in sorted(workspace.glob(pattern)) if path.is_file()]  # opening a pipe would block


def _is_prompt_of(candidate: Candidate, judge: Candidate) -> bool:
    """Return whether the candidate is a workspace prompt that replaces the prompt of the installed judge."""
    is_prompt = candidate.file is not None and candidate.file.suffix != ".py"
    return is_prompt and getattr(load(judge), "replaceable_prompt", None) == judge.name


def load_all(kind: str) -> list[tuple[Candidate, Any]]:
    """Load all extensions of a kind, except those that need a package that is not installed; return them with origins.

    Raises:
        PluginError: the code of an extension does not load.
    """
    loaded = []
    # A plug-in without its extra must not stop a command that does not need it.
    for candidate in discover(kind):
        with suppress(MissingExtraError):
            loaded.append((candidate, load(candidate, check_requirements=False)))
    return loaded


def codes() -> Mapping[str, interface.Code]:
    """Return the codes of faults and causes that plug-ins add."""
    return {name: code for plugin in installed_plugins() for name, code in plugin.codes.items()}


def load_by_name(kind: str) -> Mapping[str, Any]:
    """Load all extensions of a kind, such as `tables`, and return them by name.

    Raises:
        PluginError: two extensions have the same name, or the code of one does not load.
        MissingExtraError: an extension needs a package that is not installed.
    """
    among = discover(kind)
    return {each.name: find(kind, each.name, among=among) for each in among}


# -- files of the workspace as modules, and the extension that each of them offers

WORKSPACE_MODULES = "tunecheck_workspace"
"""Modules loaded from a workspace's files are named `tunecheck_workspace.<folder>.<file>`."""

_LOADED_FROM = "__tunecheck_loaded_from__"
"""Attribute of a module with the state of the file that it was loaded from."""


def load_file(path: Path, module_name: str) -> ModuleType:
    """Run a workspace file as a module and register it under the name, so that pickle finds its classes.

    A file that has changed since it was loaded is loaded again.

    Raises:
        PluginError: the file cannot be read.
    """
    with raise_as(PluginError, path):
        status = path.stat()

    loaded, state = sys.modules.get(module_name), (str(path), status.st_mtime_ns, status.st_size)
    if loaded is not None and vars(loaded).get(_LOADED_FROM) == state:
        return loaded

    loader = SourceFileLoader(module_name, str(path))
    module = importlib.util.module_from_spec(spec_from_loader(module_name, loader) or ModuleSpec(module_name, loader))
    vars(module)[_LOADED_FROM] = state

    _register_packages(module_name)
    sys.modules[module_name] = module
    try:
        # Not by the loader's exec_module, which writes bytecode files into the workspace and checks them only to the
        # second.
        exec(loader.source_to_code(path.read_bytes(), str(path)), vars(module))  # noqa: S102
    except BaseException:  # noqa: BLE001 - a partly loaded module must not remain, whatever the error
        del sys.modules[module_name]
        raise
    return module


def _register_packages(module_name: str) -> None:
    """Register the parent packages of a dotted name as empty modules, because pickle imports them."""
    parts = module_name.split(".")[:-1]
    for length in range(1, len(parts) + 1):
        package = ModuleType(".".join(parts[:length]))
        package.__path__ = []
        sys.modules.setdefault(package.__name__, package)


_HELPERS = (Enum, BaseException, tuple, dict)
"""Bases of classes that are no extensions; a TypedDict is a `dict`."""


def load_offer(path: Path) -> object:
    """Load a workspace file and return its extension, the first of these:

    1. the object with the name of the file, else of its folder in the singular (`evaluator` in `evaluators/`)
    2. the only class or function of the file with a `kind` equal to the file's name
    3. the only class of the file that is derived from a Tunecheck class
    4. the only public class or function of the file

    Rules 3 and 4 ignore enums, exceptions, and subclasses of `tuple` and `dict`, such as TypedDicts.

    Raises:
        PluginError: the file defines none, or several.
    """
    folder, path = path.parent.name, path.resolve()
    module = load_file(path, f"{WORKSPACE_MODULES}.{folder}.{path.stem}")

    names = (path.stem, folder.removesuffix("s"))
    for name in names:
        if hasattr(module, name):
            return getattr(module, name)

    # Imported names do not count: only the file's own classes and functions.
    defined = [
        value
        for name, value in vars(module).items()
        if not name.startswith("_")
        and (inspect.isclass(value) or inspect.isfunction(value))
        and value.__module__ == module.__name__
    ]

    named = [value for value in defined if vars(value).get("kind") == path.stem]
    usable = [value for value in defined if not (isinstance(value, type) and issubclass(value, _HELPERS))]
    classes = (value for value in usable if isinstance(value, type))
    derived = [kind for kind in classes if any(is_shipped(base.__module__) for base in kind.__mro__)]
    possible = named or (derived if len(derived) == 1 else usable)

    if len(possible) != 1:
        remedy = f"give the intended class or function the name {' or '.join(map(repr, names))}"
        if names[1] == "endpoint":
            remedy += f", or set its kind = {path.stem!r}"
        raise PluginError(f"{path} defines {len(possible)} public classes and functions, not one: {remedy}")
    return possible[0]
