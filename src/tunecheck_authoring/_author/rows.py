"""Execute tasks, put them into words, make rows of them, and try whether a row is a valid test.

A task is the calls of one conversation, its initial state and the user's words. Executing its calls gives an episode:
their results and the states between them. A row is the unchanged task, or a variant with something missing, added or
changed (`VariantBuilder`). A draft is a row that is being built.

In a valid test, the ground truth passes and wrong calls fail. `Trial` tries this, and the first weakness counts:

| trial | weakness if |
|---|---|
| `check` of a conversation | it has a finding that is no remark |
| the expected calls | they do not pass |
| no calls | they pass; a question that expects no call is exempt |
| the words | they, and earlier results, lack a value of a call |
| one mistake at a time: a call left out, an argument changed | one of them passes |
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from copy import deepcopy
from random import Random
from typing import TypeAlias, cast

import msgspec
from msgspec.structs import replace

from tunecheck.calls import FunctionCall, ToolDefinitions, canonical_text, write_calls
from tunecheck.episodes import Episode, Given, GroundTruth, Services, StateCheck, Turn, play
from tunecheck.plugins import JSON, canonical, dumps, find
from tunecheck_authoring._audit.checks import PROBLEMS, TruthCall, checked_rows, right_calls
from tunecheck_authoring._author import files, wording
from tunecheck_authoring._author.graph import available
from tunecheck_authoring._author.world import Function, World, free_values, functions_of, load_shipped, wrong_values

_ALIKE = 0.3
"""Requests with a greater share of common words may be taken for each other."""


def render_task(world: World, task: files.AuthoredTask, seed: int) -> files.AuthoredTask:
    """Return the task with the user's plain words for each turn, in one voice that the seed determines.

    A task without calls gets a request that no function carries out.
    """
    random = Random(f"{seed} voice {task.id}")
    task = msgspec.structs.replace(task, voice=random.choice([*wording.VOICES]))

    if task.turns == [[]]:
        words = [unanswerable_request(world, task.simulators, task.voice, random)]
    else:
        words = [request_text(world, task, number) for number in range(len(task.turns))]
    return msgspec.structs.replace(task, words=words)


def other_service(world: World, simulators: Sequence[str], random: Random) -> str | None:
    """Draw a simulator that is not among these and shares no function name with them, or return None."""
    # Simulators of one row must not have functions of the same name.
    used_names = {name for each in simulators for name in world.class_of(each).operations()}

    candidates = [name for name in (*world.classes, *world.spare) if name not in simulators]
    others = [name for name in candidates if used_names.isdisjoint(world.class_of(name).operations())]
    return random.choice(others) if others else None


def unanswerable_request(world: World, simulators: Sequence[str], voice: str, random: Random) -> str:
    """Return a request in this voice that none of these simulators can carry out, from another service if possible."""
    name = other_service(world, simulators, random)
    offered = {} if name is None else functions_of({name: world.class_of(name)}, {})

    own_functions = functions_of({each: world.class_of(each) for each in simulators}, {})
    own_requests = [each.request for each in own_functions.values()]
    # The request must name values, and must not resemble one that the task's own functions can carry out.
    functions = [each for each in offered.values() if each.required and not _resembles(each.request, own_requests)]
    if not functions:
        return "Please water the plants on the balcony."

    function = random.choice(functions)
    names = [each for each in function.parameters if each in function.required]
    values = {each: random.choice(free_values(world, function, each, random)) for each in names}

    return wording.voice_of(voice)([wording.Ask(function.request, wording.details_of(values))], True)  # True: in order


def _resembles(request: str, others: Sequence[str]) -> bool:
    """True if a request shares many words with one of the others and may be taken for it."""
    request_words = {*request.lower().split()}
    word_sets = ({*each.lower().split()} for each in others)
    return any(len(request_words & words) > _ALIKE * len(request_words | words) for words in word_sets)


def request_text(
    world: World,
    task: files.AuthoredTask,
    number: int,
    *,
    without: Collection[str] = (),
    instead: Mapping[str, JSON] | None = None,
) -> str:
    """Return the request of a turn in the task's voice.

    `number` is the turn, from 0. Parameters in `without` are left out; `instead` has other values to say. A value from
    an earlier result is described, because the user does not know it.
    """
    asks, instead = [], instead or {}
    for at, planned in enumerate(task.turns[number]):
        arguments = {name: each for name, each in planned.arguments.items() if name not in without}
        values = {name: instead.get(name, each.value) for name, each in arguments.items()}
        texts = {
            name: _reference(world, task, each.source, each.path, (number, at))
            for name, each in arguments.items()
            if each.source is not None and name not in instead
        }
        asks.append(wording.Ask(world.functions[planned.function].request, wording.details_of(values, texts)))

    return wording.voice_of(task.voice)(asks, len(task.turns) > 1)


def _reference(
    world: World, task: files.AuthoredTask, source: tuple[int, int], path: Sequence[str | int], place: tuple[int, int]
) -> str:
    """Return words for a value in an earlier result, as a user would refer to it: "the id that you got when …".

    `source` is the call with the result, by turn and number, and `place` the call that uses the value. Both may be in
    one turn: "the id that you get when …". Otherwise, if the task has several calls of that function, the words say
    "the first time" or "the last time".
    """
    producer = task.turns[source[0]][source[1]]
    field = wording.place_text(path)
    # The first clause is enough: "create an order" of "create an order, and reserve its items".
    request = world.functions[producer.function].request.partition(",")[0]

    if source[0] == place[0]:
        return f"the {field} that you get when you {request}"
    calls = [call for call in task.calls if call.function == producer.function]
    which = "when" if len(calls) == 1 else "the first time" if producer is calls[0] else "the last time"
    return f"the {field} that you got {which} I asked you to {request}"


# -- rows

_NOTES = 120
"""Lines of notes in a long context."""

_FREE_CALLS = "read_only"
"""The setting of rows in which the model may also make calls that change nothing."""

_CHECKS = {"one_call": "simple", "parallel": "parallel", "no_call": "irrelevance"}
"""The column `check` of single-turn rows, as BFCL names the kinds, by variant."""

_OPTIONAL = ""
"""An accepted value that means that the parameter may be omitted."""


class DraftTurn(msgspec.Struct, frozen=True):
    """A turn of a row: the user's words (None: functions are `added`), and the expected calls.

    `number` is the number of the task's turn if the turn is unchanged.
    """

    text: str | None
    calls: list[str] = msgspec.field(default_factory=list)
    number: int | None = None
    added: list[str] = msgspec.field(default_factory=list)


class Draft(msgspec.Struct, frozen=True):
    """A conversation that is being built. `free_calls` is the row's setting of that name."""

    turns: list[DraftTurn]
    simulators: list[str]
    configuration: dict[str, JSON]
    free_calls: str | None = None

    def put(self, at: int, *turns: DraftTurn) -> Draft:
        """Return a draft with the turn of this number replaced by these turns."""
        return replace(self, turns=[*self.turns[:at], *turns, *self.turns[at + 1 :]])


