"""What an API takes, found out by what it refuses: parameters, answer formats, roles, chat completions or Responses."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, TypeAlias

import msgspec

from tunecheck._errors import ContentFilterError, EndpointError, RefusedError, ThrottledError, TimedOutError
from tunecheck._json import JSON, whole_number
from tunecheck.formats._api_shapes import REASONING_FIELDS

Message: TypeAlias = Mapping[str, JSON]

FORMAT = "response_format"
LIMITS = {"max_tokens": "max_completion_tokens", "max_completion_tokens": "max_tokens"}
"""The two names of the same limit: newer models take only the second, older servers only the first."""

_KEPT = frozenset({"model", "messages", "tools", "tool_choice", "functions", "function_call", "stream"})
"""Never left out: without them another question would be asked."""

_OF_RESPONSES = {"text": FORMAT, "reasoning": "reasoning_effort", "max_output_tokens": "max_tokens"}
"""What the Responses API calls parameters of chat completions."""

_SYSTEM_ROLES = ("system", "developer")
_BOUNDS = frozenset(
    """minimum maximum exclusiveMinimum exclusiveMaximum multipleOf minLength maxLength pattern format minItems maxItems
    uniqueItems default examples""".split()
)
"""Keywords that some services refuse in a schema of theirs (Azure OpenAI refuses `minimum`)."""

_DEEPEST = 50
_LEAST_ROOM, _MOST_ROOM = 4_096, 32_768

_OTHER_CAUSES = (ContentFilterError, RefusedError, ThrottledError, TimedOutError)
_CODES = frozenset({"unsupported_parameter", "unsupported_value", "unknown_parameter"})
# Compiled when they are first used: most services refuse nothing.
_NOT_TAKEN = (
    r"(?i)unsupported|(?:is|are)(?: not|n['’]t) (?:currently |yet )?"
    r"(?:supported|allowed|permitted|available|implemented)|not (?:supported|permitted|enabled)"
    r"|(?:does|do)(?: not|n['’]t) support|unrecognized|unknown|extraneous|unexpected"
    r"|extra_forbidden|extra inputs|unavailable|enabled only|cannot both be|must be strictly positive"
    r"|must be > 0\.0 and < 1\.0|supports? only|only supports?"
)
_OF_FORMAT = r"(?i)response.?format|json.?schema|json.?object|json.?mode|structured.?output|guided|grammar|schema"
_OF_BOUNDS = rf"(?i)invalid.{{0,20}}schema|schema conversion|keyword|['\"`.](?:{'|'.join(sorted(_BOUNDS))})['\"`]"
_OF_SYSTEM_ROLE = r"(?i)system role|system messages?\b.{0,20}\bnot|only user.{0,20}assistant.{0,5}roles"
_OF_ROLE = (
    r"(?i)messages?\W{0,2}\d*\W{0,2}\brole\b|\brole\b.{0,40}(?:system|developer)|'(?:developer|system)' is not one of"
)
_ONLY_RESPONSES = (
    r"(?i)only (?:supported|available) (?:in|through|with|via) (?:the )?/?v1/responses|use (?:the )?/?v1/responses"
    r"|chatCompletion operation does not work"
)
_IS_MISSING = r"(?i)missing|must be (?:passed|provided|included|present)|is required"
_ONLY_STREAMS = (
    r"(?i)only supports? stream|stream(?:ing)? (?:is|mode is) required|stream must be (?:set to )?true"
    r"|enable the stream|for non-streaming calls|streaming is (?:strongly )?required"
)

_NO_STREAMS = r"(?i)stream(?:ing|ed)?\b(?! ?_?options).{0,20}\b(?:not|un)[ -]?support|verified to stream"


class ApiFacts(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is known of an API's limits; nothing is, at first.

    `parameters` are those that it refused, with the value that was sent where it is a number; `formats` the answer
    formats (`bounds`: a schema with keywords such as `minimum`); `roles` those of the system message. `responses`: it
    is asked through the Responses API; `streams`: it answers only as a stream, or never so; `reasoning_fields` of its
    own answers it does not take back. `room` is the limit of tokens that a judge or simulated user needs in order not
    to be cut off while it thinks.
    """

    parameters: dict[str, bool | int | float | None] = {}
    formats: tuple[str, ...] = ()
    roles: tuple[Literal["system", "developer"], ...] = ()
    responses: bool = False
    streams: bool | None = None
    reasoning_fields: tuple[str, ...] = ()
    room: int | None = None

    # -- what is sent

    def parameters_of(self, given: Mapping[str, JSON], *, roomy: bool = False) -> dict[str, JSON]:
        """The parameters that this API takes; `roomy`: with the raised limit, where one was found out."""
        sent: dict[str, JSON] = {}
        for name, value in given.items():
            name_sent = self._name(name, given)
            value_sent = self._format(value) if name == FORMAT else value
            if name_sent is not None and (name != FORMAT or value_sent is not None):
                sent[name_sent] = value_sent
        if roomy and self.room is not None:
            limit = next((name for name in LIMITS if name in sent), self._name("max_tokens", given))
            if limit is not None:
                sent[limit] = max(self.room, whole_number(sent.get(limit)) or 0)
        return sent

    def messages_of(self, messages: Sequence[Message]) -> Sequence[Message]:
        """The messages with the system message in a role that this API takes: at last, as part of the user's."""
        if self.reasoning_fields:
            dropped = self.reasoning_fields
            messages = [{key: each[key] for key in each if key not in dropped} for each in messages]
        if not self.roles:
            return messages
        taken = next((role for role in _SYSTEM_ROLES if role not in self.roles), None)
        changed: list[Message] = []
        waiting: list[Message] = []
        for message in messages:
            if message.get("role") not in self.roles:
                changed.append(_after(waiting, message) if waiting and message.get("role") == "user" else message)
                waiting = [] if message.get("role") == "user" else waiting
            elif taken is not None:
                changed.append({**message, "role": taken})
            else:
                waiting.append(message)
        return changed + [{**message, "role": "user"} for message in waiting]

    def _name(self, name: str, given: Mapping[str, JSON]) -> str | None:
        if name not in self.parameters:
            return name
        other = LIMITS.get(name)
        return other if other not in self.parameters and other not in given else None

    def _format(self, asked: JSON) -> JSON:
        if not self.formats:
            return asked
        forms = ((name, value) for name, value in _formats(asked) if name not in self.formats)
        return next(forms, ("", None))[1]

    # -- what is learned

    def learned(
        self, error: EndpointError, messages: Sequence[Message], sent: Mapping[str, JSON], *, chat: bool
    ) -> ApiFacts | None:
        """What is known after a refusal of these messages and parameters; None where it says nothing of the kind.

        `chat`: whether the API is one that has a Responses API beside it.
        """
        if isinstance(error, _OTHER_CAUSES) or error.status is None or error.status < 400:
            return None
        said = error.said
        if chat and not self.responses and re.search(_ONLY_RESPONSES, said):
            return msgspec.structs.replace(self, responses=True)
        streamed = sent.get("stream") is True
        of_streams = error.param == "stream" and error.code in _CODES
        if self.streams is None and (of_streams or (streamed and re.search(_NO_STREAMS, said))):
            return msgspec.structs.replace(self, streams=not streamed)
        if self.streams is None and not streamed and re.search(_ONLY_STREAMS, said):
            return msgspec.structs.replace(self, streams=True)
        roles = self._refused_roles(error, messages)
        if roles:
            return msgspec.structs.replace(self, roles=(*self.roles, *roles))
        if field := _refused_field(error, messages):
            return msgspec.structs.replace(self, reasoning_fields=(*self.reasoning_fields, field))
        name = _refused_parameter(error, sent)
        if name == FORMAT:
            return self._without_format(sent[FORMAT], said)
        if name is not None and name not in self.parameters:
            value = sent[name] if isinstance(sent[name], (bool, int, float)) else None  # a text may be a secret
            return msgspec.structs.replace(self, parameters={**self.parameters, name: value})
        return None

    def _refused_roles(self, error: EndpointError, messages: Sequence[Message]) -> tuple[str, ...]:
        roles = [role for role in _SYSTEM_ROLES if any(message.get("role") == role for message in messages)]
        if not roles:
            return ()
        named = error.param is not None and error.param.endswith("role") and error.code in _CODES
        if named or (
            re.search(_OF_ROLE, error.said) and (re.search(_NOT_TAKEN, error.said) or "not one of" in error.said)
        ):
            return (roles[0],)
        if re.search(_OF_SYSTEM_ROLE, error.said) and re.search(_NOT_TAKEN, error.said):
            return tuple(role for role in _SYSTEM_ROLES if role not in self.roles)  # by the model's chat template
        return ()

    def _without_format(self, sent: JSON, said: str) -> ApiFacts | None:
        names = [name for name, value in _formats(sent)]
        if not names:
            return None
        bounds = names[0] == "bounds" and re.search(_OF_BOUNDS, said) is not None
        refused = names[:1] if bounds or names[0] != "bounds" else names[:2]
        return msgspec.structs.replace(self, formats=(*self.formats, *refused))

    def roomier(self, limit: int | None) -> ApiFacts | None:
        """With more room to think than this limit left; None where that is the most already."""
        known = max(limit or 0, self.room or 0)
        room = min(_MOST_ROOM, max(_LEAST_ROOM, 2 * known))
        return msgspec.structs.replace(self, room=room) if room > known else None

    # -- what is told

    def sentences(self) -> Iterator[str]:
        """What was found out, each in a line that says what is done about it."""
        for name, value in self.parameters.items():
            shown = name if value is None else f"{name} {str(value).lower()}"
            other = self._name(name, {})
            yield f"{shown} is not taken by this model: {f'sent as {other}' if other else 'left out'}"
        if self.formats:
            names = "json_schema with bounds" if self.formats == ("bounds",) else self.formats[-1]
            instead = {"bounds": "asked without the bounds", "json_schema": "asked for a JSON object"}
            yield f"{FORMAT} {names} is not taken by this model: {instead.get(self.formats[-1], 'left out')}"
        if self.roles:
            taken = next((role for role in _SYSTEM_ROLES if role not in self.roles), "user")
            yield f"the role {self.roles[0]} is not taken by this model: its messages are sent as {taken}"
        if self.responses:
            yield "this model is not asked through chat completions but through the Responses API"
        for field in self.reasoning_fields:
            yield f"{field} is not taken back by this model: left out of its own messages"
        if self.streams is not None:
            asked = (
                "only as a stream: it is asked for one"
                if self.streams
                else "never as a stream: it is asked for whole answers"
            )
            yield f"this model answers {asked}"
        if self.room:
            yield f"the limit of tokens was raised to {self.room:,} for judging: the model used all of it to think"


