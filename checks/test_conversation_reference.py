"""The same scripted models through BFCL's own loop and ours: equal requests, equal results, equal logs."""

from __future__ import annotations

import functools
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.bfcl_reference import reference_python
from tests.conversation_parts import Values, serving

from tunecheck import CallContext, Row
from tunecheck.datasets import open_dataset
from tunecheck.episodes import ConversationTarget

TOOL_ANSWERS: list[Any] = [
    [["ls", "{}"], ["pwd", "{}"]], "ok", [["cd", '{"folder":"document"}'], ["cd", '{"folder":"nope"}']],
    [["nosuch", "{}"]], "", [["cd", "x"]], "after", [["ls", '{"a":true}']],
    [["displayCarStatus", '{"option":"fuel"}']], [["get_stock_info", '{"symbol":"AAPL"}'], ["get_current_time", "{}"]],
]  # fmt: skip
TEXT_ANSWERS: list[Any] = [
    "[ls(), pwd()]", "done", "[cd('document')]", "[nosuch(a=1, b='x y')]", "[]", "[cd(folder='document')", "",
    "[f(x=y)]", "[cat(file_name=ls())]", "hello", "[displayCarStatus(option='fuel')]",
    "[get_stock_info(symbol='AAPL')]",
]  # fmt: skip
SINGLE = (
    "simple_python",
    "simple_java",
    "simple_javascript",
    "live_simple",
    "parallel",
    "irrelevance",
    "live_relevance",
)


def cases() -> list[Values]:
    found: list[Values] = []
    for category in ("base", "miss_func", "miss_param", "long_context"):
        for index in (1, 2, 57, 58, 101, 150):
            for tools in (True, False):
                answers = TOOL_ANSWERS if tools else TEXT_ANSWERS
                found.append(case(f"multi_turn_{category}", index, answers[index % 4 :] + answers[: index % 4], tools))
    for tools, call in ((True, [["get_current_time", "{}"]]), (False, "[get_current_time()]")):
        found.append(case("multi_turn_base", 1, [call] * 40, tools))  # never stops: forced to quit
        found.append(case("multi_turn_base", 1, ["x", *[call] * 40], tools))
    for category in SINGLE:
        for tools in (True, False):
            found.append(case(category, 3, [[["f", '{"a":1}']] if tools else "[f(a=1)]"], tools))
            found.append(case(category, 3, ["no"], tools))
    return found


def case(category: str, index: int, answers: list[Any], tools: bool) -> Values:
    return {"category": category, "index": index, "answers": answers, "tools": tools}


@pytest.mark.slow
async def test_requests_results_and_logs_equal_those_of_bfcl_s_own_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    python = reference_python()
    (package,) = python.parent.parent.glob("lib/python*/site-packages/bfcl_eval")
    monkeypatch.setenv("TUNECHECK_BFCL", str(package))
    todo = cases()
    for one, theirs in zip(todo, of_bfcl(python, todo), strict=True):
        ours, requests = await of_ours(one)
        about = f"{one['category']} {one['index']} {'tools' if one['tools'] else 'text'}"
        assert [request(sent) for sent in requests] == [request(sent) for sent in theirs["requests"]], about
        for name in ("result", "input_token_count", "output_token_count"):
            assert ours[name] == theirs[name], about
        assert log(ours.get("inference_log") or []) == log(theirs["inference_log"]), about


def of_bfcl(python: Path, todo: list[Values]) -> list[Values]:
    import openai

    script = Path(__file__).with_name("conversation_reference.py")
    client = Path(str(openai.__file__)).parent.parent
    done = subprocess.run(
        [str(python), str(script), str(client)], input=json.dumps(todo), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    outputs: list[Values] = json.loads(done.stdout)
    return outputs


@functools.cache
def rows_of(category: str) -> list[Row]:
    return list(open_dataset(f"bfcl:{category}").rows())


async def of_ours(one: Values) -> tuple[Values, list[Values]]:
    row = rows_of(one["category"])[one["index"]]
    answers = [[tuple(call) for call in answer] if isinstance(answer, list) else answer for answer in one["answers"]]
    with serving(answers) as server:
        mode: Any = "tools" if one["tools"] else "text"
        target = ConversationTarget(server.endpoint(), mode=mode, compat="bfcl", include_input_log=True)
        output: Values = json.loads(json.dumps(dict(await target.answer(row, CallContext("r", row.id, "h")))))
        await target.close()
        return output, server.requests


def request(sent: Values) -> Any:
    """What a request asks, the words of failing calls left out: they are each tool's own."""
    messages = [
        {
            name: failing_left_out(value) if name == "content" else value
            for name, value in message.items()
            if value is not None
        }
        for message in sent["messages"]
    ]
    return messages, sent.get("tools")


def failing_left_out(content: Any) -> Any:
    if not isinstance(content, str):
        return content
    if content.startswith("[{'role': 'tool'"):
        import ast

        return [(result["name"], failing_left_out(result["content"])) for result in ast.literal_eval(content)]
    failed = content.startswith(("Error during execution", '{"error"'))
    return "failed" if failed else content


def log(entries: list[Any]) -> list[Any]:
    """What both logs say: roles, answers, decoded calls, results, and which simulators' states; not in which words."""
    found: list[Any] = []
    for entry in entries:
        if isinstance(entry, list):
            found.append({item["class_name"]: sorted(item["content"]) for item in entry})
        elif "role" in entry:
            found.append(entry["role"])
        else:
            found.append({name: [item_of(item) for item in items] for name, items in entry.items()})
    return found


def item_of(item: Values) -> Any:
    role = item["role"]
    if role == "handler_log":
        ended = "error" in item or "forced" in item["content"]
        return role, None if ended else item["model_response_decoded"]
    if role == "inference_input":
        return role, item["content"].get("tools")
    return role, failing_left_out(item["content"])
