"""What a call of a simulator came to, and the text in which a model sees it."""

from __future__ import annotations

import json
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Result:
    """One call's result.

    `text` is what the model sees; `error` says whether the call failed; `value` is what the operation returned
    (`{"error": …}` where it failed), for a call that stands as an argument of another.
    """

    text: str
    error: bool = False
    value: object = None


def success(value: object) -> Result:
    """The result of an operation that returned this; a dict with `error` says that it failed, unless None or False."""
    return Result(result_text(value), isinstance(value, dict) and value.get("error") not in (None, False), value)


def failure(message: str) -> Result:
    """The result of a call that failed."""
    value = {"error": message}
    return Result(result_text(value), True, value)


def result_text(value: object) -> str:
    """Text as it is, a dict as JSON (ASCII, key order kept, NaN written as such), all else as Python writes it.

    These are the forms in which BFCL shows results to a model and compares them. What JSON has no form for makes the
    whole dict Python text.

    Raises:
        Exception: whatever the value's own `__str__` raises.
    """
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        try:
            return json.dumps(value)
        except (TypeError, ValueError, RecursionError):
            return str(value)
    return str(value)
