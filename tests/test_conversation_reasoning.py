"""Reasoning in conversations: kept in results and logs, sent back within the turn, dropped at the next one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.conversation_parts import call, had, log_items, said, shelf_row, shelf_workspace

from tunecheck.conversations._output import result_line

LOOK = [call("look", {}, "c1")]


@pytest.fixture(autouse=True)
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(shelf_workspace(tmp_path))


def message(**parts: Any) -> dict[str, Any]:
    return {"choices": [{"message": {"role": "assistant", "content": None, **parts}}]}


async def test_what_a_model_thought_in_each_step_stands_in_log_and_result_file() -> None:
    answers = [message(tool_calls=LOOK, reasoning_content="I look."), "<think>A book.</think>One book."]
    output, _ = await had(answers, shelf_row(said("What is there?")))
    first, second = log_items(output, "assistant")
    assert first["reasoning_content"] == "I look."
    assert second == {"role": "assistant", "content": "One book.", "reasoning_content": "A book.",
                      "raw_text": "<think>A book.</think>One book."}  # fmt: skip
    assert result_line("shelf_0", output)["reasoning_content"] == [["I look.", "A book."]]
    assert output["result"] == [[[{"look": "{}"}], "One book."]]
    assert output["reasoning"] == "A book."


async def test_a_conversation_without_reasoning_says_nothing_of_it() -> None:
    output, _ = await had(["Nothing."], shelf_row(said("What is there?")))
    assert "reasoning_content" not in result_line("shelf_0", output)
    assert "reasoning" not in output
