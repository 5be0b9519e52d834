"""The answer that the ground truth expects in each step: what a simulated model answers, or gets wrong."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tunecheck._json import JSON, dumps
from tunecheck._targets import Row
from tunecheck.calls._model import FunctionCall, tool_name
from tunecheck.calls._python_text import bind_positional
from tunecheck.calls._writing import write_calls
from tunecheck.datasets._right_calls import first_value, may_be_left_out
from tunecheck.formats._reading import read_python_calls

_DONE = "Done."
_NO_CALL = "None of these functions does that."

Tools = Sequence[Mapping[str, JSON]]


def step_row(row: Row, turn: int, step: int, tools: Tools) -> Row:
    """The row of one step of a conversation: all of the turn's calls in its first step, then a text that ends it."""
    truth = row.values.get("ground_truth")
    texts = truth[turn] if isinstance(truth, list) and turn < len(truth) else None
    if step or not isinstance(texts, list) or not texts:
        return _answered(row, f"{row.id} turn {turn} step {step}", _DONE)
    parameters = _parameters(tools)
    calls = [call for text in texts for call in read_python_calls(str(text)).calls]
    named = [bind_positional(call, parameters.get(call.name, ())) for call in calls]
    return _answered(row, f"{row.id} turn {turn} step {step}", write_calls(named, "openai"))


def question_row(row: Row, tools: Tools) -> Row:
    """The row of one of BFCL's questions: the first of its possible answers; other rows are left as they are."""
    check, truth = row.values.get("check"), row.values.get("ground_truth")
    if check == "irrelevance":
        return _answered(row, row.id, _NO_CALL)
    names = list(_parameters(tools))
    if check == "relevance":
        return _answered(row, row.id, write_calls([FunctionCall(name) for name in names[:1]], "openai"))
    if check not in ("simple", "multiple", "parallel") or not isinstance(truth, list):
        return row
    language = row.values.get("language")
    required = _required(tools)
    calls: list[FunctionCall] = []
    for name, options in (item for each in truth if isinstance(each, dict) for item in each.items()):
        arguments: dict[str, JSON] = {}
        for key, values in options.items() if isinstance(options, dict) else ():
            given = [value for value in values if value != ""] if isinstance(values, list) else values
            if not may_be_left_out(values) or (key in required and given):
                value = first_value(given)
                foreign = language in ("java", "javascript") and not isinstance(value, str)
                arguments[key] = dumps(value).decode() if foreign else value
        calls.append(FunctionCall(name if name in names else tool_name(name), arguments))
    return _answered(row, row.id, write_calls(calls, "openai"))


def _answered(row: Row, row_id: str, answer: JSON) -> Row:
    return replace(row, id=row_id, values={**row.values, "ground_truth": answer})


def _parameters(tools: Tools) -> dict[str, list[str]]:
    """The names of each function's parameters, in their order."""
    names: dict[str, list[str]] = {}
    for tool in tools:
        function = tool.get("function")
        if isinstance(function, dict):
            names[str(function.get("name"))] = list(_properties(tool))
    return names


def _required(tools: Tools) -> set[JSON]:
    """The names of parameters that some function must be given: BFCL allows an empty text for a few of them, too."""
    listed = (_schema(tool).get("required") for tool in tools)
    return {name for names in listed if isinstance(names, list) for name in names}


def _properties(tool: Mapping[str, JSON]) -> dict[str, JSON]:
    properties = _schema(tool).get("properties")
    return properties if isinstance(properties, dict) else {}


def _schema(tool: Mapping[str, JSON]) -> dict[str, JSON]:
    function = tool.get("function")
    schema = function.get("parameters") if isinstance(function, dict) else None
    return schema if isinstance(schema, dict) else {}
