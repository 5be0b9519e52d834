"""Comparisons and selections as a notebook shows them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tunecheck._messages import counted
from tunecheck._notebook import Figure, shown
from tunecheck.comparison._wording import difference_text, headline, interval_text, p_text, value_text

if TYPE_CHECKING:
    from tunecheck.comparison._comparison import Comparison, Selection

_SIMULATED = "SIMULATED answers: no model was asked"


def comparison_html(comparison: Comparison) -> str:
    """The last run against the base, as `metrics` has it."""
    tested = comparison.against[-1].tested
    heads = ("metric", "pairs", "base", "new", "difference", f"{comparison.confidence:.0%} interval", "p (Holm)", "")
    rows = [
        (
            each.name,
            f"{each.difference.n:,}",
            value_text(each.kind, each.base.value),
            value_text(each.kind, each.new.value),
            difference_text(each.kind, each.difference.value),
            interval_text(each.kind, each.difference),
            p_text(each.p_adjusted),
            each.verdict or "",
        )
        for each in tested
    ]
    said = [f"{comparison.new.id} against {comparison.base.id}, {counted(comparison.pairs.paired, 'pair')}"]
    said += [_SIMULATED] if comparison.simulated else []
    said += [f"{each.name}: {headline(each)}" for each in tested]
    figures = [Figure(each.name, each.difference.value, each.difference.low, each.difference.high) for each in tested]
    return shown(said, figures, heads, rows)


def selection_html(selection: Selection) -> str:
    """The ranking, the best run first; the chart is of how far each is from the best of the others."""
    kind = selection.kind
    heads = ("run", selection.metric, "from the best", f"{selection.confidence:.0%} interval", "", "guards")
    rows = [
        (
            each.run,
            value_text(kind, each.value.value),
            difference_text(kind, each.difference.value),
            interval_text(kind, each.difference),
            "may be the best" if each.may_be_best else "",
            ", ".join(f"{guard.metric} {guard.outcome}" for guard in each.guards),
        )
        for each in selection.ranking
    ]
    figures = [
        Figure(each.run, each.difference.value, each.difference.low, each.difference.high) for each in selection.ranking
    ]
    said = [
        selection.sentence,
        *([_SIMULATED] if selection.simulated else []),
        *(f"note: {note}" for note in selection.notes),
    ]
    return shown(said, figures, heads, rows)
