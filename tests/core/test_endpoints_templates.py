"""Request templates and paths."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, strategies as st
from tests.endpoint_parts import definition, row
from tests.tables import cases

from tunecheck import ConfigurationError
from tunecheck.endpoints import ChatRequest, Redactor, RequestTemplate
from tunecheck.plugins import MISSING, find_value, parse_path

MESSAGES = [{"role": "user", "content": 'a "b"'}]
TOOLS = [{"type": "function", "function": {"name": "f"}}]
ROW = row({"id": "7", "name": "Ann", "deep": {"list": [1, {"x": None}]}, "a column": 5, "a.b": 6})


def render(body: Any, tools: Any = TOOLS, **parameters: Any) -> Any:
    template = RequestTemplate(body, definition().at("request"), Redactor())
    return template.render(ChatRequest(messages=MESSAGES, tools=tools, row=ROW), parameters)


@cases("endpoints")
def test_references_stand_for_values(body: Any, expected: Any) -> None:
    assert render(body, t=0.5) == expected


def test_what_a_row_holds_is_not_looked_at_for_references() -> None:
    template = RequestTemplate("${data.x} ${data.x}", definition().at("request"), Redactor())
    request = ChatRequest(messages=[], row=row({"x": "${env:PATH}${messages}"}))
    assert template.render(request, {}) == "${env:PATH}${messages} ${env:PATH}${messages}"


@pytest.mark.parametrize("tools", [None, []])
def test_tools_are_left_out_where_there_are_none(tools: Any) -> None:
    assert render({"a": 1, "tools": "${tools}"}, tools=tools) == {"a": 1}


def test_the_environment_is_read_when_the_template_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TC_MODE", "fast")
    assert render({"mode": "${env:TC_MODE}", "text": "very ${env:TC_MODE}"}) == {"mode": "fast", "text": "very fast"}


@pytest.mark.parametrize(
    "text", ["${}", "${data}", "${data.}", "${row.x}", "${message}", "${data[x]}", "${ messages }"]
)
def test_an_unknown_reference_is_an_error_of_the_definition(text: str) -> None:
    with pytest.raises(ConfigurationError, match="unknown reference"):
        render({"a": [text]})


def test_a_column_that_a_row_lacks_is_that_rows_error() -> None:
    with pytest.raises(ValueError, match=r"names \$\{data.absent\}, which this row does not have"):
        render("${data.absent}")


def test_a_template_says_what_it_refers_to() -> None:
    template = RequestTemplate(["${messages}", "x ${data.a}"], definition().at("request"), Redactor())
    assert template.references == {"messages", "data"}


class TestPaths:
    @cases("endpoints")
    def test_are_read(self, text: str, steps: list[str | int]) -> None:
        assert parse_path(text) == tuple(steps)

    @pytest.mark.parametrize("text", [".a", "a..b", "a.", "a[", "a[x]", "a[-1]", "[0]a", "a]", "a['b", "a[0]b"])
    def test_mistakes_are_refused(self, text: str) -> None:
        with pytest.raises(ValueError, match="not a path at character"):
            parse_path(text)

    def test_lead_nowhere_or_to_null(self) -> None:
        assert find_value({"a": None}, ("a",)) is None
        assert find_value({"a": None}, ("a", "b")) is MISSING
        assert find_value([1], (5,)) is MISSING
        assert find_value("text", (0,)) is MISSING

    @given(st.text(alphabet=".[]'\"a0 é", max_size=12))
    def test_never_raise_anything_but_value_error(self, text: str) -> None:
        try:
            steps = parse_path(text)
        except ValueError:
            return
        find_value({"a": [{"0": 1}]}, steps)
