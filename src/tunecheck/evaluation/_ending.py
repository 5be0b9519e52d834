"""The event loop of a run, and the end of a run: its result, or if it ended early, its status and the error.

The error that ends a run decides the status in run.json, and the error that the caller gets:

1.  `interrupted`: Ctrl-C, SIGTERM or a cancelled task. The caller gets a RunInterruptedError.
2.  `stopped`: an error of Tunecheck or of the operating system, such as a full disk.
3.  `failed`: any other error.

For 2 and 3, the caller gets a RunError with advice to resume. A ConfigurationError is passed on unchanged.

Ctrl-C stops a run in order: no further call is sent, and calls in flight get 10 seconds. A second Ctrl-C ends them at
once. If user code blocks the event loop, the second one raises LeftAtOnceError.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import wait
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Protocol

from msgspec import UNSET, ValidationError, to_builtins
from msgspec.structs import replace

from tunecheck._errors import (
    ConfigurationError,
    LeftAtOnceError,
    MissingExtraError,
    RunError,
    RunInterruptedError,
    StopRunError,
    TunecheckError,
    error_text,
)
from tunecheck._files import RunFile, Summary
from tunecheck._json import JSON, convert_value
from tunecheck._loops import Call
from tunecheck._messages import plural
from tunecheck._progress import NotebookProgress, Progress, ProgressBar, ProgressCallback
from tunecheck._targets import Load, Target
from tunecheck.endpoints._api_facts import ApiFacts
from tunecheck.endpoints._base import Endpoint
from tunecheck.pipeline._finished_rows import PASS_RATE, ResultRow
from tunecheck.pipeline._plan import Plan, Tally
from tunecheck.pipeline._scoring import BoundEvaluator
from tunecheck.runs._store import Run, began_here, sign_manifest, utc_now

if TYPE_CHECKING:
    import pandas


class EvaluationResult(dict[str, object]):
    """`{"rows", "metrics", "studio_url"}`, as Azure AI Evaluation returns it, with more results as attributes.

    Attributes:
        rows: The rows, as under `"rows"`.
        metrics: The metrics, as under `"metrics"`.
        run_dir: The run's folder.
        by_group: Metrics by `row_kind` and by each `group_by` column: `{column: {value: metrics}}`.
        usage: Calls, tokens and cost of the target and of each evaluator that calls models:
            `{name: {"calls", "input_tokens", "output_tokens", "cost", …}}`.
        row_count: The number of rows.
        failed_row_count: The number of rows with an error.
        unanswered: True if the target failed on every row.
        simulated: True if an answer or a judge's verdict is simulated.
        notes: Remarks on the run.
        reused: The numbers of recorded `answers` and `verdicts` that were reused.
        decision: The decision of a run that may stop early.
        aggregate_errors: Errors of `__aggregate__` by evaluator: `{name: {"type", "message"}}`.
    """

    def __init__(self, run: Run, summary: Summary, rows: Sequence[ResultRow], tally: Tally) -> None:
        """Build the result from a finished run's summary and rows."""
        super().__init__(rows=rows, metrics=summary.metrics, studio_url=None)
        self.rows = rows
        self.metrics = summary.metrics
        self.run_dir = run.folder
        self.by_group = summary.by
        self.usage = summary.usage
        self.row_count = summary.rows
        self.failed_row_count = summary.failed_rows
        self.unanswered = bool(summary.rows) and tally.unanswered == summary.rows
        self.simulated = summary.simulated
        self.notes = summary.notes
        self.reused = {"answers": tally.reused, "verdicts": tally.reused_verdicts}
        self.decision = None if summary.decision is UNSET else summary.decision
        errors = summary.aggregate_errors.items()
        self.aggregate_errors = {name: {"type": error.type, "message": error.message} for name, error in errors}

    def _repr_html_(self) -> str:
        """Return the notebook's HTML: each evaluator's rate or mean with its interval, as a chart and a table."""
        return _result_html(self)

    def to_pandas(self) -> pandas.DataFrame:
        """Return the rows as a DataFrame.

        Raises:
            MissingExtraError: pandas is not installed.
        """
        try:
            import pandas
        except ImportError:
            raise MissingExtraError("to_pandas()", "pandas") from None
        return pandas.DataFrame(list(self.rows))


