"""`tunecheck bfcl`: run BFCL against an endpoint, score result files, show the ground truth."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, cast

from msgspec import to_builtins

from tunecheck import ConfigurationError, cli
from tunecheck.plugins import Trust, clean, one_of, plural, printable, raise_as, write_file
from tunecheck.views import Table, View, console, print_view

if TYPE_CHECKING:
    from tunecheck.episodes import ConversationTarget
    from tunecheck_bfcl._decoding import Names
    from tunecheck_bfcl._evaluation import BfclOutcome
    from tunecheck_bfcl._scoring import Scores

_DATA = "Data and answers"
SCORES = "bfcl_score"
"""The subfolder of a run's folder with the verdicts."""


class BfclRunOptions(cli.ResumableOptions, cli.ConversationOptions, cli.NamesOptions):
    command: ClassVar[str] = "bfcl run"
    fixed: ClassVar[bool] = True

    endpoint: str | None = cli.option(
        "Endpoint to evaluate: a definition file, or its name in endpoints/.", "FILE", _DATA, acts="asks"
    )
    categories: str | None = cli.option(
        "Categories, or the groups all, multi_turn, single_turn, live, non_live; by default all.", "A,B", _DATA
    )
    ids: str | None = cli.option("Run only the rows with these ids.", "ID,ID", _DATA)
    limit: int | None = cli.option("Run only the first N rows of each category.", "N", _DATA, least=1)
    compat: bool = cli.flag("Run like the leaderboard: 21 answers per turn, text calls in its format.", cli.ASKING)
    exclude_state_log: bool = cli.flag("Leave the simulators' states out of the log.", cli.RUNNING)
    data: str | None = cli.option("Folder of BFCL's data; default: the folder of `bfcl get`.", "DIR", cli.RUNNING)
    reuse: str | None = cli.option("New run; reuse what is unchanged since RUN.", "RUN", cli.RUNNING, recorded=False)


@cli.command(BfclRunOptions)
def run(options: BfclRunOptions, invocation: cli.Invocation) -> int:
    """Run BFCL V3 against an endpoint: single-turn rows, and conversations with simulators behind the calls.

    --resume finishes an interrupted run. RUN/bfcl/ has the leaderboard's result files; `tunecheck bfcl score` scores
    them again. For gates, use `tunecheck evaluate --dataset bfcl:CATEGORIES`.

    Exit codes:
    0 done
    1 the run failed or was interrupted, or every row has an error
    2 wrong use or configuration
    """
    options, trust = cli.begin(options, invocation)
    if options.endpoint is None:
        raise ConfigurationError("no endpoint is given; give --endpoint FILE, or --resume RUN")

    # Imported here: --help and a mistake in the options need not load it.
    from tunecheck_bfcl._evaluation import run_bfcl

    data = None if options.data is None else Path(options.data)
    outcome = run_bfcl(
        _target(options, data, trust),
        categories=options.categories,
        ids=[] if options.ids is None else cli.parse_names(options.ids, "--ids"),
        limit=options.limit,
        names=_names(options),
        data=data,
        name=options.name,
        **cli.run_arguments(options, "bfcl", reuse=options.reuse, trust=trust),
    )

    invocation.finished = str(outcome.result.run_dir)
    return _report_run(options, outcome)


def _names(options: cli.NamesOptions) -> Names:
    """Return the spelling of function names that --names chooses, by default "auto", or raise ConfigurationError."""
    return one_of(cast("Names", options.names or "auto"), ("auto", "dotted", "underscored"), "--names")


def _target(options: BfclRunOptions, data: Path | None, trust: Trust) -> ConversationTarget:
    """Return the target that asks the endpoint of --endpoint as the options say."""
    from tunecheck.episodes import ConversationTarget

    assert options.endpoint is not None
    return ConversationTarget(
        cli.load_named(options.endpoint, trust),
        compat="bfcl" if options.compat else None,
        include_state_log=not options.exclude_state_log,
        data=data,
        **cast("dict[str, Any]", options.conversation),
    )


def _report_run(options: BfclRunOptions, outcome: BfclOutcome) -> int:
    """Write the verdicts of a run, print its table or JSON, and return the exit code.

    A run in which every row ended in an error fails.
    """
    result, scores = outcome.result, outcome.scores
    failed = bool(result.row_count) and result.failed_row_count == result.row_count
    if failed:
        print(f"error: every row ended in an error: {next(cli.run_errors(result.run_dir, 'row'), '')}", file=sys.stderr)

    if scores is None:  # no row has an answer
        return cli.FAILED
    summary = scores.write(result.run_dir / SCORES)

    if options.json:
        cli.print_json({**cli.run_summary(result), "scores": to_builtins(summary)})
    elif options.quiet:
        cli.print_path(result.run_dir)
    else:
        files = [f"bfcl/{clean(outcome.model)}/…_result.json  {SCORES}/  eval_results.jsonl"]
        model = f" · {clean(outcome.model)}"
        cli.print_run(result, "row", lambda: _print_table(scores, _MOST_CATEGORIES), files, model)
    return cli.FAILED if failed else cli.DONE


