"""`--dry-run`: makes all checks before a run's first call, and estimates its calls, tokens and cost.

| estimated | from |
|---|---|
| calls of the endpoint | one per row; for conversations, the requests that the ground truth needs |
| tokens in | the characters of messages and tools, divided by 4 |
| tokens out | the characters of the ground truth, divided by 4, up to the answer's limit; 500 without a ground truth |
| calls of a judge | one per row and sample, if the judge has all its inputs; its answer has 400 characters |

A ground truth in a conversation is divided evenly among its requests. Prices are those of the endpoints and `--prices`.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from tunecheck._json import JSON, dumps
from tunecheck._messages import clean, plural
from tunecheck._targets import Row, Target
from tunecheck.cli._baseline import ASSUMED_CHANGE
from tunecheck.endpoints._base import ChatRequest, Endpoint, output_limit
from tunecheck.endpoints._target import EndpointTarget
from tunecheck.episodes._target import ConversationTarget
from tunecheck.evaluation._execution import Execution
from tunecheck.evaluators._judges.prompty import PromptyEvaluator
from tunecheck.pipeline._costs import Spending, cost_of, cost_text, expected_usage
from tunecheck.pipeline._finished_rows import order_evaluators
from tunecheck.pipeline._scoring import BoundEvaluator, row_kind_reader, value_reader
from tunecheck.statistics._decisions import smallest_binary

_JUDGEMENT = 400
"""Assumed length of a judge's answer in characters."""

_UNKNOWN_ANSWER: Mapping[str, JSON] = {"response": "", "text": "", "tool_calls": None}
"""An answer that is not known yet, for a judge's prompt; its expected length is added to that of the prompt."""


class RunEstimate(msgspec.Struct):
    """Estimated calls of the endpoint, and the maximum calls of each judge, as some rows may need none.

    An answer is assumed to be as long as its ground truth, up to its limit. Tokens are a quarter of the characters.
    `unaskable` counts the rows for which no request can be made; `problem` is the first one's error.
    """

    rows: int = 0
    asked: Spending = msgspec.field(default_factory=Spending)
    unaskable: int = 0
    problem: str = ""
    judges: dict[str, Spending] = msgspec.field(default_factory=dict)
    note: str | None = None
    trials: int = 1
    primary: str | None = None

    @property
    def smallest_difference(self) -> float | None:
        """The smallest difference of pass rates that these rows show with 80% power; None if no difference is shown."""
        return smallest_binary(self.rows / self.trials, ASSUMED_CHANGE, 0.8, 0.05) if self.rows else None

    def as_json(self) -> dict[str, JSON]:
        """Return the estimate as the JSON object that `--dry-run --json` prints."""
        return {
            "dry_run": True,
            "rows": self.rows,
            **self.asked.summary(),
            "unaskable_rows": self.unaskable,
            "judges": {name: judge.summary() for name, judge in self.judges.items()},
            "primary": self.primary,
            "smallest_difference": self.smallest_difference,
        }

    def lines(self, *, at_most: bool) -> Iterator[str]:
        """Yield the estimate for users; with `at_most`, the number of calls is marked as an upper limit."""
        asked, smallest = self.asked, self.smallest_difference
        if self.note:
            yield f"rows: {clean(self.note, 300)}"
        if self.trials > 1:
            yield f"rows: {self.rows // self.trials:,}, and each runs {self.trials:,} times"

        if self.primary is not None:
            shown = f"only differences above {100 * smallest:.1f} points are" if smallest else "no difference is"
            assumed = f"if {ASSUMED_CHANGE:.0%} of rows change between runs"
            yield f"primary metric: {clean(self.primary)}; with these rows, {shown} detectable ({assumed})"

        yield f"{plural(self.rows, 'row')}, {plural(asked.calls, 'call')}{' at most' if at_most else ''}"
        if asked.calls:
            yield f"about {asked.input_tokens:,} tokens in, {asked.output_tokens:,} out (as long as the ground truth)"
        if price := cost_text(asked.summary(), ",.2f"):
            yield f"about {price}"

        for name, judge in self.judges.items():
            tokens = f"about {judge.input_tokens:,} tokens in, {judge.output_tokens:,} out"
            spent = ", ".join(filter(None, (tokens, cost_text(judge.summary(), ",.2f"))))
            yield f"{clean(name)}: at most {plural(judge.calls, 'model call')}, {spent}"

        if self.unaskable:
            yield f"{plural(self.unaskable, 'row')} cannot be sent, such as {clean(self.problem)}"
        yield "no call was made, no file was written"


