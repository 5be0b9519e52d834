"""Kinds with an instruction for later: for the nth reply, or for each message with a certain occasion."""

import re
from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from tunecheck.evaluators import rouge_l, rouge_tokens
from tunecheck_memory import FinishedTest, GenerationContext, Kind, MemoryTest, Score, scripted_test
from tunecheck_memory._kinds.replies import (
    NoExpectationError,
    UndecidedError,
    expected_texts,
    plain_words,
    replies,
    texts,
)
from tunecheck_memory._kinds.scripts import read_data, read_lines, read_words, whole

FEWEST, MOST = 2, 8
"""The range of the number of the reply that must contain the saying; the reply to the instruction has number 1."""

_QUESTIONS = read_lines("saying at the nth reply")


class ProspectiveMemory(Kind):
    """The user quotes a saying and asks the agent to append it to its nth reply; a callback counts the replies."""

    name = "prospective_memory"
    title = "Prospective Memory"
    resets = True

    def is_over(self, definition: MemoryTest, replies: Sequence[str]) -> bool:
        """Return True once the reply that must contain the saying was given."""
        return len(replies) >= expected_reply(definition)

    def definition(self, example: str, making: GenerationContext) -> MemoryTest:
        """Return a test with a random saying, and the request to append it to a random one of the next replies."""
        random = making.random(self.title, example)
        saying = random.choice(read_words("sayings"))
        author = f"{random.choice(read_words('first_names'))} {random.choice(read_words('last_names'))}"
        number = random.randint(FEWEST, MOST)
        question = random.choice(_QUESTIONS).format(author=author, nth=_ordinal(number))
        test = scripted_test(self, example, [f"“{saying}” — {author}"], [question], [[saying, author, number]])
        return replace(test, uses_callback=True)

    def score(self, given: FinishedTest) -> Score | None:
        """Score 1 if only the nth reply since the request contains the quote; the reply to the request is the first.

        Words are compared in lower case without punctuation. The reply to the request may repeat the quote to announce
        it.
        """
        quote, turn = expected_quote(given)
        since = texts(given.since_question)
        if not since:
            raise UndecidedError("the replies since the question are unknown")
        numbers = [number for number, reply in enumerate(since, 1) if quote in letters(reply)]
        if turn > 1 and numbers[:1] == [1] and _ANNOUNCES.search(since[0]):
            numbers = numbers[1:]
        right = numbers == [turn]
        said = f"the quote is in reply {', '.join(map(str, numbers[:8]))}" if numbers else "the quote is in no reply"
        return Score(float(right), (said + ("" if right else f"; expected only in reply {turn}"),))


def expected_reply(definition: MemoryTest) -> int:
    """Return the number of the reply that must contain the saying, counted from 1; 1 if the definition names none."""
    match definition.expected:
        case [[*_, int(number)], *_]:
            return number
    return 1


def _ordinal(number: int) -> str:
    """Return 1st, 2nd, 3rd, 4th, …"""
    ending = {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th") if number % 100 not in (11, 12, 13) else "th"
    return f"{number}{ending}"


_ORDERS = read_lines("response to an occasion")


class _Trigger(msgspec.Struct, frozen=True):
    """`occasion` completes "each time that I …"; `lines` are messages with this occasion."""

    occasion: str
    lines: tuple[str, ...]
    response: str


class TriggerResponse(Kind):
    """The user agrees on a sentence as the answer to an occasion; `trigger_activations` messages have this occasion.

    A reply counts as the sentence if its ROUGE-L F1 is above `LIKENESS`.
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
        order = random.choice(_ORDERS).format(occasion=trigger.occasion, response=trigger.response)
        lines = [random.choice(trigger.lines) for _ in range(self.trigger_activations)]
        return scripted_test(self, example, [order], lines, [trigger.response] * len(lines))

    def score(self, given: FinishedTest) -> Score | None:
        """Score the share of replies with the agreed sentence.

        A reply has the sentence if it has the sentence's words in order, or if the ROUGE-L F1 (Lin 2004, with stems) of
        one of the reply's sentences is above 0.75. A reply that refuses to say the sentence does not count.
        """
        expected = expected_texts(given)
        if not expected or not all(rouge_tokens(each) for each in expected):
            raise NoExpectationError
        pairs = zip(expected[:_MOST_REPLIES], replies(given), strict=False)
        said = [_is_said(wanted, reply) for wanted, reply in pairs]
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


_ANNOUNCES = re.compile(
    r"\b(?:will|shall|going to|'ll)\b[^.!?\n]{0,80}\b(?:append|add|include|put|end|close|attach)", re.I
)


def letters(text: str) -> str:
    """Return a text in lower case without punctuation and repeated white space."""
    return " ".join(re.sub(r"[^\w\s]", "", text.lower()).split())


LIKENESS = 0.75
"""A reply with a higher ROUGE-L F1 (with stems) counts as the sentence."""


_SENTENCE_END = re.compile(r"(?<=[.!?])[\"')\]]*\s+|\n+|(?<=[:;])\s+")


_DENIED = re.compile(r"\b(?:not|never|no longer|stop|cannot|unable to|refuse to)\b|n't\b", re.I)


_SAYING = re.compile(r"\b(?:say|saying|said|repeat|respond|reply|answer|tell|instruct\w*|asked|use|using)\b", re.I)


_REFUSES = re.compile(
    r"[^.!?\n]{0,20}[.!?]?[\"')]{0,2}(?:[^.!?\n]{0,40}\b(?:refuse|declin|object)"
    r"|\W*(?:but |however,? |yet |and )?i(?:'d| would)? (?:won't|will not|can't|cannot|rather not|don't want)\b)",
    re.I,
)
"""The text after a sentence that is mentioned but not said: "… but I refuse"."""


_MOST_REPLIES = 200


_MOST_SENTENCES = 300


_MOST_WORDS = 4_000


def _is_said(expected: str, reply: str) -> bool:
    """Return True if a reply says the sentence, in the same or similar words, and neither denies nor refuses it."""
    reply = plain_words(reply)
    in_order = r"\W+".join(map(re.escape, re.findall(r"\w+", plain_words(expected))[:100]))
    if match := re.search(rf"\b{in_order}\b", reply, re.I):
        # "I will not say 'Here is …'" has the words and does not say them.
        lead = re.split(r"[.!?\n]", reply[max(0, match.start() - 80) : match.start()])[-1]
        tail = reply[match.end() : match.end() + 120]
        return not (_SAYING.search(lead) and (_DENIED.search(lead) or _REFUSES.match(tail)))
    sentences = _SENTENCE_END.split(reply, _MOST_SENTENCES)
    return any(likeness(expected, sentence) > LIKENESS and not _DENIED.search(sentence) for sentence in sentences)


def likeness(sentence: str, text: str) -> float:
    """Return the ROUGE-L F1 of a text and the wanted sentence, on stems; 0 if the text is too long to compare."""
    tokens = rouge_tokens(text, stemmer=True)
    if len(tokens) > _MOST_WORDS:
        return 0.0
    return rouge_l(rouge_tokens(sentence, stemmer=True)[:_MOST_WORDS], tokens).f1_score
