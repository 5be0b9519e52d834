"""What `tunecheck check` finds to be certainly wrong with the rows of a data set."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import groupby
from typing import TYPE_CHECKING

from tunecheck.cli import CheckResult, DataCheckOptions
from tunecheck.plugins import JSON, Trust, clean, counted

if TYPE_CHECKING:
    from tunecheck.datasets import Dataset
    from tunecheck_authoring._audit.conversations import CheckedRow
    from tunecheck_authoring._audit.rows import Finding, Value


def check_rows(dataset: Dataset, options: DataCheckOptions) -> CheckResult:
    """Check ids, roles, tools and ground-truth calls; replay those of multi-turn rows on their simulators."""
    rows = 0
    listed: list[Finding] = []
    for row in checked_rows(dataset, (row.values for row in dataset.rows()), options):
        rows += 1
        listed += row.findings
    problems = sum(not finding.is_remark for finding in listed)
    findings: list[JSON] = [asdict(finding) for finding in listed]
    lines = [*_lines(listed, rows, problems, remarks=options.remarks)]
    return CheckResult(not problems, lines, {"rows": rows, "problems": problems, "findings": findings})


def checked_rows(
    dataset: Dataset, rows: Iterable[Mapping[str, object]], options: DataCheckOptions
) -> Iterator[CheckedRow]:
    """Yield the rows with the findings of every check; conversations are replayed on their simulators, too."""
    from tunecheck.calls import TOOL_COLUMNS
    from tunecheck.episodes import Services
    from tunecheck_authoring._audit.conversations import checked_rows as replayed_rows
    from tunecheck_authoring._audit.rows import RowCheck

    services = Services(data=options.benchmark_data, trust=Trust.of_command(options.trust or ()).of(*dataset.files))
    check = RowCheck(row_reader(dataset, ("ground_truth",)), row_reader(dataset, TOOL_COLUMNS))
    return replayed_rows(rows, services, row_check=check)


def row_reader(dataset: Dataset, columns: Sequence[str]) -> Value:
    """Return a reader of the first of these parameters, by the data set's own column mapping."""
    from tunecheck.pipeline import parse_mapping, value_reader

    mapping = parse_mapping(dataset.defaults.column_mapping, "the data set's column_mapping")
    read = value_reader({"default": mapping}, *columns)
    return lambda row: read(row, {})


def _lines(findings: Sequence[Finding], rows: int, problems: int, *, remarks: bool) -> Iterator[str]:
    for entry, group in groupby(findings, key=lambda finding: finding.entry):
        shown = [finding for finding in group if remarks or not finding.is_remark]
        if shown:
            yield clean(entry)
            yield from (f"  {clean(_line(finding))}" for finding in shown)
    entries = {finding.entry for finding in findings if not finding.is_remark}
    noted = len(findings) - problems
    hint = "" if remarks else " (--remarks lists them)"
    found = f"{counted(problems, 'problem')} in {len(entries):,} of them" if problems else "no problems"
    yield f"checked {counted(rows, 'row')}: {found}" + (f", {counted(noted, 'remark')}{hint}" if noted else "")


def _line(finding: Finding) -> str:
    from tunecheck_authoring._audit.conversations import PROBLEMS

    where = "" if finding.turn is None else f"turn {finding.turn}: "
    call = f"{finding.call}: " if finding.call else ""
    return f"{where}{PROBLEMS[finding.problem]}: {call}{finding.text}"
