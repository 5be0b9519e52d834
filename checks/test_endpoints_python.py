"""Endpoints in a user's own code whose calls end their process, or keep its interpreter."""

import asyncio
from pathlib import Path

import pytest
from tests.core.test_endpoints_python import make

from tunecheck import TimedOutError, WorkerDied
from tunecheck.endpoints import ChatRequest, Completion, PythonEndpoint

POISON = {
    "segfault": ("import ctypes; ctypes.string_at(0)", "signal 11 (SIGSEGV)"),
    "exit": ("import os; os._exit(3)", "exit code 3"),
    "killed": ("import os; os.kill(os.getpid(), 9)", "signal 9 (SIGKILL)"),
}


async def ask_many(endpoint: PythonEndpoint, count: int = 12) -> list[Completion | BaseException]:
    requests = [ChatRequest(messages=[{"role": "user", "content": str(number)}]) for number in range(count)]
    try:
        return await asyncio.gather(*map(endpoint.complete, requests), return_exceptions=True)
    finally:
        await endpoint.close()


@pytest.mark.parametrize("word", ["def", "async def"])
@pytest.mark.parametrize("kind", POISON)
async def test_a_call_that_ends_its_process_fails_alone(tmp_path: Path, kind: str, word: str) -> None:
    body, how = POISON[kind]
    source = f"{word} answer(messages):\n    q = messages[0]['content']\n    if q == '5':\n        {body}\n    return q"
    endpoint = make(tmp_path, source, limits={"concurrency": 4})
    done = await ask_many(endpoint)
    (died,) = [each for each in done if isinstance(each, BaseException)]
    assert (type(died), str(died)) == (WorkerDied, f"mine.py:answer ended its process: {how}")
    assert [each.text for each in done if isinstance(each, Completion)] == [str(n) for n in range(12) if n != 5]


async def test_a_call_that_keeps_the_interpreter_is_too_late_and_the_others_are_not(tmp_path: Path) -> None:
    source = (
        "import re\ndef answer(messages):\n    q = messages[0]['content']\n"
        "    if q == '5':\n        re.match(r'(a+)+$', 'a' * 64 + 'b')\n    return q"
    )
    endpoint = make(tmp_path, source, limits={"concurrency": 4}, timeout_s=2)
    done = await ask_many(endpoint, 8)
    assert [type(each) for each in done] == [Completion] * 5 + [TimedOutError] + [Completion] * 2
