"""A run holds its rows' places and numbers in memory, and not their content."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

MEASURE = """
    import json, resource, sys, asyncio
    from tunecheck.evaluation._evaluate import evaluate
    count, folder, kind = int(sys.argv[1]), sys.argv[2], sys.argv[3]
    data = f"{folder}.jsonl"
    with open(data, "w") as file:
        for n in range(count):
            row = {"id": f"r{n}", "text": "x" * 1000, "g": f"g{n % 7}", "nested": [{"n": n}]}
            file.write(json.dumps(row) + "\\n")
    async def answer(text, nested):
        return {"response": text[::-1]}
    target = answer if kind == "target" else None
    def before(): return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    result = evaluate(data=data, target=target, evaluators={"e": lambda text: {"n": len(text)}}, workers=0,
                      results_dir=folder, group_by="g")
    assert result.row_count == count
    print(before())
"""


def peak_memory(tmp_path: Path, count: int, kind: str) -> int:
    """The most memory, in KiB, of a process that evaluates so many rows of 1 KB."""
    script = textwrap.dedent(MEASURE)
    done = subprocess.run(
        [sys.executable, "-c", script, str(count), str(tmp_path / f"runs{count}"), kind],
        capture_output=True,
        text=True,
        check=True,
        timeout=250,
    )
    return int(done.stdout)


@pytest.mark.parametrize("kind", ["no target", "target"])
def test_memory_does_not_grow_with_the_rows(tmp_path: Path, kind: str) -> None:
    """Ten times the rows may take some bytes a row more (their places, their numbers), and not their content."""
    few, many = peak_memory(tmp_path, 5_000, kind), peak_memory(tmp_path, 50_000, kind)
    kept = 16 * 1024 if kind == "no target" else 24 * 1024  # the result's rows are a list up to 100,000
    assert many - few < 45_000 * 3 + kept, f"{few} KiB for 5,000 rows, {many} KiB for 50,000"
