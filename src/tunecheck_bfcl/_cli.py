"""`tunecheck bfcl`: run BFCL against an endpoint, score result files, show the ground truth."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, ClassVar, Literal, cast

from msgspec import UNSET, to_builtins
from msgspec.structs import replace

from tunecheck import ConfigurationError, DataError
from tunecheck.cli import (
    ASKING,
    DONE,
    FAILED,
    RUNNING,
    CommandOptions,
    ConversationOptions,
    Invocation,
    JsonOptions,
    NamesOptions,
    ResumableOptions,
    argument,
    begin,
    command,
    flag,
    option,
    print_json,
    print_path,
    print_run,
    run_arguments,
    run_errors,
    run_summary,
)
from tunecheck.plugins import Trust, clean, did_you_mean, dumps_line, one_of, plural, printable, raise_as
from tunecheck.views import console

if TYPE_CHECKING:
    from tunecheck.episodes import CallMode, ConversationTarget
    from tunecheck_bfcl._data.files import BfclFiles
    from tunecheck_bfcl._decoding import Names
    from tunecheck_bfcl._evaluation import BfclOutcome
    from tunecheck_bfcl._scoring import CheckRow, Scores
    from tunecheck_bfcl._summary import CategoryScore, ModelScore, ModelsSummary, ModelSummary

FOLDER, SCORES = "bfcl", "bfcl_score"
"""The subfolders of a run's folder with the result files and with the verdicts."""


@dataclass(frozen=True, kw_only=True)
class BfclRunOptions(ResumableOptions, ConversationOptions, NamesOptions):
    command: ClassVar[str] = "bfcl run"
    fixed: ClassVar[bool] = True

    endpoint: str | None = option(
        "Endpoint to evaluate: a definition file, or its name in endpoints/.", "FILE", ASKING, acts="asks"
    )
    categories: str | None = option(
        "Categories, or the groups all, multi_turn, single_turn, live, non_live; by default all.", "A,B", ASKING
    )
    ids: str | None = option("Run only the rows with these ids.", "ID,ID", ASKING)
    limit: int | None = option("Run only the first N rows of each category.", "N", ASKING, least=1)
    compat: bool = flag(
        "Work exactly like the leaderboard: its step limit (21 answers per turn), decoding, verdicts.", ASKING
    )
    exclude_state_log: bool = flag("Leave the simulators' states out of the log.", RUNNING)
    data: str | None = option("Folder of BFCL's data; default: the folder of `bfcl get`.", "DIR", RUNNING)
    reuse: str | None = option(
        "Start a new run that reuses RUN's answers and verdicts if their inputs are unchanged.",
        "RUN",
        RUNNING,
        recorded=False,
    )

    @property
    def bfcl_data(self) -> Path | None:
        return None if self.data is None else Path(self.data)


@command(BfclRunOptions)
def run(options: BfclRunOptions, invocation: Invocation) -> int:
    """Run BFCL V3 against an endpoint: single-turn rows, and conversations with simulators behind the calls.

    --resume finishes an interrupted run. RUN/bfcl/ has the leaderboard's result files; `tunecheck bfcl score` scores
    them again. For gates, use `tunecheck evaluate --dataset bfcl:CATEGORIES`.

    Exit codes:
    0 done
    1 the run failed or was interrupted, or every row has an error
    2 wrong use or configuration
    """
    options, trust = begin(options, invocation)
    if options.endpoint is None:
        raise ConfigurationError("no endpoint: give --endpoint FILE, or --resume RUN")
    from tunecheck_bfcl._evaluation import run_bfcl

    outcome = run_bfcl(
        _target(options, trust),
        categories=options.categories,
        ids=_ids(options.ids),
        limit=options.limit,
        names=_names(options),
        data=options.bfcl_data,
        name=options.name,
        **run_arguments(options, "bfcl", reuse=options.reuse, trust=trust),
    )
    invocation.finished = str(outcome.result.run_dir)
    return _report_run(options, outcome)


