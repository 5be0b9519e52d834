"""`bfcl run` against `tunecheck serve`: a model without mistakes has every row right, a replayed run its verdicts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.bfcl_copy import bfcl_copy
from tests.serve_parts import serving

from tunecheck.bfcl._scoring import score_results
from tunecheck.conversations._served import RowSource
from tunecheck.conversations._target import ConversationTarget
from tunecheck.datasets._bfcl.categories import CATEGORIES as BFCL
from tunecheck.datasets._reading import open_dataset
from tunecheck.endpoints._base import Endpoint
from tunecheck.endpoints._definition import load_endpoint
from tunecheck.endpoints._replay import ReplayEndpoint
from tunecheck.endpoints._simulated.endpoint import SimulatedEndpoint
from tunecheck.evaluation._bfcl import run_bfcl
from tunecheck.simulators._backend import Backends

CATEGORIES = (
    *("simple_python", "simple_javascript", "multiple", "parallel", "parallel_multiple", "irrelevance"),
    *("live_simple", "live_parallel", "multi_turn_base", "multi_turn_miss_func", "multi_turn_miss_param"),
)
UNANSWERABLE = ("live_simple_106-63-0", "live_simple_112-68-0")
"""Entries with a required argument for which BFCL accepts no value, nor that it is left out."""

OF_SOURCE = ("simple_javascript",)
"""Values in JavaScript that stand in a text would need its quotes."""


@pytest.fixture(autouse=True)
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TUNECHECK_BFCL", str(bfcl_copy()))
    monkeypatch.chdir(tmp_path)


def verdicts_of(endpoint: Endpoint, category: str, mode: Any = "tools") -> dict[str, bool]:
    """By row, whether it is valid, of `bfcl run` against a server with this endpoint behind it."""
    source = RowSource(endpoint, open_dataset(f"bfcl:{category}").rows(), Backends())
    with serving(source) as url:
        asked = load_endpoint({"kind": "openai", "url": f"{url}/v1", "model": "m", "retries": 0})
        outcome = run_bfcl(ConversationTarget(asked, mode=mode), categories=category)
    (model,) = score_results(outcome.folder).models.values()
    return {row: bool(verdict.valid) for row, verdict in model.categories[category].verdicts}


@pytest.mark.parametrize(
    ("category", "mode"),
    [(each, mode) for each in CATEGORIES for mode in ("tools", "text") if mode == "tools" or each not in OF_SOURCE],
)
def test_a_served_model_without_mistakes_has_every_row_right(category: str, mode: str) -> None:
    found = verdicts_of(SimulatedEndpoint(rates={}), category, mode)
    assert len(found) == BFCL[category].rows
    assert [row for row, valid in found.items() if not valid and row not in UNANSWERABLE] == []


def test_served_result_files_have_the_verdicts_of_their_run(shared_data: Path) -> None:
    results = shared_data / "bfcl_runs" / "v0.11.0" / "result"
    (recorded,) = score_results(results).models.values()
    for category in ("multi_turn_base", "multi_turn_miss_param"):
        theirs = dict(recorded.categories[category].verdicts)
        found = verdicts_of(ReplayEndpoint(results), category)
        assert {row: bool(theirs[row].valid) for row in found} == found, category
