"""Progress of a run, and the time that is left."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from tunecheck.plugins import Progress, ProgressBar, Throughput


class HandClock:
    """A clock that is set by hand, in seconds."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def paced(*moments: tuple[float, int]) -> Throughput:
    clock = HandClock()
    pace = Throughput(clock)
    for seconds, finished in moments:
        clock.now = 100.0 + seconds
        pace.note(finished)
    return pace


@pytest.mark.parametrize(
    ("moments", "rate"),
    [
        ([], None),
        ([(0, 5)], None),
        ([(0, 0), (2, 10)], 5),
        ([(0, 0), (1, 1000), (2, 1002), (22, 1042)], 2),  # of the last 20 seconds: rows taken over are forgotten
        ([(0, 0), (10, 20), (40, 20)], 0.5),  # nothing was finished lately: the whole time counts
    ],
)
def test_the_rate_is_rows_by_seconds(moments: list[tuple[float, int]], rate: float | None) -> None:
    assert paced(*moments).rate == rate


def test_the_time_left_is_what_is_left_by_the_rate() -> None:
    assert paced((0, 0), (10, 20)).left_s(120) == 50
    assert paced((0, 0), (10, 20)).left_s(None) is None
    assert paced((0, 0), (10, 0)).left_s(120) is None


def shown(*moments: tuple[float, Progress], label: str = "iteration-7", width: int = 80) -> str:
    clock = HandClock()
    stream = io.StringIO()
    terminal = Console(file=stream, force_terminal=True, width=width, color_system=None)
    bar = ProgressBar(label, console=terminal, clock=clock)
    for seconds, progress in moments:
        clock.now = 100.0 + seconds
        bar(progress)
    bar.close()
    return stream.getvalue()


def test_the_bar_says_how_far_how_fast_with_how_many_errors_and_how_long_still() -> None:
    text = shown((0, Progress(1500, 0, 0, 0, 0)), (10, Progress(1500, 120, 100, 3, 0)))
    for part in ("iteration-7", "100/1500", "10 rows/s", "3 errors", "2:20 left"):
        assert part in text


def test_a_slow_run_is_told_by_the_minute_and_a_long_one_by_the_hour() -> None:
    text = shown((0, Progress(1000, 0, 0, 0, 0)), (60, Progress(1000, 2, 2, 0, 0)))
    assert "2.0 rows/min" in text
    assert "8:19:00 left" in text
    assert "no errors" in text


def test_a_run_whose_rows_nobody_has_counted_has_a_bar_too() -> None:
    text = shown((0, Progress(None, 0, 0, 0, 0)), (1, Progress(None, 9, 9, 1, 0)))
    assert "9/?" in text
    assert "1 error" in text


def test_a_name_is_shown_as_text_and_cut() -> None:
    text = shown((0, Progress(5, 0, 0, 0, 0)), label="[bold]\x1b[2J" + "x" * 50)
    assert "[bold][2J" in text
    assert "\x1b[2J" not in text


def test_closing_a_bar_that_never_began_or_closing_twice_does_nothing() -> None:
    bar = ProgressBar("x")
    bar.close()
    bar.close()
