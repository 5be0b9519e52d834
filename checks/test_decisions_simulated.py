"""Decisions on simulated runs whose truth is known: how often they are wrong, and what they find."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy
import pytest

from tunecheck import Decision, compare, select
from tunecheck.statistics._proportions import wilson

pytestmark = pytest.mark.timeout(1_200)

FAMILIES = 200
Passed = Any
"""A boolean array: which rows a run passed."""


def run(passed: Passed, slices: Sequence[str] | None = None, other: Passed | None = None) -> dict[str, object]:
    """Rows as `evaluate()` returns them, of an evaluator `match` and perhaps of an evaluator `safe`."""
    rows = []
    for number, each in enumerate(passed.tolist()):
        row: dict[str, object] = {"inputs.id": f"q{number}", "inputs.question": f"question {number}"}
        row["outputs.match.match_result"] = None if each is None else "pass" if each else "fail"
        row |= {} if slices is None else {"inputs.domain": slices[number]}
        row |= {} if other is None else {"outputs.safe.safe_result": "pass" if other[number] else "fail"}
        rows.append(row)
    return {"rows": rows}


def flipped(random: numpy.random.Generator, passed: Passed, share: float = 0.05) -> Passed:
    """The same rows, of which this share is drawn anew from rows of the same rate."""
    return numpy.where(random.random(len(passed)) < 2 * share, random.random(len(passed)) < passed.mean(), passed)


class World(NamedTuple):
    """Runs with a known truth, and how often at least, and at most, a decision on them is of a kind."""

    runs: Callable[[numpy.random.Generator], list[dict[str, object]]]
    kind: Callable[[Decision], bool]
    least: float
    most: float


def is_shipped(decision: Decision) -> bool:
    return decision.decision == "ship"


def has_an_effect(decision: Decision) -> bool:
    return any(each.effect != "none" for each in decision.objections)


def equal(runs: int, rows: int) -> Callable[[numpy.random.Generator], list[dict[str, object]]]:
    """Equal models: each row is as hard for all of them."""

    def drawn(random: numpy.random.Generator) -> list[dict[str, object]]:
        hard = random.beta(4, 1, rows)
        return [run(random.random(rows) < hard) for _ in range(runs)]

    return drawn


def nothing_wrong(random: numpy.random.Generator) -> list[dict[str, object]]:
    """600 rows in six slices with a second metric, in which nothing but chance changes."""
    passed, safe, domains = random.random(600) < 0.8, random.random(600) < 0.9, [f"d{at % 6}" for at in range(600)]
    return [run(passed, domains, safe), run(flipped(random, passed), domains, flipped(random, safe))]


def collapsed(random: numpy.random.Generator) -> list[dict[str, object]]:
    """2,000 rows in ten slices of 200, of which one falls by 20 points while 5% of all rows flip the other way."""
    domains = [f"d{at % 10}" for at in range(2000)]
    passed = random.random(2000) < 0.85
    lost = numpy.array([domain == "d3" for domain in domains]) & (random.random(2000) < 0.2 / 0.85)
    won = ~passed & (random.random(2000) < 0.05 / 0.15)
    return [run(passed, domains), run((passed & ~lost) | won, domains)]


def better(random: numpy.random.Generator) -> list[dict[str, object]]:
    """Of 400 rows 10 points more pass."""
    passed = random.random(400) < 0.7
    return [run(passed), run(flipped(random, passed, 0.02) | (~passed & (random.random(400) < 1 / 3)))]


def flattering_errors(random: numpy.random.Generator) -> list[dict[str, object]]:
    """Equal models, of which the new one has no verdict on half of the rows that fail."""
    passed = random.random(400) < 0.8
    new = flipped(random, passed).astype(object)
    new[(new == False) & (random.random(400) < 0.5)] = None  # noqa: E712 - elementwise
    return [run(passed), run(new)]


def tiny(random: numpy.random.Generator) -> list[dict[str, object]]:
    """Eight rows of equal models."""
    return equal(2, 8)(random)


WORLDS = {
    "two equal models": World(equal(2, 200), is_shipped, 0, 0.05),
    "three equal models": World(equal(3, 150), is_shipped, 0, 0.05),
    "eight equal models": World(equal(8, 100), is_shipped, 0, 0.05),
    "tiny data": World(tiny, is_shipped, 0, 0.0),
    "errors that flatter": World(flattering_errors, is_shipped, 0, 0.05),
    "nothing is wrong": World(nothing_wrong, has_an_effect, 0, 0.05),
    "a slice collapses": World(collapsed, has_an_effect, 0.95, 1),
    "better by ten points": World(better, is_shipped, 0.9, 1),
}


def decisions(world: World) -> Iterator[Decision]:
    """Decide on families of runs; `select` and `compare` agree on each of them."""
    random = numpy.random.default_rng(31)
    for _ in range(FAMILIES):
        runs = world.runs(random)
        found = compare(*runs, rows=0).decision
        assert select(*runs).decision == found
        yield found


@pytest.mark.parametrize("name", WORLDS)
def test_decisions_are_as_often_right_as_promised(name: str) -> None:
    world = WORLDS[name]
    found = wilson(sum(map(world.kind, decisions(world))), FAMILIES)
    print(f"{name}: {found.value:.1%} ({found.low:.1%} to {found.high:.1%})")
    assert found.low is not None and found.high is not None
    assert found.low <= world.most
    assert found.high >= world.least
