"""`tunecheck datasets export`: a run's failed rows as examples to train on."""

from __future__ import annotations

from dataclasses import MISSING, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tunecheck import ConfigurationError
from tunecheck.cli import (
    DONE,
    Invocation,
    JsonOptions,
    ResultsOptions,
    TrustOptions,
    argument,
    command,
    flag,
    option,
    print_json,
)
from tunecheck.plugins import JSON, cause_named, causes, clean, did_you_mean, plural

if TYPE_CHECKING:
    from tunecheck_authoring._export import ExportReport


@dataclass(frozen=True, kw_only=True)
class ExportOptions(JsonOptions, ResultsOptions, TrustOptions):
    run: str = argument("Run with the failed rows: name, id, beginning of an id, folder, or last.", "RUN")
    to: str = option(
        "Format: sft or dpo for TRL, openai for OpenAI and Azure (preferences with --against).", "FORM", default=MISSING
    )
    out: Path | None = option("File to write; by default datasets/ID-FORM.jsonl with the run's id.", "FILE")
    against: str | None = option(
        "Second run: write pairs for rows that only one run got right; the right answer is preferred.", "RUN"
    )
    cause: list[str] | None = option("Export only rows that failed for this cause (repeatable).", "CODE")
    evaluator: str | None = option("Export only rows that failed this evaluator; by default any evaluator.", "NAME")
    question: str | None = option(
        "Column of the question; by default messages, query, question, prompt or input.", "COLUMN"
    )
    leave_test_set: Path | None = option(
        "Write the test set without the exported rows to FILE; evaluate on FILE from now on.", "FILE"
    )
    no_test_set: bool = flag("Confirm that the run's data is not a test set. Required without --leave-test-set.")
    overwrite: bool = flag("Replace existing files.")
    allow_simulated: bool = flag("Also export runs with simulated answers.")


@command(ExportOptions)
def export(options: ExportOptions, invocation: Invocation) -> int:
    """Write the rows that a run failed, with their right answers, as training examples, grouped by cause.

    Rows that failed because of serving are left out. Test rows must not become training rows: --leave-test-set removes
    them from the test set, --no-test-set says that there is none. FILE.source.json has the source of each line.
    """
    from tunecheck import find_run
    from tunecheck_authoring._export import FORMS, export as export_rows

    if options.to not in FORMS:
        raise ConfigurationError(f"--to: there is no form {options.to!r}{did_you_mean(options.to, FORMS)}")
    unknown = next((code for code in options.cause or () if code not in causes() and "." not in code), None)
    if unknown is not None:
        raise ConfigurationError(f"--cause: there is no cause {unknown!r}{did_you_mean(unknown, causes())}")
    run = find_run(options.run, options.folder)
    _check_test_set(options, run.id)
    report = export_rows(run, options, find_run(options.against, options.folder) if options.against else None)
    if options.json:
        print_json(_as_json(report))
    else:
        _show(report, options)
    return DONE


def _check_test_set(options: ExportOptions, run_id: str) -> None:
    """Refuse an export that does not say what happens to the test set, or says both.

    A model must not be tested with the rows on which it was trained.
    """
    if options.leave_test_set is not None and options.no_test_set:
        raise ConfigurationError("--leave-test-set and --no-test-set exclude each other; give only one of them")
    if options.leave_test_set is None and not options.no_test_set:
        raise ConfigurationError(
            f"the rows of run {run_id} must not be both test and training rows; give --leave-test-set FILE to remove "
            "them from the test set, or --no-test-set if the run's data is no test set"
        )


def _as_json(report: ExportReport) -> JSON:
    shown = {name: value for name, value in vars(report).items() if name not in ("source", "leaving", "by")}
    written = {code or "unknown": count for code, count in report.written.items()}
    return {**shown, "out": str(report.out), "written": written, "left_out": dict(report.left_out)}


def _show(report: ExportReport, options: ExportOptions) -> None:
    """Print the number of examples by cause, the rows left out by reason, and the written files."""
    what = "that just one run got right" if options.against else "that failed"
    written = report.written.total()
    print(f"{plural(written, 'example')} from {plural(report.failed, 'row')} {what} ({report.rows:,} in all):")
    width = len(f"{max(report.written.values()):,}")
    for code, count in report.written.items():
        title = f"{code}: {cause_named(code).title}" if code else "cause unknown, such as a low text score"
        print(f"  {count:>{width},}  {clean(title)}")
    if report.equal:
        print(f"left out {plural(report.equal, 'duplicate example')}")
    for reason, count in report.left_out.most_common():
        print(f"left out {count:,}: {clean(reason)}")
    print(f"written {report.out}")
    print(f"        {report.source} (source row of each line)")
    if options.leave_test_set is not None:
        also = f"; {report.left_along:,} with the same {clean(str(report.by))} left it" if report.left_along else ""
        print(f"        {options.leave_test_set} ({plural(report.rest or 0, 'row')} stay in the test set{also})")
