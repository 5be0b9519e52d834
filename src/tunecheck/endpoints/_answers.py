"""Read the answer from a reply: a chat completion, a message, calls or plain text. Every field is checked.

Endpoints call `read_chat()` and `read_usage()` for chat completions, and `read_answer()` for replies of other services.
`read_stream()` makes a chat completion of a stream of server-sent events:

1. The lines `data:` up to an empty line are one event. Empty events keep the connection alive and are skipped.
2. The event `[DONE]` ends the stream. An error, or the last event of the Responses API, is the whole reply.
3. In all other events, the first choice is a piece of the message. Its texts are joined, its list items (such as calls)
   are merged by index, and of any other value the first one stays.
4. The stream is complete after `[DONE]` or a finish reason; else it broke off.

Some servers repeat the text so far in each piece, or at the end. `_Pieces.text` recognises this.
"""

import codecs
import re
from collections.abc import Iterator, Mapping
from itertools import islice, pairwise
from typing import cast

import msgspec

from tunecheck._json import JSON, dumps, object_or_empty, text_or_json, text_or_none, value_of
from tunecheck.calls._model import MAX_CALLS, decode, kind_of, write_calls
from tunecheck.endpoints._base import Completion, Usage
from tunecheck.formats import _json_shapes as shapes
from tunecheck.formats._collector import CallCollector
from tunecheck.formats._reading import without_thoughts

_MOST_TOKENS = 1 << 53
"""Larger counts would not survive readers that take numbers for floats."""

_LONGEST_REASON = 64
"""Maximum number of characters of a finish reason."""
# A reply with one of the first keys in its `error` is an error; a reply with one of the second keys is an answer.
_ERROR_KEYS = frozenset({"message", "code", "type", "status"})
_ANSWER_KEYS = frozenset({"choices", "content", "tool_calls", "function_call"})


class UnreadableReplyError(ValueError):
    """The reply contains no readable answer. `lasting`: a retry would not help."""

    def __init__(self, problem: str, *, lasting: bool = False) -> None:
        super().__init__(problem)
        self.lasting = lasting


class FilteredError(ValueError):
    """The service's content filter stopped the answer."""


def read_json(body: bytes) -> JSON:
    """Return a reply's JSON exactly; a byte order mark is skipped.

    Raises:
        ValueError: the body is not strict JSON in UTF-8, has NaN, a repeated key or a number out of range, or is nested
            too deeply.
    """
    return decode(body.removeprefix(codecs.BOM_UTF8).decode("utf-8"))


def read_answer(value: JSON) -> Completion:
    """Read an answer in any of the shapes that scoring scripts return. The first shape that fits is used:

        null or a text                                        the text; null is an empty text
        an object with a list of `choices`                    a chat completion
        an object with `tool_calls`, or `role` and content    a message of OpenAI
        a message of Anthropic, Gemini or Bedrock             a message (found by `message_of` of the formats)
        a list of tool calls                                  these calls, without text
        any other value                                       its JSON text, in which evaluators may find a call

    Raises:
        UnreadableReplyError: the value looks like a chat completion or a message, but is invalid.
        FilteredError: the content filter stopped the answer.
    """
    if value is None or isinstance(value, str):
        return _read_message({"content": value}, None)

    if isinstance(value, dict):
        if isinstance(value.get("choices"), list):
            return read_chat(value)
        has_content = "content" in value or "tool_calls" in value or "function_call" in value
        if isinstance(value.get("tool_calls"), list) or ("role" in value and has_content):
            return _read_message(value, _finish_reason(shapes.reason_of_end(value)))
        if isinstance(message := shapes.message_of(value), dict):
            return _read_message(message, _finish_reason(shapes.reason_of_end(value)))

    if isinstance(value, list) and value and all(_is_call(item) for item in value):
        return Completion(None, tuple(item for item in value if isinstance(item, dict)))

    return Completion(dumps(value).decode())


