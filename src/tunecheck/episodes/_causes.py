"""Finds the causes of a failed conversation, as faults with evidence beyond the differences of states and results."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import cast

from msgspec.structs import replace

from tunecheck._faults import CUT_OFF, Fault, cut, shown_value, title
from tunecheck._json import JSON, canonical, dumps
from tunecheck.calls._model import FunctionCall
from tunecheck.calls._python_text import bind_positional
from tunecheck.calls._writing import canonical_text
from tunecheck.calls.matching import MatchPolicy, argument_faults, as_value, call_faults, match_calls
from tunecheck.episodes._decoding import source_text
from tunecheck.episodes._episode import Called, Episode
from tunecheck.episodes._playing import GroundTruth, Player, Services, play
from tunecheck.episodes._states import copy_state, leaves
from tunecheck.pipeline._row_causes import name_fault
from tunecheck.simulators._base import ArgumentError, Operation

_LENIENT = MatchPolicy(ignore_case=True, ignore_whitespace=True, int_equals_float=True, allow_extra_calls=True)

_LOOP_LENGTH = 3
"""This many equal calls with equal results in one turn are a loop."""

_MOST_DIFFERENCES = 3
_MOST_WORDS = 6
"""Longer texts (in words) are written by the model, so they need no source in the conversation."""

_FEWEST_DIGITS = 3
"""Numbers with fewer digits are amounts that a model may choose."""

_LONGEST_CALL = 160

# a number, or a run of letters
_NUMBER_OR_WORD = re.compile(r"\d+(?:\.\d+)?|[^\W\d]+")

# a word of a function's name that says the function only looks something up: `get_user`, `cart_view`
_LOOKUP = re.compile(r"(^|_)(get|find|list|show|view|check|search|look|display|read|fetch|query)(_|$)", re.IGNORECASE)
_THOUSANDS_COMMA = re.compile(r"(?<=\d),(?=\d{3})")

_MOST_BYTES = 50_000_000
"""Size limit, in bytes, of the states or results that are compared for one conversation (some tenths of a second)."""


class TurnComparison:
    """The calls `made` by the model in a turn and those `wanted` by the ground truth, each on its own simulators.

    All calls have their arguments by name. `early` holds calls that changed the state in turns without expected calls,
    with the turn numbers from 1. `looks` are the ground truth's calls that only look something up. `results` are all
    results that the model got, up to the end of the turn.

    Args:
        truth: the row's ground truth.
        said: the user's messages by turn.
        turns: the model's calls by turn; the last turn is the failed one.
        services: starts the simulators.
        lacks_results: True if an expected result is missing; False if the states differ.

    Raises:
        ValueError: the states or results are too large to compare.
    """

    def __init__(
        self,
        truth: GroundTruth,
        said: object,
        turns: Sequence[Sequence[FunctionCall]],
        services: Services,
        *,
        lacks_results: bool,
    ) -> None:
        """Make the ground truth's and the model's calls up to the failed turn on new simulators, and record both."""
        self.turn = len(turns)
        self.lacks_results = lacks_results
        self._truth, self._turns, self._services, self._said = truth, turns, services, said
        self._right = services.play(truth)
        self.wanted: list[Called] = []
        self.looks: list[Called] = []
        self._record_wanted(truth.turns[: self.turn])
        idle = [turn for turn, items in enumerate(truth.turns[: self.turn - 1]) if not items]
        *earlier, last = play(services.play(truth), turns, compared=[*idle, self.turn - 1]).turns
        changed = [
            (number, called) for number, turn in enumerate(earlier, 1) for called in turn.calls if called.changes
        ]
        self.early = [(number, self._by_name(called)) for number, called in changed]
        self.made = [self._by_name(called) for called in last.calls]
        earlier_results = {called.result.text for turn in earlier for called in turn.calls}
        self.results = [*earlier_results, *(made.result.text for made in self.made)]
        if sum(map(len, self.results)) * len(self.made) > _MOST_BYTES:
            raise ValueError("the results of the simulators are too large to compare")

    def _record_wanted(self, turns: Sequence[Sequence[JSON]]) -> None:
        """Make the ground truth's calls in these turns; record those of the last turn, and which are lookups.

        Raises:
            ValueError: the states are too large to compare after each call.
        """
        *before, expected = [[call for item in turn for call in self._services.read(item).calls] for turn in turns]
        play(self._right, before, compared=())
        player = Player(self._right)
        if player.size * sum(map(len, self._turns)) > _MOST_BYTES:
            raise ValueError("the states of the simulators are too large to compare: make initial_config smaller")
        for call in expected:
            wanted = self._by_name(player.call(call))
            self.wanted.append(wanted)
            if not wanted.acted and not wanted.result.error and _is_lookup(wanted, player.state):
                self.looks.append(wanted)

    @cached_property
    def operations(self) -> Mapping[str, Operation]:
        """All operations of the simulators by name."""
        simulators = self._right.simulators.values()
        return {name: operation for simulator in simulators for name, operation in simulator.operations().items()}

    def _by_name(self, called: Called) -> Called:
        """Return a copy of a call that names positional arguments, and holds nested calls as source text."""
        arguments: Mapping[str, object] = called.call.arguments
        sources = {name: source_text(value) for name, value in arguments.items() if isinstance(value, FunctionCall)}
        call = FunctionCall(called.call.name, {**called.call.arguments, **sources})
        operation = self.operations.get(call.name)
        named = bind_positional(call, operation.parameters) if operation else call
        return Called(named, called.result, called.changes, called.acted)

    def is_refused(self, made: Called) -> bool:
        """Return True if the simulator answered with an error although the function accepts these arguments."""
        operation = self.operations.get(made.call.name)
        try:
            return made.result.error and operation is not None and operation.bind((), made.call.arguments) is not None
        except ArgumentError:
            return False

    def known(self, made: Called) -> str:
        """Return what the model could know before it made this call, as one lower-case text to search in.

        That is: the user's messages, the functions' definitions and the results of earlier calls.
        """
        position = next(number for number, call in enumerate(self.made) if call is made)
        later_count = len(self.made) - position  # results of this call and the later ones, which end the list
        return self._mentions + _searchable(self.results[: len(self.results) - later_count])

    @cached_property
    def _mentions(self) -> str:
        """The user's messages and the functions' definitions, as one lower-case text to search in."""
        said = dumps(cast("JSON", self._said)).decode() if self._said else ""
        return _searchable([said, self._services.definitions(self._right), ""])

    @cached_property
    def found(self) -> str:
        """The results of the ground truth's calls in this turn, as one lower-case text to search in."""
        return _searchable([wanted.result.text for wanted in self.wanted])

    def called(self, name: str) -> list[Called]:
        """Return the model's calls of this function in the failed turn."""
        return [made for made in self.made if made.call.name == name]

    def did(self, wanted: Called) -> bool:
        """Return True if a successful call of the same function gave the model the result of this ground-truth call."""
        succeeded = [made.result for made in self.called(wanted.call.name) if not made.result.error]
        return any(result.text == wanted.result.text for result in succeeded)

    @cached_property
    def undone(self) -> list[Called]:
        """The ground truth's successful calls that gave results which the model did not get."""
        return [wanted for wanted in self.wanted if not wanted.result.error and not self.did(wanted)]

    def attempts(self) -> Iterator[tuple[Called, Called]]:
        """Yield the model's calls of functions in `undone`, each with the first call of its function in `undone`."""
        for made in self.made:
            wanted = next((undone for undone in self.undone if undone.call.name == made.call.name), None)
            if wanted is not None:
                yield made, wanted

    def is_right_without(self, name: str) -> bool:
        """Return True if the final states would be right without the model's calls of this function in the turn."""
        last = [call for call in self._turns[-1] if call.name != name]
        turns = [*self._turns[:-1], last]
        episode = play(self._services.play(self._truth), turns, compared=[self.turn - 1])
        return bool(episode.turns[-1].states == copy_state(self._right.states()))


