"""Real answers of real models to BFCL, with the verdicts published for them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tunecheck import ArgumentMatchEvaluator, FunctionCallMatchEvaluator
from tunecheck.calls.matching import match_calls
from tunecheck.formats import read_calls

SINGLE_TURN = (
    "simple_python",
    "multiple",
    "parallel",
    "parallel_multiple",
    "live_simple",
    "live_multiple",
    "live_parallel",
)


def failing_rows(folder: Path) -> Iterator[dict[str, Any]]:
    """The rows that the leaderboard's own checker failed, with the calls it had read."""
    for category in SINGLE_TURN:
        for path in sorted(folder.glob(f"bfcl_runs/*/score/*/*/BFCL_v4_{category}_score.json")):
            for line in path.read_text(encoding="utf-8").splitlines()[1:]:
                row = json.loads(line)
                if isinstance(row.get("model_result_decoded"), list) and "possible_answer" in row:
                    yield row


def test_what_the_leaderboard_fails_fails_here_too(shared_data: Path) -> None:
    evaluator = ArgumentMatchEvaluator(alternatives=True)
    judged = 0
    for row in failing_rows(shared_data):
        found = evaluator(response=row["model_result_decoded"], ground_truth=row["possible_answer"])
        assert found["argument_match_result"] == "fail", row["id"]
        assert found["argument_match_reason"]
        judged += 1
    assert judged > 1_000


def test_with_definitions_only_defaults_and_whole_numbers_make_a_failing_row_pass(shared_data: Path) -> None:
    evaluator = ArgumentMatchEvaluator(alternatives=True)
    forgiven = {
        "simple_function_checker:missing_optional",  # left out: its default is the accepted value
        "simple_function_checker:unexpected_param",  # given: but with its default
        "value_error:others",
        "type_error:nested",  # whole numbers where the schema says float
    }
    for row in failing_rows(shared_data):
        tools = row["prompt"]["function"]
        found = evaluator(
            response=row["model_result_decoded"], ground_truth=row["possible_answer"], tool_definitions=tools
        )
        assert found["argument_match_result"] == "fail" or row["error_type"] in forgiven, row["id"]


def test_what_a_model_called_matches_itself(shared_data: Path) -> None:
    evaluator = FunctionCallMatchEvaluator(ordered=True)
    judged = 0
    for row in failing_rows(shared_data):
        calls = read_calls(row["model_result_decoded"]).calls
        match = match_calls(calls, calls)
        assert match.arguments_right
        assert match.complete
        assert evaluator(response=calls, ground_truth=row["model_result_decoded"])["function_call_match"] == 1.0
        judged += len(calls)
    assert judged > 500
