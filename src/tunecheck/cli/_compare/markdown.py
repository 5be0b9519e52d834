"""A comparison as Markdown for a pull request; whatever comes from data stands in code spans, where nothing acts."""

import re
from collections.abc import Iterator, Sequence

from tunecheck._messages import clean
from tunecheck.cli._compare.page import better_before, changed_faults, notes_of, rows_shown, warnings_of
from tunecheck.cli._compare.tables import data_set_cells
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
    Selection,
)
from tunecheck.comparison._wording import (
    difference_text,
    headline,
    interval_text,
    margin_text,
    p_text,
    regression_text,
    row_text,
    shown_difference,
    size_text,
    value_text,
)

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
    warnings = [f"- ⚠️ {code(warning, 400)}" for warning in warnings_of(comparison)]
    if warnings:
        yield "\n".join(warnings)
    if comparison.best is not None:
        yield "\n".join(_best(comparison.best))
    yield "\n".join(_answer(last, comparison))
    if len(comparison.against) > 1:
        yield "\n".join(_iterations(comparison))
    yield "\n".join(_table(last, comparison))
    if last.parts or last.figures:
        yield "\n".join(_where(last))
    if last.memory is not None:
        yield "\n".join(_data_sets(last.memory))
    if last.causes:
        yield "\n".join(_causes(last))
    if rows:
        yield from _rows(last, rows)
    notes = [f"- {code(note, 400)}" for note in notes_of(comparison)]
    if notes:
        yield "\n".join(notes)


def _best(best: Selection) -> Iterator[str]:
    """Which run to ship, and what the last one lost."""
    yield _plain(best.sentence, 2_000)
    if best.regressed_since is not None:
        yield f"\n❌ {_plain(regression_text(best))}"


def _plain(text: str, most: int = 400) -> str:
    """Our own words and figures; names in them may hold anything."""
    return re.sub(r"([\\`*_{}\[\]<>#|@&~])", r"\\\1", clean(text, most))


def _answer(against: RunComparison, comparison: Comparison) -> Iterator[str]:
    for metric in against.tested:
        behind = better_before(comparison, metric)
        said = [headline(metric), margin_text(metric), f"worse than {behind}" * bool(behind)]
        mark = "▫️" if behind else _MARKS.get(metric.verdict or TOO_LITTLE, "▫️")
        yield f"- {mark} {code(metric.name)}: {_plain('; '.join(filter(None, said)))}"


def _where(against: RunComparison) -> Iterator[str]:
    kind = against.metrics[against.part_metric].kind
    yield f"| where: {code(against.part_metric)} | pairs | base | new | difference | p (Holm) |"
    yield "|---|--:|--:|--:|--:|--:|"
    for part in (*against.parts, *against.figures):
        mark = _MARKS.get(part.verdict or TOO_LITTLE, "")
        values = " | ".join(value_text(kind, side.value) for side in (part.base, part.new))
        difference = shown_difference(kind, part.difference, unit=False)
        p_values = f"{p_text(part.p_value)} ({p_text(part.p_adjusted)})".replace("<", "&lt;")
        label = f"{code(part.column, 60)}: {code(part.value, 60)} {mark}".rstrip()
        yield f"| {label} | {part.difference.n:,} | {values} | {difference} | {p_values} |"


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
    yield "| why rows failed | to change | base | new | base only | new only | Holm |"
    yield "|---|---|--:|--:|--:|--:|--:|"
    for each in against.causes:
        counts = (each.base, each.new, each.only_base, each.only_new)
        cells = [*(f"{count:,}" for count in counts), p_text(each.p_adjusted).replace("<", "&lt;")]
        yield f"| {code(each.title)} | {each.side} | {' | '.join(cells)} |"


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
        lists = (("regressed", metric.regressed), ("fixed", metric.fixed), ("flaky", metric.flaky))
        for name, changes in lists:
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
