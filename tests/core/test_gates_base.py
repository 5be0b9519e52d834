"""`--no-worse-than RUN --margin M`: a run is compared with another one, row by row."""

import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.cli_parts import Said, call, here, inside, replay, rows, workspace, write_lines
from tests.tables import cases

from tunecheck.cli._baseline import gated_metrics
from tunecheck.cli._gates import GateOutcome, end_of, parse_gate

COUNT = 60

Tunecheck = Callable[..., Said]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace of 60 rows, half of them calls, with the endpoints `right` and `wrong`, and a run of `right`."""
    folder = workspace(tmp_path_factory.mktemp("made"), rows(COUNT))
    right: dict[str, object] = {str(row["id"]): row["answer"] for row in rows(COUNT)}
    replay(folder, right, "right")
    replay(folder, {**right, **{f"r{at}": call(name="cancel") for at in range(0, 20, 2)}}, "wrong")
    assert inside(folder, *evaluate()).code == 0
    return folder


@pytest.fixture
def tunecheck(
    made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Tunecheck:
    """The command in a copy of that workspace."""
    monkeypatch.chdir(shutil.copytree(made, tmp_path, dirs_exist_ok=True))
    return lambda *arguments: here(capsys, *arguments)


@pytest.fixture
def empty(tunecheck: Tunecheck) -> Tunecheck:
    """The command in a workspace without a run."""
    shutil.rmtree("eval_results")
    return tunecheck


def evaluate(*more: str, endpoint: str = "right") -> tuple[str, ...]:
    return ("evaluate", "--dataset", "small.jsonl", "--endpoint", f"endpoints/{endpoint}.yaml", *more)


def no_worse(base: str, margin: str = "0.2") -> tuple[str, ...]:
    return ("--no-worse-than", base, "--margin", margin)


def the_gates(said: Said) -> dict[str, Mapping[str, Any]]:
    return {gate["comparison"]["metric"]: gate for gate in said.json()["gates"] if "comparison" in gate}


def finished(folder: Path) -> list[Path]:
    return sorted((folder / "eval_results").iterdir())


def test_the_same_answers_are_shown_to_be_no_worse(tunecheck: Tunecheck) -> None:
    said = tunecheck(*evaluate(*no_worse("last"), "--json"))
    assert said.code == 0, said
    gates = the_gates(said)
    assert list(gates) == ["match.binary_aggregate"]
    assert all(gate["met"] and gate["found"] == 0 for gate in gates.values())


def test_worse_answers_are_found_with_their_figures_and_the_run_is_kept(tunecheck: Tunecheck, tmp_path: Path) -> None:
    base = finished(tmp_path)[0].name
    said = tunecheck(*evaluate(*no_worse("last", "0.05"), "--json", endpoint="wrong"))
    assert said.code == 3
    gate = the_gates(said)["match.binary_aggregate"]
    figures = gate["comparison"]
    assert (gate["met"], figures["base"], figures["pairs"]) == (False, base, COUNT)
    assert gate["found"] == pytest.approx(-10 / COUNT)  # ten of sixty rows went from pass to fail
    assert (figures["base_value"], figures["new_value"]) == (1.0, pytest.approx(50 / 60))
    assert figures["bound"] < -0.2
    assert (Path(said.json()["run_dir"]) / "metrics.json").is_file()


def test_the_report_says_what_was_required_and_found(tunecheck: Tunecheck, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "250")
    said = tunecheck(*evaluate(*no_worse("last", "0.05"), endpoint="wrong"))
    words = " ".join(said.out.split())
    assert "gate NOT met required match: shown to be at most 5 points worse than small-" in words
    assert "found −16.7 points (100.0% → 83.3%, 95% interval" in words


def test_rows_that_decide_nothing_leave_a_gate_undecided(tunecheck: Tunecheck, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing changed; 60 rows show a loss of less than z² / (n + z²) = 6 points, and 2 take z² / 0.02 − z² = 189."""
    monkeypatch.setenv("COLUMNS", "300")
    base = finished(Path())[0].name
    said = tunecheck(*evaluate(*no_worse(base, "0.02"), "--fail-under", "match>=0"))
    assert said.code == 4
    words = " ".join(said.out.split())
    assert "gate UNDECIDED required match: shown to be at most 2 points worse than small-" in words
    assert "a loss of 2 points is neither shown nor ruled out: about 130 more rows like these" in words
    assert "would decide it if the difference stays" in words
    data = tunecheck(*evaluate(*no_worse(base, "0.02"), "--json"))
    gate = the_gates(data)["match.binary_aggregate"]
    assert (gate["met"], gate["outcome"], gate["comparison"]["pairs_to_decide"]) == (False, "undecided", 189)