def _is_lookup(called: Called, states: object) -> bool:
    """Return True if a call only looked something up: its name says so, or its result repeats a value of the state."""
    if _LOOKUP.search(called.call.name):
        return True
    return not _distinctive_values(states).isdisjoint(_distinctive_values(called.result.value))


def _distinctive_values(value: object) -> set[object]:
    """Return the texts and numbers inside a value that can be recognised elsewhere: all except "", 0 and 1."""
    numbers_and_texts = [leaf for leaf in leaves(value) if isinstance(leaf, (str, int, float))]
    return {leaf for leaf in numbers_and_texts if leaf not in ("", 0, 1)}  # True equals 1, and False 0


def _searchable(texts: Iterable[str]) -> str:
    """Return texts joined for searching: lower case, numbers without commas."""
    return _THOUSANDS_COMMA.sub("", "\n".join(texts).casefold())


def causes_of_ending(episode: Episode, failed_turn: int | None) -> Iterator[Fault]:
    """Yield the fault that ended the conversation by force, if any, and the first answer that was cut off.

    Answers after the failed turn (from 0) do not count; None searches all turns.
    """
    if episode.ended_by is not None:
        yield Fault(code=episode.ended_by, turn=len(episode.turns) or None, message=title(episode.ended_by))
    turns = episode.turns if failed_turn is None else episode.turns[: failed_turn + 1]
    for number, turn in enumerate(turns, 1):
        for answer in turn.answers:
            reason = answer.finish_reason
            if isinstance(reason, str) and reason in CUT_OFF:
                yield Fault(code="cut_off", turn=number, message=f"{title('cut_off')} (finish_reason {reason})")
                return


