"""Does the runs of `evaluate` and `score`, shows their results, and returns the exit code.

The commands call `run_command()`. It prepares a run for each endpoint, does it, and fills the page of its results.

**The exit code** of one run is the first of these; of several runs, the first of any:

1. 1 (FAILED): every row failed
2. 3 (NOT_MET): a gate is not met
3. 4 (UNDECIDED): a gate is undecided
4. 0 (DONE)
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import to_builtins
from msgspec.structs import replace

from tunecheck import comparison, plugins, views
from tunecheck._errors import TunecheckError
from tunecheck._json import JSON
from tunecheck._messages import clean
from tunecheck.cli._console import print_json, print_path, print_result, until_pipe_closes, write_output
from tunecheck.cli._evaluate import prepared_run
from tunecheck.cli._evaluate.options import Addition, AfterRun, Options, own_options
from tunecheck.cli._evaluate.summary import RunPage, intervals_of, run_view, short_view, side_by_side
from tunecheck.cli._gates import GateOutcome, check_error_rate, end_of
from tunecheck.cli._options import DEFAULT_RESULTS, DONE, FAILED, NOT_MET, UNDECIDED, Invocation
from tunecheck.cli._running import every_row_failed, run_summary, trust_of
from tunecheck.evaluation._ending import EvaluationResult
from tunecheck.evaluation._execution import DEFAULT_CONCURRENCY
from tunecheck.pipeline._finished_rows import primaries_with_pass_rate, read_failures
from tunecheck.runs._store import Run, find_run

if TYPE_CHECKING:
    from tunecheck._files import EvaluatorEntry
    from tunecheck.comparison._judged import Correction

_MOST_NAMED = 10
"""The most rows in progress that a note names."""


def run_command(given: Options, invocation: Invocation) -> int:
    """Evaluate one endpoint, or several one after another; print the results and return the exit code.

    If several runs end differently, the first of these codes counts: failed, gate not met, undecided, done. With
    `--dry-run`, only estimates are printed.

    Raises:
        TunecheckError: the options are wrong, a run fails, or an option of a plug-in fails after the runs.
    """
    trust = trust_of(given)
    options = prepared_run.complete_options(given, trust, invocation)
    invocation.debug |= options.debug
    invocation.results_dir = options.results_dir or DEFAULT_RESULTS

    # All runs are prepared before the first one starts, so that a mistake in the last one costs no calls.
    prepared_runs = [prepared_run.prepare(single, trust, invocation) for single in prepared_run.each_endpoint(options)]
    if options.dry_run:
        for prepared in prepared_runs:
            _show_estimate(prepared)
        return DONE

    pages = [_run_prepared(prepared, invocation) for prepared in prepared_runs]
    with until_pipe_closes():
        _show(pages)

    for addition in (addition for page in pages for addition in page.additions):
        if addition.failure is not None:
            raise addition.failure

    codes = {_exit_code(page, "row" if len(pages) == 1 else f"row of {page.name}") for page in pages}
    return next(code for code in (FAILED, NOT_MET, UNDECIDED, DONE) if code in codes)


def _exit_code(page: RunPage, noun: str) -> int:
    """Return the exit code: failed if every row failed, else by the gates; messages call a row `noun`."""
    if every_row_failed(page.result, noun):
        return FAILED
    return {"met": DONE, "not met": NOT_MET, "undecided": UNDECIDED}[end_of(page.gates, page.options.undecided)]


def _run_prepared(prepared: prepared_run.PreparedRun, invocation: Invocation) -> RunPage:
    """Do a prepared run, let plug-ins act before and after it, and write the output files that its options name."""
    options = prepared.options
    # `before_run` refuses a wrong destination before the first call, and returns what to do with the finished run.
    simulated = {"simulated": prepared.simulated, "allow_simulated": options.allow_simulated}
    after = [(by, plugins.call(by, own.before_run, returns=Callable, **simulated)) for by, own in own_options(options)]

    notes = _in_flight_notes(prepared) if options.quiet else [*_power_lines(prepared), *_in_flight_notes(prepared)]
    for note in notes:
        print(note, file=sys.stderr)

    begun = time.monotonic()
    result = prepared.run()
    invocation.finished = str(result.run_dir)

    page = _run_page(prepared, result, begun)
    # A pipeline's files are written even if the reader of the output then closes the pipe.
    if options.junit is not None:
        write_output(options.junit, views.junit(run_view(page), page.seconds))
    if options.markdown is not None:
        write_output(options.markdown, views.markdown(run_view(page)))

    return replace(page, additions=[_addition(origin, finish, Run(result.run_dir)) for origin, finish in after])


def _addition(origin: plugins.Candidate, finish: AfterRun, run: Run) -> Addition:
    """Call a plug-in's function with the finished run; an error is raised later, after the results are printed."""
    try:
        return plugins.call(origin, finish, run, returns=Addition)
    except TunecheckError as error:
        return Addition(failure=error)


def _in_flight_notes(prepared: prepared_run.PreparedRun) -> list[str]:
    """Return a note on the rows in flight when the resumed run's process died: one of them may have crashed it.

    The list is empty if the process did not die, or no row was in flight.
    """
    options, dataset = prepared.options, prepared.source
    if options.resume is None or isinstance(dataset, Run):
        return []
    from tunecheck.evaluation._rescoring import rows_in_flight

    run = find_run(options.resume, options.folder)
    if run.status() != "killed" or not run.journal.exists():
        return []

    # Rows are answered in order: the first ones without an answer or a verdict were in progress.
    endpoint = prepared.endpoint
    concurrency = options.concurrency or (None if endpoint is None else endpoint.concurrency) or DEFAULT_CONCURRENCY
    row_ids = rows_in_flight(run, dataset, prepared.evaluators, concurrency, asked=endpoint is not None)

    if not row_ids:
        return []

    more = f" and {len(row_ids) - _MOST_NAMED:,} more" if len(row_ids) > _MOST_NAMED else ""
    names = ", ".join(clean(row_id, 60) for row_id in row_ids[:_MOST_NAMED])
    return [f"note: when this run's process died, these rows were in progress; one may be the cause: {names}{more}"]


