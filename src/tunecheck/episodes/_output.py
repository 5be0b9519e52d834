"""The output columns of a conversation."""

from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar

from tunecheck._json import JSON
from tunecheck.endpoints._base import Completion, Usage
from tunecheck.episodes._episode import UNKNOWN, Episode, inference_log

Number = TypeVar("Number", int, float)

BY_STEP = ("input_token_count", "output_token_count", "latency")

OUTPUT_COLUMNS = (
    "result",
    "inference_log",
    *BY_STEP,
    "response",
    "text",
    "tool_calls",
    "usage",
    "latency_ms",
    "finish_reason",
    "request_id",
    "steps",
    "finish_reasons",
    "calls_made",
    "forced_quit",
    "ended_by",
    "error",
    "simulated",
)
"""The columns of a conversation's answer."""

REASONING = "reasoning_content"
"""What the model thought in each step, as BFCL's result files name it; only where there is any."""


def output_columns(episode: Episode) -> dict[str, JSON]:
    """Return the columns of a conversation."""
    by_turn = [turn.completions for turn in episode.turns]
    every = [completion for turn in by_turn for completion in turn]

    def nested(figure: Callable[[Completion], JSON]) -> list[JSON]:
        return [[figure(completion) for completion in turn] for turn in by_turn]

    return {
        **(every[-1] if every else Completion(text="")).columns(),
        "result": [[answer.content for answer in turn.answers if answer.completion] for turn in episode.turns],
        "inference_log": inference_log(episode),
        "input_token_count": nested(lambda one: one.usage.input_tokens),
        "output_token_count": nested(lambda one: one.usage.output_tokens),
        "latency": nested(_seconds),
        "usage": Usage(
            _sum(one.usage.input_tokens for one in every),
            _sum(one.usage.output_tokens for one in every),
            _sum(one.usage.cached_input_tokens for one in every),
            _sum(one.usage.reasoning_tokens for one in every),
        ).as_json(),
        "latency_ms": _sum(one.latency_ms for one in every),
        "steps": len(every),
        **episode.columns(),
        "error": None,
        "simulated": any(one.simulated for one in every),
        **({"masked": True} if any(one.masked for one in every) else {}),
        **({REASONING: nested(lambda one: one.reasoning or "")} if any(one.reasoning for one in every) else {}),
    }


def single_columns(completion: Completion, step: JSON, log: list[JSON] | None) -> dict[str, JSON]:
    """Return the columns of a single call's answer: the result is one step, the counts are numbers."""
    return {
        **completion.columns(),
        "result": step,
        "inference_log": log,
        "input_token_count": completion.usage.input_tokens,
        "output_token_count": completion.usage.output_tokens,
        "latency": _seconds(completion),
        "steps": 1,
        **UNKNOWN.columns(),
        "error": None,
        **({REASONING: completion.reasoning} if completion.reasoning else {}),
    }


def recorded_columns(record: Mapping[str, JSON], columns: Mapping[str, JSON], *, ended: bool) -> dict[str, JSON]:
    """Return the columns of a recorded answer: its result and counts exactly as they were recorded.

    `ended` says that a conversation has fewer turns than its row: it was ended by force.
    """
    result = record.get("result")
    recorded = {name: record[name] for name in ("result", *BY_STEP, REASONING) if name in record}
    failed = isinstance(result, str) and "traceback" in record
    episode = Episode.read(record)
    more: dict[str, JSON] = {
        "ended_by": episode.ended_by,
        "forced_quit": (ended or episode.forced_quit) and not failed,
        "error": result if failed else None,
    }
    if not columns.get("response"):
        more["response"] = result
    return {**columns, **recorded, **more}


def _seconds(completion: Completion) -> float | None:
    return None if completion.latency_ms is None else completion.latency_ms / 1000


def _sum(figures: Iterator[Number | None]) -> Number | None:
    """Return the sum of the known figures, None if none is known."""
    known = [figure for figure in figures if figure is not None]
    return sum(known) if known else None
