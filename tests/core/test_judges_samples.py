"""Repeated judging: mean or majority, the agreement of samples, and unreadable samples."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.judge_parts import QUALITY, JudgeServer, Scripted, judgement, plain_prompt, prompt_file

from tunecheck import ContentFilterError, JudgementError, JudgeOutput, PromptyEvaluator, ThrottledError

YES_NO = QUALITY.replace("score: {type: integer, minimum: 1, maximum: 5}", "fine: {type: boolean}")


def fine(value: bool, reason: str = "because") -> str:
    return f'{{"reason": "{reason}", "fine": {str(value).lower()}}}'


def judged(folder: Path, *answers: str | Exception, text: str = QUALITY, **arguments: Any) -> Any:
    return PromptyEvaluator(prompt_file(folder, text), Scripted(*answers), **arguments)(response="x")


def test_scores_are_averaged_and_their_standard_deviation_is_reported(tmp_path: Path) -> None:
    answers = [judgement(2, "low"), judgement(4, "middling"), judgement(5, "high")]
    found = judged(tmp_path, *answers, samples=3)
    assert found["quality"] == pytest.approx(11 / 3)
    assert found["quality_reason"] == "middling", "the reason of the sample nearest to the mean"
    properties = found["quality_properties"]
    assert properties["samples"] == 3
    assert properties["spread"] == pytest.approx((14 / 9) ** 0.5)  # of 2, 4 and 5 round 11/3
    assert (properties["input_tokens"], properties["output_tokens"]) == (300, 30)


def test_a_binary_score_is_decided_by_the_majority(tmp_path: Path) -> None:
    answers = [fine(True, "a"), fine(False, "b"), fine(True, "c")]
    found = judged(tmp_path, *answers, text=YES_NO, samples=3)
    assert (found["quality"], found["quality_result"], found["quality_reason"]) == (1, "pass", "a")
    assert found["quality_properties"]["votes"] == {"true": 2, "false": 1}
    assert found["quality_properties"]["spread"] == pytest.approx(1 / 3)


def test_of_equal_votes_the_worse_counts(tmp_path: Path) -> None:
    assert judged(tmp_path, fine(True), fine(False), text=YES_NO, samples=2)["quality"] == 0
    assert judged(tmp_path, judgement(5), judgement(1), samples=2, combine="majority")["quality"] == 1


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize(("higher_is_better", "counts", "why"), [(True, 2, "low"), (False, 4, "high")])
def test_of_equal_votes_the_worse_counts_in_any_order_and_whichever_direction_is_better(
    tmp_path: Path, *, turned: bool, higher_is_better: bool, counts: int, why: str
) -> None:
    answers = [
        judgement(2, "low"),
        judgement(4, "high"),
        judgement(4, "high"),
        judgement(2, "low"),
        judgement(3, "odd"),
    ]
    output = JudgeOutput(higher_is_better=higher_is_better)
    found = judged(tmp_path, *answers[:: -1 if turned else 1], samples=5, combine="majority", output=output)
    assert (found["quality"], found["quality_reason"]) == (counts, why)
    assert found["quality_properties"]["votes"] == {"2": 2, "4": 2, "3": 1}
    assert found["quality_properties"]["spread"] == pytest.approx(3 / 5)


def test_of_samples_that_are_alike_the_first_gives_the_reason(tmp_path: Path) -> None:
    answers = [judgement(1, "first"), judgement(3, "second"), judgement(3, "third"), judgement(1, "fourth")]
    assert judged(tmp_path, *answers, samples=4)["quality_reason"] == "first", "all four are as near to the mean"
    assert judged(tmp_path, *answers[1:3], samples=2, combine="majority")["quality_reason"] == "second"


def test_the_other_way_of_combining_can_be_chosen(tmp_path: Path) -> None:
    answers = [fine(True), fine(False), fine(True), fine(True)]
    assert judged(tmp_path, *answers, text=YES_NO, samples=4, combine="mean")["quality"] == 0.75


def test_the_prompt_may_say_how_often_and_how(tmp_path: Path) -> None:
    judge = PromptyEvaluator(
        plain_prompt(tmp_path, samples=3, combine="majority"), Scripted(*(judgement(n) for n in (1, 3, 3)))
    )
    assert judge(response="x")["quality"] == 3


@pytest.mark.parametrize("broken", [ContentFilterError("declined"), "nothing to read"])
def test_samples_that_cannot_be_read_are_left_out_and_the_row_says_so(tmp_path: Path, broken: Any) -> None:
    # The repair of the broken one comes last: the three are in flight at once.
    found = judged(tmp_path, judgement(2), broken, judgement(4), "still nothing", samples=3)
    assert found["quality"] == 3
    assert found["quality_properties"]["samples"] == 2
    assert "1 of 3 samples cannot be read" in found["quality_properties"]["note"]


def test_where_no_sample_can_be_read_the_row_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(JudgementError):
        judged(tmp_path, *["nothing"] * 6, samples=3)


def test_a_sample_that_could_not_be_bought_is_the_rows_error(tmp_path: Path) -> None:
    with pytest.raises(ThrottledError):
        judged(tmp_path, judgement(2), ThrottledError("busy"), judgement(4), samples=3)


def test_samples_at_temperature_zero_are_remarked_on(tmp_path: Path) -> None:
    found = judged(tmp_path, judgement(2), judgement(2), samples=2, parameters={"temperature": 0})
    assert "temperature 0" in found["quality_properties"]["note"]
    assert "note" not in judged(tmp_path, judgement(2), parameters={"temperature": 0})["quality_properties"]


def test_each_sample_is_a_call_of_its_own(tmp_path: Path) -> None:
    with JudgeServer(lambda asked: judgement(3)) as server:
        found: Any = PromptyEvaluator(prompt_file(tmp_path), server.endpoint(), samples=5)(response="x")
    assert len({request.key for request in server.requests}) == 5
    assert found["quality_properties"]["spread"] == 0


def test_where_most_samples_see_nothing_to_judge_there_is_nothing(tmp_path: Path) -> None:
    nothing = '{"score": null, "reason": "empty", "status": "skipped"}'
    judge = PromptyEvaluator(plain_prompt(tmp_path), Scripted(nothing, judgement(2), nothing), samples=3)
    assert judge(response="x")["quality_result"] == "not_applicable"
    judge = PromptyEvaluator(plain_prompt(tmp_path), Scripted(nothing, judgement(2), judgement(4)), samples=3)
    assert judge(response="x")["quality"] == 3
    judge = PromptyEvaluator(plain_prompt(tmp_path), Scripted(nothing, judgement(2)), samples=2)
    assert judge(response="x")["quality"] == 2, "half of them is not most"
