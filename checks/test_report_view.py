"""Pages of runs: `tunecheck view` shows them to its user only, and hostile model output on them is text."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.cli_parts import command, environment, inside, process
from tests.report_parts import looking_at, make_run, report_of, row, small_rows, tool_call
from tests.tables import cases
from tests.view_parts import Served, serving

from tunecheck import Run

if TYPE_CHECKING:
    from playwright.sync_api import Browser


@dataclass(frozen=True)
class Three:
    served: Served
    base: Run
    new: Run


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Three]:
    """A server of two finished runs and a damaged one."""
    folder = tmp_path_factory.mktemp("runs")
    base, new = make_run(folder, small_rows(), "base"), make_run(folder, small_rows(), "new")
    damaged = folder / "eval_results" / "damaged-20260101T000000Z-000000"
    damaged.mkdir()
    (damaged / "run.json").write_text("{", "utf-8")
    (folder / "secret.txt").write_text("nobody's business", "utf-8")
    (folder / "eval_results" / "secret.txt").write_text("nobody's business", "utf-8")
    with serving(folder / "eval_results") as served:
        yield Three(served, base, new)


def test_the_list_has_every_run_the_newest_first(browser: Browser, three: Three) -> None:
    with looking_at(browser, three.served.address()) as looked:
        assert looked.texts("table.runs th a") == [three.new.id, three.base.id]
        heads = looked.texts("table.runs thead th")
        assert heads[:7] == ["run", "data set", "answers", "begun", "calls", "arguments", "length"]
        assert "66.7%" in looked.texts("table.runs tbody tr:first-child td")
        assert "cannot be read" in looked.page.locator("table.runs").inner_text()
        looked.page.keyboard.press("/")
        looked.page.keyboard.type("base-")
        assert looked.texts("table.runs th a") == [three.base.id]


def test_runs_are_sorted_by_a_column_and_the_address_keeps_it(browser: Browser, three: Three) -> None:
    with looking_at(browser, three.served.address(f"/#sort=-run&columns=rows&run={three.base.id}")) as looked:
        assert looked.texts("table.runs th a") == [three.new.id, three.base.id]
        assert looked.texts("table.runs thead th") == ["run ▾", "rows"]
        looked.page.get_by_role("button", name="rows").click()
        assert looked.texts("table.runs th a") == [three.new.id, three.base.id]
        assert "sort=rows" in looked.address()
        assert looked.page.get_by_label(f"Compare {three.base.id}").is_checked()
        looked.page.get_by_label(f"Compare {three.new.id}").check()
        said = looked.page.locator("svg.trend").first.get_attribute("aria-label")
        assert said is not None
        assert re.fullmatch(r"calls over the runs\. base: 66\.7% \(30\.0% to 90\.3%\); new: 66\.7% .*", said)
    with looking_at(browser, three.served.address("/#sort=beauty&run=nobody")) as looked:
        assert looked.texts("[role=alert] b") == ["the run nobody", "the order beauty"]


def test_a_runs_page_is_its_report_with_a_way_back(browser: Browser, three: Three) -> None:
    with looking_at(browser, three.served.address(f"/runs/{three.new.id}")) as looked:
        assert looked.ids() == ["r1", "r2", "r3", "r4", "r5", "r6"]
        assert looked.page.locator("a.home").get_attribute("href") == "/"


def test_any_number_of_runs_are_chosen_and_compared(browser: Browser, three: Three) -> None:
    with looking_at(browser, three.served.address()) as looked:
        compare = looked.page.locator("a.go")
        looked.page.get_by_label(f"Compare {three.new.id}").check()
        assert compare.is_hidden()
        looked.page.get_by_label(f"Compare {three.base.id}").check()
        compare.click()
        looked.page.wait_for_selector("table.changes")
        assert looked.address().endswith(f"/runs/{three.new.id}?against={three.base.id}")
        looked.page.go_back()
        looked.page.get_by_label("against").select_option(three.new.id)  # the choice stands in the address
        assert compare.get_attribute("href") == f"/runs/{three.base.id}?against={three.new.id}"
        looked.requests.clear()  # those were the ways between pages


@cases("report")
def test_no_address_leads_to_another_file(three: Three, path: str) -> None:
    status, text, _ = three.served.get(path.replace("{new}", three.new.id))
    assert status == 404
    assert "nobody's business" not in text


def test_a_page_elsewhere_cannot_ask_by_another_name(three: Three) -> None:
    for host in ("attacker.example", f"attacker.example:{three.served.port}", "127.0.0.1.attacker.example", ""):
        status, text, _ = three.served.get("/", Host=host)
        assert status in (400, 403)
        assert three.new.id not in text
    for host in ("localhost", f"localhost:{three.served.port}", "127.0.0.1"):
        assert three.served.get("/", Host=host)[0] == 200


@pytest.mark.parametrize("token", ["", "guessed"])
def test_nothing_is_shown_without_the_token_of_the_printed_address(three: Three, token: str) -> None:
    for path in ("/", f"/runs/{three.new.id}"):
        status, text, _ = three.served.get(path, token=token)
        assert status == 403
        assert "this address has no valid token: open the address that `tunecheck view` printed" in text
        assert three.new.id not in text


def test_a_run_in_progress_is_followed_until_it_has_a_report(browser: Browser, tmp_path: Path) -> None:
    inside(tmp_path, "init", ".")
    (tmp_path / "endpoints" / "slow.yaml").write_text("kind: simulated\nlatency_ms: 400\n", "utf-8")
    options = ("--dataset", "val.jsonl", "--endpoint", "slow", "--limit", "14", "--concurrency", "1", "--quiet")
    run = subprocess.Popen(command("evaluate", *options), cwd=tmp_path, env=environment(), stdout=subprocess.DEVNULL)
    try:
        while not list(tmp_path.glob("eval_results/*/journal.jsonl")):
            time.sleep(0.05)
        with serving(tmp_path / "eval_results") as served, looking_at(browser, served.address()) as looked:
            looked.page.get_by_text(re.compile("running · [0-9]+ of 14 answered")).wait_for()
            looked.page.locator("table.runs th a").wait_for(timeout=60_000)  # without anything done in the browser
            assert run.wait(30) == 0
            looked.requests.clear()
    finally:
        run.kill()
        run.wait()


@pytest.mark.parametrize("width", [400, 1400])
def test_the_head_of_a_report_covers_no_part_that_a_link_leads_to(browser: Browser, three: Three, width: int) -> None:
    size = {"width": width, "height": 700}
    with looking_at(browser, three.served.address(f"/runs/{three.new.id}"), viewport=size) as looked:
        for link in looked.page.locator(".top nav a").all():
            link.click()
            part = looked.page.locator(f"{link.get_attribute('href')} h2")
            head, title = looked.page.locator(".top").bounding_box(), part.bounding_box()
            assert head is not None and title is not None
            assert title["y"] >= head["y"] + head["height"]


def test_the_list_of_runs_shows_its_columns_whole(browser: Browser, three: Three) -> None:
    for width in (400, 1400):
        with looking_at(browser, three.served.address(), viewport={"width": width, "height": 700}) as looked:
            wide, shown = looked.page.locator(".scroll").first.evaluate(
                "(each) => [each.scrollWidth, each.clientWidth]"
            )
            assert wide <= shown


def test_only_this_machine_can_connect(three: Three) -> None:
    listening = Path("/proc/net/tcp")
    if not listening.exists():
        pytest.skip("there is no /proc to see who listens")
    port = f":{three.served.port:04X}"
    addresses = [line.split()[1] for line in listening.read_text().splitlines()[1:] if line.split()[3] == "0A"]
    assert [address for address in addresses if address.endswith(port)] == [f"0100007F{port}"]


def test_pages_cannot_be_framed_or_read_from_elsewhere(three: Three) -> None:
    for path in ("/", f"/runs/{three.new.id}"):
        status, text, headers = three.served.get(path)
        assert status == 200
        assert headers["X-Frame-Options"] == "DENY"
        assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Content-Type"] == "text/html; charset=utf-8"
        assert "default-src &#x27;none&#x27;" in text


def test_nothing_can_be_sent_to_it(three: Three) -> None:
    for method in ("POST", "PUT", "DELETE"):
        assert three.served.get("/", method)[0] == 405


def test_what_cannot_be_shown_is_said(three: Three) -> None:
    status, text, _ = three.served.get("/runs/damaged-20260101T000000Z-000000")
    assert status == 409
    assert "cannot be read" in text


def test_a_page_is_made_again_when_its_run_has_changed(tmp_path: Path) -> None:
    run = make_run(tmp_path, small_rows())
    with serving(run.folder.parent) as served:
        path = f"/runs/{run.id}"
        before = served.get(path)[1]
        assert served.get(path)[1] == before
        lines = run.results.read_text("utf-8").splitlines(keepends=True)
        run.results.write_text("".join(lines[:3]), "utf-8")
        after = served.get(path)[1]
        assert '"rows":6' in before
        assert '"rows":3' in after


def test_a_run_that_comes_later_is_there(tmp_path: Path) -> None:
    make_run(tmp_path, small_rows())
    with serving(tmp_path / "eval_results") as served:
        later = make_run(tmp_path, [row(1, "x", "y")], "later")
        assert later.id in served.get("/")[1]


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    said = process(tmp_path, "view", "--results-dir", "nowhere")
    assert said.code == 2
    assert "there is no folder nowhere" in said.err


def test_a_port_that_is_taken_is_named(tmp_path: Path) -> None:
    (tmp_path / "eval_results").mkdir()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        said = process(tmp_path, "view", "--port", str(taken.getsockname()[1]))
    assert said.code == 2
    assert "cannot serve pages on 127.0.0.1" in said.err


def test_no_page_is_left_behind(tmp_path: Path) -> None:
    run = make_run(tmp_path, small_rows())
    pages = tmp_path / "pages"
    pages.mkdir()
    with serving(run.folder.parent, TMPDIR=str(pages)) as served:
        assert served.get(f"/runs/{run.id}")[0] == 200
        assert [*pages.iterdir()] == []


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
    base, run = (make_run(folder, attacked_rows(), "<b>x", **given) for _ in range(2))
    return report_of(run, folder, against=base)


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
        assert looked.address().endswith("#number=2")


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
        looked.page.get_by_text("and 4,900 more messages").wait_for()


def test_numbers_are_shown_exactly(browser: Browser, tmp_path: Path) -> None:
    exact = tool_call("f", n=12345678901234567890, x=0.1, y=1e22)
    with looking_at(browser, report_of(make_run(tmp_path, [row(1, exact, exact)]), tmp_path).as_uri()) as looked:
        looked.open_row("r1")
        assert looked.texts("dialog .call")[0].startswith("fn12345678901234567890x0.1y1e22")
