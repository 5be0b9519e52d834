"""The forms of training files: how each is recognised, its evaluators, and its conversion to rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from tunecheck._messages import command_line
from tunecheck.datasets._defaults import DatasetDefaults
from tunecheck.datasets._sources import Digest, FileSource, Source
from tunecheck.datasets._tables import ParquetSource, without_nulls
from tunecheck.datasets._training.chat import chat_rows, is_chat
from tunecheck.datasets._training.turns import ConversationError, Record
from tunecheck.plugins import discover, find

CALL_EVALUATORS = ("function_call_match", "argument_match")


@dataclass(frozen=True)
class Form:
    """One form. `fits` returns True for a record of this form; `rows` makes the rows of the record with a number.

    `with_graders` returns the form with the graders of a file; its `files` are then texts of evaluator files by path.
    `own_defaults` replace the defaults for function calls.
    """

    name: str
    words: str
    fits: Callable[[Record], bool]
    rows: Callable[[Record, int], list[Record]]
    evaluators: tuple[str, ...] = (*CALL_EVALUATORS, "match")
    unit: str = "conversation"
    own_defaults: DatasetDefaults | None = None
    with_graders: Callable[[Path], Form] | None = None
    files: Mapping[str, str] = field(default_factory=dict)

    @property
    def defaults(self) -> DatasetDefaults:
        """Return the defaults of a data set in this form."""
        if self.own_defaults is not None:
            return replace(self.own_defaults, evaluators=[*self.evaluators])
        return DatasetDefaults(
            column_mapping={
                "ground_truth": "${data.answer}",
                "tool_definitions": "${data.tools}",
                "response": "${target.response}",
            },
            evaluators=[*self.evaluators],
            group_key="conversation_id",
        )


OPENAI = Form("openai", "a chat training file", is_chat, chat_rows)


def forms() -> dict[str, Form]:
    """Return the forms of training files by name, first the core's, then those of plug-ins."""
    found = (find("converters", each.name) for each in discover("converters"))
    return {form.name: form for form in found if isinstance(form, Form)}


def form_of(record: Record) -> Form | None:
    """Return the form of a file whose first record this is, or None."""
    return next((form for form in forms().values() if form.fits(record)), None)


def own_keys(file: FileSource, record: Record) -> Record:
    """Return the record without the null keys that Parquet adds, which would become arguments of calls."""
    plain = without_nulls(record) if isinstance(file, ParquetSource) else record
    assert isinstance(plain, dict)
    return plain


class TrainingSource(Source):
    """A training file as rows, converted on demand; a row has the number of its conversation."""

    def __init__(self, file: FileSource, form: Form) -> None:
        self.name, self.label, self.unit, self.path = file.name, file.label, file.unit, file.path
        self.note = f"{file.path.name} is {form.words}: each turn of the assistant is a row"
        self._file, self._form = file, form

    def state(self) -> object:
        return self._file.state()

    def records(self, digest: Digest | None = None) -> Iterator[tuple[int, Record]]:
        """Yield the rows of all conversations in order, each with its conversation's number.

        Raises:
            DataError: the file cannot be read, or a conversation cannot be converted.
        """
        for number, record in self._file.records(digest):
            try:
                rows = self._form.rows(own_keys(self._file, record), number)
            except (ConversationError, TypeError) as error:  # TypeError: nested too deeply to be written
                command = command_line(["tunecheck", "datasets", "convert", str(self.path), "--from", self._form.name])
                self.refuse(f"{error}; to leave such conversations out: {command}", number)
            for row in rows:
                yield number, row
