"""`tunecheck datasets audit`, and the checks of a data set's rows for `tunecheck check`."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from tunecheck import ConfigurationError
from tunecheck.cli import (
    DONE,
    NOT_MET,
    CheckResult,
    DataCheckOptions,
    Invocation,
    ResultsOptions,
    argument,
    command,
    find_unusable_rows,
    flag,
    option,
    print_json,
)
from tunecheck.plugins import JSON, Trust, clean, plural

if TYPE_CHECKING:
    from tunecheck.datasets import Dataset
    from tunecheck_authoring._audit.audit import Audit
    from tunecheck_authoring._audit.conversations import CheckedRow
    from tunecheck_authoring._audit.dialogue import Dialogue, DialogueReader
    from tunecheck_authoring._audit.rows import Finding, Value


def check_rows(dataset: Dataset, options: DataCheckOptions) -> CheckResult:
    """Return the result of all checks of a data set's rows: problems, remarks and unusable rows, as lines and as JSON.

    Ground-truth calls of conversations are executed on their simulators.
    """
    rows = 0
    listed: list[Finding] = []
    for row in checked_rows(dataset, (row.values for row in dataset.rows()), options):
        rows += 1
        listed += row.findings
    unusable, lines = find_unusable_rows(dataset)
    problems = sum(not finding.is_remark for finding in listed)
    problems += sum(map(len, unusable.values()))
    findings: list[JSON] = [asdict(finding) for finding in listed]
    findings += [
        {"entry": name, "problem": "unusable", "text": problem, "place": place}
        for problem, of in unusable.items()
        for name, place in of.items()
    ]
    unusable_ids = {name for of in unusable.values() for name in of}
    all_rows_lack = any(line.startswith("note: ") for line in lines)
    lines += _lines(listed, unusable_ids, rows, problems, remarks=options.remarks)
    if all_rows_lack and not problems:
        lines[-1] = lines[-1].replace("no problems", "no problems except those noted above")
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
    """Return a reader of the first of these columns that a row has, by the data set's own column mapping."""
    from tunecheck.pipeline import parse_mapping, value_reader

    mapping = parse_mapping(dataset.defaults.column_mapping, dataset.defaults.place_of)
    read = value_reader({"default": mapping}, *columns)
    return lambda row: read(row, {})


def _lines(
    findings: Sequence[Finding], unusable: set[str], rows: int, problems: int, *, remarks: bool
) -> Iterator[str]:
    """Yield the findings by row, and a last line that counts the problems. Remarks are listed only if `remarks`.

    `unusable` are ids of rows that count as having a problem, too.
    """
    for entry, group in groupby(findings, key=lambda finding: finding.entry):
        shown = [finding for finding in group if remarks or not finding.is_remark]
        if shown:
            yield clean(entry)
            yield from (f"  {clean(_line(finding))}" for finding in shown)
    entries = unusable | {finding.entry for finding in findings if not finding.is_remark}
    noted = sum(finding.is_remark for finding in findings)
    hint = "" if remarks else " (--remarks lists them)"
    found = f"{plural(problems, 'problem')} in {len(entries):,} of them" if problems else "no problems"
    yield f"checked {plural(rows, 'row')}: {found}" + (f", {plural(noted, 'remark')}{hint}" if noted else "")


def _line(finding: Finding) -> str:
    """Return a finding as one line: its turn, the kind of problem, its call and its text."""
    from tunecheck_authoring._audit.conversations import PROBLEMS

    where = "" if finding.turn is None else f"turn {finding.turn}: "
    call = f"{finding.call}: " if finding.call else ""
    return f"{where}{PROBLEMS[finding.problem]}: {call}{finding.text}"


_WORDS = {"sure": "certainly wrong", "likely": "probably wrong", "look": "worth a look"}


@dataclass(frozen=True, kw_only=True)
class AuditOptions(DataCheckOptions, ResultsOptions):
    data: str = argument("Data set to audit: a file, or e.g. bfcl:multi_turn_base.", "FILE")
    remarks: bool = flag("Also list findings that are only worth a look; --json always lists them.", flags=("--all",))
    against: str | None = option("Training data: report audited rows that this file also contains.", "FILE")
    runs: list[str] | None = option(
        "Run of these rows: report rows that all given runs fail in the same way (repeatable).", "RUN"
    )
    review: bool = flag("Accept, reject or correct the findings in a browser on this machine; Ctrl-C stops the server.")
    out: Path | None = option("With --review: output file; by default the data's name with .reviewed.jsonl.", "FILE")
    port: int = option("With --review: port; 0 takes any free port.", "PORT", default=0, least=0, most=65_535)


