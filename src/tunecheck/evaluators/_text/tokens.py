"""A text's tokens, worked out once however many metrics ask: Treebank's for text in ASCII, NIST's for every other.

Both are nltk's. Treebank: text is split as by `word_tokenize`, sentences first, then words. Nearly all rules look no
further than one stretch of text between two blanks, and words come again and again. So a text is cut at its blanks and
each piece is tokenised once and remembered. A longer way with nltk's Punkt is taken if a rule could match across a
blank (a quotation mark beside a line break, closing brackets on their own) or the end of a sentence is unclear. Both
ways give nltk's tokens.

NIST: as by `NISTTokenizer().international_tokenize`, after the tokeniser of NIST's mteval-v14 script: ASCII and other
characters are separated, and so are symbols and punctuation beside a digit. The classes of characters are Perl's of
Unicode 7.0. No rule looks across blanks.
"""

from __future__ import annotations

import re
from functools import lru_cache
from importlib.resources import files
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from nltk.tokenize.punkt import PunktSentenceTokenizer


def read_data(name: str) -> bytes:
    """Return the content of a data file of this package, also from a zipped one."""
    return files(__package__).joinpath("data", name).read_bytes()


def _read_lines(name: str) -> list[str]:
    return read_data(name).decode("utf-8").splitlines()


_MAX_REMEMBERED = 48
"""Longest word or piece of text, in characters, that is remembered."""


@lru_cache(maxsize=512)  # the metrics of a row ask for the same texts
def tokens_of(text: str) -> tuple[str, ...]:
    """Return the tokens that Azure AI Evaluation scores: Treebank's for ASCII, NIST's for every other text."""
    return tuple(treebank_tokens(text) if text.isascii() else nist_tokens(text))


# -- NIST

_ENTITIES = {
    "&lt;": "<", "&gt;": ">", "&apos;": "'", "&quot;": '"', "&#124;": "|", "&#91;": "[", "&#93;": "]", "&amp;": "&",
}  # fmt: skip


def nist_tokens(text: str) -> list[str]:
    tokens: list[str] = []
    for word in text.split():
        tokens += _remembered_word(word) if len(word) <= _MAX_REMEMBERED else _word_tokens(word)
    return tokens


def _word_tokens(word: str) -> tuple[str, ...]:
    word = word.replace("<skipped>", "")
    if "&" in word:
        for entity, character in _ENTITIES.items():
            word = word.replace(entity, character)
    for pattern, replacement in _rules():
        word = pattern.sub(replacement, word)
    return tuple(word.split())


_remembered_word = lru_cache(maxsize=1 << 15)(_word_tokens)


@lru_cache(maxsize=1)
def _rules() -> tuple[tuple[re.Pattern[str], str], ...]:
    number, punctuation, symbol = (_character_class(line.split(" ")[1:]) for line in _read_lines("unicode_classes.txt"))
    return (
        (re.compile("([\0-\x7f]+)"), r" \1 "),
        (re.compile(f"({number})({punctuation})"), r"\1 \2 "),
        (re.compile(f"({punctuation})({number})"), r" \1 \2"),
        (re.compile(f"({symbol})"), r" \1 "),
    )


def _character_class(ranges: list[str]) -> str:
    # `30-39` and the like, as a class of a regular expression
    bounds = (span.split("-") for span in ranges)
    return "[" + "".join(rf"\u{int(first, 16):04x}-\u{int(last, 16):04x}" for first, last in bounds) + "]"


# -- sentences: nltk's Punkt, with the parameters that it learnt from the Wall Street Journal. T. Kiss and J. Strunk,
# "Unsupervised multilingual sentence boundary detection", Computational Linguistics 32(4), 2006.

_BOUNDARY_CANDIDATE = re.compile(r"[.?!](?:[)\";}\]*:@'({\[!?]|\s+\S)")


def split_sentences(text: str) -> list[str]:
    """Return the sentences of a text in ASCII, without blanks at their ends."""
    if not _BOUNDARY_CANDIDATE.search(text):
        return [text.rstrip()]
    sentences: list[str] = _punkt().tokenize(text)
    return sentences


@lru_cache(maxsize=1)
def _parameters() -> list[list[str]]:
    return [line.split("\t") for line in _read_lines("punkt_english.txt")]


@lru_cache(maxsize=1)
def _abbreviations() -> frozenset[str]:
    return frozenset(_parameters()[0][1:])


class _Contexts(dict[str, int]):
    """Orthographic contexts by word; asking for an unknown word leaves no trace, unlike in nltk's own table."""

    def __missing__(self, word: str) -> int:
        return 0


