"""The benchmark's command."""

from dataclasses import dataclass

from greetings.rows import load_greetings
from tunecheck.cli import DONE, CommandOptions, Invocation, argument, command


@dataclass(frozen=True, kw_only=True)
class ShowOptions(CommandOptions):
    """The options of `greetings show`."""

    person: str = argument("Whose row; by default everybody's.", "PERSON", default="all")


@command(ShowOptions)
def show(options: ShowOptions, invocation: Invocation) -> int:
    """Print the benchmark's rows."""
    for row in load_greetings(options.person).rows():
        print(row.values["query"])
    return DONE
