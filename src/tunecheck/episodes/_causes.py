"""Finds the causes of a failed conversation, as faults with evidence beyond the differences of states and results.

`TurnComparison` executes the calls of the ground truth and of the model again, up to the failed turn. The causes in
that turn (`causes_of_calls`), in the order in which they are tried:

  unknown_function   always reported: no simulator has the function
  loop               always reported: three equal calls with equal results

  Only the first of these that applies:

  unfounded_value    an argument has a value that the model could not know; the right one it could
  skipped_lookup     a call without the lookup that the ground truth makes before it
  needless_step      without the calls of one function the state would be right
  against_state      the simulator refused a call that the ground truth makes with other values
  gave_up            a call failed and did not succeed later
  differences        up to three differences between the calls, as the evaluator `match` names them
  extra_call         a call that changed the state in an earlier turn without expected calls

`causes_of_ending` adds a forced end and the first answer that was cut off, whatever the failed turn's calls are.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import cast

from msgspec.structs import replace

from tunecheck._faults import CUT_OFF, Fault, cut, shown_value, title
from tunecheck._json import JSON, dumps
from tunecheck.calls._model import FunctionCall, bind_positional, canonical_text
from tunecheck.calls.matching import MatchPolicy, argument_faults, as_value, call_faults, match_calls
from tunecheck.episodes._decoding import source_text
from tunecheck.episodes._episode import Called, Episode, copy_state, leaves
from tunecheck.episodes._playing import GroundTruth, Player, Services, play
from tunecheck.pipeline._row_causes import name_fault
from tunecheck.simulators._backend import ArgumentError, Operation

# Case, spacing, 15.0 for 15, and further calls are no differences here.
_LENIENT = MatchPolicy(ignore_case=True, ignore_whitespace=True, int_equals_float=True, allow_extra_calls=True)
_SAME_VALUES = MatchPolicy(int_equals_float=True)

_LOOP_LENGTH = 3
"""This many equal calls with equal results in one turn are a loop."""

_MOST_DIFFERENCES = 3  # faults of one turn
_MOST_WORDS = 6
"""Longer texts (in words) are written by the model, so they need no source in the conversation."""

_FEWEST_DIGITS = 3
"""Numbers with fewer digits are amounts that a model may choose."""

_LONGEST_CALL = 160  # characters of a call in a message

# a number, or a run of letters: `Room 12.5b` has `Room`, `12.5` and `b`
_NUMBER_OR_WORD = re.compile(r"\d+(?:\.\d+)?|[^\W\d]+")

# a word of a function's name that says the function only looks something up: `get_user`, `cart_view`; not `target`
_LOOKUP = re.compile(r"(^|_)(get|find|list|show|view|check|search|look|display|read|fetch|query)(_|$)", re.IGNORECASE)
# a comma within a number: that of `1,500`, so that it is found as `1500`
_THOUSANDS_COMMA = re.compile(r"(?<=\d),(?=\d{3})")

_MOST_BYTES = 50_000_000
"""Size limit, in bytes, of the states or results that are compared for one conversation (some tenths of a second)."""


@dataclass(eq=False)
class TurnComparison:
    """The model's calls in a turn (`actual`) and the ground truth's (`expected`), executed on separate simulators.

    All calls have their arguments by name. `early_changes` has the model's calls that changed the state in turns
    without expected calls, with the turn numbers from 1. `lookups` are the ground truth's calls that only look
    something up. `results` are the texts that the model got up to the end of the turn, `earlier_results` those that it
    got before the turn.

    Args:
        truth: the row's ground truth.
        user_messages: the user's messages by turn.
        turns: the model's calls by turn; the last turn is the failed one.
        services: starts the simulators.
        lacks_results: True if an expected result is missing; False if the states differ.

    Raises:
        ValueError: the states or results are too large to compare.
    """

    truth: GroundTruth
    user_messages: object
    turns: Sequence[Sequence[FunctionCall]]
    services: Services
    lacks_results: bool

    def __post_init__(self) -> None:
        """Execute the calls of the ground truth and of the model up to the failed turn on new simulators."""
        # Each side has simulators of its own, so that one side's calls do not change the other's states.
        self._truth_backend = self.services.play(self.truth)
        truth = self.truth.turns[: len(self.turns)]
        read = self.services.read
        *earlier_calls, last_calls = [[call for item in turn for call in read(item).calls] for turn in truth]
        play(self._truth_backend, earlier_calls, compared=())

        # All data is pickled after each call, so the limit is the product of data and calls.
        player = Player(self._truth_backend)
        if player.size * sum(map(len, self.turns)) > _MOST_BYTES:
            raise ValueError("the simulators' states are too large to compare: shrink the row's `initial_config`")

        self.expected: list[Called] = []
        self.lookups: list[Called] = []
        for call in last_calls:
            expected = self._by_name(player.call(call))
            self.expected.append(expected)
            if not expected.acted and not expected.result.error and _is_lookup(expected, player.state):
                self.lookups.append(expected)

        # Turns without expected calls: a change in one of them may explain a later failure (`_early_change`).
        idle = [turn for turn, items in enumerate(truth[:-1]) if not items]
        *earlier, last = play(self.services.play(self.truth), self.turns, compared=[*idle, len(self.turns) - 1]).turns

        calls = [(number, called) for number, turn in enumerate(earlier, 1) for called in turn.calls]
        self.early_changes = [(number, self._by_name(called)) for number, called in calls if called.changes]
        self.earlier_results = {called.result.text for _, called in calls}
        self.actual = [self._by_name(called) for called in last.calls]
        # `_unfounded_value` searches all earlier results for each call, also repeated ones.
        self.results = [*self.earlier_results, *(actual.result.text for actual in self.actual)]

        if sum(map(len, self.results)) * len(self.actual) > _MOST_BYTES:
            raise ValueError("the simulators' results are too large to compare: shrink the row's `initial_config`")

    @cached_property
    def operations(self) -> Mapping[str, Operation]:
        """All operations of the simulators by name."""
        simulators = self._truth_backend.simulators.values()
        return {name: operation for simulator in simulators for name, operation in simulator.operations().items()}

    def _by_name(self, called: Called) -> Called:
        """Return a copy of a call that names positional arguments, and holds nested calls as source text."""
        arguments: Mapping[str, object] = called.call.arguments
        sources = {name: source_text(value) for name, value in arguments.items() if isinstance(value, FunctionCall)}
        call = FunctionCall(called.call.name, {**called.call.arguments, **sources})

        operation = self.operations.get(call.name)
        named = bind_positional(call, operation.parameters) if operation else call
        return Called(named, called.result, called.changes, called.acted)

    def is_refused(self, actual: Called) -> bool:
        """Return True if the simulator answered with an error although the function accepts these arguments."""
        operation = self.operations.get(actual.call.name)
        if operation is None or not actual.result.error:
            return False
        try:
            operation.bind((), actual.call.arguments)
        except ArgumentError:
            return False
        return True

    def known_at_first(self) -> str:
        """Return the information that the model had before the turn's calls, as one lower-case text to search in.

        The text contains the user's messages, the functions' definitions and the results of earlier calls.
        """
        user_messages = dumps(cast("JSON", self.user_messages)).decode() if self.user_messages else ""
        return _searchable([user_messages, self.services.definitions(self._truth_backend), *self.earlier_results])

    def calls_of(self, name: str) -> list[Called]:
        """Return the model's calls of this function in the failed turn."""
        return [actual for actual in self.actual if actual.call.name == name]

    def got_result_of(self, expected: Called) -> bool:
        """Return True if the model got the result of this ground-truth call from a call of the same function."""
        succeeded = [actual.result for actual in self.calls_of(expected.call.name) if not actual.result.error]
        return any(result.text == expected.result.text for result in succeeded)

    @cached_property
    def missed(self) -> list[Called]:
        """The ground truth's successful calls with results that the model did not get."""
        return [call for call in self.expected if not (call.result.error or self.got_result_of(call))]

    def attempts(self) -> Iterator[tuple[Called, Called]]:
        """Yield pairs: a call of the model, and the first call of the same function in `missed`.

        Calls of other functions are skipped.
        """
        for actual in self.actual:
            expected = next((missing for missing in self.missed if missing.call.name == actual.call.name), None)
            if expected is not None:
                yield actual, expected

    def is_right_without(self, name: str) -> bool:
        """Return True if the final states would be right without the model's calls of this function in the turn."""
        last = [call for call in self.turns[-1] if call.name != name]
        turns = [*self.turns[:-1], last]

        episode = play(self.services.play(self.truth), turns, compared=[len(turns) - 1])
        return bool(episode.turns[-1].states == copy_state(self._truth_backend.states()))


