"""Calls without a mark, which count only with the name of a tool: JSON, `f{…}`, `[f(a=1)]`, lines of calls, ReAct.

By default, servers remove special tokens from a model's answer. Most formats without their tokens look like one of
these.
"""

import re

from tunecheck._json import JSON
from tunecheck.calls._python_text import NAME
from tunecheck.calls._strict_json import UnreadableError, decode_at, skip_space
from tunecheck.formats._call_text import BEFORE, CALL, LABEL, CallScanner
from tunecheck.formats._collector import NAMESPACE, CallCollector
from tunecheck.formats._json_shapes import take_value
from tunecheck.formats._marks import Marks, take_marked
from tunecheck.formats._shapes import value_at
from tunecheck.formats._spellings import ReadText, is_definition

_MOST_FAILURES = 30  # each failed attempt may scan the rest of the text

_CANDIDATE = re.compile(
    rf"(?P<result><tool_response>(?s:.*?)(?:</tool_response>|\Z))"
    rf"|\bAction[ \t]*:[ \t]*(?P<action>[^\s()]{{1,160}}+)[ \t]*+\n\s*+Action[ _]Input[ \t]*:\s*+(?:```(?:json)?\s*+)?"
    rf"|(?<!`)(?P<list>\[)\s*+(?P<listed>{NAME})\s*+\("
    rf"|(?P<json>[\[{{])(?=\s*+(?:[\[{{]\s*+)?(?:[\[{{]\s*+)?[\"'])"
    rf"|(?<![\w./-])(?P<named>[\w.-]{{1,160}}+)(?P<index>:\d*+)?[ \t]*+\n{{0,2}}"
    r"(?:```(?:json|python)?\s*+|<\|content\|>)?"
    r"(?=[ \t]*+(?:\{\s*+[\"'}]|tool_call\())"
)
_CLOSING = re.compile(r"\s*+```")
_LABEL = re.compile(rf"{LABEL}|tool_code\n", re.IGNORECASE)
_BESIDE = re.compile(rf"(?:[\s;,`\[\]()]++|(?:#|//)[^\n]*+|<[/|]?(?!tool_response)\w+\|?>|and\b|{BEFORE})*+")
"""Text around calls that is not prose: list marks, comments, tags, brackets, and the name of a result."""
_FENCE = re.compile(r"```[\w+-]*+[ \t]*+\r?\n")
_ANNOUNCED = re.compile(
    r"[\[{\s]*+[\"'](?:name|tool_name|tool|function)[\"']\s*:\s*[\"']([^\"'\n]{1,160})(?:[\"']\s*(?:,|\Z)|\Z)"
)
_LIST_START = re.compile(rf"\s*+(?:[\"']?{NAME}[\"']?\s*+(?:=(?!=)|:\s*+[\"'\d\[{{])|[\"'\d\[{{)]|\Z)")
_GOES_ON = re.compile(r"[\"']?,?[ \t]+[^\W\d_]")
_SAID = re.compile(r"[^\W_] [\"']?\Z")
_QUOTED = re.compile(r"(`{1,3})([^`]++)\1\s*+")
_CALL_START = re.compile(CALL)
_ID_LENGTH = 9  # Mistral's ids
_PREFIX = re.compile(r"functions\.|function|assistant|commentary|[A-Za-z0-9]{9}")


def take_bare(body: str, limit: int, collector: CallCollector, read_text: ReadText, marks: Marks) -> bool:
    """Collect the calls without marks in a text, and the rest of the text. Return False if there is no call.

    The first call must begin before `limit`, where the first mark is.

    Raises:
        UnreadableError: a tool is called by name, but its arguments cannot be read.
    """
    if _take_quoted(body, collector, read_text) or (not body.startswith("<", limit) and _take_lines(body, collector)):
        return True
    position, said, failures = 0, 0, 0
    while failures < _MOST_FAILURES and (candidate := _CANDIDATE.search(body, position)):
        if candidate.start() >= limit and not collector.calls:
            break
        attempt = collector.fresh()
        attempt.begun = collector.begun = candidate.start()
        try:
            end = _take_candidate(body, candidate, attempt, read_text)
        except _NoCallError as error:
            failures += error.costly
            position = max(candidate.start() + 1, error.position)
            continue
        if _is_mentioned(body, candidate, end):
            position = end
            continue
        collector.add_text(body[said : attempt.begun])
        collector.spans.append((attempt.begun, end))
        collector.add_reading(attempt.reading())
        said = position = end
        if candidate["action"]:  # the rest is the model's own guess of the tool's result
            collector.add_text(body[said:])
            return True
    if not collector.calls:
        return False
    if not take_marked(body[said:], collector, marks):
        collector.add_text(body[said:])
    return True


def _is_mentioned(body: str, candidate: re.Match[str], end: int) -> bool:
    """Return whether a value is in the middle of a sentence: "you could say [f(a=1)] if you want"."""
    start = candidate.start()
    named = candidate["list"] is None and candidate["json"] is None
    return not named and bool(_SAID.search(body, max(0, start - 3), start) and _GOES_ON.match(body, end))


class _NoCallError(Exception):
    """No call begins here. Continue at `position`. `costly`: the attempt read much text."""

    def __init__(self, position: int, *, costly: bool = False) -> None:
        super().__init__()
        self.position = position
        self.costly = costly


