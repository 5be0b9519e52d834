"""Which metrics two runs have in common, and which of them are tested."""

from collections.abc import Iterator, Sequence

from tunecheck._errors import ConfigurationError
from tunecheck._messages import did_you_mean
from tunecheck.comparison._measuring import Chosen
from tunecheck.results import PASS_RATE, RunTable

MOST_SHOWN = 40
"""Most metrics that are shown without a test."""


def choose_metrics(base: RunTable, new: RunTable, named: Sequence[str] | None) -> tuple[list[Chosen], list[str]]:
    """The metrics to compare, and remarks on those that are not.

    Tested is each evaluator's main metric and the one that the data declares as its primary; or those that are named:
    an evaluator, `<evaluator>.<key>`, or a slice of either. An evaluator's name means its pass rate if it has
    one, else its main number.

    Raises:
        ConfigurationError: the runs have no evaluator in common, or not the named one.
    """
    shared = [name for name in base.evaluators if name in new.evaluators]
    if not shared:
        raise ConfigurationError(
            f"{base.info.id} and {new.info.id} have no evaluator in common: {_name_list(base)} in the first, "
            f"{_name_list(new)} in the second"
        )
    mains = {name: main for name in shared if (main := _main(name, base, new)) is not None}
    if not mains:
        raise ConfigurationError(f"no row of {base.info.id} or {new.info.id} has a number: there is nothing to compare")
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
    """The evaluators, and what the data declares as primary, where both runs have it."""
    primary = [name for name in (base.primary, new.primary) if name and (name in mains or _key(name, base, new))]
    return [*dict.fromkeys([*mains, *primary[:1]])]


def _name_list(table: RunTable) -> str:
    names = list(table.evaluators)
    return ", ".join(names[:5]) + (" …" if len(names) > 5 else "") if names else "none"


def _choose(name: str, key: str, base: RunTable, new: RunTable, *, tested: bool) -> Chosen:
    column, _ = split_slice(key)
    return Chosen(name, key, (base.columns.get(column) or new.columns[column]).evaluator, tested)


def split_slice(name: str) -> tuple[str, str | None]:
    """Split `match[domain=refund]` into the metric and the slice; None means all rows."""
    metric, bracket, where = name.partition("[")
    return (metric, where[:-1]) if bracket and where.endswith("]") else (name, None)


def _slice(where: str | None, base: RunTable, new: RunTable) -> str:
    """Return a slice as `[column=value]`; a value alone stands for the one column of both runs that has it.

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
        raise ConfigurationError(f"[{where}]: write {' or '.join(f'[{name}={where}]' for name in columns)}")
    hint = did_you_mean(column, known) if equals else ""
    raise ConfigurationError(f"[{where}]: no column gives this slice{hint}; --group-by adds slices by a column")


def _main(name: str, base: RunTable, new: RunTable) -> str | None:
    """The evaluator's main metric: one that both runs have, as the run says that declares what it means."""
    sides = [table.evaluators[name] for table in (new, base)]
    mains = [each.main for each in (*(side for side in sides if side.declared), *sides) if each.main is not None]
    return next((main for main in mains if main in base.columns and main in new.columns), next(iter(mains), None))


def _find_named(
    names: Sequence[str], mains: dict[str, str], base: RunTable, new: RunTable
) -> Iterator[tuple[str, str]]:
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
    """Return a metric's column: the one with its key, or an equivalent pass rate."""
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


def evaluator_notes(base: RunTable, new: RunTable) -> list[str]:
    """Name the evaluators of one run only."""
    return [
        f"evaluator {name!r} is only in {table.info.id}"
        for table, other in ((base, new), (new, base))
        for name in table.evaluators
        if name not in other.evaluators
    ]
