"""The known model families, and the calls and reasoning after their marks in a text.

`families.toml` describes the families: marks of thoughts and calls, and shapes of calls. Which marks of a text count:

1. Reasoning is skipped, at the beginning (`take_thoughts`) and between calls. A mark inside it is text.
2. A mark in backticks is only mentioned.
3. The first mark of a text selects the family. If several families share the mark, the one whose call follows is
   chosen, or else the first whose marks are unambiguous.
4. Later marks of other families are text.
5. The text after a mark is read as one value, and its strings may contain any mark.

A readable call must follow each unambiguous mark. If a call cannot be read, the reading has the calls before it, and
the problem.
"""

import functools
import re
import tomllib
from collections.abc import Callable, Iterable
from importlib.resources import files
from typing import Any, TypeAlias

import msgspec

from tunecheck.formats._collector import CallCollector
from tunecheck.formats._profiles import Profile, TextShape, Thought
from tunecheck.formats._shapes import AnyOf, GlaiveCalls, JsonCalls, NamedCalls, PythonCalls
from tunecheck.formats._tagged import BracedCalls, TaggedCalls, TreeCalls

ANSWERS = ("<|start|>assistant<|channel|>final<|message|>", "<|channel|>final<|message|>", "<|START_RESPONSE|>")
"""Marks before the answer itself, which may follow reasoning."""

_Shape: TypeAlias = JsonCalls | NamedCalls | PythonCalls | GlaiveCalls | TaggedCalls | TreeCalls | BracedCalls


