"""Kinds with an instruction for later: for the nth reply, for each message with an occasion, or for a sort of problem.

The rules for problems are invented, so that common sense gives another answer. Their texts are data; the answers are
computed here.

**Prospective memory**: the saying must be in the nth reply since the request, and in no other. The reply to the request
has number 1, and may repeat the saying to announce it.

**Trigger response**: the score is the share of replies that say the agreed sentence. A reply says it by the first rule
that applies (`_says`):

1. It has the sentence's words in order: yes, unless they are only mentioned ("I will not say '…'", "… but I refuse").
2. One of its sentences has a ROUGE-L F1 above 0.75 with the agreed one, and no word of denial: yes.
3. Otherwise: no.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any, TypeAlias

import msgspec
from msgspec.structs import replace

from tunecheck.evaluators import rouge_l, rouge_tokens
from tunecheck_memory import FinishedTest, GenerationContext, Kind, MemoryTest, Score, scripted_test
from tunecheck_memory._kinds.replies import (
    NoExpectationError,
    UndecidedError,
    all_replies,
    expected_texts,
    plain_words,
    texts,
)
from tunecheck_memory._kinds.scripts import draw_line, read_data, read_words, whole

FEWEST, MOST = 2, 8
"""The range of the number of the reply that must contain the saying; the reply to the instruction has number 1."""


class ProspectiveMemory(Kind):
    """The user quotes a saying and asks the agent to append it to its nth reply; a callback counts the replies."""

    name = "prospective_memory"
    title = "Prospective Memory"
    resets = True

    def is_over(self, definition: MemoryTest, replies: Sequence[str]) -> bool:
        """Return True once the reply that must contain the saying was given.

        If the test does not state the number of this reply, one reply suffices.
        """
        match definition.expected:  # [[saying, author, number of the reply]]
            case [[*_, int(number)], *_]:
                return len(replies) >= number
        return len(replies) >= 1

    def definition(self, example: str, making: GenerationContext) -> MemoryTest:
        """Return a test with a random saying, and the request to append it to a random one of the next replies."""
        random = making.random(self.title, example)
        saying = random.choice(read_words("sayings"))
        author = f"{random.choice(read_words('first_names'))} {random.choice(read_words('last_names'))}"
        number = random.randint(FEWEST, MOST)

        question = draw_line(random, "saying at the nth reply", author=author, nth=_ordinal(number))
        test = scripted_test(self, example, [f"“{saying}” — {author}"], [question], [[saying, author, number]])
        return replace(test, uses_callback=True)

    def score(self, given: FinishedTest) -> Score | None:
        """Score 1 if only the nth reply since the request contains the quote; the reply to the request is the first.

        Words are compared in lower case without punctuation. The reply to the request may repeat the quote to announce
        it.

        Raises:
            UndecidedError: the row has no replies, or the expected answer has another form.
        """
        quote, turn = expected_quote(given)
        since_request = texts(given.since_question)
        if not since_request:
            raise UndecidedError("the column `since_question` holds no reply, so the test of the row cannot be scored")

        numbers = [number for number, reply in enumerate(since_request, 1) if quote in letters(reply)]
        # "I will append 'To be or not to be …' to my third reply." appends nothing yet.
        if turn > 1 and numbers[:1] == [1] and _ANNOUNCES.search(since_request[0]):
            numbers = numbers[1:]

        right = numbers == [turn]
        place = f"the quote is in reply {', '.join(map(str, numbers[:8]))}" if numbers else "the quote is in no reply"
        return Score(float(right), (place + ("" if right else f"; expected only in reply {turn}"),))


def _ordinal(number: int) -> str:
    """Return 1st, 2nd, 3rd, 4th, …, for numbers of one digit."""
    return f"{number}{({1: 'st', 2: 'nd', 3: 'rd'}).get(number, 'th')}"


class _Trigger(msgspec.Struct, frozen=True):
    """`occasion` completes "each time that I …"; `lines` are messages with this occasion."""

    occasion: str
    lines: tuple[str, ...]
    response: str


class TriggerResponse(Kind):
    """The user agrees on a sentence as the answer to an occasion; `trigger_activations` messages have this occasion.

    The method `score` decides whether a reply has the sentence.
    """

    name = "trigger_response"
    title = "Trigger Response"
    judge_prompt = "memory_trigger"
    resets = True

    def __init__(self, *, trigger_activations: int = 3) -> None:
        self.trigger_activations = whole("trigger_activations", trigger_activations, least=1, most=100)

    def definition(self, example: str, making: GenerationContext) -> MemoryTest:
        """Return a test with an agreed answer to an occasion, and messages with that occasion as its questions."""
        random = making.random(self.title, example)
        trigger = random.choice(read_data("triggers", tuple[_Trigger, ...]))
        values = {"occasion": trigger.occasion, "response": trigger.response}
        request = draw_line(random, "response to an occasion", **values)
        lines = [random.choice(trigger.lines) for _ in range(self.trigger_activations)]
        return scripted_test(self, example, [request], lines, [trigger.response] * len(lines))

    def score(self, given: FinishedTest) -> Score | None:
        """Score the share of expected replies that have the agreed sentence. A missing reply counts as wrong.

        A reply has the sentence if it has the sentence's words in order, or if the ROUGE-L F1 (Lin 2004, with stems) of
        one of the reply's sentences is above 0.75. A reply that refuses to say the sentence does not count.

        Raises:
            NoExpectationError: no sentence is expected, or one has no words.
            UndecidedError: the row has no reply.
        """
        expected = expected_texts(given)
        if not expected or not all(rouge_tokens(each) for each in expected):
            raise NoExpectationError
        pairs = zip(expected[:_MOST_REPLIES], all_replies(given), strict=False)
        said = [_says(reply, sentence) for sentence, reply in pairs]
        reasons = tuple(f"reply {number}: {'said' if right else 'not said'}" for number, right in enumerate(said, 1))
        return Score(sum(said) / len(expected), reasons)


def expected_quote(given: FinishedTest) -> tuple[str, int]:
    """Return the quote in lower case without punctuation, and the number of the reply that must contain it, from 1.

    Raises:
        NoExpectationError: The test does not state them.
    """
    match given.expected:  # [[quote, author, number of the reply]]
        case [[str(saying), *_, int(turn)], *_] if (quote := letters(saying)) and not isinstance(turn, bool):
            return quote, turn
        case _:
            raise NoExpectationError


# "I will append the saying", "I'm going to end my third reply with it"
_ANNOUNCES = re.compile(
    r"\b(?:will|shall|going to|'ll)\b[^.!?\n]{0,80}\b(?:append|add|include|put|end|close|attach)", re.I
)


def letters(text: str) -> str:
    """Return a text in lower case without punctuation and repeated white space."""
    return " ".join(re.sub(r"[^\w\s]", "", text.lower()).split())


LIKENESS = 0.75
"""A reply with a higher ROUGE-L F1 (with stems) counts as the sentence."""


# A colon ends a sentence, too: in "Here you are: The rain is back.", the agreed sentence stands alone.
_SENTENCE_END = re.compile(r"(?<=[.!?])[\"')\]]*\s+|\n+|(?<=[:;])\s+")


# "I will not …", "I can't …"
_DENIED = re.compile(r"\b(?:not|never|no longer|stop|cannot|unable to|refuse to)\b|n't\b", re.I)


# "say", "you asked me to answer with": the words after it may be mentioned instead of said.
_SAYING = re.compile(r"\b(?:say|saying|said|repeat|respond|reply|answer|tell|instruct\w*|asked|use|using)\b", re.I)


_REFUSES = re.compile(
    r"[^.!?\n]{0,20}[.!?]?[\"')]{0,2}(?:[^.!?\n]{0,40}\b(?:refuse|declin|object)"
    r"|\W*(?:but |however,? |yet |and )?i(?:'d| would)? (?:won't|will not|can't|cannot|rather not|don't want)\b)",
    re.I,
)
"""The text after a sentence that is mentioned but not said: "… but I refuse"."""


# Limits for hostile rows: the replies of a test, the sentences of a reply, and the words of a sentence. ROUGE-L
# compares each word with each.
_MOST_REPLIES = 200


_MOST_SENTENCES = 300


_MOST_WORDS = 4_000


def _says(reply: str, sentence: str) -> bool:
    """Return True if a reply says the sentence, in the same or similar words, and neither denies nor refuses it."""
    reply = plain_words(reply)
    words_in_order = r"\W+".join(map(re.escape, re.findall(r"\w+", plain_words(sentence))[:100]))

    if match := re.search(rf"\b{words_in_order}\b", reply, re.I):
        # "I will not say 'Here is …'" has the words and does not say them.
        lead = re.split(r"[.!?\n]", reply[max(0, match.start() - 80) : match.start()])[-1]
        tail = reply[match.end() : match.end() + 120]
        return not (_SAYING.search(lead) and (_DENIED.search(lead) or _REFUSES.match(tail)))

    parts = _SENTENCE_END.split(reply, _MOST_SENTENCES)
    return any(likeness(sentence, part) > LIKENESS and not _DENIED.search(part) for part in parts)


def likeness(sentence: str, text: str) -> float:
    """Return the ROUGE-L F1 of a text and the wanted sentence, on stems; 0 if the text is too long to compare."""
    tokens = rouge_tokens(text, stemmer=True)
    if len(tokens) > _MOST_WORDS:
        return 0.0
    return rouge_l(rouge_tokens(sentence, stemmer=True)[:_MOST_WORDS], tokens).f1_score


DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")

_OPENING = "I want you to think in a way of my own about a certain sort of question. {rule} Keep to it from now on."


class _Rule(msgspec.Struct, frozen=True):
    """The templates of a rule, its problem and the answer, and the `choices` from which their values are drawn."""

    rule: str
    problem: str
    answer: str
    choices: tuple[Any, ...]


class HowToThink(Kind):
    """The user states a rule, and later asks for the solution of a problem by this rule."""

    name = "how_to_think"
    title = "How to think"
    judged = True
    judge_prompt = "memory_how_to_think"

    def definition(self, example: str, making: GenerationContext) -> MemoryTest:
        """Return a test of a random rule: the rule, and later a problem with the solution that the rule gives."""
        random = making.random(self.title, example)
        name, draw = random.choice([*_RULES.items()])
        templates = read_data("rules", dict[str, _Rule])[name]
        values = draw(random, templates.choices)
        opening = _OPENING.format(rule=templates.rule.format(**values))
        problem, answer = templates.problem.format(**values), templates.answer.format(**values)
        return scripted_test(self, example, [opening], [problem], [answer])


_Values: TypeAlias = Mapping[str, object]
"""The values of the templates, with the solution."""


def _budget(random: Random, things: Sequence[Any]) -> _Values:
    """Draw a purchase; its total includes a reserve in percent and is rounded up to a multiple of `step`."""
    reserve, step = random.choice((10, 20, 30, 50)), random.choice((10, 20, 50, 100))

    price, count, thing = random.randint(3, 60), random.randint(3, 12), random.choice(things)
    total = -(-price * count * (100 + reserve) // (100 * step)) * step  # -(-a // b) rounds up
    return {"reserve": reserve, "step": step, "price": price, "count": count, "thing": thing, "total": total}


def _deadline(random: Random, tasks: Sequence[Any]) -> _Values:
    """Draw a task of some working days, two days off in the week, and a first day; the solution is the last day."""
    off = sorted(random.sample(range(7), 2))
    start = random.choice([day for day in range(7) if day not in off])
    length, task = random.randint(2, 9), random.choice(tasks)

    day, worked = start, 1  # the first day counts as worked
    while worked < length:
        day += 1
        worked += 0 if day % 7 in off else 1

    days_off = [DAYS[number] for number in off]
    return {"off": days_off, "start": DAYS[start], "length": length, "task": task, "end": DAYS[day % 7]}


def _estimate(random: Random, subjects: Sequence[Any]) -> _Values:
    """Draw five estimates, shuffled; the solution is `middle`, the mean of all but the lowest and the highest."""
    middle, apart = random.randint(20, 80), random.randint(1, 12)
    estimates = [middle - apart, middle, middle + apart]
    estimates += [middle - apart - random.randint(5, 15), middle + apart + random.randint(16, 90)]
    random.shuffle(estimates)
    return {"estimates": ", ".join(map(str, estimates)), "middle": middle, "what": random.choice(subjects)}


def _pick(random: Random, kinds: Sequence[Any]) -> _Values:
    """Draw four offers with different values; the solution is the one with the second lowest value.

    Example of an entry in `kinds`: `["price", "cheapest", "euros", "tent"]`.
    """
    measure, most, unit, thing = random.choice(kinds)
    names = random.sample(read_words("last_names"), 4)
    offers = dict(zip(names, random.sample(range(20, 400), 4), strict=True))
    listed = ", ".join(f"{name} ({value} {unit})" for name, value in offers.items())
    second = sorted(offers, key=offers.__getitem__)[1]
    return {"measure": measure, "most": most, "thing": thing, "offers": listed, "second": second}


def _tip(random: Random, payers: Sequence[Any]) -> _Values:
    """Draw a bill that a group splits; the payer pays half of what each of the others pays.

    The solution is the payer's `share`, so each of the others pays two shares.
    """
    people, share, payer = random.randint(3, 7), random.randint(6, 30), random.choice(payers)
    return {"people": people, "share": share, "payer": payer, "bill": share * (2 * people - 1)}


def _packing(random: Random, things: Sequence[Any]) -> _Values:
    """Draw things to pack: some for each night, and spare ones for every three nights begun; `total` solves it."""
    thing, each = random.choice(things), random.randint(1, 4)
    spare, nights = random.randint(1, 5), random.randint(2, 12)
    total = each * nights + spare * -(-nights // 3)  # -(-a // b) rounds up
    return {"thing": thing, "each": each, "spare": spare, "nights": nights, "total": total}


def _order(random: Random, choices: Sequence[Any]) -> _Values:
    """Draw tasks; the solution is the first or the last of them in alphabetical order, from A to Z or from Z to A."""
    *tasks, last = random.sample(choices, 4)
    place, backwards = random.choice((("first", True), ("first", False), ("last", True), ("last", False)))

    ordered = sorted([*tasks, last], reverse=backwards)
    answer = ordered[0 if place == "first" else -1]
    way = "from Z to A" if backwards else "from A to Z"
    return {"tasks": ", ".join(tasks), "last": last, "place": place, "way": way, "answer": answer}


def _temperature(random: Random, _: Sequence[Any]) -> _Values:
    """Draw a temperature and a wind speed; the solution `felt` is some degrees less for each full `per` of wind."""
    per, less = random.choice((5, 10, 20)), random.randint(1, 3)
    temperature, wind = random.randint(2, 25), random.choice((10, 20, 40, 60))
    degrees, felt = f"{less} degree{'s' if less > 1 else ''}", temperature - less * (wind // per)
    return {"per": per, "degrees": degrees, "temperature": temperature, "wind": wind, "felt": felt}


_RULES: Mapping[str, Callable[[Random, Sequence[Any]], _Values]] = {
    "budget": _budget, "deadline": _deadline, "estimate": _estimate, "pick": _pick, "tip": _tip, "packing": _packing,
    "order": _order, "temperature": _temperature,
}  # fmt: skip
"""The functions that draw a problem and solve it, by the names of their texts."""
