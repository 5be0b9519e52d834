"""`tunecheck select`: which of several runs to ship, how sure the ranking is, and what speaks against it."""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy
import pytest
from tests.cli_parts import here
from tests.comparison_parts import declares, passes, scores

from tunecheck import ConfigurationError, Decision, Selection, compare, select
from tunecheck.comparison import selection_view
from tunecheck.statistics import Codes, Floats, expected_optimism, multiple_comparisons_with_the_best
from tunecheck.views import Words, markdown


def failing(*rows: int, of: int = 100) -> list[bool]:
    """Outcomes of `of` rows; these fail."""
    return [number not in rows for number in range(of)]


def two_metrics(folder: Path, name: str, match: Sequence[bool], safe: Sequence[bool]) -> Path:
    return passes(folder, name, {"match": match, "safe": safe})


def test_a_last_run_that_lost_what_an_earlier_one_had_is_not_shipped(tmp_path: Path) -> None:
    outcomes = failing(*range(40)), failing(), failing(*range(20))
    first, best, last = (passes(tmp_path, name, each) for name, each in zip("abc", outcomes, strict=True))
    found = select(first, best, last)
    assert (found.decision.decision, found.decision.candidate) == ("ship", best.name)
    assert [each.run for each in found.ranking] == [best.name, last.name, first.name]
    assert [each.may_be_best for each in found.ranking] == [True, False, False]
    assert found.regressed_since == best.name
    assert [each.decision for each in found.decisions] == ["ship", "ship"]


def test_intervals_do_not_depend_on_the_order_of_the_runs(tmp_path: Path) -> None:
    runs = [passes(tmp_path, name, failing(*range(start, 60, 3))) for start, name in enumerate("abcd")]
    first, again = (select(*named, base=runs[0]).ranking for named in (runs, runs[::-1]))
    assert {each.run: each.difference for each in first} == {each.run: each.difference for each in again}


def test_equal_runs_are_undecided_and_the_later_is_the_candidate(tmp_path: Path) -> None:
    runs = [passes(tmp_path, name, failing(3, 4)) for name in "abc"]
    found = select(*runs)
    assert (found.decision.decision, found.decision.candidate) == ("undecided", runs[2].name)
    assert all(each.may_be_best for each in found.ranking)


def test_the_best_run_does_not_ship_if_it_breaks_a_guard(tmp_path: Path) -> None:
    base = two_metrics(tmp_path, "base", failing(*range(30)), failing())
    best = two_metrics(tmp_path, "best", failing(), failing(*range(50)))
    kept = two_metrics(tmp_path, "kept", failing(*range(15)), failing())
    found = select(base, best, kept, metric="match", guards={"safe": 0.05})
    assert (found.decision.decision, found.decision.candidate) == ("ship", kept.name)
    of_best = found.decisions[0]
    assert (of_best.decision, of_best.candidate) == ("keep", best.name)
    assert "safe is more than 5.0 points worse (guard)" in texts(of_best)


def texts(decision: Decision, effect: str | None = None) -> list[str]:
    return [each.text for each in decision.objections if effect in (None, each.effect)]


def test_only_rows_that_every_run_has_are_ranked(tmp_path: Path) -> None:
    runs = [passes(tmp_path, "a", failing(1)), passes(tmp_path, "b", [None] * 40 + [True] * 60)]
    found = select(*runs)
    assert found.rows == 60
    assert f"ranking without 40 rows of {runs[0].name}: not every run has a figure for them" in found.notes
    assert {each.value.value for each in found.ranking} == {1.0}


def test_a_score_of_which_less_is_better_is_ranked_from_below(tmp_path: Path) -> None:
    low = [0.4 + 0.01 * (number % 9) for number in range(60)]
    high = [value + 0.3 + 0.001 * (at % 5) for at, value in enumerate(low)]
    better, worse = (scores(tmp_path, name, each, higher_is_better=False) for name, each in (("l", low), ("h", high)))
    found = select(better, worse)
    assert found.decision.decision == "keep"
    assert [each.run for each in found.ranking] == [better.name, worse.name]
    first, second = (each.difference for each in found.ranking)
    assert first.value == pytest.approx(-0.302)
    assert first.high == 0
    assert second.low == 0


