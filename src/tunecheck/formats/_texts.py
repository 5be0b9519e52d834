"""Read the calls of one text by its shape, by the marks of model families, or by the names of tools.

`_reading.py` passes every text that may contain a call or reasoning to a `TextReader`. The methods try the forms of a
call in the order that the docstring of `_reading.py` lists.
"""

import re
from contextlib import suppress
from itertools import islice

import msgspec

from tunecheck import _json as jsontext
from tunecheck.calls._model import (
    MAX_CHARACTERS,
    NAME,
    CutOffError,
    Reading,
    ThoughtCallError,
    UnreadableError,
    check_size,
    decode_at,
    find_close,
    place,
    quoted,
)
from tunecheck.calls._python_text import literal_at
from tunecheck.calls._schemas import ToolDefinitions
from tunecheck.formats._bare import take_bare
from tunecheck.formats._collector import CallCollector, failed_reading, without_end_marks
from tunecheck.formats._families import ANSWERS, Marks, known_marks, take_marked, take_thoughts
from tunecheck.formats._json_shapes import NAMES, take_value
from tunecheck.formats._profiles import Profile, past
from tunecheck.formats._shapes import BEFORE, LABEL, CallScanner

# what may stand between two values: `;`, `,`, "and", or a mark
_BEFORE_NEXT_VALUE = re.compile(r"\s*+(?:[;,]|and\b|<function_call>)?\s*+(?=[{\[])")
# the opening of a code block up to its content: "```json\n"
_FENCE = re.compile(r"```[ \t]*+(?P<language>[\w+-]*+)[ \t]*+\r?\n\s*+")
# the closing of a code block with nothing after it on its line: "\n```"
_FENCE_END = re.compile(r"\s*+```[ \t]*+(?=\r?\n|\Z)")
# languages of code blocks in which models write calls; a block of any other language is an example
_LANGUAGES_OF_CALLS = frozenset({"", "json", "python", "py", "tool_code", "tool_call", "tool_calls", "text"})
# `{"tool_uses":`
_TOOL_USES = re.compile(r"\{\s*[\"']tool_uses[\"']\s*:")


