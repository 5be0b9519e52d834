"""Show a row's expected and actual calls side by side, with the faults that an evaluator found.

This module judges nothing: it pairs calls as evaluators do, and marks each argument that a fault names.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import zip_longest

import msgspec

from tunecheck._faults import Fault, title
from tunecheck._json import JSON
from tunecheck.calls._model import FunctionCall, Reading, tool_name
from tunecheck.calls._schemas import ToolDefinitions
from tunecheck.calls.matching import MatchPolicy, Pair, match_calls
from tunecheck.formats._reading import read_calls, tools_of
from tunecheck.report._blocks import as_json, as_text, cut

ANSWER = "(an answer)"
"""The name in confusions for an answer in words instead of a call."""
UNREADABLE, NO_CALL = "(unreadable call)", "(no call)"

_MOST_CALLS = 100
_MOST_ARGUMENTS = 200
_MOST_NOTES = 30
_MARKS = {"missing_argument": "missing", "unexpected_argument": "unexpected"}
_WHOLE_CALLS = ("missing_call", "extra_call", "misnamed_call", "call_out_of_order")


class JudgedCalls(msgspec.Struct, frozen=True):
    """An evaluator's findings for a row's calls. If `arguments` is false, it compared function names only.

    `alternatives` is True if expected arguments are lists of accepted values; None if that is unknown.
    """

    faults: tuple[Fault, ...] = ()
    arguments: bool = True
    alternatives: bool | None = None


class AnswerComparison(msgspec.Struct, frozen=True):
    """The ground truth and the response of a row. `judged` is None if no evaluator judged the calls.

    `text` is the model's text without its calls, `tools` the definitions of the row's tools.
    """

    ground_truth: JSON
    response: JSON
    text: JSON
    judged: JudgedCalls | None
    tools: JSON = None


class SideBySide(msgspec.Struct):
    """The ground truth and the response as the page shows them, and the functions for its filters.

    `pairs` are `[expected call | None, actual call | None, status, [[path, fault], …]]`; a call is
    `[name, [[argument, value, mark], …]]`. `confused` pairs an expected function with the one that was called instead.
    """

    expected: dict[str, JSON] = {}
    actual: dict[str, JSON] = {}
    pairs: list[JSON] = []
    expected_names: list[str] = []
    called_names: list[str] = []
    confused: list[tuple[str, str]] = []
    wanted: Reading | None = None
    """The ground truth after parsing."""


def side_by_side(sides: AnswerComparison, read: Reading | None = None) -> SideBySide:
    """Compare a response with its ground truth; `read` is the parsed ground truth, if the caller has it.

    Unreadable values are shown unchanged and raise no error.
    """
    tools = tools_of(sides.tools)
    wanted, made = read or _read(sides.ground_truth, tools), _read(sides.response, tools)
    read = wanted
    # `alternatives` is None if the evaluator does not say whether the ground truth is a list of accepted answers.
    judged, alternatives = sides.judged, sides.judged is not None and sides.judged.alternatives
    accepted = _possible_answers(sides.ground_truth) if alternatives is not False or judged is None else ()
    if accepted:
        wanted = Reading(calls=accepted, format="bfcl")
        names = {
            tool_name(call.name): call.name for call in accepted
        }  # a model gets and calls `math.hcf` as `math_hcf`
        renamed = (FunctionCall(names.get(call.name, call.name), call.arguments, call.id) for call in made.calls)
        made = replace(made, calls=tuple(renamed))
    asked = sides.ground_truth is not None
    are_lists = bool(accepted) or alternatives is True
    lines = _lines(wanted.calls, made.calls, judged, "extra" if asked else "alone", alternatives=are_lists)
    actual = _words(made, sides.response, sides.text)
    confused: Iterable[tuple[str, str]] = ()
    if asked:
        confused = _confusions(lines) if wanted.calls and made.calls else _answer_confusion(wanted, made, actual)
    return SideBySide(
        _words(wanted, sides.ground_truth, None),
        actual,
        [_line_cells(line, alternatives=are_lists) for line in lines[:_MOST_CALLS]],
        names_of(wanted.calls),
        names_of(made.calls),
        [*confused],
        read,
    )


def names_of(calls: Iterable[FunctionCall]) -> list[str]:
    """Return the names of the called functions in order, each once."""
    return list(dict.fromkeys(call.name[:200] for call in calls))[:_MOST_CALLS]


def _read(value: JSON, tools: ToolDefinitions) -> Reading:
    """Return the calls in a value; a lone object such as `{"f": {…}}` counts as one call if there are no tools."""
    single = isinstance(value, dict) and len(value) == 1 and all(isinstance(item, dict) for item in value.values())
    return read_calls([value] if single and not tools else value, tools=tools)


def _possible_answers(value: JSON) -> tuple[FunctionCall, ...]:
    """Return the calls of BFCL's possible answers, `[{"f": {"a": [1, 2]}}, …]`; none for another shape."""
    if not isinstance(value, list) or not value:
        return ()
    calls = []
    for item in value:
        name, arguments = next(iter(item.items())) if isinstance(item, dict) and len(item) == 1 else ("", None)
        if not isinstance(arguments, dict) or not all(isinstance(each, list) for each in arguments.values()):
            return ()
        calls.append(FunctionCall(name, arguments))
    return tuple(calls) if any(call.arguments for call in calls) else ()


