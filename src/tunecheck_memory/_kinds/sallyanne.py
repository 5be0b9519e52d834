"""Sally-Anne: stories in which somebody misses what happens, and a question about who believes what.

A story has one thing in one room, and containers that are closed: where it is moved is seen by those in the room at
that moment, and by nobody else. Nobody comes back to the room after a move that he missed, so that what he believes
never depends on what he might have found out since. What each one believes, and believes that others believe, is kept
as the story goes on; questions are asked only where somebody has a belief.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import NamedTuple

import msgspec

from tunecheck_memory import Definition, FinishedTest, GenerationContext, Kind, Score, read_lenient, scripted_test
from tunecheck_memory._kinds.replies import expected_text, last_reply
from tunecheck_memory._kinds.scripts import choice, read_data, read_words

QUESTION_TYPES = ("any", "world_model", "theory_of_mind")
"""What may be asked: where the thing is or was, where somebody believes that it is, or either."""

_FALSE_BELIEFS = 0.6
"""How often a question about a belief is about a wrong one, where there is one."""

_FEWEST_EVENTS, _MOST_EVENTS = 2, 4
"""How many times something happens between the thing's placement and the first exit, and after it."""


class _Scenery(msgspec.Struct, frozen=True):
    rooms: tuple[str, ...]
    things: tuple[str, ...]
    containers: tuple[str, ...]  # single words, for they are the answers
    tastes: tuple[str, ...]


class Question(NamedTuple):
    """What is asked, and the container that answers it; `false_belief` says that somebody is wrong about it."""

    text: str
    answer: str
    false_belief: bool = False


class Story(NamedTuple):
    lines: tuple[str, ...]
    question: Question


@dataclass
class _World:
    """Where everybody and the thing are, and who believes what; a belief about a belief has two names."""

    room: str
    thing: str
    place: str = ""
    first_place: str = ""
    present: set[str] = field(default_factory=set)
    missed: set[str] = field(default_factory=set)
    beliefs: dict[tuple[str, ...], str] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)

    def enter(self, person: str) -> None:
        self.present.add(person)
        self.lines.append(f"{person} came into the {self.room}.")

    def leave(self, person: str) -> None:
        self.present.discard(person)
        self.lines.append(f"{person} left the {self.room}.")

    def put(self, person: str | None, place: str) -> None:
        """Somebody moves the thing; at the beginning it is just there."""
        moved = f"{person} took the {self.thing} and put it into the {place}."
        self.lines.append(moved if person else f"In the {self.room}, the {self.thing} was in the {place}.")
        self.first_place, self.place = self.first_place or place, place
        self.missed |= {people[0] for people in self.beliefs} - self.present
        witnesses = sorted(self.present)  # in a fixed order, for the order of beliefs decides what a draw picks
        for one in witnesses:
            self.beliefs[(one,)] = place
            self.beliefs |= {(one, other): place for other in witnesses if other != one}


def tell_story(random: Random, question_type: str) -> Story:
    """A story of two or three people, and a question of this type about it."""
    scenery = read_data("scenery", _Scenery)
    people = random.sample(read_words("first_names"), random.choice((2, 3)))
    room, *others = random.sample(scenery.rooms, 3)
    world = _World(room, random.choice(scenery.things))
    places = random.sample(scenery.containers, 3)
    for person in people:
        world.enter(person)
    world.put(None, places[0])
    _Turns(random, world, people, places[1:], others, scenery.tastes).play()
    return Story(tuple(world.lines), _choose(random, world, question_type))


