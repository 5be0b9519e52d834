"""A conversation's output columns, and the result files of BFCL's layout that are written from them."""

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path, PurePath
from typing import BinaryIO, TypeVar

from msgspec import structs

from tunecheck._json import JSON, dumps_line
from tunecheck._targets import Row
from tunecheck._whole_files import replacing
from tunecheck.endpoints._base import Completion, Usage
from tunecheck.episodes._driver import Steps
from tunecheck.episodes._inference_log import UNKNOWN, Course
from tunecheck_bfcl._data.categories import CATEGORIES

Number = TypeVar("Number", int, float)

_BY_STEP = ("input_token_count", "output_token_count", "latency")

OUTPUT_COLUMNS = (
    "result",
    "inference_log",
    *_BY_STEP,
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


def output_columns(steps: Steps, log: list[JSON]) -> dict[str, JSON]:
    every = [completion for turn in steps.completions for completion in turn]
    thoughts: JSON = [[one.reasoning or "" for one in turn] for turn in steps.completions]
    return {
        **steps.last.columns(),
        "result": steps.result,
        "inference_log": log,
        "input_token_count": _nested(steps, lambda one: one.usage.input_tokens),
        "output_token_count": _nested(steps, lambda one: one.usage.output_tokens),
        "latency": _nested(steps, _seconds),
        "usage": Usage(
            _sum(one.usage.input_tokens for one in every),
            _sum(one.usage.output_tokens for one in every),
            _sum(one.usage.cached_input_tokens for one in every),
            _sum(one.usage.reasoning_tokens for one in every),
        ).as_json(),
        "latency_ms": _sum(one.latency_ms for one in every),
        "steps": len(every),
        **structs.asdict(Course.read({"inference_log": log})),
        "error": None,
        "simulated": any(one.simulated for one in every),
        **({"masked": True} if any(one.masked for one in every) else {}),
        **({REASONING: thoughts} if any(one.reasoning for one in every) else {}),
    }


def single_columns(completion: Completion, step: JSON, log: list[JSON] | None) -> dict[str, JSON]:
    """The columns of a single call's answer: the result is one step, the counts are numbers."""
    return {
        **completion.columns(),
        "result": step,
        "inference_log": log,
        "input_token_count": completion.usage.input_tokens,
        "output_token_count": completion.usage.output_tokens,
        "latency": _seconds(completion),
        "steps": 1,
        **structs.asdict(UNKNOWN),
        "error": None,
        **({REASONING: completion.reasoning} if completion.reasoning else {}),
    }


def recorded_columns(record: Mapping[str, JSON], columns: Mapping[str, JSON], *, ended: bool) -> dict[str, JSON]:
    """The columns of a recorded answer: its result and counts exactly as they were recorded.

    `ended` says that a conversation has fewer turns than its row, which then was ended by force, as one is whose record
    says so.
    """
    result = record.get("result")
    recorded = {name: record[name] for name in ("result", *_BY_STEP, REASONING) if name in record}
    failed = isinstance(result, str) and "traceback" in record
    course = Course.read(record)
    more: dict[str, JSON] = {
        "ended_by": course.ended_by,
        "forced_quit": (ended or course.forced_quit) and not failed,
        "error": result if failed else None,
    }
    if not columns.get("response"):
        more["response"] = result
    return {**columns, **recorded, **more}


def result_line(row: Row | str, output: Mapping[str, JSON]) -> dict[str, JSON]:
    """The line of a result file for a row (or its id) and its answer, conversation or single call.

    BFCL's scripts add the counts up: what was not counted is 0 there. `raw_text` is what a model wrote of a single
    question whose calls were read from another form than the call text in the result.
    """
    line: dict[str, JSON] = {"id": row if isinstance(row, str) else row.id, "result": output.get("result")}
    for name in _BY_STEP:
        line[name] = _counted(output.get(name))
    if output.get("inference_log") is not None:
        line["inference_log"] = output["inference_log"]
    if output.get("forced_quit") is True:
        line["forced_quit"] = True
    if output.get(REASONING):
        line[REASONING] = output[REASONING]
    reason = output.get("finish_reason") if output.get("finish_reasons") is None else output["finish_reasons"]
    if reason is not None:
        line["finish_reason"] = reason
    result, text = output.get("result"), output.get("text")
    if isinstance(result, str) and text not in (None, result):
        line["raw_text"] = text
    return line


def error_line(row_id: str, message: str) -> dict[str, JSON]:
    """The line of a row that has no answer: BFCL's scripts count it as wrong."""
    return {"id": row_id, "result": f"Error during inference: {message}", "traceback": ""}


def result_path(model: str, group: str, category: str) -> PurePath:
    folder = "".join("_" if letter in '/\\:*?"<>|' or not letter.isprintable() else letter for letter in model)
    return PurePath(folder.strip(". ") or "model", group, f"BFCL_v4_{category}_result.json")


def _nested(steps: Steps, figure: Callable[[Completion], float | None]) -> list[JSON]:
    return [[figure(completion) for completion in turn] for turn in steps.completions]


def _seconds(completion: Completion) -> float | None:
    return None if completion.latency_ms is None else completion.latency_ms / 1000


def _sum(figures: Iterator[Number | None]) -> Number | None:
    """The sum of what is known; None where nothing is."""
    known = [figure for figure in figures if figure is not None]
    return sum(known) if known else None


def _counted(value: JSON) -> JSON:
    if isinstance(value, list):
        return [_counted(item) for item in value]
    return 0 if value is None else value


def write_result_files(rows: Iterable[Mapping[str, JSON]], folder: Path, model: str) -> list[Path]:
    """Write the result rows of a finished run below `folder`, one file a category, and say where.

    A row that ended in an error has a line that says so, as BFCL's own files do, and is wrong; but it is left out where
    not calling is correct, and a count of calls would take the error for a correct answer.
    """
    written: dict[Path, BinaryIO] = {}
    with contextlib.ExitStack() as opened:
        for row in rows:
            category = CATEGORIES.get(str(row.get("inputs.category")))
            if category is None or (category.check == "irrelevance" and "error.target" in row):
                continue
            group = "multi_turn" if category.multi_turn else "live" if category.live else "non_live"
            path = folder / result_path(model, group, category.name)
            if path not in written:
                path.parent.mkdir(parents=True, exist_ok=True)
                written[path] = opened.enter_context(opened.enter_context(replacing(path)).open("wb"))
            written[path].write(dumps_line(_line(row)))
    return list(written)


def _line(row: Mapping[str, JSON]) -> dict[str, JSON]:
    row_id = str(row.get("row_id"))
    error = row.get("error.target")
    if error is not None:
        fields = error if isinstance(error, dict) else {}
        return error_line(row_id, f"{fields.get('type')}: {fields.get('message')}")
    return result_line(row_id, {name: row.get(f"outputs.{name}") for name in (*OUTPUT_COLUMNS, REASONING)})