def read_chat(reply: JSON) -> Completion:
    """Return the text, calls and reasoning in the first choice of a chat completion.

    Raises:
        UnreadableReplyError: the reply is an error, no chat completion, or one with an invalid message.
        FilteredError: the content filter stopped the answer.
    """
    if not isinstance(reply, dict):
        raise UnreadableReplyError(f"the reply is {kind_of(reply)}, not a chat completion: check the endpoint's url")

    choice = first_choice(reply)
    if choice is None:
        problem = f"the reply has no choices{_error_text(reply)}; check the url: choices must be a list of objects"
        raise UnreadableReplyError(problem)

    finish_reason = _finish_reason(choice.get("finish_reason"))
    if finish_reason == "content_filter":
        raise FilteredError("the service's content filter stopped the answer: change the prompt or the filter")

    # vLLM and SGLang write "abort" for an answer that they could not finish.
    if finish_reason in ("error", "abort") or choice.get("error"):
        raise UnreadableReplyError(f"the reply has an error, not an answer{_error_text(choice)}; see the server's log")

    message = choice.get("message")
    if not isinstance(message, dict):
        raise UnreadableReplyError(f"the reply's choices[0].message must be an object, not {kind_of(message)}")
    return _read_message(message, finish_reason)


def first_choice(reply: Mapping[str, JSON]) -> Mapping[str, JSON] | None:
    """Return the choice with index 0 or without an index, else the first one; None without choices."""
    listed = reply.get("choices")
    choices = [choice for choice in listed if isinstance(choice, dict)] if isinstance(listed, list) else []
    # The key is False for index 0 and for no index, and False sorts before True.
    return min(choices, key=lambda choice: choice.get("index") not in (None, 0), default=None)


def _finish_reason(reason: JSON) -> str | None:
    """Return the finish reason if it is a text of at most 64 characters, else None."""
    return reason if isinstance(reason, str) and len(reason) <= _LONGEST_REASON else None


def read_usage(reply: JSON) -> Usage:
    """Return the token counts of a reply of OpenAI, Anthropic, Bedrock or Gemini; a missing count is None.

    The result counts cached tokens as input and reasoning as output, even if the service counts them separately. The
    services' names of the counts:

        chat completions   usage: prompt_tokens, completion_tokens, total_tokens, prompt_tokens_details.cached_tokens,
                           completion_tokens_details.reasoning_tokens
        Responses API      usage: input_tokens, output_tokens, and details of both
        Anthropic          usage: input_tokens, output_tokens, cache_read_input_tokens, cache_creation_input_tokens
        Bedrock            usage: inputTokens, outputTokens, cacheReadInputTokens, cacheWriteInputTokens
        Gemini             usageMetadata: promptTokenCount, candidatesTokenCount, thoughtsTokenCount,
                           cachedContentTokenCount, totalTokenCount
    """
    listed = [object_or_empty(reply).get(key) for key in ("usage", "usageMetadata")]
    usage = next((value for value in listed if isinstance(value, dict)), {})

    # A count may have one of several names.
    counts = _token_counts(usage)
    input_details = _token_counts(usage.get("prompt_tokens_details", usage.get("input_tokens_details")))
    # Without details, `usage` itself may have the count of reasoning, as with Gemini.
    output_details = _token_counts(usage.get("completion_tokens_details", usage.get("output_tokens_details", usage)))
    reasoning = output_details.get("reasoning_tokens", output_details.get("thoughtsTokenCount"))
    cache_read = counts.get("cache_read_input_tokens", counts.get("cacheReadInputTokens"))
    cache_written = counts.get("cache_creation_input_tokens", counts.get("cacheWriteInputTokens"))

    prompt = counts.get("prompt_tokens", counts.get("promptTokenCount"))
    input_count = counts.get("input_tokens", counts.get("inputTokens"))
    if prompt is None and input_count is not None:
        # Anthropic and Bedrock count cached input separately.
        prompt = input_count + (cache_read or 0) + (cache_written or 0)

    output = counts.get("output_tokens", counts.get("outputTokens", counts.get("candidatesTokenCount")))
    output = counts.get("completion_tokens", output)
    total = counts.get("total_tokens", counts.get("totalTokenCount"))
    if reasoning and output is not None and total == (prompt or 0) + output + reasoning:
        # Some services count reasoning separately from the output, at the same price.
        output += reasoning

    # Cached input is counted in details, else by Anthropic's or Bedrock's name, else by DeepSeek's or Gemini's.
    other_cached = counts.get("prompt_cache_hit_tokens", counts.get("cachedContentTokenCount"))
    cached = input_details.get("cached_tokens", other_cached if cache_read is None else cache_read)
    return Usage(prompt, output, cached, reasoning)


def _token_counts(value: JSON) -> dict[str, int]:
    """Return the entries of an object that are plausible numbers of tokens; an empty dict for any other value."""
    entries = object_or_empty(value).items()
    # `isinstance` would accept a bool.
    return {name: count for name, count in entries if type(count) is int and 0 <= count < _MOST_TOKENS}