@pytest.mark.parametrize(
    ("how", "code", "ended", "first"),
    [
        ((), 4, "error", "gate UNDECIDED: required"),
        (("fail",), 3, "error", "gate NOT met: required"),
        (("pass",), 0, "skipped", "gate UNDECIDED, accepted (--undecided pass): required"),
    ],
)
def test_undecided_ends_as_is_asked_for_in_every_output(
    tunecheck: Tunecheck, tmp_path: Path, how: tuple[str, ...], code: int, ended: str, first: str
) -> None:
    how = ("--undecided", *how) if how else ()
    files = ("--junit", "gates.xml", "--markdown", "gates.md")
    said = tunecheck(*evaluate(*no_worse("last", "0.02"), "--fail-under", "match>=0", *how, *files))
    assert said.code == code
    assert first in " ".join(said.out.split())
    assert (tmp_path / "gates.xml").read_text("utf-8").count(f"<{ended} ") == 1
    page = (tmp_path / "gates.md").read_text("utf-8")
    assert page.startswith({0: "### ✅", 3: "### ❌", 4: "### ⚠️"}[code])
    assert "| ⚠️ **gate UNDECIDED** | required `match: shown to be at most 2 points worse" in page


def test_a_quiet_run_names_the_undecided_gate(tunecheck: Tunecheck) -> None:
    said = tunecheck(*evaluate(*no_worse("last", "0.02"), "--quiet"))
    assert said.code == 4
    assert "gate undecided: required match: shown to be at most 2 points worse" in said.err


def test_a_gate_that_is_not_met_is_so_whatever_else_is_undecided() -> None:
    undecided, missed = GateOutcome("a", -0.01, False, undecided=True), GateOutcome("b", -0.5, False)
    for how in (None, "fail", "pass"):
        assert end_of([undecided, missed, GateOutcome("c", 1, True)], how) == "not met"


def test_a_difference_within_the_margin_passes_only_if_its_interval_is_too(tunecheck: Tunecheck) -> None:
    said = tunecheck(*evaluate(*no_worse("last", "0.17"), "--json", endpoint="wrong"))
    assert the_gates(said)["match.binary_aggregate"]["outcome"] == "undecided"
    assert tunecheck(*evaluate(*no_worse(str(finished(Path())[0]), "0.5"), endpoint="wrong")).code == 0


def test_a_slice_that_lost_more_than_the_margin_fails_in_every_output(tunecheck: Tunecheck, tmp_path: Path) -> None:
    """Ten of thirty calls are lost: a sixth of all rows, which alone would leave the gate undecided."""
    files = ("--junit", "gates.xml", "--markdown", "gates.md")
    said = tunecheck(
        *evaluate(*no_worse("last", "0.17"), "--fail-under", "match>=0", *files, "--json", endpoint="wrong")
    )
    assert said.code == 3
    decision = next(gate["decision"] for gate in said.json()["gates"] if "decision" in gate)
    assert (decision["decision"], decision["objections"][0]["code"]) == ("keep", "slice_worse")
    for name in ("gates.xml", "gates.md"):
        assert "match[row_kind=call] is worse: 100.0% → 66.7%" in (tmp_path / name).read_text("utf-8").replace("\\", "")


def test_the_metrics_and_slices_of_fail_under_are_the_ones_compared(tunecheck: Tunecheck) -> None:
    """All ten lost rows are among the thirty calls; of thirty answers none changed."""
    named = ("--fail-under", "match[call]>=0.1", "--fail-under", "match[row_kind=answer]>=0.1")
    gates = the_gates(tunecheck(*evaluate(*no_worse("last", "0.3"), *named, "--json", endpoint="wrong")))
    assert list(gates) == ["match.binary_aggregate[row_kind=call]", "match.binary_aggregate[row_kind=answer]"]
    found = [(gate["found"], gate["comparison"]["pairs"]) for gate in gates.values()]
    assert found == [(pytest.approx(-1 / 3), 30), (0, 30)]
    assert [gate["outcome"] for gate in gates.values()] == ["undecided", "met"]


def test_a_slice_of_any_column_can_be_gated_without_grouping_by_it(tunecheck: Tunecheck) -> None:
    gate = ("--fail-under", "match[city=Oslo]>=0.9", "--better-than", "last", "--json")
    said = tunecheck(*evaluate(*gate, endpoint="wrong"))
    own = next(each for each in said.json()["gates"] if each["gate"] == "match[city=Oslo] >= 0.9")
    assert own["found"] == said.json()["by"]["city"]["Oslo"]["match.binary_aggregate"]
    assert list(the_gates(said)) == ["match.binary_aggregate[city=Oslo]"]


