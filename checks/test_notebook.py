"""In a real Jupyter kernel: results show themselves, and a long run has a line that says how far it is."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.conftest import ReferenceEnvironment
from tests.reference_environments import AZURE, said_by

pytestmark = pytest.mark.slow

CELLS = (
    """
import time
from tunecheck import F1ScoreEvaluator, compare, evaluate, select

def target(query):
    time.sleep(0.02)
    return {"response": query}

def run(name, right):
    rows = [{"query": f"q{n}", "ground_truth": f"q{n}" if n < right else "other"} for n in range(40)]
    return evaluate(data=rows, target=target, evaluators={"f1": F1ScoreEvaluator()}, evaluation_name=name, workers=0)

first = run("<b>first</b>", 10)
first
""",
    'second = run("second", 30)\ncompare(first.run_dir, second.run_dir, pair_by="id")',
    'select(first.run_dir, second.run_dir, pair_by="id")',
    "rows = [{'response': 'yes', 'ground_truth': 'yes'}]\n"
    "quiet = evaluate(data=rows, evaluators={'f1': F1ScoreEvaluator()}, progress=False)",
)


@pytest.fixture(scope="module")
def said(reference_env: ReferenceEnvironment, tmp_path_factory: pytest.TempPathFactory) -> Any:
    ours = [package for package in AZURE if not package.startswith("azure")]
    python = reference_env("notebook", "ipykernel==7.1.0", "nbclient==0.10.2", "numpy", "rich", *ours)
    return said_by(python, "notebook_kernel.py", json.dumps(CELLS), str(tmp_path_factory.mktemp("notebook")))


def html(outputs: list[dict[str, Any]]) -> str:
    return "".join("".join(each.get("data", {}).get("text/html", "")) for each in outputs)


def test_a_run_a_comparison_and_a_selection_show_a_sentence_a_chart_and_a_table(said: Any) -> None:
    for outputs in said["outputs"][:3]:
        shown = html(outputs)
        assert "<p>" in shown
        assert "<svg" in shown
        assert "<table" in shown
    assert "40 rows" in html(said["outputs"][0])
    assert "f1: better" in html(said["outputs"][1])
    assert "Ship second. " in html(said["outputs"][2])


def test_a_run_says_how_far_it_is_and_takes_the_line_away(said: Any) -> None:
    moments = [each for each in said["updates"] if "progress max" in each]
    assert any("of 40 rows" in each for each in moments)
    assert all("<b>first" not in each for each in moments)
    assert said["updates"][-1] == "", "the line is gone"
    assert said["outputs"][3] == [], "nobody asked for one"
