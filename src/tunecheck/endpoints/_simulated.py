"""The `simulated` endpoint: a seeded substitute for a fine-tuned model, to try things out without a model.

It answers a row with the row's ground truth or, at given rates, with a typical mistake of fine-tuned models. Every
answer is marked as simulated.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping
from dataclasses import replace
from hashlib import blake2b
from importlib.resources import files
from random import Random
from typing import Annotated, Any, cast

import msgspec

from tunecheck import _yaml as yamltext
from tunecheck._errors import ConfigurationError, ReplyError
from tunecheck._json import JSON, canonical, dumps, text_or_json
from tunecheck._messages import did_you_mean
from tunecheck._targets import Row
from tunecheck.calls._model import FunctionCall
from tunecheck.calls._writing import write_calls
from tunecheck.endpoints._base import ChatRequest, Completion, Definition, Endpoint, EndpointConfig, Text, Usage
from tunecheck.endpoints._mistakes import ANSWER_MISTAKES, CALL_MISTAKES, SimulatedAnswer, Situation
from tunecheck.formats._reading import read_calls

GROUND_TRUTH_COLUMNS = ("answer", "ground_truth")
"""Columns searched for the ground truth, in this order, unless the definition names a column."""

_NO_ROW = "This is a simulated model. It only answers rows of a data set, and this request has no row."


def default_definition() -> str:
    """Return the default definition as YAML text, used by runs without an endpoint and written by `init`."""
    return (files("tunecheck.endpoints") / "default_simulated.yaml").read_text(encoding="utf-8")


class SimulatedConfig(EndpointConfig, frozen=True, kw_only=True):
    """A definition of kind `simulated`."""

    seed: Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)] = 0
    rates: dict[str, Any] | None = None
    ground_truth: Text | None = None
    latency_ms: Annotated[float, msgspec.Meta(ge=0, le=600_000)] = 0.0


class SimulatedEndpoint(Endpoint):
    """Answers with the ground truth plus seeded mistakes.

    Args:
        name: the endpoint's name in results and errors.
        seed: the seed of the mistakes.
        rates: the probability of each mistake by name (default_simulated.yaml explains them and has the defaults). The
            rates of call rows must not exceed 1 in total, nor those of answer rows.
        ground_truth: the column of the right answer.
        latency_ms: the average time of an answer; 0 answers at once.

    An answer depends on the seed, the row's id and the row's content, never on the order of requests. A request
    without a row gets a fixed sentence.
    """

    kind = "simulated"
    config_type = SimulatedConfig
    simulated = True
    depends_on_row = True

    def __init__(
        self,
        *,
        name: str = "simulated",
        seed: int = 0,
        rates: Mapping[str, float] | None = None,
        ground_truth: str | None = None,
        latency_ms: float = 0.0,
    ) -> None:
        """Check the rates; without rates, use those of default_simulated.yaml."""
        self.name = name
        self._seed = seed
        if rates is None:
            own_file = yamltext.parse_yaml(default_definition(), "default_simulated.yaml")
            rates = cast("dict[str, dict[str, float]]", own_file)["rates"]
        self._rates = _check_rates(rates)
        self._columns = (ground_truth,) if ground_truth else GROUND_TRUTH_COLUMNS
        self._latency_ms = latency_ms

    @classmethod
    def from_definition(cls, definition: Definition) -> SimulatedEndpoint:
        """Return the endpoint of a definition, in which all keys are optional; refuse wrong rates."""
        config = definition.read(SimulatedConfig)
        try:
            return cls(
                name=definition.name,
                seed=config.seed,
                rates=config.rates,
                ground_truth=config.ground_truth,
                latency_ms=config.latency_ms,
            )
        except ConfigurationError as error:
            raise definition.at("rates").error(str(error)) from None

    async def complete(self, request: ChatRequest) -> Completion:
        """Return the row's ground truth or a mistake, drawn from the seed and the row's id.

        Tokens are estimated. The latency is drawn, too, but only waited for if the definition sets one.
        """
        row_id = (request.row.id if request.row else "").encode("utf-8", "surrogatepass")
        stem = blake2b(b"%d\0%s" % (self._seed, row_id), digest_size=8).hexdigest()
        rng = Random(stem)
        answer = self._answer(request, rng)
        # A token is about four characters of English text.
        asked = len(canonical([list(request.messages), list(request.tools or ())]))
        answered = len(answer.text or "") + sum(len(call.name) + len(dumps(call.arguments)) for call in answer.calls)
        usage = Usage(input_tokens=asked // 4 + 1, output_tokens=answered // 4 + 1)
        latency_ms = round(rng.uniform(0.5, 1.5) * (self._latency_ms or 180 + 12 * (answered // 4 + 1)), 1)
        if self._latency_ms:
            await asyncio.sleep(latency_ms / 1000)
        return Completion(
            text=answer.text,
            tool_calls=_tool_calls(answer.calls, stem),
            usage=usage,
            latency_ms=latency_ms,
            finish_reason="tool_calls" if answer.calls else "stop",
            request_id=f"simulated-{stem}",
            simulated=True,
        )

    def settings(self) -> dict[str, JSON]:
        """Return the seed, rates, ground truth columns and latency."""
        return {"name": self.name, **self.answer_settings(), "latency_ms": self._latency_ms}

    def answer_settings(self) -> dict[str, JSON]:
        """Return the settings that answers depend on: all but the latency."""
        return {
            "kind": self.kind,
            "simulated": True,
            "seed": self._seed,
            "rates": dict(self._rates),
            "ground_truth": list(self._columns),
        }

    def _answer(self, request: ChatRequest, rng: Random) -> SimulatedAnswer:
        """Return the ground truth with at most one mistake, drawn by the rates; without a row, a fixed text."""
        if request.row is None:
            return SimulatedAnswer(text=_NO_ROW)
        truth = _ground_truth(request.row, self._columns)
        mistakes = CALL_MISTAKES if truth.calls else ANSWER_MISTAKES
        drawn, total = rng.random(), 0.0
        for name, mistake in mistakes.items():
            total += self._rates.get(name, 0)
            if drawn < total:
                return mistake(truth, Situation.of(request.messages, request.tools), rng) or truth
        return truth


def _check_rates(rates: Mapping[str, object]) -> dict[str, float]:
    """Return the rates.

    Raises:
        ConfigurationError: a name is unknown, a rate is not from 0 to 1, or the rates of call rows or of answer rows
            exceed 1 in total.
    """
    known = {**CALL_MISTAKES, **ANSWER_MISTAKES}
    checked: dict[str, float] = {}
    for name, rate in rates.items():
        if name not in known:
            raise ConfigurationError(f"there is no kind of mistake {name!r}{did_you_mean(name, known)}")
        if isinstance(rate, bool) or not isinstance(rate, (int, float)) or not 0 <= rate <= 1:
            raise ConfigurationError(f"the rate of {name} must be a number from 0 to 1, not {rate!r:.60}")
        checked[name] = rate
    for group, rows in ((CALL_MISTAKES, "call"), (ANSWER_MISTAKES, "answer")):
        total = math.fsum(checked.get(name, 0) for name in group)
        if total > 1 + 1e-9:
            raise ConfigurationError(f"the rates of {rows} rows add up to {total:g}: the sum must be at most 1")
    return checked


def _ground_truth(row: Row, columns: tuple[str, ...]) -> SimulatedAnswer:
    """Return the text and calls of the first of these columns with a value; raise ReplyError if the row has none."""
    for column in columns:
        value = row.values.get(column)
        if value is not None:
            reading = read_calls(value)
            if reading.calls:
                return SimulatedAnswer(reading.text or None, reading.calls)
            return SimulatedAnswer(text_or_json(value) or None)
    names = " or ".join(repr(column) for column in columns)
    raise ReplyError(
        f"row {row.id}: simulating an answer needs a ground truth, and the column {names} has none; "
        "name the column in the endpoint's definition: ground_truth: <column>"
    )


def _tool_calls(calls: tuple[FunctionCall, ...], stem: str) -> tuple[Mapping[str, JSON], ...]:
    """Return the calls as OpenAI tool calls, with ids made from `stem`."""
    numbered = [replace(call, id=f"call_{stem}_{index}") for index, call in enumerate(calls)]
    return tuple(cast("list[Mapping[str, JSON]]", write_calls(numbered, "openai")))
