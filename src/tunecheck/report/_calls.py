"""Show a row's calls: expected and actual ones side by side, or a conversation turn by turn.

`report._details` calls `side_by_side` for each row, `shown_turns` for a conversation and `shown_messages` for other
rows. The results are JSON for the page, with limited lengths. This module judges nothing: it pairs calls as evaluators
do, and marks each argument that a fault names.

The status of a line, with an expected call, an actual call, or both:

  missing    an expected call without a partner
  extra      an actual call without a partner
  alone      an actual call of a row without a ground truth
  moved      a pair in another order than expected, if an evaluator requires the order
  misnamed   a pair with another function, if an evaluator names such a fault
  differs    any other pair with a fault in its arguments
  same       a pair without a fault; the evaluator compares arguments
  named      a pair without a fault; the evaluator compares only names
  beside     a pair that no evaluator has judged
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from functools import cache
from itertools import islice
from typing import TypeAlias, TypeGuard

import msgspec

from tunecheck._faults import Fault, title
from tunecheck._json import JSON
from tunecheck._messages import cut_apart
from tunecheck.calls._model import FunctionCall, Reading, canonical_text, tool_name
from tunecheck.calls.matching import MatchPolicy, match_calls
from tunecheck.episodes._episode import ABSENT, Episode, changes, path_text
from tunecheck.evaluators._calls import possible_answers, read_response
from tunecheck.formats._reading import read_calls, read_python_calls, tools_of
from tunecheck.report._page import as_json, as_text, cut

ANSWER = "(an answer)"
"""The name in confusions for an answer in words instead of a call."""
UNREADABLE, NO_CALL, SERVING_FAULT = "(unreadable call)", "(no call)", "(serving fault)"

_MOST_ITEMS = 100
"""The most items of one kind on the page: calls of a side, arguments of a call, turns, steps of a turn, and so on."""
_MARKS = {"missing_argument": "missing", "unexpected_argument": "unexpected"}
# Faults of a call as a whole: its line has a status for them, so no argument is marked.
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


class SideBySide(msgspec.Struct, frozen=True):
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


def side_by_side(sides: AnswerComparison) -> SideBySide:
    """Compare a response with its ground truth; unreadable values are shown unchanged and raise no error."""
    tools, judged = tools_of(sides.tools), sides.judged
    expected, actual = read_response(sides.ground_truth, tools), read_response(sides.response, tools)
    alternatives = judged is not None and judged.alternatives is True

    # A ground truth may list several accepted answers, unless the evaluator has `alternatives: false`.
    answers = possible_answers(sides.ground_truth) if isinstance(sides.ground_truth, list) else ()
    accepted = [value for call in answers for value in call.arguments.values()]
    has_lists = bool(accepted) and all(isinstance(value, list) for value in accepted)
    if has_lists and (judged is None or judged.alternatives is not False):
        alternatives = True
        expected, actual = Reading(calls=answers, format="bfcl"), _with_expected_names(actual, answers)

    # Without a ground truth nothing was expected, so calls are not extra.
    has_ground_truth = sides.ground_truth is not None
    unexpected = "extra" if has_ground_truth else "alone"
    lines = _pair_calls(expected.calls, actual.calls, judged, unexpected, alternatives=alternatives)

    beside_actual = _other_parts(actual, sides.response, sides.text)
    no_actual = ANSWER if beside_actual else NO_CALL
    if actual.calls or actual.problem is not None:
        no_actual = NO_CALL if actual.calls else UNREADABLE
    confused = _confused_functions(lines, NO_CALL if expected.calls else ANSWER, no_actual) if has_ground_truth else ()

    return SideBySide(
        expected=_other_parts(expected, sides.ground_truth, None),
        actual=beside_actual,
        pairs=[_line_cells(line, alternatives=alternatives) for line in lines[:_MOST_ITEMS]],
        expected_names=names_of(expected.calls),
        called_names=names_of(actual.calls),
        confused=[*dict.fromkeys(confused)],
    )


def names_of(calls: Iterable[FunctionCall]) -> list[str]:
    """Return the names of the called functions in order, each once, at most 100."""
    return list(dict.fromkeys(call.name[:200] for call in calls))[:_MOST_ITEMS]


def _with_expected_names(actual: Reading, expected: Iterable[FunctionCall]) -> Reading:
    """Return the actual calls, with `math_hcf` renamed to `math.hcf` if that is an expected function's name.

    Names of tools have no dots, so the model was offered `math_hcf`.
    """
    own_names = {tool_name(call.name): call.name for call in expected}
    calls = (FunctionCall(own_names.get(call.name, call.name), call.arguments, call.id) for call in actual.calls)
    return replace(actual, calls=tuple(calls))


def _other_parts(reading: Reading, value: JSON, text: JSON) -> dict[str, JSON]:
    """Return the parts of a response or ground truth other than its calls: `text`, `data`, `problem` and `more`.

    `value` is the value of the column, and `text` that of an additional column with the answer's text. `more` is the
    number of calls that are not shown.
    """
    content = reading.text if reading.calls else value

    # The text column may repeat the response or add to it.
    if isinstance(text, str) and text.strip() and text != content:
        content = f"{content}\n{text}" if isinstance(content, str) and content.strip() else text

    shown: dict[str, JSON] = {}
    if isinstance(content, str):
        if content.strip():
            shown["text"] = cut(content)
    elif content not in (None, [], {}):
        shown["data"] = as_text(content)

    if reading.problem is not None:
        shown["problem"] = cut(reading.problem, 2_000)
    if len(reading.calls) > _MOST_ITEMS:
        shown["more"] = len(reading.calls) - _MOST_ITEMS

    return shown


class _CallLine(msgspec.Struct):
    """A line of the page: an expected call beside an actual call, either of which may be None.

    `paths` are the places at which their arguments differ. `faults` are those that the evaluator found in them.
    """

    expected: FunctionCall | None
    actual: FunctionCall | None
    status: str
    paths: Sequence[str] = ()
    faults: list[Fault] = []

    def names(self) -> list[str]:
        """Return the functions' names, the expected one first."""
        return [call.name for call in (self.expected, self.actual) if call is not None]


