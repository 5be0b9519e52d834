"""Tests whose answer the reply names: a name, a colour, a value, a place, a number, what coded messages meant."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from tunecheck_memory._data import spy_words
from tunecheck_memory._lenient_json import read_lenient
from tunecheck_memory._model import Given, Score
from tunecheck_memory._scoring.base import (
    NoExpectationError,
    declines,
    expected_text,
    is_denied,
    last_reply,
    named,
    plain_words,
)

_DIGITS = re.compile(r"\d+")
_OF_HOW_MANY = re.compile(
    r"(?:\bout)?\s{1,3}of(?:\s{1,3}the)?\s{1,3}(?:\d{1,3}|six)\b|(?<=\d)\s?/\s?\d{1,3}"
    r"|\b\d{1,3}\s{1,3}(?:\w{1,20}\s)?(?:options|choices)\b",
    re.IGNORECASE,
)
_OPTION = re.compile(r"\b(?:options?|number|no\.?|choice|chapter|#)[\s:#*\"'(]{0,5}(\d{1,3})\b", re.IGNORECASE)


def score_name(given: Given) -> Score:
    """Names: the reply says the last name as a word of its own ("Ann" is not in "Joanna").

    A name that the reply denies ("no longer Bob") or only tells of the past ("you were Bob before") does not count.
    """
    reply, name = last_reply(given), expected_text(given)
    text = plain_words(reply)
    said = [*named(name.strip(), text)]
    now = [each for each in said if not is_denied(text, each.start(), each.end()) and not _is_past(text, each)]
    return replace(_in_reply(name, bool(now)), sure=bool(now) or not said)


_ONCE = re.compile(
    r"\b(?:previous(?:ly)?|former(?:ly)?|original(?:ly)?|initial(?:ly)?|at first|first|used to|before that|earlier|once"
    r"|(?:chang|switch)\w*[^.!?;\n]{0,30}\bfrom)\b[^.!?;,()\n]{0,30}$",
    re.IGNORECASE,
)
_BEFORE = re.compile(r"[^.!?;()\n]{0,12}\b(?:previously|formerly|originally|initially|before|at first|earlier)\b", re.I)


def _is_past(text: str, word: re.Match[str]) -> bool:
    """Whether a word is said to have held before: "you used to be Bob", "you were Bob before"."""
    lead, follows = text[max(0, word.start() - 80) : word.start()], text[word.end() : word.end() + 30]
    return _ONCE.search(_NOW.split(lead)[-1]) is not None or _BEFORE.match(_NOW.split(follows)[0]) is not None


def score_key_value(given: Given) -> Score:
    reply, value = last_reply(given), expected_text(given)
    return _in_reply(value, value.lower() in reply.lower())


def _in_reply(value: str, found: bool) -> Score:
    return Score(float(found), (f"{value!r} is {'' if found else 'not '}in the reply",))


def score_sally_anne(given: Given) -> Score:
    """Sally-Anne: the reply is `{"answer": "word"}`, with the right word, in any case."""
    reply, place = last_reply(given), expected_text(given)
    try:
        said = read_lenient(reply)
    except ValueError as error:
        return Score(0.0, (f"the reply is not JSON: {error}",))
    if not isinstance(said, dict) or "answer" not in said:
        return Score(0.0, ('the reply has no "answer"',))
    answer = said["answer"]
    if not isinstance(answer, str):
        return Score(0.0, ("the answer is not text",))
    right = answer.strip(" .").casefold() == place.strip().casefold()
    return Score(float(right), (f"the answer is {answer[:80]!r}" + ("" if right else f", not {place!r}"),))


def score_chapter(given: Given) -> Score:
    """Chapter break: the reply names the right option, and no other.

    The number of options ("Option 2 of 6") is not a choice. If options are named as such, other numbers are not either.
    """
    reply, answer = last_reply(given), expected_text(given)
    counted = _OF_HOW_MANY.sub(" ", reply)
    options = [*_OPTION.finditer(counted)] or [*_DIGITS.finditer(counted)]
    kept = [each for each in options if not is_denied(counted, each.start(), each.end())]
    chosen = {each[each.lastindex or 0] for each in kept}
    right = chosen == {answer.strip()}
    shown = ", ".join(sorted(chosen)[:6]) or "none"
    reason = f"the reply chooses {shown}" + ("" if right else f", not {answer} alone")
    return Score(float(right), (reason,), sure=len(chosen) < 2)


_NAMES = (
    "amber|apricot|aqua|aquamarine|azure|beige|black|blue|bronze|brown|burgundy|chartreuse|copper|coral|cream|crimson"
    "|cyan|emerald|fuchsia|gold|golden|gray|green|grey|indigo|ivory|jade|khaki|lavender|lilac|lime|magenta|maroon|mauve"
    "|mint|navy|ochre|olive|orange|orchid|peach|periwinkle|pink|plum|purple|red|rose|ruby|rust|salmon|sapphire|scarlet"
    "|sienna|silver|tan|teal|turquoise|ultramarine|vermilion|violet|white|yellow"
)
_WHOLE_SENTENCE = re.compile(r"[.!?;\n]+")
_MARK = (
    r"then|later|finally|lastly|now|currently|most recently|more recently|previously|formerly|originally|initially"
    r"|at first|before that|used to"
)
_CLAUSE_END = re.compile(
    rf",? but\b|,? however\b|,? although\b|[()]|, (?!(?:(?:and|or|even|also) )?(?:{_NAMES})\b)"
    rf"|,?(?: and| before)? (?=(?:(?:is|was|it is|it's|it was|and) )?(?:{_MARK})\b"
    rf"[^.!?;,()\n]{{0,40}}\b(?:{_NAMES})\b)",
    re.IGNORECASE,
)
"""Where a clause ends: at a comma, a bracket, or a word of time; a comma between colours goes on with the list."""
_NOW = re.compile(r"\b(?:now|currently|but|most recently|these days|today)\b", re.I)
_CURRENT = re.compile(
    r"\b(?:most recent(?:ly)?|latest|lastly|current(?:ly)?|now|actual(?:ly)?|final(?:ly)?|still|updated|single answer"
    r"|as of|last (?:time|one|update|mentioned|said|told))\b",
    re.I,
)
_PAST = re.compile(
    r"\b(?:initial(?:ly)?|original(?:ly)?|previous(?:ly)?|formerly|at first|first|used to|at some point|before that"
    r"|in the past)\b",
    re.I,
)
_LATER = re.compile(r"\bthen\b|\blater\b", re.I)
_LEFT_BEHIND = re.compile(rf"\W+(?:(?:and|then|later|finally)\W+)*to\W+(?:\w+\W+){{0,2}}?(?:{_NAMES})\b", re.I)
"""What follows a colour that changed to another one: "from blue to red"."""
_FAVOURITE = re.compile(r"\bfavou?rite(?: colou?r)?\b(?! colou?rs| shades)", re.I)
_MOST_CLAUSES = 400


def score_colour(given: Given) -> Score:
    """The reply says that the last colour is the favourite.

    The colour must be a word and not denied. If a reply names several colours, it must settle on this one: by calling
    it the favourite, or by words such as "most recently" and "initially". A list of colours without a choice is no
    answer, and the rules are not sure.
    """
    reply, colour = last_reply(given), expected_text(given)
    wanted = colour.strip().lower()
    weighed = list(_named_colours(plain_words(reply), wanted))
    if all(name != wanted for name, _ in weighed):
        return Score(0.0, (f"the reply does not say {wanted!r}",))
    highest = max(weight for _, weight in weighed)
    chosen = {name for name, weight in weighed if weight == highest}
    if chosen == {wanted}:
        return Score(1.0, (f"the reply says {wanted!r}",))
    shown = ", ".join(sorted(chosen)[:8])
    return Score(0.0, (f"the reply names {shown} without settling on {wanted!r}",), sure=wanted not in chosen)


def _named_colours(reply: str, wanted: str) -> Iterator[tuple[str, int]]:
    """Each colour that is not denied, with how much its clause speaks for it."""
    colours = re.compile(rf"\b(?:{_NAMES}|{re.escape(wanted)})\b", re.I)
    for sentence in _WHOLE_SENTENCE.split(reply, _MOST_CLAUSES):
        favourite = False
        for clause in _CLAUSE_END.split(sentence, _MOST_CLAUSES):
            # "Your favourite colour was cream and then red": what is said of it goes on.
            favourite = _FAVOURITE.search(clause) is not None or (favourite and _LATER.search(clause) is not None)
            weight = 2 * bool(_CURRENT.search(clause)) - 2 * bool(_PAST.search(clause))
            weight += bool(_LATER.search(clause)) + favourite
            for found in colours.finditer(clause):
                if not is_denied(clause, found.start(), found.end()):
                    left = _LEFT_BEHIND.match(clause, found.end()) is not None
                    yield found[0].lower(), weight - 2 * left


CODES: tuple[tuple[str, ...], ...] = (
    ("noon", "midday"),
    ("night", "midnight", "nighttime"),
    ("sunrise", "dawn", "rise", "morning"),
    ("sunset", "dusk", "sets"),
    ("orchard",),
    ("automobile", "factory", "manufacturing"),
    ("shore", "beach", "coastline"),
    ("railway", "yard", "depot"),
    ("port", "warehouse", "seaport", "docks"),
    ("boat", "bridge", "raft", "kayak"),
    ("pick", "picks", "key"),
    ("bribe", "credentials", "paperwork", "passport"),
    ("motorbike", "motorcycle", "car", "fast vehicle"),
)
"""The words that tell that a message of the benchmark was understood: of those not sent, each costs a point."""


_OTHER_SENSE = re.compile(
    r"\b(?:is|are) key\b|\bkey (?=\w+s\b|to\b)|\bpick(?:ed|s)? (?=(?:up|out|it|you|me|them|one)\b)", re.IGNORECASE
)
"""Words of messages in another sense than theirs: "context is key", "pick up"."""


def score_spy(given: Given) -> Score:
    """A third for each message of which the reply has a word; one less where it has a word of another message.

    Words count in any case and number, but not if they are denied ("not at dawn"). One word of another message is
    passed over if all messages are understood. The rules are not sure if a message is not understood, unless the reply
    is a mere excuse.
    """
    reply, expected = last_reply(given), expected_words(given)
    known = {word for words in expected for word in words}
    # A test chose from the messages of the benchmark or from those of our own kind: by whose words are expected.
    choices: list[Sequence[tuple[str, ...]]] = [CODES, spy_words()]
    codes = max(choices, key=lambda each: sum(not known.isdisjoint(words) for words in each))
    others = [words for words in codes if known.isdisjoint(words)]
    said = _said_words(reply, {*known, *(word for words in others for word in words)})
    understood = [any(word in said for word in words) for words in expected]
    wrong = [word for words in others if (word := next((each for each in words if each in said), ""))]
    passed_over = all(understood) and len(wrong) == 1
    reasons = [
        f"{'/'.join(words)[:80]}: {'understood' if right else 'not in the reply'}"
        for words, right in zip(expected, understood, strict=True)
    ]
    if wrong:
        reasons.append(f"{wrong[0]!r} is of another message")
    points = max(0, sum(understood) - bool(wrong and not passed_over))
    sure = (points == len(expected) and not wrong) or (declines(reply) and not any(understood))
    return Score(points / len(expected), tuple(reasons), sure)


_MODIFIER = re.compile(r"(?:fast|quick|quiet|small|large|old)\s+")
_COMPOUND = r"(?P<compound>(?:lock|rail|row|speed|motor|foot|cargo|ship|sea|train)[- ]?)?"


def _said_words(reply: str, words: set[str]) -> set[str]:
    """Return the words that a reply has, in any case and number, within compounds too, and not denied."""
    text = _OTHER_SENSE.sub(" ", plain_words(reply))
    stems: dict[str, set[str]] = {}
    for word in words:
        stems.setdefault(_MODIFIER.sub("", word.lower()).removesuffix("s"), set()).add(word)
    longest_first = "|".join(map(re.escape, sorted(stems, key=len, reverse=True)))
    forms = re.compile(rf"(?<!\w){_COMPOUND}(?P<stem>{longest_first})(?:e?s|(?P<doing>ing))?(?!\w)", re.IGNORECASE)
    said: set[str] = set()
    for found in forms.finditer(text):
        if (found["compound"] or not found["doing"]) and not is_denied(text, found.start(), found.end()):
            said |= stems.get(found["stem"].lower(), set())
    return said


def expected_words(given: Given) -> list[list[str]]:
    if not isinstance(given.expected, (list, tuple)) or not 0 < len(given.expected) <= len(CODES):
        raise NoExpectationError
    expected: list[list[str]] = []
    for words in given.expected:
        if not isinstance(words, (list, tuple)) or not words:
            raise NoExpectationError
        if not all(isinstance(word, str) and word.strip() for word in words):
            raise NoExpectationError
        expected.append([str(word) for word in words][:40])
    return expected
