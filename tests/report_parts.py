"""Shared parts of the tests of reports: runs to report on, and a real browser to look at the pages with."""

from __future__ import annotations

import base64
import json
import re
import shutil
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tunecheck import ArgumentMatchEvaluator, FunctionCallMatchEvaluator, Run, evaluate, write_report

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, Request

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": name,
            "parameters": {"type": "object", "properties": {"day": {"type": "string"}, "people": {"type": "integer"}}},
        },
    }
    for name in ("book", "cancel")
]

READY = "html[data-ready]"


def tool_call(name: str, **arguments: object) -> list[dict[str, object]]:
    """An answer that calls one function."""
    return [{"id": "c", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}]


def row(number: int, expected: object, response: object, **columns: object) -> dict[str, object]:
    question = [{"role": "system", "content": "You book tables."}, {"role": "user", "content": f"question {number}"}]
    return {
        "id": f"r{number}",
        "query": question,
        "ground_truth": expected,
        "response": response,
        "tool_definitions": TOOLS,
        **columns,
    }


def small_rows() -> list[dict[str, object]]:
    """Two right calls, a wrong argument, a wrong function, an answer instead of a call, and an answer."""
    booked = tool_call("book", day="2026-03-05", people=2)
    return [
        row(1, booked, booked, city="Oslo"),
        row(2, tool_call("book", day="2026-03-06", people=3), tool_call("book", day="2026-03-06", people="3")),
        row(3, tool_call("cancel", day="2026-03-05"), tool_call("book", day="2026-03-05")),
        row(4, booked, "I would rather not."),
        row(5, "It is open all day.", "It is open all day."),
        row(6, booked, tool_call("book", people=2, day="2026-03-05")),
    ]


def length(*, response: object) -> dict[str, object]:
    """A user-written graded evaluator; it fails on rows that say so."""
    if response == "fail here":
        raise ValueError("no length today")
    return {"length": len(str(response)) / 1000}


def make_run(folder: Path, rows: Sequence[Mapping[str, object]], name: str = "small", **options: Any) -> Run:
    """A finished run of these rows, with responses from the rows."""
    evaluators: dict[str, Callable[..., object]] = {
        "calls": FunctionCallMatchEvaluator(),
        "arguments": ArgumentMatchEvaluator(),
        "length": length,
    }
    settings: dict[str, Any] = {"evaluators": evaluators, "evaluation_name": name, **options}
    result = evaluate(data=[dict(each) for each in rows], results_dir=folder / "eval_results", **settings)
    assert result.run_dir is not None
    return Run(Path(result.run_dir))


def report_of(run: Run, folder: Path, against: Run | None = None) -> Path:
    path = folder / f"{run.id}.html"
    write_report(run, path, against=against)
    return path


def data_of(path: Path, name: str) -> Any:
    """The data in a page under a name."""
    found = re.search(
        rf'<script type="application/json" id="{name}">(.*?)</script>', path.read_text("utf-8"), re.DOTALL
    )
    assert found is not None
    value = json.loads(found[1])
    return value if name == "head" else json.loads(zlib.decompress(base64.b64decode(value), -15))


@dataclass
class Looked:
    """A page in the browser, and what went on that should not have."""

    page: Page
    complaints: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def texts(self, selector: str) -> list[str]:
        return [text.strip() for text in self.page.locator(selector).all_text_contents()]

    def address(self) -> str:
        """The page's address, from the page itself: `page.url` lags behind on a busy machine."""
        return str(self.page.evaluate("location.href"))

    def ids(self) -> list[str]:
        """The rows that the table shows."""
        return self.texts("table.rows td.id")

    def choose(self, label: str, value: str) -> None:
        self.page.locator(f'.facets label:has(> span :text-is("{label}")) select').select_option(value)

    def open_row(self, row_id: str) -> None:
        self.page.get_by_role("link", name=row_id, exact=True).click()
        self.page.wait_for_selector("dialog[open] .row-body")


def find_chromium() -> str:
    """A browser of the system's, or playwright's own; skips where there is none."""
    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if found is None:
        pytest.skip("there is no chromium here: apt-get install chromium")
    return found


@contextmanager
def browser_at_work() -> Iterator[Browser]:
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    executable = find_chromium()
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=["--no-sandbox"])
        yield browser
        browser.close()


@contextmanager
def looking_at(browser: Browser, address: str, before: str | None = None, **options: Any) -> Iterator[Looked]:
    """Open a page and watch it: every complaint of its console, every request, every dialog is noted."""
    context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **options})
    page = context.new_page()
    page.set_default_timeout(30_000)
    looked = Looked(page)

    def note_request(request: Request) -> None:
        if request.url.split("#")[0] != address.split("#")[0]:
            looked.requests.append(request.url)

    page.on("console", lambda message: looked.complaints.append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda error: looked.complaints.append(f"error: {error}"))
    page.on("dialog", lambda dialog: looked.complaints.append(f"dialog: {dialog.message}"))
    page.on("request", note_request)
    if before is not None:
        page.add_init_script(before)
    page.goto(address)
    page.wait_for_selector(READY)
    try:
        yield looked
    finally:
        context.close()
    assert looked.complaints == []
    assert looked.requests == []
