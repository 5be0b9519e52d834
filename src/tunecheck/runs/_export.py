"""The results in other shapes: a table that is safe in a spreadsheet, and Azure AI Evaluation's one JSON file."""

import codecs
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path

from tunecheck._errors import ConfigurationError
from tunecheck._json import JSON, dumps, dumps_line
from tunecheck._whole_files import replacing
from tunecheck.pipeline._results import ResultRow

# Quotes, white space and what has no width may stand before the sign: spreadsheets and importers drop them. The
# apostrophe is among them, so that a text that has one of its own before a formula gets a second one, and text_of_cell
# always takes away the one that was added.
_FORMULA = re.compile(
    r"[\s\x00-\x1f'\"`´‘’‚“”„«»\u00ad\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]*[=+\-@\t\r\n＝＋－＠−﹢﹣﹦﹫]"
)

# All but a tab and the ends of lines: a terminal that shows the file would obey some.
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]|\r(?!\n)")

_BLOCK = 1 << 16

MAX_COLUMNS = 16_384
"""Most columns of the table, which is what a spreadsheet can hold; eval_results.jsonl has all of them."""


def write_table(path: Path, columns: Sequence[str], rows: Iterable[ResultRow]) -> None:
    """Write the rows as CSV (UTF-8 with a mark, which spreadsheets need to recognise it).

    Lists and objects are written as JSON, numbers as numbers. A text that a spreadsheet would run as a formula gets an
    apostrophe before it, because it is model output; `text_of_cell` takes it away.
    """
    with replacing(path) as temporary, temporary.open("wb", _BLOCK) as file:
        file.writelines(table_bytes(columns, rows))


def table_bytes(columns: Sequence[str], rows: Iterable[ResultRow]) -> Iterator[bytes]:
    """The table, line by line, its head first."""
    columns = columns[:MAX_COLUMNS]
    mark = codecs.BOM_UTF8
    for values in chain([columns], (map(row.get, columns) for row in rows)):
        line = (",".join(map(_cell, values)) or '""') + "\r\n"  # an empty line would be no row
        yield mark + line.encode("utf-8", "backslashreplace")
        mark = b""


def _cell(value: JSON) -> str:
    """One field as RFC 4180 has it; the standard library's writer looks up every character several times."""
    kind = type(value)
    if kind is float or kind is int:  # as most are
        return repr(value)
    if value is None:
        return ""
    if kind is bool:
        return "true" if value else "false"
    if not isinstance(value, str):
        text = _without_controls(dumps(value).decode("utf-8"))
    elif value[:1].isalnum() and value.isprintable():  # as most texts: no formula, no controls
        text = value
    else:
        shown = _without_controls(value)
        text = f"'{shown}" if _FORMULA.match(shown) else shown
    if '"' in text:
        return '"' + text.replace('"', '""') + '"'
    return f'"{text}"' if "," in text or "\n" in text or "\r" in text else text


def _without_controls(text: str) -> str:
    if text.isprintable():  # as most are, which is seen ten times as fast
        return text
    return _CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def text_of_cell(cell: str) -> str:
    """The text that `write_table` made a cell of text from: without the apostrophe that keeps it from being a formula.

    Exact but for control characters, which stand in the file as `\\u001b`, and for halves of surrogate pairs.
    """
    return cell[1:] if cell.startswith("'") and _FORMULA.match(cell) else cell


def check_output_path(output_path: str | os.PathLike[str]) -> Path:
    """Where Azure's one file goes: a folder gets `evaluation_results.json`.

    Raises:
        ConfigurationError: its folder does not exist.
    """
    path = Path(output_path)
    if path.is_dir():
        return path / "evaluation_results.json"
    if not path.parent.is_dir():
        raise ConfigurationError(f"output_path: the folder {path.parent} does not exist; make it first")
    return path


def write_azure_results(
    path: Path, rows: Iterable[ResultRow], metrics: Mapping[str, JSON], studio_url: str | None
) -> None:
    """Write `{"rows", "metrics", "studio_url"}`, row by row, and rename it into place."""
    with replacing(path) as temporary, temporary.open("wb") as file:
        file.write(b'{"rows": [')
        for number, row in enumerate(rows):
            file.write((b",\n" if number else b"\n") + dumps_line(row).rstrip())
        rest = dumps_line({"metrics": dict(metrics), "studio_url": studio_url})
        file.write(b"\n], " + rest.removeprefix(b"{"))
