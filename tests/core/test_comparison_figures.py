"""The figures of a comparison are those of the rows: counted by hand, or those of published formulas."""

import re
from pathlib import Path
from typing import Any

import pytest
from tests.cli_parts import here
from tests.comparison_parts import declares, passes, row, scores, write_run
from tests.report_parts import data_of, make_run

from tunecheck import ConfigurationError, RougeScoreEvaluator, RougeType, compare, select, write_report
from tunecheck.comparison._comparison import Counts, MetricComparison
from tunecheck.comparison._measuring import decide
from tunecheck.statistics import Estimate, wilson


def outcomes(both: int, lost: int, gained: int, neither: int) -> tuple[list[bool], list[bool]]:
    """So many rows that pass in both runs, in the base only, in the new one only, in none."""
    base = [True] * (both + lost) + [False] * (gained + neither)
    new = [True] * both + [False] * lost + [True] * gained + [False] * neither
    return base, new


def test_a_metric_whose_name_ends_like_a_slice_is_compared(tmp_path: Path) -> None:
    lines = [row(number, {"outputs.own.own[a=b]": 0.5 + number % 2 / 2}) for number in range(12)]
    runs = [write_run(tmp_path, name, lines, declares("own", "score")) for name in ("a", "b")]
    assert [metric.base.value for metric in compare(*runs).metrics.values()] == [0.75]


def test_pass_rates_are_compared_pair_by_pair_with_mcnemars_test(tmp_path: Path) -> None:
    base, new = outcomes(both=60, lost=2, gained=10, neither=28)
    found = compare(passes(tmp_path, "a", base), passes(tmp_path, "b", new)).metrics["match"]
    assert (found.b, found.c) == (2, 10)
    assert found.base.value == 0.62
    assert found.new.value == 0.70
    assert found.difference.value == pytest.approx(0.08)
    # 2 heads or fewer in 12 throws: (1 + 12 + 66) / 4096, twice; mid-p counts the 66 half.
    assert found.p_exact == pytest.approx(2 * 79 / 4096)
    assert found.p_value == pytest.approx(2 * (13 + 33) / 4096)
    assert (found.base.low, found.base.high) == (wilson(62, 100).low, wilson(62, 100).high)
    assert found.verdict == "better"


