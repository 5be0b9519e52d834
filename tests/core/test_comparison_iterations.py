"""Three and more iterations: the best run comes first, then the losses of the last one and the history of each row."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import numpy
import pytest
from tests.cli_parts import here
from tests.comparison_parts import declares, passes, row, verdict, write_run
from tests.report_parts import data_of
from tests.tables import cases

from tunecheck import Run, compare, select, write_report
from tunecheck.comparison._selection import OUTCOMES, row_histories


@pytest.fixture
def checkpoints(tmp_path: Path) -> list[Path]:
    """The first run fails 40 of 150 rows, the second none, the third seven."""
    return [
        passes(tmp_path, name, [n not in failed for n in range(150)])
        for name, failed in (("ck1", range(40)), ("ck6", ()), ("ck8", (3, 50, 70, 90, 120, 130, 149)))
    ]


def test_a_checkpoint_that_lost_what_an_earlier_one_had_is_not_praised(
    checkpoints: list[Path], capsys: pytest.CaptureFixture[str]
) -> None:
    said = " ".join(here(capsys, "compare", *map(str, checkpoints), "--details").out.split())
    regressed = "ck8 regressed since ck6: match 100.0% → 95.3%, −4.7 points"
    assert said.index(regressed) < said.index("Ship ck6. match: better, 73.3% → 100.0%")
    assert "ck8 against ck1: match: better, 73.3% → 95.3%" in said
    assert checkpoints[0].name in said


def test_the_json_and_the_markdown_of_a_comparison_say_what_select_says(
    checkpoints: list[Path], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    page = tmp_path / "c.md"
    told = here(capsys, "compare", *map(str, checkpoints), "--json", "--markdown", str(page)).json()["best"]
    assert (told["decision"]["candidate"], told["regressed_since"]) == (checkpoints[1].name, checkpoints[1].name)
    chosen = json.loads(json.dumps(select(*checkpoints).to_json()))
    assert told == chosen
    assert "regressed since ck6" in page.read_text("utf-8")


def test_of_two_runs_nothing_is_best(checkpoints: list[Path]) -> None:
    assert compare(*checkpoints[:2]).best is None


def test_what_became_of_each_row_over_all_runs(checkpoints: list[Path]) -> None:
    found = select(*checkpoints).rows_over_runs
    assert found is not None
    # Rows 0 to 39 were fixed by ck6, but for row 3, which ck8 fails again; six others went the other way.
    assert found.counts == {"right": 104, "never right": 0, "fixed": 39, "broken": 6, "back and forth": 1, "flaky": 0}
    assert found.broken_since == {checkpoints[2].name: 6}
    rows = {each.row_id: each for each in found.rows}
    assert (rows["q50"].outcome, rows["q50"].since) == ("broken", checkpoints[2].name)
    assert (rows["q3"].outcome, rows["q3"].passed) == ("back and forth", (0, 1, 0))
    assert Counter(each.outcome for each in found.rows) == {"fixed": 39, "broken": 6, "back and forth": 1}


@cases("comparison")
def test_a_row_changed_where_all_its_trials_agree_that_it_did(passed: list[float], outcome: str, since: int) -> None:
    found = row_histories(numpy.array([passed]))
    assert (OUTCOMES[found.outcomes[0]], found.since[0]) == (outcome, since)


def test_a_row_is_in_the_part_of_each_of_its_tags(tmp_path: Path) -> None:
    def run(name: str, failed: set[int]) -> Path:
        tags: tuple[list[str], ...] = (["dates"], ["dates", "long"], ["long"], [])
        rows = [row(n, verdict("match", n not in failed), tags=tags[n % 4]) for n in range(80)]
        return write_run(tmp_path, name, rows, declares("match"), group_by=["tags"])

    new = run("new", {1, 5, 9})  # dates and long
    found = compare(run("base", set()), new)
    parts = {part.value: part for part in found.against[-1].parts if part.column == "tags"}
    assert {value: part.difference.n for value, part in parts.items()} == {"dates": 40, "long": 40, "[]": 20}
    assert (parts["dates"].new.value, parts["[]"].new.value) == (37 / 40, 1)
    (new / "metrics.json").write_text('{"metrics": {}}')
    write_report(Run(new), tmp_path / "report.html")
    shown = data_of(tmp_path / "report.html", "head")["summary"]["groups"]
    assert {group["value"]: group["rows"] for group in shown if group["column"] == "tags"} == {
        "dates": 40, "long": 40, "[]": 20,
    }  # fmt: skip


def test_parts_say_where_and_are_corrected_among_themselves(tmp_path: Path) -> None:
    def run(name: str, failed: set[int]) -> Path:
        rows = [
            row(n, verdict("match", n not in failed), topic="abcdef"[n % 6])
            | {"row_kind": "call" if n % 2 else "answer"}
            for n in range(240)
        ]
        return write_run(tmp_path, name, rows, declares("match"), group_by=["topic"])

    lost = {6 * n for n in range(8)}  # eight rows of topic a, all of them answers
    found = compare(run("base", {7}), run("new", lost | {13}))  # and in topic b one lost, one won
    parts = {(part.column, part.value): part for part in found.against[-1].parts}
    assert {value for column, value in parts if column == "topic"} == set("abcdef")
    # Mid-p of eight rows on one side is 1 / 2 ** 8; only topics a and b moved, so that two are tested.
    assert parts["topic", "a"].p_adjusted == pytest.approx(2 / 2**8)
    assert (parts["topic", "a"].verdict, parts["row_kind", "answer"].verdict) == ("worse", "worse")
    assert (parts["topic", "c"].moved, parts["topic", "c"].p_adjusted) == (False, 1)
    # Eight of nine against, one for: 2 · P(0 or 1 of 10 heads) less P(1 of 10), of ten changed rows.
    assert found.metrics["match"].p_adjusted == pytest.approx((2 * (1 + 10) - 10) / 2**10)


def test_what_the_runs_share_is_said_before_any_figure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a, b = (
        write_run(tmp_path, name, [row(n, verdict("match", n % 5 > 0)) for n in rows], declares("match"))
        for name, rows in (("a", range(100)), ("b", range(40, 120)))
    )
    said = " ".join(here(capsys, "compare", str(a), str(b)).out.split())
    shared = f"60 of 100 rows of {a.name} and of 80 of {b.name} are the same, and only they are compared"
    assert said.index(shared) < said.index("match: no difference shown")
