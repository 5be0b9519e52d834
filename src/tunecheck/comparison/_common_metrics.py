"""The metrics that two runs have in common, and the choice of those to test."""

from collections.abc import Iterable, Iterator, Sequence

from tunecheck._errors import ConfigurationError
from tunecheck._messages import did_you_mean
from tunecheck.comparison._measuring import Chosen
from tunecheck.results import PASS_RATE, RunTable
from tunecheck.results._first_screen import order_evaluators

MOST_SHOWN = 40
"""The most metrics shown without a test."""


def choose_metrics(base: RunTable, new: RunTable, named: Sequence[str] | None) -> tuple[list[Chosen], list[str]]:
    """Return the metrics to compare, and notes on metrics left out.

    By default each evaluator's main metric and the data's primary metric are tested. If metrics are named, only these
    are tested: an evaluator, `<evaluator>.<key>`, or a slice of either. An evaluator's name stands for its pass rate if
    it has one, else for its main number.

    Raises:
        ConfigurationError: the runs have no evaluator in common, or a named metric is not in both.
    """
    shared = [name for name in base.evaluators if name in new.evaluators]
    if not shared:
        raise ConfigurationError(
            f"{base.info.id} and {new.info.id} have no evaluator in common: {_name_list(base)} in the first, "
            f"{_name_list(new)} in the second; add them with `tunecheck score RUN --evaluators NAME`"
        )
    mains = {name: main for name in shared if (main := _main(name, base, new)) is not None}
    if not mains:
        raise ConfigurationError(
            f"neither {base.info.id} nor {new.info.id} has a row with a score: score them with `tunecheck score RUN`"
        )
    tested = dict(_find_named(_declared_first(mains, base, new) if named is None else named, mains, base, new))
    chosen = [_choose(name, key, base, new, tested=True) for name, key in tested.items()]
    others = [
        key
        for name in shared
        for key in base.evaluators[name].columns
        if key in new.evaluators[name].columns
        and not (base.columns[key].repeats and new.columns[key].repeats)  # numbers that only repeat the verdicts
        and key not in tested.values()
    ]
    for key in others[:MOST_SHOWN]:
        evaluator = (base.columns.get(key) or new.columns[key]).evaluator
        name = evaluator if mains.get(evaluator) == key else key
        chosen.append(_choose(name, key, base, new, tested=False))
    more = [f"{len(others) - MOST_SHOWN:,} more metrics are not shown; name one with --metric"]
    return chosen, more if len(others) > MOST_SHOWN else []


def _declared_first(mains: dict[str, str], base: RunTable, new: RunTable) -> list[str]:
    """Return the evaluators, then the data's primary metric if both runs have it; each name once."""
    for primary in (base.opened.primary, new.opened.primary):
        if primary and (primary in mains or _key(primary, base, new)):
            return [*dict.fromkeys([*mains, primary])]
    return [*mains]


def _name_list(table: RunTable) -> str:
    """Return the first five evaluators of a run as text."""
    names = list(table.evaluators)
    return ", ".join(names[:5]) + (" …" if len(names) > 5 else "") if names else "none"


def _choose(name: str, key: str, base: RunTable, new: RunTable, *, tested: bool) -> Chosen:
    """Return a metric to compare, with the evaluator that its column belongs to."""
    column, _ = split_slice(key)
    return Chosen(name, key, (base.columns.get(column) or new.columns[column]).evaluator, tested)


def split_slice(name: str) -> tuple[str, str | None]:
    """Split `match[domain=refund]` into the metric and the slice; None means all rows."""
    metric, bracket, where = name.partition("[")
    return (metric, where[:-1]) if bracket and where.endswith("]") else (name, None)


def _slice(where: str | None, base: RunTable, new: RunTable) -> str:
    """Return a slice as `[column=value]`; for a value alone, the only column with this value is found.

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
        raise ConfigurationError(f"ambiguous [{where}]: write {' or '.join(f'[{name}={where}]' for name in columns)}")
    hint = did_you_mean(column, known) if equals else ""
    raise ConfigurationError(f"[{where}]: no column gives this slice{hint}; --group-by adds slices by a column")


def _main(name: str, base: RunTable, new: RunTable) -> str | None:
    """Return an evaluator's main metric, or None; prefer a metric that both runs have and that a run declares."""
    sides = [table.evaluators[name] for table in (new, base)]
    mains = [each.main for each in (*(side for side in sides if side.declared), *sides) if each.main is not None]
    return next((main for main in mains if main in base.columns and main in new.columns), next(iter(mains), None))


def _find_named(
    names: Sequence[str], mains: dict[str, str], base: RunTable, new: RunTable
) -> Iterator[tuple[str, str]]:
    """Yield the name and the column of each metric that the user names; a slice stays in both.

    Raises:
        ConfigurationError: the runs have no such metric or slice in common.
    """
    for given in names:
        name, where = (given, None) if _key(given, base, new) else split_slice(given)
        key, part = mains.get(name) or _key(name, base, new), _slice(where, base, new)
        if key is None:
            known = [*mains, *(key for key in base.columns if key in new.columns)]
            having = [table.info.id for table in (base, new) if name in table.columns or name in table.evaluators]
            only = f" in both runs, only in {having[0]}" if len(having) == 1 else ""
            raise ConfigurationError(f"there is no metric {name!r}{only}{did_you_mean(name, known)}")
        yield next((own for own, main in mains.items() if main == key), key) + part, key + part


def _key(name: str, base: RunTable, new: RunTable) -> str | None:
    """Return the column of a metric that both runs have: its own, or a pass rate with the same verdicts; else None."""
    for alike in (name, name.removesuffix("_score")):
        if alike in base.columns and alike in new.columns:
            return alike
    evaluator, _, key = name.rpartition(".")
    verdicts = f"{evaluator}.{PASS_RATE}"
    for table in (base, new):
        column = table.columns.get(verdicts)
        if column is None or column.metric not in (key, key.removesuffix("_passed"), key.removesuffix("_score")):
            return None
    return verdicts


def primary_of(chosen: Iterable[Chosen], base: RunTable, new: RunTable, named: Sequence[str] | None) -> Chosen:
    """Return the metric that decides: the first that the user names, else the data's primary, else the default."""
    tested = [each for each in chosen if each.tested]
    declared = base.opened.primary or new.opened.primary
    if named:
        return tested[0]
    default = default_primary([each.name for each in tested], base, new)
    found = [each for name in (declared, default) for each in tested if name in (each.name, each.key)]
    return found[0]


def default_primary(names: Sequence[str], *tables: RunTable) -> str:
    """Return `match` if it is among the names and rows have calls, or their kinds are unknown; else the first name."""
    known = [table.groups["row_kind"] for table in tables if "row_kind" in table.groups]
    kinds: set[str | None] | None = set().union(*known) if known else None
    return order_evaluators(names, None, kinds)[0]
