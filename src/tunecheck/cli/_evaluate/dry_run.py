"""`--dry-run`: what a run would ask and cost, everything checked that can be checked without asking."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tunecheck._errors import ConfigurationError
from tunecheck._json import JSON, dumps
from tunecheck._messages import clean, counted, did_you_mean
from tunecheck.cli._evaluate.job import Job

if TYPE_CHECKING:
    from tunecheck._targets import Target
    from tunecheck.datasets._reading import Dataset
    from tunecheck.endpoints._base import ChatRequest, Endpoint, Usage
    from tunecheck.evaluators._judges.prompty import PromptyEvaluator
    from tunecheck.pipeline._mapping import MappingLayers

_JUDGEMENT = 400
"""Characters of a judgement, as long as none is known."""

_UNKNOWN_ANSWER: Mapping[str, JSON] = {"response": "", "text": "", "tool_calls": None}


@dataclass(slots=True)
class ModelCalls:
    """What a model would be asked, in estimated tokens: a quarter of the characters of what is sent and received."""

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float | None = None
    currency: str = ""

    def add(self, usage: Usage, times: int = 1) -> None:
        self.calls += times
        self.input_tokens += times * (usage.input_tokens or 0)
        self.output_tokens += times * (usage.output_tokens or 0)

    def price(self, endpoint: Endpoint) -> None:
        from tunecheck.endpoints._base import Usage
        from tunecheck.pipeline._costs import cost_of

        if endpoint.price is not None:
            self.cost = cost_of(Usage(self.input_tokens, self.output_tokens), endpoint.price)
            self.currency = endpoint.price.currency

    def as_json(self) -> dict[str, JSON]:
        counts: dict[str, JSON] = {"calls": self.calls, "input_tokens": self.input_tokens}
        return {**counts, "output_tokens": self.output_tokens, "cost": self.cost, "currency": self.currency or None}


@dataclass(slots=True)
class Estimate:
    """What would be asked of the endpoint, and at most of each judge: which rows need one is not known beforehand.

    An answer counts as long as its ground truth, within its limit. `unaskable` counts the rows that no request can be
    made of; `problem` is the first's.
    """

    rows: int = 0
    asked: ModelCalls = field(default_factory=ModelCalls)
    unaskable: int = 0
    problem: str = ""
    judges: dict[str, ModelCalls] = field(default_factory=dict)

    def as_json(self) -> dict[str, JSON]:
        return {
            "dry_run": True,
            "rows": self.rows,
            **self.asked.as_json(),
            "unaskable_rows": self.unaskable,
            "judges": {name: judge.as_json() for name, judge in self.judges.items()},
        }

    def lines(self, *, at_most: bool) -> Iterator[str]:
        """For people; `at_most`: another run's answers will be reused, nobody knows yet how many."""
        asked = self.asked
        yield f"{counted(self.rows, 'row')}, {counted(asked.calls, 'call')}{' at most' if at_most else ''}"
        if asked.calls:
            yield f"about {asked.input_tokens:,} tokens in, {asked.output_tokens:,} tokens out (by the ground truth)"
        if asked.cost is not None:
            yield f"about {asked.cost:,.2f} {asked.currency}"
        for name, judge in self.judges.items():
            price = "" if judge.cost is None else f", {judge.cost:,.2f} {judge.currency}"
            tokens = f"about {judge.input_tokens:,} tokens in, {judge.output_tokens:,} out"
            yield f"{clean(name)}: at most {counted(judge.calls, 'call')} of its model, {tokens}{price}"
        if self.unaskable:
            yield f"{counted(self.unaskable, 'row')} cannot be asked, such as {clean(self.problem)}"
        yield "nothing was asked, nothing written"


def estimate(job: Job) -> Estimate:
    """Check the job and add up what it would ask."""
    if job.source is None:
        assert job.recorded is not None
        return Estimate(rows=len(job.recorded.rows()))
    target = _target(job)
    layers = _check(job, target)
    dataset = job.source.dataset
    if target is None or job.source.endpoint is None:
        estimated = Estimate(rows=sum(1 for _ in dataset.rows()))
    else:
        estimated = _asked(dataset, job.source.endpoint, target, layers)
    estimated.judges = _judged(job, dataset, layers, target is not None)
    return estimated


def _target(job: Job) -> Target | None:
    from tunecheck.endpoints._target import EndpointTarget
    from tunecheck.evaluation._drivers import drive, entrust, is_driver

    assert job.source is not None
    if job.source.endpoint is None:
        return None
    dataset = job.source.dataset
    driver = dataset.defaults.target
    if driver is not None and is_driver(driver):
        trust = job.trust.of(*dataset.files)
        target = drive(driver, job.source.endpoint, dataset.defaults.conversation, trust)
        entrust(trust, dataset, target, ())
        return target
    mapping = job.config.get("target", {}).get("column_mapping")
    entries = mapping.items() if isinstance(mapping, dict) else ()
    return EndpointTarget(job.source.endpoint, {name: str(value) for name, value in entries})