def _is_call(value: JSON) -> bool:
    """Return whether a value is a tool call in OpenAI's shape."""
    call = object_or_empty(value)
    return call.get("type", "function") == "function" and isinstance(call.get("function"), dict)


def _read_message(message: Mapping[str, JSON], finish_reason: str | None) -> Completion:
    """Return the text, calls and reasoning of a message of any API.

    If the text contains reasoning, `text` is the rest and `raw_text` the whole text. A refusal stands in for a missing
    text. Without text and refusal, `text` is None if there are calls, else empty. `reasoning_fields` keeps the parts of
    the message that some APIs need back: fields with reasoning and, if content parts have some, all parts but calls.

    Raises:
        UnreadableReplyError: the calls or the content have the wrong type.
    """
    collector = CallCollector()
    shapes.take_thoughts_of(message, collector)

    fields = {name: message[name] for name in shapes.REASONING_FIELDS if message.get(name)}
    content = cast("JSON", shapes.content_of(message))

    # Parts with calls or reasoning go to the collector; the others are text.
    if isinstance(content, list):
        earlier_thoughts = len(collector.thoughts)
        texts = [part for part in content if not (isinstance(part, dict) and shapes.take_part(part, collector))]
        if len(collector.thoughts) > earlier_thoughts:
            # `shape_of` recognises calls, which are sent back as `tool_calls`.
            fields["content"] = [part for part in content if not (isinstance(part, dict) and shapes.shape_of(part))]

        # If the parts contain only calls or reasoning, there is no text.
        content = texts if texts or not (collector.calls or collector.thoughts) else None

    # `tool_calls` win over calls among the parts, so that no call counts twice.
    calls = _calls_of(message)
    if collector.calls and not calls:
        calls = tuple(cast("list[Mapping[str, JSON]]", write_calls(collector.calls, "openai")))

    text = _text_of(content)
    if text is None:
        text = text_or_none(message.get("refusal")) or (None if calls else "")

    thought, answer = without_thoughts(text or "")
    has_thoughts = answer != (text or "")

    return Completion(
        answer if has_thoughts else text,
        calls,
        finish_reason=finish_reason,
        reasoning="\n".join([*collector.thoughts, *([thought] if thought else [])]) or None,
        raw_text=text if has_thoughts else None,
        reasoning_fields=fields,
    )


def _calls_of(message: Mapping[str, JSON]) -> tuple[Mapping[str, JSON], ...]:
    """Return the `tool_calls` of a message, or else its `function_call` (of the older API) as the only call.

    Raises:
        UnreadableReplyError: `tool_calls` is not a list of objects.
    """
    calls = message.get("tool_calls")

    # The API of 2023 had one `function_call` and no `tool_calls`.
    if not calls:
        legacy = message.get("function_call")
        return ({"type": "function", "function": legacy},) if isinstance(legacy, dict) else ()

    if not isinstance(calls, list) or not all(isinstance(call, dict) for call in calls):
        raise UnreadableReplyError(f"`tool_calls` of the reply must be a list of objects, not {calls!r:.60}")
    return tuple(call for call in calls if isinstance(call, dict))


def _text_of(content: JSON) -> str | None:
    """Return the text of a message's content: a text, or a list of parts. Return None for null or an empty list.

    Raises:
        UnreadableReplyError: the content or a part has another type.
    """
    if content is None or isinstance(content, str):
        return content
    if isinstance(content, list):
        return "".join(map(_part_text, content)) if content else None
    raise UnreadableReplyError(f"the content of the reply's message must be text, not {kind_of(content)}")


def _part_text(part: JSON) -> str:
    """Return the text of one content part: its `text`, its `refusal`, or "" if it has neither.

    Raises:
        UnreadableReplyError: the part is neither a text nor an object, or its text is no text.
    """
    if isinstance(part, str):
        return part
    text = (part.get("text") or part.get("refusal") or "") if isinstance(part, dict) else None
    if isinstance(text, str):
        return text
    raise UnreadableReplyError(f"a part of the reply's content must be text or an object with text, not {part!r:.60}")


def _error_text(reply: Mapping[str, JSON]) -> str:
    """Return a suffix for an error message: the error that the reply contains, else the keys of the reply."""
    error = _error_of(reply)
    message = error.get("message") if isinstance(error, dict) else error
    if isinstance(message, str) and message:
        return f": {message}"
    return keys_of(reply)


def _error_of(reply: Mapping[str, JSON]) -> JSON:
    """Return the reply itself if it is an error (`{"object": "error", "message": …}`), else its value of `error`."""
    return cast("JSON", reply) if reply.get("object") == "error" else reply.get("error")


