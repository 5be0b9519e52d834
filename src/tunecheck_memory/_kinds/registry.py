"""Kinds of memory tests found by name, title or file, and made with the arguments of a configuration.

Ours and those of other packages are entry points of `tunecheck.memory`; a workspace's `memory/` folder may hold more,
and a configuration may name a `.py` or `.yaml` file of its own.
"""

import inspect
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path

from tunecheck._errors import ConfigurationError, PluginError
from tunecheck._json import JSON
from tunecheck._messages import did_you_mean
from tunecheck._trust import Trust
from tunecheck.plugins import WORKSPACE_MODULES, Candidate, discover, find, load_file
from tunecheck_memory._kind import GROUP, Kind


def find_kind(
    name: str,
    arguments: Mapping[str, JSON] | None = None,
    *,
    folder: Path | None = None,
    where: str = "",
    trust: Trust | None = None,
) -> Kind:
    """The kind of this name ("colours"), or of this file ("kinds/haiku.py", relative to `folder`), made with arguments.

    `where` stands before an error's text, for instance the configuration's file and line; `trust` says who names it.

    Raises:
        PluginError: there is none of this name, or its code does not load.
        ConfigurationError: an argument is unknown, or its value cannot be.
    """
    return Kinds(folder, trust).make(name, arguments or {}, where=where)


class Kinds:
    """The kinds that there are; files are relative to `folder`, and what is installed is looked up once.

    `trust` says who names them; without it, somebody who may.

    Methods raise what `find_kind` raises.
    """

    def __init__(self, folder: Path | None = None, trust: Trust | None = None) -> None:
        self._folder = folder or Path()
        self._trust = trust
        self._loaded: dict[str, type[Kind]] = {}

    def make(self, name: str, arguments: Mapping[str, JSON], *, where: str = "") -> Kind:
        return _make(self.kind(name, where=where), arguments, f"{where}: " if where else "")

    def by_title(self, title: str, arguments: Mapping[str, JSON]) -> Kind:
        titles, broken = self._titles
        if title not in titles:
            also = f"; {broken[0]}" if broken else ""
            raise PluginError(f"no kind of memory test has the title {title!r}{did_you_mean(title, titles)}{also}")
        return _make(titles[title], arguments, "")

    def arguments(self, name: str, *, where: str = "") -> frozenset[str]:
        return _argument_names(self.kind(name, where=where))

    def kind(self, name: str, *, where: str = "") -> type[Kind]:
        if name not in self._loaded:
            try:
                if is_kind_file(name):
                    self._loaded[name] = kind_from_file(self._folder / name, self._trust)
                elif name in (names := [plugin.name for plugin in self._plugins]):
                    plugin = find(GROUP, name, among=self._plugins, trust=self._trust)
                    self._loaded[name] = _kind_class(plugin, repr(name))
                else:
                    raise PluginError(f"there is no data set {name!r}{did_you_mean(name, names)}")
            except PluginError as error:
                raise PluginError(f"{where}: {error}" if where else str(error)) from None
        return self._loaded[name]

    @cached_property
    def _plugins(self) -> list[Candidate]:
        return discover(GROUP)

    @cached_property
    def _titles(self) -> tuple[Mapping[str, type[Kind]], list[str]]:
        """Every kind's class by its title, the installed ones' before the workspace's, and why others do not load."""
        titles: dict[str, type[Kind]] = {}
        broken: list[str] = []
        for plugin in self._plugins:
            try:
                kind = _kind_class(find(GROUP, plugin.name, among=self._plugins), plugin.origin)
            except PluginError as error:
                broken.append(str(error))
            else:
                titles.setdefault(kind.title, kind)
        return titles, broken


def _argument_names(kind: type[Kind]) -> frozenset[str]:
    if kind.__init__ is object.__init__:
        return frozenset()
    parameters = inspect.signature(kind).parameters.values()
    return frozenset(each.name for each in parameters if each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY))


def _make(kind: type[Kind], arguments: Mapping[str, JSON], before: str) -> Kind:
    known = _argument_names(kind)
    for name in arguments:
        if name not in known:
            hint = did_you_mean(name, known) or "; it takes none"
            raise ConfigurationError(f"{before}the data set {kind.name!r} has no argument {name!r}{hint}")
    try:
        return kind(**arguments)
    except ConfigurationError as error:
        raise ConfigurationError(f"{before}{error}") from None
    except Exception as error:  # noqa: BLE001 - a kind may be somebody's own code
        problem = f"{type(error).__name__}: {error}"
        raise ConfigurationError(f"{before}the data set {kind.name!r} cannot be made: {problem}") from error


def _kind_class(loaded: object, what: str) -> type[Kind]:
    if isinstance(loaded, type) and issubclass(loaded, Kind):
        return loaded
    raise PluginError(f"{what} is not a kind of memory test: it must be a class derived from tunecheck_memory.Kind")


_YAML = (".yaml", ".yml")


def is_kind_file(name: str) -> bool:
    return name.lower().endswith((".py", *_YAML))


def kind_from_file(path: Path, trust: Trust | None = None) -> type[Kind]:
    """The kind that a file defines: a `.py` file's one class derived from Kind, or what a `.yaml` file declares.

    Raises:
        PluginError: the file does not load, or defines no kind, or several.
        ConfigurationError: the declaration is wrong; names the line. Or who names a `.py` file may not.
    """
    if not path.is_file():
        raise PluginError(f"{path}: there is no such file; a data set's file is looked for beside the configuration")
    if path.suffix.lower() in _YAML:
        from tunecheck_memory._kinds.declared import declared_kind

        return declared_kind(path)
    path = path.resolve()
    if trust is not None:
        trust.check(path, "run its code as a kind of memory test", folder=GROUP.rpartition(".")[2])
    module_name = f"{WORKSPACE_MODULES}.memory.{path.stem}"
    try:
        module = load_file(path, module_name)
    except PluginError:
        raise
    except (Exception, SystemExit) as error:  # noqa: BLE001 - loading runs somebody's module
        reason = " ".join(str(error).split())
        raise PluginError(f"{path} does not load: {type(error).__name__}: {reason}") from error
    kinds = [
        value
        for value in vars(module).values()
        if inspect.isclass(value) and issubclass(value, Kind) and value.__module__ == module_name
    ]
    if len(kinds) != 1:
        names = ", ".join(kind.__name__ for kind in kinds) or "none"
        raise PluginError(f"{path} must define one class derived from tunecheck_memory.Kind; found: {names}")
    return kinds[0]
