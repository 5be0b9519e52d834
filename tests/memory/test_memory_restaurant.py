"""A visit to the restaurant: what the waiter says, when it waits, what ends it, and what it is worth."""

import json
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, strategies as st
from tests.memory_restaurant_parts import Visit, dish, order, ordered, reference_replays, said_yes, visit
from tests.tables import cases

from tunecheck import ConfigurationError
from tunecheck_memory import GenerationContext, MemoryTest, Menu, Restaurant, Say, load_wording

GUEST = ["yes", "a drink", "a dish", "thanks", "another dish", "thanks", "that is wrong", "thanks", "the drink"]

MENU = load_wording().restaurant.menu


def served(made: Visit, names: dict[str, str]) -> list[str]:
    """The dishes of the waiter's line that brings them."""
    line = next(said for said in made.said if said.startswith(names["served"]))
    listed = line.removeprefix(names["served"]).removesuffix(names["end"])
    return [entry for entry in MENU.dishes.values() for _ in range(listed.count(entry))]


SERVED = {"served": "Waiter: Your meal is ready: ", "end": ". I hope that it will be to your liking."}


# -- the reference's own visits


def test_every_visit_of_the_reference_replays_with_the_same_words_and_the_same_score(shared_data: Path) -> None:
    wording = load_wording(shared_data / "ltm" / "wording.yml")
    rows = reference_replays(shared_data)
    assert len(rows) == 60
    for row in rows:
        *visited, farewell = row["pairs"]
        made = visit([reply for _, reply in visited], row["llm"], seed=row["seed"], wording=wording)
        assert made.said == [message for message, _ in visited]
        assert made.total / 5 == pytest.approx(row["score"])
        assert len(made.asked) == len(row["llm"])
        assert farewell[0] == wording.farewell("Restaurant")


# -- how a visit goes


def test_definitions_are_empty_scripts_numbered_from_0() -> None:
    made = Restaurant().definitions(3, GenerationContext(seed=1, memory_span=1_000))
    assert made == [MemoryTest("Restaurant", example) for example in ("0", "1", "2")]
    assert [each.id for each in made] == ["Restaurant - 0", "Restaurant - 1", "Restaurant - 2"]


def test_a_guest_who_remembers_everything_has_all_five_points() -> None:
    made = visit(GUEST, ordered())
    assert made.points is not None
    assert (made.points.points, made.points.most) == (5, 5)
    assert len(made.points.reasons) == 5


def test_only_what_the_guest_has_to_answer_is_a_question() -> None:
    steps = [step for step in visit(GUEST, ordered()).steps if isinstance(step, Say)]
    assert [step.question for step in steps] == [False, True, True, False, True, False, True, False, True]


def test_the_menu_is_numbered_through_its_sections_in_the_files_order() -> None:
    shown = visit(GUEST, ordered()).said[1]
    entries = [entry for section in MENU.sections.values() for entry in section]
    places = [shown.index(f"\n{number}. {entry}") for number, entry in enumerate(entries, 1)]
    assert places == sorted(places)


def test_lists_are_spoken_with_commas_and_an_and() -> None:
    made = visit(GUEST, ordered("tea", 3, 4, 5))
    three = f"{MENU.dishes[3]}, {MENU.dishes[4]} and {MENU.dishes[5]}"
    assert made.said[3] == f"Waiter: A fine choice. I will have {three} prepared for you."
    assert made.said[2] == "Waiter: There you go, your tea. And which dishes would you like?"


def test_braces_in_what_is_ordered_are_left_as_they_are() -> None:
    made = visit(GUEST, ordered("{list} {menu} {0}"))
    assert "your {list} {menu} {0}." in made.said[2]


@given(
    st.integers(),
    st.lists(st.sampled_from(sorted(MENU.dishes)), min_size=1, max_size=6, unique=True),
    st.sampled_from(sorted(MENU.dishes)),
)
def test_a_wrong_dish_is_of_the_same_section_and_not_out(seed: int, numbers: list[int], instead: int) -> None:
    made = visit(GUEST, ordered("tea", *numbers, instead=instead), seed=str(seed))
    if instead in numbers:
        assert made.total == 2
        return
    out = next(MENU.dishes[number] for number in numbers if f"out of {MENU.dishes[number]}." in made.said[4])
    wanted = Counter([*(MENU.dishes[number] for number in numbers if MENU.dishes[number] != out), MENU.dishes[instead]])
    brought = Counter(served(made, SERVED))
    (missing,), (wrong,) = (wanted - brought).elements(), (brought - wanted).elements()
    assert wrong != out
    assert any(missing in section and wrong in section for section in MENU.sections.values())
    assert made.said[-1].startswith(f"Waiter: And this is your {missing}, the way you wanted it.")


