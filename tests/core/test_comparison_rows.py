"""Rows of compared runs: changed sides, causes, clusters, and several iterations."""

import json
import re
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy
import pytest
from tests.cli_parts import here, inside
from tests.comparison_parts import declares, passes, row, verdict, write_run
from tests.report_parts import data_of
from tests.tables import cases

from tunecheck import Comparison, ConfigurationError, Run, compare, evaluate, select, write_report
from tunecheck.comparison._compare import OUTCOMES, row_histories


def run(folder: Path, name: str, verdicts: list[tuple[bool, str | None]]) -> Path:
    rows = [row(number, verdict("match", passed, reason)) for number, (passed, reason) in enumerate(verdicts)]
    return write_run(folder, name, rows, declares("match"))


def faulty(folder: Path, name: str, reason: str, faults: list[dict[str, str]]) -> Path:
    """A run with these faults in its first row."""
    first = row(0, verdict("match", False, reason)) | {"outputs.match.match_properties": {"faults": faults}}
    return write_run(folder, name, [first, row(1, verdict("match", True))], declares("match"))


@pytest.mark.parametrize("calls", ['"x"', r'{"\ud800": 1}', r'{"reading": "\ud800"}'])
def test_a_damaged_count_of_calls_in_metrics_json_is_left_out(tmp_path: Path, calls: str) -> None:
    base, new = (run(tmp_path, name, [(True, None)]) for name in "ab")
    (new / "metrics.json").write_text(f'{{"metrics": {{}}, "calls": {calls}}}')
    assert compare(base, new).pairs.paired == 1


def test_each_row_that_changed_sides_says_what_its_reason_says_now(tmp_path: Path) -> None:
    base = run(tmp_path, "a", [(True, None), (False, "missing call f()"), (True, None), (False, "same")])
    new = run(tmp_path, "b", [(False, "extra call g()"), (True, None), (True, None), (False, "same")])
    found = compare(base, new).metrics["match"]
    (lost,), (gained,) = found.regressed, found.fixed
    assert (lost.row_id, lost.base, lost.new, lost.base_reason, lost.new_reason) == ("q0", 1, 0, None, "extra call g()")
    assert (gained.row_id, gained.base_reason, gained.new_reason) == ("q1", "missing call f()", None)
    assert found.changed == ()
    assert found.totals == {"regressed": 1, "fixed": 1, "flaky": 0, "changed": 0}


def test_a_row_that_fails_for_another_reason_has_changed(tmp_path: Path) -> None:
    missing = [{"code": "missing_argument", "call": "f", "path": name} for name in "ab"]
    extra = {"code": "extra_call", "call": "g"}
    base, new = faulty(tmp_path, "a", "two faults", missing), faulty(tmp_path, "b", "other faults", [missing[1], extra])
    (change,) = compare(base, new).metrics["match"].changed
    assert (len(change.gone), len(change.come)) == (1, 1)
    assert "missing argument" in change.gone[0]
    assert "extra call" in change.come[0]
    assert [fault.code for fault in change.base_faults] == ["missing_argument"] * 2
    assert change.to_json()["new_faults"] == [missing[1], extra]


def test_an_own_reason_is_compared_as_a_whole(tmp_path: Path) -> None:
    base = run(tmp_path, "a", [(False, "missing call to action; too long"), (True, None)])
    new = run(tmp_path, "b", [(False, "missing call to action; too short"), (True, None)])
    (change,) = compare(base, new).metrics["match"].changed
    assert change.gone == ("missing call to action; too long",)
    assert change.come == ("missing call to action; too short",)
    assert [fault.code for fault in (*change.base_faults, *change.new_faults)] == ["own", "own"]


