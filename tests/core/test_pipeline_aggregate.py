"""From rows to metrics: what is counted, averaged, and left out; over all rows and by group."""

import json
import math
import random
import threading
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any
from unittest.mock import ANY

import numpy as np
import pytest
from hypothesis import given, strategies as st
from msgspec.json import encode
from tests.pipeline_parts import fail, metrics_of, rows_of, run
from tests.tables import cases

from tunecheck import ConfigurationError, DataError, Row
from tunecheck.pipeline import (
    Aggregator,
    ResultsWriter,
    RowState,
    RowsView,
    VerdictReader,
    _results as results,
    bind_evaluator,
    read_failures,
)
from tunecheck.pipeline._results import ExactSum
from tunecheck.plugins import Failure


def echo(out: Mapping[str, Any]) -> Mapping[str, Any]:
    """An evaluator that returns a column of the data; a row that says so fails."""
    if "raise" in out:
        raise ValueError(out["raise"])
    return out


@cases("pipeline")
def test_outputs_have_these_metrics(tmp_path: Path, outputs: list[dict[str, Any]], metrics: dict[str, Any]) -> None:
    found = metrics_of(run(tmp_path, [{"out": output} for output in outputs], evaluators={"e": echo}))
    named = found if "e.error_count" in metrics else {name: found[name] for name in metrics}
    assert named == metrics


def test_of_several_results_the_declared_one_counts_before_all(tmp_path: Path) -> None:
    class Judge:
        primary = "b"

        def __call__(self, *, out: Mapping[str, Any]) -> Mapping[str, Any]:
            return out

    outputs = [{"a_result": "fail", "e_result": "fail", "b_result": "pass"}] * 2
    result = run(tmp_path, [{"out": output} for output in outputs], evaluators={"e": Judge()})
    assert metrics_of(result)["e.binary_aggregate"] == 1


@cases("pipeline")
def test_a_verdict_is_read_from_these_keys(metric: str | None, row: dict[str, Any], verdict: dict[str, Any]) -> None:
    found = VerdictReader("e", metric).read(row)
    assert json.loads(encode(found)) == verdict
    assert VerdictReader("e", metric).word(row) == verdict["word"]


def test_a_row_without_a_result_has_the_outcome_that_the_caller_gives() -> None:
    reader = VerdictReader("e", "m")
    assert reader.read({"outputs.e.m": 1}, "not_applicable").word == "not_applicable"
    assert reader.read({"outputs.e.m_result": "fail", "outputs.e.m_threshold": math.nan}, "scored").threshold is None


@cases("pipeline")
def test_the_failed_rows_of_a_run_make_these_groups(
    rows: list[dict[str, Any]], failures: dict[str, Any], errors: list[str]
) -> None:
    found = read_failures(rows, {"e": "m", "f": "m"})
    assert json.loads(encode(found)) == failures
    assert [group.title for group in found.error_groups] == errors
    assert found.target_errors == {
        each["example"]: each["words"] for each in failures["errors"].get("target", {}).values()
    }


def test_a_view_reads_rows_by_their_place_and_by_their_index(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(f'{{"n":{n},"x":"{"a" * n}"}}\n' for n in range(6)), "utf-8")
    view = RowsView(path, indices=[0, 2, 4, 6, 8, 10])
    assert (len(view), [row["n"] for row in view], view[-1]["n"]) == (6, [0, 1, 2, 3, 4, 5], 5)
    assert [row["n"] for row in view[1:3]] == [1, 2]
    some = view.only([4, 10])
    assert (len(some), [row["n"] for row in some], some[1]["n"], some.only([8])[0]["n"]) == (2, [2, 5], 5, 4)
    assert repr(some) == f"RowsView({str(path)!r}, 2 rows)"
    assert [row["n"] for row in RowsView(path).only([1, 3]).read(["n"])] == [1, 3]
    assert (type(view.loaded()), some.loaded()) == (list, [{"n": 2, "x": "aa"}, {"n": 5, "x": "aaaaa"}])


