"""The base class of the built-in evaluators, and the description of a metric."""

from collections.abc import Callable
from typing import ClassVar, Literal

import msgspec

from tunecheck._faults import Verdict
from tunecheck._json import JSON


class Metric(msgspec.Struct, frozen=True):
    """The meaning of a metric's values, for comparisons, gates and reports.

    `kind` is "score" (graded), "binary" (0 or 1) or "count". `range` is the lowest and highest value, None if
    unbounded. `higher_is_better` is the direction.
    """

    name: str
    kind: Literal["score", "binary", "count"] = "score"
    range: tuple[float, float] | None = (0, 1)
    higher_is_better: bool = True


class Evaluator:
    """Base of the built-in evaluators: a callable with keyword-only parameters that returns a `Verdict`.

    A subclass passes its constructor's arguments, as plain JSON values, to `super().__init__`; manifests and
    fingerprints use them. Instances have no other state, so they can be pickled and shared by threads.

    An evaluator that reads calls is a `CallEvaluator`, which follows the endpoint's `format`; one that asks a model is
    a `ShippedJudge`. `__aggregate__(rows)` may return further metrics.
    """

    metrics: ClassVar[tuple[Metric, ...]] = ()
    primary: ClassVar[str] = ""
    """The metric whose `<metric>_result` counts for `binary_aggregate`."""
    has_pass_rate: ClassVar[bool] = True
    """False if no row passes or fails, as with a judge without a threshold."""
    pure: ClassVar[bool] = False
    """True if the evaluator only computes and does not change its arguments; it may then run concurrently on a row."""
    scoring_version: ClassVar[int] = 1
    """Version of the scoring, raised whenever a verdict can change; verdicts of other versions are not reused."""
    cpu_bound: ClassVar[bool] = False
    """True if the evaluator is pure and slow enough for worker processes."""

    __call__: Callable[..., Verdict]

    def __init__(self, **arguments: JSON) -> None:
        self._arguments: dict[str, JSON] = arguments

    @property
    def arguments(self) -> dict[str, JSON]:
        """The constructor's arguments by name, defaults included."""
        return dict(self._arguments)

    def __repr__(self) -> str:
        given = ", ".join(f"{name}={value!r}" for name, value in self._arguments.items())
        return f"{type(self).__name__}({given})"
