"""Calls that real models and data sets hold."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from tunecheck.calls import FunctionCall
from tunecheck.formats import read_calls


def test_every_call_of_the_glaive_sample_is_read(shared_data: Path) -> None:
    rows = json.loads((shared_data / "glaive" / "glaive_v2_sample.json").read_text(encoding="utf-8"))
    turns = [turn for row in rows for turn in re.split(r"\n\n\n", row["chat"]) if "<functioncall>" in turn]
    readings = [read_calls(turn.removeprefix("ASSISTANT:")) for turn in turns]
    assert [reading.problem for reading in readings if reading.problem] == []
    assert sum(len(reading.calls) for reading in readings) == 137
    for turn, reading in zip(turns, readings, strict=True):
        # the whole argument text stands in the turn between apostrophes
        inner = re.findall(r"'(\{.*\})'\}", turn)
        assert [call.arguments for call in reading.calls] == [json.loads(text) for text in inner]


def test_whole_glaive_conversations_are_read_as_their_calls(shared_data: Path) -> None:
    rows = json.loads((shared_data / "glaive" / "glaive_v2_sample.json").read_text(encoding="utf-8"))
    readings = [read_calls(row["chat"]) for row in rows]
    assert sum(len(reading.calls) for reading in readings) == 137
    assert all("<functioncall>" not in reading.text and reading.text for reading in readings)


def bfcl_results(shared_data: Path) -> list[Any]:
    files = sorted(shared_data.glob("bfcl_runs/*/result/*/*live/*.json"))
    lines = [line for file in files for line in file.read_text(encoding="utf-8").splitlines()]
    return [json.loads(line)["result"] for line in lines]


def expected(result: list[dict[str, str]]) -> tuple[FunctionCall, ...] | None:
    """The calls in the two models' lists, read by the standard library; None where an argument text is not JSON."""
    try:
        return tuple(FunctionCall(name, json.loads(text)) for call in result for name, text in call.items())
    except ValueError:
        return None


def test_every_call_list_of_real_bfcl_runs_is_read(shared_data: Path) -> None:
    results = bfcl_results(shared_data)
    broken = 0
    for result in results:
        calls = expected(result) if isinstance(result, list) else ()
        reading = read_calls(result)
        assert reading.calls == (calls or ())
        assert (reading.problem is None) == (calls is not None)
        broken += calls is None
    assert len(results) > 7000
    assert broken == 3  # `1980? `, `"x"+"A".repeat(1001)` and a stray quote: not JSON, whoever reads them


def test_the_same_call_lists_as_json_text_read_the_same(shared_data: Path) -> None:
    for result in bfcl_results(shared_data)[::7]:
        from_text = read_calls(json.dumps(result))
        assert isinstance(result, str) or from_text.calls == read_calls(result).calls