def says_error(reply: JSON) -> bool:
    """Return whether a reply's body is an error and holds no answer, regardless of the HTTP status."""
    if not isinstance(reply, dict) or not reply.keys().isdisjoint(_ANSWER_KEYS):
        return False

    error = _error_of(reply)
    if isinstance(error, dict):
        return not error.keys().isdisjoint(_ERROR_KEYS)
    return isinstance(error, str) and error != ""


def keys_of(reply: object) -> str:
    """Return a suffix for errors about a missing key: up to eight keys of a reply, or the path of a list's only text.

    Return "" for any other reply.
    """
    if isinstance(reply, list) and (path := path_of_text(reply)):
        return f" (the reply's text is at {path})"
    return f" (keys of the reply: {', '.join(list(reply)[:8])})" if isinstance(reply, dict) and reply else ""


def path_of_text(reply: object) -> str:
    """Return the path of the only text in a reply's lists and objects, such as `[0].output`; empty if there is none."""
    paths = [*islice(_text_paths(reply), 2)]
    return paths[0].removeprefix(".") if len(paths) == 1 else ""


def _text_paths(value: object, path: str = "") -> Iterator[str]:
    """Yield the path of every text in a value: `{"result": {"output": "Hi"}}` gives `.result.output`.

    Positions in lists, and keys that are no identifiers, stand in brackets: `["a key"][0]`. Each path begins with
    `path`, the path of the value itself.
    """
    if isinstance(value, str):
        yield path

    # An object has keys, a list positions; any other value has nothing inside.
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        is_name = isinstance(key, str) and key.isidentifier()
        yield from _text_paths(inner, f"{path}.{key}" if is_name else f"{path}[{key!r}]")


# -- streams of server-sent events

# The data of the last event.
_DONE = b"[DONE]"
# A line of a stream, with its line end: CRLF, CR or LF, as server-sent events allow.
_LINE = re.compile(rb"([^\r\n]*+)(?:\r\n?|\n|\Z)")
_MOST_PIECES = 200_000
"""Maximum number of lines of data in a stream; more than any real answer has."""
_LAST_RESPONSES = ("response.completed", "response.incomplete", "response.failed")
"""Events of the Responses API that contain the whole reply."""
# The keys of a streamed message that are kept.
_MESSAGE_KEYS = frozenset({"content", "refusal", "tool_calls", *shapes.REASONING_FIELDS})
_KEYS_IN_PIECES = _MESSAGE_KEYS | {"text", "thinking", "summary", "data", "name", "arguments", "signature"}
"""Keys of a message and its parts with texts that arrive in pieces. Other texts arrive whole."""
_MOST_OPEN = 64
"""Only this many of the latest parts of a list may still grow."""


def read_stream(body: bytes) -> tuple[dict[str, JSON], int | None]:
    """Return the chat completion in a stream, or the whole reply at the end of a stream of the Responses API.

    The second value is the number of bytes up to the end of the event with the first token, or None without a token. If
    an event is an error, that error is the reply.

    Raises:
        UnreadableReplyError: the events are not pieces of a chat completion, or the stream broke off.
    """
    answer = _StreamedAnswer()
    first_token_end: int | None = None

    for data, end in _events(body):
        if data == _DONE:
            answer.done = True
            break

        # An error, or the last event of the Responses API, is the whole reply.
        piece = _piece(data)
        if piece.get("error"):
            return piece, first_token_end
        reply = piece.get("response")
        if isinstance(reply, dict) and piece.get("type") in _LAST_RESPONSES:
            return reply, first_token_end

        # The first token has arrived when its whole event has.
        if answer.add(piece) and first_token_end is None:
            first_token_end = end
    return answer.whole(), first_token_end


def _piece(data: bytes) -> dict[str, JSON]:
    """Return the JSON object in the data of an event, or {} for other JSON.

    Raises:
        UnreadableReplyError: the data is not JSON.
    """
    try:
        return object_or_empty(read_json(data))
    except ValueError:
        raise UnreadableReplyError(
            "an event of the streamed reply is not JSON: check the endpoint's url, or turn off streaming in the service"
        ) from None