@pytest.mark.parametrize(("limits", "fits"), [((5, 999, 99), 0), ((6, 50, 16), 0), ((6, 50, 17), 1), ((6, 99, 1), 1)])
def test_a_view_that_does_not_fit_in_memory_stays_in_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limits: Sequence[int], fits: bool
) -> None:
    for name, limit in zip(("ROWS_IN_MEMORY", "BYTES_IN_MEMORY", "LONG_ROW"), limits, strict=True):
        monkeypatch.setattr(f"tunecheck.pipeline._finished_rows.{name}", limit)
    (tmp_path / "rows.jsonl").write_text('{"n":1,"x":"a"}\n' * 5 + '{"n":1,"x":"aaaa"}\n', "utf-8")
    assert isinstance(RowsView(tmp_path / "rows.jsonl").loaded(), list) == fits


@pytest.mark.parametrize(("line", "problem"), [("[1]", "not a JSON object"), ('{"a', None)])
def test_a_damaged_row_is_named_with_its_file_and_line(tmp_path: Path, line: str, problem: str | None) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text(f'{{"n":1}}\n{line}\n', "utf-8")
    for read in (lambda: RowsView(path)[1], lambda: list(RowsView(path)), lambda: RowsView(path).only([1])[0]):
        with pytest.raises(DataError) as raised:
            read()
        said = str(raised.value)
        assert said.startswith(f"{path}: line 2 is damaged (") and said.endswith("): restore the file from a backup")
        assert problem is None or problem in said


def test_rows_are_written_in_the_order_of_the_data(tmp_path: Path) -> None:
    writer = ResultsWriter(tmp_path / "rows.jsonl")
    for index in (4, 1, 2):
        assert writer.write(index, {"row_id": f"r{index}", "b" if index == 1 else "a": index}) is None
    assert writer.columns == ["row_id", "b", "a"]
    view = writer.finish()
    assert list(view) == [{"row_id": "r1", "b": 1}, {"row_id": "r2", "a": 2}, {"row_id": "r4", "a": 4}]
    assert (view.indices, view.only([2])[0]["row_id"], len(view)) == ([1, 2, 4], "r2", 3)
    assert [path.name for path in tmp_path.iterdir()] == ["rows.jsonl"]


def test_values_without_a_json_form_are_left_out_of_their_row(tmp_path: Path) -> None:
    writer, row = ResultsWriter(tmp_path / "rows.jsonl"), {"row_id": "a", "x": object(), "y": 1, "z": 1j}
    has = "a value of type {} has no JSON form: convert it to a text, number, list or dict"
    said = f"values left out of the results: x: $: {has.format('object')}; z: $: {has.format('complex')}"
    assert writer.write(0, row) == Failure("TypeError", said)  # type: ignore[arg-type]
    (written,) = writer.finish()
    error = {"type": "TypeError", "message": said}
    assert written == {"row_id": "a", "x": None, "y": 1, "z": None, "error.results": error}
    writer = ResultsWriter(tmp_path / "more.jsonl")
    writer.abandon()
    assert [path.name for path in tmp_path.iterdir()] == ["rows.jsonl"]


def test_a_result_row_has_these_keys_in_this_order(tmp_path: Path) -> None:
    def target(question: str) -> dict[str, Any]:
        return {"response": f"{question}?", "n": 1}

    def judge(response: str) -> dict[str, Any]:
        return {"m": 0.0, "m_result": "fail", "m_properties": {"faults": [{"code": "refusal", "turn": 2}]}}

    data = [{"id": "a", "question": "Who", "ground_truth": "Me"}]
    evaluators: dict[str, Any] = {"broken": lambda response: 1 / 0, "judge": judge}
    (row,) = rows_of(run(tmp_path, data, target=target, evaluators=evaluators))
    assert [*row.items()] == [
        ("row_id", "a"),
        ("row_fingerprint", ANY),
        ("row_kind", "answer"),
        ("cause", "refusal"),
        ("cause_evidence", {"turn": 2}),
        *((f"inputs.{key}", value) for key, value in data[0].items()),
        ("outputs.response", "Who?"),
        ("outputs.n", 1),
        ("outputs.judge.m", 0.0),
        ("outputs.judge.m_result", "fail"),
        ("outputs.judge.m_properties", {"faults": [{"code": "refusal", "turn": 2}]}),
        ("error.broken", {"type": "ZeroDivisionError", "message": "division by zero", "place": ANY}),
    ]