def test_what_the_judge_is_asked_needs_nothing_else() -> None:
    role, drinks, dishes, others, noticed, recalls = visit(GUEST, ordered("tea", 1, instead=2)).asked
    assert role.purpose == "restaurant_follows_role"
    assert role.values["reply"] == "a drink"
    assert (drinks.purpose, drinks.values["wanted"]) == ("restaurant_extraction", "drinks")
    assert drinks.values["menu"] == MENU.text
    assert (dishes.values["wanted"], dishes.values["reply"]) == ("dishes", "a dish")
    assert MENU.dishes[1] in str(others.values["line"])
    assert noticed.values["ordered"] == [MENU.dishes[2]]
    assert noticed.values["served"] != noticed.values["ordered"]
    assert recalls.values["drinks"] == ["tea"]
    for request in (role, drinks, dishes, others, noticed, recalls):
        assert json.loads(json.dumps(request.values)) == request.values


def test_of_an_endless_reply_the_judge_is_shown_the_beginning() -> None:
    made = visit(["yes", "a" * 10_000_000], [said_yes("follows_role", False)])
    assert len(str(made.asked[0].values["reply"])) == 20_000


# -- what ends it


def ends(answers: list[str]) -> tuple[float, str]:
    made = visit(GUEST, answers)
    return made.total, made.last_reason


FULL = ordered()


@cases("memory")
def test_a_judges_answer_ends_a_visit_with_points_and_a_reason(answers: list[str], points: float, reason: str) -> None:
    assert ends(answers) == (points, reason)


def test_words_of_the_menu_are_on_the_menu_whatever_the_judge_says() -> None:
    answers = list(FULL)
    answers[2] = order(dish(1, MENU.dishes[1].upper()[3:12], off_menu=True))
    assert visit(GUEST, answers).total == 5


@pytest.mark.parametrize("number", [3, "3", 3.0])
def test_a_number_may_be_written_as_text(number: object) -> None:
    answers = list(FULL)
    answers[2] = order(dish(number))
    made = visit(GUEST, answers)
    assert made.total == 5
    assert MENU.dishes[3] in made.said[3]


# -- judges that say anything


@pytest.mark.parametrize("at", range(6))
@pytest.mark.parametrize(
    "answer", ["", "no JSON", "{", "[]", "null", "{}", '{"order": 3}', "[" * 100_000, '{"order": [[]]}', "\0", "�"]
)
def test_a_reply_that_cannot_be_read_ends_the_visit_with_a_reason(at: int, answer: str) -> None:
    total, reason = ends([*FULL[:at], answer])
    assert total == max(0, at - 1)
    assert reason.startswith("The judge's reply ")
    assert len(reason) < 250


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(
        st.sampled_from(["has_ordered_something", "order", "is_drink", "item", "menu_nr", "off_menu", "noticed"]), inner
    ),
    max_leaves=20,
)  # fmt: skip


@given(st.integers(0, 5), VALUES | st.text())
def test_no_reply_of_a_judge_crashes_a_visit(at: int, value: object) -> None:
    made = visit(GUEST, [*FULL[:at], value if isinstance(value, str) else json.dumps(value), *FULL[at + 1 :]])
    assert made.points is not None
    assert 0 <= made.points.points <= 5
    assert all(len(reason) < 2_000 for reason in made.points.reasons)


# -- menus


def test_the_reference_menu_reads_and_shows_itself(shared_data: Path) -> None:
    menu = load_wording(shared_data / "ltm" / "wording.yml").restaurant.menu
    assert len(menu.numbered) == 37
    assert sorted(menu.dishes) == list(range(1, 32))
    assert menu.numbered[34] == ("Beverages", "Lemonade")
    assert "Beverages:\n" in menu.text and "\n34. Lemonade\n" in menu.text


@cases("memory")
def test_what_is_no_menu_is_refused_with_a_reason(value: object, problem: str) -> None:
    with pytest.raises(ConfigurationError, match=r"^menu\.json: .*") as caught:
        Menu.read(value, "menu.json")  # type: ignore[arg-type]
    assert problem in str(caught.value)


def test_our_menu_is_not_the_references(shared_data: Path) -> None:
    theirs = load_wording(shared_data / "ltm" / "wording.yml").restaurant.menu
    assert not set(theirs.numbered.values()) & set(MENU.numbered.values())
