"""A kind of memory test that a YAML file declares: lines to say, questions, and what is expected. No code.

The score is the share of questions answered. `words`: the expected words stand in the reply, as words of their own, in
any case. `exact`: the reply is the expected text but for case, quotes and a full stop. Where no line has a wait, all of
them are spread evenly over the memory span. docs/memory-kinds.md has an example.
"""

import re
from pathlib import Path
from typing import Annotated, Literal, TypeAlias

from msgspec import Meta, field

from tunecheck import _yaml as yamltext
from tunecheck._describe import Written, read_as
from tunecheck._errors import ConfigurationError
from tunecheck._messages import did_you_mean
from tunecheck_memory._kind import Kind, Making
from tunecheck_memory._kinds.scripts import scripted_test
from tunecheck_memory._model import Definition, Given, Score, Wait
from tunecheck_memory._wording import fill

_BLANK = re.compile(r"\{(\w+)\}")

_Text: TypeAlias = Annotated[str, Meta(pattern=r"\S")] | int | float
"""What may stand where a text is meant: YAML reads `3` as a number."""

_Amount: TypeAlias = Annotated[float, Meta(ge=0, le=1_000_000_000)]


class _Wait(Written, frozen=True):
    tokens: _Amount = 0
    seconds: _Amount = 0
    minutes: _Amount = 0
    hours: _Amount = 0
    percentage: _Amount = 0

    def wait(self) -> Wait:
        seconds = self.seconds + 60 * self.minutes + 3600 * self.hours
        return Wait(int(self.tokens), int(seconds), float(self.percentage))


class _Line(Written, frozen=True):
    say: _Text
    wait: _Wait | None = None


class _Question(Written, frozen=True):
    ask: _Text
    expected: _Text


class _Declaration(Written, frozen=True):
    script: Annotated[list[_Text | _Line], Meta(min_length=1)]
    questions: Annotated[list[_Question], Meta(min_length=1)]
    title: _Text = ""
    topics: list[_Text] = field(default_factory=list)
    values: dict[str, Annotated[list[_Text], Meta(min_length=1)]] = field(default_factory=dict)
    cases: list[dict[str, _Text]] = field(default_factory=list)
    score: Literal["words", "exact", "judge"] = "words"

    def lines(self) -> list[tuple[str, Wait]]:
        """What is said, each with the wait after it."""
        lines = [line if isinstance(line, _Line) else _Line(line) for line in self.script]
        return [(str(line.say), line.wait.wait() if line.wait else Wait()) for line in lines]


def declared_kind(path: Path) -> type[Kind]:
    """The kind that the file declares, as a class like any other."""
    document = yamltext.read(path)
    declared = read_as(document.value, _Declaration, document.where)
    if any(case.keys() != declared.cases[0].keys() for case in declared.cases):
        raise ConfigurationError(f"{document.where('cases')}: all cases must have the same names")
    _check_blanks(declared, document)
    topics = frozenset(map(str, declared.topics))
    members = {
        "name": path.name,
        "title": str(declared.title or path.stem),
        "topics": topics,
        "judged": declared.score == "judge",
        "declared": declared,
    }
    return type("DeclaredKind", (_Declared,), members)


def _check_blanks(declared: _Declaration, document: yamltext.Document) -> None:
    known = {*declared.values, *(declared.cases[0] if declared.cases else ())}
    asked = [str(text) for question in declared.questions for text in (question.ask, question.expected)]
    for text in (*(say for say, _ in declared.lines()), *asked):
        for blank in _BLANK.findall(text):
            if blank not in known:
                raise ConfigurationError(f"{document.where()}: {{{blank}}} has no values{did_you_mean(blank, known)}")


class _Declared(Kind):
    declared: _Declaration

    def score(self, given: Given) -> Score | None:
        if self.declared.score == "judge" or not given.expected:
            return None
        answers_it = _holds if self.declared.score == "words" else _is
        expected = [str(each) for each in given.expected]
        answers = [*given.responses, *[""] * len(expected)]
        answered = [answers_it(answer, each) for answer, each in zip(answers, expected, strict=False)]
        outcomes = zip(expected, answered, strict=True)
        reasons = tuple(f"{each[:80]!r} is {'' if right else 'not '}the answer" for each, right in outcomes)
        return Score(sum(answered) / len(answered), reasons)

    def definition(self, example: str, making: Making) -> Definition:
        declared = self.declared
        random = making.random(self.title, example)
        values = {key: str(random.choice(words)) for key, words in declared.values.items()}
        if declared.cases:
            values |= {key: str(value) for key, value in declared.cases[int(example) % len(declared.cases)].items()}
        lines, questions = declared.lines(), declared.questions
        waits = [*(wait for _, wait in lines), *[Wait()] * len(questions)]
        return scripted_test(
            self,
            example,
            [fill(say, values) for say, _ in lines],
            [fill(str(question.ask), values) for question in questions],
            [fill(str(question.expected), values) for question in questions],
            waits=None if all(wait.is_none for wait in waits) else waits,
        )


def _holds(reply: str, expected: str) -> bool:
    words = r"\s+".join(map(re.escape, expected.split()))
    return re.search(rf"(?<!\w){words}(?!\w)", reply, re.IGNORECASE) is not None


def _is(reply: str, expected: str) -> bool:
    return reply.strip(" \n\t.\"'“”").casefold() == expected.strip(" \n\t.\"'“”").casefold()
