"""Why a conversation failed, beyond what is wrong with it: faults whose codes are causes, each with its evidence."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping

from msgspec.structs import replace

from tunecheck._causes import CUT_OFF
from tunecheck._faults import CODES, Fault, cut, shown_value
from tunecheck._json import JSON, canonical
from tunecheck.calls._model import FunctionCall
from tunecheck.calls._writing import canonical_text
from tunecheck.calls.matching import MatchPolicy, argument_faults, as_value, call_faults, match_calls
from tunecheck.episodes._inference_log import Course
from tunecheck.episodes._states import leaves
from tunecheck.episodes._turn_comparison import MadeCall, TurnComparison

_LOOSE = MatchPolicy(ignore_case=True, ignore_whitespace=True, int_equals_float=True, allow_extra_calls=True)
_TIMES = 3
"""So often the same call with the same result in one turn is a loop."""

_MOST_WORDS = 6
"""Texts of more words are written, not looked up: no one has to have given them."""

_FEWEST_DIGITS = 3
"""Shorter numbers are amounts that a model may choose."""

_MOST_CALL = 160

_PARTS = re.compile(r"\d+(?:\.\d+)?|[^\W\d]+")


def causes_of_ending(course: Course, failed_turn: int | None) -> Iterator[Fault]:
    """What ended the conversation, and the first answer that was cut off, up to the turn that failed (from 0)."""
    reasons = course.finish_reasons if isinstance(course.finish_reasons, list) else []
    if course.ended_by in CODES:
        turns = len(course.calls_made) if isinstance(course.calls_made, list) else 0
        yield Fault(code=course.ended_by, turn=turns or None, message=CODES[course.ended_by])
    for turn, steps in enumerate(reasons if failed_turn is None else reasons[: failed_turn + 1]):
        cut = next((reason for reason in steps if reason in CUT_OFF), None) if isinstance(steps, list) else None
        if cut is not None:
            words = f"{CODES['cut_off']} (finish_reason {cut})"
            yield Fault(code="cut_off", turn=turn + 1, message=words)
            return


def causes_of_calls(compared: TurnComparison) -> Iterator[Fault]:
    """What the model did in the turn that failed that the ground truth did otherwise, the most telling first."""
    yield from _unknown(compared)
    yield from _loop(compared)
    for look in (_unfounded_value, _skipped_lookup, _needless_step, _against_state, _gave_up):
        found = next(look(compared), None)
        if found is not None:
            yield found
            return
    differing = [*_compared(compared)]
    yield from differing or _early(compared)


def _early(compared: TurnComparison) -> Iterator[Fault]:
    """The first call that changed the state in a turn that asks for none."""
    for turn, made in compared.early[:1]:
        words = f"{_written(made.call)} in a turn that asks for no call"
        actual: JSON = made.call.arguments
        yield Fault(code="extra_call", call=made.call.name, turn=turn, actual=actual, message=words)


def _unknown(compared: TurnComparison) -> Iterator[Fault]:
    for at, made in enumerate(compared.made):
        name = made.call.name
        meant = next((other for other in sorted(compared.names, key=len, reverse=True) if name.startswith(other)), None)
        if name not in compared.names and meant not in {later.call.name for later in compared.made[at:]}:
            hint = f": {meant} has something added" if meant else ""
            words = f"{name[:100]} is not among the functions{hint}"
            yield Fault(code="unknown_function", call=name[:100], turn=compared.turn, message=words)
            return


def _loop(compared: TurnComparison) -> Iterator[Fault]:
    times = Counter((made.call.name, _written(made.call), made.result.text) for made in compared.made)
    for (name, call, _), count in times.items():
        wanted = sum(_written(each.call) == call for each in compared.wanted)
        if count >= max(_TIMES, wanted + 1):
            words = f"{call} was called {count} times, each time with the same result"
            yield Fault(code="loop", call=name, turn=compared.turn, message=words)
            return


def _skipped_lookup(compared: TurnComparison) -> Iterator[Fault]:
    """The ground truth looks before it acts; the model acted, and never had what it would have seen."""
    for at, look in enumerate(compared.wanted):
        if not look.looked or look.result.text in compared.results or compared.called(look.call.name):
            continue
        for then in compared.wanted[at + 1 :]:
            act = next(iter(compared.called(then.call.name)), None) if then.acted else None
            if act is not None and (compared.lacks_results or not compared.did(then)):
                words = f"{_written(act.call)} without {_written(look.call)}, which the ground truth calls before"
                yield _between("skipped_lookup", compared, look.call, act.call, words)


def _against_state(compared: TurnComparison) -> Iterator[Fault]:
    """A call that the simulators refused as they were, where the ground truth makes another of the same function."""
    for made in compared.made:
        wanted = next((each for each in compared.undone if each.call.name == made.call.name), None)
        if made.refused and wanted is not None and wanted.acted and _has_other_values(made.call, wanted.call):
            words = f"{_written(made.call)} cannot be done in this state: {_error(made)}"
            yield _between("against_state", compared, wanted.call, made.call, words)


def _gave_up(compared: TurnComparison) -> Iterator[Fault]:
    """A call of the ground truth that failed, and that the model did not make again with success."""
    for made in compared.made:
        wanted = next((each for each in compared.undone if each.call.name == made.call.name), None)
        last = made is compared.made[-1]
        if made.result.error and wanted is not None and (last or _same(made.call, wanted.call)):
            words = f"{_written(made.call)} failed and was not done after that: {_error(made)}"
            yield _between("gave_up", compared, wanted.call, made.call, words)


def _needless_step(compared: TurnComparison) -> Iterator[Fault]:
    """Calls without which the simulators would hold what they should."""
    if compared.lacks_results or compared.undone:
        return
    wanted = {each.call.name for each in compared.wanted}
    changing = {made.call.name: made for made in reversed(compared.made) if made.changed}
    for made in changing.values():
        if made.call.name not in wanted and not compared.differs_without(made.call.name):
            words = f"{_written(made.call)} was needless: without it the state would be right"
            actual: JSON = made.call.arguments
            yield Fault(code="needless_step", call=made.call.name, turn=compared.turn, actual=actual, message=words)


def _unfounded_value(compared: TurnComparison) -> Iterator[Fault]:
    """A value that stands nowhere, where the ground truth's stands in what was said or found."""
    for made in compared.made:
        if any(_same(made.call, each.call) for each in compared.wanted):
            continue
        wanted = next((each for each in compared.undone if each.call.name == made.call.name), None)
        if wanted is None:
            continue
        known = compared.known(made)
        for name, value in made.call.arguments.items():
            right = wanted.call.arguments.get(name)
            invented = [leaf for leaf in leaves(value) if _could_be_given(leaf) and not _given(leaf, known)]
            if invented and right != value and all(_given(leaf, known + compared.found) for leaf in leaves(right)):
                words = f"{made.call.name}: {name} is {shown_value(value)}, which nothing had given"
                yield Fault(
                    code="unfounded_value",
                    call=made.call.name,
                    path=name,
                    turn=compared.turn,
                    expected=right,
                    actual=value,
                    message=words,
                )


