"""The benchmark's command."""

from greetings.rows import load_greetings
from tunecheck import find_run
from tunecheck.cli import DONE, Invocation, ResultsOptions, argument, command, option


class ShowOptions(ResultsOptions):
    """The options of `greetings show`; `ResultsOptions` brings `--results-dir`, and `folder` with its value."""

    person: str = argument("Whose row; by default everybody's.", "PERSON", default="all")
    run: str | None = option("Also print the verdicts of RUN.", "RUN")


@command(ShowOptions)
def show(options: ShowOptions, invocation: Invocation) -> int:
    """Print the benchmark's rows."""
    for row in load_greetings(options.person).rows():
        print(row.values["query"])
    if options.run is not None:
        for result in find_run(options.run, options.folder).rows():
            print(result.get("inputs.person"), result.get("outputs.greets.greets_result"))
    return DONE
