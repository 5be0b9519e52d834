"""Build the details of a row, shown when it is opened: texts of limited length, and the panels of plug-ins.

`report._writing` calls `DetailReader.read` for each row of the reported run, and `answer` for the same row of each
other run.

The details have these keys. All but the last four depend on the answer, so they may differ between runs:

  verdicts, errors      one entry for each evaluator or stage
  panels, reasoning     only if there are any
  actual, pairs         the answer's calls beside the expected ones; not for conversations
  turns, failed_turn    only for conversations
  cause                 why the row failed: title, side, advice, evidence
  more                  columns that no other part shows
  messages, expected    the question and the ground truth; not for conversations
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from itertools import chain
from typing import Protocol

import msgspec

from tunecheck import plugins
from tunecheck._faults import cause_named
from tunecheck._json import JSON
from tunecheck.calls._schemas import TOOL_COLUMNS
from tunecheck.pipeline._finished_rows import RecordedVerdict, evidence_of
from tunecheck.report._calls import (
    AnswerComparison,
    JudgedCalls,
    SideBySide,
    is_conversation,
    shown_messages,
    shown_turns,
    side_by_side,
)
from tunecheck.report._page import Blocks, as_json, as_text, cut, line
from tunecheck.report._reading import Columns, Evaluated, EvaluatorKeys, ReportedRun, columns_of
from tunecheck.runs._manifest import value_reader


class PanelRow(msgspec.Struct, frozen=True):
    """A panel's part of a row's details.

    `question` replaces the row's text in the table. `columns` are the target's columns that only the panel shows.
    """

    shown: JSON
    question: str = ""
    columns: frozenset[str] = frozenset()


class PanelReader(Protocol):
    """Reads the rows of one run for a panel."""

    def add(self, number: int, row: Mapping[str, JSON]) -> PanelRow | None:
        """Take the next row, counted from 0; return the panel's part of its details, or None."""

    def data(self) -> JSON:
        """Return the data for the panel's script, after all rows; None to show no panel."""


_LONG = 600  # from this many characters on, a value is stored once for all rows that have it
_MOST_COLUMNS = 500  # further columns of a row; also the messages that are checked for a role
_MOST_QUESTION = 200  # characters of a question or an answer in the table
_MOST_DIFFERENCES, _LONGEST_DIFFERENCE = 50, 600
_SHOWN_ELSEWHERE = frozenset({"response", "text", "tool_calls", "inference_log", "reasoning", "reasoning_content"})
# Usual names of a column with the question as text, in the order in which they are tried.
_QUESTIONS = ("query", "question", "prompt", "input")

Verdicts = Sequence[RecordedVerdict]


class Details(msgspec.Struct):
    """A row's values by role, and its details: `shown` for the page, the others for the table and the charts.

    `data` are the columns of the data set, `target` those of the answer, by name. The question is in `messages`, or in
    `turns` if the row is a conversation; `used` are its columns. `verdicts` are in the order of the evaluators. `calls`
    is the comparison of the `sides`; a conversation has none. `answered` has the details that depend on the answer.
    """

    row: Mapping[str, JSON]
    columns: Columns
    verdicts: Verdicts
    data: Mapping[str, JSON]
    target: Mapping[str, JSON]
    panels: Mapping[str, PanelRow]
    ground_truth: JSON
    response: JSON
    messages: JSON
    turns: JSON
    used: Container[str]
    sides: AnswerComparison | None = None
    calls: SideBySide = SideBySide()
    answered: dict[str, JSON] = {}
    shown: dict[str, JSON] = {}
    question: str = ""
    answer: str = ""