@pytest.mark.parametrize("higher_is_better", [True, False])
def test_a_run_without_a_difference_is_not_the_candidate(tmp_path: Path, higher_is_better: bool) -> None:
    def run(name: str, values: Sequence[float | None]) -> Path:
        return scores(tmp_path, name, values, higher_is_better=higher_is_better)

    changed = 0.9 if higher_is_better else 0.1
    base, better, empty = run("base", [0.5] * 6), run("better", [0.5] * 5 + [changed]), run("empty", [None] * 6)
    for runs in ((base, better, empty), (base, empty, better)):
        found = compare(*runs)
        assert {each.decision.decision for each in found.against} == {"undecided"}
        assert found.decision.candidate == better.name


def printed(found: Selection) -> str:
    return markdown(selection_view(found))


def test_the_difference_of_two_runs_has_one_interval(tmp_path: Path) -> None:
    runs = [passes(tmp_path, name, failing(*range(bad))) for name, bad in (("a", 5), ("b", 25), ("c", 5))]
    assert len(set(re.findall(r"\([^ ]+ to [^ ]+\)", printed(select(*runs[:2]))))) == 1
    assert "from the best other" in printed(select(*runs))


def test_a_candidate_that_is_not_chosen_says_why(tmp_path: Path) -> None:
    runs = [
        two_metrics(tmp_path, name, failing(*range(bad)), failing(*range(unsafe)))
        for name, bad, unsafe in (("a", 30, 0), ("b", 0, 40), ("c", 10, 0))
    ]
    found = select(*runs, metric="match")
    assert found.decision.candidate == runs[2].name
    assert "b should not replace a. match: better" in printed(found)
    assert "keep: safe is worse: 100.0% → 60.0%" in printed(found)


def test_runs_of_changed_evaluators_are_not_called_best(tmp_path: Path) -> None:
    declared = [declares("match"), declares("match")]
    declared[1]["match"] |= {"fingerprint": "g"}  # type: ignore[operator]
    outcomes = failing(*range(30)), failing()
    runs = [passes(tmp_path, n, o, evaluators=d) for n, o, d in zip("ab", outcomes, declared, strict=True)]
    found = select(*runs)
    assert found.decision.decision == "invalid"
    assert "not comparable" in printed(found)
    assert "may be the best" not in printed(found)


def test_runs_of_different_judges_are_not_ranked(tmp_path: Path) -> None:
    def run(name: str, judge: str) -> Path:
        entry = {**declares("match")["match"], "judge": judge}  # type: ignore[dict-item]
        return passes(tmp_path, name, [number > 3 for number in range(40)], evaluators={"match": entry})

    runs = [run("a", "one"), run("b", "one"), run("c", "another")]
    with pytest.raises(ConfigurationError, match="match was scored by different judges in these runs"):
        select(*runs)
    assert compare(*runs).best is None


def test_the_base_may_be_a_run_that_is_not_the_first(tmp_path: Path) -> None:
    runs = [passes(tmp_path, name, failing(*range(bad))) for name, bad in (("a", 30), ("b", 20), ("c", 10))]
    found = select(*runs, base=runs[1])
    assert found.base == runs[1].name
    assert len(found.ranking) == 3


def test_one_run_is_nothing_to_choose_from(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="a comparison needs two runs or more"):
        select(passes(tmp_path, "a", [True] * 12))


def test_a_negative_margin_is_refused(tmp_path: Path) -> None:
    runs = [passes(tmp_path, name, [True] * 12) for name in "ab"]
    with pytest.raises(
        ConfigurationError, match="the margin of guard 'match' must be a finite number of 0 or more, not"
    ):
        select(*runs, guards={"match": -0.1})


def test_the_command_says_the_sentence_first_or_all_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a, b = (passes(tmp_path, name, failing(*range(bad))) for name, bad in (("a", 30), ("b", 0)))
    said = here(capsys, "select", str(a), str(b))
    assert " ".join(said.out.split()).startswith("Ship b. match: better, 70.0% → 100.0%")
    told = here(capsys, "select", str(a), str(b), "--json", "--guard", "match:0.02").json()
    assert told["decision"]["candidate"] == b.name
    assert [each["run"] for each in told["ranking"]] == [b.name, a.name]