@lru_cache(maxsize=1)
def _punkt() -> PunktSentenceTokenizer:
    from nltk.tokenize.punkt import PunktParameters, PunktSentenceTokenizer  # a third of a second; few texts need it

    known = PunktParameters()
    known.ortho_context = _Contexts()
    for kind, *values in _parameters():
        if kind == "abbreviations":
            known.abbrev_types = set(values)
        elif kind == "starters":
            known.sent_starters = set(values)
        elif kind == "collocation":
            known.collocations.add(tuple(values))
        else:
            known.ortho_context.update(dict.fromkeys(values[1:], int(values[0])))
    return PunktSentenceTokenizer(known)


# -- Treebank

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
"""What some rule sees across a blank: separators that are not blanks to it, quotation marks beside a line break."""

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
    """Return the tokens of one sentence, without blanks at its end, by all rules in order."""
    for pattern, replacement in _OPENING_QUOTES + _PUNCTUATION:
        sentence = pattern.sub(replacement, sentence)
    sentence = f" {sentence} "
    for pattern, replacement in _CLOSING_QUOTES + _CONTRACTED:
        sentence = pattern.sub(replacement, sentence)
    return sentence.split()


class _Piece(NamedTuple):
    """The tokens of a piece of text between two blanks.

    `inside` are its tokens inside of a sentence, `at_end` at a sentence's end; `ends` says whether it ends a sentence
    when more follows, None that this is not plain to see; `glued` that it does not end one when it is the last.
    """

    inside: tuple[str, ...]
    at_end: tuple[str, ...]
    ends: bool | None
    glued: bool


def treebank_tokens(text: str) -> list[str]:
    """Return the tokens of a text in ASCII, like nltk's `word_tokenize`."""
    tokens = _plain_text_tokens(text)
    if tokens is None:
        return [*chain.from_iterable(map(_sentence_tokens_by_piece, split_sentences(text)))]
    return tokens


def _plain_text_tokens(text: str) -> list[str] | None:
    """Tokens put together piece by piece; None where a rule might look further, or sentences are not plain to see."""
    if _looks_across_blanks(text):
        return None
    tokens: list[str] = []
    *pieces, last = text.split() or [""]
    ended = False
    for piece in pieces:
        inside, at_end, ends, _ = _piece(piece)
        if ends is None or (ended and piece[0] in _CLOSING):
            return None
        tokens += at_end if ends else inside
        ended = ends
    if not _piece(last).glued or (ended and last[0] in _CLOSING):
        return None
    tokens += _piece(last).at_end
    return tokens


def _sentence_tokens_by_piece(sentence: str) -> list[str]:
    *pieces, last = sentence.split() or [""]
    if _looks_across_blanks(sentence) or _CLOSING.issuperset(last):
        return sentence_tokens(sentence)
    return [*chain.from_iterable(_piece(piece).inside for piece in pieces), *_piece(last).at_end]


def _looks_across_blanks(text: str) -> bool:
    return text.startswith(('"', "''")) or not (text.isprintable() or _ACROSS_BLANKS.search(text) is None)


def _piece(piece: str) -> _Piece:
    return _remembered_piece(piece) if len(piece) <= _MAX_REMEMBERED else _read_piece(piece)


def _read_piece(piece: str) -> _Piece:
    plain = _PLAIN_WORD.match(piece)
    if plain and plain[1].lower() not in _SHORT_FORMS:
        inside = tuple(filter(None, plain.groups()))
        return _Piece(inside, inside, False, True)
    # Between two neutral words, no rule takes the piece for the beginning or the end of a sentence.
    inside = tuple(sentence_tokens(f"x {piece} x")[1:-1])
    at_end = tuple(sentence_tokens(f"x {piece}")[1:])
    # The full stop before closing marks on their own may stand in another piece.
    glued = not _CLOSING.issuperset(piece) and (not _END_CANDIDATE.search(piece) or bool(_QUOTED_END.match(piece)))
    return _Piece(inside, at_end, _ends_sentence(piece), glued)


_remembered_piece = lru_cache(maxsize=1 << 15)(_read_piece)


def _ends_sentence(piece: str) -> bool | None:
    if _END_CANDIDATE.search(piece):
        return None
    if not piece.endswith((".", "?", "!")):
        return False
    abbreviated = piece.rstrip(".").lower() in _abbreviations()
    return True if _PLAIN_END.match(piece) and not abbreviated else None
