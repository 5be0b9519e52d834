"""Calls without a mark, which count only with the name of a tool: JSON, `f{…}`, `[f(a=1)]`, lines of calls, ReAct.

By default, servers remove special tokens from a model's answer. Most formats without their tokens look like one of
these. `_texts.py` calls `take_bare` if the row's tools are known and no clearer form of a call is found.

`take_bare` tries these forms in this order, for a tool `f`:

1. The whole text stands in backticks: `f(a=1)`. Its content is read like any text.
2. The whole text (also one in a code block), or a code block at its end, contains only calls: f(a=1); f(a=2)
3. A call stands inside other text (`_CANDIDATE`): [f(a=1)], {"name": "f", "arguments": {}}, f{"a": 1}, or ReAct's
   Action: f and Action Input: {"a": 1} on the next line. A list or an object inside a sentence is only mentioned.
"""

import re

from tunecheck._json import JSON
from tunecheck.calls._model import NAME, UnreadableError, decode_at, skip_space
from tunecheck.formats._collector import NAMESPACE, CallCollector
from tunecheck.formats._families import Marks, take_marked
from tunecheck.formats._json_shapes import ReadText, is_definition, take_value
from tunecheck.formats._profiles import past
from tunecheck.formats._shapes import BEFORE, CALL, LABEL, CallScanner, value_at

# -- calls inside other text

_MOST_FAILURES = 30  # each failed attempt may scan the rest of the text

# the beginning of a possible call; each alternative has its own groups
_CANDIDATE = re.compile(
    # a tool's result, which is skipped
    rf"(?P<result><tool_response>(?s:.*?)(?:</tool_response>|\Z))"
    # ReAct: `Action: f`, then `Action Input:` before the arguments
    rf"|\bAction[ \t]*:[ \t]*(?P<action>[^\s()]{{1,160}}+)[ \t]*+\n\s*+Action[ _]Input[ \t]*:\s*+(?:```(?:json)?\s*+)?"
    # `[f(`
    rf"|(?<!`)(?P<list>\[)\s*+(?P<listed>{NAME})\s*+\("
    # an object, or a list of objects, whose first key has quotation marks
    rf"|(?P<json>[\[{{])(?=\s*+(?:[\[{{]\s*+)?(?:[\[{{]\s*+)?[\"'])"
    # a name before an object: `f{"a": 1}`, also with a line break or the opening of a code fence between them
    rf"|(?<![\w./-])(?P<named>[\w.-]{{1,160}}+)(?P<index>:\d*+)?[ \t]*+\n{{0,2}}"
    r"(?:```(?:json|python)?\s*+|<\|content\|>)?"
    r"(?=[ \t]*+(?:\{\s*+[\"'}]|tool_call\())"
)
_FENCE_END = re.compile(r"\s*+```")
_JSON_NAME = re.compile(
    r"[\[{\s]*+[\"'](?:name|tool_name|tool|function)[\"']\s*:\s*[\"'](?P<name>[^\"'\n]{1,160})(?:[\"']\s*(?:,|\Z)|\Z)"
)
"""The name of a call at the beginning of its JSON, which may be cut off: `{"name": "f",` or `[{"tool": "get_ti`."""
# the first argument of a call, or the end of an empty one: `city=`, `"city": "`, `'Paris'`, `3`, `)`; not `the city)`
_ARGUMENTS_START = re.compile(rf"\s*+(?:[\"']?{NAME}[\"']?\s*+(?:=(?!=)|:\s*+[\"'\d\[{{])|[\"'\d\[{{)]|\Z)")
# a word before a value and one after it, perhaps with quotation marks between
_WORD_BEFORE = re.compile(r"[^\W_] [\"']?\Z")
_WORD_AFTER = re.compile(r"[\"']?,?[ \t]+[^\W\d_]")
_ID_LENGTH = 9  # Mistral's ids
_PREFIX = re.compile(r"functions\.|function|assistant|commentary|[A-Za-z0-9]{9}")


class _NoCallError(Exception):
    """No call begins here. Continue at `position`. `costly`: the attempt read much text."""

    def __init__(self, position: int, *, costly: bool = False) -> None:
        super().__init__()
        self.position = position
        self.costly = costly


