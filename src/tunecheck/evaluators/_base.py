"""What the built-in evaluators share: metrics that describe themselves, and the eight keys of a verdict."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal, TypeAlias

from tunecheck._faults import Fault, checked, sentence, to_json
from tunecheck._json import JSON

Verdict: TypeAlias = dict[str, JSON]
"""What an evaluator returns for one row: plain JSON values by key."""


@dataclass(frozen=True, slots=True)
class Metric:
    """What one metric's numbers mean, so that compare, gate and report can go by it.

    `kind` is "score" (graded), "binary" (0 or 1) or "count"; `range` the lowest and highest value, None where it has
    no bound; `higher_is_better` its direction.
    """

    name: str
    kind: Literal["score", "binary", "count"] = "score"
    range: tuple[float, float] | None = (0, 1)
    higher_is_better: bool = True


class Evaluator:
    """Base of the built-in evaluators: a callable with keyword-only parameters that returns a `Verdict`.

    A subclass hands its constructor's arguments, as plain JSON values, to `super().__init__`; they are what a run's
    manifest and fingerprints know of it. Instances hold no other state: they can be pickled and shared by threads.
    """

    metrics: ClassVar[tuple[Metric, ...]] = ()
    primary: ClassVar[str] = ""
    """The metric whose `<metric>_result` counts for `binary_aggregate`."""
    pure: ClassVar[bool] = False
    """Whether it only computes, and changes none of its arguments: then it runs beside others on the same row."""
    cpu_bound: ClassVar[bool] = False
    """Whether it is pure, and it pays to run it in worker processes."""

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


def verdict(
    metric: str,
    *,
    score: float | None = None,
    passed: bool | None = None,
    threshold: float | None = None,
    reason: str | None = None,
    status: str = "completed",
    properties: Mapping[str, JSON] | None = None,
    faults: Iterable[Fault] = (),
    not_applicable: bool = False,
) -> Verdict:
    """One metric's eight keys, in the order of Azure AI Evaluation's evaluators.

    A verdict that is not applicable has neither score nor pass; its result is "not_applicable", its status "skipped".
    Empty properties are written as None, to keep rows small. The `faults` of a row that fails stand in its properties,
    and the reason is made from them where none is given; a row that passes has none.
    """
    if not_applicable:
        score, passed, status = None, None, "skipped"
    if passed is False and (listed := checked(faults)):
        reason = sentence(listed) if reason is None else reason
        properties = {**(properties or {}), "faults": to_json(listed)}
    return {
        metric: score,
        f"{metric}_score": score,
        f"{metric}_passed": passed,
        f"{metric}_result": _result(passed),
        f"{metric}_reason": reason,
        f"{metric}_status": status,
        f"{metric}_threshold": threshold,
        f"{metric}_properties": dict(properties) if properties else None,
    }


def _result(passed: bool | None) -> str:
    if passed is None:
        return "not_applicable"
    return "pass" if passed else "fail"