def test_a_slice_that_no_row_has_is_refused_before_anybody_is_asked(tunecheck: Tunecheck, tmp_path: Path) -> None:
    refusals = {"city=Bern": "city=Bern] is in both runs", "town=Oslo": "the runs have no slice [town=Oslo]"}
    for slice_, words in refusals.items():
        said = tunecheck(*evaluate(*no_worse("last"), "--fail-under", f"match[{slice_}]>=0.1"))
        assert (said.code, words in said.err) == (2, True), said.err
    assert len(finished(tmp_path)) == 1


def test_the_command_names_the_metric_that_decides(tunecheck: Tunecheck) -> None:
    said = tunecheck(*evaluate(*no_worse("last"), "--primary", "function_call_match", "--json"))
    assert list(the_gates(said)) == ["function_call_match.binary_aggregate"]
    compared = tunecheck("compare", *sorted(run.name for run in finished(Path())), "--json").json()
    assert compared["decision"]["metric"] == "function_call_match"
    refused = tunecheck(*evaluate("--primary", "macth")).err
    assert "no evaluator has the primary metric 'macth'; did you mean 'match'?" in refused


def test_a_gate_belongs_to_the_evaluator_with_the_longest_name_it_begins_with() -> None:
    gates = [parse_gate("a.b.x>=1"), parse_gate("a.b>=1"), parse_gate("c[call]>=1")]
    assert gated_metrics(gates, ["a", "a.b", "c", "d"], []) == {"a.b": "a.b", "c[row_kind=call]": "c"}
    assert gated_metrics([], ["a"], []) == {}


def test_a_gate_on_a_figure_compares_it_if_rows_have_numbers_of_it_else_its_evaluator() -> None:
    gates = [parse_gate(text) for text in ("bleu.bleu_score>=0.4", "calls.call_f1>=0.9", "calls.error_count<=3")]
    found = gated_metrics(gates, ["bleu", "calls"], ["bleu.bleu", "bleu.binary_aggregate", "calls.binary_aggregate"])
    assert found == {"bleu.bleu": "bleu", "calls": "calls"}


def test_a_score_that_no_row_changed_is_held_against_how_few_rows_there_are(tunecheck: Tunecheck) -> None:
    said = tunecheck(*evaluate(*no_worse("last", "0.06"), "--fail-under", "match.match>=0", "--json"))
    assert said.code == 4
    figures = the_gates(said)["match.match"]["comparison"]
    assert figures["bound"] == pytest.approx(-3.841459 / (COUNT + 3.841459))  # chi² of one degree at 95%: -0.0602


def test_errors_fail_the_gate_too(tunecheck: Tunecheck, tmp_path: Path) -> None:
    kept: dict[str, object] = {str(row["id"]): row["answer"] for row in rows(COUNT)[:-1]}
    replay(tmp_path, kept, "right")
    said = tunecheck(*evaluate(*no_worse("last"), "--json"))
    assert said.code == 3
    assert [gate["met"] for gate in said.json()["gates"]] == [True, False]
    assert any("both rates leave out 1 row that only the base scored" in note for note in said.json()["notes"])


@pytest.mark.parametrize("gate", ["match>=0.5", "match.match>=0.5", "match.match_score>=0"])
def test_a_run_of_errors_meets_no_gate_and_writes_its_files(tunecheck: Tunecheck, tmp_path: Path, gate: str) -> None:
    replay(tmp_path, {"another row": "Hello."}, "right")
    said = tunecheck(*evaluate(*no_worse("last"), "--fail-under", gate, "--junit", "gates.xml", "--json"))
    assert (said.code, "every row ended in an error" in said.err) == (1, True), said
    outcomes = [(found["met"], found["found"]) for found in said.json()["gates"]]
    assert outcomes == [(False, None), (False, None), (False, 1)]
    assert (tmp_path / "gates.xml").read_text().count("<failure") == 3  # the gates


@cases("cli")
def test_what_cannot_be_meant_is_refused_before_anybody_is_asked(
    tunecheck: Tunecheck, tmp_path: Path, options: list[str], words: str
) -> None:
    said = tunecheck(*evaluate(*options))
    assert said.code == 2
    assert words in said.err
    assert len(finished(tmp_path)) == 1