def test_an_evaluators_name_means_its_pass_rate_everywhere(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs = []
    for name, said in (("a", "It is open all day"), ("b", "It is open today")):
        rows = [
            {"id": f"r{at}", "response": said if at % 3 else "No", "ground_truth": "It is open all day"}
            for at in range(30)
        ]
        runs.append(make_run(tmp_path, rows, name, evaluators={"rouge": RougeScoreEvaluator(RougeType.ROUGE_L)}))
    run = runs[1]
    found: Any = run.metrics()["metrics"]
    rate, mean = found["rouge.binary_aggregate"], found["rouge.rouge"]
    assert 0 < rate < 1 and rate != mean
    compared, selected = compare(*runs), select(*runs)
    assert compared.metric("rouge").new.value == rate
    assert {each.run: each.value.value for each in selected.ranking}[run.id] == rate
    assert compared.metric("rouge").kind == selected.kind == "binary"
    write_report(run, tmp_path / "report.html", against=runs[0])
    head = data_of(tmp_path / "report.html", "head")
    (evaluator,) = head["summary"]["evaluators"]
    assert evaluator["lines"][0]["cells"][0]["value"] == rate
    assert head["against"]["held"][0]["metrics"][0]["new"]["value"] == rate
    said = here(capsys, "compare", runs[0].id, run.id, "--results-dir", str(tmp_path / "eval_results")).out
    assert f"→ {rate:.1%}" in said
    gate = ("--fail-under", f"rouge=={rate}", "--results-dir", str(tmp_path / "eval_results"), "--json")
    told = here(capsys, "score", run.id, "--evaluators", "rouge", *gate).json()
    assert (told["gates"][0]["found"], told["metrics"]["rouge.binary_aggregate"]) == (rate, rate)


def test_scores_are_compared_as_means_with_a_permutation_test(tmp_path: Path) -> None:
    before = [0.1 * (number % 7) for number in range(12)]
    after = [value + 0.01 * (number + 1) for number, value in enumerate(before)]
    found = compare(scores(tmp_path, "a", before), scores(tmp_path, "b", after)).metrics["bleu"]
    assert found.kind == "score"
    assert found.difference.value == pytest.approx(0.065)
    # All twelve up, or all twelve down; mid-p counts these two by half.
    assert found.p_exact == pytest.approx(2 / 2**12)
    assert found.p_value == pytest.approx(1 / 2**12)
    assert found.verdict == "better"
    assert found.b is None


def test_a_score_of_which_less_is_better_is_better_when_it_falls(tmp_path: Path) -> None:
    before, after = [0.9] * 6 + [0.8] * 6, [0.5] * 6 + [0.3] * 6
    runs = [scores(tmp_path, name, values, higher_is_better=False) for name, values in (("a", before), ("b", after))]
    assert compare(*runs).metrics["bleu"].verdict == "better"
    assert compare(*runs[::-1]).metrics["bleu"].verdict == "worse"


def test_a_metrics_declared_range_bounds_its_interval(tmp_path: Path) -> None:
    same = [0.25] * 40
    runs = [scores(tmp_path, name, same, range=[0, 1]) for name in "ab"]
    found = compare(*runs).metrics["bleu"]
    high = wilson(0, 40).high
    assert high is not None
    assert found.base.low == pytest.approx(0.25 - high * 0.25)
    assert found.verdict == "no difference shown"


def test_holms_correction_is_over_the_metrics_that_are_tested(tmp_path: Path) -> None:
    sides = []
    for name, lost in (("a", (0, 0, 0)), ("b", (8, 6, 0))):
        metrics = zip(("one", "two", "three"), lost, strict=True)
        outcomes = {metric: [number >= first for number in range(100)] for metric, first in metrics}
        sides.append(passes(tmp_path, name, outcomes, dataset={"primary": "three"}))
    found = compare(*sides).metrics
    # Mid-p of n discordant rows, all on one side: 2 / 2^n · ½ … of both sides: 1 / 2^n.
    assert found["one"].p_value == pytest.approx(1 / 2**8)
    assert found["two"].p_value == pytest.approx(1 / 2**6)
    # The third decides and is tested by itself; the others are two.
    assert found["one"].p_adjusted == pytest.approx(2 / 2**8)
    assert found["two"].p_adjusted == pytest.approx(1 / 2**6)
    assert (found["three"].p_adjusted, found["three"].moved) == (1, False)
    alone = compare(*sides, metrics="two").metrics
    assert alone["two"].p_adjusted == pytest.approx(1 / 2**6)
    assert not alone["one"].tested
    assert alone["one"].verdict is None


def five_metrics(folder: Path, primary: str | None = None, rows: int = 90) -> list[Path]:
    """Two runs: six rows lose `a`; one row loses each other metric, and one gets it."""
    runs = []
    for side, lost, other in (("base", 0, 20), ("new", 6, 21)):
        others = {metric: [number != other for number in range(rows)] for metric in "bcde"}
        outcomes = {"a": [number >= lost for number in range(rows)], **others}
        runs.append(passes(folder, side, outcomes, dataset={"primary": primary}))
    return runs


def test_a_difference_that_only_holms_correction_hides_is_not_shown_and_says_so(tmp_path: Path) -> None:
    sides = five_metrics(tmp_path)
    assert compare(*sides, metrics=["a"]).metrics["a"].verdict == "worse"
    among = compare(*five_metrics(tmp_path / "declared", primary="b")).metrics["a"]
    assert among.verdict == "no difference shown"
    assert "the adjusted p-value is not significant" in among.why
    few = compare(*five_metrics(tmp_path / "few", primary="b", rows=30)).metrics["a"]
    assert few.verdict == "too little data"
    assert few.why.endswith(f"are detectable; {among.why}")


def test_the_primary_metric_is_tested_by_itself_and_the_others_among_themselves(tmp_path: Path) -> None:
    named = compare(*five_metrics(tmp_path), metrics=["a", "b", "c", "d", "e"])
    declared = compare(*five_metrics(tmp_path / "declared", primary="a"))
    for found in (named, declared):
        assert [name for name, each in found.metrics.items() if each.primary] == ["a"]
        assert found.metrics["a"].verdict == "worse"
        assert found.metrics["a"].p_adjusted == pytest.approx(1 / 2**6)
        assert found.metrics["b"].p_adjusted == 1


def test_an_interval_without_0_beside_a_test_that_shows_nothing_is_explained() -> None:
    difference = Estimate(-0.05, -0.1, -0.001, 100, 0.95, "Tango")
    rows, figure = Counts(100, 0, 0), Estimate(0.5, 0.4, 0.6, 100, 0.95, "t(99)")
    compared = MetricComparison(
        "length", "length", "length", True, "score", True, figure, figure, difference, rows, rows, p_value=0.052
    )
    found = decide(compared, 0.052, None)
    assert found == ("no difference shown", "the interval excludes 0, but the adjusted p-value is not significant")


def test_a_margin_asks_whether_the_worse_end_of_the_interval_is_within_it(tmp_path: Path) -> None:
    base, new = outcomes(both=90, lost=3, gained=3, neither=4)
    sides = passes(tmp_path, "a", base), passes(tmp_path, "b", new)
    low = compare(*sides).metrics["match"].difference.low
    assert low is not None
    assert compare(*sides, margin=-low + 0.001).metrics["match"].non_inferiority.shown is True  # type: ignore[union-attr]
    assert compare(*sides, margin=-low - 0.001).metrics["match"].non_inferiority.shown is False  # type: ignore[union-attr]
    assert compare(*sides).metrics["match"].non_inferiority is None


def test_rows_of_one_conversation_widen_the_interval(tmp_path: Path) -> None:
    """Forty conversations of five equal rows: as good as forty rows, not as two hundred."""
    sides = []
    for name, fails in (("a", 20), ("b", 14)):
        columns = {"inputs.conversation": [f"c{n // 5}" for n in range(200)]}
        sides.append(passes(tmp_path, name, [n // 5 >= fails for n in range(200)], columns))
    plain, clustered = compare(*sides).metrics["match"], compare(*sides, cluster="conversation").metrics["match"]
    assert clustered.difference.clusters == 40
    assert plain.difference.value == clustered.difference.value == pytest.approx(0.15)
    # Six conversations changed, all for the better: 2 / 2^6; mid-p counts half.
    assert clustered.p_exact == pytest.approx(2 / 2**6)
    assert clustered.p_value == pytest.approx(1 / 2**6)
    wide, narrow = (found.difference for found in (clustered, plain))
    assert wide.low is not None and narrow.low is not None
    assert wide.low < narrow.low


@pytest.mark.parametrize(
    ("counts", "verdict", "why"),
    [
        pytest.param((4, 1, 1, 3), "too little data", "^9 rows$", id="few rows cannot say that nothing differs"),
        pytest.param(
            (10, 5, 5, 10), "too little data", r"above [2-9]\d\.\d points", id="only a large one could be shown"
        ),
        pytest.param((150, 10, 10, 30), "no difference shown", "^$", id="many rows show no difference"),
        pytest.param((0, 0, 6, 0), "better", "^$", id="six rows that all got better are enough"),
    ],
)
def test_a_verdict_says_what_the_rows_can_show(
    tmp_path: Path, counts: tuple[int, int, int, int], verdict: str, why: str
) -> None:
    base, new = outcomes(*counts)
    found = compare(passes(tmp_path, "a", base), passes(tmp_path, "b", new)).metrics["match"]
    assert found.verdict == verdict
    assert re.search(why, found.why)


def test_the_same_call_gives_the_same_figures(tmp_path: Path) -> None:
    values = [0.1 * (number % 9) for number in range(60)]
    sides = scores(tmp_path, "a", values), scores(tmp_path, "b", values[::-1])
    assert compare(*sides).to_json() == compare(*sides).to_json() == compare(*sides, metrics=[]).to_json()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"confidence": 1.0}, "confidence must be at least 0.5 and below 1, not 1.0"),
        ({"margin": -0.1}, "margin must be a finite number of 0 or more, not -0.1"),
        ({"margin": float("nan")}, "margin must be a finite number of 0 or more, not nan"),
        ({"rows": -1}, r"rows \(the most rows that a list shows\) must be 0 or more, not -1"),
        ({"pair_by": "ids"}, r"pair_by must be content or id, not 'ids'; did you mean 'id'\?"),
        ({"cluster": "questoin"}, r"no column 'questoin'; did you mean 'question'\?"),
        ({"metrics": ["mach"]}, r"'mach' is not a metric of both runs; did you mean 'match'\?"),
    ],
)
def test_a_wrong_option_is_refused_with_the_right_one(tmp_path: Path, options: dict[str, object], message: str) -> None:
    sides = [passes(tmp_path, name, [True, False]) for name in "ab"]
    with pytest.raises(ConfigurationError, match=message):
        compare(*sides, **options)  # type: ignore[arg-type]


def test_one_run_alone_cannot_be_compared(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="needs two runs or more"):
        compare(passes(tmp_path, "a", [True]))


def test_a_score_is_also_named_as_the_metrics_file_repeats_it(tmp_path: Path) -> None:
    base, new = (scores(tmp_path, name, [0.5] * 12) for name in "ab")
    assert compare(base, new, metrics="bleu.bleu_score").metric("bleu.bleu").key == "bleu.bleu"
