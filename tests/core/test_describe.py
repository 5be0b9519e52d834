"""A value that does not fit its description is refused in one line: where, which key, what was expected."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
import pytest
from tests.tables import cases

from tunecheck import ConfigurationError, DataError
from tunecheck.plugins import Written, parse_document, read_as, read_fitting


class _Inner(Written, frozen=True, kw_only=True):
    count: Annotated[int, msgspec.Meta(ge=1)]
    rate: float | None = None
    kind: Literal["alpha", "beta"] = "alpha"
    name: Annotated[str, msgspec.Meta(min_length=1)] = "x"


class _Outer(Written, frozen=True, kw_only=True):
    items: tuple[_Inner, ...] = ()
    by_name: dict[str, _Inner] = msgspec.field(default_factory=dict)
    either: list[str] | str | None = None
    flag: bool = False


@cases("others")
def test_a_mistake_is_named_with_its_path_and_value(value: object, said: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        read_as(value, _Outer, "eval.yaml")
    assert str(refused.value) == f"eval.yaml: {said}"


def test_a_key_that_is_no_text_is_a_mistake() -> None:
    with pytest.raises(ConfigurationError, match=r"^x: Expected `str`, got `int` - at `key` in `\$\.by_name`$"):
        read_as({"by_name": {3: {"count": 1}}}, _Outer, "x")


@cases("others")
def test_the_line_of_a_yaml_file_stands_in_the_error(text: str, line: int) -> None:
    read = parse_document(text, "eval.yaml")
    with pytest.raises(DataError, match=rf"^eval\.yaml, line {line}: "):
        read_as(read.value, _Outer, read.where, error=DataError)


def test_a_part_of_a_larger_value_keeps_its_place() -> None:
    read = parse_document("limits:\n  count: 0\n", "e.yaml")
    assert isinstance(read.value, dict)
    with pytest.raises(ConfigurationError, match=r"^e\.yaml, line 2: Expected `int` >= 1 - at `\$\.limits\.count`$"):
        read_as(read.value["limits"], _Inner, read.where, above="limits")


@pytest.mark.parametrize(
    "value", [{"\ud83d": 1}, {"by_name": {"a": {"count": "\ud83d"}}}, {"items": [{"\ud83d": 1}]}], ids=str
)
def test_half_of_a_character_where_it_cannot_be_is_a_mistake_like_any_other(value: object) -> None:
    with pytest.raises(ConfigurationError, match=r"^x: a name or a value has half of a character"):
        read_as(value, _Outer, "x")


def test_what_fits_is_read() -> None:
    assert read_as({"items": [{"count": 2, "rate": 1}]}, _Outer, "x") == _Outer(items=(_Inner(count=2, rate=1.0),))
    assert read_as([1, 2], list[int], "x") == [1, 2]


@pytest.mark.parametrize(
    ("value", "read"),
    [
        ({"items": [{"count": 1}, 5, {"count": 0}, {"rate": 1}]}, _Outer(items=(_Inner(count=1),))),
        ({"items": None, "flag": True}, _Outer(flag=True)),
        ({"by_name": 5, "more": {}}, _Outer()),
        ({"by_name": {"a": {"count": 1, "name": 7}, "b": []}}, _Outer(by_name={"a": _Inner(count=1)})),
        ({"either": [1, "a", None]}, _Outer(either=["a"])),
        ({"\ud83d": 1, "flag": True}, _Outer(flag=True)),
    ],
)
def test_of_a_damaged_file_what_fits_is_read(value: object, read: _Outer) -> None:
    assert read_fitting(value, _Outer, "run.json") == read


@pytest.mark.parametrize("value", [5, None, []])
def test_where_nothing_fits_it_is_said(value: object) -> None:
    with pytest.raises(ConfigurationError, match=r"run\.json: Expected `object`, got"):
        read_fitting(value, _Outer, "run.json")
