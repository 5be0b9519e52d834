"""The report of a memory run: how its tests were interleaved, as a chart, and each test's own log."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from hypothesis import given, strategies as st
from msgspec.structs import replace
from tests.report_parts import Looked, browser_at_work, looking_at, make_run, report_of, row
from tests.text_fragments import WITH_NAN

from tunecheck_memory._panel import TIMELINE_PANEL, memory_figures
from tunecheck_memory._run_files import MemoryFigures, run_figures

if TYPE_CHECKING:
    from playwright.sync_api import Browser

ATTACK = "</script><img src=x onerror='window.hacked=1'>"


def entry(what: str, message: int, tokens: int, at: str = "2025-01-06T09:00:00Z", **more: object) -> dict[str, object]:
    return {"what": what, "message": message, "tokens": tokens, "at": at, **more}


def log_of(number: int, text: str = "red") -> list[dict[str, object]]:
    """A test with its statement in the `number`-th message and its question ten messages of filler later."""
    start = number * 10
    return [
        entry("begin", number, start),
        entry("statement", number, start, size=10, said=f"My favourite colour is {text}.", reply="Noted."),
        entry("wait", number + 1, start + 10, for_tokens=100, for_seconds=7_200),
        entry(
            "question", number + 10, start + 500, "2025-01-06T12:00:00Z", size=20, said="Which one is it?", reply=text
        ),
        entry("end", number + 11, start + 520, "2025-01-06T12:00:01Z"),
    ]


def memory_row(number: int, session: str = "session-1", text: str = "red", **changes: Any) -> dict[str, Any]:
    """A row as a memory run leaves it."""
    log = log_of(number, text)
    columns: dict[str, Any] = {
        "outputs.log": log,
        "outputs.session": session,
        "outputs.ended": {"message": number + 11, "tokens": number * 10 + 520, "at": "2025-01-06T12:00:01Z"},
        "row_id": f"Colours - {number}",
    }
    return columns | changes


def drawn(*rows: tuple[Mapping[str, Any], float | None]) -> Any:
    reader = TIMELINE_PANEL.reader(None)
    for number, (each, score) in enumerate(rows):
        reader.add(number, {**each, "outputs.memory.memory": score})
    found: Any = reader.data()
    return found and found["sessions"]


def opened(log: Any) -> Any:
    """The part of a row's log that its opened view shows."""
    return TIMELINE_PANEL.reader(None).add(0, {"outputs.log": log})


def test_rows_of_other_runs_have_no_timeline() -> None:
    assert (
        drawn(({"row_id": "r1", "outputs.response": "yes"}, 1.0), ({"outputs.log": [{"role": "user"}]}, None)) is None
    )


def test_a_session_has_a_line_for_each_test_in_the_order_they_began() -> None:
    (session,) = drawn((memory_row(1), 1.0), (memory_row(0), 0.5))
    assert [(test["id"], test["row"], test["score"]) for test in session["tests"]] == [
        ("Colours - 0", 1, 0.5),
        ("Colours - 1", 0, 1.0),
    ]
    assert [(test["begin"], test["end"]) for test in session["tests"]] == [(0, 520), (10, 530)]
    assert (session["tokens"], session["messages"]) == (530, 12)


def test_marks_say_what_stands_where() -> None:
    (session,) = drawn((memory_row(0), None))
    (test,) = session["tests"]
    assert [(kind, tokens) for kind, tokens, _, _ in test["marks"]] == [(0, 0), (5, 10), (1, 500), (6, 520)]


def test_what_lies_between_the_tests_messages_is_filler() -> None:
    (session,) = drawn((memory_row(0), 1.0), (memory_row(1), 1.0))
    assert session["filler"] == [[20, 500]], "the second statement follows the first at once; its question, that one"


def test_time_that_passes_with_nothing_said_is_marked_where_it_does() -> None:
    (session,) = drawn((memory_row(0), 1.0))
    assert session["passed"] == [[500, 3 * 3600]]


def test_repetitions_are_drawn_one_after_another() -> None:
    sessions = drawn((memory_row(0), 1.0), (memory_row(0, "session-2"), 1.0))
    assert [session["name"] for session in sessions] == ["session-1", "session-2"]


def test_very_many_sessions_are_bounded() -> None:
    assert len(drawn(*((memory_row(0, f"session {at}"), 1.0) for at in range(40)))) == 10


entries = st.dictionaries(
    st.sampled_from(
        ["what", "message", "tokens", "at", "size", "said", "reply", "for_tokens", "for_seconds", "values"]
    ),
    st.sampled_from(["begin", "question", "judge", "wait", "2025-01-06T12:00:01Z", 10**30, -1, 2**60]) | WITH_NAN,
)


@given(st.lists(entries, max_size=6), WITH_NAN, WITH_NAN)
def test_no_log_however_damaged_breaks_a_report(found: list[Any], ended: Any, session: Any) -> None:
    log = [entry("begin", 0, 0), *found]
    sessions = drawn(({"outputs.log": log, "outputs.ended": ended, "outputs.session": session}, float("nan")))
    assert sessions
    json.dumps([sessions, opened(log).shown, opened(log).question], allow_nan=False)


@given(WITH_NAN)
def test_what_is_no_log_is_taken_for_none(value: Any) -> None:
    assert drawn(({"outputs.log": value}, None)) is None
    assert opened(value) is None


