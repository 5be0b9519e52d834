"""Rates corrected for a judge's errors, and scores' agreement: ppi-python, scikit-learn and scipy; simulated."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy
import pytest
from checks.corrected_worlds import cells, coverage, draws, paired_runs
from hypothesis import HealthCheck, assume, given, settings, strategies as st

from tunecheck.statistics._agreement import correlation, weighted_kappa
from tunecheck.statistics._corrected import LabelCounts, corrected_difference, prediction_powered, rogan_gladen
from tunecheck.statistics._estimates import as_floats
from tunecheck.statistics._paired import paired_binary

Reference = Callable[..., Any]

COUNTS = st.tuples(*[st.integers(0, 60)] * 4)
SCORES = st.lists(st.tuples(st.integers(1, 5), st.integers(1, 5)), min_size=2, max_size=60)
PATIENT = settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture(scope="module")
def reference(reference_env: Callable[..., Path]) -> Iterator[Reference]:
    """Figures of ppi-python, scikit-learn and scipy."""
    python = reference_env("corrected", "ppi-python==0.2.3", "scikit-learn==1.8.0")
    script = Path(__file__).with_name("corrected_reference.py")
    with subprocess.Popen([python, script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin
        assert process.stdout
        stdin, stdout = process.stdin, process.stdout

        def ask(**question: Any) -> Any:
            stdin.write(json.dumps(question) + "\n")
            stdin.flush()
            return json.loads(stdout.readline())

        yield ask
        stdin.close()


@PATIENT
@given(COUNTS, st.integers(2, 400), st.floats(0, 1))
def test_the_rate_is_that_of_prediction_powered_inference(
    reference: Reference, counts: tuple[int, int, int, int], rows: int, share: float
) -> None:
    labelled, passed = LabelCounts(*counts), round(share * rows)
    assume(labelled.total > 1)
    assume(0 < labelled.pass_pass + labelled.fail_pass + passed < labelled.total + rows)  # else theirs is 0 / 0
    expected = reference(powered={"labels": [counts[:2], counts[2:]], "passed": passed, "rows": rows})
    found = prediction_powered(passed, rows, labelled)
    assert found.value == pytest.approx(min(1.0, max(0.0, expected["value"])), abs=1e-6)


@PATIENT
@given(SCORES)
def test_weighted_kappa_and_correlation_are_those_of_scikit_learn_and_scipy(
    reference: Reference, pairs: list[tuple[int, int]]
) -> None:
    first, second = ([pair[side] for pair in pairs] for side in (0, 1))
    expected = reference(scores={"first": first, "second": second})
    kappa = weighted_kappa(as_floats(first), as_floats(second))
    assert kappa.value == (None if expected["kappa"] is None else pytest.approx(expected["kappa"], abs=1e-9))
    if expected["correlation"] is not None:
        found = correlation(as_floats(first), as_floats(second))
        assert found.value == pytest.approx(expected["correlation"], abs=1e-9)
        if found.low is not None:
            assert (found.low, found.high) == pytest.approx((expected["low"], expected["high"]), abs=1e-9)


@PATIENT
@given(COUNTS, st.integers(10, 2_000), st.floats(0, 1), st.booleans())
def test_an_interval_holds_its_rate(counts: tuple[int, int, int, int], rows: int, share: float, shared: bool) -> None:
    labelled, passed = LabelCounts(*counts), round(share * rows)
    assume(labelled.total > 1 and (shared or labelled.problem is None))
    found = (prediction_powered if shared else rogan_gladen)(passed, rows, labelled)
    assert found.low is not None
    assert found.high is not None
    assert found.value is not None
    assert 0 <= found.low <= found.value <= found.high <= 1


def test_intervals_hold_the_truth_as_often_as_they_say() -> None:
    found = list(cells(500, seed=7))
    for at, shared in ((4, False), (6, True)):
        assert sum(93 <= cell[at] <= 97 for cell in found) >= 0.9 * len(found)
        for right, specific, labels, share, *_ in (cell for cell in found if not 92 <= cell[at] <= 98):
            # three standard errors of 500 draws: that one or two of 96 cells are farther off is chance, unless they
            # are so again
            again = draws(numpy.random.default_rng(8), 4_000, share, right, 1 - specific, labels)
            assert 93 <= 100 * coverage(*again, share, shared=shared)[0] <= 97, (right, specific, labels, share)


@pytest.mark.parametrize(("right", "specific"), [(0.7, 0.9), (0.9, 0.8), (0.95, 0.95)])
@pytest.mark.parametrize("labels", [60, 300])
def test_intervals_of_corrected_differences_hold_the_truth_as_often_as_they_say(
    right: float, specific: float, labels: int
) -> None:
    random = numpy.random.default_rng(11)
    for share, lost, won in ((0.5, 0.1, 0.1), (0.5, 0.05, 0.25), (0.8, 0.2, 0.3)):
        held = 0
        for _ in range(500):
            before, after, truth = paired_runs(random, share, lost, won, right, specific)
            counts, _ = draws(random, 1, share, right, 1 - specific, labels)
            labelled = LabelCounts(*counts[:, 0].astype(int).tolist())
            found = corrected_difference(paired_binary(before, after).difference, labelled)
            held += found.low is None or found.high is None or found.low <= truth <= found.high
        assert 0.92 <= held / 500 <= 0.99, (share, lost, won)
