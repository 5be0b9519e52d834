"""A judge's reply read as data: JSON, fenced or with text around it, tagged text, or the bare score."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tunecheck._errors import ReplyError
from tunecheck._json import JSON, plain
from tunecheck.endpoints._failures import one_line

_MOST_CHARACTERS = 1_000_000
_WORK = 20_000_000
"""Characters gone through in vain at most: a reply may be full of braces that open nothing."""

_SHOWN_HEAD, _SHOWN_TAIL = 240, 80

_OBJECT = re.compile(r'\{(?=\s*["}])')
_NUMBER = re.compile(r"[-+]?[0-9]{1,15}(?:\.[0-9]{1,15})?")
_BARE = re.compile(r"(?:[\w ]{1,40}(?::|=|\bis\b) ?)?(?P<value>\S.{0,60})", re.IGNORECASE)
_FENCE = re.compile(r"```[\w-]{0,20}\s*(.{1,80})```", re.DOTALL)
_THOUGHTS = ("<think>", "</think>")
_TAGS_OF_AZURE = {"score": "S2", "reason": "S1"}
"""How the prompts of older releases of Azure AI Evaluation ask for thoughts, explanation and score."""

_REFUSAL = re.compile(
    r"(?:i['’]?m |i am )?(?:very )?(?:sorry|afraid|unable|not able)\b"
    r".{0,80}\b(?:can(?:['’]t|not)|unable|not able|won['’]t|to )"
    r"|(?:i |we )(?:can(?:['’]t|not| not)|won['’]t|am unable to|must decline)\b",
    re.IGNORECASE,
)

_decode = json.JSONDecoder(strict=False, parse_constant=lambda _: None).raw_decode
# Line feeds inside of strings are forgiven, which models write into their reasons.


class JudgementError(ReplyError):
    """A judge's reply in which there is no valid verdict, after one attempt to have it repaired."""


class JudgeRefusalError(JudgementError):
    """The judge declined to judge."""


@dataclass(frozen=True, slots=True)
class ReplyKeys:
    """What is looked for in a reply: the keys of score and reason, and those of all declared outputs."""

    score: str
    reason: str | None = None
    declared: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    """Words that a bare reply may be, in place of a number."""

    def all(self) -> tuple[str, ...]:
        """Every key by name, the score's first."""
        named = (self.score, *([self.reason] if self.reason else []), *self.declared)
        return tuple(dict.fromkeys(named))


def read_reply(text: str, keys: ReplyKeys) -> dict[str, JSON]:
    """The values in a reply, under the keys as they are declared (letter case aside).

    Of several objects the last that has a score counts: what stands before it is the judge thinking aloud.

    Raises:
        JudgementError: there is nothing of the kind in it; says what is wrong, without the reply itself.
    """
    if len(text) > _MOST_CHARACTERS:
        raise JudgementError(f"it is {len(text):,} characters long")
    said = _without_thoughts(text).strip()
    if not said:
        raise JudgementError("it is empty")
    found = _from_objects(said, keys) or _from_tags(said, keys) or _from_bare(said, keys)
    if found is None:
        raise JudgementError(_problem(said))
    try:
        values = plain(found)
    except TypeError as error:
        raise JudgementError(f"it holds what cannot be kept: {error}") from None
    assert isinstance(values, dict)
    return values


def is_refusal(text: str) -> bool:
    """Whether a reply without a verdict begins as refusals do. Services do not mark them reliably."""
    return _REFUSAL.match(text.lstrip()[:300]) is not None


def shortened(text: str) -> str:
    """A reply as an error shows it: one line, its beginning and its end."""
    line = one_line(text[: 4 * _SHOWN_HEAD], _SHOWN_HEAD)
    if len(text) <= _SHOWN_HEAD:
        return line
    return f"{line} [{len(text):,} characters] …{one_line(text[-_SHOWN_TAIL:], _SHOWN_TAIL)}"


def _without_thoughts(text: str) -> str:
    """The reply without what a reasoning model thought aloud before it."""
    opened, closed = _THOUGHTS
    if not text.lstrip().startswith(opened):
        return text
    return text.rpartition(closed)[2] if closed in text else ""


def _problem(said: str) -> str:
    return "its JSON breaks off or is broken" if _OBJECT.search(said) else "there is no JSON object in it"


# -- objects


def _from_objects(text: str, keys: ReplyKeys) -> dict[str, JSON] | None:
    last: dict[str, JSON] | None = None
    scored: dict[str, JSON] | None = None
    for value in _objects(text):
        named = _named(value, keys)
        last = named
        if keys.score in named:
            scored = named
    return scored or last


def _objects(text: str) -> Iterator[dict[str, JSON]]:
    """The JSON objects of a text, outermost ones only, in their order."""
    failures = max(16, min(500, _WORK // len(text)))
    position = 0
    while failures and (start := _OBJECT.search(text, position)):
        try:
            value, position = _decode(text, start.start())
        except (ValueError, RecursionError):
            failures -= 1
            position = start.end()
            continue
        if isinstance(value, dict):
            yield value


def _named(values: Mapping[str, JSON], keys: ReplyKeys) -> dict[str, JSON]:
    """The values, those of declared keys under their declared names: models write `Score` for `score`."""
    wanted = {key.casefold(): key for key in keys.all() if key not in values}
    return {wanted.get(name.strip().casefold(), name): value for name, value in values.items()}


# -- tags


def _from_tags(text: str, keys: ReplyKeys) -> dict[str, JSON] | None:
    found = {key: value for key in keys.all() if (value := _tagged(text, key)) is not None}
    for key, sort in ((keys.score, "score"), (keys.reason, "reason")):
        value = _tagged(text, _TAGS_OF_AZURE[sort])
        if key is not None and key not in found and value is not None:
            found[key] = value
    if keys.score not in found:
        return None
    return {**found, keys.score: _scalar(found[keys.score])}


def _tagged(text: str, name: str) -> str | None:
    """What stands between the last pair of tags of that name."""
    end = text.rfind(f"</{name}>")
    start = text.rfind(f"<{name}>", 0, end) if end >= 0 else -1
    return text[start + len(name) + 2 : end].strip() if start >= 0 else None


def _scalar(text: str) -> JSON:
    """A number, true or false, where the text is one; else the text."""
    if _NUMBER.fullmatch(text):
        return float(text) if "." in text else int(text)
    return {"true": True, "false": False}.get(text.casefold(), text)


# -- the bare score


def _from_bare(text: str, keys: ReplyKeys) -> dict[str, JSON] | None:
    fenced = _FENCE.fullmatch(text)
    line = (fenced[1] if fenced else text).strip().strip("*_`\"'").strip()
    matched = _BARE.fullmatch(line) if len(line) <= 100 and "\n" not in line else None
    if matched is None:
        return None
    for said in (line, matched["value"]):
        word = said.strip("*_`\"' ").removesuffix(".")
        value = _scalar(word)
        if not isinstance(value, str) or word.casefold() in (label.casefold() for label in keys.labels):
            return {keys.score: value}
    return None
