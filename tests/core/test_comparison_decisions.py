"""One decision from the comparison: ship, keep, undecided or invalid, the same in every output, with its exit code."""

import json
import os
import random
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.cli_parts import here
from tests.comparison_parts import declares, passes, row, scores, verdict, write_run
from tests.report_parts import data_of

from tunecheck import Run, assert_no_regression, compare, select, write_report
from tunecheck.plugins import JudgeCalibration, LabelledVerdict
from tunecheck.runs import save_calibration

CODES = {"ship": 0, "keep": 3, "undecided": 4, "invalid": 2}
JUDGE = "0123456789abcdef"


def another_threshold(folder: Path) -> list[Path]:
    """The same 300 answers, passed from 0.5 on, then from 0.4 on."""
    values = [0.3 + 0.4 * (at % 100) / 100 for at in range(300)]
    runs = []
    for threshold in (0.5, 0.4):
        rows = [row(at, verdict("bleu", value >= threshold, score=value)) for at, value in enumerate(values)]
        declared: Any = declares("bleu")
        declared["bleu"] |= {"fingerprint": f"f{threshold}", "arguments": {"threshold": threshold}}
        runs.append(write_run(folder, "loose" if threshold == 0.4 else "strict", rows, declared))
    return runs


def collapsed_slice(folder: Path) -> list[Path]:
    """Refunds fall from 88 to 62 of 100 rows; all 700 rows rise by 3 points."""
    base = {*range(12), *range(100, 220)}
    new = {*range(38), *range(100, 170)}
    domains = ["refund"] * 100 + ["order", "delivery", "account"] * 200
    return [
        passes(folder, name, [at not in failed for at in range(700)], {"inputs.domain": domains})
        for name, failed in (("old", base), ("new", new))
    ]


def missing_verdicts(folder: Path) -> list[Path]:
    """320 of 400 rows pass in both runs; in the new one 40 of the 80 others could not be scored."""
    old = [at < 320 for at in range(400)]
    return [passes(folder, "old", old), passes(folder, "new", [*old[:360], *[None] * 40])]


def equal_checkpoints(folder: Path) -> list[Path]:
    """Eight models that pass 80% of 100 rows; the last is the luckiest."""
    drawn = random.Random(3)
    runs = sorted(([drawn.random() < 0.8 for _ in range(100)] for _ in range(8)), key=sum)
    return [passes(folder, f"ck{at}", outcomes) for at, outcomes in enumerate(runs)]


def two_equal_runs(folder: Path) -> list[Path]:
    """Ten rows are lost and 19 won: McNemar's mid-p is 0.10, one-sided 0.05."""
    lost, won = set(range(10)), set(range(10, 29))
    return [passes(folder, name, [at not in bad for at in range(100)]) for name, bad in (("a", won), ("b", lost))]


def tiny_data(folder: Path) -> list[Path]:
    """Six of 12 rows pass, then nine."""
    return [passes(folder, name, [at < good for at in range(12)]) for name, good in (("tiny_a", 6), ("tiny_b", 9))]


def calibrated_judge(folder: Path) -> list[Path]:
    """A judge that errs on 15 of 100 labelled rows passes 120 of 200 rows, then 160."""
    pairs = [("pass", "pass")] * 45 + [("pass", "fail")] * 5 + [("fail", "pass")] * 10 + [("fail", "fail")] * 40
    labels = [LabelledVerdict(f"r{n}", f"label {n}", None, *pair) for n, pair in enumerate(pairs)]  # type: ignore[arg-type]
    save_calibration(folder, JudgeCalibration(judge=JUDGE, evaluator="match", run="c", created="", labels=labels))
    declared: Any = declares("match")
    declared["match"]["judge"] = JUDGE
    return [
        passes(folder, name, [n < good for n in range(200)], evaluators=declared)
        for name, good in (("a", 120), ("b", 160))
    ]


class Case(NamedTuple):
    """Runs, the decision on them, the objections with an effect, and words that every output says."""

    runs: Callable[[Path], list[Path]]
    decision: str
    objections: tuple[str, ...]
    words: tuple[str, ...]