@pytest.mark.parametrize(("kind", "metric"), [("call", "match"), ("answer", "text")])
def test_match_decides_if_rows_have_calls_else_the_first_evaluator(tmp_path: Path, kind: str, metric: str) -> None:
    outcomes = {"text": [True] * 60, "match": [at > 9 for at in range(60)]}
    runs = [passes(tmp_path, name, outcomes, {"row_kind": [kind] * 60}) for name in "ab"]
    assert select(*runs).metric == compare(*runs).decision.metric == metric


def test_what_the_data_declares_decides(tmp_path: Path) -> None:
    dataset = {"name": "d", "primary": "safe"}
    runs = [
        passes(tmp_path, name, {"match": [True] * 60, "safe": [at >= bad for at in range(60)]}, dataset=dataset)
        for name, bad in (("a", 20), ("b", 0))
    ]
    assert (select(*runs).decision.decision, select(*runs).metric) == ("ship", "safe")


def test_seven_metrics_that_show_nothing_do_not_hide_that_the_primary_one_improved(tmp_path: Path) -> None:
    """Eight rows are won: McNemar's mid-p is 1/256, and Holm's over eight metrics would be above 0.03."""
    runs = []
    for name, bad, own in (("a", 8, 0), ("b", 0, 1)):
        others = {f"text{number}": [at % 7 != own for at in range(60)] for number in range(7)}
        runs.append(passes(tmp_path, name, {"match": [at >= bad for at in range(60)], **others}))
    found = compare(*runs)
    assert (found.decision.decision, found.metric("match").p_adjusted) == ("ship", found.metric("match").p_value)


def test_a_slice_can_decide(tmp_path: Path) -> None:
    """Refunds get better by 30 of 50 rows, orders get worse by as many."""
    domains = ["refund", "order"] * 50
    runs = [
        passes(tmp_path, name, [at >= 60 or at % 2 == bad for at in range(100)], {"inputs.domain": domains})
        for name, bad in (("a", 1), ("b", 0))
    ]
    found = select(*runs, metric="match[domain=refund]")
    assert found.decision.metric == found.metric == "match[domain=refund]"
    assert found.rows == 50
    assert found.decision.difference[1] == pytest.approx(0.6)
    assert found.rows_over_runs is not None
    assert found.rows_over_runs.counts["fixed"] == 30
    assert compare(*runs, metrics="match[order]").metric("match[domain=order]").verdict == "worse"
    with pytest.raises(ConfigurationError, match=r"the runs have no slice \[town=x\]"):
        select(*runs, metric="match[town=x]")
    with pytest.raises(ConfigurationError, match=r"no row of the slice .*domain=x.* is in both runs"):
        select(*runs, metric="match[domain=x]")


def test_a_value_of_several_columns_names_no_slice(tmp_path: Path) -> None:
    columns = {"inputs.from": ["Oslo", "Bern"] * 20, "inputs.to": ["Rome", "Oslo"] * 20}
    runs = [passes(tmp_path, name, [True] * 40, columns) for name in "ab"]
    choices = r"write \[(from|to)=Oslo\] or \[(from|to)=Oslo\]"
    with pytest.raises(ConfigurationError, match=rf"the slice \[Oslo\] fits several columns: {choices}$"):
        compare(*runs, metrics="match[Oslo]")


def test_runs_of_one_name_are_called_by_their_ids(tmp_path: Path) -> None:
    a, b, c = (passes(tmp_path, name, failing(*range(bad))) for name, bad in (("x", 9), ("x", 0), ("y", 9)))
    title = selection_view(select(a, b, c)).title
    assert isinstance(title, Words)
    assert title.text.startswith(f"Ship {b.name}. ")


