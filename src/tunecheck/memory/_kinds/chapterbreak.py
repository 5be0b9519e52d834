"""Chapter break: the chapters of a book are read out, and the true beginning of the next one is to be found."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

from tunecheck._errors import ConfigurationError
from tunecheck._json import JSON
from tunecheck.memory._kind import Kind, Making
from tunecheck.memory._kinds.arguments import choice, whole
from tunecheck.memory._kinds.books import OPTIONS, Passage, find_passages, pages_of
from tunecheck.memory._kinds.scripts import scripted_test
from tunecheck.memory._model import Definition, Wait

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

    The texts are the user's: `tunecheck.memory._kinds.books` says in which form. `split` takes those lines of `.jsonl`
    files alone that name it ("all" and "goodai" take everything). `max_message_size` is a page's in tokens, about.
    """

    name: ClassVar[str] = "chapterbreak"
    title: ClassVar[str] = "ChapterBreak"
    resets: ClassVar[bool] = True

    def __init__(self, *, split: str = "all", max_message_size: int = 1024) -> None:
        self.split = choice("split", split, SPLITS)
        self.max_message_size = whole("max_message_size", max_message_size, least=50, most=1_000_000)
        self.arguments: Mapping[str, JSON] = {"split": split, "max_message_size": max_message_size}

    def definitions(self, count: int, making: Making) -> list[Definition]:
        """See Kind; the texts are shuffled by the seed, and each is used once.

        Raises:
            MissingTextsError: no texts were given.
            ConfigurationError: they cannot be read, or are too few.
        """
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

    def _definition(self, example: str, passage: Passage, making: Making) -> Definition:
        options = passage.others(making.random(self.title, example), OPTIONS - 1)
        answer = making.random(self.title, f"{example}/answer").randrange(OPTIONS)
        options.insert(answer, passage.beginning)
        statements = [*self._read_out(passage.context), *_offer(options)]
        return scripted_test(
            self, example, statements, [_QUESTION], [str(answer + 1)], waits=[Wait()] * (len(statements) + 1)
        )

    def _read_out(self, context: str) -> Iterator[str]:
        yield _OPENING
        pages = pages_of(context, int(self.max_message_size * _CHARACTERS_A_TOKEN))
        for number, page in enumerate(pages, 1):
            yield _PAGE.format(number=number, count=len(pages), text=page.strip())


def _offer(options: list[str]) -> Iterator[str]:
    yield _BETWEEN.format(count=len(options))
    for number, option in enumerate(options, 1):
        yield _OPTION.format(number=number, text=option)
