"""A comparison as Markdown for a pull request; whatever comes from data stands in code spans, where nothing acts."""

import re
from collections.abc import Iterator, Sequence

from tunecheck._messages import clean
from tunecheck.cli._compare.page import changed_faults, data_set_cells, notes_of, rows_shown
from tunecheck.cli._console import SIMULATED
from tunecheck.comparison._comparison import (
    BETTER,
    TOO_LITTLE,
    WORSE,
    Comparison,
    MemoryPair,
    MetricComparison,
    RowChange,
    RunComparison,
)
from tunecheck.comparison._wording import (
    difference_text,
    headline,
    interval_text,
    margin_text,
    p_text,
    row_text,
    size_text,
    value_text,
)
from tunecheck.runs._decision import stopped_text

_MARKS = {BETTER: "✅", WORSE: "❌"}
_TICKS = re.compile(r"`+")


def code(value: object, most: int = 200) -> str:
    """Anything as a code span on one line, also in a table: no mark-up, link or mention in it has an effect."""
    text = clean(value, most)
    longest = max((len(ticks) for ticks in _TICKS.findall(text)), default=0)
    fence = "`" * (longest + 1)
    padding = " " if longest or not text else ""
    return f"{fence}{padding}{text}{padding}{fence}".replace("|", "\\|")


def comparison_markdown(comparison: Comparison, rows: int = 10) -> str:
    return "\n\n".join(_parts(comparison, rows)) + "\n"


def _parts(comparison: Comparison, rows: int) -> Iterator[str]:
    last = comparison.against[-1]
    yield f"### {code(comparison.new.id)} against {code(comparison.base.id)}"
    if comparison.simulated:
        yield f"⚠️ **{SIMULATED}**"
    stopped = [f"- ⚠️ {code(f'{run.id}: {stopped_text(run.stopped)}', 400)}" for run in comparison.runs if run.stopped]
    if stopped:
        yield "\n".join(stopped)
    if last.memory is not None and last.memory.warnings:
        yield "\n".join(f"- ⚠️ {code(warning, 400)}" for warning in last.memory.warnings)
    yield "\n".join(_answer(last))
    if len(comparison.against) > 1:
        yield "\n".join(_iterations(comparison))
    yield "\n".join(_table(last, comparison))
    if last.memory is not None:
        yield "\n".join(_data_sets(last.memory))
    if last.causes:
        yield "\n".join(_causes(last))
    if rows:
        yield from _rows(last, rows)
    notes = [f"- {code(note, 400)}" for note in notes_of(comparison)]
    if notes:
        yield "\n".join(notes)


def _answer(against: RunComparison) -> Iterator[str]:
    for metric in against.tested:
        margin = margin_text(metric)
        said = headline(metric) + (f"; {margin}" if margin else "")
        # Our own words and figures, but the reason why a metric has none may hold anything.
        plain = re.sub(r"([\\`*_{}\[\]<>#|@&~])", r"\\\1", clean(said, 400))
        yield f"- {_MARKS.get(metric.verdict or TOO_LITTLE, '▫️')} {code(metric.name)}: {plain}"


def _table(against: RunComparison, comparison: Comparison) -> Iterator[str]:
    level = f"{100 * comparison.confidence:.3g}%"
    yield f"| metric | pairs | base | new | difference | {level} interval | p (Holm) | could show |"
    yield "|---|--:|--:|--:|--:|--:|--:|--:|"
    for metric in against.metrics.values():
        yield f"| {' | '.join(_cells(metric))} |"


def _data_sets(memory: MemoryPair) -> Iterator[str]:
    yield "| data set | base | tokens | new | tokens |"
    yield "|---|--:|--:|--:|--:|"
    for each in memory.data_sets:
        yield f"| {code(each.title)} | {' | '.join(data_set_cells(each))} |"


def _causes(against: RunComparison) -> Iterator[str]:
    yield "| why rows failed | to change | base | new | base only | new only |"
    yield "|---|---|--:|--:|--:|--:|"
    for each in against.causes:
        counts = (each.base, each.new, each.only_base, each.only_new)
        yield f"| {code(each.title)} | {each.side} | {' | '.join(f'{count:,}' for count in counts)} |"


def _cells(metric: MetricComparison) -> Iterator[str]:
    kind, smallest = metric.kind, metric.smallest_difference
    yield code(metric.name)
    yield f"{metric.difference.n:,}"
    yield value_text(kind, metric.base.value)
    yield value_text(kind, metric.new.value)
    yield difference_text(kind, metric.difference.value)
    yield interval_text(kind, metric.difference)
    p_values = f"{p_text(metric.p_value)} ({p_text(metric.p_adjusted)})" if metric.tested else ""
    yield p_values.replace("<", "&lt;")
    yield size_text(kind, smallest.value) if smallest is not None else ""


def _iterations(comparison: Comparison) -> Iterator[str]:
    runs = [code(run.id) for run in comparison.runs]
    yield f"| metric | rows | {' | '.join(runs)} |"
    yield f"|---|--:|{'--:|' * len(runs)}"
    for history in comparison.history:
        values = [value_text(history.kind, value.value) for value in history.values]
        yield f"| {code(history.name)} | {history.values[0].n:,} | {' | '.join(values)} |"


def _rows(against: RunComparison, most: int) -> Iterator[str]:
    for metric in rows_shown(against):
        change = changed_faults(metric)
        if change:
            yield f"faults by {code(metric.name)}: {code(change, 400)}"
        for name, changes in (("regressed", metric.regressed), ("fixed", metric.fixed)):
            if changes:
                yield "\n".join(_details(metric, name, changes, most))


def _details(metric: MetricComparison, name: str, rows: Sequence[RowChange], most: int) -> Iterator[str]:
    total = metric.totals.get(name, len(rows))
    yield f"<details><summary>{total:,} {name}</summary>\n"
    yield f"by {code(metric.name)}:\n"
    for row in rows[:most]:
        said = row_text(row, metric.kind)
        yield f"- {code(row.row_id, 60)}" + (f": {code(said)}" if said else "")
    if total > min(most, len(rows)):
        yield f"- and {total - min(most, len(rows)):,} more"
    yield "\n</details>"
