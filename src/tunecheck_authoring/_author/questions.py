"""Rows of one question: one call, several at once, or none, with the possible answers."""

from __future__ import annotations

from tunecheck._json import JSON
from tunecheck_authoring._author.files import PathLine, PlannedCall, QuestionLine, TaskLine
from tunecheck_authoring._author.world import World

_CHECKS = {"one_call": "simple", "parallel": "parallel", "no_call": "irrelevance"}

_OPTIONAL = ""
"""Among the possible values of a parameter: it may be left out."""


def question_row(world: World, name: str, path: PathLine, task: TaskLine) -> QuestionLine:
    """The task as a row."""
    calls = path.turns[0]
    variant = "no_call" if not calls else "one_call" if len(calls) == 1 else "parallel"
    tools = [tool for each in path.simulators for tool in world.known(each).tool_definitions()]
    return QuestionLine(
        id=f"{name}-{path.id}",
        task=f"{name}-{path.id}",
        variant=variant,
        check=_CHECKS[variant],
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
            possible[name] = [_alternatives(value), *([_OPTIONAL] if value == default else [])]
        elif default is not None:
            possible[name] = [default, _OPTIONAL]
    return possible


def _alternatives(value: JSON) -> JSON:
    """A value among possible ones: of an object, each entry has possible values of its own."""
    if isinstance(value, dict):
        return {name: [_alternatives(each)] for name, each in value.items()}
    return [_alternatives(each) for each in value] if isinstance(value, list) else value
