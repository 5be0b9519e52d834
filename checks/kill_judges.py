"""An evaluator in a module of its own, so that `kill_run.py` can have it in a worker process."""

from __future__ import annotations


class Overlap:
    """The share of the expected words that the response has."""

    cpu_bound = True

    def __call__(self, *, response: str, expected: str) -> dict[str, float]:
        words = set(response.split())
        wanted = expected.split()
        return {"overlap": sum(word in words for word in wanted) / len(wanted)}
