"""Chapter break: the chapters of a book are read out, and the true beginning of the next one is to be found.

The texts come from a folder of the user's. A `.txt` file is one book in UTF-8. A chapter begins with a heading: a line
that starts with the word "Chapter" in any case, or with "#". What stands before the first heading is left out. Each
chapter but the first gives a passage: what comes before it, its beginning, and the beginnings of other chapters of the
book, or of other books where those are too few, as wrong options. Headings do not stand in the options.

A `.jsonl` file holds a passage a line: `{"context": "…", "next": "…", "others": ["…", …]}` with five other
beginnings or more, and perhaps `"split": "…"`. The names `ctx`, `pos` and `negs` are understood as well.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from random import Random

from tunecheck._errors import ConfigurationError, DataError, told_as
from tunecheck._json import JSON, loads
from tunecheck_memory._kind import Kind, Making
from tunecheck_memory._kinds.scripts import choice, scripted_test, whole
from tunecheck_memory._model import Definition, Wait

OPTIONS = 6
"""How many beginnings there are to choose from."""

CONTEXT_CHARACTERS = 36_000
"""As much of what comes before is read out, about ten thousand tokens."""

OPTION_CHARACTERS = 1_000
"""As much of a beginning is shown."""

_MAX_BYTES = 64 << 20
"""Largest file, and longest line, that is read."""

_HEADING = re.compile(r"^[ \t]*(?:#|chapter\b)[^\n]*\n?", re.MULTILINE | re.IGNORECASE)
_SENTENCE_END = re.compile(r"[.!?…]+[\"”’')\]]*\s+|\n\s*\n")


def find_passages(path: Path, split: str | None) -> Iterator[_Line | _Chapter]:
    """The passages of a folder's files, or of one file, in the order of the files' names; texts are read when used.

    Raises:
        ConfigurationError: there is no such path, or no text in it.
        DataError: a file cannot be read; names file and line.
    """
    files = sorted(each for each in path.rglob("*") if each.is_file()) if path.is_dir() else [path]
    lines = [each for each in files if each.suffix.lower() == ".jsonl"]
    books = [_Book(each) for each in files if each.suffix.lower() == ".txt"]
    if not lines and not books:
        raise ConfigurationError(f"{path}: holds no texts; they are .txt files (books) or .jsonl files (passages)")
    if split is None:
        for book in books:
            others = [other for other in books if other is not book]
            yield from (_Chapter(book, number, others) for number in range(1, len(book.chapters)))
    for file in lines:
        yield from _passages(file, split)


def pages_of(text: str, size: int) -> list[str]:
    """The text in pages of at most `size` characters that end with a sentence where one does; nothing is lost."""
    pages: list[str] = []
    start = 0
    while len(text) - start > size:
        ends = [match.end() for match in _SENTENCE_END.finditer(text, start, start + size)]
        blank = max(text.rfind(" ", start + 1, start + size), text.rfind("\n", start + 1, start + size))
        end = ends[-1] if ends else blank + 1 if blank > start else start + size
        pages.append(text[start:end])
        start = end
    return [*pages, text[start:]] if text[start:].strip() or not pages else pages


@dataclass(frozen=True)
class _Line:
    """A passage of a `.jsonl` file, by where its line begins."""

    file: Path
    offset: int
    number: int

    @cached_property
    def _value(self) -> dict[str, JSON]:
        with self.file.open("rb") as stream:
            stream.seek(self.offset)
            return _object(stream.readline(_MAX_BYTES), f"{self.file}, line {self.number}")

    @property
    def context(self) -> str:
        return _tail(self._text("context", "ctx"))

    @property
    def beginning(self) -> str:
        return _head(self._text("next", "pos"))

    def others(self, random: Random, count: int) -> list[str]:
        given = self._first("others", "negs")
        texts = [each for each in given if isinstance(each, str) and each.strip()] if isinstance(given, list) else []
        if len(texts) < count:
            raise DataError(f"{self.file}, line {self.number}: 'others' must be a list of at least {count} texts")
        return [_head(each) for each in random.sample(texts, count)]

    def _text(self, *names: str) -> str:
        value = self._first(*names)
        if not isinstance(value, str) or not value.strip():
            raise DataError(f"{self.file}, line {self.number}: {names[0]!r} must be a text")
        return value

    def _first(self, *names: str) -> JSON:
        return next((self._value[name] for name in names if name in self._value), None)


def _passages(file: Path, split: str | None) -> Iterator[_Line]:
    offset = 0
    with told_as(DataError, file), file.open("rb") as stream:
        for number, line in enumerate(iter(lambda: stream.readline(_MAX_BYTES), b""), 1):
            where = offset
            offset += len(line)
            if not line.strip():
                continue
            if split is None or _object(line, f"{file}, line {number}").get("split") == split:
                yield _Line(file, where, number)


def _object(line: bytes, where: str) -> dict[str, JSON]:
    try:
        value = loads(line)
    except ValueError as error:
        raise DataError(f"{where}: not JSON: {error}") from None
    if not isinstance(value, dict):
        raise DataError(f"{where}: must be an object with 'context', 'next' and 'others'")
    return value


@dataclass(frozen=True)
class _Book:
    """A `.txt` file; `chapters` are where its headings begin and end."""

    file: Path

    @cached_property
    def text(self) -> str:
        with told_as(DataError, self.file), self.file.open("rb") as stream:
            raw = stream.read(_MAX_BYTES + 1)
        if len(raw) > _MAX_BYTES:
            raise DataError(f"{self.file}: larger than {_MAX_BYTES >> 20} MiB, which no book is")
        try:
            return raw.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            line = raw.count(b"\n", 0, error.start) + 1
            raise DataError(f"{self.file}, line {line}: not UTF-8; save the file as UTF-8") from None

    @cached_property
    def chapters(self) -> Sequence[tuple[int, int]]:
        """Headings of chapters that have some text."""
        headings = [match.span() for match in _HEADING.finditer(self.text)]
        ends = [*(start for start, _ in headings[1:]), len(self.text)]
        return [span for span, end in zip(headings, ends, strict=True) if self.text[span[1] : end].strip()]

    def beginning(self, number: int) -> str:
        ends = [*(start for start, _ in self.chapters[1:]), len(self.text)]
        return _head(self.text[self.chapters[number][1] : ends[number]])


@dataclass(frozen=True)
class _Chapter:
    """A chapter of a book, not its first."""

    book: _Book
    number: int
    other_books: Sequence[_Book]

    @property
    def context(self) -> str:
        return _tail(self.book.text[self.book.chapters[0][0] : self.book.chapters[self.number][0]])

    @property
    def beginning(self) -> str:
        return self.book.beginning(self.number)

    def others(self, random: Random, count: int) -> list[str]:
        """Later chapters first: earlier ones were read out, perhaps."""
        chapters = range(len(self.book.chapters))
        later = [self.book.beginning(each) for each in chapters if each > self.number]
        earlier = [self.book.beginning(each) for each in chapters if each < self.number]
        other_books = self.other_books if len(later) < count else ()
        elsewhere = [book.beginning(each) for book in other_books for each in range(len(book.chapters))]
        chosen: list[str] = []
        for group in (later, elsewhere, earlier):
            fresh = [each for each in dict.fromkeys(group) if each != self.beginning and each not in chosen]
            chosen += random.sample(fresh, min(count - len(chosen), len(fresh)))
        if len(chosen) < count:
            raise DataError(f"{self.book.file}: a passage needs {count} other chapters, in this book or in others")
        return chosen


def _tail(text: str) -> str:
    """The end of a long text, from the beginning of a sentence on."""
    if len(text) <= CONTEXT_CHARACTERS:
        return text.strip()
    start = len(text) - CONTEXT_CHARACTERS
    sentence = _SENTENCE_END.search(text, start)
    return text[sentence.end() if sentence else start :].strip()


def _head(text: str) -> str:
    """The beginning of a text, to the end of a sentence."""
    return pages_of(text.strip(), OPTION_CHARACTERS)[0].strip()


_OPENING = "I would like to read some pages of a book to you. You need not comment on them, just listen."
_PAGE = "Page {number} of {count}:\n\n{text}"
_BETWEEN = (
    "That was the last page of the chapter. Now come {count} texts, and one of them is how the next chapter begins. "
    "Read all of them before you decide."
)
_OPTION = "Text number {number}:\n\n{text}"
_QUESTION = "Which of the texts is the true beginning of the next chapter? Answer with its number and nothing else."

SPLITS = ("all", "goodai", "pg19", "ao3")

_CHARACTERS_A_TOKEN = 3.6
"""Of English prose, a little less than there are: a page is to stay below its size in tokens."""


class MissingTextsError(ConfigurationError):
    """There are no texts to make chapter breaks of; published configurations are run without them."""


class ChapterBreak(Kind):
    """Pages of a book, six beginnings of chapters, and the question for the true one, without a pause in between.

    `split` takes those lines of `.jsonl` files alone that name it ("all" and "goodai" take everything).
    `max_message_size` is a page's in tokens, about.
    """

    name = "chapterbreak"
    title = "ChapterBreak"
    resets = True

    def __init__(self, *, split: str = "all", max_message_size: int = 1024) -> None:
        self.split = choice("split", split, SPLITS)
        self.max_message_size = whole("max_message_size", max_message_size, least=50, most=1_000_000)
        self.arguments = {"split": split, "max_message_size": max_message_size}

    def definitions(self, count: int, making: Making) -> list[Definition]:
        """See Kind; the texts are shuffled by the seed, and each is used once. MissingTextsError without texts."""
        if making.texts is None:
            raise MissingTextsError(
                "chapterbreak needs texts: give the folder of .txt or .jsonl files that holds them with --texts"
            )
        passages = list(find_passages(making.texts, None if self.split in ("all", "goodai") else self.split))
        if len(passages) < count:
            raise ConfigurationError(
                f"{making.texts}: chapterbreak needs {count} passages, and there are {len(passages)} "
                "(a .txt file gives one for each chapter that follows another, a .jsonl file one a line)"
            )
        making.random(self.title, "texts").shuffle(passages)
        return [self._definition(str(number), passages[number], making) for number in range(count)]

    def _definition(self, example: str, passage: _Line | _Chapter, making: Making) -> Definition:
        options = passage.others(making.random(self.title, example), OPTIONS - 1)
        answer = making.random(self.title, f"{example}/answer").randrange(OPTIONS)
        options.insert(answer, passage.beginning)
        pages = pages_of(passage.context, int(self.max_message_size * _CHARACTERS_A_TOKEN))
        statements = [
            _OPENING,
            *(_PAGE.format(number=at, count=len(pages), text=page.strip()) for at, page in enumerate(pages, 1)),
            _BETWEEN.format(count=len(options)),
            *(_OPTION.format(number=at, text=option) for at, option in enumerate(options, 1)),
        ]
        waits = [Wait()] * (len(statements) + 1)
        return scripted_test(self, example, statements, [_QUESTION], [str(answer + 1)], waits=waits)