def _pair_calls(
    expected: Sequence[FunctionCall],
    actual: Sequence[FunctionCall],
    judged: JudgedCalls | None,
    unexpected: str,
    *,
    alternatives: bool,
) -> list[_CallLine]:
    """Pair the calls as evaluators do, in the order of the expected calls; calls without a partner come last.

    `judged` are an evaluator's findings, None if no evaluator judged the calls. `unexpected` is the status of a call
    that was not expected. `alternatives`: expected arguments are lists of accepted values.
    """
    expected, actual = expected[:_MOST_ITEMS], actual[:_MOST_ITEMS]
    if not (expected and actual):
        return _unpaired(expected, actual, unexpected)

    faults = judged.faults if judged is not None else ()
    status = "beside"  # of paired calls without a fault
    if judged is not None:
        status = "same" if judged.arguments else "named"

    names = [call.name for call in expected]
    if names == [call.name for call in actual] and len({*names}) == len(names):  # only one pairing is possible
        lines = [_CallLine(*calls, status) for calls in zip(expected, actual, strict=True)]
        _assign_faults(faults, lines)
        return lines

    # The faults tell how the evaluator paired: whether the order counted, and whether names could differ.
    codes = {fault.code for fault in faults}
    match = match_calls(actual, expected, _policy(alternatives=alternatives, ordered="call_out_of_order" in codes))
    paired = [*((pair, status) for pair in match.pairs), *((pair, "moved") for pair in match.moved)]

    missing, extra = [*match.missing], [*match.extra]
    if "misnamed_call" in codes:
        paired += [(pair, "misnamed") for pair in match.misnamed]
    else:
        missing += [pair.expected for pair in match.misnamed]
        extra += [pair.actual for pair in match.misnamed]

    lines = []
    for pair, pair_status in paired:
        paths = [difference.path for difference in pair.differences]
        lines.append(_CallLine(pair.expected, pair.actual, pair_status, paths))

    # The order of the ground truth. An expected call that is not among the listed ones comes first.
    lines.sort(key=lambda line: expected.index(line.expected) if line.expected in expected else 0)
    _assign_faults(faults, lines)

    return lines + _unpaired(missing, extra, unexpected)


def _unpaired(missing: Iterable[FunctionCall], extra: Iterable[FunctionCall], unexpected: str) -> list[_CallLine]:
    """Return a line for each missing call, then a line with the status `unexpected` for each extra call."""
    lines = [_CallLine(call, None, "missing") for call in missing]
    return lines + [_CallLine(None, call, unexpected) for call in extra]


