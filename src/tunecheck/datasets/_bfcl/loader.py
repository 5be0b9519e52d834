"""BFCL V3 as a data set: `bfcl:simple_python`, `bfcl:multi_turn`, `bfcl:live_simple,irrelevance`, `bfcl:all`.

The data is the user's own copy: `tunecheck datasets get bfcl` fetches it (`bfcl_download.py`), `bfcl_files.py` finds
it, `bfcl_rows.py` makes the rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tunecheck._json import canonical
from tunecheck.datasets._bfcl.categories import Category, named_categories
from tunecheck.datasets._bfcl.files import FUNCTION_DOCS, TEXTS, BfclFiles, find_bfcl
from tunecheck.datasets._bfcl.rows import RowBuilder, UnusableEntryError
from tunecheck.datasets._defaults import DatasetDefaults
from tunecheck.datasets._json_files import JsonLinesSource
from tunecheck.datasets._reading import Dataset
from tunecheck.datasets._sources import Digest, Record, Source

_DATA = "?data="


def load_bfcl(argument: str) -> Dataset:
    """The rows of the categories that `argument` names: a category, a group, or several between commas.

    `simple_python?data=FOLDER` takes another copy than the one in the cache or in `TUNECHECK_BFCL`. `bfcl_rows`
    says what a row holds.

    Raises:
        DataError: a name that is no category; or the data is not there, and then the text says how to get it.
    """
    names, _, folder = argument.partition(_DATA)
    categories = named_categories(names)
    files = find_bfcl(Path(folder).expanduser() if folder else None)
    return Dataset(BfclSource(files, categories, names), defaults=_defaults(categories))


def _defaults(categories: Sequence[Category]) -> DatasetDefaults:
    conversations = any(category.multi_turn for category in categories)
    questions = not all(category.multi_turn for category in categories)
    evaluators = ["multi_turn_state"] * conversations + ["call_check"] * questions
    return DatasetDefaults(evaluators=evaluators, target="conversation")  # which asks a single question once


class BfclSource(Source):
    """The rows of some categories, one after another, read as they are needed."""

    unit = "row"

    def __init__(self, files: BfclFiles, categories: Sequence[Category], names: str) -> None:
        self.name = f"bfcl:{names}"
        self.label = self.name
        self._files = files
        self._categories = categories

    def state(self) -> object:
        """Size and time of change of every file that is read."""
        return [JsonLinesSource(path).state() for path in self._paths()]

    def records(self, digest: Digest | None = None) -> Iterator[tuple[int, Record]]:
        """See Source. The digest is of the rows as canonical JSON, whatever files they came from."""
        builder = RowBuilder(self._files)
        number = 0
        for category in self._categories:
            for row in self._rows(category, builder):
                number += 1
                if digest is not None:
                    digest.update(canonical(row) + b"\n")
                yield number, row

    def _rows(self, category: Category, builder: RowBuilder) -> Iterator[Record]:
        questions = JsonLinesSource(self._files.data / category.questions)
        answers = JsonLinesSource(self._files.data / category.answers) if category.answers else None
        answered = iter(()) if answers is None else answers.records()
        for line, entry in questions.records():
            _, answer = next(answered, (0, None))
            with _located(questions, line, entry):
                if answers is not None and answer is None:
                    raise UnusableEntryError(f"{answers.label} ends before it, without its answer")
                row = builder.row(category, entry, answer)
            yield row
        if answers is not None and next(answered, None) is not None:
            answers.refuse(f"has more answers than {questions.label} has questions")

    def _paths(self) -> Iterator[Path]:
        for category in self._categories:
            yield self._files.data / category.questions
            if category.answers:
                yield self._files.data / category.answers
        yield from (self._files.function_docs(simulator) for simulator in FUNCTION_DOCS)
        yield from (self._files.package / text for text in TEXTS)


@contextmanager
def _located(questions: Source, line: int, entry: Record) -> Iterator[None]:
    """Say of an entry that cannot be used which one it is."""
    try:
        yield
    except UnusableEntryError as error:
        questions.refuse(f"the entry {entry.get('id')!r} cannot be used: {error}", line)
