"""Describes a command's options once, as a dataclass.

A field defines an option for all its uses:

| use | for a field `group_by` with a list of texts |
|---|---|
| command line, its help, docs/options.md | `--group-by COLUMN`, repeatable |
| configuration file of `--config` | `group_by: language` or `group-by: [language, domain]` |
| a run's `run.json` | `"command": {"group_by": ["language"]}`, unless `recorded` is False |
| `--resume` | may change it, unless it is `fixed` |
| trust | a value from another user's file may need consent, if it `acts` (the rules are in `cli/_running.py`) |

A command is a function that takes such a dataclass:

    class ViewOptions(CommandOptions):
        port: int = option("0: any free one.", "PORT", default=8088, least=0, most=65_535)

    @command(ViewOptions)
    def view(options: ViewOptions, invocation: Invocation) -> int: ...
"""

import contextlib
import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from types import UnionType
from typing import Any, ClassVar, Generic, Literal, Self, TypeVar, dataclass_transform, get_origin, get_type_hints

import click
import msgspec

from tunecheck._errors import ConfigurationError
from tunecheck._json import JSON, loads
from tunecheck._messages import command_line

DONE, FAILED, WRONG_USE, NOT_MET, UNDECIDED = range(5)
"""Exit codes 0 to 4. WRONG_USE also is the code of wrong configuration and of files that cannot be opened.

NOT_MET: a gate is not met, or a check found problems. UNDECIDED: the rows do not decide a gate.
"""

EXIT_CODES = {"ship": DONE, "keep": NOT_MET, "undecided": UNDECIDED, "invalid": WRONG_USE}
"""The exit codes of commands that decide between runs, by decision: `ship` the candidate, or `keep` the base."""

DEFAULT_RESULTS = "eval_results"
"""The default folder of runs, without `--results-dir`."""


class Invocation(msgspec.Struct):
    """One start of the program.

    Attributes:
        program: the words that start the program: `tunecheck`, `python -m tunecheck`.
        command: the words of the command that starts runs: `tunecheck evaluate`, `python evaluate.py`.
        debug: True to print tracebacks; a configuration file may set it, too.
        results_dir: the folder of runs.
        finished: the folder of the completed run, while its results are printed.
        words: the words of the whole command line.
    """

    program: str = "tunecheck"
    command: str = "tunecheck evaluate"
    debug: bool = False
    results_dir: str = DEFAULT_RESULTS
    finished: str | None = None
    words: Sequence[str] = ()

    @property
    def typed(self) -> str:
        """The whole command line, quoted for a shell."""
        return command_line(self.words)

    def resuming(self, run: str) -> str:
        """Return the command that finishes a run, ready to be pasted into a shell.

        For example `tunecheck evaluate --resume val-20260101T120000Z-0a1b2c`.
        """
        where = [] if self.results_dir == DEFAULT_RESULTS else ["--results-dir", self.results_dir]
        return f"{self.command} {command_line(['--resume', run, *where])}"


SCORING, RUNNING, GATING, SHOWING = "Evaluators", "The run", "Gates", "Output"
"""Help panels that several commands share; they follow a command's own panels in this order."""

_PANELS = (SCORING, RUNNING, GATING, SHOWING)


Acts = Literal["asks", "loads", "sends", "sets", "speeds", "writes"]
"""The effect of an option outside of the run's results:

* `asks`: names an endpoint (`judge: big-model`)
* `loads`: names a file that may name code (`prices: prices.yaml`)
* `sends`: names the destination of an upload (`mlflow: https://…`), or starts it
* `sets`: sets evaluators' parameters (`set: {bleu.threshold: 0.4}`), which may name files and read the environment
* `speeds`: makes more calls or takes more time (`concurrency: 40`)
* `writes`: names an output file or folder (`junit: gates.xml`)

The docstring of `cli/_running.py` says when such an option of a file or of another user's run needs consent.
"""


# click shows these names in errors: `'ten' is not a valid whole number.`


class _WholeNumber(click.IntRange):
    name = "whole number"


class _Number(click.FloatRange):
    name = "number"