@cache  # there are only four policies, and the constructor checks all options each time
def _policy(*, alternatives: bool, ordered: bool) -> MatchPolicy:
    """Return the policy for pairing calls, cached."""
    return MatchPolicy(alternatives=alternatives, ordered=ordered)


def _assign_faults(faults: Iterable[Fault], lines: Sequence[_CallLine]) -> None:
    """Add each fault of an argument to the line that differs at its path, else to the first line of its function.

    Skip faults that concern a whole call, such as a missing call, and faults of a function without a line. A line with
    a fault gets the status "differs", unless it is "moved" or "misnamed".
    """
    for fault in faults:
        if fault.code in _WHOLE_CALLS:
            continue

        # A function may be called several times. The path says which of its lines differs there.
        candidates = [line for line in lines if fault.call in line.names()]
        if candidates:
            line = next((line for line in candidates if fault.path in line.paths), candidates[0])
            line.faults.append(fault)
            if line.status in ("same", "named", "beside"):
                line.status = "differs"


def _confused_functions(lines: Sequence[_CallLine], no_expected: str, no_actual: str) -> Iterator[tuple[str, str]]:
    """Yield each expected function with the function that was called instead, or with itself.

    `no_expected` replaces a missing expected function, and `no_actual` a missing called one; without any call, they are
    the only pair.

    Example: `f` and `g` were expected, `f` and `h` were called. The pairs are (f, f) and (g, h).
    """
    missing, extra = [], []
    for line in lines:
        if line.expected is not None and line.actual is not None:
            yield line.expected.name[:200], line.actual.name[:200]
        elif line.expected is not None:
            missing.append(line.expected.name[:200])
        elif line.actual is not None:
            extra.append(line.actual.name[:200])

    # A missing call and an extra call most likely stand for each other.
    count = max(len(missing), len(extra), 0 if lines else 1)
    missing += [no_expected] * (count - len(missing))
    yield from zip(missing, extra + [no_actual] * (count - len(extra)), strict=True)


def _argument_at(path: str, names: Iterable[str]) -> str | None:
    """Return the name of the argument to which a path such as `a.b[0]` belongs; None if it belongs to none of `names`.

    Names may contain points, so the path cannot be split at its points: the longest name at its beginning counts.

    Example: with the arguments `a` and `a.b`, the path `a.b[0]` belongs to `a.b`.
    """
    matching = [name for name in names if path == name or path.startswith((f"{name}.", f"{name}["))]
    return max(matching, key=len, default=None)


def _line_cells(line: _CallLine, *, alternatives: bool) -> JSON:
    """Return a line for the page: `[expected call, actual call, status, notes]`.

    Arguments with a fault are marked, for example as wrong or missing. A note is the place and the text of a fault.
    `alternatives`: expected arguments are lists of accepted values.
    """
    marks: dict[str, str] = {}
    notes: list[JSON] = []
    names = [name for call in (line.expected, line.actual) if call is not None for name in call.arguments]

    for fault in line.faults:
        name = _argument_at(fault.path or "", names)
        if name is not None:
            # Only a fault of the whole argument has a mark of its own: a value missing inside makes the argument wrong.
            marks.setdefault(name, _MARKS.get(fault.code, "wrong") if name == fault.path else "wrong")
        notes.append([cut(fault.path or fault.call or "", 300), _short_text(fault)])

    expected = None if line.expected is None else shown_call(line.expected, marks, alternatives=alternatives)
    actual = None if line.actual is None else shown_call(line.actual, marks)
    return [expected, actual, line.status, notes[:_MOST_ITEMS]]


def _short_text(fault: Fault) -> str:
    """Return a fault in a few words: its kind, else its message, else its title.

    Examples: `wrong_argument.number_as_text` gives `number as text`; `missing_argument` gives `missing`.
    """
    code, _, kind = fault.code.partition(".")
    if code == "wrong_argument" and kind:
        return kind.replace("_", " ")
    return _MARKS.get(fault.code) or cut(fault.message or title(fault.code), 300)


def shown_call(call: FunctionCall, marks: Mapping[str, str] | None = None, *, alternatives: bool = False) -> JSON:
    """Return a call as `[name, [[argument, value, mark], …]]`, with values as JSON text.

    `marks` has the mark of each argument with a fault. `alternatives`: the values are lists of accepted values.
    At most 100 arguments are returned.
    """
    marks = marks or {}
    arguments: list[JSON] = [
        [cut(name, 200), _accepted_text(value) if alternatives else as_json(value), marks.get(name, "")]
        for name, value in list(call.arguments.items())[:_MOST_ITEMS]
    ]
    return [cut(call.name, 200), arguments]


