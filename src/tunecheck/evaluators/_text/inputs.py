"""What of a row's response and ground truth is scored as text: the rules for calls, messages and missing values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from tunecheck._faults import Fault
from tunecheck.calls._formats.writing import canonical_text
from tunecheck.calls._model import Reading
from tunecheck.calls._sharing import read_once


class TextPair(NamedTuple):
    """The two texts to compare, and what is to be said about them."""

    reference: str
    candidate: str
    fault: Fault | None = None


def read_pair(response: object, ground_truth: object, *, render_calls: bool) -> TextPair | None:
    """The texts to compare; None where the ground truth is a call, and calls are not to be rendered as text.

    Texts are taken as they are. Of a response that calls a function, the text beside the call counts, which is often
    none. With `render_calls`, a call on either side counts as its canonical text.

    Raises:
        ValueError: there is no ground truth.
        TypeError: a value is neither text nor a call nor a message.
    """
    if ground_truth is None:
        raise ValueError("ground_truth is missing")
    reference = _reference(ground_truth, render_calls=render_calls)
    if reference is None:
        return None
    return TextPair(reference, *_candidate(response, render_calls=render_calls))


def _reference(ground_truth: object, *, render_calls: bool) -> str | None:
    reading = read_once(ground_truth)
    if reading.calls:
        return canonical_text(reading.calls) if render_calls else None
    if isinstance(ground_truth, str):
        return ground_truth
    return _message_text("ground_truth", ground_truth, reading)


def _candidate(response: object, *, render_calls: bool) -> tuple[str, Fault | None]:
    if response is None or response == []:
        return "", Fault(code="no_response", message="no response")
    if isinstance(response, str) and not render_calls:
        return response, None
    reading = read_once(response)
    if reading.calls and render_calls:
        return canonical_text(reading.calls), None
    if isinstance(response, str):
        return response, None
    if reading.calls:
        names = ", ".join(dict.fromkeys(call.name for call in reading.calls))
        scored = "its text beside the call is scored" if reading.text else "there is no text to score"
        words = f"the response calls {names}; {scored}"
        return reading.text, Fault(code="called_instead_of_answering", call=reading.calls[0].name, message=words)
    if reading.problem:
        words = f"the response holds a call that cannot be read: {reading.problem}"
        return reading.text, Fault(code="unreadable_call", message=words)
    return _message_text("response", response, reading), None


def _message_text(parameter: str, value: object, reading: Reading) -> str:
    """The text of a chat message, or of a list of them."""
    items = value if isinstance(value, list) else [value]
    if items and all(isinstance(item, Mapping) and "role" in item and "content" in item for item in items):
        return reading.text
    raise TypeError(f"{parameter} must be text or function calls, not {_kind(value)}")


def _kind(value: object) -> str:
    return (
        f"a {type(value).__name__} without a function call" if isinstance(value, (list, dict)) else type(value).__name__
    )
