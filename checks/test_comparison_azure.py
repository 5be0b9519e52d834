"""Results that azure-ai-evaluation itself wrote are compared: with one another, and with a run of ours."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from tests.cli_parts import write_lines
from tests.conftest import ReferenceEnvironment
from tests.reference_environments import AZURE

from tunecheck import compare, evaluate

pytestmark = pytest.mark.slow

PROGRAM = """
import sys
from azure.ai.evaluation import F1ScoreEvaluator, evaluate

def own(response, ground_truth):
    if response == "broken":
        raise ValueError("no")
    return {"own": float(response == ground_truth), "own_result": "pass" if response == ground_truth else "fail"}

if __name__ == "__main__":
    data, out = sys.argv[1:]
    evaluate(data=data, evaluators={"f1": F1ScoreEvaluator(), "own": own}, output_path=out)
"""


def rows(answers: list[str]) -> list[dict[str, object]]:
    return [
        {"id": f"q{number}", "query": {"text": f"question {number}"}, "ground_truth": "right", "response": answer}
        for number, answer in enumerate(answers)
    ]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory, reference_env: ReferenceEnvironment) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("azure")
    (folder / "program.py").write_text(PROGRAM)
    python = reference_env("azure", *AZURE)
    found = []
    for name, answers in (("a", ["right", "right", "wrong", "right"]), ("b", ["right", "wrong", "right", "broken"])):
        data = write_lines(folder / f"{name}.jsonl", rows(answers))
        out = folder / name / "evaluation_results.json"
        out.parent.mkdir()
        command = [str(python), str(folder / "program.py"), str(data), str(out)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
        assert done.returncode == 0, done.stderr[-2000:]
        found.append(out)
    return found[0], found[1]


def test_two_files_of_azures_pair_row_by_row(files: tuple[Path, Path]) -> None:
    found = compare(*files)
    assert found.pairs.paired == 4
    metric = found.metrics["own"]
    assert (metric.difference.n, metric.b, metric.c) == (3, 1, 1)
    assert metric.new_rows.errors == 1
    assert [row.row_id for row in metric.regressed] == ["q1"]
    metrics = json.loads(files[0].read_text())["metrics"]
    assert found.metrics["f1"].base.value == metrics["f1.binary_aggregate"]


def test_azures_file_pairs_with_a_run_of_ours(files: tuple[Path, Path], tmp_path: Path) -> None:
    def own(response: str, ground_truth: str) -> dict[str, object]:
        return {"own": response == ground_truth, "own_result": "pass" if response == ground_truth else "fail"}

    ours = evaluate(data=rows(["right"] * 4), evaluators={"own": own}, results_dir=tmp_path)
    found = compare(files[0], ours)
    assert found.pairs.paired == 4
    assert found.metrics["own"].c == 1