def _accepted_text(value: JSON) -> str:
    """Return a list of accepted values as `1 | 2`; an empty text in it means that the argument is optional."""
    if not isinstance(value, list):
        return as_json(value)

    accepted = [as_json(answer) for answer in value if answer != ""]
    if "" in value:
        accepted.append("(may be left out)")
    return cut(" | ".join(accepted))


# -- messages and turns

_MOST_VALUE = 600  # characters of a value of the state
_MOST_RESULT = 4_000  # characters of a call's result
_ABSENT = "(nothing)"


def is_conversation(turns: JSON) -> TypeGuard[list[list[JSON]]]:
    """Return True if a value is a list of turns, each a list of messages.

    Example: `[[{"role": "user", "content": "Hi"}], [{"role": "user", "content": "Bye"}]]` has two turns.
    """
    return isinstance(turns, list) and bool(turns) and all(isinstance(turn, list) for turn in turns)


def shown_messages(messages: JSON) -> list[JSON]:
    """Return up to 100 messages as `[role, text, calls]`; if there are more, one further entry counts them."""
    shown: list[JSON] = []
    for message in _list(messages)[:_MOST_ITEMS]:
        if isinstance(message, dict):
            shown.append([as_text(message.get("role"))[:40], _content(message.get("content")), _calls_of(message)])
        else:
            shown.append(["", as_text(message), []])

    if len(_list(messages)) > _MOST_ITEMS:
        shown.append(["", f"and {len(_list(messages)) - _MOST_ITEMS:,} more messages", []])
    return shown


def _content(content: JSON) -> str:
    """Return a message's text; for a list of parts, their texts and the JSON of other parts."""
    if content is None:
        return ""
    if not isinstance(content, list):
        return as_text(content)
    texts = (part.get("text", part) if isinstance(part, dict) else part for part in content[:_MOST_ITEMS])
    return cut("\n".join(map(as_text, texts)))


def _calls_of(message: Mapping[str, JSON]) -> list[JSON]:
    """Return a message's tool calls for the page."""
    if message.get("tool_calls") or message.get("function_call"):
        return [shown_call(call) for call in read_calls(dict(message)).calls[:_MOST_ITEMS]]
    return []


def shown_turns(turns: JSON, ground_truth: JSON, log: JSON, result: JSON) -> list[dict[str, JSON]]:
    """Return a conversation's turns for the page: messages, steps, expected calls and state changes.

    `log` is the conversation's log and `result` its steps by turn; either may be None. Unknown parts are left out.

    The log alternates lists of states (at the beginning and after each turn) and objects of turns. So turn i changes
    the states from list i to list i + 1.
    """
    logged_turns = [entry for entry in _list(log) if isinstance(entry, dict)]
    logged_states = [entry for entry in _list(log) if isinstance(entry, list)]

    # The calls that were executed in each step of each turn; `Episode` is the only reader of such logs.
    executed = Episode.read({"inference_log": log}).columns()["calls_made"]
    count = max(len(_list(turns)), len(logged_turns), len(result) if is_conversation(result) else 0)

    # A conversation may have ended before its last turn, or have no log, so `count` is the longest of the three.
    shown: list[dict[str, JSON]] = []
    for number in range(min(count, _MOST_ITEMS)):
        messages = _item(turns, number)
        if number < len(logged_turns):
            logged, made = logged_turns[number], _list(_item(executed, number))
            # A later turn may have more messages than the data: those that were sent count.
            messages = _list(logged.get("begin_of_turn_query")) or messages
            entries = [items for key, items in logged.items() if key.startswith("step_") and isinstance(items, list)]
            steps = [_logged_step(items, _item(made, position)) for position, items in enumerate(entries)]
        else:
            steps = [_answer(step, None) for step in _list(_item(result, number))]

        turn: dict[str, JSON] = {"user": shown_messages(messages), "steps": [step for step, _ in steps[:_MOST_ITEMS]]}
        if len(steps) > _MOST_ITEMS:
            turn["left_out"] = len(steps) - _MOST_ITEMS

        expected = _item(ground_truth, number)
        if isinstance(expected, list):
            turn["expected"] = _expected_calls(
                expected, {canonical_text([call]) for _, calls in steps for call in calls}
            )

        if number + 1 < len(logged_states):
            turn["changes"] = [*_shown_changes(_states(logged_states[number]), _states(logged_states[number + 1]))]
        shown.append(turn)

    return shown


