"""A model's text stays data: nothing raises, and nothing of it runs."""

import json
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, strategies as st
from tests.tables import cases

from tunecheck.calls import FORMATS, FunctionCall, Reading, canonical_text, write_calls
from tunecheck.formats import read_calls, read_python_calls
from tunecheck.plugins import JSON

SEED_CALLS = [
    FunctionCall("get_weather", {"city": "Paris", "days": 3, "opts": {"k": [1, 2.5, None, True]}}, "c1"),
    FunctionCall("a.b-c", {"text": 'it\'s "quoted" </tool_call>\n', "n": -1}),
]
FRAGMENTS = [
    *("<tool_call>", "</tool_call>", "<functioncall>", "<|endoftext|>", "[TOOL_CALLS]", "[ARGS]", "[CALL_ID]"),
    *("</s>", "<|python_tag|>", "<|eom_id|>", "<think>", "</think>", "```json\n", "\n```", "```", "tool_uses"),
    *("functions.", "; ", '{"name": "f", "arguments": {}}', "{'name': 'f', 'arguments': {}}", '"arguments": \'{'),
    *("}'", "[f(a=1)]", "f(", "**{", "{", "}", "[", "]", "(", ")", "'", '"', "\\", ",", ":", "=", "#", "\n", "\x00"),
    *("\ud800", "é", "1e999", "NaN", "0x", "None", "true", "'''", '"""', "\\N{", "\\u", "-", "1_0", "9" * 50, "role"),
    *("assistant", "content", "\u2028", "a" * 30),
]


def mutated(text: str, chance: random.Random) -> str:
    """A text with a few cuts, doublings and insertions of what means something to a reader."""
    for _ in range(chance.randint(1, 4)):
        start = chance.randint(0, len(text))
        end = min(len(text), start + chance.randint(0, 12))
        middle = chance.choice(("", text[start:end] * 2, chance.choice(FRAGMENTS), chr(chance.randint(0, 0x10FFFF))))
        text = text[:start] + middle + text[end:]
    return text


def random_texts(count: int) -> Iterator[str]:
    chance = random.Random(20_261_120)
    written = [write_calls(SEED_CALLS, wire_format) for wire_format in FORMATS]
    seeds = [text if isinstance(text, str) else json.dumps(text) for text in written]
    for _ in range(count // 2):
        yield mutated(chance.choice(seeds), chance)
        yield "".join(chance.choices(FRAGMENTS, k=chance.randint(0, 12)))


def check(reading: Reading) -> None:
    """Check the rule for every reading: each call a name and arguments that can be written."""
    assert reading.complete_calls == (() if reading.problem else reading.calls)
    assert reading.problem is None or (reading.problem and "\n" not in reading.problem and len(reading.problem) <= 400)
    assert isinstance(reading.text, str)
    for call in reading.calls:
        assert isinstance(call.name, str) and call.name.strip()
        assert isinstance(call.arguments, dict)
    canonical_text(reading.calls)
    assert read_calls(write_calls(reading.calls, "openai")).calls == reading.calls


def test_random_and_mutated_texts_raise_nothing() -> None:
    for text in random_texts(3_000):
        check(read_calls(text))


def test_texts_that_are_said_to_be_python_calls_raise_nothing() -> None:
    for text in random_texts(1_000):
        check(read_python_calls(text))


anything = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=10), st.binary(max_size=10),
        st.sampled_from(FRAGMENTS), st.sampled_from(SEED_CALLS), st.builds(object), st.dates(),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.tuples(inner, inner),
        st.dictionaries(st.one_of(st.text(max_size=5), st.integers(), st.none()), inner, max_size=3),
        st.dictionaries(
            st.sampled_from(
                "role content tool_calls function_call tool_uses recipient_name parameters id name arguments "
                "function type message messages choices output tool_call".split()
            ),
            st.one_of(inner, st.sampled_from(["assistant", "tool_call", "function_call", "function", "{}", '{"a":1}'])),
            max_size=5,
        ),
    ),
    max_leaves=20,
)  # fmt: skip


