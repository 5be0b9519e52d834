"""YAML as plain data, and values that fit their description: what is read, and the place of a fault."""

from pathlib import Path
from typing import Annotated, Literal

import msgspec
import pytest
import yaml
from hypothesis import example, given, strategies as st
from tests.tables import cases

from tunecheck import ConfigurationError, DataError, _yaml as yamltext
from tunecheck.plugins import JSON, Written, dumps, parse_document, read_as, read_fitting

# Expected values are those of YAML 1.2.2, section 10.3 (the core schema).


@cases("others")
def test_a_scalar_has_the_type_of_the_core_schema(text: str, expected: JSON) -> None:
    value = yamltext.parse_yaml(f"a: {text}", "x.yaml")
    assert isinstance(value, dict)
    assert value["a"] == expected
    assert type(value["a"]) is type(expected)


def test_keys_are_text_as_they_are_written() -> None:
    assert yamltext.parse_yaml("404: a\ntrue: b\nnull: c\n1.0: d\n2024-01-05: e", "x") == {
        "404": "a", "true": "b", "null": "c", "1.0": "d", "2024-01-05": "e",
    }  # fmt: skip


def test_structures_anchors_and_comments_are_read() -> None:
    text = "# first\n---\na: &x {b: [1, 2]}  # here\nc: *x\nd:\n- e\n- - f\n"
    value = yamltext.parse_yaml(text, "x")
    assert value == {"a": {"b": [1, 2]}, "c": {"b": [1, 2]}, "d": ["e", ["f"]]}
    assert isinstance(value, dict)
    assert value["a"] is not value["c"]


@pytest.mark.parametrize("text", ["", "# only a comment", "---", "\n\n"])
def test_an_empty_document_is_null(text: str) -> None:
    assert yamltext.parse_yaml(text, "x") is None


def test_a_character_written_as_two_escapes_is_one_as_in_json() -> None:
    assert yamltext.parse_yaml('{"a": "\\ud83d\\ude00", "b": "\\ud83d"}', "x") == {"a": "\U0001f600", "b": "\ud83d"}


def test_a_byte_order_mark_is_accepted() -> None:
    assert yamltext.parse_yaml(b"\xef\xbb\xbfa: 1", "x") == {"a": 1}
    assert yamltext.parse_yaml("\ufeffa: 1", "x") == {"a": 1}


@cases("others")
def test_a_mistake_is_named_with_its_place(text: str, message: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        yamltext.parse_yaml(text, "file.yaml")
    assert str(caught.value).startswith("file.yaml")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_whole_number_of_thousands_of_digits_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="line 1, column 4: a whole number of 5000 digits is too long"):
        yamltext.parse_yaml("a: " + "9" * 5000, "file.yaml")


def test_what_is_not_utf_8_is_named_with_its_line() -> None:
    with pytest.raises(ConfigurationError, match=r"x, line 2 is not UTF-8 \(byte 7\): write UTF-8 text"):
        yamltext.parse_yaml(b"a: 1\nb:\xff", "x")


def test_an_alias_bomb_is_refused_before_it_grows() -> None:
    levels = [f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 10)}]" for n in range(1, 12)]
    bomb = "\n".join(["l0: &l0 [x, x, x, x, x, x, x, x, x, x]", *levels])
    with pytest.raises(
        ConfigurationError,
        match="the YAML has more than 100,000 values \\(each use of an alias counts\\): shorten the YAML",
    ):
        yamltext.parse_yaml(bomb, "x")


def test_an_oversized_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "big.yaml"
    path.write_text("a: " + "x" * (2 << 20))
    with pytest.raises(ConfigurationError, match="larger than 1024 KiB"):
        yamltext.load_yaml(path)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"absent.yaml: cannot be read: No such file or directory"):
        yamltext.load_yaml(tmp_path / "absent.yaml")


def test_a_document_knows_the_lines_of_its_values() -> None:
    document = yamltext.parse_document("a:\n  b: 1\n  c:\n  - x\n  - y: 2\n", "file.yaml")
    assert document.where("a", "b") == "file.yaml, line 2"
    assert document.where("a", "c", 1, "y") == "file.yaml, line 5"
    assert document.where("a", "unknown") == "file.yaml, line 2"
    assert document.where("a", "c", 0, "deeper", "still") == "file.yaml, line 4"
    assert document.where() == "file.yaml, line 1"


VALUES: st.SearchStrategy[JSON] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="\ufeff"), max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(alphabet="abcé -:#", max_size=6), inner, max_size=4)
    ),
    max_leaves=20,
)


@given(VALUES)
def test_json_is_read_as_the_yaml_that_it_is(value: JSON) -> None:
    assert yamltext.parse_yaml(dumps(value), "x") == value


class Dumper(yaml.SafeDumper):
    """PyYAML writes YAML 1.1, where `0e0` without a dot is text: what may be a number in 1.2 is quoted."""


Dumper.add_representer(
    str,
    lambda dumper, text: dumper.represent_scalar(
        "tag:yaml.org,2002:str", text, style='"' if text[:1] in set("0123456789+-.") else None
    ),
)


@example(["0E0", "1e5", "-.5", "plain"])
@given(VALUES)
def test_what_pyyaml_writes_is_read_back(value: JSON) -> None:
    assert yamltext.parse_yaml(yaml.dump(value, Dumper=Dumper, allow_unicode=True), "x") == value


@given(st.text(max_size=60) | st.text(alphabet="{}[]:-&*!|>'\"%@`?, \n\tab0.", max_size=60) | st.binary(max_size=60))
def test_any_text_is_read_or_refused_in_one_line(text: str | bytes) -> None:
    try:
        dumps(yamltext.parse_yaml(text, "x"))
    except ConfigurationError as error:
        assert "\n" not in str(error)


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
    with pytest.raises(ConfigurationError, match=r"^x: a key of by_name: must be a text, not a whole number$"):
        read_as({"by_name": {3: {"count": 1}}}, _Outer, "x")


@cases("others")
def test_the_line_of_a_yaml_file_stands_in_the_error(text: str, line: int) -> None:
    read = parse_document(text, "eval.yaml")
    with pytest.raises(DataError, match=rf"^eval\.yaml, line {line}: "):
        read_as(read.value, _Outer, read.where, error=DataError)


def test_a_part_of_a_larger_value_keeps_its_place() -> None:
    read = parse_document("limits:\n  count: 0\n", "e.yaml")
    assert isinstance(read.value, dict)
    with pytest.raises(
        ConfigurationError, match=r"^e\.yaml, line 2: limits\.count: must be a whole number of at least 1$"
    ):
        read_as(read.value["limits"], _Inner, read.where, above="limits")


@pytest.mark.parametrize(
    "value", [{"\ud83d": 1}, {"by_name": {"a": {"count": "\ud83d"}}}, {"items": [{"\ud83d": 1}]}], ids=str
)
def test_half_of_a_character_where_it_cannot_be_is_a_mistake_like_any_other(value: object) -> None:
    with pytest.raises(ConfigurationError, match=r"^x: a text has half a character"):
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
    with pytest.raises(ConfigurationError, match=r"run\.json: must be a mapping, not"):
        read_fitting(value, _Outer, "run.json")
