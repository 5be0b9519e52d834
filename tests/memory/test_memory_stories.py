"""Sally-Anne stories, with beliefs worked out by a solver that reads nothing but the story's lines."""

import re
from collections import Counter
from random import Random

from hypothesis import given, strategies as st
from tests.memory_kinds_parts import test_of

from tunecheck_memory._kinds.sallyanne import QUESTION_TYPES, Story

question_types = st.sampled_from(QUESTION_TYPES)
seeds = st.integers(0, 2**62)

ENTERS = re.compile(r"(\w+) came into the .+\.")
LEAVES = re.compile(r"(\w+) left the .+\.")
PLACED = re.compile(r"In the .+, the .+ was in the (\w+)\.")
MOVED = re.compile(r"(\w+) took the .+ and put it into the (\w+)\.")
BELIEF = re.compile(r"Where would (\w+) look for the .+\?")
NESTED = re.compile(r"Where does (\w+) think that (\w+) would look for the .+\?")


def witnessed(story: Story) -> list[tuple[str, frozenset[str]]]:
    """The places of the thing, in order, and the witnesses of each move."""
    present: set[str] = set()
    found: list[tuple[str, frozenset[str]]] = []
    for line in story.lines:
        if enters := ENTERS.fullmatch(line):
            assert enters[1] not in present
            present.add(enters[1])
        elif leaves := LEAVES.fullmatch(line):
            present.remove(leaves[1])
        elif placed := PLACED.fullmatch(line):
            found.append((placed[1], frozenset(present)))
        elif moved := MOVED.fullmatch(line):
            assert moved[1] in present
            found.append((moved[2], frozenset(present)))
    return found


def solve(story: Story) -> str:
    """The last time that all whom the question is about were there together."""
    question, seen = story.question, witnessed(story)
    if "really" in question:
        return seen[-1][0]
    if "at the beginning" in question:
        return seen[0][0]
    about = NESTED.fullmatch(question) or BELIEF.fullmatch(question)
    assert about is not None
    return [place for place, people in seen if people.issuperset(about.groups())][-1]


@given(seeds, question_types)
def test_the_answer_is_what_the_story_makes_them_believe(seed: int, question_type: str) -> None:
    story = Story(Random(seed), question_type)
    assert solve(story) == story.answer


@given(seeds)
def test_nobody_comes_back_after_a_move_that_he_missed(seed: int) -> None:
    """Else what he believes would depend on what he may have found."""
    present: set[str] = set()
    missed: set[str] = set()
    everybody: set[str] = set()
    for line in Story(Random(seed), "any").lines:
        if enters := ENTERS.fullmatch(line):
            assert enters[1] not in missed
            present.add(enters[1])
            everybody.add(enters[1])
        elif leaves := LEAVES.fullmatch(line):
            present.remove(leaves[1])
        elif MOVED.fullmatch(line):
            missed |= everybody - present


@given(seeds, question_types)
def test_the_answer_is_one_word_that_was_said(seed: int, question_type: str) -> None:
    story = Story(Random(seed), question_type)
    assert re.fullmatch(r"[a-z]+", story.answer)
    assert any(f"the {story.answer}." in line for line in story.lines)
    assert story.answer not in re.findall(r"\w+", story.question)


def test_each_type_asks_its_own_questions() -> None:
    asked = {kind: Counter(_sort(Story(Random(seed), kind)) for seed in range(400)) for kind in QUESTION_TYPES}
    assert set(asked["world_model"]) == {"now", "beginning"}
    assert set(asked["theory_of_mind"]) == {"belief", "nested"}
    assert set(asked["any"]) == {"now", "beginning", "belief", "nested"}
    assert all(count > 30 for counts in asked.values() for count in counts.values())


def _sort(story: Story) -> str:
    question = story.question
    if "really" in question or "at the beginning" in question:
        return "now" if "really" in question else "beginning"
    return "nested" if NESTED.fullmatch(question) else "belief"


def test_a_test_frames_the_story_and_asks_for_json() -> None:
    test = test_of("sallyanne", 4, question_type="theory_of_mind")
    assert all(line.startswith("(On the radio) ") for line in test.script[1:-1])
    assert '{"answer": "word"}' in test.script[-1]
    assert len(test.expected) == 1
