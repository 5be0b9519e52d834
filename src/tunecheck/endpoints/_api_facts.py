"""Facts about an API, learned from its errors: refused parameters and answer formats, and a token limit for judges.

An endpoint keeps its `ApiFacts`. `parameters_of()` returns the parameters to send:

* A refused parameter is sent under its other name (LIMITS), or left out.
* A refused JSON Schema becomes "JSON object", or is left out if that is refused, too. Other formats are left out.
* A judge's token limit is raised to `room`.

After an error, `learned()` returns the new facts. The first rule that fits finds the refused parameter:

1. The error's `param` names it, and the error's code or message is a refusal (`_REFUSES`); the answer format needs no
   refusal.
2. The message is a refusal and mentions the parameter. If it mentions several, the first one counts.
3. The message is about answer formats (`_ABOUT_FORMAT`), and the request had one.

Errors that another key of the definition avoids (`remedy_for`) teach nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import msgspec

from tunecheck._errors import ContentFilterError, EndpointError, RefusedError, ThrottledError, TimedOutError
from tunecheck._json import JSON, object_or_empty, whole_number

# The parameter with the form of the answer: text, JSON object, or a JSON Schema.
FORMAT = "response_format"
LIMITS = {"max_tokens": "max_completion_tokens", "max_completion_tokens": "max_tokens"}
"""Two names of the same limit: newer models only accept the second, older servers only the first."""

_KEPT = frozenset({"model", "messages", "tools", "tool_choice", "functions", "function_call", "stream"})
"""Parameters that are never left out, because the request would have another meaning without them."""

_OF_RESPONSES = {"text": FORMAT, "reasoning": "reasoning_effort", "max_output_tokens": "max_tokens"}
"""Names of parameters in the Responses API, with their names in chat completions."""

_LEAST_LIMIT, _MOST_LIMIT = 4_096, 32_768
"""Lowest and highest token limit for a judge that used its whole limit to think."""

# Errors that no parameter causes.
_OTHER_CAUSES = (ContentFilterError, RefusedError, ThrottledError, TimedOutError)
# Codes of OpenAI and servers like it.
_REFUSAL_CODES = frozenset({"unsupported_parameter", "unsupported_value", "unknown_parameter"})
# Compiled on first use, because most services refuse nothing.
# Matches "Unsupported parameter: 'max_tokens' …", "temperature does not support 0", "Extra inputs are not permitted".
_REFUSES = (
    r"(?i)unsupported|(?:is|are)(?: not|n['’]t) (?:currently |yet )?"
    r"(?:supported|allowed|permitted|available|implemented)|not (?:supported|permitted|enabled)"
    r"|(?:does|do)(?: not|n['’]t) support|unrecognized|unknown|extraneous|unexpected"
    r"|extra_forbidden|extra inputs|unavailable|enabled only|cannot both be|must be strictly positive"
    r"|must be > 0\.0 and < 1\.0|supports? only|only supports?"
)
# Matches "Invalid response_format", "json_schema is not …" and messages of servers about guided decoding.
_ABOUT_FORMAT = r"(?i)response.?format|json.?schema|json.?object|json.?mode|structured.?output|guided|grammar|schema"

_REMEDIES: tuple[tuple[str, dict[str, JSON]], ...] = (
    (
        r"(?i)only (?:supported|available) (?:in|through|with|via) (?:the )?/?v1/responses"
        r"|use (?:the )?/?v1/responses|chatCompletion operation does not work",
        {"api": "responses"},
    ),
    (
        r"(?i)only supports? stream|stream(?:ing)? (?:is|mode is) required|stream must be (?:set to )?true"
        r"|enable the stream|for non-streaming calls|streaming is (?:strongly )?required",
        {"stream": True},
    ),
    (r"(?i)stream(?:ing|ed)?\b(?! ?_?options).{0,20}\b(?:not|un)[ -]?support|verified to stream", {"stream": False}),
    (r"(?i)messages?\W{0,2}\d*\W{0,2}\brole\b.{0,40}'system'", {"system_role": "developer"}),
    (
        r"(?i)system role|system messages?\b.{0,20}\bnot|only user.{0,20}assistant.{0,5}roles"
        r"|messages?\W{0,2}\d*\W{0,2}\brole\b|\brole\b.{0,40}system|'system' is not one of",
        {"system_role": "user"},
    ),
)
"""Patterns of error messages, and the keys of a definition that avoid the error."""


def remedy_for(error: Exception | None) -> dict[str, JSON]:
    """Return the keys to set in the definition to avoid this refusal, such as `stream`; empty for other errors."""
    if not isinstance(error, EndpointError) or isinstance(error, _OTHER_CAUSES) or not error.said:
        return {}
    return next((keys for pattern, keys in _REMEDIES if re.search(pattern, error.said)), {})


class ApiFacts(msgspec.Struct, frozen=True, omit_defaults=True):
    """The refusals of an API so far.

    `parameters` are the refused parameters, with the sent value if it was a number. `formats` are the refused types of
    answer formats. `room` is the token limit that a judge or simulated user needs to finish its reasoning.
    """

    parameters: dict[str, bool | int | float | None] = {}
    formats: tuple[str, ...] = ()
    room: int | None = None

    def parameters_of(self, parameters: Mapping[str, JSON], *, may_raise_limit: bool = False) -> dict[str, JSON]:
        """Return the parameters to send, without refused ones.

        With `may_raise_limit`, a token limit below `room`, or a missing one, becomes `room`. A refused parameter is
        sent under its synonym, a refused JSON Schema as "JSON object", if the API takes that.
        """
        sent: dict[str, JSON] = {}

        # A parameter that is neither accepted nor known by another name is left out.
        for name, value in parameters.items():
            accepted_name = self._accepted_name(name, parameters)
            accepted_value = self._accepted_format(value) if name == FORMAT else value
            if accepted_name is not None and (name != FORMAT or accepted_value is not None):
                sent[accepted_name] = accepted_value

        if may_raise_limit and self.room is not None:
            limit_name = next((name for name in LIMITS if name in sent), self._accepted_name("max_tokens", parameters))
            if limit_name is not None:
                sent[limit_name] = max(self.room, whole_number(sent.get(limit_name)) or 0)
        return sent

    def _accepted_name(self, name: str, parameters: Mapping[str, JSON]) -> str | None:
        """Return the name under which to send a parameter: its name, or its synonym if the API refused the name.

        Return None if the parameter must be left out: it has no synonym, the API refused the synonym, too, or the
        synonym is already one of the `parameters`.
        """
        if name not in self.parameters:
            return name
        synonym = LIMITS.get(name)
        return synonym if synonym not in self.parameters and synonym not in parameters else None

    def _accepted_format(self, answer_format: JSON) -> JSON:
        """Return the answer format if the API accepts it, "JSON object" for a refused JSON Schema, else None."""
        if not isinstance(answer_format, dict) or answer_format.get("type") not in self.formats:
            return answer_format
        is_weaker_accepted = answer_format["type"] == "json_schema" and "json_object" not in self.formats
        return {"type": "json_object"} if is_weaker_accepted else None

    def learned(self, error: EndpointError, sent: Mapping[str, JSON]) -> ApiFacts | None:
        """Return the facts extended by the parameter or answer format that this error refuses.

        None if the error has another cause or remedy, refuses no parameter of `sent`, or refuses one that the facts
        already have.
        """
        # A service refuses a parameter with a status of 400 or more. Other keys of the definition may be the remedy.
        if isinstance(error, _OTHER_CAUSES) or error.status is None or error.status < 400 or remedy_for(error):
            return None
        name = _refused_parameter(error, sent)

        answer_format = sent.get(FORMAT)
        if name == FORMAT and isinstance(answer_format, dict):
            return msgspec.structs.replace(self, formats=(*self.formats, str(answer_format.get("type"))))

        if name is not None and name not in self.parameters:
            value = sent[name] if isinstance(sent[name], (bool, int, float)) else None  # a text could be a secret
            return msgspec.structs.replace(self, parameters={**self.parameters, name: value})
        return None

    def with_higher_limit(self, limit: int | None) -> ApiFacts | None:
        """Return the facts with `room` at twice the token limit, within 4,096 and 32,768.

        The token limit is `limit`, which was sent, or `room` if that is higher. Return None if that is 32,768 or more.
        """
        before = max(limit or 0, self.room or 0)
        room = min(_MOST_LIMIT, max(_LEAST_LIMIT, 2 * before))
        return msgspec.structs.replace(self, room=room) if room > before else None

    def sentences(self) -> Iterator[str]:
        """Yield a sentence for each refused parameter, one for the last refused format, and one for a raised limit."""
        for name, value in self.parameters.items():
            shown = name if value is None else f"{name} {str(value).lower()}"
            synonym = self._accepted_name(name, parameters={})
            yield f"this model refuses {shown}, so Tunecheck {f'sends it as {synonym}' if synonym else 'leaves it out'}"

        if self.formats:
            weaker = self._accepted_format({"type": self.formats[-1]})
            remedy = "leaves it out" if weaker is None else "asks for a JSON object instead"
            yield f"this model refuses {FORMAT} {self.formats[-1]}, so Tunecheck {remedy}"

        if self.room:
            yield f"the token limit was raised to {self.room:,} for judging, because the model used all tokens to think"


def _refused_parameter(error: EndpointError, sent: Mapping[str, JSON]) -> str | None:
    """Return the name of the sent parameter that the error refuses, or None if it refuses none.

    Parameters of `_KEPT`, such as `model`, do not count. The first rule that fits decides:

    1. The error's `param` names the parameter, and the error is a refusal or the parameter is the answer format.
    2. The error is a refusal, and its message mentions the parameter. If it mentions several, the first one counts,
       but `top_p` if temperature and top_p exclude each other.
    3. The message is about answer formats, and the request had one.
    """
    # Another type of format is a mistake of the user, not a limit of the service.
    if object_or_empty(sent.get(FORMAT)).get("type") not in ("json_schema", "json_object", "text"):
        sent = {name: value for name, value in sent.items() if name != FORMAT}

    candidates = [name for name in sent if name not in _KEPT]
    named = _named_parameter(error, sent)
    is_refusal = error.code in _REFUSAL_CODES or re.search(_REFUSES, error.said) is not None

    if named in candidates and (is_refusal or named == FORMAT):
        return named
    if is_refusal:
        mentions = {name: _mention_pattern(name).search(error.said) for name in candidates}
        places = {name: mention.start() for name, mention in mentions.items() if mention is not None}

        # If temperature and top_p exclude each other, top_p is left out.
        if "cannot both be" in error.said and "top_p" in places:
            return "top_p"
        if places:
            return min(places, key=lambda name: places[name])

    return FORMAT if FORMAT in sent and re.search(_ABOUT_FORMAT, error.said) else None


def _named_parameter(error: EndpointError, sent: Mapping[str, JSON]) -> str:
    """Return the sent parameter that the error's `param` means.

    If none matches, return a known synonym or the `param` itself; "" if the error has no `param`.
    """
    # `param` may be a path, such as `text.format`: its first name counts.
    match = re.match(r"\w+", error.param or "")
    name = "" if match is None else match[0]

    if name not in sent:
        name = _OF_RESPONSES.get(name, name)
    return name if name in sent else LIMITS.get(name, name)


def _mention_pattern(name: str) -> re.Pattern[str]:
    """Return a pattern that finds the name of a parameter in an error message.

    A name that is also a common word must stand in quotes, or next to a word such as "parameter". So "the parameter
    seed is not supported" mentions `seed`, but "seed the generator" does not. `maxTokens` mentions `max_tokens`.
    """
    camel = re.sub(r"_(\w)", lambda match: match[1].upper(), re.escape(name))

    # An underscore shows that a word is a name, and "temperature" has no other meaning in these messages.
    if "_" in name or name == "temperature":
        return re.compile(rf"\b(?:{re.escape(name)}|{camel})\b")

    before = r"['\"`]|\b(?:parameters?|params?|arguments?|fields?|property|name|supplied)\b[:\s\['\"`]*"
    return re.compile(rf"(?:{before}){re.escape(name)}\b|\b{re.escape(name)}(?:=| (?:parameter|field|argument))", re.I)