def state(index: int, output: Any, *, kind: str | None = None, **values: Any) -> RowState:
    found = RowState(Row(index, f"r{index}", values, ""))
    found.kind = kind
    if output is None:
        found.errors["e"] = Failure("ValueError", "no")
    else:
        found.outputs["e"] = output
    return found


def aggregated(states: Sequence[RowState], *columns: str) -> tuple[dict[str, Any], dict[str, Any]]:
    aggregator = Aggregator([bind_evaluator("e", echo, {})], columns)
    for each in states:
        aggregator.add(each)
    rows = RowsView(Path(__file__))
    return aggregator.metrics(rows)


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False, width=32), min_size=1, max_size=60), st.randoms())
def test_a_mean_is_exact_and_does_not_depend_on_the_order(numbers: list[float], shuffled: random.Random) -> None:
    states = [state(index, {"s": number}) for index, number in enumerate(numbers)]
    before, _ = aggregated(states)
    shuffled.shuffle(states)
    after, _ = aggregated(states)
    assert before == after
    assert before["e.s"] == float(sum(map(Fraction, numbers))) / len(numbers)


@given(st.permutations(range(12)))
def test_keys_and_groups_stand_in_the_order_of_the_rows_whatever_finishes_first(order: list[int]) -> None:
    states = [state(index, {f"k{index % 3}": index, "s": 1}, g=f"g{index % 4}") for index in range(12)]
    metrics, by = aggregated([states[index] for index in order], "g")
    assert list(metrics)[:4] == ["e.k0", "e.s", "e.k1", "e.k2"]
    assert list(by["g"]) == ["g0", "g1", "g2", "g3"]


def test_groups_count_their_own_rows() -> None:
    states = [
        state(0, {"s": 1, "e_result": "pass"}, kind="call"),
        state(1, {"s": 0, "e_result": "fail"}, kind="call"),
        state(2, {"s": None, "e_result": "not_applicable"}, kind="answer"),
        state(3, None, kind="answer"),
        state(4, {"s": 1}),
    ]
    metrics, by = aggregated(states, "row_kind")
    assert metrics["e.s"] == 2 / 3
    counts = {"e.scored_count": 2, "e.not_applicable_count": 0, "e.error_count": 0, "row_count": 2}
    assert by["row_kind"]["call"] == {"e.s": 0.5, "e.binary_aggregate": 0.5, **counts}
    assert (by["row_kind"]["answer"]["e.not_applicable_count"], by["row_kind"]["answer"]["e.error_count"]) == (1, 1)
    assert list(by["row_kind"]) == ["call", "answer"]


def test_values_of_any_type_make_groups_of_their_text() -> None:
    values = ["1", 1, True, None, ["a", 1], {"k": [1]}, 1.5, "true", "x" * 500]
    states = [state(index, {"s": 1}, g=value) for index, value in enumerate(values)]
    _, by = aggregated(states, "g")
    counts = {value: metrics["row_count"] for value, metrics in by["g"].items()}
    assert counts == {"1": 2, "true": 2, '["a",1]': 1, '{"k":[1]}': 1, "1.5": 1, "x" * 200: 1}


def test_as_many_groups_as_there_may_be_are_fine() -> None:
    _, by = aggregated([state(index, {"s": 1}, g=index) for index in range(results.MAX_GROUPS)], "g")
    assert len(by["g"]) == results.MAX_GROUPS
    states = [state(index, {"s": 1}, g=index % 3, h=index % 4) for index in range(12)]
    _, by = aggregated(states, "g", "h")
    assert (len(by["g"]), len(by["h"])) == (3, 4)


