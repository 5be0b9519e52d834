"""What a person reads when an evaluator was held against labels: agreement, the table of mistakes, and the rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tunecheck._json import JSON
from tunecheck._messages import clean, counted
from tunecheck.cli._running import run_errors
from tunecheck.statistics._proportions import Proportion

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table
    from rich.text import Text

    from tunecheck.evaluation._calibration.labelled_run import Calibration
    from tunecheck.statistics._agreement import Kappa

SIMULATED = "SIMULATED verdicts: no model judged"

_MOST_ROWS = 20
_MOST_CLASSES = 8
_NOTHING = "–"


def show(calibration: Calibration, console: Console, out: str | None = None) -> None:
    """Print the report; `out` is the file that has all of it."""
    from rich.text import Text

    for part in _parts(calibration, out):
        console.print()
        console.print(part if not isinstance(part, str) else Text(part))


def _parts(calibration: Calibration, out: str | None) -> Iterator[RenderableType]:
    yield _header(calibration)
    yield _figures(calibration)
    if calibration.compared:
        yield _confusion(calibration)
    if calibration.differences:
        yield _differences(calibration, out)
    if calibration.errors:
        yield _errors(calibration)
    for note in calibration.notes:
        yield f"note: {clean(note)}"
    yield f"files in {clean(calibration.run_dir, 500)}"


def _header(calibration: Calibration) -> Text:
    from rich.text import Text

    metric = f" ({calibration.metric})" if calibration.metric not in (None, calibration.evaluator) else ""
    about = (
        f" · {counted(calibration.rows, 'row')} · {clean(calibration.evaluator, 60)}{clean(metric, 60)} against labels"
    )
    text = Text.assemble((clean(calibration.run_dir.name, 100), "bold"), about)
    if calibration.simulated:
        text.append(f"\n{SIMULATED}", "bold yellow")
    return text


def _grid(columns: int) -> Table:
    from rich.table import Table

    table = Table.grid(padding=(0, 2))
    for index in range(columns):
        table.add_column(justify="left" if index == 0 else "right", overflow="fold")
    return table


def _figures(calibration: Calibration) -> Table:
    from rich.text import Text

    table = _grid(3)
    table.columns[2].justify = "left"
    table.add_row("compared", f"{calibration.compared:,}", _left_out(calibration))
    table.add_row(Text("accuracy", "bold"), _share(calibration.accuracy), _interval(calibration.accuracy))
    table.add_row(Text("Cohen's kappa", "bold"), *_kappa(calibration.kappa))
    for name, figures in list(calibration.by_class.items())[:_MOST_CLASSES]:
        shown = clean(name, 30)
        table.add_row(f"precision of {shown}", _share(figures.precision), _interval(figures.precision))
        table.add_row(f"recall of {shown}", _share(figures.recall), _interval(figures.recall))
    about = f"{calibration.confidence:.0%} intervals: Wilson's for shares, the asymptotic one for kappa"
    table.add_row("", "", Text(about, "dim"))
    if calibration.usage:
        table.add_row("model calls", *_usage(calibration))
    return table


def _left_out(calibration: Calibration) -> str:
    counts = (
        (calibration.unlabelled, "without a label"),
        (calibration.not_applicable, "not applicable"),
        (calibration.errors, "with an error"),
    )
    left = [f"{count:,} {words}" for count, words in counts if count]
    return f"of {counted(calibration.rows, 'row')}" + (f"; left out: {', '.join(left)}" if left else "")


def _share(share: Proportion) -> str:
    return _NOTHING if share.value is None else f"{share.value:.1%}"


def _interval(share: Proportion) -> str:
    if share.low is None or share.high is None:
        return "no such row"
    return f"{share.low:.1%} to {share.high:.1%}; {share.hits:,} of {share.of:,}"


def _kappa(kappa: Kappa) -> tuple[str, str]:
    interval = "" if kappa.low is None or kappa.high is None else f"{kappa.low:.2f} to {kappa.high:.2f}"
    remark = clean(kappa.remark or "", 200)
    value = _NOTHING if kappa.value is None else f"{kappa.value:.2f}"
    return value, "; ".join(part for part in (interval, remark) if part)


def _usage(calibration: Calibration) -> tuple[str, str]:
    used = calibration.usage.get(calibration.evaluator)
    values = used if isinstance(used, dict) else {}
    tokens = sum(value for key in ("input_tokens", "output_tokens") if isinstance(value := values.get(key), int))
    cost = values.get("cost")
    spent = f", {cost:.4g} {values.get('currency')}" if isinstance(cost, (int, float)) else ""
    return str(values.get("calls")), f"{tokens:,} tokens{spent}"


def _confusion(calibration: Calibration) -> Table | str:
    from rich.text import Text

    if len(calibration.classes) > _MOST_CLASSES:
        return f"{len(calibration.classes)} classes: see the table in --json or --out"
    table = _grid(1 + len(calibration.classes))
    table.add_row("", *(Text(f"verdict {clean(name, 30)}", "bold") for name in calibration.classes))
    for label, verdicts in calibration.confusion.items():
        counts = (f"{verdicts[name]:,}" for name in calibration.classes)
        table.add_row(Text(f"label {clean(label, 30)}", "bold"), *counts)
    return table


def _differences(calibration: Calibration, out: str | None) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2))
    table.add_row(Text("row", "bold"), Text("label", "bold"), Text("verdict", "bold"), Text("reason", "bold"))
    for difference in calibration.differences[:_MOST_ROWS]:
        label = _with(difference.label_class, difference.label)
        verdict = _with(difference.verdict, difference.score)
        table.add_row(clean(difference.row_id, 40), label, verdict, Text(clean(difference.reason or "", 200), "dim"))
    more = len(calibration.differences) - _MOST_ROWS
    if more > 0:
        where = f"in {clean(out, 200)}" if out is not None else "with --out FILE"
        table.add_row("…", "", "", f"and {counted(more, 'row')} more, {where}")
    return table


def _with(name: str, value: JSON) -> str:
    """`fail (0.4)`; the value only where it is a number, and says more than the name."""
    number = isinstance(value, (int, float)) and not isinstance(value, bool) and str(value) != name
    return f"{clean(name, 30)} ({value:g})" if number else clean(name, 30)


def _errors(calibration: Calibration) -> str:
    kinds = [f"  {kind}" for kind in run_errors(calibration.run_dir, "row")]
    about = f"errors in {counted(calibration.errors, 'row')}; --resume {clean(calibration.run_dir.name)} tries again"
    return "\n".join([about, *kinds])
