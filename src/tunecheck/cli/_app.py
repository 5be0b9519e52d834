"""The command line: `tunecheck` and `python -m tunecheck`; what goes wrong becomes one line and an exit code."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import traceback
from collections.abc import Iterator, Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from tunecheck._errors import ConfigurationError, PluginError, RunInterruptedError, TunecheckError, told
from tunecheck._messages import clean, command_line
from tunecheck._version import __version__
from tunecheck.cli._console import stop_writing
from tunecheck.cli._invocation import DONE, FAILED, WRONG_USE, Invocation
from tunecheck.cli._options import Command
from tunecheck.cli._shared_options import results_folder
from tunecheck.plugins import command_groups, discover, find

if TYPE_CHECKING:
    from types import FrameType

_MOST_SHOWN = 4_000
_MOST_NAMED = 3
_PATIENCE_S = 3.0
_ABOUT = (
    "Is this iteration of a fine-tuned function-calling endpoint better than the last one, where, and can you trust it?"
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; gives the exit code."""
    program = "python -m tunecheck" if PurePath(sys.argv[0]).name == "__main__.py" else "tunecheck"
    given = sys.argv[1:] if arguments is None else arguments
    return _run(Invocation(program, f"{program} evaluate"), make_app(given), arguments)


def evaluate_main(arguments: Sequence[str] | None = None) -> int:
    """Run the main job alone, as `python evaluate.py` does; gives the exit code."""
    from tunecheck.cli._evaluate.command import evaluate

    app = typer.Typer(add_completion=False)
    evaluate.add_to(app, "evaluate")
    program = command_line(["python", sys.argv[0]])
    return _run(Invocation(program, program), app, arguments)


def make_app(given: Sequence[str] = ()) -> typer.Typer:
    """The commands; only those that the arguments name, where they do: the others need not be read to run them."""
    app = typer.Typer(help=_ABOUT, add_completion=False)
    app.callback()(_main_options)
    groups: dict[str, typer.Typer] = {}
    helps = command_groups()
    for name in _named(given):
        *group, last = name.split()
        for word in group:
            if word not in groups:
                groups[word] = typer.Typer(help=helps.get(word))
                groups[word].callback()(lambda: None)  # with a callback, a single command of a group keeps its name
                app.add_typer(groups[word], name=word)
        command = find("commands", name)
        if not isinstance(command, Command):
            raise PluginError(f"the command {name!r} is not made by tunecheck.cli.command")
        command.add_to(groups[group[0]] if group else app, last)
    return app


def _commands() -> list[str]:
    return [each.name for each in discover("commands")]


def _named(given: Sequence[str]) -> list[str]:
    if "--version" in given[:1]:
        return []
    commands = _commands()
    for words in (2, 1):
        named = [name for name in commands if name.split()[:words] == list(given[:words])]
        if named:
            return named
    return commands


def _print_version(asked: bool) -> None:
    if asked:
        print(f"tunecheck {__version__}")
        raise typer.Exit


def _main_options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", metavar="", help="Show the version and exit.", callback=_print_version, is_eager=True
        ),
    ] = False,
) -> None:
    """Only --version; with a callback, a single command keeps its name."""


def _run(invocation: Invocation, app: typer.Typer, arguments: Sequence[str] | None) -> int:
    """Run a command; without arguments, those of this process, which then ends with it."""
    if arguments is not None:
        return _outcome(invocation, app, arguments)
    code = _outcome(invocation, app, sys.argv[1:])
    # Python waits at its end for threads; one that waits for an answer that timed out long ago might never end.
    if any(thread is not threading.main_thread() and not thread.daemon for thread in threading.enumerate()):
        timer = threading.Timer(_PATIENCE_S, os._exit, [code])
        timer.daemon = True
        timer.start()
    return code


def _outcome(invocation: Invocation, app: typer.Typer, arguments: Sequence[str]) -> int:
    invocation.debug = "--debug" in arguments
    invocation.typed = command_line([*invocation.program.split(), *arguments])
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # closed by who started us: no file of a run may get its number
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115 - open as long as the process
    for stream in (sys.stdout, sys.stderr):
        # What a terminal's encoding cannot show must not end a run that took hours.
        with contextlib.suppress(AttributeError, ValueError):
            stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    try:
        with _ended_like_interrupted():
            code = _invoke(app, invocation, arguments or ["--help"])
            sys.stdout.flush()
        return code if arguments else WRONG_USE
    except BrokenPipeError:
        stop_writing()
        return DONE
    except KeyboardInterrupt:
        _leave(_interrupted(invocation), invocation.interrupted)
    except RunInterruptedError as error:
        run = error.folder.name if error.folder else "last"
        _leave(f"interrupted; go on with:  {invocation.resuming(run)}", invocation.interrupted)
    except Exception as error:  # noqa: BLE001 - the last place where anything can be caught and said in a line
        return _failed(error, invocation)