CASES = [
    Case(another_threshold, "invalid", ("evaluator_changed",), ("Invalid: loose and strict", "(threshold 0.5 → 0.4)")),
    Case(
        collapsed_slice, "keep", ("slice_worse",), ("Keep old, not new", "match[domain=refund] is worse: 88.0% → 62.0%")
    ),
    Case(missing_verdicts, "undecided", ("missing_verdicts",), ("Undecided: keep old", "between 80.0% and 90.0%")),
    Case(equal_checkpoints, "undecided", (), ("Undecided: keep ck0", "more rows like these would decide it")),
    Case(two_equal_runs, "undecided", (), ("Undecided: keep a for now",)),
    Case(
        tiny_data,
        "undecided",
        ("few_rows",),
        ("Undecided: keep tiny_a for now", "12 rows are too few for a verdict; at least about 86 rows are needed"),
    ),
    Case(calibrated_judge, "ship", (), ("Ship b", "corrected for the judge's errors")),
]


@pytest.fixture(params=CASES, ids=lambda case: case.runs.__name__)
def case(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Case, list[Path]]:
    found: Case = request.param
    return found, found.runs(tmp_path)


def effective(decision: Any) -> tuple[str, ...]:
    return tuple(each["code"] for each in decision["objections"] if each["effect"] != "none")


def test_compare_and_select_decide_alike(case: tuple[Case, list[Path]]) -> None:
    expected, runs = case
    compared, selected = compare(*runs).decision, select(*runs).decision
    assert (compared.decision, effective(compared.to_json())) == (expected.decision, expected.objections)
    assert compared == selected
    assert (compared.next is None) == (expected.decision in ("ship", "keep"))


def outputs(runs: list[Path], folder: Path, capsys: pytest.CaptureFixture[str]) -> Iterator[tuple[str, str]]:
    """Each output with its sentence on the runs; the exit code follows the decision."""
    code = CODES[compare(*runs).decision.decision]
    files = ("--markdown", str(folder / "c.md"), "--junit", str(folder / "c.xml"))
    said = here(capsys, "compare", *map(str, runs), "--gate", *files)
    assert said.code == code
    yield "terminal", said.out
    assert here(capsys, "compare", *map(str, runs)).code == 0
    said = here(capsys, "select", *map(str, runs))
    assert said.code == code
    yield "select", said.out
    yield "Markdown", (folder / "c.md").read_text("utf-8")
    yield "JUnit", (folder / "c.xml").read_text("utf-8")
    yield "notebook", compare(*runs)._repr_html_()
    for run in runs:
        (run / "metrics.json").write_text('{"metrics": {}}')
        (run / "journal.jsonl").touch()
    write_report(Run(runs[-1]), folder / "report.html", against=runs[:-1])
    told = data_of(folder / "report.html", "head")["against"]["decision"]
    yield "HTML", "\n".join([f"{told['head']}. {'; '.join(told['because'])}", *(text for text, _ in told["lines"])])


