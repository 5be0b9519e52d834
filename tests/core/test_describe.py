"""What does not fit its description is refused in one line: where, which key, what was expected."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
import pytest

from tunecheck._describe import Written, read_as, read_fitting
from tunecheck._errors import ConfigurationError, DataError
from tunecheck._yaml import document


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


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ([], "must be a mapping, not an empty list"),
        (None, "must be a mapping, not null"),
        ({"items": 3}, "items: must be a list, not 3"),
        ({"items": [{"count": 0}]}, "items[0].count: must be a whole number of at least 1, not 0"),
        ({"items": [{"count": "3"}]}, 'items[0].count: must be a whole number, not "3"'),
        ({"items": [{"count": True}]}, "items[0].count: must be a whole number, not true"),
        ({"items": [{"count": 1, "rate": "fast"}]}, 'items[0].rate: must be a number, not "fast"'),
        ({"items": [{"count": 1, "name": ""}]}, 'items[0].name: must be a text that is not empty, not ""'),
        (
            {"items": [{"count": 1, "kind": "beto"}]},
            "items[0].kind: \"beto\" is none of alpha, beta; did you mean 'beta'?",
        ),
        ({"items": [{"count": 1, "kind": "zzz"}]}, 'items[0].kind: "zzz" is none of alpha, beta'),
        ({"items": [{"rate": 1}]}, "items[0]: count is missing"),
        ({"items": [{"cuont": 1}]}, "items[0].cuont: unknown key; did you mean 'count'?"),
        ({"items": [{"count": 1, "rat": 1}]}, "items[0].rat: unknown key; did you mean 'rate'?"),
        ({"by_name": {"a": {"count": 1}, "b": {"count": "1"}}}, 'by_name.b.count: must be a whole number, not "1"'),
        ({"by_name": {"a": {"count": 1}, "b": {"colour": 1, "count": 1}}}, "by_name.b.colour: unknown key"),
        ({"by_name": {3: {"count": 1}}}, "by_name: the key 3 must be a text"),
        ({"either": 3}, "either: must be a text or a list, not 3"),
        ({"either": ["a", 3]}, "either[1]: must be a text, not 3"),
        ({"flag": "yes"}, 'flag: must be true or false, not "yes"'),
        ({"flag": "y" * 100}, "flag: must be true or false, not a text of 100 characters"),
        ({"flags": True}, "flags: unknown key; did you mean 'flag'?"),
    ],
)  # fmt: skip
def test_a_mistake_is_named_with_its_path_and_value(value: object, said: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        read_as(value, _Outer, "eval.yaml")
    assert str(refused.value).startswith(f"eval.yaml: {said}")


def test_the_line_of_a_yaml_file_stands_in_the_error() -> None:
    read = document("by_name:\n  a: {count: 1}\n  b:\n    count: many\n", "eval.yaml")
    with pytest.raises(DataError, match=r'^eval\.yaml, line 4: by_name\.b\.count: must be a whole number, not "many"$'):
        read_as(read.value, _Outer, read.where, error=DataError)


def test_a_part_of_a_larger_value_keeps_its_place() -> None:
    read = document("limits:\n  count: 0\n", "e.yaml")
    assert isinstance(read.value, dict)
    with pytest.raises(ConfigurationError, match=r"^e\.yaml, line 2: limits\.count: must be a whole number"):
        read_as(read.value["limits"], _Inner, read.where, above="limits")


@pytest.mark.parametrize(
    "value", [{"\ud83d": 1}, {"by_name": {"a": {"count": "\ud83d"}}}, {"items": [{"\ud83d": 1}]}], ids=str
)
def test_half_of_a_character_where_it_cannot_be_is_a_mistake_like_any_other(value: object) -> None:
    for read in (read_as, read_fitting):
        with pytest.raises(ConfigurationError, match=r"^x: a name or a value holds half of a character"):
            read(value, _Outer, "x")


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
    ],
)
def test_of_a_damaged_file_what_fits_is_read(value: object, read: _Outer) -> None:
    assert read_fitting(value, _Outer, "run.json") == read


@pytest.mark.parametrize("value", [5, None, []])
def test_where_nothing_fits_it_is_said(value: object) -> None:
    with pytest.raises(ConfigurationError, match=r"run\.json: must be a mapping"):
        read_fitting(value, _Outer, "run.json")
