"""Agents' messages as text for the prompts of Azure AI Evaluation: turn by turn, a line per call and result.

Messages in Azure's format, in which calls and their results are parts of the content:

    {"role": "user", "content": [{"type": "text", "text": "Weather in Rome?"}]}
    {"role": "assistant", "content": [{"type": "tool_call", "tool_call_id": "c1", "name": "weather",
                                       "arguments": {"city": "Rome"}}]}
    {"role": "tool", "tool_call_id": "c1", "content": [{"type": "tool_result", "tool_result": "sunny"}]}
    {"role": "assistant", "content": [{"type": "text", "text": "It is sunny."}]}

`response_text(…, with_calls=True)` makes these lines of the last three messages:

    [TOOL_CALL] weather(city="Rome")
    [TOOL_RESULT] sunny
    It is sunny.

`history_text` makes blocks of texts only, "User turn 1:", "Agent turn 1:" and so on.

The prompts and scores must be those of Azure AI Evaluation, so messages that it cannot convert, such as a history that
does not end with a question, are passed on unchanged instead of as text.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby, zip_longest

Message = Mapping[str, object]

_CALL, _RESULT = "tool_call", "tool_result"

# OpenAI's types of parts, and the types in Azure's format for which the other functions look.
_RENAMED = {
    "function_call": _CALL,
    "openapi_call": _CALL,
    "function_call_output": _RESULT,
    "openapi_call_output": _RESULT,
}

# The role and type of a request to approve a tool's call, and of the answer to such a request.
_APPROVALS = (("assistant", "mcp_approval_request"), ("tool", "mcp_approval_response"))


def normalize_messages(value: object) -> object:
    """Return messages without approvals, with one type for calls and one for results. Return other values unchanged."""
    if not isinstance(value, list):
        return value
    return [_unify_types(each) for each in value if not _is_approval(each)]


def _is_approval(message: object) -> bool:
    """True for a message that asks for an approval of a tool's call, or answers such a request."""
    return isinstance(message, Mapping) and any(
        (message.get("role"), part.get("type")) in _APPROVALS for part in _messages(message.get("content"))
    )


def _unify_types(message: object) -> object:
    """Return a message with one type for calls and one for results in its content."""
    if not isinstance(message, Mapping) or not _messages(message.get("content")):
        return message
    return {**message, "content": [_rename_keys(part) for part in _as_list(message["content"])]}


def _rename_keys(part: object) -> object:
    """Return a part of a message with the common type and key of calls or of results; other parts are unchanged."""
    type = part.get("type") if isinstance(part, Mapping) else None
    if not isinstance(part, Mapping) or not isinstance(type, str) or type not in _RENAMED:
        return part
    new_type = _RENAMED[type]
    # A part of the type function_call has its data under the key "function_call".
    renamed_keys = () if type == "openapi_call" else (type,)  # the package keeps the key of this type
    return {new_type if key in renamed_keys else key: value for key, value in part.items()} | {"type": new_type}


def history_text(query: object, *, with_system: bool = False) -> object:
    """Return messages as text: turns of `User` and `Agent`. With `with_system`, the last system message comes first.

    Unless questions and replies alternate, with a question at the beginning and end, return the messages.
    Consecutive messages of one side count as one: [user, user, assistant, tool, assistant, user] has two questions and
    one reply. Texts are parts of the content: a question without them, also one with a plain text, does not count.
    """
    messages = _messages(query)

    dialogue = [each for each in messages if each.get("role") in ("user", "assistant", "tool")]

    questions: list[list[str]] = []
    replies: list[list[str]] = []
    # `groupby` makes one group of consecutive messages of one side.
    for is_user, group in groupby(dialogue, lambda each: each["role"] == "user"):
        texts = [text for each in group if each["role"] != "tool" for text in _texts(each)]
        if not is_user:
            replies.append(texts)
        # A question of only images or files has no text.
        elif texts:
            questions.append(texts)

    if len(questions) != len(replies) + 1:
        return query

    blocks = [f"SYSTEM_PROMPT:\n  {text}\n\n" for text in _system(messages) if with_system and text]
    for turn, (question, reply) in enumerate(zip_longest(questions, replies), 1):
        blocks.append(_block(f"User turn {turn}:", question))
        blocks += [] if reply is None else [_block(f"Agent turn {turn}:", reply)]

    return "".join(blocks)


def _system(messages: list[Message]) -> list[str]:
    """Return a list with the text of the last system message, an empty list if there is none."""
    last = [each.get("content", "") for each in messages if each.get("role") == "system"][-1:]
    return [content if isinstance(content, str) else "\n".join(_texts({"content": content})) for content in last]


def response_text(response: object, *, with_calls: bool = False) -> object:
    """Return the texts of an agent's messages, and with `with_calls` a line per call and result.

    Other values are returned unchanged, except that messages are normalized.
    """
    response = normalize_messages(response)

    messages = _messages(response)
    if not isinstance(response, list) or len(messages) < len(response):
        return response

    replies = [each for each in messages if each.get("role") == "assistant"]
    tools = [each for each in messages if each.get("role") == "tool" and "tool_call_id" in each]
    if with_calls and not all(isinstance(each.get("content", []), list) for each in (*replies, *tools)):
        return response

    results = _results(tools) if with_calls else {}
    lines: list[str] = []
    for reply in replies:
        lines += [*_texts(reply), *(_call_lines(reply, results) if with_calls else ())]

    # Messages without any text are returned as messages; an empty list becomes an empty text.
    return "\n".join(lines) if lines or not response else response


