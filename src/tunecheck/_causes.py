"""Why a row failed, in one code: the causes in the order in which they are looked for, and what to try."""

import re
from collections.abc import Iterable
from typing import Literal, NamedTuple, TypeAlias

Side: TypeAlias = Literal["serving", "model"]
"""What has to change: how the model is served, or the model."""


class Cause(NamedTuple):
    """One cause: what headings and counts call it, whose fault it is, and what to try."""

    code: str
    title: str
    side: Side
    advice: str


_WRONG = "wrong_argument"
_EXAMPLES = "train with more of this kind, or describe the tool more clearly"
_FORMATS = "say the format in the description, or accept others by a matching policy"

_ALL = (
    Cause(
        "unreachable",
        "no answer: the service could not be reached",
        "serving",
        "check the url, that the server runs, and the network, its proxy and certificates",
    ),
    Cause("server_fault", "no answer: the service or the target failed", "serving", "look at the server's log"),
    Cause("filtered", "stopped by a content filter", "serving", "change the service's content filter, or the prompt"),
    Cause("overflow", "longer than the context window", "serving", "serve with a longer context, or send fewer tools"),
    Cause("cut_off", "cut off at the token limit", "serving", "raise max_tokens"),
    Cause(
        "thinking_used_budget",
        "the token limit was reached while thinking",
        "serving",
        "raise max_tokens, or limit how much the model thinks",
    ),
    Cause(
        "unreadable",
        "a call cannot be read",
        "model",
        "look at the text: broken calls need training; of another family's form, choose format= or its tool parser",
    ),
    Cause(
        "call_left_in_text",
        "a call was left in the text",
        "serving",
        "turn on the server's tool parser, of this model's family",
    ),
    Cause("bad_arguments", "arguments are not a JSON object", "model", "constrain decoding to the schema, or train"),
    Cause(
        "double_encoded",
        "arguments are JSON text within JSON text",
        "serving",
        "check the server's tool parser and chat template: one of them encodes the arguments twice",
    ),
    Cause(
        "unknown_function",
        "called a function that is not among the tools",
        "model",
        "check that the server renders the tools and leaves their names as they are; else train with more tools",
    ),
    Cause("refusal", "refused", "model", "check the system prompt; train with fewer refusals"),
    Cause("loop", "the same call again and again", "model", "check stop tokens, chat template and temperature"),
    Cause(
        "asked_back",
        "asked back instead of calling",
        "model",
        "check that the question holds all that the call needs; else train with calls made at once",
    ),
    Cause(
        "answered_instead_of_calling",
        "answered instead of calling",
        "model",
        "check that the server renders the tools; else train with more calls",
    ),
    Cause("skipped_lookup", "acted without looking up what it needed", "model", _EXAMPLES),
    Cause("against_state", "acted against the state as it was", "model", _EXAMPLES),
    Cause("gave_up", "gave up after an error", "model", "train with errors that are overcome"),
    Cause("unfounded_value", "made up a value that nothing had given", "model", _EXAMPLES),
    Cause("needless_step", "took needless steps", "model", _EXAMPLES),
    Cause("wrong_function", "called the wrong function", "model", "make the tools' descriptions easier to tell apart"),
    Cause("missing_call", "a call is missing", "model", "check that the server allows parallel calls; else train"),
    Cause("extra_call", "called more than it should", "model", "train with questions that need no call, or fewer"),
    Cause(f"{_WRONG}.missing", "an argument is missing", "model", "name it under `required` in the tool definition"),
    Cause(f"{_WRONG}.unexpected", "an argument that is not expected", "model", _EXAMPLES),
    Cause(f"{_WRONG}.schema", "an argument breaks its schema", "model", "constrain decoding to the schema, or train"),
    Cause(f"{_WRONG}.type", "an argument of another type", "model", "constrain decoding to the schema, or train"),
    Cause(f"{_WRONG}.number_as_text", "a number written as text", "model", "give the parameter's type in its schema"),
    Cause(f"{_WRONG}.number_conversion", "a number in another unit", "model", "say the unit in the description"),
    Cause(f"{_WRONG}.date_or_time_format", "a date or time in another format", "model", _FORMATS),
    Cause(f"{_WRONG}.case_or_spacing", "another case or spacing", "model", _FORMATS),
    Cause(f"{_WRONG}.list_order", "a list in another order", "model", "say whether the order of the list matters"),
    Cause(f"{_WRONG}.close_wording", "nearly the same wording", "model", _FORMATS),
    Cause(f"{_WRONG}.other", "an argument with another value", "model", _EXAMPLES),
)

CAUSES: dict[str, Cause] = {cause.code: cause for cause in _ALL}
"""Every cause by its code, in their order: a row has the first that holds."""

CUT_OFF = frozenset({"length", "max_tokens", "MAX_TOKENS", "max_output_tokens", "model_length", "token_limit"})
"""The `finish_reason`s that say that an answer was cut off at the token limit, in the words of any service."""

_LOOP = 40


def repeats_itself(text: str) -> bool:
    """Whether a text ends in what it said twice before: a model that finds no end, which more tokens do not help."""
    return len(text) > _LOOP and text.count(text[-_LOOP:]) > 2


METRIC = "cause."
"""How the metrics begin that say which share of all rows has which cause."""


def cause_named(code: str) -> Cause:
    """The cause of that code; of a kind that is not listed, the same with the kind as its title."""
    known = CAUSES.get(code)
    if known is not None:
        return known
    head, _, kind = code.partition(".")
    return Cause(code, f"{head.replace('_', ' ')}: {kind.replace('_', ' ')}".rstrip(": "), "model", _EXAMPLES)


_PLACES = {code: place for place, code in enumerate(CAUSES)}


def place_of(code: str) -> int:
    """The place of a cause in the order in which they are looked for; last where it is not listed."""
    return _PLACES.get(code, len(_PLACES))


def in_order(codes: Iterable[str]) -> list[str]:
    """Codes in the order in which causes are looked for; those that are not listed last."""
    return sorted(codes, key=lambda code: (place_of(code), code))


_OVERFLOWS = (
    r"context[_ ](?:length|window|size|limit)|maximum context|longer than the model|too many (?:input )?tokens",
    r"`inputs` tokens|(?:prompt|inputs?|context|request) (?:is|are) too long|prompt contains \d+ tokens",
    r"exceeds? the (?:maximum|available) (?:number of tokens|context|input)",
)
_OVERFLOW = re.compile("|".join(_OVERFLOWS), re.IGNORECASE)
_FILTER = re.compile(r"content[_ ]?(?:filter|policy|management)|ResponsibleAIPolicy", re.IGNORECASE)


def error_cause(error: str) -> str:
    """The cause of a row whose target gave no answer, by the words of its error: those of any server."""
    if _FILTER.search(error):
        return "filtered"
    return "overflow" if _OVERFLOW.search(error) else "server_fault"
