"""Tests of instructions: a quote in the Nth reply alone, a sentence that is said each time."""

from __future__ import annotations

import re

from tunecheck._json import JSON
from tunecheck.evaluators._text.overlap import rouge_l, rouge_tokens
from tunecheck.memory._model import Given, Score
from tunecheck.memory._scoring.base import Undecided, Verdict, expected_texts, plain_words, texts
from tunecheck.memory._scoring.single import NO_EXPECTATION, NO_REPLY


def score_prospective(given: Given, compat: bool) -> Verdict:
    """Whether the quote stands in the nth reply since the request, its own reply counted, and in none of the others.

    Words are compared in small letters, without punctuation.
    """
    wanted = _expected(given.expected)
    if wanted is None:
        return NO_EXPECTATION
    replies = texts(given.since_question)
    if not replies:
        return Undecided("the replies since the question are not known")
    quote, turn = wanted
    numbers = [number for number, reply in enumerate(replies, 1) if quote in _letters(reply)]
    right = numbers == [turn]
    said = f"the quote is in reply {', '.join(map(str, numbers[:8]))}" if numbers else "the quote is in no reply"
    return Score(float(right), (said + ("" if right else f", not in reply {turn} alone"),))


def _expected(expected: object) -> tuple[str, int] | None:
    """The quote, and in which reply: of `[[quote, author, n]]`."""
    if not isinstance(expected, (list, tuple)) or not expected:
        return None
    first: JSON = expected[0]
    if not isinstance(first, (list, tuple)) or len(first) < 2:
        return None
    quote, turn = first[0], first[-1]
    if not isinstance(quote, str) or not _letters(quote) or isinstance(turn, bool) or not isinstance(turn, int):
        return None
    return _letters(quote), turn


def _letters(text: str) -> str:
    return " ".join(re.sub(r"[^\w\s]", "", text.lower()).split())


THRESHOLD = 0.75
"""ROUGE-L F1, with stems, from which on a sentence is the agreed one; `rouge_score_threshold` in the configuration."""

_SENTENCE_END = re.compile(r"(?<=[.!?])[\"')\]]*\s+|\n+|(?<=[:;])\s+")
_DENIED = re.compile(r"\b(?:not|never|no longer|stop|cannot|unable to|refuse to)\b|n't\b", re.I)
_SAYING = re.compile(r"\b(?:say|saying|said|repeat|respond|reply|answer|tell|instruct\w*|asked|use|using)\b", re.I)
_MOST_REPLIES = 200
_MOST_SENTENCES = 300
_MOST_WORDS = 4_000


def score_trigger(given: Given, compat: bool) -> Verdict:
    """The share of replies in which the agreed sentence stands.

    It stands there where its letters do, or where ROUGE-L F1 (Lin 2004, with stems) of the reply is above the
    threshold. The reference then asks a model for the closest sentence; by default each sentence is compared, and one
    that says that it is not going to be said does not count.
    """
    replies, expected = texts(given.responses), expected_texts(given)
    if not expected or not all(rouge_tokens(each) for each in expected):
        return NO_EXPECTATION
    if not replies:
        return NO_REPLY
    threshold = _threshold(given)
    said = [
        _said(wanted, reply, threshold, compat)
        for wanted, reply in zip(expected[:_MOST_REPLIES], replies, strict=False)
    ]
    if compat and not all(said):
        return Undecided("the reference asks a model for the closest sentence")
    reasons = tuple(f"reply {number}: {'said' if right else 'not said'}" for number, right in enumerate(said, 1))
    return Score(sum(said) / len(expected), reasons)


def _threshold(given: Given) -> float:
    threshold = given.args.get("rouge_score_threshold") if isinstance(given.args, dict) else None
    is_share = isinstance(threshold, (int, float)) and not isinstance(threshold, bool) and 0 < threshold <= 1
    return float(threshold) if is_share and isinstance(threshold, (int, float)) else THRESHOLD


def _said(wanted: str, reply: str, threshold: float, compat: bool) -> bool:
    if compat:
        return wanted.lower() in reply.lower() or _likeness(wanted, reply) > threshold
    reply = plain_words(reply)
    where = _position(wanted, reply)
    if where is not None:
        return not _is_denied(reply[max(0, where - 80) : where])
    sentences = _SENTENCE_END.split(reply, _MOST_SENTENCES)
    return any(_likeness(wanted, sentence) > threshold and not _DENIED.search(sentence) for sentence in sentences)


def _position(wanted: str, reply: str) -> int | None:
    """Where the sentence's words stand one after another, whatever stands between them."""
    words = r"\W+".join(map(re.escape, re.findall(r"\w+", plain_words(wanted))[:100]))
    match = re.search(rf"\b{words}\b", reply, re.I)
    return match.start() if match else None


def _is_denied(before: str) -> bool:
    """Whether the words before the sentence say that it is not going to be said: "I will not say 'Here is …'"."""
    sentence = re.split(r"[.!?\n]", before)[-1]
    return bool(_DENIED.search(sentence) and _SAYING.search(sentence))


def _likeness(wanted: str, text: str) -> float:
    tokens = rouge_tokens(text, stemmer=True)
    if len(tokens) > _MOST_WORDS:
        return 0.0
    return rouge_l(rouge_tokens(wanted, stemmer=True)[:_MOST_WORDS], tokens).f1_score
