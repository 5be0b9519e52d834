"""A row of a memory run as the test that is scored: columns may be values, their JSON text, or missing."""

from __future__ import annotations

import math
from collections.abc import Mapping

from tunecheck._json import JSON, loads, plain
from tunecheck.evaluators._judges.texts import given
from tunecheck.memory._model import Given, Points


def read_test(
    dataset: object,
    expected: object,
    responses: object,
    arguments: object = None,
    questions: object = None,
    script: object = None,
    since_question: object = None,
    points: object = None,
    reasons: object = None,
) -> Given:
    """The test of a row.

    Raises:
        ValueError: it says no data set, or holds something that is no data.
    """
    title = given(dataset)
    if not isinstance(title, str) or not title.strip():
        raise ValueError("dataset must be the title of a memory test's data set, such as 'Spy Meeting'")
    found = _value(arguments, "arguments")
    return Given(
        title=title.strip(),
        expected=_list(expected, "expected"),
        responses=_texts(responses, "responses"),
        args=found if isinstance(found, dict) else {},
        questions=_texts(questions, "questions"),
        since_question=_texts(since_question, "since_question"),
        points=_points(_value(points, "points"), _texts(reasons, "reasons")),
        script=_texts(script, "script"),
    )


def _value(value: object, name: str) -> JSON:
    """Data, or what JSON text holds; CSV files know no lists."""
    value = given(value)
    if isinstance(value, str) and value.lstrip()[:1] in ("[", "{"):
        try:
            return loads(value)
        except ValueError:
            return value
    try:
        return plain(value.tolist() if hasattr(value, "tolist") else value)
    except TypeError as error:
        raise ValueError(f"{name} cannot be read: {error}") from None


def _list(value: object, name: str) -> list[JSON]:
    found = _value(value, name)
    if found is None:
        return []
    return found if isinstance(found, list) else [found]


def _texts(value: object, name: str) -> list[str]:
    return [each for each in _list(value, name) if isinstance(each, str)]


def _points(value: JSON, reasons: list[str]) -> Points | None:
    """Points of `{"points": 3, "most": 5}`, of `[3, 5]`, or a share from 0 to 1."""
    if isinstance(value, Mapping):
        value = [value.get("points"), value.get("most")]
    pair = value if isinstance(value, list) else [value, 1]
    if len(pair) != 2:
        return None
    scored, most = (_number(each) for each in pair)
    return None if scored is None or most is None else Points(scored, most, tuple(reasons))


def _number(value: JSON) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or abs(value) > 1e15:
        return None
    return float(value) if math.isfinite(value) else None
