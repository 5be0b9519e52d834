"""Cases for reading calls: official chat templates rendered with calls of many kinds, minus the prompt.

A case is what a model of a family emits, with the calls that went in. Nothing of a template is kept in the repository.
"""

from __future__ import annotations

import copy
import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jinja2 import Template
from jinja2.sandbox import SandboxedEnvironment

from tunecheck import Reading

Call = tuple[str, dict[str, Any]]


@dataclass(frozen=True)
class Case:
    """What a model says, the tools of its row, and what it means."""

    family: str
    label: str
    raw: str
    tools: list[dict[str, Any]]
    calls: list[Call]

    @property
    def held_out(self) -> bool:
        """Whether the case belongs to the third that nobody looks at while tuning."""
        digest = hashlib.sha256(f"20261122 {self.family} {self.label}".encode()).digest()
        return digest[0] % 3 == 0


ARGUMENTS: dict[str, list[Call]] = {
    "plain": [("get_weather", {"city": "Paris", "days": 3})],
    "no arguments": [("stop", {})],
    "nested": [
        (
            "plan_trip",
            {"stops": [{"city": "Rome", "nights": 2}, {"city": "Bari", "nights": 1}], "meta": {"a": {"b": [1, 2]}}},
        )
    ],
    "unicode": [("translate", {"text": "Zürich – 東京 🚀 ñandú", "to": "日本語"})],
    "quotes": [("send_message", {"to": "O'Neil", "text": 'She said "it\'s fine" and left.'})],
    "apostrophe": [("send_message", {"to": "Ann", "text": "It's Ann's turn"})],
    "double quotes": [("send_message", {"to": "Bob", "text": 'the "best" one'})],
    "braces": [("render", {"template": "{{name}} [x] {y} }{ ][", "depth": 2})],
    "tags": [("render", {"template": "<b>bold</b> <br/> a < b && c > d", "depth": 0})],
    "own tags": [("render", {"template": "see <tool_call> and </tool_call> or [TOOL_CALLS]", "depth": 1})],
    "thought tags": [("render", {"template": "before </think> after <think>", "depth": 1})],
    "numbers as strings": [("set_code", {"code": "00123", "phone": "5551234", "flag": "true", "none": "null"})],
    "booleans": [("configure", {"on": True, "off": False, "level": 0})],
    "null": [("configure", {"note": None, "level": 1, "name": "x"})],
    "negatives": [("move", {"x": -3, "y": -0.25, "path": [-1, 2.5, -3.75]})],
    "big numbers": [("pay", {"amount": 1234567.89, "account": 12345678901234, "rate": 1e-05})],
    "empty values": [("store", {"text": "", "items": [], "map": {}})],
    "lines": [("write_file", {"path": "a/b.txt", "text": "line one\nline two\n\n  indented\n"})],
    "code": [("run_code", {"source": "def f(a):\n    return {'k': [a, \"b\"]}  # done\n\nprint(f(1))"})],
    "backslashes": [("find", {"pattern": "\\d+\\.\\w*", "folder": "C:\\temp\\new"})],
    "list of texts": [("tag", {"labels": ["a", "b c", "d, e"], "ids": [1, 2, 3]})],
    "list of booleans": [("vote", {"votes": [True, False, None], "by": ["x"]})],
    "nested strings": [("update", {"record": {"name": 'Zoë "Z"', "note": "it's <ok>", "tags": ["a:b", "c=d"]}})],
    "dotted name": [("weather.get_current", {"city": "Oslo"})],
    "dashed name": [("get-user-info", {"user-id": 7})],
    "two calls": [("get_weather", {"city": "Paris", "days": 3}), ("get_time", {"zone": "UTC"})],
    "same call twice": [("get_weather", {"city": "Rome", "days": 1}), ("get_weather", {"city": "Oslo", "days": 2})],
    "three calls": [
        ("get_weather", {"city": "Lima", "days": 5}),
        ("stop", {}),
        ("send_message", {"to": "X", "text": "a, b"}),
    ],
    "json text": [("post", {"body": '{"a": [1, {"b": "c"}]}', "url": "https://x.y/z?a=1&b=2"})],
    "space": [("store", {"text": "  padded  ", "items": [" a "], "map": {"k": " v "}})],
    "percent": [("search", {"query": "100% of 5 + 3 = 8; really?", "limit": 10})],
    "long": [("write_file", {"path": "long.md", "text": "word " * 300})],
}


