"""Expected answers, worked out again from nothing but the lines that are said to the agent."""

import calendar
import datetime
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal
from fractions import Fraction
from math import ceil
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, strategies as st
from tests.memory_kinds_parts import test_of, tests_of, texts
from tests.memory_scoring_parts import score_by_words
from tests.tables import cases

from tunecheck import ConfigurationError
from tunecheck.plugins import discover
from tunecheck_memory import FinishedTest, Jokes, MemoryTest, ProspectiveMemory, Scene, find_kind
from tunecheck_memory._kinds.scripts import read_words
from tunecheck_memory._kinds.spy_meeting import spy_words

seeds = st.integers(0, 2**62)

HOUR, MINUTE = 3_600_000_000, 60_000_000


@given(seeds, st.integers(1, 20))
def test_the_last_colour_counts_and_no_colour_comes_twice(seed: int, changes: int) -> None:
    test = test_of("colours", seed, colour_changes=changes)
    said = [_only(line, "colours") for line in test.script[:-1]]
    assert len(said) == len(set(said)) == changes
    assert list(test.expected) == [said[-1]]


@given(seeds, st.integers(1, 20))
def test_the_last_name_counts(seed: int, changes: int) -> None:
    test = test_of("names", seed, name_changes=changes)
    said = [_only(line, "first_names") for line in test.script[:-1]]
    assert len(set(said)) == changes
    assert list(test.expected) == [said[-1]]


@given(seeds, st.integers(1, 20))
def test_the_list_of_names_has_all_of_them_in_order(seed: int, changes: int) -> None:
    test = test_of("name_list", seed, name_changes=changes)
    assert list(test.expected) == [_only(line, "first_names") for line in test.script[:-1]]


def _only(line: str, words: str) -> str:
    found = [word for word in read_words(words) if re.search(rf"\b{word}\b", line)]
    assert len(found) == 1, (line, found)
    return found[0]


@given(seeds, st.integers(1, 60))
def test_the_shopping_list_is_what_its_changes_come_to(seed: int, changes: int) -> None:
    test = test_of("shopping", seed, item_changes=changes)
    bought: dict[str, int] = {}
    assert len(test.script) == changes + 1
    for line in test.script[:-1]:
        count, item = _change(line)
        if "off" in line or "remove" in line:
            bought[item] -= count
            assert bought[item] >= 0
        else:
            assert ("another" in line or "more than" in line) == (bought.get(item, 0) > 0)
            bought[item] = bought.get(item, 0) + count
    assert bought
    assert {item: count for item, count in bought.items() if count} == dict(test.expected)


def _change(line: str) -> tuple[int, str]:
    found = re.search(r"(\d+) × (.+?)(?= on my| off my| from a| more than|, so add| on it)", line)
    assert found is not None, line
    return int(found[1]), found[2]


def test_items_are_taken_off_and_added_to_as_well() -> None:
    lines = [line for test in tests_of("shopping", 0, 40, item_changes=6) for line in test.script]
    assert sum("off" in line or "remove" in line for line in lines) > 20
    assert sum("another" in line or "more than" in line for line in lines) > 20


MOVES = {"north": (0, 1), "south": (0, -1), "east": (1, 0), "west": (-1, 0)}


@dataclass(frozen=True)
class Told:
    """The content of a line: where one place is, seen from another."""

    start: str
    kilometres: int
    direction: str
    end: str


def told(line: str) -> Told:
    names = "|".join(sorted(read_words("places"), key=len, reverse=True))
    places: list[str] = re.findall(rf"\b(?:{names})\b", line)
    distance = re.search(r"(\d+) km", line)
    direction = re.search(r"\b(north|south|east|west)\b", line)
    assert len(places) == 2 and distance and direction, line
    seen_from_the_first = line.startswith(("From the", "Whoever", "Go "))
    start, end = places if seen_from_the_first else reversed(places)
    return Told(start, int(distance[1]), direction[1], end)