def test_every_output_says_it(
    case: tuple[Case, list[Path]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    expected, runs = case
    for output, text in outputs(runs, tmp_path, capsys):
        plain = " ".join(text.replace("\\", "").replace("&#x27;", "'").replace("&#39;", "'").split())
        for words in expected.words:
            assert words in plain, (output, text)
        assert "**- " not in text


def test_the_json_of_both_commands_holds_it(case: tuple[Case, list[Path]], capsys: pytest.CaptureFixture[str]) -> None:
    expected, runs = case
    told = [here(capsys, command, *map(str, runs), "--json").json()["decision"] for command in ("compare", "select")]
    assert told[0] == told[1] == json.loads(json.dumps(select(*runs).decision.to_json()))
    assert told[0]["decision"] == expected.decision
    assert len(told[0]["difference"]) == 3


@pytest.mark.parametrize("case", [each for each in CASES if each.objections], ids=lambda each: each.runs.__name__)
def test_a_pytest_fails_by_an_objection(case: Case, tmp_path: Path) -> None:
    runs = case.runs(tmp_path)
    with pytest.raises(AssertionError, match=re.escape(case.words[-1])):
        assert_no_regression(runs[-1], runs[0])


def test_a_pytest_names_regressed_rows_of_every_metric_that_failed(tmp_path: Path) -> None:
    base, new = (
        passes(tmp_path, name, {"match": [True] * 100, "safe": [at < safe for at in range(100)]})
        for name, safe in (("a", 100), ("b", 80))
    )
    with pytest.raises(AssertionError) as failed:
        assert_no_regression(new, base, metric=["match", "safe"])
    line, *_ = str(failed.value).splitlines()
    assert line.startswith("safe: worse, 100.0% → 80.0%")
    assert line.endswith("; regressed 20: q80, q81, q82, q83, q84")
    assert "compare --details shows each metric" in str(failed.value)


def test_runs_that_are_not_measured_alike_are_called_neither_better_nor_worse(tmp_path: Path) -> None:
    (said,) = compare(*another_threshold(tmp_path)).decision.because
    assert said == "bleu: 50.0% → 75.0%, +25.0 points (+20.4 to +30.2)"


def test_more_runs_need_more_rows_to_decide(tmp_path: Path) -> None:
    """The last of eight runs is better than the first by itself; over seven comparisons it may be chance."""
    base, *others = equal_checkpoints(tmp_path)
    alone, among = compare(base, others[-1]).decision, compare(base, *others).decision
    assert (alone.decision, among.decision) == ("ship", "undecided")
    rows = re.search(r"about (\d+) more rows", str(among.next))
    assert rows is not None
    assert int(rows[1]) > 10


def test_a_changed_evaluator_may_be_allowed_and_is_said(tmp_path: Path) -> None:
    runs = another_threshold(tmp_path)
    found = compare(*runs, allow_changed_evaluator=True).decision
    assert found.decision == "ship"
    assert [(each.code, each.effect) for each in found.objections] == [("evaluator_changed", "none")]


def test_a_changed_evaluator_of_another_metric_changes_nothing(tmp_path: Path) -> None:
    declared: Any = declares("match") | declares("other")
    runs = []
    for name, fingerprint, good in (("a", "f", 60), ("b", "g", 90)):
        declared["other"]["fingerprint"] = fingerprint
        rows = [row(at, verdict("match", at < good), verdict("other", True)) for at in range(100)]
        runs.append(write_run(tmp_path, name, rows, json.loads(json.dumps(declared))))
    found = compare(*runs).decision
    assert (found.decision, found.objections[0].effect) == ("ship", "none")


def test_another_metric_that_got_worse_keeps_the_base(tmp_path: Path) -> None:
    runs = [
        passes(tmp_path, name, {"match": [at < good for at in range(100)], "safe": [at < safe for at in range(100)]})
        for name, good, safe in (("a", 60, 100), ("b", 90, 80))
    ]
    found = compare(*runs, metrics="match").decision
    assert (found.decision, [each.code for each in found.objections]) == ("keep", ["metric_worse"])


def test_no_relevant_difference_keeps_the_base(tmp_path: Path) -> None:
    """Five of 4,000 rows went from fail to pass and six the other way: within 2 points for sure."""
    base, new = {1, 2, 3, 4, 5}, {11, 12, 13, 14, 15, 16}
    runs = [passes(tmp_path, name, [at not in bad for at in range(4000)]) for name, bad in (("a", base), ("b", new))]
    assert compare(*runs).decision.decision == "keep"


def test_with_a_margin_a_run_that_is_not_worse_by_it_ships(tmp_path: Path) -> None:
    runs = [passes(tmp_path, name, [at % 50 != bad for at in range(300)]) for name, bad in (("a", 3), ("b", 4))]
    assert compare(*runs).decision.decision == "undecided"
    assert compare(*runs, margin=0.05).decision.decision == "ship"
    assert compare(*runs, margin=0.001).decision.decision == "undecided"


def test_a_guard_may_name_a_slice(tmp_path: Path) -> None:
    runs = collapsed_slice(tmp_path)
    guarded = compare(*runs, guards={"match[domain=refund]": 0.05}).decision
    assert guarded.decision == "keep"
    assert any("match[domain=refund] is more than 5.0 points worse (guard)" in each.text for each in guarded.objections)
    rest = compare(*runs, guards={"match[domain=order]": 0.05}).decision
    assert not any("domain=order" in each.text for each in rest.objections)


def test_rows_that_failed_for_serving_in_the_base_alone_leave_it_uncompare(tmp_path: Path) -> None:
    def run(name: str, failed: int) -> Path:
        columns = {"cause": ["cut_off"] * failed + [None] * (100 - failed)}
        return passes(tmp_path, name, [at >= failed for at in range(100)], columns)

    found = compare(run("a", 30), run("b", 0)).decision
    assert (found.decision, found.objections[0].code) == ("undecided", "serving_changed")
    assert found.next == "fix how the endpoints are served (`tunecheck check ENDPOINT`), then evaluate again"


def test_if_nothing_is_found_it_is_said_what_was_checked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs = [passes(tmp_path, name, [at >= bad for at in range(100)]) for name, bad in (("a", 40), ("b", 0))]
    said = " ".join(here(capsys, "select", *map(str, runs)).out.split())
    assert "Ship b. match: better, 60.0% → 100.0%" in said
    assert "No objection found (checked: slices, other metrics, errors, data, evaluators)." in said
    kept = here(capsys, "select", *map(str, reversed(runs))).out
    assert "Keep b, not a." in kept
    assert "No objection found" not in kept


def test_a_score_is_decided_in_its_own_unit(tmp_path: Path) -> None:
    values = [0.3 + 0.004 * at for at in range(100)]
    higher = [value + 0.1 for value in values]
    found = compare(*(scores(tmp_path, "run", each, range=[0, 1]) for each in (values, higher))).decision
    assert (found.decision, found.metric) == ("ship", "bleu")
    assert found.difference[1] == pytest.approx(0.1)


@pytest.mark.parametrize("command", [("compare", "--gate"), ("select",)])
def test_the_exit_code_holds_when_the_reader_of_the_output_has_gone(tmp_path: Path, command: tuple[str, ...]) -> None:
    runs = [run.name for run in collapsed_slice(tmp_path)]
    words = [sys.executable, "-m", "tunecheck", command[0], *runs, *command[1:], "--results-dir", str(tmp_path)]
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = subprocess.run(words, stdout=writing, stderr=subprocess.PIPE, text=True, timeout=120)
    finally:
        os.close(writing)
    assert (done.returncode, done.stderr) == (3, "")


def test_too_few_rows_need_as_many_more_as_show_a_large_difference(tmp_path: Path) -> None:
    outcomes = [at < 7 for at in range(12)], [at < 11 for at in range(12)]
    decision = compare(*(passes(tmp_path, name, each) for name, each in zip("ab", outcomes, strict=True))).decision
    assert "with 12 rows, only differences above 53.5 points are detectable" in decision.because[0]
    # Detection goes with the root of the rows: 12 * (54 / 20) ** 2 is 87.
    assert decision.next is not None
    assert int(decision.next.split()[1]) == pytest.approx(75, abs=3)


def test_an_open_guard_says_how_many_of_its_own_rows_would_decide_it(tmp_path: Path) -> None:
    def run(name: str, failed: set[int]) -> Path:
        columns = {"inputs.domain": ["refund"] * 40 + ["faq"] * 260}
        return passes(tmp_path, name, [n not in failed for n in range(300)], columns)

    base, new = run("a", {*range(5), *range(40, 120)}), run("b", {*range(3, 9)})
    decision = compare(base, new, guards={"match[domain=refund]": 0.05}).decision
    (guard,) = (each.text for each in decision.objections if each.code == "guard_open")
    assert "is not shown to be at most 5.0 points worse (guard): 87.5% → 85.0%" in guard
    assert decision.decision == "undecided"
    assert decision.next is not None
    assert decision.next.startswith("match[domain=refund]: about ")


def test_a_slice_that_collapsed_keeps_the_base_though_another_slice_decides(tmp_path: Path) -> None:
    decision = compare(*collapsed_slice(tmp_path), metrics="match[domain=order]").decision
    assert decision.decision == "keep"
    assert "match[domain=refund] is worse" in decision.objections[0].text


def test_two_runs_without_a_row_that_both_judged_recommend_neither(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dead = passes(tmp_path, "dead", [None] * 4)
    half = passes(tmp_path, "half", [True, False, True, True])
    said = " ".join(here(capsys, "compare", str(dead), str(half)).out.split())
    assert "Undecided: dead and half have no comparable verdicts." in said


def test_the_next_step_names_the_run_that_lacks_verdicts(tmp_path: Path) -> None:
    gaps = passes(tmp_path, "gaps", [None if at >= 60 else at >= 10 for at in range(100)])
    whole = passes(tmp_path, "whole", [at < 60 for at in range(100)])
    assert compare(gaps, whole).decision.next == f"get a verdict for every row of {gaps.name}, then compare again"


def test_a_named_slice_that_is_worse_is_one_objection(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    named = ("--metric", "match", "--metric", "match[domain=refund]")
    said = here(capsys, "compare", *map(str, collapsed_slice(tmp_path)), *named).out
    assert said.count("- keep: match[domain=refund] is worse") == 1