def _words(reading: Reading, value: JSON, text: JSON) -> dict[str, JSON]:
    """Describe the response or the ground truth beside its calls: text, other data, problem, number of calls not shown.

    `value` is the column that was read; `text` is the answer's text if it is in a column of its own.
    """
    words = reading.text if reading.calls else value
    if isinstance(text, str) and text.strip() and text != words:
        words = f"{words}\n{text}" if isinstance(words, str) and words.strip() else text
    described: dict[str, JSON] = {}
    if isinstance(words, str) and words.strip():
        described["text"] = cut(words)
    elif words not in (None, "", [], {}) and not isinstance(words, str):
        described["data"] = as_text(words)
    if reading.problem is not None:
        described["problem"] = cut(reading.problem, 2_000)
    if len(reading.calls) > _MOST_CALLS:
        described["more"] = len(reading.calls) - _MOST_CALLS
    return described


class _CallLine(msgspec.Struct):
    """An expected call and an actual call (one may be None), and the paths at which their arguments differ."""

    expected: FunctionCall | None
    actual: FunctionCall | None
    status: str
    paths: Sequence[str] = ()
    faults: list[Fault] = []


def _lines(
    wanted: Sequence[FunctionCall],
    made: Sequence[FunctionCall],
    judged: JudgedCalls | None,
    extra: str,
    *,
    alternatives: bool,
) -> list[_CallLine]:
    """Pair the calls as evaluators do, in the order of the expected calls; calls without a partner come last.

    `extra` is the status of a call that was not expected. `alternatives`: expected arguments are lists of accepted
    values.
    """
    wanted, made = wanted[:_MOST_CALLS], made[:_MOST_CALLS]
    if not (wanted and made):
        return _unpaired(wanted, made, extra)
    faults = judged.faults if judged is not None else ()
    names = [call.name for call in wanted]
    if names == [call.name for call in made] and len({*names}) == len(names):  # only one pairing is possible
        lines = [_CallLine(one, other, _status_without_fault(judged)) for one, other in zip(wanted, made, strict=True)]
        _give_faults(lines, faults)
        return lines
    codes = {fault.code for fault in faults}
    match = match_calls(made, wanted, _policy(alternatives=alternatives, ordered="call_out_of_order" in codes))
    lines = [_line(pair, _status_without_fault(judged)) for pair in match.pairs]
    lines += [_line(pair, "moved") for pair in match.moved]
    missing, left = [*match.missing], [*match.extra]
    for pair in match.misnamed:
        if "misnamed_call" in codes:
            lines.append(_line(pair, "misnamed"))
        else:
            missing.append(pair.expected)
            left.append(pair.actual)
    lines.sort(key=lambda line: wanted.index(line.expected) if line.expected in wanted else 0)
    _give_faults(lines, faults)
    return lines + _unpaired(missing, left, extra)


def _unpaired(missing: Iterable[FunctionCall], left: Iterable[FunctionCall], extra: str) -> list[_CallLine]:
    """Return a line for each call without a partner; `extra` is the status of calls that were not expected."""
    return [*(_CallLine(call, None, "missing") for call in missing), *(_CallLine(None, call, extra) for call in left)]


@cache  # there are only four policies, and the constructor checks all options each time
def _policy(*, alternatives: bool, ordered: bool) -> MatchPolicy:
    return MatchPolicy(alternatives=alternatives, ordered=ordered)


def _line(pair: Pair, status: str) -> _CallLine:
    """Return the line of two paired calls, with the paths at which their arguments differ."""
    return _CallLine(pair.expected, pair.actual, status, [each.path for each in pair.differences])


