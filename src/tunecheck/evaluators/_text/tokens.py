"""The tokens of a text for the text metrics (BLEU, GLEU, METEOR, ROUGE), equal to those of nltk.

`tokens_of` chooses the tokeniser: Treebank for ASCII text, NIST for all other text.

Treebank: as nltk's `word_tokenize`, text is split into sentences, and each sentence into tokens. Nearly all rules look
only at one piece, which is the text between two blanks, and pieces repeat. So each piece is tokenised once and cached.
If a rule might match across a blank, the whole sentence is tokenised at once. If the end of a sentence is unclear,
nltk's Punkt, which is slower, finds the sentences. The tokens are the same in all cases.

NIST: as nltk's `NISTTokenizer().international_tokenize`, which follows NIST's script mteval-v14. ASCII and other
characters are separated, and so are symbols, and punctuation beside a digit. The classes of characters are Perl's of
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

_MAX_CACHED_LENGTH = 48
"""Maximum length of a word or piece of text that is cached, in characters."""


@lru_cache(maxsize=512)  # all metrics of a row use the same texts
def tokens_of(text: str) -> tuple[str, ...]:
    """Return the tokens that Azure AI Evaluation uses: Treebank's for ASCII text, NIST's for all other text."""
    return tuple(treebank_tokens(text) if text.isascii() else nist_tokens(text))


# -- Treebank: texts


def treebank_tokens(text: str) -> list[str]:
    """Return the tokens of an ASCII text, equal to those of nltk's `word_tokenize`."""
    tokens = _tokens_without_punkt(text)
    if tokens is not None:
        return tokens
    return [*chain.from_iterable(map(_tokens_of_sentence, split_sentences(text)))]


def _tokens_without_punkt(text: str) -> list[str] | None:
    """Return a text's tokens made piece by piece, which is fast.

    Return None if they might differ from nltk's: a rule might match across a blank, or the end of a sentence is
    unclear.
    """
    if _rule_may_cross_blank(text):
        return None
    tokens: list[str] = []
    *pieces, last_piece = text.split() or [""]
    sentence_ended = False
    for piece in pieces:
        known = _tokenise(piece)
        if known.ends_sentence is None or (sentence_ended and piece[0] in _CLOSING):
            return None
        tokens += known.at_sentence_end if known.ends_sentence else known.inside_sentence
        sentence_ended = known.ends_sentence
    known = _tokenise(last_piece)
    if not known.may_end_text or (sentence_ended and last_piece[0] in _CLOSING):
        return None
    return [*tokens, *known.at_sentence_end]


def _tokens_of_sentence(sentence: str) -> list[str]:
    """Return a sentence's tokens: made piece by piece, or by `sentence_tokens` if a rule might match across a blank."""
    *pieces, last_piece = sentence.split() or [""]
    if _rule_may_cross_blank(sentence) or _CLOSING.issuperset(last_piece):
        return sentence_tokens(sentence)
    inside = chain.from_iterable(_tokenise(piece).inside_sentence for piece in pieces)
    return [*inside, *_tokenise(last_piece).at_sentence_end]


# unusual separators, and quotation marks next to a line break or tab
_MATCH_ACROSS_BLANK = re.compile(r"[\x1c-\x1f]|[\t-\r](?:\"|'')|'[\t-\r]")


def _rule_may_cross_blank(text: str) -> bool:
    """Return whether one of Treebank's rules might match text on both sides of a blank."""
    if text.startswith(('"', "''")):
        return True
    # All separators but the space are unprintable, and checking that is faster than the search.
    return not text.isprintable() and _MATCH_ACROSS_BLANK.search(text) is not None


# -- Treebank: pieces of text between two blanks


class _Piece(NamedTuple):
    """The tokens of one piece, and what it does to the sentence around it."""

    inside_sentence: tuple[str, ...]
    """Its tokens if more text of the same sentence follows."""
    at_sentence_end: tuple[str, ...]
    """Its tokens if it is the last piece of its sentence."""
    ends_sentence: bool | None
    """Whether its sentence ends with it if more text follows; None if only Punkt can tell."""
    may_end_text: bool
    """Whether a text that ends with this piece can be tokenised without Punkt."""


_CLOSING = frozenset("])}>\"'")
_SHORT_FORMS = frozenset(("cannot", "gimme", "gonna", "gotta", "lemme", "wanna"))
_PLAIN_WORD = re.compile(r"(?P<word>[A-Za-z0-9]+)(?P<mark>[,;:])?\Z")
# Punkt checks an end mark before a blank or before one of these characters.
_END_INSIDE = re.compile(r"[.?!](?=[)\";}\]*:@'({\[!?])")
# an end mark before closing quotes and brackets at the end of a text, which Punkt does not separate
_QUOTED_END = re.compile(r"[^.?!]*[.?!][\"')\]}]+\Z")
# a word and an end mark: the end of a sentence, unless the word is an abbreviation
_PLAIN_END = re.compile(r"(?:[A-Za-z]{2,}\.|[A-Za-z0-9]+[?!])\Z")


def _tokenise(piece: str) -> _Piece:
    """Tokenise a text without blanks, from the cache if it is short."""
    return _cached_piece(piece) if len(piece) <= _MAX_CACHED_LENGTH else _tokenise_anew(piece)


