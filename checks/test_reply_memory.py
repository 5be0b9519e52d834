"""The memory and the disk space that one reply of eight megabytes costs, measured in a process of its own."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.fault_server import FaultServer, Request, Step

SIZE = 8_000_000
_JSON, _STREAM = {"Content-Type": "application/json"}, {"Content-Type": "text/event-stream"}

_MEASURE = """
import sys
from pathlib import Path

from tunecheck import FunctionCallMatchEvaluator, evaluate
from tunecheck.endpoints import load_endpoint


def status(key):
    return 1024 * int(Path("/proc/self/status").read_text().split(key + ":")[1].split()[0])


def disk():
    return sum(path.stat().st_size for path in Path.cwd().rglob("*") if path.is_file())


def ask(path):
    tools = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}]
    row = {"id": "1", "query": path, "tool_definitions": tools, "ground_truth": [{"name": "f", "arguments": {}}]}
    settings = {"kind": "openai", "url": f"{sys.argv[1]}/{path}", "model": "m", "auth": {"value": "${env:TC_KEY}"}}
    before = disk()
    try:
        target = load_endpoint({**settings, "retries": 0})
        evaluate(data=[row], target=target, evaluators={"calls": FunctionCallMatchEvaluator()})
    except Exception as error:
        print(str(error).replace(chr(10), " ")[:400], file=sys.stderr)
    return disk() - before


ask("small")
Path("/proc/self/clear_refs").write_text("5")
before = status("VmRSS")
space = ask("bomb")
print(status("VmHWM") - before, space)
"""


def chat(content: object, calls: object = None) -> bytes:
    message = {"role": "assistant", "content": content, "tool_calls": calls}
    return json.dumps({"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}).encode()


def filled(frame: bytes, unit: bytes, between: bytes = b",") -> bytes:
    """The frame with as many units as fit, in place of `"@"`."""
    return frame.replace(b'"@"', between.join([unit] * ((SIZE - len(frame)) // (len(unit) + len(between)))))


_CALL = b'{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}'
_PIECE = b'data: {"choices":[{"delta":{"content":"a"}}]}\n\n'
_CALLED = b"".join(
    b'data: {"choices":[{"delta":{"tool_calls":[{"index":%d,"id":"c%d","function":{"name":"f"}}]}}]}\n\n' % (at, at)
    for at in range(SIZE // 110)
)
TEXTS = {
    "words": chat("word " * (SIZE // 5 - 100)),
    "words with emoji": chat("w\U0001f680rd " * (SIZE // 17)),
    "brackets": chat("[" * 90_000 + "word " * (SIZE // 5 - 20_000)),
    "arguments": chat(None, [{"function": {"name": "f", "arguments": json.dumps({"a": "x" * (SIZE - 500)})}}]),
}
BOMBS = {
    "deep lists": (_JSON, b"[" * (SIZE // 2) + b"]" * (SIZE // 2)),
    "lists of a hundred levels": (_JSON, filled(b'{"choices":["@"]}', b"[" * 90 + b"]" * 90)),
    "empty lists": (_JSON, filled(b'{"choices":["@"]}', b"[]")),
    "calls": (_JSON, filled(chat(None, ["@"]), _CALL)),
    "parts": (_JSON, filled(chat(["@"]), b'{"type":"text","text":"a"}')),
    "choices": (_JSON, filled(b'{"choices":["@"]}', b'{"index":0,"message":{"content":"a"}}')),
    "pieces of a stream": (_STREAM, _PIECE * (SIZE // len(_PIECE))),
    "calls of a stream": (_STREAM, _CALLED),
    "empty lines of a stream": (_STREAM, b"\n" * SIZE),
    "lines of one event": (_STREAM, b"data:\n" * (SIZE // 6)),
    "gzip": ({**_JSON, "Content-Encoding": "gzip"}, gzip.compress(chat("a" * 400_000_000), 1)),
    "a page": ({"Content-Type": "text/html"}, b"<html>" + b"x" * (SIZE - 6)),
}
pytestmark = pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="peak memory is read from /proc")


def cost(folder: Path, step: Step) -> tuple[float, float]:
    """The peak memory and the disk space of a reply, in multiples of eight megabytes."""

    def plan(seen: Request, attempt: int) -> Step:
        return step if "/bomb/" in seen.path else Step(200, _JSON, chat("hi"))

    with FaultServer(plan) as server:
        done = subprocess.run(
            [sys.executable, "-c", _MEASURE, f"http://127.0.0.1:{server.port}"],
            cwd=folder,
            env=os.environ | {"TC_KEY": "sk-abcdefghijklmnop-1234"},
            capture_output=True,
            text=True,
            check=True,
            timeout=200,
        )
    memory, space = map(int, done.stdout.split()[-2:])
    print(f"{memory / SIZE:.1f} times its size in memory, {space / SIZE:.2f} on disk; {done.stderr}")
    return memory / SIZE, space / SIZE


@pytest.mark.parametrize("bomb", BOMBS)
def test_a_reply_that_is_no_answer_costs_at_most_four_times_its_size(tmp_path: Path, bomb: str) -> None:
    headers, body = BOMBS[bomb]
    memory, space = cost(tmp_path, Step(200, headers, body))
    assert memory <= 4
    assert space <= 4


@pytest.mark.parametrize("text", TEXTS)
def test_an_answer_of_one_text_costs_three_times_its_size_on_disk_and_twelve_in_memory(
    tmp_path: Path, text: str
) -> None:
    memory, space = cost(tmp_path, Step(200, _JSON, TEXTS[text]))
    assert memory <= 12
    assert space <= 3.05  # the pages of the report included
