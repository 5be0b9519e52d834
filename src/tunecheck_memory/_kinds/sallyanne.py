"""Sally-Anne: stories in which a person misses an event, and a question about a belief.

A story has one thing in one room, and closed containers. Only the people in the room see a move of the thing. A person
who missed a move does not return to the room, so that beliefs never depend on later discoveries. The story tracks
beliefs, and beliefs about the beliefs of others; questions concern existing beliefs only.

Example: Ann and Bob see the ball in the box. Bob leaves, and Ann puts the ball into the basket.

* world model: "Where is the ball really now?" The basket.
* a false belief: "Where would Bob look for the ball?" The box.
* a belief about a belief: "Where does Ann think that Bob would look for the ball?" The box, which is true.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import NamedTuple

import msgspec

from tunecheck_memory import FinishedTest, GenerationContext, Kind, MemoryTest, Score, read_lenient, scripted_test
from tunecheck_memory._kinds.replies import expected_text, last_reply
from tunecheck_memory._kinds.scripts import choice, read_data, read_line, read_words

QUESTION_TYPES = ("any", "world_model", "theory_of_mind")
"""The types of questions: any type, the thing's place, a person's belief about the place."""

_FALSE_BELIEFS = 0.6
"""The probability that a question about a belief concerns a false one, if there is one."""

_FEWEST_EVENTS, _MOST_EVENTS = 2, 4
"""The least and the most random events in a story."""


class _Scenery(msgspec.Struct, frozen=True):
    """The words of stories."""

    rooms: tuple[str, ...]
    things: tuple[str, ...]
    containers: tuple[str, ...]  # single words, because they are answers
    tastes: tuple[str, ...]


class StoryQuestion(NamedTuple):
    """A question, and the container that answers it; `false_belief` is True if it concerns a false belief."""

    text: str
    answer: str
    false_belief: bool = False


class Story(NamedTuple):
    """A story line by line, and its question."""

    lines: tuple[str, ...]
    question: StoryQuestion


@dataclass
class _World:
    """The state of a story: the places of the people and the thing, the beliefs, and the lines so far.

    `beliefs` holds the thing's place by the believer's name; a key of two names is a belief about the second person's
    belief. `places` are the containers that the thing has not been in.
    """

    random: Random
    people: Sequence[str]
    room: str
    other_rooms: Sequence[str]
    thing: str
    places: list[str]
    tastes: Sequence[str]
    place: str = ""
    first_place: str = ""
    present: set[str] = field(default_factory=set)
    missed: set[str] = field(default_factory=set)
    beliefs: dict[tuple[str, ...], str] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)

    def enter(self, person: str) -> None:
        """Let a person come into the room."""
        self.present.add(person)
        self.lines.append(f"{person} came into the {self.room}.")

    def leave(self, person: str) -> None:
        """Let a person leave the room."""
        self.present.discard(person)
        self.lines.append(f"{person} left the {self.room}.")

    def put(self, person: str | None, place: str) -> None:
        """Let a person move the thing; without a person, state its place at the beginning.

        Only the people in the room learn of it; the others have missed it if they know of the thing.
        """
        moved = f"{person} took the {self.thing} and put it into the {place}."
        self.lines.append(moved if person else f"In the {self.room}, the {self.thing} was in the {place}.")
        self.first_place, self.place = self.first_place or place, place
        # A key of `beliefs` begins with the believer.
        self.missed |= {people[0] for people in self.beliefs} - self.present

        # Each witness sees the place, and sees that the others see it.
        witnesses = sorted(self.present)  # a fixed order keeps draws reproducible
        for witness in witnesses:
            self.beliefs[(witness,)] = place
            self.beliefs |= {(witness, other): place for other in witnesses if other != witness}

    def play(self) -> None:
        """Tell the story: one person leaves and misses a move of the thing, then random events follow."""
        events = self.random.randint(_FEWEST_EVENTS, _MOST_EVENTS)
        self._aside()

        leaving = self.random.choice(sorted(self.present))
        if self.random.random() < 0.3:  # in some stories, the one who leaves has seen a move
            self._move()
        self.leave(leaving)
        self._move()

        for _ in range(events):
            self.random.choice([self._aside, self._go_out, self._come_back, self._see_elsewhere, self._move])()

    def _aside(self) -> None:
        """Add a line that has nothing to do with the thing."""
        person, taste = self.random.choice(self.people), self.random.choice(self.tastes)
        self.lines.append(f"{person} {taste}.")

    def _go_out(self) -> None:
        """Let a person leave the room, if there is one in it."""
        if self.present:
            self.leave(self.random.choice(sorted(self.present)))

    def _come_back(self) -> None:
        """Let a person who is not in the room and has missed no move come in, if there is such a person."""
        if absent := [person for person in self.people if person not in self.present | self.missed]:
            self.enter(self.random.choice(absent))

    def _see_elsewhere(self) -> None:
        """Add a line on another room in which an absent person was seen, if there is such a person."""
        if absent := [person for person in self.people if person not in self.present]:
            person, room = self.random.choice(absent), self.random.choice(self.other_rooms)
            self.lines.append(f"{person} was seen in the {room}.")

    def _move(self) -> None:
        """Let a person in the room move the thing to a new container, if there is one left."""
        if self.places and self.present:
            self.put(self.random.choice(sorted(self.present)), self.places.pop())


def tell_story(random: Random, question_type: str) -> Story:
    """Make a random story of two or three people, and a question of this type."""
    scenery = read_data("scenery", _Scenery)
    people = random.sample(read_words("first_names"), random.choice((2, 3)))
    room, *others = random.sample(scenery.rooms, 3)
    thing = random.choice(scenery.things)
    first, *places = random.sample(scenery.containers, 3)

    world = _World(random, people, room, others, thing, places, scenery.tastes)
    for person in people:
        world.enter(person)
    world.put(None, first)
    world.play()
    return Story(tuple(world.lines), _choose_question(random, world, question_type))


def _choose_question(random: Random, world: _World, question_type: str) -> StoryQuestion:
    """Draw a question of this type about the story; one about a false belief is preferred."""
    # The first type is "any".
    wanted = random.choice(QUESTION_TYPES[1:]) if question_type == "any" else question_type
    if wanted == "world_model":
        now = StoryQuestion(f"Where is the {world.thing} really now?", world.place)
        return random.choice([now, StoryQuestion(f"Where was the {world.thing} at the beginning?", world.first_place)])

    questions = list(_belief_questions(world))
    about_false = [question for question in questions if question.false_belief]
    about_true = [question for question in questions if not question.false_belief]
    prefers_false = about_false and (not about_true or random.random() < _FALSE_BELIEFS)
    return random.choice(about_false if prefers_false else about_true)


def _belief_questions(world: _World) -> Iterator[StoryQuestion]:
    """Yield a question about each belief, and about each belief of one person about another's."""
    for people, place in world.beliefs.items():
        if len(people) == 1:
            text, truth = f"Where would {people[0]} look for the {world.thing}?", world.place
        else:
            text = f"Where does {people[0]} think that {people[1]} would look for the {world.thing}?"
            truth = world.beliefs[people[1:]]
        yield StoryQuestion(text, place, false_belief=place != truth)