@pytest.mark.parametrize("guard", ["match", "match:", "match:-1", ":0.1", "match:nan"])
def test_what_is_no_guard_is_refused_in_a_line(guard: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = here(capsys, "select", "a", "b", "--guard", guard, "--results-dir", str(tmp_path))
    assert said.code == 2
    assert ": write NAME:MARGIN (margin at least 0)" in said.err


def test_the_best_of_equal_runs_looks_as_much_too_good_as_is_said() -> None:
    """The expected maximum of eight standard normals is 1.4236 (Harter, Biometrika 48 (1961), table 1)."""
    random = numpy.random.default_rng(5)
    drawn = [(random.random((100, 8)) < 0.9).astype(float) for _ in range(400)]
    said = [expected_optimism(scores) or 0.0 for scores in drawn]
    assert numpy.mean(said) == pytest.approx(1.4236 * (0.9 * 0.1 / 100) ** 0.5, rel=0.01)
    assert numpy.mean(said) == pytest.approx(
        numpy.mean([scores.mean(axis=0).max() - 0.9 for scores in drawn]), abs=0.004
    )
    same = numpy.repeat(drawn[0], 3, axis=0)
    assert expected_optimism(same, numpy.repeat(numpy.arange(100), 3)) == pytest.approx(said[0])


def test_the_best_of_several_runs_is_shown_with_its_expected_optimism(tmp_path: Path) -> None:
    random = numpy.random.default_rng(6)
    runs = [passes(tmp_path, f"ck{at}", (random.random(100) < 0.9).tolist()) for at in range(8)]
    found = select(*runs)
    assert found.optimism is not None
    assert found.optimism == pytest.approx(0.042, abs=0.005)
    assert (
        f"if all 8 runs are equal, chance makes the best look {100 * found.optimism:.1f} points better on average"
        in found.decision.because
    )
    assert compare(*runs).decision == found.decision
    assert select(*runs[:2]).optimism is None


def standings(scores: Floats, clusters: Codes | None = None) -> Any:
    return multiple_comparisons_with_the_best(
        scores, clusters, verdicts=False, higher_is_better=True, confidence=0.95, seed=0
    )


def test_two_runs_are_told_apart_as_by_a_one_sided_t_test() -> None:
    random = numpy.random.default_rng(1)
    base = random.normal(0, 1, 40)
    change = random.normal(0.2, 0.5, 40)
    found = standings(numpy.column_stack([base, base + change]))
    # Student's t of 39 degrees at 0.95 is 1.6849 (tables).
    reach = 1.6849 * change.std(ddof=1) / 40**0.5
    assert found[1].high == pytest.approx(change.mean() + reach, rel=0.02)


def test_rows_of_one_cluster_say_no_more_than_one_row() -> None:
    random = numpy.random.default_rng(2)
    once = random.normal(0, 1, (30, 3))
    labels = numpy.repeat(numpy.arange(30), 5)
    alone = standings(once)
    repeated = standings(numpy.repeat(once, 5, axis=0), labels)
    for one, other in zip(alone, repeated, strict=True):
        assert [one.low, one.high] == pytest.approx([other.low, other.high])


def test_cost_latency_and_faults_of_serving_speak_against_a_run(tmp_path: Path) -> None:
    def run(name: str, match: Sequence[bool], milliseconds: float, cost: float) -> Path:
        causes = {"cause": ["cut_off"] * 100} if name == "new" else {}
        folder = passes(tmp_path, name, match, {"outputs.latency_ms": [milliseconds] * 100, **causes})
        usage = {"target": {"cost": cost, "currency": "USD"}}
        (folder / "metrics.json").write_text(json.dumps({"usage": usage}), "utf-8")
        return folder

    old, new = run("old", failing(*range(30)), 800, 1.0), run("new", failing(), 1_200, 2.0)
    found = select(old, new).decision
    assert found.decision == "ship"
    assert texts(found, "none") == ["a row costs 0.02 USD, 0.01 in old", "the median latency is 1.2 s, 0.8 s in old"]


def test_a_cause_that_grew_is_named(tmp_path: Path) -> None:
    def run(name: str, refused: int, failed: int) -> Path:
        columns = {"cause": ["refusal"] * refused + [None] * (100 - refused)}
        return passes(tmp_path, name, [at >= failed for at in range(100)], columns)

    assert "refused: 20 rows, 0 in the base" in texts(select(run("old", 0, 40), run("new", 20, 20)).decision)


def test_one_other_metric_is_a_test_by_itself(tmp_path: Path) -> None:
    base = two_metrics(tmp_path, "base", failing(1, 2), failing())
    # 5 rows fail now that did not: McNemar's mid-p is 1/32, too much for one of two tests.
    new = two_metrics(tmp_path, "new", failing(1), failing(*range(5)))
    found = select(base, new, metric="match").decision
    assert texts(found, "keep")[0].startswith("safe is worse: 100.0% → 95.0%")
