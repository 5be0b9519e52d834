"""One row as a page shows it when it is opened: everything as text, in bounded amounts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tunecheck.jsontext import JSON, dumps
from tunecheck.report.blocks import Shared
from tunecheck.report.comparing import Compared, compare
from tunecheck.report.reading import Columns, ReportedRun, VerdictColumns
from tunecheck.report.texts import as_json, as_text, cut, line
from tunecheck.report.turns import is_conversation, shown_messages, shown_turns

__all__ = ["DetailReader", "Details"]

_LONG = 400  # characters from which on a value is kept apart, once for all rows that have it
_MOST_COLUMNS = 500
_MOST_QUESTION = 200
_SHOWN_ELSEWHERE = frozenset({"response", "text", "tool_calls", "inference_log"})
_QUESTIONS = ("query", "question", "prompt", "input")


@dataclass(slots=True)
class Details:
    """What is shown of an opened row (`shown`), and what of it the table and the charts are made from."""

    shown: dict[str, JSON]
    compared: Compared
    question: str = ""
    answer: str = ""
    several_turns: bool = False


@dataclass(slots=True)
class _Conversation:
    """The columns that hold what was asked."""

    messages: JSON = None
    turns: JSON = None
    used: set[str] = field(default_factory=set)


class DetailReader:
    """Reads the rows of one run; long values go to `shared`."""

    def __init__(self, run: ReportedRun, shared: Shared) -> None:
        self._run = run
        self._shared = shared
        self._policy = run.policy
        self._checking = [at for at, each in enumerate(run.evaluators) if each.checks_arguments]

    def read(self, row: Mapping[str, JSON], columns: Columns) -> Details:
        """A row of the run."""
        data = {name: row[key] for name, key in columns.inputs}
        target = {name: row[key] for name, key in columns.target}
        ground_truth = self._run.ground_truth(data, target)
        response = self._run.response(data, target)
        response = target.get("result") if response is None else response
        asked = _conversation(data, ground_truth)
        conversation = asked.turns is not None
        compared = (
            Compared()
            if conversation
            else compare(
                ground_truth,
                response,
                target.get("text"),
                self._run.tools(data, target),
                self._policy,
                known_equal=self._known_equal(row, columns),
            )
        )
        shown: dict[str, JSON] = {"verdicts": [*self._verdicts(row, columns)], "errors": [*_errors(row, columns)]}
        if conversation:
            log, result = target.get("inference_log"), target.get("result")
            shown["turns"] = shown_turns(asked.turns, ground_truth, log, result)
            shown["failed_turn"] = _failed_turn(row, columns)
        else:
            shown["messages"] = shown_messages(asked.messages)
            shown |= {"expected": compared.expected, "actual": compared.actual, "pairs": compared.pairs}
        seen = [ground_truth, response, *([target.get("result")] if conversation else [])]
        shown["more"] = [*self._more(data, target, row.get("row_id"), asked.used, seen)][:_MOST_COLUMNS]
        return Details(shown, compared, _question(asked, data), _answer(compared, shown), conversation)

    def _known_equal(self, row: Mapping[str, JSON], columns: Columns) -> bool:
        """Whether an evaluator that looks at arguments passed the row."""
        results = (columns.verdicts[at].result for at in self._checking)
        return any(key is not None and row[key] == "pass" for key in results)

    def _verdicts(self, row: Mapping[str, JSON], columns: Columns) -> Iterator[JSON]:
        for evaluator, own in zip(self._run.evaluators, columns.verdicts, strict=True):
            if own.any:
                yield _verdict(evaluator.name, row, own)

    def _more(
        self, data: Mapping[str, JSON], target: Mapping[str, JSON], row_id: JSON, used: set[str], shown: Sequence[JSON]
    ) -> Iterator[JSON]:
        """The columns that are shown nowhere else, as `[column, text]` or `[column, number of a shared text]`."""
        elsewhere = [value for value in shown if isinstance(value, (list, dict, str))]
        for name, value in data.items():
            if name not in used and value != row_id and not any(value is other for other in elsewhere):
                yield [cut(name, 200), self._kept(value)]
        for name, value in target.items():
            if name not in _SHOWN_ELSEWHERE and value is not None and not any(value is other for other in elsewhere):
                yield [cut(name, 200), self._kept(value)]

    def _kept(self, value: JSON) -> JSON:
        if isinstance(value, (bool, int, float)) or value is None:
            return as_json(value)
        if isinstance(value, str):
            return value if len(value) < _LONG else self._shared.number(_bytes(value), lambda: cut(value))
        key = _json_key(value)
        return as_text(value) if len(key) < _LONG else self._shared.number(key, lambda: as_text(value))


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _json_key(value: JSON) -> bytes:
    try:
        return dumps(value)
    except (TypeError, ValueError, RecursionError):
        return b"too deep"


def _conversation(data: Mapping[str, JSON], ground_truth: JSON) -> _Conversation:
    """What was asked: turns, messages, or one text; the first column that holds such."""
    found = _Conversation()
    for name, value in data.items():
        if value is ground_truth or not isinstance(value, list) or not value:
            continue
        if is_conversation(value) and found.turns is None and _is_messages([m for turn in value for m in turn]):  # type: ignore[union-attr]
            found.turns = value
            found.used.add(name)
        elif _is_messages(value) and found.messages is None:
            found.messages = value
            found.used.add(name)
    if found.turns is None and found.messages is None:
        asked = next((name for name in _QUESTIONS if isinstance(data.get(name), str)), None)
        if asked is not None:
            found.messages = [{"role": "user", "content": data[asked]}]
            found.used.add(asked)
    return found


def _is_messages(value: Sequence[JSON]) -> bool:
    return bool(value) and all(isinstance(each, dict) and "role" in each for each in value[:_MOST_COLUMNS])


def _question(asked: _Conversation, data: Mapping[str, JSON]) -> str:
    """What a table shows of a row: the last thing that the user said; the first of a conversation."""
    messages = asked.messages
    if isinstance(asked.turns, list):
        messages = next((turn for turn in asked.turns if turn), None)
    for message in reversed(messages) if isinstance(messages, list) else ():
        if isinstance(message, dict) and message.get("role") == "user" and message.get("content"):
            return line(as_text(message["content"]), _MOST_QUESTION)
    texts = (value for name, value in data.items() if isinstance(value, str) and name != "id")
    return line(next(texts, ""), _MOST_QUESTION)


def _answer(compared: Compared, shown: Mapping[str, JSON]) -> str:
    """What can be searched of the answer: the actual calls, else its text."""
    calls = [pair[1] for pair in compared.pairs if isinstance(pair, list) and pair[1]]
    if calls:
        return line("; ".join(_call_text(call) for call in calls[:5]), _MOST_QUESTION)
    text = compared.actual.get("text") or compared.actual.get("data")
    if isinstance(text, str):
        return line(text, _MOST_QUESTION)
    turns = shown.get("turns")
    return f"{len(turns)} turns" if isinstance(turns, list) else ""


def _call_text(call: JSON) -> str:
    assert isinstance(call, list)
    name, arguments = call
    return f"{name}({', '.join(f'{one[0]}={one[1]}' for one in arguments)})"  # type: ignore[union-attr,index]


def _verdict(name: str, row: Mapping[str, JSON], own: VerdictColumns) -> JSON:
    """`[evaluator, result, score, threshold, reason, differences, [[key, text], …]]`."""
    result, score, threshold, reason, differences, properties = (
        None if key is None else row[key]
        for key in (own.result, own.score, own.threshold, own.reason, own.differences, own.properties)
    )
    others = [[cut(key, 200), as_text(row[column])] for key, column in own.others if row[column] is not None]
    if isinstance(properties, dict):
        others += [[cut(key, 200), as_text(value)] for key, value in properties.items() if value is not None]
    return [
        name,
        result[:40] if isinstance(result, str) else None,
        score if isinstance(score, (bool, int, float)) else None,
        threshold if isinstance(threshold, (int, float)) else None,
        as_text(reason) if reason is not None else "",
        [*_differences(differences)] if isinstance(differences, list) else None,
        others[:_MOST_COLUMNS],  # type: ignore[list-item]
    ]


def _differences(items: Sequence[JSON]) -> Iterator[JSON]:
    for item in items[:50]:
        if isinstance(item, dict):
            yield [as_text(item.get(key)) if item.get(key) is not None else "" for key in _DIFFERENCE_KEYS]


_DIFFERENCE_KEYS = ("where", "expected", "actual", "kind")


def _errors(row: Mapping[str, JSON], columns: Columns) -> Iterator[JSON]:
    for stage, key in columns.errors:
        error = row[key]
        values = error if isinstance(error, dict) else {"message": error}
        yield [stage, *(as_text(values[name]) if values.get(name) is not None else "" for name in _ERROR_KEYS)]


_ERROR_KEYS = ("type", "message", "request_id")


def _failed_turn(row: Mapping[str, JSON], columns: Columns) -> JSON:
    """The turn in which a conversation went wrong, counted from 0, where an evaluator says so."""
    for own in columns.verdicts:
        properties = row[own.properties] if own.properties is not None else None
        if isinstance(properties, dict) and isinstance(properties.get("turn"), int):
            return properties["turn"]
    return None