def _show_estimate(prepared: prepared_run.PreparedRun) -> None:
    """Print what the run would do: its source, evaluators, calls, cost, and the power of its gate."""
    from tunecheck.cli._evaluate.dry_run import RunEstimate, estimate

    source = prepared.source
    estimated = RunEstimate(rows=len(source.rows())) if isinstance(source, Run) else estimate(prepared.execution())

    if prepared.options.json:
        powers: list[JSON] = [] if prepared.base is None else [power.to_json() for power in prepared.base.power]
        print_json({**estimated.as_json(), "simulated": prepared.simulated, "power": powers})
        return

    names = ", ".join(map(clean, prepared.evaluators))
    head = [clean(prepared.label), *([views.SIMULATED] if prepared.simulated else []), f"evaluators: {names}"]

    # --resume and --reuse keep answers, and --until-decided may stop early: the number of calls is only an upper limit.
    at_most = bool(prepared.options.resume or prepared.options.reuse or prepared.options.until_decided)
    lines = [*head, *_power_lines(prepared), *estimated.lines(at_most=at_most)]
    print_result(views.View("estimate", [views.Text(lines)]))


def _power_lines(prepared: prepared_run.PreparedRun) -> list[str]:
    """Return a line for each pass rate: the power of the gate against a run; empty without such a gate."""
    base = prepared.base
    return [] if base is None else [f"{base.flag}: {clean(str(power), 400)}" for power in base.power]


def _run_page(prepared: prepared_run.PreparedRun, result: EvaluationResult, begun: float) -> RunPage:
    """Return the content of a finished run's page; the run began at this time by time.monotonic()."""
    run, source = Run(result.run_dir), prepared.source
    manifest = run.manifest()
    evaluators = manifest.evaluators

    judges = comparison.corrections(run) if any(entry.judge for entry in evaluators.values()) else {}
    gates, gate_notes = _check_gates(prepared, result, evaluators, judges) if prepared.is_gated else ([], [])

    return RunPage(
        options=prepared.options,
        data=(manifest.dataset.path or "recorded rows") if isinstance(source, Run) else str(source.path or source.name),
        source=prepared.label,
        result=result,
        evaluators=evaluators,
        failures=read_failures(result.rows, primaries_with_pass_rate(evaluators, result.metrics)),
        gates=gates,
        notes=[*result.notes, *prepared.remarks(), *gate_notes],
        judges=judges,
        seconds=time.monotonic() - begun,
        intervals={} if prepared.options.markdown is None else intervals_of(result.run_dir),
    )


def _check_gates(
    prepared: prepared_run.PreparedRun,
    result: EvaluationResult,
    evaluators: Mapping[str, EvaluatorEntry],
    judges: Mapping[str, Correction],
) -> tuple[list[GateOutcome], list[str]]:
    """Return the outcomes of all gates, the one on errors last, and the notes of a gate against a run.

    `judges` has the corrected pass rates of LLM judges by evaluator.
    """
    if result.simulated:  # a judge or a recorded answer may be simulated, too
        prepared_run.require_allow_simulated(prepared.options)

    primaries = {name: entry.primary for name, entry in evaluators.items()}
    outcomes = [gate.check(result.metrics, result.by_group, primaries, judges) for gate in prepared.gates]
    # `read_base` checked before the run that its rows pair with the base's.
    compared, notes = ([], []) if prepared.base is None else prepared.base.check(result.run_dir)

    errors = check_error_rate(prepared.options.max_error_rate or 0.0, result.failed_row_count, result.row_count)
    return [*outcomes, *compared, errors], notes


def _show(pages: Sequence[RunPage]) -> None:
    """Print finished runs as their options say: as JSON, as folders, side by side, or each as a page."""
    options = pages[0].options
    if options.json:
        facts: list[JSON] = [_as_json(page) for page in pages]
        print_json(facts if len(pages) > 1 else facts[0])
    elif len(pages) > 1 and not (options.quiet or options.details):
        print_result(side_by_side(pages))
    else:
        for page in pages:
            if options.quiet:
                print_path(page.folder)
                _warn(page)
            else:
                print_result(run_view(page) if options.details else short_view(page))
                for line in (line for addition in page.additions for line in addition.lines):
                    print(line)


def _warn(page: RunPage) -> None:
    """Print on standard error what a quiet run must not hide: simulated answers, an early stop, and gates not met."""
    for notice in page.notices:
        print(clean(notice, 400), file=sys.stderr)
    for outcome in page.gates:
        if not outcome.met:
            print(f"gate {outcome.end}: {clean(outcome.told, 800)}", file=sys.stderr)


def _as_json(page: RunPage) -> dict[str, JSON]:
    """Return a finished run as the JSON object that `--json` prints."""
    result = page.result
    added = {key: fact for addition in page.additions for key, fact in addition.facts.items()}
    by = {column: {value: dict(own) for value, own in groups.items()} for column, groups in result.by_group.items()}

    return {
        **run_summary(result),
        "metrics": dict(result.metrics),
        "by": by,
        "gates": [outcome.as_json() for outcome in page.gates],
        "usage": dict(result.usage),
        "judges": {name: judge.to_json() for name, judge in page.judges.items()},
        "notes": list(page.notes),
        "reused": dict(result.reused),
        "decision": to_builtins(result.decision),
        **added,
    }