def test_an_entry_is_shown_with_its_place_its_texts_and_its_remarks() -> None:
    shown = opened(log_of(3)).shown
    assert shown[1] == [
        "statement",
        "message 3 · 30 tokens · 2025-01-06 09:00:00",
        [["test", "My favourite colour is red."], ["agent", "Noted."]],
        "10 tokens with the reply",
    ]
    assert shown[2][3] == "for 100 tokens; for 2:00:00"


def test_what_an_agent_thought_stands_before_its_reply() -> None:
    thought = entry("question", 0, 0, said="Where?", reply="Here.", reasoning="It was here.")
    assert opened([entry("begin", 0, 0), thought]).shown[1][2] == [
        ["test", "Where?"],
        ["reasoning", "It was here."],
        ["agent", "Here."],
    ]


def test_the_last_question_is_what_the_table_shows() -> None:
    assert opened(log_of(0)).question == "Which one is it?"


# -- figures


@pytest.mark.parametrize(
    "found", ["", "[]", "{", '{"score": "much", "datasets": []}', '{"datasets": {"a": 3}}', "\udcff"]
)
def test_figures_that_cannot_be_read_are_left_out(found: str, tmp_path: Path) -> None:
    (tmp_path / "memory").mkdir()
    (tmp_path / "memory" / "summary.json").write_bytes(found.encode("utf-8", "surrogateescape"))
    assert memory_figures(tmp_path) is None


# -- in a browser


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with browser_at_work() as browser:
        yield browser


class Recalled:
    """A target that holds what a memory run would have come to."""

    def __call__(self, number: int, session: str, text: str) -> dict[str, object]:
        written = memory_row(number, session, text)
        return {
            name.removeprefix("outputs."): value for name, value in written.items() if name.startswith("outputs.")
        } | {"response": text}


def remembered(*, response: str, expected: str) -> dict[str, object]:
    return {"memory": 1.0 if response == expected else 0.0, "memory_result": "pass" if response == expected else "fail"}


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("timeline")
    found = [
        {"id": "Colours - 0", "number": 0, "session": "session-1", "text": "red", "expected": "red"},
        {"id": "Colours - 1", "number": 1, "session": "session-1", "text": "blue", "expected": "red"},
        {"id": ATTACK, "number": 2, "session": ATTACK, "text": ATTACK, "expected": "red"},
    ]
    run = make_run(folder, found, "memory", target=Recalled(), evaluators={"memory": remembered})
    summary = run.folder / "memory" / "summary.json"
    summary.parent.mkdir()
    sets = {"Colours": MemoryFigures(3, 3, 0.5, 0.25), ATTACK: MemoryFigures(1, 0, None, None)}
    figures = replace(run_figures([], []), score=0.5, tokens_per_second=1440.26, datasets=sets)
    summary.write_bytes(msgspec.json.encode(figures))
    return report_of(run, folder).as_uri()


@pytest.fixture
def page(browser: Browser, report: str) -> Iterator[Looked]:
    with looking_at(browser, report) as looked:
        yield looked


def test_the_page_draws_a_timeline_and_runs_nothing_of_what_it_shows(page: Looked) -> None:
    assert page.texts("nav a") == ["Summary", "Charts", "Timeline", "Rows"]
    assert page.texts(".lane-names button") == ["Colours - 0", "Colours - 1", ATTACK]
    assert page.page.locator("svg.lanes .lane.good .statement").count() == 1 + 1, "one is that of the key"
    assert page.page.locator("svg.lanes .lane.bad .question").count() == 2
    assert page.page.evaluate("window.hacked") is None


def test_the_run_s_figures_stand_above_it(page: Looked) -> None:
    assert page.texts("#timeline .sums .pair")[:2] == ["score 0.500", "of at most 0"]
    assert page.texts("#timeline table tbody th") == ["Colours", ATTACK]
    assert page.texts("#timeline table tbody tr:first-child td") == ["3", "3", "0.500", "0.250"]
    assert page.texts("#timeline table tbody tr:last-child td") == ["1", "0", "–", "–"]


def test_a_test_is_opened_from_its_line_and_shows_its_own_log(page: Looked) -> None:
    page.page.locator(".lane-names button").first.click()
    page.page.wait_for_selector("dialog[open] .row-body")
    assert page.texts("dialog .entry-head b") == ["begin", "statement", "wait", "question", "end"]
    assert page.texts("dialog .entries .message .role") == ["test", "agent", "test", "agent"]
    assert "message 10 · 500 tokens · 2025-01-06 12:00:00" in page.texts("dialog .entry-head small")


def test_a_hostile_log_is_shown_as_text(page: Looked) -> None:
    page.page.locator(".lane-names button").nth(2).click()
    page.page.wait_for_selector("dialog[open] .row-body")
    assert ATTACK in page.texts("dialog .entries pre")
    assert page.page.evaluate("window.hacked") is None


def test_runs_without_a_log_have_no_such_section(browser: Browser, tmp_path: Path) -> None:
    with looking_at(browser, report_of(make_run(tmp_path, [row(1, "yes", "yes")]), tmp_path).as_uri()) as looked:
        assert looked.texts("nav a") == ["Summary", "Charts", "Rows"]
