"""The end of a run: its result, or if it ended early, the manifest's status and the error."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from msgspec import UNSET, ValidationError, to_builtins
from msgspec.structs import replace

from tunecheck._errors import (
    ConfigurationError,
    MissingExtraError,
    RunError,
    RunInterruptedError,
    StopRunError,
    TunecheckError,
    error_text,
)
from tunecheck._files import RunFile, Summary
from tunecheck._json import JSON, convert_value
from tunecheck._targets import Target
from tunecheck.endpoints._api_facts import ApiFacts
from tunecheck.endpoints._base import Endpoint
from tunecheck.pipeline._finished_rows import ResultRow
from tunecheck.pipeline._plan import Tally
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
        self.aggregate_errors = {
            name: {"type": error.type, "message": error.message} for name, error in summary.aggregate_errors.items()
        }

    def _repr_html_(self) -> str:
        """Return the notebook's HTML: each evaluator's rate or mean with its interval, as a chart and a table."""
        from tunecheck.evaluation._shown import result_html

        return result_html(self)

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


class UnansweredError(RunError):
    """The target failed on every row; `result` is the finished run, with an error in each row."""

    def __init__(self, result: EvaluationResult) -> None:
        error = result.rows[0].get("error.target")
        first = f"{error['type']}: {error['message']}" if isinstance(error, dict) else "no answer"
        again = f"--resume {result.run_dir.name} tries again"
        super().__init__(f"the target failed on every row, first with {first}; mend it, and {again}")
        self.result = result


def stopped_by(run: Run, manifest: RunFile, error: BaseException) -> BaseException:
    """Record in the manifest that a run ended early, and return the error to raise."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    interrupted = isinstance(error, (RunInterruptedError, KeyboardInterrupt, asyncio.CancelledError))
    expected = isinstance(error, (TunecheckError, OSError))
    status = "interrupted" if interrupted else "stopped" if expected else "failed"
    reason = "interrupted" if interrupted else error_text(error) if expected else f"{type(error).__name__}: {error}"
    with contextlib.suppress(OSError):  # a full disk may be the reason for the stop
        run.write(replace(manifest, status=status, reason=reason, ended=now()))
    if interrupted:
        return RunInterruptedError(run.folder)
    if isinstance(error, ConfigurationError) or not isinstance(error, Exception):
        return error
    if not run.journal.exists():
        gone = f"its folder {run.folder} was removed or moved while it went on"
        return RunError(f"run {run.id} stopped: {gone}; start it again, or if it was moved, --resume its new folder")
    if isinstance(error, StopRunError) and not error.resumable:
        return RunError(f"run {run.id} stopped: {reason}; correct that and start a new run")
    return RunError(f"run {run.id} stopped: {reason}; go on with --resume {run.id}")


def now() -> str:
    """Return the current time in the format of manifests."""
    return utc_now().isoformat()


# -- facts about the endpoints' APIs that a run learns, and restores when it is resumed


@dataclass(frozen=True)
class EndpointFacts:
    """The endpoints of a run (by evaluator, or `target`), and access to the facts known about their APIs."""

    endpoints: Mapping[str, Endpoint]

    @classmethod
    def of(cls, target: Target | None, evaluators: Sequence[BoundEvaluator]) -> EndpointFacts:
        """Return the endpoints of a run's target and evaluators."""
        own = getattr(target, "endpoint", None)
        asked = {"target": own} if isinstance(own, Endpoint) else {}
        return cls(asked | {each.name: each.endpoint for each in evaluators if each.endpoint is not None})

    def check_prices(self, max_cost: float | None) -> None:
        """Check that every price is known if the cost is limited.

        Raises:
            ConfigurationError: A price is unknown.
        """
        asked = self.endpoints
        priced = [endpoint for endpoint in asked.values() if endpoint.price is not None]
        if max_cost is None or len(priced) == len(asked) > 0:
            return
        unknown = [f"{e.name!r}, which {n!r} asks" for n, e in asked.items() if e.price is None and n != "target"]
        if unknown or not priced:
            raise ConfigurationError(
                f"max_cost: unknown price of {unknown[0] if unknown else 'the calls'}: "
                "write `price:` in the endpoint's definition, or give --prices FILE"
            )

    def known(self) -> dict[str, JSON]:
        """Return the known facts by endpoint, in the format of manifests."""
        found = {name: endpoint.facts for name, endpoint in self.endpoints.items() if endpoint.facts != ApiFacts()}
        return {name: to_builtins(facts) for name, facts in found.items()}

    def added_to(self, manifest: RunFile) -> RunFile:
        """Return the manifest with the facts known now, so that a resumed run has them."""
        found = replace(manifest, api=self.known())
        return sign_manifest(found) if began_here(manifest) else found

    def recall_from(self, manifest: RunFile) -> None:
        """Restore the facts that this run's earlier part learned.

        Facts in other people's manifests are ignored, because they would change requests.
        """
        self.recall(manifest.api if began_here(manifest) else {})

    def recall(self, found: Mapping[str, JSON]) -> None:
        """Restore facts by endpoint."""
        for name, endpoint in self.endpoints.items():
            with contextlib.suppress(ValidationError):  # written by another version: the run learns the facts again
                endpoint.facts = convert_value(found[name], ApiFacts) if name in found else endpoint.facts

    def sentences(self) -> Iterator[str]:
        """Yield the known facts as sentences."""
        for endpoint in self.endpoints.values():
            yield from (f"endpoint {endpoint.name!r}: {sentence}" for sentence in endpoint.facts.sentences())