def _is_lookup(called: Called, states: object) -> bool:
    """Return True if a call only looked something up: its name says so, or its result repeats a value of the state."""
    if _LOOKUP.search(called.call.name):
        return True

    return not _distinctive_values(states).isdisjoint(_distinctive_values(called.result.value))


def _distinctive_values(value: object) -> set[object]:
    """Return the texts and numbers inside a value that can be recognised elsewhere: all except "", 0 and 1."""
    numbers_and_texts = [leaf for leaf in leaves(value) if isinstance(leaf, (str, int, float))]
    # This also leaves out True and False, which equal 1 and 0.
    return {leaf for leaf in numbers_and_texts if leaf not in ("", 0, 1)}


def _searchable(texts: Iterable[str]) -> str:
    """Return texts joined for searching: lower case, numbers without commas."""
    return _THOUSANDS_COMMA.sub("", "\n".join(texts).casefold())


def causes_of_ending(episode: Episode, failed_turn: int | None) -> Iterator[Fault]:
    """Yield a fault if the conversation was ended by force, and one for the first answer that was cut off.

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

    Unknown functions and loops are always reported, of the other causes only the first that applies. If none does, the
    differences between the calls are reported, and without differences an early change.
    """
    faults = [*_unknown_function(compared), *_loop(compared)]

    # the most informative first
    searches = (_unfounded_value, _skipped_lookup, _needless_step, _against_state, _gave_up)
    first = next((fault for search in searches for fault in search(compared)), None)
    faults += [first] if first else _difference_faults(compared) or _early_change(compared)

    yield from (replace(fault, turn=fault.turn or len(compared.turns)) for fault in faults)


