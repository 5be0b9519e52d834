"""Plugins: evaluators, endpoint kinds, simulators, data sets and memory tests found by name when they are asked for.

A name is looked for among the installed packages' entry points (our own are registered in the same way) and in the
workspace's folder of that sort. A file `evaluators/word_count.py` offers the plugin `word_count`: what it defines
under that name, or as `evaluator`, or the class whose `kind` that is, or its only public class or function; and so in
the other folders (`endpoints/echo.py`: `echo`, `endpoint`). A file `prompty/politeness.prompty` offers the
evaluator `politeness`, a judge with that prompt; under the name of an installed judge it is that judge's prompt.
"""

import functools
import importlib.util
import inspect
import sys
import typing
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.metadata import EntryPoint, entry_points
from importlib.util import spec_from_loader
from pathlib import Path
from types import FunctionType, ModuleType
from typing import TypeAlias

from tunecheck._errors import PluginError
from tunecheck._messages import did_you_mean
from tunecheck._trust import Trust
from tunecheck._version import is_shipped

GROUPS = {
    "tunecheck.evaluators": "evaluators",
    "tunecheck.endpoints": "endpoints",
    "tunecheck.simulators": "simulators",
    "tunecheck.datasets": "datasets",
    "tunecheck.formats": "formats",
    "tunecheck.memory": "memory",
}
"""Entry point groups, and the workspace folder whose Python files belong to each."""

_PROMPTS, _JUDGE = ".prompty", "tunecheck.evaluators._judges.prompty:PromptyEvaluator"
"""Prompt files in the workspace's folder `prompty`, and the class that makes an evaluator of one."""

WORKSPACE_MODULES = "tunecheck_workspace"
"""Modules loaded from a workspace's files are named `tunecheck_workspace.<folder>.<file>`."""


_Named: TypeAlias = "type[object] | FunctionType"

_LOADED_FROM = "__tunecheck_loaded_from__"


@dataclass(frozen=True, slots=True)
class Plugin:
    """Something that can be loaded by name; `origin` says where it comes from, for people.

    `file` is the workspace's file that offers it; None: it is installed.
    """

    group: str
    name: str
    origin: str
    load: Callable[[], object]
    file: Path | None = None


def find(
    group: str,
    name: str,
    *,
    workspace: Path | None = None,
    among: Sequence[Plugin] | None = None,
    trust: Trust | None = None,
) -> object:
    """The plugin of that name, loaded; `among` is what `discover` gave, for whoever looks for several.

    `trust` says who names it; without it, somebody who may.

    Raises:
        PluginError: there is none, there are two, or its code does not load.
        ConfigurationError: who names it may not load a file of the workspace.
    """
    plugins = discover(group, workspace=workspace) if among is None else among
    named = [plugin for plugin in plugins if plugin.name == name]
    sort = group.rpartition(".")[2]
    if not named:
        hint = did_you_mean(name, (plugin.name for plugin in plugins))
        raise PluginError(f"there is no plugin {name!r} among the {sort}{hint}")
    if len(named) > 1 and not (len(named) == 2 and _is_prompt_of(named[1], named[0])):
        raise PluginError(
            f"the name {name!r} stands for two plugins of {sort}: {named[0].origin} and {named[1].origin}; "
            "rename or remove one"
        )
    if trust is not None:
        check(named[0], trust)
    return _load(named[0])


def check(plugin: Plugin, trust: Trust) -> None:
    """See that a plugin may be loaded by who names it.

    Raises:
        ConfigurationError: it may not.
    """
    if plugin.file is not None:
        act = f"load {plugin.name!r} of the {plugin.group.rpartition('.')[2]}"
        trust.check(plugin.file, act, folder=plugin.file.parent.name)


def _load(plugin: Plugin) -> object:
    try:
        return plugin.load()
    except PluginError:
        raise
    except (Exception, SystemExit) as error:  # noqa: BLE001 - loading runs somebody's module
        text = " ".join(str(error).split())
        raise PluginError(
            f"plugin {plugin.name!r} ({plugin.origin}) does not load: {type(error).__name__}: {text}"
        ) from error


def discover(group: str, *, workspace: Path | None = None) -> list[Plugin]:
    """All plugins of a group, none of them loaded yet: installed ones first, then the workspace's."""
    installed = [
        _installed(group, entry) for entry in sorted(entry_points(group=group), key=lambda e: (e.name, e.value))
    ]
    # The same distribution can be seen twice on sys.path (an editable install run from its own folder).
    unique = {(plugin.name, plugin.origin): plugin for plugin in installed}
    return [*unique.values(), *_in_workspace(group, workspace or Path()), *_prompts(group, workspace or Path())]


def _installed(group: str, entry: EntryPoint) -> Plugin:
    package = entry.dist.name if entry.dist else "an unnamed package"
    return Plugin(group, entry.name, f"{entry.value} of {package}", entry.load)


def _in_workspace(group: str, workspace: Path) -> Iterator[Plugin]:
    folder = GROUPS.get(group)
    if folder is None:
        return
    for path in _files(workspace / folder, "*.py"):
        if path.stem.isidentifier() and not path.stem.startswith("_"):
            yield Plugin(group, path.stem, str(path), functools.partial(_offered, path), path)


def _prompts(group: str, workspace: Path) -> Iterator[Plugin]:
    if group == "tunecheck.evaluators":
        for path in _files(workspace / "prompty", f"*{_PROMPTS}"):
            yield Plugin(group, path.stem, str(path), functools.partial(_judge, path), path)


def _files(folder: Path, pattern: str) -> list[Path]:
    return [path for path in sorted(folder.glob(pattern)) if path.is_file()]  # opening a pipe would never end


def _judge(path: Path) -> object:
    kind = EntryPoint(path.stem, _JUDGE, "tunecheck.evaluators").load()
    return functools.partial(kind, path)


def _is_prompt_of(plugin: Plugin, judge: Plugin) -> bool:
    """Whether a plugin is but the workspace's prompt for the installed judge of that name."""
    if not plugin.origin.endswith(_PROMPTS):
        return False
    return getattr(_load(judge), "replaceable_prompt", None) == judge.name


def load_file(path: Path, module_name: str) -> ModuleType:
    """Run a workspace file as a module of that name and register it, so that its classes can be pickled.

    A file that has changed since it was loaded is loaded again.

    Raises:
        PluginError: the file cannot be read as a module.
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
    """Make the packages that a dotted name speaks of, empty: pickling imports them."""
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


def _offered(path: Path) -> object:
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
    """Those that may be a plugin: not types of values, nor errors; beside one subclass of ours, nothing else."""
    able = [each for each in own if not typing.is_typeddict(each)]
    able = [each for each in able if not (isinstance(each, type) and issubclass(each, (Enum, BaseException, tuple)))]
    ours: list[_Named] = [each for each in able if isinstance(each, type) and any(map(_is_ours, each.__mro__))]
    return ours if len(ours) == 1 else able


def _is_ours(owner: type) -> bool:
    return is_shipped(owner.__module__)