@given(seeds, st.integers(2, 40))
def test_the_route_leads_through_all_places_to_the_last(seed: int, places: int) -> None:
    test = test_of("locations_directions", seed, known_locations=places)
    steps = [told(line) for line in test.script[1:-1]]
    assert len(test.script) == places + 1
    here, points = (0, 0), [(0, 0)]
    for step in steps:
        east, north = MOVES[step.direction]
        here = (here[0] + east * step.kilometres, here[1] + north * step.kilometres)
        points.append(here)
    assert len(set(points)) == places
    assert [step.end for step in steps[:-1]] == [step.start for step in steps[1:]]
    assert texts(test.expected)[0].splitlines() == [
        f"From {step.start}, go {step.kilometres}km {step.direction.title()} to {step.end}." for step in steps
    ]
    assert f"from the {steps[0].start} to the {steps[-1].end} " in test.script[-1]
    assert steps[0].start in test.script[0]


@given(seeds, st.integers(2, 20))
def test_the_way_back_goes_the_other_way(seed: int, places: int) -> None:
    test = test_of("locations", seed, known_locations=places)
    steps = {(step.start, step.end): step for step in map(told, test.script[:-1])}
    found = re.search(r"at the (.+?) of my town .* to the (.+?)\. In which", test.script[-1])
    assert found is not None
    step = steps[found[2], found[1]]
    back = {"north": "South", "south": "North", "east": "West", "west": "East"}[step.direction]
    assert list(test.expected) == [f"From {found[1]}, go {step.kilometres}km {back} to {found[2]}."]


@given(seeds, st.integers(1, 300))
def test_the_value_stands_under_the_key_that_is_asked_for(seed: int, pairs: int) -> None:
    test = test_of("kv", seed, num_kv_pairs=pairs)
    table = json.loads(test.script[0].partition("\n")[2])
    (key,) = re.findall(r'"([0-9a-f-]{36})"', test.script[1])
    assert (len(table), [table[key]]) == (pairs, [*test.expected])


@given(seeds, st.integers(1, 10))
def test_each_occasion_gets_the_sentence_of_the_order(seed: int, times: int) -> None:
    test = test_of("trigger_response", seed, trigger_activations=times)
    quoted = re.findall("“(.+?)”", test.script[0])
    assert list(test.expected) == quoted * times
    assert test.is_question == (False,) + (True,) * times


@given(seeds)
def test_three_spies_tell_a_time_a_place_and_a_thing(seed: int) -> None:
    test = test_of("spy_meeting", seed)
    names = re.search(r"veiled words: (.+?), (.+?) and (.+?)\.", test.script[0])
    assert names is not None
    senders = [line.removeprefix("Message from ").partition(":")[0] for line in test.script[1:4]]
    assert sorted(senders) == sorted(names.groups())
    assert len(test.expected) == 3
    assert all(words in [list(each) for each in spy_words()] for words in test.expected)


def test_no_spy_message_gives_away_its_own_answer_or_shares_it_with_another() -> None:
    tests = tests_of("spy_meeting", 0, 300)
    for test in tests:
        for message, words in zip(test.script[1:4], test.expected, strict=True):
            said = message.partition(":")[2].lower()
            assert not any(re.search(rf"\b{re.escape(str(word).lower())}\b", said) for word in words)
    every = [word.lower() for words in spy_words() for word in words]
    assert len(set(every)) == len(every)


@given(seeds)
def test_the_saying_is_due_in_a_reply_from_the_second_to_the_eighth(seed: int) -> None:
    test = test_of("prospective_memory", seed)
    saying, author, number = test.expected[0]
    assert test.script[0] == f"“{saying}” — {author}"
    due = re.search(r"(\d)(?:st|nd|rd|th) reply", test.script[1])
    assert due is not None
    assert int(due[1]) == number
    assert 2 <= int(str(number)) <= 8
    assert str(author) in test.script[1]
    assert test.uses_callback


