"""A kind of memory test that a YAML file declares: lines to say, questions, and what is expected. No code.

    title: Parking                  # the folder of its definitions; by default the file's name
    topics: [car]                   # optional: never at work beside others that share one
    values:                         # optional: drawn anew for each test, and put into {braces}
      level: [first, second, third]
      colour: [red, blue]
    cases:                          # optional: test 0 takes the first case's values, test 1 the second's, …
      - {street: Mill Lane}
    script:                         # what is said, in order: a text, or a text with a wait after it
      - My {colour} car is parked on the {level} level in {street}.
      - say: I am going to a long meeting now.
        wait: {tokens: 500, minutes: 90, percentage: 50}
    questions:
      - ask: On which level is my car?
        expected: "{level}"
    score: words                    # words (the default), exact, or judge

Where no line has a wait, all of them are spread evenly over the memory span. `words`: the expected words stand in the
reply, as words of their own, in any case. `exact`: the reply is the expected text but for case, quotes and a full stop.
`judge`: only a judge can tell. The score is the share of questions answered.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from tunecheck import _yaml as yamltext
from tunecheck._errors import ConfigurationError
from tunecheck._json import JSON
from tunecheck._messages import did_you_mean
from tunecheck.memory._kind import Kind, Making
from tunecheck.memory._kinds.scripts import scripted_test
from tunecheck.memory._model import Definition, Given, Score, Wait
from tunecheck.memory._wording import fill

SCORES = ("words", "exact", "judge")

_KEYS = ("title", "topics", "values", "cases", "script", "questions", "score")
_WAIT_KEYS = {"tokens": 1, "seconds": 1, "minutes": 60, "hours": 3600, "percentage": 1}
_MOST_WAITED = 1_000_000_000
_BLANK = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True)
class _Declaration:
    """What a file declares."""

    name: str
    title: str
    topics: frozenset[str]
    values: Mapping[str, Sequence[str]]
    cases: Sequence[Mapping[str, str]]
    script: Sequence[str]
    waits: Sequence[Wait]
    questions: Sequence[tuple[str, str]]
    score: str


def declared_kind(path: Path) -> type[Kind]:
    """The kind that the file declares, as a class like any other.

    Raises:
        ConfigurationError: it cannot be read, or declares no kind; names file and line.
    """
    declared = _Reader(yamltext.read(path), path).declaration()
    members = {"name": declared.name, "title": declared.title, "topics": declared.topics, "declared": declared}
    return type("DeclaredKind", (_Declared,), members)


class _Declared(Kind):
    """Base of the classes that are made of declarations."""

    declared: _Declaration

    def __init__(self) -> None:
        self.arguments: Mapping[str, JSON] = {}

    def definitions(self, count: int, making: Making) -> list[Definition]:
        """See Kind."""
        return [self._definition(number, making) for number in range(count)]

    def score(self, given: Given, *, compat: bool = False) -> Score | None:
        """See Kind."""
        if self.declared.score == "judge" or not given.expected:
            return None
        right = _holds if self.declared.score == "words" else _is
        answers = [*given.responses, *[""] * len(given.expected)]
        found = [right(answer, str(expected)) for answer, expected in zip(answers, given.expected, strict=False)]
        reasons = (
            f"{str(expected)[:80]!r} is {'' if each else 'not '}the answer"
            for each, expected in zip(found, given.expected, strict=True)
        )
        return Score(sum(found) / len(found), tuple(reasons))

    def _definition(self, number: int, making: Making) -> Definition:
        declared = self.declared
        random = making.random(self.title, str(number))
        values = {key: random.choice(words) for key, words in declared.values.items()}
        if declared.cases:
            values |= declared.cases[number % len(declared.cases)]
        return scripted_test(
            self,
            str(number),
            [fill(line, values) for line in declared.script],
            [fill(question, values) for question, _ in declared.questions],
            [fill(expected, values) for _, expected in declared.questions],
            waits=[*declared.waits, *[Wait()] * len(declared.questions)] if declared.waits else None,
        )


def _holds(reply: str, expected: str) -> bool:
    words = r"\s+".join(map(re.escape, expected.split()))
    return re.search(rf"(?<!\w){words}(?!\w)", reply, re.IGNORECASE) is not None


def _is(reply: str, expected: str) -> bool:
    return reply.strip(" \n\t.\"'“”").casefold() == expected.strip(" \n\t.\"'“”").casefold()


class _Reader:
    """Reads one file, with errors that name its lines."""

    def __init__(self, document: yamltext.Document, path: Path) -> None:
        self._document = document
        self._path = path

    def declaration(self) -> _Declaration:
        content = self._mapping(self._document.value, (), _KEYS)
        values = self._values(content)
        cases = self._cases(content)
        script, waits = self._script(content)
        questions = self._questions(content)
        declared = _Declaration(
            name=self._path.name,
            title=self._text(content.get("title", self._path.stem), "title"),
            topics=frozenset(self._texts(content.get("topics", []), "topics")),
            values=values,
            cases=cases,
            script=script,
            waits=waits,
            questions=questions,
            score=self._score(content),
        )
        self._check_blanks(declared)
        return declared

    def _values(self, content: Mapping[str, JSON]) -> dict[str, list[str]]:
        values = content.get("values", {})
        if not isinstance(values, dict):
            self._refuse(("values",), "values must be a mapping of names to lists of texts")
        found = {key: self._texts(value, "values", key) for key, value in values.items()}
        for key, words in found.items():
            if not words:
                self._refuse(("values", key), f"values.{key} is empty")
        return found

    def _cases(self, content: Mapping[str, JSON]) -> list[dict[str, str]]:
        cases = self._list(content.get("cases", []), "cases")
        found = []
        for place, case in enumerate(cases):
            if not isinstance(case, dict):
                self._refuse(("cases", place), "a case must be a mapping of names to texts")
            found.append({key: self._text(value, "cases", place, key) for key, value in case.items()})
        if found and any(case.keys() != found[0].keys() for case in found):
            self._refuse(("cases",), "all cases must have the same names")
        return found

    def _script(self, content: Mapping[str, JSON]) -> tuple[list[str], list[Wait]]:
        lines = self._list(content.get("script"), "script")
        script, waits = [], []
        for place, line in enumerate(lines):
            if isinstance(line, dict):
                self._mapping(line, ("script", place), ("say", "wait"))
                script.append(self._text(line.get("say"), "script", place, "say"))
                waits.append(self._wait(line.get("wait"), ("script", place, "wait")))
            else:
                script.append(self._text(line, "script", place))
                waits.append(Wait())
        if not script:
            self._refuse(("script",), "script must have a line at least")
        return script, [] if all(wait.is_none for wait in waits) else waits

    def _wait(self, value: JSON, path: tuple[str | int, ...]) -> Wait:
        if value is None:
            return Wait()
        wait = self._mapping(value, path, tuple(_WAIT_KEYS))
        amounts: dict[str, float] = {}
        for key, amount in wait.items():
            if isinstance(amount, bool) or not isinstance(amount, (int, float)) or not 0 <= amount <= _MOST_WAITED:
                self._refuse((*path, key), f"{key} must be a number that is not negative")
            amounts[key] = amount * _WAIT_KEYS[key]
        seconds = sum(amounts.get(key, 0) for key in ("seconds", "minutes", "hours"))
        return Wait(int(amounts.get("tokens", 0)), int(seconds), float(amounts.get("percentage", 0)))

    def _questions(self, content: Mapping[str, JSON]) -> list[tuple[str, str]]:
        found = []
        for place, value in enumerate(self._list(content.get("questions"), "questions")):
            question = self._mapping(value, ("questions", place), ("ask", "expected"))
            ask = self._text(question.get("ask"), "questions", place, "ask")
            found.append((ask, self._text(question.get("expected"), "questions", place, "expected")))
        if not found:
            self._refuse(("questions",), "questions must have one at least, with 'ask' and 'expected'")
        return found

    def _score(self, content: Mapping[str, JSON]) -> str:
        score = content.get("score", SCORES[0])
        if not isinstance(score, str) or score not in SCORES:
            hint = did_you_mean(score, SCORES) if isinstance(score, str) else ""
            self._refuse(("score",), f"score must be one of {', '.join(SCORES)}{hint}")
        return score

    def _check_blanks(self, declared: _Declaration) -> None:
        known = {*declared.values, *(declared.cases[0] if declared.cases else ())}
        pairs = [text for pair in declared.questions for text in pair]
        for text in (*declared.script, *pairs):
            for blank in _BLANK.findall(text):
                if blank not in known:
                    self._refuse((), f"{{{blank}}} has no values{did_you_mean(blank, known)}")

    def _mapping(self, value: JSON, path: tuple[str | int, ...], known: Sequence[str]) -> Mapping[str, JSON]:
        where = ".".join(map(str, path)) or "the file"
        if not isinstance(value, dict):
            self._refuse(path, f"{where} must be a mapping with {', '.join(known)}")
        for key in value:
            if key not in known:
                self._refuse((*path, key), f"{where} has no key {key!r}{did_you_mean(key, known)}")
        return value

    def _list(self, value: JSON, *path: str | int) -> list[JSON]:
        if not isinstance(value, list):
            self._refuse(path, f"{'.'.join(map(str, path))} must be a list")
        return value

    def _texts(self, value: JSON, *path: str | int) -> list[str]:
        return [self._text(each, *path, place) for place, each in enumerate(self._list(value, *path))]

    def _text(self, value: JSON, *path: str | int) -> str:
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return str(value)
        if not isinstance(value, str) or not value.strip():
            self._refuse(path, f"{'.'.join(map(str, path))} must be a text")
        return value

    def _refuse(self, path: Sequence[str | int], problem: str) -> NoReturn:
        raise ConfigurationError(f"{self._document.where(*path)}: {problem}")
