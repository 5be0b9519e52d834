"""Replies of sixty thousand characters that repeat a few pieces are judged in the time that their length takes."""

from __future__ import annotations

import pytest
from tests.memory.test_memory_scoring_hostile import TITLES, judge_both_ways, repetitions


@pytest.mark.timeout(200)
@pytest.mark.parametrize("title", TITLES[:-2])
def test_very_long_repetitions_do_not_hang(title: str) -> None:
    for text in repetitions(60_000):
        judge_both_ways(title, text)