def _give_faults(lines: Sequence[_CallLine], faults: Iterable[Fault]) -> None:
    """Add each argument's fault to the line that differs at its path, else to the first line of its function."""
    for fault in faults:
        own = [each for each in lines if fault.call in [side and side.name for side in (each.expected, each.actual)]]
        if own and fault.code not in _WHOLE_CALLS:
            about = next((line for line in own if fault.path in line.paths), own[0])
            about.faults.append(fault)
            about.status = "differs" if about.status in ("same", "named", "beside") else about.status


def _confusions(lines: Iterable[_CallLine]) -> Iterator[tuple[str, str]]:
    """Yield each expected function with the function that was called instead, or with itself."""
    missing, extra = [], []
    for line in lines:
        if line.expected is not None and line.actual is not None:
            yield line.expected.name[:200], line.actual.name[:200]
        elif line.expected is not None:
            missing.append(line.expected.name[:200])
        elif line.actual is not None:
            extra.append(line.actual.name[:200])
    # A missing call and an extra call most likely stand for each other.
    yield from zip_longest(missing, extra, fillvalue=NO_CALL)


def _argument(path: str, names: Iterable[str]) -> str | None:
    """Return the argument that contains a path: the longest name that the path begins with, or None."""
    known = [name for name in names if path == name or path.startswith((f"{name}.", f"{name}["))]
    return max(known, key=len, default=None)


def _line_cells(line: _CallLine, *, alternatives: bool) -> JSON:
    """Return a line for the page: `[expected call, actual call, status, notes]`, with marks on wrong arguments.

    `alternatives`: expected arguments are lists of accepted values.
    """
    marks: dict[str, str] = {}
    notes: list[JSON] = []
    sides = [side for side in (line.expected, line.actual) if side is not None]
    for fault in line.faults:
        name = _argument(fault.path or "", [name for side in sides for name in side.arguments])
        if name is not None:
            marks.setdefault(name, _MARKS.get(fault.code, "wrong") if name == fault.path else "wrong")
        notes.append([cut(fault.path or fault.call or "", 300), _short_text(fault)])
    expected = None if line.expected is None else shown_call(line.expected, marks, alternatives=alternatives)
    actual = None if line.actual is None else shown_call(line.actual, marks)
    return [expected, actual, line.status, notes[:_MOST_NOTES]]


def _status_without_fault(judged: JudgedCalls | None) -> str:
    """Return the status of paired calls without a fault."""
    if judged is None:
        return "beside"
    return "same" if judged.arguments else "named"


def _short_text(fault: Fault) -> str:
    """Return a fault in a few words: its kind, else its message, else its title."""
    head, _, kind = fault.code.partition(".")
    if head == "wrong_argument" and kind:
        return kind.replace("_", " ")
    return _MARKS.get(fault.code) or cut(fault.message or title(fault.code), 300)


def shown_call(call: FunctionCall, marks: Mapping[str, str] | None = None, *, alternatives: bool = False) -> JSON:
    """Return a call as `[name, [[argument, value, mark], …]]`, with values as JSON text.

    `marks` are by argument. `alternatives`: the values are lists of accepted values.
    """
    marks = marks or {}
    arguments: list[JSON] = [
        [cut(name, 200), _accepted_text(value) if alternatives else as_json(value), marks.get(name, "")]
        for name, value in list(call.arguments.items())[:_MOST_ARGUMENTS]
    ]
    return [cut(call.name, 200), arguments]


def _accepted_text(value: JSON) -> str:
    """Return a list of accepted values as `1 | 2`; an empty text in it means that the argument is optional."""
    if not isinstance(value, list):
        return as_json(value)
    shown = [as_json(each) for each in value if each != ""]
    return cut(" | ".join([*shown, *(["(may be left out)"] if "" in value else [])]))


def _answer_confusion(wanted: Reading, made: Reading, actual: Mapping[str, JSON]) -> Iterator[tuple[str, str]]:
    """Yield expected and called functions if a side has no readable call; a word such as ANSWER stands for it."""
    other = UNREADABLE if made.problem is not None else ANSWER if actual else NO_CALL
    if wanted.calls:
        yield from ((name, other) for name in names_of(wanted.calls))
    elif made.calls:
        yield from ((ANSWER, name) for name in names_of(made.calls))
    else:
        yield ANSWER, other
