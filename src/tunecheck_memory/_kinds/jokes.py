"""Jokes: several are told hours apart, and one is asked for by how long ago it was."""

from collections.abc import Sequence
from dataclasses import replace

from tunecheck._errors import ConfigurationError
from tunecheck_memory._data import read_words
from tunecheck_memory._definitions import default_waits
from tunecheck_memory._kind import Kind, Making, Scene
from tunecheck_memory._kinds.scripts import scripted_test, text, whole
from tunecheck_memory._model import Definition
from tunecheck_memory._wording import fill

_WEEK = 7 * 24 * 60
_MINUTE_US = 60_000_000


class Jokes(Kind):
    """`jokes_told` jokes, each followed by `minutes_low` to `minutes_high` minutes; `joke_prefix` stands before each.

    The question is worded when it is asked: only then is it known how long ago the joke was told.
    """

    name = "jokes"
    title = "Jokes"

    def __init__(
        self, *, jokes_told: int = 3, minutes_low: int = 30, minutes_high: int = 240, joke_prefix: str = ""
    ) -> None:
        self.jokes_told = whole("jokes_told", jokes_told, least=1, most=len(read_words("jokes")))
        self.minutes_low = whole("minutes_low", minutes_low, least=1, most=_WEEK)
        self.minutes_high = whole("minutes_high", minutes_high, least=1, most=_WEEK)
        if minutes_low > minutes_high:
            raise ConfigurationError(f"minutes_low ({minutes_low}) must not exceed minutes_high ({minutes_high})")
        self.joke_prefix = text("joke_prefix", joke_prefix, longest=500)
        self.arguments = {
            "jokes_told": jokes_told,
            "minutes_low": minutes_low,
            "minutes_high": minutes_high,
            "joke_prefix": joke_prefix,
        }

    def temporal_question(self, definition: Definition, statements_us: Sequence[int], scene: Scene) -> str:
        """Ask for the joke by the hours and minutes since it was said, days counted as hours."""
        wanted, lines = str(definition.expected[0]) if definition.expected else "", definition.script
        if wanted in lines:
            told = lines.index(wanted)
        else:  # with a prefix before it
            told = next((at for at, line in enumerate(lines) if line.endswith(wanted)), 0)
        hours, minutes = divmod((scene.now_us() - statements_us[told]) // _MINUTE_US, 60)
        elapsed = (f"{hours} hours " if hours > 0 else "") + (f"{minutes} minutes " if hours or minutes else "")
        return fill(scene.wording.jokes.question, {"elapsed": elapsed})

    def definition(self, example: str, making: Making) -> Definition:
        random = making.random(self.title, example)
        told = random.sample(read_words("jokes"), self.jokes_told)
        asked = random.choice(told)
        made = scripted_test(self, example, [f"{self.joke_prefix}{joke}" for joke in told], [], [asked])
        *pauses, last = default_waits(self.jokes_told + 1)
        waits = [replace(each, seconds=60 * random.randint(self.minutes_low, self.minutes_high)) for each in pauses]
        return replace(made, is_question=(*made.is_question, True), waits=(*waits, last), is_temporal=True)
