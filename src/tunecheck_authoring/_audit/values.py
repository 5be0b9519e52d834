"""The values in a conversation; arguments that none of them explains, and requests that no call carries out.

Values before a call are the start state, the user's words so far, and the results of earlier calls (`KnownValues`). An
argument may have several accepted values; one that is explained is enough.

**Arguments** (`value_findings`). The first rule that applies decides. A text argument:

| the argument | finding |
|---|---|
| a quotation of the user without its last mark: `Done` for "Done!" | `nearly_quoted` |
| occurs before the call or in the function's description | none |
| is similar to a quotation: `We are lat` for "We are late" | `nearly_quoted` |
| has at least 20 characters and is similar to an earlier result, in a conversation | `stale_copy` |
| is one unknown word, one typing mistake away from a known word | `mistyped_value` |
| over a third of its words are unknown, and a lookup of the user's names does not return it | `ungrounded_value` |

A number:

| the argument | finding |
|---|---|
| occurs, follows from numbers that occur, or is in the function's description | none |
| is one typing mistake away from a known number: 2150 for 2510 | `mistyped_value` |
| any other | `ungrounded_number` |

**Requests** (`request_findings`). A quotation that no call uses is `unused_text`. A clause with the verb of an offered
function that is not called, in a turn that changes nothing, is `unanswered_request`.
"""

from __future__ import annotations

import functools
import json
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from importlib.resources import files
from itertools import combinations
from typing import TypeGuard

from rapidfuzz.distance import OSA

from tunecheck.plugins import dumps
from tunecheck_authoring._audit.checks import TruthCall
from tunecheck_authoring._audit.dialogue import (
    AuditFinding,
    Certainty,
    Dialogue,
    Replacement,
    argument_values,
    found,
    texts_in,
)
from tunecheck_authoring._author.wording import words_of

# Texts of two or more characters in quotation marks of any kind: 'It's late', "hi there", `ls -l`, “ok go”, ‘no way’.
# Apostrophes inside words and keys before a JSON value (`"name": "…"`) are no quotation marks.
_QUOTED = re.compile(
    r"""(?<!\w)(?:'((?:[^'\n]|(?<=\w)'(?=\w)){2,}?)'|"([^"\n]{2,}?)"|`([^`\n]{2,}?)`|“([^”\n]{2,}?)”"""
    r"""|‘([^’\n]{2,}?)’)(?!\w|\s*:\s*["\[{])"""
)
_WORD = re.compile(r"\w+(?:[-.@:/]\w+)*")
"""Words, addresses, times and ids: `mail`, `a.b@c.de`, `10:30`, `order-7`."""

_NUMBER = re.compile(r"(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)(?:\.\d+)?")
"""Numbers without a sign: `7`, `3.5`, `10,000.5`."""

_MOST_NUMBERS = 200
"""Above this count, nearly every number can be derived."""
_TOLERANCE = 0.006  # amounts rounded to two decimals are equal
_PRECISION = 1e-12  # the relative rounding error of computed numbers
_FACTORS = (0.01, 7, 10, 12, 24, 60, 100, 1000, 3600)
"""Percent, powers of ten and units of time."""
_MOST_LETTERS = 0.75
"""The share of an abbreviation's letters that must appear in the name, in its order."""
_LONGEST_NAME = 100
_NAME = re.compile(r"[A-Z][\w'-]*(?: [A-Z][\w'-]*)*")
"""Capitalized words, which may be names: `New York`, `O'Brien`."""
_MOST_NAMES = 50
"""The most names for which lookups are made, because each is a call of each reading operation."""


@functools.cache
def _numerals() -> dict[str, float]:
    """Return numbers by their words, such as 3 for "three", "third" and "march"."""
    shipped: dict[str, str] = json.loads(files(__package__).joinpath("numerals.json").read_text("utf-8"))
    return {word: float(number) for number, words in shipped.items() for word in words.split()}


def quotes(text: str) -> list[str]:
    """Return the quoted texts; apostrophes within words and keys of JSON do not count."""
    return [next(part for part in match.groups() if part) for match in _QUOTED.finditer(text)]


def words(text: str) -> list[str]:
    """Return the words of a text in lower case; an address, an id or a file name is one word."""
    return _WORD.findall(text.casefold())


