"""A text's tokens, cached for all metrics: Treebank's for ASCII text, NIST's for all other text.

Both follow nltk. Treebank: text is split as by `word_tokenize`, first into sentences, then into words. Nearly all rules
look only at one piece of text between two blanks, and words repeat. So a text is split at blanks, and each piece is
tokenised once and cached. If a rule could match across a blank (a quotation mark next to a line break, closing
brackets on their own), or the end of a sentence is unclear, nltk's slower Punkt is used. Both give nltk's tokens.

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
    """Return the content of a data file of this package, even if the package is zipped."""
    return files(__package__).joinpath("data", name).read_bytes()


def _read_lines(name: str) -> list[str]:
    return read_data(name).decode("utf-8").splitlines()


_MAX_REMEMBERED = 48
"""Maximum length of a word or piece of text that is cached, in characters."""


@lru_cache(maxsize=512)  # all metrics of a row use the same texts
def tokens_of(text: str) -> tuple[str, ...]:
    """Return the tokens that Azure AI Evaluation uses: Treebank's for ASCII text, NIST's for all other text."""
    return tuple(treebank_tokens(text) if text.isascii() else nist_tokens(text))


# -- NIST

_ENTITIES = {
    "&lt;": "<", "&gt;": ">", "&apos;": "'", "&quot;": '"', "&#124;": "|", "&#91;": "[", "&#93;": "]", "&amp;": "&",
}  # fmt: skip


def nist_tokens(text: str) -> list[str]:
    """Return a text's tokens as NIST's script makes them, word by word."""
    tokens: list[str] = []
    for word in text.split():
        tokens += _remembered_word(word) if len(word) <= _MAX_REMEMBERED else _word_tokens(word)
    return tokens


def _word_tokens(word: str) -> tuple[str, ...]:
    """Return the tokens of one word (a text without blanks) by NIST's rules."""
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
    """Return NIST's rules as patterns with replacements, made from the shipped table of Unicode's character classes."""
    number, punctuation, symbol = (_character_class(line.split(" ")[1:]) for line in _read_lines("unicode_classes.txt"))
    return (
        (re.compile("([\0-\x7f]+)"), r" \1 "),
        (re.compile(f"({number})({punctuation})"), r"\1 \2 "),
        (re.compile(f"({punctuation})({number})"), r" \1 \2"),
        (re.compile(f"({symbol})"), r" \1 "),
    )


def _character_class(ranges: list[str]) -> str:
    # Ranges such as `30-39` become a character class of a regular expression.
    bounds = (span.split("-") for span in ranges)
    return "[" + "".join(rf"\u{int(first, 16):04x}-\u{int(last, 16):04x}" for first, last in bounds) + "]"


# -- sentences: nltk's Punkt, with the parameters that it learnt from the Wall Street Journal. T. Kiss and J. Strunk,
# "Unsupervised multilingual sentence boundary detection", Computational Linguistics 32(4), 2006.

# an end mark after which a sentence may begin
_BOUNDARY_CANDIDATE = re.compile(r"[.?!](?:[)\";}\]*:@'({\[!?]|\s+\S)")


def split_sentences(text: str) -> list[str]:
    """Return the sentences of an ASCII text without trailing blanks; nltk's slow Punkt reads only unclear texts."""
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
    """Orthographic contexts by word; looking up an unknown word does not add it, unlike in nltk's own table."""

    def __missing__(self, word: str) -> int:
        return 0


