"""Work that the evaluators of one row share: calls are read once, and nothing outlives the run or hides a change."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.pipeline_parts import column, metrics_of, rows_of, run

from tunecheck import ArgumentMatchEvaluator, FunctionCallMatchEvaluator, MatchEvaluator
from tunecheck.calls.matching import match_calls
from tunecheck.formats import RowCache, begin_row, cached_per_row, cached_reading, cached_tools, read_calls


@contextmanager
def row_of(*values: object) -> Iterator[None]:
    begin_row(RowCache([{str(number): value for number, value in enumerate(values)}]))
    yield
    begin_row(None)


def counting(counts: list[int]) -> int:
    counts.append(1)
    return len(counts)


def test_what_is_made_of_a_rows_values_is_made_once() -> None:
    made: list[int] = []
    value, other = ["a"], ["a"]
    with row_of(value, other):
        assert cached_per_row("task", (value, None), lambda: counting(made)) == 1
        assert cached_per_row("task", (value, None), lambda: counting(made)) == 1
        assert cached_per_row("task", (other, None), lambda: counting(made)) == 2
        assert cached_per_row("another task", (value, None), lambda: counting(made)) == 3
    with row_of(value):
        assert cached_per_row("task", (value, None), lambda: counting(made)) == 4


def test_a_value_that_is_not_the_rows_is_looked_at_each_time() -> None:
    made: list[int] = []
    with row_of("row"):
        own = ["x"]
        assert [cached_per_row("task", (own,), lambda: counting(made)) for _ in range(2)] == [1, 2]
    assert [cached_per_row("task", ("row",), lambda: counting(made)) for _ in range(2)] == [3, 4]


def test_a_value_is_read_once_by_the_same_tools() -> None:
    definitions = [{"name": "f", "parameters": {}}]
    calls = {"name": "f", "arguments": {"a": 1}}
    with row_of(calls, definitions):
        tools = cached_tools(definitions)
        assert cached_tools(definitions) is tools
        assert cached_reading(calls, tools) is cached_reading(calls, tools)
        assert cached_reading(calls, tools) is not cached_reading(calls)


def test_a_rows_calls_are_read_once_for_its_evaluators_its_kind_and_its_cause(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[object] = []

    def counted(value: object, **options: Any) -> Any:
        read.append(value)
        return read_calls(value, **options)

    monkeypatch.setattr("tunecheck.formats._reading.read_calls", counted)
    response, truth = ({"name": "f", "arguments": {"a": number}} for number in (1, 2))
    tools = [{"name": "f", "parameters": {}}]
    data = [{"response": response, "ground_truth": truth, "tool_definitions": tools}]
    evaluators = {"match": MatchEvaluator(), "arguments": ArgumentMatchEvaluator()}
    (row,) = rows_of(run(tmp_path, data, evaluators=evaluators))
    assert (row["row_kind"], row["cause"]) == ("call", "wrong_argument.other")
    assert read == [response, truth]


def test_who_changes_a_verdict_changes_no_other_row(tmp_path: Path) -> None:
    match = MatchEvaluator()

    class Emptied:
        pure = True

        def __call__(self, *, response: str, ground_truth: str) -> Any:
            verdict: Any = match(response=response, ground_truth=ground_truth)
            verdict["match_properties"]["faults"][0]["expected"].clear()
            return verdict

    rows = [{"response": "[f(a=1)]", "ground_truth": "[f(a=1), g(b=2)]"} for _ in range(2)]
    found = run(tmp_path, rows, evaluators={"m": Emptied()})
    assert column(found, "outputs.m.match_reason") == ["missing call g(b=2)"] * 2


def test_an_evaluator_may_change_a_list_of_its_own_and_compare_again(tmp_path: Path) -> None:
    match = FunctionCallMatchEvaluator()

    class Twice:
        pure = True

        def __call__(self, *, response: str, ground_truth: str) -> dict[str, Any]:
            calls = [{"name": response, "arguments": {}}]
            first = match(response=calls, ground_truth=[{"name": ground_truth, "arguments": {}}])
            calls.append({"name": "more", "arguments": {}})
            second = match(response=calls, ground_truth=[{"name": ground_truth, "arguments": {}}])
            return {"first": first["function_call_match"], "second": second["function_call_match"]}

    (row,) = rows_of(run(tmp_path, [{"response": "f", "ground_truth": "f"}], evaluators={"twice": Twice()}))
    assert (row["outputs.twice.first"], row["outputs.twice.second"]) == (1.0, 0.0)


@pytest.mark.parametrize("policies", [{}, {"ignore_case": True}])
def test_a_row_is_compared_once_for_each_policy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, policies: Any) -> None:
    compared: list[object] = []

    def counted(*given: Any) -> Any:
        compared.append(given)
        return match_calls(*given)

    monkeypatch.setattr("tunecheck.evaluators._calls.match_calls", counted)
    call = {"name": "f", "arguments": {"city": "Paris"}}
    rows = [{"response": {**call}, "ground_truth": {**call}, "tool_definitions": None} for _ in range(4)]
    rows[3]["response"] = {"name": "f", "arguments": {"city": "paris"}}
    evaluators = {
        "function_call_match": FunctionCallMatchEvaluator(),
        "argument_match": ArgumentMatchEvaluator(**policies),
        "match": MatchEvaluator(),
    }
    metrics = metrics_of(run(tmp_path, rows, evaluators=evaluators))
    assert len(compared) == len(rows) * (2 if policies else 1)
    assert metrics["match.binary_aggregate"] == 0.75
    assert metrics["argument_match.binary_aggregate"] == (1.0 if policies else 0.75)