def _results(tools: list[Message]) -> dict[object, object]:
    """Return the results of calls by the calls' ids."""
    parts = ((each["tool_call_id"], part) for each in tools for part in _messages(each.get("content")))
    # A later result of the same call replaces an earlier one.
    return {id: part.get(_RESULT) for id, part in parts if part.get("type") == _RESULT}


def _call_lines(message: Message, results: Mapping[object, object]) -> Iterator[str]:
    """Yield a line for each call of a message, and a line for its result if `results` has the call's id."""
    for part in _messages(message.get("content")):
        if part.get("type") != _CALL:
            continue

        # Two forms: the name and arguments in the part itself, or `{"tool_call": {"id": …, "function": {…}}}`.
        nested = part.get(_CALL)
        id, call = part.get("tool_call_id"), part
        if isinstance(nested, Mapping) and isinstance(function := nested.get("function"), Mapping):
            id, call = nested.get("id"), function

        arguments = call.get("arguments")
        texts = (
            f'{name}="{value}"' if isinstance(value, str) else f"{name}={value}"
            for name, value in (arguments.items() if isinstance(arguments, Mapping) else ())
        )

        yield f"[TOOL_CALL] {call.get('name', '')}({', '.join(texts)})"
        if id in results:
            yield f"[TOOL_RESULT] {_result_text(results[id])}"


def system_and_question(query: object) -> tuple[object, object]:
    """Return the last system message and the last question of messages, each empty if missing.

    A value that is not a list is returned as the question.
    """
    # A later message of the same role replaces an earlier one.
    last = {each.get("role"): each.get("content", "") for each in _messages(query)}
    return last.get("system", ""), (last.get("user", "") if isinstance(query, list) else query)


def texts_and_calls(response: object) -> tuple[object, str]:
    """Return the assistant's texts, and its calls with their results, as two texts.

    A response that is not a list of messages is returned unchanged, with an empty text of calls.
    """
    replies: list[str] = []
    tools: list[str] = []

    for message in _messages(response):
        content = message.get("content", "")
        if message.get("role") == "tool":
            tools.append(str(message))
        elif message.get("role") == "assistant":
            replies += _texts(message) if isinstance(content, list) else [str(content)]
            tools += [str(part.get(_CALL, "")) for part in _messages(content) if part.get("type") == _CALL]

    return ("\n".join(replies) if isinstance(response, list) else response), "\n".join(tools)


def calls_with_results(response: object) -> list[Message]:
    """Return the calls of an agent's response, each with its result if the response contains it."""
    tools = [each for each in _messages(response) if each.get("role") == "tool"]
    parts = [(each.get("tool_call_id"), part) for each in tools for part in _messages(each.get("content"))]
    results = {id: part[_RESULT] for id, part in parts if _RESULT in part}

    replies = [each for each in _messages(response) if each.get("role") == "assistant"]
    calls = [part for each in replies for part in _messages(each.get("content")) if part.get("type") == _CALL]

    ids = [call.get("tool_call_id") for call in calls]
    return [{**call, _RESULT: results[id]} if id in results else call for call, id in zip(calls, ids, strict=True)]


def file_search_results(response: list[object]) -> tuple[str, list[object]]:
    """Return the text that an agent's file searches found, and the response without the messages of their results.

    The text is empty if there is none; the response then is unchanged. A result `[{"file_name": "a.md", "content":
    [{"text": "Rome"}]}]` gives the text "a.md:\\n- Rome---", with two line breaks after it.
    """
    searches = [call for call in calls_with_results(response) if call.get("name") == "file_search"]

    # A search has one result or a list of them, and each result has parts with text.
    lines = [
        f"{each.get('file_name', 'Unknown file name')}:\n- {part['text']}---\n\n"
        for search in searches
        for result in _as_list(search.get("tool_result"))
        for each in _messages(result if isinstance(result, list) else [result])
        for part in _messages(each.get("content"))
        if part.get("text")
    ]

    ids = [search.get("tool_call_id") for search in searches] if lines else []
    rest = [each for each in response if not (isinstance(each, Mapping) and each.get("tool_call_id") in ids)]

    return "\n".join(lines), rest


def _as_list(value: object) -> list[object]:
    """Return a list unchanged, and an empty list for any other value."""
    return value if isinstance(value, list) else []


def _messages(value: object) -> list[Message]:
    """Return the objects in a list, which are messages or parts of a message; an empty list for other values."""
    return [each for each in value if isinstance(each, Mapping)] if isinstance(value, list) else []


def _texts(message: Message) -> list[str]:
    """Return the texts of a message's parts; a content that is not a list of parts has none."""
    return [str(part["text"]) for part in _messages(message.get("content")) if "text" in part]


def _result_text(result: object) -> str:
    """Return a result that is a text unchanged, None as "", and other results as JSON."""
    if isinstance(result, str):
        return result
    return "" if result is None else json.dumps(result, ensure_ascii=False, default=str)


def _block(title: str, texts: Iterable[str]) -> str:
    """Return a title with the lines of these texts below, indented, and an empty line after them."""
    lines = [f"  {line}\n" for text in texts for line in text.split("\n")]
    return f"{title}\n{''.join(lines)}\n"