@given(anything)
def test_values_of_any_shape_raise_nothing(value: object) -> None:
    check(read_calls(value))


# Each takes well below a second while the readers stay linear in the text's length, and hours where one is not.
LENGTH = 900_000
TOOLS = [{"name": "f", "parameters": {"type": "object"}}]


@cases("calls")
def test_a_very_long_text_is_read_in_linear_time(head: str, piece: str, tail: str, tools: bool, format: str) -> None:
    text = head + piece * (LENGTH // len(piece)) + tail
    check(read_calls(text, tools=TOOLS if tools else None, format=format))


def test_a_very_long_object_with_texts_in_apostrophes_is_read_in_the_time_that_its_length_takes() -> None:
    check(read_calls("<functioncall> {" + ",".join(f'"a{n}":\'{{"b":"\\\'"}}\'' for n in range(LENGTH // 25)) + "}"))


PAYLOADS = [
    "__import__('os').system('touch CANARY')",
    "().__class__.__mro__[1].__subclasses__()",
    "exec(\"open('CANARY','w')\")",
    "{}['a'].x",
    "(lambda: 1)()",
]


def calls_with(payload: str) -> list[FunctionCall]:
    return [
        FunctionCall(payload, {"a": 1}),
        FunctionCall("f", {payload: 1}),
        FunctionCall("f", {f"a={payload}, b": 2}),
        FunctionCall("f", {"a": payload}),
        FunctionCall("f", {"a": [{"b": payload}]}),
    ]


@pytest.mark.parametrize("payload", PAYLOADS)
@pytest.mark.parametrize("wire_format", FORMATS)
def test_code_in_a_name_a_key_or_a_value_stays_text(wire_format: str, payload: str) -> None:
    for call in calls_with(payload)[1 if wire_format == "bfcl_text" else 0 :]:
        assert read_calls(write_calls([call], wire_format)).calls == (call,)


@pytest.mark.parametrize("payload", PAYLOADS)
def test_code_in_place_of_a_literal_is_a_problem(payload: str) -> None:
    for text in (f"[f(a={payload})]", f"[f(a=[{payload}])]", f"{{'tool_uses': [{payload}]}}"):
        reading = read_calls(text)
        assert reading.calls == ()
        assert reading.problem


WATCHED = """
import sys, json
from tunecheck.formats import read_calls, read_python_calls
texts = json.loads(sys.stdin.read())
read_calls("[f(a='\\\\N{BULLET}')]")  # loads the table of character names, once
seen = []
watching = True
sys.addaudithook(lambda event, arguments: seen.append(event) if watching else None)
for text in texts:
    read_calls(text)
    read_python_calls(text)
watching = False
print(json.dumps(sorted(set(seen))))
"""


def test_reading_compiles_imports_opens_and_starts_nothing(tmp_path: Path) -> None:
    """The interpreter's own audit events, in a process of its own: there is none at all."""
    written: list[JSON] = [
        write_calls([call], wire_format)
        for payload in PAYLOADS
        for wire_format in FORMATS
        for call in calls_with(payload)[1 if wire_format == "bfcl_text" else 0 :]
    ]
    texts = [text if isinstance(text, str) else json.dumps(text) for text in written]
    texts += [
        text
        for payload in PAYLOADS
        for text in (payload, f"[{payload}]", f"[f({payload})]", f"<|python_tag|>{payload}")
    ]
    texts += list(random_texts(500))
    done = subprocess.run(
        [sys.executable, "-c", WATCHED],
        input=json.dumps(texts), capture_output=True, text=True, cwd=tmp_path, timeout=120, check=True,
    )  # fmt: skip
    assert json.loads(done.stdout) == []
    assert list(tmp_path.iterdir()) == []
