"""The tables of a comparison on a terminal: metrics, parts, iterations, rows over runs, causes, data sets."""

from collections.abc import Iterator, Mapping, Sequence

from rich.cells import cell_len
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from tunecheck._messages import clean
from tunecheck.cli._console import grid
from tunecheck.comparison._comparison import (
    BETTER,
    TOO_LITTLE,
    WORSE,
    Comparison,
    DataSetPair,
    History,
    MemoryPair,
    MetricComparison,
    Part,
    RowHistory,
    RowsOverRuns,
    RunComparison,
)
from tunecheck.comparison._measuring import ALONE
from tunecheck.comparison._run_table import PASS_RATE
from tunecheck.comparison._wording import NOTHING, line_of, p_text, shown_difference, size_text, value_text

_BETWEEN, _INDENT = 2, 4
_LEAST_NEEDED = ("p", "finds ≥")
"""What a narrow screen has no room for: the answer goes by Holm's p-value."""

Line = tuple[str, list[str], str]
"""A label, its figures, and a style."""

_MOST_CAUSES = 12


def metrics_table(against: RunComparison, comparison: Comparison, width: int) -> Text:
    """Each metric's figures, the tested ones first."""
    heads = [*_heads(comparison), "finds ≥"]
    margin = comparison.margin
    heads += [f"worse by < {margin:g}"] if margin is not None else []
    lines: list[Line] = [("", heads, "bold")]
    lines += [
        (_label(each), [*_cells(each, margin=margin is not None)], "" if each.tested else "dim")
        for each in _in_order(against)
    ]
    return _aligned(lines, width)


def parts_tables(against: RunComparison, comparison: Comparison, width: int) -> Iterator[Text]:
    """Where the leading metric differs, a table for each column; and the leaderboard's figures."""
    metric = against.metrics[against.part_metric]
    kind, judged = metric.kind, ", as the judge says" * (metric.judge == "corrected")
    tables: dict[str, list[Part]] = {}
    for part in against.parts:
        tables.setdefault(f"where, by {clean(part.column, 40)}{judged}", []).append(part)
    for part in against.figures:
        tables.setdefault(f"BFCL {part.column.upper()}, as the leaderboard weighs it", []).append(part)
    for title, parts in tables.items():
        lines: list[Line] = [(title, _heads(comparison), "bold")]
        for part in parts:
            cells = [f"{part.difference.n:,}", *(value_text(kind, side.value) for side in (part.base, part.new))]
            cells += [
                shown_difference(kind, part.difference, unit=False),
                p_text(part.p_value),
                p_text(part.p_adjusted),
            ]
            lines.append((clean(part.value, 40), cells, _STYLES.get(part.verdict or "", "")))
        table = _aligned(lines, width)
        alone = [clean(part.value, 40) for part in parts if part.verdict is None and part.difference.excludes_zero]
        if alone:
            table.append(f"\n{', '.join(alone)}: {ALONE}", "dim")
        yield table


_STYLES: Mapping[str, str] = {BETTER: "green", WORSE: "red"}


def _heads(comparison: Comparison) -> list[str]:
    return ["pairs", "base", "new", f"difference ({100 * comparison.confidence:.3g}%)", "p", "Holm"]


def _aligned(lines: list[Line], width: int) -> Text:
    """Lines in so many characters: where they are too few, labels have lines of their own."""
    labels = max(cell_len(label) for label, _, _ in lines)
    stacked = labels + _width(lines) > width
    for head in _LEAST_NEEDED if stacked else ():
        if head in lines[0][1] and _INDENT - _BETWEEN + _width(lines) > width:
            at = lines[0][1].index(head)
            lines = [(label, cells[:at] + cells[at + 1 :], style) for label, cells, style in lines]
    widths = _widths(lines)
    text = Text()
    for label, cells, style in lines:
        if stacked:
            text.append(f"{label}\n" if label else "", style)
        start = " " * (_INDENT - _BETWEEN) if stacked else label + " " * (labels - cell_len(label))
        figures = "".join(
            " " * (_BETWEEN + most - cell_len(cell)) + cell for cell, most in zip(cells, widths, strict=True)
        )
        text.append(f"{start}{figures}".rstrip() + "\n", style)
    text.rstrip()
    text.no_wrap = True
    return text


def _widths(lines: Sequence[Line]) -> list[int]:
    return [max(map(cell_len, column)) for column in zip(*(cells for _, cells, _ in lines), strict=True)]


def _width(lines: Sequence[Line]) -> int:
    return sum(_BETWEEN + most for most in _widths(lines))


def _in_order(against: RunComparison) -> Iterator[MetricComparison]:
    """Evaluator by evaluator, what is tested first, then what speaks for it."""
    metrics = sorted(against.metrics.values(), key=lambda each: (not each.tested, each.name != each.evaluator))
    for evaluator in dict.fromkeys(metric.evaluator for metric in metrics):
        yield from (metric for metric in metrics if metric.evaluator == evaluator)


def _label(metric: MetricComparison) -> str:
    if metric.tested or metric.name == metric.evaluator:
        return clean(metric.name, 60)
    key = metric.key.removeprefix(f"{metric.evaluator}.")
    return f"  {'pass rate' if key == PASS_RATE else clean(key, 60)}"


def _cells(metric: MetricComparison, *, margin: bool) -> Iterator[str]:
    kind = metric.kind
    yield f"{metric.difference.n:,}"
    yield value_text(kind, metric.base.value)
    yield value_text(kind, metric.new.value)
    yield shown_difference(kind, metric.difference, unit=False)
    yield p_text(metric.p_value) if metric.tested else ""
    yield p_text(metric.p_adjusted) if metric.tested else ""
    smallest = metric.smallest_difference
    yield size_text(kind, smallest.value).removesuffix(" points") if smallest is not None else ""
    if margin:
        shown = {True: "shown", False: "NOT shown", None: "cannot be said"}
        yield shown[metric.non_inferior] if metric.non_inferiority is not None else ""


