"""Cohen's kappa, its standard error and Wilson's interval: hand-made tables, and those of statsmodels and sklearn."""

from __future__ import annotations

import json
import math
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from tunecheck.statistics._agreement import Agreement
from tunecheck.statistics._results import wilson

Reference = Callable[..., Any]

TABLES = st.integers(2, 5).flatmap(
    lambda size: st.lists(
        st.lists(st.integers(0, 40), min_size=size, max_size=size), min_size=size, max_size=size
    ).filter(lambda table: sum(map(sum, table)) > 0)
)


@pytest.fixture(scope="module")
def reference(reference_env: Callable[..., Path]) -> Iterator[Reference]:
    """statsmodels' and sklearn's figures for a table."""
    python = reference_env("agreement", "statsmodels==0.14.6", "scikit-learn==1.8.0")
    script = Path(__file__).with_name("agreement_reference.py")
    with subprocess.Popen([python, script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin
        assert process.stdout
        stdin, stdout = process.stdin, process.stdout

        def ask(table: list[list[int]], confidence: float = 0.95) -> Any:
            stdin.write(json.dumps({"table": table, "confidence": confidence}) + "\n")
            stdin.flush()
            return json.loads(stdout.readline())

        yield ask
        stdin.close()


def agreement_of(table: list[list[int]]) -> Agreement:
    return Agreement({(str(i), str(j)): count for i, row in enumerate(table) for j, count in enumerate(row)})


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(TABLES)
def test_kappa_and_its_error_are_those_of_statsmodels_and_sklearn(reference: Reference, table: list[list[int]]) -> None:
    # A class that neither rater gives is none; statsmodels' figures for tables that hold one are the same.
    expected = reference(table)
    found = agreement_of(table).kappa()
    if expected["kappa"] is None:
        assert found.value is None
        return
    assert found.value == pytest.approx(expected["kappa"], abs=1e-12)
    assert found.value == pytest.approx(expected["sklearn"], abs=1e-12)
    # Theirs is the root of a difference, in which rounding of 1e-16 becomes 1e-8 (or no number at all) near 0.
    assert found.standard_error == pytest.approx(expected["standard_error"] or 0.0, rel=1e-6, abs=1e-7)
    if found.low is not None:
        assert found.low == pytest.approx(max(-1.0, expected["low"]), abs=1e-6)
        assert found.high == pytest.approx(min(1.0, expected["high"]), abs=1e-6)


@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(TABLES, st.sampled_from([0.5, 0.9, 0.95, 0.999]))
def test_the_interval_of_accuracy_is_wilsons(reference: Reference, table: list[list[int]], confidence: float) -> None:
    expected = reference(table, confidence)
    found = agreement_of(table).accuracy(confidence)
    assert (found.low, found.high) == pytest.approx((expected["accuracy_low"], expected["accuracy_high"]), abs=1e-9)


def test_kappa_of_a_table_worked_out_by_hand() -> None:
    # 20 5 / 10 15: they agree on 35 of 50 = 0.7; by chance on 0.5 * 0.6 + 0.5 * 0.4 = 0.5; (0.7 - 0.5) / (1 - 0.5).
    agreement = agreement_of([[20, 5], [10, 15]])
    assert agreement.kappa().value == pytest.approx(0.4)
    assert agreement.accuracy().value == pytest.approx(0.7)
    # Precision and recall of the second class: 15 of the 20 called so, 15 of the 25 that are.
    assert (agreement.precision("1").value, agreement.recall("1").value) == (0.75, 0.6)


def test_kappa_and_its_error_from_the_paper_on_them() -> None:
    # Fleiss, Cohen and Everitt (1969): 200 patients, two judges; kappa 0.429, its variance 0.002885.
    table = [[106, 10, 4], [22, 28, 10], [2, 12, 6]]
    kappa = agreement_of(table).kappa()
    assert kappa.value == pytest.approx(0.429, abs=5e-4)
    assert kappa.standard_error is not None
    assert kappa.standard_error**2 == pytest.approx(0.002885, abs=5e-7)


def test_of_one_class_kappa_is_not_defined_and_says_so() -> None:
    kappa = Agreement({("pass", "pass"): 7}).kappa()
    assert (kappa.value, kappa.low, kappa.standard_error) == (None, None, None)
    assert kappa.remark == "not defined: both raters give every row 'pass'"


@pytest.mark.parametrize(
    ("pairs", "remark"),
    [
        ({("pass", "pass"): 7, ("pass", "fail"): 3}, "every label is 'pass'"),
        ({("pass", "pass"): 7, ("fail", "pass"): 3}, "every verdict is 'pass'"),
        ({("pass", "fail"): 10}, "every label is 'pass'"),
    ],
)
def test_where_one_side_has_one_class_kappa_is_0_and_says_why(pairs: dict[tuple[str, str], int], remark: str) -> None:
    kappa = Agreement(pairs).kappa()
    assert kappa.value == 0
    assert kappa.remark is not None
    assert remark in kappa.remark


@pytest.mark.parametrize(("pairs", "value"), [((0, 2), 1.0), ((1, 1), -1.0)])
def test_at_the_ends_of_its_scale_kappa_has_no_interval(pairs: tuple[int, int], value: float) -> None:
    apart, same = pairs[0], pairs[1] if pairs[0] == 0 else 0
    kappa = agreement_of([[same, apart], [apart, same]]).kappa()
    assert (kappa.value, kappa.standard_error, kappa.low, kappa.high) == (value, 0.0, None, None)
    assert "no interval" in str(kappa.remark)


def test_without_rows_nothing_is_defined() -> None:
    agreement = Agreement({})
    assert agreement.kappa().value is None
    assert agreement.accuracy().value is None
    assert agreement.precision("fail").low is None


def test_no_hit_and_no_miss_have_exact_ends() -> None:
    # With z² = 3.8415 and 10 rows: z² / (10 + z²) = 0.2775 on the other side.
    assert (wilson(0, 10).low, wilson(10, 10).high) == (0.0, 1.0)
    assert wilson(0, 10).high == pytest.approx(0.27753, abs=1e-5)
    assert wilson(10, 10).low == pytest.approx(1 - 0.27753, abs=1e-5)


@pytest.mark.parametrize("confidence", [0, 1, -1, math.nan])
def test_a_confidence_lies_between_0_and_1(confidence: float) -> None:
    with pytest.raises(ValueError, match="above 0 and below 1"):
        wilson(1, 2, confidence)


@given(TABLES)
def test_an_interval_holds_its_value_and_stays_on_the_scale(table: list[list[int]]) -> None:
    kappa, accuracy = agreement_of(table).kappa(), agreement_of(table).accuracy()
    assert accuracy.low is not None
    assert accuracy.high is not None
    assert accuracy.value is not None
    assert 0 <= accuracy.low <= accuracy.value <= accuracy.high <= 1
    if kappa.low is not None and kappa.high is not None and kappa.value is not None:
        assert -1 <= kappa.low <= kappa.value <= kappa.high <= 1
