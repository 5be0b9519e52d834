"""Result files of the leaderboard's layout, as our conversations are written to them and read back."""

from pathlib import Path

import pytest
from tests.conversation_parts import Values, had, shelf_row, shelf_workspace, states
from tests.core.test_conversation_replay import recorded, replayed

from tunecheck_bfcl._evaluation import result_line, result_path


@pytest.fixture(autouse=True)
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(shelf_workspace(tmp_path))


async def test_a_line_of_a_result_file_is_read_back_as_the_same_conversation(tmp_path: Path) -> None:
    answers = [[("put", {"name": "cup"}), ("look", {})], "Done.", [("count", {"name": "cup"})], ""]
    output, _ = await had(answers)
    line: Values = result_line(shelf_row().id, output)
    counts = ["input_token_count", "output_token_count", "latency"]
    assert list(line) == ["id", "result", *counts, "inference_log", "finish_reason"]
    assert line["finish_reason"] == [["tool_calls", "stop"], ["tool_calls", "stop"]]
    again = await replayed(recorded(tmp_path, line))
    assert states(again) == states(output)
    assert again["inference_log"] == output["inference_log"]
    assert output["calls_made"] == [[["put(name='cup')", "look()"], []], [["count(name='cup')"], []]]
    course = ("finish_reasons", "calls_made", "forced_quit", "ended_by")
    for name in ("result", *counts, "usage", "steps", *course):
        assert again[name] == output[name]


def test_the_text_of_a_single_answer_is_kept_where_its_calls_stand_in_the_result_otherwise() -> None:
    written = '<tool_call>{"name": "look", "arguments": {}}</tool_call>'
    assert result_line("r", {"result": "[look()]", "text": written})["raw_text"] == written
    assert "raw_text" not in result_line("r", {"result": "Hello.", "text": "Hello."})
    assert "raw_text" not in result_line("r", {"result": [{"look": "{}"}], "text": "I look."})


@pytest.mark.parametrize("name", ["../..", "..", ".", "", "a/../../b", "C:\\x", "\x00", "…/x"])
def test_a_model_s_name_never_leads_out_of_the_folder(name: str, tmp_path: Path) -> None:
    path = tmp_path / result_path(name, "live", "live_simple")
    assert path.resolve().is_relative_to(tmp_path)
    assert len(path.relative_to(tmp_path).parts) == 3
