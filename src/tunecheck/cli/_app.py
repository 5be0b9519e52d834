"""Runs `tunecheck` and `python -m tunecheck`; errors become one line and an exit code.

A command ends in one of these ways, in the order in which `_exit_code` and `_report_failure` check them:

| end | output on stderr | exit code |
|---|---|---|
| the command returns | | its own code |
| no arguments are given | | 2, after the help on stdout |
| the reader closed the pipe, for example `head` | | 0 |
| Ctrl-C or SIGTERM | `interrupted; go on with:  tunecheck evaluate --resume …` | 1 |
| a wrong option (click) | `error: … (see tunecheck evaluate --help)` | 2 |
| `ConfigurationError` | `error: …` | 2 |
| any other `TunecheckError` | `error: …` | 1 |
| `OSError` with a file name | `error: …` | 2 |
| any other `OSError` | `error: …` | 1 |
| any other error | `internal error: … (run with --debug to see where)` | 1 |
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import PurePath
from types import FrameType
from typing import NoReturn, TextIO, TypeAlias, cast

import click

from tunecheck._errors import ConfigurationError, PluginError, RunInterruptedError, TunecheckError, error_text
from tunecheck._json import rare_collections
from tunecheck._messages import LogStream, clean, command_line, did_you_mean, disable_log_commands
from tunecheck._version import __version__
from tunecheck.cli._console import stop_writing
from tunecheck.cli._options import DONE, FAILED, WRONG_USE, Command, Invocation
from tunecheck.plugins import absence_hint, command_groups, discover, find

_MakeCommand: TypeAlias = Callable[[], click.Command]
"""Makes the command to run; an error, such as a plug-in's wrong option, is reported like one of the command."""
_MOST_SHOWN = 4_000
"""The most characters of an error's line."""
_PATIENCE_S = 3.0
"""Seconds that the process waits after the command for threads with hanging calls."""
_MAIN = ("init", "check", "evaluate", "compare", "report", "view")
"""The commands that the first screen of the help lists first."""
_ABOUT = "Is this iteration of a fine-tuned function-calling endpoint better than the last one, and where?"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line with these arguments, by default the process's own; return the exit code."""
    as_module = PurePath(sys.argv[0]).parts[-2:] == ("tunecheck", "__main__.py")
    program = "python -m tunecheck" if as_module else "tunecheck"

    version = click.version_option(__version__, prog_name="tunecheck", message="%(prog)s %(version)s")
    return _run(Invocation(program, f"{program} evaluate"), lambda: version(_CommandGroup((), _ABOUT)), arguments)


def evaluate_main(arguments: Sequence[str] | None = None) -> int:
    """Run `evaluate` alone, as `python evaluate.py` does; return the exit code.

    `arguments` are by default those of the process.
    """
    program = command_line(["python", sys.argv[0]])
    return _run(Invocation(program, program), _evaluate_command, arguments)


def _evaluate_command() -> click.Command:
    """Return click's command for `evaluate`; raise PluginError if the options of a plug-in cannot be added."""
    from tunecheck.cli._evaluate.command import evaluate

    return evaluate.click_command("evaluate")


