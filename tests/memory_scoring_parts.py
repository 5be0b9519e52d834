"""Shared parts of the tests of memory scoring: recorded rows, and tests put together in a line."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from checks.goodai_rules import score_as_benchmark

from tunecheck_memory import FinishedTest, Score, UndecidedError, judge_by_words

ROUTE = """(One way of several)
From Bakery, go 4km East to Cinema.
From Cinema, go 3km West to Fish Market.
From Fish Market, go 3km South to Windmill.
From Windmill, go 2km East to Fountain of Lions.
From Fountain of Lions, go 1km North to Tram Stop."""
"""An expected route as definitions of the benchmark have it."""


def by_rule(file: Path) -> dict[str, list[dict[str, Any]]]:
    """The cases in the lines of a file, by the rule that each is about."""
    cases: dict[str, list[dict[str, Any]]] = {}
    for line in file.read_text("utf-8").splitlines():
        case = json.loads(line)
        cases.setdefault(case.pop("rule"), []).append(case)
    return cases


def recorded(shared_data: Path) -> Iterator[dict[str, Any]]:
    """The rows of the benchmark's recorded scores."""
    with (shared_data / "ltm" / "recorded_scores.jsonl").open(encoding="utf-8") as file:
        yield from map(json.loads, file)


def told(title: str, expected: list[Any], *responses: str, **more: Any) -> FinishedTest:
    """A finished test."""
    return FinishedTest(title, expected, list(responses), **more)


def judged(given: FinishedTest, *, compat: bool = False) -> Score | UndecidedError:
    """The score of a test by rules, or why it has none."""
    try:
        return (score_as_benchmark if compat else judge_by_words)(given)
    except UndecidedError as error:
        return error


def verdict_of(title: str, expected: list[Any], *responses: str, compat: bool = False, **more: Any) -> Any:
    """The rules' verdict on a test."""
    return judged(told(title, expected, *responses, **more), compat=compat)


def score(title: str, expected: list[Any], *responses: str, compat: bool = False, **more: Any) -> float:
    """Its score; the rules must have one."""
    found = verdict_of(title, expected, *responses, compat=compat, **more)
    assert isinstance(found, Score), found
    return found.score


def score_by_words(given: FinishedTest) -> Score | None:
    """The score by rules; None if they cannot decide."""
    score = judged(given)
    return score if isinstance(score, Score) else None
