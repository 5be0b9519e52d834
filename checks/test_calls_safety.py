"""A hundred thousand random and mutated texts are read: nothing raises."""

from __future__ import annotations

from tests.core.test_calls_safety import check, random_texts

from tunecheck.formats import read_calls, read_python_calls


def test_a_hundred_thousand_random_and_mutated_texts_raise_nothing() -> None:
    for text in random_texts(100_000):
        check(read_calls(text))


def test_nor_do_they_where_they_are_said_to_be_python_calls() -> None:
    for text in random_texts(10_000):
        check(read_python_calls(text))