def _events(body: bytes) -> Iterator[tuple[bytes, int]]:
    """Yield the data of each event and the position of its end in the body.

    A line `data: {"id": 1}` and an empty line give the data `{"id": 1}`. Several `data:` lines before the empty line
    are joined with line feeds. Comments and lines with other fields, such as `event:`, are skipped. Empty events are
    skipped, too: servers send them to keep the connection alive.

    Raises:
        UnreadableReplyError: there are too many lines of data.
    """
    lines: list[bytes] = []
    count = 0
    start = len(codecs.BOM_UTF8) if body.startswith(codecs.BOM_UTF8) else 0
    for line in _LINE.finditer(body, start):
        text = line[1]
        if text.startswith(b"data:"):
            lines.append(text[5:].removeprefix(b" "))
            count += 1
            if count > _MOST_PIECES:
                raise UnreadableReplyError(f"a stream has over {_MOST_PIECES:,} events: lower max_tokens", lasting=True)

        # An empty line ends the event; the end of the body counts as one.
        elif not text:
            if data := b"\n".join(lines).strip():
                yield data, line.end()
            lines = []


class _Pieces(msgspec.Struct, frozen=True):
    """The pieces of a text under a key of a message, such as ["The wea", "ther is", " fine."] under `content`."""

    key: str
    pieces: list[str] = msgspec.field(default_factory=list)

    @property
    def text(self) -> str:
        """The joined pieces, or only the last piece if it repeats the text before it.

        Some servers send the text so far in each piece ("grows"), or the whole text again at the end. The last piece
        is the whole text in these cases:

            a function's name   the pieces grow, or the last one equals all before it
            arguments           the last piece alone is a JSON object, all pieces together are not JSON, and the pieces
                                grow or those before the last give the same object
            other texts         the last of at least three different pieces has 20 characters or more, and the pieces
                                grow or the last one equals all before it
        """
        *earlier, last = self.pieces or [""]
        before, whole = "".join(earlier), "".join(self.pieces)
        grows = bool(earlier) and all(later.startswith(piece) for piece, later in pairwise(self.pieces))

        if self.key == "name":
            repeats = grows or before == last
        elif self.key == "arguments":
            call = value_of(last)
            repeats = isinstance(call, dict) and value_of(whole) is None and (grows or value_of(before) == call)
        else:
            # Short texts may grow by chance, such as "ha" and "haha".
            repeats = len(last) >= 20 and len({*self.pieces}) > 2 and (grows or before == last)
        return last if repeats else whole


def merge_delta(message: dict[str, object], delta: Mapping[str, JSON]) -> None:
    """Merge a piece into a message: join texts, merge list items by index, keep the first of other values.

    The pieces {"content": "It ra"} and {"content": "ins."} make a message with the content "It rains." The pieces
    {"tool_calls": [{"index": 0, "function": {"name": "get_weather"}}]} and
    {"tool_calls": [{"index": 0, "function": {"arguments": "{}"}}]} make one call.

    Raises:
        UnreadableReplyError: a list has too many parts.
    """
    for key, piece in delta.items():
        # An object is complete: its lists are values of the call, not parts of a message.
        value = text_or_json(piece) if key == "arguments" and isinstance(piece, dict) else piece
        before = message.get(key)

        # A text and a list under one key: the earlier text becomes the first part of the list.
        if isinstance(value, list) or isinstance(before, list):
            message[key] = parts = before if isinstance(before, list) else []
            pieces: list[JSON] = value if isinstance(value, list) else [value]
            _merge_parts(parts, [before.text, *pieces] if isinstance(before, _Pieces) else pieces)

        # An object, such as the function of a call, is merged key by key.
        elif isinstance(value, dict):
            inner = message[key] = before or {}
            if isinstance(inner, dict):
                merge_delta(inner, value)

        # A text is joined at the end, when all pieces show whether they repeat each other.
        elif isinstance(value, str) and key in _KEYS_IN_PIECES and (before is None or isinstance(before, _Pieces)):
            message[key] = text = before or _Pieces(key)
            if value:
                text.pieces.append(value)
        elif before is None:
            message[key] = value


def _merge_parts(parts: list[dict[str, object]], pieces: list[JSON]) -> None:
    """Add each piece to the part that it continues, or as a new part. A plain text is a piece of a text part.

    Raises:
        UnreadableReplyError: there are too many parts.
    """
    for piece in pieces:
        fields = {"type": "text", "text": piece} if isinstance(piece, str) else piece

        # Items of other types carry nothing that a message could show.
        if not isinstance(fields, dict):
            continue

        part = _continued_part(parts, fields)
        if part is None:
            part = {}
            parts.append(part)
            if len(parts) > MAX_CALLS:
                raise UnreadableReplyError(f"over {MAX_CALLS:,} calls or parts came: lower max_tokens", lasting=True)

        merge_delta(part, fields)


