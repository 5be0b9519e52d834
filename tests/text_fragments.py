"""Texts made of what tokenisers stumble over, and values of any JSON type, for property tests."""

from hypothesis import strategies as st

_WORDS = (
    "Hello world the The He I a A s t not can No St said cannot Gotta gonna wanna lemme d'ye more'n 'tis 'twas don't "
    "I'm we'll N'T it's 'S 'd 've n't x' Mr Dr. U.S. e.g. etc. Inc. J. K B. p.m. 5 3.14 1,000 $5 100% 2019 foo-bar -- "
    "... .. . ? ! , ; : ( ) [ ] { } < > \" ' '' `` ` * # & @ / \\ | _ ~ ^ = +"
).split()
_CONTROLS = ["\x1c", "\x1f", "\x00", "\x7f"]
_BLANKS = [
    " ",
    "",
    "  ",
    "\n",
    "\t",
    "\r\n",
    "\n\n",
    "\x0b",
    "\x0c",
    "\x1e",
    ". ",
    "? ",
    "! ",
    ".\n",
    '." ',
    ".) ",
    "!' ",
]
_FOREIGN = [
    *"é ü ß 中 文 ， 。 — – “ ” ’ ‘ « … ° ½ ² € £ × 😀 ٣ Ⅷ <skipped> &amp; &lt; &#91; &quot; &amp;lt; İ ſ Σ ς".split(),
    *"\u2028\u00a0\u3000\u0085",
]


def _joined(words: list[str], blanks: list[str]) -> st.SearchStrategy[str]:
    piece = st.builds(str.__add__, st.sampled_from(words), st.sampled_from(blanks))
    return st.lists(piece, max_size=16).map("".join)


def ascii_texts() -> st.SearchStrategy[str]:
    """Words, abbreviations, quotation marks and blanks in any order, and any ASCII characters."""
    any_ascii = st.text(st.characters(max_codepoint=127), max_size=40)
    return st.one_of(_joined(_WORDS + _CONTROLS, _BLANKS), _joined(_WORDS, [" ", " ", ". "]), any_ascii)


def international_texts() -> st.SearchStrategy[str]:
    """The same with other scripts, symbols and entities, and any characters."""
    return st.one_of(_joined(_WORDS + _FOREIGN, _BLANKS), st.text(max_size=40))


_SCALARS = st.none() | st.booleans() | st.integers() | st.text()


def _nested(scalars: st.SearchStrategy[object]) -> st.SearchStrategy[object]:
    """Return values of these scalars, and lists and objects of them."""
    return st.recursive(
        scalars,
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
        max_leaves=15,
    )


JSON_VALUES = _nested(_SCALARS | st.floats(allow_nan=False, allow_infinity=False))
WITH_NAN = _nested(_SCALARS | st.floats())
