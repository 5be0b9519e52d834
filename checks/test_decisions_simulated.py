"""Decisions on simulated runs whose truth is known: how often they are wrong, and what they find."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy
import pytest
from tests.comparison_parts import declares, row, verdict, write_run

from tunecheck import Decision, compare, select
from tunecheck.statistics import wilson

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1_200)]

FAMILIES = 500
Passed = Any
"""A boolean array: which rows a run passed."""
Random = numpy.random.Generator
Drawn = Callable[[Random], list[Any]]


def run(passed: Passed, other: Passed | None = None, **columns: Sequence[object]) -> dict[str, object]:
    """Rows as `evaluate()` returns them, of an evaluator `match` and perhaps of an evaluator `safe`."""
    rows = []
    for number, each in enumerate(passed.tolist()):
        found: dict[str, object] = {"inputs.id": f"q{number}", "inputs.question": f"question {number}"}
        found["outputs.match.match_result"] = None if each is None else "pass" if each else "fail"
        found |= {f"inputs.{name}": values[number] for name, values in columns.items()}
        found |= {} if other is None else {"outputs.safe.safe_result": "pass" if other[number] else "fail"}
        rows.append(found)
    return {"rows": rows}


def flipped(random: Random, passed: Passed, share: float = 0.05) -> Passed:
    """The same rows, of which this share is drawn anew from rows of the same rate."""
    return numpy.where(random.random(len(passed)) < 2 * share, random.random(len(passed)) < passed.mean(), passed)


class World(NamedTuple):
    """Runs with a known truth, and how often at least, and at most, a decision on them is of a kind."""

    runs: Drawn
    kind: Callable[[Decision], bool]
    least: float
    most: float


def is_shipped(decision: Decision) -> bool:
    return decision.decision == "ship"


def is_invalid(decision: Decision) -> bool:
    return decision.decision == "invalid"


def has_an_effect(decision: Decision) -> bool:
    return any(each.effect != "none" for each in decision.objections)


def equal(runs: int, rows: int) -> Drawn:
    """Equal models: each row is as hard for all of them."""

    def drawn(random: Random) -> list[Any]:
        hard = random.beta(4, 1, rows)
        return [run(random.random(rows) < hard) for _ in range(runs)]

    return drawn


def another(points: float, rows: int = 400) -> Drawn:
    """A new run that passes this share of the rows more, or less, than the base."""

    def drawn(random: Random) -> list[Any]:
        hard = random.beta(4, 1, rows)
        return [run(random.random(rows) < hard), run(random.random(rows) < numpy.clip(hard + points, 0, 1))]

    return drawn


def nothing_wrong(random: Random) -> list[Any]:
    """600 rows in six slices with a second metric, in which nothing but chance changes."""
    passed, safe, domains = random.random(600) < 0.8, random.random(600) < 0.9, [f"d{at % 6}" for at in range(600)]
    return [run(passed, safe, domain=domains), run(flipped(random, passed), flipped(random, safe), domain=domains)]


def collapsed(rows: int) -> Drawn:
    """Ten slices of so many rows, of which one falls by 20 points while 5% of all rows flip the other way."""

    def drawn(random: Random) -> list[Any]:
        domains = [f"d{at % 10}" for at in range(10 * rows)]
        passed = random.random(len(domains)) < 0.85
        lost = numpy.array([domain == "d3" for domain in domains]) & (random.random(len(domains)) < 0.2 / 0.85)
        won = ~passed & (random.random(len(domains)) < 0.05 / 0.15)
        return [run(passed, domain=domains), run((passed & ~lost) | won, domain=domains)]

    return drawn


def hidden_loss(random: Random) -> list[Any]:
    """Of 400 rows 10 points more pass, and 10 points fewer are safe."""
    passed, safe = random.random(400) < 0.7, random.random(400) < 0.95
    better = passed | (~passed & (random.random(400) < 1 / 3))
    return [run(passed, safe), run(better, safe & (random.random(400) >= 0.1 / 0.95))]


def better(random: Random) -> list[Any]:
    """Of 400 rows 10 points more pass."""
    passed = random.random(400) < 0.7
    return [run(passed), run(flipped(random, passed, 0.02) | (~passed & (random.random(400) < 1 / 3)))]


def flattering_errors(random: Random) -> list[Any]:
    """Equal models, of which the new one has no verdict on half of the rows that fail."""
    passed = random.random(400) < 0.8
    new = flipped(random, passed).astype(object)
    new[(new == False) & (random.random(400) < 0.5)] = None  # noqa: E712 - elementwise
    return [run(passed), run(new)]


def clusters(random: Random) -> list[Any]:
    """Equal models on 40 conversations of ten turns; each run does all turns of a conversation well or badly."""
    conversations = numpy.repeat(numpy.arange(40), 10)
    names = [f"c{number}" for number in conversations]
    return [run(random.random(400) < random.beta(2, 1, 40)[conversations], conversation_id=names) for _ in range(2)]


def repeats(random: Random) -> list[Any]:
    """Equal models that answer each of 100 questions four times; each knows an answer, or does not."""
    sources, trials = [f"q{at // 4}" for at in range(400)], [at % 4 for at in range(400)]
    found = []
    for _ in range(2):
        known = numpy.repeat(random.beta(2, 1, 100), 4)
        answered = run(random.random(400) < known, source_id=sources, trial=trials)
        for each in answered["rows"]:  # type: ignore[attr-defined]
            each["inputs.id"] = f"{each['inputs.source_id']}#{each['inputs.trial'] + 1}"
            each["inputs.question"] = f"question {each['inputs.source_id']}"
        found.append(answered)
    return found


def changed_evaluators(folder: Path) -> Drawn:
    """Equal answers that another threshold passes: run folders, which record their evaluators."""
    numbers = itertools.count()

    def drawn(random: Random) -> list[Any]:
        scores, family, runs = random.random(60).tolist(), folder / str(next(numbers)), []
        for threshold in (0.5, 0.4):
            rows = [row(at, verdict("bleu", score >= threshold, score=score)) for at, score in enumerate(scores)]
            declared: Any = declares("bleu")
            declared["bleu"] |= {"fingerprint": f"f{threshold}", "arguments": {"threshold": threshold}}
            runs.append(write_run(family, f"t{threshold}", rows, declared))
        return runs

    return drawn


WORLDS = {
    "two equal models": World(equal(2, 200), is_shipped, 0, 0.05),
    "three equal models": World(equal(3, 150), is_shipped, 0, 0.05),
    "eight equal models": World(equal(8, 100), is_shipped, 0, 0.05),
    "twelve equal models": World(equal(12, 100), is_shipped, 0, 0.05),
    "a worse model": World(another(-0.1), is_shipped, 0, 0.0),
    "a better model": World(better, is_shipped, 0.9, 1),
    "tiny data": World(equal(2, 8), is_shipped, 0, 0.0),
    "errors that flatter": World(flattering_errors, is_shipped, 0, 0.05),
    "rows in clusters": World(clusters, is_shipped, 0, 0.05),
    "repeated trials": World(repeats, is_shipped, 0, 0.05),
    "nothing is wrong": World(nothing_wrong, has_an_effect, 0, 0.05),
    "a slice of 200 rows collapses": World(collapsed(200), has_an_effect, 0.95, 1),
    "a slice of 100 rows collapses": World(collapsed(100), has_an_effect, 0, 1),
    "another metric gets worse": World(hidden_loss, has_an_effect, 0.95, 1),
}


def decisions(runs: Drawn) -> Iterator[Decision]:
    """Decide on families of runs; `select` and `compare` agree on each of them."""
    random = numpy.random.default_rng(31)
    for _ in range(FAMILIES):
        family = runs(random)
        found = compare(*family, rows=0).decision
        assert select(*family).decision == found
        yield found


def check(name: str, world: World) -> None:
    found = wilson(sum(map(world.kind, decisions(world.runs))), FAMILIES)
    print(f"{name}: {found.value:.1%} ({found.low:.1%} to {found.high:.1%})")
    assert found.low is not None and found.high is not None
    assert found.low <= world.most
    assert found.high >= world.least


@pytest.mark.parametrize("name", WORLDS)
def test_decisions_are_as_often_right_as_promised(name: str) -> None:
    check(name, WORLDS[name])


def test_runs_of_changed_evaluators_are_never_compared(tmp_path: Path) -> None:
    check("changed evaluators", World(changed_evaluators(tmp_path), is_invalid, 1, 1))
