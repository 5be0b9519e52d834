"""Where a judge's verdicts may stand in its reply: objects, tags, marks, labelled lines, or the bare reply."""

import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import islice

from tunecheck._errors import ReplyError
from tunecheck._json import JSON
from tunecheck._messages import clean
from tunecheck.calls._python_text import PythonScanner
from tunecheck.calls._strict_json import UnreadableError
from tunecheck.evaluators._judges.output import REASON_NAMES, SCORE_NAMES

_WORK = 20_000_000
"""Characters gone through in vain at most: a reply may be full of braces that open nothing."""

_MOST_VERDICTS = 20
_MOST_WORDS = 3
_DEEPEST = 4
_SHOWN_HEAD, _SHOWN_TAIL = 240, 80

_OBJECT = re.compile(r"\{(?=\s*[\"'}])")
_FENCE = re.compile(r"```[\w-]{0,20}\s*(.{1,80})```", re.DOTALL)
_MARK = re.compile(r"\[\[\s*([^\[\]\n,]{1,40}?)\s*\]\]")
_BARE = re.compile(r"(?:[\w ]{1,40}(?::|=|\bis\b) ?)?(?P<value>\S.{0,60})", re.IGNORECASE)
_AROUND = " \t*_`\"'"
_TAGS_OF_AZURE = {"score": "S2", "reason": "S1"}
"""How the prompts of older releases of Azure AI Evaluation ask for thoughts, explanation and score."""


class JudgementError(ReplyError):
    """A judge's reply without a valid verdict, after one attempt to have it repaired."""


class JudgeRefusalError(JudgementError):
    """The judge declined to judge."""


@dataclass(frozen=True)
class ReplyKeys:
    """What is looked for in a reply: the keys of score and reason, and those of all declared outputs."""

    score: str
    reason: str | None = None
    declared: tuple[str, ...] = ()

    @cached_property
    def all(self) -> tuple[str, ...]:
        named = (self.score, *([self.reason] if self.reason else []), *self.declared)
        return tuple(dict.fromkeys(named))

    def named(self, values: dict[str, JSON]) -> dict[str, JSON]:
        """The values under the declared keys, letter case aside; a score under another usual name under its own."""
        wanted = {key.casefold(): key for key in self.all if key not in values}
        named = {wanted.get(name.strip().casefold(), name): value for name, value in values.items()}
        others = (name for name in SCORE_NAMES if isinstance(named.get(name), (str, int, float)))
        other = next((name for name in others if name not in self.all), None)
        if self.score not in named and other is not None:
            named[self.score] = named.pop(other)
        return named


def verdicts(text: str, keys: ReplyKeys) -> Iterator[list[dict[str, JSON]]]:
    """What may be the verdicts in a reply, from each of the forms that they may have, the most certain first.

    Where there is JSON, whole or broken, only it and tags count: any other form may stand within its texts.

    Raises:
        JudgementError: an object gives a key twice, with two values.
    """
    found = list(_from_objects(text, keys))
    yield found
    yield _from_tags(text, keys)
    if not found and not _OBJECT.search(text):
        yield [{keys.score: marked[1]} for marked in _MARK.finditer(text)]
        yield _from_lines(text, keys)
        yield _from_bare(text, keys)


def problem_of(text: str) -> str:
    """What is wrong with a reply in which no verdict stands."""
    return "its JSON breaks off or is broken" if _OBJECT.search(text) else "there is no JSON object in it"


def shortened(text: str) -> str:
    """A reply as an error shows it: one line, its beginning and its end."""
    line = clean(text[: 4 * _SHOWN_HEAD], _SHOWN_HEAD)
    if len(text) <= _SHOWN_HEAD:
        return line
    return f"{line} [{len(text):,} characters] …{clean(text[-_SHOWN_TAIL:], _SHOWN_TAIL)}"


# -- objects


def _from_objects(text: str, keys: ReplyKeys) -> Iterator[dict[str, JSON]]:
    """The objects that have a score; where none has, the last one."""
    last: dict[str, JSON] | None = None
    scored = False
    for value in _objects(text):
        last = value
        for inner in islice(_scored(value, keys, 0), _MOST_VERDICTS):
            scored = True
            yield inner
    if not scored and last is not None:
        yield keys.named(last)