@lru_cache(maxsize=1)
def _punkt() -> PunktSentenceTokenizer:
    """Return nltk's sentence splitter with the parameters of the shipped table, which replaces nltk's download."""
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
"""Punkt checks an end mark before a blank or before one of these characters."""
_PLAIN_END = re.compile(r"(?:[A-Za-z]{2,}\.|[A-Za-z0-9]+[?!])\Z")
"""A word and an end mark: the end of a sentence, unless the word is an abbreviation."""
_PLAIN_WORD = re.compile(r"([A-Za-z0-9]+)([,;:])?\Z")
_QUOTED_END = re.compile(r"[^.?!]*[.?!][\"')\]}]+\Z")
"""An end mark before closing quotes and brackets at the end of a text, which Punkt does not separate."""
_ACROSS_BLANKS = re.compile(r"[\x1c-\x1f]|[\t-\r](?:\"|'')|'[\t-\r]")
"""Cases in which a rule matches across a blank: unusual separators, and quotation marks next to a line break."""

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
    """Return the Treebank tokens of one sentence (without trailing blanks) by applying all rules in order."""
    for pattern, replacement in _OPENING_QUOTES + _PUNCTUATION:
        sentence = pattern.sub(replacement, sentence)
    sentence = f" {sentence} "
    for pattern, replacement in _CLOSING_QUOTES + _CONTRACTED:
        sentence = pattern.sub(replacement, sentence)
    return sentence.split()


class _Piece(NamedTuple):
    """The tokens of a piece of text between two blanks.

    `inside` are the piece's tokens within a sentence, `at_end` those at a sentence's end. `ends` tells if the piece
    ends a sentence when more text follows; None if unclear. `glued`: it forms one sentence end when it is the last
    piece.
    """

    inside: tuple[str, ...]
    at_end: tuple[str, ...]
    ends: bool | None
    glued: bool


def treebank_tokens(text: str) -> list[str]:
    """Return the tokens of an ASCII text, equal to those of nltk's `word_tokenize`."""
    tokens = _plain_text_tokens(text)
    if tokens is None:
        return [*chain.from_iterable(map(_sentence_tokens_by_piece, split_sentences(text)))]
    return tokens


def _plain_text_tokens(text: str) -> list[str] | None:
    """Return a text's tokens made piece by piece, which is fast.

    None if that could differ from nltk: a rule might match across blanks, or the end of a sentence is unclear.
    """
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
    """Return a sentence's tokens, piece by piece if no rule can match across blanks."""
    *pieces, last = sentence.split() or [""]
    if _looks_across_blanks(sentence) or _CLOSING.issuperset(last):
        return sentence_tokens(sentence)
    return [*chain.from_iterable(_piece(piece).inside for piece in pieces), *_piece(last).at_end]


def _looks_across_blanks(text: str) -> bool:
    return text.startswith(('"', "''")) or not (text.isprintable() or _ACROSS_BLANKS.search(text) is None)


def _piece(piece: str) -> _Piece:
    return _remembered_piece(piece) if len(piece) <= _MAX_REMEMBERED else _read_piece(piece)


def _read_piece(piece: str) -> _Piece:
    """Return the tokens that a text without blanks has inside a sentence and at its end, and whether it ends a
    sentence.
    """
    plain = _PLAIN_WORD.match(piece)
    if plain and plain[1].lower() not in _SHORT_FORMS:
        inside = tuple(filter(None, plain.groups()))
        return _Piece(inside, inside, False, True)
    # Between two neutral words, no rule treats the piece as the beginning or end of a sentence.
    inside = tuple(sentence_tokens(f"x {piece} x")[1:-1])
    at_end = tuple(sentence_tokens(f"x {piece}")[1:])
    # The full stop of closing marks on their own may be in another piece.
    glued = not _CLOSING.issuperset(piece) and (not _END_CANDIDATE.search(piece) or bool(_QUOTED_END.match(piece)))
    return _Piece(inside, at_end, _ends_sentence(piece), glued)


_remembered_piece = lru_cache(maxsize=1 << 15)(_read_piece)


def _ends_sentence(piece: str) -> bool | None:
    """Return whether a sentence ends after this piece, with more text to come; None if Punkt has to decide."""
    if _END_CANDIDATE.search(piece):
        return None
    if not piece.endswith((".", "?", "!")):
        return False
    abbreviated = piece.rstrip(".").lower() in _abbreviations()
    return True if _PLAIN_END.match(piece) and not abbreviated else None