@command(AuditOptions)
def audit(options: AuditOptions, invocation: Invocation) -> int:
    """Find probable mistakes in a data set, with evidence: what `check` finds, and what only looks wrong.

    Findings are listed in this order: sure, likely, worth a look. Turns count from 0. Exit code 3: there are sure
    or likely findings.
    """
    from tunecheck import find_run
    from tunecheck.datasets import open_dataset
    from tunecheck_authoring._audit.audit import FEWEST_RUNS, audit as audit_rows

    if options.runs and len(options.runs) < FEWEST_RUNS:
        raise ConfigurationError(f"--runs compares the answers of several runs; give at least {FEWEST_RUNS} runs")
    dataset = open_dataset(options.data, limit=options.limit, number_ids=True)
    done = audit_rows(
        checked_rows(dataset, (row.values for row in dataset.rows()), options),
        _dialogue_reader(dataset),
        training=_training(options.against) if options.against else (),
        runs=[find_run(run, options.folder) for run in options.runs or []],
    )
    if options.review:
        _review(dataset, done, options)
        return DONE
    if options.json:
        print_json({"rows": done.rows, "findings": [finding.as_json() for finding in done.findings]})
    else:
        _show(done, options)
    return NOT_MET if done.flagged else DONE


def _review(dataset: Dataset, done: Audit, options: AuditOptions) -> None:
    """Serve the review of the findings in a browser until Ctrl-C. Findings only worth a look need --all.

    Raises:
        ConfigurationError: --limit is given, but the review writes all rows.
    """
    from tunecheck_authoring._audit.review import Review, serve_review

    if options.limit is not None:
        raise ConfigurationError("--review writes all rows of the data set; leave out --limit")
    plain = Path(dataset.name.rpartition(":")[2]).with_suffix("").name
    path = Path(options.data)
    out = options.out or (path if path.exists() else Path("datasets") / plain).with_suffix(".reviewed.jsonl")
    chosen = [each for each in done.findings if options.remarks or each.certainty != "look"]
    review = Review(dataset, chosen, out)
    print(f"{plural(len(chosen), 'finding')} to review; the rows will be written to {clean(out, 500)}")
    serve_review(review, options.port, lambda url: print(f"open {url} (this machine only); Ctrl-C to stop", flush=True))


def _dialogue_reader(dataset: Dataset) -> DialogueReader:
    """Return a reader of rows as dialogues, by the data set's column mapping."""
    from tunecheck.calls import TOOL_COLUMNS
    from tunecheck_authoring._audit.dialogue import QUESTION_COLUMNS, DialogueReader

    columns = (("ground_truth",), TOOL_COLUMNS, QUESTION_COLUMNS)
    ground_truth, tools, question = (row_reader(dataset, each) for each in columns)
    return DialogueReader(ground_truth, tools, question, dataset.defaults.cluster)


def _training(path: str) -> Iterator[Dialogue]:
    """Yield the dialogues of a training set. A note on stderr counts the rows that cannot be compared.

    Raises:
        ConfigurationError: no row can be compared.
    """
    from tunecheck.datasets import open_dataset
    from tunecheck_authoring._audit.conversations import CheckedRow

    dataset = open_dataset(path, number_ids=True)
    reader = _dialogue_reader(dataset)
    count, unread = 0, []
    for row in dataset.rows():
        dialogue = reader.read(CheckedRow(row.id, row.values, ()))
        count += 1
        if isinstance(dialogue, str):
            unread.append(dialogue)
        else:
            yield dialogue
    if unread:
        told = f"{len(unread):,} of {plural(count, 'row')} cannot be compared (first reason: {unread[0]})"
        if len(unread) == count:
            raise ConfigurationError(f"{path}: {told}; convert other formats with `tunecheck datasets convert`")
        print(f"note: {clean(path)}: {told}", file=sys.stderr)


def _show(done: Audit, options: AuditOptions) -> None:
    """Print the findings by certainty, then the counts, and the share of rows that an agent passes without a call."""
    from tunecheck_authoring._audit.dialogue import KINDS

    listed = [each for each in done.findings if options.remarks or each.certainty != "look"]
    for certainty, group in groupby(listed, key=lambda each: each.certainty):
        print(f"{_WORDS[certainty]}:")
        for finding in group:
            where = finding.id if finding.turn is None else f"{finding.id}, turn {finding.turn}"
            print(f"  {clean(f'{where}: {KINDS[finding.kind]}: {finding.evidence}', 600)}")
            if finding.fix:
                print(f"    fix: {clean(finding.fix)}")
    hidden = len(done.findings) - len(listed)
    more = f"; {plural(hidden, 'finding')} only worth a look (--all lists them)" if hidden else ""
    print(f"audited {plural(done.rows, 'row')}: {len(done.flagged):,} with certain or probable mistakes{more}")
    if done.unread:
        print(f"not checked, or only in part: {plural(len(done.unread), 'row')} (--all lists the reasons)")
    if done.rows:
        print(f"baseline: never calling a function passes {done.idle / done.rows:.1%} of the rows")
