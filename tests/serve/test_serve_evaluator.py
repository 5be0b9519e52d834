"""`tunecheck serve --evaluator`: rows as Foundry's endpoint-based evaluators send them, and what they get back."""

import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from tests.serve_parts import Starter, servers

from tunecheck import F1ScoreEvaluator, FunctionCallMatchEvaluator
from tunecheck.cli import main, make_evaluators, settings_by_evaluator
from tunecheck.plugins import Trust
from tunecheck_serve import ServedEvaluator


@pytest.fixture
async def start() -> AsyncIterator[Starter]:
    async with servers() as begin:
        yield begin


def row(item: dict[str, Any], sample: dict[str, Any] | None = None) -> dict[str, Any]:
    about = {"evaluator_name": "ours", "evaluator_version": "1", "evaluation_level": "turn"}
    return {"schema_version": "0.0.1", **about, "data": {"item": item, "sample": sample or {}}}


async def evaluated(url: str, body: object, **headers: str) -> tuple[int, dict[str, Any]]:
    async with aiohttp.ClientSession() as session, session.post(f"{url}/evaluate", json=body, headers=headers) as said:
        return said.status, await said.json()


async def test_a_row_is_scored_as_the_contract_has_it(start: Starter) -> None:
    url = await start(ServedEvaluator("f1_score", F1ScoreEvaluator(threshold=0.9)))
    item = {"response": "Rome is sunny", "ground_truth": "Rome is very sunny"}
    assert await evaluated(url, row(item)) == (
        200,
        {
            "schema_version": "0.0.1",
            "status": "Completed",
            "score": pytest.approx(6 / 7),
            "passed": False,
            "reason": None,
            "threshold": 0.9,
            "properties": None,
        },
    )


async def test_an_error_does_not_show_a_setting_from_the_environment(
    start: Starter, cwd: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (cwd / "evaluators").mkdir()
    (cwd / "evaluators" / "caller.py").write_text(
        "class Caller:\n"
        "    def __init__(self, token: str): self.token = token\n"
        "    def __call__(self, *, response: str): raise RuntimeError(f'401: {self.token}')\n"
    )
    monkeypatch.setenv("MY_TOKEN", "a-token-of-mine-1234")
    settings = settings_by_evaluator({"caller.token": "${env:MY_TOKEN}"}, ["caller"])
    url = await start(ServedEvaluator("caller", make_evaluators(["caller"], settings)["caller"]))
    _, reply = await evaluated(url, row({"response": "x"}))
    assert (reply["status"], reply["reason"]) == ("Error", "RuntimeError: 401: ***")


async def test_what_a_target_said_is_the_response_and_faults_are_properties(start: Starter) -> None:
    url = await start(ServedEvaluator("calls", FunctionCallMatchEvaluator()))
    said = {"output_text": "It rains.", "output_items": []}
    _, reply = await evaluated(url, row({"ground_truth": '[{"name": "weather", "arguments": {"to": "Bergen"}}]'}, said))
    assert (reply["status"], reply["passed"], reply["score"]) == ("Completed", False, 0)
    assert reply["properties"]["faults"]
    assert "weather" in reply["reason"]


async def test_a_row_that_cannot_be_scored_says_why(start: Starter) -> None:
    def broken(*, response: str) -> dict[str, object]:
        raise ValueError("out of order")

    _, missing = await evaluated(await start(ServedEvaluator("f1", F1ScoreEvaluator())), row({"response": "Rome"}))
    assert (missing["status"], missing["score"]) == ("Error", None)
    assert "ground_truth" in missing["reason"]
    _, failed = await evaluated(await start(ServedEvaluator("broken", broken)), row({"response": "Rome"}))
    assert (failed["status"], failed["reason"]) == ("Error", "ValueError: out of order")


async def test_a_workspace_evaluator_that_ends_its_process_costs_that_row_only(start: Starter, cwd: Path) -> None:
    (cwd / "evaluators").mkdir()
    source = "import os\ndef ends(response: str):\n    return 1 if response == 'Rome' else os._exit(3)\n"
    (cwd / "evaluators" / "ends.py").write_text(source)
    url = await start(ServedEvaluator("ends", make_evaluators(["ends"], {}, None, Trust())["ends"]))
    _, failed = await evaluated(url, row({"response": "Oslo"}))
    assert "ended its worker process: exit code 3" in failed["reason"]
    _, scored = await evaluated(url, row({"response": "Rome"}))
    assert (scored["status"], scored["score"]) == ("Completed", 1.0)


async def test_a_row_on_which_the_evaluator_hangs_or_blocks_costs_no_other(start: Starter) -> None:
    released = threading.Event()

    def hangs(*, response: str) -> dict[str, object]:
        return {"score": 1 if response == "Rome" else released.wait(60)}

    async def blocks(*, response: str) -> dict[str, object]:
        return hangs(response=response)

    for evaluator in (hangs, blocks):
        url = await start(ServedEvaluator("stuck", evaluator, limit_s=0.1))
        _, late = await evaluated(url, row({"response": "Oslo"}))
        _, scored = await evaluated(url, row({"response": "Rome"}))
        assert (
            late["reason"]
            == "EvaluatorTimeoutError: evaluator 'stuck': the call took longer than its time limit of 0.1 s: "
            "make it faster, or raise the limit"
        )
        assert (scored["status"], scored["score"]) == ("Completed", 1)
    released.set()


async def test_a_row_that_it_does_not_apply_to_is_skipped(start: Starter) -> None:
    url = await start(ServedEvaluator("f1", F1ScoreEvaluator()))
    truth = [{"type": "function", "function": {"name": "weather", "arguments": "{}"}}]
    _, reply = await evaluated(url, row({"response": "Rome", "ground_truth": truth}))
    assert (reply["status"], reply["score"], reply["passed"]) == ("Skipped", None, None)


async def test_functions_of_ones_own_are_served_too(start: Starter) -> None:
    async def words(*, response: str) -> dict[str, object]:
        return {"words": len(response.split())}

    _, reply = await evaluated(await start(ServedEvaluator("words", words)), {"data": {"response": "a b c"}})
    assert (reply["status"], reply["score"], reply["passed"]) == ("Completed", 3, None)


async def test_the_key_of_a_connection_is_asked_for(start: Starter) -> None:
    url = await start(ServedEvaluator("f1", F1ScoreEvaluator()), key="secret")
    body = row({"response": "a", "ground_truth": "a"})
    assert (await evaluated(url, body))[0] == 401
    assert (await evaluated(url, body, **{"api-key": "secret"}))[0] == 200


async def test_a_request_without_a_row_is_refused(start: Starter) -> None:
    status, said = await evaluated(await start(ServedEvaluator("f1", F1ScoreEvaluator())), {"schema_version": "0.0.1"})
    assert status == 400
    assert "`data` must be an object" in said["error"]["message"]


def test_parameters_and_judges_are_for_an_evaluator(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--service", "memory-agent", "--judge", "j.yaml"]) == 2
    assert "--set and --judge work only with --evaluator" in capsys.readouterr().err
    assert main(["serve", "--evaluator", "blue"]) == 2
    assert "did you mean 'bleu'?" in capsys.readouterr().err