class _CommandGroup(click.Group):
    """A group of plug-in commands by name. A command's module is loaded only when the command runs.

    A command's name has the words of its groups: `bfcl run` is the command `run` of the group with the words
    `("bfcl",)`. The group `tunecheck` has no words.
    """

    def __init__(self, words: tuple[str, ...] = (), help: str | None = None) -> None:
        super().__init__(words[-1] if words else None, help=help)
        self._words = words

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments; without any, show the group's help."""
        return super().parse_args(ctx, args or ["--help"])

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the words that may follow this group's words: commands first, then groups."""
        depth = len(self._words)
        names = [name for name in map(str.split, _commands()) if tuple(name[:depth]) == self._words]

        # A name with more than one further word belongs to a group below this one. False sorts before True.
        return list(dict.fromkeys(name[depth] for name in sorted(names, key=lambda name: len(name) > depth + 1)))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command:
        """Return the command or the group that the next word names.

        Raises:
            click.UsageError: there is none; the text names similar words.
            PluginError: a plug-in registered something else as the command.
        """
        name, commands = " ".join([*self._words, cmd_name]), _commands()

        if name in commands:
            command = find("commands", name)
            if isinstance(command, Command):
                return command.click_command(cmd_name)
            kind = type(command).__name__
            raise PluginError(f"the command plug-in {name!r} is of type {kind}: make it with @tunecheck.cli.command")

        if any(known.startswith(f"{name} ") for known in commands):
            return _CommandGroup((*self._words, cmd_name), command_groups().get(name))
        ctx.fail(f"there is no command {cmd_name!r}{did_you_mean(cmd_name, self.list_commands(ctx))}{absence_hint()}")

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List names and one-line helps without loading commands; the first screen begins with the main commands."""
        helps = {**command_groups(), **_commands()}
        sections: dict[str, list[tuple[str, str]]] = {}

        for word in self.list_commands(ctx):
            name = " ".join([*self._words, word])
            other = "More commands" if name in _commands() else "Groups"
            title = "Commands" if self._words or word in _MAIN else other
            sections.setdefault(title, []).append((word, helps.get(name, "")))

        for title, rows in sections.items():
            with formatter.section(title):
                formatter.write_dl(rows)


def _commands() -> dict[str, str]:
    """Return the one-line help of each command."""
    return {candidate.name: candidate.help for candidate in discover("commands")}


def _run(invocation: Invocation, make: _MakeCommand, arguments: Sequence[str] | None) -> int:
    """Make and run a command; return its exit code.

    Without `arguments`, use those of this process, and end it 3 seconds later if threads with hanging calls remain.
    """
    code = _run_with_safe_streams(invocation, make, arguments)
    # Python waits for threads before it exits, but a thread with a timed-out call may never end.
    others = [thread for thread in threading.enumerate() if not thread.daemon and thread is not threading.main_thread()]
    if arguments is None and others:
        timer = threading.Timer(_PATIENCE_S, os._exit, [code])
        timer.daemon = True
        timer.start()
    return code


def _run_with_safe_streams(invocation: Invocation, make: _MakeCommand, arguments: Sequence[str] | None) -> int:
    """Make and run a command with safe output streams, and return its exit code.

    Output never fails on characters that the terminal lacks, and never contains a CI system's log commands. Without
    `arguments`, the streams stay safe after the command, too: threads and finalizers may still print then.
    """
    words = sys.argv[1:] if arguments is None else arguments
    invocation.debug = "--debug" in words
    invocation.words = [*invocation.program.split(), *words]

    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # the parent closed it: no other file may get this descriptor
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115 - open as long as the process

    for stream in (sys.stdout, sys.stderr):
        # A character outside of the terminal's encoding must not end a run that took hours.
        with contextlib.suppress(AttributeError, ValueError):
            stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]

    if arguments is None:
        disable_log_commands()
        return _exit_code(invocation, make, words)

    # A caller that passes arguments, such as a test, gets its own streams back.
    out, err = (cast("TextIO", LogStream(stream)) for stream in (sys.stdout, sys.stderr))
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        return _exit_code(invocation, make, words)


def _exit_code(invocation: Invocation, make: _MakeCommand, arguments: Sequence[str]) -> int:
    """Make and run a command; report an error or interruption in one line. Return the exit code, or end the process.

    Without arguments, the help is shown and the code is that of wrong use.
    """
    try:
        with _ended_like_interrupted(), rare_collections():
            code = _invoke(make(), invocation, arguments or ["--help"])
            sys.stdout.flush()
        return code if arguments else WRONG_USE
    except BrokenPipeError:
        # The reader, such as `head`, has read enough: that is no error.
        stop_writing()
        return DONE
    except KeyboardInterrupt:  # outside of a run: before it started, or while its results are printed
        finished = invocation.finished
        _leave("interrupted" if finished is None else f"interrupted; the run is finished: {finished}")
    except RunInterruptedError as error:
        run = error.folder.name if error.folder else "last"
        _leave(f"interrupted; go on with:  {invocation.resuming(run)}")
    except Exception as error:  # noqa: BLE001 - the last place to report any error in one line
        return _report_failure(error, invocation)


def _invoke(command: click.Command, invocation: Invocation, arguments: Sequence[str]) -> int:
    """Parse the arguments, run the command and return its exit code.

    Raises:
        Exception: whatever parsing or the command raises.
    """
    try:
        # command.main() would exit the process.
        with command.make_context(invocation.program, list(arguments), obj=invocation) as context:
            code = command.invoke(context)
    except click.exceptions.Exit as leaving:
        return leaving.exit_code
    return code if isinstance(code, int) else DONE


def _report_failure(error: Exception, invocation: Invocation) -> int:
    """Print an error in one line (with --debug also its traceback); return the exit code."""
    if isinstance(error, click.ClickException):
        message, context = error.format_message().rstrip("."), getattr(error, "ctx", None)
        _say(f"error: {message}" + (f" (see {context.command_path} --help)" if context else ""))
        return WRONG_USE

    if invocation.debug:
        traceback.print_exception(error)

    if isinstance(error, TunecheckError):
        _say(f"error: {error}")
        return WRONG_USE if isinstance(error, ConfigurationError) else FAILED
    if isinstance(error, OSError):
        _say(f"error: {error_text(error)}")
        return FAILED if error.filename is None else WRONG_USE  # a path from the command line, or a link in the data

    hint = "" if invocation.debug else " (run with --debug to see where)"
    _say(f"internal error: {type(error).__name__}: {error}{hint}")
    return FAILED


def _say(line: str) -> None:
    """Print one safe line on standard error; do nothing if it is closed."""
    with contextlib.suppress(OSError, ValueError):
        print(clean(line, _MOST_SHOWN), file=sys.stderr)


def _leave(line: str) -> NoReturn:
    """Print a line and end the process at once with exit code 1; hanging threads must not delay it."""
    _say(line)
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(FAILED)


@contextlib.contextmanager
def _ended_like_interrupted() -> Iterator[None]:
    """Within this block, the first SIGTERM stops a run in order, like Ctrl-C; further ones are ignored.

    Outside of the main thread, which alone receives signals, it does nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    before = signal.signal(signal.SIGTERM, _interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _interrupt(number: int, frame: FrameType | None) -> None:
    """Handle SIGTERM: ignore further ones and raise KeyboardInterrupt."""
    # A second SIGTERM must not interrupt the orderly stop.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise KeyboardInterrupt
