"""The page about memory agents does what it shows: its requests get its answers, and its own agent works."""

import json
import re
import shlex
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.agent_parts import NOON_US, Words, memory_agent, serving, told
from tests.cli_parts import ROOT, process, workspace

from tunecheck_memory._agents import agent_for
from tunecheck_memory._served_agent import MAX_CONVERSATIONS, MAX_NOTES
from tunecheck_serve._server import MAX_STORED

PAGE = (ROOT / "docs" / "memory-agents.md").read_text("utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.S | re.M)


@contextmanager
def own_agent(folder: Path) -> Iterator[str]:
    """The page's own agent as a process; gives its address."""
    (code,) = blocks("python")
    (folder / "my_agent.py").write_text(code, "utf-8")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    argv = [sys.executable, "my_agent.py", str(port)]
    with subprocess.Popen(argv, cwd=folder, stderr=subprocess.DEVNULL) as server:
        try:
            for _ in range(500):
                with socket.socket() as probe:
                    if probe.connect_ex(("127.0.0.1", port)) == 0:
                        break
                time.sleep(0.02)
            yield f"http://127.0.0.1:{port}"
        finally:
            server.terminate()


async def test_the_pages_requests_get_the_answers_that_it_shows() -> None:
    (block,) = blocks("console")
    line, shown = block.removeprefix("$ tunecheck serve ").strip().split("\n")
    options = shlex.split(line.replace("--port 8080", "").replace("--service memory-agent", ""))
    said: list[str] = []
    with serving(*options, log=said) as url:
        assert said[0].strip() == shown.replace("http://127.0.0.1:8080", url)
        for exchange in blocks("http"):
            request, _, response = exchange.partition("\n\n")
            head, key, body = request.split("\n")
            status, answer = response.strip().split("\n")
            got = await told(url, head.removeprefix("POST "), key.removeprefix("Idempotency-Key: "), **json.loads(body))
            assert got[:2] == (int(status), json.loads(answer)), exchange


async def test_what_the_page_shows_is_what_an_endpoint_sends() -> None:
    """The fields of each request, in their order, by the tests' own recording server."""
    from tests.fault_server import FaultServer, answer

    with FaultServer(lambda seen, attempt: answer({"reply": "x"})) as server:
        agent = agent_for(memory_agent(server.url.replace("/score", "")), Words(), conversation="run-1")
        await agent.reply("x", key="1", at_us=NOON_US)
        await agent.reply("x", key="2", at_us=NOON_US, suggested="y")
        await agent.advance(NOON_US, NOON_US + 10_800_000_000, "3")
        await agent.reset("4", NOON_US)
    shown = {tuple(json.loads(exchange.split("\n")[2])) for exchange in blocks("http")}
    assert {tuple(json.loads(seen.body)) for seen in server.requests} == shown


async def test_the_pages_own_agent_keeps_the_protocol(tmp_path: Path) -> None:
    with own_agent(tmp_path) as url:
        endpoint = memory_agent(url)
        first = agent_for(endpoint, Words(), conversation="a")
        other = agent_for(endpoint, Words(), conversation="b")
        said = await first.reply("I live in Oslo.", key="1", at_us=NOON_US)
        again = await first.reply("I live in Oslo.", key="1", at_us=NOON_US)
        assert said.text == again.text == "Messages so far: 1; the first was: I live in Oslo."
        assert (await first.reply("Q", key="2", at_us=NOON_US, suggested="A")).adopted
        await first.advance(NOON_US, NOON_US + 1_000_000, "3")
        assert "so far: 2" in ((await first.reply("And?", key="4", at_us=NOON_US)).text or "")
        assert "so far: 1" in ((await other.reply("I live in Rome.", key="5", at_us=NOON_US)).text or "")
        await first.reset("6", NOON_US)
        assert "the first was: Anew." in ((await first.reply("Anew.", key="7", at_us=NOON_US)).text or "")
        await endpoint.close()


def test_the_pages_definition_is_checked_as_it_says(tmp_path: Path) -> None:
    (definition,) = blocks("yaml")
    folder = workspace(tmp_path)
    with own_agent(tmp_path) as url:
        (folder / "agent.yaml").write_text(definition.replace("http://127.0.0.1:8080", url), "utf-8")
        checked = process(folder, "check", "agent.yaml")
    assert checked.code == 0, checked.err
    assert "Messages so far: 1" in checked.out


def test_the_bounds_that_the_page_names_are_those_of_the_code() -> None:
    bounds = f"{MAX_CONVERSATIONS} conversations with {MAX_NOTES:,} sentences each, and {MAX_STORED:,} answers"
    assert bounds in " ".join(PAGE.split())
