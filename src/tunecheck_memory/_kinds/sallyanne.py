"""Sally-Anne: stories in which a person misses an event, and a question about a belief.

A story has one thing in one room, and closed containers. Only the people in the room see a move of the thing. A person
who missed a move does not return to the room, so that beliefs never depend on later discoveries. The story tracks
beliefs, and beliefs about the beliefs of others; questions concern existing beliefs only.

Example: Ann and Bob see the ball in the box. Bob leaves, and Ann puts the ball into the basket.

* world model: "Where is the ball really now?" The basket.
* a false belief: "Where would Bob look for the ball?" The box.
* a belief about a belief: "Where does Ann think that Bob would look for the ball?" The box, which is true.
"""

from random import Random

import msgspec

from tunecheck.plugins import one_of
from tunecheck_memory import FinishedTest, GenerationContext, Kind, MemoryTest, Score, read_lenient, scripted_test
from tunecheck_memory._kinds.replies import expected_text, last_reply
from tunecheck_memory._kinds.scripts import read_data, read_line, read_words

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


class Story:
    """A random story of two or three people: its `lines`, and a `question` of the given type with its `answer`.

    `beliefs` holds the thing's place by the believer's name; a key of two names is a belief about the second person's
    belief. `places` are the containers that the thing has not been in. `present` are the people in the room, `missed`
    those who missed a move of the thing.
    """

    def __init__(self, random: Random, question_type: str) -> None:
        """Tell the story, then draw the question."""
        scenery = read_data("scenery", _Scenery)
        self.random = random
        self.people = random.sample(read_words("first_names"), random.choice((2, 3)))
        self.room, *self.other_rooms = random.sample(scenery.rooms, 3)
        self.thing = random.choice(scenery.things)
        self.first_place, *self.places = random.sample(scenery.containers, 3)
        self.tastes = scenery.tastes
        self.present, self.missed = set[str](), set[str]()
        self.beliefs: dict[tuple[str, ...], str] = {}
        self.lines: list[str] = []

        for person in self.people:
            self.enter(person)
        self.lines.append(f"In the {self.room}, the {self.thing} was in the {self.first_place}.")
        self.see(self.first_place)
        self.play()
        self.question, self.answer = self.draw_question(question_type)

    def enter(self, person: str) -> None:
        """Let a person come into the room."""
        self.present.add(person)
        self.lines.append(f"{person} came into the {self.room}.")

    def leave(self, person: str) -> None:
        """Let a person leave the room."""
        self.present.discard(person)
        self.lines.append(f"{person} left the {self.room}.")

    def see(self, place: str) -> None:
        """Put the thing into a container; only the people in the room learn of it.

        The others have missed it if they know of the thing.
        """
        self.place = place
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
            person, place = self.random.choice(sorted(self.present)), self.places.pop()
            self.lines.append(f"{person} took the {self.thing} and put it into the {place}.")
            self.see(place)

    def draw_question(self, question_type: str) -> tuple[str, str]:
        """Draw a question of this type and its answer; a question about a false belief is preferred."""
        # The first type is "any".
        wanted = self.random.choice(QUESTION_TYPES[1:]) if question_type == "any" else question_type
        if wanted == "world_model":
            now = (f"Where is the {self.thing} really now?", self.place)
            return self.random.choice([now, (f"Where was the {self.thing} at the beginning?", self.first_place)])

        about_false, about_true = list[tuple[str, str]](), list[tuple[str, str]]()
        for people, place in self.beliefs.items():
            if len(people) == 1:
                text, truth = f"Where would {people[0]} look for the {self.thing}?", self.place
            else:
                text = f"Where does {people[0]} think that {people[1]} would look for the {self.thing}?"
                truth = self.beliefs[people[1:]]
            (about_true if place == truth else about_false).append((text, place))

        prefers_false = about_false and (not about_true or self.random.random() < _FALSE_BELIEFS)
        return self.random.choice(about_false if prefers_false else about_true)


class SallyAnne(Kind):
    """A generated story for each test; `question_type` is any, world_model or theory_of_mind."""

    name = "sallyanne"
    title = "SallyAnne"

    def __init__(self, *, question_type: str = "any") -> None:
        self.question_type = one_of(question_type, QUESTION_TYPES, "question_type")

    def definition(self, example: str, making: GenerationContext) -> MemoryTest:
        """Return a test that tells a random story line by line, and asks its question."""
        story = Story(making.random(self.title, example), self.question_type)
        statements = [read_line("radio play"), *(read_line("line of a radio play", line=line) for line in story.lines)]
        question = read_line("question about a radio play", question=story.question)
        return scripted_test(self, example, statements, [question], [story.answer])

    def score(self, given: FinishedTest) -> Score | None:
        """Score 1 if the reply is `{"answer": "word"}` with the right word, else 0.

        Letter case, and spaces and dots around the word, make no difference.

        Raises:
            UndecidedError: the row has no reply, or its expected answer has another form.
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