def _ids(option: str | None) -> list[str]:
    """Return the comma-separated ids of --ids, or an empty list if the option is not given.

    Raises:
        ConfigurationError: the option is given without any id.
    """
    ids = [text.strip() for text in (option or "").split(",") if text.strip()]
    if option is not None and not ids:  # an empty list must not select all rows
        raise ConfigurationError("--ids: the list is empty; write ids such as multi_turn_base_0")
    return ids


def _names(options: NamesOptions) -> Names:
    return cast("Names", options.names or "auto")


def _target(options: BfclRunOptions, trust: Trust) -> ConversationTarget:
    """Return the target that asks the endpoint of --endpoint as the options say."""
    from tunecheck.cli import load_named
    from tunecheck.episodes import STEP_LIMIT, ConversationTarget
    from tunecheck.formats import AUTO

    assert options.endpoint is not None
    return ConversationTarget(
        load_named(options.endpoint, trust),
        mode=cast("CallMode", options.mode or "tools"),
        step_limit=STEP_LIMIT if options.step_limit is None else options.step_limit,
        compat="bfcl" if options.compat else None,
        format=options.format or AUTO,
        include_input_log=options.include_input_log,
        include_state_log=not options.exclude_state_log,
        data=options.bfcl_data,
    )


def _report_run(options: BfclRunOptions, outcome: BfclOutcome) -> int:
    """Write the verdicts of a run, print its table or JSON, and return the exit code.

    A run in which every row ended in an error fails.
    """
    result, scores = outcome.result, outcome.scores
    failed = bool(result.row_count) and result.failed_row_count == result.row_count
    if failed:
        print(f"error: every row ended in an error: {next(run_errors(result.run_dir, 'row'), '')}", file=sys.stderr)
    if scores is None:  # no row has an answer
        return FAILED
    summary = write_scores(scores, result.run_dir / SCORES)
    if options.json:
        print_json({**run_summary(result), "scores": to_builtins(summary)})
    elif options.quiet:
        print_path(result.run_dir)
    else:
        files = [f"{FOLDER}/{clean(outcome.model)}/…_result.json  {SCORES}/  eval_results.jsonl"]
        print_run(
            result, "row", lambda: _print_table(scores, "\n", _MOST_CATEGORIES), files, f" · {clean(outcome.model)}"
        )
    return FAILED if failed else DONE


@dataclass(frozen=True, kw_only=True)
class LeaderboardScoreOptions(JsonOptions, NamesOptions):
    path: Path = argument("A BFCL_v3_… or BFCL_v4_<category>_result.json file, or a folder with such files.", "PATH")
    compat: str = option("bfcl: as the leaderboard; strict: also fail mistakes it ignores.", "MODE", default="bfcl")
    out: Path | None = option("Folder for the verdicts; default: bfcl_score.", "DIR")
    data: Path | None = option("Folder of BFCL's data; default: the folder of `bfcl get`.", "DIR")
    workers: int | None = option("Number of processes.", "N", least=1)


@command(LeaderboardScoreOptions)
def score(options: LeaderboardScoreOptions, invocation: Invocation) -> int:
    """Score result files of BFCL, from the leaderboard or `tunecheck bfcl run`.

    Writes `<category>.verdicts.jsonl`, one line for every row, and `summary.json`; with several models, into one
    folder each.
    """
    from tunecheck_bfcl._scoring import score_results, useful_workers

    compat = one_of(options.compat, ("bfcl", "strict"), "--compat") == "bfcl"
    workers = useful_workers(options.path) if options.workers is None else options.workers
    scores = score_results(options.path, compat=compat, names=_names(options), data=options.data, workers=workers)
    folder = options.out or Path(SCORES)
    summary = write_scores(scores, folder)
    if options.json:
        print_json(to_builtins(summary))
    else:
        _print_table(scores)
        print(f"written {folder}")
    for passed_over in scores.passed_over:
        print(f"note: {passed_over} is skipped: Tunecheck does not check its category", file=sys.stderr)
    return 0