class TextReader(msgspec.Struct, frozen=True):
    """Reads the texts of one row, with its tools if they are known, or with one profile if the user chose one."""

    tools: ToolDefinitions | None = None
    profile: Profile | None = None

    def read(self, text: str) -> Reading:
        """Return the calls of a text. If there is no call and tools are known, search again without Markdown's escapes.

        The second reading is returned if it has calls or a problem. Never raises.
        """
        reading = self._read(text)
        if reading.calls or not self.tools:
            return reading

        # Chat models write Markdown: `get\_time(a=1)` is a call of `get_time`.
        unescaped = _without_escapes(text)
        if unescaped == text:
            return reading

        second = self._read(unescaped)
        return second if second.calls or second.problem else reading

    def without_thoughts(self, text: str) -> tuple[str, str]:
        """Return the reasoning at the beginning of a text ("" if there is none) and the answer. Never raises."""
        marks = self._marks
        if len(text) > MAX_CHARACTERS or not marks.has_reasoning(text):
            return "", text

        collector = self._new_collector()
        body = text.lstrip()
        try:
            answer = take_thoughts(body, collector, marks, self._call_spans)
        except RecursionError:
            return "", text

        # Some families mark the answer, too. A text without reasoning and marks is returned with its outer spaces.
        answer_mark = next((mark for mark in ANSWERS if answer.startswith(mark)), "")
        if answer_mark:
            answer = without_end_marks(answer.removeprefix(answer_mark))
        return "\n".join(collector.thoughts), (text if answer == body else answer)

    def _read(self, text: str) -> Reading:
        """Return the calls, the reasoning and the rest of a text. An unreadable call is the reading's problem."""
        collector = self._new_collector()
        try:
            has_marks = self._take_text(text, collector)
        except (UnreadableError, RecursionError) as error:
            return failed_reading(text, collector, error)

        # A text may have marks and nothing else; such a text stays whole.
        if has_marks and (collector.calls or collector.texts):
            return collector.reading()
        return Reading((), text, collector.format, reasoning="\n".join(collector.thoughts))

    def _new_collector(self) -> CallCollector:
        """Return an empty collector with the row's tools."""
        return CallCollector(self.tools, strict=self.profile is not None)

    @property
    def _marks(self) -> Marks:
        """The marks of the chosen profile, else those of all known families."""
        return known_marks() if self.profile is None else Marks((self.profile,), self.profile.thoughts)

    def _take_text(self, text: str, collector: CallCollector) -> bool:
        """Collect the reasoning, the calls and the rest of a text. Return True if there is a call or a mark of a call.

        Raises:
            UnreadableError: a call cannot be read or is cut off, reasoning that does not end contains the only calls,
                or a text with a call is too long.
        """
        marks = self._marks
        # A text that is too long is not read, which is a problem only if the text seems to contain a call.
        if len(text) > MAX_CHARACTERS:
            if any(mark in text for mark in marks.profiles) or _announces_call(text, 0) or _CALL_LIST.match(text):
                check_size(text)
            return False

        body = without_end_marks(text).lstrip()
        if marks.has_reasoning(body):
            body = take_thoughts(body, collector, marks, self._call_spans)

        thoughts_end = len(collector.texts)
        has_calls = self._take_body(body, collector, marks)

        if collector.open_thought and not collector.calls:
            _refuse_thought_calls(collector, marks)
        # A cut-off call after a mark was refused above. Known tools need no mark: search the text outside read calls.
        if collector.gated:
            _refuse_cut_off("\n".join(collector.texts[thoughts_end:]) if collector.calls else body, collector)
        return has_calls

    def _call_spans(self, body: str) -> list[tuple[int, int]]:
        """Return the start and end of each call in a text, without searching for reasoning at its beginning.

        An unreadable call extends to the end of the text if a tool's name stands between its start and the last closing
        mark of reasoning. But if another call follows that mark, the unreadable call was part of the reasoning and is
        left out.
        """
        collector, marks = self._new_collector(), self._marks

        try:
            self._take_body(body, collector, marks)
        except UnreadableError:
            # The unreadable call may be a mention in the reasoning. Then calls follow the last mark that closes
            # reasoning. `take_thoughts` needs spans only in a text with such a mark.
            thought_end = max((body.rfind(mark) + len(mark) for mark in marks.endings if mark in body), default=0)
            answer = self._new_collector()
            with suppress(UnreadableError):
                self._take_body(body[thought_end:].lstrip(), answer, marks)
            if not answer.calls and collector.names_tool(body[collector.call_start : thought_end]):
                # One more on each side, so that marks at both ends count as inside.
                collector.spans.append((collector.call_start - 1, len(body) + 1))

        return collector.spans

    def _take_body(self, body: str, collector: CallCollector, marks: Marks) -> bool:
        """Collect the calls of a text without reasoning at its beginning. Return False without call or mark.

        Raises:
            UnreadableError: a call cannot be read.
        """
        # With a chosen profile, the marks of other families are text.
        if self.profile:
            return take_marked(body, collector, marks) or _take_unmarked(self.profile, body, collector)

        # Mistral's mark begins like a list.
        if body.startswith(("{", "[")) and not body.startswith("[TOOL_CALLS]"):
            end = self._take_values(body, collector)
            if end is not None:
                collector.spans.append((0, end))
                if not self._take_among_text(body[end:], collector, marks):
                    collector.add_text(body[end:])
                return True
            if jsontext.value_of(body) is not None:
                return False  # data, even if its texts contain marks
        return self._take_among_text(body, collector, marks)

    def _take_among_text(self, body: str, collector: CallCollector, marks: Marks) -> bool:
        """Collect the calls in a fence, inside other text, or after marks. Return False without call or mark.

        Raises:
            UnreadableError: a call cannot be read.
        """
        # Forms without a mark count only before the first mark: text after it belongs to the call of the mark.
        limit = marks.find_call_mark(body)
        return (
            self._take_fence(body, limit, collector)
            or self._take_tool_uses(body, limit, collector)
            or (collector.gated and take_bare(body, limit, collector, self.read, marks))
            or take_marked(body, collector, marks)
        )

    # -- values: JSON, Python literals, and lists of Python calls

    def _take_values(self, body: str, collector: CallCollector) -> int | None:
        """Collect the calls in the values at the beginning of a text. Return their end, or None without calls.

        Raises:
            UnreadableError: a value is a call that cannot be read.
        """
        end = self._take_value(body, 0, collector)
        while end is not None:
            separator = _BEFORE_NEXT_VALUE.match(body, end)
            next_end = self._take_value(body, separator.end(), collector) if separator else None
            if next_end is None:
                break
            end = next_end
        return end

    def _take_value(self, body: str, position: int, collector: CallCollector) -> int | None:
        """Collect the calls in the value at this position. Return its end, or None if it is data or prose.

        If tools are known and no format is forced, a value of an ambiguous shape is data unless all its calls are of
        these tools.

        Raises:
            UnreadableError: the value is a call that cannot be read.
        """
        if not collector.gated:
            return self._take_any_value(body, position, collector)

        # The value is read into a copy, so that a value that turns out to be data leaves no call behind.
        attempt = collector.empty_copy()
        try:
            end = self._take_any_value(body, position, attempt)
        except UnreadableError:
            if attempt.ambiguous and not attempt.names_tool(body):
                return None
            collector.format = collector.format or attempt.format
            raise

        if end is None or (attempt.ambiguous and not all(attempt.knows(call.name) for call in attempt.calls)):
            return None
        collector.add_reading(attempt.reading())
        return end

    def _take_any_value(self, body: str, position: int, collector: CallCollector) -> int | None:
        """Collect the calls of any function in the value at this position. Return its end, or None without calls.

        Raises:
            UnreadableError: the value is a call that cannot be read.
        """
        call_list = _CALL_LIST.match(body, position)
        if call_list and not collector.gated:  # else `take_bare` reads it, call by call
            return _take_call_list(body, call_list, collector)

        is_literal = False
        try:
            value, end = decode_at(body, position)
        except UnreadableError:
            # Models also write Python literals, `{'name': 'f'}`. Only a value that seems to be a call is read again as
            # one.
            announced = _announces_call(body, position)
            if not announced and not (collector.gated and collector.names_tool(body)):
                return None
            try:
                value, end = literal_at(body, position)
            except UnreadableError:
                if announced:
                    raise
                return None
            is_literal = True

        if not take_value(value, collector, self.read):
            return None

        if is_literal and collector.format == "tool_uses":
            collector.format = "tool_uses_text"
        return end

    def _take_fence(self, body: str, limit: int, collector: CallCollector) -> bool:
        """Collect the calls of the first code block, if it begins before `limit` and is one value. Else return False.

        A block with another block after it does not count, nor one in BFCL's short formats with text around it.

        Raises:
            UnreadableError: the text begins with the block, and the block is a call that cannot be read.
        """
        opening = _FENCE.search(body, 0, limit)
        if not opening or opening["language"].lower() not in _LANGUAGES_OF_CALLS:
            return False

        before, attempt = body[: opening.start()], collector.empty_copy()
        try:
            end = self._take_value(body, opening.end(), attempt) if body.startswith(("{", "["), opening.end()) else None
        except UnreadableError:
            if before:
                return False
            collector.format = attempt.format
            raise

        closing = _FENCE_END.match(body, end) if end is not None else None
        if not closing or not attempt.calls:
            return False

        # A second block, or text around BFCL's short formats, makes the block an example and no call.
        after = body[closing.end() :].strip()
        if "```" in after or ((before or after) and attempt.format in ("bfcl", "bfcl_text")):
            return False

        collector.spans.append((opening.start(), closing.end()))
        collector.add_text(before)
        collector.add_reading(attempt.reading())
        collector.add_text(after)
        return True

    def _take_tool_uses(self, body: str, limit: int, collector: CallCollector) -> bool:
        """Collect each `{"tool_uses": …}` inside other text. Return False if there is no call, or if one is data.

        The first must begin before `limit`. An unreadable object with this key is an error: prose never contains such a
        key by chance.

        Raises:
            UnreadableError: an object with this key is not JSON or contains an unreadable call.
        """
        attempt, position = collector.empty_copy(), 0
        while opening := _TOOL_USES.search(body, position, limit):
            attempt.add_text(body[position : opening.start()])
            try:
                end = self._take_value(body, opening.start(), attempt)
            except UnreadableError:
                collector.format = "tool_uses"
                raise
            if end is None:
                return False

            attempt.spans.append((opening.start(), end))
            position, limit = end, len(body)

        if not attempt.calls:
            return False
        attempt.add_text(body[position:])
        collector.spans += attempt.spans
        collector.add_reading(attempt.reading())
        return True


