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

_LOOSE = MatchPolicy(ignore_case=True, ignore_whitespace=True, int_equals_float=True, allow_extra_calls=True)
_TIMES = 3
"""This many equal calls with equal results in one turn are a loop."""

_MOST_WORDS = 6
"""Longer texts (in words) are written by the model, so they need no source in the conversation."""

_FEWEST_DIGITS = 3
"""Numbers with fewer digits are amounts that a model may choose."""

_MOST_CALL = 160

_PARTS = re.compile(r"\d+(?:\.\d+)?|[^\W\d]+")


_ASKS = re.compile(r"(^|_)(get|find|list|show|view|check|search|look|display|read|fetch|query)(_|$)", re.IGNORECASE)
_COMMA = re.compile(r"(?<=\d),(?=\d{3})")

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
        self._asked, self._turns, self._services, self._said = truth, turns, services, said
        self._right = services.play(truth)
        asked = truth.turns[: self.turn]
        *before, expected = [[call for item in items for call in services.read(item).calls] for items in asked]
        play(self._right, before, compared=())
        player = Player(self._right)
        if player.size * sum(map(len, turns)) > _MOST_BYTES:
            raise ValueError("the states of the simulators are too large to compare: make initial_config smaller")
        self.wanted: list[Called] = []
        self.looks: list[Called] = []
        for call in expected:
            self.wanted.append(wanted := self._by_name(player.call(call)))
            if not (wanted.acted or wanted.result.error) and _found_out(wanted, player.state):
                self.looks.append(wanted)
        idle = [at for at, items in enumerate(asked[:-1]) if not items]
        *earlier, last = play(services.play(truth), turns, compared=[*idle, self.turn - 1]).turns
        self.early = [
            (number, self._by_name(called))
            for number, turn in enumerate(earlier, 1)
            for called in turn.calls
            if called.changes
        ]
        self.made = [self._by_name(called) for called in last.calls]
        found = {called.result.text for turn in earlier for called in turn.calls}
        self.results = [*found, *(made.result.text for made in self.made)]
        if sum(map(len, self.results)) * len(self.made) > _MOST_BYTES:
            raise ValueError("the results of the simulators are too large to compare")

    @cached_property
    def operations(self) -> Mapping[str, Operation]:
        """All operations of the simulators by name."""
        each = self._right.simulators.values()
        return {name: operation for simulator in each for name, operation in simulator.operations().items()}

    def _by_name(self, called: Called) -> Called:
        """Return a copy of the record with names for the call's positional arguments, and with nested calls as source
        text.
        """
        given: Mapping[str, object] = called.call.arguments
        texts = {name: source_text(value) for name, value in given.items() if isinstance(value, FunctionCall)}
        call = FunctionCall(called.call.name, {**called.call.arguments, **texts})
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
        later = len(self.made) - next(at for at, each in enumerate(self.made) if each is made)
        return self._mentions + _searchable(self.results[: len(self.results) - later])

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
        """Return True if a call of the same function gave the model the same result as this ground-truth call."""
        same = (made for made in self.called(wanted.call.name) if made.result.text == wanted.result.text)
        return any(not made.result.error for made in same)

    @cached_property
    def undone(self) -> list[Called]:
        """The ground truth's successful calls that gave results which the model did not get."""
        return [wanted for wanted in self.wanted if not wanted.result.error and not self.did(wanted)]

    def attempts(self) -> Iterator[tuple[Called, Called]]:
        """Yield pairs of a model's call and a ground-truth call of the same function, if the model lacks the latter's
        result.
        """
        for made in self.made:
            wanted = next((each for each in self.undone if each.call.name == made.call.name), None)
            if wanted is not None:
                yield made, wanted

    def differs_without(self, name: str) -> bool:
        """Return True if the final states are still wrong when the model's calls of this function in this turn are left
        out.
        """
        last = [call for call in self._turns[-1] if call.name != name]
        turns = [*self._turns[:-1], last]
        episode = play(self._services.play(self._asked), turns, compared=[self.turn - 1])
        return bool(episode.turns[-1].states != copy_state(self._right.states()))


def _found_out(called: Called, states: object) -> bool:
    """Return True if a call only looked something up: its name says so, or its result repeats a value of the state."""
    if _ASKS.search(called.call.name):
        return True
    held = {leaf for leaf in leaves(states) if _tells(leaf)}
    return any(leaf in held for leaf in leaves(called.result.value) if _tells(leaf))


def _tells(leaf: object) -> bool:
    """Return True for values distinctive enough to be recognised elsewhere: texts and numbers except "", 0 and 1."""
    return isinstance(leaf, (str, int, float)) and not isinstance(leaf, bool) and leaf not in ("", 0, 1)