def write_scores(scores: Scores, folder: Path) -> ModelSummary | ModelsSummary:
    """Write the verdicts of each category and the summaries below a folder, and return the summary.

    Several models get a subfolder each, and a summary of all models is written above them.

    Raises:
        ConfigurationError: the folder cannot be written.
    """
    from tunecheck.plugins import write_file
    from tunecheck.runs import dumps_readably
    from tunecheck_bfcl._summary import ModelsSummary

    compat: Literal["bfcl", "strict"] = "bfcl" if scores.compat else "strict"
    summaries: dict[str, ModelSummary] = {}
    with raise_as(ConfigurationError, folder, "cannot be written"):
        for name, model in scores.models.items():
            place = folder if len(scores.models) == 1 else folder / PurePath(name)
            place.mkdir(parents=True, exist_ok=True)
            for category, score in model.categories.items():
                write_file(place / f"{category}.verdicts.jsonl", b"".join(map(dumps_line, score.lines())))
            summary = model.summary(compat)
            write_file(place / "summary.json", dumps_readably(summary))
            summaries[name] = replace(summary, format_version=UNSET)
        if len(summaries) == 1:
            return summary
        whole = ModelsSummary(compat=compat, models=summaries)
        write_file(folder / "summary.json", dumps_readably(whole))
    return whole


_MOST_CATEGORIES = 10
"""The most categories in the table after a run. If there are more, the table has only the leaderboard's figures."""


def _print_table(scores: Scores, above: str = "", most: int = 1_000) -> None:
    """Print a table with a column for each model.

    `above` is printed before the table. With more than `most` categories, the table has only the leaderboard's figures.
    """
    from rich.table import Table

    print(above, end="")
    models = list(scores.models.values())
    table = Table(box=None, pad_edge=False)
    table.add_column("")
    for model in models:
        table.add_column(clean(model.name, 60), justify="right")
    for line in _table_lines(models, most):
        table.add_row(*line)
    console(sys.stdout).print(table)


def _table_lines(models: Sequence[ModelScore], most: int) -> Iterator[list[str]]:
    """Yield the table's lines: the categories with results, then the leaderboard's figures.

    More than `most` categories are replaced by one line that names the file with their results.
    """
    from tunecheck_bfcl._data.categories import CATEGORIES
    from tunecheck_bfcl._summary import FIGURES

    shown = [category for category in CATEGORIES if any(category in model.categories for model in models)]
    if len(shown) <= most:
        for category in shown:
            yield [category, *(_cell(model.categories.get(category)) for model in models)]
    for version, names in FIGURES.items():
        for name in names:
            figures = [model.figures(version)[name] for model in models]
            if any(figure is not None for figure in figures):
                yield [f"{version.upper()} {name.replace('_', ' ')}", *map(_share, figures)]
    if len(shown) > most:
        yield [f"{len(shown)} categories: {SCORES}/summary.json", *("" for _ in models)]


def _cell(score: CategoryScore | None) -> str:
    """Return a category's table cell, such as "31 of 46 (2 missing)  67.39%", or "–" without a score."""
    if score is None:
        return _share(None)
    left_out = len(score.verdicts) - score.total
    notes = f" ({left_out} not scored)" if left_out else ""
    notes += f" ({score.missing} missing)" if score.missing else ""
    return f"{score.correct:,} of {score.total:,}{notes}  {_share(score.accuracy)}"


def _share(share: float | None) -> str:
    return "–" if share is None else f"{share:.2%}"


@dataclass(frozen=True, kw_only=True)
class ShowOptions(CommandOptions):
    ids: list[str] | None = argument("Ids of entries, e.g. multi_turn_base_0.", "[ID]…", default=None)
    all: bool = flag("Write every entry of the categories to its own file (needs --out).")
    categories: str = option("Categories for --all.", "A,B", default="multi_turn")
    out: Path | None = option("Write one file for each entry to this folder.", "DIR")
    data: Path | None = option("Folder of BFCL's data; default: the folder of `bfcl get`.", "DIR")