class LeaderboardScoreOptions(cli.JsonOptions, cli.NamesOptions):
    path: Path = cli.argument(
        "A BFCL_v3_… or BFCL_v4_<category>_result.json file, or a folder with such files.", "PATH"
    )
    compat: str = cli.option("bfcl: as the leaderboard; strict: also fail mistakes it ignores.", "MODE", default="bfcl")
    out: Path | None = cli.option("Folder for the verdicts; default: bfcl_score.", "DIR")
    data: Path | None = cli.option("Folder of BFCL's data; default: the folder of `bfcl get`.", "DIR")


@cli.command(LeaderboardScoreOptions)
def score(options: LeaderboardScoreOptions, invocation: cli.Invocation) -> int:
    """Score result files of BFCL, from the leaderboard or `tunecheck bfcl run`.

    Writes `<category>.verdicts.jsonl`, one line for every row, and `summary.json`; with several models, into one
    folder each.
    """
    from tunecheck_bfcl._scoring import score_results

    compat = one_of(options.compat, ("bfcl", "strict"), "--compat") == "bfcl"
    scores = score_results(options.path, compat=compat, names=_names(options), data=options.data)

    folder = options.out or Path(SCORES)
    summary = scores.write(folder)
    if options.json:
        cli.print_json(to_builtins(summary))
    else:
        _print_table(scores)
        print(f"written {folder}")

    for passed_over in scores.passed_over:
        print(f"note: {passed_over} is skipped: Tunecheck does not check its category", file=sys.stderr)
    return 0


_MOST_CATEGORIES = 10
"""The most categories in the table after a run. If there are more, the table has only the leaderboard's figures."""


def _print_table(scores: Scores, most: int = 1_000) -> None:
    """Print a table with a column for each model.

    With more than `most` categories, the table has only the leaderboard's figures and a line that names the file with
    all results.
    """
    heads = ["", *(clean(name, 60) for name in scores.models)]
    print_view(View("bfcl", [Table(heads, [*scores.table_lines(most)])]), console(sys.stdout))


class ShowOptions(cli.CommandOptions):
    ids: list[str] | None = cli.argument("Ids of entries, e.g. multi_turn_base_0.", "[ID]…", default=None)
    all: bool = cli.flag("Write every entry of the categories to its own file (needs --out).")
    categories: str = cli.option("Categories for --all.", "A,B", default="multi_turn")
    out: Path | None = cli.option("Write one file for each entry to this folder.", "DIR")
    data: Path | None = cli.option("Folder of BFCL's data; default: the folder of `bfcl get`.", "DIR")


@cli.command(ShowOptions)
def show(options: ShowOptions, invocation: cli.Invocation) -> int:
    """Show the ground truth of multi-turn entries as a conversation.

    Shows each turn's question, calls, results and changes of state.
    """
    from tunecheck_bfcl._ground_truth import ground_truths

    if bool(options.ids) == options.all:  # neither of them, or both
        raise ConfigurationError("give either the ids of the entries to show, or --all with --out DIR")
    if options.all and options.out is None:
        raise ConfigurationError("--all writes one file for each entry; give the folder with --out DIR")

    written = 0
    for name, lines in ground_truths(options.categories if options.all else None, options.ids or [], options.data):
        if options.out is None:
            for text in lines:
                print("\n".join(map(printable, text.split("\n"))))
            print()
            continue

        # Half of a surrogate pair, which a text of the data may have, cannot be written as UTF-8.
        content = "".join(f"{line}\n" for line in lines)
        with raise_as(ConfigurationError, options.out, "cannot be written"):
            options.out.mkdir(parents=True, exist_ok=True)
            write_file(options.out / f"{name}.txt", content.encode("utf-8", "backslashreplace"))
        written += 1

    if options.out is not None:
        print(f"written {plural(written, 'file')} in {options.out}")
    return 0


class GetOptions(cli.CommandOptions):
    to: Path | None = cli.option("Folder to put the data in; by default the user's cache.", "DIR")
    source: Path | None = cli.option("Unpack this wheel instead of downloading one.", "WHEEL", flags=("--from",))


@cli.command(GetOptions)
def get(options: GetOptions, invocation: cli.Invocation) -> int:
    """Fetch BFCL's data from the package index, without its dependencies, and without running any of it."""
    from tunecheck_bfcl._data.download import get_bfcl
    from tunecheck_bfcl._data.files import CATEGORIES, ENVIRONMENT

    folder = get_bfcl(to=options.to, source=options.source)
    print(f"BFCL's data: {folder}")
    if options.to is not None:
        print(f"set {ENVIRONMENT}={folder} so that Tunecheck finds the data")
    print(f"data sets: bfcl:CATEGORY, where CATEGORY is one of {', '.join(CATEGORIES)}")
    return cli.DONE
