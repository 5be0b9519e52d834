"""Judging memory tests: replies of 60,000 characters, words in any order, and the evaluator in Azure AI Evaluation."""

from __future__ import annotations

import json
import os
import random
import subprocess
from pathlib import Path
from typing import Any

import pytest
from checks.goodai_rescore import given_of_row
from tests.conftest import ROOT, ReferenceEnvironment
from tests.memory.test_memory_evaluator import rows
from tests.memory.test_memory_scoring_hostile import PIECES, TITLES, is_sound, judge_both_ways, repetitions
from tests.memory_scoring_parts import judged, recorded
from tests.reference_environments import AZURE

from tunecheck.plugins import JSON


@pytest.mark.timeout(200)
@pytest.mark.parametrize("title", TITLES[:-2])
def test_very_long_repetitions_do_not_hang(title: str) -> None:
    for text in repetitions(60_000):
        judge_both_ways(title, text)


def test_recorded_rows_with_their_words_mixed_up_are_all_scored(shared_data: Any) -> None:
    draws = random.Random(6)
    for row in recorded(shared_data):
        mixed: list[JSON] = []
        for reply in row["responses"]:
            words = reply.split(" ")
            start, end = sorted(draws.sample(range(len(words) + 1), 2)) if words else (0, 0)
            mixed.append(" ".join([*words[end:], *words[start:end], *words[:start], draws.choice(PIECES)]))
        assert is_sound(judged(given_of_row({**row, "responses": mixed})))


def test_azures_evaluate_takes_it_unchanged(tmp_path: Path, reference_env: ReferenceEnvironment) -> None:
    data, out = tmp_path / "rows.jsonl", tmp_path / "out.json"
    data.write_text("".join(json.dumps(row) + "\n" for row in rows()[:3]), encoding="utf-8")
    program = (
        "import sys, json\n"
        "from azure.ai.evaluation import evaluate\n"
        "from tunecheck_memory import MemoryEvaluator\n"
        "if __name__ == '__main__':\n"
        "    found = evaluate(data=sys.argv[1], evaluators={'memory': MemoryEvaluator()})\n"
        "    open(sys.argv[2], 'w').write(json.dumps([row['outputs.memory.memory'] for row in found['rows']]))\n"
    )
    (tmp_path / "program.py").write_text(program, encoding="utf-8")
    done = subprocess.run(
        [str(reference_env("azure", *AZURE)), str(tmp_path / "program.py"), str(data), str(out)],
        env=os.environ | {"PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert json.loads(out.read_text(encoding="utf-8")) == [1.0, 0.0, 1.0]
