"""A service that scores rows for endpoint-based evaluators of Azure AI Foundry. Request and reply:

{"schema_version": "0.0.1", "data": {"item": {"query": …}, "sample": {"output_text": …}}, …}

{"schema_version": "0.0.1", "status": "Completed", "score": 0.9, "passed": true, "threshold": 0.5, "reason": …,
 "properties": {…}}

The status of a reply, in the order of the checks:

* `Error`: a column is missing, or the evaluator failed; `reason` says why
* `Skipped`: the evaluator does not apply to the row
* `Completed`: `score` is the metric's value; without a value, 1 for a pass and 0 for a fail

The score comes from the metric that decides pass or fail; if there is none, from the first number in the output.
"""

from __future__ import annotations

from collections.abc import Mapping

from aiohttp import web

from tunecheck import pipeline
from tunecheck.endpoints import ALL_SECRETS
from tunecheck.plugins import JSON, Failure, UserLoop
from tunecheck_azure import as_verdict
from tunecheck_serve._server import BadRequestError, Middleware, Service, json_reply, read_object

_VERSION = "0.0.1"
"""The version of the protocol, in requests and replies."""

_MOST_ROWS = 64
"""Rows that a synchronous evaluator scores at once."""


class ServedEvaluator(Service):
    """A service that scores each row posted to /evaluate.

    The evaluator's parameters are taken from the row's `sample` and `item`. If neither has a `response`, the sample's
    `output_text` is used. A row that fails gets the status `Error` and the reason. A row to which the evaluator does
    not apply gets the status `Skipped`.

    Raises:
        ConfigurationError: the evaluator cannot be called with named parameters.
    """

    paths = "/evaluate"

    def __init__(self, name: str, evaluator: object, limit_s: float = pipeline.DEFAULT_TIMEOUT_S) -> None:
        """Prepare the evaluator. `limit_s` is the timeout of one call."""
        self.name, self.about = name, f"the evaluator {name}"
        self._bound = bound = pipeline.bind_evaluator(name, evaluator, {})
        # An LLM judge counts as asynchronous, but outside of a run it is called like a function.
        self._executor: pipeline.Executor = (
            pipeline.AsyncExecutor(bound, _MOST_ROWS, limit_s, UserLoop())
            if bound.asynchronous and not bound.asks_models
            else pipeline.ThreadExecutor([bound], _MOST_ROWS, limit_s)
        )
        self._process: pipeline.ProcessExecutor | None = None

        # A crash of the user's evaluator then ends only its own process, the same as in runs.
        if pipeline.is_of_workspace(bound) and pipeline.can_be_sent(bound):
            self._process = pipeline.ProcessExecutor([bound], limit_s, workers=1, threads=_MOST_ROWS)

    def add_to(self, app: web.Application, middleware: Middleware) -> None:
        """Add the route for rows to the application.

        When the server starts, an evaluator of the user's workspace moves to its own process, if that can load it.
        """

        async def begin(_: web.Application) -> None:
            if self._process is not None and not await self._process.start():  # returns evaluators that it cannot load
                self._executor = self._process

        async def end(_: web.Application) -> None:
            await self._executor.close()

        app.on_startup.append(begin)
        app.on_cleanup.append(end)

        async def evaluate(request: web.Request) -> web.Response:
            return json_reply(await self.reply(read_object(await request.read())))

        app.add_routes([web.post(self.paths, evaluate)])

    def health(self) -> dict[str, JSON]:
        return {"evaluator": self.name}

    async def reply(self, request: Mapping[str, JSON]) -> dict[str, JSON]:
        """Score the row of a request and return the reply, which has the status `Error` if a column is missing.

        Raises:
            BadRequestError: the request has no row.
        """
        try:
            arguments = self._bound.bind(_columns(request.get("data")), {})
        except pipeline.ColumnMissingError as error:
            return _not_scored("Error", str(error.args[0]))

        # The outcomes of one evaluator for one row
        ((outcome,),) = (await self._executor.run([pipeline.Work([arguments], None)])).outcomes
        return self._reply_of(outcome)

    def _reply_of(self, outcome: pipeline.Outcome) -> dict[str, JSON]:
        """Return the reply for an evaluator's outcome: its verdict, a failure without secrets, or "not applicable"."""
        # A partial outcome may have scores and a failure. The failure wins.
        failure = outcome.failure if isinstance(outcome, pipeline.Partial) else outcome
        if isinstance(failure, Failure):
            return _not_scored("Error", str(ALL_SECRETS.answer(f"{failure.type}: {failure.message}")))

        scores = outcome.output if isinstance(outcome, pipeline.Partial) else outcome
        output: pipeline.Output = scores if isinstance(scores, dict) else {}

        with_result = [key.removesuffix(pipeline.RESULT) for key in output if key.endswith(pipeline.RESULT)]
        metric = pipeline.counted_metric(with_result, self.name, self._bound.primary)
        if metric is None:
            metric = next((key for key, value in output.items() if isinstance(value, (int, float))), None)

        row: dict[str, JSON] = {f"outputs.{self.name}.{key}": value for key, value in output.items()}
        verdict = as_verdict(pipeline.VerdictReader(self.name, metric), row)
        if verdict["score"] is None and verdict["passed"] is None:
            return _not_scored("Skipped", verdict["reason"] or "not applicable")

        # Without a score, a pass counts 1 and a fail 0.
        score = verdict["score"] if verdict["score"] is not None else float(verdict["passed"] is True)
        return {"schema_version": _VERSION, "status": "Completed", **verdict, "score": score}


def _columns(data: JSON) -> Mapping[str, JSON]:
    """Return the row's columns: those of `item` and `sample`; if the object has neither, its own keys.

    `output_text` of the sample is the default `response`.

    Raises:
        BadRequestError: the data is not an object.
    """
    if not isinstance(data, dict):
        raise BadRequestError(f"`data` must be an object with `item` (row) and `sample` (answer), not {data!r:.60}")

    item, sample = (part if isinstance(part, dict) else {} for part in (data.get("item"), data.get("sample")))
    # Foundry puts the text of the model's answer here.
    default = {"response": sample["output_text"]} if "output_text" in sample else {}
    return {**default, **item, **sample} if item or sample else data


def _not_scored(status: str, reason: JSON) -> dict[str, JSON]:
    """Return the reply for a row without a score; the status is "Error" or "Skipped"."""
    empty = dict.fromkeys(("score", "passed", "threshold", "properties"))
    return {"schema_version": _VERSION, "status": status, "reason": reason, **empty}
