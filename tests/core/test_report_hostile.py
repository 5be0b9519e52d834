"""Model output is hostile: nothing of it runs, nothing of it breaks the page, nothing hides what it says."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest
from tests.report_parts import browser_at_work, looking_at, make_run, report_of, row, tool_call

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Browser

ATTACKS = (
    "</script><script>window.hacked = 1</script>",
    "<img src=x onerror='window.hacked = 2'>",
    "<svg onload=window.hacked=3>",
    "javascript:window.hacked=4",
    '"><a href="javascript:window.hacked=5">here</a>',
    "<!--<script>",
    "]]></title><style>body{display:none}</style>",
    "<iframe src='http://127.0.0.1:9/'></iframe><link rel=stylesheet href=http://127.0.0.1:9/x.css>",
    "${window.hacked=6} {{window.hacked=7}} \\u003cscript\\u003e",
    "__proto__",
    "\u2028window.hacked=8\u2029",
    "\x00\x1b[31m\x07",
)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with browser_at_work() as browser:
        yield browser


def attacked_rows() -> list[dict[str, object]]:
    """Each attack wherever a text can stand: ids, columns, questions, calls, arguments, answers, reasons, errors."""
    return [
        row(
            number,
            tool_call(attack or "f", **{attack: attack}),
            tool_call(attack + "x", **{attack: attack + "y", "deep": {attack: [attack]}}),
            id=attack,
            query=[{"role": attack, "content": attack}, {"role": "user", "content": attack}],
            note=attack,
            **{f"column {attack}": attack},
        )
        for number, attack in enumerate(ATTACKS)
    ]


def hostile_judge(*, note: str) -> dict[str, object]:
    if note == "__proto__":
        raise ValueError("</script><script>window.hacked = 9</script>")
    return {
        "score": 0.5,
        "score_result": "fail",
        "score_reason": note,
        "score_differences": [{"where": note, "expected": note, "actual": note, "kind": note}],
        "score_properties": {note: note},
        f"key {note}": note,
    }


def thinking(*, note: str) -> dict[str, object]:
    return {"reasoning": note}


@pytest.fixture(scope="module")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("attacked")
    names = {"__proto__": hostile_judge, "</script><script>alert(1)</script>": hostile_judge}
    given: dict[str, Any] = {"evaluators": names, "target": thinking, "group_by": ["note"], "tags": {"<i>": "</i>"}}
    run = make_run(folder, attacked_rows(), "<b>x", **given)
    return report_of(run, folder, against=run)


def test_every_row_opens_and_nothing_in_it_runs(browser: Browser, attacked: Path) -> None:
    with looking_at(browser, attacked.as_uri()) as looked:
        before = looked.page.evaluate("document.querySelectorAll('script').length")
        assert len(looked.ids()) == len(ATTACKS)
        for box in looked.page.locator("main details").all():
            box.evaluate("box => box.open = true")
        for number in range(len(ATTACKS)):
            looked.page.evaluate(f"location.hash = '#number={number + 1}'")
            found = f"row {number + 1} of {len(ATTACKS)}"
            looked.page.locator("dialog .note", has_text=found).first.wait_for()
            looked.page.wait_for_selector("dialog[open] .row-body")
            for box in looked.page.locator("dialog details").all():
                box.evaluate("box => box.open = true")
        assert looked.page.evaluate("window.hacked === undefined")
        assert looked.page.evaluate("document.querySelectorAll('script').length") == before
        for element in ("img", "iframe", "[onerror]", "[onload]", "a[href^=javascript]", "main style"):
            assert looked.page.locator(element).count() == 0
        assert looked.page.locator("body").is_visible()


def test_what_is_hostile_is_shown_to_the_letter(browser: Browser, attacked: Path) -> None:
    with looking_at(browser, attacked.as_uri()) as looked:
        assert "<img src=x onerror='window.hacked = 2'>" in looked.ids()
        looked.open_row("<img src=x onerror='window.hacked = 2'>")
        assert "<img src=x onerror='window.hacked = 2'>" in looked.texts("dialog .message pre")
        assert "<img src=x onerror='window.hacked = 2'>" in looked.texts("dialog details.reasoning pre")
        looked.page.keyboard.press("Escape")
        looked.page.get_by_role("searchbox").fill("</script><script>window")
        looked.page.keyboard.press("Enter")
        assert ATTACKS[0] in looked.ids()


def test_the_file_holds_no_markup_of_the_data(attacked: Path) -> None:
    text = attacked.read_text("utf-8")
    outside = re.sub(r"<script(?: [^>]*)?>.*?</script>", "", text, flags=re.DOTALL)
    assert "hacked" not in outside
    assert not re.search(r"\son\w+=", outside)
    assert text.count("<script") == text.count("</script>")
    for found in re.findall(r'<script type="application/json"[^>]*>(.*?)</script>', text, re.DOTALL):
        json.loads(found)


def test_the_policy_forbids_what_the_page_never_does(browser: Browser, attacked: Path) -> None:
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', attacked.read_text("utf-8"))
    assert policy is not None
    assert "default-src &#x27;none&#x27;" in policy[1]
    assert "unsafe" not in policy[1]
    attempts = """async () => {
        const found = {};
        try { document.body.innerHTML += '<p>'; found.markup = true } catch { found.markup = false }
        const script = document.createElement('script');
        try { script.text = 'window.hacked = 1'; document.head.append(script) } catch {}
        found.script = window.hacked === 1;
        try { await fetch('http://127.0.0.1:9/'); found.fetch = true } catch { found.fetch = false }
        return found;
    }"""
    context = browser.new_context()
    try:
        page = context.new_page()
        page.goto(attacked.as_uri())
        page.wait_for_selector("html[data-ready]")
        assert page.evaluate(attempts) == {"markup": False, "script": False, "fetch": False}
    finally:
        context.close()


def test_letters_that_turn_the_direction_are_shown_by_their_number(browser: Browser, tmp_path: Path) -> None:
    rows = [row(1, "x", "pay \u202eevil\u202c \u2066now\u2069 \u200bhere")]
    with looking_at(browser, report_of(make_run(tmp_path, rows), tmp_path).as_uri()) as looked:
        looked.open_row("r1")
        shown = looked.texts("dialog .answers pre")[-1]
        assert shown == "pay U+202EevilU+202C U+2066nowU+2069 U+200Bhere"


def test_halves_of_characters_break_nothing(browser: Browser, tmp_path: Path) -> None:
    half = "half \ud83d of one"
    rows = [row(1, "x", "y"), row(2, "x", half, id=half, query=half), row(3, tool_call("f"), half)]
    run = make_run(tmp_path, rows)
    with looking_at(browser, report_of(run, tmp_path).as_uri()) as looked:
        assert looked.ids()[1] == "half U+D83D of one"
        looked.page.locator("td.id a").nth(1).click()
        looked.page.wait_for_selector("dialog[open] .row-body")
        assert "half U+D83D of one" in looked.texts("dialog .answers pre")
        assert looked.page.url.endswith("#number=2")


def test_deep_and_wide_data_is_shown_within_bounds(browser: Browser, tmp_path: Path) -> None:
    deep: object = "bottom"
    for _ in range(150):
        deep = {"in": [deep]} if len(str(deep)) % 2 else {"in": deep}
    wide = {f"key {number}": number for number in range(20_000)}
    many = [{"role": "user", "content": f"message {number}"} for number in range(5_000)]
    rows = [row(1, tool_call("f", a=deep), tool_call("f", **wide), query=many, deep=deep, wide=wide)]
    path = report_of(make_run(tmp_path, rows), tmp_path)
    assert path.stat().st_size < 500_000
    with looking_at(browser, path.as_uri()) as looked:
        looked.open_row("r1")
        looked.page.get_by_text("and 4,800 more messages").wait_for()


def test_numbers_are_shown_exactly(browser: Browser, tmp_path: Path) -> None:
    exact = tool_call("f", n=12345678901234567890, x=0.1, y=1e22)
    with looking_at(browser, report_of(make_run(tmp_path, [row(1, exact, exact)]), tmp_path).as_uri()) as looked:
        looked.open_row("r1")
        assert looked.texts("dialog .call")[0].startswith("fn12345678901234567890x0.1y1e22")
