"""A judge's reply becomes a metric: how it is read, what it is worth, and how samples are combined."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, strategies as st
from tests.judge_parts import QUALITY, JudgeServer, Scripted, judgement, plain_prompt, prompt_file
from tests.tables import cases

from tunecheck import (
    ConfigurationError,
    ContentFilterError,
    JudgementError,
    JudgeOutput,
    Metric,
    PromptyEvaluator,
    ThrottledError,
)
from tunecheck.evaluators import AnswerForm, ResolvedOutput
from tunecheck.prompts import Kind


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
def test_outputs_hold_the_score(tmp_path: Path, outputs: str, answer: str, score: float, result: str | None) -> None:
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
    with pytest.raises(JudgementError, match="from 1 to 5, not "):
        strict(response="x")


def test_a_binary_score_is_zero_or_one(tmp_path: Path) -> None:
    judge = judging(tmp_path, "{score: {type: number}}", judgement(0.5), judgement(1), judge="{kind: binary}")
    assert judge(response="x")["quality"] == 1


def form(score: str, kind: Kind, labels: Mapping[str, float], most: float = 1.0, type_: str = "string") -> AnswerForm:
    outputs = {"reason": {"type": "string"}, score: {"type": type_}}
    least = 1.0 if most > 1 else 0.0
    return AnswerForm(ResolvedOutput("m", score, "reason", (least, most), None, True, kind, labels, outputs), "here")


FIVE = form("score", "score", {}, 5.0, "number")
PASSED = form("passed", "binary", {}, type_="boolean")
GOOD = form("verdict", "binary", {"good": 1.0, "bad": 0.0})
WINNER = form("winner", "score", {"A": 1.0, "B": 0.0, "C": 0.5})


def score_of(asked: AnswerForm, reply: str) -> float | None:
    """The score in a reply; None where it has to be asked for again."""
    try:
        return asked.read(reply).score
    except JudgementError:
        return None


@cases("judges")
def test_a_score_from_1_to_5_is_read_or_asked_for_again(reply: str, score: float | None) -> None:
    assert score_of(FIVE, reply) == score


FORMS = {"passed": PASSED, "verdict": GOOD, "winner": WINNER}


@cases("judges")
def test_a_word_is_read_or_asked_for_again(asked: str, reply: str, score: float | None) -> None:
    assert score_of(FORMS[asked], reply) == score


@cases("judges")
def test_the_reason_is_read_with_the_score(reply: str) -> None:
    found = FIVE.read(reply)
    assert (found.score, found.reason) == (2, "too short")


@cases("judges")
def test_what_is_no_verdict_is_an_error_that_says_why(reply: str, problem: str) -> None:
    with pytest.raises(JudgementError, match=problem):
        FIVE.read(reply)


def test_a_reply_of_a_million_characters_is_not_read() -> None:
    with pytest.raises(JudgementError, match="longer than 1,000,000 characters"):
        FIVE.read("x" * 1_000_001)


SCORES = st.integers(1, 5)
AROUND = st.sampled_from(["{}", "```json\n{}\n```", "I judge:\n{}\nThat is all.", "<think>5? 1?</think>{}", "[{}]"])
SPELLED = st.sampled_from(
    ['{{"reason": "r", "score": {}}}', '{{"score": "{}/5",}}', "{{'score': {}}}", '{{"a": {{"Score": "{}"}}}}']
)


@given(SCORES, AROUND, SPELLED)
def test_a_score_is_found_in_each_spelling_with_each_thing_around_it(score: int, around: str, spelled: str) -> None:
    assert FIVE.read(around.replace("{}", spelled.format(score))).score == score


@given(SCORES, SCORES, SPELLED, SPELLED)
def test_two_objects_agree_or_are_asked_for_again(first: int, second: int, one: str, other: str) -> None:
    found = score_of(FIVE, f"{one.format(first)}\n{other.format(second)}")
    assert found == (first if first == second else None)


def test_a_long_reply_is_shown_by_its_beginning_and_its_end(tmp_path: Path) -> None:
    reply = "begin\n" + "x" * 5_000 + " end"
    judge = judging(tmp_path, "{score: {type: number}}", reply, reply)
    with pytest.raises(JudgementError, match=r"the first reply is: begin x+…x+ end$") as caught:
        judge(response="r")
    assert len(str(caught.value)) < 800


NESTED = '{"a":' * 30_000


@given(
    st.one_of(
        st.text(max_size=300),
        st.text(alphabet='{}[]":,\\ \nsSeE<>/0129ct.`', max_size=300),
        st.recursive(
            st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=8),
            lambda inner: (
                st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["score", "reason", "x"]), inner)
            ),
            max_leaves=8,
        ).map(lambda value: f"say {json.dumps(value)} end"),
    )
)
@example(NESTED)
@example('{"score":' + "[" * 50_000)
@example('{"score": ' + "9" * 6_000 + "}")
@example('{"score": 1e999}')
@example('{"score": NaN}')
@example('{"score": "\\ud83d"}')
@example('{"' * 100_000)
@example("<score>" * 50_000)
@example("</score>" * 50_000)
@example('{"score": ' + '{"x": ' * 150 + "1" + "}" * 151)
def test_nothing_but_a_verdict_or_its_own_error_comes_of_any_text(text: str) -> None:
    try:
        found = FIVE.read(text)
    except JudgementError as error:
        assert "\n" not in str(error)
    else:
        assert found.score is None or 1 <= found.score <= 5


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


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize(("higher_is_better", "counts", "why"), [(True, 2, "low"), (False, 4, "high")])
def test_of_equal_votes_the_worse_counts_in_any_order_and_whichever_direction_is_better(
    tmp_path: Path, *, turned: bool, higher_is_better: bool, counts: int, why: str
) -> None:
    low, high, odd = judgement(2, "low"), judgement(4, "high"), judgement(3, "odd")
    answers = [low, high, high, low, odd]
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
    assert "1 of 3 judge replies cannot be read" in found["quality_properties"]["note"]


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
