"""Pages in four widths, light and dark: nothing sticks out, axe finds nothing, the comparison comes first."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.reference_environments import make_environment
from tests.report_parts import browser_at_work, looking_at, make_run, small_rows, tool_call

from tunecheck.report._serving import runs_page
from tunecheck.report._writing import write_report

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.slow

WIDTHS = (360, 768, 1400, 1920)
PAGES = ("alone.html", "two.html", "three.html", "three.html#row=r4", "eight.html", "runs.html")


@pytest.fixture(scope="module")
def axe() -> str:
    python = make_environment("axe", without_dependencies=("axe-playwright-python==0.1.8",))
    return next(python.parent.parent.rglob("axe.min.js")).read_text("utf-8")


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report alone, others against one, two and seven runs, and the list of runs."""
    folder = tmp_path_factory.mktemp("pages")
    runs = []
    for number in range(8):
        rows = small_rows()
        rows[number % 3]["response"] = tool_call("cancel", day="2026-03-05")
        rows[4]["response"] = "It is open all day. " * 200
        runs.append(make_run(folder, rows, f"ck{number}", group_by=["city"]))
    for name, against in (("alone", []), ("two", runs[:1]), ("three", runs[:2]), ("eight", [*runs[:2], *runs[3:]])):
        write_report(runs[2], folder / f"{name}.html", against=against)
    (folder / "runs.html").write_text(runs_page(folder / "eval_results"), "utf-8")
    return folder


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with browser_at_work() as browser:
        yield browser


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("page", PAGES)
def test_nothing_keeps_anybody_out(browser: Browser, axe: str, pages: Path, page: str, width: int, scheme: str) -> None:
    look: dict[str, Any] = {"viewport": {"width": width, "height": 900}, "color_scheme": scheme, "bypass_csp": True}
    with looking_at(browser, f"{pages.as_uri()}/{page}", **look) as looked:
        looked.page.evaluate("document.querySelectorAll('details').forEach((each) => (each.open = true))")
        assert looked.page.evaluate("document.documentElement.scrollWidth") <= width
        cut = "[...document.querySelectorAll('.scroll')].filter((each) => each.scrollWidth > each.clientWidth + 1)"
        assert looked.page.evaluate(f"{cut}.map((each) => each.innerText.slice(0, 80))") == []
        looked.page.evaluate(axe)
        found = looked.page.evaluate("axe.run().then((found) => found.violations)")
        assert [(each["id"], [node["html"] for node in each["nodes"]]) for each in found] == []


@pytest.mark.parametrize("page", ["two.html", "three.html"])
def test_the_comparison_is_on_the_first_screen(browser: Browser, pages: Path, page: str) -> None:
    with looking_at(browser, (pages / page).as_uri(), viewport={"width": 1400, "height": 900}) as looked:
        for part in (".decision", ".forest"):
            box = looked.page.locator(part).first.bounding_box()
            assert box is not None
            assert box["y"] + box["height"] < 900
