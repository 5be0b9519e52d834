"""A custom evaluator, as an example: does the model ask back exactly where it should?

A file in this folder is an evaluator under its own name: `--evaluators asks_back,match`. Its parameters are bound by
the column mapping like those of every other evaluator, and `--set asks_back.marks=?` gives its settings.
"""

from typing import Any, ClassVar

from tunecheck import Evaluator, Metric, read_calls, verdict


class AsksBackEvaluator(Evaluator):
    """Passes where both the response and the ground truth end in a question, or neither does.

    Not applicable where the ground truth is a function call.
    """

    metrics: ClassVar[tuple[Metric, ...]] = (Metric("asks_back", kind="binary"),)
    primary: ClassVar[str] = "asks_back"

    def __init__(self, *, marks: str = "?？؟") -> None:
        super().__init__(marks=marks)
        self._marks = tuple(marks)

    def __call__(self, *, response: object, ground_truth: object) -> dict[str, Any]:
        """Judge one row."""
        expected = read_calls(ground_truth)
        if expected.calls:
            return verdict("asks_back", not_applicable=True)
        should, does = (self._asks(reading.text) for reading in (expected, read_calls(response)))
        reason = None if should == does else "asked where it should have answered" if does else "did not ask back"
        return verdict("asks_back", score=float(should == does), passed=should == does, reason=reason)

    def _asks(self, text: str) -> bool:
        return text.rstrip().endswith(self._marks)