class ServerParsers(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The tool parsers of vLLM and SGLang for a family, or only for its texts that match `when`.

    `guess`: other families use the same format.
    """

    vllm: str
    sglang: str = ""
    when: str = ""
    guess: bool = False


@functools.cache
def _table() -> dict[str, dict[str, Any]]:
    """Return the content of families.toml: `thoughts` and `families`, each by name.

    A family has the fields of a `Profile`, with its thoughts by name and its shapes as a list. It also has the parsers
    of its `servers`, and `only_by_name` if it is never recognised by its marks.
    """
    return tomllib.loads(files(__package__).joinpath("families.toml").read_text("utf-8"))


def families_with_marks() -> tuple[Profile, ...]:
    """Return the families that are recognised by their marks, in the order in which they are tried."""
    return tuple(family(name) for name, fields in _table()["families"].items() if "only_by_name" not in fields)


@functools.cache
def family(name: str) -> Profile:
    """Return the profile of the family of that name; raise KeyError if families.toml has no such family."""
    fields = _table()["families"][name]
    shapes = fields.get("shapes", [{"kind": "json"}])
    thoughts = [_table()["thoughts"][thought] for thought in fields.get("thoughts", ())]

    profile = {**fields, "name": name, "shape": shapes, "thoughts": thoughts}
    return msgspec.convert(profile, Profile, dec_hook=_convert_part)


def _convert_part(kind: type, value: Any) -> object:  # noqa: ANN401 - from a TOML file
    """Convert a value of families.toml to a type that msgspec does not know.

    The type is a shape, from a list of tables, or a regular expression, from a text.
    """
    if kind is not TextShape:
        return re.compile(value)
    # If a family has several shapes, the first one that begins at a position is read.
    shapes = msgspec.convert(value, list[_Shape], dec_hook=_convert_part)
    return shapes[0] if len(shapes) == 1 else AnyOf(tuple(shapes))


def server_parsers(name: str, text: str) -> ServerParsers | None:
    """Return the servers' parsers for a text in this family's format.

    Return None if none is known, or if there is no such family.
    """
    servers = _table()["families"].get(name, {}).get("servers", ())
    known = msgspec.convert(servers, tuple[ServerParsers, ...])
    return next((parsers for parsers in known if re.search(parsers.when, text)), None)


def __getattr__(name: str) -> Profile:
    """Return a family's profile as an attribute of this module; raise AttributeError if there is no such family.

    The plug-in registry uses names with underscores for dots.
    """
    for known in _table()["families"]:
        if known.replace(".", "_") == name:
            return family(known)
    raise AttributeError(name)


# -- marks


class Marks:
    """The marks of profiles and of reasoning, in the tables that the searches need."""

    def __init__(self, profiles: Iterable[Profile], thoughts: tuple[Thought, ...]) -> None:
        """Make the tables of marks. A mark may announce the calls of several profiles."""
        self.profiles: dict[str, tuple[Profile, ...]] = {}
        for profile in profiles:
            for mark in profile.marks:
                self.profiles[mark] = (*self.profiles.get(mark, ()), profile)

        # by opening mark: reasoning anywhere in an answer, and all reasoning at its beginning
        self.openings = {thought.opens: thought for thought in thoughts if not thought.leading}
        self.by_opening = {thought.opens: thought for thought in thoughts}

        # by closing mark: reasoning that the prompt may have opened
        self.endings = {close: thought for thought in thoughts if thought.lone for close in thought.closes}
        self._reasoning_marks = _mark_pattern((*self.by_opening, *self.endings, *ANSWERS))

    def has_reasoning(self, text: str) -> bool:
        """Return whether the text contains a mark of reasoning, or of the answer after reasoning."""
        return self._reasoning_marks.search(text) is not None

    def find_call_mark(self, text: str) -> int:
        """Return the position of the first mark that announces a call, or the length of a text without such a mark."""
        without_tools = CallCollector()
        marks = _mark_pattern((*self.profiles,)).finditer(text)
        starts = (mark.start() for mark in marks if self.match_profile(text, mark.start(), mark[0], without_tools))
        return next(starts, len(text))

    def match_profile(self, text: str, start: int, mark: str, collector: CallCollector) -> Profile | None:
        """Return the profile with calls at the mark at `start`, or else the first profile with an unambiguous mark.

        Return None if there is neither, or if the mark is in backticks and so only mentioned.
        """
        if text.startswith(f"{mark}`", start) and text.endswith("`", 0, start):
            return None

        profiles = self.profiles[mark]
        with_calls = (profile for profile in profiles if profile.announces(text, start, mark, collector))
        return next(with_calls, None) or next((profile for profile in profiles if profile.sure), None)


@functools.cache
def known_marks() -> Marks:
    """Return the marks of all known families."""
    return Marks(families_with_marks(), msgspec.convert([*_table()["thoughts"].values()], tuple[Thought, ...]))


@functools.lru_cache(maxsize=256)
def _mark_pattern(marks: tuple[str, ...]) -> re.Pattern[str]:
    """Return a pattern that finds the first of these marks, and the longest if several begin at the same place.

    Without marks, the pattern matches nothing.
    """
    return re.compile("|".join(sorted(map(re.escape, marks), key=len, reverse=True)) or "(?!)")


# -- calls after marks


def take_marked(text: str, collector: CallCollector, marks: Marks) -> bool:
    """Collect the calls after the marks of a text, and the rest of the text. Return False if no mark counts.

    Raises:
        UnreadableError: a mark is not followed by a readable call. Calls that were read before are collected.
    """
    call_marks, thought_marks = _mark_pattern((*marks.profiles,)), _mark_pattern((*marks.openings,))

    position = 0  # where the search continues
    text_start = 0  # end of the last call or reasoning
    family: Profile | None = None
    while found := call_marks.search(text, position):
        start, mark = found.start(), found[0]

        # Reasoning before the next mark is skipped as a whole, so that marks in it do not count.
        opening = thought_marks.search(text, position, start)
        if opening:
            collector.add_text(text[text_start : opening.start()])
            text_start = position = _take_thought(text, opening.start(), marks.openings[opening[0]], collector)
            continue

        if family and mark in family.within:
            profile = family if family.announces(text, start, mark, collector) else None
        else:
            profile = marks.match_profile(text, start, mark, collector)
        # The mark is only mentioned, or no call follows an ambiguous one: it is text.
        if profile is None:
            position = start + len(mark)
            continue

        collector.add_text(text[text_start:start])
        text_start = position = profile.take(text, start, mark, collector)
        collector.spans.append((start, position))

        # From here on, only marks of the families that share the first mark are searched for.
        if not family:
            family = profile
            related_marks = (related for candidate in marks.profiles[mark] for related in candidate.marks)
            call_marks = _mark_pattern((*related_marks, *family.within))

    if family:
        collector.add_text(text[text_start:])
    return family is not None


# -- reasoning

_MOST_LEADING = 20  # pieces of reasoning at the beginning; each costs a copy of the rest


def take_thoughts(
    body: str, collector: CallCollector, marks: Marks, find_calls: Callable[[str], list[tuple[int, int]]]
) -> str:
    """Collect the reasoning at the beginning of a text, and return the rest of the text.

    A closing mark without an opening mark ends reasoning that the prompt has opened, unless the mark is inside a call.
    `find_calls` returns the start and end of each call in a text.
    """
    body = _take_leading(body, collector, marks)
    endings = _mark_pattern((*marks.endings,))
    ending = endings.search(body)
    call_spans = find_calls(body) if ending else []

    while ending:
        start, end = ending.span()
        # A closing mark inside a call is a part of its arguments.
        call_end = next((last for first, last in call_spans if first < start < last), None)  # of the call around it

        # If its opening mark is in the text, the prompt has opened nothing.
        if call_end is None and marks.endings[ending[0]].opens not in body[:start]:
            collector.add_thought(body[:start], body[:end])
            return _take_leading(body[end:].lstrip(), collector, marks)

        ending = endings.search(body, call_end or end)
    return body


def _take_leading(body: str, collector: CallCollector, marks: Marks) -> str:
    """Collect the reasoning with which a text begins, and return the rest of the text.

    Reasoning that may only stand at the beginning must have a closing mark.
    """
    for _ in range(_MOST_LEADING):
        thought = next((thought for opening, thought in marks.by_opening.items() if body.startswith(opening)), None)
        if thought is None or (thought.leading and not any(close in body for close in thought.closes)):
            break

        body = body[_take_thought(body, 0, thought, collector) :].lstrip()
    return body


def _take_thought(text: str, start: int, thought: Thought, collector: CallCollector) -> int:
    """Add the reasoning that begins at `start` to the collector, and return its end.

    Without a closing mark, reasoning extends to the end of the text, and the collector keeps it as `open_thought`.
    """
    inside = start + len(thought.opens)
    closings = [(text.find(close, inside), close) for close in thought.closes]
    # The first of the closing marks ends the reasoning.
    end, close = min((closing for closing in closings if closing[0] >= 0), default=(len(text), ""))

    collector.add_thought(text[inside:end], text[start : end + len(close)])
    collector.open_thought = "" if close else text[inside:]
    return end + len(close)
