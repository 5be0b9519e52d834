"""What a row asks for, by its ground truth: a call, or an answer in words."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tunecheck.calls import read_calls
from tunecheck.pipeline.mapping import Constant, Mapped

__all__ = ["row_kind_reader"]

_PARAMETER = "ground_truth"


def row_kind_reader(
    layers: Mapping[str, Mapping[str, Mapped]],
) -> Callable[[Mapping[str, object], Mapping[str, object]], str | None]:
    """A function from a row's data and target columns to `call`, `answer`, or None where it has no ground truth."""
    mapped = [layers["default"].get(_PARAMETER), *(layer.get(_PARAMETER) for layer in layers.values())]
    chosen = next((candidate for candidate in mapped if candidate is not None), None)

    def kind(data: Mapping[str, object], target: Mapping[str, object]) -> str | None:
        if chosen is None:
            value = data.get(_PARAMETER)
        elif isinstance(chosen, Constant):
            value = chosen.value
        else:
            value = chosen.value_in(data, target)
        if value is None:
            return None
        reading = read_calls(value)
        return "call" if reading.calls or reading.problem else "answer"

    return kind