def _invoke(app: typer.Typer, invocation: Invocation, arguments: Sequence[str]) -> int:
    command = typer.main.get_command(app)
    try:
        # Not command.main(): that would print errors in a box, and end the process by itself.
        with command.make_context(invocation.program, list(arguments), obj=invocation) as context:
            code = command.invoke(context)
    except typer.Exit as leaving:
        return leaving.exit_code
    return code if isinstance(code, int) else DONE


def _failed(error: Exception, invocation: Invocation) -> int:
    usage = _usage_problem(error)
    if usage is not None:
        _say(f"error: {usage}")
        return WRONG_USE
    if invocation.debug:
        traceback.print_exception(error)
    if isinstance(error, TunecheckError):
        _say(f"error: {error}")
        return WRONG_USE if isinstance(error, ConfigurationError) else FAILED
    if isinstance(error, OSError):
        _say(f"error: {told(error)}")
        return FAILED if error.filename is None else WRONG_USE  # a path that was typed, or a link that data brought
    hint = "" if invocation.debug else " (run with --debug to see where)"
    _say(f"internal error: {type(error).__name__}: {error}{hint}")
    return FAILED


def _usage_problem(error: Exception) -> str | None:
    # Classes are found by name: newer typers bring a click of their own, older ones use the real one.
    kinds = {kind.__name__ for kind in type(error).__mro__}
    if "ClickException" not in kinds:
        return None
    message, context = error.format_message().rstrip("."), getattr(error, "ctx", None)  # type: ignore[attr-defined]
    if context is None:
        return str(message)
    path = context.command_path
    if "NoSuchOption" in kinds and (others := _commands_with(error.option_name)):  # type: ignore[attr-defined]
        message = f"{error.option_name} is an option of {', '.join(others[:_MOST_NAMED])}, not of {path}"  # type: ignore[attr-defined]
    elif message.startswith("Got unexpected extra argument"):
        extra = message.partition(" (")[2].removesuffix(")")
        takes = [*(each.metavar for each in context.command.params if not each.opts[0].startswith("-")), "options"]
        message = f"{path} does not take {extra!r}: expected {' and '.join(takes)} only"
    return f"{message} (see {path} --help)"


def _commands_with(option: str) -> list[str]:
    """The commands that have an option."""
    whole = typer.main.get_command(make_app())
    found = []
    for name in _commands():
        command = whole
        for word in name.split():
            command = command.commands[word]  # type: ignore[attr-defined]
        if any(option in each.opts for each in command.params):
            found.append(name)
    return found


def _say(line: str) -> None:
    with contextlib.suppress(OSError, ValueError):
        print(clean(line, _MOST_SHOWN), file=sys.stderr)


def _interrupted(invocation: Invocation) -> str:
    """The message where no run was there to stop: before it began, or while it was writing files."""
    if invocation.finished is not None:
        return f"interrupted; the run is finished: {invocation.finished}"
    if invocation.again:
        return f"interrupted; go on with:  {invocation.again}"
    from tunecheck.runs._store import list_runs

    for run in reversed(list(list_runs(results_folder(invocation.results_dir)))):
        with contextlib.suppress(TunecheckError, OSError):
            if str(run.manifest().started) >= invocation.started and run.status() == "killed":
                return f"interrupted; go on with:  {invocation.resuming(run.id)}"
    return "interrupted"


def _leave(line: str, code: int) -> NoReturn:
    """End the process now: a call that hangs in a thread must not hold it, and its journal is closed already."""
    _say(line)
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


@contextlib.contextmanager
def _ended_like_interrupted() -> Iterator[None]:
    """SIGTERM stops a run in order, as Ctrl-C does; one that comes again hastens nothing."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, _interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _interrupt(number: int, frame: FrameType | None) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise KeyboardInterrupt