@given(st.permutations(range(9)))
def test_groups_of_every_column_are_in_the_order_of_their_first_rows(order: list[int]) -> None:
    states = [state(index, {"s": index}, g="babcabcda"[index], h="zzyxxxyww"[index]) for index in range(9)]
    _, by = aggregated([states[index] for index in order], "h", "g")
    assert list(by) == ["h", "g"]
    assert list(by["g"]) == ["b", "a", "c", "d"]
    assert list(by["h"]) == ["z", "y", "x", "w"]
    assert [by["g"][value]["e.s"] for value in "bacd"] == [7 / 3, 13 / 3, 4.5, 7.0]


def test_the_same_metric_counts_in_every_group_as_over_all_rows() -> None:
    states = [
        state(0, {"tone_result": "pass", "style_result": "fail"}, g="x"),
        state(1, {"style_result": "pass", "tone_result": "fail"}, g="y"),
        state(2, {"style_result": "pass"}, g="z"),
        state(3, {"tone_result": "not_applicable", "style_result": "fail"}, g="y"),
    ]
    metrics, by = aggregated(states, "g")
    assert (metrics["e.binary_aggregate"], metrics["e.scored_count"], metrics["e.not_applicable_count"]) == (0.5, 3, 1)
    assert [by["g"][value].get("e.binary_aggregate") for value in "xyz"] == [1.0, 0.0, None]


def test_group_by_reports_each_column_s_values(tmp_path: Path) -> None:
    data = [{"out": {"s": n}, "lang": "en" if n % 2 else "fr", "tags": ["a", n % 2]} for n in range(4)]
    result = run(tmp_path, data, evaluators={"e": echo}, group_by=["lang", "tags"])
    assert {value: metrics["e.s"] for value, metrics in result.by_group["lang"].items()} == {"fr": 1, "en": 2}
    assert set(result.by_group["tags"]) == {'["a",0]', '["a",1]'}
    assert result.by_group["row_kind"] == {}


def test_too_many_groups_stop_the_run_with_the_reason(tmp_path: Path) -> None:
    data = [{"out": {"s": 1}, "text": f"text {n}"} for n in range(1_500)]
    said = "group_by: 'text' has over 1,000 values: name another column"
    with pytest.raises(ConfigurationError, match=said):
        run(tmp_path, data, evaluators={"e": echo}, group_by="text")


def test_group_by_of_no_column_says_what_was_meant(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="group_by: the data has no column 'langg'; did you mean 'lang'"):
        run(tmp_path, [{"out": {}, "lang": 1}], evaluators={"e": echo}, group_by="langg")


class Summing:
    """Returns what stands in the data, and aggregates in the ways that evaluators do."""

    def __init__(self, aggregate: Callable[[Any], Any]) -> None:
        self._aggregate = aggregate

    def __call__(self, *, out: Mapping[str, Any]) -> Mapping[str, Any]:
        return echo(out)

    def __aggregate__(self, rows: Any) -> Any:
        return self._aggregate(rows)


def own(tmp_path: Path, aggregation: Callable[[Any], Any], outputs: Sequence[Mapping[str, Any]], **more: Any) -> Any:
    data = [{"out": dict(output), "lang": ["en", "fr"][n % 2]} for n, output in enumerate(outputs)]
    return run(tmp_path, data, evaluators={"e": Summing(aggregation)}, **more)


OUTPUTS: list[dict[str, Any]] = [{"s": 1}, {"s": 2}, {"raise": "no"}, {"s": 4}, {"s": 8, "t": "x"}]