def numbers(text: str) -> Iterator[float]:
    """Yield the numbers in a text, including numbers in words and names of months and weekdays.

    `1,200` yields 1200, 1 and 200, because it may be a list. A number of 30 or more digits yields 0.
    """
    for match in _NUMBER.finditer(text):
        for part in {match[0].replace(",", ""), *match[0].split(",")}:  # thousands, or a list
            yield float(part) if len(part) < 30 else 0.0
    yield from (_numerals()[word] for word in re.findall(r"[a-z]+", text.casefold()) if word in _numerals())


def shortens(text: str, name: str) -> bool:
    """True if a text abbreviates a name: same first letter, and most letters in the name's order (nvda, nvidia)."""
    if text[0] != name[0] or not len(text) <= len(name) <= _LONGEST_NAME or not text.isalpha():
        return False

    matcher = SequenceMatcher(None, text, name, autojunk=False)
    return sum(block.size for block in matcher.get_matching_blocks()) >= len(text) * _MOST_LETTERS


class KnownValues:
    """The values of a conversation so far: the user's words and the results of calls.

    `quoted` are the user's quotations, `results` the texts in results, and `words` all words in lower case. `numbers`
    has all numbers.
    """

    def __init__(self) -> None:
        """Begin without values. `_derived` has the numbers that follow from `numbers`; None until they are needed."""
        self.quoted: list[str] = []
        self.results: list[str] = []
        self.words: set[str] = set()
        self._names: list[str] = []
        self._texts: list[str] = []
        self.numbers: set[float] = set()
        self._derived: list[float] | None = None

    def say(self, text: str) -> None:
        """Add a user message."""
        self.quoted += quotes(text)
        self._names += _NAME.findall(text)
        self.add(text)

    def answer(self, value: object) -> None:
        """Add the result of a call."""
        self.results += (text for text in texts_in(value) if len(text) > 1)
        self.add(value)

    def names(self) -> list[str]:
        """Return possible names in the user's words: capitalized words and quotations."""
        return [*dict.fromkeys([*self._names, *self.quoted])][:_MOST_NAMES]

    def add(self, value: object) -> None:
        """Add the texts and numbers of a value. Numbers derived from known numbers are computed again later."""
        count_before = len(self.numbers)
        for text in texts_in(value):
            folded = text.casefold()
            self._texts.append(folded)
            self.words.update(words(folded))
            self.numbers.update(numbers(folded))
        if len(self.numbers) > count_before:
            self._derived = None

    def has_text(self, text: str) -> bool:
        """True if the conversation contains the text, in any letter case."""
        return text.casefold() in self._all()

    def has_words(self, text: str) -> bool:
        """True if the conversation contains the text as whole words: 'We are lat' is not in 'We are late'."""
        text = text.casefold()

        # Letters or digits on both sides of an edge are one word; other scripts may have no spaces between words.
        before = "(?<![a-z0-9])" if text[0].isascii() and text[0].isalnum() else ""
        after = "(?![a-z0-9])" if text[-1].isascii() and text[-1].isalnum() else ""
        return re.search(before + re.escape(text) + after, self._all()) is not None

    def _all(self) -> str:
        """Return all texts as one, which is kept so that it is joined only once."""
        if len(self._texts) > 1:
            self._texts = ["\n".join(self._texts)]
        return "".join(self._texts)

    def has_number(self, value: float) -> bool:
        """True if the number occurs, or is a rounding, sum, product, quotient or percentage of numbers that occur.

        The sign does not count. 0 and 1 are always known. Among very many numbers, every number counts as known.
        """
        size = abs(value)
        if len(self.numbers) > _MOST_NUMBERS or _is_near(size, sorted({0.0, 1.0, *self.numbers})):
            return True

        if self._derived is None:
            self._derived = sorted({*_derived_numbers(sorted(self.numbers))})
        return _is_near(size, self._derived)


def _is_near(value: float, known: Sequence[float]) -> bool:
    """True if the value is in this sorted list, or is a rounding of one of its numbers: 3 of 2.6, 4.67 of 4.6667."""
    least = max(_TOLERANCE, abs(value) * _PRECISION)
    reach = max(least, 0.5)

    candidates = known[bisect_left(known, value - reach) : bisect_right(known, value + reach)]
    return any(abs(value - each) < least or value == round(each) for each in candidates)


