"""How this process was started: what the commands need to know of it, and how to start it again."""

from dataclasses import dataclass, field
from datetime import UTC, datetime

from tunecheck._messages import command_line

DONE, FAILED, WRONG_USE, NOT_MET, UNDECIDED = range(5)
"""Exit codes; NOT_MET: it is done, but a gate is not met, or a check found something; UNDECIDED: it is done, and its
rows do not decide a gate."""

DEFAULT_RESULTS = "eval_results"
"""Where run folders are, unless `--results-dir` says otherwise."""


@dataclass
class Invocation:
    """One start of the program.

    `program` is how a person starts it: `tunecheck`, `python -m tunecheck`; `command` the same with the command that
    starts runs: `tunecheck evaluate`, `python evaluate.py`. `debug` asks for tracebacks; a configuration file may set
    it, too. `started` is when, in UTC; `finished` the run that is done already, where only its report is left to be
    shown; `typed` the whole command line, `takes_options`: to which an option of evaluate may be added. `again` is the
    command that goes on where this one is interrupted, if it is not one with `--resume`; `interrupted` its exit code.
    """

    program: str = "tunecheck"
    command: str = "tunecheck evaluate"
    debug: bool = False
    results_dir: str = DEFAULT_RESULTS
    started: str = field(default_factory=lambda: datetime.now(UTC).replace(microsecond=0).isoformat())
    finished: str | None = None
    typed: str = ""
    takes_options: bool = True
    again: str = ""
    interrupted: int = FAILED

    def resuming(self, run: str) -> str:
        """The command that finishes a run, to be copied into a shell."""
        if self.again:
            return self.again
        where = [] if self.results_dir == DEFAULT_RESULTS else ["--results-dir", self.results_dir]
        return f"{self.command} {command_line(['--resume', run, *where])}"
