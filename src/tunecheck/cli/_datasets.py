"""`tunecheck datasets`: convert, get and check data sets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from tunecheck._errors import ConfigurationError
from tunecheck._messages import clean, counted, did_you_mean
from tunecheck._trust import Trust
from tunecheck.cli._console import print_json
from tunecheck.cli._options import DONE, NOT_MET, CommandOptions, Invocation, argument, command, flag, option
from tunecheck.cli._shared_options import JsonOptions, TrustOptions

if TYPE_CHECKING:
    from tunecheck.datasets._converting import ConversionReport
    from tunecheck.datasets._reading import Dataset
    from tunecheck.datasets._row_check import Finding, Value
    from tunecheck.episodes._data_check import CheckedRow

_MOST_SHOWN = 20


@dataclass(frozen=True, kw_only=True)
class ConvertOptions(CommandOptions):
    format: str = argument("openai (TRL's, too), sharegpt, xlam, or glaive (raw).", "FORMAT")
    source: Path = argument("A JSON array of conversations, JSON Lines, or Parquet.", "FILE")
    out: Path | None = option("The data set to write; by default datasets/, with FILE's name.", "FILE")
    overwrite: bool = flag("Replace FILE if it is there.")


@command(ConvertOptions)
def convert(options: ConvertOptions, invocation: Invocation) -> int:
    """Turn conversations into rows, one for each assistant's turn, with the defaults that fit them beside it.

    A conversation that cannot be read is reported by its number; the others go on.
    """
    from tunecheck.datasets._converting import convert as convert_file
    from tunecheck.datasets._training.forms import FORMS

    form = FORMS.get(options.format)
    if form is None:
        raise ConfigurationError(f"there is no converter for {options.format!r}{did_you_mean(options.format, FORMS)}")
    out = options.out or Path("datasets") / f"{options.source.stem}.jsonl"
    _print_conversion(convert_file(options.source, form, out, overwrite=options.overwrite))
    return 0


def _print_conversion(report: ConversionReport) -> None:
    left_out = len(report.unreadable)
    read = f"{report.conversations - left_out:,} of {counted(report.conversations, 'conversation')}"
    print(f"{read}: {counted(report.rows, 'row')}, {report.call_rows:,} with {counted(report.calls, 'function call')}")
    for one in report.unreadable[:_MOST_SHOWN]:
        print(f"  left out number {one.number}: {clean(one.reason)}")
    if left_out > _MOST_SHOWN:
        print(f"  and {left_out - _MOST_SHOWN:,} more")
    print(f"written {report.out}")
    kept = "kept as it was, it says something else" if report.sidecar_kept else "its defaults"
    print(f"        {report.sidecar} ({kept})")


@dataclass(frozen=True, kw_only=True)
class CheckOptions(JsonOptions, TrustOptions):
    data: str = argument("Multi-turn rows: a file, or e.g. bfcl:multi_turn_base.", "FILE")
    limit: int | None = option("Only the first N rows.", "N", least=1)
    benchmark_data: Path | None = option("Copy of the benchmark with the texts for long-context rows.", "DIR")
    remarks: bool = flag("List what an entry can be right in spite of, too.")


@command(CheckOptions)
def check(options: CheckOptions, invocation: Invocation) -> int:
    """Check ids, roles, tool definitions and ground-truth calls; replay those of multi-turn rows on their simulators.

    What is wrong is listed by entry and turn; turns count from 0. Exit code 3: something was found.
    """
    from tunecheck.datasets._reading import open_dataset

    dataset = open_dataset(options.data, limit=options.limit, number_ids=True)
    rows = _Counted(row.values for row in dataset.rows())
    listed = (finding for row in checked_rows(dataset, rows, options) for finding in row.findings)
    return _print_json(listed, rows) if options.json else _print_text(listed, rows, options.remarks)


def checked_rows(dataset: Dataset, rows: Iterable[Mapping[str, object]], options: CheckOptions) -> Iterator[CheckedRow]:
    """The rows, each with what can be wrong with any; one with turns with what its simulators say, too."""
    from tunecheck.calls._schemas import TOOL_COLUMNS
    from tunecheck.datasets._row_check import RowCheck
    from tunecheck.episodes._data_check import checked_rows as check_rows
    from tunecheck.episodes._playing import Services

    services = Services(data=options.benchmark_data, trust=Trust.of_command(options.trust or ()).of(*dataset.files))
    check = RowCheck(row_reader(dataset, ("ground_truth",)), row_reader(dataset, TOOL_COLUMNS))
    return check_rows(rows, services, row_check=check)


def row_reader(dataset: Dataset, columns: Sequence[str]) -> Value:
    """What takes the value of the first of these parameters out of a row, by the data set's own mapping."""
    from tunecheck.pipeline._mapping import parse_mapping, value_reader

    mapping = parse_mapping(dataset.defaults.column_mapping, "the data set's column_mapping")
    read = value_reader({"default": mapping}, *columns)
    return lambda row: read(row, {})


class _Counted:
    """Rows that are counted as they are taken."""

    def __init__(self, rows: Iterable[Mapping[str, object]]) -> None:
        self._rows = rows
        self.count = 0

    def __iter__(self) -> Iterator[Mapping[str, object]]:
        for row in self._rows:
            self.count += 1
            yield row


def _print_text(findings: Iterable[Finding], rows: _Counted, remarks: bool) -> int:
    kinds: Counter[bool] = Counter()
    entries: set[str] = set()
    for entry, group in groupby(findings, key=lambda finding: finding.entry):
        own = list(group)
        kinds.update(finding.is_remark for finding in own)
        shown = [finding for finding in own if remarks or not finding.is_remark]
        if shown:
            print(clean(entry))
        for finding in shown:
            print(f"  {clean(_line(finding))}")
        if not all(finding.is_remark for finding in own):
            entries.add(entry)
    hint = "" if remarks or not kinds[True] else " (--remarks lists them)"
    problems = f"{counted(kinds[False], 'problem')} in {len(entries):,} of them" if kinds[False] else "no problems"
    noted = f", {counted(kinds[True], 'remark')}{hint}" if kinds[True] else ""
    print(f"checked {counted(rows.count, 'row')}: {problems}{noted}")
    return NOT_MET if kinds[False] else DONE


def _line(finding: Finding) -> str:
    from tunecheck.episodes._data_check import PROBLEMS

    where = "" if finding.turn is None else f"turn {finding.turn}: "
    call = f"{finding.call}: " if finding.call else ""
    return f"{where}{PROBLEMS[finding.problem]}: {call}{finding.text}"


def _print_json(findings: Iterable[Finding], rows: _Counted) -> int:
    listed = [*findings]
    problems = sum(not finding.is_remark for finding in listed)
    print_json({"rows": rows.count, "problems": problems, "findings": [asdict(finding) for finding in listed]})
    return NOT_MET if problems else DONE
