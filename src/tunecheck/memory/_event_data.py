"""Effects and their outcomes as JSON, exactly, and back: what an event log holds of them."""

from __future__ import annotations

from collections.abc import Mapping

from tunecheck._json import JSON
from tunecheck.memory._effects import (
    Begin,
    Consult,
    Deregister,
    Effect,
    End,
    Jump,
    Outcome,
    Register,
    ResetAgent,
    Send,
    SuiteReset,
    Waiting,
)
from tunecheck.memory._model import AskJudge, Points

_OF_A_TEST: Mapping[str, type[Register | Deregister | ResetAgent]] = {
    "register": Register,
    "deregister": Deregister,
    "reset_agent": ResetAgent,
}
_NAMES = {kind: name for name, kind in _OF_A_TEST.items()}


def effect_data(effect: Effect) -> dict[str, JSON]:
    """An effect as data; `do` says which it is. Equal effects give equal data."""
    match effect:
        case Send(test, message, question, suggested, draws):
            data: dict[str, JSON] = {"do": "send", "test": test, "message": message, "question": question}
            return data | {"suggested": suggested, "draws": [*draws]}
        case Consult(test, request):
            return {"do": "consult", "test": test, "purpose": request.purpose, "values": dict(request.values)}
        case Begin(test, tokens):
            return {"do": "begin", "test": test, "tokens": tokens}
        case End(test, points):
            return {"do": "end", "test": test, "points": None if points is None else _points_data(points)}
        case Waiting(test, tokens, seconds):
            return {"do": "wait", "test": test, "tokens": tokens, "seconds": seconds}
        case Jump(until_us):
            return {"do": "jump", "until": until_us}
        case SuiteReset():
            return {"do": "suite_reset"}
    return {"do": _NAMES[type(effect)], "test": effect.test}


def _points_data(points: Points) -> dict[str, JSON]:
    return {"points": points.points, "most": points.most, "reasons": [*points.reasons]}


def read_effect(data: Mapping[str, JSON]) -> Effect:
    """The effect that such data was made of.

    Raises:
        ValueError: there is no such effect, or it lacks something.
    """
    kind = data.get("do")
    match kind:
        case "send":
            draws = tuple(_whole(each) for each in _list(data, "draws"))
            suggested = None if data.get("suggested") is None else _text(data, "suggested")
            return Send(_text(data, "test"), _text(data, "message"), data.get("question") is True, suggested, draws)
        case "consult":
            values = data.get("values")
            request = AskJudge(_text(data, "purpose"), values if isinstance(values, dict) else {})
            return Consult(_text(data, "test"), request)
        case "begin":
            return Begin(_text(data, "test"), _whole(data.get("tokens")))
        case "end":
            return End(_text(data, "test"), _read_points(data.get("points")))
        case "wait":
            return Waiting(_text(data, "test"), _whole(data.get("tokens")), _whole(data.get("seconds")))
        case "jump":
            return Jump(_whole(data.get("until")))
        case "suite_reset":
            return SuiteReset()
        case str() if kind in _OF_A_TEST:
            return _OF_A_TEST[kind](_text(data, "test"))
    raise ValueError(f"there is no effect {str(kind)[:40]!r}")


def _read_points(data: JSON) -> Points | None:
    if data is None:
        return None
    if not isinstance(data, dict):
        raise ValueError("points are no object")
    return Points(
        _number(data.get("points")), _number(data.get("most")), tuple(str(each) for each in _list(data, "reasons"))
    )


def outcome_data(outcome: Outcome) -> dict[str, JSON]:
    """An outcome as data; what is not known, or not so, is left out."""
    data: dict[str, JSON] = {
        "at": outcome.at_us,
        "text": outcome.text,
        "ms": outcome.latency_ms,
        "in": outcome.input_tokens,
        "out": outcome.output_tokens,
        "adopted": outcome.adopted or None,
        "simulated": outcome.simulated or None,
        "declined": outcome.declined or None,
    }
    return {name: value for name, value in data.items() if value is not None}


def read_outcome(data: Mapping[str, JSON]) -> Outcome:
    """The outcome that such data was made of.

    Raises:
        ValueError: it lacks its time, or something is not as it should be.
    """
    tokens = [None if data.get(key) is None else _whole(data.get(key)) for key in ("in", "out")]
    return Outcome(
        at_us=_whole(data.get("at")),
        text=None if data.get("text") is None else _text(data, "text"),
        latency_ms=None if data.get("ms") is None else _number(data.get("ms")),
        input_tokens=tokens[0],
        output_tokens=tokens[1],
        adopted=data.get("adopted") is True,
        simulated=data.get("simulated") is True,
        declined=data.get("declined") is True,
    )


def _text(data: Mapping[str, JSON], key: str) -> str:
    value = data.get(key)
    if not isinstance(value, str):
        raise ValueError(f"{key} is no text")
    return value


def _list(data: Mapping[str, JSON], key: str) -> list[JSON]:
    value = data.get(key, [])
    if not isinstance(value, list):
        raise ValueError(f"{key} is no list")
    return value


def _whole(value: JSON) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError(f"{str(value)[:40]!r} is no whole number")
    return value


def _number(value: JSON) -> float:
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        raise ValueError(f"{str(value)[:40]!r} is no number")
    return value