class OptionField(msgspec.Struct, frozen=True):
    """An option. `option_fields` adds the name and the type of its field.

    Attributes:
        help: its text in the help; notes on range and default follow it.
        metavar: the name of its value in the help, such as `FILE`.
        panel: the heading above it in the help; `Options` if None.
        least: the smallest allowed number. `most`: the largest.
        flags: the names on the command line, if not `--` and the field's name.
        names: True if the value is a list of names, separated by commas.
        bare: the value if the option is given without an argument.
        recorded: True if a run's manifest keeps the option.
        fixed: True if `--resume` must not change the option; None means the command's default.
        positional: True for an argument without a name.
        hidden: True if the option is not on the command line.
        acts: the effect of the value, if any. Such a value from another user's file may need consent.
        name: the name of the option's field.
        kind: the field's type without None.
        default: the field's default; MISSING if the option is required.
    """

    help: str = ""
    metavar: str | None = None
    panel: str | None = None
    flags: tuple[str, ...] = ()
    least: float | None = None
    most: float | None = None
    names: bool = False
    bare: str | None = None
    recorded: bool = True
    fixed: bool | None = None
    positional: bool = False
    hidden: bool = False
    acts: Acts | None = None
    name: str = ""
    kind: Any = None
    default: Any = None

    @property
    def flag(self) -> str:
        """Return the name on the command line, such as `--group-by`."""
        return next(iter(self.flags), "--" + self.name.replace("_", "-"))

    def parsed(self, value: Any) -> object:  # noqa: ANN401 - the words on the command line, as click reads them
        """Return the option's value, given its words as click read them.

        | option | words | value |
        |---|---|---|
        | `--evaluators` (`names`) | `"match,rouge"` | `["match", "rouge"]` |
        | `--set` (a dict) | `("bleu.threshold=0.4",)` | `{"bleu.threshold": 0.4}` |
        | `--group-by` (a list) | `("language", "domain")` | `["language", "domain"]` |
        | `--limit` | `10` | `10` |

        Raises:
            ConfigurationError: a list of names or assignments is wrong.
        """
        if self.names:
            return parse_names(value, self.flag)
        if get_origin(self.kind) is dict:
            return parse_assignments(value, self.flag)
        return list(value) if isinstance(value, (list, tuple)) else value

    @property
    def takes_many(self) -> bool:
        """Return True if the option takes several words: a repeated option, or several arguments."""
        return get_origin(self.kind) in (list, dict) and not self.names

    def parameter(self) -> click.Parameter:
        """Return click's option or argument, without a default: the dataclass has it."""
        details: dict[str, Any] = {"type": self._click_type(), "required": self.is_required, "metavar": self.metavar}

        if self.positional:
            return click.Argument([self.name], nargs=-1 if self.takes_many else 1, **details)

        # The first name has no dashes: click uses it as the name of the parameter.
        names = [self.name, *(self.flags or (self.flag,))]
        if self.kind is bool:
            return click.Option(names, is_flag=True)

        if self.bare is not None:  # the option may be given without a value
            details |= {"is_flag": False, "flag_value": self.bare}
        return click.Option(names, multiple=self.takes_many, **details)

    @property
    def is_required(self) -> bool:
        """Return True if the option has no default."""
        return self.default is MISSING

    def _click_type(self) -> Any:  # noqa: ANN401 - click's types have parameters in newer versions only
        """Return click's type for one word of the option, with the range of a number."""
        if self.kind is int:
            return _WholeNumber(self.least, self.most)  # type: ignore[arg-type]  # limits of an int are ints
        if self.kind is float:
            return _Number(self.least, self.most)
        return click.Path(path_type=Path) if self.kind is Path else click.STRING

    def help_row(self, *, notes: bool) -> tuple[str, str]:
        """Return the two columns of the help, such as `--limit N` and its text; `notes` adds range and default."""
        names = self.metavar if self.positional else ", ".join(self.flags or (self.flag,))
        value = "" if self.positional or self.kind is bool or self.metavar is None else f" {self.metavar}"
        return f"{names}{value}", " ".join([self.help, *(self._help_notes() if notes else ())])

    def _help_notes(self) -> Iterator[str]:
        """Yield remarks for the help, such as `[1 to 5]`, `[required]` and `[default: 10]`."""
        if self.least is not None:
            yield f"[at least {self.least}]" if self.most is None else f"[{self.least} to {self.most}]"
        if self.is_required:
            yield "[required]"
        elif is_given(self.default) and not self.positional:
            yield f"[default: {self.default}]"


def option(
    help: str = "",
    metavar: str | None = None,
    panel: str | None = None,
    *,
    default: object = None,
    **details: Any,  # noqa: ANN401 - attributes of OptionField
) -> Any:  # noqa: ANN401 - the field's own type, as of dataclasses.field
    """Return a dataclass field for an option, required if `default` is MISSING; `details` are as in OptionField."""
    return field(default=default, metadata={"option": OptionField(help, metavar, panel, default=default, **details)})


def flag(help: str, panel: str | None = None, **details: Any) -> Any:  # noqa: ANN401 - as option
    """Return a dataclass field for a flag, true if given."""
    return option(help, None, panel, default=False, **details)


def argument(help: str, metavar: str, *, default: object = MISSING) -> Any:  # noqa: ANN401 - as option
    """Return a dataclass field for an argument without a name."""
    return option(help, metavar, default=default, positional=True)


