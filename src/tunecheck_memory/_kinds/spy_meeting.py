"""Spy meeting: three coded messages, and the question when and where to meet and what to bring."""

from tunecheck_memory._data import read_words, spy_codes
from tunecheck_memory._kind import Kind, Making
from tunecheck_memory._kinds.scripts import scripted_test
from tunecheck_memory._model import Definition

_OPENING = "Three people are going to send you a message in veiled words: {names}. Keep them, they belong together."
_MESSAGE = "Message from {name}: {message}"
_QUESTION = (
    "Going by the three veiled messages: when and where is the meeting, and what has to be brought along? Say plainly "
    "what is meant."
)


class SpyMeeting(Kind):
    """A time, a place and a thing, each told in veiled words by somebody else, in any order."""

    name = "spy_meeting"
    title = "Spy Meeting"

    def definition(self, example: str, making: Making) -> Definition:
        random = making.random(self.title, example)
        codes = [random.choice(known) for known in spy_codes().values()]
        random.shuffle(codes)
        first, last = random.sample(read_words("first_names"), 3), random.sample(read_words("last_names"), 3)
        names = [f"{one} {other}" for one, other in zip(first, last, strict=True)]
        opening = _OPENING.format(names="{}, {} and {}".format(*names))
        senders = random.sample(names, 3)
        messages = [_MESSAGE.format(name=name, message=code.message) for name, code in zip(senders, codes, strict=True)]
        return scripted_test(self, example, [opening, *messages], [_QUESTION], [list(code.words) for code in codes])
