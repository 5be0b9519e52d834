"""Files of gigabytes and hundreds of megabytes are refused, or read, in flat memory."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from checks.test_runs_hostile import foreign, limited, made
from tests.platforms import posix_only

__all__ = ["foreign", "made"]


@posix_only
@pytest.mark.parametrize(
    ("file", "code", "why"),
    [
        ("journal.jsonl", 2, "journal.jsonl: "),
        ("eval_results.jsonl", 1, "is damaged: eval_results.jsonl has changed since the run wrote it"),
    ],
)
def test_a_line_of_gigabytes_is_refused_before_it_fills_the_memory(
    foreign: Path, file: str, code: int, why: str
) -> None:
    with (foreign / file).open("r+b") as opened:
        opened.truncate(20 << 30)
    said = limited(foreign.parents[1], "score", "foreign", "--evaluators", "bleu")
    assert (said.code, said.err.count("\n")) == (code, 1), said
    assert why in said.err
    assert ("a line of the file is longer than 256 MB" in said.err) == (file == "journal.jsonl")


_MEASURE = """
import sys
from pathlib import Path
from tunecheck.datasets._reading import open_dataset
dataset = open_dataset(sys.argv[1])
assert dataset.scan().rows == 200_000 and dataset.scan().has_ids
for row in dataset.rows():
    pass
print(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0])
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="peak memory is read from /proc")
def test_two_hundred_megabytes_are_scanned_and_read_in_flat_memory(tmp_path: Path) -> None:
    path = tmp_path / "large.jsonl"
    with path.open("w") as file:
        for number in range(200_000):
            file.write(f'{{"id": "question-{number}", "text": "{"x" * 960}"}}\n')
    done = subprocess.run(
        [sys.executable, "-c", _MEASURE, str(path)], capture_output=True, text=True, check=True, timeout=200
    )
    assert int(done.stdout) < 100_000  # kilobytes, the interpreter and its libraries included