def _derived_numbers(known: list[float]) -> Iterator[float]:
    """Yield numbers that follow from known ones: multiples by `_FACTORS`, means, and results of two numbers.

    From 20 and 5: 1200 (times 60), 12.5 (the mean), 25, 15, 100, 4 and 0.25.
    """
    for each in known:
        yield from (each * factor for factor in _FACTORS)
    if known:
        yield sum(known) / len(known)

    for first, second in combinations(known, 2):
        yield from (first + second, abs(first - second), first * second)
        if first and second:
            yield from (first / second, second / first)
    # 20 numbers have 1,140 triples; of more numbers, only the smallest 20 are combined.
    for three in combinations(known[:20], 3):
        yield sum(three) / 3


# -- requests

_CLAUSE = re.compile(r"[.!?;\n—–]+\s+|,\s+|\s+(?:and|then|but|to)\s+")
"""The ends of clauses: "Move it, then close and lock it." has the clauses `Move it`, `then close` and `lock it.`"""

# The words before the verb of a clause: `Could you please book a room` becomes `book a room`.
_POLITE = re.compile(
    r"^\W*(?:(?:please|kindly|then|also|and|now|next|finally|lastly|additionally|just|so|afterwards?|once done|"
    r"go ahead and|could you|can you|would you|will you|i (?:want|need|would like) (?:you )?to|i'd like (?:you )?to|"
    r"let's|make sure to|be sure to|remember to|don't forget to|to|me|help me)\b\W*)*",
    re.IGNORECASE,
)
# Verbs of operations that change nothing: a request for them may be answered from earlier results.
_READS = frozenset(
    "get list show view find search check display estimate calculate compute retrieve read fetch is has verify ls cat "
    "pwd tail head grep wc sort diff du cd count".split()
)
# Words of function names that name no thing, so a request need not repeat them.
_NO_OBJECT = frozenset("to by of for on in with from the and based all id".split())
_TAKES_BACK = re.compile(r"\b(?:changed my mind|no,? wait|on second thought|scratch that|i meant)\b", re.IGNORECASE)
_MOST_APART = 3
"""The most words between a request's verb and the noun: "cancel my two old orders"."""

_MOST_QUOTES = 200
"""A request with more quotations is a document; calls use parts of it."""
_SHORTEST_QUOTE = 3
"""Shorter quotations, such as "A", occur in calls by chance, so they count as used."""


def request_findings(dialogue: Dialogue) -> Iterator[AuditFinding]:
    """Yield findings for requests that no call carries out, and for quotations that no call uses.

    A request may be carried out in its own turn or in the turn before or after it.
    """
    yield from _find_unused(dialogue)
    if dialogue.is_conversation:
        for turn, asked in enumerate(dialogue.asked):
            yield from _find_unanswered(dialogue, turn, asked)


def _find_unanswered(dialogue: Dialogue, turn: int, asked: str) -> Iterator[AuditFinding]:
    """Yield a finding if a clause of the turn asks for an offered function that is not called, by its verb and noun.

    Verbs of functions that only read are ignored. A turn gets no finding if its calls change the state, or if it has no
    calls and the next turn has some. `asked` has the user's words in the turn.
    """
    calls = dialogue.of_turn(turn)
    # Without calls in this turn, the agent may ask back, and the next turn makes the call.
    if any(call.step.changes for call in calls) or (not calls and dialogue.of_turn(turn + 1)):
        return

    called = {call.name for at in (turn - 1, turn, turn + 1) for call in dialogue.of_turn(at)}
    called_verbs = {_name_parts(name)[0] for name in called}

    for clause in _CLAUSE.split(asked):
        clause_words = words(_POLITE.sub("", clause))
        for name in dialogue.tools:
            verb, *objects = _name_parts(name)
            if clause_words[:1] != [verb] or verb in _READS or verb in called_verbs or name in called:
                continue
            if _names_object(objects, clause_words[1:]):
                evidence = f"the user says {clause.strip()!r}, but {name} is not called, and no call changes anything"
                yield found(dialogue.name, "unanswered_request", evidence, turn, fix=f"call {name}?")
                return


