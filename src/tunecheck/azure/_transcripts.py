"""Messages of agents as the prompts of Azure AI Evaluation show them: turn by turn, calls and results in lines."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import groupby

Message = Mapping[str, object]

_CALLS = ("tool_call", "function_call", "openapi_call")
_RESULTS = ("tool_result", "function_call_output", "openapi_call_output")


def history(query: object, *, with_system: bool = False) -> object:
    """Messages as turns of `User` and `Agent`, the last system message before them; all else as it is."""
    messages = _messages(query)
    said = [each for each in messages if each.get("role") in ("user", "assistant", "tool")]
    if not said or said[0]["role"] != "user" or said[-1]["role"] != "user":  # no question stands last
        return query
    blocks, turn = [], 0
    system = [each for each in messages if with_system and each.get("role") == "system"]
    if system:
        blocks.append(_block("SYSTEM_PROMPT:", ["\n".join(_texts(system[-1]))]))
    for is_user, group in groupby(said, lambda each: each["role"] == "user"):
        turn += is_user
        texts = [text for each in group if each["role"] != "tool" for text in _texts(each)]
        blocks.append(_block(f"{'User' if is_user else 'Agent'} turn {turn}:", texts))
    return "".join(blocks)


def answer(response: object, *, with_calls: bool = False) -> object:
    """Of an agent's messages their texts, with calls and their results a line each; all else as it is."""
    messages = _messages(response)
    lines = list(_lines(messages, with_calls=with_calls))
    return "\n".join(lines) if lines else response


def results(messages: object) -> dict[object, object]:
    """What tools gave back, by the id of the call."""
    return {each.get("tool_call_id"): _given_back(each) for each in _messages(messages) if each.get("role") == "tool"}


def called(response: object, types: Collection[str] = ("tool_call",)) -> list[Message]:
    """The calls of an agent's response, each with its result where there is one."""
    found = results(response)
    said = [each for each in _messages(response) if each.get("role") == "assistant"]
    calls = [part for each in said for part in _messages(each.get("content")) if part.get("type") in types]
    ids = [call.get("tool_call_id") for call in calls]
    return [{**call, "tool_result": found[id]} if id in found else call for call, id in zip(calls, ids, strict=True)]


def found_in_files(response: list[object]) -> tuple[str, list[object]]:
    """What an agent's file searches found, file by file, and its response without these results."""
    searches = [call for call in called(response) if call.get("name") == "file_search"]
    lines = [
        f"{each.get('file_name', 'Unknown file name')}:\n- {part['text']}---\n\n"
        for search in searches
        for result in _listed(search.get("tool_result"))
        for each in _messages(result if isinstance(result, list) else [result])
        for part in _messages(each.get("content"))
        if part.get("text")
    ]
    ids = [search.get("tool_call_id") for search in searches] if lines else []
    rest = [each for each in response if not (isinstance(each, Mapping) and each.get("tool_call_id") in ids)]
    return "\n".join(lines), rest


def _listed(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _given_back(message: Message) -> object:
    content = message.get("content")
    held = [part[key] for part in _messages(content) for key in _RESULTS if key in part]
    return held[-1] if held else content


def _lines(messages: list[Message], *, with_calls: bool) -> Iterator[str]:
    tools = [each for each in messages if each.get("role") == "tool"]
    for message in messages:
        if message.get("role") != "assistant":
            continue
        yield from _texts(message)
        for call in called([message, *tools], _CALLS) if with_calls else ():
            given = call.get("arguments")
            arguments = (
                f'{name}="{value}"' if isinstance(value, str) else f"{name}={value}"
                for name, value in (given.items() if isinstance(given, Mapping) else ())
            )
            yield f"[TOOL_CALL] {call.get('name', '')}({', '.join(arguments)})"
            if "tool_result" in call:
                yield f"[TOOL_RESULT] {_written(call['tool_result'])}"


def _messages(value: object) -> list[Message]:
    return [each for each in value if isinstance(each, Mapping)] if isinstance(value, list) else []


def _texts(message: Message) -> list[str]:
    content = message.get("content")
    if isinstance(content, str):
        return [content]
    parts: Iterable[object] = content if isinstance(content, list) else ()
    return [str(part["text"]) for part in parts if isinstance(part, Mapping) and "text" in part]


def _written(result: object) -> str:
    if isinstance(result, str):
        return result
    return "" if result is None else json.dumps(result, ensure_ascii=False, default=str)


def _block(title: str, texts: Iterable[str]) -> str:
    lines = [f"  {line}\n" for text in texts for line in text.split("\n")]
    return f"{title}\n{''.join(lines)}\n"
