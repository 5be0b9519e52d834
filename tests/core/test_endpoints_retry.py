"""How long is waited before another attempt."""

from __future__ import annotations

import random

from hypothesis import given, strategies as st
from tests.tables import cases

from tunecheck.endpoints._limits import Backoff, retry_after_s

NOW = 1_700_000_000.0


@given(st.integers(1, 10_000), st.integers())
def test_a_wait_lies_between_nothing_and_the_doubling_bound_or_the_cap(failures: int, seed: int) -> None:
    wait = Backoff().wait_s(failures, None, random.Random(seed))
    assert 0 <= wait <= min(30.0, 0.5 * 2 ** min(failures, 10))


def test_waits_spread_over_the_whole_range() -> None:
    rng = random.Random(1)
    waits = [Backoff().wait_s(3, None, rng) for _ in range(2000)]
    assert min(waits) < 0.1
    assert max(waits) > 3.9
    assert 1.9 < sum(waits) / len(waits) < 2.1  # half of 4 s: full jitter


@given(st.floats(0, 120), st.integers(1, 50), st.integers())
def test_no_less_is_waited_than_the_server_asks_for(asked: float, failures: int, seed: int) -> None:
    wait = Backoff().wait_s(failures, asked, random.Random(seed))
    assert asked <= wait <= asked + 15


@cases("endpoints")
def test_what_a_server_asks_for_is_read_in_all_its_forms(headers: dict[str, str], expected: float | None) -> None:
    assert retry_after_s(headers, NOW) == expected


@given(st.text(max_size=80))
def test_any_other_text_is_no_request_or_a_number_that_is_not_negative(text: str) -> None:
    for name in ("retry-after", "retry-after-ms", "x-ms-retry-after-ms"):
        wait = retry_after_s({name: text}, NOW)
        assert wait is None or wait >= 0
