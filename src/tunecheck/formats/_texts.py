"""Read the calls of one text by its shape, by the marks of model families, or by the names of tools."""

import re
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice

from tunecheck import _json as jsontext
from tunecheck.calls._model import Reading
from tunecheck.calls._python_text import NAME, literal_at
from tunecheck.calls._schemas import ToolDefinitions
from tunecheck.calls._strict_json import (
    MAX_CHARACTERS,
    CutOffError,
    ThoughtCallError,
    UnreadableError,
    check_size,
    decode_at,
    find_close,
    place,
    quoted,
)
from tunecheck.formats._bare import take_bare
from tunecheck.formats._call_text import BEFORE, LABEL, CallScanner
from tunecheck.formats._collector import CallCollector, failed_reading, may_hold_calls, without_end_marks
from tunecheck.formats._families import ANSWERS
from tunecheck.formats._json_shapes import take_value
from tunecheck.formats._marks import Marks, known_marks, take_marked, take_thoughts
from tunecheck.formats._profiles import Profile
from tunecheck.formats._spellings import NAMES

_CALL_LIST = re.compile(rf"\[\s*({NAME})\(")
_CERTAIN_CALL_LIST = re.compile(rf"\[\s*{NAME}\(\s*(?:{NAME}\s*=(?!=)|[\"']|\Z)")
_LINE_END = re.compile(r"[ \t\r]*(?:\n|\Z)")
_NEXT_VALUE = re.compile(r"\s*+(?:[;,]|and\b|<function_call>)?\s*+(?=[{\[])")

_ESCAPED = re.compile(r"\\([_\[\]])")
_QUOTED_NAME = re.compile(rf"(?<=[\[,\s])([\"'])({NAME})\1(?=\()")
_FENCE = re.compile(r"```[ \t]*+([\w+-]*+)[ \t]*+\r?\n\s*+")
_FENCE_END = re.compile(r"\s*+```[ \t]*+(?=\r?\n|\Z)")
_FENCED = frozenset({"", "json", "python", "py", "tool_code", "tool_call", "tool_calls", "text"})
_USES = re.compile(r"\{\s*[\"']tool_uses[\"']\s*:")

# Signs of an intended call in a value that is not JSON: its keys, or its beginning.
_ANNOUNCING_KEYS = (
    re.compile(r"[\"'](?:tool_uses|tool_calls|function_call|recipient_name)[\"']\s*:"),
    re.compile(r"[\"']type[\"']\s*:\s*[\"'](?:function|tool_call|function_call)[\"']"),
)
_ANNOUNCING_STARTS = (
    re.compile(
        r"\s*(?:\[\s*)?\{\s*[\"']name[\"']\s*:\s*[\"'][^\"']*[\"']\s*,\s*[\"'](?:arguments|parameters)[\"']\s*:"
    ),
    re.compile(r"\s*\[\s*\{\s*\"[^\"\s]+\"\s*:\s*\"\{"),
)


_MOST_BEGUN = 100  # each scans the rest of the text
_BEGUN = re.compile(
    rf"(?:^(?i:{LABEL})?|[;,])[ \t]*+(?:(?:{BEFORE})[ \t]*+)?(?:print\()?(?P<opening>[\[{{(\"'` \t]*+)"
    rf"(?:{NAMES.pattern}[\"'][ \t]*+:[ \t]*+[\"'](?P<named>{NAME})[\"'][ \t]*+,"
    rf"|(?:functions\.)?(?P<called>{NAME})(?=\(|[\"'][ \t]*+,[ \t]*+\{{)"
    rf"|(?P<keyed>{NAME})[\"'][ \t]*+:(?=[ \t]*+(?:[\"'{{]|\Z)))",
    re.MULTILINE,
)


