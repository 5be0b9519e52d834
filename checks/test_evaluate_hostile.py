"""Data and model output that mean harm, or merely are strange: nothing crashes, every file stays strict."""

import csv
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st
from tests.pipeline_parts import column, journal_of, metrics_of, rows_of, run, strict_json, strict_lines

from tunecheck import ConfigurationError, EvaluationResult
from tunecheck.pipeline import _finished_rows as export


def table_of(result: EvaluationResult) -> list[list[str]]:
    with (result.run_dir / "eval_results.csv").open(encoding="utf-8-sig", newline="") as file:
        return list(csv.reader(file))


def check_files(result: EvaluationResult) -> None:
    """Every file of a run parses strictly, and says the same as the result."""
    folder = result.run_dir
    assert strict_lines(folder / "eval_results.jsonl") == rows_of(result)
    assert strict_json((folder / "metrics.json").read_bytes())["metrics"] == metrics_of(result)
    assert strict_json((folder / "run.json").read_bytes())["status"] == "finished"
    journal_of(result)
    header, *body = table_of(result)
    assert len(body) == result.row_count
    assert all(len(line) == len(header) for line in body)


def deep(levels: int) -> Any:
    value: Any = "bottom"
    for level in range(levels):
        value = [value] if level % 2 else {"k": value}
    return value


@pytest.mark.parametrize("workers", [0, 1])
def test_rows_nested_150_deep_pass_through_everything(tmp_path: Path, workers: int) -> None:
    data = [{"a": deep(150)}, {"a": 1}]
    result = run(
        tmp_path,
        data,
        target=lambda a: {"response": a},
        evaluators={"e": lambda a, response: {"same": a == response, "again": [a]}, "f1": "f1_score"},
        evaluator_config={"f1": {"response": "x", "ground_truth": "x"}},
        workers=workers,
        output_path=tmp_path,
    )
    assert column(result, "outputs.e.same") == [True, True]
    assert column(result, "outputs.response")[0] == deep(150)
    check_files(result)


def test_an_answer_nested_too_deep_is_an_error_of_its_row(tmp_path: Path) -> None:
    answers = iter([deep(1000), deep(10)])
    evaluators = {"e": lambda response: 1}
    result = run(tmp_path, [{"a": 1}, {"a": 2}], target=lambda a: next(answers), evaluators=evaluators, concurrency=1)
    assert "nested deeper than 200 levels" in column(result, "error.target")[0]["message"]
    assert column(result, "outputs.e.e") == [None, 1]
    check_files(result)


STRANGE = [
    *("", " ", "a.b", "a[0]", "['x']", "${data.a}", "__proto__", "__class__", "constructor", "line_number"),
    *("conversation", "row_id", "error.e", "outputs.e.n", "inputs.a", "\ud83d", "\0", "\n\r\u2028", "=cmd()", "ключ"),
    *("x" * 5000, '"', ",", "messages", "date", "response", "outputs", "index"),
]


@pytest.mark.parametrize("name", STRANGE, ids=lambda name: ascii(name)[:20])
def test_a_column_may_be_called_anything(tmp_path: Path, name: str) -> None:
    data = [{name: "value", "a": 1}, {"a": 2}, {name: None, "a": 3}, {name: [{"a": 1}], "a": 4}]
    result = run(
        tmp_path,
        data,
        target=lambda **row: {"response": 1, name: row.get(name, "none")},
        evaluators={"e": lambda a: {"n": a, name: a}},
        group_by=name,
    )
    assert column(result, f"inputs.{name}") == ["value", None, None, [{"a": 1}]]
    assert column(result, f"outputs.{name}") == ["value", "none", None, [{"a": 1}]]
    assert column(result, f"outputs.e.{name}") == [1, 2, 3, 4]
    assert list(result.by_group[name]) == ["value", '[{"a":1}]']
    check_files(result)


@pytest.mark.parametrize("name", [name for name in STRANGE if "'" not in name and len(name) < 1000 and name != ""])
def test_a_column_of_any_name_can_be_mapped(tmp_path: Path, name: str) -> None:
    config = {"e": {"x": f"${{data['{name}']}}"}}
    result = run(tmp_path, [{name: "value"}], evaluators={"e": lambda x: {"got": x}}, evaluator_config=config)
    assert column(result, "outputs.e.got") == ["value"]


def test_columns_beyond_a_spreadsheet_are_in_the_rows_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that each have columns of their own would make a table of rows times rows."""
    monkeypatch.setattr(export, "MAX_COLUMNS", 50)
    monkeypatch.setattr("tunecheck.evaluation._execution.MAX_COLUMNS", 50)
    data = [{f"column{number}": number} for number in range(100)]
    result = run(tmp_path, data, evaluators={"e": lambda **_: 1})
    assert len(table_of(result)[0]) == 50
    assert result.notes == ["eval_results.csv has only the first 50 of 104 columns"]
    assert rows_of(result)[99]["inputs.column99"] == 99


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**30), 10**30)
    | st.floats()
    | st.text(alphabet=st.characters(codec=None), max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


def finite(value: Any) -> Any:
    """A value after a round trip through strict JSON: NaN and the infinities are null."""
    if isinstance(value, float):
        return value if value - value == 0 else None
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    return [finite(item) for item in value] if isinstance(value, list) else value


@settings(max_examples=20)
@given(st.lists(st.dictionaries(st.text(max_size=8), json_values, max_size=4), min_size=1, max_size=5))
def test_whatever_the_rows_hold_every_file_is_strict_and_says_the_same(data: list[dict[str, Any]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        evaluators = {"e": lambda echo: {"again": echo, "n": len(echo)}}
        result = run(Path(folder), data, target=lambda **row: {"echo": row}, evaluators=evaluators)
        check_files(result)
        assert column(result, "outputs.echo") == [finite(row) for row in data]
        assert column(result, "outputs.e.again") == [finite(row) for row in data]
        assert column(result, "outputs.e.n") == [len(row) for row in data]


@settings(max_examples=15)
@given(st.text(alphabet=st.characters(codec=None), min_size=1, max_size=30))
def test_an_evaluator_may_be_called_anything_that_has_no_meaning_of_its_own(name: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        try:
            result = run(Path(folder), [{"a": 1}], evaluators={name: lambda a: {"x": a}}, evaluation_name=name)
        except ConfigurationError:
            assert not name.strip() or name in ("target", "default", "results")
            return
        assert column(result, f"outputs.{name}.x") == [1]
        check_files(result)
        assert result.run_dir.parent == Path(folder) / "runs"


def test_a_name_does_not_lead_out_of_the_results_folder(tmp_path: Path) -> None:
    result = run(tmp_path, [{"a": 1}], evaluators={"e": lambda a: 1}, evaluation_name="../../../etc/passwd")
    assert result.run_dir.parent == tmp_path / "runs"


def test_model_output_is_never_run_as_code_or_as_a_path(tmp_path: Path) -> None:
    evil = "__import__('os').system('touch PWNED')"
    data = [{"a": evil, "ground_truth": f"[f(a={evil})]"}]
    evaluators = {"e": lambda response: {evil: evil}}
    run(tmp_path, data, target=lambda a: {"response": evil, evil: evil}, evaluators=evaluators)
    assert not list(tmp_path.rglob("*PWNED*"))
    assert not Path("PWNED").exists()
