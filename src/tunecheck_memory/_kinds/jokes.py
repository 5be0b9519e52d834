"""Jokes: the user tells several jokes hours apart, and asks for one by the time that has passed since.

A reply scores by the first rule that applies. A passage is two sentences in a row. It tells a joke if it has at least
80% of the joke's words in order.

1. No passage tells the joke: 0.
2. The words of choice are at the joke ("the one about 2 hours ago was") and at no other joke of the test: 1.
3. The reply tells no other joke of the test, and has no words for several ("two jokes", "one was …, another"): 1.
4. Otherwise the joke is one of several without a choice: 0, and not sure.
"""

import re
from collections.abc import Sequence

from msgspec.structs import replace

from tunecheck import ConfigurationError
from tunecheck.evaluators import rouge_l, rouge_tokens
from tunecheck_memory import FinishedTest, GenerationContext, Kind, MemoryTest, Scene, Score, scripted_test
from tunecheck_memory._kind import default_waits
from tunecheck_memory._kinds.replies import expected_text, last_reply, plain_words, texts
from tunecheck_memory._kinds.scripts import read_words, whole
from tunecheck_memory._wording import fill

_WEEK = 7 * 24 * 60
"""The longest pause in minutes."""

_MINUTE_US = 60_000_000


class Jokes(Kind):
    """The user tells `jokes_told` jokes, waits `minutes_low` to `minutes_high` minutes after each, and asks for one.

    The question is worded at run time, when the time since the joke is known.
    """

    name = "jokes"
    title = "Jokes"
    judge_prompt = "memory_joke"

    def __init__(self, *, jokes_told: int = 3, minutes_low: int = 30, minutes_high: int = 240) -> None:
        """Raise ConfigurationError for numbers out of range."""
        self.jokes_told = whole("jokes_told", jokes_told, least=1, most=len(read_words("jokes")))
        self.minutes_low = whole("minutes_low", minutes_low, least=1, most=_WEEK)
        self.minutes_high = whole("minutes_high", minutes_high, least=1, most=_WEEK)
        if minutes_low > minutes_high:
            raise ConfigurationError(f"`minutes_low` ({minutes_low}) must be at most `minutes_high` ({minutes_high})")

    def temporal_question(self, definition: MemoryTest, statements_us: Sequence[int], scene: Scene) -> str:
        """Return the question for the joke that was told this many hours and minutes ago; days count as hours.

        Example: "Which joke did you hear from me about 2 hours 5 minutes ago?", by the shipped wording.
        """
        lines, jokes = definition.script, [*definition.expected[:1]]
        position = next((index for index, line in enumerate(lines) if line in jokes), 0)
        hours, minutes = divmod((scene.now_us() - statements_us[position]) // _MINUTE_US, 60)
        elapsed = (f"{hours} hours " if hours > 0 else "") + (f"{minutes} minutes " if hours or minutes else "")
        return fill(scene.wording.jokes.question, {"elapsed": elapsed})

    def definition(self, example: str, making: GenerationContext) -> MemoryTest:
        """Return a test with random jokes, random pauses between them, and a joke to ask for.

        Its question has no text yet.
        """
        random = making.random(self.title, example)
        jokes = random.sample(read_words("jokes"), self.jokes_told)
        expected = random.choice(jokes)
        test = scripted_test(self, example, jokes, [], [expected])

        *pauses, last = default_waits(self.jokes_told + 1)
        waits = [replace(each, seconds=60 * random.randint(self.minutes_low, self.minutes_high)) for each in pauses]
        return replace(test, is_question=(*test.is_question, True), waits=(*waits, last), is_temporal=True)

    def score(self, given: FinishedTest) -> Score | None:
        """Score 1 if the reply tells the right joke nearly verbatim, and chooses it if it also tells others.

        If it tells several jokes without such a choice, the score is 0 and not sure. Other jokes are those of the
        test's script.

        Raises:
            UndecidedError: the row has no reply, or its expected answer has another form.
        """
        reply, joke = plain_words(last_reply(given)), expected_text(given)
        others = [line for line in texts(given.script)[:_MOST_OTHERS] if line and not _tells(line, joke)]

        # For each passage that tells the joke, and for each that tells another one: whether the reply chooses it
        right, wrong = list[bool](), list[bool]()
        for passage in _passages(reply):
            if _tells(passage, joke):
                right.append(_CHOOSES.search(passage) is not None)
            elif any(_tells(passage, other) for other in others):
                wrong.append(_CHOOSES.search(passage) is not None)

        if not right:
            return Score(0.0, ("the reply does not tell the joke",))
        tells_several = bool(wrong) or _SEVERAL.search(reply) is not None
        if not tells_several or (any(right) and not any(wrong)):
            return Score(1.0, ("the reply tells the joke",))
        return Score(0.0, ("the reply tells several jokes without choosing the right one",), sure=False)


LIKENESS = 0.8
"""The least share of a joke's words, in order, in a passage that tells it."""


_SENTENCE_END = re.compile(r"(?<=[.!?:])\s+|\n+")


# "the one about", "it must have been", "2 hours and 5 minutes ago"
_CHOOSES = re.compile(
    r"\b(?:the (?:one|joke) (?:you|that|from|about)|must (?:be|have been)|most likely|probably|specifically|so it was"
    r"|the answer is|is the (?:one|joke)|was the (?:one|joke)|(?:hours?|minutes?)(?: and \d+ minutes?)? ago)\b",
    re.I,
)


_SEVERAL = re.compile(
    r"\b(?:several|multiple|various|different|many|(?:a )?(?:series|few|couple|number) of|two|three|four|five|six"
    r"|[2-9])\b[^.!?\n]{0,40}\bjokes\b|\bone (?:was|is|involv\w+|about|mention\w+)\b[^\n]{0,300}\banother\b",
    re.I,
)
"""Signs that a reply tells several jokes: "you told me two different jokes", "one was about …, another"."""


# The most passages of a reply, and the most other jokes of a test. Each passage is compared with each joke.
_MOST_PASSAGES = 200


_MOST_OTHERS = 20


def _passages(reply: str) -> list[str]:
    """Return each pair of consecutive sentences, because a joke often is a question and its answer."""
    sentences = _SENTENCE_END.split(reply, _MOST_PASSAGES)
    return [f"{first} {second}" for first, second in zip(sentences, [*sentences[1:], ""], strict=True)]


def _tells(text: str, joke: str) -> bool:
    """Return True if a text has at least 80% of the joke's words in order."""
    joke_words, words = rouge_tokens(joke)[:400], rouge_tokens(text)[:2_000]
    return bool(joke_words and words) and rouge_l(joke_words, words).recall >= LIKENESS