def test_scores_that_stay_on_their_side_have_changed_the_largest_first(tmp_path: Path) -> None:
    sides = []
    for name, values in (("a", [0.9, 0.1, 0.2, 0.7]), ("b", [0.8, 0.4, 0.9, 0.7])):
        rows = [row(at, verdict("bleu", value >= 0.5, score=value)) for at, value in enumerate(values)]
        sides.append(write_run(tmp_path, name, rows, declares("bleu", "score")))
    found = compare(*sides, metrics="bleu.bleu").metrics["bleu.bleu"]
    assert [each.row_id for each in found.changed] == ["q1", "q0"]
    assert [(each.row_id, each.base, each.new) for each in found.fixed] == [("q2", 0.2, 0.9)]


def test_lists_hold_the_first_rows_and_totals_count_all(tmp_path: Path) -> None:
    base, new = passes(tmp_path, "a", [True] * 30), passes(tmp_path, "b", [False] * 30)
    found = compare(base, new, rows=4).metrics["match"]
    assert [each.row_id for each in found.regressed] == ["q0", "q1", "q2", "q3"]
    assert found.totals["regressed"] == 30
    assert len(compare(base, new, rows=None).metrics["match"].regressed) == 30


def test_a_reason_of_megabytes_is_cut(tmp_path: Path) -> None:
    base, new = run(tmp_path, "a", [(True, None)]), run(tmp_path, "b", [(False, "x" * 3_000_000)])
    (lost,) = compare(base, new).metrics["match"].regressed
    assert lost.new_reason is not None
    assert len(lost.new_reason) == 2_000


def repeated(folder: Path, name: str, items: list[list[bool]]) -> Path:
    """Rows in the form of `evaluate --repeat`: `<id>`, `<id>#2` and so on, with columns trial and source_id."""
    rows = []
    for number, trials in enumerate(items):
        for trial, passed in enumerate(trials, 1):
            match = verdict("match", passed, None if passed else f"trial {trial}")
            own_id = {"row_id": f"q{number}" if trial == 1 else f"q{number}#{trial}"}
            rows.append(row(number, match, own_id, trial=trial, source_id=f"q{number}"))
    return write_run(folder, name, rows, declares("match"))


def test_trials_are_averaged_within_their_row_before_rows_are_compared(tmp_path: Path) -> None:
    base = repeated(tmp_path, "a", [[True, False], [True, True], [False, False]])
    new = repeated(tmp_path, "b", [[True, True], [True, True], [False, True]])
    found = compare(base, new)
    metric = found.metrics["match"]
    assert found.base.trials == 2
    assert found.pairs.paired == metric.difference.n == 3
    assert (metric.base.value, metric.new.value) == (0.5, 5 / 6)
    assert metric.kind == "binary"
    assert metric.b is None
    assert [(each.row_id, each.base, each.new) for each in metric.flaky] == [("q0", 0.5, 1), ("q2", 0, 0.5)]
    assert metric.flaky[0].base_reason == "trial 2"


def test_what_trials_can_show_is_said_in_points(tmp_path: Path) -> None:
    items = [[number % 2 == 0, number % 3 == 0] for number in range(24)]
    metric = compare(repeated(tmp_path, "a", items), repeated(tmp_path, "b", items[::-1])).metrics["match"]
    assert (metric.verdict, metric.kind) == ("too little data", "binary")
    assert re.search(r"only differences above [2-9]\d\.\d points are detectable", metric.why)


def test_a_row_whose_trials_disagree_is_flaky_and_not_changed(tmp_path: Path) -> None:
    some, all_of, none = [True, True, False], [True] * 3, [False] * 3
    base = repeated(tmp_path, "a", [some, all_of, none, all_of])
    new = repeated(tmp_path, "b", [some, none, all_of, some])
    metric = compare(base, new).metrics["match"]
    assert {name: [each.row_id for each in getattr(metric, name)] for name in ("regressed", "fixed", "flaky")} == {
        "regressed": ["q1"],
        "fixed": ["q2"],
        "flaky": ["q3", "q0"],
    }


def test_trials_pair_with_a_run_without_any(tmp_path: Path) -> None:
    found = compare(passes(tmp_path, "a", [True, False]), repeated(tmp_path, "b", [[True, False], [True, False]]))
    assert found.pairs.paired == 2
    assert found.metrics["match"].new.value == 0.5