def _scored(value: JSON, keys: ReplyKeys, depth: int) -> Iterator[dict[str, JSON]]:
    """The objects with a score in a value: itself, or those inside of it, each with what stands around it."""
    if isinstance(value, str) and value.lstrip().startswith("{"):  # the arguments of a call
        value = next(_objects(value), None)
    if isinstance(value, list) and depth < _DEEPEST:
        for item in value:
            yield from _scored(item, keys, depth + 1)
    if not isinstance(value, dict):
        return
    named = keys.named(value)
    if keys.score in named:
        yield named
    elif depth < _DEEPEST:
        for inner in named.values():
            for found in _scored(inner, keys, depth + 1):
                yield {**named, **found}


def _objects(text: str) -> Iterator[dict[str, JSON]]:
    failures = max(16, min(500, _WORK // max(1, len(text))))
    position = 0
    while failures and (start := _OBJECT.search(text, position)):
        try:
            value, position = _object_at(text, start.start())
        except (ValueError, RecursionError):
            failures -= 1
            position = start.end()
            continue
        if isinstance(value, dict):
            yield value


def _object_at(text: str, position: int) -> tuple[JSON, int]:
    """The object at a position, as JSON, or as Python writes it: in apostrophes, with a comma after the last value."""
    try:
        value, end = _decode(text, position)
    except ValueError:
        scanner = PythonScanner(text, position)
        try:
            return scanner.value(), scanner.position
        except UnreadableError as error:
            raise ValueError(str(error)) from None
    return value, end


def _once(pairs: list[tuple[str, JSON]]) -> dict[str, JSON]:
    values: dict[str, JSON] = {}
    for name, value in pairs:
        if name in values and values[name] != value:
            raise JudgementError(f"it gives {name!r} twice, with two values")
        values[name] = value
    return values


_decode: Callable[[str, int], tuple[JSON, int]] = json.JSONDecoder(
    strict=False, parse_constant=lambda _: None, object_pairs_hook=_once
).raw_decode
# Line feeds inside of strings are forgiven, which models write into their reasons.


# -- other forms


def _from_tags(text: str, keys: ReplyKeys) -> list[dict[str, JSON]]:
    """`<score>4</score>`, with the other values in tags of theirs."""
    named = {key: [key] for key in keys.all}
    named[keys.score].append(_TAGS_OF_AZURE["score"])
    named.get(keys.reason or "", []).append(_TAGS_OF_AZURE["reason"])
    found = {key: values for key, names in named.items() if (values := _tagged(text, names))}
    others: dict[str, JSON] = {key: values[-1] for key, values in found.items()}
    return [{**others, keys.score: score} for score in found.get(keys.score, [])]


def _tagged(text: str, names: Iterable[str]) -> list[str]:
    """What stands between tags of the first of these names that has any."""
    for name in names:
        values: list[str] = []
        position = 0
        while len(values) < _MOST_VERDICTS and (end := text.find(f"</{name}>", position)) >= 0:
            start = text.rfind(f"<{name}>", position, end)
            position = end + len(name) + 3
            values += [text[start + len(name) + 2 : end].strip()] if start >= 0 else []
        if values:
            return values
    return []


def _from_lines(text: str, keys: ReplyKeys) -> list[dict[str, JSON]]:
    """`Score: 4` on a line of its own, with the reason on another."""
    reasons = list(_labelled(text, (keys.reason or "reason", *REASON_NAMES)))
    reason: dict[str, JSON] = {keys.reason: reasons[-1]} if keys.reason is not None and reasons else {}
    scores = islice(_labelled(text, (keys.score, *SCORE_NAMES)), _MOST_VERDICTS)
    return [{**reason, keys.score: score} for score in scores]


def _labelled(text: str, names: Iterable[str]) -> Iterator[str]:
    any_name = "|".join(re.escape(name).replace("_", "[_ ]") for name in names)
    begin = r"^[\s>#*_`\"'-]{0,12}(?:(?:the|my|final|overall) )*"
    line = rf"{begin}(?:{any_name})[*_`\"']{{0,4}}\s?(?:[:=]|is\b)(.{{1,2000}})$"
    return (found[1].strip(_AROUND) for found in re.finditer(line, text, re.IGNORECASE | re.MULTILINE))


def _from_bare(text: str, keys: ReplyKeys) -> list[dict[str, JSON]]:
    fenced = _FENCE.fullmatch(text)
    line = (fenced[1] if fenced else text).strip().strip(_AROUND).strip()
    matched = _BARE.fullmatch(line) if len(line) <= 100 and "\n" not in line else None
    if matched is None:
        return []
    said = [each.strip(_AROUND) for each in dict.fromkeys((line, matched["value"]))]
    return [{keys.score: each} for each in said if each[:1].isdigit() or len(each.split()) <= _MOST_WORDS]