# Markdown's escapes in `get\_time` and `\[f()\]`
_ESCAPED = re.compile(r"\\(?P<character>[_\[\]])")
# a function's name in quotes before its bracket: `["f"(a=1)]`
_QUOTED_NAME = re.compile(rf"(?<=[\[,\s])(?P<quote>[\"'])(?P<name>{NAME})(?P=quote)(?=\()")


def _without_escapes(text: str) -> str:
    """Remove Markdown's escapes of `_` and brackets, and quotes around the name of a called function."""
    unescaped = _ESCAPED.sub(r"\g<character>", text) if "\\" in text else text
    return _QUOTED_NAME.sub(r"\g<name>", unescaped) if "'(" in text or '"(' in text else unescaped


# Signs of an intended call in a value that is not JSON: its keys, or its beginning.
_ANNOUNCING_KEY = re.compile(
    r"[\"'](?:tool_uses|tool_calls|function_call|recipient_name)[\"']\s*:"
    r"|[\"']type[\"']\s*:\s*[\"'](?:function|tool_call|function_call)[\"']"
)
_ANNOUNCING_START = re.compile(
    # `{"name": "f", "arguments":`
    r"\s*(?:\[\s*)?\{\s*[\"']name[\"']\s*:\s*[\"'][^\"']*[\"']\s*,\s*[\"'](?:arguments|parameters)[\"']\s*:"
    # `[{"f": "{`
    r"|\s*\[\s*\{\s*\"[^\"\s]+\"\s*:\s*\"\{"
)


