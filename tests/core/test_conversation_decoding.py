"""One answer decoded into calls: call text, tool calls as a result file holds them, and rubbish."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st
from tests.tables import cases
from tests.text_fragments import WITH_NAN

from tunecheck.calls import FunctionCall
from tunecheck.episodes import decode_step, source_text


def texts(step: Any, **options: Any) -> list[str] | None:
    """The calls of a step as text, None where it cannot be decoded."""
    decoded = decode_step(step, **options)
    assert decoded.problem is None or not decoded.calls
    return None if decoded.problem is not None else [source_text(call) for call in decoded.calls]


@cases("episodes")
def test_call_text_is_read_with_its_nested_calls_and_prose_is_not(text: str, calls: list[str] | None) -> None:
    assert texts(text, text_mode=True) == calls


def test_text_is_no_call_of_a_function_calling_endpoint() -> None:
    assert decode_step("[f(a=1)]").problem == "the answer holds no call"
    assert texts("") == []


@cases("episodes")
def test_tool_calls_are_read_as_a_result_file_holds_them(step: Any, calls: list[str] | None) -> None:
    assert texts(step) == calls


HOSTILE = [
    "[" * 100_000,
    "[f(x=" + "g(x=" * 5_000 + "1" + ")" * 5_001 + "]",
    "[f(x=" + "-" * 50_000 + "1)]",
    "[f(x=" + "1+" * 50_000 + "1)]",
    "[f(x=2**2**2**2**2**2)]",
    "[f(x=10**10**8)]",
    "[f(x=1<<10**9)]",
    "[f(x='a'*10**10)]",
    "[f(x=[0]*10**10)]",
    "[f(x='%1000000000s' % 1)]",
    "[f(x=" + "9" * 100_000 + ")]",
    "[f(x=0x" + "f" * 100_000 + ")]",
    "[f(x='\\ud83d')]",
    "[f(x='\ud83d')]",
    "[f(\x00)]",
    "[__import__('os').system('touch pwned')]",
    "[f(x=__import__('os').system('touch pwned'))]",
    "[f(x=().__class__.__bases__[0].__subclasses__())]",
    "f" * 2_000_000,
    "[" + "f(), " * 20_000 + "]",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_is_decoded_at_once_without_running_anything(text: str, cwd: Path) -> None:
    decoded = decode_step(text, text_mode=True)
    assert decoded.calls or decoded.problem is not None
    for call in decoded.calls:
        source_text(call)
    assert not list(cwd.iterdir())


@given(WITH_NAN, st.booleans())
def test_any_value_is_decoded_or_has_a_problem(step: Any, text_mode: bool) -> None:
    texts(step, text_mode=text_mode)


TEXTS = st.text(alphabet="fg(){}[]='\",: 1.\\\n-*+abx`", max_size=60)


@given(TEXTS)
def test_any_text_is_decoded_or_has_a_problem(text: str) -> None:
    texts(text, text_mode=True)


nested_calls = st.recursive(
    st.builds(
        FunctionCall,
        st.sampled_from(["f", "g.h", "cd"]),
        st.dictionaries(
            st.sampled_from(["a", "b", "name"]),
            st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
            max_size=3,
        ),
    ),
    lambda inner: st.builds(FunctionCall, st.sampled_from(["f", "g"]), st.dictionaries(st.sampled_from("xy"), inner)),
    max_leaves=5,
)


@given(st.lists(nested_calls, min_size=1, max_size=3))
def test_calls_written_as_text_are_read_back_as_they_were(calls: list[FunctionCall]) -> None:
    written = f"[{', '.join(source_text(call) for call in calls)}]"
    assert list(decode_step(written, text_mode=True).calls) == calls


def test_text_of_a_model_family_is_read_by_the_types_of_the_functions_offered() -> None:
    text = "<tool_call>\n<function=cd>\n<parameter=folder>\n007\n</parameter>\n</function>\n</tool_call>"
    functions = [{"name": "cd", "parameters": {"type": "dict", "properties": {"folder": {"type": "string"}}}}]
    (call,) = decode_step(text, text_mode=True, tools=functions).calls
    assert (call.name, call.arguments) == ("cd", {"folder": "007"})


@pytest.mark.parametrize(("calls", "brackets"), [(120, 1), (60, 60)])
def test_calls_that_are_nested_too_deeply_are_no_calls_and_the_reading_says_why(calls: int, brackets: int) -> None:
    text = "f(" + "x=g(" * calls + "y=" + "[" * brackets + "]" * brackets + ")" * calls + ")"
    reading = decode_step(text, text_mode=True)
    assert not reading.calls
    assert "nested deeper than 112 levels at line 1" in str(reading.problem)
