"""Labels as people write them: pass or fail in many words, scores, classes, and what is none of these."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, strategies as st

from tunecheck import ConfigurationError
from tunecheck.evaluation._calibration.labels import as_class, as_number, as_pass_or_fail, is_empty, kind_of


def kind(*labels: Any, wanted: Any = None, classes: bool = False) -> str:
    return kind_of([(f"r{n}", label) for n, label in enumerate(labels)], wanted, classes=classes)


@pytest.mark.parametrize("label", ["pass", " Pass ", "PASSED", "true", "Yes", "1", "1.0", True, 1, 1.0])
def test_many_words_mean_pass(label: Any) -> None:
    assert as_pass_or_fail(label) == "pass"


@pytest.mark.parametrize("label", ["fail", "Failed", "FALSE", "no", "0", False, 0, 0.0])
def test_many_words_mean_fail(label: Any) -> None:
    assert as_pass_or_fail(label) == "fail"


@pytest.mark.parametrize("label", ["maybe", "", None, 2, 0.5, [], {}, "10"])
def test_nothing_else_means_either(label: Any) -> None:
    assert as_pass_or_fail(label) is None


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        (["pass", "fail"], "pass_fail"),
        ([True, "no", 1], "pass_fail"),
        ([1, 0, 1], "pass_fail"),
        ([1, 0, 0.5], "score"),
        (["1", "4", "3.5"], "score"),
    ],
)
def test_what_labels_are_is_seen_from_all_of_them(labels: list[Any], expected: str) -> None:
    assert kind(*labels) == expected


def test_words_of_any_kind_are_classes_where_verdicts_may_be() -> None:
    assert kind("good", "bad", classes=True) == "class"
    assert kind("yes", 0.5, classes=True) == "class"


@pytest.mark.parametrize(
    ("labels", "wanted", "complaint"),
    [
        (["pass", "maybe"], None, 'row r1: the label "maybe" is neither pass or fail .* nor a number'),
        (["yes", 0.5], None, "row r1: the label 0.5 is neither pass or fail"),
        (["pass", [1]], None, r"row r1: the label \[1\] is not a text, a number, or true or false"),
        (["pass", 3], "pass_fail", r"row r1: the label 3 is not pass or fail \(true or false"),
        ([1, "pass"], "score", 'row r1: the label "pass" is not a number'),
        (["x" * 99], None, 'row r0: the label "x{59}… is neither'),
    ],
)
def test_a_label_that_cannot_be_read_is_named(labels: list[Any], wanted: Any, complaint: str) -> None:
    with pytest.raises(ConfigurationError, match=complaint):
        kind(*labels, wanted=wanted)


def test_what_somebody_says_they_are_holds() -> None:
    assert kind(1, 0, wanted="score") == "score"
    assert kind("yes", "no", "unsure", wanted="class") == "class"


@pytest.mark.parametrize("label", ["nan", "inf", float("inf"), "1_000", True, None, "x", 10**400])
def test_only_finite_numbers_are_scores(label: Any) -> None:
    assert as_number(label) is None


@pytest.mark.parametrize(
    ("label", "name"), [(" A ", "a"), (4, "4"), (4.0, "4"), ("4.0", "4"), (True, "true"), ([], None)]
)
def test_classes_go_by_one_name_however_they_are_written(label: Any, name: str | None) -> None:
    assert as_class(label) == name


@pytest.mark.parametrize(("label", "empty"), [(None, True), (" ", True), ("", True), (0, False), (False, False)])
def test_an_empty_label_is_none(label: Any, empty: bool) -> None:
    assert is_empty(label) is empty


VALUES = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=8), st.lists(st.integers()))


@given(st.lists(VALUES, min_size=1, max_size=5), st.booleans())
def test_any_labels_have_a_kind_or_an_error_that_says_which_row(labels: list[Any], classes: bool) -> None:
    try:
        found = kind(*labels, classes=classes)
    except ConfigurationError as error:
        assert str(error).startswith("row r")
    else:
        read = {"pass_fail": as_pass_or_fail, "score": as_number, "class": as_class}[found]
        assert all(read(label) is not None for label in labels)
