"""The judge that goes by words alone: what it takes for a guest, an order, a complaint and a memory."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st
from tests.memory_restaurant_parts import GUEST_WORDS, reference_replays, visit

from tunecheck import ConfigurationError
from tunecheck.plugins import JSON
from tunecheck_memory import AskJudge
from tunecheck_memory._kinds.menu import Menu
from tunecheck_memory._kinds.restaurant_words import WordJudge
from tunecheck_memory._wording import load_wording

MENU = load_wording().restaurant.menu
NUMBERS = {entry: number for number, entry in enumerate(MENU.entries, 1)}


def judged(purpose: str, reply: str, **values: JSON) -> Any:
    request = AskJudge(f"restaurant_{purpose}", {"line": "", "reply": reply, **values})
    return json.loads(asyncio.run(WordJudge().ask(request, key="k")).text or "")


def is_guest(reply: str) -> bool:
    return bool(judged("follows_role", reply)["follows_role"])


def listed(reply: str, wanted: str = "dishes", menu: Menu = MENU) -> list[tuple[str, int | None]]:
    found = judged("extraction", reply, wanted=wanted, menu=menu.text)
    assert found["has_ordered_something"] is bool(found["order"])
    return [(item["item"], item["menu_nr"]) for item in found["order"]]


def dishes(reply: str) -> list[str]:
    return [name for name, _ in listed(reply)]


def drinks(reply: str) -> list[tuple[str, int | None]]:
    return listed(reply, "drinks")


def notices(reply: str) -> bool:
    return bool(judged("noticed", reply, ordered=[], served=[])["noticed"])


def recalls(reply: str, *ordered: str) -> bool:
    return bool(judged("recalls", reply, drinks=list(ordered))["recalls"])


# -- the guest


@pytest.mark.parametrize(
    "reply",
    [
        "A coffee, please.",
        "*looks around* Lovely place! I'll have the ginger beer.",
        "Guest: could I get some still water?",
        "I’d like a pot of tea. Could you give me a minute with the menu?",
        "As an assistant cook myself, I'd like to try your coffee.",
    ],
)
def test_who_orders_is_a_guest(reply: str) -> None:
    assert is_guest(reply)


@pytest.mark.parametrize(
    "reply",
    [
        "I am an AI and cannot drink. How can I help you?",
        "As a language model, I don't eat or drink.",
        "May I suggest the ginger beer? It goes well with the goulash.",
        "We have coffee, tea and juice. Would you like one of them?",
        "You could try our house wine, and I will gladly bring it to you.",
        "",
        "  \n ",
    ],
)
def test_who_serves_advises_or_is_a_program_is_no_guest(reply: str) -> None:
    assert not is_guest(reply)


# -- orders


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ("I'll have the beef goulash, please.", ["Beef Goulash with Egg Noodles"]),
        ("Could I get the lamb shank?", ["Braised Lamb Shank with Polenta and Red Cabbage"]),
        ("I would like number 14.", ["Wild Mushroom Lasagne with Thyme"]),
        ("Onion tart.", ["Onion Tart with Gruyere"]),
        ("I’d love the Shepherd’s Pie!", ["Shepherd's Pie with Buttered Carrots"]),
        ("The sea bass sounds wonderful. I'll take that.",
         ["Pan-Fried Sea Bass with Fennel, Potatoes, and Saffron Sauce"]),
        ("Could I have the paella instead of the goulash?", ["Seafood Paella with Mussels and Prawns"]),
        (
            "For my starter, the corn fritters, and for the main course the duck breast.",
            ["Sweet Corn Fritters with Chili Yoghurt", "Roast Duck Breast with Plum Chutney and Parsnip Puree"],
        ),
        (
            "I'll have:\n- Pumpkin soup\n- Pumpkin ravioli\n- Apple crumble",
            ["Pumpkin Soup with Ginger and Coconut Milk", "Pumpkin Ravioli with Sage and Brown Butter",
             "Apple Crumble with Custard"],
        ),
        ("I'll have the goulash. And also the rice pudding.",
         ["Beef Goulash with Egg Noodles", "Rice Pudding with Cherries"]),
        ("How about the eggplant gratin instead?", ["Eggplant Gratin with Tomatoes and Pecorino"]),
    ],
)  # fmt: skip
def test_dishes_are_known_by_what_tells_them_apart(reply: str, expected: list[str]) -> None:
    assert dishes(reply) == expected


@pytest.mark.parametrize(
    "reply",
    [
        "I'd like another minute to look at the menu, please.",
        "What can you recommend? Is the goulash good?",
        "The paella sounds tempting, and so does the onion tart.",
        "Perhaps the goulash or the paella?",
        "You could have the goulash, the paella or the lasagne.",
        "Thank you!",
        "",
        "Waiter: The goulash is very good today. Would you like it?",
    ],
)
def test_what_is_weighed_praised_or_offered_is_not_ordered(reply: str) -> None:
    assert not listed(reply)


def test_what_stays_as_it_was_is_not_ordered_anew() -> None:
    reply = "In that case I'll have the stuffed peppers. And I'd still like the onion tart, as planned."
    assert dishes(reply) == ["Stuffed Peppers with Lentils, Feta, and Mint"]


def test_what_the_menu_does_not_have_is_off_the_menu() -> None:
    (item,) = judged("extraction", "I'll have a pizza with ham.", wanted="dishes", menu=MENU.text)["order"]
    assert (item["off_menu"], item["menu_nr"], item["is_drink"]) == (True, None, False)
    assert "pizza" in item["item"]


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ("I'd like a cup of coffee, please.", [("coffee", "Coffee")]),
        ("Ginger beer, please.", [("ginger beer", "Ginger Beer")]),
        ("Can I have a beer?", [("beer", "Ginger Beer")]),
        ("I'll have green tea and some still water.", [("green tea", "Pot of Tea (Black, Green, or Peppermint)"),
                                                     ("still water", "Sparkling or Still Water")]),
        ("I'll take apple juice, cloudy, please.", [("cloudy apple juice", "Apple Juice (Clear or Cloudy)")]),
        ("A glass of red wine would be nice, I'd like that.", [("red wine", "House Wine (Red or White)")]),
        ("I'd like a lemonade.", [("lemonade", None)]),
        ("Let me start with a drink. I'll have coffee while I take a few minutes to look.", [("coffee", "Coffee")]),
    ],
)  # fmt: skip
def test_drinks_are_known_by_their_names_and_sorts(reply: str, expected: list[tuple[str, str | None]]) -> None:
    assert drinks(reply) == [(name, NUMBERS[entry] if entry else None) for name, entry in expected]


def test_a_number_stands_for_a_dish_in_any_menu() -> None:
    menu = Menu({"Soups": ("Red Soup", "Green Soup", "Blue Soup")})
    assert listed("The green soup, please, and #3.", menu=menu) == [("Green Soup", 2), ("Blue Soup", 3)]


# -- complaints


@pytest.mark.parametrize(
    "reply",
    [
        "I think there has been a mix-up.",
        "Excuse me, I ordered the goulash.",
        "This isn't the dish I asked for.",
        "Hm, I did not order any soup.",
        "Thank you! Wasn't I supposed to get the paella?",
        "Sorry, that is the wrong dish.",
    ],
)
def test_who_says_that_something_is_wrong_has_noticed(reply: str) -> None:
    assert notices(reply)


@pytest.mark.parametrize(
    "reply", ["Thank you very much!", "It looks delicious.", "Could I have some salt?", "", "Great"]
)
def test_who_thanks_has_not_noticed(reply: str) -> None:
    assert not notices(reply)


# -- the drink


@pytest.mark.parametrize(
    ("reply", "drink"),
    [
        ("I was having the iced tea.", "unsweetened iced tea"),
        ("Another lemonade, please!", "Lemonade"),
        ("It was water.", "glass of water"),
        ("A Diet Coke, thanks.", "diet coke"),
        ("The green tea, if I may.", "pot of green tea"),
    ],
)
def test_a_drink_is_recalled_by_its_name_without_its_sort(reply: str, drink: str) -> None:
    assert recalls(reply, drink)


@pytest.mark.parametrize(
    ("reply", "drink"),
    [
        ("I was having lemonade.", "iced tea"),
        ("The sweetened iced tea.", "unsweetened iced tea"),
        ("White wine, please.", "red wine"),
        ("I don't remember, was it coffee?", "coffee"),
        ("I haven't had a drink yet. A coffee would be nice.", "coffee"),
        ("", "coffee"),
    ],
)
def test_another_drink_another_sort_and_no_memory_are_not_recalled(reply: str, drink: str) -> None:
    assert not recalls(reply, drink)


def test_all_drinks_must_be_recalled() -> None:
    assert recalls("Coffee and water.", "coffee", "still water")
    assert not recalls("Coffee.", "coffee", "still water")
    assert not recalls("Coffee.")


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
        ConfigurationError, match="'haiku' cannot be answered by words alone: give a model with --judge"
    ):
        asyncio.run(WordJudge().ask(AskJudge("haiku", {}), key="k"))


PURPOSES = ["follows_role", "extraction", "noticed", "recalls"]
PARTS = [
    "i'll have ",
    "the ",
    "goulash ",
    "\n",
    "- ",
    "*",
    "waiter: ",
    "(smil",
    "tea ",
    "?",
    "and ",
    "number 3 ",
    "it's",
]


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
