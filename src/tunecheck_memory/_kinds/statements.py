"""Kinds with statements that change, and a question for the current one: colours and names."""

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import ClassVar

from tunecheck_memory import FinishedTest, GenerationContext, Kind, MemoryTest, Score, scripted_test
from tunecheck_memory._kinds.replies import expected_text, find_words, is_denied, last_reply, plain_words, score_mention
from tunecheck_memory._kinds.scripts import read_lines, read_words, whole

_COLOUR_STATEMENTS = read_lines("favourite colour")
_COLOUR_QUESTION = "Which colour is my favourite one at the moment?"

# -- patterns. Each has a text that it matches, and one that it does not.

_COLOUR_NAMES = (
    "amber|apricot|aqua|aquamarine|azure|beige|black|blue|bronze|brown|burgundy|chartreuse|copper|coral|cream|crimson"
    "|cyan|emerald|fuchsia|gold|golden|gray|green|grey|indigo|ivory|jade|khaki|lavender|lilac|lime|magenta|maroon|mauve"
    "|mint|navy|ochre|olive|orange|orchid|peach|periwinkle|pink|plum|purple|red|rose|ruby|rust|salmon|sapphire|scarlet"
    "|sienna|silver|tan|teal|turquoise|ultramarine|vermilion|violet|white|yellow"
)

_SENTENCE_END = re.compile(r"[.!?;\n]+")
"""The full stop in "Red. Not blue", but not the comma in "red, not blue"."""

_TIME_WORDS = (
    r"then|later|finally|lastly|now|currently|most recently|more recently|previously|formerly|originally|initially"
    r"|at first|before that|used to"
)

_CLAUSE_END = re.compile(
    rf",? but\b|,? however\b|,? although\b|[()]|, (?!(?:(?:and|or|even|also) )?(?:{_COLOUR_NAMES})\b)"
    rf"|,?(?: and| before)? (?=(?:(?:is|was|it is|it's|it was|and) )?(?:{_TIME_WORDS})\b"
    rf"[^.!?;,()\n]{{0,40}}\b(?:{_COLOUR_NAMES})\b)",
    re.IGNORECASE,
)
"""The end of a clause: " and" in "cream and then red", but no comma or "and" in the list "cream, red and blue"."""

_CURRENT_WORDS = re.compile(
    r"\b(?:most recent(?:ly)?|latest|lastly|current(?:ly)?|now|actual(?:ly)?|final(?:ly)?|still|updated|single answer"
    r"|as of|last (?:time|one|update|mentioned|said|told))\b",
    re.I,
)
"""A clause on the present: "most recently red", but not "recently red"."""

_PAST_WORDS = re.compile(
    r"\b(?:(?:initial|original|previous)(?:ly)?|formerly|first|used to|at some point|before that|in the past)\b", re.I
)
"""A clause on the past: "before that red", but not "red as before"."""

_LATER_WORDS = re.compile(r"\bthen\b|\blater\b", re.I)
"""A clause that follows another one in time: "then red", but not "lately red"."""

_FAVOURITE = re.compile(r"\bfavou?rite(?: colou?r)?\b(?! colou?rs| shades)", re.I)
"""A clause on the favourite: "your favorite color is red", but not "your favourite colours are red and blue"."""

_LEFT_BEHIND = re.compile(rf"\W+(?:(?:and|then|later|finally)\W+)*to\W+(?:\w+\W+){{0,2}}?(?:{_COLOUR_NAMES})\b", re.I)
"""The text after a colour that changed to another one: " to red" after "from blue", but not " and red"."""

_PAST_LEAD = re.compile(
    r"\b(?:previous(?:ly)?|former(?:ly)?|original(?:ly)?|initial(?:ly)?|at first|first|used to|before that|earlier|once"
    r"|(?:chang|switch)\w*[^.!?;\n]{0,30}\bfrom)\b[^.!?;,()\n]{0,30}$",
    re.IGNORECASE,
)
"""The text before a name of the past: "you used to be ", but not "you used to be Ann, you are "."""

_PAST_TAIL = re.compile(r"[^.!?;()\n]{0,12}\b((?:previous|former|original|initial)ly|before|at first|earlier)\b", re.I)
"""The text after a name of the past: " was it before", but not " is your name, as I said before"."""

_PRESENT_BEGINS = re.compile(r"\b(?:now|currently|but|most recently|these days|today)\b", re.I)
"""The end of words on the past: "now" in "once Ann, now Bob", but not "know"."""

_MOST_PARTS = 400
"""The most sentences of a reply and the most clauses of a sentence; a last part holds the rest."""

_CLAUSE_WEIGHTS = ((_CURRENT_WORDS, 2), (_PAST_WORDS, -2), (_LATER_WORDS, 1))
_FAVOURITE_WEIGHT, _LEFT_BEHIND_WEIGHT = 1, -2


