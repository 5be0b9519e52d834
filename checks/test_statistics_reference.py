"""The figures of comparisons are those of scipy and statsmodels."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import numpy
import pytest

from tunecheck.statistics._decisions import holm, smallest_difference
from tunecheck.statistics._distributions import mcnemar, t_quantile, tango
from tunecheck.statistics._estimates import estimate_mean, estimate_proportion
from tunecheck.statistics._paired import flip_counts, flip_scores, paired_binary, paired_scores
from tunecheck.statistics._results import Estimate

Question = tuple[str, dict[str, Any]]
Answered = Callable[[str], Iterator[tuple[dict[str, Any], Any]]]

RANDOM = numpy.random.Generator(numpy.random.PCG64(20_240_501))
CONFIDENCES = (0.5, 0.8, 0.9, 0.95, 0.99, 0.999)


def confidence() -> float:
    return float(RANDOM.choice(CONFIDENCES))


def grid(n: int, steps: int) -> list[float]:
    """Scores on a coarse grid: many ties, many zeros, sums without rounding."""
    return [float(value) / 8 for value in RANDOM.integers(-steps, steps + 1, size=n)]


def smooth(n: int) -> list[float]:
    return [float(value) for value in RANDOM.normal(0.2, 1, size=n)]


def t_questions() -> Iterator[Question]:
    for degrees in (1, 2, 3, 4, 7, 19, 59, 99, 199, 200, 201, 999, 4_999, 5_001, 49_999, 10**9):
        for probability in (1e-6, 0.005, 0.025, 0.1, 0.3, 0.45, 0.6, 0.8, 0.9, 0.975, 0.9995):
            yield "t_quantile", {"probability": probability, "degrees": degrees}


def binary_questions() -> Iterator[Question]:
    for b in range(8):
        for c in range(8):
            if b + c:
                yield "binary", {"b": b, "c": c}
    for _ in range(60):
        b, c = RANDOM.integers(0, [20, 400]).tolist()
        yield "binary", {"b": c, "c": b + c // 2}
    yield "binary", {"b": 9_800, "c": 10_100}
    for _ in range(60):
        n = int(RANDOM.integers(5, 400))
        b, c, _ = RANDOM.multinomial(n, [0.1, 0.15, 0.75]).tolist()
        yield "score_interval", {"b": b, "c": c, "n": n, "confidence": confidence()}


def score_questions() -> Iterator[Question]:
    for n in range(2, 13):
        yield "flips", {"values": smooth(n)}
        yield "flips", {"values": [1.0, *grid(n, 3)]}
    for n in (20, 50, 200, 1_000):
        for draw in (RANDOM.normal, RANDOM.exponential, RANDOM.random):
            yield "bca", {"values": draw(size=n).tolist(), "confidence": 0.95}
    for n in (2, 5, 5_001, 6_000):
        yield "student", {"values": smooth(n), "confidence": confidence()}


def group_questions() -> Iterator[Question]:
    for rows, groups in ((3, 2), (10, 3), (40, 8), (200, 60), (480, 60)):
        for _ in range(8):
            labels = [int(label) for label in RANDOM.integers(0, groups, size=rows)]
            labels[:2], labels[-1] = [0, 0], 1
            shared = RANDOM.normal(size=groups)
            values = [float(shared[label] + noise) for label, noise in zip(labels, smooth(rows), strict=True)]
            yield "clustered", {"values": values, "groups": labels, "confidence": confidence()}
            for worse in (-0.3, -99):
                verdicts = [float(value > 0.8) - float(value < worse) for value in values]
                yield "clustered", {"values": verdicts, "groups": labels, "confidence": 0.95}


def other_questions() -> Iterator[Question]:
    for _ in range(50):
        n = int(RANDOM.integers(1, 500))
        yield "wilson", {"hits": int(RANDOM.integers(0, n + 1)), "n": n, "confidence": confidence()}
    for count in range(1, 40):
        p_values = RANDOM.random(count) ** 4
        yield "holm", {"p_values": [float(value) for value in numpy.round(p_values, 2)]}
    for n in (10, 20, 50, 200, 2_000):
        for power in (0.8, 0.9):
            yield "effect", {"n": n, "power": power, "alpha": 0.05}


@pytest.fixture(scope="module")
def answered(reference_env: Callable[..., Path]) -> Answered:
    """Every question of a kind with the reference's answer; all are asked at once."""
    python = reference_env("statistics", "scipy==1.17.1", "statsmodels==0.15.0")
    questions = list(chain(t_questions(), binary_questions(), score_questions(), group_questions(), other_questions()))
    script = Path(__file__).with_name("statistics_reference.py")
    done = subprocess.run([python, script], input=json.dumps(questions), stdout=subprocess.PIPE, text=True, check=True)
    pairs = list(zip(questions, json.loads(done.stdout), strict=True))

    def of(kind: str) -> Iterator[tuple[dict[str, Any], Any]]:
        found = [(question, answer) for (name, question), answer in pairs if name == kind]
        assert found
        yield from found

    return of


def limits(estimate: Estimate) -> tuple[float | None, float | None]:
    return estimate.low, estimate.high