class DetailReader:
    """Builds the details of one run's rows; long values go to `shared`."""

    def __init__(self, run: ReportedRun, shared: Blocks) -> None:
        """Open readers of a row's values and of each panel; `shared` stores long texts once for all rows."""
        self._run, self._shared = run, shared
        # Rows of one kind have the same keys. Many different shapes of rows must not fill the memory.
        self._columns_of = lru_cache(1_000)(partial(columns_of, run.evaluators))
        folder = None if run.folder is None else run.folder.folder
        loaded, origins = plugins.load_by_name("panels"), plugins.discover("panels")
        self._panels = [(origin, plugins.call(origin, loaded[origin.name].reader, folder)) for origin in origins]

        # A column of the data may hold a run's answers; then it is no ground truth.
        columns = [name for name in ("ground_truth", "answer") if name not in run.table.answers]
        # Readers that follow the run's column mapping, with these columns as a fallback.
        self._ground_truth = value_reader(run.manifest, "ground_truth", columns)

        self._response = value_reader(run.manifest, "response", ("response",))
        self._tools = value_reader(run.manifest, "tool_definitions", TOOL_COLUMNS)

    def panels(self) -> dict[str, JSON]:
        """Return the data of each panel by name, without panels that have none. Call this after all rows."""
        panels = ((origin.name, plugins.call(origin, reader.data)) for origin, reader in self._panels)
        return {name: data for name, data in panels if data is not None}

    def read(self, number: int, row: Mapping[str, JSON]) -> Details:
        """Return the details of a row of the run; numbers count from 0."""
        details = self._read(number, row, None)
        others: list[JSON] = [*self._other_columns(details)][:_MOST_COLUMNS]
        details.shown = {**details.answered, "cause": _cause(row), "more": others}
        if details.turns is None:
            details.shown |= {"messages": shown_messages(details.messages), "expected": details.calls.expected}

        panel_question = next((panel.question for panel in details.panels.values() if panel.question), "")
        details.question = line(panel_question or _question(details), _MOST_QUESTION)
        details.answer = _answer(details)
        return details

    def answer(self, number: int, row: Mapping[str, JSON], other: Details) -> dict[str, JSON]:
        """Return the details of this run's answer and verdicts, without the question. Pass the row to the panels.

        `number` is the row's number in the reported run, from 0.
        `other` has the details of the same row in another run. Its comparison of calls is reused if the answers and
        verdicts are equal.
        """
        return self._read(number, row, other).answered

    def _read(self, number: int, row: Mapping[str, JSON], other: Details | None) -> Details:
        """Return a row's values by role and its answer's details; pass the row to the panels. Call this once a row.

        `other` has the same row's details in another run, if any; its comparison of calls is reused for equal answers.
        """
        columns = self._columns_of(tuple(row))
        data = {name: row[key] for name, key in columns.inputs}
        target = {name: row[key] for name, key in columns.target}

        # Column mappings of the run decide which columns these are.
        ground_truth = self._ground_truth(data, target)
        response = self._response(data, target)
        # A multi-turn target's answer is its `result`.
        response = target.get("result") if response is None else response

        # Every row goes to every panel, because a panel may draw all rows together.
        found = {by.name: plugins.call(by, each.add, number, row, returns=PanelRow | None) for by, each in self._panels}
        panels = {name: panel_row for name, panel_row in found.items() if panel_row is not None}

        question, verdicts = _conversation(data, ground_truth), columns.verdicts(row)
        details = Details(row, columns, verdicts, data, target, panels, ground_truth, response, *question)

        # A conversation is shown turn by turn, with its calls in their steps.
        if details.turns is None:
            judged = _judged_calls(self._run.evaluators, verdicts)
            text, tools = target.get("text"), self._tools(data, target)
            details.sides = AnswerComparison(ground_truth, response, text, judged, tools)
            if other is not None and details.sides == other.sides:
                details.calls = other.calls
            else:
                details.calls = side_by_side(details.sides)

        details.answered = _answer_detail(details)
        return details

    def _other_columns(self, details: Details) -> Iterator[JSON]:
        """Yield the columns that no other part of the details shows, as `[column, text]`.

        For a long text, which rows may share, `text` is its number among the shared texts.
        """
        result = None if details.turns is None else details.target.get("result")
        shown = [details.ground_truth, details.response, result]
        # By identity: another column may have an equal value. Numbers and the like have no identity of their own.
        shown_values = [value for value in shown if isinstance(value, (list, dict, str))]

        hidden = _SHOWN_ELSEWHERE.union(*(panel_row.columns for panel_row in details.panels.values()))
        # The id heads the details, so a column that repeats it is left out.
        own_id, used = details.row.get("row_id"), details.used
        columns = [(name, value) for name, value in details.data.items() if name not in used and value != own_id]
        columns += [(name, value) for name, value in details.target.items() if name not in hidden and value is not None]

        for name, value in columns:
            if not any(value is shown_value for shown_value in shown_values):
                yield [cut(name, 200), self._text_or_number(value)]

    def _text_or_number(self, value: JSON) -> JSON:
        """Return a value as text. Store a text of 600 characters or more among the shared texts; return its number."""
        if not isinstance(value, (str, list, dict)):
            return as_json(value)
        text = as_text(value)
        # The page unpacks a shared text only when a row that has it is opened.
        return text if len(text) < _LONG else self._shared.add_once(text)


