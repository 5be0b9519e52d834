"""Calls and thoughts that a mark in the text announces, by the profiles of model families.

A mark is looked for in the text outside calls and thoughts only: what follows it is read as one value, whose strings
may hold any mark. The first mark of a text decides whose marks count. After it something must be readable as a call.
"""

import functools
from collections.abc import Callable, Iterable

from tunecheck.formats._collector import CallCollector
from tunecheck.formats._families import json_calls, named_calls, python_calls, tagged_calls, thoughts
from tunecheck.formats._profiles import Profile, Thought


class Marks:
    """The marks of some profiles and thoughts, for looking through texts."""

    def __init__(self, profiles: Iterable[Profile], known: tuple[Thought, ...]) -> None:
        self.profiles: dict[str, tuple[Profile, ...]] = {}
        for profile in profiles:
            for mark in profile.marks:
                self.profiles[mark] = (*self.profiles.get(mark, ()), profile)
        self.openings = {thought.opens: thought for thought in known if not thought.leading}
        self.leading = {thought.opens: thought for thought in known}
        self.beginnings = tuple(self.leading)
        self.endings = {close: thought for thought in known if thought.lone for close in thought.closes}

    def think_in(self, text: str) -> bool:
        """Whether a mark of thoughts, or of the answer after them, stands in the text."""
        return any(mark in text for mark in (*self.leading, *self.endings, *thoughts.ANSWERS))

    def first(self, text: str) -> int | None:
        """Where the first mark of calls stands, if there is one that counts."""
        looking = _Looking(text, self.profiles)
        probe = CallCollector()
        position = 0
        while found := looking.after(position):
            start, mark = found
            if _who(self.profiles[mark], text, start, mark, probe):
                return start
            position = start + len(mark)
        return None


@functools.cache
def known_marks() -> Marks:
    """Those of all families."""
    return Marks(
        (*json_calls.PROFILES, *named_calls.PROFILES, *tagged_calls.PROFILES, *python_calls.PROFILES), thoughts.THOUGHTS
    )


class _Looking:
    """Where each of some marks stands next; each text is gone through once for each mark."""

    __slots__ = ("_next", "_text")

    def __init__(self, text: str, marks: Iterable[str]) -> None:
        self._text = text
        self._next = {mark: start for mark in marks if (start := text.find(mark)) >= 0}

    def after(self, position: int) -> tuple[int, str] | None:
        """The first mark from a position on; of several there, the longest."""
        if not self._next:
            return None
        for mark, start in list(self._next.items()):
            if start < position:
                following = self._text.find(mark, position)
                if following < 0:
                    del self._next[mark]
                else:
                    self._next[mark] = following
        standing = ((start, mark) for mark, start in self._next.items())
        return min(standing, key=lambda pair: (pair[0], -len(pair[1])), default=None)


def take_marked(text: str, collector: CallCollector, marks: Marks) -> bool:
    """Find the calls behind the marks in a text, and what stands beside them; False where no mark counts.

    Raises:
        UnreadableError: what follows a mark is not a call.
    """
    calls, openings = _Looking(text, marks.profiles), _Looking(text, marks.openings)
    position, said, found = 0, 0, False
    while call := calls.after(position):
        start, mark = call
        opening = openings.after(position)
        if opening and opening[0] <= start:
            collector.add_text(text[said : opening[0]])
            said = position = _take_thought(text, opening[0], marks.openings[opening[1]], collector)
            continue
        profile = _who(marks.profiles[mark], text, start, mark, collector)
        if profile is None:
            position = start + len(mark)
            continue
        collector.add_text(text[said:start])
        collector.begun = start
        said = position = profile.take(text, start, mark, collector)
        collector.spans.append((start, position))
        if not found:
            calls = _Looking(text, [mark for one in marks.profiles[mark] for mark in one.marks])
            found = True
    if found:
        collector.add_text(text[said:])
    return found


def _who(profiles: Iterable[Profile], text: str, start: int, mark: str, collector: CallCollector) -> Profile | None:
    """Whose calls follow the mark: whoever's shape begins there, else the first whose mark is sure.

    A mark between backticks is only spoken of.
    """
    if text.startswith(f"{mark}`", start) and text.endswith("`", 0, start):
        return None
    sure = None
    for profile in profiles:
        if profile.announces(text, start, mark, collector):
            return profile
        if profile.sure and sure is None:
            sure = profile
    return sure


def _take_thought(text: str, start: int, thought: Thought, collector: CallCollector) -> int:
    """A thought with its marks, to the text's end where it is not closed; gives where it ends."""
    inside = start + len(thought.opens)
    closings = ((end, close) for close in thought.closes if (end := text.find(close, inside)) >= 0)
    end, close = min(closings, default=(len(text), ""))
    collector.add_thought(text[inside:end], text[start : end + len(close)])
    return end + len(close)


_MOST_LEADING = 20  # thoughts at the beginning, each of which costs a copy of the rest


def take_thoughts(
    body: str, collector: CallCollector, marks: Marks, spans: Callable[[str], list[tuple[int, int]]]
) -> str:
    """Take the thoughts with which a text begins, and give what follows them.

    A closing mark without an opening ends a thought that the prompt has opened, unless it stands inside a call; `spans`
    finds where the calls of a text stand.
    """
    body = _take_leading(body, collector, marks)
    ending = _Looking(body, marks.endings)
    found = ending.after(0)
    if found is None:
        return body
    held = spans(body)
    while found:
        start, mark = found
        end = start + len(mark)
        inside = next((last for first, last in held if first < start < last), None)
        if inside is None and marks.endings[mark].opens not in body[:start]:
            collector.add_thought(body[:start], body[:end])
            return _take_leading(body[end:].lstrip(), collector, marks)
        found = ending.after(inside or end)
    return body


def _take_leading(body: str, collector: CallCollector, marks: Marks) -> str:
    for _ in range(_MOST_LEADING):
        if not body.startswith(marks.beginnings):  # nearly all texts
            break
        thought = next(marks.leading[mark] for mark in marks.leading if body.startswith(mark))
        if thought.leading and not any(close in body for close in thought.closes):
            break
        body = body[_take_thought(body, 0, thought, collector) :].lstrip()
    return body