def _searchable(texts: Iterable[str]) -> str:
    """Return texts joined for searching: lower case, numbers without commas."""
    return _COMMA.sub("", "\n".join(texts).casefold())


def causes_of_ending(episode: Episode, failed_turn: int | None) -> Iterator[Fault]:
    """Yield the fault that ended the conversation by force, if any, and the first answer that was cut off.

    Answers after the failed turn (from 0) do not count; None searches all turns.
    """
    if episode.ended_by is not None:
        yield Fault(code=episode.ended_by, turn=len(episode.turns) or None, message=title(episode.ended_by))
    for number, turn in enumerate(episode.turns[: None if failed_turn is None else failed_turn + 1], 1):
        reasons = [answer.finish_reason for answer in turn.answers]
        cut = next((reason for reason in reasons if isinstance(reason, str) and reason in CUT_OFF), None)
        if cut is not None:
            yield Fault(code="cut_off", turn=number, message=f"{title('cut_off')} (finish_reason {cut})")
            return


def causes_of_calls(compared: TurnComparison) -> Iterator[Fault]:
    """Yield the faults that explain how the model's calls in the failed turn differ from the ground truth's.

    Unknown functions and loops are always reported; of the other causes, only the most informative.
    """
    yield from _unknown(compared)
    yield from _loop(compared)
    for look in (_unfounded_value, _skipped_lookup, _needless_step, _against_state, _gave_up):
        found = next(look(compared), None)
        if found is not None:
            yield found
            return
    differing = [*_difference_faults(compared)]
    yield from differing or _early(compared)


def _early(compared: TurnComparison) -> Iterator[Fault]:
    """Yield a fault for the first call that changed the state in an earlier turn without expected calls."""
    for turn, made in compared.early[:1]:
        words = f"{_call_text(made.call)} in a turn that asks for no call"
        actual: JSON = made.call.arguments
        yield Fault(code="extra_call", call=made.call.name, turn=turn, actual=actual, message=words)


def _unknown(compared: TurnComparison) -> Iterator[Fault]:
    """Yield a fault for the first call of a function that does not exist.

    It is no fault if the model afterwards called the function that it probably meant.
    """
    for at, made in enumerate(compared.made):
        name = made.call.name
        named = name_fault(name[:100], frozenset(compared.operations))
        decorated = named.code.startswith("decorated_name")
        # functions with a name that the called name extends (`send` for `send_now`), the longest first
        begun = (other for other in sorted(compared.operations, key=len, reverse=True) if name.startswith(other))
        meant = named.expected if decorated else next(begun, None)
        if name not in compared.operations and meant not in {later.call.name for later in compared.made[at:]}:
            hint = f": {meant} has something added" if meant else ""
            words = f"{name[:100]} is not among the functions{hint}"
            unknown = Fault(code="unknown_function", call=name[:100], message=words)
            yield replace(named if decorated else unknown, turn=compared.turn)
            return


def _loop(compared: TurnComparison) -> Iterator[Fault]:
    """Yield a fault for the first call that was made three times or more with the same result.

    A call that the ground truth repeats as often is no loop.
    """
    times = Counter((made.call.name, _call_text(made.call), made.result.text) for made in compared.made)
    for (name, call, _), count in times.items():
        wanted = sum(_call_text(each.call) == call for each in compared.wanted)
        if count >= max(_TIMES, wanted + 1):
            words = f"{call} was called {count} times, each time with the same result"
            yield Fault(code="loop", call=name, turn=compared.turn, message=words)
            return


def _skipped_lookup(compared: TurnComparison) -> Iterator[Fault]:
    """Yield a fault for each call that the model made without a lookup that the ground truth makes before it."""
    for at, look in enumerate(compared.wanted):
        if look not in compared.looks or look.result.text in compared.results or compared.called(look.call.name):
            continue
        for then in compared.wanted[at + 1 :]:
            # the model's first call of the function that the ground truth prepares with the lookup
            act = next(iter(compared.called(then.call.name)), None) if then.acted else None
            if act is not None and (compared.lacks_results or not compared.did(then)):
                words = f"{_call_text(act.call)} without {_call_text(look.call)}, which the ground truth calls before"
                yield _pair_fault("skipped_lookup", compared, look.call, act.call, words)


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
        if made.result.error and (made is compared.made[-1] or _same(made.call, wanted.call)):
            words = f"{_call_text(made.call)} failed and was not done after that: {_error(made)}"
            yield _pair_fault("gave_up", compared, wanted.call, made.call, words)


