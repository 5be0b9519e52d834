"""BFCL V3 as a data set: `bfcl:simple_python`, `bfcl:multi_turn`, `bfcl:live_simple,irrelevance`, `bfcl:all`.

The data is the user's own copy: `tunecheck bfcl get` fetches it.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

from tunecheck import ConfigurationError, DataError
from tunecheck.datasets import Dataset, DatasetDefaults, Digest, JsonLinesSource, Record, Source, UnusableRowError
from tunecheck.plugins import canonical, did_you_mean
from tunecheck_bfcl._data.categories import CATEGORIES, Category, category_of, named_categories
from tunecheck_bfcl._data.files import FUNCTION_DOCS, TEXTS, BfclFiles, find_bfcl
from tunecheck_bfcl._data.rows import RowBuilder

_DATA = "?data="


def load_bfcl(argument: str) -> Dataset:
    """Return the rows of the categories that `argument` names by comma-separated categories and groups.

    `simple_python?data=FOLDER` reads the copy of BFCL in FOLDER, instead of that in `TUNECHECK_BFCL` or the cache.
    `RowBuilder` describes the columns of a row.

    Raises:
        DataError: there is no such category, or the data is missing. The text then tells how to get it.
    """
    names, _, folder = argument.partition(_DATA)
    categories = named_categories(names)
    files = find_bfcl(Path(folder).expanduser() if folder else None)
    conversations = any(category.multi_turn for category in categories)
    questions = not all(category.multi_turn for category in categories)
    evaluators = ["multi_turn_state"] * conversations + ["call_check"] * questions
    # The conversation target also handles rows with a single question.
    defaults = DatasetDefaults(evaluators=evaluators, target="conversation")
    return Dataset(BfclSource(files, categories, names), defaults=defaults)


def select_rows(
    categories: str | None, *, ids: Sequence[str] = (), limit: int | None = None, folder: Path | None = None
) -> Dataset:
    """Return rows of the user's copy of BFCL, in the order of the data.

    Args:
        categories: comma-separated names of categories and groups; by default the categories of `ids`, or without
            `ids` all scored categories.
        ids: only these rows.
        limit: at most this many rows of each category.
        folder: the copy of BFCL; by default as in `find_bfcl`.

    Raises:
        ConfigurationError: the limit is below 1.
        DataError: the copy is missing, or a category or an id does not exist.
    """
    if limit is not None and limit < 1:
        raise ConfigurationError(f"the limit must be at least 1 row, not {limit}")
    if categories is not None:
        chosen = named_categories(categories)
    elif ids:
        chosen = [each for each in CATEGORIES.values() if any(category_of(row_id) is each for row_id in ids)]
    else:
        chosen = named_categories("all")
    for row_id in ids:
        if category_of(row_id) not in chosen:
            where = ", ".join(each.name for each in chosen) or "BFCL"
            raise DataError(f"{row_id[:100]!r} is not the id of a row in {where}; ids look like multi_turn_base_0")
    name = categories or (",".join(each.name for each in chosen) if ids else "all")
    source = BfclSource(find_bfcl(folder), chosen, name, ids=frozenset(ids), limit=limit)
    return Dataset(source, defaults=DatasetDefaults(target="conversation"))


class BfclSource(Source):
    """The rows of some categories, read on demand.

    `ids` selects rows; if it is empty, all rows are read. `limit` is the most rows of each category.
    """

    unit = "row"

    def __init__(
        self,
        files: BfclFiles,
        categories: Sequence[Category],
        names: str,
        *,
        ids: frozenset[str] = frozenset(),
        limit: int | None = None,
    ) -> None:
        """Set the categories to read. `names` is the text that named them, for the source's own name."""
        self.name = self.label = f"bfcl:{names}"
        self._files = files
        self._categories = categories
        self._ids = ids
        self._limit = limit

    def state(self) -> object:
        """Return the state of every file that the rows depend on; an equal value means unchanged rows."""
        return [JsonLinesSource(path).state() for path in self._paths()]

    def records(self, digest: Digest | None = None) -> Iterator[tuple[int, Record]]:
        """Yield numbered rows; see Source. The digest is that of the rows as canonical JSON, not of the files.

        Raises:
            DataError: a file cannot be read, or no row has one of `ids`.
        """
        builder = RowBuilder(self._files)
        number = 0
        known: list[str] = []
        for category in self._categories:
            picked = self._pick(self._rows(category, builder), known)
            for row in islice(picked, self._limit):
                number += 1
                if digest is not None:
                    digest.update(canonical(row) + b"\n")
                yield number, row
            if self._ids:  # read on after the limit: an id without a row is an error
                deque(picked, maxlen=0)
        missing = self._ids.difference(known)
        if missing:
            first = min(missing)
            raise DataError(f"{self.label}: there is no row {first[:100]!r}{did_you_mean(first[:100], known)}")

    def _pick(self, rows: Iterator[Record], known: list[str]) -> Iterator[Record]:
        """Yield the rows to read: those with an id in `ids`, or all if `ids` is empty.

        With `ids`, the ids of all rows passed are appended to `known`, for the error about an id that does not exist.
        """
        for row in rows:
            if self._ids:
                known.append(str(row["id"]))
            if not self._ids or row["id"] in self._ids:
                yield row

    def _rows(self, category: Category, builder: RowBuilder) -> Iterator[Record]:
        """Yield the rows of a category. The questions' lines are paired with the answers' lines by position.

        Raises:
            DataError: a line is not usable, or there are more or fewer answers than questions.
        """
        questions = JsonLinesSource(self._files.data / category.questions)
        answers = JsonLinesSource(self._files.data / category.answers) if category.answers else None
        answered = iter(()) if answers is None else answers.records()
        for line, entry in questions.records():
            _, answer = next(answered, (0, None))
            try:
                if answers is not None and answer is None:
                    raise UnusableRowError(f"{answers.label} has no answer to the entry")
                row = builder.row(category, entry, answer)
            except UnusableRowError as error:
                questions.refuse(f"the entry {entry.get('id')!r} cannot be used: {error}", line)
            yield row
        if answers is not None and next(answered, None) is not None:
            answers.refuse(f"has more answers than {questions.label} has questions")

    def _paths(self) -> Iterator[Path]:
        """Yield the files that the rows depend on."""
        for category in self._categories:
            yield self._files.data / category.questions
            if category.answers:
                yield self._files.data / category.answers
        yield from (self._files.function_docs(simulator) for simulator in FUNCTION_DOCS)
        yield from (self._files.package / text for text in TEXTS)