def _result_html(result: EvaluationResult) -> str:
    """Return the notebook's HTML of a result: each evaluator's pass rate or mean; a calibrated judge's is corrected."""
    from tunecheck.comparison._judged import corrections  # only notebooks need these
    from tunecheck.comparison._wording import value_text
    from tunecheck.results import main_figure_of, with_interval
    from tunecheck.views import SIMULATED, Chart, Interval, Table, Text, View, html

    run, metrics = Run(result.run_dir), result["metrics"]
    assert isinstance(metrics, dict)
    judges, rows, intervals = corrections(run), list[Sequence[str]](), list[Interval]()

    for name, entry in run.manifest().evaluators.items():
        raw, judge = with_interval(main_figure_of(name, entry, metrics), metrics), judges.get(name)
        corrected = None if judge is None else judge.corrected
        label, figure = name, corrected or raw
        if judge is not None and (corrected or raw.is_rate):
            label = f"{name}, {judge.corrected_label if corrected else judge.raw_label}"

        value = value_text("binary" if f"{name}.{PASS_RATE}" in metrics else "score", figure.value)
        interval = "" if figure.low is None or figure.high is None else f"{figure.low:.1%} to {figure.high:.1%}"
        counts = [metrics.get(f"{name}.{key}_count") for key in ("scored", "not_applicable", "error")]
        rows.append((label, value, interval, *(f"{n:,}" if isinstance(n, int) else "" for n in counts)))
        if figure.low is not None:
            intervals.append(Interval(label, figure.value, figure.low, figure.high))

    errors = f", {result.failed_row_count:,} with an error" if result.failed_row_count else ""
    lines = [f"{run.id} · {plural(result.row_count, 'row')}{errors}", *([SIMULATED] if result.simulated else [])]
    heads = ("evaluator", "pass rate or mean", "95% interval", "scored", "not applicable", "errors")
    return html(View(run.id, [Text(lines), Chart(intervals), Table(heads, rows)], result.notes))


class UnansweredError(RunError):
    """The target failed on every row; `result` is the finished run, with an error in each row."""

    def __init__(self, result: EvaluationResult) -> None:
        """Make the error's text from the first row's error, with advice to resume the run."""
        error = result.rows[0].get("error.target")
        first = f"{error['type']}: {error['message']}" if isinstance(error, dict) else "no answer"
        again = Run(result.run_dir).resuming()
        super().__init__(f"the target failed on every row, first with {first}: correct this, then go on with {again}")
        self.result = result


def stopped_by(run: Run, manifest: RunFile, error: BaseException) -> BaseException:
    """Record in the manifest that a run ended early and why; return the error to raise, with advice to go on.

    Return a ConfigurationError, or an exception such as SystemExit, unchanged.
    """
    # Groups come from the engine's task group; their first error is the cause.
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]

    if isinstance(error, (RunInterruptedError, KeyboardInterrupt, asyncio.CancelledError)):
        status = reason = "interrupted"
    elif isinstance(error, (TunecheckError, OSError)):
        status, reason = "stopped", error_text(error)
    else:
        status, reason = "failed", f"{type(error).__name__}: {error}"

    with contextlib.suppress(OSError):  # a full disk may be the reason for the stop
        run.write(replace(manifest, status=status, reason=reason, ended=now()))

    if status == "interrupted":
        return RunInterruptedError(run.folder, run.resuming())
    if isinstance(error, ConfigurationError) or not isinstance(error, Exception):
        return error

    if not run.journal.exists():
        gone = f"its folder {run.folder} was removed or moved"
        return RunError(f"run {run.id} stopped: {gone}: start a new run, or resume the moved folder")

    if isinstance(error, StopRunError) and not error.resumable:
        return RunError(f"run {run.id} stopped: {reason}; correct the cause and start a new run")
    return RunError(f"run {run.id} stopped: {reason}; go on with {run.resuming()}")


def now() -> str:
    """Return the current time in the format of manifests."""
    return utc_now().isoformat()


# -- facts about the endpoints' APIs that a run learns, and restores when it is resumed


