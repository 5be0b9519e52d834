"""Words of English text in ASCII, split as nltk's `word_tokenize` splits them: sentences first, then Treebank tokens.

Nearly all rules look no further than one stretch of text between two blanks, and words come again and again. So a text
is cut at its blanks and each piece is tokenised once and remembered; what a rule could see across a blank (a quotation
mark beside a line break, closing brackets on their own) and what is not plainly the end of a sentence takes the longer
way, with nltk's Punkt for the sentences. Both ways give nltk's tokens.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from tunecheck.evaluators.textmetrics.sentences import is_abbreviation, split_sentences

__all__ = ["sentence_tokens", "treebank_tokens"]

_MAX_REMEMBERED = 48
"""Longest piece of text, in characters, that is remembered."""

_SHORT_FORMS = frozenset(("cannot", "gimme", "gonna", "gotta", "lemme", "wanna"))
_CLOSING = frozenset("])}>\"'")

_END_CANDIDATE = re.compile(r"[.?!](?=[)\";}\]*:@'({\[!?])")
"""Punkt looks at an end mark before a blank, and at one before these."""
_PLAIN_END = re.compile(r"(?:[A-Za-z]{2,}\.|[A-Za-z0-9]+[?!])\Z")
"""A word and an end mark: the end of a sentence, unless the word is an abbreviation."""
_PLAIN_WORD = re.compile(r"([A-Za-z0-9]+)([,;:])?\Z")
_QUOTED_END = re.compile(r"[^.?!]*[.?!][\"')\]}]+\Z")
"""An end mark inside of closing quotes and brackets at the end of a text: Punkt never parts them."""
_ACROSS_BLANKS = re.compile(r"[\x1c-\x1f]|[\t-\r](?:\"|'')|'[\t-\r]")
"""What some rule sees across a blank: separators that are no blanks to it, quotation marks beside a line break."""

_OPENING_QUOTES = tuple(
    (re.compile(pattern, re.ASCII | re.IGNORECASE), replacement)
    for pattern, replacement in (
        (r"(``?)", r" \1 "),
        (r'\A"', "`` "),
        (r"([ ([{<])(?:\"|'')", r"\1 `` "),
        (r"(?<!\w)'(?=\w)(?!(?:re|ve|ll|[mtsdn])\b)", "' "),
    )
)
_PUNCTUATION = tuple(
    (re.compile(pattern, re.ASCII), replacement)
    for pattern, replacement in (
        (r"([^.])\.([])}>\"' ]*+)\s*$", r"\1 . \2 "),
        (r"([:,])([^\d])", r" \1 \2"),
        (r"([:,])$", r" \1 "),
        (r"(\.{2,}|[;@#$%&?!])", r" \1 "),
        (r"([^'])' ", r"\1 ' "),
        (r"([][(){}<>*]|--)", r" \1 "),
    )
)
_CLOSING_QUOTES = tuple(
    (re.compile(pattern, re.ASCII), replacement)
    for pattern, replacement in (
        (r"''|\"", " '' "),
        (r"\s+", " "),
        (r"([^' ])('[sSmMdD]?) ", r"\1 \2 "),
        (r"([^' ])('ll|'LL|'re|'RE|'ve|'VE|n't|N'T) ", r"\1 \2 "),
    )
)
_CONTRACTED = tuple(
    (re.compile(rf"{before}({first})({second})", re.ASCII | re.IGNORECASE), r" \1 \2 ")
    for before, first, second in (
        (r"\b", "can", r"not\b"), (r"\b", "d", r"'ye\b"), (r"\b", "gim", r"me\b"), (r"\b", "gon", r"na\b"),
        (r"\b", "got", r"ta\b"), (r"\b", "lem", r"me\b"), (r"\b", "more", r"'n\b"),
        (r"\b", "wan", r"na(?=[\s\x1c-\x1f])"), (" ", "'t", r"is\b"), (" ", "'t", r"was\b"),
    )
)  # fmt: skip


def sentence_tokens(sentence: str) -> list[str]:
    """The tokens of one sentence without blanks at its end, by all rules one after another."""
    for pattern, replacement in _OPENING_QUOTES + _PUNCTUATION:
        sentence = pattern.sub(replacement, sentence)
    sentence = f" {sentence} "
    for pattern, replacement in _CLOSING_QUOTES + _CONTRACTED:
        sentence = pattern.sub(replacement, sentence)
    return sentence.split()


class _Piece(NamedTuple):
    """What a piece of text between two blanks comes to.

    `inside` are its tokens inside of a sentence, `at_end` at a sentence's end; `ends` says whether it ends a sentence
    when more follows, None that this is not plain to see; `glued` that it does not end one when it is the last.
    """

    inside: tuple[str, ...]
    at_end: tuple[str, ...]
    ends: bool | None
    glued: bool


def treebank_tokens(text: str) -> list[str]:
    """The tokens of a text in ASCII, as nltk's `word_tokenize` gives them."""
    pieces = text.split()
    if not pieces:
        return []
    tokens = _remembered_tokens(text, pieces)
    if tokens is None:
        return [token for sentence in split_sentences(text) for token in sentence_tokens(sentence)]
    return tokens


def _remembered_tokens(text: str, pieces: list[str]) -> list[str] | None:
    """Tokens put together piece by piece; None where a rule might look further than one piece."""
    if text.startswith(('"', "''")) or (not text.isprintable() and _ACROSS_BLANKS.search(text)):
        return None
    last = pieces.pop()
    tokens: list[str] = []
    ended = False
    for piece in pieces:
        inside, at_end, ends, _ = _look_at(piece) if len(piece) <= _MAX_REMEMBERED else _look_at.__wrapped__(piece)
        if ends is None or (ended and piece[0] in _CLOSING):
            return None
        tokens += at_end if ends else inside
        ended = ends
    _, at_end, _, glued = _look_at(last) if len(last) <= _MAX_REMEMBERED else _look_at.__wrapped__(last)
    if not glued or (ended and last[0] in _CLOSING):
        return None
    tokens += at_end
    return tokens


@lru_cache(maxsize=1 << 15)
def _look_at(piece: str) -> _Piece:
    plain = _PLAIN_WORD.match(piece)
    if plain and plain[1].lower() not in _SHORT_FORMS:
        inside = tuple(filter(None, plain.groups()))
        return _Piece(inside, inside, False, True)
    # Between two neutral words, no rule takes the piece for the beginning or the end of a sentence.
    inside = tuple(sentence_tokens(f"x {piece} x")[1:-1])
    at_end = tuple(sentence_tokens(f"x {piece}")[1:])
    return _Piece(inside, at_end, _ends_sentence(piece), _is_glued(piece))


def _ends_sentence(piece: str) -> bool | None:
    if _END_CANDIDATE.search(piece):
        return None
    if piece[-1] not in ".?!":
        return False
    return True if _PLAIN_END.match(piece) and not is_abbreviation(piece) else None


def _is_glued(piece: str) -> bool:
    if _CLOSING.issuperset(piece):
        return False  # the full stop before it may stand in another piece
    return not _END_CANDIDATE.search(piece) or bool(_QUOTED_END.match(piece))
