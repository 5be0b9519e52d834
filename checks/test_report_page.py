"""A report in a real browser: it opens, filters, shows rows, works by keyboard, in the dark and on a telephone."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.comparison_parts import passes
from tests.conftest import ROOT
from tests.report_parts import Looked, length, looking_at, make_run, report_of, row, small_rows, tool_call
from tests.tables import cases

from tunecheck import Run, write_report

if TYPE_CHECKING:
    from playwright.sync_api import Browser


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("report")
    return report_of(make_run(folder, small_rows(), group_by=["city"]), folder).as_uri()


@pytest.fixture
def page(browser: Browser, report: str) -> Iterator[Looked]:
    with looking_at(browser, report) as looked:
        yield looked


def test_it_opens_without_a_request_or_a_complaint(page: Looked) -> None:
    assert page.texts("h2") == ["Summary", "Charts", "Rows", ""]
    assert page.ids() == ["r1", "r2", "r3", "r4", "r5", "r6"]


def test_the_summary_has_pass_rates_with_intervals_over_all_rows_and_by_kind(page: Looked) -> None:
    line = page.page.locator("table.summary tr", has_text="calls").first
    # 4 of 6: Wilson's interval is 30.0% to 90.3%; of 5 call rows 3 passed.
    assert "66.7%" in line.inner_text()
    assert "30.0% – 90.3%" in line.inner_text()
    assert "3 of 5" in line.inner_text()


def test_groups_have_a_table_of_their_own(page: Looked) -> None:
    by_city = page.page.locator("details.by", has_text="By city")
    by_city.locator("summary").click()
    assert "Oslo" in by_city.locator("thead").inner_text()


def test_rows_are_filtered_by_what_an_evaluator_found(page: Looked) -> None:
    page.choose("calls", "f")
    assert page.ids() == ["r3", "r4"]
    page.choose("arguments", "f")
    page.choose("calls", "p")
    assert page.ids() == ["r2"]
    page.page.get_by_role("button", name="Clear all").click()
    assert len(page.ids()) == 6


def test_a_filter_is_taken_away_by_its_own_button(page: Looked) -> None:
    page.choose("Kind of row", "answer")
    assert page.ids() == ["r5"]
    page.page.locator(".chip").click()
    assert len(page.ids()) == 6


def test_rows_are_searched_by_question_answer_and_reason(page: Looked) -> None:
    search = page.page.get_by_role("searchbox")
    for words, found in (("question 5", ["r5"]), ("RATHER NOT", ["r4"]), ("number as text", ["r2"])):
        search.fill(words)
        search.press("Enter")
        assert page.ids() == found


def test_nothing_found_is_said(page: Looked) -> None:
    page.page.get_by_role("searchbox").fill("nothing is like this")
    page.page.get_by_text("no row is like that (of 6 in all)").wait_for()


def test_a_column_sorts_up_then_down_then_not_at_all(page: Looked) -> None:
    head = page.page.locator("table.rows thead").get_by_role("button", name="length")
    head.click()
    assert page.page.locator("th[aria-sort=ascending]").inner_text().startswith("length")
    upwards = page.ids()
    head.click()
    assert page.page.locator("th[aria-sort=descending]").count() == 1
    assert page.ids() != upwards
    head.click()
    assert page.ids()[0] == "r1"


def test_an_opened_row_has_both_calls_side_by_side_and_marks_the_argument_that_differs(page: Looked) -> None:
    page.open_row("r2")
    assert page.texts("dialog .call .function") == ["book", "book"]
    assert page.texts("dialog .call .wrong dt") == ["people", "people"]
    assert page.texts("dialog .between .mark") == ["arguments differ"]
    assert page.texts("dialog .faults li") == ["people: number as text"]


def test_the_row_shows_conversation_reasons_and_the_rest_of_the_data(page: Looked) -> None:
    page.open_row("r3")
    assert page.texts("dialog .message .role") == ["system", "user"]
    assert page.texts("dialog .between .mark") == ["wrong function"]
    assert any("wrong function" in text for text in page.texts("dialog .reason"))
    assert '"name": "cancel"' in page.page.locator("dialog .values dd pre").inner_text()


def test_what_many_rows_have_is_fetched_when_it_is_asked_for(browser: Browser, tmp_path: Path) -> None:
    rows = [{**each, "handbook": "Tables are booked by the hour. " * 40} for each in small_rows()]
    with looking_at(browser, report_of(make_run(tmp_path, rows), tmp_path).as_uri()) as looked:
        looked.open_row("r4")
        box = looked.page.locator("dialog details", has_text="handbook")
        assert box.locator("pre").count() == 0
        box.locator("summary").click()
        box.locator("pre", has_text="by the hour").wait_for()


def test_an_answer_in_place_of_a_call_stands_beside_it(page: Looked) -> None:
    page.open_row("r4")
    assert "not called" in page.texts("dialog .between .mark")
    page.page.locator("dialog pre", has_text="I would rather not.").wait_for()


def test_a_link_with_a_row_in_it_opens_that_row(browser: Browser, report: str) -> None:
    with looking_at(browser, f"{report}#row=r3") as looked:
        looked.page.wait_for_selector("dialog[open] .row-body")
        assert looked.texts("#row-title") == ["r3"]


@cases("report")
def test_an_address_of_what_is_not_there_says_so(browser: Browser, report: str, hash: str, asked: str) -> None:
    with looking_at(browser, report + hash) as looked:
        assert looked.texts("[role=alert]:not([hidden]) b") == [asked]
        assert looked.page.locator("dialog[open]").count() == 0


def test_what_one_looks_at_stands_in_the_address(browser: Browser, report: str) -> None:
    with looking_at(browser, report) as looked:
        looked.choose("calls", "f")
        looked.page.get_by_role("searchbox").fill("question")
        looked.page.wait_for_url("**find=question**")  # the search waits for a pause
        for order in ("ascending", "descending"):
            looked.page.locator("table.rows thead").get_by_role("button", name="row").click()
            looked.page.locator(f"table.rows th[aria-sort={order}]").wait_for()
        looked.page.locator(".columns summary").click()
        looked.page.get_by_role("checkbox", name="length").uncheck()
        ids, address = looked.ids(), looked.address()
    with looking_at(browser, address) as again:
        assert again.ids() == ids == ["r4", "r3"]
        assert again.texts("table.rows th.outcome") == ["calls", "arguments"]
        assert again.page.get_by_role("searchbox").input_value() == "question"
        assert again.page.locator("[role=alert]:visible").count() == 0


def test_everything_works_by_keyboard(page: Looked) -> None:
    keyboard = page.page.keyboard
    keyboard.press("/")
    keyboard.type("question")
    keyboard.press("Enter")
    keyboard.press("ArrowDown")
    keyboard.press("Enter")
    page.page.wait_for_selector("dialog[open] .row-body")
    assert page.texts("#row-title") == ["r2"]
    keyboard.press("ArrowRight")
    page.page.wait_for_function("document.querySelector('#row-title').textContent === 'r3'")
    keyboard.press("ArrowLeft")
    page.page.wait_for_function("document.querySelector('#row-title').textContent === 'r2'")
    keyboard.press("Escape")
    assert page.page.locator("dialog[open]").count() == 0
    assert page.page.evaluate("document.activeElement.textContent") == "r2"
    assert "row=" not in page.address()
    keyboard.press("/")
    keyboard.press("Escape")
    assert len(page.ids()) == 6


def test_the_focus_can_be_seen(page: Looked) -> None:
    page.page.keyboard.press("/")
    assert page.page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"


def test_a_bar_of_a_chart_shows_its_rows(page: Looked) -> None:
    faults = page.page.locator(".card", has_text="Faults that evaluators found")
    faults.get_by_role("button", name="wrong function").click()
    assert page.ids() == ["r3"]
    cards = page.page.locator(".card", has_text="Failed because of the model")
    cards.get_by_role("button", name="a number written as text").click()
    assert page.ids() == ["r2"]
    page.page.locator("table.confusion td.wrong", has_text="1").first.get_by_role("button").click()
    assert page.texts(".chip") in (
        ["Expected and called: cancel → book ✕"],
        ["Expected and called: book → (an answer) ✕"],
    )


def test_a_chart_with_one_bar_shows_its_rows_too(browser: Browser, tmp_path: Path) -> None:
    run = make_run(tmp_path, small_rows()[:3])
    with looking_at(browser, report_of(run, tmp_path).as_uri()) as looked:
        faults = looked.page.locator(".card", has_text="Faults that evaluators found")
        faults.get_by_role("button", name="wrong function").click()
        assert looked.ids() == ["r3"]
    run = make_run(tmp_path, small_rows()[2:3])
    with looking_at(browser, report_of(run, tmp_path).as_uri()) as looked:
        looked.page.locator(".card", has_text="Faults that evaluators found").get_by_role("button").click()
        looked.page.locator(".card", has_text="expected function").get_by_role("button").click()
        assert looked.ids() == ["r3"]


def test_it_is_dark_where_the_system_is_and_the_button_changes_that(browser: Browser, report: str) -> None:
    with looking_at(browser, report, color_scheme="dark") as looked:
        shade = "getComputedStyle(document.body).backgroundColor"
        assert looked.page.evaluate(shade) == "rgb(18, 21, 26)"
        looked.page.locator("#theme").click()
        assert looked.page.evaluate(shade) == "rgb(255, 255, 255)"
        looked.page.locator("#theme").click()
        assert looked.page.evaluate(shade) == "rgb(18, 21, 26)"


def test_on_a_telephone_nothing_sticks_out(browser: Browser, report: str) -> None:
    with looking_at(browser, report, viewport={"width": 390, "height": 844}) as looked:
        widths = "[document.scrollingElement.scrollWidth, document.querySelector('dialog').scrollWidth]"
        assert looked.page.evaluate(widths)[0] == 390
        looked.open_row("r2")
        assert looked.page.evaluate(widths)[1] <= 390


def test_on_paper_there_are_no_controls(page: Looked) -> None:
    page.page.emulate_media(media="print")
    assert not page.page.get_by_role("searchbox").is_visible()
    assert page.page.locator("table.summary").first.is_visible()


def test_a_browser_that_cannot_unpack_the_rows_is_told_which_can(browser: Browser, report: str) -> None:
    page = browser.new_page()
    page.add_init_script("delete globalThis.DecompressionStream")
    page.goto(report)
    page.wait_for_selector("p.bad-text")
    assert "this browser is too old: the report needs Chrome 103" in page.locator("p.bad-text").inner_text()
    page.close()


def test_rows_come_a_page_at_a_time(browser: Browser, tmp_path: Path) -> None:
    rows = [row(number, "yes", "yes") for number in range(1, 121)]
    with looking_at(browser, report_of(make_run(tmp_path, rows), tmp_path).as_uri()) as looked:
        assert len(looked.ids()) == 50
        looked.page.get_by_role("button", name="Last page").click()
        assert looked.ids()[-1] == "r120"
        assert looked.texts(".status") == ["101–120 of 120 rows"]
        looked.page.get_by_role("button", name="Previous page").click()
        assert looked.ids()[0] == "r51"
        looked.page.get_by_label("Rows on a page").select_option("500")
        assert len(looked.ids()) == 120


def test_errors_are_counted_found_and_told_in_full(browser: Browser, tmp_path: Path) -> None:
    rows = [*small_rows(), row(7, "x", "fail here")]
    with looking_at(browser, report_of(make_run(tmp_path, rows), tmp_path).as_uri()) as looked:
        assert looked.texts(".badge.bad") == ["errors in 1 row"]
        looked.choose("length", "e")
        assert looked.ids() == ["r7"]
        looked.open_row("r7")
        assert "no length today" in looked.page.locator("dialog .verdict-card.warn").inner_text()


def test_what_a_judge_found_is_shown_and_counted(browser: Browser, tmp_path: Path) -> None:
    def judge(*, response: object) -> dict[str, object]:
        different = response != "It is open all day."
        items = [{"where": "day", "expected": "5", "actual": None, "kind": "date format"}] if different else []
        return {
            "judge": 0.3 if different else 1.0,
            "judge_result": "fail" if different else "pass",
            "judge_reason": "the judge's own words" if different else None,
            "judge_threshold": 0.8,
            "judge_differences": items,
        }

    run = make_run(tmp_path, small_rows(), evaluators={"judge": judge})
    with looking_at(browser, report_of(run, tmp_path).as_uri()) as looked:
        card = looked.page.locator(".card", has_text="Differences that judges found")
        assert card.locator(".figure").inner_text() == "5"
        looked.open_row("r1")
        assert looked.texts("dialog .reason") == ["the judge's own words"]
        assert looked.texts("dialog .verdict-card td") == ["day", "5", "", "date format"]


def conversation() -> dict[str, object]:
    result = [[[{"buy": '{"what": "tea"}'}]], [[]]]
    state = [{"role": "state_info", "class_name": "Shop", "content": {"cart": [], "open": True}}]
    after = [{"role": "state_info", "class_name": "Shop", "content": {"cart": ["tea"], "open": True}}]
    log = [
        state,
        {
            "begin_of_turn_query": [{"role": "user", "content": "Buy tea."}],
            "step_0": [
                {"role": "assistant", "content": [{"buy": '{"what": "tea"}'}]},
                {"role": "tool", "content": '{"bought": "tea"}'},
            ],
        },
        after,
        {"begin_of_turn_query": [{"role": "user", "content": "Now close."}], "step_0": []},
        after,
    ]
    return {
        "id": "talk-1",
        "turns": [[{"role": "user", "content": "Buy tea."}], [{"role": "user", "content": "Now close."}]],
        "ground_truth": [["buy(what='tea')"], ["close()"]],
        "answer": {"result": result, "inference_log": log},
    }


def test_a_conversation_is_shown_turn_by_turn_with_what_it_changed(browser: Browser, tmp_path: Path) -> None:
    def recorded(answer: dict[str, object]) -> dict[str, object]:
        return {"result": answer["result"], "inference_log": answer["inference_log"], "response": "Done."}

    failed = {
        "state": 0.0,
        "state_result": "fail",
        "state_reason": "Shop.open is true",
        "state_properties": {"turn": 1},
    }
    evaluators = {"state": lambda answer: failed}
    run = make_run(tmp_path, [conversation()], target=recorded, evaluators=evaluators)
    with looking_at(browser, report_of(run, tmp_path).as_uri()) as looked:
        looked.open_row("talk-1")
        assert looked.texts("dialog .turn > summary b") == ["Turn 1", "Turn 2"]
        assert "it went wrong here" in looked.texts("dialog .turn.wrong > summary")[0]
        assert looked.texts("dialog .states tbody tr") == ["Shop.cart[0](nothing)tea"]
        assert looked.texts("dialog .steps .mark") == ["made", "not made like this"]
        assert '{"bought": "tea"}' in looked.page.locator("dialog .result").inner_text()


def test_conversations_of_two_runs_stand_beside_each_other(browser: Browser, tmp_path: Path) -> None:
    def run(name: str, what: str, turn: int) -> Run:
        data = conversation()
        said = json.loads(json.dumps(data.pop("answer")).replace("tea", what))

        def recorded(id: str) -> dict[str, object]:
            return {"result": said["result"], "inference_log": said["inference_log"]}

        def state(*, result: object) -> dict[str, object]:
            return {"state": 0.0, "state_result": "fail", "state_properties": {"turn": turn}}

        return make_run(tmp_path, [data], name, target=recorded, evaluators={"state": state})

    base, new = run("before", "milk", 0), run("after", "tea", 1)
    with looking_at(browser, f"{report_of(new, tmp_path, against=base).as_uri()}#number=1") as looked:
        looked.page.wait_for_selector("dialog[open] .turn")
        first, second = looked.page.locator("dialog .turn").all()
        heads = ["Expected calls", "What the model did in before", "What the model did in after"]
        assert first.locator(".pair.of-3 h4").all_text_contents() == heads
        assert first.locator(".steps .call dd").all_text_contents() == ['"tea"', '"milk"', '"tea"']
        assert first.locator("summary .mark").all_text_contents() == ["it went wrong here in before"]
        assert second.locator("summary .mark").all_text_contents() == ["it went wrong here in after"]


def test_two_runs_are_held_against_each_other(browser: Browser, tmp_path: Path) -> None:
    now = small_rows()
    now[0]["response"] = tool_call("cancel", day="2026-03-05")
    now[3]["response"] = now[3]["ground_truth"]
    base, new = make_run(tmp_path, small_rows(), "before"), make_run(tmp_path, now, "after")
    with looking_at(browser, report_of(new, tmp_path, against=base).as_uri()) as looked:
        assert looked.texts("h2")[:2] == ["Decision", "Summary"]
        line = looked.page.locator("table.changes tr", has_text="calls").first.inner_text()
        assert "too little data" in line or "no difference shown" in line
        looked.choose("Change", "calls: regressed")
        assert looked.ids() == ["r1"]
        looked.open_row("r1")
        assert looked.texts("dialog h3")[:2] == ["Why it failed", "Expected and actual"]
        assert [head.split("copy")[0] for head in looked.texts("dialog .heads h4")] == ["Expected", "before", "after"]
        assert "called the wrong function" in looked.texts("dialog .cause")[0]
        assert looked.texts("dialog .between .mark") == ["as expected", "wrong function"]
        looked.page.keyboard.press("Escape")
        looked.choose("Change", "calls: fixed")
        assert looked.ids() == ["r4"]


@pytest.fixture(scope="module")
def three_runs(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A page of three runs: r1 is right, wrong, right; r4 is right in the last one only."""
    folder = tmp_path_factory.mktemp("three")
    answers = small_rows()
    answers[0]["response"] = tool_call("cancel", day="2026-03-05")
    last = small_rows()
    last[3]["response"] = last[3]["ground_truth"]
    runs = [make_run(folder, rows, f"ck{at}") for at, rows in enumerate((small_rows(), answers, last), 1)]
    write_report(runs[2], folder / "three.html", against=runs[:2])
    return (folder / "three.html").as_uri()