def take_bare(body: str, limit: int, collector: CallCollector, read_text: ReadText, marks: Marks) -> bool:
    """Collect the calls without marks in a text, and the rest of the text. Return False if there is no call.

    The first call must begin before `limit`, where the first mark is. Calls after marks in the rest are collected, too.

    Raises:
        UnreadableError: a tool is called by name, but its arguments cannot be read; or a mark has no readable call.
    """
    # A text of nothing but calls comes first: on lines (unless the first mark is a tag), or completely in backticks.
    if (not body.startswith("<", limit) and _take_lines(body, collector)) or _take_quoted(body, collector, read_text):
        return True

    position = 0  # where the search continues
    text_start = 0  # end of the last call
    failures = 0
    while failures < _MOST_FAILURES and (candidate := _CANDIDATE.search(body, position)):
        if candidate.start() >= limit and not collector.calls:
            break

        attempt = collector.empty_copy()
        attempt.call_start = collector.call_start = candidate.start()
        try:
            position = _take_candidate(body, candidate, attempt, read_text)
        except _NoCallError as error:
            failures += int(error.costly)  # attempts that end at once do not count
            position = max(candidate.start() + 1, error.position)
            continue

        if _is_mentioned(body, candidate, position):
            continue

        collector.add_text(body[text_start : attempt.call_start])
        collector.spans.append((attempt.call_start, position))
        collector.add_reading(attempt.reading())
        text_start = position
        if candidate["action"]:  # the rest is the model's own guess of the tool's result
            collector.add_text(body[text_start:])
            return True

    if not collector.calls:
        return False
    if not take_marked(body[text_start:], collector, marks):
        collector.add_text(body[text_start:])
    return True


def _is_mentioned(body: str, candidate: re.Match[str], end: int) -> bool:
    """Return whether the candidate, a list or object up to `end`, is in a sentence: "you could say [f(a=1)] if …"."""
    if candidate["list"] is None and candidate["json"] is None:
        return False

    start = candidate.start()
    return bool(_WORD_BEFORE.search(body, max(0, start - 3), start) and _WORD_AFTER.match(body, end))


def _take_candidate(body: str, candidate: re.Match[str], attempt: CallCollector, read_text: ReadText) -> int:
    """Add the call that starts at a candidate to the collector `attempt`, and return the position after it.

    Raises:
        _NoCallError: the candidate is text, data or a call of an unknown tool.
        UnreadableError: a tool is called by name, but its arguments cannot be read.
    """
    if candidate["result"]:
        raise _NoCallError(candidate.end())
    if candidate["list"]:
        return _take_list(body, candidate, attempt)
    if candidate["json"]:
        return _take_json(body, candidate.start(), attempt, read_text)
    return _take_named(body, candidate, attempt)


def _take_list(body: str, candidate: re.Match[str], attempt: CallCollector) -> int:
    """Add the calls of a list, `[f(a=1), g()]`, to the collector `attempt`, and return the end of the list.

    Raises:
        _NoCallError: the list is a part of a sentence, or its first name is not a tool.
        UnreadableError: a tool is called by name, but the list cannot be read.
    """
    if not attempt.knows(candidate["listed"]) or not _ARGUMENTS_START.match(body, candidate.end()):
        raise _NoCallError(candidate.end())

    attempt.format = "bfcl_text"
    scanner = CallScanner(body, candidate.start(), attempt)
    try:
        calls = scanner.calls()
    except UnreadableError:
        # A list at the beginning of a line is meant as a call; a list in a sentence only if it is cut off.
        begins_line = not body[: candidate.start()].rpartition("\n")[2].strip()
        if begins_line or body.find("]", candidate.end()) < 0:
            raise
        raise _NoCallError(candidate.end(), costly=True) from None

    for call in calls:
        attempt.add("bfcl_text", call.name, call.arguments)
    return scanner.position


def _take_json(body: str, start: int, attempt: CallCollector, read_text: ReadText) -> int:
    """Add the calls in a JSON object or list to the collector `attempt`, and return its end.

    Raises:
        _NoCallError: the value is text, data or a call of an unknown tool.
        UnreadableError: a tool is called by name, or the value has a shape that only calls have, but cannot be read.
    """
    try:
        value, end = value_at(body, start, "it")  # "it" is never shown, because a bracket is here
    except UnreadableError:
        named = _JSON_NAME.match(body, start)
        if named and attempt.knows(named["name"]):
            raise
        raise _NoCallError(start + 1, costly=True) from None
    try:
        has_calls = take_value(value, attempt, read_text)
    except UnreadableError:
        if not attempt.ambiguous or attempt.names_tool(body[start:end]):
            raise
        raise _NoCallError(end) from None

    if not has_calls or not attempt.calls or not all(attempt.knows(call.name) for call in attempt.calls):
        raise _NoCallError(end)
    return end


def _take_named(body: str, candidate: re.Match[str], attempt: CallCollector) -> int:
    """Add the call of a name with arguments to the collector `attempt`, and return its end.

    The candidate's group `action` is the name in ReAct's `Action: f`, its group `named` the one in `f{"a": 1}`.

    Raises:
        _NoCallError: the name is not a tool, or the arguments define a tool.
        UnreadableError: the arguments cannot be read.
    """
    tool = _find_tool(candidate["action"] or candidate["named"], attempt)
    if tool is None:
        raise _NoCallError(candidate.end())

    name, start = tool
    if candidate["named"]:
        attempt.call_start = candidate.start() + start

    arguments: JSON = None
    end = skip_space(body, candidate.end())
    if body.startswith("tool_call(", end):  # ChatGLM3 writes arguments in Python's syntax
        scanner = CallScanner(body, end, attempt)
        arguments, end = scanner.call().arguments, scanner.position
    elif candidate["named"] or body.startswith("{", end):
        arguments, end = decode_at(body, end)
        if is_definition(arguments):
            raise _NoCallError(end)
    elif body[end:].strip():
        raise UnreadableError(f"the action input of {name!r} must be a JSON object")

    attempt.add("react" if candidate["action"] else "named", name, arguments)
    return past(_FENCE_END, body, end) if "```" in candidate[0] else end