def task_rows(
    world: World, graph: files.GraphFile, seed: int, name: str, task: files.AuthoredTask, kinds: Sequence[files.Variant]
) -> Iterator[files.RowLine]:
    """Yield the task as a row of the data set `name`, and one variant: of the first of `kinds` that the task allows."""
    # As ground truths write a call, without the brackets of a list: `cd(folder='docs')`
    calls = [[str(write_calls([planned.call], "bfcl_text"))[1:-1] for planned in turn] for turn in task.turns]
    turns = [DraftTurn(text, calls[number], number) for number, text in enumerate(task.words)]
    base = Draft(turns, task.simulators, task.configuration)
    yield _row(name, task, "base", base)

    backend = world.backend(task.simulators, task.configuration)
    episode = play(backend, ([planned.call for planned in turn] for turn in task.turns))
    for kind in kinds:
        builder = VariantBuilder(world, graph, task, episode, Random(f"{seed} {kind} {task.id}"))
        make: Callable[[Draft], Draft | None] = getattr(builder, kind)
        varied = make(base)
        if varied is not None:
            yield _row(name, task, kind, varied)
            return


def _row(name: str, task: files.AuthoredTask, variant: str, draft: Draft) -> files.RowLine:
    """Return a draft as a row of the data set `name`.

    The row's id is that of the task, followed by the variant unless it is "base": `shop-3` and `shop-3-irrelevant`.
    """
    task_id = f"{name}-{task.id}"
    return files.RowLine(
        id=task_id if variant == "base" else f"{task_id}-{variant}",
        task=task_id,
        variant=variant,
        path=" | ".join(" ".join(call.function for call in turn) for turn in task.turns),
        turns=[[] if turn.text is None else [{"role": "user", "content": turn.text}] for turn in draft.turns],
        ground_truth=[turn.calls for turn in draft.turns],
        involved_classes=draft.simulators,
        initial_config=draft.configuration,
        held_out={str(at): turn.added for at, turn in enumerate(draft.turns) if turn.added},
        free_calls=draft.free_calls,
    )


