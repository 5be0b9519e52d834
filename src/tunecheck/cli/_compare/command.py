"""`tunecheck compare`: is the new iteration better, at what, how sure is that, and which rows changed."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from tunecheck.cli._invocation import DEFAULT_RESULTS
from tunecheck.cli._parameters import SHOWING, Debug, Json, ResultsDir

DONE = 0

_STATISTICS = "Statistics"
_ROWS_SHOWN, _ROWS_KEPT = 3, 1_000

Base = Annotated[
    str,
    typer.Argument(
        metavar="BASE",
        help="What to compare with: a run's id, the beginning of it, its folder, or last; Azure's "
        "evaluation_results.json; BFCL's score files.",
    ),
]
New = Annotated[list[str], typer.Argument(metavar="NEW [MORE…]", help="The runs to compare with it, in order.")]
Metrics = Annotated[
    list[str] | None,
    typer.Option(
        "--metric",
        metavar="M",
        help="Test this: an evaluator, or a metric as metrics.json names it (repeatable); by default each evaluator's "
        "main one.",
        rich_help_panel=_STATISTICS,
    ),
]
Margin = Annotated[
    float | None,
    typer.Option(
        "--margin",
        metavar="M",
        help="Say, too, whether it is shown to be worse by less than this, in the metric's unit (0.02: two points of "
        "a pass rate).",
        rich_help_panel=_STATISTICS,
    ),
]
Cluster = Annotated[
    str | None,
    typer.Option(
        "--cluster",
        metavar="COLUMN",
        help="Rows with equal values in this column are not independent, e.g. conversation_id.",
        rich_help_panel=_STATISTICS,
    ),
]
Confidence = Annotated[
    float,
    typer.Option("--confidence", metavar="C", help="Of intervals and verdicts.", rich_help_panel=_STATISTICS),
]
PairBy = Annotated[
    str,
    typer.Option(
        "--pair-by",
        metavar="HOW",
        help="content: rows of equal id and content, else of equal content; id: rows of equal id, whatever is in them.",
        rich_help_panel=_STATISTICS,
    ),
]
AllowSimulated = Annotated[
    bool,
    typer.Option("--allow-simulated", help="Compare runs that asked no model, too.", rich_help_panel=_STATISTICS),
]
Rows = Annotated[
    int | None,
    typer.Option(
        "--rows", metavar="N", min=0, help="How many rows of each list; by default 3.", rich_help_panel=SHOWING
    ),
]
Out = Annotated[
    str | None, typer.Option("--out", metavar="FILE", help="Write everything as JSON.", rich_help_panel=SHOWING)
]
MarkdownFile = Annotated[
    str | None,
    typer.Option("--markdown", metavar="FILE", help="Write a summary for a pull request.", rich_help_panel=SHOWING),
]


def compare(
    base: Base,
    new: New,
    metric: Metrics = None,
    margin: Margin = None,
    cluster: Cluster = None,
    confidence: Confidence = 0.95,
    pair_by: PairBy = "content",
    allow_simulated: AllowSimulated = False,
    rows: Rows = None,
    out: Out = None,
    markdown: MarkdownFile = None,
    results_dir: ResultsDir = None,
    json: Json = False,
    debug: Debug = False,
) -> int:
    """Compare runs row by row: what is better, what is worse, how sure that is, and which rows changed."""
    from tunecheck._json import dumps_line
    from tunecheck.cli._compare.markdown import comparison_markdown
    from tunecheck.cli._compare.page import show
    from tunecheck.cli._console import console
    from tunecheck.comparison._compare import compare as compare_runs

    shown = _ROWS_SHOWN if rows is None else rows
    comparison = compare_runs(
        base,
        *new,
        metrics=metric or None,
        margin=margin,
        cluster=cluster,
        confidence=confidence,
        allow_simulated=allow_simulated,
        pair_by=pair_by,
        rows=max(_ROWS_KEPT, shown),
        results_dir=results_dir or DEFAULT_RESULTS,
    )
    if out is not None:
        _write(out, dumps_line(comparison.to_json()))
    if markdown is not None:
        _write(markdown, comparison_markdown(comparison, shown).encode("utf-8", "backslashreplace"))
    if json:
        sys.stdout.write(dumps_line(comparison.to_json()).decode("utf-8"))
    else:
        show(comparison, console(sys.stdout), shown)
    return DONE


def _write(path: str, content: bytes) -> None:
    from tunecheck._errors import ConfigurationError
    from tunecheck.runs._store import write_file

    try:
        write_file(Path(path), content)
    except OSError as error:
        raise ConfigurationError(f"{path}: cannot be written: {error.strerror or error}") from None
