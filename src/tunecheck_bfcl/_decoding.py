"""The calls in one recorded answer, `[{"f": {"a": 1}}, …]`, exactly as the leaderboard finds them."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from tunecheck.calls._strict_json import UnreadableError
from tunecheck.formats._source_calls import decode_source_text
from tunecheck_bfcl._text import UndecodableError, decode_text

Mode = Literal["tools", "text"]
"""How a model was asked: with tools, for calls as data, or in the prompt, for calls as text."""

Names = Literal["auto", "dotted", "underscored"]
"""How the leaderboard expects a function `a.b` to be called: by that name, or as `a_b`, where an API takes no dots."""


def mode_of(results: Iterable[object], *, named: str = "") -> Mode:
    """How the model of these results was asked: any that is a list, or holds one among its steps, comes from tools.

    `named` is the model's name; where no result decides, `FC` in it does.
    """
    if any(_from_tools(result) for result in results):
        return "tools"
    return "tools" if "FC" in named.replace("_", "-").split("-") else "text"


def _from_tools(result: object) -> bool:
    if not isinstance(result, list):
        return False
    turns = [turn for turn in result if isinstance(turn, list)]
    steps = [step for turn in turns for step in turn]
    return not (turns and steps and all(isinstance(step, str) for step in steps))


def decode_answer(result: object, mode: Mode, language: str) -> list[object]:
    """The calls of a single-turn result.

    Raises:
        UndecodableError: the leaderboard's decoder fails on it.
    """
    if mode == "text":
        if not isinstance(result, str):
            raise UndecodableError("the result is not text")
        if language == "python":
            return list(decode_text(result))
        try:
            return decode_source_text(result, language)
        except UnreadableError as error:
            raise UndecodableError(str(error)) from None
    if not isinstance(result, (list, dict, str)):
        raise UndecodableError("the result is not a list of calls")
    return [_decode_call(item) for item in result]


def _decode_call(item: object) -> object:
    if not isinstance(item, dict) or not item:
        raise UndecodableError("something that is not a call stands among the calls")
    name, arguments = next(iter(item.items()))
    if isinstance(arguments, dict):
        return {name: arguments}  # some models' files hold the arguments as an object
    if not isinstance(arguments, str):
        raise UndecodableError(f"the arguments of {name!r:.60} are not JSON text")
    try:
        # Not `tunecheck._json`: the leaderboard's reader takes NaN, and the verdict of such an argument depends on it.
        return {name: json.loads(arguments)}
    except (ValueError, RecursionError) as error:
        raise UndecodableError(f"the arguments of {name!r:.60} are not JSON: {error}") from None


def as_calls(decoded: Sequence[object]) -> list[Mapping[str, object]] | None:
    calls: list[Mapping[str, object]] = [call for call in decoded if isinstance(call, dict) and len(call) == 1]
    if len(calls) < len(decoded) or not all(isinstance(next(iter(call.values())), dict) for call in calls):
        return None
    return calls