def _answer_detail(details: Details) -> dict[str, JSON]:
    """Return the details that depend on the answer: verdicts, errors, panels, and calls or turns."""
    row, columns, target = details.row, details.columns, details.target
    # An evaluator without any key in the row has no verdict to show.
    pairs = zip(columns.evaluators, details.verdicts, strict=True)
    verdicts: list[JSON] = [_verdict(row, keys, verdict) for keys, verdict in pairs if keys.has_keys]

    shown: dict[str, JSON] = {"verdicts": verdicts, "errors": [*_errors(row, columns)]}
    if details.panels:
        shown["panels"] = {name: panel_row.shown for name, panel_row in details.panels.items()}

    if details.turns is None:
        if target.get("reasoning"):
            shown["reasoning"] = as_text(target["reasoning"])
        return {**shown, "actual": details.calls.actual, "pairs": details.calls.pairs}

    turns = shown_turns(details.turns, details.ground_truth, target.get("inference_log"), target.get("result"))
    failed = _failed_turn(row, columns, details.verdicts)
    # Differences of the states belong to the turn in which the conversation failed.
    if isinstance(failed, int) and 0 <= failed < len(turns):
        turns[failed]["apart"] = [*_state_differences(row, columns)]

    return shown | {"turns": [*turns], "failed_turn": failed}


def _conversation(data: Mapping[str, JSON], ground_truth: JSON) -> tuple[JSON, JSON, Container[str]]:
    """Return the question in a row: its messages, its turns, and the columns that hold them.

    Messages or turns are None if the row has none. Without both, a text in a column with a usual name, such as `query`,
    counts as the user's message. The ground truth of a conversation is a list of lists, too, so it is left out.
    """
    turns: dict[str, JSON] = {}
    messages: dict[str, JSON] = {}
    for name, value in data.items():
        if isinstance(value, list) and value is not ground_truth:
            if not turns and is_conversation(value) and _is_messages([*chain.from_iterable(value)]):
                turns[name] = [*value]
            elif not messages and _is_messages(value):
                messages[name] = value

    # No messages: the question is a text, shown as a user's message.
    question = next((name for name in _QUESTIONS if isinstance(data.get(name), str)), None)
    if question is not None and not (turns or messages):
        messages[question] = [{"role": "user", "content": data[question]}]
    return next(iter(messages.values()), None), next(iter(turns.values()), None), {*messages, *turns}


def _is_messages(value: Sequence[JSON]) -> bool:
    """Return whether a list holds only messages, i.e. objects with a role."""
    return bool(value) and all(isinstance(message, dict) and "role" in message for message in value[:_MOST_COLUMNS])


def _question(details: Details) -> str:
    """Return the question for the table: the last user message (in a conversation, of its first turn with messages).

    Without one, return the first text among the data's columns other than `id`, else an empty text.
    """
    # The first turn with messages: later ones depend on answers.
    turns = details.turns
    messages = next((turn for turn in turns if turn), None) if isinstance(turns, list) else details.messages

    for message in reversed(messages) if isinstance(messages, list) else ():
        if isinstance(message, dict) and message.get("role") == "user" and message.get("content"):
            return as_text(message["content"])

    return next((value for name, value in details.data.items() if isinstance(value, str) and name != "id"), "")


def _answer(details: Details) -> str:
    """Return an answer in one line for the table: its calls, else its text, else its number of turns."""
    # The second cell of a pair is the actual call.
    actual = [pair[1] for pair in details.calls.pairs if isinstance(pair, list) and pair[1]]
    if actual:
        return line("; ".join(_call_text(call) for call in actual[:5]), _MOST_QUESTION)

    text = details.calls.actual.get("text") or details.calls.actual.get("data")
    if isinstance(text, str):
        return line(text, _MOST_QUESTION)

    turns = details.answered.get("turns")
    return f"{len(turns)} turns" if isinstance(turns, list) else ""


def _call_text(call: JSON) -> str:
    """Return a text such as `f(a=1)` for a call in the form of the page: `[name, [[argument, value, mark], …]]`."""
    assert isinstance(call, list)
    function, arguments = call
    return f"{function}({', '.join(f'{name}={value}' for name, value, _ in arguments)})"  # type: ignore[union-attr,misc,str-unpack]