def _unknown_function(compared: TurnComparison) -> Iterator[Fault]:
    """Yield a fault for the first call of a function that does not exist.

    It is no fault if the model afterwards called the function that it probably meant.
    """
    for position, actual in enumerate(compared.actual):
        if actual.call.name in compared.operations:
            continue

        fault, meant = _unknown_name(actual.call.name, compared.operations)
        if meant not in {later.call.name for later in compared.actual[position:]}:
            yield fault
            return


def _unknown_name(name: str, operations: Mapping[str, Operation]) -> tuple[Fault, JSON]:
    """Return the fault of a name that no function has, and the name of the probable function or None.

    Example: `send_now` is no function and `send` is: the fault is `unknown_function`, and `send` is meant.
    """
    # `functions.send` is the name of a function with added characters.
    fault = name_fault(name[:100], frozenset(operations))
    if fault.code.startswith("decorated_name"):
        return fault, fault.expected

    # the function with the longest name that the called name extends: `send` for `send_now`
    meant = max((known for known in operations if name.startswith(known)), key=len, default=None)
    hint = f": the name extends {meant}" if meant else ""
    message = f"{name[:100]} is not among the functions{hint}"
    return Fault(code="unknown_function", call=name[:100], message=message), meant


def _loop(compared: TurnComparison) -> Iterator[Fault]:
    """Yield a fault for the first call that was made three times or more with the same result.

    A call that the ground truth repeats as often is no loop.
    """
    times = Counter((actual.call.name, _call_text(actual.call), actual.result.text) for actual in compared.actual)

    # Calls with another result each time are no loop.
    for (name, call, _), count in times.items():
        expected_count = sum(_call_text(expected.call) == call for expected in compared.expected)
        if count >= _LOOP_LENGTH and count > expected_count:
            message = f"{call} was called {count} times, each time with the same result"
            yield Fault(code="loop", call=name, message=message)
            return