def estimate(execution: Execution) -> RunEstimate:
    """Check a run and estimate its calls, tokens and costs, without making a call.

    Raises:
        ConfigurationError: the run's settings are invalid.
    """
    execution.check(execution.dataset.scan())

    ground_truth = value_reader(execution.layers, "ground_truth")
    judges = [evaluator for evaluator in execution.evaluators if isinstance(evaluator.function, PromptyEvaluator)]
    row_kind = row_kind_reader(execution.layers)
    kinds: set[str | None] = set()

    spending = {judge.name: Spending() for judge in judges}
    estimated = RunEstimate(judges=spending, note=execution.dataset.note, trials=execution.settings.repeat)

    for row in execution.dataset.rows():
        estimated.rows += 1
        # One row that needs a call decides the primary metric. Reading a row's kind is slow, so the search then ends.
        if "call" not in kinds:
            kinds.add(row_kind(row.values, {}))
        expected = ground_truth(row.values, {})
        length = None if expected is None else _length(expected)

        if execution.target is not None:
            _add_question(estimated, execution.target, row, length)

        # A judge's prompt contains the answer: a recorded one (None), or one as long as the ground truth.
        answer_length = None if execution.target is None else length or 0
        for judge in judges:
            _add_judgement(estimated.judges[judge.name], judge, row, answer_length)

    names = [evaluator.name for evaluator in execution.evaluators]
    declared = execution.settings.primary or execution.dataset.defaults.primary
    estimated.primary = next(iter(order_evaluators(names, declared, kinds)), None)

    return estimated


def _add_question(estimated: RunEstimate, target: Target, row: Row, answer_length: int | None) -> None:
    """Add to `estimated` the calls for a row's answer, which is expected to have `answer_length` characters.

    The length is None if it is unknown. A row for which no request can be made is counted as unaskable.
    """
    endpoint = getattr(target, "endpoint", None)
    assert isinstance(endpoint, Endpoint)

    try:
        if isinstance(target, ConversationTarget):  # estimate with the calls of the ground truth
            requests: Sequence[ChatRequest] = target.expected_requests(row)
        else:
            requests = [target.request(row) if isinstance(target, EndpointTarget) else ChatRequest([])]
    except ValueError as error:
        estimated.unaskable += 1
        estimated.problem = estimated.problem or f"{row.id}: {error}"
        return

    received = None if answer_length is None or not requests else math.ceil(answer_length / len(requests))
    for request in requests:
        sent = _length([list(request.messages), list(request.tools or ())])
        _add_call(estimated.asked, endpoint, request, sent, received)


def _add_judgement(spending: Spending, judge: BoundEvaluator, row: Row, answer_length: int | None) -> None:
    """Add the judge's estimated calls for a row to `spending`; nothing if the row needs no call or cannot be judged.

    `answer_length` is the expected number of characters of the row's answer; None if the answer is recorded.
    """
    prompt = judge.function
    assert isinstance(prompt, PromptyEvaluator)
    with contextlib.suppress(Exception):  # the run reports rows that cannot be judged
        request = prompt.expected_request(**judge.bind(row.values, {} if answer_length is None else _UNKNOWN_ANSWER))
        if request is not None:
            sent = (answer_length or 0) + _length([dict(message) for message in request.messages])
            for _ in range(prompt.samples):
                _add_call(spending, prompt.endpoint, request, sent, _JUDGEMENT)


def _add_call(spending: Spending, endpoint: Endpoint, request: ChatRequest, sent: int, received: int | None) -> None:
    """Add an estimated call: `sent` characters in the request, `received` in the answer (None: unknown)."""
    limit = output_limit(dict(request.parameters), endpoint.settings().get("parameters"))
    usage, price = expected_usage(sent, limit, received), endpoint.price
    cost, currency = (None, None) if price is None else (cost_of(usage, price), price.currency)
    spending.count_calls(usage, cost, currency)


def _length(value: object) -> int:
    """Return the number of characters of a text, or of a value as JSON."""
    return len(value) if isinstance(value, str) else len(dumps(value))