def schema_of(value: Any) -> dict[str, Any]:
    if isinstance(value, bool):
        return {"type": "boolean"}
    if isinstance(value, int):
        return {"type": "integer"}
    if isinstance(value, float):
        return {"type": "number"}
    if isinstance(value, str):
        return {"type": "string"}
    if isinstance(value, list):
        return {"type": "array", "items": schema_of(value[0]) if value else {"type": "string"}}
    if isinstance(value, dict):
        return {"type": "object", "properties": {key: schema_of(item) for key, item in value.items()}}
    return {"type": ["string", "null"]}


def tools_of(calls: list[Call]) -> list[dict[str, Any]]:
    made: dict[str, dict[str, Any]] = {"search_web": {"query": {"type": "string", "description": "what"}}}
    for name, arguments in calls:
        made[name] = {key: schema_of(value) | {"description": key} for key, value in arguments.items()}
    return [
        {
            "type": "function",
            "function": {
                "name": name,
                "description": f"Does {name}.",
                "parameters": {"type": "object", "properties": properties, "required": list(properties)},
            },
        }
        for name, properties in made.items()
    ]


# -- rendering --------------------------------------------------------------------------------------------------------

_ENDS = tuple(
    "<|im_end|> <|eot_id|> <|eom_id|> </s> <|endoftext|> <｜end▁of▁sentence｜> <|END_OF_TURN_TOKEN|> <|eot|> "
    "<end_of_turn> <turn|> <|end_of_text|> <|user|> <|observation|> [e~[ <seed:eos> "
    "<|assistant_end|> <|return|> <eos> <|eom|> "
    "<|message_sep|> <|end_of_msg|> <|end_of_sentence|> <end_of_sentence> <SPECIAL_12> <sep> <|tool_response> "
    "<｜hy_eos:opensource｜> <｜Assistant｜> <|assistant|> <|end|> <|EOT|>".split()
)
_NEXT_TURN = re.compile(
    r"(?:<\|END_OF_TURN_TOKEN\|>|<\|eot_id\|>)(?:<\|START_OF_TURN_TOKEN\|>|<\|start_header_id\|>).*\Z", re.DOTALL
)


def environment() -> SandboxedEnvironment:
    made = SandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"])

    def raise_exception(message: str) -> None:
        raise ValueError(message)

    def tojson(value: Any, ensure_ascii: bool = False, indent: int | None = None, **options: Any) -> str:
        return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, **options)

    made.filters["tojson"] = tojson
    made.globals["raise_exception"] = raise_exception
    made.globals["strftime_now"] = lambda pattern: "2026-01-01"
    return made


def without_end(raw: str) -> str:
    raw = _NEXT_TURN.sub("", raw)
    while True:
        raw = raw.rstrip()
        end = next((end for end in _ENDS if raw.endswith(end)), None)
        if end is None:
            return raw
        raw = raw[: -len(end)]


def _common(one: str, other: str) -> str:
    pairs = enumerate(zip(one, other, strict=False))
    return one[: next((length for length, pair in pairs if pair[0] != pair[1]), min(len(one), len(other)))]