def _refused_field(error: EndpointError, messages: Sequence[Message]) -> str | None:
    """Which field with the model's own reasoning is refused in these messages; not one that is said to be missing."""
    said = f"{error.param} {error.said}"
    if re.search(_IS_MISSING, said) or not (re.search(_NOT_TAKEN, said) or "remove" in said):
        return None
    given = (name for name in REASONING_FIELDS if any(name in message for message in messages))
    return next((name for name in given if _mention(name).search(said)), None)


def _refused_parameter(error: EndpointError, sent: Mapping[str, JSON]) -> str | None:
    """Which parameter of those sent is refused: by `param` and `code` first, then by the words of several servers."""
    sent = {name: value for name, value in sent.items() if name != FORMAT or _is_format(value)}
    said, candidates = error.said, [name for name in sent if name not in _KEPT]
    root = re.match(r"\w+", error.param or "")
    named = root[0] if root is not None else ""
    named = named if named in sent else _OF_RESPONSES.get(named, named)
    if named in LIMITS and named not in sent:
        named = LIMITS[named]
    told = error.code in _CODES or re.search(_NOT_TAKEN, said) is not None
    if named in candidates and (told or named == FORMAT):
        return named
    if told:
        places = {name: found.start() for name in candidates if (found := _mention(name).search(said))}
        if "cannot both be" in said and "top_p" in places:
            return "top_p"
        if places:
            return min(places, key=lambda name: places[name])
    return FORMAT if FORMAT in sent and re.search(_OF_FORMAT, said) else None


