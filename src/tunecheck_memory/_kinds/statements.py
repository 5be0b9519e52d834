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
        return Score(0.0, (f"the reply names {shown} without settling on {wanted!r}",), sure=wanted not in chosen)


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


_ONCE = re.compile(
    r"\b(?:previous(?:ly)?|former(?:ly)?|original(?:ly)?|initial(?:ly)?|at first|first|used to|before that|earlier|once"
    r"|(?:chang|switch)\w*[^.!?;\n]{0,30}\bfrom)\b[^.!?;,()\n]{0,30}$",
    re.IGNORECASE,
)


_BEFORE = re.compile(r"[^.!?;()\n]{0,12}\b(?:previously|formerly|originally|initially|before|at first|earlier)\b", re.I)


def _is_past(text: str, word: re.Match[str]) -> bool:
    """Return True if a text says that the word was true in the past: "you used to be Bob", "you were Bob before"."""
    lead, follows = text[max(0, word.start() - 80) : word.start()], text[word.end() : word.end() + 30]
    return _ONCE.search(_NOW.split(lead)[-1]) is not None or _BEFORE.match(_NOW.split(follows)[0]) is not None


_COLOUR_NAMES = (
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
    rf",? but\b|,? however\b|,? although\b|[()]|, (?!(?:(?:and|or|even|also) )?(?:{_COLOUR_NAMES})\b)"
    rf"|,?(?: and| before)? (?=(?:(?:is|was|it is|it's|it was|and) )?(?:{_MARK})\b"
    rf"[^.!?;,()\n]{{0,40}}\b(?:{_COLOUR_NAMES})\b)",
    re.IGNORECASE,
)
"""The end of a clause: a comma, a bracket, or a word of time; a comma between colours continues the list."""


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


_LEFT_BEHIND = re.compile(rf"\W+(?:(?:and|then|later|finally)\W+)*to\W+(?:\w+\W+){{0,2}}?(?:{_COLOUR_NAMES})\b", re.I)
"""The text after a colour that changed to another one: "from blue to red"."""


_FAVOURITE = re.compile(r"\bfavou?rite(?: colou?r)?\b(?! colou?rs| shades)", re.I)


_MOST_CLAUSES = 400


def _named_colours(reply: str, expected: str) -> Iterator[tuple[str, int]]:
    """Yield each colour that a reply does not deny, with a weight.

    The weight is higher if the clause calls the colour current or favourite.

    Words of the past lower the weight.
    """
    colours = re.compile(rf"\b(?:{_COLOUR_NAMES}|{re.escape(expected)})\b", re.I)
    for sentence in _WHOLE_SENTENCE.split(reply, _MOST_CLAUSES):
        favourite = False
        for clause in _CLAUSE_END.split(sentence, _MOST_CLAUSES):
            # In "Your favourite colour was cream and then red", the second clause is about the favourite, too.
            favourite = _FAVOURITE.search(clause) is not None or (favourite and _LATER.search(clause) is not None)
            weight = 2 * bool(_CURRENT.search(clause)) - 2 * bool(_PAST.search(clause))
            weight += bool(_LATER.search(clause)) + favourite
            for match in colours.finditer(clause):
                if not is_denied(clause, match.start(), match.end()):
                    is_left_behind = _LEFT_BEHIND.match(clause, match.end()) is not None
                    yield match[0].lower(), weight - 2 * is_left_behind