def _names_object(objects: list[str], following: list[str]) -> bool:
    """Return True if a noun of the function's name is among the next words of the request, or the name has no noun.

    `objects` are the words of the name after its verb, and `following` the words of the request after the verb.
    """
    nouns = {noun for noun in objects if noun not in _NO_OBJECT}

    near = following[: _MOST_APART + 1]
    return not nouns or any(word in nouns or word.removesuffix("s") in nouns for word in near)


def _name_parts(name: str) -> list[str]:
    """Return the lower-case words of a function's name after its last dot; the first is usually the verb."""
    return words_of(name.rpartition(".")[2]) or [name]


def _find_unused(dialogue: Dialogue) -> Iterator[AuditFinding]:
    """Yield a finding for each quotation that no argument, no result and no configuration contains.

    A quoted folder of the initial state is reported, too, if no call names it. A quotation that is most of its request
    is a text to work on, not a value. Turns without expected calls are not checked, nor dialogues with source code as
    arguments.
    """
    if not dialogue.calls or dialogue.is_source:
        return
    # `in_calls` lacks the start state, which contains each folder's name.
    in_calls, known = KnownValues(), KnownValues()
    in_calls.add([[*call.right.accepted.values(), call.step.result.value, call.name] for call in dialogue.calls])
    known.add([dialogue.start, *((call.right.accepted, call.step.result.value, call.name) for call in dialogue.calls)])

    places = {*_places(dialogue.start)}
    values = [value for call in dialogue.calls for _, each in argument_values(call.right) for value in each]
    texts = {value for value in values if isinstance(value, str) and len(value) > 2}

    for turn, asked in enumerate(dialogue.asked):
        request = _TAKES_BACK.split(asked, maxsplit=1)[-1]  # a request may take back its first part
        quoted = dict.fromkeys(quotes(request))
        for quote in quoted if len(quoted) <= _MOST_QUOTES else ():
            is_whole_request = 2 * len(quote) > len(asked)
            if is_whole_request or not dialogue.of_turn(turn):
                continue

            is_missed_place = quote in places and not in_calls.has_text(quote)
            if is_missed_place or not _is_used(quote, known, texts, dialogue):
                evidence = f"the user quotes {quote!r}, but no call uses it"
                certainty: Certainty = "likely" if dialogue.is_conversation else "look"
                yield found(dialogue.name, "unused_text", evidence, turn, certainty=certainty)


def _places(value: object) -> Iterator[str]:
    """Yield the names of containers in a state: objects that contain objects, such as folders with files."""
    if isinstance(value, Mapping):
        for name, each in value.items():
            if isinstance(each, Mapping) and any(isinstance(inner, Mapping) for inner in each.values()):
                yield str(name)
            yield from _places(each)
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from _places(each)


def _is_used(quote: str, known: KnownValues, texts: set[str], dialogue: Dialogue) -> bool:
    """True if a call or the initial state contains the quotation or one of its words, or a call uses an answer to it.

    Answers are the results of reading calls with the quotation or its first word. `known` has the values of the initial
    state and of all calls, and `texts` the texts in the calls' arguments.
    Quotations of two characters, placeholders (`xxx`) and names of functions count as used. So do nearly quoted texts,
    which get another kind of finding.
    """
    if len(quote) < _SHORTEST_QUOTE or _PLACEHOLDER.fullmatch(quote) or dialogue.tools.spelled(quote) is not None:
        return True
    if any(known.has_text(part) for part in (quote, *words(quote)) if len(part) > 2):
        return True
    if any(resembles(text, quote) for text in texts):
        return True

    answers = dialogue.look_up([quote, *quote.split()[:1]])
    return any(not texts.isdisjoint(texts_in(answer)) for answer in answers)


# -- arguments

_ALIKE = 0.8
"""The least similarity (`SequenceMatcher`, from 0 to 1) of a text and a quotation."""
_SHARED = 0.6
"""The least similarity of an argument and the result of which it may be a copy."""
_LONG = 20
"""An argument of at least this many characters may be a copy of a result."""
_LONGEST = 2_000
"""Longer texts are not compared: the time grows with the product of their lengths."""
_SHORTEST = 4
"""Shorter texts and numbers are similar to others by chance."""
_MOST_COMPARED = 200
"""The most quotations or results that a text is compared with, the latest ones."""
_MOST_WORDS = 5_000
"""Above this count, nearly every word is close to one of them."""
_PLACEHOLDER = re.compile(r"\$?\{[^{}]*\}|<[^<>]*>|\[[^\[\]]*\]|\b[xX]+\b|\.\.\.|…|_{2,}")
"""Placeholders: `{price}`, `${price}`, `<name>`, `[x]`, `xxx`, `...`, `…`, `___`."""
_LARGEST = 10**15
"""Larger numbers, such as ids, lose digits as floats."""
_NOON = 12
"""The hours between 2 pm and 14:00."""
_MOST_UNKNOWN = 1 / 3
"""The share of an argument's words that may be new: messages are often worded freely."""


