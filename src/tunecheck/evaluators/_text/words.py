"""The words of a text for the text metrics: tokens, stems and synonyms, equal to those of nltk.

`tokens_of` chooses the tokeniser: Treebank for ASCII text, NIST for all other text.

Treebank: as nltk's `word_tokenize`, text is split into sentences, and each sentence into tokens. Nearly all rules look
only at one piece, which is the text between two blanks, and pieces repeat. So each piece is tokenised once and cached.
If a rule might match across a blank, the whole sentence is tokenised at once. If the end of a sentence is unclear,
nltk's Punkt, which is slower, finds the sentences. The tokens are the same in all cases.

NIST: as nltk's `NISTTokenizer().international_tokenize`, which follows NIST's script mteval-v14. ASCII and other
characters are separated, and so are symbols, and punctuation beside a digit. The classes of characters are Perl's of
Unicode 7.0. No rule looks across blanks.

| text                     | tokens                               |
|--------------------------|--------------------------------------|
| `They can't pay $5,000.` | They ca n't pay $ 5,000 . (Treebank) |
| `Wo ist "Köln"? 3,5 €`   | Wo ist " K ö ln " ? 3,5 € (NIST)     |
"""

from __future__ import annotations

import re
from bisect import bisect_left
from functools import lru_cache
from importlib.resources import files
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from nltk.tokenize.punkt import PunktSentenceTokenizer

Tokens = tuple[str, ...]

_MAX_CACHED_LENGTH = 48
"""Maximum length of a word or piece of text that is cached, in characters. Longer ones hardly repeat."""


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
        # A closing mark after the end of a sentence may still belong to that sentence.
        if known.ends_sentence is None or (sentence_ended and piece[0] in _CLOSING):
            return None

        tokens += known.at_sentence_end if known.ends_sentence else known.inside_sentence
        sentence_ended = known.ends_sentence

    # The last piece has its full stop separated, so it is read as the end of a sentence in any case.
    known = _tokenise(last_piece)
    if not known.may_end_text or (sentence_ended and last_piece[0] in _CLOSING):
        return None
    return [*tokens, *known.at_sentence_end]


def _tokens_of_sentence(sentence: str) -> list[str]:
    """Return a sentence's tokens: made piece by piece, or by `sentence_tokens` if a rule might match across a blank."""
    *pieces, last_piece = sentence.split() or [""]
    # If the last piece is only closing marks, the full stop before them may be in another piece.
    if _rule_may_cross_blank(sentence) or _CLOSING.issuperset(last_piece):
        return sentence_tokens(sentence)

    inside = chain.from_iterable(_tokenise(piece).inside_sentence for piece in pieces)
    return [*inside, *_tokenise(last_piece).at_sentence_end]


# unusual separators, and quotation marks next to a line break or tab: "\n\"", "'\t"
_MATCH_ACROSS_BLANK = re.compile(r"[\x1c-\x1f]|[\t-\r](?:\"|'')|'[\t-\r]")


def _rule_may_cross_blank(text: str) -> bool:
    """Return whether one of Treebank's rules might match across a blank, so that pieces cannot be read one by one."""
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


# characters that a sentence may end with after its end mark
_CLOSING = frozenset("])}>\"'")
# words that a rule divides, such as `can not`
_SHORT_FORMS = frozenset(("cannot", "gimme", "gonna", "gotta", "lemme", "wanna"))
# a word with at most one mark after it, which is most of all pieces: `Paris`, `Paris,`
_PLAIN_WORD = re.compile(r"(?P<word>[A-Za-z0-9]+)(?P<mark>[,;:])?\Z")
# Punkt checks an end mark before a blank or before one of these characters: `U.S.)`, `yes!"`
_END_INSIDE = re.compile(r"[.?!](?=[)\";}\]*:@'({\[!?])")
# an end mark before closing quotes and brackets at the end of a text, which Punkt does not separate: `(yes!)`
_QUOTED_END = re.compile(r"[^.?!]*[.?!][\"')\]}]+\Z")
# a word and an end mark: the end of a sentence, unless the word is an abbreviation: `end.`, `5!`; not `U.S.`
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


def _rules(flags: re.RegexFlag, *rules: tuple[str, str]) -> tuple[tuple[re.Pattern[str], str], ...]:
    """Return the rules, each a pattern and its replacement, with compiled patterns."""
    return tuple((re.compile(pattern, flags), replacement) for pattern, replacement in rules)


