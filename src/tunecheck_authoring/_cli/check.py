"""`tunecheck datasets check`: what is certainly wrong with a data set."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from tunecheck.cli import (
    DONE,
    NOT_MET,
    Invocation,
    JsonOptions,
    TrustOptions,
    argument,
    command,
    flag,
    option,
    print_json,
)
from tunecheck.plugins import Trust, clean, counted

if TYPE_CHECKING:
    from tunecheck.datasets import Dataset
    from tunecheck_authoring._audit.conversations import CheckedRow
    from tunecheck_authoring._audit.rows import Finding, Value


@dataclass(frozen=True, kw_only=True)
class CheckOptions(JsonOptions, TrustOptions):
    data: str = argument("Multi-turn rows: a file, or e.g. bfcl:multi_turn_base.", "FILE")
    limit: int | None = option("Only the first N rows.", "N", least=1)
    benchmark_data: Path | None = option("Copy of the benchmark with the texts for long-context rows.", "DIR")
    remarks: bool = flag("List what an entry can be right in spite of, too.")


@command(CheckOptions)
def check(options: CheckOptions, invocation: Invocation) -> int:
    """Check ids, roles, tool definitions and ground-truth calls; replay those of multi-turn rows on their simulators.

    Findings are listed by entry and turn; turns count from 0. Exit code 3: there are problems.
    """
    from tunecheck.datasets import open_dataset

    dataset = open_dataset(options.data, limit=options.limit, number_ids=True)
    rows = 0
    listed: list[Finding] = []
    for row in checked_rows(dataset, (row.values for row in dataset.rows()), options):
        rows += 1
        listed += row.findings
    problems = sum(not finding.is_remark for finding in listed)
    if options.json:
        print_json({"rows": rows, "problems": problems, "findings": [asdict(finding) for finding in listed]})
    else:
        _print_findings(listed, rows, problems, options.remarks)
    return NOT_MET if problems else DONE


def checked_rows(dataset: Dataset, rows: Iterable[Mapping[str, object]], options: CheckOptions) -> Iterator[CheckedRow]:
    """Yield the rows with the findings of every check; conversations are replayed on their simulators, too."""
    from tunecheck.calls import TOOL_COLUMNS
    from tunecheck.episodes import Services
    from tunecheck_authoring._audit.conversations import checked_rows as check_rows
    from tunecheck_authoring._audit.rows import RowCheck

    services = Services(data=options.benchmark_data, trust=Trust.of_command(options.trust or ()).of(*dataset.files))
    check = RowCheck(row_reader(dataset, ("ground_truth",)), row_reader(dataset, TOOL_COLUMNS))
    return check_rows(rows, services, row_check=check)


def row_reader(dataset: Dataset, columns: Sequence[str]) -> Value:
    """Return a reader of the first of these parameters, by the data set's own column mapping."""
    from tunecheck.pipeline import parse_mapping, value_reader

    mapping = parse_mapping(dataset.defaults.column_mapping, "the data set's column_mapping")
    read = value_reader({"default": mapping}, *columns)
    return lambda row: read(row, {})


def _print_findings(findings: Sequence[Finding], rows: int, problems: int, remarks: bool) -> None:
    for entry, group in groupby(findings, key=lambda finding: finding.entry):
        shown = [finding for finding in group if remarks or not finding.is_remark]
        if shown:
            print(clean(entry), *(f"  {clean(_line(finding))}" for finding in shown), sep="\n")
    entries = {finding.entry for finding in findings if not finding.is_remark}
    noted = len(findings) - problems
    hint = "" if remarks else " (--remarks lists them)"
    found = f"{counted(problems, 'problem')} in {len(entries):,} of them" if problems else "no problems"
    print(f"checked {counted(rows, 'row')}: {found}" + (f", {counted(noted, 'remark')}{hint}" if noted else ""))


def _line(finding: Finding) -> str:
    from tunecheck_authoring._audit.conversations import PROBLEMS

    where = "" if finding.turn is None else f"turn {finding.turn}: "
    call = f"{finding.call}: " if finding.call else ""
    return f"{where}{PROBLEMS[finding.problem]}: {call}{finding.text}"
