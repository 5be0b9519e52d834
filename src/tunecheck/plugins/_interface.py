"""`Plugin`, the extensions that a plug-in provides, and the protocols of uploaders and mirrors.

The fields of `Plugin` describe the extensions: an evaluator is any callable, an endpoint kind a subclass of
`tunecheck.endpoints.Endpoint`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from functools import reduce
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, cast

import msgspec

if TYPE_CHECKING:
    from pathlib import Path

    from tunecheck.runs._store import Run


class Extension(msgspec.Struct, frozen=True):
    """One extension that a plug-in provides: where to load it from, and a help of one line.

    `loader` is `package.module:attribute`, in the plug-in's own package. Tunecheck imports it when it is first used.
    """

    loader: str
    help: str = ""

    def load(self) -> object:
        """Import the module and return the attribute."""
        module, _, attribute = self.loader.partition(":")
        return cast("object", reduce(getattr, attribute.split("."), import_module(module)))


Extensions: TypeAlias = Mapping[str, Extension]


class Code(msgspec.Struct, frozen=True):
    """The code of a fault, with its title in headings and counts.

    The code of a cause also has the side that needs a change (the serving or the model), and advice.
    """

    title: str
    side: Literal["serving", "unknown", "model"] | None = None
    advice: str = ""


class _Named(msgspec.Struct, frozen=True):
    """The arguments of `Plugin` that need no keyword."""

    name: str
    help: str


class Plugin(_Named, frozen=True, kw_only=True):
    """The extensions of a package.

    Args:
        name: the plug-in's name, which is that of its entry point.
        help: the plug-in's purpose in one line.
        extra: the extra with this plug-in's dependencies: `bfcl` for `pip install 'tunecheck[bfcl]'`.
        requires: the modules of that extra that every extension of the plug-in needs.
        command_groups: helps of new command groups in one line, by the group's word.
        codes: codes of faults and causes that the plug-in's evaluators report.
        own_kinds: extensions of kinds that this or another plug-in looks up with `find(KIND, NAME)`. Packages also add
            to a kind by the entry point group `tunecheck.<KIND>`, users by files in the workspace's folder `<KIND>`.
        distribution: the name of the plug-in's distribution; set when the plug-in is found.

    The other arguments are kinds of extensions, each with its extensions by name.
    """

    extra: str | None = None
    requires: tuple[str, ...] = ()
    command_groups: Mapping[str, str] = {}
    codes: Mapping[str, Code] = {}
    own_kinds: Mapping[str, Extensions] = {}
    distribution: str = ""

    commands: Extensions = {}
    """Commands by their words on the command line: `bfcl run`, or `datasets author` in a group of the core. Each is
    made by `tunecheck.cli.command`.
    """
    options: Extensions = {}
    """Options of `evaluate`: subclasses of `tunecheck.cli.AddedOptions`."""
    datasets: Extensions = {}
    """Data set loaders: callables that take the argument of `NAME:ARGUMENT` and return a path, rows or a Dataset."""
    converters: Extensions = {}
    """Converters of `datasets convert`, by the name of the form that they read."""
    data_checks: Extensions = {}
    """Checks of the rows of a data set for `check`: see `tunecheck.cli.DataCheck`."""
    targets: Extensions = {}
    """Targets that a data set may name: functions `(endpoint, **parameters)` that return a Target.

    The data set declares the parameters.
    """
    dialects: Extensions = {}
    """Conversation dialects, by the value of `compat`."""
    evaluators: Extensions = {}
    """Evaluators: callables with keyword parameters, or classes of such callables."""
    evaluator_files: Extensions = {}
    """Evaluators in files of the workspace, by pattern (`prompty/*.prompty`): a class that takes the file's path."""
    endpoints: Extensions = {}
    """Endpoint kinds: subclasses of `tunecheck.endpoints.Endpoint`."""
    simulators: Extensions = {}
    """Simulated services: subclasses of `tunecheck.simulators.Simulator`."""
    formats: Extensions = {}
    """Model families: objects of `tunecheck.formats.Profile`."""
    figures: Extensions = {}
    """Figures of two runs for `compare`: objects with `of_pair(pair, metric)`, which returns `Part`s.

    It returns nothing for unrelated runs. Figures of one run are metrics of an evaluator.
    """
    tables: Extensions = {}
    """Tables of two runs for `compare`: objects with `data(base, new)` and `table(data)`.

    `data` takes two `RunInfo`s and returns the JSON for `compare --json`, or None for unrelated runs. `table` returns
    this JSON as a `Table` for users.
    """
    panels: Extensions = {}
    """Panels of the report: objects with `script`, `style` and `reader(folder)`.

    Python computes a panel's data: `reader` returns the `PanelReader` of one run's rows; `folder` is None for a run
    without a run folder. `script` is JavaScript that calls `panel(NAME, {title, draw, row})`. Its `draw(data, open)`
    returns the panel's elements, and `row(shown)` the panel's part of an opened row. Text is added with `data(text)`,
    never as markup. `style` is the CSS of the elements.
    """
    sources: Extensions = {}
    """Files of other programs that `compare` reads as runs: functions `(path, opened)` that return an `OpenedRun`.

    `opened` is the run that another source, or a run folder, has opened at this path; a function may extend it. For a
    path or run that it does not know, it returns `opened`, which is None if no source has opened the path yet.
    """
    cluster_rules: Extensions = {}
    """Groups of dependent rows: functions `(run, row_ids)` that return `Clusters`.

    They return None if they do not know the data of the `OpenedRun`.
    """
    objections: Extensions = {}
    """Objections against shipping the new run: functions `(base, new)` of two `RunInfo`s that yield `Objection`s.

    An objection's code begins with the plug-in's name; its effect is `none` unless the runs cannot be compared.
    """
    uploaders: Extensions = {}
    """Destinations of finished runs: see MakeUploader."""
    runners: Extensions = {}
    """Runners, which compute a run's rows elsewhere, by the name after `--on`.

    They are functions `(address, options, recipe)` that return a `tunecheck.evaluation.RunsElsewhere`. `address` is the
    text after the name, or None. `recipe` makes the run's execution in another process.
    """
    mirrors: Extensions = {}
    """Storage behind `--results-dir`, by URL scheme: functions of an address that return its mirror (MirrorLike).

    They raise ConfigurationError if the address or the environment is invalid.
    """

    def brings(self, kind: str) -> Extensions:
        """Return the plug-in's extensions of this kind by name; empty if it has none."""
        return cast("Extensions", getattr(self, kind)) if kind in CORE_KINDS else self.own_kinds.get(kind, {})


