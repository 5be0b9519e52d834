"""Rows of one question: one call, several at once, or none, with the possible answers."""

from __future__ import annotations

from tunecheck._json import JSON
from tunecheck.authoring._author.files import PathLine, PlannedCall, QuestionLine, TaskLine
from tunecheck.authoring._author.world import World
from tunecheck.calls._model import FunctionCall

_OPTIONAL = ""
"""Among the possible values of a parameter: it may be left out."""


def question_row(world: World, name: str, path: PathLine, task: TaskLine) -> QuestionLine:
    """The task as a row."""
    calls = path.turns[0]
    tools = [tool for each in path.simulators for tool in world.known(each).tool_definitions()]
    return QuestionLine(
        id=f"{name}-{path.id}",
        task=f"{name}-{path.id}",
        variant="no_call" if not calls else "one_call" if len(calls) == 1 else "parallel",
        path=" ".join(call.function for call in calls),
        messages=[{"role": "user", "content": task.turns[0]}],
        tools=tools,
        ground_truth=[{call.function: _possible(world, call)} for call in calls],
    )


def _possible(world: World, call: PlannedCall) -> dict[str, list[JSON]]:
    """By parameter, the right values; what has a default may be left out, or given with it."""
    possible: dict[str, list[JSON]] = {}
    for name, schema in world.functions[call.function].parameters.items():
        default = schema.get("default")
        if name in call.arguments:
            value = call.arguments[name].value
            possible[name] = [value, *([_OPTIONAL] if value == default else [])]
        elif default is not None:
            possible[name] = [default, _OPTIONAL]
    return possible


def right_calls(row: QuestionLine) -> list[FunctionCall]:
    """The calls that say no more than they need to: the first possible value of each parameter that must be given."""
    calls = []
    for answer in row.ground_truth:
        for name, possible in answer.items():
            given = {each: values[0] for each, values in possible.items() if _OPTIONAL not in values}
            calls.append(FunctionCall(name, given))
    return calls
