"""The rules of every data set: what counts, and which defects of the GoodAI LTM benchmark the default mode repairs.

`scoring_cases.jsonl` has a case in each line: the score, null if words cannot decide, and `benchmark`, the score with
its defects; `sure` where the rule is about that.
"""

from pathlib import Path
from typing import Any

import pytest
from tests.memory_scoring_parts import by_rule, judged, score, verdict_of

from tunecheck_memory import Colours, FinishedTest, Points, Score, UndecidedError, judge_by_words
from tunecheck_memory._kinds.spy_meeting import spy_words

CASES = by_rule(Path(__file__).with_name("scoring_cases.jsonl"))
GIVEN = ("script", "since_question")


@pytest.mark.parametrize("rule", CASES)
def test_a_reply_has_the_score_of_its_rule(rule: str) -> None:
    for case in CASES[rule]:
        more = {name: case[name] for name in GIVEN if name in case}
        test = FinishedTest(case["dataset"], case["expected"], case["replies"], **more)
        for mode in ("score", "benchmark"):
            found: Any = judged(test, compat=mode == "benchmark")
            if mode in case and case[mode] is not None:
                assert found.score == pytest.approx(case[mode]), case
            elif mode in case:
                assert isinstance(found, UndecidedError), case
        if "sure" in case:
            assert getattr(judged(test), "sure", None) is case["sure"], case


def test_a_spy_meeting_of_our_own_has_words_of_our_own() -> None:
    ours = spy_words()[:3]
    assert score("Spy Meeting", [list(words) for words in ours], " ".join(words[0] for words in ours)) == 1


def test_points_are_the_score_of_tests_that_count_themselves() -> None:
    assert score("Restaurant", [], points=Points(3, 5, ("ordered",))) == 0.6
    assert score("Restaurant", [], points=Points(7, 5, ())) == 1
    assert isinstance(verdict_of("Restaurant", [], points=Points(1, 0, ())), UndecidedError)
    assert isinstance(verdict_of("Restaurant", []), UndecidedError)


@pytest.mark.parametrize(
    "title", ["Delayed Recall", "Instruction Recall", "How to think", "Conflicting Personal Information", "Haiku"]
)
def test_what_only_a_judge_can_score_has_no_score(title: str) -> None:
    found = verdict_of(title, ["yes"], "yes")
    assert isinstance(found, UndecidedError)
    assert title in str(found)


def test_a_title_and_the_configurations_name_are_one() -> None:
    spy = [["boat", "bridge", "raft", "kayak"], ["orchard"], ["noon", "midday"]]
    assert score("spy_meeting", spy, "noon") == score("Spy Meeting", spy, "noon") == pytest.approx(1 / 3)


def test_a_kind_scores_by_these_rules() -> None:
    given = FinishedTest("Colours", ["Red"], ["Red"])
    assert Colours().score(given) == judge_by_words(given) == Score(1.0, ("the reply says 'red'",))
