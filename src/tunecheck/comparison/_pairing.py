"""Pair the rows of two runs by id and content."""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from tunecheck._errors import ConfigurationError
from tunecheck._json import JSON
from tunecheck.results import RunTable

PAIR_BY = ("content", "id")
"""`content` pairs rows with equal id and content, then rows with equal content; `id` pairs rows with equal ids."""


class NothingPairsError(ConfigurationError):
    """No row of one run is in the other. `remedy` is an option of `compare` that helps, or empty."""

    def __init__(self, why: str, remedy: str = "") -> None:
        super().__init__(f"{why}; {remedy}" if remedy else why)
        self.why = why
        self.remedy = remedy


@dataclass(frozen=True, slots=True)
class Pairing:
    """The pairs of two runs: `base` and `new` have the two items of each pair, in the order of the base.

    `only_base` and `only_new` are items without a partner. `by_content` counts pairs with different ids. `by_id_alone`
    is True if contents could not be compared. `changed` has the ids that both runs have with different content.
    """

    base: array[int]
    new: array[int]
    only_base: Sequence[int]
    only_new: Sequence[int]
    changed: Sequence[str]
    by_content: int = 0
    by_id_alone: bool = False


def pair(base: RunTable, new: RunTable, pair_by: str = "content") -> Pairing:
    """Pair two runs' rows: by id and content, then by content; or with `pair_by` "id" by id alone.

    Raises:
        NothingPairsError: no item of one run is in the other.
    """
    contents = _contents_known(base) and _contents_known(new) and pair_by == "content"
    alone = pair_by == "content" and not contents
    ids = base.items.ids
    if ids and ids == new.items.ids and (not contents or base.items.contents == new.items.contents):
        same = array("q", range(len(ids)))
        return Pairing(same, same, [], [], [], by_id_alone=alone)
    partners = dict(_matches(_keys(base, contents), _keys(new, contents)))
    if contents and not partners and base.info.source != new.info.source and base.named and new.named:
        # Azure AI Evaluation rewrites values (dates, numbers in columns with empty cells): contents cannot be compared.
        partners = dict(_matches(_keys(base, contents=False), _keys(new, contents=False)))
        alone = bool(partners)
    by_content = 0
    if contents:
        rest = list(_matches(_rest(base.items.contents, partners), _rest(new.items.contents, partners.values())))
        partners.update(rest)
        by_content = len(rest)
    if not partners:
        raise _nothing(base, new, contents)
    taken = set(partners.values())
    only_base = [item for item in range(len(base.items.ids)) if item not in partners]
    only_new = [item for item in range(len(new.items.ids)) if item not in taken]
    elsewhere = {new.items.ids[item] for item in only_new}
    changed = [base.items.ids[item] for item in only_base if base.items.ids[item] in elsewhere]
    order = array("q", sorted(partners))
    return Pairing(order, array("q", map(partners.__getitem__, order)), only_base, only_new, changed, by_content, alone)


def _contents_known(table: RunTable) -> bool:
    """Return whether every item has a hash of its content."""
    return all(table.items.contents)


Keyed = Iterable[tuple[int, object]]


def _keys(table: RunTable, contents: bool) -> Keyed:
    """Return each item's number with its key: its id, or its id and content."""
    ids = table.items.ids
    return enumerate(zip(ids, table.items.contents, strict=True) if contents else ids)


def _rest(contents: Sequence[str], partners: Iterable[int]) -> Keyed:
    """Return the items that have no partner yet, with their contents as keys."""
    taken = set(partners)
    return [(item, content) for item, content in enumerate(contents) if item not in taken]


def _matches(base: Keyed, new: Keyed) -> Iterator[tuple[int, int]]:
    """Yield the items of base and new with equal keys; items that share a key are paired in order."""
    places: dict[tuple[object, int], int] = {}
    seen: defaultdict[object, int] = defaultdict(int)
    for item, key in new:
        places[key, seen[key]] = item
        seen[key] += 1
    seen = defaultdict(int)
    for item, key in base:
        place = places.get((key, seen[key]))
        seen[key] += 1
        if place is not None:
            yield item, place


def _nothing(base: RunTable, new: RunTable, contents: bool) -> NothingPairsError:
    """Return the error that explains why no rows pair; `contents` tells whether contents were compared."""
    for table in (base, new):
        if not table.items.ids:
            return NothingPairsError(f"{table.info.id} has no rows: there is nothing to compare")
    shared = set(base.items.ids) & set(new.items.ids)
    start = f"no row of {base.info.id} is in {new.info.id}"
    if shared and contents:
        example = next(name for name in base.items.ids if name in shared)
        differing = _differing(base, new, example)
        differs = f"{', '.join(map(repr, differing[:3]))} {'differ' if len(differing) > 1 else 'differs'}"
        what = f"in {example!r} {differs}" if differing else f"such as {example!r}"
        remedy = "--pair-by id compares them all the same" if base.named and new.named else ""
        ids = "1 id is" if len(shared) == 1 else f"{len(shared):,} ids are"
        return NothingPairsError(f"{start}: {ids} in both, with other content ({what})", remedy)
    first = base.items.ids[0][:100], new.items.ids[0][:100]
    return NothingPairsError(f"{start}: their ids differ, such as {first[0]!r} and {first[1]!r}")


def _differing(base: RunTable, new: RunTable, name: str) -> list[str]:
    """Return the columns of the data in which a row differs between the runs."""
    before, after = (_data(table, name) for table in (base, new))
    asked = [column for column in {**before, **after} if column not in base.answers]
    return [column for column in asked if before.get(column) != after.get(column)]


def _data(table: RunTable, name: str) -> dict[str, JSON]:
    """Return the data columns of the row with this id, by name."""
    at = table.row_ids.index(name) if name in table.row_ids else 0
    row = next(islice(table.opened.rows.records(), at, None), {})
    return {key.removeprefix("inputs."): value for key, value in row.items() if key.startswith("inputs.")}
