"""What a row asks for, by its ground truth: a call, or an answer in words."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tunecheck.calls._formats.reading import read_calls
from tunecheck.pipeline._mapping import Constant, Mapped

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
        return "call" if _asks_for_call(value) or _turns_ask(value) else "answer"

    return kind


def _asks_for_call(value: object) -> bool:
    reading = read_calls(value)
    return bool(reading.calls or reading.problem)


def _turns_ask(value: object) -> bool:
    """Whether a conversation's ground truth, a list of calls for each turn, has one."""
    turns = value if isinstance(value, list) and all(isinstance(turn, list) for turn in value) else []
    return any(_asks_for_call(f"[{item}]" if isinstance(item, str) else item) for turn in turns for item in turn)
