"""`until_decided`: rows in random order until the run is decided, and the remark on the rows left out."""

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from tests.deciding_run import ROWS, Model, decide, right
from tests.pipeline_parts import column, metrics_of, run, strict_json, strict_lines
from tests.platforms import posix_only
from tests.tables import cases

from tunecheck import ConfigurationError, EvaluationResult, Run, RunError, compare, score, select
from tunecheck._files import EarlyStop
from tunecheck.runs import verify
from tunecheck.statistics import ANY_STOPPING


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("results") / "runs"


@pytest.fixture(scope="module")
def base(results: Path) -> Path:
    """The run of a model that is right on half of the rows."""
    return run(results.parent, ROWS, target=Model(0.5, seed=1), evaluators={"right": right}).run_dir


@pytest.fixture(scope="module")
def stopped(results: Path, base: Path) -> EvaluationResult:
    """That of one that is right on nine of ten, until it is shown to be better."""
    return decide(Model(0.9), results, base)


def stopping(folder: Path, data: object, base: object, **more: Any) -> EvaluationResult:
    """A run of a model that is right on nine of ten rows, until it is shown to be better than the base."""
    until = {"better_than": base, "until_decided": True}
    return run(folder, data, **{"target": Model(0.9), "evaluators": {"right": right}, **until, **more})


def decision_of(result: EvaluationResult) -> EarlyStop:
    assert result.decision is not None
    return result.decision


def journal(result: EvaluationResult, kind: str) -> list[Any]:
    return [record for record in strict_lines(result.run_dir / "journal.jsonl") if record["k"] == kind]


def test_a_run_that_is_much_better_is_decided_after_a_part_of_its_rows(stopped: EvaluationResult) -> None:
    decision = decision_of(stopped)
    assert decision.outcome == "better"
    assert decision.stopped
    assert stopped.row_count == decision.rows < 150
    assert len(stopped["rows"]) == decision.rows  # type: ignore[arg-type]
    assert metrics_of(stopped)["right.scored_count"] == decision.rows


def test_every_row_is_counted_asked_beyond_the_decision_or_not_asked(stopped: EvaluationResult) -> None:
    decision = decision_of(stopped)
    (record,) = journal(stopped, "stopped")
    answered = {answer["i"] for answer in journal(stopped, "answer")}
    assert decision.rows + decision.asked_beyond + decision.not_asked == decision.of == len(ROWS)
    assert [ROWS[index]["id"] for index in record["settled"]] == column(stopped, "row_id")
    assert {row["id"] for row in ROWS} - {ROWS[index]["id"] for index in answered} == set(record["not_asked"])
    assert 0 < decision.asked_beyond <= 2 * Model.concurrency


def test_results_of_a_stopped_run_are_in_the_order_of_the_data(stopped: EvaluationResult) -> None:
    numbers = column(stopped, "inputs.n")
    assert numbers == sorted(numbers)
    assert numbers != list(range(len(numbers))), "rows were drawn at random"


def test_the_decision_sees_rows_in_their_order_however_answers_come_back(
    stopped: EvaluationResult, results: Path, base: Path
) -> None:
    again = decide(Model(0.9), results, base, concurrency=1)
    assert column(again, "row_id") == column(stopped, "row_id")
    assert decision_of(again).metrics == decision_of(stopped).metrics


def test_another_seed_draws_other_rows(stopped: EvaluationResult, results: Path, base: Path) -> None:
    assert column(decide(Model(0.9), results, base, seed=1), "row_id") != column(stopped, "row_id")


@posix_only
def test_a_run_killed_before_it_is_decided_resumes_to_the_same_decision(
    stopped: EvaluationResult, base: Path, tmp_path: Path
) -> None:
    command = [sys.executable, "-m", "tests.deciding_run", str(tmp_path), str(base), "12"]
    process = subprocess.Popen(command, cwd=Path(__file__).parents[2])
    while not (journals := list(tmp_path.glob("*/journal.jsonl"))) or journals[0].read_bytes().count(b'"answer"') < 12:
        assert process.poll() is None
        time.sleep(0.005)
    process.kill()
    process.wait()
    model = Model(0.9)
    resumed = decide(model, tmp_path, base, resume=journals[0].parent)
    assert column(resumed, "row_id") == column(stopped, "row_id")
    assert decision_of(resumed).metrics == decision_of(stopped).metrics
    answers = [answer["i"] for answer in journal(resumed, "answer")]
    assert len(answers) == len(set(answers)), "no row was asked twice"


def test_a_stopped_run_that_goes_on_without_a_decision_is_an_ordinary_run(results: Path, base: Path) -> None:
    first, model = decide(Model(0.9), results, base), Model(0.9)
    assert f"the same Python call and resume={first.run_dir.name!r}, until_decided=False" in first.notes[0]
    whole = decide(model, results, base, resume=first.run_dir, until_decided=False)
    ordinary = run(results.parent, ROWS, target=Model(0.9), evaluators={"right": right})
    assert len(model.asked) == decision_of(first).not_asked
    assert whole.decision is None
    for name in ("eval_results.jsonl", "eval_results.csv", "metrics.json"):
        assert (whole.run_dir / name).read_bytes() == (ordinary.run_dir / name).read_bytes(), name
    assert verify(Run(whole.run_dir)).whole