class EndpointFacts:
    """The endpoints of a run (by evaluator, or `target`), and access to the facts known about their APIs.

    A fact is for example that an API refuses a parameter. A resumed run knows it and leaves the parameter out.
    """

    def __init__(self, target: Target | None, evaluators: Sequence[BoundEvaluator]) -> None:
        """Find the endpoints of a run's target and evaluators."""
        own = getattr(target, "endpoint", None)
        self.endpoints: dict[str, Endpoint] = {"target": own} if isinstance(own, Endpoint) else {}
        self.endpoints |= {judge.name: judge.endpoint for judge in evaluators if judge.endpoint is not None}

    def check_prices(self, max_cost: float | None, *, by_command: bool) -> None:
        """If the cost is limited, check that the prices of all judges and of at least one endpoint are known.

        `by_command`: a command with the option --prices started the run.

        Raises:
            ConfigurationError: A price is unknown; the text names the endpoint.
        """
        if max_cost is None:
            return

        unpriced = {name: endpoint for name, endpoint in self.endpoints.items() if endpoint.price is None}
        judges = [f"{endpoint.name!r} (called by {name!r})" for name, endpoint in unpriced.items() if name != "target"]
        if judges or len(unpriced) == len(self.endpoints):  # also if there are no endpoints
            unknown = f"the price of {judges[0] if judges else 'the calls'} is unknown"
            advice = f"write `price:` in the endpoint's definition{', or give --prices FILE' if by_command else ''}"
            if not self.endpoints:
                unknown, advice = "this run has no endpoint", "leave the limit out"
            raise ConfigurationError(f"--max-cost (max_cost=…) needs prices, but {unknown}: {advice}")

    def known(self) -> dict[str, JSON]:
        """Return the known facts by endpoint, in the format of manifests."""
        learned = {name: endpoint.facts for name, endpoint in self.endpoints.items() if endpoint.facts != ApiFacts()}
        return {name: to_builtins(facts) for name, facts in learned.items()}

    def added_to(self, manifest: RunFile) -> RunFile:
        """Return the manifest with the facts known now, for a resumed run; sign it if this user began the run."""
        extended = replace(manifest, api=self.known())
        return sign_manifest(extended) if began_here(manifest) else extended

    def recall(self, facts: Mapping[str, JSON]) -> None:
        """Restore facts about endpoints' APIs, by evaluator or `target`; facts that cannot be read are ignored.

        Facts in other people's manifests must be left out, because they would change requests.
        """
        for name in self.endpoints.keys() & facts.keys():
            with contextlib.suppress(ValidationError):  # written by another version: the run learns the facts again
                self.endpoints[name].facts = convert_value(facts[name], ApiFacts)

    def sentences(self) -> Iterator[str]:
        """Yield the known facts as sentences."""
        for endpoint in self.endpoints.values():
            yield from (f"endpoint {endpoint.name!r}: {sentence}" for sentence in endpoint.facts.sentences())


# -- the event loop of a run: progress, and an orderly stop on Ctrl-C


class Closable(Protocol):
    """A target or an evaluator with connections to close at the end of a run."""

    async def close(self) -> None:
        """Close the connections."""


class RunsPlan(Protocol):
    """An engine that runs a plan in an event loop."""

    plan: Plan
    tally: Tally

    async def run(self) -> None:
        """Process all rows.

        Raises:
            BaseException: the error that stopped the run.
        """

    def stop(self, reason: BaseException) -> None:
        """Start no more work; `run` then raises the reason."""

    def load(self) -> Load | None:
        """Return the current load of the target's service, or None if unknown."""

    def waiting_for(self) -> str:
        """Return a remark for the progress line; it may be empty."""


_GRACE_S = 10.0
"""How long calls in flight may take after Ctrl-C."""

_PROGRESS_EVERY_S = 0.1
"""Interval in seconds between two reports of the progress."""


def run_engine(engine: RunsPlan, closing: Mapping[str, Closable], show: ProgressCallback | None) -> None:
    """Run the engine in a new event loop; if this thread already runs a loop (in a notebook), use another thread.

    At the end, close all of `closing` in that loop and restore the working folder. `show` is called with the progress.

    Raises:
        BaseException: the error that stopped the run, such as RunInterruptedError after Ctrl-C. A second Ctrl-C may
            raise KeyboardInterrupt.
    """
    stopper = _Stopper(engine)
    folder = Path.cwd()
    call = Call(lambda: asyncio.run(_run(engine, closing, show, stopper)))

    running_loop = None
    with contextlib.suppress(RuntimeError):  # as usual, this thread runs no loop
        running_loop = asyncio.get_running_loop()

    try:
        if running_loop is not None:
            # The signal of a notebook's stop button reaches this thread. A signal handler of asyncio would run only in
            # the notebook's loop, which `wait` blocks.
            with _interruptible(stopper):
                threading.Thread(target=call.run, name="tunecheck-run", daemon=True).start()
                wait([call])
        else:
            call.run()
        call.result()
    except KeyboardInterrupt:
        stopper.forget()
        raise
    finally:
        with contextlib.suppress(OSError):  # the folder was removed meanwhile
            os.chdir(folder)


