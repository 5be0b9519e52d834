"""Written calls are read back equal, in every format; and readers agree with Python's own where theirs apply."""

import ast
import json
from typing import Any

import pytest
from hypothesis import example, given, settings, strategies as st
from tests.tables import cases

from tunecheck import _json as jsontext
from tunecheck.calls import FORMATS, FunctionCall, PythonScanner, UnreadableError, decode, write_calls
from tunecheck.formats import read_calls
from tunecheck.plugins import JSON

# These draw whole calls for each of many formats, which takes its time.
FEWER = settings().max_examples // 3

MARKS = [
    *("<tool_call>", "</tool_call>", "<|endoftext|>", "<functioncall>", "[TOOL_CALLS]", "[ARGS]", "<|python_tag|>"),
    *("<|eom_id|>", "</s>", "<think>", "</think>", "```", "```json\n", '{"tool_uses": [', "'}", "'", '"', "\\", "\\'"),
    *('\\"', "\n", "\r\n", "#", "; {", ")]", "(", "[f(a=1)]", "{}", "true", "None", "\x00", "\ud83d", "\u2028", "”"),
    *("functions.", "role", "assistant", "tool_calls", "function_call", "recipient_name", "name", "arguments", "type"),
]


def is_text(value: str) -> bool:
    """Whether JSON can carry it: two surrogates side by side are one character there."""
    return value.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass") == value


texts = st.one_of(
    st.text(max_size=20),
    st.lists(st.one_of(st.sampled_from(MARKS), st.text(max_size=5)), max_size=5).map("".join).filter(is_text),
)
numbers = st.one_of(st.integers(), st.integers(2**64, 2**200), st.floats(allow_nan=False, allow_infinity=False))
values: st.SearchStrategy[JSON] = st.recursive(
    st.one_of(st.none(), st.booleans(), numbers, texts),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(texts, inner, max_size=4)),
    max_leaves=12,
)
argument_names = st.one_of(texts, st.sampled_from(["0", "1", "2", "10", "a", "b_c", "größe", "a-b", "class"]))
arguments = st.dictionaries(argument_names, values, max_size=5)
ids = st.one_of(st.none(), texts)
python_names = st.from_regex(r"[^\W\d]\w{0,8}([.\-]\w{1,8}){0,2}", fullmatch=True)
any_names = st.one_of(python_names, texts.filter(lambda name: bool(name.strip())))


def calls_named(names: st.SearchStrategy[str]) -> st.SearchStrategy[list[FunctionCall]]:
    return st.lists(st.builds(FunctionCall, names, arguments, ids), max_size=4)


def typed(value: object) -> object:
    """A value in which 1, 1.0 and True differ, whatever order its keys are in."""
    if isinstance(value, dict):
        return {key: typed(item) for key, item in value.items()}
    if isinstance(value, list):
        return [typed(item) for item in value]
    return type(value).__name__, repr(value)


def shown(calls: Any) -> list[tuple[str, object]]:
    return [(call.name, typed(call.arguments)) for call in calls]


@settings(max_examples=FEWER)
@pytest.mark.parametrize("wire_format", FORMATS)
@given(data=st.data())
def test_what_is_written_is_read_back_equal_also_from_a_json_file(wire_format: str, data: st.DataObject) -> None:
    calls = data.draw(calls_named(python_names if wire_format == "bfcl_text" else any_names))
    written = write_calls(calls, wire_format)
    reading = read_calls(written)
    assert (reading.problem, shown(reading.calls)) == (None, shown(calls))
    if calls:
        assert (reading.format, reading.text) == (wire_format, "")
    stored = jsontext.dumps(written)
    assert shown(read_calls(jsontext.loads(stored)).calls) == shown(calls)
    if not isinstance(written, str):
        assert shown(read_calls(stored.decode()).calls) == shown(calls)


@pytest.mark.parametrize("wire_format", ["openai", "azure_agent"])
@given(calls=calls_named(any_names))
def test_ids_are_written_and_read_back_and_given_where_they_are_missing(
    wire_format: str, calls: list[FunctionCall]
) -> None:
    read = read_calls(write_calls(calls, wire_format)).calls
    missing = [new.id for old, new in zip(calls, read, strict=True) if old.id is None]
    assert all(new.id == old.id for old, new in zip(calls, read, strict=True) if old.id is not None)
    assert len(set(missing)) == len(missing)
    assert not set(missing) & {old.id for old in calls if old.id is not None}