def _unfounded_value(compared: TurnComparison) -> Iterator[Fault]:
    """Yield a fault for each argument value that neither the user, the definitions nor an earlier result contain.

    An argument counts only if the ground truth's value could be known.

    Example: the user said "flight 417", and the model called `book(flight='AA417')`. Nothing before has `aa`.
    """
    expected_results = _searchable([expected.result.text for expected in compared.expected])
    known = compared.known_at_first()
    right_calls = {id(actual): expected.call for actual, expected in compared.attempts()}

    for actual in compared.actual:
        right_call = right_calls.get(id(actual))
        if right_call is not None and not _is_expected(actual, compared):
            for name, value in actual.call.arguments.items():
                right = right_call.arguments.get(name)
                is_invented = any(_could_be_given(leaf) and not _has_source(leaf, known) for leaf in leaves(value))
                # If the right value is in no message and no result either, the model is not to blame.
                can_be_known = all(_has_source(leaf, known + expected_results) for leaf in leaves(right))
                if right != value and is_invented and can_be_known:
                    text = f"{actual.call.name}: {name} is {shown_value(value)}, which no message or result contains"
                    place = Fault(code="unfounded_value", call=actual.call.name, path=name)
                    yield replace(place, expected=right, actual=value, message=text)

        known += f"\n{_searchable([actual.result.text])}"


def _could_be_given(value: object) -> bool:
    """Return True if a value must come from the conversation: a short text or a number with several digits.

    The model may write longer texts and choose small amounts itself.
    """
    if isinstance(value, str):
        return 0 < len(value.split()) <= _MOST_WORDS
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    return sum(letter.isdigit() for letter in str(value)) >= _FEWEST_DIGITS


