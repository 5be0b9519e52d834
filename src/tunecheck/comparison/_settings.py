"""Checks of a comparison's settings and of the runs to compare."""

import math
from collections.abc import Sequence
from pathlib import Path

from tunecheck._errors import ConfigurationError
from tunecheck._messages import did_you_mean
from tunecheck.comparison._measuring import ComparisonSettings
from tunecheck.comparison._pairing import PAIR_BY
from tunecheck.results import RunLike, RunTable, read_runs


def open_runs(runs: Sequence[RunLike], results_dir: Path, settings: ComparisonSettings) -> list[RunTable]:
    """Check the settings and return the tables of the runs; raises the errors of `compare`."""
    _check(settings)
    tables = read_runs(runs, results_dir, cluster=settings.cluster)
    if not settings.allow_simulated:
        _refuse_simulated(tables)
    return tables


def _check(settings: ComparisonSettings) -> None:
    if not 0.5 <= settings.confidence < 1:
        raise ConfigurationError(f"confidence must be between 0.5 and 1, not {settings.confidence!r}")
    if settings.margin is not None and not 0 <= settings.margin < math.inf:
        raise ConfigurationError(f"margin must be 0 or more, not {settings.margin!r}")
    if settings.rows is not None and settings.rows < 0:
        raise ConfigurationError(f"rows must be 0 or more, not {settings.rows!r}")
    for name, accepted in settings.guards.items():
        if not 0 <= accepted < math.inf:
            raise ConfigurationError(f"guard {name!r}: the margin must be 0 or more, not {accepted!r}")
    how = settings.pair_by
    if how not in PAIR_BY:
        raise ConfigurationError(f"pair_by must be {' or '.join(PAIR_BY)}, not {how!r}{did_you_mean(how, PAIR_BY)}")


def _refuse_simulated(tables: Sequence[RunTable]) -> None:
    simulated = list(dict.fromkeys(table.info.id for table in tables if table.info.simulated))
    if simulated:
        named = ", ".join(simulated[:2]) + (f" and {len(simulated) - 2} more" if len(simulated) > 2 else "")
        which = f"{named} {'is' if len(simulated) == 1 else 'are'} simulated: no model was asked"
        raise ConfigurationError(
            f"{which}, so a comparison says nothing about a model; pass --allow-simulated to compare anyway"
        )