def causes_of_calls(compared: TurnComparison) -> Iterator[Fault]:
    """Yield the faults that explain how the model's calls in the failed turn differ from the ground truth's.

    Unknown functions and loops are always reported; of the other causes, only the first that applies.
    """
    yield from _unknown_function(compared)
    yield from _loop(compared)
    # the most informative first
    for faults_of in (_unfounded_value, _skipped_lookup, _needless_step, _against_state, _gave_up):
        fault = next(faults_of(compared), None)
        if fault is not None:
            yield fault
            return
    differences = [*_difference_faults(compared)]
    yield from differences or _early_change(compared)


def _unknown_function(compared: TurnComparison) -> Iterator[Fault]:
    """Yield a fault for the first call of a function that does not exist.

    It is no fault if the model afterwards called the function that it probably meant.
    """
    for position, made in enumerate(compared.made):
        if made.call.name in compared.operations:
            continue
        fault, meant = _unknown_name(made.call.name, compared.operations)
        if meant not in {later.call.name for later in compared.made[position:]}:
            yield replace(fault, turn=compared.turn)
            return


def _unknown_name(name: str, operations: Mapping[str, Operation]) -> tuple[Fault, JSON]:
    """Return the fault of a name that no function has, and the function that was probably meant; None if unclear."""
    fault = name_fault(name[:100], frozenset(operations))
    if fault.code.startswith("decorated_name"):
        return fault, fault.expected
    # the function with the longest name that the called name extends: `send` for `send_now`
    meant = max((known for known in operations if name.startswith(known)), key=len, default=None)
    hint = f": {meant} has something added" if meant else ""
    words = f"{name[:100]} is not among the functions{hint}"
    return Fault(code="unknown_function", call=name[:100], message=words), meant


