"""Spy meeting: three coded messages, and the question for time, place and thing to bring.

Example: "We gather when every shadow is at its shortest." is understood if the reply has "noon" or "midday". A word
counts in any case and number ("Docks" is "dock") and as part of some compounds ("rowboat"), but not inside other words
("passport"), in another sense ("pick one"), or denied ("not at noon").

Score = (understood messages - 1 if the reply has a word of a message that was not sent) / all messages, at least 0.
One such word is forgiven if all messages are understood. The rules are sure in two cases only: all messages are
understood without such a word, or the reply declines and has no right word.
"""

import re
from collections.abc import Sequence

import msgspec

from tunecheck.plugins import JSON
from tunecheck_memory import FinishedTest, GenerationContext, Kind, MemoryTest, Score, scripted_test
from tunecheck_memory._kinds import replies
from tunecheck_memory._kinds.scripts import read_data, read_line, read_words


class SpyCode(msgspec.Struct, frozen=True):
    """A coded message, and words that show that it was understood; one of them suffices."""

    message: str
    words: tuple[str, ...]


SPY_CODES: dict[str, tuple[SpyCode, ...]] = read_data("spy_codes", dict[str, tuple[SpyCode, ...]])
"""The coded messages for the time, the place and the thing."""


def spy_words() -> list[tuple[str, ...]]:
    """Return the words of all messages. Words of messages that were not sent are wrong in a reply."""
    return [code.words for codes in SPY_CODES.values() for code in codes]


class SpyMeeting(Kind):
    """Three senders send coded messages for a time, a place and a thing; the user asks for their meaning."""

    name = "spy_meeting"
    title = "Spy Meeting"
    judged_in_parts = True

    def definition(self, example: str, making: GenerationContext) -> MemoryTest:
        """Return a test with a random coded message for the time, the place and the thing.

        The messages come in random order from random senders.
        """
        random = making.random(self.title, example)
        codes = [random.choice(known) for known in SPY_CODES.values()]
        random.shuffle(codes)
        first, last = random.sample(read_words("first_names"), 3), random.sample(read_words("last_names"), 3)

        names = [f"{first_name} {last_name}" for first_name, last_name in zip(first, last, strict=True)]

        opening = read_line("spies", names="{}, {} and {}".format(*names))
        told = [
            read_line("message of a spy", name=name, message=code.message)
            for name, code in zip(random.sample(names, 3), codes, strict=True)
        ]

        expected: list[JSON] = [list(code.words) for code in codes]
        return scripted_test(self, example, [opening, *told], [read_line("meaning of the messages")], expected)

    def score(self, given: FinishedTest) -> Score | None:
        """Score a third for each understood message. Words of messages that were not sent take away a third in all.

        One such word is forgiven if all messages are understood. The rules are sure only if all messages are understood
        without such a word, or if the reply declines and understands none.

        Raises:
            UndecidedError: the row has no reply, or its expected answer has another form.
        """
        reply, expected = replies.last_reply(given), expected_words(given)
        known = {word for words in expected for word in words}

        # The messages come from the list with most of the expected words: the GoodAI benchmark's or ours.
        lists: list[Sequence[tuple[str, ...]]] = [CODES, spy_words()]
        codes = max(lists, key=lambda codes: sum(not known.isdisjoint(words) for words in codes))

        others = [words for words in codes if known.isdisjoint(words)]
        said = _said_words(reply, {*known, *(word for words in others for word in words)})

        understood = [any(word in said for word in words) for words in expected]
        # The first word in the reply of each message that was not sent, if there is one
        wrong = [said_words[0] for words in others if (said_words := [word for word in words if word in said])]
        is_forgiven = all(understood) and len(wrong) == 1

        reasons = [
            f"{'/'.join(words)[:80]}: {'understood' if right else 'not in the reply'}"
            for words, right in zip(expected, understood, strict=True)
        ]
        if wrong:
            reasons.append(f"{wrong[0]!r} belongs to another message")

        # Several wrong words cost no more than one: a third in all.
        points = max(0, sum(understood) - (1 if wrong and not is_forgiven else 0))
        sure = (points == len(expected) and not wrong) or (replies.declines(reply) and not any(understood))
        return Score(points / len(expected), tuple(reasons), sure)


CODES: tuple[tuple[str, ...], ...] = read_data("spy_words", tuple[tuple[str, ...], ...])
"""Words that show that a message of the GoodAI benchmark was understood; words of messages not sent are wrong."""


_OTHER_SENSE = re.compile(
    r"\b(?:is|are) key\b|\bkey (?=\w+s\b|to\b)|\bpick(?:ed|s)? (?=(?:up|out|it|you|me|them|one)\b)", re.IGNORECASE
)
"""Words of messages in another sense: "context is key", "pick up"."""


# "fast vehicle" is understood by "vehicle" alone.
_MODIFIER = re.compile(r"(?:fast|quick|quiet|small|large|old)\s+")


# "lockpicking", "row boat", "speedboat"
_COMPOUND = r"(?P<compound>(?:lock|rail|row|speed|motor|foot|cargo|ship|sea|train)[- ]?)?"


def _said_words(reply: str, words: set[str]) -> set[str]:
    """Return the words that a reply has and does not deny, in any case and number, also as part of compounds."""
    text = _OTHER_SENSE.sub(" ", replies.plain_words(reply))
    stems: dict[str, set[str]] = {}
    for word in words:
        stems.setdefault(_MODIFIER.sub("", word.lower()).removesuffix("s"), set()).add(word)

    longest_first = "|".join(map(re.escape, sorted(stems, key=len, reverse=True)))
    forms = re.compile(rf"(?<!\w){_COMPOUND}(?P<stem>{longest_first})(?:e?s|(?P<doing>ing))?(?!\w)", re.IGNORECASE)

    named: set[str] = set()
    for match in forms.finditer(text):
        # "lockpicking" is a tool, but "picking" alone is a verb.
        if (match["compound"] or not match["doing"]) and not replies.is_denied(text, match.start(), match.end()):
            named |= stems.get(match["stem"].lower(), set())
    return named


def expected_words(given: FinishedTest) -> list[list[str]]:
    """Return for each message the words that show that it was understood.

    Raises:
        NoExpectationError: The test does not state them.
    """
    expected = replies.expected_as(list[list[str]], given)
    if not 0 < len(expected) <= len(CODES) or not all(words and all(map(str.strip, words)) for words in expected):
        raise replies.NoExpectationError
    return [words[:40] for words in expected]
