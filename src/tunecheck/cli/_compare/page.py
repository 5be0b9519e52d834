"""What a person reads of a comparison: the answer first, then the table, then the rows behind it."""

from collections import Counter
from collections.abc import Iterator, Sequence

from rich.cells import cell_len
from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from tunecheck._messages import clean, counted
from tunecheck.cli._console import SIMULATED, grid, print_parts
from tunecheck.comparison._comparison import (
    BETTER,
    JUDGES_DIFFER,
    NO_DIFFERENCE,
    TOO_LITTLE,
    WORSE,
    Comparison,
    DataSetPair,
    MemoryPair,
    MetricComparison,
    RowChange,
    RunComparison,
)
from tunecheck.comparison._run_table import PASS_RATE
from tunecheck.comparison._wording import (
    NOTHING,
    difference_text,
    headline,
    interval_text,
    line_of,
    margin_text,
    p_text,
    row_text,
    size_text,
    value_text,
)
from tunecheck.runs._decision import stopped_text
from tunecheck.runs._failures import fault_groups

_BETWEEN, _INDENT = 2, 4
_LEAST_NEEDED = ("p", "finds ≥")
"""What a narrow screen has no room for: the answer goes by Holm's p-value."""

Line = tuple[str, list[str], str]
"""A label, its figures, and a style."""


def metrics_table(against: RunComparison, comparison: Comparison, width: int) -> Text:
    """The table in so many characters: where they are too few, labels have lines of their own."""

    heads = ["pairs", "base", "new", f"difference ({100 * comparison.confidence:.3g}%)", "p", "Holm", "finds ≥"]
    margin = comparison.margin
    heads += [f"worse by < {margin:g}"] if margin is not None else []
    lines: list[Line] = [("", heads, "bold")]
    lines += [
        (_label(each), [*_cells(each, margin=margin is not None)], "" if each.tested else "dim")
        for each in _in_order(against)
    ]
    labels = max(cell_len(label) for label, _, _ in lines)
    stacked = labels + _width(lines) > width
    for head in _LEAST_NEEDED if stacked else ():
        if _INDENT - _BETWEEN + _width(lines) > width:
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
    interval = interval_text(kind, metric.difference)
    yield difference_text(kind, metric.difference.value, unit=False) + f" ({interval})" * (interval != NOTHING)
    yield p_text(metric.p_value) if metric.tested else ""
    yield p_text(metric.p_adjusted) if metric.tested else ""
    smallest = metric.smallest_difference
    yield size_text(kind, smallest.value).removesuffix(" points") if smallest is not None else ""
    if margin:
        shown = {True: "shown", False: "NOT shown", None: "cannot be said"}
        yield shown[metric.non_inferior] if metric.non_inferiority is not None else ""


_MOST_NAMED, _MOST_CHANGED, _MOST_CAUSES = 5, 6, 12
_FEW, _MOST_FAULTS = 3, 3
_LONGEST_REASON = 120
_LISTS = (("regressed", "red"), ("fixed", "green"), ("changed", "dim"))


def show(comparison: Comparison, console: Console, rows: int) -> None:
    print_parts(console, _parts(comparison, rows, console.width))


def _parts(comparison: Comparison, rows: int, width: int) -> Iterator[RenderableType]:
    last = comparison.against[-1]
    memory = last.memory
    yield _header(comparison)
    if memory is not None:
        yield from (Text(warning, "bold yellow") for warning in memory.warnings)
    yield _answer(last)
    if len(comparison.against) > 1:
        yield _iterations(comparison)
    yield metrics_table(last, comparison, width)
    if memory is not None:
        yield _data_sets(memory)
    if last.causes:
        yield _causes(last)
    yield from _rows(last, rows)
    notes = list(notes_of(comparison))
    if notes:
        yield "\n".join(f"note: {clean(note)}" for note in notes)


def _causes(against: RunComparison) -> Table:
    """How many of the paired rows failed for which cause in each run, and in only one of them."""
    table = grid("left", "right", "right", "right", "right", "right", "left")
    heads = ("why rows failed", "base", "new", "change", "base only", "new only")
    table.add_row(*(Text(head, "bold") for head in heads), "")
    for each in against.causes[:_MOST_CAUSES]:
        style = "red" if each.new > each.base else "green" if each.new < each.base else "dim"
        counts = [f"{count:,}" for count in (each.only_base, each.only_new)]
        change = Text(f"{each.new - each.base:+,}", style)
        side = Text("serving" if each.side == "serving" else "", "dim")
        table.add_row(clean(each.title, 60), f"{each.base:,}", f"{each.new:,}", change, *counts, side)
    if len(against.causes) > _MOST_CAUSES:
        table.add_row(Text(f"and {len(against.causes) - _MOST_CAUSES} more: --out FILE writes all", "dim"))
    return table