_OPENING_QUOTES = _rules(
    re.ASCII | re.IGNORECASE,
    # opening quotes as in TeX
    (r"(``?)", r" \1 "),
    # at the beginning of the sentence and after a blank or an opening bracket: `say "yes` → say `` yes
    (r'\A"', "`` "),
    (r"([ ([{<])(?:\"|'')", r"\1 `` "),
    # an apostrophe before a word: `'hello` → ' hello; not `'re`
    (r"(?<!\w)'(?=\w)(?!(?:re|ve|ll|[mtsdn])\b)", "' "),
)
_PUNCTUATION = _rules(
    re.ASCII,
    # the full stop at the end, also before closing quotes and brackets: `end.")` → end . ")
    (r"([^.])\.([])}>\"' ]*+)\s*$", r"\1 . \2 "),
    # colons and commas, but not `1,000` or `9:30`
    (r"([:,])([^\d])", r" \1 \2"),
    (r"([:,])$", r" \1 "),
    # an ellipsis, and marks that are tokens of their own
    (r"(\.{2,}|[;@#$%&?!])", r" \1 "),
    # a closing apostrophe: `dogs' ` → dogs '
    (r"([^'])' ", r"\1 ' "),
    # brackets and the dash
    (r"([][(){}<>*]|--)", r" \1 "),
)
_CLOSING_QUOTES = _rules(
    re.ASCII,
    # all other quotation marks are closing ones
    (r"''|\"", " '' "),
    (r"\s+", " "),
    # `it's ` → it 's, `they'll ` → they 'll, `don't ` → do n't
    (r"([^' ])('[sSmMdD]?) ", r"\1 \2 "),
    (r"([^' ])('ll|'LL|'re|'RE|'ve|'VE|n't|N'T) ", r"\1 \2 "),
)
# `cannot` → can not, `gimme` → gim me
_CONTRACTIONS = _rules(
    re.ASCII | re.IGNORECASE,
    *((rf"{before}({first})({second})", r" \1 \2 ") for before, first, second in (
        (r"\b", "can", r"not\b"), (r"\b", "d", r"'ye\b"), (r"\b", "gim", r"me\b"), (r"\b", "gon", r"na\b"),
        (r"\b", "got", r"ta\b"), (r"\b", "lem", r"me\b"), (r"\b", "more", r"'n\b"),
        (r"\b", "wan", r"na(?=[\s\x1c-\x1f])"), (" ", "'t", r"is\b"), (" ", "'t", r"was\b"),
    )),
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

# an end mark after which a sentence may begin: `end. The`, `end.)`
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

    # a line of the table: the kind of parameter, then its values
    for kind, *values in _punkt_table():
        if kind == "abbreviations":
            parameters.abbrev_types = set(values)
        elif kind == "starters":
            parameters.sent_starters = set(values)
        elif kind == "collocation":
            parameters.collocations.add(tuple(values))
        else:
            # a context as a number, and the words that were seen in it
            context, *words = values
            parameters.ortho_context.update(dict.fromkeys(words, int(context)))

    return PunktSentenceTokenizer(parameters)


class _Contexts(dict[str, int]):
    """Orthographic contexts by word; looking up an unknown word does not add it, unlike in nltk's own table."""

    def __missing__(self, word: str) -> int:
        return 0


@lru_cache(maxsize=1)
def _abbreviations() -> frozenset[str]:
    """Return Punkt's abbreviations, which are the first line of the shipped table."""
    _, *abbreviations = _punkt_table()[0]
    return frozenset(abbreviations)


@lru_cache(maxsize=1)
def _punkt_table() -> list[list[str]]:
    """Return the lines of the shipped table, each a kind of parameter and its values."""
    return [line.split("\t") for line in _read_lines("punkt_english.txt")]


# -- NIST

# HTML's entities that NIST's script replaces, in its order
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
    # a line of the table: the name of a class, then its ranges of characters
    number, punctuation, symbol = (_character_class(line.split(" ")[1:]) for line in _read_lines("unicode_classes.txt"))

    return (
        # ASCII beside other characters: `5€` → 5 €
        (re.compile("([\0-\x7f]+)"), r" \1 "),
        # punctuation beside a digit
        (re.compile(f"({number})({punctuation})"), r"\1 \2 "),
        (re.compile(f"({punctuation})({number})"), r" \1 \2"),
        (re.compile(f"({symbol})"), r" \1 "),
    )


def _character_class(ranges: list[str]) -> str:
    """Return a character class of a regular expression for hexadecimal ranges such as `30-39`."""
    bounds = (span.split("-") for span in ranges)
    return "[" + "".join(rf"\u{int(first, 16):04x}-\u{int(last, 16):04x}" for first, last in bounds) + "]"


# -- the Porter stemmer, in the variant that nltk uses by default. M. F. Porter, "An algorithm for suffix stripping",
# Program 14(3), 1980, with the departures of nltk's stemmer: a short table of irregular words, no stemming of words of
# up to two letters, `ies` and `ied` of four-letter words, a `y` that becomes `i` after any consonant, and three more
# endings in step 2. Rules stand in the order in which they are tried; the first ending that fits decides, whether its
# condition holds or not.

_IRREGULAR = {
    "skies": "sky", "sky": "sky", "dying": "die", "lying": "lie", "tying": "tie", "news": "news",
    "innings": "inning", "inning": "inning", "outings": "outing", "outing": "outing",
    "cannings": "canning", "canning": "canning", "howe": "howe",
    "proceed": "proceed", "exceed": "exceed", "succeed": "succeed",
}  # fmt: skip
# double endings: `relational` → relate, `vietnamization` → vietnamize
_STEP_2 = (
    ("ational", "ate"), ("tional", "tion"), ("enci", "ence"), ("anci", "ance"), ("izer", "ize"), ("bli", "ble"),
    ("alli", "al"), ("entli", "ent"), ("eli", "e"), ("ousli", "ous"), ("ization", "ize"), ("ation", "ate"),
    ("ator", "ate"), ("alism", "al"), ("iveness", "ive"), ("fulness", "ful"), ("ousness", "ous"), ("aliti", "al"),
    ("iviti", "ive"), ("biliti", "ble"), ("fulli", "ful"), ("logi", "log"),
)  # fmt: skip
# `triplicate` → triplic, `hopeful` → hope, `goodness` → good
_STEP_3 = (
    ("icate", "ic"), ("ative", ""), ("alize", "al"), ("iciti", "ic"), ("ical", "ic"), ("ful", ""), ("ness", ""),
)  # fmt: skip
# last endings, which are removed: `revival` → reviv, `adjustment` → adjust
_STEP_4 = tuple(
    (ending, "") for ending in "al ance ence er ic able ible ant ement ment ent ion ou ism ate iti ous ive ize".split()
)


def stem(word: str) -> str:
    """Return the stem of a word, in lower case."""
    return _remembered_stem(word) if len(word) <= _MAX_CACHED_LENGTH else _stem(word)


def _stem(word: str) -> str:
    """Return the stem of a word by Porter's five steps; irregular words have fixed stems, and short words stay."""
    lower = word.lower()
    if lower in _IRREGULAR:
        return _IRREGULAR[lower]
    if len(word) <= 2:
        return lower

    word = _step_1b(_step_1a(lower))
    # A final `y` after a consonant becomes `i`, except in words of two letters.
    if word.endswith("y") and len(word) > 2 and _shape(word)[-2] == "c":
        word = f"{word[:-1]}i"

    word = _replace_suffix(_replace_suffix(_shorten_alli(word), _STEP_2), _STEP_3)
    return _step_5(_replace_suffix(word, _STEP_4, least=1))


_remembered_stem = lru_cache(maxsize=1 << 15)(_stem)


def _shape(word: str) -> str:
    """Write a word as consonants `c` (and other characters) and vowels `v`; a `y` after a consonant is a vowel."""
    shape = ""
    for letter in word:
        vowel = letter in "aeiou" or (letter == "y" and shape[-1:] == "c")
        shape += "v" if vowel else "c"
    return shape


def _measure(word: str) -> int:
    """Return Porter's m, the number of vowel-consonant sequences: 0 for `tree`, 1 for `trouble`, 2 for `troubles`."""
    return _shape(word).count("vc")


def _ends_short(word: str) -> bool:
    """Return Porter's condition *o: the word ends in consonant-vowel-consonant, and its last letter is not w, x or y.

    A vowel and a consonant alone also meet the condition.
    """
    shape = _shape(word)
    return shape == "vc" or (shape.endswith("cvc") and word[-1] not in "wxy")


def _step_1a(word: str) -> str:
    """Shorten `ied` and plural endings: `ponied` and `ponies` become `poni`, `caresses` `caress`, `cats` `cat`.

    Both may stand at the end: `lieds` becomes `lie`.
    """
    if word.endswith(("ies", "ied")):
        return word[:-1] if len(word) == 4 else word[:-2]
    if word.endswith("sses"):
        return word[:-2]
    return _step_1a(word[:-1]) if word.endswith("s") and not word.endswith("ss") else word


def _step_1b(word: str) -> str:
    """Shorten `eed` to `ee` if the measure of the rest is above 0; remove `ed` or `ing` if the rest has a vowel.

    After `ed` or `ing` is removed, the rest is repaired: `hopping` becomes `hop`, `filing` `file`.
    """
    if word.endswith("eed"):
        return word[:-1] if _measure(word[:-3]) > 0 else word
    for ending in ("ed", "ing"):
        if word.endswith(ending) and "v" in _shape(base := word.removesuffix(ending)):
            return _repair(base)
    return word


def _repair(base: str) -> str:
    """Restore a stem from which `ed` or `ing` was removed: `hop` from `hopp`, `file` from `fil`."""
    if base.endswith(("at", "bl", "iz")):  # `conflat` → conflate
        return base + "e"

    # A double consonant: `hopp` becomes `hop`, but `fall` stays.
    if base[-1:] == base[-2:-1] and _shape(base)[-1] == "c":
        return base if base[-1] in "lsz" else base[:-1]

    if base.endswith("*d"):  # an accident of nltk: its rule's name "*d" also works as a suffix
        return base[:-2] + "d"

    return base + "e" if _measure(base) == 1 and _ends_short(base) else base


def _shorten_alli(word: str) -> str:
    """Shorten `alli` to `al` as often as it ends the word: nltk tries step 2 again for `rationalli`."""
    while word.endswith("alli") and _measure(word[:-4]) > 0:
        word = word[:-2]
    return word


def _replace_suffix(word: str, rules: tuple[tuple[str, str], ...], *, least: int = 0) -> str:
    """Replace the first ending of the rules that the word has, if the measure of the rest is above `least`."""
    for ending, replacement in rules:
        if word.endswith(ending):
            base = word.removesuffix(ending)
            rest = word[:-3] if ending == "logi" else base  # nltk counts the `l` of `logi` as a part of the rest
            # Porter removes `ion` only after s or t.
            fits = _measure(rest) > least and (ending != "ion" or base[-1] in "st")
            return base + replacement if fits else word
    return word


def _step_5(word: str) -> str:
    """Remove a final `e`, and one `l` of a final `ll`, if the rest is long enough."""
    if word.endswith("e"):
        base = word[:-1]
        measure = _measure(base)
        if measure > 1 or (measure == 1 and not _ends_short(base)):
            word = base
    # `controll` → control
    return word[:-1] if word.endswith("ll") and _measure(word[:-1]) > 1 else word


# -- WordNet 3.0's synonyms. The table (`data/wordnet.txt`, made by `scripts/build_text_data.py`) has sorted lines of
# two kinds. `car n = auto automobile` are the names in all synsets of a noun, with `=` for the word itself; it has only
# names that a lower-case token can equal. `went v! go` are the base forms of an irregular verb.

_LONGEST = 80
"""Maximum length of a lemma's forms in characters."""
_ENDINGS = {
    "n": (
        ("s", ""), ("ses", "s"), ("ves", "f"), ("xes", "x"), ("zes", "z"), ("ches", "ch"), ("shes", "sh"),
        ("men", "man"), ("ies", "y"),
    ),
    "v": (("s", ""), ("ies", "y"), ("es", "e"), ("es", ""), ("ed", "e"), ("ed", ""), ("ing", "e"), ("ing", "")),
    "a": (("er", ""), ("est", ""), ("er", "e"), ("est", "e")),
    "r": (),
}  # fmt: skip
"""Rules of detachment by part of speech (noun, verb, adjective, adverb), as morphy(7WN) lists them."""


def synonyms(word: str) -> frozenset[str]:
    """Return a word and its synonyms in the shipped table; only the word itself if it has over 80 characters."""
    return _remembered_synonyms(word) if len(word) <= _LONGEST else frozenset((word,))


@lru_cache(maxsize=1 << 13)
def _remembered_synonyms(word: str) -> frozenset[str]:
    """Return a word and its synonyms from the cache or the shipped table.

    The synonyms are those of the word and of its base forms as each part of speech. The base forms are those of the
    list of irregular words, else those by the rules of detachment. For the noun `churches`, they are `churche` (no
    lemma, so without effect) and `church`.
    """
    form, names = word.lower(), {word}
    for part, endings in _ENDINGS.items():
        bases = _wordnet_entry(form, f"{part}!")
        if bases is None:
            bases = [form.removesuffix(old) + new for old, new in endings if form.endswith(old)]
        for base in (form, *bases):
            names.update(base if name == "=" else name for name in _wordnet_entry(base, part) or ())
    return frozenset(names)


def _wordnet_entry(word: str, kind: str) -> list[str] | None:
    """Return the words in the table's line of this kind, such as `n` or `n!`; None without such a line."""
    lines = _wordnet()
    position = bisect_left(lines, f"{word} {kind}")
    entry = lines[position].split(" ") if position < len(lines) else []
    return entry[2:] if entry[:2] == [word, kind] else None


@lru_cache(maxsize=1)
def _wordnet() -> list[str]:
    """Return the lines of the shipped table; the first call reads it."""
    return _read_lines("wordnet.txt")


# -- data files


def read_data(name: str) -> bytes:
    """Return the content of a data file of this package, even if the package is zipped."""
    return files(__package__).joinpath("data", name).read_bytes()


def _read_lines(name: str) -> list[str]:
    """Return the lines of a data file of this package."""
    return read_data(name).decode("utf-8").splitlines()
