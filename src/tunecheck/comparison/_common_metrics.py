"""The metrics that two runs have in common, and the choice of those to test."""

from collections.abc import Iterable, Iterator, Sequence

from tunecheck._errors import ConfigurationError
from tunecheck._messages import did_you_mean
from tunecheck.comparison._measuring import MetricRef
from tunecheck.pipeline._finished_rows import order_evaluators
from tunecheck.results import PASS_RATE, RunTable

MOST_SHOWN = 40
"""The most metrics shown without a test."""


def choose_metrics(base: RunTable, new: RunTable, named: Sequence[str] | None) -> tuple[list[MetricRef], list[str]]:
    """Return the metrics to compare, the tested ones first, and at most one note on metrics left out.

    By default each evaluator's main metric and the data's primary metric are tested. If metrics are named, only these
    are tested: an evaluator, `<evaluator>.<key>`, or a slice of either. An evaluator's name stands for its pass rate if
    it has one, else for its main number.

    Raises:
        ConfigurationError: the runs have no evaluator in common, or a named metric is not in both.
    """
    shared = [name for name in base.evaluators if name in new.evaluators]
    if not shared:
        raise ConfigurationError(
            f"{base.info.id} and {new.info.id} have no evaluator in common: {_evaluator_list(base)} in the first, "
            f"{_evaluator_list(new)} in the second; add an evaluator with `tunecheck score RUN --evaluators NAME`"
        )
    mains = {name: key for name in shared if (key := _main_key(name, base, new))}
    if not mains:
        problem = f"neither {base.info.id} nor {new.info.id} has a row with a score"
        raise ConfigurationError(f"{problem}: score the runs with `tunecheck score RUN`")
    tested = dict(_find_keys(_default_names(mains, base, new) if named is None else named, mains, base, new))
    chosen = [_choice(name, key, base, new, tested=True) for name, key in tested.items()]
    others = [key for key in _shared_keys(shared, base, new) if key not in tested.values()]
    for key in others[:MOST_SHOWN]:
        evaluator = (base.columns.get(key) or new.columns[key]).evaluator
        name = evaluator if mains.get(evaluator) == key else key
        chosen.append(_choice(name, key, base, new, tested=False))
    note = f"{len(others) - MOST_SHOWN:,} more metrics are not shown; name one with --metric"
    return chosen, [note] if len(others) > MOST_SHOWN else []


def _shared_keys(evaluators: Sequence[str], base: RunTable, new: RunTable) -> Iterator[str]:
    """Yield the keys of the columns that both runs have, without numbers that only repeat the verdicts."""
    for name in evaluators:
        for key in base.evaluators[name].columns:
            if key in new.evaluators[name].columns and not (base.columns[key].repeats and new.columns[key].repeats):
                yield key


def _default_names(mains: dict[str, str], base: RunTable, new: RunTable) -> list[str]:
    """Return the metrics that are tested if none is named: the evaluators, then the data's primary metric.

    The primary metric is left out unless both runs have it. Each name occurs once.
    """
    for primary in (base.opened.primary, new.opened.primary):
        if primary and (primary in mains or _shared_key(primary, base, new)):
            return [*dict.fromkeys([*mains, primary])]
    return [*mains]


def _evaluator_list(table: RunTable) -> str:
    """Return the names of a run's first five evaluators as text; `none` without evaluators."""
    names = list(table.evaluators)
    more = " …" if len(names) > 5 else ""
    return f"{', '.join(names[:5])}{more}" or "none"


def _choice(name: str, key: str, base: RunTable, new: RunTable, *, tested: bool) -> MetricRef:
    """Return a metric to compare, with the evaluator of its column."""
    column, _ = split_slice(key)
    return MetricRef(name, key, (base.columns.get(column) or new.columns[column]).evaluator, tested)


def split_slice(name: str) -> tuple[str, str | None]:
    """Split `match[domain=refund]` into the metric and the slice; None means all rows."""
    metric, bracket, where = name.partition("[")
    return (metric, where[:-1]) if bracket and where.endswith("]") else (name, None)