class SingleCallTurn(msgspec.Struct, frozen=True):
    """An unchanged turn with one call: its place in the draft, its number in the task, and the call."""

    at: int
    number: int
    planned: files.PlannedCall


class VariantBuilder(msgspec.Struct):
    """Builder of the variants of one task.

    Each kind of variant has a method with its name. It returns None if the task does not allow the variant.
    """

    world: World
    graph: files.GraphFile
    task: files.AuthoredTask
    episode: Episode
    random: Random

    def missing_parameter(self, draft: Draft) -> Draft | None:
        """Return the draft with a value left out of a request, which the user gives in the next turn.

        The call is expected only then. Calls that change nothing are allowed in the whole row. The turn has one call,
        and the agent cannot know the value from elsewhere. It belongs to a required parameter and is no boolean. Return
        None if there is no such value.
        """
        said = self._said_parameters(draft)
        places = [(place, name) for place, name in said if not self._can_be_known(name, place, draft)]
        if not places:
            return None

        place, name = self.random.choice(places)
        request = request_text(self.world, self.task, place.number, without=[name])

        opening = self.random.choice(["The", "Sorry, I forgot: the", "Right, the"])
        stated = wording.format_values(wording.details_of({name: place.planned.arguments[name].value}))
        # The expected call stays in the turn in which the user gives the value.
        answer = replace(draft.turns[place.at], text=f"{opening} {stated}.")
        return replace(draft.put(place.at, DraftTurn(request), answer), free_calls=_FREE_CALLS)

    def missing_function(self, draft: Draft) -> Draft | None:
        """Return the draft with a function that changes the state withheld until the next turn.

        Calls that change nothing are allowed in the whole row. Return None if no function can be withheld.
        """
        places = [place for place in self._single_calls(draft) if self._can_be_held_out(place)]
        if not places:
            return None

        place = self.random.choice(places)
        turn = draft.turns[place.at]
        # A turn without a message adds the function, and expects the call.
        added = DraftTurn(None, turn.calls, added=[place.planned.function])
        return replace(draft.put(place.at, DraftTurn(turn.text), added), free_calls=_FREE_CALLS)

    def long_context(self, draft: Draft) -> Draft | None:
        """Return the draft with many unrelated lines before a request."""
        # A turn that only adds functions has no request.
        at = self.random.choice([at for at, turn in enumerate(draft.turns) if turn.text is not None])

        lines = "\n".join(note(self.random, number) for number in range(1, _NOTES + 1))
        before = "These are my notes of the last weeks, for the record. There is nothing to do about them."
        turn = draft.turns[at]
        return draft.put(at, replace(turn, text=f"{before}\n\n{lines}\n\nWhat I want from you now: {turn.text}"))

    def composite(self, draft: Draft) -> Draft | None:
        """Return the draft with a missing function, a missing parameter and a long context.

        None if one is impossible.
        """
        # The withheld function's turn is no single call any more, so the parameter is left out of another turn. A step
        # that is impossible gives None, which the next steps pass on.
        without_function = self.missing_function(draft)
        without_parameter = without_function and self.missing_parameter(without_function)
        return without_parameter and self.long_context(without_parameter)

    def distractors(self, draft: Draft) -> Draft | None:
        """Return the draft with another service's functions offered as well, or None if no other service fits."""
        name = other_service(self.world, draft.simulators, self.random)
        if name is None:
            return None

        configuration = {**draft.configuration, **self.world.configuration([name], self.random)}
        return replace(draft, simulators=[*draft.simulators, name], configuration=configuration)

    def irrelevant(self, draft: Draft) -> Draft | None:
        """Return the draft with an added request that no function carries out; the right answer makes no call."""
        request = unanswerable_request(self.world, draft.simulators, self.task.voice, self.random)

        at = self.random.randrange(len(draft.turns))
        return draft.put(at, draft.turns[at], DraftTurn(request))

    def change_of_mind(self, draft: Draft) -> Draft | None:
        """Return the draft with a request in which the user gives a value and corrects it.

        None if no value that the user gives has a plausible alternative.
        """
        places = self._said_parameters(draft)
        # The first place with another likely value is used.
        self.random.shuffle(places)
        for place, name in places:
            value, function = place.planned.arguments[name].value, self.world.functions[place.planned.function]

            likely = [each for each in free_values(self.world, function, name, self.random) if each != value]
            if likely:
                first = self.random.choice(likely)

                text = request_text(self.world, self.task, place.number, instead={name: first})
                changed = wording.format_targets(wording.details_of({name: value}))
                text = f"{text} Actually, wait, I've changed my mind: make {changed} instead."
                return draft.put(place.at, replace(draft.turns[place.at], text=text))
        return None

    def _single_calls(self, draft: Draft) -> list[SingleCallTurn]:
        """Return the unchanged turns with one call."""
        return [
            SingleCallTurn(at, turn.number, self.task.turns[turn.number][0])
            for at, turn in enumerate(draft.turns)
            if turn.number is not None and len(turn.calls) == 1
        ]

    def _said_parameters(self, draft: Draft) -> list[tuple[SingleCallTurn, str]]:
        """Return the required parameters with a value that the user gives, each with its turn.

        Only unchanged turns with one call count. Booleans, which have no fixed wording, are left out.
        """
        return [
            (turn, name)
            for turn in self._single_calls(draft)
            for name, each in turn.planned.arguments.items()
            if each.source is None and name in self.world.functions[turn.planned.function].required
            if not isinstance(each.value, bool)
        ]

    def _can_be_known(self, name: str, place: SingleCallTurn, draft: Draft) -> bool:
        """True if the agent can know a value without being told.

        It can if the value occurred before. Otherwise, a value with an edge is known if the state has no second value
        of its kind, and a value without an edge is known if the initial state mentions it. `place` is the turn in which
        the user gives the value of the parameter `name`.
        """
        argument = place.planned.arguments[name]

        texts = [turn.text or "" for turn in draft.turns[: place.at]]
        texts += [call.result.text for turn in self.episode.turns[: place.number] for call in turn.calls]
        request = request_text(self.world, self.task, place.number, without=[name])
        # It occurred in the user's words or in a result.
        if wording.mentions_value(argument.value, " ".join([*texts, request])):
            return True

        # The agent could find the value in the initial state.
        if argument.edge is None:
            return wording.mentions_value(argument.value, str(self.task.configuration))

        # If the state has only one value of this kind, the agent need not ask for it.
        session = self.world.session(self.task.simulators, self.task.configuration)
        return len({atom.value for atom in available(session) if atom.pattern == argument.edge}) < 2

    def _can_be_held_out(self, place: SingleCallTurn) -> bool:
        """True if a turn's function changes the state, was not used before, and no other function can replace it."""
        earlier = [call.function for calls in self.task.turns[: place.number] for call in calls]
        function = self.world.functions[place.planned.function]
        if function.name in earlier or not self.graph.functions[function.name].writes:
            return False

        values = [each.value for each in place.planned.arguments.values()]
        others = (each for each in self.world.functions.values() if each.name != function.name)
        return not any(self._does_the_same(place.number, values, each) for each in others)

    def _does_the_same(self, turn: int, values: list[JSON], other: Function) -> bool:
        """True if the function `other`, called with the same values in this turn, leads to the same state."""
        if other.simulator not in self.task.simulators or len(other.required) > len(values):
            return False

        session = self.world.session(self.task.simulators, self.task.configuration)
        for calls in self.task.turns[:turn]:
            for call in calls:
                session.call(call.call)

        # The values are given in the order of the other function's parameters, which have other names.
        step = session.call(FunctionCall(other.name, dict(zip(other.parameters, values, strict=False))))
        return bool(step.changes) and str(session.state) == str(self.episode.turns[turn].states)