class Colours(Kind):
    """The user names `colour_changes` favourite colours one after another, and asks for the current one."""

    name = "colours"
    title = "Colours"

    def __init__(self, *, colour_changes: int = 3) -> None:
        self.colour_changes = whole("colour_changes", colour_changes, least=1, most=len(read_words("colours")))

    def definition(self, example: str, making: GenerationContext) -> MemoryTest:
        """Return a test with random colours as favourites, one after another, and the question for the current one."""
        random = making.random(self.title, example)
        colours = random.sample(read_words("colours"), self.colour_changes)
        statements = [random.choice(_COLOUR_STATEMENTS).format(colour=colour) for colour in colours]
        return scripted_test(self, example, statements, [_COLOUR_QUESTION], [colours[-1]])

    def score(self, given: FinishedTest) -> Score | None:
        """Score 1 if the reply says that the last colour is the favourite.

        The colour must be a word and not denied. If a reply names several colours, it must settle on this one: it calls
        this one the favourite, or uses words such as "most recently" and "initially". A list of colours without a
        choice is no answer, and the rules are not sure.
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
        return Score(0.0, (f"the reply names {shown} without choosing {wanted!r}",), sure=wanted not in chosen)


USER_NAME = "name of the user"
"""The topic of tests with names of the user."""

_NAME_STATEMENTS = read_lines("name")


class NamesKind(Kind):
    """Base of the kinds in which the user gives `name_changes` names."""

    topics = frozenset({USER_NAME})
    _question: ClassVar[str]
    _asks_all = False

    def __init__(self, *, name_changes: int = 3) -> None:
        self.name_changes = whole("name_changes", name_changes, least=1, most=len(read_words("first_names")))

    def definition(self, example: str, making: GenerationContext) -> MemoryTest:
        """Return a test with random names of the user, one after another, and a question for the last or for all."""
        random = making.random(self.title, example)
        names = random.sample(read_words("first_names"), self.name_changes)
        statements = [random.choice(_NAME_STATEMENTS).format(name=name) for name in names]
        return scripted_test(self, example, statements, [self._question], names if self._asks_all else names[-1:])


class Names(NamesKind):
    """The user changes names, and asks for the current one."""

    name = "names"
    title = "Names"
    _question = "By which name should you call me now?"

    def score(self, given: FinishedTest) -> Score | None:
        """Score 1 if the reply has the last name as a separate word ("Ann" is not in "Joanna").

        A name that the reply denies ("no longer Bob") or only tells of the past ("you were Bob before") does not count.
        """
        reply, name = last_reply(given), expected_text(given)
        text = plain_words(reply)
        said = [*find_words(name.strip(), text)]
        now = [each for each in said if not is_denied(text, each.start(), each.end()) and not _is_past(text, each)]
        return replace(score_mention(name, bool(now)), sure=bool(now) or not said)


def _is_past(text: str, word: re.Match[str]) -> bool:
    """Return True if a text says that the word was true in the past: "you used to be Bob", "you were Bob before"."""
    lead = _PRESENT_BEGINS.split(text[max(0, word.start() - 80) : word.start()])[-1]
    follows = _PRESENT_BEGINS.split(text[word.end() : word.end() + 30])[0]
    return _PAST_LEAD.search(lead) is not None or _PAST_TAIL.match(follows) is not None


def _named_colours(reply: str, expected: str) -> Iterator[tuple[str, int]]:
    """Yield each colour that a reply does not deny, with a weight: the reply settles on the colour with the highest.

    The weight is the sum of these terms:

    * +2 if the clause has a word of the present, −2 if it has one of the past, +1 for "then" or "later";
    * +1 if the clause names the favourite, or has "then" or "later" and the clause before it is about the favourite;
    * −2 if the colour changed to another one, as the first one in "from blue to red".

    Examples: "You initially said brown, then cream, but most recently red." gives brown −2, cream 1, red 2.
    "Your favourite colour was cream and then red." gives cream 1, red 2.
    """
    colours = re.compile(rf"\b(?:{_COLOUR_NAMES}|{re.escape(expected)})\b", re.I)
    for sentence in _SENTENCE_END.split(reply, _MOST_PARTS):
        favourite = False
        for clause in _CLAUSE_END.split(sentence, _MOST_PARTS):
            favourite = _FAVOURITE.search(clause) is not None or (favourite and _LATER_WORDS.search(clause) is not None)
            weight = sum(points for words, points in _CLAUSE_WEIGHTS if words.search(clause))
            weight += _FAVOURITE_WEIGHT * favourite
            for match in colours.finditer(clause):
                if not is_denied(clause, match.start(), match.end()):
                    is_left_behind = _LEFT_BEHIND.match(clause, match.end()) is not None
                    yield match[0].lower(), weight + _LEFT_BEHIND_WEIGHT * is_left_behind