@pytest.mark.parametrize(
    ("aggregation", "value"),
    [
        (lambda rows: len(rows), 4),
        (lambda rows: [row["s"] for row in rows], [1, 2, 4, 8]),
        (lambda rows: rows[0]["s"], 1),
        (lambda rows: rows[-1].t, "x"),
        (lambda rows: sum(row.s for row in rows), 15),
        (lambda rows: [row.get("t", "none") for row in rows[2:]], ["none", "x"]),
        (lambda rows: [sum(row["s"] for row in rows), sum(row["s"] for row in rows)], [15, 15]),
        (lambda rows: [hasattr(row, "t") for row in rows], [False, False, False, True]),
        (lambda rows: isinstance(rows, Sequence), True),
        (lambda rows: math.nan, None),
    ],
    ids=["len", "in order", "index", "attribute", "attributes", "slice", "twice", "hasattr", "sequence", "nan"],
)
def test_the_rows_can_be_read_in_every_way(tmp_path: Path, aggregation: Callable[[Any], Any], value: Any) -> None:
    assert metrics_of(own(tmp_path, lambda rows: {"v": aggregation(rows)}, OUTPUTS))["e.v"] == value


def test_its_own_aggregate_wins_over_means_of_the_same_name(tmp_path: Path) -> None:
    assert metrics_of(own(tmp_path, lambda rows: {"s": "mine"}, OUTPUTS))["e.s"] == "mine"


def test_its_own_aggregate_is_made_for_each_group_from_that_group_s_rows(tmp_path: Path) -> None:
    result = own(tmp_path, lambda rows: {"all": [row["s"] for row in rows]}, OUTPUTS, group_by="lang")
    found = {value: metrics["e.all"] for value, metrics in result.by_group["lang"].items()}
    assert found == {"en": [1, 8], "fr": [2, 4]}


def test_its_own_aggregate_is_made_once_for_all_rows_and_a_group_of_all_rows(tmp_path: Path) -> None:
    made: list[int] = []
    data = [{"out": {"s": number}, "lang": "en", "ground_truth": "yes"} for number in range(3)]

    def count(rows: Any) -> int:
        made.append(len(rows))
        return len(made)

    result = run(tmp_path, data, evaluators={"e": Summing(count)}, group_by="lang")
    of_group = {"lang": result.by_group["lang"]["en"]["e.aggregate"]}
    of_kind = {kind: metrics["e.aggregate"] for kind, metrics in result.by_group["row_kind"].items()}
    assert (made, metrics_of(result)["e.aggregate"], of_group, of_kind) == ([3], 1, {"lang": 1}, {"answer": 1})


@pytest.mark.parametrize("begin", [len, list, lambda rows: rows[0]], ids=["len", "list", "index"])
def test_outputs_that_were_read_at_once_are_kept(tmp_path: Path, begin: Callable[[Any], Any]) -> None:
    def same(rows: Any) -> dict[str, bool]:
        begin(rows)
        return {"same": all(first is second for first, second in zip(rows, rows, strict=True))}

    assert metrics_of(own(tmp_path, same, OUTPUTS))["e.same"] is True


def test_its_own_aggregate_is_not_asked_where_nothing_was_scored(tmp_path: Path) -> None:
    metrics = metrics_of(own(tmp_path, lambda rows: {"v": 1}, [{"raise": "a"}, {"raise": "b"}]))
    assert metrics == {"e.scored_count": 0, "e.not_applicable_count": 0, "e.error_count": 2}


@pytest.mark.parametrize(
    ("aggregation", "said"),
    [
        (lambda rows: 1 / 0, "ZeroDivisionError: division by zero"),
        (lambda rows: None, "TypeError: the evaluator returned a NoneType"),
        (lambda rows: fail(StopIteration("over")), "StopIteration: over"),
        (lambda rows: fail(SystemExit(3)), "SystemExit: 3"),
        (lambda rows: fail(KeyboardInterrupt("mine")), "KeyboardInterrupt: mine"),
        (lambda rows: fail(BaseException("base")), "BaseException: base"),
        (
            lambda rows: {"v": object()},
            "TypeError: aggregate.v: a value of type object has no JSON form: "
            "convert it to a text, number, list or dict",
        ),
        (lambda rows: rows[99], "IndexError"),
    ],
)
def test_a_failing_aggregate_costs_nothing_else(tmp_path: Path, aggregation: Callable[[Any], Any], said: str) -> None:
    result = own(tmp_path, aggregation, OUTPUTS)
    kind, _, message = said.partition(": ")
    error = result.aggregate_errors["e"]
    assert error == {"type": kind, "message": ANY}
    assert error["message"].startswith(message)
    assert f"__aggregate__ of evaluator 'e' failed: {kind}: {error['message']}" in result.notes
    assert {key: value for key, value in metrics_of(result).items() if "aggregate" in key} == {}
    assert metrics_of(result)["e.s"] == 3.75


