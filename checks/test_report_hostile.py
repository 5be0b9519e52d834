"""Reports of rows of every shape, and of huge ones, in a browser."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from tests.report_parts import looking_at, make_run, report_of, row, tool_call

from tunecheck import Run, write_report

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Browser


def test_a_huge_text_is_cut_and_says_so(browser: Browser, tmp_path: Path) -> None:
    huge = "begin " + "x" * 10_000_000 + " the end"
    rows = [row(1, huge, huge, query=huge, extra=huge), row(2, tool_call("f", a=huge), tool_call("f", a=huge + "!"))]
    path = report_of(make_run(tmp_path, rows), tmp_path)
    assert path.stat().st_size < 300_000
    with looking_at(browser, path.as_uri()) as looked:
        looked.open_row("r1")
        shown = looked.texts("dialog .answers pre")[-1]
        assert shown.startswith("begin xxx")
        assert "characters left out here …]" in shown
        assert shown.endswith("the end")
        looked.page.keyboard.press("ArrowRight")
        looked.page.wait_for_function("document.querySelector('#row-title').textContent === 'r2'")
        assert "cannot be read" in looked.texts("dialog .answers .bad-text")[0]


@pytest.mark.parametrize(
    "line",
    [
        {"row_id": 5, "row_fingerprint": None, "inputs.query": 7, "outputs.calls.calls_result": ["pass"]},
        {"row_id": "a", "inputs.query": [[1, [2]], None], "outputs.inference_log": {"a": 1}, "outputs.usage": "many"},
        {"row_id": "a", "inputs.turns": [[{"role": "user"}], []], "outputs.inference_log": [[], {"step_0": [7, None]}]},
        {"row_id": "a", "inputs.turns": [[{"role": 5}]], "outputs.inference_log": [[{"role": "state_info"}], {}, [3]]},
        {"row_id": "a", "error.target": "only words", "error.calls": None, "outputs.calls.calls": {"not": "a number"}},
        {"row_id": "a", "outputs.calls.calls_differences": [1, {"kind": 5}], "outputs.calls.calls_properties": [1]},
        {"row_id": "a", "outputs.calls.calls": 10**400, "outputs.latency_ms": "slow", "row_kind": {"a": 1}},
        {},
    ],
)
def test_rows_of_any_shape_are_shown(browser: Browser, tmp_path: Path, line: dict[str, object]) -> None:
    # A run folder is a folder: somebody's script, or another version, may have written into it.
    folder = tmp_path / "odd-20260101T000000Z-000000"
    folder.mkdir()
    evaluators = {"calls": {"primary": "calls", "metrics": [{"name": "calls", "kind": "score"}, 5]}, "odd": 7}
    manifest = {"evaluators": evaluators, "dataset": [], "mapping": {"default": {"response": "${"}}, "tags": 5}
    (folder / "run.json").write_text(json.dumps(manifest), "utf-8")
    (folder / "metrics.json").write_text(json.dumps({"metrics": {"odd.x": 1}, "usage": {"t": 5}}), "utf-8")
    (folder / "eval_results.jsonl").write_text(json.dumps(line) + "\n", "utf-8")
    path = tmp_path / "odd.html"
    write_report(Run(folder), path)
    with looking_at(browser, path.as_uri() + "#number=1") as looked:
        looked.page.wait_for_selector("dialog[open] .row-body")
