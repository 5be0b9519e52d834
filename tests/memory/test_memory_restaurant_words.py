"""The judge that goes by words alone: what it takes for a guest, an order, a complaint and a memory."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st
from tests.memory_restaurant_parts import GUEST_WORDS, reference_replays, visit
from tests.memory_scoring_parts import by_rule

from tunecheck import ConfigurationError
from tunecheck.plugins import JSON
from tunecheck_memory import AskJudge, Menu, WordJudge, load_wording

MENU = load_wording().restaurant.menu


def judged(purpose: str, reply: str, **values: JSON) -> Any:
    request = AskJudge(f"restaurant_{purpose}", {"line": "", "reply": reply, **values})
    return json.loads(asyncio.run(WordJudge().ask(request, key="k")).text or "")


CASES = by_rule(Path(__file__).with_name("word_judge_cases.jsonl"))


@pytest.mark.parametrize("rule", CASES)
def test_a_reply_is_judged_by_its_rule(rule: str) -> None:
    for case in CASES[rule]:
        purpose, values = case["purpose"], {name: case[name] for name in ("wanted", "drinks") if name in case}
        found = judged(purpose, case["reply"], menu=MENU.text, **values)
        if purpose == "extraction":
            assert [[item["item"], item["menu_nr"]] for item in found["order"]] == case["ordered"], case
            assert found["has_ordered_something"] is bool(case["ordered"])
        else:
            assert found[purpose] is case["answer"], case


def test_a_number_stands_for_a_dish_in_any_menu() -> None:
    menu = Menu({"Soups": ("Red Soup", "Green Soup", "Blue Soup")})
    found = judged("extraction", "The green soup, please, and #3.", wanted="dishes", menu=menu.text)
    assert [(item["item"], item["menu_nr"]) for item in found["order"]] == [("Green Soup", 2), ("Blue Soup", 3)]


# -- whole visits


def test_its_judgements_take_a_visit_to_its_end() -> None:
    made = visit(GUEST_WORDS, WordJudge().judge, seed="1")
    assert made.total == 5


def test_it_scores_the_references_visits_as_their_judge_did_in_85_percent(shared_data: Path) -> None:
    wording = load_wording(shared_data / "ltm" / "wording.yml")
    equal = 0
    rows = reference_replays(shared_data)
    for row in rows:
        replies = [reply for _, reply in row["pairs"][:-1]]
        made = visit(replies, WordJudge().judge, seed=row["seed"], wording=wording)
        equal += made.points is not None and made.points.points / 5 == pytest.approx(row["score"])
    assert equal >= 0.85 * len(rows)


# -- anything else


def test_a_question_that_it_does_not_know_is_refused_with_what_to_do() -> None:
    with pytest.raises(
        ConfigurationError, match="'haiku' cannot be answered by comparing text: give a judge model with --judge"
    ):
        asyncio.run(WordJudge().ask(AskJudge("haiku", {}), key="k"))


PURPOSES = ["follows_role", "extraction", "noticed", "recalls"]
PARTS = "i'll have |the |goulash |\n|- |*|waiter: |(smil|tea |?|and |number 3 |it's".split("|")


@given(st.sampled_from(PURPOSES), st.text() | st.lists(st.sampled_from(PARTS)).map("".join))
def test_it_answers_whatever_is_said(purpose: str, reply: str) -> None:
    made = judged(purpose, reply, menu=MENU.text, wanted="dishes", drinks=["tea"])
    assert isinstance(made, dict)


@pytest.mark.parametrize("values", [{}, {"reply": 3, "menu": [], "drinks": "tea"}, {"menu": "x", "drinks": [None, 3]}])
@pytest.mark.parametrize("purpose", PURPOSES)
def test_it_answers_whatever_it_is_given(purpose: str, values: dict[str, JSON]) -> None:
    assert isinstance(json.loads(WordJudge().judge(AskJudge(f"restaurant_{purpose}", values))), dict)


@pytest.mark.parametrize("part", [*PARTS, " ", "(", "i'll go ahead and ", "didn't ", "also ", "maybe ", "red "])
def test_endless_replies_do_not_keep_it_long(part: str) -> None:
    for purpose in PURPOSES:
        judged(purpose, part * 1_000_000, menu=MENU.text, wanted="dishes", drinks=["tea"] * 50)