def test_an_undecided_run_gives_the_full_answer(results: Path, base: Path) -> None:
    undecided = decide(Model(0.51, seed=1), results, base)
    ordinary = run(results.parent, ROWS, target=Model(0.51, seed=1), evaluators={"right": right})
    decision = decision_of(undecided)
    assert (decision.outcome, decision.rows) == ("undecided", len(ROWS))
    rows = [(each.run_dir / "eval_results.jsonl").read_bytes() for each in (undecided, ordinary)]
    assert rows[0] == rows[1]
    found, wanted = (strict_json((each.run_dir / "metrics.json").read_bytes()) for each in (undecided, ordinary))
    assert found.pop("decision")["outcome"] == "undecided"
    assert {**found, "notes": []} == {**wanted, "notes": []}


def test_a_model_like_the_base_is_shown_to_be_no_worse(results: Path, base: Path) -> None:
    until: dict[str, Any] = {"better_than": None, "no_worse_than": base, "margin": 0.1, "confidence": 0.9}
    decision = decision_of(decide(Model(0.5, seed=1), results, base, **until))
    assert decision.outcome == "not_worse"
    assert decision.stopped
    assert (decision.margin, decision.confidence) == (0.1, 0.9)


def test_rows_that_belong_together_are_asked_together(results: Path) -> None:
    rows = [{**row, "talk": number // 3, "id": f"t{number}"} for number, row in enumerate(ROWS)]
    data = results.parent / "talks.jsonl"
    data.write_text("".join(f"{row}\n".replace("'", '"') for row in rows))
    data.with_suffix(".yaml").write_text("cluster: talk\n")
    before = run(results.parent, data, target=Model(0.5, seed=1), evaluators={"right": right})
    found = stopping(results.parent, data, before)
    talks = column(found, "inputs.talk")
    assert all(talks.count(talk) == 3 for talk in talks)
    assert decision_of(found).metrics[0].pairs == len(talks) / 3


def test_rows_that_are_answered_one_after_another_are_asked_in_their_order(results: Path) -> None:
    data = results.parent / "sessions.jsonl"
    rows = [{**row, "talk": number // 3, "id": f"u{number}"} for number, row in enumerate(ROWS)]
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    data.with_suffix(".yaml").write_text("group_key: talk\n")
    before = run(results.parent, data, target=Model(0.5, seed=1), evaluators={"right": right})
    model = Model(0.9)
    found = stopping(results.parent, data, before, target=model, cluster="none")
    talks = column(found, "inputs.talk")
    assert all(talks.count(talk) == 3 for talk in talks)
    asked = {talk: [index for index in model.asked if index // 3 == talk] for talk in talks}
    assert all(indices == sorted(indices) for indices in asked.values())


def test_recorded_answers_are_judged_until_they_are_decided(results: Path) -> None:
    rows = [{**row, "response": "right"} for row in ROWS]
    before = run(results.parent, rows, evaluators={"right": lambda response: right("wrong")})
    found = stopping(results.parent, rows, before, target=None)
    decision = decision_of(found)
    assert decision.outcome == "better"
    assert (decision.asked_beyond, decision.not_asked) == (0, len(ROWS) - decision.rows)


def test_a_column_whose_values_repeat_is_found_unless_rows_are_said_to_be_independent(results: Path) -> None:
    rows = [{**row, "scene_id": f"s{number // 3}", "id": f"s{number}"} for number, row in enumerate(ROWS)]
    before = run(results.parent, rows, target=Model(0.5, seed=1), evaluators={"right": right})
    stops = (stopping(results.parent, rows, before, cluster=cluster) for cluster in (None, "none"))
    found, none = map(decision_of, stops)
    assert found.metrics[0].pairs == found.rows / 3
    assert none.metrics[0].pairs == none.rows


def test_trials_of_a_row_are_asked_together_and_count_as_one(results: Path, base: Path) -> None:
    def model() -> Any:
        right_on = Model(0.9)._right
        return lambda n: "right" if right_on[n] else "wrong"

    found = stopping(results.parent, ROWS, base, target=model(), repeat=2, concurrency=4)
    sources = column(found, "inputs.source_id")
    assert all(sources.count(source) == 2 for source in sources)
    assert decision_of(found).metrics[0].pairs == len(sources) / 2


def test_rows_with_an_error_decide_nothing(results: Path, base: Path) -> None:
    def failing(n: int) -> str:
        if n % 2:
            raise ValueError("no answer")
        return "right"

    found = stopping(results.parent, ROWS, base, target=failing)
    decision = decision_of(found)
    assert decision.outcome == "better"
    assert decision.metrics[0].pairs == metrics_of(found)["right.scored_count"] < decision.rows


def test_metrics_by_group_are_those_of_the_rows_that_count(results: Path, base: Path) -> None:
    class Counting:
        """Has an aggregate of its own, for which rows are read again."""

        def __call__(self, response: str) -> dict[str, object]:
            return right(response)

        def __aggregate__(self, rows: list[dict[str, object]]) -> dict[str, float]:
            return {"seen": len(rows)}

    found = stopping(results.parent, ROWS, base, evaluators={"right": Counting()}, group_by="half")
    halves = column(found, "inputs.half")
    for half in "ab":
        by_half = found.by_group["half"][half]
        assert by_half["right.seen"] == by_half["row_count"] == halves.count(half)


def test_a_stopped_run_is_whole_and_its_answers_can_be_judged_again(stopped: EvaluationResult, results: Path) -> None:
    assert verify(Run(stopped.run_dir)).damage == ()
    again = score(stopped.run_dir, evaluators={"again": lambda response: response == "right"}, results_dir=results)
    assert column(again, "row_id") == column(stopped, "row_id")
    assert column(again, "outputs.again.again") == [
        word == "pass" for word in column(stopped, "outputs.right.right_result")
    ]
    assert decision_of(again).stopped
    assert "STOPPED EARLY" in " ".join(again.notes)


def test_a_damaged_answer_of_a_stopped_run_is_found(results: Path, base: Path) -> None:
    result = decide(Model(0.9), results, base)
    path = result.run_dir / "journal.jsonl"
    index = journal(result, "stopped")[0]["settled"][0]
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(line for line in lines if f'"answer","i":{index},'.encode() not in line))
    damage = " ".join(verify(Run(result.run_dir)).damage)
    assert f"r{index}" in damage or f"number {index + 1}" in damage


def test_compare_says_first_that_a_run_stopped_and_takes_its_own_interval(
    stopped: EvaluationResult, base: Path, results: Path
) -> None:
    comparison = compare(base, stopped.run_dir, results_dir=results)
    metric, decision = comparison.metrics["right"], decision_of(stopped)
    assert comparison.new.stopped == decision
    assert comparison.notes[0].endswith("p-values too small, except for right")
    assert comparison.pairs.paired == decision.rows
    assert (metric.verdict, metric.test, metric.difference.method) == ("better", ANY_STOPPING, ANY_STOPPING)
    assert (metric.difference.low, metric.p_value) == (decision.metrics[0].low, decision.metrics[0].p_value)
    assert metric.p_exact is None


def test_select_says_of_a_stopped_run_what_compare_says(stopped: EvaluationResult, base: Path, results: Path) -> None:
    selection = select(base, stopped.run_dir, results_dir=results)
    notes = " ".join(selection.notes)
    assert "p-values too small, except for right" in notes


def test_compare_of_a_stopped_run_with_another_says_that_ordinary_intervals_claim_too_much(
    stopped: EvaluationResult, results: Path
) -> None:
    other = run(results.parent, ROWS, target=Model(0.6, seed=3), evaluators={"right": right})
    comparison = compare(other.run_dir, stopped.run_dir, results_dir=results)
    assert comparison.metrics["right"].difference.method != ANY_STOPPING
    assert any("intervals are too narrow" in note for note in comparison.notes)


@cases("evaluate")
def test_arguments_that_do_not_go_together_are_refused(tmp_path: Path, arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        run(tmp_path, ROWS, target=Model(1), evaluators={"right": right}, **arguments)


def test_a_figure_over_the_whole_run_decides_nothing(tmp_path: Path, base: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"'right\.v3_overall' is not a metric of both runs"):
        stopping(tmp_path, ROWS, base, decide_on="right.v3_overall")


def test_a_margin_over_the_whole_range_of_a_metric_is_refused(tmp_path: Path, base: Path) -> None:
    asked: dict[str, Any] = {"no_worse_than": base, "margin": 1.0, "until_decided": True}
    with pytest.raises(ConfigurationError, match="the margin 1 covers the whole range of right"):
        run(tmp_path, ROWS, target=Model(1), evaluators={"right": right}, **asked)


def test_a_metric_without_a_declared_range_decides_nothing(tmp_path: Path) -> None:
    evaluators = {"length": lambda response: len(response) / 7}
    before = run(tmp_path, ROWS, target=Model(0.5), evaluators=evaluators)
    with pytest.raises(ConfigurationError, match="has no declared range, so it cannot stop a run early: declare the"):
        stopping(tmp_path, ROWS, before, evaluators=evaluators)


def test_a_score_outside_of_its_declared_range_ends_the_run(tmp_path: Path) -> None:
    class Graded:
        """A score that says it lies between 0 and 1."""

        def __init__(self, grade: float) -> None:
            self._grade = grade
            self.metrics = [Declared()]
            self.primary_metric = "grade"

        def __call__(self, response: str) -> dict[str, float]:
            return {"grade": self._grade}

    class Declared:
        name, kind, range, higher_is_better = "grade", "score", (0.0, 1.0), True

    before = run(tmp_path, ROWS[:20], target=Model(0.5), evaluators={"graded": Graded(0.5)})
    with pytest.raises(RunError, match="outside of its declared range: correct the evaluator"):
        stopping(tmp_path, ROWS[:20], before, evaluators={"graded": Graded(1.5)})