def _judged_calls(evaluators: Sequence[Evaluated], verdicts: Verdicts) -> JudgedCalls | None:
    """Return one evaluator's findings on a row's calls; None if no evaluator compares calls.

    Prefer an evaluator that compares arguments to one that compares names, and then one with faults to one without.
    """
    findings: list[JudgedCalls] = []
    for evaluator, verdict in zip(evaluators, verdicts, strict=True):
        faults = tuple([fault for fault in verdict.faults if fault.call is not None])
        # Without faults, a pass shows that the evaluator compared the calls and found them right.
        if faults or (evaluator.compares is not None and verdict.word == "pass"):
            findings.append(JudgedCalls(faults, evaluator.compares == "arguments", evaluator.alternatives))

    return min(findings, key=lambda finding: (not finding.arguments, not finding.faults), default=None)


def _verdict(row: Mapping[str, JSON], keys: EvaluatorKeys, verdict: RecordedVerdict) -> JSON:
    """Return a verdict as `[evaluator, result, score, threshold, reason, differences, [[name, text], …]]`."""
    differences, properties = row.get(keys.verdicts.differences), row.get(keys.verdicts.properties)

    others = [(name, row[key]) for name, key in keys.others]
    if isinstance(properties, dict):
        others += [(name, value) for name, value in properties.items() if name not in ("faults", "state_differences")]

    # Faults and state differences have places of their own in the details.
    more: list[JSON] = [[cut(name, 200), as_text(value)] for name, value in others if value is not None]

    return [
        keys.verdicts.name,
        verdict.word if verdict.word in ("pass", "fail", "not_applicable") else None,
        verdict.score if isinstance(verdict.score, (bool, int, float)) else None,
        verdict.threshold,
        cut(verdict.reason),
        [*_differences(differences)] if isinstance(differences, list) else None,
        more[:_MOST_COLUMNS],
    ]


def _differences(differences: Sequence[JSON]) -> Iterator[JSON]:
    """Yield `[where, expected, actual, kind]` for each difference that a judge lists."""
    for difference in differences[:_MOST_DIFFERENCES]:
        if isinstance(difference, dict):
            yield _texts(difference, ("where", "expected", "actual", "kind"))


def _texts(values: Mapping[str, JSON], keys: Sequence[str]) -> list[JSON]:
    """Return the values of these keys as texts; "" for a missing one."""
    return ["" if values.get(key) is None else as_text(values[key]) for key in keys]


def _cause(row: Mapping[str, JSON]) -> JSON:
    """Return `[title, side, advice, evidence]`, or None if the row has no cause."""
    code = row.get("cause")
    if not isinstance(code, str):
        return None
    cause = cause_named(code)
    return [cause.title, cause.side, cause.advice, cut(evidence_of(row))]


def _errors(row: Mapping[str, JSON], columns: Columns) -> Iterator[JSON]:
    """Yield `[stage, type, message, request id]` for each error of the row."""
    for stage, key in columns.errors:
        error = row[key]
        # Results of other programs have a text as an error.
        values = error if isinstance(error, dict) else {"message": error}
        yield [stage, *_texts(values, ("type", "message", "request_id"))]


def _failed_turn(row: Mapping[str, JSON], columns: Columns, verdicts: Verdicts) -> JSON:
    """Return the turn in which a conversation failed, counted from 0; None if no evaluator names a turn."""
    for verdict in verdicts:
        for fault in verdict.faults:
            if fault.turn is not None:
                return fault.turn - 1  # faults count from 1
    return next((turn for turn in _properties(row, columns, "turn") if isinstance(turn, int)), None)


def _state_differences(row: Mapping[str, JSON], columns: Columns) -> Iterator[JSON]:
    """Yield `[path, expected, found]` for each difference of the states after the failed turn."""
    for differences in _properties(row, columns, "state_differences"):
        for difference in differences[:_MOST_DIFFERENCES] if isinstance(differences, list) else ():
            if isinstance(difference, list) and len(difference) == 3:
                yield [cut(as_text(part), _LONGEST_DIFFERENCE) for part in difference]


def _properties(row: Mapping[str, JSON], columns: Columns, name: str) -> Iterator[JSON]:
    """Yield this property's value, or None, for each evaluator that has properties."""
    for keys in columns.evaluators:
        properties = row.get(keys.verdicts.properties)
        if isinstance(properties, dict):
            yield properties.get(name)
