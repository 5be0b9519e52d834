"""The Porter stemmer in the variant that nltk uses by default, and with it METEOR and ROUGE.

M. F. Porter, "An algorithm for suffix stripping", Program 14(3), 1980, with the departures of nltk's stemmer: a short
table of irregular words, no stemming of words of up to two letters, `ies` and `ied` of four-letter words, a `y` that
becomes `i` after any consonant, and three more endings in step 2. Rules stand in the order in which they are tried;
the first ending that fits decides, whether its condition holds or not.
"""

from __future__ import annotations

from functools import lru_cache

_MAX_REMEMBERED = 48
"""Longest word, in characters, whose stem is remembered."""

_IRREGULAR = {
    "skies": "sky", "sky": "sky", "dying": "die", "lying": "lie", "tying": "tie", "news": "news",
    "innings": "inning", "inning": "inning", "outings": "outing", "outing": "outing",
    "cannings": "canning", "canning": "canning", "howe": "howe",
    "proceed": "proceed", "exceed": "exceed", "succeed": "succeed",
}  # fmt: skip
_STEP_2 = (
    ("ational", "ate"), ("tional", "tion"), ("enci", "ence"), ("anci", "ance"), ("izer", "ize"), ("bli", "ble"),
    ("alli", "al"), ("entli", "ent"), ("eli", "e"), ("ousli", "ous"), ("ization", "ize"), ("ation", "ate"),
    ("ator", "ate"), ("alism", "al"), ("iveness", "ive"), ("fulness", "ful"), ("ousness", "ous"), ("aliti", "al"),
    ("iviti", "ive"), ("biliti", "ble"), ("fulli", "ful"), ("logi", "log"),
)  # fmt: skip
_STEP_3 = (
    ("icate", "ic"), ("ative", ""), ("alize", "al"), ("iciti", "ic"), ("ical", "ic"), ("ful", ""), ("ness", ""),
)  # fmt: skip
_STEP_4 = (
    "al", "ance", "ence", "er", "ic", "able", "ible", "ant", "ement", "ment", "ent", "ion", "ou", "ism", "ate", "iti",
    "ous", "ive", "ize",
)  # fmt: skip


def stem(word: str) -> str:
    """The stem of a word, in lower case."""
    return _remembered(word) if len(word) <= _MAX_REMEMBERED else _stem(word)


def _stem(word: str) -> str:
    lower = word.lower()
    if lower in _IRREGULAR:
        return _IRREGULAR[lower]
    if len(word) <= 2:
        return lower
    return _step_5(_step_4(_step_3(_step_2(_step_1c(_step_1b(_step_1a(lower)))))))


_remembered = lru_cache(maxsize=1 << 15)(_stem)


def _shape(word: str) -> str:
    """The word as `c` (consonants and whatever is no letter) and `v`; a `y` is a vowel after a consonant."""
    shape = ""
    for letter in word:
        vowel = letter in "aeiou" or (letter == "y" and shape[-1:] == "c")
        shape += "v" if vowel else "c"
    return shape


def _measure(word: str) -> int:
    """Porter's m: how often vowels are followed by consonants."""
    return _shape(word).count("vc")


def _ends_short(word: str) -> bool:
    """Porter's *o, consonant-vowel-consonant with a last letter other than w, x, y; or just vowel-consonant."""
    shape = _shape(word)
    return shape == "vc" or (shape.endswith("cvc") and word[-1] not in "wxy")


def _step_1a(word: str) -> str:
    if word.endswith("ies"):
        return word[:-1] if len(word) == 4 else word[:-2]
    if word.endswith("sses"):
        return word[:-2]
    return word[:-1] if word.endswith("s") and not word.endswith("ss") else word


def _step_1b(word: str) -> str:
    if word.endswith("ied"):
        return word[:-1] if len(word) == 4 else word[:-2]
    if word.endswith("eed"):
        return word[:-1] if _measure(word[:-3]) > 0 else word
    for ending in ("ed", "ing"):
        if word.endswith(ending) and "v" in _shape(base := word.removesuffix(ending)):
            return _repair(base)
    return word


def _repair(base: str) -> str:
    """Make a word of what is left after `ed` or `ing` was taken away."""
    if base.endswith(("at", "bl", "iz")):
        return base + "e"
    if base[-1:] == base[-2:-1] and _shape(base)[-1] == "c":
        return base if base[-1] in "lsz" else base[:-1]
    if base.endswith("*d"):  # nltk's rule is named so, and takes the name for an ending too
        return base[:-2] + "d"
    return base + "e" if _measure(base) == 1 and _ends_short(base) else base


def _step_1c(word: str) -> str:
    return word[:-1] + "i" if word.endswith("y") and len(word) > 2 and _shape(word)[-2] == "c" else word


def _step_2(word: str) -> str:
    while word.endswith("alli") and _measure(word[:-4]) > 0:
        word = word[:-2]
    for ending, replacement in _STEP_2:
        if word.endswith(ending):
            base = word.removesuffix(ending)
            condition = word[:-3] if ending == "logi" else base
            return base + replacement if _measure(condition) > 0 else word
    return word


def _step_3(word: str) -> str:
    for ending, replacement in _STEP_3:
        if word.endswith(ending):
            base = word.removesuffix(ending)
            return base + replacement if _measure(base) > 0 else word
    return word


def _step_4(word: str) -> str:
    for ending in _STEP_4:
        if word.endswith(ending):
            base = word.removesuffix(ending)
            fits = _measure(base) > 1 and (ending != "ion" or base[-1] in "st")
            return base if fits else word
    return word


def _step_5(word: str) -> str:
    if word.endswith("e"):
        base = word[:-1]
        measure = _measure(base)
        if measure > 1 or (measure == 1 and not _ends_short(base)):
            word = base
    return word[:-1] if word.endswith("ll") and _measure(word[:-1]) > 1 else word
