"""Rates corrected for judges' errors by a calibration next to the runs, in gates and comparisons, too."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.comparison_parts import declares, row, verdict as verdict_keys, write_run
from tests.report_parts import data_of
from tests.view_parts import serving

from tunecheck import Metric, MetricComparison, Run, calibrate, compare, evaluate, select, verdict, write_report
from tunecheck._files import JudgeCalibration, LabelledVerdict
from tunecheck.cli import main
from tunecheck.cli._baseline import Base
from tunecheck.cli._gates import parse_gate
from tunecheck.comparison import ComparisonSettings, corrections, headline
from tunecheck.report._serving import runs_page
from tunecheck.runs import save_calibration
from tunecheck.statistics import LabelCounts, prediction_powered, rogan_gladen

JUDGE, OTHER = "0123456789abcdef", "fedcba9876543210"

# The judge passes 45 of 50 good rows and 10 of 50 bad ones.
ERRORS = [("pass", "pass")] * 45 + [("pass", "fail")] * 5 + [("fail", "pass")] * 10 + [("fail", "fail")] * 40
COUNTS = LabelCounts(45, 5, 10, 40)


def kept(judge: str, pairs: Sequence[tuple[str, str]], rows: str = "label") -> JudgeCalibration:
    labels = [LabelledVerdict(f"r{n}", f"{rows} {n}", None, *pair) for n, pair in enumerate(pairs)]  # type: ignore[arg-type]
    return JudgeCalibration(judge=judge, evaluator="match", run="calibrate", created="", labels=labels)


def judged(folder: Path, name: str, outcomes: Sequence[bool], judge: str = JUDGE) -> Path:
    """A run with a judge as its evaluator `match`."""
    rows = [row(number, verdict_keys("match", passed)) for number, passed in enumerate(outcomes)]
    declared: Any = declares("match")
    declared["match"]["judge"] = judge
    return write_run(folder, name, rows, declared)


def compared(folder: Path, new_judge: str = JUDGE, margin: float | None = None) -> MetricComparison:
    """120 of 200 rows pass in the base, 160 in the new run."""
    base = judged(folder, "base", [n < 120 for n in range(200)])
    new = judged(folder, "new", [n < 160 for n in range(200)], new_judge)
    return compare(base, new, margin=margin, results_dir=folder).metric("match")


class Lenient:
    """Passes whatever is polite, and what the row says it errs on."""

    judged = True
    primary = "lenient"
    metrics = (Metric("lenient", kind="binary"),)

    def __init__(self, prompt: str = "Is it polite?") -> None:
        self.arguments = {"prompt": prompt}

    def __call__(self, *, response: str) -> dict[str, Any]:
        passed = "please" in response
        return dict(verdict("lenient", score=float(passed), passed=passed))


def run_of(folder: Path, said: Sequence[str], evaluator: Lenient | None = None) -> Run:
    rows = [{"id": f"q{n}", "response": f"{text} {n}"} for n, text in enumerate(said)]
    made = evaluate(data=rows, evaluators={"lenient": evaluator or Lenient()}, results_dir=folder, workers=0)
    return Run(made.run_dir)


def calibrated(folder: Path, labels: Mapping[str, tuple[str, int]], first: int = 1_000) -> None:
    """Calibrate with so many rows of each text, labelled as it says."""
    rows: list[dict[str, Any]] = []
    for text, (label, count) in labels.items():
        rows += [{"response": f"{text} {first + len(rows) + n}", "label": label} for n in range(count)]
    calibrate(labels=rows, evaluator=Lenient(), results_dir=folder, workers=0, save=True)


def test_a_run_is_corrected_by_how_often_its_judge_errs_on_labelled_rows(tmp_path: Path) -> None:
    run = run_of(tmp_path, ["please"] * 60 + ["no"] * 40)
    calibrated(tmp_path, {"please": ("pass", 18), "please, no": ("fail", 4), "no": ("fail", 16), "yes": ("pass", 2)})
    found = corrections(run)["lenient"]
    assert (found.labels, found.raw and found.raw.value) == (40, 0.6)
    assert found.corrected == rogan_gladen(60, 100, LabelCounts(18, 2, 4, 16))
    # (0.6 + 0.8 - 1) / (0.9 + 0.8 - 1)
    assert found.corrected.value == pytest.approx(0.4 / 0.7)


def test_labels_among_the_runs_own_rows_correct_it_where_there_are_enough(tmp_path: Path) -> None:
    said = ["please"] * 60 + ["no"] * 40
    run = run_of(tmp_path, said)
    rows = [{"response": f"{said[n]} {n}", "label": "pass" if n < 50 else "fail"} for n in range(100)]
    calibrate(labels=rows[20:90], evaluator=Lenient(), results_dir=tmp_path, workers=0, save=True)
    # Rows 20 to 89: 30 are labelled pass, as the judge says, 10 fail that it passes, 30 fail that it fails.
    found = corrections(run)["lenient"]
    assert found.labels == 70
    assert found.corrected == prediction_powered(20, 30, LabelCounts(30, 0, 10, 30))


def test_a_judge_is_uncalibrated_until_it_is_calibrated_with_its_own_prompt(tmp_path: Path) -> None:
    run, other = (run_of(tmp_path, ["please", "no"] * 5, judge) for judge in (Lenient(), Lenient("Is it short?")))
    assert corrections(run)["lenient"].corrected is None
    calibrated(tmp_path, {"please": ("pass", 10), "no": ("fail", 10)})
    assert corrections(run)["lenient"].corrected is not None
    assert corrections(other)["lenient"].corrected is None


def test_labels_of_one_kind_leave_the_rate_and_say_why(tmp_path: Path) -> None:
    run = run_of(tmp_path, ["please", "no"] * 5)
    calibrated(tmp_path, {"please": ("pass", 10)})
    found = corrections(run)["lenient"]
    assert (found.corrected, found.labels) == (None, 10)
    assert "every label is pass" in str(found.remark)


def test_an_evaluator_that_asks_no_model_is_no_judge(tmp_path: Path) -> None:
    made = evaluate(data=[{"response": "a", "ground_truth": "a"}], evaluators={"f1": "f1_score"}, results_dir=tmp_path)
    assert corrections(Run(made.run_dir)) == {}


def test_a_gate_takes_the_corrected_rate_and_says_so(tmp_path: Path) -> None:
    run = run_of(tmp_path, ["please"] * 60 + ["no"] * 40)
    metrics: Any = run.metrics()["metrics"]
    gate, primaries = parse_gate("lenient>=0.59"), {"lenient": "lenient"}
    before = gate.check(metrics, {}, primaries, corrections(run))
    assert (before.met, before.found, before.remark) == (True, 0.6, "uncalibrated judge")
    calibrated(tmp_path, {"please": ("pass", 18), "please, no": ("fail", 4), "no": ("fail", 16), "yes": ("pass", 2)})
    after = gate.check(metrics, {}, primaries, corrections(run))
    assert not after.met
    assert after.found == pytest.approx(0.4 / 0.7)
    assert "corrected for the judge's errors with 40 labels" in after.remark
    assert after.remark.endswith("uncorrected 60.0%")


def test_a_gate_on_a_group_says_that_it_is_not_corrected(tmp_path: Path) -> None:
    run = run_of(tmp_path, ["please"] * 60 + ["no"] * 40)
    calibrated(tmp_path, {"please": ("pass", 10), "no": ("fail", 10)})
    metrics: Any = run.metrics()["metrics"]
    groups = {"row_kind": {"answer": metrics}}
    found = parse_gate("lenient[answer]>=0.5").check(metrics, groups, {"lenient": "lenient"}, corrections(run))
    assert (found.found, found.remark) == (
        0.6,
        "not corrected for the judge's errors: only rates over all rows are corrected",
    )


def test_a_gate_against_a_run_of_another_judge_cannot_be_said_and_no_more_rows_would_help(tmp_path: Path) -> None:
    base, new = (
        judged(tmp_path, name, [n < 120 for n in range(200)], judge)
        for name, judge in (("base", JUDGE), ("new", OTHER))
    )
    settings = ComparisonSettings(metrics=("match",), margin=0.05)
    ((outcome, objected), _) = Base(str(base), base.name, settings, tmp_path).check(new)
    assert outcome.end == "not met"
    assert "cannot be compared: the runs have different judges" in outcome.remark
    assert (objected.end, "different judges" in objected.remark) == ("undecided", True)


def test_a_report_shows_both_rates_and_says_where_there_is_no_calibration(tmp_path: Path) -> None:
    run = run_of(tmp_path, ["please"] * 60 + ["no"] * 40)

    def lines() -> list[tuple[str, float | None]]:
        write_report(run, tmp_path / "report.html")
        found = data_of(tmp_path / "report.html", "head")["summary"]["evaluators"][0]["lines"]
        return [(line["label"], line["cells"][0]["value"]) for line in found[:2]]

    assert lines()[0] == ("passed, as judged, uncalibrated", 0.6)
    calibrated(tmp_path, {"please": ("pass", 18), "please, no": ("fail", 4), "no": ("fail", 16), "yes": ("pass", 2)})
    assert lines() == [("passed, as judged", 0.6), ("corrected for judge errors", pytest.approx(0.4 / 0.7))]


def test_two_runs_of_one_judge_are_compared_as_people_would_see_them(tmp_path: Path) -> None:
    save_calibration(tmp_path, kept(JUDGE, ERRORS))
    metric = compared(tmp_path, margin=0.05)
    # (0.6 - 0.2) / 0.7, (0.8 - 0.2) / 0.7, and their difference 0.2 / 0.7.
    assert metric.base.value == pytest.approx(0.4 / 0.7)
    assert metric.new.value == pytest.approx(0.6 / 0.7)
    assert metric.difference.value == pytest.approx(0.2 / 0.7)
    assert metric.raw is not None
    assert (metric.raw.base.value, metric.raw.new.value) == (0.6, 0.8)
    assert (metric.verdict, metric.non_inferiority.shown, metric.judge) == ("better", True, "corrected")  # type: ignore[union-attr]
    assert "corrected for the judge's errors (uncorrected 60.0% → 80.0%)" in headline(metric)


def test_a_comparison_by_a_judge_without_a_calibration_says_so(tmp_path: Path) -> None:
    metric = compared(tmp_path)
    assert (metric.verdict, metric.judge, metric.base.value) == ("better", "uncalibrated", 0.6)
    assert headline(metric).endswith(", by an uncalibrated judge")


def test_runs_of_different_judges_are_not_called_better(tmp_path: Path) -> None:
    metric = compared(tmp_path, OTHER, margin=0.05)
    assert (metric.verdict, metric.judge) == ("judges differ", "different")
    assert (metric.p_value, metric.p_adjusted, metric.difference.value) == (None,) * 3
    assert "to see how the judges differ, run `judge calibrate --save` for each on the same labels" in metric.why
    assert headline(metric).startswith("judges differ, 60.0% → 80.0%; ")


def test_how_two_judges_differ_is_told_of_the_rows_that_people_labelled_for_both(tmp_path: Path) -> None:
    # On 10 of 100 rows the second judge says the other thing: 90 of 100 alike, 55 and 55 of them pass.
    flipped = [(label, "fail" if said == "pass" else "pass") for label, said in ERRORS[:5]]
    flipped += ERRORS[5:95] + [(label, "pass") for label, _ in ERRORS[95:]]
    save_calibration(tmp_path, kept(JUDGE, ERRORS))
    save_calibration(tmp_path, kept(OTHER, flipped))
    # (0.9 - 0.505) / (1 - 0.505)
    agreed = "the judges agree on 90.0% of 100 labelled rows (kappa 0.798, 0.679 to 0.917)"
    assert agreed in compared(tmp_path, OTHER).why
    save_calibration(tmp_path, kept(OTHER, ERRORS, "others"))
    assert "the judges have been calibrated on different labels" in compared(tmp_path, OTHER).why


def test_a_served_page_is_made_again_when_its_judge_is_calibrated(tmp_path: Path) -> None:
    run = run_of(tmp_path, ["please"] * 60 + ["no"] * 40)
    with serving(tmp_path) as served:
        assert "corrected for judge errors" not in served.get(f"/runs/{run.id}")[1]
        calibrated(tmp_path, {"please": ("pass", 10), "no": ("fail", 10)})
        assert "corrected for judge errors" in served.get(f"/runs/{run.id}")[1]


def test_trials_of_one_question_are_not_as_many_rows(tmp_path: Path) -> None:
    calibrated(tmp_path, {"please": ("pass", 30), "no": ("fail", 30)})
    rows = [{"id": f"q{n}", "response": f"{'please' if n < 6 else 'no'} {n}"} for n in range(10)]
    made = evaluate(data=rows, evaluators={"lenient": Lenient()}, results_dir=tmp_path, workers=0, repeat=5)
    found = corrections(Run(made.run_dir))["lenient"].corrected
    assert found is not None
    assert found.low is not None
    assert found.high is not None
    assert found.high - found.low > 0.5, "ten questions, not fifty rows"


def test_lists_of_runs_call_a_judge_uncalibrated(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_of(tmp_path, ["please"] * 3 + ["no"])
    assert main(["runs", "--results-dir", str(tmp_path)]) == 0
    assert "lenient 75.0% uncalibrated" in capsys.readouterr().out
    page = runs_page(tmp_path)
    assert '"evaluator":"lenient","is_rate":true,"value":0.75,' in page
    assert '"is_uncalibrated":true' in page
    calibrated(tmp_path, {"please": ("pass", 2), "no": ("fail", 2)})
    assert main(["runs", "--results-dir", str(tmp_path)]) == 0
    assert "uncalibrated" not in capsys.readouterr().out


def test_select_ranks_by_corrected_rates_and_says_so(tmp_path: Path) -> None:
    runs = [judged(tmp_path, f"ck{passed}", [n < passed for n in range(200)]) for passed in (120, 140, 160)]
    plain = select(*runs, results_dir=tmp_path)
    save_calibration(tmp_path, kept(JUDGE, ERRORS))
    found = select(*runs, results_dir=tmp_path)
    # (0.6 - 0.2) / 0.7, (0.7 - 0.2) / 0.7, (0.8 - 0.2) / 0.7.
    assert [each.value.value for each in found.ranking] == pytest.approx([0.6 / 0.7, 0.5 / 0.7, 0.4 / 0.7])
    assert found.ranking[0].difference.value == pytest.approx(0.1 / 0.7)
    assert [each.may_be_best for each in found.ranking] == [each.may_be_best for each in plain.ranking]
    assert "by an uncalibrated judge" in plain.decision.because[0]
    assert "57.1% → 85.7%" in found.decision.because[0]
    assert "corrected for the judge's errors" in found.decision.because[0]


def labelled_runs(folder: Path, new: Sequence[tuple[str, str]]) -> tuple[Run, Run]:
    """A base with 30 rows that people and judge pass, and 30 that both fail; a new run of these texts and labels."""
    base = [("please", "pass")] * 30 + [("no", "fail")] * 30
    runs = run_of(folder, [text for text, _ in base]), run_of(folder, [text for text, _ in new])
    rows = [{"response": f"{text} {n}", "label": label} for each in (base, new) for n, (text, label) in enumerate(each)]
    calibrate(labels=rows, evaluator=Lenient(), results_dir=folder, workers=0, save=True)
    return runs


def test_a_comparison_says_that_labels_show_no_difference_in_a_judges_errors(tmp_path: Path) -> None:
    new = [("please, now", "pass")] * 40 + [("never", "fail")] * 20
    decision = compare(*labelled_runs(tmp_path, new), results_dir=tmp_path).decision
    assert decision.because[-1] == (
        "lenient: the correction assumes that the judge errs equally often on both runs; "
        "60 labelled answers of the base and 60 of the new run show no difference (p 1)"
    )


def test_a_comparison_objects_where_labels_show_that_the_judge_errs_otherwise_on_one_run(tmp_path: Path) -> None:
    new = [("please, fool", "fail")] * 30 + [("never", "fail")] * 30
    decision = compare(*labelled_runs(tmp_path, new), results_dir=tmp_path).decision
    told = {each.code: each.text for each in decision.objections}
    assert "60 of the new run show that this is false (p <0.001)" in told["judge_errors_differ"]
    assert not any("assumes" in each for each in decision.because)


def test_what_the_judge_was_asked_in_both_runs_does_not_test_whether_it_errs_alike(tmp_path: Path) -> None:
    same = [("please", "pass")] * 30 + [("no", "fail")] * 30
    decision = compare(*labelled_runs(tmp_path, same), results_dir=tmp_path).decision
    assert decision.because[-1].endswith("label both answers of rows that the runs answered differently")