def _loop(compared: TurnComparison) -> Iterator[Fault]:
    """Yield a fault for the first call that was made three times or more with the same result.

    A call that the ground truth repeats as often is no loop.
    """
    times = Counter((made.call.name, _call_text(made.call), made.result.text) for made in compared.made)
    for (name, call, _), count in times.items():
        wanted_count = sum(_call_text(wanted.call) == call for wanted in compared.wanted)
        if count >= _LOOP_LENGTH and count > wanted_count:
            words = f"{call} was called {count} times, each time with the same result"
            yield Fault(code="loop", call=name, turn=compared.turn, message=words)
            return


def _unfounded_value(compared: TurnComparison) -> Iterator[Fault]:
    """Yield a fault for each argument value that neither the user, the definitions nor an earlier result contain.

    An argument counts only if the ground truth's value could be known.
    """
    for made, wanted in compared.attempts():
        if _is_wanted(made, compared):
            continue
        known = compared.known(made)
        for name, value in made.call.arguments.items():
            right = wanted.call.arguments.get(name)
            if right == value or not _has_invented_part(value, known):
                continue
            if all(_mentions(known + compared.found, leaf) for leaf in leaves(right)):
                words = f"{made.call.name}: {name} is {shown_value(value)}, which nothing had given"
                fault = Fault(code="unfounded_value", call=made.call.name, path=name, turn=compared.turn)
                yield replace(fault, expected=right, actual=value, message=words)


def _has_invented_part(value: object, known: str) -> bool:
    """Return True if the value, or a value inside it, must come from the conversation but is not in the known text."""
    return any(_could_be_given(leaf) and not _mentions(known, leaf) for leaf in leaves(value))


def _could_be_given(value: object) -> bool:
    """Return True if a value must come from the conversation: a short text or a number with several digits.

    The model may write longer texts and choose small amounts itself.
    """
    if isinstance(value, str):
        return 0 < len(value.split()) <= _MOST_WORDS
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    return sum(letter.isdigit() for letter in str(value)) >= _FEWEST_DIGITS