@dataclass_transform(frozen_default=True, kw_only_default=True)
@dataclass(frozen=True, kw_only=True)
class CommandOptions:
    """Base of all options. Each subclass becomes a frozen dataclass, whose fields are given by keyword.

    Attributes:
        command: the command that starts runs with these options.
        core: the options that `--help` lists, if `--help-all` lists more.
    """

    command: ClassVar[str] = ""
    core: ClassVar[Sequence[str]] = ()

    debug: bool = flag("Show tracebacks of errors.", SHOWING, recorded=False)

    def __init_subclass__(cls) -> None:
        # A plug-in may decorate its class itself, so a class is completed only once it is inherited from or used.
        for base in cls.__mro__[:0:-1]:
            if issubclass(base, CommandOptions):
                completed(base)

    def __new__(cls, **_: object) -> Self:
        """Return an instance without values; `__init__` sets them."""
        return super().__new__(completed(cls))

    def around(self) -> AbstractContextManager[object]:
        """Return a context in which the command runs."""
        return nullcontext()

    @classmethod
    def of_command_line(cls, parameters: Mapping[str, Any]) -> Self:
        """Return the options for a command's parameters, as parsed by click."""
        described = option_fields(cls)

        # Parameters that were not given are left to the dataclass, which has their defaults.
        values: dict[str, Any] = {
            name: described[name].parsed(value)
            for name, value in parameters.items()
            if is_given(value) or described[name].is_required
        }

        return cls(**values)

    def given(self) -> dict[str, Any]:
        """Return the options that have a value (`is_given`), also those with the default one such as 0.95."""
        values = {name: getattr(self, name) for name in option_fields(type(self))}
        return {name: value for name, value in values.items() if is_given(value)}

    def recorded(self) -> dict[str, JSON]:
        """Return the options with a value, also a default one, that a run's manifest keeps for `--resume`."""
        described = option_fields(type(self))
        return {name: value for name, value in self.given().items() if described[name].recorded}

    def over(self, lower: Self) -> Self:
        """Return these options, and options of `lower` that are not given here; merge dicts of `name=value` options.

        For example, `--limit 5 --set bleu.threshold=0.4` over `limit: 9` and `set: {bleu.smooth: true}` gives the limit
        5 and both entries of `set`.
        """
        merged = lower.given()
        for name, value in self.given().items():
            lower_value = merged.get(name)
            are_dicts = isinstance(value, dict) and isinstance(lower_value, dict)
            merged[name] = lower_value | value if are_dicts else value

        return type(self)(**merged)


T = TypeVar("T", bound=CommandOptions)


def completed(options: type[T]) -> type[T]:
    """Return a class of options after making it a frozen dataclass, unless it is one."""
    return options if "__dataclass_fields__" in vars(options) else dataclass(frozen=True, kw_only=True)(options)


def option_fields(options: type[CommandOptions]) -> Mapping[str, OptionField]:
    """Return the options by name in help order: arguments first, then the command's own panels, then shared ones."""
    hints = get_type_hints(options)
    described = {}
    # `str | None` has the kind `str`; a type that is no union is the kind itself.
    for declared in fields(completed(options)):
        hint = hints[declared.name]
        kind = hint.__args__[0] if isinstance(hint, UnionType) else hint
        described[declared.name] = msgspec.structs.replace(declared.metadata["option"], name=declared.name, kind=kind)

    # A class's own options come before those of its bases, contrary to dataclasses.fields. An option that a class
    # defines anew stands among the class's own.
    names = dict.fromkeys(name for base in options.__mro__ for name in vars(base).get("__annotations__", ()))
    ordered = [described[name] for name in names if name in described]

    def position(option: OptionField) -> tuple[bool, int]:
        """Return a sort key: arguments first, then options by panel; a command's own panels have the number -1."""
        panel = option.panel
        # False sorts before True, so arguments come first.
        return not option.positional, _PANELS.index(panel) if panel in _PANELS else -1

    return {option.name: option for option in sorted(ordered, key=position)}


def is_given(value: object) -> bool:
    """Return True if an option has a value: not None, False or an empty list or dict. 0 and "" count as given."""
    return not (value is None or value is False or value in ([], (), {}))


