"""Runs a job of `evaluate` or `score`, shows the results, and returns the exit code."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from msgspec import to_builtins

from tunecheck._json import JSON
from tunecheck._messages import clean, plural
from tunecheck.cli._console import print_json, print_path, until_pipe_closes, write_output
from tunecheck.cli._evaluate.job import (
    PreparedRun,
    complete_options,
    each_endpoint,
    endpoint_name,
    prepare,
    refuse_simulated,
)
from tunecheck.cli._evaluate.options import Addition, AfterRun, Options
from tunecheck.cli._evaluate.summary import RunPage, intervals_of, run_view, short_view, side_by_side
from tunecheck.cli._gates import GateOutcome, check_error_rate, end_of
from tunecheck.cli._options import DEFAULT_RESULTS, DONE, FAILED, NOT_MET, UNDECIDED, Invocation
from tunecheck.cli._running import every_row_failed, trust_of
from tunecheck.evaluation._ending import EvaluationResult
from tunecheck.evaluation._execution import DEFAULT_CONCURRENCY
from tunecheck.pipeline._finished_rows import PASS_RATE, read_failures
from tunecheck.plugins import added_options
from tunecheck.runs._store import Run, find_run, stopped_text
from tunecheck.views import SIMULATED, console, print_view

if TYPE_CHECKING:
    from tunecheck._files import EvaluatorEntry
    from tunecheck.comparison._judged import Correction
    from tunecheck.results import FirstScreen

_MOST_NAMED = 10


@dataclass(frozen=True)
class _EndedRun:
    """A finished run, with the data for its output and exit code."""

    job: PreparedRun
    summary: RunPage
    result: EvaluationResult
    additions: Sequence[Addition]

    @property
    def code(self) -> int:
        """The exit code: failed if every row failed, else by the gates."""
        if every_row_failed(self.result, "row"):
            return FAILED
        ends = {"met": DONE, "not met": NOT_MET, "undecided": UNDECIDED}
        return ends[end_of(self.summary.gates, self.job.options.undecided)]

    def screen(self) -> FirstScreen:
        """Return the first screen of the run: three sentences and a table."""
        from tunecheck.results import first_screen

        place = self.job.options.results_dir
        return first_screen(
            Run(self.result.run_dir), [] if place is None else ["--results-dir", place], self.summary.failures
        )


def run_job(given: Options, invocation: Invocation) -> int:
    """Run the job on one endpoint, or on several one after another; print the results and return the exit code.

    With several, the worst code counts. With `--dry-run`, only estimates are printed.
    """
    trust = trust_of(given)
    options = complete_options(given, trust, invocation)
    invocation.debug |= options.debug
    invocation.results_dir = options.results_dir or DEFAULT_RESULTS
    jobs = [prepare(each, trust, invocation) for each in each_endpoint(options)]
    if options.dry_run:
        for job in jobs:
            _show_estimate(job)
        return DONE
    ended = [_run_job(job, invocation) for job in jobs]
    with until_pipe_closes():
        _show_all(ended) if len(ended) > 1 else _show(ended[0])
    for failure in (each.failure for run in ended for each in run.additions if each.failure is not None):
        raise failure
    codes = {each.code for each in ended}
    return next(code for code in (FAILED, NOT_MET, UNDECIDED, DONE) if code in codes)


def _run_job(job: PreparedRun, invocation: Invocation) -> _EndedRun:
    """Run a job, write the output files that its options name, and return what the commands print and exit by."""
    options = job.options
    added = [kind for kind in added_options() if isinstance(options, kind)]
    simulated = {"simulated": job.simulated, "allow_simulated": options.allow_simulated}
    after: list[AfterRun] = [kind.before_run(options, **simulated) for kind in added]
    for line in [*([] if options.quiet else _powers(job)), *_in_flight(job)]:
        print(line, file=sys.stderr)
    begun = time.monotonic()
    result = job.run()
    invocation.finished = str(result.run_dir)
    summary = replace(_summary(job, result), seconds=time.monotonic() - begun)
    if options.junit is not None:
        from tunecheck.views import junit

        write_output(options.junit, junit(run_view(summary), summary.seconds))
    if options.markdown is not None:
        from tunecheck.views import markdown

        write_output(options.markdown, markdown(run_view(summary, intervals_of(result.run_dir))))
    return _EndedRun(job, summary, result, [finish(Run(result.run_dir)) for finish in after])


def _in_flight(job: PreparedRun) -> list[str]:
    """Return a note on the rows in flight when the resumed run's process died: one of them may have crashed it.

    An empty list if the process did not die, or no row was in flight.
    """
    options, source = job.options, job.source
    if options.resume is None or source is None:
        return []
    from tunecheck.evaluation._rescoring import rows_in_flight

    run = find_run(options.resume, options.folder)
    if run.status() != "killed" or not run.journal.exists():
        return []
    at_once = options.concurrency or (source.endpoint and source.endpoint.concurrency) or DEFAULT_CONCURRENCY
    found = rows_in_flight(run, source.dataset, job.evaluators, at_once, asked=source.endpoint is not None)
    if not found:
        return []
    more = f" and {len(found) - _MOST_NAMED:,} more" if len(found) > _MOST_NAMED else ""
    names = ", ".join(clean(name, 60) for name in found[:_MOST_NAMED])
    return [f"note: the process of this run died with {plural(len(found), 'row')} in flight: {names}{more}"]


def _show_estimate(job: PreparedRun) -> None:
    """Print what the run would do: its source, evaluators, calls, cost, and the power of its gate."""
    from tunecheck.cli._evaluate.dry_run import RunEstimate, estimate

    recorded = job.recorded
    estimated = estimate(job.execution()) if recorded is None else RunEstimate(rows=len(recorded.rows()))
    if job.options.json:
        power: list[JSON] = [] if job.base is None else [each.as_json() for each in job.base.power]
        print_json({**estimated.as_json(), "simulated": job.simulated, "power": power})
        return
    print(clean(job.label), *([SIMULATED] if job.simulated else []), sep="\n")
    print(f"evaluators: {', '.join(map(clean, job.evaluators))}")
    at_most = bool(job.options.resume or job.options.reuse or job.options.until_decided)
    print(*estimated.lines(at_most=at_most), *_powers(job), sep="\n")


def _powers(job: PreparedRun) -> list[str]:
    """Return the power of the gate against a run with these rows, as lines for users."""
    return [] if job.base is None else [f"{job.base.flag}: {clean(str(each), 400)}" for each in job.base.power]


def _summary(job: PreparedRun, result: EvaluationResult) -> RunPage:
    """Return the content of a finished run's page, with the outcomes of its gates."""
    run = Run(result.run_dir)
    manifest = run.manifest()
    evaluators = manifest.evaluators
    primaries = {name: evaluator.primary for name, evaluator in evaluators.items()}
    metrics = result["metrics"]
    assert isinstance(metrics, dict)
    passing = {name: primary for name, primary in primaries.items() if f"{name}.{PASS_RATE}" in metrics}
    failures = read_failures(result.rows, passing)
    judges = _judges(run, evaluators)
    gates, remarks = _outcomes(job, result, metrics, primaries, judges)
    dataset = job.source.dataset if job.source is not None else None
    return RunPage(
        name=run.id,
        data=str(dataset.path or dataset.name) if dataset is not None else manifest.dataset.path or "recorded rows",
        source=job.label,
        folder=str(run.folder),
        rows=result.row_count,
        failed_rows=result.failed_row_count,
        simulated=result.simulated,
        metrics=metrics,
        by=result.by_group,
        evaluators=evaluators,
        failures=failures,
        gates=gates,
        notes=[*result.notes, *job.remarks(), *remarks],
        usage=result.usage,
        reused=_reuse_text(job.options, result.reused),
        undecided=job.options.undecided,
        stopped=stopped_text(result.decision),
        judges=judges,
        allowed_errors=job.options.max_error_rate or 0.0 if job.is_gated else None,
    )