def test_rows_are_found_by_which_runs_got_them_right(browser: Browser, three_runs: str) -> None:
    with looking_at(browser, three_runs) as looked:
        patterns = dict(zip(looked.texts(".patterns td.words"), looked.texts(".patterns button"), strict=True))
        assert patterns == {"right": "3", "back and forth": "1", "never right": "1", "fixed since ck3": "1"}
        looked.page.locator(".patterns tr", has_text="fixed since ck3").get_by_role("button").click()
        assert looked.ids() == ["r4"]
        looked.page.get_by_role("button", name="Clear all").click()
        looked.page.locator(".patterns tr", has_text="back and forth").get_by_role("button").click()
        assert looked.ids() == ["r1"]


def test_any_run_is_held_against_the_first_and_stands_beside_the_last(browser: Browser, three_runs: str) -> None:
    with looking_at(browser, three_runs) as looked:
        looked.page.get_by_label("The run that is compared with the base").select_option("ck2")
        looked.page.locator("table.changes tr", has_text="calls").get_by_role("button").click()
        assert looked.ids() == ["r1"]
        looked.page.locator("tr[data-row] td.id a").focus()
        for key in ("ArrowRight", "ArrowRight", "ArrowDown", "Enter"):  # to the cell of ck2
            looked.page.keyboard.press(key)
        looked.page.wait_for_selector("dialog[open] .row-body")
        assert [head.split("copy")[0] for head in looked.texts("dialog .heads h4")] == ["Expected", "ck2", "ck3"]
        assert looked.texts("dialog .between .mark") == ["wrong function", "as expected"]
        assert "▼ regressed against ck1" in looked.texts("#rows .note")[0]
        assert "beside=ck2" in looked.address()
        looked.page.get_by_label("Beside").select_option("ck1")
        assert looked.texts("dialog .row-body > .note") == ["ck1 has the same."]
    with looking_at(browser, f"{three_runs}#beside=nobody&row=r1") as looked:
        assert looked.texts("[role=alert] b") == ["the run nobody"]