def _mentions(known: str, value: object) -> bool:
    """Return True if the known text contains all words and numbers of a value; null and booleans need no source."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if value is None or isinstance(value, bool):
        return True
    parts = _NUMBER_OR_WORD.findall(str(value).casefold())
    return all(part in known for part in parts)


def _skipped_lookup(compared: TurnComparison) -> Iterator[Fault]:
    """Yield a fault for each call that the model made without a lookup that the ground truth makes before it."""
    for position, lookup in enumerate(compared.wanted):
        if lookup not in compared.looks:
            continue
        if lookup.result.text in compared.results or compared.called(lookup.call.name):
            continue  # the model looked it up
        for prepared in compared.wanted[position + 1 :]:
            attempts = compared.called(prepared.call.name)
            if prepared.acted and attempts and (compared.lacks_results or not compared.did(prepared)):
                made = attempts[0].call
                words = f"{_call_text(made)} without {_call_text(lookup.call)}, which the ground truth calls before"
                yield _pair_fault("skipped_lookup", compared, lookup.call, made, words)


def _needless_step(compared: TurnComparison) -> Iterator[Fault]:
    """Yield a fault for each function that changed the state, is not in the ground truth, and alone made the state
    wrong.
    """
    if compared.lacks_results or compared.undone:
        return
    wanted_names = {wanted.call.name for wanted in compared.wanted}
    # the first call of each function that changed the state
    changing = {made.call.name: made for made in reversed(compared.made) if made.changes}
    for name, made in changing.items():
        if name not in wanted_names and compared.is_right_without(name):
            words = f"{_call_text(made.call)} was needless: without it the state would be right"
            yield _extra_fault("needless_step", compared.turn, made, words)


def _against_state(compared: TurnComparison) -> Iterator[Fault]:
    """Yield a fault for each call that the simulator refused if the ground truth calls it with other values."""
    for made, wanted in compared.attempts():
        if compared.is_refused(made) and wanted.acted and _has_other_values(made.call, wanted.call):
            words = f"{_call_text(made.call)} cannot be done in this state: {_error(made)}"
            yield _pair_fault("against_state", compared, wanted.call, made.call, words)


def _gave_up(compared: TurnComparison) -> Iterator[Fault]:
    """Yield a fault for each failed call that the model did not repeat successfully.

    A call with other values than the ground truth's counts only if it is the turn's last one.
    """
    for made, wanted in compared.attempts():
        if made.result.error and (made is compared.made[-1] or _is_same_call(made.call, wanted.call)):
            words = f"{_call_text(made.call)} failed and was not done after that: {_error(made)}"
            yield _pair_fault("gave_up", compared, wanted.call, made.call, words)


def _difference_faults(compared: TurnComparison) -> Iterator[Fault]:
    """Yield the first three differences between the model's calls in the turn and the ground truth's, compared
    leniently.

    Without a difference, yield the model's further calls that changed the state.
    """
    wanted = [wanted.call for wanted in compared.wanted]
    match = match_calls([made.call for made in compared.made], wanted, _LENIENT)
    faults = [*call_faults(match, _LENIENT), *argument_faults(match)]
    if not faults:
        further = [made for made in compared.made if made.acted and not _is_wanted(made, compared)]
        faults = [Fault(code="extra_call", call=made.call.name, actual=made.call.arguments) for made in further]
    yield from (replace(fault, turn=compared.turn) for fault in faults[:_MOST_DIFFERENCES])


def _early_change(compared: TurnComparison) -> Iterator[Fault]:
    """Yield a fault for the first call that changed the state in an earlier turn without expected calls."""
    for turn, made in compared.early[:1]:
        words = f"{_call_text(made.call)} in a turn that asks for no call"
        yield _extra_fault("extra_call", turn, made, words)


def _extra_fault(code: str, turn: int, made: Called, words: str) -> Fault:
    """Return the fault of a call that the ground truth does not make; its arguments are the evidence.

    `turn` counts from 1.
    """
    actual: JSON = made.call.arguments
    return Fault(code=code, call=made.call.name, turn=turn, actual=actual, message=words)


def _pair_fault(code: str, compared: TurnComparison, wanted: FunctionCall, made: FunctionCall, words: str) -> Fault:
    """Return a fault with a call and the ground truth's call as evidence."""
    return Fault(
        code=code, call=made.name, turn=compared.turn, expected=as_value(wanted), actual=as_value(made), message=words
    )


def _is_wanted(made: Called, compared: TurnComparison) -> bool:
    """Return True if the ground truth makes the same call in the turn."""
    return any(_is_same_call(made.call, wanted.call) for wanted in compared.wanted)


def _is_same_call(first: FunctionCall, second: FunctionCall) -> bool:
    """Return True if both calls have the same function and arguments; 15.0 and 15 are equal."""
    return first.name == second.name and _comparable_arguments(first) == _comparable_arguments(second)


def _comparable_arguments(call: FunctionCall) -> bytes:
    """Return the arguments as JSON with whole floats as integers, because simulators treat `15.0` and `15` alike."""
    arguments = dict(call.arguments)
    for name, value in arguments.items():
        if isinstance(value, float) and value.is_integer():
            arguments[name] = int(value)
    return canonical(arguments)


def _has_other_values(made: FunctionCall, wanted: FunctionCall) -> bool:
    """Return True if calls of the same function differ in the values of their common arguments.

    A text that contains the expected one, such as `archive/report.csv` for `archive`, is no other value.
    """
    common = [(made.arguments[name], value) for name, value in wanted.arguments.items() if name in made.arguments]
    if all(isinstance(value, str) and isinstance(right, str) and right in value for value, right in common):
        return False
    return not _is_same_call(made, wanted)


def _call_text(call: FunctionCall) -> str:
    return cut(canonical_text([call]), _LONGEST_CALL)


def _error(made: Called) -> str:
    """Return the error text of a failed call's result, shortened."""
    value = made.result.value
    error = value.get("error") if isinstance(value, dict) else None
    return str(error or made.result.text)[:200]
