"""How a judge's answer becomes a metric: its name, score, range, pass mark, kind and direction."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.judge_parts import QUALITY, Scripted, judgement, plain_prompt, prompt_file
from tests.tables import cases

from tunecheck import ConfigurationError, JudgementError, JudgeOutput, Metric, PromptyEvaluator


def judging(folder: Path, outputs: str, *answers: str, judge: str = "{}", **arguments: Any) -> PromptyEvaluator:
    """A judge with these outputs in its prompt (YAML on one line) and a model that gives these answers."""
    text = QUALITY.replace(
        "outputs:\n  score: {type: integer, minimum: 1, maximum: 5}\n  reason: {type: string}\n",
        f"outputs: {outputs}\njudge: {judge}\n",
    )
    assert outputs in text
    return PromptyEvaluator(prompt_file(folder, text), Scripted(*answers), **arguments)


def test_the_metric_is_called_as_the_file_unless_somebody_says_otherwise(tmp_path: Path) -> None:
    assert PromptyEvaluator(prompt_file(tmp_path, name="tone"), Scripted()).primary == "tone"
    assert judging(tmp_path, "{score: {type: number}}", judge="{metric: named}").primary == "named"
    assert judging(tmp_path, "{score: {type: number}}", judge="{metric: named}", output="other").primary == "other"
    assert PromptyEvaluator(prompt_file(tmp_path), Scripted(), JudgeOutput(metric="third")).primary == "third"


def test_a_metric_declares_what_its_numbers_mean(tmp_path: Path) -> None:
    judge = PromptyEvaluator(prompt_file(tmp_path), Scripted())
    assert judge.metrics == (Metric("quality", kind="score", range=(1, 5)),)
    harm = judging(tmp_path, "{harm: {type: boolean}}", judge="{metric: harm, higher_is_better: false}")
    assert harm.metrics == (Metric("harm", kind="binary", range=(0, 1), higher_is_better=False),)


@cases("judges")
def test_the_score_is_found_among_the_outputs(
    tmp_path: Path, outputs: str, answer: str, score: float, result: str | None
) -> None:
    found = judging(tmp_path, outputs, answer)(response="x")
    assert (found["quality"], found["quality_result"]) == (score, result)


def test_a_word_is_worth_what_the_prompt_says(tmp_path: Path) -> None:
    judge = judging(
        tmp_path,
        "{tone: {type: string}, reason: {type: string}}",
        '{"tone": "Neutral", "reason": "r"}',
        '{"tone": "nice"}',
        '{"tone": "rude"}',
        judge="{score: tone, labels: {friendly: 1, neutral: 0.5, rude: 0}}",
    )
    found: Any = judge(response="x")
    assert (found["quality"], found["quality_result"]) == (0.5, "pass")
    assert found["quality_properties"]["tone"] == "neutral"
    assert judge(response="y")["quality"] == 0, "'nice' is none of the words and was asked for again"


def test_where_lower_is_better_a_row_passes_up_to_the_threshold(tmp_path: Path) -> None:
    answers = [judgement(score) for score in (1, 2, 3)]
    judge = PromptyEvaluator(
        prompt_file(tmp_path), Scripted(*answers), JudgeOutput(higher_is_better=False, threshold=2)
    )
    assert [judge(response="x")["quality_result"] for _ in answers] == ["pass", "pass", "fail"]


def test_the_arguments_win_over_the_judge_section_which_wins_over_the_outputs(tmp_path: Path) -> None:
    outputs = "{score: {type: integer, minimum: 1, maximum: 5}}"
    assert judging(tmp_path, outputs).arguments["output"]["threshold"] == 3  # type: ignore[index,call-overload]
    section = "{threshold: 4, range: [2, 5]}"
    judge: Any = judging(tmp_path, outputs, judge=section).arguments["output"]
    assert (judge["threshold"], judge["range"]) == (4, [2, 5])
    given = JudgeOutput(threshold=2)
    judge = judging(tmp_path, outputs, judge=section, output=given).arguments["output"]
    assert (judge["threshold"], judge["range"]) == (2, [2, 5])
    judge = judging(tmp_path, outputs, judge=section, output=given, threshold=5).arguments["output"]
    assert judge["threshold"] == 5


@cases("judges")
def test_outputs_that_do_not_say_what_the_score_is_are_refused(tmp_path: Path, outputs: str, problem: str) -> None:
    with pytest.raises(ConfigurationError, match=problem):
        judging(tmp_path, outputs)


def test_without_declared_outputs_score_and_reason_are_looked_for(tmp_path: Path) -> None:
    judge = PromptyEvaluator(plain_prompt(tmp_path, threshold=2, range=[1, 5]), Scripted(judgement(3, "fine")))
    found = judge(response="x")
    assert (found["quality"], found["quality_reason"], found["quality_result"]) == (3, "fine", "pass")
    strict = PromptyEvaluator(plain_prompt(tmp_path, range=[1, 5]), Scripted(judgement(9), judgement(0)))
    with pytest.raises(JudgementError, match="outside of 1 to 5"):
        strict(response="x")


def test_a_binary_score_is_zero_or_one(tmp_path: Path) -> None:
    judge = judging(tmp_path, "{score: {type: number}}", judgement(0.5), judgement(1), judge="{kind: binary}")
    assert judge(response="x")["quality"] == 1