def causes_table(against: RunComparison, comparison: Comparison) -> Table:
    """How many of the paired rows failed for which cause in each run, and in only one of them."""
    alpha = 1 - comparison.confidence
    table = grid("left", "right", "right", "right", "right", "right", "right", "left")
    heads = ("why rows failed", "base", "new", "change", "base only", "new only", "Holm")
    table.add_row(*(Text(head, "bold") for head in heads), "")
    for each in against.causes[:_MOST_CAUSES]:
        shown = each.p_adjusted < alpha
        style = "dim" if not shown else "red" if each.new > each.base else "green"
        counts = [f"{each.only_base:,}", f"{each.only_new:,}", p_text(each.p_adjusted)]
        change = Text(f"{each.new - each.base:+,}", style)
        side = Text("serving" if each.side == "serving" else "", "dim")
        table.add_row(clean(each.title, 60), f"{each.base:,}", f"{each.new:,}", change, *counts, side)
    if len(against.causes) > _MOST_CAUSES:
        table.add_row(Text(f"and {len(against.causes) - _MOST_CAUSES} more: --out FILE writes all", "dim"))
    return table


def data_sets_table(memory: MemoryPair) -> Table:
    """Score and spread of each data set, and the tokens that its tests spanned."""
    table = grid("left", "right", "right", "right", "right")
    table.add_row(*(Text(name, "dim") for name in ("data set", "base", "tokens", "new", "tokens")))
    for each in memory.data_sets:
        table.add_row(clean(each.title, 40), *data_set_cells(each))
    return table


def data_set_cells(pair: DataSetPair) -> Iterator[str]:
    """Score, spread and span in the base, then in the new run."""
    for side in (pair.base, pair.new):
        if side is None or side.mean is None:
            yield NOTHING
        else:
            yield f"{side.mean:.2f} ± {side.deviation:.2f} (n={side.scored})"
        yield NOTHING if side is None else f"{side.tokens:,.0f}"


def iterations_tables(comparison: Comparison, width: int) -> Iterator[Table]:
    """Each metric over all runs, over the rows that all of them have; as many metrics beside each other as fit."""
    waiting = list(comparison.history)
    while waiting:
        shown = [waiting.pop(0)]
        while waiting and _room([*shown, waiting[0]]) <= width:
            shown.append(waiting.pop(0))
        yield _iterations(comparison, shown)


def _room(shown: Sequence[History]) -> int:
    return len("run 10") + _BETWEEN + sum(max(cell_len(each.name), len("▲ 100.0%")) + _BETWEEN for each in shown)


def _iterations(comparison: Comparison, shown: Sequence[History]) -> Table:
    table = grid("left", *["right"] * len(shown))
    table.add_row("", *(Text(clean(each.name, 60), "bold") for each in shown))
    table.add_row(Text("rows", "dim"), *(Text(f"{each.values[0].n:,}", "dim") for each in shown))
    for number in range(len(comparison.runs)):
        cells = [_iteration(comparison, each, number) for each in shown]
        table.add_row(Text(f"run {number + 1}", "dim"), *cells)
    table.add_row("", *(Text(line_of(each.values), "dim") for each in shown))
    table.caption, table.caption_justify = "▲ ▼ better, worse than run 1", "left"
    return table


def _iteration(comparison: Comparison, history: History, number: int) -> Text:
    verdict = comparison.against[number - 1].metric(history.name).verdict if number else None
    mark, style = {BETTER: ("▲ ", "green"), WORSE: ("▼ ", "red")}.get(verdict or TOO_LITTLE, ("", ""))
    return Text(mark + value_text(history.kind, history.values[number].value), style)


_MARKS = {1.0: "✓", 0.0: "✗"}
_OVER_RUNS: Mapping[RowHistory, str] = {
    "broken": "red",
    "back and forth": "yellow",
    "flaky": "yellow",
    "fixed": "green",
}


def rows_over_runs_table(found: RowsOverRuns, most: int) -> Table:
    """What became of rows over all runs, and the first rows of each outcome with their verdict in each run."""
    table = Table.grid()
    said = [f"{found.counts['right']:,} right in all", f"{found.counts['never right']:,} never"]
    said += [f"{found.counts[outcome]:,} {outcome}" for outcome in ("fixed", "broken")]
    said += [f"{count:,} {outcome}" for outcome in ("back and forth", "flaky") if (count := found.counts[outcome])]
    table.add_row(Text(f"{clean(found.metric, 60)}, row by row over {len(found.runs)} runs: {', '.join(said)}", "bold"))
    for outcome, style in _OVER_RUNS.items():
        rows = [row for row in found.rows if row.outcome == outcome][:most]
        if rows:
            table.add_row(Text.assemble((f"  {outcome} {found.counts[outcome]:,}", style), _since(outcome, found)))
            listed = grid("left", "left")
            for row in rows:
                marks = "".join(_MARKS.get(share, "~") for share in row.passed)
                listed.add_row(Padding(Text(clean(row.row_id, 60)), (0, 0, 0, 4)), Text(marks, "dim"))
            table.add_row(listed)
    return table


def _since(outcome: RowHistory, found: RowsOverRuns) -> str:
    if outcome != "broken":
        return ""
    return ": " + ", ".join(f"{count:,} since {clean(run, 60)}" for run, count in found.broken_since.items())