def test_a_base_of_other_rows_is_refused_before_anybody_is_asked(empty: Tunecheck, tmp_path: Path) -> None:
    other = [{**row, "id": f"other-{row['id']}", "city": "Bergen"} for row in rows(4)]
    write_lines(tmp_path / "datasets" / "other.jsonl", other)
    (tmp_path / "datasets" / "other.yaml").write_text((tmp_path / "datasets" / "small.yaml").read_text())
    assert empty("evaluate", "--dataset", "other.jsonl", "--response-column", "answer").code == 0
    said = empty(*evaluate(*no_worse("last")))
    assert said.code == 2
    assert "small share no row: the ids differ, such as 'other-r0' and 'r0'" in said.err
    assert len(finished(tmp_path)) == 1


def test_rows_of_equal_ids_and_other_content_are_other_rows(tunecheck: Tunecheck, tmp_path: Path) -> None:
    write_lines(tmp_path / "datasets" / "small.jsonl", rows(COUNT, source="second edition"))
    said = tunecheck(*evaluate(*no_worse("last")))
    assert said.code == 2
    assert "share 60 ids, but no row of the same content (in row 'r0', 'source' differs)" in said.err
    assert "--pair-by" not in said.err


def test_before_anything_is_asked_it_is_said_what_the_gate_can_show(tunecheck: Tunecheck, tmp_path: Path) -> None:
    gate = (*no_worse("last", "0.02"), "--fail-under", "match>=0")
    said = tunecheck(*evaluate(*gate, "--dry-run"))
    assert said.code == 0
    words = " ".join(said.out.split())
    assert "--no-worse-than: match: with 60 rows and a margin of 2 points, an identical model ends undecided" in words
    assert "if 5.0% of rows change between runs (assumed; a base with --repeat measures this)" in words
    (power,) = tunecheck(*evaluate(*gate, "--dry-run", "--json")).json()["power"]
    assert (power["metric"], power["pairs"], power["change_is_measured"]) == ("match", COUNT, False)
    assert tunecheck(*evaluate(*gate, "--fail-under", f"match>={power['margin_needed']}")).code == 4  # it goes on
    wide = no_worse(finished(tmp_path)[0].name, str(power["margin_needed"]))
    assert "an identical model meets the gate in 80% of runs" in tunecheck(*evaluate(*wide)).err


def test_the_trials_of_the_base_tell_how_many_rows_change(empty: Tunecheck) -> None:
    """Each row is answered the same in all three trials: none changes, and z² / 0.07 = 55 rows are enough."""
    empty(*evaluate("--repeat", "3"))
    said = empty(*evaluate(*no_worse("last", "0.07"), "--dry-run"))
    words = " ".join(said.out.split())
    assert "match: with 60 rows and a margin of 7 points, an identical model meets the gate in 100% of runs" in words
    assert "if 0.0% of rows change between runs (as in the base's trials)" in words


def recorded(column: str, *more: str) -> tuple[str, ...]:
    return ("evaluate", "--dataset", "small.jsonl", "--response-column", column, *more)


def test_recorded_answers_pair_with_the_run_that_was_made_of_them(empty: Tunecheck) -> None:
    assert empty(*recorded("answer")).code == 0
    said = empty(*recorded("answer", *no_worse("last"), "--json"))
    assert said.code == 0, said.err
    assert all(gate["comparison"]["pairs"] == COUNT for gate in the_gates(said).values())


def test_a_column_of_answers_tells_no_rows_apart_whichever_run_has_it(empty: Tunecheck, tmp_path: Path) -> None:
    """One data set with the answers of two checkpoints, against each other and against a model."""
    two = [{**row, "ck1": row["answer"], "ck2": f"never {row['id']}"} for row in rows(COUNT)]
    write_lines(tmp_path / "datasets" / "small.jsonl", two)
    empty(*recorded("ck1"))
    first = finished(tmp_path)[0].name
    write_lines(tmp_path / "datasets" / "small.jsonl", [{**row, "ck1": "another answer"} for row in two])
    for asked in (recorded("ck2"), evaluate()):
        said = empty(*asked, *no_worse(first), "--json")
        assert all(gate["comparison"]["pairs"] == COUNT for gate in the_gates(said).values()), said.err


def test_rows_in_one_run_only_are_counted_and_named(empty: Tunecheck) -> None:
    empty(*evaluate("--limit", "50"))
    said = empty(*evaluate(*no_worse("last"), "--json"))
    (note,) = [note for note in said.json()["notes"] if "left out of all figures" in note]
    assert "10 rows only in the new run, left out of all figures: r50, r51, r52" in note


def test_an_evaluator_that_the_base_lacks_is_refused_if_it_is_gated(empty: Tunecheck) -> None:
    empty(*evaluate("--evaluators", "match"))
    said = empty(*evaluate(*no_worse("last"), "--fail-under", "function_call_match>=0"))
    assert said.code == 2
    assert "the run has no evaluator 'function_call_match'" in said.err