@dataclass(frozen=True, slots=True)
class TextReader:
    """Reads the texts of one row, with its tools if they are known, or with one profile if the user chose one."""

    tools: ToolDefinitions | None = None
    profile: Profile | None = None

    def read(self, text: str) -> Reading:
        """Return the calls of a text. Never raises."""
        reading = self._read(text)
        plain = text if reading.calls or not self.tools else _plain(text)
        if plain == text:
            return reading
        again = self._read(plain)
        return again if again.calls or again.problem else reading

    def _read(self, text: str) -> Reading:
        if self.profile is None and not may_hold_calls(text, gated=bool(self.tools)):
            return Reading((), text)
        collector = CallCollector(self.tools, strict=self.profile is not None)
        try:
            held = self._take_text(text, collector)
        except UnreadableError as error:
            return failed_reading(text, collector, error)
        except RecursionError:  # the stack was nearly full before this call
            return failed_reading(text, collector, UnreadableError("nested too deeply"))
        if held and (collector.calls or collector.texts):
            return collector.reading()
        return Reading((), text, collector.format, reasoning="\n".join(collector.thoughts))

    def without_thoughts(self, text: str) -> tuple[str, str]:
        """Split a text into the reasoning before the answer and the answer. Never raises."""
        marks = self._marks
        if len(text) > MAX_CHARACTERS or not marks.has_reasoning(text):
            return "", text
        collector = CallCollector(self.tools, strict=self.profile is not None)
        body = text.lstrip()
        try:
            answer = take_thoughts(body, collector, marks, self._spans)
        except RecursionError:
            return "", text
        opening = next((mark for mark in ANSWERS if answer.startswith(mark)), "")
        if opening:
            answer = without_end_marks(answer.removeprefix(opening))
        return "\n".join(collector.thoughts), text if answer == body else answer

    @property
    def _marks(self) -> Marks:
        return known_marks() if self.profile is None else Marks((self.profile,), self.profile.thoughts)

    def _take_text(self, text: str, collector: CallCollector) -> bool:
        """Collect the calls of a text, and the rest of it; return False if all of it is prose or data."""
        marks = self._marks
        if len(text) > MAX_CHARACTERS:
            if any(mark in text for mark in marks.profiles) or _announces(text, 0) or _CALL_LIST.match(text):
                check_size(text)
            return False
        body = without_end_marks(text).lstrip()
        if marks.has_reasoning(body):
            body = take_thoughts(body, collector, marks, self._spans)
        before = len(collector.texts)
        held = self._take_body(body, collector, marks)
        if collector.open_thought and not collector.calls:
            self._refuse_thought_calls(collector, marks)
        if collector.gated:
            _refuse_cut("\n".join(collector.texts[before:]) if collector.calls else body, collector)
        return held

    def _refuse_thought_calls(self, collector: CallCollector, marks: Marks) -> None:
        """Refuse unclosed reasoning that contains a call, because servers end the reasoning at a call."""
        held = collector.fresh()
        with suppress(UnreadableError):
            take_marked(collector.open_thought, held, marks)
        if held.calls:
            collector.format = held.format
            name = quoted(held.calls[0].name)
            raise ThoughtCallError(f"a call of {name} stands inside a thought that is not closed")

    def _spans(self, body: str) -> list[tuple[int, int]]:
        """Return the spans of calls in a text, without searching for reasoning at its beginning.

        The span of an unreadable call of a tool goes to the end of the text. But if another call follows a closing mark
        of reasoning, the unreadable call was part of the reasoning and has no span.
        """
        collector, marks = CallCollector(self.tools, strict=self.profile is not None), self._marks
        try:
            self._take_body(body, collector, marks)
        except UnreadableError:
            last = max((start + len(mark) for mark in marks.endings if (start := body.rfind(mark)) >= 0), default=0)
            rest, begun = CallCollector(self.tools, strict=self.profile is not None), collector.begun
            with suppress(UnreadableError):
                self._take_body(body[last:].lstrip(), rest, marks)
            if not rest.calls and collector.names_tool(body[begun:last]):
                collector.spans.append((begun - 1, len(body) + 1))
        return collector.spans

    def _take_body(self, body: str, collector: CallCollector, marks: Marks) -> bool:
        if self.profile:
            return take_marked(body, collector, marks) or _take_unmarked(self.profile, body, collector)
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
        """Collect the calls in a fence, inside other text, and after marks. Return False if there is none."""
        mark = marks.find_call_mark(body)
        unmarked = len(body) if mark is None else mark
        return (
            self._take_fence(body, unmarked, collector)
            or self._take_embedded(body, unmarked, collector)
            or (collector.gated and take_bare(body, unmarked, collector, self.read, marks))
            or take_marked(body, collector, marks)
        )

    def _take_values(self, body: str, collector: CallCollector) -> int | None:
        """Collect the calls in the values at the beginning of a text. Return their end, or None without calls."""
        end = self._take_value(body, 0, collector)
        while end is not None and (following := _NEXT_VALUE.match(body, end)):
            further = self._take_value(body, following.end(), collector)
            if further is None:
                break
            end = further
        return end

    def _take_value(self, body: str, position: int, collector: CallCollector) -> int | None:
        """Collect the calls in the value at this position. Return its end, or None if it is data or prose."""
        if not collector.gated:
            return self._take_any_value(body, position, collector)
        held = collector.fresh()
        try:
            end = self._take_any_value(body, position, held)
        except UnreadableError:
            if held.ambiguous and not held.names_tool(body):
                return None
            collector.format = collector.format or held.format
            raise
        if end is None or (held.ambiguous and not all(held.knows(call.name) for call in held.calls)):
            return None
        collector.add_reading(held.reading())
        return end

    def _take_any_value(self, body: str, position: int, collector: CallCollector) -> int | None:
        if _CALL_LIST.match(body, position):
            return _take_call_list(body, position, collector)
        literal = False
        value: object
        try:
            value, end = decode_at(body, position)
        except UnreadableError:
            announced = _announces(body, position)
            if not announced and not (collector.gated and collector.names_tool(body)):
                return None
            try:
                value, end = literal_at(body, position)
            except UnreadableError:
                if announced:
                    raise
                return None
            literal = True
        if not take_value(value, collector, self.read):
            return None
        if literal and collector.format == "tool_uses":
            collector.format = "tool_uses_text"
        return end

    def _take_fence(self, body: str, limit: int, collector: CallCollector) -> bool:
        """Read one fenced block that contains one value. With other text around it, ambiguous formats do not count."""
        opening = _FENCE.search(body, 0, limit)
        if not opening or opening[1].lower() not in _FENCED:
            return False
        before, held = body[: opening.start()], collector.fresh()
        try:
            end = self._take_value(body, opening.end(), held) if body.startswith(("{", "["), opening.end()) else None
        except UnreadableError:
            if before:
                return False
            collector.format = held.format
            raise
        closing = _FENCE_END.match(body, end) if end is not None else None
        after = body[closing.end() :].strip() if closing else ""
        beside_text = bool(before or after) and held.format in ("bfcl", "bfcl_text")
        if not closing or "```" in after or beside_text or not held.calls:
            return False
        collector.spans.append((opening.start(), closing.end()))
        collector.add_text(before)
        collector.add_reading(held.reading())
        collector.add_text(after)
        return True

    def _take_embedded(self, body: str, limit: int, collector: CallCollector) -> bool:
        """Read each `{"tool_uses": …}` inside other text, the first before `limit`. Return False if there is no call.

        An unreadable one is an error and not prose, because prose never contains such a key by chance.

        Raises:
            UnreadableError: one of them is not JSON or holds an unreadable call.
        """
        held = collector.fresh()
        position = 0
        opening = _USES.search(body, 0, limit)
        while opening:
            held.add_text(body[position : opening.start()])
            try:
                end = self._take_value(body, opening.start(), held)
            except UnreadableError:
                collector.format = "tool_uses"
                raise
            if end is None:
                return False
            collector.spans.append((opening.start(), end))
            position = end
            opening = _USES.search(body, position)
        if not held.calls:
            return False
        held.add_text(body[position:])
        collector.add_reading(held.reading())
        return True


