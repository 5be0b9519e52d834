"""`tunecheck datasets get`: fetch a benchmark's data."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tunecheck._errors import ConfigurationError
from tunecheck._messages import counted, did_you_mean
from tunecheck.cli._invocation import Invocation
from tunecheck.cli._options import CommandOptions, argument, command, flag, option

BENCHMARKS = ("bfcl", "trivia")

TRIVIA = Path("datasets/trivia.jsonl")
"""Where the questions for a memory run's filler go, below the workspace."""

_DONE = 0


@dataclass(frozen=True, kw_only=True)
class GetOptions(CommandOptions):
    """The options of `datasets get`."""

    name: str = argument("bfcl: the Berkeley Function-Calling Leaderboard. trivia: questions for memory runs.", "NAME")
    to: Path | None = option(f"Where to put it; by default the user's cache, for trivia the file {TRIVIA}.", "PATH")
    source: Path | None = option(
        "bfcl: a wheel, an unpacked one or a clone, instead of the package index. trivia: one of TriviaQA's "
        "files, or any JSON of questions and answers.",
        "PATH",
        flags=("--from",),
    )
    overwrite: bool = flag("trivia: replace the file if it is there.")


@command(GetOptions)
def get(options: GetOptions, invocation: Invocation) -> int:
    """Fetch a benchmark's data, from the package index, without its dependencies, and without running any of it.

    With trivia: turn a file of questions and answers into filler for memory runs.
    """

    if options.name not in BENCHMARKS:
        raise ConfigurationError(f"there is no benchmark {options.name!r}{did_you_mean(options.name, BENCHMARKS)}")
    if options.name == "bfcl":
        return _get_bfcl(options.to, options.source)
    return _get_trivia(options.to, options.source, options.overwrite)


def _get_bfcl(to: Path | None, source: Path | None) -> int:
    from tunecheck.datasets._bfcl.categories import CATEGORIES
    from tunecheck.datasets._bfcl.download import PACKAGE, get_bfcl
    from tunecheck.datasets._bfcl.files import ENVIRONMENT, find_bfcl

    folder = get_bfcl(to=to, source=source)
    print(f"BFCL's data: {folder}")
    if not find_bfcl(folder).is_the_release:
        print(f"note: it is not that of {PACKAGE}, which the simulators follow; scores may differ from published ones")
    if to is not None:
        print(f"set {ENVIRONMENT}={folder} for it to be found there")
    print(f"rows: bfcl:CATEGORY, with one of {', '.join(CATEGORIES)}")
    return _DONE


def _get_trivia(to: Path | None, source: Path | None, overwrite: bool) -> int:
    from tunecheck.datasets._trivia import convert_trivia

    if source is None:
        raise ConfigurationError("datasets get trivia needs a file of questions: give it with --from FILE")
    report = convert_trivia(source, to or TRIVIA, overwrite=overwrite)
    left_out = f", {report.left_out:,} entries without question or answer left out" if report.left_out else ""
    print(f"written {report.out}: {counted(report.questions, 'question')}{left_out}")
    print(f"use it: tunecheck memory run … --filler {report.out}")
    return _DONE