def _check(job: Job, target: Target | None) -> MappingLayers:
    """What `evaluate()` checks before its first row."""
    from tunecheck.pipeline._mapping import check_binding, read_layers
    from tunecheck.pipeline._scoring import bind_evaluator

    assert job.source is not None
    dataset = job.source.dataset
    columns = dataset.scan().columns
    layers = read_layers(job.config, job.evaluators, dataset.defaults.column_mapping)
    for name, evaluator in job.evaluators.items():
        check_binding(
            bind_evaluator(name, evaluator, layers[name]).signature,
            layers[name],
            f"evaluator {name!r}",
            columns=columns,
            target_columns=target.columns if target is not None else None,
            has_target=target is not None,
        )
    for column in job.options.group_by or ():
        if column not in columns:
            raise ConfigurationError(f"group_by: there is no column {column!r}{did_you_mean(column, columns)}")
    return layers


def _asked(dataset: Dataset, endpoint: Endpoint, target: Target, layers: MappingLayers) -> Estimate:
    from tunecheck.endpoints._base import ChatRequest, output_limit
    from tunecheck.endpoints._target import EndpointTarget
    from tunecheck.episodes._target import ConversationTarget
    from tunecheck.pipeline._costs import expected_usage

    ground_truth = _ground_truth_reader(layers)
    limit = output_limit(endpoint.settings().get("parameters"))
    estimated = Estimate()
    asked = estimated.asked
    for row in dataset.rows():
        estimated.rows += 1
        try:
            if isinstance(target, ConversationTarget):  # as if the conversation went as its ground truth does
                requests = target.expected_requests(row)
            else:
                requests = [target.request(row) if isinstance(target, EndpointTarget) else ChatRequest([])]
        except ValueError as error:
            estimated.unaskable += 1
            estimated.problem = estimated.problem or f"{row.id}: {error}"
            continue
        expected = ground_truth(row.values)
        for each in requests:
            sent = _length([list(each.messages), list(each.tools or ())])
            answered = None if expected is None else -(-_length(expected) // len(requests))
            asked.add(expected_usage(sent, limit, answered))
    asked.price(endpoint)
    return estimated


def _judged(job: Job, dataset: Dataset, layers: MappingLayers, answered: bool) -> dict[str, ModelCalls]:
    """What evaluators that ask models would ask: the answer is not known yet, so it counts as the ground truth does."""
    from tunecheck.evaluators._judges.prompty import PromptyEvaluator
    from tunecheck.pipeline._scoring import bind_evaluator

    judges = {name: each for name, each in job.evaluators.items() if isinstance(each, PromptyEvaluator)}
    bound = {name: bind_evaluator(name, each, layers[name]) for name, each in judges.items()}
    estimated = {name: ModelCalls() for name in judges}
    ground_truth = _ground_truth_reader(layers)
    for row in dataset.rows() if judges else ():
        expected = ground_truth(row.values)
        length = _length(expected) if answered and expected else 0
        for name, judge in judges.items():
            with contextlib.suppress(Exception):  # a row that cannot be judged: the run will say so
                request = judge.expected_request(**bound[name].bind(row.values, _UNKNOWN_ANSWER if answered else {}))
                if request is not None:
                    _add_judgement(estimated[name], judge, request, length)
    for name, judge in judges.items():
        estimated[name].price(judge.endpoint)
    return estimated


def _add_judgement(judged: ModelCalls, judge: PromptyEvaluator, request: ChatRequest, answer: int) -> None:
    from tunecheck.endpoints._base import output_limit
    from tunecheck.pipeline._costs import expected_usage

    limit = output_limit(dict(request.parameters), judge.endpoint.settings().get("parameters"))
    sent = answer + _length([dict(message) for message in request.messages])
    judged.add(expected_usage(sent, limit, _JUDGEMENT), judge.samples)


def _length(value: object) -> int:
    return len(value) if isinstance(value, str) else len(dumps(value))


def _ground_truth_reader(layers: MappingLayers) -> Callable[[Mapping[str, JSON]], object]:
    from tunecheck.pipeline._mapping import Reference

    mapped = next(
        (layer["ground_truth"] for layer in (layers["default"], *layers.values()) if "ground_truth" in layer), None
    )
    if isinstance(mapped, Reference) and mapped.source == "data":
        return lambda values: mapped.value_in(values, {})
    return lambda values: values.get("ground_truth")
