"""Call text as BFCL executes it in conversations, oddities included: for verdicts that must equal the published ones.

On top of what its decoder does to a text (`tunecheck.bfcl._call_text`), a dict whose values are all dicts is a call
of its first key, which is how calls inside calls come about, and an empty dict as an argument makes the whole text
unreadable.
"""

from __future__ import annotations

from tunecheck.bfcl._call_text import UndecodableError, decode_text
from tunecheck.conversations._nested import NestedCall
from tunecheck.conversations._text_calls import Decoded


def decode_text_as_bfcl(text: str) -> Decoded:
    """The calls that BFCL makes for a prompting model's text, or why it makes none. It never raises."""
    try:
        calls = [_call(name, arguments) for entry in decode_text(text) for name, arguments in entry.items()]
    except (UndecodableError, RecursionError) as error:
        return Decoded(problem=str(error))
    return Decoded(tuple(calls))


def _call(name: object, arguments: object) -> NestedCall:
    assert isinstance(arguments, dict)
    return NestedCall(str(name), {str(key): _rewritten(value) for key, value in arguments.items()})


def _rewritten(value: object) -> object:
    if not isinstance(value, dict):
        return value
    if not value:
        raise UndecodableError("an empty dict is no argument")
    if all(isinstance(item, dict) for item in value.values()):
        return _call(*next(iter(value.items())))
    return {str(key): _rewritten(item) for key, item in value.items()}