def _data_sets(memory: MemoryPair) -> Table:
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


def _header(comparison: Comparison) -> Table:
    table = grid("left", "left", "left")
    many = len(comparison.against) > 1
    for number, run in enumerate(comparison.runs, 1):
        label = f"run {number}" if many else "base" if number == 1 else "new"
        trials = f", {run.trials} trials each" if run.trials > 1 else ""
        failed = f", {counted(run.errors, 'row')} with an error" if run.errors else ""
        about = counted(run.rows, "row") + trials + failed
        table.add_row(Text(label, "dim"), Text(clean(run.id, 100), "bold"), Text(about))
        if run.stopped is not None:
            table.add_row("", Text(clean(stopped_text(run.stopped), 200), "bold yellow"), "")
    if comparison.simulated:
        table.add_row("", Text(SIMULATED, "bold yellow"), "")
    return table


def _answer(against: RunComparison) -> Text:
    tested = against.tested
    text = Text()
    for metric in [each for each in tested if each.verdict in (WORSE, BETTER, JUDGES_DIFFER)]:
        _say(text, metric)
    for verdict in (NO_DIFFERENCE, TOO_LITTLE):
        alike = [each for each in tested if each.verdict == verdict]
        telling = [each for each in alike if len(alike) <= _FEW or (verdict == NO_DIFFERENCE and each.why)]
        for metric in telling:
            _say(text, metric)
        if len(alike) > len(telling):
            names = ", ".join(clean(each.name, 60) for each in alike if each not in telling)
            text.append(f"{verdict}: {names}\n")
    text.rstrip()
    return text


def _say(text: Text, metric: MetricComparison) -> None:
    style = {BETTER: "bold green", WORSE: "bold red"}.get(metric.verdict or TOO_LITTLE, "bold")
    text.append(clean(metric.name, 60), style)
    text.append(f": {headline(metric)}")
    margin = margin_text(metric)
    text.append(f"; {margin}\n" if margin else "\n")


def _iterations(comparison: Comparison) -> Table:
    """Each metric over all runs, over the rows that all of them have."""

    table = grid("left", "right", *["right"] * len(comparison.runs), "left")
    heads = ("", "rows", *(f"run {number}" for number in range(1, len(comparison.runs) + 1)), "")
    table.add_row(*(Text(head, "bold") for head in heads))
    for history in comparison.history:
        cells = [Text(value_text(history.kind, history.values[0].value))]
        for against, value in zip(comparison.against, history.values[1:], strict=True):
            verdict = against.metric(history.name).verdict or TOO_LITTLE
            mark, style = {BETTER: ("▲", "green"), WORSE: ("▼", "red")}.get(verdict, (" ", ""))
            cells.append(Text(f"{value_text(history.kind, value.value)} {mark}", style))
        line = line_of(history.values)
        table.add_row(Text(clean(history.name, 60)), f"{history.values[0].n:,}", *cells, Text(line, "dim"))
    return table


def _rows(against: RunComparison, most: int) -> Iterator[RenderableType]:
    shown = rows_shown(against)
    for metric in shown:
        yield _row_lists(metric, most)
    others = [each for each in against.tested if each not in shown and any(each.totals.values())]
    if others:
        yield f"the rows of {counted(len(others), 'more metric')}: --metric NAME shows them, --out FILE writes all"


def rows_shown(against: RunComparison) -> list[MetricComparison]:
    """Whose rows to show: the metrics that changed, then those with most flips; none whose rows were shown before."""

    def rank(metric: MetricComparison) -> tuple[bool, int]:
        flips = metric.totals.get("regressed", 0) + metric.totals.get("fixed", 0)
        return metric.verdict not in (BETTER, WORSE), -flips

    shown: list[MetricComparison] = []
    seen: set[tuple[str, bool]] = set()
    for metric in sorted(against.tested, key=rank):
        flips = {(each.row_id, True) for each in metric.regressed} | {(each.row_id, False) for each in metric.fixed}
        new = flips - seen or (not flips and not shown and metric.totals.get("changed"))
        if len(shown) < _FEW and new:
            shown.append(metric)
            seen |= flips
    return shown