class SallyAnne(Kind):
    """A generated story for each test; `question_type` is any, world_model or theory_of_mind."""

    name = "sallyanne"
    title = "SallyAnne"

    def __init__(self, *, question_type: str = "any") -> None:
        self.question_type = choice("question_type", question_type, QUESTION_TYPES)

    def definition(self, example: str, making: GenerationContext) -> MemoryTest:
        """Return a test that tells a random story line by line, and asks its question."""
        story = tell_story(making.random(self.title, example), self.question_type)
        statements = [read_line("radio play"), *(read_line("line of a radio play", line=line) for line in story.lines)]
        question = read_line("question about a radio play", question=story.question.text)
        return scripted_test(self, example, statements, [question], [story.question.answer])

    def score(self, given: FinishedTest) -> Score | None:
        """Score 1 if the reply is `{"answer": "word"}` with the right word, else 0.

        Letter case, and spaces and dots around the word, make no difference.
        """
        reply, place = last_reply(given), expected_text(given)
        try:
            said = read_lenient(reply)
        except ValueError as error:
            return Score(0.0, (f"the reply is not JSON: {error}",))

        answer = said.get("answer") if isinstance(said, dict) else None
        if not isinstance(answer, str):
            return Score(0.0, ('the reply has no text under "answer"',))

        right = answer.strip(" .").casefold() == place.strip().casefold()
        return Score(float(right), (f"the answer is {answer[:80]!r}" + ("" if right else f", not {place!r}"),))
