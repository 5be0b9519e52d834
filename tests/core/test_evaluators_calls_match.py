"""`match`: calls by function and arguments, answers by their wording."""

from typing import Any

import pytest
from tests.matching_parts import call, calls_of
from tests.tables import cases

from tunecheck import ConfigurationError, MatchEvaluator
from tunecheck.plugins import Verdict

WEATHER = call("get_weather", city="Paris")


def judge(response: object, ground_truth: object, **options: Any) -> Verdict:
    return MatchEvaluator(**options)(response=response, ground_truth=ground_truth)


def test_the_keys_are_the_two_of_calls_and_the_eight_of_match() -> None:
    endings = ("", "_score", "_passed", "_result", "_reason", "_status", "_threshold", "_properties")
    keys = ["fcall_match", "fcall_args_match", *(f"match{ending}" for ending in endings)]
    assert list(judge([WEATHER], [WEATHER])) == keys


@cases("scoring")
def test_on_a_call_row_function_and_arguments_must_match(response: object, functions: bool, arguments: bool) -> None:
    found = judge(calls_of(response), [WEATHER])
    assert (found["fcall_match"], found["fcall_args_match"]) == (functions, arguments)
    assert found["match"] == found["match_score"] == float(functions and arguments)
    assert found["match_passed"] is (functions and arguments)
    assert (found["match_reason"] is None) is found["match_passed"]


@pytest.mark.parametrize("threshold", [0.0, 1.0])
def test_on_a_call_row_the_threshold_changes_nothing(threshold: float) -> None:
    assert judge([WEATHER], [WEATHER], threshold=threshold)["match_passed"] is True
    assert judge([call("rm")], [WEATHER], threshold=threshold)["match_passed"] is False


# ROUGE-L F by hand: P = LCS / words of the response, R = LCS / words of the ground truth, F = 2PR / (P + R).
@cases("scoring")
def test_on_an_answer_row_the_wording_is_scored(response: object, ground_truth: str, score: float) -> None:
    found = judge(response, ground_truth)
    assert (found["fcall_match"], found["fcall_args_match"]) == (None, None)
    assert found["match"] == pytest.approx(score, abs=1e-12)
    assert found["match_passed"] is (score >= 0.75)


def test_the_threshold_of_answers_is_a_parameter() -> None:
    assert judge("the cat", "the cat sat", threshold=0.8)["match_passed"] is True  # F = 0.8
    found = judge("the cat", "the cat sat", threshold=0.81)
    assert found["match_passed"] is False
    assert found["match_threshold"] == 0.81
    assert found["match_reason"] == "ROUGE-L F is 0.8, below 0.81"


def test_a_call_where_an_answer_was_wanted_fails_with_a_score_of_zero() -> None:
    found = judge([WEATHER], "It is sunny.", threshold=0.0)
    assert (found["match"], found["match_passed"], found["fcall_match"]) == (0.0, False, None)
    assert found["match_reason"] == 'called get_weather(city="Paris") when it should have answered'


def test_an_unreadable_call_where_an_answer_was_wanted_fails() -> None:
    found = judge('<tool_call>{"name": "f", "arguments": {</tool_call>', "It is sunny.")
    assert (found["match"], found["match_passed"]) == (0.0, False)


@pytest.mark.parametrize("ground_truth", [None, "", "  ", []])
def test_without_any_ground_truth_there_is_nothing_to_compare(ground_truth: object) -> None:
    with pytest.raises(ValueError, match="there is no ground truth"):
        judge("It is sunny.", ground_truth)


@pytest.mark.parametrize("threshold", [-0.1, 1.1, "0.5", None, True, float("nan")])
def test_a_threshold_is_a_number_from_zero_to_one(threshold: Any) -> None:
    with pytest.raises(ConfigurationError, match="threshold of match must be a number from 0 to 1"):
        MatchEvaluator(threshold=threshold)


def test_it_takes_definitions_and_policies() -> None:
    tools = [{"name": "get_weather", "parameters": {"properties": {"unit": {"default": "c"}}}}]
    evaluator = MatchEvaluator(ignore_case=True)
    response = [call("get_weather", city="PARIS", unit="C")]
    found = evaluator(response=response, ground_truth=[WEATHER], tool_definitions=tools)
    assert found["match_passed"] is True
    assert evaluator.arguments["threshold"] == 0.75
