"""The calls in one recorded answer, `[{"f": {"a": 1}}, …]`, decoded exactly as the leaderboard does."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, cast

from tunecheck.calls import MAX_CHARACTERS, FunctionCall, Reading, UnreadableError
from tunecheck.episodes import NO_CALL, CallMode, at_most_max_calls, decode_entries, entries_of
from tunecheck.plugins import JSON, plain
from tunecheck_bfcl._source_calls import decode_source_text
from tunecheck_bfcl._text import UndecodableError, decode_text, decode_text_as_bfcl

Names = Literal["auto", "dotted", "underscored"]
"""How the leaderboard expects a function `a.b` to be called: as `a.b`, or as `a_b` because some APIs take no dots."""


def decode_answer(result: object, mode: CallMode, language: str) -> list[object]:
    """Return the calls of a single-turn result.

    Raises:
        UndecodableError: the leaderboard's decoder fails on the result.
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
    """Return one recorded call as `{"f": {"a": 1}}`, with its arguments parsed from JSON text.

    Raises:
        UndecodableError: the item is not an object, or its arguments are not JSON.
    """
    if not isinstance(item, dict) or not item:
        raise UndecodableError("an item of the list is not a call")
    name, arguments = next(iter(item.items()))
    if isinstance(arguments, dict):
        return {name: arguments}  # some models' files have the arguments as an object
    if not isinstance(arguments, str):
        raise UndecodableError(f"the arguments of {name!r:.60} are not JSON text")
    try:
        # Not Tunecheck's JSON reader, because the leaderboard's accepts NaN, and verdicts depend on it.
        return {name: json.loads(arguments)}
    except (ValueError, RecursionError) as error:
        raise UndecodableError(f"the arguments of {name!r:.60} are not JSON: {error}") from None


def as_calls(decoded: Sequence[object]) -> list[Mapping[str, object]] | None:
    """Return the decoded values as calls, or None if one of them is not a function name with an object of arguments."""
    calls: list[Mapping[str, object]] = [call for call in decoded if isinstance(call, dict) and len(call) == 1]
    if len(calls) < len(decoded) or not all(isinstance(next(iter(call.values())), dict) for call in calls):
        return None
    return calls


_SURELY_PLAIN = 200  # characters; shorter JSON cannot exceed the limits of `plain`


def decode_step(step: object, *, text_mode: bool = False) -> Reading:
    """Return the calls of one step of a conversation as the leaderboard decodes it. Never raises.

    None and a blank text are steps without calls, which the reading's problem says, except for the empty text. With
    `text_mode`, a text has its calls written as Python.
    """
    if isinstance(step, str) and text_mode:
        return at_most_max_calls(decode_text_as_bfcl(step))
    if step is None or (isinstance(step, str) and not step.strip()):
        return Reading(problem=NO_CALL) if step != "" else Reading()
    return decode_entries(step, _nested_calls)


def _nested_calls(step: object) -> Iterator[FunctionCall]:
    """Yield the calls of a step, which has its calls as data.

    Raises:
        UnreadableError: the arguments of a call are too long, nested too deeply, or not an object.
    """
    for name, arguments in entries_of(step):
        if isinstance(arguments, str) and len(arguments) > MAX_CHARACTERS:
            raise UnreadableError(f"the arguments have {len(arguments)} characters, more than {MAX_CHARACTERS}")
        # Like BFCL, the standard library's reader accepts NaN and takes the last of two equal keys.
        value = json.loads(arguments) if isinstance(arguments, str) else arguments
        if not (isinstance(arguments, str) and len(arguments) <= _SURELY_PLAIN):
            plain(value)  # refuses values that are nested too deeply
        if not isinstance(value, dict):
            raise UnreadableError("the arguments are not an object")
        yield FunctionCall(name, cast("dict[str, JSON]", value))
