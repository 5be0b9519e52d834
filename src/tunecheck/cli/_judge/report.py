"""What a person reads when an evaluator was held against labels: agreement, the table of mistakes, and the rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tunecheck._json import JSON
from tunecheck._messages import clean, counted
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


def show(found: Calibration, console: Console, out: str | None = None) -> None:
    """Print the report; `out` is the file that has all of it."""
    from rich.text import Text

    for part in _parts(found, out):
        console.print()
        console.print(part if not isinstance(part, str) else Text(part))


def _parts(found: Calibration, out: str | None) -> Iterator[RenderableType]:
    yield _header(found)
    yield _figures(found)
    if found.compared:
        yield _confusion(found)
    if found.differences:
        yield _differences(found, out)
    if found.errors:
        yield _errors(found)
    for note in found.notes:
        yield f"note: {clean(note)}"
    yield f"files in {clean(found.run_dir, 500)}"


def _header(found: Calibration) -> Text:
    from rich.text import Text

    metric = f" ({found.metric})" if found.metric not in (None, found.evaluator) else ""
    about = f" · {counted(found.rows, 'row')} · {clean(found.evaluator, 60)}{clean(metric, 60)} against labels"
    text = Text.assemble((clean(found.run_dir.name, 100), "bold"), about)
    if found.simulated:
        text.append(f"\n{SIMULATED}", "bold yellow")
    return text


def _grid(columns: int) -> Table:
    from rich.table import Table

    table = Table.grid(padding=(0, 2))
    for index in range(columns):
        table.add_column(justify="left" if index == 0 else "right", overflow="fold")
    return table


def _figures(found: Calibration) -> Table:
    from rich.text import Text

    table = _grid(3)
    table.columns[2].justify = "left"
    table.add_row("compared", f"{found.compared:,}", _left_out(found))
    table.add_row(Text("accuracy", "bold"), _share(found.accuracy), _interval(found.accuracy))
    table.add_row(Text("Cohen's kappa", "bold"), *_kappa(found.kappa))
    for name, figures in list(found.by_class.items())[:_MOST_CLASSES]:
        shown = clean(name, 30)
        table.add_row(f"precision of {shown}", _share(figures.precision), _interval(figures.precision))
        table.add_row(f"recall of {shown}", _share(figures.recall), _interval(figures.recall))
    about = f"{found.confidence:.0%} intervals: Wilson's for shares, the asymptotic one for kappa"
    table.add_row("", "", Text(about, "dim"))
    if found.usage:
        table.add_row("model calls", *_usage(found))
    return table


def _left_out(found: Calibration) -> str:
    counts = (
        (found.unlabelled, "without a label"),
        (found.not_applicable, "not applicable"),
        (found.errors, "with an error"),
    )
    left = [f"{count:,} {words}" for count, words in counts if count]
    return f"of {counted(found.rows, 'row')}" + (f"; left out: {', '.join(left)}" if left else "")


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


def _usage(found: Calibration) -> tuple[str, str]:
    used = found.usage.get(found.evaluator)
    values = used if isinstance(used, dict) else {}
    tokens = sum(value for key in ("input_tokens", "output_tokens") if isinstance(value := values.get(key), int))
    cost = values.get("cost")
    spent = f", {cost:.4g} {values.get('currency')}" if isinstance(cost, (int, float)) else ""
    return str(values.get("calls")), f"{tokens:,} tokens{spent}"


def _confusion(found: Calibration) -> Table | str:
    from rich.text import Text

    if len(found.classes) > _MOST_CLASSES:
        return f"{len(found.classes)} classes: see the table in --json or --out"
    table = _grid(1 + len(found.classes))
    table.add_row("", *(Text(f"verdict {clean(name, 30)}", "bold") for name in found.classes))
    for label, verdicts in found.confusion.items():
        counts = (f"{verdicts[name]:,}" for name in found.classes)
        table.add_row(Text(f"label {clean(label, 30)}", "bold"), *counts)
    return table


def _differences(found: Calibration, out: str | None) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2))
    table.add_row(Text("row", "bold"), Text("label", "bold"), Text("verdict", "bold"), Text("reason", "bold"))
    for difference in found.differences[:_MOST_ROWS]:
        label = _with(difference.label_class, difference.label)
        verdict = _with(difference.verdict, difference.score)
        table.add_row(clean(difference.row_id, 40), label, verdict, Text(clean(difference.reason or "", 200), "dim"))
    more = len(found.differences) - _MOST_ROWS
    if more > 0:
        where = f"in {clean(out, 200)}" if out is not None else "with --out FILE"
        table.add_row("…", "", "", f"and {counted(more, 'row')} more, {where}")
    return table


def _with(name: str, value: JSON) -> str:
    """`fail (0.4)`; the value only where it is a number, and says more than the name."""
    number = isinstance(value, (int, float)) and not isinstance(value, bool) and str(value) != name
    return f"{clean(name, 30)} ({value:g})" if number else clean(name, 30)


def _errors(found: Calibration) -> str:
    from tunecheck.cli._running import run_errors

    kinds = [f"  {kind}" for kind in run_errors(found.run_dir, "row")]
    about = f"errors in {counted(found.errors, 'row')}; --resume {clean(found.run_dir.name)} tries again"
    return "\n".join([about, *kinds])