def _announces_call(body: str, position: int) -> bool:
    """Return whether a call begins at this position of a text, or a key that only calls have follows."""
    return bool(_ANNOUNCING_KEY.search(body, position) or _ANNOUNCING_START.match(body, position))


# `[f(` or `[ get_time(`
_CALL_LIST = re.compile(rf"\[\s*(?P<name>{NAME})\(")
# `[f(a=`, `[f("` or a list that is cut off after `(`: no prose begins like this
_CERTAIN_CALL_LIST = re.compile(rf"\[\s*{NAME}\(\s*(?:{NAME}\s*=(?!=)|[\"']|\Z)")
_LINE_END = re.compile(r"[ \t\r]*(?:\n|\Z)")


def _take_call_list(body: str, opening: re.Match[str], collector: CallCollector) -> int | None:
    """Collect the calls of a list, `[f(a=1)]`, that begins at `opening` and ends a line. Return None if it is prose.

    Otherwise, return the end of the list. Prose is, for example, a link in Markdown or a remark in brackets.

    Raises:
        UnreadableError: the text is surely a list of calls, but cannot be read.
    """
    collector.ambiguous = True
    scanner = CallScanner(body, opening.start(), collector)
    try:
        calls = scanner.calls()
    except UnreadableError:
        ends_like_calls = body.endswith("]") and body[:-1].rstrip(", \t\r\n").endswith(")")
        if ends_like_calls or _CERTAIN_CALL_LIST.match(body, opening.start()):
            collector.format = collector.format or "bfcl_text"
            raise
        return None

    if not _LINE_END.match(body, scanner.position):
        return None
    for call in calls:
        collector.add("bfcl_text", call.name, call.arguments)
    return scanner.position