def test_the_page_begins_with_the_decision(browser: Browser, three_runs: str) -> None:
    with looking_at(browser, three_runs) as looked:
        assert looked.texts(".decision h3") == ["Undecided: keep ck1 for now, not ck3"]
        assert looked.texts(".decision p")[0].startswith("calls: too little data")
        few = "undecided: 6 rows are too few for a verdict; at least about "
        assert any(line.startswith(few) for line in looked.texts(".decision li"))
        assert looked.texts(".forest .label")[0] == "ck3 candidate"
        axis = "calls: difference from the best other run, points (95% intervals, simultaneous)"
        assert looked.texts(".forest figcaption")[0] == axis


def test_a_page_of_runs_opens_on_the_best_one_and_the_slice_that_got_worse(browser: Browser, tmp_path: Path) -> None:
    """The first run fails 120 of 240 rows, the second the first 30, the third the first 60 and all of one city."""
    folder, runs = tmp_path, []
    for name, lost, city in (("ck1", 120, ""), ("ck2", 30, ""), ("ck3", 60, "c5")):
        cities = [f"c{at % 6}" for at in range(240)]
        outcomes = [at // 6 >= lost / 6 and cities[at] != city for at in range(240)]
        run = passes(folder, name, outcomes, {"inputs.city": cities}, group_by=["city"])
        (run / "metrics.json").write_text('{"metrics": {}}', "utf-8")
        (run / "journal.jsonl").touch()
        runs.append(Run(run))
    write_report(runs[2], folder / "three.html", against=runs[:2])
    write_report(runs[2], folder / "two.html", against=runs[1])
    with looking_at(browser, (folder / "three.html").as_uri()) as looked:
        assert looked.texts(".decision h3") == ["Ship ck2"]
        assert looked.texts(".forest li.marked .label") == ["★ ck2 recommended"]
        assert looked.page.get_by_label("The run that is compared with the base").input_value() == "0"
        assert looked.texts(".slices summary") == ["Slices: none of 6 shown to be worse"]
        assert looked.page.locator(".slices details[open]").count() == 0
    with looking_at(browser, (folder / "two.html").as_uri()) as looked:
        assert looked.texts(".decision h3") == ["Keep ck2, not ck3"]
        assert looked.page.locator(".slices details[open]").count() == 1
        assert looked.texts(".slices li.bad .label")[0] == "city=c5 40 rows"
        assert looked.texts(".slices figcaption") == ["match: new − base, points (95% intervals)"]
        assert looked.texts(".broken h3") == ["First regressed rows"]
        looked.page.locator(".broken button").first.click()
        looked.page.wait_for_selector("dialog[open] .row-body")
        assert looked.texts("#row-title") == ["q30"]


def test_the_page_rounds_as_python_does(browser: Browser, tmp_path: Path) -> None:
    script = (ROOT / "src" / "tunecheck" / "report" / "browser" / "dom.js").read_text("utf-8")
    function = script[script.index("function rounded") : script.index("/** A number in few digits. */")]
    page = browser.new_page()
    values = (1.25, 1.75, 0.35, 12.5, -0.25)
    found = page.evaluate(f"(values) => {{ {function} return values.map((value) => rounded(value, 1)); }}", [*values])
    page.close()
    assert found == [f"{value:.1f}" for value in values]


def test_the_column_that_held_the_answers_is_not_shown_as_expected(browser: Browser, tmp_path: Path) -> None:
    rows = [{"id": f"r{at}", "query": "When?", "answer": f"own {at}"} for at in range(3)]
    mapping = {"default": {"column_mapping": {"response": "${data.answer}"}}}
    run = make_run(tmp_path, rows, evaluators={"length": length}, evaluator_config=mapping)
    with looking_at(browser, f"{report_of(run, tmp_path).as_uri()}#row=r1") as looked:
        looked.page.wait_for_selector("dialog[open] .row-body")
        shown = looked.page.locator("dialog .pair").all_inner_texts()
        assert "".join(shown).count("own 1") == 1


def test_a_metric_is_drawn_over_all_runs_with_its_intervals(browser: Browser, three_runs: str) -> None:
    with looking_at(browser, three_runs) as looked:
        said = looked.page.locator("svg.trend").first.get_attribute("aria-label")
        assert said is not None
        assert re.fullmatch(
            r"calls over the runs\. ck1: 66\.7% \(.*\); ck2: 50\.0% \(.*\); ck3: 83\.3% \([\d.]+% to [\d.]+%\)", said
        )


def test_a_long_text_is_folded_and_can_be_copied(browser: Browser, tmp_path: Path) -> None:
    words = "It is open all day. " * 200
    run = make_run(tmp_path, [row(1, "yes", words)])
    with looking_at(browser, f"{report_of(run, tmp_path).as_uri()}#row=r1") as looked:
        looked.page.wait_for_selector("dialog[open] .row-body")
        looked.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        more = looked.page.get_by_role("button", name="show all 4,000 characters")
        folded = looked.page.locator(".answers .text pre").bounding_box()
        more.click()
        opened = looked.page.locator(".answers .text pre").bounding_box()
        assert folded is not None and opened is not None
        assert folded["height"] < opened["height"]
        looked.page.locator(".answers .text").get_by_role("button", name="Copy").click()
        looked.page.get_by_text("copied").wait_for()
        assert looked.page.evaluate("navigator.clipboard.readText()") == words