def test_several_runs_are_each_compared_with_the_first_over_rows_that_all_have(tmp_path: Path) -> None:
    first = passes(tmp_path, "a", [False] * 20)
    second = passes(tmp_path, "b", [True] * 10 + [False] * 9)
    third = passes(tmp_path, "c", [True] * 18)
    found = compare(first, second, third)
    assert [run.id for run in found.runs] == [first.name, second.name, third.name]
    assert [each.metrics["match"].verdict for each in found.against] == ["better", "better"]
    assert found.against[0].metrics["match"].difference.n == 19
    (history,) = found.history
    assert [each.value for each in history.values] == [0, 10 / 18, 1]
    assert {each.n for each in history.values} == {18}


def run_with(folder: Path, name: str, *causes: str | None, **more: str) -> Path:
    columns = {"cause": causes, "cause_evidence": [more if cause else None for cause in causes]}
    return passes(folder, name, [cause is None for cause in causes], columns)


def test_causes_are_counted_over_the_rows_of_both_runs(tmp_path: Path) -> None:
    base = run_with(tmp_path, "a", "cut_off", "cut_off", "refusal", "refusal", None)
    new = run_with(tmp_path, "b", "cut_off", "refusal", "refusal", None, "refusal", "loop", message="again")
    found = {each.cause: each for each in compare(base, new).against[-1].causes}
    assert list(found) == ["refusal", "cut_off"]  # the row of the loop is in the new run only
    refusal, cut_off = found.values()
    assert (refusal.base, refusal.new, refusal.only_base, refusal.only_new) == (2, 3, 1, 2)
    assert (cut_off.base, cut_off.new, cut_off.only_base, cut_off.only_new) == (2, 1, 1, 0)
    assert (refusal.side, cut_off.side) == ("model", "serving")


def test_a_run_that_tells_of_no_causes_is_compared_without_them(tmp_path: Path) -> None:
    old = write_run(tmp_path, "old", [row(0, verdict("match", False))], declares("match"))
    assert compare(old, run_with(tmp_path, "new", "refusal")).against[-1].causes == ()


def test_trials_of_one_row_have_the_causes_of_all_of_them(tmp_path: Path) -> None:
    def trials(name: str, *causes: str | None) -> Path:
        trial: Any = {"row_id": ["q#0", "q#1"], "inputs.source_id": ["q", "q"], "inputs.trial": [0, 1]}
        return passes(tmp_path, name, [cause is None for cause in causes], {"cause": causes, **trial})

    found = compare(trials("a", None, "cut_off"), trials("b", "refusal", "cut_off"), pair_by="id").against[-1].causes
    assert [(each.cause, each.base, each.new) for each in found] == [("refusal", 0, 1), ("cut_off", 1, 1)]


def test_the_causes_that_grew_come_first(tmp_path: Path) -> None:
    base, new = run_with(tmp_path, "a", "cut_off", None), run_with(tmp_path, "b", "refusal", "refusal")
    said = inside(tmp_path, "compare", str(base), str(new), "--markdown", "out.md", "--details")
    assert said.code == 0, said
    assert said.out.index("why rows failed") < said.out.index("refused") < said.out.index("cut off at the token limit")
    page = (tmp_path / "out.md").read_text("utf-8")
    first, second = ("| refused | 0 | 2 | +2 | 0 | 2 |", "| cut off at the token limit | 1 | 0 | -1 | 1 | 0 |")
    assert re.search(f"{re.escape(first)} .*\n{re.escape(second)} .* serving \\|", page)


def test_a_regressed_row_names_the_problem_of_serving_and_not_only_its_effect(tmp_path: Path) -> None:
    base, new = run_with(tmp_path, "a", None, None), run_with(tmp_path, "b", "cut_off", "refusal")
    said = inside(tmp_path, "compare", str(base), str(new), COLUMNS="200")
    assert re.search(r"regressed 2: .*cut off at the token limit \(1\)", said.out)
    assert re.search(r"q0 +now: cut off at the token limit", said.out)