def _row_lists(metric: MetricComparison, most: int) -> Table:
    """One below the other: the lists' ids have widths of their own."""

    table = Table.grid()
    counts = ", ".join(f"{metric.totals.get(name, 0):,} {name}" for name, _ in _LISTS)
    table.add_row(Text(f"{clean(metric.name, 60)}: {counts}", "bold"))
    change = changed_faults(metric)
    if change and most:
        table.add_row(Padding(Text(f"faults: {change}"), (0, 0, 0, 2)))
    for name, style in _LISTS:
        rows: Sequence[RowChange] = getattr(metric, name)
        if rows and most:
            table.add_row(_with_faults(name, rows, metric, style))
            table.add_row(_listed(rows[:most], metric))
    return table


def _with_faults(name: str, rows: Sequence[RowChange], metric: MetricComparison, style: str) -> Text:
    """The list's name, how many rows it has, and the faults that they have in common."""

    text = Text.assemble((f"  {name} {metric.totals.get(name, 0):,}", style))
    counts: Counter[str] = Counter()
    for row in rows:
        base, new = _groups(row)
        counts.update((base - new) if name == "fixed" else (new - base))
    common = [f"{count:,} {clean(title, 60)}" for title, count in counts.most_common(_MOST_FAULTS) if count > 1]
    if common:
        text.append(f": {', '.join(common)}", "dim")
    return text


def _groups(row: RowChange) -> tuple[set[str], set[str]]:
    """What the row's faults count as, in the base and in the new run."""
    base = set(fault_groups(row.base_faults, row.base_reason or "").values()) if row.base_faults else set()
    new = set(fault_groups(row.new_faults, row.new_reason or "").values()) if row.new_faults else set()
    return base, new


def changed_faults(metric: MetricComparison) -> str:
    """Which faults grew and which shrank over all rows listed: `+5 wrong argument: number as text, −2 missing call`."""
    change: Counter[str] = Counter()
    for name, _ in _LISTS:
        for row in getattr(metric, name):
            base, new = _groups(row)
            change.update(new)
            change.subtract(base)
    ordered = sorted((each for each in change.items() if each[1]), key=lambda each: -abs(each[1]))[:_MOST_CHANGED]
    return ", ".join(f"{'+' if count > 0 else '−'}{abs(count):,} {clean(title, 60)}" for title, count in ordered)


def _listed(rows: Sequence[RowChange], metric: MetricComparison) -> Table:
    table = grid("left", "left")
    for row in rows:
        said = clean(row_text(row, metric.kind), _LONGEST_REASON)
        table.add_row(Padding(Text(clean(row.row_id, 60)), (0, 0, 0, 4)), Text(said, "dim"))
    return table


def notes_of(comparison: Comparison) -> Iterator[str]:
    """What a reader must know of the rows that are in no figure, and of the runs themselves."""
    against, pairs = comparison.against[-1], comparison.pairs
    for names, where in ((pairs.only_in_base, "base"), (pairs.only_in_new, "new run")):
        if names:
            yield f"{counted(len(names), 'row')} only in the {where}, in no figure: {_named(names)}"
    if pairs.other_content:
        ids = counted(len(pairs.other_content), "id")
        yield f"{ids} in both runs with other content: {_named(pairs.other_content)}"
    if pairs.by_content:
        yield f"{counted(pairs.by_content, 'row')} paired by content: the runs call them otherwise"
    if pairs.by_id_alone and {comparison.base.source, comparison.new.source} != {"bfcl"}:
        yield "rows are paired by id alone: their contents cannot be compared"
    if pairs.clusters is not None:
        yield f"{counted(pairs.paired, 'pair')} in {counted(pairs.clusters, 'cluster')}"
    yield from _failures(against)
    yield from against.notes


def _failures(against: RunComparison) -> Iterator[str]:
    seen: set[str] = set()
    for metric in against.tested:
        sides = (metric.base_rows, metric.new_rows)
        if metric.evaluator not in seen and any(side.errors for side in sides):
            before, after = (f"{side.errors:,}" for side in sides)
            yield f"{metric.evaluator}: errors in {before} rows of the base, {after} of the new run"
        seen.add(metric.evaluator)
        lone = metric.one_sided
        if lone.base or lone.new:
            lost, gained = f"{lone.base:,} in the new run", f"{lone.new:,} in the base"
            yield f"{metric.name}: left out, for want of a figure: {lost}, {gained}"


def _named(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MOST_NAMED:,} more" if len(names) > _MOST_NAMED else ""
    return ", ".join(clean(name, 60) for name in names[:_MOST_NAMED]) + more