CORE_KINDS = tuple(name for name, annotation in Plugin.__annotations__.items() if annotation == "Extensions")
"""The kinds of extensions that the core looks up: the fields of `Plugin` that hold extensions by name."""


class UploaderLike(Protocol):
    """Uploads finished runs to one destination."""

    def check(self, *, simulated: bool) -> None:
        """Raise ConfigurationError before the run if its upload would be refused; `simulated`: no model answers."""

    def upload(self, run: Run, *, again: bool = False) -> Any:  # noqa: ANN401 - tunecheck_upload.Uploaded
        """Upload a run, or the rest after an interrupted upload; with `again`, also a run that was deleted there."""


class MakeUploader(Protocol):
    """Makes the uploader for a destination, such as a Foundry project or the address of an MLflow server."""

    def __call__(self, destination: Any, *, allow_simulated: bool, **details: Any) -> UploaderLike: ...  # noqa: ANN401


class MirrorLike(Protocol):
    """Mirrors the runs at one address, such as `az://container/prefix`, to a folder on this machine."""

    folder: Path

    def kept(self, tell: Callable[[str], None], *, whole: bool) -> AbstractContextManager[Callable[[str], None]]:
        """Fetch runs, then upload what the command writes; yield a function that claims a run to resume.

        `whole` fetches every run instead of only the data that a list of runs needs. `tell` gets each line for the
        user.
        """

    def complete(self, run: str) -> None:
        """Fetch the missing files of a run."""

    def running(self, runs: Iterable[str]) -> set[str]:
        """Return those of the runs that another machine is working on."""