def _has_source(value: object, known: str) -> bool:
    """Return True if the known text contains all words and numbers of a value; null and booleans need no source."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if value is None or isinstance(value, bool):
        return True

    return all(part in known for part in _NUMBER_OR_WORD.findall(str(value).casefold()))


def _skipped_lookup(compared: TurnComparison) -> Iterator[Fault]:
    """Yield a fault for each call that the model made without a lookup that the ground truth makes before it.

    Only functions with which the ground truth changes data count.
    """
    for position, lookup in enumerate(compared.expected):
        if lookup not in compared.lookups:
            continue
        if lookup.result.text in compared.results or compared.calls_of(lookup.call.name):
            continue  # the model looked it up

        # The later calls of the ground truth that the lookup may prepare.
        for later in compared.expected[position + 1 :]:
            attempts = compared.calls_of(later.call.name)
            # If no result is missing, a state is wrong. Then a call with the expected result is not the cause.
            if later.acted and attempts and (compared.lacks_results or not compared.got_result_of(later)):
                actual = attempts[0].call
                message = f"{_call_text(actual)} without {_call_text(lookup.call)}, which the ground truth calls first"
                yield _pair_fault("skipped_lookup", lookup.call, actual, message)


def _needless_step(compared: TurnComparison) -> Iterator[Fault]:
    """Yield a fault for each function without which the final state would be right.

    Only functions that changed the state and are not in the ground truth count. Yield nothing if the model lacks an
    expected result.
    """
    if compared.lacks_results or compared.missed:
        return

    expected_names = {expected.call.name for expected in compared.expected}
    # the first call of each function that changed the state
    changing = {actual.call.name: actual for actual in reversed(compared.actual) if actual.changes}

    for name, actual in changing.items():
        if name not in expected_names and compared.is_right_without(name):
            message = f"{_call_text(actual.call)} was needless: without it the state would be right"
            yield _extra_fault("needless_step", actual, message)


def _against_state(compared: TurnComparison) -> Iterator[Fault]:
    """Yield a fault for each call that the simulator refused if the ground truth calls it with other values."""
    for actual, expected in compared.attempts():
        if compared.is_refused(actual) and expected.acted and _has_other_values(actual.call, expected.call):
            message = f"{_call_text(actual.call)} cannot be done in this state: {_error(actual)}"
            yield _pair_fault("against_state", expected.call, actual.call, message)


def _gave_up(compared: TurnComparison) -> Iterator[Fault]:
    """Yield a fault for each failed call that the model did not repeat successfully.

    A call with other values than the ground truth's counts only if it is the turn's last one.
    """
    for actual, expected in compared.attempts():
        if actual.result.error and (actual is compared.actual[-1] or _is_same_call(actual.call, expected.call)):
            message = f"{_call_text(actual.call)} failed and did not succeed later: {_error(actual)}"
            yield _pair_fault("gave_up", expected.call, actual.call, message)


def _difference_faults(compared: TurnComparison) -> list[Fault]:
    """Return up to three differences between the calls of the model and the ground truth in the turn.

    The calls are compared leniently. Without a difference, return the model's further calls that changed the state.
    """
    expected = [called.call for called in compared.expected]
    match = match_calls([called.call for called in compared.actual], expected, _LENIENT)
    faults = [*call_faults(match, _LENIENT), *argument_faults(match)]

    if not faults:
        further = [actual for actual in compared.actual if actual.acted and not _is_expected(actual, compared)]
        faults = [Fault(code="extra_call", call=actual.call.name, actual=actual.call.arguments) for actual in further]

    return faults[:_MOST_DIFFERENCES]


def _early_change(compared: TurnComparison) -> list[Fault]:
    """Return a fault for the first call that changed the state in an earlier turn without expected calls."""
    for turn, actual in compared.early_changes[:1]:
        message = f"called {_call_text(actual.call)} in a turn that asks for no call"
        return [replace(_extra_fault("extra_call", actual, message), turn=turn)]
    return []


def _extra_fault(code: str, called: Called, message: str) -> Fault:
    """Return the fault of a call that the ground truth does not make; its arguments are the evidence."""
    arguments: JSON = called.call.arguments
    return Fault(code=code, call=called.call.name, actual=arguments, message=message)


def _pair_fault(code: str, expected: FunctionCall, actual: FunctionCall, text: str) -> Fault:
    """Return a fault with the message `text`, and the ground truth's and the model's call as evidence."""
    return Fault(code=code, call=actual.name, expected=as_value(expected), actual=as_value(actual), message=text)


def _is_expected(actual: Called, compared: TurnComparison) -> bool:
    """Return True if the ground truth makes the same call in the turn."""
    return any(_is_same_call(actual.call, expected.call) for expected in compared.expected)


def _is_same_call(first: FunctionCall, second: FunctionCall) -> bool:
    """Return True for the same function and arguments. Like simulators, it treats 15.0 as 15, but True is never 1."""
    return first.name == second.name and match_calls([first], [second], _SAME_VALUES).arguments_right


def _has_other_values(actual: FunctionCall, expected: FunctionCall) -> bool:
    """Return True if two calls of the same function have different arguments.

    Return False if each common argument is a text that contains the expected text, such as `archive/report.csv` for
    `archive`, or if the calls have no common argument.
    """
    common = [(actual.arguments[name], value) for name, value in expected.arguments.items() if name in actual.arguments]
    if all(isinstance(value, str) and isinstance(right, str) and right in value for value, right in common):
        return False

    return not _is_same_call(actual, expected)


def _call_text(call: FunctionCall) -> str:
    """Return a call as text, shortened."""
    return cut(canonical_text([call]), _LONGEST_CALL)


def _error(actual: Called) -> str:
    """Return the error text of a failed call's result, shortened."""
    value = actual.result.value
    error = value.get("error") if isinstance(value, dict) else None
    return str(error or actual.result.text)[:200]
