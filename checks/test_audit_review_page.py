"""The review page of `datasets audit` in a browser: decided by keyboard, undone, edited, saved; axe finds nothing."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.cli_parts import write_lines
from tests.reference_environments import make_environment
from tests.report_parts import browser_at_work

from tunecheck.datasets._reading import open_dataset
from tunecheck.report import running
from tunecheck_authoring._audit.dialogue import Replacement, found
from tunecheck_authoring._audit.review import Review, make_app

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

OLD, NEW = "send(text='We are lat')", "send(text='We are late')"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with browser_at_work() as browser:
        yield browser


@pytest.fixture
def review(tmp_path: Path) -> Review:
    turns = [[{"role": "user", "content": "<img src=x onerror=alert(1)>"}]]
    rows = [{"id": name, "turns": turns, "ground_truth": [[OLD]]} for name in ("a", "b", "c")]
    write_lines(tmp_path / "rows.jsonl", rows)
    findings = [
        found("a", "nearly_quoted", "<b>nearly</b>", 0, fix=NEW, replacement=Replacement(0, OLD, NEW)),
        found("b", "near_duplicate", "<img src=x onerror=alert(1)>"),
        found("c", "unused_text", "'Wilhelmina'", 0),
    ]
    return Review(open_dataset(tmp_path / "rows.jsonl", number_ids=True), findings, tmp_path / "new.jsonl")


@pytest.fixture
def address(review: Review) -> Iterator[str]:
    with served(review) as address:
        yield address


@contextmanager
def served(review: Review) -> Iterator[str]:
    """The server at work in a thread of its own; gives its address."""
    ready, taken = threading.Event(), []
    loop = asyncio.new_event_loop()
    stop = asyncio.Event()

    async def serve() -> None:
        async with running(make_app(review)) as url:
            taken.append(f"{url}/?token={review.token}")
            ready.set()
            await stop.wait()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),))
    thread.start()
    assert ready.wait(30)
    yield taken[0]
    loop.call_soon_threadsafe(stop.set)
    thread.join(30)
    loop.close()


def _open(browser: Browser, address: str, **look: Any) -> Page:
    page = browser.new_context(**look).new_page()
    page.on("dialog", lambda dialog: pytest.fail(f"a dialog: {dialog.message}"))
    page.on("pageerror", lambda error: pytest.fail(f"an error: {error}"))
    page.goto(address)
    page.wait_for_selector("html[data-ready]")
    return page


def test_all_is_decided_by_keyboard_and_written(browser: Browser, address: str, review: Review) -> None:
    page = _open(browser, address)
    for key in ("j", "a", "j", "a", "u", "r", "j", "e"):
        page.keyboard.press(key)
    page.get_by_label("Row c as JSON").fill('{"id": "c", "mine": true}')
    page.get_by_role("button", name="Keep this row").click()
    page.keyboard.press("s")
    page.get_by_role("status").filter(has_text="written").wait_for()
    rows = {row["id"]: row for row in map(json.loads, review.out.read_text().splitlines())}
    assert rows["a"]["ground_truth"] == [[NEW]]
    assert rows["b"]["ground_truth"] == [[OLD]]  # accepted, undone, rejected
    assert rows["c"] == {"id": "c", "mine": True}


def test_what_the_data_says_is_shown_as_text(browser: Browser, address: str) -> None:
    page = _open(browser, address)
    assert page.get_by_text("<img src=x onerror=alert(1)>").count() == 1
    assert page.locator("main img, main b").count() == 0


def test_of_many_findings_a_part_is_shown_and_the_rest_when_it_is_reached(browser: Browser, tmp_path: Path) -> None:
    rows = [{"id": f"r{at}", "query": "x" * (2_000_000 if at == 3 else 9)} for at in range(5_000)]
    write_lines(tmp_path / "rows.jsonl", rows)
    findings = [found(row["id"], "near_duplicate", "another") for row in rows]
    dataset = open_dataset(tmp_path / "rows.jsonl", number_ids=True)
    with served(Review(dataset, findings, tmp_path / "new.jsonl")) as address:
        page = _open(browser, address)
        page.locator("li").last.focus()
        page.keyboard.press("j")
        assert page.evaluate("document.activeElement.dataset.number") == "200"
        page.get_by_role("button", name="4600 more findings").click()
        assert page.locator("li").count() == 600


def test_an_edit_that_is_no_json_says_so_and_stays_open(browser: Browser, address: str) -> None:
    page = _open(browser, address)
    page.keyboard.press("j")
    page.keyboard.press("e")
    page.get_by_label("Row a as JSON").fill("{")
    page.get_by_role("button", name="Keep this row").click()
    assert "is not JSON" in page.get_by_role("status").inner_text()
    assert page.get_by_label("Row a as JSON").is_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1400])
def test_nothing_keeps_anybody_out(browser: Browser, address: str, width: int, scheme: str) -> None:
    python = make_environment("axe", without_dependencies=("axe-playwright-python==0.1.8",))
    axe = next(python.parent.parent.rglob("axe.min.js")).read_text("utf-8")
    page = _open(browser, address, viewport={"width": width, "height": 900}, color_scheme=scheme, bypass_csp=True)
    page.keyboard.press("j")
    page.keyboard.press("e")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.evaluate(axe)
    found = page.evaluate("axe.run().then((found) => found.violations)")
    assert [(each["id"], each["impact"]) for each in found] == []