def test_a_callback_is_over_with_the_reply_that_is_to_have_the_saying_and_not_before() -> None:
    test = MemoryTest("Prospective Memory", "0", expected=[["A saying", "Somebody", 4]])
    kind = ProspectiveMemory()
    over = [kind.is_over(test, ["A saying"] * replies) for replies in range(6)]
    assert over == [False, False, False, False, True, True]


@pytest.mark.parametrize("expected", [[], [None], [[]], [["A saying", "Somebody"]], [{}]])
def test_a_callback_whose_definition_does_not_say_when_is_over_with_the_first_reply(expected: list[Any]) -> None:
    test = MemoryTest("Prospective Memory", "0", expected=expected)
    assert not ProspectiveMemory().is_over(test, [])
    assert ProspectiveMemory().is_over(test, ["Yes"])


@given(seeds, st.integers(1, 10), st.integers(1, 500), st.integers(0, 500))
def test_jokes_are_told_apart_by_so_many_minutes(seed: int, told: int, low: int, more: int) -> None:
    test = test_of("jokes", seed, jokes_told=told, minutes_low=low, minutes_high=low + more)
    assert len(set(test.script)) == told
    assert test.expected[0] in test.script
    assert all(low * 60 <= wait.seconds <= (low + more) * 60 for wait in test.waits[:-1])
    assert test.is_temporal
    assert test.is_question == (False,) * told + (True,)


@cases("memory")
def test_the_question_counts_hours_and_minutes_since_the_joke_was_told(ago: int, elapsed: str) -> None:
    marks = (False, False, False, True)
    test = MemoryTest("Jokes", "0", ("one", "two", "three"), marks, expected=["two"], is_temporal=True)
    scene = Scene(now_us=lambda: 10**15, random=Random(0), wording=_wording())
    assert Jokes().temporal_question(test, [0, 10**15 - ago, 10**15 - 1], scene) == f"<{elapsed}>"


def _wording() -> Any:
    return SimpleNamespace(jokes=SimpleNamespace(question="<{elapsed}>"))


@given(seeds)
def test_countries_have_ten_facts_three_of_which_are_asked_for(seed: int) -> None:
    test = test_of("delayed_recall", seed)
    facts = test.script[0].splitlines()[1:]
    assert len(facts) == len(set(facts)) == 10
    assert len(test.expected) == 3
    for answer in texts(test.expected):
        assert any(answer.removeprefix("by ") in fact for fact in facts), (answer, facts)


@given(seeds)
def test_manuals_answer_the_questions_about_their_steps_and_rules(seed: int) -> None:
    test = test_of("instruction_recall", seed)
    lines = test.script[0].splitlines()
    steps = [line.partition(". ")[2] for line in lines if re.match(r"\d\. ", line)]
    assert len(set(steps)) == 6
    assert len(lines) == 11
    for question, answer in zip(test.script[1:], texts(test.expected), strict=True):
        if "very first step" in question:
            assert answer == steps[0]
        elif step := re.search("“(.+?)”", question):
            assert answer == steps[steps.index(step[1]) + 1]
        else:
            parts = answer.split(", with ")
            assert any(all(part.removesuffix(" on it") in line for part in parts) for line in lines[7:])


def test_each_of_our_jokes_is_recognised_when_it_is_told_again() -> None:
    jokes = read_words("jokes")
    for at, joke in enumerate(jokes):
        told = [joke, *(jokes[(at + ahead) % len(jokes)] for ahead in (1, 7, 19))]
        score = score_by_words(FinishedTest("Jokes", [joke], [joke], script=told))
        assert score is not None
        assert score.score == 1, (joke, score)
        assert not [other for other in jokes if other != joke and other in joke]


# -- how to think: every problem's answer, worked out again in another way from the stated rule


def numbers(text: str) -> list[int]:
    return [int(each) for each in re.findall(r"\d+", text)]


