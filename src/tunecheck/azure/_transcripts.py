"""Messages of agents as the prompts of Azure AI Evaluation show them: turn by turn, calls and results in lines."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby

from tunecheck.evaluators._judges.texts import shown
from tunecheck.formats._reading import read_calls

Message = Mapping[str, object]


def history(query: object, *, with_system: bool = False) -> str:
    """A query: a text as it is; messages as turns of `User` and `Agent`, the last system message before them."""
    messages = _messages(query)
    said = [each for each in messages if each.get("role") in ("user", "assistant", "tool")]
    if not said or said[0]["role"] != "user" or said[-1]["role"] != "user":  # no question stands last
        return query if isinstance(query, str) else shown(query)
    blocks, turn = [], 0
    system = [each for each in messages if with_system and each.get("role") == "system"]
    if system:
        blocks.append(_block("SYSTEM_PROMPT:", ["\n".join(_texts(system[-1]))]))
    for is_user, group in groupby(said, lambda each: each["role"] == "user"):
        turn += is_user
        texts = [text for each in group if each["role"] != "tool" for text in _texts(each)]
        blocks.append(_block(f"{'User' if is_user else 'Agent'} turn {turn}:", texts))
    return "".join(blocks)


def answer(response: object, *, with_calls: bool = False) -> str:
    """An agent's response: a text as it is; of messages their texts, with calls and their results a line each."""
    messages = _messages(response)
    lines = list(_lines(messages, with_calls=with_calls))
    return "\n".join(lines) if lines else response if isinstance(response, str) else shown(response)


def results(messages: object) -> dict[object, object]:
    """What tools gave back, by the id of the call."""
    return {each.get("tool_call_id"): _given_back(each) for each in _messages(messages) if each.get("role") == "tool"}


def _given_back(message: Message) -> object:
    content = message.get("content")
    held = [part["tool_result"] for part in _messages(content) if "tool_result" in part]
    return held[-1] if held else content


def _lines(messages: list[Message], *, with_calls: bool) -> Iterator[str]:
    found = results(messages)
    for message in messages:
        if message.get("role") != "assistant":
            continue
        yield from _texts(message)
        for call in read_calls([message]).calls if with_calls else ():
            arguments = (
                f'{name}="{value}"' if isinstance(value, str) else f"{name}={value}"
                for name, value in call.arguments.items()
            )
            yield f"[TOOL_CALL] {call.name}({', '.join(arguments)})"
            if call.id in found:
                yield f"[TOOL_RESULT] {_written(found[call.id])}"


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
