"""Reports of fifty thousand rows, of one run and of eight: they can be made, opened, filtered, sorted and read."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.report_parts import browser_at_work, looking_at, make_run, report_of, small_rows

from tunecheck import Run, write_report

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

ROWS, RUNS = 50_000, 8


def made_runs(folder: Path, rows: int, runs: int) -> list[Run]:
    """Runs that were written by hand: only reading them is tested here. Each answers one row in five otherwise."""
    made = make_run(folder, small_rows())
    sample = [json.loads(line) for line in made.results.read_text("utf-8").splitlines()]
    written = []
    for number in range(runs):
        run = Run(made.folder.with_name(f"ck{number}-{made.id.partition('-')[2]}"))
        shutil.copytree(made.folder, run.folder)
        chance = random.Random(number)
        with run.results.open("w", encoding="utf-8") as file:
            for at in range(rows):
                file.write(json.dumps(a_row(at, sample, chance if number else None)) + "\n")
        written.append(run)
    return written


def a_row(number: int, sample: list[dict[str, Any]], chance: random.Random | None) -> dict[str, Any]:
    words = random.Random(-number).choices(("table", "window", "evening", "party", "garden"), k=30)
    query = [{"role": "user", "content": f"question {number}: {' '.join(words)}"}]
    own = sample[number % len(sample)]
    if chance is not None and chance.random() < 0.2:
        other = chance.choice(sample)
        answered = {key: value for key, value in other.items() if key.startswith("outputs.")}
        own = {**{key: value for key, value in own.items() if not key.startswith("outputs.")}, **answered}
        own["inputs.response"] = other["inputs.response"]
    name = f"row {number}"
    return {**own, "row_id": name, "row_fingerprint": name, "inputs.id": name, "inputs.query": query}


def test_fifty_thousand_rows_are_at_hand(tmp_path: Path) -> None:
    (run,) = made_runs(tmp_path, ROWS, 1)
    many = report_of(run, tmp_path)
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
    with browser_at_work() as browser, looking_at(browser, many.as_uri() + "#row=row%2049999") as looked:
        looked.page.wait_for_selector("dialog[open] .row-body")
        assert looked.texts("#row-title") == ["row 49999"]


def test_eight_runs_of_fifty_thousand_rows_are_at_hand(tmp_path: Path) -> None:
    *others, run = made_runs(tmp_path, ROWS, RUNS)
    write_report(run, tmp_path / "eight.html", against=others)
    assert (tmp_path / "eight.html").stat().st_size < 40_000_000
    with browser_at_work() as browser, looking_at(browser, (tmp_path / "eight.html").as_uri()) as looked:
        count = looked.page.locator(".patterns button").first
        rows = count.inner_text()
        count.click()
        assert f"of {rows} rows (of 50,000 in all)" in looked.texts(".status")[0]
        looked.page.locator("tr[data-row] [data-run='3']").first.click()
        looked.page.wait_for_selector("dialog[open] .row-body")
        assert looked.texts("dialog .heads h4")[1].startswith("ck3")


def test_eight_runs_of_a_thousand_rows_take_three_megabytes_at_most(tmp_path: Path) -> None:
    *others, run = made_runs(tmp_path, 1_000, RUNS)
    write_report(run, tmp_path / "eight.html", against=others)
    assert (tmp_path / "eight.html").stat().st_size < 3_000_000
