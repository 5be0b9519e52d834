"""Groups of questions and conversations, such as `bfcl:all`: each evaluator leaves the other's rows alone."""

from pathlib import Path
from typing import Any

import pytest
from tests.bfcl_data_parts import make_tree
from tests.pipeline_parts import column, metrics_of, rows_of

from tunecheck import EvaluationResult, MultiTurnStateEvaluator, evaluate
from tunecheck.datasets import open_dataset
from tunecheck.endpoints import Endpoint, load_endpoint
from tunecheck.episodes import CallMode
from tunecheck_bfcl import CallCheckEvaluator

CONVERSATION, QUESTION = "multi_turn_state", "call_check"


@pytest.fixture(autouse=True)
def workspace(cwd: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TUNECHECK_BFCL", str(make_tree(cwd).parent))
    return cwd


def simulated(**rates: float) -> Endpoint:
    return load_endpoint({"kind": "simulated", "rates": rates}, name="simulated")


def check_that_each_row_has_one_verdict(result: EvaluationResult) -> None:
    assert result.failed_row_count == 0
    for own, other, several_turns in ((QUESTION, CONVERSATION, False), (CONVERSATION, QUESTION, True)):
        for category, mine, theirs, status, why in zip(
            column(result, "inputs.category"),
            column(result, f"outputs.{own}.{own}_result"),
            column(result, f"outputs.{other}.{other}_result"),
            column(result, f"outputs.{other}.{other}_status"),
            column(result, f"outputs.{other}.{other}_reason"),
            strict=True,
        ):
            if category.startswith("multi_turn") == several_turns:
                assert mine in ("pass", "fail"), category
                assert (theirs, status) == ("not_applicable", "skipped"), category
                assert why == ("the row has several turns" if several_turns else "the row has one question")


def counts(result: EvaluationResult, evaluator: str) -> tuple[object, ...]:
    names = ("scored_count", "not_applicable_count", "error_count")
    return tuple(metrics_of(result)[f"{evaluator}.{name}"] for name in names)


@pytest.mark.parametrize("workers", [0, 2])
def test_every_row_of_all_categories_has_a_verdict_of_one_evaluator_and_no_error(workers: int) -> None:
    result = evaluate(data="bfcl:all", target=simulated(), workers=workers)
    assert len({*column(result, "inputs.category")}) == len(column(result, "inputs.category")) == 17
    check_that_each_row_has_one_verdict(result)
    assert counts(result, QUESTION) == (13, 4, 0)
    assert counts(result, CONVERSATION) == (4, 13, 0)
    assert not [name for row in rows_of(result) for name in row if name.startswith("error.")]


def test_a_group_without_possible_answers_is_judged_beside_conversations() -> None:
    """Questions that are right by calling or not have no ground truth at all."""
    data = "bfcl:irrelevance,live_irrelevance,live_relevance,multi_turn_composite"
    assert [row.values.get("ground_truth") is None for row in open_dataset(data).rows()] == [True, True, True, False]
    result = evaluate(data=data, target=simulated(), workers=0)
    check_that_each_row_has_one_verdict(result)
    assert metrics_of(result)["call_check.binary_aggregate"] == 1
    assert counts(result, QUESTION) == (3, 1, 0)
    assert counts(result, CONVERSATION) == (1, 3, 0)


def test_rates_are_over_the_rows_that_an_evaluator_judges() -> None:
    result = evaluate(data="bfcl:irrelevance,multi_turn_base", target=lambda **_: {"response": "No."}, workers=0)
    check_that_each_row_has_one_verdict(result)
    assert metrics_of(result)["call_check.binary_aggregate"] == 1
    assert metrics_of(result)["multi_turn_state.binary_aggregate"] == 0


@pytest.mark.parametrize("compat", ["auto", "bfcl", "strict"])
def test_other_modes_leave_the_other_rows_alone_too(compat: Any) -> None:
    mode: CallMode
    for mode in ("tools", "text"):
        evaluators = {
            QUESTION: CallCheckEvaluator(compat=compat, mode=mode),
            CONVERSATION: MultiTurnStateEvaluator(compat=compat, mode=mode),
        }
        data = "bfcl:simple_python,live_relevance,multi_turn_miss_func"
        result = evaluate(data=data, target=simulated(), evaluators=evaluators, workers=0)
        assert result.failed_row_count == 0
        assert column(result, "outputs.call_check.call_check_reason")[2] == "the row has several turns"
        reasons = column(result, "outputs.multi_turn_state.multi_turn_state_reason")
        assert reasons[:2] == ["the row has one question"] * 2