def note(random: Random, number: int) -> str:
    """Return a numbered line of notes without a request, from parts in `shipped.yaml`: day, thing, place and event."""
    parts = {name: random.choice(choices) for name, choices in load_shipped().notes.items()}
    return f"{number}. {parts['day']}: {parts['thing']} {parts['place']} {parts['event']}."


def question_row(world: World, name: str, task: files.AuthoredTask) -> files.QuestionLine:
    """Return a task with one turn as a row for `call_check`, with all functions of its simulators as tools."""
    calls = task.turns[0]
    variant = {0: "no_call", 1: "one_call"}.get(len(calls), "parallel")

    tools = [tool for each in task.simulators for tool in world.class_of(each).tool_definitions()]
    return files.QuestionLine(
        id=f"{name}-{task.id}",
        task=f"{name}-{task.id}",
        variant=variant,
        check=_CHECKS[variant],
        path=" ".join(call.function for call in calls),
        messages=[{"role": "user", "content": task.words[0]}],
        tools=tools,
        ground_truth=[{call.function: _accepted_values(world, call)} for call in calls],
    )


def _accepted_values(world: World, call: files.PlannedCall) -> dict[str, list[JSON]]:
    """Return a call's accepted values by parameter, such as `{"city": ["Rome"], "unit": ["metric", ""]}`.

    The value `""` means that the parameter, which has a default, may be omitted.
    """
    accepted: dict[str, list[JSON]] = {}
    for name, schema in world.functions[call.function].parameters.items():
        default = schema.get("default")
        if name in call.arguments:
            value = call.arguments[name].value
            accepted[name] = [_alternatives(value), *([_OPTIONAL] if value == default else [])]
        elif default is not None:
            accepted[name] = [default, _OPTIONAL]
    return accepted


