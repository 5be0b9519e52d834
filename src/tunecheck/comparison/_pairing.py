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
    contents = _has_contents(base) and _has_contents(new) and pair_by == "content"
    by_id_alone = pair_by == "content" and not contents
    ids = base.items.ids
    if ids and ids == new.items.ids and (not contents or base.items.contents == new.items.contents):
        all_items = array("q", range(len(ids)))
        return Pairing(all_items, all_items, [], [], [], by_id_alone=by_id_alone)
    partners = dict(_matches(_items_with_keys(base, contents), _items_with_keys(new, contents)))
    if contents and not partners and base.info.source != new.info.source and base.named and new.named:
        # Azure AI Evaluation rewrites values (dates, numbers in columns with empty cells): contents cannot be compared.
        partners = dict(_matches(_items_with_keys(base, contents=False), _items_with_keys(new, contents=False)))
        by_id_alone = bool(partners)
    by_content = 0
    if contents:
        unpaired = _unpaired(base.items.contents, partners), _unpaired(new.items.contents, partners.values())
        matches = list(_matches(*unpaired))
        partners.update(matches)
        by_content = len(matches)
    if not partners:
        raise _nothing_pairs(base, new, contents)
    only_base = [item for item, _ in _unpaired(base.items.ids, partners)]
    only_new = [item for item, _ in _unpaired(new.items.ids, partners.values())]
    only_new_ids = {new.items.ids[item] for item in only_new}
    changed = [ids[item] for item in only_base if ids[item] in only_new_ids]
    base_items = array("q", sorted(partners))
    new_items = array("q", map(partners.__getitem__, base_items))
    return Pairing(base_items, new_items, only_base, only_new, changed, by_content, by_id_alone)


def _has_contents(table: RunTable) -> bool:
    """Return True if every item has a fingerprint of its content."""
    return all(table.items.contents)


ItemsWithKeys = Iterable[tuple[int, object]]
"""The numbers of items, each with the key by which it is paired."""


def _items_with_keys(table: RunTable, contents: bool) -> ItemsWithKeys:
    """Return each item's number with its key: its id, or its id and content."""
    ids = table.items.ids
    return enumerate(zip(ids, table.items.contents, strict=True) if contents else ids)


def _unpaired(keys: Sequence[str], paired: Iterable[int]) -> ItemsWithKeys:
    """Return the items that are not among the `paired` ones; `keys` has the key of each item."""
    numbers = set(paired)
    return [(item, key) for item, key in enumerate(keys) if item not in numbers]


def _matches(base: ItemsWithKeys, new: ItemsWithKeys) -> Iterator[tuple[int, int]]:
    """Yield pairs of a base item and a new item with equal keys: the first of both, the second of both, and so on."""
    waiting: defaultdict[object, list[int]] = defaultdict(list)
    for item, key in reversed([*new]):
        waiting[key].append(item)
    for item, key in base:
        if waiting.get(key):
            yield item, waiting[key].pop()


def _nothing_pairs(base: RunTable, new: RunTable, contents: bool) -> NothingPairsError:
    """Return the error that explains why no rows pair; `contents` is True if contents were compared."""
    for table in (base, new):
        if not table.items.ids:
            return NothingPairsError(f"{table.info.id} has no rows: there is nothing to compare")
    shared = set(base.items.ids) & set(new.items.ids)
    start = f"no row of {base.info.id} is in {new.info.id}"
    if shared and contents:
        row_id = next(name for name in base.items.ids if name in shared)
        columns = _different_columns(base, new, row_id)
        differ = f"{', '.join(map(repr, columns[:3]))} {'differ' if len(columns) > 1 else 'differs'}"
        example = f"in {row_id!r} {differ}" if columns else f"such as {row_id!r}"
        remedy = "to compare them anyway, add --pair-by id" if base.named and new.named else ""
        ids = "1 id is" if len(shared) == 1 else f"{len(shared):,} ids are"
        return NothingPairsError(f"{start}: {ids} in both, but with different content ({example})", remedy)
    base_id, new_id = base.items.ids[0][:100], new.items.ids[0][:100]
    return NothingPairsError(f"{start}: the ids differ, such as {base_id!r} and {new_id!r}")


def _different_columns(base: RunTable, new: RunTable, row_id: str) -> list[str]:
    """Return the columns of the data, without answers, in which the row with this id differs between the runs."""
    before, after = (_data_of_row(table, row_id) for table in (base, new))
    content = [column for column in {**before, **after} if column not in base.answers]
    return [column for column in content if before.get(column) != after.get(column)]


def _data_of_row(table: RunTable, row_id: str) -> dict[str, JSON]:
    """Return the data columns of the row with this id, by name; of the first row if only an item has the id."""
    number = table.row_ids.index(row_id) if row_id in table.row_ids else 0
    row = next(islice(table.opened.rows.records(), number, None), {})
    return {key.removeprefix("inputs."): value for key, value in row.items() if key.startswith("inputs.")}