def test_an_evaluator_that_the_base_lacks_is_said_if_it_is_not(empty: Tunecheck) -> None:
    empty(*evaluate("--evaluators", "match"))
    said = empty(*evaluate(*no_worse("last"), "--json"))
    assert list(the_gates(said)) == ["match.binary_aggregate"]
    assert any("evaluator 'function_call_match' is only in" in note for note in said.json()["notes"])


def test_a_base_without_any_of_the_evaluators_is_refused(empty: Tunecheck) -> None:
    empty(*evaluate("--evaluators", "match"))
    said = empty(*evaluate(*no_worse("last"), "--evaluators", "function_call_match"))
    assert said.code == 2
    assert "it has no verdict of function_call_match (only of: match)" in said.err


def test_simulated_runs_are_refused_on_either_side(empty: Tunecheck) -> None:
    simulated = ("evaluate", "--dataset", "small.jsonl")
    empty(*simulated)
    assert "the run's answers are simulated" in empty(*evaluate(*no_worse("last"))).err
    empty(*evaluate())
    said = empty(*simulated, *no_worse("last"))
    assert (said.code, "the answers are simulated" in said.err) == (2, True)
    assert empty(*simulated, *no_worse("last", "1"), "--allow-simulated").code in (0, 3)


def test_a_base_may_be_a_folder_or_the_beginning_of_an_id(tunecheck: Tunecheck, tmp_path: Path) -> None:
    (base,) = finished(tmp_path)
    for name in (str(base), base.name[:-2], f"eval_results/{base.name}"):
        said = tunecheck(*evaluate(*no_worse(name), "--json"))
        assert said.code == 0, said
        assert the_gates(said)["match.binary_aggregate"]["comparison"]["base"] == base.name


def test_last_means_the_last_run_before_this_one_also_when_it_is_taken_up(tunecheck: Tunecheck) -> None:
    base = finished(Path())[0]
    folder = Path(tunecheck(*evaluate(*no_worse("last", "0.05"), "--json", endpoint="wrong")).json()["run_dir"])
    recorded = json.loads((folder / "run.json").read_text())["command"]
    assert (recorded["no_worse_than"], recorded["margin"]) == (base.name, 0.05)
    said = tunecheck("evaluate", "--resume", "last", "--json")
    assert said.code == 3
    assert the_gates(said)["match.binary_aggregate"]["comparison"]["base"] == base.name


def test_a_run_is_not_held_against_itself(tunecheck: Tunecheck) -> None:
    said = tunecheck("evaluate", "--resume", "last", "--trust", "eval_results", *no_worse("last"))
    assert said.code == 2
    assert "a run cannot be compared with itself" in said.err


def test_score_holds_a_run_against_another_one_too(tunecheck: Tunecheck) -> None:
    base = finished(Path())[0].name
    tunecheck(*evaluate(endpoint="wrong"))
    said = tunecheck("score", "last", *no_worse(base, "0.05"), "--json")
    assert said.code == 3, said.err
    assert list(the_gates(said)) == ["match.binary_aggregate"]


def test_the_gate_may_stand_in_a_file(tunecheck: Tunecheck, tmp_path: Path) -> None:
    (tmp_path / "gate.yaml").write_text("no-worse-than: last\nmargin: 0.05\n")
    assert tunecheck(*evaluate("--config", "gate.yaml", endpoint="wrong")).code == 3


def test_repeated_trials_pair_with_a_run_without(empty: Tunecheck) -> None:
    simulated = ("evaluate", "--dataset", "small.jsonl", "--allow-simulated", "--json")
    empty(*simulated)
    said = empty(*simulated, "--repeat", "3", *no_worse("last", "1"))
    assert said.code == 0, said
    figures = the_gates(said)["match.binary_aggregate"]["comparison"]
    assert (figures["pairs"], figures["only_in_new"]) == (COUNT, 0)


def test_azures_results_are_a_base_too(tunecheck: Tunecheck, tmp_path: Path) -> None:
    (base,) = finished(tmp_path)
    lines = [json.loads(line) for line in (base / "eval_results.jsonl").read_text().splitlines()]
    kept = [{key: value for key, value in row.items() if key.startswith(("inputs.", "outputs."))} for row in lines]
    (tmp_path / "azure.json").write_text(json.dumps({"rows": kept, "metrics": {}, "studio_url": None}))
    said = tunecheck(*evaluate(*no_worse("azure.json"), "--json"))
    assert said.code == 0, said
