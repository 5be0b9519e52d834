"""JSON as models write it."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given, strategies as st

from tunecheck_memory import read_lenient

READ: dict[str, tuple[str, Any]] = {
    "plain": ('{"a": [1, 2.5, true, null]}', {"a": [1, 2.5, True, None]}),
    "among prose": ('Here you are: ["x", "y"] Anything else?', ["x", "y"]),
    "a fenced block": ('[1]\n```json\n["x"]\n```\n', ["x"]),
    "javascript": ('```javascript\n["x"]\n```', ["x"]),
    "another fence": ('```css\n["x"]\n```', ["x"]),
    "what follows is passed over": ('["x"] and ["y"]', ["x"]),
    "comments": ("[1, // one\n 2 // two\n]", [1, 2]),
    "dots": ('["a", "b", ...]', ["a", "b"]),
    "trailing commas": ('{"a": [1, 2,],}', {"a": [1, 2]}),
    "a forgotten comma": ('[{"a": 1} {"a": 2}]', [{"a": 1}, {"a": 2}]),
    "a line break in a text": ('["a\nb"]', ["a\nb"]),
    "words without quotes": ("[abc, True, None]", ["abc", True, None]),
    "names without quotes": ("{a: 1}", {"a": 1}),
    "as Python writes it": ("{'a': [True, None]}", {"a": [True, None]}),
    "escapes": ('x ["\\u00e9\\n\\"q\\""]', ['é\n"q"']),
    "large integers": ("x [12345678901234567890]", [12345678901234567890]),
}


@pytest.mark.parametrize(("text", "value"), READ.values(), ids=READ.keys())
def test_it_reads(text: str, value: Any) -> None:
    assert read_lenient(text) == value


@pytest.mark.parametrize(
    "text", ["", "no JSON at all", "[1, 2", '{"a": ', '["a', "[}", "{]", "x " + "[" * 500 + "]" * 500, "[" * 100_000]
)
def test_it_refuses_what_is_no_json(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        read_lenient(text)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**15), 10**15) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


@given(st.lists(VALUES, max_size=4) | st.dictionaries(st.text(max_size=8), VALUES, max_size=4))
def test_it_reads_all_json_among_prose(value: Any) -> None:
    assert read_lenient(f"Sure: {json.dumps(value)} Bye.") == value


@given(st.text(alphabet='[]{}",:\\ \n/.truen0123456789u', max_size=300))
def test_any_text_is_read_or_refused(text: str) -> None:
    with contextlib.suppress(ValueError):
        json.dumps(read_lenient(text))