def _find_tool(word: str, attempt: CallCollector) -> tuple[str, int] | None:
    """Return the name of one of the collector's tools in a word, and where the call begins in it; None without one.

    Before and after the tool's name, the word may contain what is left of removed tokens: the end of a sentence
    (`Sure.f`), an id of nine characters (Mistral), a word of the protocol (`functions.f`, `commentaryf`).
    """
    if attempt.knows(word) and not word.startswith(NAMESPACE):
        return word, 0

    starts = (0, *(dot.end() for dot in re.finditer(r"\.", word)))
    for start in starts:
        for name_start in (past(_PREFIX, word, start), start):
            rest = word[name_start:]
            for name in (rest, rest[:-_ID_LENGTH], rest.removesuffix("commentary")):
                if name and attempt.knows(name):
                    return name, start
    return None


# -- texts of nothing but calls

# a whole text in backticks: "`f(a=1)`"
_QUOTED = re.compile(r"(?P<mark>`{1,3})(?P<text>[^`]++)(?P=mark)\s*+")
# the opening of a code block: "```python\n"
_FENCE = re.compile(r"```[\w+-]*+[ \t]*+\r?\n")
# `Output:` or `**Tool call:**`, or the language of a code block that has lost its backticks
_LABEL = re.compile(rf"{LABEL}|tool_code\n", re.IGNORECASE)
# `f(`, also with `print(` before it
_CALL_START = re.compile(CALL)
_DECORATION = re.compile(rf"(?:[\s;,`\[\]()]++|(?:#|//)[^\n]*+|<[/|]?(?!tool_response)\w+\|?>|and\b|{BEFORE})*+")
"""Text around calls that is not prose: list marks, comments, tags, brackets, and the name of a result.

It matches `; and # first` and `<tool_call>\n1. result = `.
"""


def _take_quoted(body: str, collector: CallCollector, read_text: ReadText) -> bool:
    """Read a text that is completely in backticks. Return False if it contains no readable call.

    Raises:
        UnreadableError: some calls can be read, but another one cannot.
    """
    quoted = _QUOTED.fullmatch(body)
    reading = read_text(quoted["text"]) if quoted else None
    if not reading or not reading.calls:
        return False
    collector.spans.append((0, len(body)))
    collector.add_reading(reading)
    return True


def _take_lines(body: str, collector: CallCollector) -> bool:
    """Read lines like `f(a=1)`, if the whole text (also one in a fence) or a fence at its end has only calls of tools.

    After other text, the fence must begin with a call with a named argument. Return False for any other text, such as
    text after a fence.

    Raises:
        UnreadableError: a whole text that begins with a call of a tool cannot be read.
    """
    before, lines = _split_fence(body)
    first = _CALL_START.match(lines, past(_DECORATION, lines, past(_LABEL, lines, 0)))
    cut_off = lines.startswith("[") and lines.endswith(",")
    if not first or not collector.knows(first["called"]) or cut_off:
        return False

    begins_like_call = not first.start() and not first["wrapped"] and CallScanner.keyword.match(lines, first.end())
    # After other text, a fence is an example of code, unless it begins with a call with a named argument.
    if before and not begins_like_call:
        return False

    attempt = collector.empty_copy()
    scanner = CallScanner(lines, first.start(), attempt)
    try:
        while scanner.position < len(lines):
            call = scanner.call()
            if not attempt.knows(call.name):
                return False
            attempt.add("bfcl_text", call.name, call.arguments)
            scanner.position = past(_DECORATION, lines, scanner.position)
    except UnreadableError:
        if before or attempt.calls or not _ARGUMENTS_START.match(lines, first.end()):
            return False
        collector.format = "bfcl_text"
        raise

    collector.spans.append((len(before), len(body)))
    collector.add_text(before)
    collector.add_reading(attempt.reading())
    return True


def _split_fence(body: str) -> tuple[str, str]:
    """Return the text before a code fence and the text after its opening; without a fence, an empty text and the body.

    The body must begin with the fence, or end with it and have no other. A closing mark at the end is removed.
    """
    ends_with_only_fence = body.count("```") == 2 and body.endswith("```")
    fence = _FENCE.search(body) if ends_with_only_fence else _FENCE.match(body)
    if not fence:
        return "", body
    return body[: fence.start()], body[fence.end() :].removesuffix("```")