def two_runs(folder: Path, columns: Mapping[str, Callable[[int], object]], **dataset: object) -> list[Path]:
    """Runs over 120 rows with these columns; the second fails each of the first twelve."""
    values = {f"inputs.{name}": [value(n) for n in range(120)] for name, value in columns.items()}
    return [
        passes(folder, name, [n >= lost for n in range(120)], values, dataset=dataset)
        for name, lost in (("a", 0), ("b", 12))
    ]


def taken(found: Comparison) -> tuple[str | None, int | None]:
    return found.pairs.cluster, found.pairs.clusters


def test_rows_of_a_column_that_the_data_declares_are_not_independent(tmp_path: Path) -> None:
    runs = two_runs(tmp_path, {"scenario": lambda n: f"s{n // 4}"}, cluster="scenario")
    found = compare(*runs)
    assert taken(found) == ("scenario", 30)
    assert found.metrics["match"].difference.clusters == 30
    start = "30 clusters by scenario (declared by the data): rows of one cluster may depend on each other"
    for notes in (found.notes, select(*runs).notes):
        assert f"{start}; --cluster none treats all rows as independent" in notes


def test_a_column_of_ids_that_repeat_is_found(tmp_path: Path) -> None:
    found = compare(*two_runs(tmp_path, {"conversation_id": lambda n: f"c{n // 3}", "user_id": lambda n: n // 2}))
    assert taken(found) == ("conversation_id", 40)
    assert any(note.startswith("40 clusters by conversation_id (its values repeat)") for note in found.notes)


def test_categories_few_values_and_ids_of_one_row_are_no_clusters(tmp_path: Path) -> None:
    few_values = {"annotator_id": lambda n: n % 5}  # who wrote the rows
    for columns in ({"category": lambda n: f"c{n // 4}"}, few_values, {"ticket_id": lambda n: n}):
        assert taken(compare(*two_runs(tmp_path, columns))) == (None, None), columns


def test_another_column_can_be_named_or_none(tmp_path: Path) -> None:
    runs = two_runs(tmp_path, {"scenario": lambda n: n // 4, "topic": lambda n: n // 10}, cluster="scenario")
    assert taken(compare(*runs, cluster="topic")) == ("topic", 12)
    alone = compare(*runs, cluster="none")
    assert taken(alone) == (None, None)
    assert alone.metrics["match"].p_value == pytest.approx(1 / 2**12)
    assert select(*runs, cluster="none").clusters is None


def test_a_run_says_of_itself_which_rows_are_not_independent(tmp_path: Path) -> None:
    """And gates and reports, which read runs as compare does, take that."""
    data = [{"conversation_id": f"c{n // 2}", "n": n} for n in range(40)]

    def run(name: str, cluster: str | None) -> Path:
        keeping: dict[str, Any] = {"evaluation_name": name, "results_dir": tmp_path, "cluster": cluster}
        return evaluate(data=data, evaluators={"even": lambda n: {"even": n % 2}}, progress=False, **keeping).run_dir

    found, alone = [run(name, None) for name in "ab"], [run(name, "none") for name in "cd"]
    assert taken(compare(*found)) == ("conversation_id", 20)
    assert taken(compare(*alone)) == (None, None)
    with pytest.raises(ConfigurationError, match="cluster: the data has no column 'conversation'; did you mean"):
        run("e", "conversation")


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
    assert checkpoints[0].name in said


def test_all_below_the_decision_is_about_the_run_that_it_names(
    checkpoints: list[Path], capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")  # a narrow terminal: the last command is on a line of its own
    page = tmp_path / "c.md"
    first, best, _ = checkpoints
    said = here(capsys, "compare", *map(str, checkpoints), "--details", "--markdown", str(page)).out
    assert "ck6 against ck1:" in said
    assert "match: 0 regressed, 40 fixed, 0 changed" in said
    assert "  fixed 40" in said
    assert "and 37 more: --rows 40" in said
    assert page.read_text("utf-8").startswith(f"### `{best.name}` against `{first.name}`\n")
    brief = here(capsys, "compare", *map(str, checkpoints)).out
    assert f"\n  tunecheck report {best.name} --against {first.name}\n" in brief


def test_only_the_chosen_run_is_told_to_ship(
    checkpoints: list[Path], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    here(capsys, "compare", *map(str, checkpoints), "--junit", str(tmp_path / "c.xml"))
    selected = here(capsys, "select", *map(str, checkpoints)).out
    for text in (selected, (tmp_path / "c.xml").read_text("utf-8")):
        assert text.count("Ship ") == 1
        assert "ck8 could replace ck1, too, but was not chosen. match: better" in text


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


@pytest.mark.parametrize("command", ["compare", "select"])
def test_every_outcome_shows_rows_and_the_number_that_shows_all(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    # 1,100 rows go back and forth and 1,050 break: more than a comparison keeps of each outcome.
    runs = [
        passes(tmp_path, name, [forth] * 1_100 + [right] * 1_050)
        for name, forth, right in (("a", False, True), ("b", True, True), ("c", False, False))
    ]

    def shown(*options: str) -> str:
        return here(capsys, command, *map(str, runs), "--details", *options).out

    few = shown("--rows", "2")
    for outcome, total in (("broken", 1_050), ("back and forth", 1_100)):
        assert re.search(rf"^ +{outcome} {total:,}", few, re.MULTILINE)
        assert re.search(rf"and {total - 2:,} more +--rows {total} *$", few, re.MULTILINE)

    every = shown("--rows", "1100")
    assert len(re.findall(r"^ +q\d+ +✓✓✗", every, re.MULTILINE)) == 1_050
    assert len(re.findall(r"^ +q\d+ +✗✓✗", every, re.MULTILINE)) == 1_100


@cases("comparison")
def test_a_row_changed_where_all_its_trials_agree_that_it_did(passed: list[float], outcome: str, since: int) -> None:
    outcomes, changed_by = row_histories(numpy.array([passed]))
    assert (OUTCOMES[outcomes[0]], changed_by[0]) == (outcome, since)


def test_a_row_is_in_the_part_of_each_of_its_tags(tmp_path: Path) -> None:
    def run(name: str, failed: set[int]) -> Path:
        columns = {"inputs.tags": [["dates"], ["dates", "long"], ["long"], []] * 20}
        return passes(tmp_path, name, [n not in failed for n in range(80)], columns, group_by=["tags"])

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
        columns = {"inputs.topic": [*"abcdef"] * 40, "row_kind": ["answer", "call"] * 120}
        return passes(tmp_path, name, [n not in failed for n in range(240)], columns, group_by=["topic"])

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


def test_a_slice_with_the_value_overall_is_corrected_like_the_others(tmp_path: Path) -> None:
    def run(name: str, failed: set[int]) -> Path:
        columns = {"inputs.topic": ["overall", "other"] * 40}
        return passes(tmp_path, name, [n not in failed for n in range(80)], columns, group_by=["topic"])

    found = compare(run("base", {1}), run("new", {2 * n for n in range(8)} | {3}))
    parts = {part.value: part for part in found.against[-1].parts if part.column == "topic"}
    # Eight rows of one topic are lost; in the other, one is lost and one won. Both are tested.
    assert parts["overall"].p_adjusted == pytest.approx(2 / 2**8)
    assert parts["other"].moved


def test_what_the_runs_share_is_said_before_any_figure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a, b = (
        write_run(tmp_path, name, [row(n, verdict("match", n % 5 > 0)) for n in rows], declares("match"))
        for name, rows in (("a", range(100)), ("b", range(40, 120)))
    )
    said = " ".join(here(capsys, "compare", str(a), str(b)).out.split())
    shared = f"{a.name} has 100 rows, {b.name} has 80; only common rows are compared (60)"
    assert said.index(shared) < said.index("match: no difference shown")