def value_findings(dialogue: Dialogue) -> Iterator[AuditFinding]:
    """Yield a finding for each argument that the values before its call do not explain."""
    earlier = KnownValues()
    earlier.add(dialogue.start)
    earlier.add(dialogue.told)

    turns = max([len(dialogue.asked), *(call.turn + 1 for call in dialogue.calls)])
    for turn in range(turns):
        earlier.say(dialogue.asked[turn] if turn < len(dialogue.asked) else "")
        for call in dialogue.of_turn(turn):
            yield from _findings_of_call(dialogue, call, earlier)
            earlier.answer(call.step.result.value)


def _findings_of_call(dialogue: Dialogue, call: TruthCall, earlier: KnownValues) -> Iterator[AuditFinding]:
    """Yield the findings about the arguments of a call. Arguments with texts and numbers mixed are skipped.

    `earlier` has the values before the call.
    """
    definition = dialogue.tools.spelled(call.name)
    described = "" if definition is None else f"{definition.description} {dumps(dict(definition.parameters)).decode()}"

    for parameter, values in argument_values(call.right):
        texts = [value for value in values if isinstance(value, str)]
        figures = [float(each) for each in values if _is_figure(each)]
        if len(texts) == len(values) and texts:
            yield from _findings_of_texts(dialogue, call, parameter, texts, earlier, described.casefold())
        elif len(figures) == len(values) and figures:
            yield from _findings_of_figures(dialogue, call, parameter, figures, earlier, described)