def _take_unmarked(profile: Profile, body: str, collector: CallCollector) -> bool:
    """Collect calls without a mark at the start of the body or of code fences.

    Return False if there is none, or if the profile's family always writes marks.

    Raises:
        UnreadableError: a call cannot be read.
    """
    always_writes_marks = profile.marks and profile.sure and not profile.inside
    if always_writes_marks:
        return False

    position = 0  # where a call may begin
    text_start, text_end = 0, 0  # the text since the last call, up to the next fence
    while True:
        # The first call begins the text, and others begin a code block.
        if profile.shape.begins(body, position, collector):
            end = profile.take(body, position, "", collector)
            collector.spans.append((position, end))
            collector.add_text(body[text_start:text_end])
            position = text_start = past(_FENCE_END, body, end)

        fence = _FENCE.search(body, position)
        if not fence:
            break
        text_end, position = fence.span()

    # `text_start` is 0 only if no call was found.
    if text_start:
        collector.add_text(body[text_start:])
    return bool(text_start)


# -- texts that cannot be accepted


_MOST_MENTIONS = 20  # of marks without a readable call; each may scan the rest of the text


def _refuse_thought_calls(collector: CallCollector, marks: Marks) -> None:
    """Refuse unclosed reasoning that contains a call. Do nothing if it contains no readable call.

    Some servers end the reasoning at a call, so the call may be meant.

    Raises:
        ThoughtCallError: the reasoning contains a call.
    """
    attempt, rest = collector.empty_copy(), collector.open_thought
    for _ in range(_MOST_MENTIONS):
        try:
            take_marked(rest, attempt, marks)
            break
        except UnreadableError as error:
            if attempt.calls or isinstance(error, CutOffError):
                break
            rest = rest[attempt.call_start + 1 :]  # the mark may be a mention, and a call may follow

    if attempt.calls:
        collector.format = attempt.format
        name = quoted(attempt.calls[0].name)
        raise ThoughtCallError(f"a call of {name} stands inside reasoning that does not end")


_MOST_STARTS = 100  # each scans the rest of the text
# the beginning of a line with a call that may be cut off: `x = f(`, `["f", {`, `{"f": {`, `{"name": "f",`
_CALL_START = re.compile(
    # a line or a separator, and what may stand before a call
    rf"(?:^(?i:{LABEL})?|[;,])[ \t]*+(?:(?:{BEFORE})[ \t]*+)?(?:print\()?(?P<opening>[\[{{(\"'` \t]*+)"
    # `{"name": "f",`
    rf"(?:{NAMES.pattern}[\"'][ \t]*+:[ \t]*+[\"'](?P<named>{NAME})[\"'][ \t]*+,"
    # `f(`, or `["f", {`
    rf"|(?:functions\.)?(?P<called>{NAME})(?=\(|[\"'][ \t]*+,[ \t]*+\{{)"
    # `{"f": {`
    rf"|(?P<keyed>{NAME})[\"'][ \t]*+:(?=[ \t]*+(?:[\"'{{]|\Z)))",
    re.MULTILINE,
)


def _refuse_cut_off(text: str, collector: CallCollector) -> None:
    """Refuse a text with a call of a tool that is cut off. Only the first 100 possible calls are checked.

    Raises:
        CutOffError: a call of a tool is not closed.
    """
    for start in islice(_CALL_START.finditer(text), _MOST_STARTS):
        name = start["called"] or start["keyed"] or start["named"]
        opening = start.start("opening")
        if collector.knows(name) and find_close(text, opening) is None:
            raise CutOffError(f"the call of {quoted(name)} at {place(text, opening)} is not closed")
