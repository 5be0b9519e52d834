"""Rows made of tasks: as they are, and with something missing, added or changed, each with its right outcome."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random

from tunecheck._json import JSON
from tunecheck.calls._model import FunctionCall
from tunecheck_authoring._author.files import GraphFile, PathLine, RowLine, TaskLine, TruthLine, Variant
from tunecheck_authoring._author.graph import available
from tunecheck_authoring._author.shipped import notes
from tunecheck_authoring._author.tasks import Words, in_vain, other_service
from tunecheck_authoring._author.values import free_values
from tunecheck_authoring._author.wording import all_are, all_to, details_of, said
from tunecheck_authoring._author.world import Function, World

_NOTES = 120
_READS = "read_only"


@dataclass(frozen=True)
class Draft:
    """A conversation in the making; a turn without text is one in which functions are added.

    `origin` is the turn of the path that a turn comes from.
    """

    texts: list[str | None]
    calls: list[list[str]]
    origin: list[int | None]
    held_out: dict[int, list[str]] = field(default_factory=dict)
    simulators: list[str] = field(default_factory=list)
    configuration: dict[str, JSON] = field(default_factory=dict)
    free_calls: str | None = None

    def with_turn(self, at: int, text: str | None, calls: list[str], origin: int | None = None) -> Draft:
        """With a turn put in before that number; functions that are held out for later ones move along."""
        return replace(
            self,
            texts=[*self.texts[:at], text, *self.texts[at:]],
            calls=[*self.calls[:at], calls, *self.calls[at:]],
            origin=[*self.origin[:at], origin, *self.origin[at:]],
            held_out={turn + (turn >= at): names for turn, names in self.held_out.items()},
        )

    def with_text(self, at: int, text: str) -> Draft:
        return replace(self, texts=[*self.texts[:at], text, *self.texts[at + 1 :]])


class RowAuthor:
    """Makes the rows of tasks."""

    def __init__(self, world: World, graph: GraphFile, seed: int) -> None:
        self._world, self._graph, self._seed = world, graph, seed

    def rows(
        self, name: str, path: PathLine, truth: TruthLine, task: TaskLine, kinds: Sequence[Variant]
    ) -> Iterator[RowLine]:
        """The task as a row, and its variant of the first of these kinds of which there can be one."""
        base = Draft(
            texts=[*task.turns],
            calls=truth.calls,
            origin=[*range(len(task.turns))],
            simulators=path.simulators,
            configuration=path.configuration,
        )
        yield self._row(name, path, "base", base)
        for kind in kinds:
            making = _Making(self._world, self._graph, path, truth, task, Random(f"{self._seed} {kind} {path.id}"))
            varied = making.of_kind(kind, base)
            if varied is not None:
                yield self._row(name, path, kind, varied)
                return

    def _row(self, name: str, path: PathLine, variant: str, draft: Draft) -> RowLine:
        task = f"{name}-{path.id}"
        return RowLine(
            id=task if variant == "base" else f"{task}-{variant}",
            task=task,
            variant=variant,
            path=" | ".join(" ".join(call.function for call in turn) for turn in path.turns),
            turns=[[] if text is None else [{"role": "user", "content": text}] for text in draft.texts],
            ground_truth=draft.calls,
            involved_classes=draft.simulators,
            initial_config=draft.configuration,
            held_out={str(turn): names for turn, names in sorted(draft.held_out.items())},
            free_calls=draft.free_calls,
        )


@dataclass
class _Making:
    """The variants of one task; each gives None where the task has no place for it."""

    world: World
    graph: GraphFile
    path: PathLine
    truth: TruthLine
    task: TaskLine
    random: Random

    def of_kind(self, kind: Variant, base: Draft) -> Draft | None:
        makers: Mapping[Variant, Callable[[Draft], Draft | None]] = {
            "missing_parameter": self.missing_parameter,
            "missing_function": self.missing_function,
            "long_context": self.long_context,
            "composite": self.composite,
            "distractors": self.distractors,
            "irrelevant": self.irrelevant,
            "change_of_mind": self.change_of_mind,
        }
        return makers[kind](base)

    def missing_parameter(self, draft: Draft) -> Draft | None:
        """A value is not said, and given in the turn after, when it was asked for."""
        places = [
            (at, name)
            for at in self._single(draft)
            for name in self._said_parameters(at, draft)
            if not self._can_be_known(name, at, draft)
        ]
        if not places:
            return None
        at, name = self.random.choice(places)
        turn = draft.origin[at]
        assert turn is not None
        value = self.path.turns[turn][0].arguments[name].value
        asked = self._words().turn(turn, without=[name])
        opening = self.random.choice(["The", "Sorry, I forgot: the", "Right, the"])
        given = draft.with_text(at, f"{opening} {all_are(details_of({name: value}))}.")
        return replace(given.with_turn(at, asked, []), free_calls=_READS)

    def missing_function(self, draft: Draft) -> Draft | None:
        """A function that changes something is not on offer, and is in the turn after."""
        places = [at for at in self._single(draft) if self._can_be_held_out(at, draft)]
        if not places:
            return None
        at = self.random.choice(places)
        turn, text = draft.origin[at], draft.texts[at]
        assert turn is not None
        moved = draft.with_turn(at, text, [], turn)
        moved = replace(moved, texts=[*moved.texts[: at + 1], None, *moved.texts[at + 2 :]])
        held_out = {**moved.held_out, at + 1: [self.path.turns[turn][0].function]}
        return replace(moved, held_out=held_out, free_calls=_READS)

    def long_context(self, draft: Draft) -> Draft | None:
        """Many lines that have nothing to do with the request stand before it."""
        at = self.random.choice([at for at, text in enumerate(draft.texts) if text is not None])
        lines = "\n".join(note(self.random, number) for number in range(1, _NOTES + 1))
        before = "These are my notes of the last weeks, for the record. There is nothing to do about them."
        return draft.with_text(at, f"{before}\n\n{lines}\n\nWhat I want from you now: {draft.texts[at]}")

    def composite(self, draft: Draft) -> Draft | None:
        """Several at once: a missing function, a missing parameter in another turn, and a long context."""
        both = [each for each in (self.missing_function(draft),) if each is not None]
        held = both[0] if both else draft
        lacking = self.missing_parameter(held)
        if lacking is None or not both:
            return None
        return self.long_context(lacking)

    def distractors(self, draft: Draft) -> Draft | None:
        """Functions of other services are on offer as well."""
        name = other_service(self.world, draft.simulators, self.random)
        if name is None:
            return None
        configuration = {**draft.configuration, **self.world.configuration([name], self.random)}
        return replace(draft, simulators=[*draft.simulators, name], configuration=configuration)

    def irrelevant(self, draft: Draft) -> Draft | None:
        """A turn asks for what none of the functions does; the right answer makes no call."""
        request = in_vain(self.world, draft.simulators, self.task.voice, self.random)
        return draft.with_turn(self.random.randint(1, len(draft.texts)), request, [])

    def change_of_mind(self, draft: Draft) -> Draft | None:
        """The user gives a value, and another one before the request is over."""
        places = [(at, name) for at in self._single(draft) for name in self._said_parameters(at, draft)]
        self.random.shuffle(places)
        for at, name in places:
            turn = draft.origin[at]
            assert turn is not None
            planned = self.path.turns[turn][0]
            value, function = planned.arguments[name].value, self.world.functions[planned.function]
            likely = [each for each in free_values(self.world, function, name, self.random) if each != value]
            if likely:
                first = self.random.choice(likely)
                text = self._words().turn(turn, instead={name: first})
                changed = all_to(details_of({name: value}))
                return draft.with_text(at, f"{text} Actually, wait, I've changed my mind: make {changed} instead.")
        return None

    def _words(self) -> Words:
        return Words(self.world, self.path, self.task.voice)

    def _single(self, draft: Draft) -> list[int]:
        """Turns as the path has them, with one call."""
        used = {turn: draft.origin.count(turn) for turn in draft.origin}
        return [
            at
            for at, turn in enumerate(draft.origin)
            if turn is not None and used[turn] == 1 and len(draft.calls[at]) == 1 and draft.texts[at] is not None
        ]

    def _said_parameters(self, at: int, draft: Draft) -> list[str]:
        """Required parameters of the turn's call whose value the user says."""
        turn = draft.origin[at]
        assert turn is not None
        planned = self.path.turns[turn][0]
        required = self.world.functions[planned.function].required
        said_ones = [name for name, each in planned.arguments.items() if each.source is None and name in required]
        return [name for name in said_ones if not isinstance(planned.arguments[name].value, bool)]

    def _can_be_known(self, name: str, at: int, draft: Draft) -> bool:
        """Whether a value need not be asked for: it was said or found before, or is the only one that there is."""
        turn = draft.origin[at]
        assert turn is not None
        argument = self.path.turns[turn][0].arguments[name]
        texts = [text or "" for text in draft.texts[:at]]
        results = [result for each in self.truth.results[:turn] for result in each]
        request = self._words().turn(turn, without=[name])
        if said(argument.value, " ".join([*texts, *results, request])):
            return True
        if argument.edge is None:
            return said(argument.value, str(self.path.configuration))
        session = self.world.session(self.path.simulators, self.path.configuration)
        return len({atom.value for atom, _ in available(session) if atom.pattern == argument.edge}) < 2

    def _can_be_held_out(self, at: int, draft: Draft) -> bool:
        """Whether nothing else does what a turn's function does, and it was not used before."""
        turn = draft.origin[at]
        assert turn is not None
        planned = self.path.turns[turn][0]
        earlier = [call.function for calls in self.path.turns[:turn] for call in calls]
        function = self.world.functions[planned.function]
        if planned.function in earlier or not self.graph.functions[function.name].writes:
            return False
        values = [each.value for each in planned.arguments.values()]
        others = (each for each in self.world.functions.values() if each.name != function.name)
        return not any(self._does_the_same(turn, values, each) for each in others)

    def _does_the_same(self, turn: int, values: list[JSON], other: Function) -> bool:
        """Whether another function with the same values leads to the same state."""
        if other.simulator not in self.path.simulators or len(other.required) > len(values):
            return False
        session = self.world.session(self.path.simulators, self.path.configuration)
        for calls in self.path.turns[:turn]:
            for call in calls:
                session.call(FunctionCall(call.function, {name: each.value for name, each in call.arguments.items()}))
        reached = self.truth.states[turn]
        step = session.call(FunctionCall(other.name, dict(zip(other.parameters, values, strict=False))))
        return bool(step.changes) and str(session.state()) == str(reached)


def note(random: Random, number: int) -> str:
    """A line of notes, in which nothing is asked for."""
    parts = {name: random.choice(choices) for name, choices in notes().items()}
    return f"{number}. {parts['day']}: {parts['thing']} {parts['place']} {parts['event']}."
