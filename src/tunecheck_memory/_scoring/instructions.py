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


def score_prospective(given: Given, compat: bool) -> Score:
    """Whether the quote stands in the nth reply since the request, its own reply counted, and in none of the others.

    Words are compared in small letters, without punctuation. By default the reply to the request may repeat the quote
    where it says what it is going to do.
    """
    match given.expected:  # [[quote, author, number of the reply]]
        case [[str(saying), *_, int(turn)], *_] if (quote := _letters(saying)) and not isinstance(turn, bool):
            pass
        case _:
            raise NoExpectationError
    since = texts(given.since_question)
    if not since:
        raise UndecidedError("the replies since the question are not known")
    numbers = [number for number, reply in enumerate(since, 1) if quote in _letters(reply)]
    if not compat and turn > 1 and numbers[:1] == [1] and _ANNOUNCES.search(since[0]):
        numbers = numbers[1:]
    right = numbers == [turn]
    said = f"the quote is in reply {', '.join(map(str, numbers[:8]))}" if numbers else "the quote is in no reply"
    return Score(float(right), (said + ("" if right else f", not in reply {turn} alone"),))


_ANNOUNCES = re.compile(
    r"\b(?:will|shall|going to|'ll)\b[^.!?\n]{0,80}\b(?:append|add|include|put|end|close|attach)", re.I
)


def _letters(text: str) -> str:
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


def score_trigger(given: Given, compat: bool) -> Score:
    """The share of replies in which the agreed sentence stands.

    It stands there where its letters do, or where ROUGE-L F1 (Lin 2004, with stems) of the reply is above the
    threshold. The reference then asks a model for the closest sentence; by default each sentence is compared, and one
    that says that it is not going to be said does not count.
    """
    expected = expected_texts(given)
    if not expected or not all(rouge_tokens(each) for each in expected):
        raise NoExpectationError
    threshold = given.args.get("rouge_score_threshold") if isinstance(given.args, dict) else None
    if isinstance(threshold, bool) or not isinstance(threshold, (int, float)) or not 0 < threshold <= 1:
        threshold = THRESHOLD
    pairs = zip(expected[:_MOST_REPLIES], replies(given), strict=False)
    said = [_said(wanted, reply, threshold, compat) for wanted, reply in pairs]
    if compat and not all(said):
        raise UndecidedError("the reference asks a model for the closest sentence")
    reasons = tuple(f"reply {number}: {'said' if right else 'not said'}" for number, right in enumerate(said, 1))
    return Score(sum(said) / len(expected), reasons)


def _said(wanted: str, reply: str, threshold: float, compat: bool) -> bool:
    if compat:
        return wanted.lower() in reply.lower() or _likeness(wanted, reply) > threshold
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