@dataclass(frozen=True)
class Command(Generic[T]):
    """A command: its options, and a function that takes them and returns the exit code."""

    options: type[T]
    run: Callable[[T, Invocation], int]

    def parse(self, program: str, words: Sequence[str]) -> T:
        """Return the options in the words after the command; `program` names the command in errors.

        Raises:
            click.UsageError: an option does not exist, or a value is not allowed.
        """
        with self.click_command(program).make_context(program, list(words)) as context:
            return self.options.of_command_line(context.params)

    def click_command(self, name: str) -> click.Command:
        """Return click's command; its context object is the Invocation."""

        @click.pass_context
        def run(context: click.Context, /, **parameters: object) -> int:
            """Run the command with click's parameters; return the exit code."""
            options = self.options.of_command_line(parameters)
            context.obj.results_dir = getattr(options, "results_dir", None) or DEFAULT_RESULTS
            with options.around():
                return self.run(options, context.obj)

        # Hidden options have no place on the command line; other code sets them.
        shown = [option for option in option_fields(self.options).values() if not option.hidden]
        parameters = [option.parameter() for option in shown]

        # The docstring of the command's function is its help.
        text = _with_line_breaks(self.run.__doc__ or "")

        panelled = _PanelledCommand(name, params=parameters, callback=run, help=text)
        panelled.options, panelled.core = shown, self.options.core

        if panelled.core:  # `is_eager`: the help is printed before click misses a required option
            flag = click.Option(["--help-all"], is_flag=True, expose_value=False, is_eager=True, callback=_print_help)
            panelled.params.append(flag)
        return panelled


class _PanelledCommand(click.Command):
    """A command with its `options` grouped in panels in the help: only the `core` ones, or all if `core` is empty."""

    options: Sequence[OptionField] = ()
    core: Sequence[str] = ()

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the arguments, then each panel's options: only the `core` ones, or all if `core` is empty."""
        panels: dict[str, list[tuple[str, str]]] = {}
        for option in self.options:
            if not self.core or option.name in self.core:
                title = "Arguments" if option.positional else option.panel or "Options"
                panels.setdefault(title, []).append(option.help_row(notes=not self.core))

        panels.setdefault(SHOWING, []).append(("--help", "Show this help."))
        if self.core:
            panels[SHOWING].append(("--help-all", f"Show all {len(self.options)} options."))

        for title, rows in panels.items():
            with formatter.section(title):
                formatter.write_dl(rows)


def _print_help(context: click.Context, parameter: click.Parameter, is_flag_given: bool) -> None:
    """Print the help with all options and end the command, if the flag is given."""
    if is_flag_given and isinstance(context.command, _PanelledCommand):
        # With an empty `core`, the help lists all options.
        context.command.core = ()
        click.echo(context.get_help())
        context.exit()


def _with_line_breaks(text: str) -> str:
    """Return a docstring for click, with marks that keep click from joining the lines of a list of exit codes.

    The mark, a backspace in a line of its own, comes before a paragraph such as `Exit codes:` with a line `0 done`.
    """
    parts = inspect.cleandoc(text).split("\n\n")
    return "\n\n".join(f"\b\n{part}" if re.search(r"\n *\d+ ", f"\n{part}") else part for part in parts)


def command(options: type[T]) -> Callable[[Callable[[T, Invocation], int]], Command[T]]:
    """Return a decorator that makes a command from a function that takes these options."""
    return lambda run: Command(options, run)


_NOT_NUMBERS = ("NaN", "Infinity", "-Infinity")  # `loads` reads these as numbers; in options they are text


def parse_names(text: str, option: str) -> list[str]:
    """Return the names in a text that separates them with commas, such as `match, rouge`.

    `option` names the option in errors.

    Raises:
        ConfigurationError: there is no name, or one twice.
    """
    names = [name.strip() for name in text.split(",") if name.strip()]

    if not names:
        raise ConfigurationError(f"{option} is empty: give names, separated by commas")

    repeated = next((name for name in names if names.count(name) > 1), None)
    if repeated is not None:
        raise ConfigurationError(f"{option} names {repeated!r} twice: name it once")

    return names


def parse_assignments(texts: Iterable[str], option: str) -> dict[str, JSON]:
    """Return the values in `name=value` texts by name; `option` names the option in errors.

    A value that is valid JSON is decoded, any other value is text:

    | text | name | value |
    |---|---|---|
    | `bleu.threshold=0.4` | `bleu.threshold` | `0.4` |
    | `response=${data.text}` | `response` | `"${data.text}"` |
    | `judge.words=["a=b"]` | `judge.words` | `["a=b"]` |
    | `e.fill=NaN` | `e.fill` | `"NaN"` |

    Raises:
        ConfigurationError: a text has no name or no `=`, or a name is given twice.
    """
    assignments: dict[str, JSON] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        name = name.strip()

        if not equals or not name:
            raise ConfigurationError(f"{option} {text!r} has no name or no `=`: write name=value")
        if name in assignments:
            raise ConfigurationError(f"{option} gives {name!r} twice: give it once")

        assignments[name] = value
        if value.strip() not in _NOT_NUMBERS:
            with contextlib.suppress(ValueError):
                assignments[name] = loads(value)

    return assignments