def _take_candidate(body: str, candidate: re.Match[str], attempt: CallCollector, read_text: ReadText) -> int:
    """Add the call at a candidate to the collector, and return its end."""
    if candidate["list"]:
        return _take_list(body, candidate, attempt)
    if candidate["json"]:
        return _take_json(body, candidate.start(), attempt, read_text)
    spelling = candidate["action"] or candidate["named"]
    tool = _tool_in(spelling, attempt) if spelling else None
    if tool is None:
        raise _NoCallError(candidate.end())
    name, first = tool
    if candidate["named"]:
        attempt.begun = candidate.start() + first
    arguments: JSON = None
    end = candidate.end()
    end = skip_space(body, end)
    if body.startswith("tool_call(", end):  # ChatGLM3 writes arguments in Python's syntax
        scanner = CallScanner(body, end, attempt)
        arguments, end = scanner.call().arguments, scanner.position
    elif candidate["named"] or body.startswith("{", end):
        arguments, end = decode_at(body, end)
        if is_definition(arguments):
            raise _NoCallError(end)
    elif body[end:].strip():
        raise UnreadableError(f"the input of {name!r} is not an object")
    attempt.add("react" if candidate["action"] else "named", name, arguments)
    closing = _CLOSING.match(body, end) if "```" in candidate[0] else None
    return closing.end() if closing else end


def _tool_in(spelling: str, attempt: CallCollector) -> tuple[str, int] | None:
    """Return the tool of this name and where its name begins, or None.

    Remains of removed tokens around the name are ignored: the end of a sentence, an id, a word of the protocol.
    """
    if attempt.knows(spelling) and not spelling.startswith(NAMESPACE):
        return spelling, 0
    starts = [0, *(match.end() for match in re.finditer(r"\.", spelling))]
    for start in starts:
        prefix = _PREFIX.match(spelling, start)
        for first in (prefix.end() if prefix else start, start):
            rest = spelling[first:]
            shorter = (rest, rest[:-_ID_LENGTH], rest.removesuffix("commentary"))
            name = next((one for one in shorter if one and attempt.knows(one)), None)
            if name:
                return name, start
    return None


def _take_list(body: str, candidate: re.Match[str], attempt: CallCollector) -> int:
    if not attempt.knows(candidate["listed"]) or not _LIST_START.match(body, candidate.end()):
        raise _NoCallError(candidate.end())
    attempt.format = "bfcl_text"
    scanner = CallScanner(body, candidate.start(), attempt)
    try:
        calls = scanner.calls()
    except UnreadableError:
        begins_line = not body[: candidate.start()].rpartition("\n")[2].strip()
        if begins_line or body.find("]", candidate.end()) < 0:
            raise
        raise _NoCallError(candidate.end(), costly=True) from None
    for call in calls:
        attempt.add("bfcl_text", call.name, call.arguments)
    return scanner.position


def _take_json(body: str, start: int, attempt: CallCollector, read_text: ReadText) -> int:
    announced = _ANNOUNCED.match(body, start)
    try:
        value, end = value_at(body, start, "it")
    except UnreadableError:
        if announced and attempt.knows(announced[1]):
            raise
        raise _NoCallError(start + 1, costly=True) from None
    try:
        taken = take_value(value, attempt, read_text)
    except UnreadableError:
        if not attempt.ambiguous or attempt.names_tool(body[start:end]):
            raise
        raise _NoCallError(end) from None
    if not taken or not attempt.calls or not all(attempt.knows(call.name) for call in attempt.calls):
        raise _NoCallError(end)
    return end


def _take_quoted(body: str, collector: CallCollector, read_text: ReadText) -> bool:
    """Read a text that is completely in backticks."""
    quoted = _QUOTED.fullmatch(body)
    if not quoted or not (reading := read_text(quoted[2])).calls:
        return False
    collector.spans.append((0, len(body)))
    collector.add_reading(reading)
    return True


def _skip_decoration(text: str, position: int) -> int:
    beside = _BESIDE.match(text, position)
    return beside.end() if beside else position


def _take_lines(body: str, collector: CallCollector) -> bool:
    """Read lines like `f(a=1)`, if the whole text or a code fence at its start or end contains only calls of tools."""
    fence = _FENCE.search(body) if body.count("```") == 2 and body.endswith("```") else _FENCE.match(body)
    before = body[: fence.start()] if fence else ""
    text = body[fence.end() :].removesuffix("```") if fence else body
    label = _LABEL.match(text)
    first = _CALL_START.match(text, _skip_decoration(text, label.end() if label else 0))
    cut_off = text.startswith("[") and text.endswith(",")
    if not first or not collector.knows(first["called"]) or cut_off:
        return False
    if before and (first.start() or first["wrapped"] or not CallScanner.keyword.match(text, first.end())):
        return False  # an example of code
    attempt = collector.fresh()
    scanner = CallScanner(text, first.start(), attempt)
    try:
        while scanner.position < len(text):
            call = scanner.call()
            if not attempt.knows(call.name):
                return False
            attempt.add("bfcl_text", call.name, call.arguments)
            scanner.position = _skip_decoration(text, scanner.position)
    except UnreadableError:
        if before or attempt.calls or not _LIST_START.match(text, first.end()):
            return False
        collector.format = "bfcl_text"
        raise
    collector.spans.append((len(before), len(body)))
    collector.add_text(before)
    collector.add_reading(attempt.reading())
    return True
