"""A run that is killed at random points, on disk or with a server at fault, ends as one that was not."""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING, Any

import pytest
from checks.test_evaluate_kill_resume import (
    ROWS,
    Server,
    begin,
    data,
    finish,
    journal_lines,
    run_folder,
    serving,
    unbroken,
    wait_for_lines,
)
from tests.pipeline_parts import strict_json, strict_lines

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["data", "unbroken"]


def journal(folder: Path) -> list[Any]:
    return [strict_json(line) for line in journal_lines(folder)]


class Killing:
    """A run that is killed again and again, and what must hold each time."""

    def __init__(self, data: Path, folder: Path, server: Server) -> None:
        self.data = data
        self.folder = folder
        self.server = server
        self.kills = 0
        self.recorded: dict[int, int] = {}
        """Rows whose answer was recorded when the run was killed, and how many requests there had been by then."""

    def kill(self, rng: random.Random, *, by_time: bool) -> bool:
        """Let the run go on and kill it somewhere; False when it was finished before that."""
        process = begin(self.data, self.folder, self.server.port)
        before = len(journal_lines(self.folder))
        if by_time:
            wait_for_lines(process, self.folder, before + 1)
            time.sleep(rng.uniform(0, 0.06))
        else:
            wait_for_lines(process, self.folder, before + rng.randrange(1, 40))
        process.kill()
        _, errors = process.communicate(timeout=60)
        assert not errors, errors.decode()
        if process.returncode == 0:
            return False
        self.kills += 1
        requests = len(self.server.requests())
        for record in journal(self.folder):
            if record["k"] == "answer":
                self.recorded.setdefault(record["i"], requests)
        return True

    def check(self) -> None:
        requests = self.server.requests()
        keys: dict[int, set[str]] = {}
        for position, (key, row) in enumerate(requests):
            keys.setdefault(row, set()).add(key)
            assert position < self.recorded.get(row, len(requests)), f"row {row} was asked for again"
        assert set(keys) == set(range(ROWS)), "a row was never asked for"
        assert all(len(of_row) == 1 for of_row in keys.values()), "a call was sent again under another key"
        assert len({key for of_row in keys.values() for key in of_row}) == ROWS, "two rows share a key"


@pytest.mark.slow
@pytest.mark.parametrize(("seed", "by_time"), [(1, True), (3, False)])
def test_a_run_killed_at_three_random_points_ends_as_one_that_was_not(
    data: Path, unbroken: Path, tmp_path: Path, seed: int, by_time: bool
) -> None:
    rng = random.Random(seed)
    with serving(tmp_path) as server:
        killing = Killing(data, tmp_path, server)
        while killing.kills < 3 and killing.kill(rng, by_time=by_time):
            pass
        finish(begin(data, tmp_path, server.port))
        killing.check()
    assert killing.kills == 3, "the run was finished before it was killed three times"
    folder = run_folder(tmp_path)
    rows = strict_lines(folder / "eval_results.jsonl")
    assert [row["row_id"] for row in rows] == [f"r{n}" for n in range(ROWS)]
    assert all(row["outputs.square"] == row["inputs.n"] ** 2 for row in rows)
    for name in ("eval_results.jsonl", "eval_results.csv", "metrics.json"):
        assert (folder / name).read_bytes() == (unbroken / name).read_bytes(), name
    assert len([record for record in journal(tmp_path) if record["k"] == "answer"]) == ROWS
    assert not [path for path in folder.iterdir() if path.suffix in (".tmp", ".partial")]