def _plain(text: str) -> str:
    """Remove Markdown's escapes of `_` and brackets, and quotes around the name of a called function."""
    unescaped = _ESCAPED.sub(r"\1", text) if "\\" in text else text
    return _QUOTED_NAME.sub(r"\2", unescaped) if "'(" in text or '"(' in text else unescaped


def _announces(body: str, position: int) -> bool:
    keys = any(key.search(body, position) for key in _ANNOUNCING_KEYS)
    return keys or any(start.match(body, position) for start in _ANNOUNCING_STARTS)


def _take_call_list(body: str, position: int, collector: CallCollector) -> int | None:
    """Read `[f(a=1)]` if it ends its line; return the position after it.

    None if it is prose, such as a link in Markdown or a remark in brackets. A gated collector takes only calls of known
    tools.

    Raises:
        UnreadableError: it is surely a list of calls, but an unreadable one.
    """
    name = _CALL_LIST.match(body, position)
    if collector.gated and name and not collector.knows(name[1]):
        return None
    collector.ambiguous = True
    scanner = CallScanner(body, position, collector)
    try:
        calls = scanner.calls()
    except UnreadableError:
        if collector.gated:
            return None  # `take_bare` reads it again, call by call
        ends_like_calls = body.endswith("]") and body[:-1].rstrip(", \t\r\n").endswith(")")
        if ends_like_calls or _CERTAIN_CALL_LIST.match(body, position):
            collector.format = collector.format or "bfcl_text"
            raise
        return None
    if not _LINE_END.match(body, scanner.position):
        return None
    for call in calls:
        collector.add("bfcl_text", call.name, call.arguments)
    return scanner.position


def _take_unmarked(profile: Profile, body: str, collector: CallCollector) -> bool:
    """Collect calls without a mark at the start of the body or of code fences. Return whether there are any."""
    if profile.marks and profile.sure and not profile.inside:
        return False
    taken, opening, start = 0, 0, 0
    while True:
        if profile.shape.begins(body, start, collector):
            end = profile.take(body, start, "", collector)
            collector.spans.append((start, end))
            collector.add_text(body[taken:opening])
            closing = _FENCE_END.match(body, end)
            start = taken = closing.end() if closing else end
        fence = _FENCE.search(body, start)
        if not fence:
            break
        opening, start = fence.span()
    if taken:
        collector.add_text(body[taken:])
    return bool(taken)


def _refuse_cut(text: str, collector: CallCollector) -> None:
    """Refuse a text with a call of a tool that is cut off.

    Raises:
        CutOffError: a call of a tool is not closed.
    """
    for begun in islice(_BEGUN.finditer(text), _MOST_BEGUN):
        name = begun["called"] or begun["keyed"] or begun["named"]
        if collector.knows(name) and find_close(text, begun.start("opening")) is None:
            raise CutOffError(f"the call of {quoted(name)} at {place(text, begun.start('opening'))} is not closed")
