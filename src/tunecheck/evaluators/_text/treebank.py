"""Words of English text in ASCII, split as nltk's `word_tokenize` splits them: sentences first, then Treebank tokens.

Nearly all rules look no further than one stretch of text between two blanks, and words come again and again. So a text
is cut at its blanks and each piece is tokenised once and remembered; what a rule could see across a blank (a quotation
mark beside a line break, closing brackets on their own) and what is not plainly the end of a sentence takes the longer
way, with nltk's Punkt for the sentences. Both ways give nltk's tokens.
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import chain
from typing import NamedTuple

from tunecheck.evaluators._text.sentences import is_abbreviation, split_sentences

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
    tokens = _plain_text_tokens(text)
    if tokens is None:
        return [token for sentence in split_sentences(text) for token in _remembered_tokens(sentence)]
    return tokens


def _plain_text_tokens(text: str) -> list[str] | None:
    """Tokens put together piece by piece; None where a rule might look further, or sentences are not plain to see."""
    if _looks_across_blanks(text):
        return None
    tokens: list[str] = []
    *pieces, last = text.split() or [""]
    ended = False
    for piece in pieces:
        inside, at_end, ends, _ = _look_at(piece)
        if ends is None or (ended and piece[0] in _CLOSING):
            return None
        tokens += at_end if ends else inside
        ended = ends
    if not _look_at(last).glued or (ended and last[0] in _CLOSING):
        return None
    tokens += _look_at(last).at_end
    return tokens


def _remembered_tokens(sentence: str) -> list[str]:
    """The tokens of one sentence, put together piece by piece where no rule looks further."""
    *pieces, last = sentence.split() or [""]
    if _looks_across_blanks(sentence) or _CLOSING.issuperset(last):
        return sentence_tokens(sentence)
    return [*chain.from_iterable(_look_at(piece).inside for piece in pieces), *_look_at(last).at_end]


def _looks_across_blanks(text: str) -> bool:
    return text.startswith(('"', "''")) or not (text.isprintable() or _ACROSS_BLANKS.search(text) is None)


def _look_at(piece: str) -> _Piece:
    return _remembered(piece) if len(piece) <= _MAX_REMEMBERED else _work_out(piece)


def _work_out(piece: str) -> _Piece:
    plain = _PLAIN_WORD.match(piece)
    if plain and plain[1].lower() not in _SHORT_FORMS:
        inside = tuple(filter(None, plain.groups()))
        return _Piece(inside, inside, False, True)
    # Between two neutral words, no rule takes the piece for the beginning or the end of a sentence.
    inside = tuple(sentence_tokens(f"x {piece} x")[1:-1])
    at_end = tuple(sentence_tokens(f"x {piece}")[1:])
    return _Piece(inside, at_end, _ends_sentence(piece), _is_glued(piece))


_remembered = lru_cache(maxsize=1 << 15)(_work_out)


def _ends_sentence(piece: str) -> bool | None:
    if _END_CANDIDATE.search(piece):
        return None
    if not piece.endswith((".", "?", "!")):
        return False
    return True if _PLAIN_END.match(piece) and not is_abbreviation(piece) else None


def _is_glued(piece: str) -> bool:
    if _CLOSING.issuperset(piece):
        return False  # the full stop before it may stand in another piece
    return not _END_CANDIDATE.search(piece) or bool(_QUOTED_END.match(piece))