@dataclass
class _Turns:
    """What happens in a story once the thing is in its place: somebody misses a move, and some more happens."""

    random: Random
    world: _World
    people: Sequence[str]
    places: list[str]
    others: Sequence[str]
    tastes: Sequence[str]

    def play(self) -> None:
        more = self.random.randint(_FEWEST_EVENTS, _MOST_EVENTS)
        self._aside()
        leaving = self.random.choice(sorted(self.world.present))
        if self.random.random() < 0.3:
            self._move()
        self.world.leave(leaving)
        self._move()
        for _ in range(more):
            self.random.choice([self._aside, self._go_out, self._come_back, self._elsewhere, self._move])()

    def _aside(self) -> None:
        person, taste = self.random.choice(self.people), self.random.choice(self.tastes)
        self.world.lines.append(f"{person} {taste}.")

    def _go_out(self) -> None:
        if self.world.present:
            self.world.leave(self.random.choice(sorted(self.world.present)))

    def _come_back(self) -> None:
        """Only who has missed nothing, for the story does not say what others would find out."""
        free = [each for each in self.people if each not in self.world.present | self.world.missed]
        if free:
            self.world.enter(self.random.choice(free))

    def _elsewhere(self) -> None:
        away = [each for each in self.people if each not in self.world.present]
        if away:
            person, room = self.random.choice(away), self.random.choice(self.others)
            self.world.lines.append(f"{person} was seen in the {room}.")

    def _move(self) -> None:
        if self.places and self.world.present:
            self.world.put(self.random.choice(sorted(self.world.present)), self.places.pop())


def _choose(random: Random, world: _World, question_type: str) -> Question:
    wanted = random.choice(QUESTION_TYPES[1:]) if question_type == "any" else question_type
    if wanted == "world_model":
        now = Question(f"Where is the {world.thing} really now?", world.place)
        return random.choice([now, Question(f"Where was the {world.thing} at the beginning?", world.first_place)])
    questions = list(_about_beliefs(world))
    wrong = [question for question in questions if question.false_belief]
    right = [question for question in questions if not question.false_belief]
    return random.choice(wrong if wrong and (not right or random.random() < _FALSE_BELIEFS) else right)


def _about_beliefs(world: _World) -> Iterator[Question]:
    for people, place in world.beliefs.items():
        if len(people) == 1:
            text, truth = f"Where would {people[0]} look for the {world.thing}?", world.place
        else:
            text = f"Where does {people[0]} think that {people[1]} would look for the {world.thing}?"
            truth = world.beliefs[people[1:]]
        yield Question(text, place, false_belief=place != truth)


_OPENING = (
    "A radio play is on. I am going to tell you, as it goes on, what happens in it, and when it is over I will ask you "
    "a question about it."
)
_LINE = "(On the radio) {line}"
_QUESTION = (
    "The radio play is over. {question}\n"
    'Answer in JSON with a single word, like this: {{"answer": "word"}}\n'
    "Name the very thing, not the room that it is in."
)


class SallyAnne(Kind):
    """A story of our own for each test; `question_type` is any, world_model or theory_of_mind."""

    name = "sallyanne"
    title = "SallyAnne"

    def __init__(self, *, question_type: str = "any") -> None:
        self.question_type = choice("question_type", question_type, QUESTION_TYPES)

    def definition(self, example: str, making: GenerationContext) -> Definition:
        story = tell_story(making.random(self.title, example), self.question_type)
        statements = [_OPENING, *(_LINE.format(line=line) for line in story.lines)]
        question = _QUESTION.format(question=story.question.text)
        return scripted_test(self, example, statements, [question], [story.question.answer])

    def score(self, given: FinishedTest) -> Score | None:
        """Sally-Anne: the reply is `{"answer": "word"}`, with the right word, in any case."""
        reply, place = last_reply(given), expected_text(given)
        try:
            said = read_lenient(reply)
        except ValueError as error:
            return Score(0.0, (f"the reply is not JSON: {error}",))
        if not isinstance(said, dict) or "answer" not in said:
            return Score(0.0, ('the reply has no "answer"',))
        answer = said["answer"]
        if not isinstance(answer, str):
            return Score(0.0, ("the answer is not text",))
        right = answer.strip(" .").casefold() == place.strip().casefold()
        return Score(float(right), (f"the answer is {answer[:80]!r}" + ("" if right else f", not {place!r}"),))