def budget(rule: str, problem: str) -> str:
    (reserve, step), (count, price) = numbers(rule), numbers(problem)
    total = Decimal(count * price) * (1 + Decimal(reserve) / 100)
    return f"{int((total / step).to_integral_value(ROUND_CEILING)) * step} euros"


def deadline(rule: str, problem: str) -> str:
    names = "|".join(calendar.day_name)
    off = set(re.findall(names, rule))
    (start,) = re.findall(names, problem)
    (length,) = numbers(problem)
    day = datetime.date(2024, 1, 1)  # a Monday
    while day.strftime("%A") != start:
        day += datetime.timedelta(days=1)
    days = [day + datetime.timedelta(days=ahead) for ahead in range(60)]
    return [each.strftime("%A") for each in days if each.strftime("%A") not in off][length - 1]


def estimate(_: str, problem: str) -> str:
    inner = sorted(numbers(problem))[1:-1]
    return str(Fraction(sum(inner), len(inner)))


def pick(_: str, problem: str) -> str:
    offers = re.findall(r"(\w+) \((\d+) ", problem)
    return str(sorted(offers, key=lambda offer: int(offer[1]))[1][0])


def tip(_: str, problem: str) -> str:
    people, bill = numbers(problem)
    return f"{Fraction(bill, 1) / (people - 1 + Fraction(1, 2)) / 2} euros"


def packing(rule: str, problem: str) -> str:
    (each, more), (nights,) = numbers(rule), numbers(problem)
    return str(each * nights + more * ceil(nights / 3))


def order(rule: str, problem: str) -> str:
    tasks = re.split(r", | and ", re.sub(r"Today I have to (.*)\. Which.*", r"\1", problem))
    tasks.sort(key=str, reverse="from Z to A" in rule)
    return tasks[0 if "do first?" in problem else -1]


def temperature(rule: str, problem: str) -> str:
    (less, per), (degrees, wind) = numbers(rule), numbers(problem)
    while wind >= per:
        degrees, wind = degrees - less, wind - per
    return f"{degrees} degrees"


SOLVERS: dict[str, Callable[[str, str], str]] = {
    "what something costs": budget,
    "count working days": deadline,
    "several estimates": estimate,
    "choose between several": pick,
    "a bill is shared": tip,
    "pack for a journey": packing,
    "in which order to do things": order,
    "how cold it feels": temperature,
}


@given(st.integers(0, 2**62))
def test_the_rule_leads_to_the_expected_answer(seed: int) -> None:
    test = test_of("how_to_think", seed)
    rule, problem = test.script
    (solve,) = [solver for words, solver in SOLVERS.items() if words in rule]
    assert list(test.expected) == [solve(rule, problem)]


def test_there_are_many_hundreds_of_different_ones_of_all_sorts() -> None:
    tests = tests_of("how_to_think", 0, 1500)
    assert len({test.script for test in tests}) > 1000
    assert len({test.script[0] for test in tests}) > 100
    assert all(any(words in test.script[0] for test in tests) for words in SOLVERS)


# -- arguments of data sets: each is checked where the configuration says it, with an error that says what may stand


@cases("memory")
def test_what_cannot_be_is_refused_with_what_can(name: str, argument: str, value: Any, may_be: str) -> None:
    with pytest.raises(ConfigurationError) as error:
        find_kind(name, {argument: value})
    assert may_be in str(error.value)
    assert "\n" not in str(error.value)


values: st.SearchStrategy[Any] = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.lists(st.integers()), st.just({"a": [1]})
)


ARGUMENTS = [(each.name, name) for each in discover("memory") for name in find_kind(each.name).argument_names()]


@given(st.sampled_from(ARGUMENTS), values)
def test_any_value_is_taken_or_refused_in_one_line(which: tuple[str, str], value: Any) -> None:
    name, argument = which
    try:
        find_kind(name, {argument: value})
    except ConfigurationError as error:
        assert len(str(error)) < 300