def _continued_part(parts: list[dict[str, object]], piece: Mapping[str, JSON]) -> dict[str, object] | None:
    """Return the part that a piece continues, or None if the piece begins a new part.

    Only the latest 64 parts are considered: those with the piece's index, or all of them if the piece has none. The
    last of them is the part, unless the piece has another type or id. If the piece has a function without a name, the
    ids may differ.
    """
    index, function = piece.get("index"), piece.get("function")
    candidates = [part for part in parts[-_MOST_OPEN:] if not isinstance(index, int) or part.get("index") == index]

    if not candidates:
        return None

    # Servers that give each piece of a call another id name the function only in the first piece.
    keys = ("type",) if isinstance(function, dict) and not function.get("name") else ("id", "type")
    is_other = any(piece.get(key) and candidates[-1].get(key) not in (None, piece[key]) for key in keys)
    return None if is_other else candidates[-1]


def _as_json(value: object) -> JSON:
    """Return a merged value as JSON: pieces as one text, and list items without their index."""
    if isinstance(value, _Pieces):
        return value.text
    if isinstance(value, list):
        return [{key: _as_json(item) for key, item in part.items() if key != "index"} for part in value]
    if isinstance(value, dict):
        return {key: _as_json(item) for key, item in value.items()}
    return cast("JSON", value)


class _StreamedAnswer(msgspec.Struct):
    """The part of an answer received so far. Only the first choice is read.

    `envelope` has the fields of the reply around the choices, such as its id and model. `begun`: a piece of the choice
    has arrived. `done`: the event `[DONE]` has arrived. `has_other_events`: some events have no choices and are not of
    the Responses API.
    """

    envelope: dict[str, JSON] = msgspec.field(default_factory=dict)
    message: dict[str, object] = msgspec.field(default_factory=dict)
    finish_reason: JSON = None
    usage: JSON = None
    error: JSON = None
    begun: bool = False
    done: bool = False
    has_other_events: bool = False

    def add(self, piece: Mapping[str, JSON]) -> bool:
        """Add a piece of the stream. Return whether it contained reasoning, text or a call."""
        # An event without choices: a keep-alive, an event of the Responses API, or another protocol.
        if "choices" not in piece:
            kind = str(piece.get("type"))
            self.has_other_events = self.has_other_events or not kind.startswith("response.")
            return kind.startswith("response.") and kind.endswith(".delta")

        self.envelope = self.envelope or {key: piece[key] for key in piece if key not in ("choices", "usage", "object")}
        self.usage = piece.get("usage") or self.usage

        # Only the first of several choices (`n` above 1) is read.
        choice = first_choice(piece)
        if choice is None or choice.get("index") not in (None, 0):
            return False

        self.begun = True
        self.finish_reason = choice.get("finish_reason") or self.finish_reason
        self.error = choice.get("error") or self.error

        # Some servers send a whole message instead of a delta.
        fields = object_or_empty(choice.get("delta") or choice.get("message"))

        # The API of 2023 had one call, without an index.
        if function := fields.get("function_call"):
            fields = {**fields, "tool_calls": [{"index": 0, "function": function}]}

        usable = {key: value for key, value in fields.items() if value and isinstance(value, (str, list))}
        content = {key: value for key, value in usable.items() if key in _MESSAGE_KEYS}
        merge_delta(self.message, content)
        return bool(content)

    def whole(self) -> dict[str, JSON]:
        """Return the chat completion.

        Raises:
            UnreadableReplyError: the stream is not of chat completions, or ended before the answer was complete.
        """
        if not self.begun and self.has_other_events:
            problem = "the streamed reply is not a chat completion: check the url, or turn off streaming in the service"
            raise UnreadableReplyError(problem, lasting=True)

        if not self.begun or not (self.done or self.finish_reason):
            raise UnreadableReplyError("the streamed reply broke off before its end: see the server's log")

        merged = {key: _as_json(value) for key, value in self.message.items()}
        message: dict[str, JSON] = {"role": "assistant", "content": None, **merged}
        calls = message.get("tool_calls")
        if isinstance(calls, list):
            message["tool_calls"] = [{"type": "function", **call} for call in calls if isinstance(call, dict)]

        choice: JSON = {"message": message, "finish_reason": self.finish_reason, "error": self.error}
        return {**self.envelope, "object": "chat.completion", "choices": [choice], "usage": self.usage}
