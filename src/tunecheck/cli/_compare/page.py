"""What a person reads of a comparison: the answer first, then the table, then the rows behind it."""

from collections import Counter
from collections.abc import Iterator, Sequence

from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from tunecheck._messages import clean, counted
from tunecheck.cli._compare.tables import (
    causes_table,
    data_sets_table,
    iterations_tables,
    metrics_table,
    parts_tables,
    rows_over_runs_table,
)
from tunecheck.cli._console import SIMULATED, grid, print_parts
from tunecheck.comparison._comparison import (
    BETTER,
    JUDGES_DIFFER,
    NO_DIFFERENCE,
    TOO_LITTLE,
    WORSE,
    Comparison,
    MetricComparison,
    RowChange,
    RunComparison,
)
from tunecheck.comparison._wording import headline, margin_text, regression_text, row_text, shared_text, short_names
from tunecheck.pipeline._finished_rows import fault_groups
from tunecheck.runs._decision import stopped_text

_MOST_NAMED, _MOST_CHANGED = 5, 6
_FEW, _MOST_FAULTS = 3, 3
_LONGEST_REASON = 120
_LISTS = (("regressed", "red"), ("fixed", "green"), ("flaky", "yellow"), ("changed", "dim"))


def show(comparison: Comparison, console: Console, rows: int) -> None:
    print_parts(console, _parts(comparison, rows, console.width))


def _parts(comparison: Comparison, rows: int, width: int) -> Iterator[RenderableType]:
    last, best = comparison.against[-1], comparison.best
    memory = last.memory
    yield _header(comparison)
    yield from (Text(warning, "bold yellow") for warning in warnings_of(comparison))
    if best is not None:
        yield Text(clean(best.sentence, 2_000), "bold")
        if best.regressed_since is not None:
            yield Text(clean(regression_text(best), 2_000), "bold red")
    yield _answer(last, comparison)
    yield from iterations_tables(comparison, width) if best is not None else ()
    yield metrics_table(last, comparison, width)
    yield from parts_tables(last, comparison, width)
    if memory is not None:
        yield data_sets_table(memory)
    if best is not None and best.rows_over_runs is not None:
        yield rows_over_runs_table(best.rows_over_runs, rows)
    if last.causes:
        yield causes_table(last, comparison)
    yield from _rows(last, rows)
    notes = list(notes_of(comparison))
    if notes:
        yield "\n".join(f"note: {clean(note)}" for note in notes)


def warnings_of(comparison: Comparison) -> Iterator[str]:
    """What is to be known before any figure: rows that the runs do not share, and other tests of memory."""
    for against in comparison.against:
        shared = shared_text(against, comparison.base)
        if shared:
            yield clean(shared, 400)
        if against.memory is not None:
            start = f"{clean(against.new.id, 100)}: " if comparison.best is not None else ""
            yield from (start + warning for warning in against.memory.warnings)


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


def _answer(against: RunComparison, comparison: Comparison) -> Text:
    """The verdicts, the primary metric's first."""
    text = Text()
    if comparison.best is not None:
        names = short_names([run.id for run in comparison.runs])
        new, base = (clean(names[run.id], 100) for run in (against.new, comparison.base))
        text.append(f"{new} against {base}:\n", "dim")
    tested = sorted(against.tested, key=lambda each: not each.primary)
    for metric in [each for each in tested if each.primary or each.verdict in (WORSE, BETTER, JUDGES_DIFFER)]:
        _say(text, metric, better_before(comparison, metric))
    for verdict in (NO_DIFFERENCE, TOO_LITTLE):
        alike = [each for each in tested if each.verdict == verdict and not each.primary]
        telling = [each for each in alike if len(alike) <= _FEW or (verdict == NO_DIFFERENCE and each.why)]
        for metric in telling:
            _say(text, metric)
        if len(alike) > len(telling):
            rest = ", ".join(clean(each.name, 60) for each in alike if each not in telling)
            text.append(f"{verdict}: {rest}\n")
    text.rstrip()
    return text


def better_before(comparison: Comparison, metric: MetricComparison) -> str:
    """The run that the last one has fallen behind on this metric; empty where there is none."""
    best = comparison.best
    if best is None or best.regressed_since is None or best.metric != metric.name:
        return ""
    return short_names([run.id for run in comparison.runs])[best.regressed_since]


def _say(text: Text, metric: MetricComparison, behind: str = "") -> None:
    style = {BETTER: "bold green", WORSE: "bold red"}.get(metric.verdict or TOO_LITTLE, "bold")
    text.append(clean(metric.name, 60), "bold" if behind else style)
    said = [headline(metric), margin_text(metric), f"worse than {clean(behind, 100)}" * bool(behind)]
    text.append(f": {'; '.join(filter(None, said))}\n")


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
        flips = sum(metric.totals.get(name, 0) for name in ("regressed", "fixed", "flaky"))
        return metric.verdict not in (BETTER, WORSE), -flips

    shown: list[MetricComparison] = []
    seen: set[tuple[str, str]] = set()
    for metric in sorted(against.tested, key=rank):
        flips = {(each.row_id, name) for name in ("regressed", "fixed", "flaky") for each in getattr(metric, name)}
        new = flips - seen or (not flips and not shown and metric.totals.get("changed"))
        if len(shown) < _FEW and new:
            shown.append(metric)
            seen |= flips
    return shown


def _row_lists(metric: MetricComparison, most: int) -> Table:
    """One below the other: the lists' ids have widths of their own."""

    table = Table.grid()
    lists = [name for name, _ in _LISTS if name != "flaky" or metric.flaky]
    counts = ", ".join(f"{metric.totals.get(name, 0):,} {name}" for name in lists)
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
        left, right = (new, base) if name == "fixed" else (base, new)
        counts.update(title for title in right if title not in left)
    common = [f"{count:,} {clean(title, 60)}" for title, count in counts.most_common(_MOST_FAULTS) if count > 1]
    if common:
        text.append(f": {', '.join(common)}", "dim")
    return text


def _groups(row: RowChange) -> tuple[list[str], list[str]]:
    """What the row's faults count as, in the base and in the new run, each once and in their order."""
    sides = (row.base_faults, row.base_reason), (row.new_faults, row.new_reason)
    base, new = (list(dict.fromkeys(fault_groups(faults, reason or "").values())) for faults, reason in sides)
    return base, new


def changed_faults(metric: MetricComparison) -> str:
    """Which faults grew and which shrank over all rows listed: `+5 wrong argument: number as text, −2 missing call`."""
    change: Counter[str] = Counter()
    for name, _ in _LISTS:
        for row in getattr(metric, name):
            base, new = _groups(row)
            change.update(new)
            change.subtract(base)
    ordered = sorted((each for each in change.items() if each[1]), key=lambda each: -abs(each[1]))
    left_out = len(ordered) - _MOST_CHANGED
    more = f" and {counted(left_out, 'more kind')}" if left_out > 0 else ""
    shown = (
        f"{'+' if count > 0 else '−'}{abs(count):,} {clean(title, 60)}" for title, count in ordered[:_MOST_CHANGED]
    )
    return ", ".join(shown) + more


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
