"""Spellings of calls in text, and texts that are none, written by hand after what models answered BFCL with in 2024.

None of them is any model's own answer. Half of them, by a hash, were not looked at while the reading was written.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

Call = tuple[str, dict[str, Any]]


def _tool(name: str, **properties: str) -> dict[str, Any]:
    schema = {"type": "object", "properties": {key: {"type": kind} for key, kind in properties.items()}}
    return {"type": "function", "function": {"name": name, "parameters": schema}}


TOOLS = [
    _tool("get_weather", city="string", days="integer"),
    _tool("math.add", a="integer", b="integer"),
    _tool("find_flights", route="object", dates="array"),
    _tool("stop"),
]

_WEATHER: list[Call] = [("get_weather", {"city": "Rome", "days": 3})]
_ADD: list[Call] = [("math.add", {"a": 1, "b": 2})]
_ADD_UNDERSCORED: list[Call] = [("math_add", {"a": 1, "b": 2})]
_BOTH = _WEATHER + _ADD
_TWICE = [*_WEATHER, ("get_weather", {"city": "Oslo", "days": 1})]
_FLIGHTS: list[Call] = [("find_flights", {"route": {"from": "Rome", "to": "Oslo"}, "dates": ["1 May", "2 May"]})]
_STOP: list[Call] = [("stop", {})]

_CALLS: list[tuple[list[Call], list[str]]] = [
    (
        _WEATHER,
        [
            "get_weather(city='Rome', days=3)",
            'get_weather(city="Rome", days=3);',
            "[get_weather(city='Rome', days=3)]",
            "[get_weather(city='Rome', days=3)];",
            "[get_weather(city='Rome', days=3)].",
            " [ get_weather( city = 'Rome' , days = 3 ) ] ",
            "get_weather(\n    city='Rome',\n    days=3,\n)",
            "[\n    get_weather(\n        city='Rome',\n        days=3\n    )\n]",
            "`get_weather(city='Rome', days=3)`",
            "`[get_weather(city='Rome', days=3)]`",
            "```\nget_weather(city='Rome', days=3)\n```",
            "```python\nget_weather(city='Rome', days=3)\n```",
            "```python\n[get_weather(city='Rome', days=3)]\n```",
            "```\n[get_weather(city='Rome', days=3)]\n```",
            "```json\n[get_weather(city='Rome', days=3)]\n```",
            "```python\nget_weather(city='Rome', days=3);\n```",
            "```[get_weather(city='Rome', days=3)]```",
            "```get_weather(city='Rome', days=3)```",
            '{"get_weather": {"city": "Rome", "days": 3}}',
            '[{"get_weather": {"city": "Rome", "days": 3}}]',
            "{'get_weather': {'city': 'Rome', 'days': 3}}",
            "[{'get_weather': {'city': 'Rome', 'days': 3}}]",
            '```json\n{"get_weather": {"city": "Rome", "days": 3}}\n```',
            '```json\n[{"get_weather": {"city": "Rome", "days": 3}}]\n```',
            '[{"get_weather": "{\\"city\\": \\"Rome\\", \\"days\\": 3}"}]',
            '{"get_weather": "{\\"city\\": \\"Rome\\", \\"days\\": 3}"}',
            "[\"get_weather(city='Rome', days=3)\"]",
            "['get_weather(city=\"Rome\", days=3)']",
            "[\"[get_weather(city='Rome', days=3)]\"]",
            "```json\n[\"get_weather(city='Rome', days=3)\"]\n```",
            '[["get_weather", {"city": "Rome", "days": 3}]]',
            '["get_weather", {"city": "Rome", "days": 3}]',
            "[('get_weather', {'city': 'Rome', 'days': 3})]",
            'get_weather\n{"city": "Rome", "days": 3}',
            'get_weather\n\n{"city": "Rome", "days": 3}',
            'get_weather {"city": "Rome", "days": 3}',
            'get_weather: {"city": "Rome", "days": 3}',
            'get_weather{"city": "Rome", "days": 3}',
            'get_weather\n```json\n{"city": "Rome", "days": 3}\n```',
            "get\\_weather(city='Rome', days=3)",
            "[get\\_weather(city='Rome', days=3)]",
            'get\\_weather\n{"city": "Rome", "days": 3}',
            '[{"get\\_weather": {"city": "Rome", "days": 3}}]',
            '{"name": "get\\_weather", "arguments": {"city": "Rome", "days": 3}}',
            '{"name": "get_weather", "arguments": {"city": "Rome", "days": 3}}',
            '{"name": "get_weather", "parameters": {"city": "Rome", "days": 3}}',
            '{"name": "get_weather", "args": {"city": "Rome", "days": 3}}',
            '{"name": "get_weather", "input": {"city": "Rome", "days": 3}}',
            '{"function": "get_weather", "parameters": {"city": "Rome", "days": 3}}',
            '{"function": "get_weather", "arguments": {"city": "Rome", "days": 3}}',
            '{"function_name": "get_weather", "arguments": {"city": "Rome", "days": 3}}',
            '{"tool": "get_weather", "args": {"city": "Rome", "days": 3}}',
            '{"tool_name": "get_weather", "parameters": {"city": "Rome", "days": 3}}',
            '{"action": "get_weather", "action_input": {"city": "Rome", "days": 3}}',
            '[{"function": "get_weather", "parameters": {"city": "Rome", "days": 3}}]',
            '```json\n{"function": "get_weather", "parameters": {"city": "Rome", "days": 3}}\n```',
            '{"function": {"name": "get_weather", "arguments": {"city": "Rome", "days": 3}}}',
            '{"type": "function", "function": {"name": "get_weather", "arguments": {"city": "Rome", "days": 3}}}',
            '{"arguments": {"city": "Rome", "days": 3}, "name": "get_weather"}',
            "{'name': 'get_weather', 'arguments': {'city': 'Rome', 'days': 3}}",
            "Here is the call:\n[get_weather(city='Rome', days=3)]",
            "[get_weather(city='Rome', days=3)]\n\nThis asks for the weather in Rome.",
            "Sure!\n\n```python\n[get_weather(city='Rome', days=3)]\n```",
            "Sure!\n\n```python\nget_weather(city='Rome', days=3)\n```",
            'To answer this I call:\n\n```json\n{"name": "get_weather", "arguments": {"city": "Rome", "days": 3}}\n```',
            '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Rome", "days": 3}}\n</tool_call>',
            'Action: get_weather\nAction Input: {"city": "Rome", "days": 3}',
            'Action: get_weather\nAction Input:\n```json\n{"city": "Rome", "days": 3}\n```\nObservation: sun',
            "Thought: I look.\nAction: get_weather(city='Rome', days=3)",
            'Action:\n```json\n{"action": "get_weather", "action_input": {"city": "Rome", "days": 3}}\n```',
            "[get_weather(city='Rome', days=3)",
            "get_weather(city='Rome', days=3)]",
            "[get_weather(city: 'Rome', days: 3)]",
            '[get_weather("city"="Rome", "days"=3)]',
            "[get_weather(city=Rome, days=3)]",
            "print(get_weather(city='Rome', days=3))",
            "weather = get_weather(city='Rome', days=3)",
            "await get_weather(city='Rome', days=3)",
            "# The weather\nget_weather(city='Rome', days=3)",
            "1. get_weather(city='Rome', days=3)",
            "- `get_weather(city='Rome', days=3)`",
            "Function call: get_weather(city='Rome', days=3)",
            "**Function call**: `[get_weather(city='Rome', days=3)]`",
            "```tool_code\nprint(default_api.get_weather(city='Rome', days=3))\n```",
            "<tool_code>\nget_weather(city='Rome', days=3)\n</tool_code>",
            "Call: get_weather(city='Rome', days=3)<bot_end> \nThought: It asks for the weather.",
            "<<function>>get_weather(city='Rome', days=3)",
            "<|tool_call_start|>\n```python\nget_weather(city='Rome', days=3)\n```\n<|tool_call_end|>",
            "get_weather\n```python\ntool_call(city='Rome', days=3)\n```",
            '✿FUNCTION✿: get_weather\n✿ARGS✿: {"city": "Rome", "days": 3}\n✿RESULT✿',
            'get_weather\n<|content|>{"city": "Rome", "days": 3}',
            '{"name": "get_weather", "params": {"city": "Rome", "days": 3}}',
            '{"tool": "get_weather", "tool_input": {"city": "Rome", "days": 3}}',
            '{"functions": [{"name": "get_weather", "arguments": {"city": "Rome", "days": 3}}]}',
            '[{"function": {"name": "get_weather", "parameters": {"city": "Rome", "days": 3}}}]',
        ],
    ),
    (
        _ADD,
        [
            "math.add(a=1, b=2)",
            "[math.add(a=1, b=2)]",
            "math.add(a=1, b=2);",
            '{"math.add": {"a": 1, "b": 2}}',
            '[{"math.add": {"a": 1, "b": 2}}]',
            'math.add\n{"a": 1, "b": 2}',
            '["math.add(a=1, b=2)"]',
            '{"name": "math.add", "arguments": {"a": 1, "b": 2}}',
            "```\nmath.add(a=1, b=2)\n```",
            "[math.add(b=2, a=1)]",
        ],
    ),
    (
        _ADD_UNDERSCORED,
        [
            "math_add(a=1, b=2)",
            "[math_add(a=1, b=2)]",
            '{"name": "math_add", "arguments": {"a": 1, "b": 2}}',
            '[{"math_add": {"a": 1, "b": 2}}]',
            'math_add\n{"a": 1, "b": 2}',
            "math\\_add(a=1, b=2)",
        ],
    ),
    (
        _BOTH,
        [
            "[get_weather(city='Rome', days=3), math.add(a=1, b=2)]",
            "get_weather(city='Rome', days=3), math.add(a=1, b=2)",
            "get_weather(city='Rome', days=3); math.add(a=1, b=2)",
            "get_weather(city='Rome', days=3)\nmath.add(a=1, b=2)",
            "```python\nget_weather(city='Rome', days=3)\nmath.add(a=1, b=2)\n```",
            '[{"get_weather": {"city": "Rome", "days": 3}}, {"math.add": {"a": 1, "b": 2}}]',
            '{"get_weather": {"city": "Rome", "days": 3}, "math.add": {"a": 1, "b": 2}}',
            '["get_weather(city=\'Rome\', days=3)", "math.add(a=1, b=2)"]',
            '[["get_weather", {"city": "Rome", "days": 3}], ["math.add", {"a": 1, "b": 2}]]',
            'get_weather\n{"city": "Rome", "days": 3}\nmath.add\n{"a": 1, "b": 2}',
            '{"get_weather": {"city": "Rome", "days": 3}}\n{"math.add": {"a": 1, "b": 2}}',
            '{"name": "get_weather", "arguments": {"city": "Rome", "days": 3}}\n'
            '{"name": "math.add", "arguments": {"a": 1, "b": 2}}',
            '[{"name": "get_weather", "arguments": {"city": "Rome", "days": 3}}, '
            '{"name": "math.add", "arguments": {"a": 1, "b": 2}}]',
            "[get_weather(city='Rome', days=3)]\n[math.add(a=1, b=2)]",
            '{"function": "get_weather", "parameters": {"city": "Rome", "days": 3}}; '
            '{"function": "math.add", "parameters": {"a": 1, "b": 2}}',
        ],
    ),
    (
        _TWICE,
        [
            "[get_weather(city='Rome', days=3), get_weather(city='Oslo', days=1)]",
            "get_weather(city='Rome', days=3)\n\nget_weather(city='Oslo', days=1)",
            '[{"get_weather": {"city": "Rome", "days": 3}}, {"get_weather": {"city": "Oslo", "days": 1}}]',
            "[get\\_weather(city='Rome', days=3), get\\_weather(city='Oslo', days=1)]",
        ],
    ),
    (
        _FLIGHTS,
        [
            "find_flights(route={'from': 'Rome', 'to': 'Oslo'}, dates=['1 May', '2 May'])",
            "[find_flights(route={'from': 'Rome', 'to': 'Oslo'}, dates=['1 May', '2 May'])]",
            '{"find_flights": {"route": {"from": "Rome", "to": "Oslo"}, "dates": ["1 May", "2 May"]}}',
            'find_flights\n{"route": {"from": "Rome", "to": "Oslo"}, "dates": ["1 May", "2 May"]}',
        ],
    ),
    ([("functions.get_weather", {"city": "Rome", "days": 3})], ["functions.get_weather(city='Rome', days=3)"]),
    (_STOP, ["stop()", "[stop()]", '{"stop": {}}', '[{"stop": {}}]', '{"name": "stop", "arguments": {}}']),
]

_NO_CALLS = [
    '[{"paris": {"lat": 48.9, "lon": 2.4}}]',
    '{"paris": {"lat": 48.9, "lon": 2.4}}',
    "[{'paris': {'lat': 48.9, 'lon': 2.4}}]",
    '```json\n[{"paris": {"lat": 48.9, "lon": 2.4}}]\n```',
    '[{"Rome": {"days": 3}}, {"Oslo": {"days": 1}}]',
    '{"answer": {"text": "Take an umbrella."}}',
    '[{"answer": {"text": "Take an umbrella."}}]',
    '```json\n{"answer": {"text": "Take an umbrella."}}\n```',
    '["answer", {"text": "Take an umbrella."}]',
    '[["Rome", {"days": 3}]]',
    '["Rome (Italy)", "Oslo (Norway)"]',
    '{"name": "Rome", "parameters": {"days": 3}}',
    '{"function": "sine", "parameters": {"period": 2}}',
    '{"function": "get_weather"}',
    '{"name": "get_weather", "description": "The weather", "parameters": {"type": "object", "properties": {}}}',
    '{"get_weather": {"type": "object", "properties": {"city": {"type": "string"}}}}',
    "[]",
    "{}",
    "",
    "I cannot do that.",
    "None of the functions fits the question.",
    "I would call get_weather, but I do not know the city.",
    "You can call get_weather(city, days) once you know the city.",
    "The function get_weather takes the parameters city and days.",
    "get_weather is the right function here.",
    "get_weather",
    "`get_weather`",
    "math.add is not what you need: it adds (a, b).",
    "print('get_weather')",
    "def get_weather(city, days):\n    return 'sunny'",
    "f(x) = x**2 + 1",
    "sin(x=1)",
    "[sin(x=1)]",
    "See [the guide](https://example.com/guide).",
    "[1] The first note (see page 3).",
    "The area is (a + b) * h / 2.",
    "In Rome (Italy), it rains for 3 days; in Oslo (Norway), for 1.",
    "<think>get_weather(city='Rome', days=3)</think>I need no function for that.",
    "I could use get_weather(city='Rome', days=3)</think>I need no function for that.",
    "```python\nimport math\nprint(math.sqrt(2))\n```",
    "```\nsome text (with brackets)\n```",
    '{"city": "Rome", "days": 3}',
    "city='Rome', days=3",
    "1. Rome\n2. Oslo (Norway)",
    "Which city do you mean (Rome, Italy or Rome, Georgia)?",
    "get_weather(city: str, days: int = 1) -> dict",
    "get_weather(city: string, days: integer)",
    'The object would be {"name": "get_weather", "arguments": {"city": "Rome"}} if I could call it.',
    "You could say [get_weather(city='Rome')] for that.",
    "Action: none needed (it is fine).",
    "Call: 555 (ask for Ann)",
    "Output: 42",
    'Action:\n```json\n{"action": "Final Answer", "action_input": "Sunny."}\n```',
    '{"name": "Ann", "arguments": ["for", "against"]}',
    '{"functions": [{"name": "sine", "arguments": {"period": 2}}]}',
    "weather = get_weather(city)\nif weather:\n    print(weather)",
    "for city in cities:\n    get_weather(city=city)",
    "The mark of Hermes is `<tool_call>`.",
]
"""What a model says without calling: data, prose, definitions, thoughts, functions that nobody offered."""


def held_out(text: str) -> bool:
    """Whether the spelling belongs to the half that nobody looked at while the reading was written."""
    return hashlib.sha256(f"20261122 {text}".encode()).digest()[0] % 2 == 0


def spellings() -> Iterator[tuple[str, list[Call]]]:
    """Each text with the calls that it makes."""
    for calls, texts in _CALLS:
        yield from ((text, calls) for text in texts)
    yield from ((text, []) for text in _NO_CALLS)
