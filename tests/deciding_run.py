"""A run that is decided early, and killed before it is: a model that stops answering after some rows.

python -m tests.deciding_run RESULTS BASE ROWS_ANSWERED
"""

import asyncio
import random
import sys
from importlib import import_module
from typing import Any

from tunecheck import CallContext, EvaluationResult, Row, Target, evaluate

ROWS = [{"id": f"r{number}", "n": number, "half": "ab"[number % 2]} for number in range(300)]


class Model(Target):
    """Is right on a share of the rows; answers so many, in any order, and no more."""

    concurrency = 6

    def __init__(self, share: float, answers: int = 10_000, seed: int = 0) -> None:
        source = random.Random(seed)
        self._right = [source.random() < share for _ in ROWS]
        self._left = answers
        self.asked: list[int] = []

    async def answer(self, row: Row, context: CallContext) -> dict[str, object]:
        # Every fifth answer comes late, also that of the row that decides: later rows are then answered before it.
        late = 0.01 if len(self.asked) % 5 == 0 else 0.0
        self.asked.append(row.index)
        await asyncio.sleep(late + random.random() / 1000)
        self._left -= 1
        if self._left < 0:
            await asyncio.Event().wait()
        return {"response": "right" if self._right[row.index] else "wrong"}

    def fingerprint(self) -> str | None:
        return "the model"


def right(response: str) -> dict[str, Any]:
    """A pass rate."""
    return {"right_result": "pass" if response == "right" else "fail"}


def decide(model: Model, results: object, base: object, **arguments: Any) -> EvaluationResult:
    """A run of the model until it is decided against the base."""
    against = {"better_than": base, "until_decided": True}
    return evaluate(data=ROWS, target=model, evaluators={"right": right}, results_dir=str(results), workers=0,
                    **{**against, **arguments})  # fmt: skip


if __name__ == "__main__":
    again = import_module("tests.deciding_run")  # its evaluator has the same name as in the tests
    again.decide(again.Model(0.9, int(sys.argv[3])), sys.argv[1], sys.argv[2])