def _tokenise_anew(piece: str) -> _Piece:
    """Apply Treebank's rules to a text without blanks."""
    plain = _PLAIN_WORD.match(piece)
    if plain and plain["word"].lower() not in _SHORT_FORMS:
        tokens = (plain["word"], plain["mark"]) if plain["mark"] else (plain["word"],)
        return _Piece(tokens, tokens, ends_sentence=False, may_end_text=True)
    # Between two neutral words, no rule treats the piece as the beginning or end of a sentence.
    inside_sentence = tuple(sentence_tokens(f"x {piece} x")[1:-1])
    at_sentence_end = tuple(sentence_tokens(f"x {piece}")[1:])
    if _CLOSING.issuperset(piece):
        may_end_text = False  # the full stop before it may be in another piece
    else:
        may_end_text = not _END_INSIDE.search(piece) or _QUOTED_END.match(piece) is not None
    return _Piece(inside_sentence, at_sentence_end, _ends_sentence(piece), may_end_text)


_cached_piece = lru_cache(maxsize=1 << 15)(_tokenise_anew)


def _ends_sentence(piece: str) -> bool | None:
    """Return whether a sentence ends after this piece if more text follows; None if only Punkt can tell."""
    if _END_INSIDE.search(piece):
        return None
    if not piece.endswith((".", "?", "!")):
        return False
    if piece.rstrip(".").lower() in _abbreviations() or not _PLAIN_END.match(piece):
        return None
    return True


# -- Treebank: the rules, in nltk's order

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
_CONTRACTIONS = tuple(
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
    for pattern, replacement in _CLOSING_QUOTES + _CONTRACTIONS:
        sentence = pattern.sub(replacement, sentence)
    return sentence.split()


# -- sentences: nltk's Punkt, with the parameters that it learnt from the Wall Street Journal. T. Kiss and J. Strunk,
# "Unsupervised multilingual sentence boundary detection", Computational Linguistics 32(4), 2006.

# an end mark after which a sentence may begin
_POSSIBLE_BOUNDARY = re.compile(r"[.?!](?:[)\";}\]*:@'({\[!?]|\s+\S)")


def split_sentences(text: str) -> list[str]:
    """Return the sentences of an ASCII text without trailing blanks; nltk's slow Punkt reads only unclear texts."""
    if not _POSSIBLE_BOUNDARY.search(text):
        return [text.rstrip()]
    sentences: list[str] = _punkt().tokenize(text)
    return sentences


@lru_cache(maxsize=1)
def _punkt() -> PunktSentenceTokenizer:
    """Return nltk's sentence splitter with the parameters of the shipped table, which replaces nltk's download."""
    from nltk.tokenize.punkt import PunktParameters, PunktSentenceTokenizer  # a third of a second; few texts need it

    parameters = PunktParameters()
    parameters.ortho_context = _Contexts()
    for kind, *values in _punkt_table():
        if kind == "abbreviations":
            parameters.abbrev_types = set(values)
        elif kind == "starters":
            parameters.sent_starters = set(values)
        elif kind == "collocation":
            parameters.collocations.add(tuple(values))
        else:
            context, *words = values
            parameters.ortho_context.update(dict.fromkeys(words, int(context)))
    return PunktSentenceTokenizer(parameters)


class _Contexts(dict[str, int]):
    """Orthographic contexts by word; looking up an unknown word does not add it, unlike in nltk's own table."""

    def __missing__(self, word: str) -> int:
        return 0


@lru_cache(maxsize=1)
def _abbreviations() -> frozenset[str]:
    _, *abbreviations = _punkt_table()[0]
    return frozenset(abbreviations)


@lru_cache(maxsize=1)
def _punkt_table() -> list[list[str]]:
    """Return the lines of the shipped table, each a kind of parameter and its values."""
    return [line.split("\t") for line in _read_lines("punkt_english.txt")]


# -- NIST

_ENTITIES = {
    "&lt;": "<", "&gt;": ">", "&apos;": "'", "&quot;": '"', "&#124;": "|", "&#91;": "[", "&#93;": "]", "&amp;": "&",
}  # fmt: skip


def nist_tokens(text: str) -> list[str]:
    """Return a text's tokens as NIST's script makes them, word by word."""
    tokens: list[str] = []
    for word in text.split():
        tokens += _cached_word_tokens(word) if len(word) <= _MAX_CACHED_LENGTH else _word_tokens(word)
    return tokens


def _word_tokens(word: str) -> tuple[str, ...]:
    """Return the tokens of one word (a text without blanks) by NIST's rules."""
    word = word.replace("<skipped>", "")
    if "&" in word:
        for entity, character in _ENTITIES.items():
            word = word.replace(entity, character)
    for pattern, replacement in _nist_rules():
        word = pattern.sub(replacement, word)
    return tuple(word.split())


_cached_word_tokens = lru_cache(maxsize=1 << 15)(_word_tokens)


@lru_cache(maxsize=1)
def _nist_rules() -> tuple[tuple[re.Pattern[str], str], ...]:
    """Return NIST's rules as patterns with replacements, made from the shipped table of Unicode's character classes."""
    number, punctuation, symbol = (_character_class(line.split(" ")[1:]) for line in _read_lines("unicode_classes.txt"))
    return (
        (re.compile("([\0-\x7f]+)"), r" \1 "),
        (re.compile(f"({number})({punctuation})"), r"\1 \2 "),
        (re.compile(f"({punctuation})({number})"), r" \1 \2"),
        (re.compile(f"({symbol})"), r" \1 "),
    )


def _character_class(ranges: list[str]) -> str:
    """Return a character class of a regular expression for hexadecimal ranges such as `30-39`."""
    bounds = (span.split("-") for span in ranges)
    return "[" + "".join(rf"\u{int(first, 16):04x}-\u{int(last, 16):04x}" for first, last in bounds) + "]"


# -- data files


def read_data(name: str) -> bytes:
    """Return the content of a data file of this package, even if the package is zipped."""
    return files(__package__).joinpath("data", name).read_bytes()


def _read_lines(name: str) -> list[str]:
    return read_data(name).decode("utf-8").splitlines()
