"""A report of fifty thousand rows: it can be made, opened, filtered, sorted and read."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from tests.report_parts import browser_at_work, looking_at, make_run, report_of, small_rows

from tunecheck.runs._store import Run

ROWS = 50_000


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report of a run that was written by hand: only reading it is tested here."""
    folder = tmp_path_factory.mktemp("many")
    sample = [json.loads(line) for line in make_run(folder, small_rows()).results.read_text("utf-8").splitlines()]
    run = Run(next((folder / "eval_results").iterdir()))
    chance = random.Random(1)
    with run.results.open("w", encoding="utf-8") as file:
        for number in range(ROWS):
            words = " ".join(chance.choice(("table", "window", "evening", "party", "garden")) for _ in range(30))
            query = [{"role": "user", "content": f"question {number}: {words}"}]
            changed = {"row_id": f"row {number}", "inputs.id": f"row {number}", "inputs.query": query}
            file.write(json.dumps({**sample[number % len(sample)], **changed}) + "\n")
    return report_of(run, folder)


@pytest.mark.slow
def test_fifty_thousand_rows_are_at_hand(many: Path) -> None:
    assert many.stat().st_size < 40_000_000
    with browser_at_work() as browser, looking_at(browser, many.as_uri()) as looked:
        assert looked.texts(".status") == ["1–50 of 50,000 rows"]
        looked.choose("calls", "f")
        assert looked.texts(".status") == ["1–50 of 16,666 rows (of 50,000 in all)"]
        looked.page.get_by_role("searchbox").fill("question 49999:")
        looked.page.keyboard.press("Enter")
        assert looked.texts(".status")[0].startswith("no row")
        looked.page.get_by_role("button", name="Clear all").click()
        looked.page.locator("table.rows thead").get_by_role("button", name="row").click()
        looked.page.get_by_role("button", name="Last page").click()
        looked.open_row("row 9999")
        assert "question 9999:" in looked.page.locator("dialog .message").last.inner_text()
        looked.page.goto(many.as_uri() + "#row=row%2049999")
        looked.page.wait_for_selector("dialog[open] .row-body")
        assert looked.texts("#row-title") == ["row 49999"]