def _needless_step(compared: TurnComparison) -> Iterator[Fault]:
    """Yield a fault for each function that changed the state, is not in the ground truth, and alone made the state
    wrong.
    """
    if compared.lacks_results or compared.undone:
        return
    wanted = {each.call.name for each in compared.wanted}
    changing = {made.call.name: made for made in reversed(compared.made) if made.changes}
    for made in changing.values():
        if made.call.name not in wanted and not compared.differs_without(made.call.name):
            words = f"{_call_text(made.call)} was needless: without it the state would be right"
            actual: JSON = made.call.arguments
            yield Fault(code="needless_step", call=made.call.name, turn=compared.turn, actual=actual, message=words)


def _unfounded_value(compared: TurnComparison) -> Iterator[Fault]:
    """Yield a fault for each argument value that neither the user, the definitions nor an earlier result contain.

    An argument counts only if the ground truth's value could be known.
    """
    for made, wanted in compared.attempts():
        if any(_same(made.call, each.call) for each in compared.wanted):
            continue
        known = compared.known(made)
        for name, value in made.call.arguments.items():
            right = wanted.call.arguments.get(name)
            invented = [leaf for leaf in leaves(value) if _could_be_given(leaf) and not _mentions(leaf, known)]
            if invented and right != value and all(_mentions(leaf, known + compared.found) for leaf in leaves(right)):
                words = f"{made.call.name}: {name} is {shown_value(value)}, which nothing had given"
                fault = Fault(code="unfounded_value", call=made.call.name, path=name, turn=compared.turn)
                yield replace(fault, expected=right, actual=value, message=words)


def _could_be_given(value: object) -> bool:
    """Return True if a value must come from the conversation: a short text or a number with several digits.

    The model may write longer texts and choose small amounts itself.
    """
    if isinstance(value, str):
        return 0 < len(value.split()) <= _MOST_WORDS
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    return sum(letter.isdigit() for letter in str(value)) >= _FEWEST_DIGITS


def _mentions(value: object, known: str) -> bool:
    """Return True if the known text contains all words and numbers of a value; null and booleans need no source."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if value is None or isinstance(value, bool):
        return True
    parts = _PARTS.findall(str(value).casefold())
    return all(part in known for part in parts)


def _difference_faults(compared: TurnComparison) -> Iterator[Fault]:
    """Yield the first few differences between the model's calls in the turn and the ground truth's, compared leniently.

    Without a difference, further calls that changed the state are reported.
    """
    match = match_calls([made.call for made in compared.made], [each.call for each in compared.wanted], _LOOSE)
    faults = [*call_faults(match, _LOOSE), *argument_faults(match)]
    for made in compared.made if not faults else ():
        if made.acted and not any(_same(made.call, each.call) for each in compared.wanted):
            faults.append(Fault(code="extra_call", call=made.call.name, actual=made.call.arguments))
    yield from (replace(fault, turn=compared.turn) for fault in faults[:_TIMES])


def _pair_fault(code: str, compared: TurnComparison, wanted: FunctionCall, made: FunctionCall, words: str) -> Fault:
    """Return a fault with a call and the ground truth's call as evidence."""
    return Fault(
        code=code, call=made.name, turn=compared.turn, expected=as_value(wanted), actual=as_value(made), message=words
    )


def _same(one: FunctionCall, other: FunctionCall) -> bool:
    """Return True if both calls have the same function and arguments; 15.0 and 15 are equal."""
    return one.name == other.name and canonical(_plain(one)) == canonical(_plain(other))


def _has_other_values(one: FunctionCall, other: FunctionCall) -> bool:
    """Return True if calls of the same function differ in the values of their common arguments.

    A text that contains the expected one, such as `archive/report.csv` for `archive`, is no other value.
    """
    pairs = [(one.arguments[name], value) for name, value in other.arguments.items() if name in one.arguments]
    texts = all(isinstance(value, str) and isinstance(right, str) and right in value for value, right in pairs)
    return not texts and not _same(one, other)


def _plain(call: FunctionCall) -> Mapping[str, JSON]:
    """Return the arguments with whole floats as integers, because simulators treat `15.0` and `15` alike."""
    values = call.arguments.items()
    return {name: int(value) if isinstance(value, float) and value.is_integer() else value for name, value in values}


def _call_text(call: FunctionCall) -> str:
    return cut(canonical_text([call]), _MOST_CALL)


def _error(made: Called) -> str:
    """Return the error text of a failed call's result, shortened."""
    value = made.result.value
    error = value.get("error") if isinstance(value, dict) else None
    return str(error or made.result.text)[:200]