def _slice_suffix(where: str | None, base: RunTable, new: RunTable) -> str:
    """Return a slice as `[column=value]`; "" for None.

    A slice given as a value alone is of the only column that has this value.

    Raises:
        ConfigurationError: no column has this value, several have it, or there are no slices by this column.
    """
    if where is None:
        return ""
    known = {**new.slices, **base.slices, **new.groups, **base.groups}
    column, equals, _ = where.partition("=")
    if equals and column in known:
        return f"[{where}]"
    columns = [name for name, labels in known.items() if not equals and where in labels]
    if len(columns) == 1:
        return f"[{columns[0]}={where}]"
    if columns:
        choices = " or ".join(f"[{name}={where}]" for name in columns)
        raise ConfigurationError(f"[{where}] is a value of several columns: write {choices}")
    hint = did_you_mean(column, known) if equals else ""
    raise ConfigurationError(
        f"[{where}]: the runs have no such slice{hint}; `tunecheck score RUN --group-by COLUMN` adds slices"
    )


def _main_key(name: str, base: RunTable, new: RunTable) -> str:
    """Return the key of an evaluator's main metric, or "" if neither run has one.

    If the runs' main metrics differ, prefer a key that both runs have, then that of a run that declares its metrics,
    then that of the new run.
    """
    evaluators = sorted((table.evaluators[name] for table in (new, base)), key=lambda each: not each.declared)
    keys = [each.main for each in evaluators if each.main]
    shared = [key for key in keys if key in base.columns and key in new.columns]
    return next(iter(shared or keys), "")


def _find_keys(names: Sequence[str], mains: dict[str, str], base: RunTable, new: RunTable) -> Iterator[tuple[str, str]]:
    """Yield the name and the key of each metric that the user names; if that is a slice, both end with it.

    An evaluator's main metric gets the evaluator's name, other metrics their key.

    Raises:
        ConfigurationError: the runs have no such metric or slice in common.
    """
    evaluator_of = {key: evaluator for evaluator, key in reversed(mains.items())}
    for full_name in names:
        name, where = (full_name, None) if _shared_key(full_name, base, new) else split_slice(full_name)
        key, suffix = mains.get(name) or _shared_key(name, base, new), _slice_suffix(where, base, new)
        if key is None:
            known = [*mains, *(key for key in base.columns if key in new.columns)]
            ids = [table.info.id for table in (base, new) if name in table.columns or name in table.evaluators]
            only_in = f" in both runs, only in {ids[0]}" if len(ids) == 1 else ""
            raise ConfigurationError(f"there is no metric {name!r}{only_in}{did_you_mean(name, known)}")
        yield evaluator_of.get(key, key) + suffix, key + suffix


def _shared_key(name: str, base: RunTable, new: RunTable) -> str | None:
    """Return the key of a metric's column that both runs have; None without one.

    It is the metric's own column, else its evaluator's pass rate if that has the metric's verdicts.
    """
    for key in (name, name.removesuffix("_score")):
        if key in base.columns and key in new.columns:
            return key
    evaluator, _, metric = name.rpartition(".")
    pass_rate = f"{evaluator}.{PASS_RATE}"
    same_verdicts = (metric, metric.removesuffix("_passed"), metric.removesuffix("_score"))
    columns = [table.columns.get(pass_rate) for table in (base, new)]
    if all(column is not None and column.metric in same_verdicts for column in columns):
        return pass_rate
    return None


def primary_of(chosen: Iterable[MetricRef], base: RunTable, new: RunTable, named: Sequence[str] | None) -> MetricRef:
    """Return the metric that decides: the first that the user names, else the data's primary, else the default."""
    tested = [metric for metric in chosen if metric.tested]
    if named:
        return tested[0]
    default = default_primary([metric.name for metric in tested], base, new)
    names = (base.opened.primary or new.opened.primary, default)
    return next(metric for name in names for metric in tested if name in (metric.name, metric.key))


def default_primary(names: Sequence[str], *tables: RunTable) -> str:
    """Return `match` if it is among the names and the tables may have rows with calls; else the first name."""
    labels = [table.groups["row_kind"] for table in tables if "row_kind" in table.groups]
    kinds: set[str | None] | None = set().union(*labels) if labels else None  # None: unknown
    return order_evaluators(names, None, kinds)[0]
