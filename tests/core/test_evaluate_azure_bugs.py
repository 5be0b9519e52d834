"""Defects of azure-ai-evaluation 1.18 that Tunecheck does not have: each of its known repros, as a test.

Repros that stand elsewhere: a failing target row and the documented `${target.…}` mapping (test_pipeline_targets),
wrong inputs from nested leaves and typos (test_mapping), as many evaluators as threads (test_pipeline_streaming),
shared mutable inputs and standard output (test_pipeline_evaluators), several results and not applicable rows
(test_pipeline_aggregate), results files that are lost (test_evaluate_arguments).
"""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.pipeline_parts import column, metrics_of, rows_of, run, strict_lines

from tunecheck import ConfigurationError


def write(path: Path, *lines: str) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def test_a_nested_column_can_be_mapped(tmp_path: Path) -> None:
    data = write(tmp_path / "d.jsonl", '{"meta": {"response": "x"}}')
    result = run(
        tmp_path,
        data,
        evaluators={"e": lambda response: {"got": response}},
        evaluator_config={"default": {"column_mapping": {"response": "${data.meta.response}"}}},
    )
    assert column(result, "outputs.e.got") == ["x"]


def test_dates_and_numbers_in_a_file_stay_what_they_are(tmp_path: Path) -> None:
    data = write(
        tmp_path / "d.jsonl",
        '{"date": "2024-01-05", "created_at": 1700000000, "n": 9007199254740993, "big": 18446744073709551616}',
        '{"date": "2024-13-99", "created_at": null, "n": null, "big": 1.5}',
    )
    result = run(tmp_path, data, evaluators={"e": lambda date: {"type": type(date).__name__}}, output_path=tmp_path)
    assert column(result, "inputs.date") == ["2024-01-05", "2024-13-99"]
    assert column(result, "inputs.created_at") == [1700000000, None]
    assert column(result, "inputs.n") == [9007199254740993, None]
    assert column(result, "inputs.big") == [18446744073709551616, 1.5]
    assert column(result, "outputs.e.type") == ["str", "str"]


def test_the_user_s_data_file_is_never_touched(tmp_path: Path) -> None:
    data = write(tmp_path / "d.jsonl", '{"response": "x"}')
    before = data.read_bytes(), data.stat().st_mtime_ns
    run(tmp_path, data, evaluators={"e": lambda response: 1}, target=lambda response: response)
    assert (data.read_bytes(), data.stat().st_mtime_ns) == before


def test_an_own_aggregate_is_used_and_an_optional_parameter_may_be_left_out(tmp_path: Path) -> None:
    class Judge:
        def __call__(self, *, response: str, context: str | None = None) -> Mapping[str, Any]:
            return {"n": len(response), "context": context}

        def __aggregate__(self, rows: list[Any]) -> Mapping[str, Any]:
            return {"longest": max(row.n for row in rows)}

    result = run(tmp_path, [{"response": "a"}, {"response": "bb"}], evaluators={"j": Judge()})
    assert metrics_of(result)["j.longest"] == 2
    assert result.failed_row_count == 0


def test_a_class_is_used_as_an_instance(tmp_path: Path) -> None:
    class Judge:
        def __init__(self, threshold: float = 0.5) -> None:
            self.threshold = threshold

        def __call__(self, *, response: str) -> float:
            return self.threshold

    assert metrics_of(run(tmp_path, [{"response": "a"}], evaluators={"j": Judge}))["j.j"] == 0.5


def test_a_missing_required_column_is_said_for_a_built_in_evaluator_too(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="evaluator 'bleu' needs 'ground_truth'"):
        run(tmp_path, [{"response": "a"}], evaluators={"bleu": "bleu"})


def test_a_text_score_is_kept_in_its_row(tmp_path: Path) -> None:
    result = run(tmp_path, [{"response": "a"}], evaluators={"j": lambda response: {"score": "1.0"}})
    assert column(result, "outputs.j.score") == ["1.0"]


def test_a_score_of_ten_to_the_25_stays_exact_in_its_row_and_has_its_mean(tmp_path: Path) -> None:
    result = run(tmp_path, [{"response": "a"}], evaluators={"j": lambda response: {"score": 10**25}})
    assert column(result, "outputs.j.score") == [10**25]
    assert metrics_of(result)["j.score"] == 1e25


@pytest.mark.parametrize("name", ["line_number", "conversation", "messages", "date", "response", "outputs", "index"])
def test_a_column_may_have_any_name(tmp_path: Path, name: str) -> None:
    data = [{name: None}, {name: [{"a": 1}]}, {name: "text"}]
    result = run(tmp_path, data, evaluators={"e": lambda **given: 1}, target=lambda **row: {"seen": row[name]})
    assert column(result, f"inputs.{name}") == column(result, "outputs.seen") == [None, [{"a": 1}], "text"]


def test_dicts_of_arguments_are_not_spread_over_columns(tmp_path: Path) -> None:
    """Azure writes hundreds of times the input there."""
    data = [{"expected": {f"f{n}": {f"argument{n}": n}}, "response": "x"} for n in range(300)]
    result = run(tmp_path, data, evaluators={"e": lambda response: 1})
    keys = {key for row in rows_of(result) for key in row}
    assert keys == {"row_id", "row_fingerprint", "cause", "inputs.expected", "inputs.response", "outputs.e.e"}
    written = (result.run_dir / "eval_results.jsonl").stat().st_size
    assert written < 4 * sum(len(str(row)) for row in data)


SEEDED = """
    import sys
    from tunecheck import evaluate
    meta = {"a": {"id": 1}, "b": {"id": 2}}
    rows = [{"meta": meta, "id": n, "tags": ["x", "y"], "g": f"g{n % 3}"} for n in range(20)]
    def judge(id, meta, g):
        return {"a_result": "pass" if id % 2 else "fail", "b": id, **{k: 1 for k in {"p", "q", "r"}}}
    evaluate(data=rows, evaluators={"e": judge, "f": lambda tags: {"n": len(set(tags))}}, results_dir=sys.argv[1],
             group_by=["g", "tags"], workers=0)
"""


def test_nothing_depends_on_the_hash_seed(tmp_path: Path) -> None:
    found = []
    for seed in ("1", "2"):
        command = [sys.executable, "-c", textwrap.dedent(SEEDED), str(tmp_path / seed)]
        subprocess.run(command, env=os.environ | {"PYTHONHASHSEED": seed}, check=True, timeout=60)
        (folder,) = (tmp_path / seed).iterdir()
        # The evaluator itself makes its keys in the seed's order: what they are must not differ, nor the metrics.
        metrics = (folder / "metrics.json").read_text()
        found.append((strict_lines(folder / "eval_results.jsonl"), sorted(metrics.replace(",", "").split())))
    assert found[0] == found[1]
