"""Tests of instructions: a quote in the Nth reply alone, a sentence that is said each time."""

import re

from tunecheck.evaluators._text.evaluators import rouge_l, rouge_tokens
from tunecheck_memory._model import Given, Score
from tunecheck_memory._scoring.base import (
    NoExpectationError,
    UndecidedError,
    expected_texts,
    plain_words,
    replies,
    texts,
)


def score_prospective(given: Given) -> Score:
    """Whether the quote stands in the nth reply since the request, its own reply counted, and in none of the others.

    Words are compared in small letters, without punctuation. The reply to the request may repeat the quote where it
    announces it.
    """
    quote, turn = expected_quote(given)
    since = texts(given.since_question)
    if not since:
        raise UndecidedError("the replies since the question are not known")
    numbers = [number for number, reply in enumerate(since, 1) if quote in letters(reply)]
    if turn > 1 and numbers[:1] == [1] and _ANNOUNCES.search(since[0]):
        numbers = numbers[1:]
    right = numbers == [turn]
    said = f"the quote is in reply {', '.join(map(str, numbers[:8]))}" if numbers else "the quote is in no reply"
    return Score(float(right), (said + ("" if right else f", not in reply {turn} alone"),))


def expected_quote(given: Given) -> tuple[str, int]:
    """The quote in small letters without punctuation, and the number of the reply that must have it."""
    match given.expected:  # [[quote, author, number of the reply]]
        case [[str(saying), *_, int(turn)], *_] if (quote := letters(saying)) and not isinstance(turn, bool):
            return quote, turn
        case _:
            raise NoExpectationError


_ANNOUNCES = re.compile(
    r"\b(?:will|shall|going to|'ll)\b[^.!?\n]{0,80}\b(?:append|add|include|put|end|close|attach)", re.I
)


def letters(text: str) -> str:
    return " ".join(re.sub(r"[^\w\s]", "", text.lower()).split())


THRESHOLD = 0.75
"""ROUGE-L F1, with stems, from which on a sentence is the agreed one; `rouge_score_threshold` in the configuration."""

_SENTENCE_END = re.compile(r"(?<=[.!?])[\"')\]]*\s+|\n+|(?<=[:;])\s+")
_DENIED = re.compile(r"\b(?:not|never|no longer|stop|cannot|unable to|refuse to)\b|n't\b", re.I)
_SAYING = re.compile(r"\b(?:say|saying|said|repeat|respond|reply|answer|tell|instruct\w*|asked|use|using)\b", re.I)
_REFUSES = re.compile(
    r"[^.!?\n]{0,20}[.!?]?[\"')]{0,2}(?:[^.!?\n]{0,40}\b(?:refuse|declin|object)"
    r"|\W*(?:but |however,? |yet |and )?i(?:'d| would)? (?:won't|will not|can't|cannot|rather not|don't want)\b)",
    re.I,
)
"""What follows a sentence that is told of, and not said: "… but I refuse"."""

_MOST_REPLIES = 200
_MOST_SENTENCES = 300
_MOST_WORDS = 4_000


def score_trigger(given: Given) -> Score:
    """The share of replies in which the agreed sentence stands.

    A reply has the sentence if it has its words in order, or if ROUGE-L F1 (Lin 2004, with stems) of one of its
    sentences is above the threshold. A reply that refuses to say the sentence does not count.
    """
    expected = expected_texts(given)
    if not expected or not all(rouge_tokens(each) for each in expected):
        raise NoExpectationError
    threshold = trigger_threshold(given)
    pairs = zip(expected[:_MOST_REPLIES], replies(given), strict=False)
    said = [_said(wanted, reply, threshold) for wanted, reply in pairs]
    reasons = tuple(f"reply {number}: {'said' if right else 'not said'}" for number, right in enumerate(said, 1))
    return Score(sum(said) / len(expected), reasons)


def trigger_threshold(given: Given) -> float:
    threshold = given.args.get("rouge_score_threshold")
    usable = isinstance(threshold, (int, float)) and not isinstance(threshold, bool) and 0 < threshold <= 1
    return float(threshold) if usable and isinstance(threshold, (int, float)) else THRESHOLD


def has_sentence(wanted: str, reply: str, threshold: float) -> bool:
    """True if the whole reply has the sentence's letters, or is as like it as the threshold says."""
    return wanted.lower() in reply.lower() or _likeness(wanted, reply) > threshold


def _said(wanted: str, reply: str, threshold: float) -> bool:
    reply = plain_words(reply)
    in_order = r"\W+".join(map(re.escape, re.findall(r"\w+", plain_words(wanted))[:100]))
    if match := re.search(rf"\b{in_order}\b", reply, re.I):
        # "I will not say 'Here is …'" has the words and does not say them.
        lead = re.split(r"[.!?\n]", reply[max(0, match.start() - 80) : match.start()])[-1]
        tail = reply[match.end() : match.end() + 120]
        return not (_SAYING.search(lead) and (_DENIED.search(lead) or _REFUSES.match(tail)))
    sentences = _SENTENCE_END.split(reply, _MOST_SENTENCES)
    return any(_likeness(wanted, sentence) > threshold and not _DENIED.search(sentence) for sentence in sentences)


def _likeness(wanted: str, text: str) -> float:
    tokens = rouge_tokens(text, stemmer=True)
    if len(tokens) > _MOST_WORDS:
        return 0.0
    return rouge_l(rouge_tokens(wanted, stemmer=True)[:_MOST_WORDS], tokens).f1_score
