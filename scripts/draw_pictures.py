"""Draw the pictures of docs/images/ that show reports, the list of runs and a memory run's timeline.

python scripts/draw_pictures.py    (in a clone with the extras dev and memory, and Chromium)
"""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import PIPE, Popen, run
from typing import TYPE_CHECKING, Literal

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

IMAGES = ROOT / "docs" / "images"
EVALUATORS = "function_call_match,argument_match,rouge"
SHARES = (0.60, 0.50, 0.45, 0.50, 0.35, 0.10, 0.20, 0.28)
"""The share of rows with a mistake, for each of eight checkpoints."""
MISTAKES = ("date_format", "wrong_argument", "missing_argument", "wrong_function")
TUNECHECK = (sys.executable, "-m", "tunecheck")


def main() -> None:
    """Make the runs in a workspace of their own and take the pictures."""
    from tests.report_parts import browser_at_work

    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        tunecheck("init", ".")
        make_checkpoints()
        make_memory_run()
        with browser_at_work() as browser:
            take_report_pictures(browser)
            take_view_picture(browser)
            take_timeline_picture(browser)


def tunecheck(*arguments: str) -> str:
    """Run a command and return its output."""
    return run([*TUNECHECK, *arguments], check=True, capture_output=True, text=True).stdout.strip()


@contextmanager
def serving(*arguments: str) -> Iterator[str]:
    """Run a command that serves a page, and give the page's address."""
    with Popen([*TUNECHECK, *arguments], stdout=PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            address = re.search(r"http://\S+", server.stdout.readline())
            assert address is not None
            yield address[0]
        finally:
            server.terminate()


def make_checkpoints() -> None:
    """Make eight runs. Simulated answers are replayed as recorded ones, so that the pictures have no warnings."""
    for number, share in enumerate(SHARES, 1):
        name, definition = f"ck{number}", Path("endpoints", f"ck{number}.yaml")
        rates = {"answered_instead_of_called": share / 2, **dict.fromkeys(MISTAKES, share / 2 / len(MISTAKES))}
        definition.write_text(json.dumps({"kind": "simulated", "seed": 1 + number % 2, "rates": rates}), "utf-8")
        options = ("--dataset", "val.jsonl", "--endpoint", name, "--evaluators", EVALUATORS, "--quiet")
        folder = tunecheck("evaluate", *options, "--results-dir", "simulated").splitlines()[0]
        rows = map(json.loads, Path(folder, "eval_results.jsonl").read_text("utf-8").splitlines())
        answers = ({"id": row["row_id"], "response": row["outputs.response"]} for row in rows)
        lines = "".join(json.dumps(answer) + "\n" for answer in answers)
        Path("endpoints", f"{name}.jsonl").write_text(lines, "utf-8")
        definition.write_text(json.dumps({"kind": "replay", "path": f"{name}.jsonl"}), "utf-8")
        tunecheck("evaluate", *options, "--name", name)


def make_memory_run() -> None:
    """Make the first run of docs/memory.md."""
    page = (ROOT / "docs" / "memory.md").read_text("utf-8")
    (configuration,) = re.findall(r"^```yaml\n# benchmark\.yml\n(.*?)^```$", page, re.S | re.M)
    Path("benchmark.yml").write_text(configuration, "utf-8")
    with serving("serve", "--service", "memory-agent", "--port", "0", "--quiet") as address:
        definition = {"kind": "memory_agent", "url": address}
        Path("endpoints", "notes.yaml").write_text(json.dumps(definition), "utf-8")
        options = ("--endpoint", "notes", "--unjudged", "--results-dir", "memory_results")
        tunecheck("memory", "run", "-c", "benchmark.yml", *options)


@contextmanager
def page_at(
    browser: Browser, address: str, width: int, height: int, scheme: Literal["dark", "light"] = "light"
) -> Iterator[Page]:
    """Open a page of Tunecheck in a window of this size."""
    context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
    page = context.new_page()
    page.goto(address)
    page.wait_for_selector("html[data-ready]")
    yield page
    context.close()


def take_report_pictures(browser: Browser) -> None:
    """Take the decision, a row and a phone's view from a report on the last checkpoint against all others."""
    others = [option for number in range(1, len(SHARES)) for option in ("--against", f"ck{number}")]
    tunecheck("report", f"ck{len(SHARES)}", *others, "--out", "report.html")
    report = Path("report.html").absolute().as_uri()
    with page_at(browser, report, 1200, 800) as page:
        page.screenshot(path=IMAGES / "report.png")
    with page_at(browser, f"{report}#row={row_with_wrong_argument()}", 1200, 620) as page:
        page.screenshot(path=IMAGES / "report-row.png")
    with page_at(browser, f"{report}#of+function_call_match=f", 360, 640, scheme="dark") as page:
        page.evaluate("document.querySelector('#rows').scrollIntoView()")
        page.screenshot(path=IMAGES / "report-phone.png")


def row_with_wrong_argument() -> str:
    """Return a row for which the last checkpoint writes a date in another format, as the first one does not."""
    first, last = (
        {row["row_id"]: row["cause"] for row in map(json.loads, path.read_text("utf-8").splitlines())}
        for name in ("ck1", f"ck{len(SHARES)}")
        for path in Path("eval_results").glob(f"{name}-*/eval_results.jsonl")
    )
    wanted = "wrong_argument.date_or_time_format"
    return next(str(row_id) for row_id, cause in last.items() if cause == wanted != first[row_id])


def take_view_picture(browser: Browser) -> None:
    """Take the list of runs with three runs chosen."""
    with serving("view", "--port", "0") as address, page_at(browser, address, 1200, 480, scheme="dark") as page:
        boxes = page.get_by_role("checkbox")
        for number in range(3):
            boxes.nth(number).check()
        page.evaluate("scrollTo(0, 0)")
        page.screenshot(path=IMAGES / "view.png")


def take_timeline_picture(browser: Browser) -> None:
    """Take the timeline of the memory run's report."""
    file = tunecheck("report", "last", "--results-dir", "memory_results")
    with page_at(browser, Path(file).absolute().as_uri(), 1280, 900) as page:
        page.locator("#timeline").screenshot(path=IMAGES / "memory-timeline.png")


if __name__ == "__main__":
    main()