@command(ShowOptions)
def show(options: ShowOptions, invocation: Invocation) -> int:
    """Show the ground truth of entries as a conversation.

    Shows each turn's question, calls, results and changes of state.
    """
    from tunecheck_bfcl._data.files import find_bfcl

    if bool(options.ids) == options.all:
        raise ConfigurationError("give ids of entries, or --all with --out DIR")
    if options.all and options.out is None:
        raise ConfigurationError("--all writes one file for each entry: give --out DIR")
    files = find_bfcl(options.data)
    rows = _rows_of(files, options.categories) if options.all else _rows_with(files, options.ids or [])
    _show_rows(rows, files, options.out)
    return 0


def _rows_of(files: BfclFiles, categories: str) -> Iterator[CheckRow]:
    """Yield the rows of comma-separated categories and groups."""
    from tunecheck_bfcl._data.categories import named_categories
    from tunecheck_bfcl._scoring import read_entries

    for category in named_categories(categories):
        yield from read_entries(files, category).values()


def _rows_with(files: BfclFiles, ids: Sequence[str]) -> Iterator[CheckRow]:
    """Yield the rows with these ids, in the order of the ids.

    Raises:
        DataError: an id belongs to no row of BFCL.
    """
    from tunecheck_bfcl._data.categories import category_of
    from tunecheck_bfcl._scoring import read_entries

    read = cache(partial(read_entries, files))
    for row_id in ids:
        category = category_of(row_id)
        if category is None:
            raise DataError(f"{row_id!r} is not the id of a BFCL row; ids look like multi_turn_base_0")
        if row_id not in read(category):
            raise DataError(f"BFCL has no row {row_id!r}{did_you_mean(row_id, read(category))}")
        yield read(category)[row_id]


def _show_rows(rows: Iterator[CheckRow], files: BfclFiles, out: Path | None) -> None:
    """Print the ground truth of rows, or write it to one text file for each row below `out`."""
    from tunecheck.episodes import Services
    from tunecheck.plugins import write_file
    from tunecheck_bfcl._data.prompts import read_long_context
    from tunecheck_bfcl._ground_truth import ground_truth_lines

    services = Services(long_context=lambda: read_long_context(files))
    written = 0
    for row in rows:
        lines = ground_truth_lines(row, services)
        if out is None:
            for text in lines:
                print("\n".join(map(printable, text.split("\n"))))
            print()
        else:
            content = "".join(f"{line}\n" for line in lines)
            with raise_as(ConfigurationError, out, "cannot be written"):
                out.mkdir(parents=True, exist_ok=True)
                write_file(out / f"{row['id']}.txt", content.encode("utf-8", "backslashreplace"))
            written += 1
    if out is not None:
        print(f"written {plural(written, 'file')} in {out}")


@dataclass(frozen=True, kw_only=True)
class GetOptions(CommandOptions):
    to: Path | None = option("Folder to put the data in; by default the user's cache.", "DIR")
    source: Path | None = option("Unpack this wheel instead of downloading one.", "WHEEL", flags=("--from",))


@command(GetOptions)
def get(options: GetOptions, invocation: Invocation) -> int:
    """Fetch BFCL's data from the package index, without its dependencies, and without running any of it."""
    from tunecheck_bfcl._data.categories import CATEGORIES
    from tunecheck_bfcl._data.download import get_bfcl
    from tunecheck_bfcl._data.files import ENVIRONMENT

    folder = get_bfcl(to=options.to, source=options.source)
    print(f"BFCL's data: {folder}")
    if options.to is not None:
        print(f"set {ENVIRONMENT}={folder} so that Tunecheck finds the data")
    print(f"data sets: bfcl:CATEGORY, where CATEGORY is one of {', '.join(CATEGORIES)}")
    return DONE
