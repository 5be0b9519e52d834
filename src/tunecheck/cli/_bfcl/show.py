"""`tunecheck bfcl show`: what the ground truth of entries does."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tunecheck._errors import ConfigurationError, DataError
from tunecheck._messages import counted, did_you_mean, printable
from tunecheck.cli._bfcl.score import writing
from tunecheck.cli._invocation import Invocation
from tunecheck.cli._options import CommandOptions, argument, command, flag, option

if TYPE_CHECKING:
    from tunecheck.bfcl._entries import CheckRow
    from tunecheck.datasets._bfcl.files import BfclFiles


@dataclass(frozen=True, kw_only=True)
class ShowOptions(CommandOptions):
    """The options of `bfcl show`."""

    ids: list[str] | None = argument("Ids of entries, e.g. multi_turn_base_0.", "[ID]…", default=None)
    all: bool = flag("Every entry of the categories, one file each (needs --out).")
    categories: str = option("Which categories --all means; by default multi_turn.", "A,B", default="multi_turn")
    out: Path | None = option("Write one file for each entry there.", "DIR")
    data: Path | None = option("A copy of BFCL, if not the one of `datasets get bfcl`.", "DIR")


@command(ShowOptions)
def show(options: ShowOptions, invocation: Invocation) -> int:
    """Show the ground truth of entries as a conversation.

    Each turn's question, the calls, what the simulators answer, and what changes in them.
    """
    from tunecheck.datasets._bfcl.files import find_bfcl

    if bool(options.ids) == options.all:
        raise ConfigurationError("give ids of entries, or --all with --out DIR")
    if options.all and options.out is None:
        raise ConfigurationError("--all writes one file for each entry: give --out DIR")
    files = find_bfcl(options.data)
    rows = _every_row(files, options.categories) if options.all else _chosen_rows(files, options.ids or [])
    _show(rows, files, options.out)
    return 0


def _every_row(files: BfclFiles, categories: str) -> Iterator[CheckRow]:
    from tunecheck.bfcl._entries import read_entries
    from tunecheck.datasets._bfcl.categories import named_categories

    for category in named_categories(categories):
        yield from read_entries(files, category).values()


def _chosen_rows(files: BfclFiles, ids: Sequence[str]) -> Iterator[CheckRow]:
    from tunecheck.bfcl._entries import read_entries
    from tunecheck.datasets._bfcl.categories import category_of

    entries: dict[str, dict[str, CheckRow]] = {}
    for each in ids:
        category = category_of(each)
        if category is None:
            raise DataError(f"{each!r} is no id of an entry; ids are such as multi_turn_base_0")
        if category.name not in entries:
            entries[category.name] = read_entries(files, category)
        if each not in entries[category.name]:
            raise DataError(f"there is no entry {each!r}{did_you_mean(each, entries[category.name])}")
        yield entries[category.name][each]


def _show(rows: Iterator[CheckRow], files: BfclFiles, out: Path | None) -> None:
    from tunecheck.bfcl._ground_truth import ground_truth_lines
    from tunecheck.bfcl._replay import Simulators
    from tunecheck.runs._store import write_file
    from tunecheck.simulators._long_context import LongContext

    plain, padded = Simulators(), None
    written = 0
    for row in rows:
        if row.get("long_context") and padded is None:
            padded = Simulators(long_context=LongContext.read(files.package))
        lines = ground_truth_lines(row, padded if row.get("long_context") and padded else plain)
        if out is None:
            for text in lines:
                print("\n".join(map(printable, text.split("\n"))))
            print()
        else:
            content = "".join(f"{line}\n" for line in lines)
            with writing(out):
                out.mkdir(parents=True, exist_ok=True)
                write_file(out / f"{row['id']}.txt", content.encode("utf-8", "backslashreplace"))
            written += 1
    if out is not None:
        print(f"written {counted(written, 'file')} in {out}")
