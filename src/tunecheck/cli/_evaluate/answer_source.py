"""Choose what answers the rows: an endpoint, a column with recorded answers, or the built-in simulated model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tunecheck._errors import ConfigurationError
from tunecheck._messages import did_you_mean
from tunecheck._trust import Trust
from tunecheck.cli._evaluate.options import Options
from tunecheck.cli._named_endpoints import SIMULATED, WORKSPACE_SIMULATED, is_embedded, load_named

if TYPE_CHECKING:
    from tunecheck.datasets._reading import Dataset
    from tunecheck.endpoints._base import Endpoint

_OF_CONVERSATIONS = {"turns", "involved_classes"}
"""Columns that only conversations with simulators have."""


@dataclass(frozen=True)
class AnswerSource:
    """The source of the answers. `dataset` declares no target if another one was chosen.

    `mapping` is added to the default layer of the column mapping. `label` is for people. `chosen` is False if nothing
    was chosen, so that the simulated endpoint answers.
    """

    dataset: Dataset
    endpoint: Endpoint | None
    label: str
    mapping: Mapping[str, str]
    chosen: bool = True

    @property
    def simulated(self) -> bool:
        """Return True if no real model answers."""
        return self.endpoint is not None and self.endpoint.simulated


def choose_source(options: Options, dataset: Dataset, trust: Trust) -> AnswerSource:
    """Return the command's choice, else the data set's, else the simulated endpoint."""
    if options.response_column is not None:
        return _column(options, dataset, options.response_column)
    from tunecheck.evaluation._evaluate import is_driver

    named = options.endpoint or (None if is_driver(dataset.defaults.target) else dataset.defaults.target)
    if options.endpoint is None:
        trust = trust.of(*(dataset.files[::-1] if named else [WORKSPACE_SIMULATED]))
    endpoint = load_named(named or SIMULATED, trust, options.seed)
    embedded = named is None and is_embedded(SIMULATED)
    label = "the embedded simulated endpoint" if embedded else f"endpoint {endpoint.name}"
    defaults = replace(dataset.defaults, conversation=dataset.defaults.conversation | options.conversation)
    dataset = dataset.with_defaults(defaults)
    if defaults.target is None and dataset.scan().columns >= _OF_CONVERSATIONS:
        evaluators = defaults.evaluators or ["multi_turn_state"]
        dataset = dataset.with_defaults(replace(defaults, target="conversation", evaluators=evaluators))
    return AnswerSource(dataset, endpoint, label, {}, chosen=named is not None)


def _column(options: Options, dataset: Dataset, column: str) -> AnswerSource:
    if options.endpoint is not None:
        raise ConfigurationError("--endpoint and --response-column exclude each other: give one of them")
    if "response" in (options.mapping or {}):
        raise ConfigurationError("--response-column and --mapping response=… both name the response: give one of them")
    if (options.repeat or 1) > 1:
        raise ConfigurationError("--repeat needs an endpoint, --response-column makes no calls: leave one of them out")
    columns = dataset.scan().columns
    if column not in columns:
        raise ConfigurationError(f"--response-column: there is no column {column!r}{did_you_mean(column, columns)}")
    quote = '"' if "'" in column else "'"
    mapping = {"response": f"${{data[{quote}{column}{quote}]}}"}
    without_target = dataset.with_defaults(replace(dataset.defaults, target=None))
    return AnswerSource(without_target, None, f"column {column}", mapping)
