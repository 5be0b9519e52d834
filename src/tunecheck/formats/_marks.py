"""Read calls and reasoning after marks in a text, with the profiles of model families.

Marks count only outside calls and reasoning. The text after a mark is read as one value, and its strings may contain
any mark. The first mark of a text selects the family; later marks of other families are text. A readable call must
follow.
"""

import functools
import re
from collections.abc import Callable, Iterable

from tunecheck.calls._strict_json import CutOffError, UnreadableError
from tunecheck.formats._collector import CallCollector
from tunecheck.formats._families import ANSWERS, all_thoughts, families_with_marks
from tunecheck.formats._profiles import Profile, Thought


@functools.lru_cache(maxsize=256)
def _any_of(marks: tuple[str, ...]) -> re.Pattern[str]:
    """Return a pattern that finds the first of these marks, and the longest if several begin at the same place."""
    return re.compile("|".join(sorted(map(re.escape, marks), key=len, reverse=True)) or "(?!)")


class Marks:
    """The marks of profiles and reasoning, with the searches for them."""

    def __init__(self, profiles: Iterable[Profile], known: tuple[Thought, ...]) -> None:
        self.profiles: dict[str, tuple[Profile, ...]] = {}
        for profile in profiles:
            for mark in profile.marks:
                self.profiles[mark] = (*self.profiles.get(mark, ()), profile)
        self.openings = {thought.opens: thought for thought in known if not thought.leading}
        self.leading = {thought.opens: thought for thought in known}
        self.beginnings = tuple(self.leading)
        self.endings = {close: thought for thought in known if thought.lone for close in thought.closes}
        self._of_thoughts = _any_of((*self.leading, *self.endings, *ANSWERS))

    def think_in(self, text: str) -> bool:
        """Return whether the text contains a mark of reasoning, or of the answer after reasoning."""
        return self._of_thoughts.search(text) is not None

    def first(self, text: str) -> int | None:
        """Return the position of the first mark that announces a call, or None."""
        probe = CallCollector()
        found = (mark for mark in _any_of((*self.profiles,)).finditer(text))
        counted = (mark.start() for mark in found if self.match_profile(text, mark.start(), mark[0], probe))
        return next(counted, None)

    def match_profile(self, text: str, start: int, mark: str, collector: CallCollector) -> Profile | None:
        """Return the profile with calls at this mark, or else the first profile with an unambiguous mark.

        A mark in backticks is only mentioned, so the result is None.
        """
        if text.startswith(f"{mark}`", start) and text.endswith("`", 0, start):
            return None
        sure = None
        for profile in self.profiles[mark]:
            if profile.announces(text, start, mark, collector):
                return profile
            if profile.sure and sure is None:
                sure = profile
        return sure


@functools.cache
def known_marks() -> Marks:
    """Return the marks of all known families."""
    return Marks(families_with_marks(), all_thoughts())


_MOST_FAILURES = 20  # each may scan the rest of the text


def take_marked(text: str, collector: CallCollector, marks: Marks) -> bool:
    """Collect the calls after the marks of a text, and the rest of the text. Return False without a mark.

    Raises:
        UnreadableError: a mark is not followed by a call.
    """
    calls, openings = _any_of((*marks.profiles,)), _any_of((*marks.openings,))
    position, said = 0, 0
    first: Profile | None = None
    failures: list[UnreadableError] = []
    while call := calls.search(text, position):
        start, mark = call.start(), call[0]
        opening = openings.search(text, position, start)
        if opening:
            collector.add_text(text[said : opening.start()])
            said = position = _take_thought(text, opening.start(), marks.openings[opening[0]], collector)
            continue
        within = first is not None and mark in first.within
        profile = first if within else marks.match_profile(text, start, mark, collector)
        if profile is None or (within and not profile.announces(text, start, mark, collector)):
            position = start + len(mark)
            continue
        collector.add_text(text[said:start])
        said = position = _take_calls(profile, text, start, mark, collector, failures)
        if failures and (isinstance(failures[-1], CutOffError) or len(failures) > _MOST_FAILURES):
            break
        if not first:
            first, alike = profile, marks.profiles[mark]
            calls = _any_of((*(each for one in alike for each in one.marks), *profile.within))
    if failures:
        raise failures[0]
    if first:
        collector.add_text(text[said:])
    return first is not None


def _take_calls(
    profile: Profile, text: str, start: int, mark: str, collector: CallCollector, failures: list[UnreadableError]
) -> int:
    """Collect the calls after a mark and the reasons of unreadable ones. Return where the search continues."""
    while True:
        collector.begun = start
        try:
            position = profile.take(text, start, mark, collector)
        except UnreadableError as error:
            failures.append(error)
            following = profile.after_unreadable(text, mark, collector)
            if following is None or isinstance(error, CutOffError) or len(failures) > _MOST_FAILURES:
                return collector.begun + 1
            start, mark = following, ""
        else:
            collector.spans.append((start, position))
            return position


def _take_thought(text: str, start: int, thought: Thought, collector: CallCollector) -> int:
    """Add reasoning to the collector, up to the end of the text if it is not closed. Return its end."""
    inside = start + len(thought.opens)
    closings = ((end, close) for close in thought.closes if (end := text.find(close, inside)) >= 0)
    end, close = min(closings, default=(len(text), ""))
    collector.add_thought(text[inside:end], text[start : end + len(close)])
    collector.open_thought = "" if close else text[inside:]
    return end + len(close)


_MOST_LEADING = 20  # pieces of reasoning at the beginning; each costs a copy of the rest


def take_thoughts(
    body: str, collector: CallCollector, marks: Marks, spans: Callable[[str], list[tuple[int, int]]]
) -> str:
    """Collect the reasoning at the beginning of a text, and return the rest of the text.

    A closing mark without an opening mark ends reasoning that the prompt has opened, unless the mark is inside a call.
    `spans` returns the positions of the calls in a text.
    """
    body = _take_leading(body, collector, marks)
    endings = _any_of((*marks.endings,))
    found = endings.search(body)
    held = spans(body) if found else []
    while found:
        start, end = found.span()
        inside = next((last for first, last in held if first < start < last), None)
        if inside is None and marks.endings[found[0]].opens not in body[:start]:
            collector.add_thought(body[:start], body[:end])
            return _take_leading(body[end:].lstrip(), collector, marks)
        found = endings.search(body, inside or end)
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
