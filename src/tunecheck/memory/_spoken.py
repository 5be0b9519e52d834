"""A guest's words taken apart: what is said, clause by clause, and which clauses order something.

All work is linear in the text, of which only so much is looked at.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_MOST = 8_000
"""Characters that are looked at: no guest says more at a table."""

_QUOTES = str.maketrans({"’": "'", "‘": "'", "“": '"', "”": '"', "\u00a0": " ", "é": "e", "É": "E"})
_STAGE = re.compile(r"\*[^*\n]{1,400}\*(?!\*)|\([^()\n]{0,200}(?:smil|nod|look|glanc|sip)[^()\n]{0,200}\)")
_BLANKS = re.compile(r"[ \t\r\f\v]+")
_BOLD = re.compile(r"\*\*|__|`")
_LABEL = re.compile(r"^ *(?:customer|guest|diner|me|you)\s*:\s*", re.IGNORECASE | re.MULTILINE)
_OTHERS_TURN = re.compile(r"^ *(?:waiter|waitress|server)\s*:", re.IGNORECASE | re.MULTILINE)
_WORD = re.compile(r"[a-z0-9]+(?:'[a-z]+)?")
_END = re.compile(r"(?<=[.!?;])\s+|\n+")
_BULLET = re.compile(r" *(?:[-•*]|[0-9]{1,2}[.)])\s+")

_HOW = r"(?:(?:also|just|still|really|please|probably|simply|definitely|rather|actually|then|instead|kindly)\s+)*"
_GET = (
    r"(?:have|take|go(?: ahead)?(?: and)?(?: \w+)? (?:with|for)|order|try|start(?: off)? with|begin with|get|opt for"
    r"|choose|pick|do|stick with|switch to|change (?:it |that |my (?:\w+ )?order )?to|enjoy|settle (?:on|for))"
)
_ORDERS = re.compile(
    rf"\b(?:(?:i|we)(?:'ll| will| shall|'m going to| am going to|'m gonna)|let me|let's) {_HOW}{_GET}\b"
    rf"|\b(?:i|we)(?:'d| would) {_HOW}(?:like|love|prefer|be happy with|{_GET})\b"
    rf"|\b(?:can|could|may|might) (?:i|we) {_HOW}(?:swap|{_GET})\b"
    rf"|\b(?:can|could) you {_HOW}(?:bring|get|make)\b"
    rf"|\b(?:i|we) {_HOW}(?:want|choose|order|pick)\b"
    r"|\b(?:i've|i have|we've) (?:decided on|chosen|settled on|picked)\b"
    r"|\b(?:bring|give|get|serve) (?:me|us)\b|\b(?:make|put) (?:me|us|it|that)\b"
    r"|\b(?:i'm|i am) in the mood for\b|\b(?:how|what) about\b|\bmy order (?:is|will be|would be)\b"
    r"|^(?:maybe|perhaps)\b(?! something)(?!.* or )"
    r"|\b(?:as )?for (?:the |my |an? )?(?:drink|appetizer|starter|soup|main|entree|dessert|side|first|second)\b"
)
"""What a guest begins an order with."""

_NO_ORDER = re.compile(
    r"\b(?:like|love|want|need|take|have|get) (?:to (?:know|ask|hear|see|look|think|thank|point|clarify)"
    r"|(?:an?|some|another|few) (?:\w+ ){0,2}(?:look|minutes?|moments?|time|questions?|recommendations?|seconds?))\b"
)
"""What begins as an order does, and is none."""

_GOES_ON = re.compile(r"(?:and|also|plus|as well as|along with)\b")
_IN_PLACE = re.compile(r"\b(?:instead of|in place of|rather than|in lieu of)\b[^,.;!?]*")
_KEEPS = re.compile(r"\b(?:still|keep|as (?:originally )?(?:planned|ordered|before)|remain|in addition to)\b")


@dataclass(frozen=True, slots=True)
class Clause:
    """One sentence or line in lower case.

    `orders`: it asks for something, which `wanted` begins with; `keeps`: for what was ordered before; `asks`: it is a
    question.
    """

    text: str
    wanted: str
    orders: bool
    keeps: bool
    asks: bool


def spoken(reply: str) -> str:
    """What the guest says: without stage directions, emphasis, speaker's labels, and what he has the waiter say."""
    text = _BLANKS.sub(" ", reply[:_MOST].translate(_QUOTES))
    other = _OTHERS_TURN.search(text)
    if other is not None and text[: other.start()].strip():
        text = text[: other.start()]
    return _LABEL.sub("", _BOLD.sub("", _STAGE.sub(" ", text))).strip()


def words(text: str) -> list[str]:
    """The words of a text in lower case."""
    return _WORD.findall(text.lower())


def stem(word: str) -> str:
    """The word without a plural's s."""
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word


def clauses(said: str) -> list[Clause]:
    """The sentences and lines of what was said; the items of a list order as the line above it does."""
    found: list[Clause] = []
    listing = False
    for piece in _pieces(said):
        bullet = _BULLET.match(piece)
        text = _IN_PLACE.sub("", piece.lower())
        listing = listing if bullet else False
        cue = _cue(text)
        follows = bool(found) and found[-1].orders and _GOES_ON.match(text) is not None
        orders = cue is not None or follows or (listing and bullet is not None)
        wanted = text[cue.end() :] if cue is not None else text
        found.append(Clause(text, wanted, orders, bool(_KEEPS.search(text)), "?" in text))
        listing = listing or (orders and text.rstrip().endswith(":"))
    return found


def _cue(text: str) -> re.Match[str] | None:
    """What the order begins with, if the clause orders something."""
    for cue in _ORDERS.finditer(text):
        other = _NO_ORDER.search(text, cue.start())
        if other is None or other.start() >= cue.end():
            return cue
    return None


def _pieces(said: str) -> Iterator[str]:
    for piece in _END.split(said):
        if piece.strip():
            yield piece
