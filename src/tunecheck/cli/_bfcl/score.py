"""`tunecheck bfcl score`: verdicts of result files."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

from tunecheck._errors import ConfigurationError
from tunecheck._json import dumps_line
from tunecheck._messages import clean, did_you_mean
from tunecheck.cli._console import console, print_json
from tunecheck.cli._invocation import Invocation
from tunecheck.cli._options import argument, command, option
from tunecheck.cli._shared_options import JsonOptions

if TYPE_CHECKING:
    from tunecheck._json import JSON
    from tunecheck.bfcl._scoring import Scores
    from tunecheck.bfcl._summary import CategoryScore, ModelScore

_MODES = ("bfcl", "strict")
_OUT = Path("bfcl_score")


@dataclass(frozen=True, kw_only=True)
class ScoreOptions(JsonOptions):
    """The options of `bfcl score`."""

    path: Path = argument("A file BFCL_v4_<category>_result.json, or a folder above some.", "PATH")
    compat: str = option("bfcl: the leaderboard's verdicts; strict: without its gaps.", "MODE", default="bfcl")
    out: Path | None = option("Where the verdicts go; by default bfcl_score.", "DIR")
    data: Path | None = option("A copy of BFCL, if not the one of `datasets get bfcl`.", "DIR")
    workers: int | None = option("How many processes.", "N", least=1)


@command(ScoreOptions)
def score(options: ScoreOptions, invocation: Invocation) -> int:
    """Score result files of BFCL, the leaderboard's or ours.

    Writes `<category>.verdicts.jsonl`, one line for every row, and `summary.json`; with several models, into one
    folder each.
    """
    from tunecheck.bfcl._scoring import score_results

    compat = options.compat
    if compat not in _MODES:
        raise ConfigurationError(f"--compat: there is no mode {compat!r}{did_you_mean(compat, _MODES)}")
    scores = score_results(options.path, compat=compat == "bfcl", data=options.data, workers=options.workers)
    folder = options.out or _OUT
    summary = write_scores(scores, folder)
    if options.json:
        print_json(summary)
    else:
        print_table(scores)
        print(f"written {folder}")
    for passed_over in scores.passed_over:
        print(f"note: {passed_over} is of a category that is not checked here", file=sys.stderr)
    return 0


def write_scores(scores: Scores, folder: Path) -> dict[str, JSON]:
    """Write all verdicts and summaries; gives the one of the whole.

    Raises:
        ConfigurationError: the folder cannot be written.
    """
    from tunecheck._files.versions import versioned
    from tunecheck.runs._store import dumps_readably, write_file

    mode = "bfcl" if scores.compat else "strict"
    summaries: dict[str, JSON] = {}
    with writing(folder):
        for name, model in scores.models.items():
            place = folder if len(scores.models) == 1 else folder / PurePath(name)
            place.mkdir(parents=True, exist_ok=True)
            for category, each in model.categories.items():
                write_file(place / f"{category}.verdicts.jsonl", b"".join(map(dumps_line, each.lines())))
            summary: dict[str, JSON] = {"compat": mode, **model.as_json()}
            write_file(place / "summary.json", dumps_readably(versioned(summary)))
            summaries[name] = summary
        if len(summaries) == 1:
            return summary
        whole: dict[str, JSON] = {"compat": mode, "models": summaries}
        write_file(folder / "summary.json", dumps_readably(versioned(whole)))
    return whole


@contextmanager
def writing(folder: Path) -> Iterator[None]:
    """Say in a line that a folder cannot be written."""
    try:
        yield
    except OSError as error:
        raise ConfigurationError(
            f"{folder}: cannot be written: {error.strerror or error}; name another --out"
        ) from None


def print_table(scores: Scores) -> None:
    """Print accuracies and figures, one column a model."""
    from rich.table import Table

    models = list(scores.models.values())
    table = Table(box=None, pad_edge=False)
    table.add_column("")
    for model in models:
        table.add_column(clean(model.name, 60), justify="right")
    for line in _table_lines(models):
        table.add_row(*line)
    console(sys.stdout).print(table)


def _table_lines(models: Sequence[ModelScore]) -> Iterator[list[str]]:
    from tunecheck.bfcl._summary import FIGURES
    from tunecheck.datasets._bfcl.categories import CATEGORIES

    for category in CATEGORIES:
        if any(category in model.categories for model in models):
            yield [category, *(_cell(model.categories.get(category)) for model in models)]
    for version, names in FIGURES.items():
        for name in names:
            figures = [model.figures(version)[name] for model in models]
            if any(figure is not None for figure in figures):
                yield [f"{version.upper()} {name.replace('_', ' ')}", *map(_share, figures)]


def _cell(score: CategoryScore | None) -> str:
    if score is None:
        return _share(None)
    left_out = len(score.verdicts) - score.total
    notes = f" ({left_out} not scored)" * bool(left_out) + f" ({score.missing} missing)" * bool(score.missing)
    return f"{score.correct:,} of {score.total:,}{notes}  {_share(score.accuracy)}"


def _share(share: float | None) -> str:
    return "–" if share is None else f"{share:.2%}"
