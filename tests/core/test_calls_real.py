"""Calls that real models and data sets hold."""

import json
import re
from pathlib import Path

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


def expected(result: list[dict[str, str]]) -> tuple[FunctionCall, ...] | None:
    """The calls in the two models' lists, read by the standard library; None where an argument text is not JSON."""
    try:
        return tuple(FunctionCall(name, json.loads(text)) for call in result for name, text in call.items())
    except ValueError:
        return None


def test_every_call_list_of_real_bfcl_runs_is_read_as_a_value_and_as_json_text(shared_data: Path) -> None:
    files = sorted(shared_data.glob("bfcl_runs/*/result/*/*live/*.json"))
    lines = [line for file in files for line in file.read_text(encoding="utf-8").splitlines()]
    broken = 0
    for line in lines:
        result = json.loads(line)["result"]
        calls = expected(result) if isinstance(result, list) else ()
        reading = read_calls(result)
        assert reading.calls == (calls or ())
        assert isinstance(result, str) or read_calls(json.dumps(result)).calls == reading.calls
        assert (reading.problem is None) == (calls is not None)
        broken += calls is None
    assert len(lines) > 7000
    assert broken == 3  # `1980? `, `"x"+"A".repeat(1001)` and a stray quote: not JSON, whoever reads them
