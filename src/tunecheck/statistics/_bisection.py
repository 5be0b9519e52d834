"""Where something that changes once along a line does so."""

from collections.abc import Callable

_HALVINGS = 80


def turning_point(holds: Callable[[float], bool], low: float, high: float) -> tuple[float, float]:
    """The two numbers, as close as floats are, between which `holds` begins to hold: not yet at the first of them."""
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return low, high
