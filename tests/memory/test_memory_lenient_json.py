"""JSON as models write it."""

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given, strategies as st
from tests.tables import cases

from tunecheck_memory import read_lenient


@cases("memory")
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