def _judges(run: Run, evaluators: Mapping[str, EvaluatorEntry]) -> dict[str, Correction]:
    """Return the corrections of judges' pass rates by evaluator; empty if no evaluator is a judge."""
    if not any(each.judge for each in evaluators.values()):
        return {}
    from tunecheck.comparison._judged import corrections

    return corrections(run)


def _reuse_text(options: Options, counts: Mapping[str, int]) -> str:
    """Return how many recorded answers and verdicts were reused; empty if none were and no option asked for it."""
    told = [plural(count, name.removesuffix("s")) for name, count in counts.items() if count]
    asked_for = options.resume is not None or options.reuse is not None
    return f"{' and '.join(told) or 'nothing'} reused" if told or asked_for else ""


def _outcomes(
    job: PreparedRun,
    result: EvaluationResult,
    metrics: Mapping[str, JSON],
    primaries: Mapping[str, str | None],
    judges: Mapping[str, Correction],
) -> tuple[list[GateOutcome], list[str]]:
    """Return the outcomes of all gates, with the one on errors, and notes; two empty lists without gates."""
    if not job.is_gated:
        return [], []
    if result.simulated:  # a judge or a recorded answer may be simulated, too
        refuse_simulated(job.options)
    outcomes = [gate.check(metrics, result.by_group, primaries, judges) for gate in job.gates]
    compared, remarks = ([], []) if job.base is None else job.base.check(result.run_dir)
    errors = check_error_rate(job.options.max_error_rate or 0.0, result.failed_row_count, result.row_count)
    return [*outcomes, *compared, errors], remarks