def emitted(template: Template, calls: list[Call], *, content: str, thought: str | None, as_text: bool) -> str:
    """What the template makes of an assistant's message with these calls, without the prompt."""
    tools = tools_of(calls)
    user = {"role": "user", "content": "Question?"}
    written = [
        {
            "id": f"abcdefgh{number}",
            "type": "function",
            "function": {"name": name, "arguments": json.dumps(a, ensure_ascii=False) if as_text else copy.deepcopy(a)},
        }
        for number, (name, a) in enumerate(calls)
    ]
    message: dict[str, Any] = {"role": "assistant", "content": content, "tool_calls": written}
    if thought is not None:
        message |= {"reasoning_content": thought, "reasoning": thought, "thinking": thought}

    def render(messages: list[dict[str, Any]], *, prompt: bool) -> str:
        held: str = template.render(
            messages=copy.deepcopy(messages), tools=copy.deepcopy(tools), functions=json.dumps(tools),
            add_generation_prompt=prompt, bos_token="", eos_token="", datetime="now",
        )  # fmt: skip
        return held

    asked, said = render([user], prompt=True), render([user, message], prompt=False)
    common = asked if said.startswith(asked) else _common(said, asked)
    start = len(common)
    if start < len(asked):  # the two part inside a token
        inside = max(common.rfind("<"), common.rfind("["), common.rfind("]<]"))
        closed = max(common.rfind(">"), common.rfind("]", 0, start))
        if inside > closed:
            start = inside
    return without_end(said[start:].removeprefix("<|message_sep|>"))


def template_cases(path: Path, env: SandboxedEnvironment) -> Iterator[Case]:
    source = re.sub(r"{%-?\s*(end)?generation\s*-?%}", "", path.read_text("utf-8"))
    try:
        template = env.from_string(source)
    except Exception:  # noqa: BLE001 - not a template of ours
        return
    family = path.stem
    as_text = None
    for way in (False, True):
        try:
            raw = emitted(template, ARGUMENTS["plain"], content="", thought=None, as_text=way)
        except Exception:  # noqa: BLE001
            continue
        if "Paris" in raw and "get_weather" in raw:
            as_text = way
            break
    if as_text is None:
        return
    for label, calls in ARGUMENTS.items():
        for content, thought, variant in VARIANTS:
            if variant != "alone" and label not in ("plain", "two calls", "quotes", "nested", "no arguments", "tags"):
                continue
            try:
                raw = emitted(template, calls, content=content, thought=thought, as_text=as_text)
            except Exception:  # noqa: BLE001 - a template that refuses several calls, or content beside them
                continue
            if sum(raw.count(name) for name in {name for name, _ in calls}) < len(calls):
                continue  # the template leaves a call out
            yield Case(family, f"{label}, {variant}", raw, tools_of(calls), calls)


VARIANTS: tuple[tuple[str, str | None, str], ...] = (
    ("", None, "alone"),
    ("Let me look that up.", None, "after text"),
    ("", "I need the weather. Maybe search_web? No.", "after a thought"),
    (
        "On it.",
        'I could say <tool_call>{"name": "search_web", "arguments": {"query": "x"}}</tool_call>. No.',
        "after a thought with a call",
    ),
)


_LOSSY = ("gemma3_pythonic", "llama3.2_pythonic", "llama4_pythonic", "toolace")
"""Templates that write values without quotes or escapes: what they make can be read in several ways."""


def all_cases(folder: Path) -> list[Case]:
    """Every case once, whichever templates make it."""
    env = environment()
    made: dict[tuple[str, str], Case] = {}
    for path in sorted(folder.glob("*.jinja")):
        if not any(lossy in path.stem for lossy in _LOSSY):
            for case in template_cases(path, env):
                made.setdefault((case.raw, str(case.calls)), case)
    return list(made.values())


def as_pairs(reading: Reading) -> list[Call]:
    """The calls of a reading as they went into the template."""
    return [(call.name, call.arguments) for call in reading.calls]


def exactly(got: Any, wanted: Any) -> bool:
    """Equal with types: 1 is not True, nor 1.0."""
    if type(got) is not type(wanted):
        return (
            isinstance(got, (int, float)) and isinstance(wanted, float) and not isinstance(got, bool) and got == wanted
        )
    if isinstance(got, Mapping):
        return got.keys() == wanted.keys() and all(exactly(got[key], wanted[key]) for key in got)
    if isinstance(got, (list, tuple)):
        return len(got) == len(wanted) and all(map(exactly, got, wanted))
    return bool(got == wanted)