def _list(value: JSON) -> list[JSON]:
    """Return the value if it is a list, else an empty list."""
    return value if isinstance(value, list) else []


def _item(values: JSON, position: int) -> JSON:
    """Return the value at this position, or None."""
    return values[position] if isinstance(values, list) and position < len(values) else None


_Step: TypeAlias = tuple[dict[str, JSON], Sequence[FunctionCall]]
"""A step of a turn as the page shows it, and its calls."""


def _logged_step(entries: Sequence[JSON], executed: JSON) -> _Step:
    """Return a step of a conversation's log: the answer, its reasoning, results of calls, and decoding problems.

    `executed` are the step's calls in the log, or None.
    """
    messages = [entry for entry in entries if isinstance(entry, dict)]
    answer: Mapping[str, JSON] = next((message for message in messages if message.get("role") == "assistant"), {})
    step, calls = _answer(answer.get("content"), executed)
    if answer.get("reasoning_content"):
        step["reasoning"] = as_text(answer["reasoning_content"])

    results = [as_text(message.get("content")) for message in messages if message.get("role") == "tool"]
    # Entries of the decoder: all but success (`decode_success`) are problems.
    decoded = [message for message in messages if message.get("role") == "handler_log"]
    problems = [entry for entry in decoded if entry.get("event") not in ("decode_success", None)]

    step["results"] = [cut(text, _MOST_RESULT) for text in results[:_MOST_ITEMS]]
    step["notes"] = [as_text(entry.get("content"))[:400] for entry in problems[:5]]
    return step, calls


def _answer(content: JSON, executed: JSON) -> _Step:
    """Return the calls and the text of the model's output in a step.

    `executed` are the calls of the step in the log, or None. If it is a list, only these calls are shown. If the list
    or the content has no calls, the text is the whole content; else the content without its calls.
    """
    reading = read_calls(content)
    if isinstance(executed, list):
        calls = tuple(call for item in executed for call in _written_call(item).calls)
        reading = replace(reading, calls=calls, text=reading.text if calls and reading.calls else as_text(content))

    text = "" if content in (None, [], "") else as_text(content)
    if reading.calls:
        text = cut(reading.text)
    return {"calls": [*map(shown_call, reading.calls[:_MOST_ITEMS])], "text": text}, reading.calls


def _written_call(call: JSON) -> Reading:
    """Read a call as it is written in ground truths and logs.

    Examples: the text `cd(folder='docs')`, and the object `{"name": "cd", "arguments": {"folder": "docs"}}`.
    """
    return read_python_calls(call) if isinstance(call, str) else read_calls(call)


def _expected_calls(calls: Sequence[JSON], made: Set[str]) -> list[JSON]:
    """Return the ground truth's calls as `[call, whether the model made the same call in this turn]`.

    `made` has the canonical texts of the model's calls. A call that cannot be read is shown as text and counts as not
    made.

    This is not a verdict, because other calls with the same effect are correct, too.
    """
    expected: list[JSON] = []
    for text in calls[:_MOST_ITEMS]:
        reading = _written_call(text)
        if not reading.calls:
            expected.append([[as_text(text)[:_MOST_VALUE], []], False])
        expected += [[shown_call(call), canonical_text([call]) in made] for call in reading.calls]

    return expected


def _states(entry: Sequence[JSON]) -> dict[str, JSON]:
    """Return the states in a log's entry by simulator."""
    states = [item for item in entry if isinstance(item, dict) and item.get("role") == "state_info"]
    return {str(item.get("class_name")): item.get("content") for item in states}


def _shown_changes(before: JSON, after: JSON) -> Iterator[JSON]:
    """Yield `[path, before, after]` for each path at which the states differ, with texts of limited length."""
    for change in islice(changes(before, after), _MOST_ITEMS):
        old, new = cut_apart(_state_text(change.before), _state_text(change.after), _MOST_VALUE, before=60)
        yield [path_text(change.path, 400), old, new]


def _state_text(value: object) -> str:
    """Return a value of a state as text."""
    if value is ABSENT:
        return _ABSENT
    return value if isinstance(value, str) else as_json(value)  # type: ignore[arg-type]  # states of a log are JSON
