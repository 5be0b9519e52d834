"""JSON in and out is exact and strict, whatever comes by."""

from __future__ import annotations

import contextlib
import datetime
import enum
import json
import math
from collections.abc import Callable
from typing import NoReturn

import msgspec
import numpy as np
import pytest
from hypothesis import given, strategies as st
from tests.pipeline_parts import strict_json
from tests.text_fragments import JSON_VALUES

from tunecheck.plugins import canonical, dumps, dumps_line, loads, plain


@given(JSON_VALUES)
def test_what_is_written_is_read_back_equal_by_us_and_by_a_strict_parser(value: object) -> None:
    assert loads(dumps(value)) == value
    assert strict_json(dumps(value)) == value


class _Inner(msgspec.Struct, omit_defaults=True):
    code: str
    path: str | None = None
    names: list[str] = []


class _Written(msgspec.Struct, tag_field="k", tag="written", rename={"errors": "rows_with_an_error"}):
    errors: int
    inner: _Inner
    text: str
    absent: str | msgspec.UnsetType = msgspec.UNSET


@pytest.mark.parametrize("inner", [_Inner("a"), _Inner("a", "b", ["c"])])
def test_a_struct_with_a_lone_surrogate_has_the_keys_that_it_has_without(inner: _Inner) -> None:
    plainly = strict_json(dumps(_Written(1, inner, "x")))
    assert strict_json(dumps(_Written(1, inner, "\ud83d"))) == {**plainly, "text": "\ud83d"}


@given(st.dictionaries(st.text(), JSON_VALUES, max_size=6))
def test_canonical_text_does_not_depend_on_the_order_of_keys(value: dict[str, object]) -> None:
    assert canonical(value) == canonical(dict(reversed(value.items())))


@given(st.text(), st.characters(codec=None, categories=["Cs"]), st.text())
def test_lone_surrogates_pass_unchanged(before: str, surrogate: str, after: str) -> None:
    text = before + surrogate + after
    assert loads(dumps({text: [text, 1.5]})) == {text: [text, 1.5]}


@given(st.text() | st.binary())
def test_reading_raises_nothing_but_value_error(text: str | bytes) -> None:
    with contextlib.suppress(ValueError):
        loads(text)


def test_a_text_that_holds_a_lone_surrogate_itself_is_read() -> None:
    assert loads('["\ud83d"]') == ["\ud83d"]


@pytest.mark.parametrize("number", [2**63, 2**64, -(2**64), 10**25, 10**4000])
def test_integers_of_any_size_stay_exact(number: int) -> None:
    assert loads(dumps([number])) == [number]


def test_an_integer_too_long_for_text_is_refused_by_name_of_its_place() -> None:
    with pytest.raises(TypeError, match=r"\$\.a\[1\]: a value of type int is too large: use a text"):
        dumps({"a": [1, 10**5000]})


@pytest.mark.parametrize("text", ["NaN", "Infinity", "-Infinity", "1e999", "-1e999"])
def test_what_is_no_number_is_read_as_null(text: str) -> None:
    assert loads(f"[{text}]") == [None]


def test_what_is_no_number_is_written_as_null() -> None:
    assert dumps([math.nan, math.inf, -math.inf, "\ud83d"]) == b'[null,null,null,"\\ud83d"]'


@pytest.mark.parametrize("text", ["", "[1,]", "{'a': 1}", "\x00", '"\n"', "[" * 100_000, "nul", "01", "1 2"])
def test_what_is_not_json_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        loads(text)


def test_bytes_that_are_not_utf_8_are_refused_with_their_place() -> None:
    with pytest.raises(ValueError, match="not UTF-8 at byte 2"):
        loads(b'["\xff"]')


def test_nested_150_deep_passes() -> None:
    value: list[object] = []
    for _ in range(150):
        value = [value]
    assert loads(dumps(value)) == value == plain(value)


def test_a_value_that_holds_itself_is_refused_in_a_short_line() -> None:
    value: list[object] = []
    value.append(value)
    with pytest.raises(TypeError, match="nested deeper than 200 levels") as refusal:
        dumps(value)
    assert len(str(refusal.value)) < 300


class Colour(str, enum.Enum):  # noqa: UP042 - its own text is `Colour.RED`
    RED = "red"


class Level(enum.IntEnum):
    HIGH = 3


class Shouting(str):
    def __str__(self) -> str:
        raise ValueError("no text for you")


def test_enumerations_are_their_values() -> None:
    assert plain({Colour.RED: [Colour.RED, Level.HIGH]}) == {"red": ["red", 3]}
    assert type(plain(Colour.RED)) is str


def test_a_text_type_of_its_own_is_its_text() -> None:
    assert plain(Shouting("a")) == "a"


@pytest.mark.parametrize(
    ("value", "expected"),
    [(np.float64(0.5), 0.5), (np.int64(3), 3), (np.bool_(True), True), (np.float32("nan"), None), (np.str_("x"), "x")],
)
def test_numpy_scalars_are_plain_numbers(value: object, expected: object) -> None:
    assert plain(value) == expected
    assert loads(dumps([value])) == [expected]


class Hostile:
    def __getattr__(self, name: str) -> NoReturn:
        raise RuntimeError("do not look at me")


class Endless:
    shape = ()

    def item(self) -> Endless:
        return Endless()


@pytest.mark.parametrize(
    "make",
    [
        object,
        lambda: np.array([object()]),
        lambda: {1, 2},
        lambda: b"x",
        lambda: datetime.date(2024, 1, 5),
        lambda: {None: 1},
        Hostile,
        Endless,
    ],
)
def test_what_has_no_json_form_is_refused_and_never_guessed(make: Callable[[], object]) -> None:
    value = make()
    with pytest.raises(TypeError, match=r"\$\.a\[0\].* has no JSON form"):
        plain({"a": [value]})


def test_a_hostile_object_is_refused_when_written_too() -> None:
    with pytest.raises(TypeError, match="Hostile has no JSON form"):
        dumps([Hostile()])


def test_a_record_is_one_line_for_readers_that_split_where_unicode_ends_lines() -> None:
    record = {"a\u2028": "b\u2029c\x85d\r\ne"}
    (line,) = dumps_line(record).decode().splitlines(keepends=True)
    assert line.endswith("\n")
    assert json.loads(line) == record