def _could_be_given(value: object) -> bool:
    if isinstance(value, str):
        return 0 < len(value.split()) <= _MOST_WORDS
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    return sum(letter.isdigit() for letter in str(value)) >= _FEWEST_DIGITS


def _given(value: object, known: str) -> bool:
    """Whether a value stands in what is known, or is put together from parts that do: a path, a date."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if value is None or isinstance(value, bool):
        return True
    parts = _PARTS.findall(str(value).casefold())
    return all(part in known for part in parts)


def _compared(compared: TurnComparison) -> Iterator[Fault]:
    """How the calls of the turn differ from those of the ground truth."""
    match = match_calls([made.call for made in compared.made], [each.call for each in compared.wanted], _LOOSE)
    faults = [*call_faults(match, _LOOSE), *argument_faults(match)]
    for made in compared.made if not faults else ():
        if made.acted and not any(_same(made.call, each.call) for each in compared.wanted):
            faults.append(Fault(code="extra_call", call=made.call.name, actual=made.call.arguments))
    yield from (replace(fault, turn=compared.turn) for fault in faults[:_TIMES])


def _between(code: str, compared: TurnComparison, wanted: FunctionCall, made: FunctionCall, words: str) -> Fault:
    """A fault whose evidence is a call, and the one of the ground truth where the two part."""
    return Fault(
        code=code, call=made.name, turn=compared.turn, expected=as_value(wanted), actual=as_value(made), message=words
    )


def _same(one: FunctionCall, other: FunctionCall) -> bool:
    return one.name == other.name and canonical(_plain(one)) == canonical(_plain(other))


def _has_other_values(one: FunctionCall, other: FunctionCall) -> bool:
    """Whether two calls differ by more than how much a text says: `archive/report.csv` holds `archive`."""
    pairs = [(one.arguments[name], value) for name, value in other.arguments.items() if name in one.arguments]
    texts = all(isinstance(value, str) and isinstance(right, str) and right in value for value, right in pairs)
    return not texts and not _same(one, other)


def _plain(call: FunctionCall) -> Mapping[str, JSON]:
    """Its arguments with whole numbers as such: `15.0` is `15` to a simulator."""
    values = call.arguments.items()
    return {name: int(value) if isinstance(value, float) and value.is_integer() else value for name, value in values}


def _written(call: FunctionCall) -> str:
    return cut(canonical_text([call]), _MOST_CALL)


def _error(made: MadeCall) -> str:
    value = made.result.value
    error = value.get("error") if isinstance(value, dict) else None
    return str(error or made.result.text)[:200]