def _is_figure(value: object) -> TypeGuard[int | float]:
    """True if the value is a number small enough to compare."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < _LARGEST


def _findings_of_texts(
    dialogue: Dialogue, call: TruthCall, parameter: str, texts: list[str], earlier: KnownValues, described: str
) -> Iterator[AuditFinding]:
    """Yield at most one finding about a text argument: nearly quoted, a stale copy, mistyped or ungrounded.

    `texts` are its accepted values. A text that occurs earlier, or in `described`, the function's description, needs no
    other source.
    """
    quotation = _quotation_with_mark(texts, earlier)
    if quotation is not None:
        evidence = f"{parameter} of {call.name} is {texts[0]!r}; the user said {quotation!r}"
        # A comma before the closing quotation mark often belongs to the sentence around the quotation.
        certainty: Certainty = "likely" if quotation[-1] in "!?" else "look"
        yield found(dialogue.name, "nearly_quoted", evidence, call.turn, certainty=certainty)
        return

    if any(_occurs(text, earlier) or text.casefold() in described for text in texts):
        return

    for text in texts:
        quoted = _similar_quotation(text, earlier.quoted)
        if quoted is not None:
            evidence = f"{parameter} of {call.name} is {text!r}; the user said {quoted!r}"
            yield _with_fix(dialogue, call, "nearly_quoted", evidence, text, quoted)
            return

        copied = _copied_result(text, earlier.results) if dialogue.is_conversation else None
        if copied is not None:
            evidence = f"{parameter} of {call.name} is {text!r}; an earlier result is {copied!r}"
            yield _with_fix(dialogue, call, "stale_copy", evidence, text, copied)
            return

        close = _known_word_near(text, earlier)
        if close is not None:
            evidence = f"{parameter} of {call.name} is {text!r}, which appears nowhere else; the row contains {close!r}"
            is_word = text.isalpha() and not dialogue.is_conversation  # the user may have misspelt the word
            certainty, fix = "look" if is_word else "likely", f"is {close!r} meant?"
            yield found(dialogue.name, "mistyped_value", evidence, call.turn, fix=fix, certainty=certainty)
            return

    if dialogue.is_source or not all(_is_unfounded(text, earlier) for text in texts):
        return

    if not _is_looked_up(texts, dialogue, earlier):
        evidence = f"{parameter} of {call.name} is {texts[0]!r}"
        yield found(dialogue.name, "ungrounded_value", evidence, call.turn)


def _quotation_with_mark(texts: Sequence[str], earlier: KnownValues) -> str | None:
    """Return the user's quotation that differs from an accepted text only by a last mark (`Done!` and `Done`).

    None if there is none, or if a text is quoted exactly. `earlier` has the values before the call.
    """
    if not set(texts).isdisjoint(earlier.quoted):
        return None

    return next((each for each in earlier.quoted if each[:-1] in texts and not each[-1].isalnum()), None)


def _is_looked_up(texts: list[str], dialogue: Dialogue, earlier: KnownValues) -> bool:
    """True if a read-only call with a name that the user said (a city) returns one of the texts (its airport)."""
    answers = KnownValues()
    for answer in dialogue.look_up(earlier.names()):
        answers.add(answer)
    return any(answers.has_text(text) for text in texts)


def _occurs(text: str, earlier: KnownValues) -> bool:
    """True if the text occurs as whole words, with or without leading marks (`#tag`, `@name`), or is one character."""
    bare = text.lstrip("#@")
    return len(bare) < 2 or earlier.has_words(bare)


def _similar_quotation(text: str, quoted: Sequence[str]) -> str | None:
    """Return one of the user's quotations (`quoted`) that the text nearly equals, or None.

    A quotation with placeholders does not count if the text fills them.
    """
    if len(text) < _SHORTEST:
        return None
    latest = dict.fromkeys(quoted[-_MOST_COMPARED:])
    return next((quote for quote in latest if resembles(text, quote) and not _fills_template(text, quote)), None)


def resembles(text: str, other: str) -> bool:
    """True if two texts are similar but not equal."""
    return _ratio_reaches(text, other, _ALIKE)


def _fills_template(text: str, template: str) -> bool:
    """True if a text fills the placeholders of a template: `Dear Ann` those of `Dear {name}`."""
    parts = _PLACEHOLDER.split(template)
    pattern = ".+?".join(map(re.escape, parts))
    return len(parts) > 1 and re.fullmatch(pattern, text, re.DOTALL | re.IGNORECASE) is not None


def _copied_result(text: str, results: Sequence[str]) -> str | None:
    """Return an earlier result that a long text resembles, or None.

    Return None, too, if the text contains a whole result or is part of one: it is then a proper copy. White space does
    not count.
    """
    if not _LONG <= len(text) <= _LONGEST:
        return None

    plain = "".join(text.split())

    close: str | None = None

    for result in dict.fromkeys(results[-_MOST_COMPARED:]):
        bare = "".join(result[:_LONGEST].split())
        if len(result) < _LONG:
            continue
        if bare in plain or plain in bare:
            return None

        if close is None and _ratio_reaches(text, result, _SHARED):
            close = result
    return close


def _ratio_reaches(text: str, other: str, least: float) -> bool:
    """True if two different texts have at least this similarity. False for very long texts.

    Cheap upper bounds come first.
    """
    if len(text) > _LONGEST or len(other) > _LONGEST or text == other:
        return False
    if 2 * min(len(text), len(other)) < least * (len(text) + len(other)):  # an upper bound of the ratio
        return False
    matcher = SequenceMatcher(None, text, other, autojunk=False)
    return matcher.quick_ratio() >= least and matcher.ratio() >= least


def _known_word_near(text: str, earlier: KnownValues) -> str | None:
    """Return a known word at edit distance one from a text that is a single unknown word, or None.

    One edit inserts, deletes or replaces a letter, or swaps two neighbours. Words that differ only by a last letter
    (singular and plural) do not count. `earlier` has the known words.
    """
    word = text.casefold()
    if len(word) < _SHORTEST + 1 or len(words(word)) != 1 or len(earlier.words) > _MOST_WORDS:
        return None
    if all(part.isdecimal() and _is_known(part, earlier) for part in _word_parts(word)):  # a date in another format
        return None

    others = (known for known in earlier.words if known[:-1] != word and word[:-1] != known)
    return min((known for known in others if OSA.distance(word, known, score_cutoff=1) <= 1), default=None)


def _is_unfounded(text: str, earlier: KnownValues) -> bool:
    """True if over a third of a text's words do not occur in the conversation.

    A text may spell out what the user says: a city with its country, words for their initials, a full name for a short
    one. Texts in another script than the conversation are not judged. `earlier` has the values before the call.
    """
    # A city may get its country: `Rome, Italy`.
    named = text.partition(",")[0]
    if named != text and words(named) and not _is_unfounded(named, earlier):
        return False

    parts = [part for word in words(text) for part in _word_parts(word)]
    # The initials of its words occur: `Quarterly Business Review` for "QBR".
    if not parts or "".join(word[0] for word in words(named)) in earlier.words:
        return False

    if text.isascii() and 2 * sum(not word.isascii() for word in earlier.words) > len(earlier.words):
        return False

    unknown = [word for word in parts if not _is_known(word, earlier)]
    if len(unknown) / len(parts) <= _MOST_UNKNOWN:
        return False
    # A short name may occur as a part of a full one: `nvda` and `nvidia`.
    return len(parts) > 1 or not any(shortens(parts[0], word) for word in earlier.words)


def _word_parts(word: str) -> list[str]:
    """Return the parts of a date, a time, an address or an id: 2024, 09, 30, 10 and 00 for `2024-09-30t10:00z`."""
    return [part for part in re.split(r"[-.@:/_]|(?<=\d)[tz](?=\d|$)", word) if part]


def _is_known(word: str, earlier: KnownValues) -> bool:
    """True if a word occurs, or its beginning does; hours may be in 12-hour or 24-hour form.

    Among very many words, every word counts as known. `earlier` has the words and numbers that occur.
    """
    if word.isdecimal():
        if len(word) > 30:
            return earlier.has_text(word)
        return earlier.has_number(float(word)) or (len(word) == 2 and earlier.has_number(float(word) - _NOON))
    # Its beginning is enough, because words are inflected: `cancell` of `cancelling` occurs in "cancelled".
    if word in earlier.words or (len(word) > 2 and earlier.has_text(word[: max(4, len(word) - 3)])):
        return True

    if len(earlier.words) > _MOST_WORDS:
        return True
    return any(len(known) >= _SHORTEST and shortens(known, word) for known in earlier.words)


def _findings_of_figures(
    dialogue: Dialogue, call: TruthCall, parameter: str, figures: list[float], earlier: KnownValues, described: str
) -> Iterator[AuditFinding]:
    """Yield a finding if none of a number's accepted values occurs or follows from numbers that occur.

    Numbers in the function's description are known, too. `figures` are the accepted values, and `earlier` has the
    values before the call.
    """
    if any(earlier.has_number(each) for each in figures) or not set(figures).isdisjoint(numbers(described)):
        return

    value = figures[0]
    close = next((each for each in earlier.numbers if _mistypes(value, each)), None)
    if close is not None:
        evidence = f"{parameter} of {call.name} is {value:g}, which appears nowhere else; the row contains {close:g}"
        yield found(dialogue.name, "mistyped_value", evidence, call.turn, fix=f"is {close:g} meant?")
    else:
        evidence = f"{parameter} of {call.name} is {value:.15g}, which cannot be computed from the row's numbers"
        certainty: Certainty = "likely" if dialogue.is_conversation else "look"
        yield found(dialogue.name, "ungrounded_number", evidence, call.turn, certainty=certainty)


def _mistypes(value: float, known: float) -> bool:
    """True if two numbers of at least four characters differ by a single typing mistake: 2150 and 2510."""
    one, other = f"{value:.15g}", f"{known:.15g}"
    return min(len(one), len(other)) >= _SHORTEST and OSA.distance(one, other, score_cutoff=1) <= 1


def _with_fix(dialogue: Dialogue, call: TruthCall, kind: str, evidence: str, old: str, new: str) -> AuditFinding:
    """Return a finding with a fix that replaces the text `old` in the call by the text `new`.

    The fix is automatic only if the call contains the text exactly once and the new text needs no escapes.
    """
    if call.text.count(old) != 1 or any(mark in new for mark in "'\"\\\n"):
        return found(dialogue.name, kind, evidence, call.turn, fix=f"is {new!r} meant?")

    text = call.text.replace(old, new)
    replacement = Replacement(call.turn, call.text, text)
    return found(dialogue.name, kind, evidence, call.turn, fix=text, replacement=replacement)
