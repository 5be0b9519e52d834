"""A run that is killed in the middle of conversations goes on without asking anything twice that it has journaled."""

import os
import subprocess
import sys
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.conversation_parts import Server, Values, context, evaluated, said, serving, shelf_row, states
from tests.pipeline_parts import column, records, rows_of, strict_lines

from tunecheck import EvaluationResult, UnansweredError
from tunecheck.episodes import ConversationTarget

SCRIPT = """\
import sys
from tests.core.test_conversation_resume import run
run(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else None)
"""

COUNT = 6
STEPS = 4
TURNS = said("Put cups.", "More.", "And more.")


def reply(body: Values) -> Any:
    """Calls three times in each turn, differently in each, then stops: a function of the messages so far."""
    time.sleep(0.03)
    since = 0
    for message in reversed(body["messages"]):
        if message["role"] == "user":
            break
        since += message["role"] == "assistant"
    if since == STEPS - 1:
        return "Done."
    return [("put", {"name": f"cup {len(body['messages'])}", "count": since + 1}), ("look", {})]


def run(url: str, resume: str | None = None) -> EvaluationResult:
    """The run, as a process of its own starts it and this one finishes it."""
    from tunecheck.endpoints import load_endpoint

    data = [{**shelf_row([*said(f"I am number {n}."), *TURNS]).values, "id": f"c{n}"} for n in range(COUNT)]
    endpoint = load_endpoint({"kind": "openai", "url": url, "model": "m", "auth": {"type": "none"}})
    return evaluated(data, ConversationTarget(endpoint), concurrency=3, resume=resume, evaluation_name="killed")


@pytest.fixture(autouse=True)
def workspace(shelf: Path) -> Path:
    (shelf / "run.py").write_text(SCRIPT, "utf-8")
    return shelf


def asked(server: Server) -> list[str]:
    """The requests, identified by their messages."""
    return [repr(request["messages"]) for request in server.requests]


def kill_after(server: Server, count: int, folder: Path) -> None:
    root = Path(__file__).resolve().parents[2]
    environment = {**os.environ, "PYTHONPATH": str(root)}
    process = subprocess.Popen([sys.executable, "run.py", server.url], cwd=folder, env=environment)
    deadline = time.monotonic() + 60
    while len(server.requests) < count:
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.005)
    process.kill()
    process.wait()


def test_a_killed_run_asks_no_journaled_step_again_and_ends_as_one_that_was_never_killed(workspace: Path) -> None:
    with serving(reply) as server:
        kill_after(server, 40, workspace)
        (folder,) = (workspace / "eval_results").iterdir()
        journaled = [record for record in strict_lines_of(folder) if record["k"] == "step"]
        assert journaled
        before = len(server.requests)
        result = run(server.url, folder.name)
        again = Counter(asked(server)) - Counter(set(asked(server)))
        keys = Counter(server.keys)
    # Only calls in flight when the process died were sent twice, and under the same key.
    assert again.total() <= 3
    assert before + COUNT * 4 * STEPS - len(journaled) == len(server.requests)
    assert sorted(keys.values())[-1] <= 2
    assert len(keys) == COUNT * 4 * STEPS

    with serving(reply) as server:
        undisturbed = run(server.url)
        assert len(server.requests) == len(set(server.keys)) == COUNT * 4 * STEPS
    for name in ("outputs.result", "outputs.inference_log", "outputs.steps"):
        assert column(result, name) == column(undisturbed, name)


def strict_lines_of(folder: Path) -> list[Any]:
    """The complete records in the journal of a killed process."""
    journal = folder / "journal.jsonl"
    raw = journal.read_bytes()
    journal.write_bytes(raw[: raw.rfind(b"\n") + 1])
    return strict_lines(journal)


def test_a_conversation_that_failed_goes_on_where_it_failed_when_the_run_is_resumed(workspace: Path) -> None:
    broken = {"after": 10}

    def failing(body: Values) -> Any:
        broken["after"] -= 1
        return b"no" if broken["after"] < 0 else reply(body)

    with serving(failing) as server:
        endpoint = server.endpoint(retries=0)
        data = [dict(shelf_row(TURNS).values)]
        with pytest.raises(UnansweredError) as raised:
            evaluated(data, ConversationTarget(endpoint))
        first = raised.value.result
        assert "not JSON" in str(rows_of(first)[0]["error.target"])
        assert len(records(first, "step")) == 10
        broken["after"] = 1000
        server.requests.clear()
        second = evaluated(data, ConversationTarget(server.endpoint(retries=0)), resume=first.run_dir)
        assert len(server.requests) == 2
    assert column(second, "outputs.steps") == [12]


def test_steps_are_journaled_before_they_count_and_hold_the_whole_answer() -> None:
    with serving(reply) as server:
        data = [dict(shelf_row(said("Put cups.")).values)]
        result = evaluated(data, ConversationTarget(server.endpoint()))
    found = records(result, "step")
    assert [record["p"] for record in found] == ["0.0", "0.1", "0.2", "0.3"]
    assert found[0]["out"]["tool_calls"][0]["function"]["name"] == "put"
    assert found[0]["out"]["usage"] == {"input_tokens": 10, "output_tokens": 1}
    assert found[3]["out"]["text"] == "Done."
    kinds = [record["k"] for record in strict_lines(result.run_dir / "journal.jsonl")]
    assert kinds == ["journal", "step", "step", "step", "step", "answer", "verdicts"]


@pytest.mark.parametrize("damaged", [5, [], "x", {"tool_calls": 5}, {"tool_calls": [5, {"function": None}]}])
async def test_a_damaged_step_in_a_journal_is_no_crash(damaged: Any) -> None:
    with serving(["One.", "Two."]) as server:
        target = ConversationTarget(server.endpoint())
        output: Values = dict(await target.answer(shelf_row(), replace(context(), recorded={"0.0": damaged})))
        await target.close()
    assert len(output["inference_log"]) == 5
    assert len(states(output)) == 3


def test_only_the_run_that_recorded_them_takes_steps_up(workspace: Path) -> None:
    with serving(lambda body: b"no" if len(body["messages"]) > 3 else reply(body)) as server:
        data = [dict(shelf_row(TURNS).values)]
        first, again = server.endpoint(retries=0), server.endpoint(retries=0)
        with pytest.raises(UnansweredError) as raised:
            evaluated(data, ConversationTarget(first))
        asked_before, run = len(server.requests), raised.value.result.run_dir
        with pytest.raises(UnansweredError):
            evaluated(data, ConversationTarget(again), reuse=run)
        assert len(server.requests) == 2 * asked_before
