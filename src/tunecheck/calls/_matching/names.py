"""Names: functions that a policy takes for the same (dots or underscores, `functions.`), positional arguments."""

from collections.abc import Sequence
from dataclasses import replace

from tunecheck.calls._matching.values import MatchPolicy
from tunecheck.calls._model import FunctionCall, tool_name
from tunecheck.calls._python_text import bind_positional
from tunecheck.calls._schemas import ToolDefinitions

_PREFIX = "functions."


def respelled(
    actual: Sequence[FunctionCall],
    expected: Sequence[FunctionCall],
    policy: MatchPolicy,
    definitions: ToolDefinitions | None,
) -> tuple[Sequence[FunctionCall], Sequence[FunctionCall]]:
    """The calls under the names that the definitions have, else the expected calls, where the policy allows that."""
    if not (policy.dots_equal_underscores or policy.ignore_functions_prefix):
        return actual, expected
    spelling: dict[str, str] = {}
    known = set(definitions or ())
    for name in definitions or ():
        spelling.setdefault(_key(name, policy), name)

    def spelled(call: FunctionCall) -> FunctionCall:
        name = call.name if call.name in known else spelling.get(_key(call.name, policy), call.name)
        return call if name == call.name else replace(call, name=name)

    wanted = [spelled(call) for call in expected]
    for call in wanted:
        known.add(call.name)
        spelling.setdefault(_key(call.name, policy), call.name)
    return [spelled(call) for call in actual], wanted


def _key(name: str, policy: MatchPolicy) -> str:
    name = name.removeprefix(_PREFIX) if policy.ignore_functions_prefix else name
    return tool_name(name) if policy.dots_equal_underscores else name


def plain_name(name: str) -> str:
    """A function's name by which other spellings of it are known: letter case, dots and dashes do not count."""
    return tool_name(name).replace("-", "_").casefold()


def named_arguments(call: FunctionCall, definitions: ToolDefinitions) -> FunctionCall:
    """The call with its positional arguments under their names, where its function is defined."""
    definition = definitions.get(call.name)
    return bind_positional(call, definition.parameter_names) if definition else call