def _mention(name: str) -> re.Pattern[str]:
    """How messages name a parameter; a common word counts only where it is marked as one."""
    camel = re.sub(r"_(\w)", lambda found: found[1].upper(), re.escape(name))
    if "_" in name or name == "temperature":
        return re.compile(rf"\b(?:{re.escape(name)}|{camel})\b")
    before = r"['\"`]|\b(?:parameters?|params?|arguments?|fields?|property|name|supplied)\b[:\s\['\"`]*"
    return re.compile(rf"(?:{before}){re.escape(name)}\b|\b{re.escape(name)}(?:=| (?:parameter|field|argument))", re.I)


def _is_format(asked: JSON) -> bool:
    """Whether it is an answer format at all; what is none is refused because it is wrong, not because it is unknown."""
    return isinstance(asked, dict) and asked.get("type") in ("json_schema", "json_object", "text")


def _formats(asked: JSON) -> Iterator[tuple[str, JSON]]:
    """An answer format and the weaker ones after it, each by its name, the most helpful first."""
    if not isinstance(asked, dict):
        return
    held = asked.get("json_schema")
    if asked.get("type") == "json_schema" and isinstance(held, dict):
        bare = _without_bounds(held.get("schema"), 0)
        if bare != held.get("schema"):
            yield "bounds", asked
        yield "json_schema", {**asked, "json_schema": {**held, "schema": bare}}
        yield "json_object", {"type": "json_object"}
    else:
        yield str(asked.get("type")), asked


def _without_bounds(schema: JSON, depth: int, *, names: bool = False) -> JSON:
    """A schema without the keywords that some services refuse; `names`: its keys are names of properties."""
    if depth > _DEEPEST:
        return schema
    if isinstance(schema, list):
        return [_without_bounds(item, depth + 1) for item in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: _without_bounds(value, depth + 1, names=not names and key in ("properties", "$defs"))
        if key != "enum"
        else value
        for key, value in schema.items()
        if names or key not in _BOUNDS
    }


def _after(before: Sequence[Message], message: Message) -> Message:
    """A user's message with what could not be said as system before it."""
    contents = [each.get("content") for each in (*before, message)]
    if all(isinstance(content, str) for content in contents):
        return {**message, "content": "\n\n".join(map(str, contents))}
    parts: list[JSON] = []
    for content in contents:
        parts += content if isinstance(content, list) else [{"type": "text", "text": content}]
    return {**message, "content": parts}
