"""Azure's evaluators in our runs: 500 rows, at any concurrency, the same numbers, no row lost, and no slower."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import ReferenceEnvironment
from tests.reference_environments import AZURE, said_by

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1_600)]

EVALUATORS = ("bleu", "gleu", "meteor", "rouge", "f1", "documents")


@pytest.fixture(scope="module")
def found(
    tmp_path_factory: pytest.TempPathFactory, reference_env: ReferenceEnvironment, shared_data: Path
) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("five-hundred")
    python = reference_env("azure", *AZURE)
    words = {"NLTK_DATA": str(shared_data / "nltk_data")}
    result: dict[str, Any] = said_by(python, "azure_five_hundred.py", str(folder), timeout_s=1_500, env=words)
    return result


@pytest.mark.parametrize("name", EVALUATORS)
def test_every_run_gives_their_rows_and_means(found: dict[str, Any], name: str) -> None:
    there = found[name]["there"][0]
    assert len(there["rows"]) == 500
    for run in found[name]["here"]:
        assert run["rows"] == there["rows"], f"at concurrency {run['concurrency']}"
        assert run["metrics"][f"{name}.error_count"] == 0
        for key, value in there["metrics"].items():
            if not key.endswith(".binary_aggregate"):
                assert run["metrics"][key] == pytest.approx(value, rel=1e-12), key


def test_all_of_them_take_about_as_much_cpu_as_theirs(found: dict[str, Any]) -> None:
    """As far as a busy machine can tell; each one's figures are printed."""
    spent = {"here": 0.0, "there": 0.0}
    for name in EVALUATORS:
        for where in spent:
            cpu, clock = (statistics.median(run[key] for run in found[name][where]) for key in ("seconds", "wall"))
            print(f"{name} {where}: {cpu:.2f} s of CPU, {clock:.2f} s by the clock")
            spent[where] += cpu
    assert spent["here"] < 1.2 * spent["there"]