BARE_MARKS = ("functools", "to=functions.", "✿FUNCTION✿")
beside = st.text(st.characters(exclude_characters="<>[]{}`'\"", exclude_categories=["Cs"]), max_size=30).filter(
    lambda text: not any(mark in text for mark in BARE_MARKS)
)


@settings(max_examples=FEWER)
@pytest.mark.parametrize("wire_format", ["glaive", "hermes", "mistral", "llama", "tool_uses", "tool_uses_text"])
@given(before=beside, after=beside, calls=calls_named(any_names).filter(bool))
@example(before="", after="; and", calls=[FunctionCall("f")])
@example(before="", after="A(", calls=[FunctionCall("A")])
@example(before="", after="", calls=[FunctionCall("directly-answer"), FunctionCall("no_function")])
def test_text_around_written_calls_is_kept_beside_them(
    wire_format: str, before: str, after: str, calls: list[FunctionCall]
) -> None:
    written = write_calls(calls, wire_format)
    text = written if isinstance(written, str) else json.dumps(written)
    reading = read_calls(f"{before}\n{text}\n{after}")
    assert shown(reading.calls) == shown(calls)
    assert reading.text == "\n".join(part.strip() for part in (before, after) if part.strip())


def test_call_text_that_is_written_is_python() -> None:
    call = FunctionCall("weather.get", {"0": "Paris", "1": -1, "days": 3, "a b": {"x": [None, True]}})
    written = write_calls([call], "bfcl_text")
    assert written == "[weather.get('Paris', -1, days=3, **{'a b': {'x': [None, True]}})]"
    parsed = ast.parse(str(written), mode="eval")
    assert ast.unparse(parsed) == written


@cases("calls")
def test_each_format_is_written_as_its_makers_write_it(wire_format: str, written: object) -> None:
    assert write_calls([FunctionCall("f", {"a": "x"})], wire_format) == written


@pytest.mark.parametrize("wire_format", FORMATS)
def test_no_calls_are_written_as_what_reads_as_no_calls_and_no_text(wire_format: str) -> None:
    reading = read_calls(write_calls([], wire_format))
    assert (reading.calls, reading.problem) == ((), None)
    if wire_format in ("glaive", "hermes", "mistral", "llama"):
        assert write_calls([], wire_format) == ""


def test_a_number_that_json_has_not_is_not_written() -> None:
    with pytest.raises(ValueError, match=r"^the call of 'f' cannot be written: nan is not a JSON number$"):
        write_calls([FunctionCall("f", {"a": float("nan")})], "openai")


@given(values)
def test_every_json_value_as_python_writes_it_is_read_as_python_reads_it(value: JSON) -> None:
    text = repr(value)
    assert typed(PythonScanner(text).value()) == typed(ast.literal_eval(text)) == typed(value)


PIECES = [
    *("'a'", '"b"', r"'\x41\u00e9\n\d'", r"r'\\d'", "u'x'", "'''y'''", "b'z'", "f'z'", r"'\N{BULLET}'", r"'\400'"),
    *("x", "1", "-2", "+3", "- 1", "--1", "0x1f", "0b11", "0o7", "1_000", "1__0", "007", "0", "00", "1.", ".5"),
    *("1e5", "1E-3", "1j", "1.5.2", "...", "True", "None", "[", "]", "(", ")", "{", "}", ",", ":", " ", "\n", "'"),
    *('"', "\\", "#c\n"),
]


@given(st.lists(st.sampled_from(PIECES), max_size=7).map("".join))
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::SyntaxWarning")
def test_no_text_is_read_otherwise_than_python_reads_it(text: str) -> None:
    scanner = PythonScanner(text)
    try:
        value = scanner.value()
        whole = scanner.at_end()
    except UnreadableError:
        return
    if whole:  # what Python takes for more (a set, bytes) is not read at all; what is read is the same
        expected = ast.literal_eval(f"(\n{text.strip()}\n)")
        assert typed(value) == typed(json.loads(json.dumps(expected)))


@given(
    st.lists(
        st.sampled_from([*'{}[]:,"\\ ', '"a"', '"b"', "1", "-0.0", "1e5", "true", "null", "NaN", "\n"]), max_size=9
    )
)
def test_no_json_is_read_otherwise_than_the_standard_library_reads_it(pieces: list[str]) -> None:
    text = "".join(pieces)
    try:
        value = decode(text)
    except UnreadableError:
        return
    assert typed(value) == typed(json.loads(text))
