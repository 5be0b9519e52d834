"""Judges in a run: through its journal, its cache and its budget, from Python and from the command line."""

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.cli_parts import inside
from tests.fault_server import Step
from tests.judge_parts import QUALITY, Asked, JudgeServer, chat, judgement, prompt_file
from tests.pipeline_parts import column, metrics_of, records, run

from tunecheck import PromptyEvaluator, RunError

KEY = "sk-plain-0123456789-secret"
PRICE = {"input_per_million": 1.0, "output_per_million": 10.0}  # a call: 100 and 10 tokens, 0.0002


def rows(*responses: str) -> list[dict[str, Any]]:
    return [{"id": f"r{number}", "response": response} for number, response in enumerate(responses)]


def by_length(asked: Asked) -> Step | str:
    return judgement(min(5, len(asked["messages"][-1]["content"])))


def test_judged_rows_stand_in_rows_and_metrics(tmp_path: Path) -> None:
    with JudgeServer(by_length) as server:
        judge = PromptyEvaluator(prompt_file(tmp_path), server.endpoint(price=PRICE))
        result = run(tmp_path, rows("a", "bbb", "ccccc", "a"), evaluators={"quality": judge})
    assert column(result, "outputs.quality.quality") == [1, 3, 5, 1]
    assert column(result, "outputs.quality.quality_result") == ["fail", "pass", "pass", "fail"]
    metrics = metrics_of(result)
    assert metrics["quality.quality"] == 2.5
    assert metrics["quality.binary_aggregate"] == 0.5
    assert not [name for name in metrics if "token" in name or "properties" in name]
    assert len(server.asked) == 3, "equal rows are one call"
    used: Any = result.usage["quality"]
    assert used["calls"] == 3
    assert used["cost"] == pytest.approx(0.0006)


def test_a_judge_without_a_threshold_scores_its_rows(tmp_path: Path) -> None:
    text = QUALITY.replace("{type: integer, minimum: 1, maximum: 5}", "{type: number}")
    with JudgeServer(by_length) as server:
        judge = PromptyEvaluator(prompt_file(tmp_path, text), server.endpoint())
        metrics = metrics_of(run(tmp_path, rows("a", "bbb"), evaluators={"quality": judge}))
    assert metrics["quality.quality"] == 2
    assert (metrics["quality.scored_count"], metrics["quality.not_applicable_count"]) == (2, 0)
    assert "quality.binary_aggregate" not in metrics


def test_each_sample_is_bought_once_and_taken_over(tmp_path: Path) -> None:
    with JudgeServer(by_length) as server:
        judge = PromptyEvaluator(prompt_file(tmp_path), server.endpoint(), samples=3)
        first = run(tmp_path, rows("a", "bb"), evaluators={"quality": judge})
        assert len(server.asked) == 6
        assert len(records(first, "call")) == 6
        stricter = PromptyEvaluator(prompt_file(tmp_path), server.endpoint(), samples=3, threshold=5)
        second = run(tmp_path, rows("a", "bb"), evaluators={"quality": stricter}, reuse=first.run_dir)
        assert len(server.asked) == 6, "another threshold judges anew what was answered before"
    assert column(second, "outputs.quality.quality_threshold") == [5, 5]


def test_a_run_that_failed_midway_goes_on_and_buys_nothing_twice(tmp_path: Path) -> None:
    def reply(asked: Asked) -> Step | str:
        if asked.get("response_format", {}).get("type") == "json_schema":
            return Step(400, {}, b'{"error": {"message": "response_format is not supported"}}')
        return by_length(asked)

    texts = [f"{number:03}" for number in range(30)]
    with JudgeServer(reply) as server:
        settings: Any = {"price": PRICE, "limits": {"concurrency": 4}}
        judge = PromptyEvaluator(prompt_file(tmp_path), server.endpoint(**settings))
        with pytest.raises(RunError, match="max-cost"):
            run(tmp_path, rows(*texts), evaluators={"quality": judge}, max_cost=0.002)
        again = PromptyEvaluator(prompt_file(tmp_path), server.endpoint(**settings))
        result = run(tmp_path, rows(*texts), evaluators={"quality": again}, max_cost=1, resume="last")
    answered = Counter(
        asked["messages"][-1]["content"] for asked in server.asked if asked["response_format"]["type"] == "json_object"
    )
    assert answered == Counter(texts)
    assert column(result, "outputs.quality.quality") == [3] * 30
    refused = [asked for asked in server.asked if asked["response_format"]["type"] == "json_schema"]
    assert len(refused) == 1, "what the service takes is known when the run goes on"
    assert (
        "endpoint 'judge': this model refuses response_format json_schema, so Tunecheck asks for a JSON object instead"
        in (result.notes)
    )


def test_a_judge_that_was_called_by_hand_before_works_in_a_run(tmp_path: Path) -> None:
    with JudgeServer(by_length) as server:
        judge = PromptyEvaluator(prompt_file(tmp_path), server.endpoint())
        assert judge(response="abc")["quality"] == 3
        result = run(tmp_path, rows("a", "bb"), evaluators={"quality": judge})
        assert judge(response="abcd")["quality"] == 4
    assert column(result, "outputs.quality.quality") == [1, 2], column(result, "error.quality")


# -- the command line


def test_without_a_judge_the_command_says_what_to_add(tmp_path: Path) -> None:
    (tmp_path / "data.jsonl").write_text('{"response": "abc", "ground_truth": "abd"}\n')
    done = inside(
        tmp_path, "evaluate", "--dataset", "data.jsonl", "--evaluators", "difference", "--response-column", "response"
    )
    assert done.code == 2
    assert "--judge" in done.err
    assert "Traceback" not in done.err


def test_rows_are_made_ready_ahead_and_the_endpoint_is_asked_no_more_at_once_than_it_takes(tmp_path: Path) -> None:
    with JudgeServer(lambda asked: replace(chat(judgement(4)), delay_s=0.02)) as server:
        judge = PromptyEvaluator(prompt_file(tmp_path), server.endpoint(limits={"concurrency": 4}))
        assert judge.concurrency == 8
        result = run(tmp_path, rows(*(f"{number:03}" for number in range(60))), evaluators={"quality": judge})
    assert column(result, "outputs.quality.quality") == [4] * 60
    assert server.most_under_way == 4
