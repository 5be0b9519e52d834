"""`tunecheck bfcl score` and `tunecheck bfcl show`: verdicts of result files, and what the ground truth does."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Annotated

import typer

from tunecheck.cli._parameters import Debug, Json

if TYPE_CHECKING:
    from tunecheck._json import JSON
    from tunecheck.bfcl._entries import CheckRow
    from tunecheck.bfcl._scoring import Scores
    from tunecheck.bfcl._summary import CategoryScore, ModelScore
    from tunecheck.datasets._bfcl.files import BfclFiles

DONE = 0

_MODES = ("bfcl", "strict")
_OUT = Path("bfcl_score")

Results = Annotated[
    Path, typer.Argument(metavar="PATH", help="A file BFCL_v4_<category>_result.json, or a folder above some.")
]
Compat = Annotated[
    str,
    typer.Option("--compat", metavar="MODE", help="bfcl: the leaderboard's verdicts; strict: without its gaps."),
]
Out = Annotated[Path | None, typer.Option("--out", metavar="DIR", help="Where the verdicts go; by default bfcl_score.")]
Data = Annotated[
    Path | None, typer.Option("--data", metavar="DIR", help="A copy of BFCL, if not the one of `datasets get bfcl`.")
]
Workers = Annotated[int | None, typer.Option("--workers", metavar="N", min=1, help="How many processes.")]
Ids = Annotated[list[str] | None, typer.Argument(metavar="[ID]…", help="Ids of entries, e.g. multi_turn_base_0.")]
All = Annotated[bool, typer.Option("--all", help="Every entry of the categories, one file each (needs --out).")]
Categories = Annotated[
    str, typer.Option("--categories", metavar="A,B", help="Which categories --all means; by default multi_turn.")
]
ShowOut = Annotated[Path | None, typer.Option("--out", metavar="DIR", help="Write one file for each entry there.")]


def score(
    path: Results,
    compat: Compat = "bfcl",
    out: Out = None,
    data: Data = None,
    workers: Workers = None,
    json: Json = False,
    debug: Debug = False,
) -> int:
    """Score result files of BFCL, the leaderboard's or ours.

    Writes `<category>.verdicts.jsonl`, one line for every row, and `summary.json`; with several models, into one
    folder each.
    """
    from tunecheck._errors import ConfigurationError
    from tunecheck._messages import did_you_mean
    from tunecheck.bfcl._scoring import score_results

    if compat not in _MODES:
        raise ConfigurationError(f"--compat: there is no mode {compat!r}{did_you_mean(compat, _MODES)}")
    scores = score_results(path, compat=compat == "bfcl", data=data, workers=workers)
    folder = out or _OUT
    summary = write_scores(scores, folder)
    if json:
        _write_json(summary)
    else:
        print_table(scores)
        print(f"written {folder}")
    for passed_over in scores.passed_over:
        print(f"note: {passed_over} is of a category that is not checked here", file=sys.stderr)
    return DONE


def write_scores(scores: Scores, folder: Path) -> dict[str, JSON]:
    """Write all verdicts and summaries; gives the one of the whole.

    Raises:
        ConfigurationError: the folder cannot be written.
    """
    from tunecheck._files.versions import versioned
    from tunecheck._json import dumps_line
    from tunecheck.runs._store import dumps_readably, write_file

    mode = "bfcl" if scores.compat else "strict"
    summaries: dict[str, JSON] = {}
    with _writing(folder):
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
def _writing(folder: Path) -> Iterator[None]:
    """Say in a line that a folder cannot be written."""
    from tunecheck._errors import ConfigurationError

    try:
        yield
    except OSError as error:
        raise ConfigurationError(
            f"{folder}: cannot be written: {error.strerror or error}; name another --out"
        ) from None


def print_table(scores: Scores) -> None:
    """Print accuracies and figures, one column a model."""
    from rich.table import Table

    from tunecheck._messages import clean
    from tunecheck.cli._console import console

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


def show(
    ids: Ids = None,
    all_: All = False,
    categories: Categories = "multi_turn",
    out: ShowOut = None,
    data: Data = None,
    debug: Debug = False,
) -> int:
    """Show the ground truth of entries as a conversation.

    Each turn's question, the calls, what the simulators answer, and what changes in them.
    """
    from tunecheck._errors import ConfigurationError
    from tunecheck.datasets._bfcl.files import find_bfcl

    if bool(ids) == all_:
        raise ConfigurationError("give ids of entries, or --all with --out DIR")
    if all_ and out is None:
        raise ConfigurationError("--all writes one file for each entry: give --out DIR")
    files = find_bfcl(data)
    rows = _every_row(files, categories) if all_ else _chosen_rows(files, ids or [])
    _show(rows, files, out)
    return DONE


def _every_row(files: BfclFiles, categories: str) -> Iterator[CheckRow]:
    from tunecheck.bfcl._entries import read_entries
    from tunecheck.datasets._bfcl.categories import named_categories

    for category in named_categories(categories):
        yield from read_entries(files, category).values()


def _chosen_rows(files: BfclFiles, ids: Sequence[str]) -> Iterator[CheckRow]:
    from tunecheck._errors import DataError
    from tunecheck._messages import did_you_mean
    from tunecheck.bfcl._entries import read_entries
    from tunecheck.datasets._bfcl.categories import category_of

    entries: dict[str, dict[str, CheckRow]] = {}
    for each in ids:
        category = category_of(each)
        if category is None:
            raise DataError(f"{each!r} is no id of an entry; ids are such as multi_turn_base_0")
        if category.name not in entries:
            entries[category.name] = read_entries(files, category)
        if each not in entries[category.name]:
            raise DataError(f"there is no entry {each!r}{did_you_mean(each, entries[category.name])}")
        yield entries[category.name][each]


def _show(rows: Iterator[CheckRow], files: BfclFiles, out: Path | None) -> None:
    from tunecheck._messages import counted, printable
    from tunecheck.bfcl._ground_truth import ground_truth_lines
    from tunecheck.bfcl._replay import Simulators
    from tunecheck.runs._store import write_file
    from tunecheck.simulators._long_context import LongContext

    plain, padded = Simulators(), None
    written = 0
    for row in rows:
        if row.get("long_context") and padded is None:
            padded = Simulators(long_context=LongContext.read(files.package))
        lines = ground_truth_lines(row, padded if row.get("long_context") and padded else plain)
        if out is None:
            for text in lines:
                print("\n".join(map(printable, text.split("\n"))))
            print()
        else:
            content = "".join(f"{line}\n" for line in lines)
            with _writing(out):
                out.mkdir(parents=True, exist_ok=True)
                write_file(out / f"{row['id']}.txt", content.encode("utf-8", "backslashreplace"))
            written += 1
    if out is not None:
        print(f"written {counted(written, 'file')} in {out}")


def _write_json(summary: dict[str, JSON]) -> None:
    from tunecheck._json import dumps_line

    sys.stdout.write(dumps_line(summary).decode("utf-8"))