def test_quantiles_of_student_are_scipys(answered: Answered) -> None:
    for question, (expected, back) in answered("t_quantile"):
        assert back == pytest.approx(question["probability"], rel=1e-9)
        assert t_quantile(**question) == pytest.approx(expected, rel=1e-9)


def test_mcnemars_exact_test_is_statsmodels_and_the_binomial_one_of_scipy(answered: Answered) -> None:
    for question, expected in answered("binary"):
        exact, mid = mcnemar(**question)
        assert exact == pytest.approx(expected["mcnemar"], rel=1e-9)
        assert exact == pytest.approx(expected["binomial"], rel=1e-9)
        assert mid == pytest.approx(expected["mid"], rel=1e-9)


def test_the_interval_of_a_difference_of_verdicts_is_the_score_interval(answered: Answered) -> None:
    for question, expected in answered("score_interval"):
        b, c, n = question["b"], question["c"], question["n"]
        base, new = [1] * b + [0] * (n - b), [0] * b + [1] * c + [0] * (n - b - c)
        found = paired_binary(base, new, confidence=question["confidence"]).difference
        # Its maximum of the likelihood is known to the root of the float's precision.
        assert limits(found) == pytest.approx(expected, abs=1e-5)
        assert tango(b, c, n, 0.0) == pytest.approx(((c - b) / n, (c - b) / n), abs=1e-12)


def test_counting_all_signs_is_scipys_permutation_test(answered: Answered) -> None:
    for question, expected in answered("flips"):
        values = numpy.array(question["values"])
        found = flip_scores(values, seed=0)
        assert found.how == "exact"
        assert found.exact == pytest.approx(expected, abs=1e-12)
        if (8 * values == (8 * values).round()).all():
            assert flip_counts(8 * values).exact == pytest.approx(expected, abs=1e-12)
            assert flip_counts(8 * values).mid == pytest.approx(found.mid, abs=1e-12)


def test_clustered_errors_and_intervals_are_statsmodels(answered: Answered) -> None:
    compared = 0
    for question, expected in answered("clustered"):
        values, groups, level = question["values"], question["groups"], question["confidence"]
        for found in (
            estimate_mean(values, groups, confidence=level),
            paired_scores([0.0] * len(values), values, groups, confidence=level).difference,
        ):
            assert (found.value, found.standard_error) == pytest.approx((expected["value"], expected["error"]))
            if found.method == f"clustered t({len(set(groups)) - 1})":
                assert limits(found) == pytest.approx((expected["low"], expected["high"]), rel=1e-9, abs=1e-12)
                compared += 1
    assert compared > 80


def test_clustered_errors_of_verdicts_are_statsmodels(answered: Answered) -> None:
    for question, expected in answered("clustered"):
        values, groups = question["values"], question["groups"]
        if set(values) <= {-1.0, 0.0, 1.0}:
            found = paired_binary([value < 0 for value in values], [value > 0 for value in values], groups)
            assert found.difference.value == pytest.approx(expected["value"])
            assert found.difference.standard_error == pytest.approx(expected["error"], abs=1e-15)
        if set(values) <= {0.0, 1.0}:
            assert estimate_proportion(values, groups).standard_error == pytest.approx(expected["error"], abs=1e-15)


def test_bootstrap_intervals_are_scipys_within_their_own_error(answered: Answered) -> None:
    for question, expected in answered("bca"):
        found = estimate_mean(question["values"])
        assert found.method == "BCa bootstrap"
        assert found.standard_error is not None
        # An end found with 10,000 samples is off by 0.03 standard errors or so, and its bias correction by as much.
        assert limits(found) == pytest.approx(expected, abs=0.2 * found.standard_error)


def test_intervals_of_very_few_and_of_many_rows_are_students(answered: Answered) -> None:
    for question, expected in answered("student"):
        found = estimate_mean(question["values"], confidence=question["confidence"])
        assert limits(found) == pytest.approx(expected, rel=1e-9)


def test_intervals_of_pass_rates_are_wilsons(answered: Answered) -> None:
    for question, expected in answered("wilson"):
        outcomes = [True] * question["hits"] + [False] * (question["n"] - question["hits"])
        assert limits(estimate_proportion(outcomes, confidence=question["confidence"])) == pytest.approx(
            expected, abs=1e-12
        )


def test_holms_correction_is_statsmodels(answered: Answered) -> None:
    for question, expected in answered("holm"):
        assert holm(question["p_values"]) == pytest.approx(expected, abs=1e-15)


def test_the_smallest_difference_of_scores_is_near_that_of_the_t_test(answered: Answered) -> None:
    # Theirs is exact for normal scores; the sum of two quantiles of Student's is within 2% of it from ten rows.
    for question, expected in answered("effect"):
        values = standardised(question["n"])
        found = smallest_difference(paired_scores([0.0] * len(values), values), power=question["power"])
        assert found.value == pytest.approx(expected, rel=0.02)


def standardised(n: int) -> list[float]:
    """Scores whose standard deviation is 1."""
    values = numpy.arange(n) - (n - 1) / 2
    return [float(value) for value in values / values.std(ddof=1)]
