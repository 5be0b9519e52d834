"""One conversation against its ground truth, turn by turn, in either of the two modes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from typing import TypeAlias

from tunecheck._json import JSON
from tunecheck.bfcl._entries import Entry
from tunecheck.bfcl._replay import Attempt, Simulators
from tunecheck.bfcl._state_difference import first_difference
from tunecheck.bfcl._verdicts import INVALID_ENTRY, Mismatch, Verdict, shown
from tunecheck.conversations._nested import NestedCall
from tunecheck.simulators._results import Result

Turn: TypeAlias = "list[tuple[NestedCall, ...]]"
"""The calls of each step of a turn; a step without any is empty."""

_Had: TypeAlias = "Counter[str | bytes]"
"""How often there was which result: its text, or the digest of a long one, of which a model may ask for gigabytes."""

_LONG = 2_000
"""From how many characters on a result counts as long."""

_PASSED = Verdict(True)


def as_leaderboard(entry: Entry, turns: Sequence[Turn], simulators: Simulators, *, named: bool, model: str) -> Verdict:
    """The leaderboard's verdict.

    Turns that ask for no call are not looked at; a result that the model once had counts for every later turn.

    Args:
        entry: the ground truth, and what the simulators start from.
        turns: the model's calls.
        simulators: makes the backends.
        named: whether the model's calls came as JSON.
        model: the model's name.

    Raises:
        PluginError: a simulator that is not there.
        DataError: a configuration that cannot be used.
    """
    answered = Attempt(simulators, entry, role=model, named=named)
    truth = Attempt(simulators, entry, role=f"{model}_ground_truth")
    had: _Had = Counter()
    for at, (turn, items) in enumerate(zip(turns, entry.truth, strict=True)):
        had.update(map(_key, _results(answered, turn)))
        expected = _expected(truth, items)
        if not items:
            continue
        fault = _empty(turn) or _difference(truth, answered)
        fault = fault or _missing(expected, had)
        if fault is not None:
            return fault.verdict(at)
    return _PASSED


def strictly(entry: Entry, turns: Sequence[Turn], simulators: Simulators, *, named: bool) -> Verdict:
    """The strict verdict; arguments as for `as_leaderboard`.

    Raises:
        PluginError: a simulator that is not there.
        DataError: a configuration that cannot be used.
    """
    answered, truth = Attempt(simulators, entry, named=named), Attempt(simulators, entry)
    had: _Had = Counter()
    verdict: Verdict | None = None
    some_work = not any(entry.truth)
    for at, (turn, items) in enumerate(zip(turns, entry.truth, strict=True)):
        expected = _expected(truth, items)
        some_work = some_work or not all(result.error for result in expected)
        if verdict is None:
            had.update(map(_key, _results(answered, turn)))
            wanted = [result for result in expected if not result.error]
            fault = _strict_fault(turn, items, truth, answered, _missing(wanted, had))
            had -= Counter(map(_key, wanted))
            verdict = fault.verdict(at) if fault else None
        elif some_work:
            break
    if not some_work:
        return Verdict(None, INVALID_ENTRY, None, "every call of the ground truth fails")
    return verdict or _PASSED


def _strict_fault(
    turn: Turn, items: Sequence[JSON], truth: Attempt, answered: Attempt, missing: Mismatch | None
) -> Mismatch | None:
    if not items:
        return _uncalled_for(turn)
    return _empty(turn) or _difference(truth, answered) or missing


def _results(answered: Attempt, turn: Turn) -> Iterator[Result]:
    return (answered.make(call) for step in turn for call in step)


def _key(result: Result) -> str | bytes:
    text = result.text
    return text if len(text) < _LONG else blake2b(text.encode("utf-8", "surrogatepass")).digest()


def _expected(truth: Attempt, items: Sequence[JSON]) -> list[Result]:
    return [result for item in items for result in truth.make_truth(item)]


def _empty(turn: Turn) -> Mismatch | None:
    if any(turn):
        return None
    return Mismatch("multi_turn:empty_turn_model_response", "no call was made; the ground truth makes some")


def _uncalled_for(turn: Turn) -> Mismatch | None:
    made = next((call for step in turn for call in step), None)
    if made is None:
        return None
    return Mismatch("multi_turn:irrelevance_error", f"called {shown(made.text())}; this turn asks for no call")


def _difference(truth: Attempt, answered: Attempt) -> Mismatch | None:
    found = first_difference(truth.backend.states(), answered.backend.states())
    return None if found is None else Mismatch("multi_turn:instance_state_mismatch", str(found), found.path)


def _missing(expected: Sequence[Result], had: _Had) -> Mismatch | None:
    missing = Counter(map(_key, expected)) - had
    if not missing:
        return None
    first = next(result.text for result in expected if _key(result) in missing)
    others = missing.total() - 1
    more = f" (and {others} more)" if others else ""
    return Mismatch("multi_turn:execution_response_mismatch", f"missing the result {shown(first)}{more}")
