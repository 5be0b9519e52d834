"""Cells of tables as JSON values: what pandas, numpy and Arrow hold becomes numbers, text, lists and null."""

from __future__ import annotations

import math
from datetime import date, time, timedelta
from decimal import Decimal
from uuid import UUID

_MISSING = ("NaTType", "NAType")


def to_json(value: object) -> object:
    """The cell as plain JSON; something that is none of the known types stays what it is.

    Missing values (None, NaN, NaT, NA) and the infinities become None; dates and times ISO 8601 text; durations ISO
    8601 seconds (`PT1.5S`); decimals text with all their digits; Arrow's maps (lists of pairs) objects.
    """
    if value is None or isinstance(value, (str, bool)) or type(value) is int:
        return value
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: to_json(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return _list(value)
    return _scalar(value)


def _list(values: list[object] | tuple[object, ...]) -> object:
    if values and all(isinstance(item, tuple) and len(item) == 2 for item in values):
        return {str(item[0]): to_json(item[1]) for item in values if isinstance(item, tuple)}
    return [to_json(item) for item in values]


def _scalar(value: object) -> object:
    if type(value).__name__ in _MISSING:
        return None
    if isinstance(value, (date, time)):  # a datetime and a pandas Timestamp are dates, too
        return value.isoformat()
    if isinstance(value, timedelta):
        return f"PT{value.total_seconds():.9f}".rstrip("0").rstrip(".") + "S"
    if isinstance(value, Decimal):
        return format(value, "f") if value.is_finite() else None
    if isinstance(value, UUID):
        return str(value)
    return _numpy(value)


def _numpy(value: object) -> object:
    shape = getattr(value, "shape", None)
    if type(value).__name__ == "datetime64":
        return None if str(value) == "NaT" else str(value)
    item, to_list = getattr(value, "item", None), getattr(value, "tolist", None)
    if shape == () and callable(item):
        return to_json(item())
    if isinstance(shape, tuple) and callable(to_list):
        return to_json(to_list())
    return value