def test_an_aggregate_s_odd_value_costs_its_key(tmp_path: Path) -> None:
    result = own(tmp_path, lambda rows: {"v": {1}, "n": np.array([1, 2]), "m": 3}, OUTPUTS)
    metrics = metrics_of(result)
    assert (metrics["e.v"], metrics["e.n"], metrics["e.m"]) == (None, [1, 2], 3)
    message = "aggregate.v: a value of type set has no JSON form: convert it to a text, number, list or dict"
    assert result.aggregate_errors == {"e": {"type": "TypeError", "message": message}}


def test_an_aggregate_may_be_a_number(tmp_path: Path) -> None:
    assert metrics_of(own(tmp_path, lambda rows: len(rows), OUTPUTS))["e.aggregate"] == 4


def test_an_aggregate_that_hangs_is_left_for_all_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "_AGGREGATE_S", 0.3)
    release, called = threading.Event(), threading.Semaphore(0)

    def hangs(rows: Any) -> Any:
        called.release()
        release.wait(60)

    result = own(tmp_path, hangs, OUTPUTS, group_by="lang")
    release.set()
    late = {
        "type": "EvaluatorTimeoutError",
        "message": (
            "evaluator 'e': the call took longer than its time limit of 0.3 s: make it faster, or raise the limit"
        ),
    }
    assert result.aggregate_errors == {"e": late}
    assert called.acquire(timeout=30)
    assert not called.acquire(blocking=False)


def test_rows_whose_number_is_none_are_not_among_those_of_its_own_aggregate(tmp_path: Path) -> None:
    class Sums:
        def __call__(self, *, n: int) -> dict[str, float]:
            return {"s": math.nan if n == 1 else n}

        def __aggregate__(self, rows: Any) -> Any:
            return {"sum": sum(row["s"] for row in rows)}

    result = run(tmp_path, [{"n": 1}, {"n": 2}, {"n": 3}], evaluators={"e": Sums()})
    assert metrics_of(result)["e.sum"] == 5


def test_evaluators_whose_results_would_share_columns_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"evaluators 'e' and 'e.more' would share result columns"):
        run(tmp_path, [{"out": {}}], evaluators={"e": echo, "e.more": echo})


def test_an_evaluator_may_have_a_dot_in_its_name(tmp_path: Path) -> None:
    metrics = metrics_of(run(tmp_path, [{"out": {"a.b_result": "pass", "s": 1}}], evaluators={"a.b": echo}))
    counts = {"a.b.scored_count": 1, "a.b.not_applicable_count": 0, "a.b.error_count": 0}
    assert metrics == {"a.b.s": 1, "a.b.binary_aggregate": 1, **counts}


numbers = st.lists(st.floats(-1e300, 1e300), max_size=30)


@given(st.lists(numbers, max_size=5))
def test_the_sum_stays_exact_when_it_is_condensed(parts: list[list[float]]) -> None:
    total = ExactSum()
    for part in parts:
        for number in part:
            total.numbers.append(number)
        total.condense()
    every = [number for part in parts for number in part]
    assert total.count == len(every)
    assert sum(map(Fraction, total.numbers)) == sum(map(Fraction, every))


def test_however_many_are_added_few_are_kept() -> None:
    total = ExactSum()
    for _ in range(50_000):
        total.numbers.append(0.1)
    total.condense()
    assert (total.count, len(total.numbers) < 5) == (50_000, True)
    assert math.fsum(total.numbers) == math.fsum([0.1] * 50_000)


def test_what_is_beyond_any_float_stays_so() -> None:
    total = ExactSum()
    for number in (1.0, math.inf, 2.0):
        total.numbers.append(number)
    total.condense()
    assert (total.count, list(total.numbers)) == (3, [math.inf])