def _alternatives(value: JSON) -> JSON:
    """Return a value in the form of accepted values: each entry of an object has its own list."""
    if isinstance(value, dict):
        return {name: [_alternatives(each)] for name, each in value.items()}
    return [_alternatives(each) for each in value] if isinstance(value, list) else value


# -- trials

Turns: TypeAlias = Sequence[Sequence[FunctionCall]]
Passes: TypeAlias = Callable[[Turns], bool]
Judge: TypeAlias = Callable[..., Mapping[str, object]]

_CHANGES = 3
"""The most other values that are tried for an argument."""


class Trial:
    """Trials of a world's rows; the seed determines all random choices."""

    def __init__(self, world: World, seed: int) -> None:
        """Prepare trials with the world's simulators. No weakness is known yet."""
        self._world, self._seed = world, seed
        self._known: dict[bytes, files.Weakness | None] = {}
        self._services = Services({**world.spare, **world.classes})

    def weakness(self, row: files.Line) -> files.Weakness | None:
        """Return the reason why a row is not a valid test, or None if it is valid.

        Results are remembered by content.
        """
        content = canonical(msgspec.to_builtins(row))

        # The row of a task is tried when the task is drawn, and again among the variants.
        if content not in self._known:
            found = self._try_question(row) if isinstance(row, files.QuestionLine) else self._try_conversation(row)
            self._known[content] = found and msgspec.structs.replace(found, id=row.id, variant=row.variant)
        return self._known[content]

    def _try_question(self, row: files.QuestionLine) -> files.Weakness | None:
        """Return the weakness of a question, or None.

        Its own calls must pass, calls with a mistake must fail, and its words must hold all values. If it has calls, an
        agent that makes no call must fail, too.
        """
        tools = ToolDefinitions.read(row.tools)
        judge = cast("Callable[..., Judge]", find("evaluators", "call_check"))(mode="tools")

        # A call that cannot be read is left out. The row then does not pass.
        right, _ = right_calls(msgspec.to_builtins(row), row.ground_truth, tools)
        calls = [each.call for each in right]

        def passes(turns: Turns) -> bool:
            """Return True if `call_check` passes the calls of the only turn."""
            result = [{call.name: dumps(call.arguments).decode()} for call in turns[0]]
            verdict = judge(result=result, tools=row.tools, ground_truth=row.ground_truth, check=row.check)
            return verdict["call_check"] == 1.0

        words = "\n".join(str(message.get("content")) for message in row.messages)
        return self._weakness_of(row.id, [calls], passes, ((call, words) for call in calls))

    def _try_conversation(self, row: files.RowLine) -> files.Weakness | None:
        """Return the weakness of a conversation, or None.

        `check` must find nothing, its own calls must pass, and its words and results must hold all values. An agent
        that makes wrong calls or, if the row has calls, no call must fail.
        """
        content = msgspec.to_builtins(row)
        checked = next(checked_rows([content], self._services))
        found = next((each for each in checked.findings if not each.is_remark), None)
        if found is not None:
            return files.Weakness(reason=PROBLEMS[found.problem], detail=f"{found.call or ''} {found.text}".strip())

        truth, check = GroundTruth.read(content), StateCheck(self._services)
        # Without a finding, the check has executed every call.
        played = checked.replayed.played if checked.replayed is not None else []
        turns = [[each.step.call for each in played if each.turn == number] for number in range(len(row.turns))]

        def passes(turns: Turns) -> bool:
            """Return True if the check of states and calls passes these calls."""
            # Copies, because a simulator may keep a list or an object of the arguments and change it later.
            copies: list[Turn] = [[(deepcopy(call),) for call in turn] for turn in turns]
            return check.judge(Given(truth, copies)).valid is True

        return self._weakness_of(row.id, turns, passes, _words_before(row, played))

    def _weakness_of(
        self, row: str, turns: Turns, passes: Passes, said: Iterator[tuple[FunctionCall, str]]
    ) -> files.Weakness | None:
        """Return the first weakness of the row with this id, or None.

        `turns` are the right calls, which must pass. Calls with a mistake must fail and, if there are right calls, an
        agent that makes no call, too. `passes` judges the calls of all turns. `said` yields each right call with the
        words before it, which must contain its values.
        """
        if not passes(turns):
            return files.Weakness(reason="the ground truth does not pass")
        if any(turns) and passes([[] for _ in turns]):
            return files.Weakness(reason="an agent that does nothing passes")

        for call, words in said:
            for name, value in call.arguments.items():
                if not wording.mentions_value(value, words):
                    detail, reason = f"{name}={value!r} of {call.name}", "the request does not state a value"
                    return files.Weakness(reason=reason, detail=detail, function=call.name)

        for call, description, wrong_turns in self._mistakes(row, turns):
            if passes(wrong_turns):
                return files.Weakness(reason="a wrong answer passes", detail=description, function=call.name)
        return None

    def _mistakes(self, row: str, turns: Turns) -> Iterator[tuple[FunctionCall, str, Turns]]:
        """Yield each mistake as the right call, a description, and the turns with the mistake.

        A mistake leaves out the call, or changes one argument of it.
        """
        random = Random(f"{row} {self._seed}")
        for number, turn in enumerate(turns):
            for at, call in enumerate(turn):
                shorter_turn = [*turn[:at], *turn[at + 1 :]]
                yield call, f"without {canonical_text([call])}", [*turns[:number], shorter_turn, *turns[number + 1 :]]

                for changed in self._change_calls(call, random):
                    changed_turn = [*turn[:at], changed, *turn[at + 1 :]]
                    text = f"{canonical_text([changed])} for {canonical_text([call])}"
                    yield call, text, [*turns[:number], changed_turn, *turns[number + 1 :]]

    def _change_calls(self, call: FunctionCall, random: Random) -> Iterator[FunctionCall]:
        """Yield the call with up to `_CHANGES` other values of each argument; one argument is changed at a time.

        Values close to the right one come first, then one that a user may give.
        """
        function = self._world.functions.get(call.name)
        for name, value in call.arguments.items():
            schema = function.parameters.get(name, {}) if function is not None else {}
            known = free_values(self._world, function, name, random) if function is not None and schema else []

            likely = [each for each in known if each != value]
            values: list[JSON] = [*wrong_values(value, schema)[: _CHANGES - 1], *likely[:1]]
            for other in values:
                yield FunctionCall(call.name, {**call.arguments, name: other})


def _words_before(row: files.RowLine, played: Sequence[TruthCall]) -> Iterator[tuple[FunctionCall, str]]:
    """Yield each call with the user's words and the results before it. `played` are the row's calls with results."""
    words = ""
    for number, messages in enumerate(row.turns):
        words += "".join(f"{message.get('content')}\n" for message in messages)
        for each in played:
            if each.turn == number:
                yield each.step.call, words
                words += f"{each.step.result.text}\n"