def _show(run: _EndedRun) -> None:
    """Print a finished run as its options say: as JSON, as its folder, or as a page."""
    options, summary = run.job.options, run.summary
    if options.json:
        print_json(_as_json(run))
    elif options.quiet:
        print_path(summary.folder)
        _warn(summary)
    else:
        print_view(short_view(summary, run.screen(), details=options.details), console(sys.stdout))
        for each in run.additions:
            print(*each.lines, sep="\n", end="\n" if each.lines else "")


def _show_all(runs: Sequence[_EndedRun]) -> None:
    """Print several runs side by side; with `--details` or `--quiet` one after another, with `--json` as a list."""
    options = runs[0].job.options
    if options.json:
        print_json([_as_json(each) for each in runs])
    elif options.quiet or options.details:
        for each in runs:
            _show(each)
    else:
        shown = [(endpoint_name(each.job.options), each.summary, each.screen()) for each in runs]
        print_view(side_by_side(shown), console(sys.stdout))


def _warn(summary: RunPage) -> None:
    """Print on standard error what a quiet run must not hide: simulated answers, an early stop, and gates not met."""
    if summary.simulated:
        print(SIMULATED, file=sys.stderr)
    if summary.stopped:
        print(clean(summary.stopped, 400), file=sys.stderr)
    for outcome in summary.gates:
        if not outcome.met:
            print(f"gate {outcome.end}: {clean(outcome.told, 800)}", file=sys.stderr)


def _as_json(run: _EndedRun) -> dict[str, JSON]:
    """Return a finished run as the JSON object that `--json` prints."""
    summary, result = run.summary, run.result
    added = {key: each.facts[key] for each in run.additions for key in each.facts}
    return {
        "run": summary.name,
        "run_dir": summary.folder,
        "metrics": dict(summary.metrics),
        "by": {column: {value: dict(of) for value, of in values.items()} for column, values in result.by_group.items()},
        "rows": summary.rows,
        "failed_rows": summary.failed_rows,
        "gates": [outcome.as_json() for outcome in summary.gates],
        "usage": dict(summary.usage),
        "simulated": summary.simulated,
        "judges": {name: judge.as_json() for name, judge in summary.judges.items()},
        "notes": list(summary.notes),
        "reused": dict(result.reused),
        "decision": to_builtins(result.decision),
        **added,
    }
