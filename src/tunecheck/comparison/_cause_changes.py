"""Causes of failures in two runs, counted over the rows that both runs have."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from tunecheck._faults import cause_named, order_causes
from tunecheck.comparison._comparison import CauseChange
from tunecheck.comparison._families import correct_by_holm

if TYPE_CHECKING:
    from tunecheck.comparison._pairs import RunPair

_NOTHING: frozenset[str] = frozenset()


def cause_changes(runs: RunPair) -> tuple[CauseChange, ...]:
    """Return the causes of all paired rows, largest growth first; empty if a run records no causes.

    A row with several trials has the causes of all its trials.
    """
    from tunecheck.statistics._paired import mcnemar

    base, new = runs.base.causes, runs.new.causes
    if base is None or new is None:
        return ()
    gone, come, before, after = Counter[str](), Counter[str](), Counter[str](), Counter[str]()
    pairs = zip(runs.pairing.base, runs.pairing.new, strict=True)
    alike = Counter((base.get(old, _NOTHING), new.get(other, _NOTHING)) for old, other in pairs)
    for (had, has), count in alike.items():
        for counter, causes in ((before, had), (after, has), (gone, had - has), (come, has - had)):
            counter.update(dict.fromkeys(causes, count))
    codes = order_causes(before.keys() | after.keys())
    p_values = [mcnemar(gone[code], come[code])[1] for code in codes]
    adjusted = correct_by_holm(
        [(p_value, gone[code] + come[code] > 0) for code, p_value in zip(codes, p_values, strict=True)]
    )
    changes = []
    for code, p_value, p_adjusted in zip(codes, p_values, adjusted, strict=True):
        cause, counts = cause_named(code), (before[code], after[code], gone[code], come[code])
        changes.append(CauseChange(code, cause.title, cause.side or "model", *counts, p_value, p_adjusted or p_value))
    return tuple(sorted(changes, key=lambda change: change.base - change.new))
