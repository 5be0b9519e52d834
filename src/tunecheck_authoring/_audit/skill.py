"""What agents would score that look at nothing: one that calls nothing, one that calls everything."""

from __future__ import annotations

from collections.abc import Iterator

from tunecheck._json import JSON
from tunecheck.calls._model import FunctionCall
from tunecheck.datasets._multi_turn_check import CheckedRow
from tunecheck.datasets._multi_turn_replay import copied
from tunecheck.simulators._backend import Backend
from tunecheck_authoring._audit.dialogue import Dialogue
from tunecheck_authoring._audit.given import Given, numbers
from tunecheck_authoring._audit.reruns import Reruns

_ANY_CALL = "relevance"


def passes_idle(row: CheckedRow, dialogue: Dialogue) -> bool:
    """Whether an agent passes the row that calls nothing."""
    if row.replayed is not None and row.replayed.entry.judging.final_state_only:
        return row.replayed.is_unchanged
    return not (dialogue.calls or dialogue.unknown or row.values.get("check") == _ANY_CALL)


def may_pass_calling(row: CheckedRow, dialogue: Dialogue) -> bool:
    """Whether an agent can pass a question that calls something whatever it is asked."""
    return row.values.get("check") == _ANY_CALL or bool(dialogue.calls)


def passes_calling(dialogue: Dialogue, reruns: Reruns) -> bool:
    """Whether an agent passes the conversation that calls in each turn every function on offer by then.

    Arguments are the first that the user says of the kind that is asked for; a function for which there are none is
    left out. As everywhere, the states must be equal after each turn, and all results be had.
    """
    check = reruns.check
    backend = check.replay(check.entry.config).backend
    states = iter(reruns.whole.states)
    expected, had = check.start, set[str]()
    last = len(dialogue.asked) - 1
    for turn in range(len(dialogue.asked)):
        truth = [at for at, each in enumerate(reruns.played) if each.turn == turn]
        expected = next(states) if truth else expected
        had.update(backend.call(call).text for call in _everything(dialogue, check.offered(turn), backend, turn))
        if check.entry.judging.final_state_only:
            if turn == last:
                return copied(backend.states()) == expected
        elif copied(backend.states()) != expected or any(reruns.whole.texts[at] not in had for at in truth):
            return False
    return True


def _everything(dialogue: Dialogue, offered: frozenset[str], backend: Backend, turn: int) -> Iterator[FunctionCall]:
    """A call of every function on offer, with the first values that the user says in this turn."""
    asked = dialogue.asked[turn]
    said = Given()
    said.say(asked)
    text, figure = next(iter(said.names()), None), next(numbers(asked), None)
    for simulator in backend.simulators.values():
        for operation in simulator.operations().values():
            definition = dialogue.tools.spelled(operation.name)
            properties = {} if definition is None else definition.parameters.get("properties", {})
            arguments = {each: _value(properties, each, text, figure) for each in operation.required}
            if operation.name in offered and None not in arguments.values():
                yield FunctionCall(operation.name, arguments)


def _value(properties: JSON, parameter: str, text: str | None, figure: float | None) -> JSON:
    """A value of the type that the schema names; None where nothing was said of that type."""
    schema = properties.get(parameter) if isinstance(properties, dict) else None
    kind = schema.get("type") if isinstance(schema, dict) else None
    if kind == "boolean":
        return True
    if kind in ("integer", "number"):
        return figure if figure is None or kind == "number" else int(figure)
    return [text] if kind == "array" and text is not None else text