class _Stopper:
    """Stops a run at the request of a signal handler or another thread.

    A request is pending until the run's event loop handles it. The first one stops the engine, the second one cancels
    its task.
    """

    def __init__(self, engine: RunsPlan) -> None:
        """Prepare to stop this engine; `bind` tells which task runs it."""
        self._engine = engine
        self.requests = 0
        self._handled = 0
        self._task: asyncio.Task[object] | None = None

    def bind(self) -> None:
        """Remember the current task as the one to stop; stop it at once if that was requested before."""
        self._task = asyncio.current_task()
        # Ctrl-C may have come before the loop ran.
        if self.requests:
            self._stop()

    def request(self) -> bool:
        """Request an orderly stop: calls in flight get 10 seconds. A second request ends them at once.

        Return False if an earlier request is still pending because code blocks the loop.
        """
        if self.requests > self._handled:
            return False
        self.requests += 1
        if self._task is not None:
            self._task.get_loop().call_soon_threadsafe(self._stop)
        return True

    def _stop(self) -> None:
        """Stop the engine, and cancel the task 10 seconds later. A second call cancels the task at once."""
        assert self._task is not None
        self._handled += 1
        if self._handled > 1:
            self._task.cancel()
            return

        self._engine.stop(RunInterruptedError())
        self._task.get_loop().call_later(_GRACE_S, self._task.cancel)

    def forget(self) -> None:
        """Retrieve the task's exception, so that asyncio does not report it as never retrieved."""
        if self._task is not None and self._task.done() and not self._task.cancelled():
            self._task.exception()


async def _run(
    engine: RunsPlan, closing: Mapping[str, Closable], show: ProgressCallback | None, stopper: _Stopper
) -> None:
    """Run the engine with progress and an orderly stop; then close connections and note what the service refused."""
    stopper.bind()
    ticker = asyncio.create_task(_tick(engine, show))

    try:
        with _interruptible(stopper):
            await engine.run()
    finally:
        ticker.cancel()
        if show is not None:
            _show(engine, show)
            if isinstance(show, (ProgressBar, NotebookProgress)):
                show.close()

        load = engine.load()
        if load is not None and load.refused:
            engine.tally.notes.append(load.sentence())

        # Connections are closed in the loop that opened them.
        for name, closable in closing.items():
            try:
                await closable.close()
            except Exception as error:  # noqa: BLE001 - all answers are complete: an error of closing must not lose them
                engine.tally.notes.append(f"closing {name} failed: {type(error).__name__}: {error}")


async def _tick(engine: RunsPlan, show: ProgressCallback | None) -> None:
    """Show the progress ten times a second until cancelled; after an error in showing it, only keep the loop awake."""
    while True:  # also without `show`, because a signal to another thread does not wake the loop
        if show is not None and not _show(engine, show):
            show = None
        await asyncio.sleep(_PROGRESS_EVERY_S)


def _show(engine: RunsPlan, show: ProgressCallback) -> bool:
    """Report the run's progress; return False if the caller's function raised an error, which does not end the run."""
    tally, load = engine.tally, engine.load()
    remarks = ["" if load is None else load.brief(), engine.waiting_for()]
    remark = ", ".join(filter(None, remarks))

    try:
        show(Progress(engine.plan.row_count, tally.answered, tally.finished, tally.failed, tally.reused, remark))
    except Exception as error:  # noqa: BLE001 - an error in a caller's function must not end a costly run
        note = f"progress could not be shown: {type(error).__name__}: {error}"
        if note not in tally.notes:
            tally.notes.append(note)
        return False
    return True


@contextlib.contextmanager
def _interruptible(stopper: _Stopper) -> Iterator[None]:
    """Within this block, Ctrl-C and SIGTERM stop the run in order; a second Ctrl-C ends calls in flight at once.

    If code blocks the loop, a second Ctrl-C raises LeftAtOnceError. Outside of the main thread, signals are not
    handled.
    """

    def interrupt(number: int, frame: FrameType | None) -> None:
        """Handle a signal: request an orderly stop; ignore SIGTERM if one was requested before.

        Raises:
            LeftAtOnceError: an earlier request is still pending, because code blocks the loop.
        """
        if number == signal.SIGTERM and stopper.requests:
            return
        if not stopper.request():
            raise LeftAtOnceError

    # Python handles signals in the main thread only.
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    before = {number: signal.signal(number, interrupt) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler or signal.SIG_DFL)  # None is a handler that was not set by Python
