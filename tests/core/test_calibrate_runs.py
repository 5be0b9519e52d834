"""`tunecheck.calibrate()`: an evaluator over labelled rows, what is compared, what is left out, and going on."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.core.test_pipeline_model_calls import CHEAP, Model
from tests.tables import cases

from tunecheck import (
    Calibration,
    ConfigurationError,
    EndpointError,
    FunctionCallMatchEvaluator,
    Metric,
    RunError,
    calibrate,
    verdict,
)
from tunecheck.endpoints import ModelCalls
from tunecheck.plugins import dumps_line


def labelled(*pairs: tuple[object, object], **more: Any) -> list[dict[str, Any]]:
    """Rows that hold what the evaluator will say, and the label."""
    return [{"id": f"r{n}", "says": says, "label": label, **more} for n, (says, label) in enumerate(pairs)]


def run(folder: Path, labels: Any, evaluator: Any, **options: Any) -> Calibration:
    return calibrate(
        **{"labels": labels, "evaluator": evaluator, "results_dir": folder / "runs", "workers": 0} | options
    )


class Saying:
    """Says what the row holds, as an evaluator of ours."""

    primary = "saying"
    metrics = (Metric("saying"),)

    def __init__(self, threshold: float = 0.5) -> None:
        self.arguments = {"threshold": threshold}
        self.threshold = threshold

    def __call__(self, *, says: Any) -> dict[str, Any]:
        if says == "broken":
            raise ValueError("cannot be judged")
        if says is None:
            return dict(verdict("saying", not_applicable=True))
        passed = says >= self.threshold
        return dict(verdict("saying", score=says, passed=passed, threshold=self.threshold, reason=f"it is {says}"))


class Costly(Saying):
    """The same where less is better."""

    metrics = (Metric("saying", higher_is_better=False),)

    def __call__(self, *, says: Any) -> dict[str, Any]:
        return dict(verdict("saying", score=says, passed=says <= self.threshold, threshold=self.threshold))


PAIRS = (*[(1, "pass")] * 5, *[(0, "fail")] * 3, (0, "pass"), (1, "fail"))


def test_verdicts_are_held_against_labels(tmp_path: Path) -> None:
    found = run(tmp_path, labelled(*PAIRS), Saying())
    assert (found.evaluator, found.metric, found.label_kind) == ("saying", "saying", "pass_fail")
    assert (found.rows, found.compared, found.errors, found.not_applicable, found.unlabelled) == (10, 10, 0, 0, 0)
    assert found.accuracy.value == 0.8
    # By chance 0.6 * 0.6 + 0.4 * 0.4 = 0.52; (0.8 - 0.52) / 0.48.
    assert found.kappa.value == pytest.approx(0.28 / 0.48)
    assert found.confusion == {"pass": {"pass": 5, "fail": 1}, "fail": {"pass": 1, "fail": 3}}
    assert (found.precision.value, found.recall.value) == (0.75, 0.75)


def test_the_rows_where_they_differ_say_why(tmp_path: Path) -> None:
    first, second = run(tmp_path, labelled(*PAIRS), Saying()).differences
    assert (first.row_id, first.label, first.verdict, first.score, first.reason) == ("r8", "pass", "fail", 0, "it is 0")
    assert (second.row_id, second.label_class, second.verdict) == ("r9", "fail", "pass")


def test_what_is_left_out_is_counted(tmp_path: Path) -> None:
    pairs = ((1, "pass"), (0, "fail"), (1, None), (1, " "), (None, "pass"), ("broken", "fail"))
    found = run(tmp_path, labelled(*pairs), Saying())
    assert (found.rows, found.compared) == (6, 2)
    assert (found.unlabelled, found.not_applicable, found.errors) == (2, 1, 1)
    assert found.accuracy.of == 2


def test_rows_without_a_label_are_not_judged_and_the_others_keep_their_ids(tmp_path: Path) -> None:
    model = Model()
    rows = [{"response": f"question {n}", "label": "pass" if n % 2 else None} for n in range(4)]
    found = run(tmp_path, rows, Judging(model))
    assert sorted(model.asked) == ["question 1", "question 3"]
    assert {difference.row_id for difference in found.differences} == {"row-2", "row-4"}


@cases("comparison")
def test_labels_are_read_as_pass_and_fail_or_as_scores(
    tmp_path: Path, pairs: list[Any], less_is_better: bool, kind: str, confusion: dict[str, dict[str, int]]
) -> None:
    """`pairs` are a score of the evaluator and a label each."""
    found = run(tmp_path, labelled(*pairs), Costly() if less_is_better else Saying())
    assert (found.label_kind, found.confusion) == (kind, confusion)


def test_scores_agree_by_their_distance_too(tmp_path: Path) -> None:
    pairs = [(min(5, label + 1), label) for label in (1, 2, 3, 4, 5)] * 4
    found = run(tmp_path, labelled(*pairs), Saying(threshold=3))
    assert found.scores is not None
    assert found.scores.mean_error.value == pytest.approx(0.8)
    # Labels pass from 3 on, which is 4 to the evaluator.
    assert found.threshold is not None
    assert (found.threshold.threshold, found.threshold.accuracy.value) == (4, 1)
    assert run(tmp_path, labelled(*PAIRS), Saying()).scores is None, "pass and fail are no scores"


def test_labels_on_a_scale_of_their_own_have_a_threshold_of_their_own(tmp_path: Path) -> None:
    found = run(tmp_path, labelled((1, 5), (0, 2), (1, 1)), Saying(), label_threshold=4)
    assert (found.accuracy.hits, found.differences[0].label) == (2, 1)


def test_scores_without_any_threshold_are_an_error(tmp_path: Path) -> None:
    def plain(says: Any) -> dict[str, Any]:
        return {"plain": says, "plain_result": "pass"}

    with pytest.raises(ConfigurationError, match="has no threshold: give --label-threshold"):
        run(tmp_path, labelled((1, 5), (0, 2)), plain)


def test_any_function_can_be_calibrated(tmp_path: Path) -> None:
    def agrees(says: Any) -> bool:
        return bool(says)

    found = run(tmp_path, labelled(*PAIRS), agrees)
    assert (found.evaluator, found.accuracy.value) == ("agrees", 0.8)


def test_a_built_in_evaluator_can_be_calibrated_by_name(tmp_path: Path) -> None:
    call = {"tool_uses": [{"recipient_name": "functions.f", "parameters": {"a": 1}}]}
    other = {"tool_uses": [{"recipient_name": "functions.g", "parameters": {"a": 1}}]}
    rows = [
        {"response": call, "ground_truth": call, "label": True},
        {"response": call, "ground_truth": other, "label": False},
        {"response": other, "ground_truth": call, "label": True},
    ]
    for evaluator in ("function_call_match", FunctionCallMatchEvaluator()):
        found = run(tmp_path, rows, evaluator)
        assert (found.evaluator, found.accuracy.hits, found.compared) == ("function_call_match", 2, 3)
        assert found.differences[0].row_id == "row-3"


def test_a_verdict_that_is_neither_pass_nor_fail_is_named(tmp_path: Path) -> None:
    def sort(says: Any) -> dict[str, Any]:
        return {"sort": says}

    assert run(tmp_path, labelled(("yes", "pass"), ("no", "fail")), sort).accuracy.hits == 2
    problem = "row r2: the metric 'sort' of evaluator 'sort' is 'unsure', not pass or fail"
    with pytest.raises(ConfigurationError, match=problem):
        run(tmp_path, labelled(("yes", "yes"), ("no", "no"), ("unsure", "no")), sort)


def test_another_metric_can_be_chosen(tmp_path: Path) -> None:
    def two(says: Any) -> dict[str, Any]:
        return {"one_result": "pass", "other_result": "pass" if says else "fail"}

    assert run(tmp_path, labelled(*PAIRS), two, metric="other").accuracy.value == 0.8
    with pytest.raises(ConfigurationError, match="'two' has no metric 'othr'; did you mean 'other'"):
        run(tmp_path, labelled(*PAIRS), two, metric="othr")
    several = r"evaluator 'two' has several metrics \(one_result, other_result\): choose one with --metric"
    with pytest.raises(ConfigurationError, match=several):
        run(tmp_path, labelled(*PAIRS), two)


@cases("comparison")
def test_a_mistake_in_options_or_labels_is_said_before_anything_is_asked(
    tmp_path: Path, labels: list[Any] | None, options: Any, complaint: str
) -> None:
    pairs = PAIRS if labels is None else [(1, label) for label in labels]
    with pytest.raises(ConfigurationError, match=complaint):
        run(tmp_path, labelled(*pairs), **({"evaluator": Saying()} | options))
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("suffix", ["csv", "jsonl"])
def test_labels_come_from_any_kind_of_data(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"labels.{suffix}"
    if suffix == "csv":
        path.write_text("id,says,label\nr1,1,yes\nr2,0,no\nr3,1,no\n")
    else:
        path.write_bytes(b"".join(map(dumps_line, labelled((1, "yes"), (0, "no"), (1, "no")))))
    found = run(tmp_path, path, lambda says: {"ok": int(says)})
    assert (found.compared, found.accuracy.hits) == (3, 2)


def test_labels_may_be_an_iterable(tmp_path: Path) -> None:
    assert run(tmp_path, iter(labelled(*PAIRS)), Saying()).accuracy.value == 0.8


class Judging:
    """Asks a model, and says how long its answer is."""

    primary = "judging"
    metrics = (Metric("judging"),)

    def __init__(self, model: Model) -> None:
        self.endpoint = model
        self.arguments: Mapping[str, Any] = {}

    def __call__(self, *, response: str) -> dict[str, Any]:
        raise AssertionError("in a run, models are asked through it")

    async def call_with(self, calls: ModelCalls, *, response: str) -> dict[str, Any]:
        from tunecheck.endpoints import ChatRequest

        answer = await calls.complete(self.endpoint, ChatRequest([{"role": "user", "content": response}]))
        return dict(verdict("judging", score=1, passed=answer.text == "1"))


def test_a_judge_is_paid_for_once_also_when_its_run_is_taken_up(tmp_path: Path) -> None:
    rows = [{"id": f"r{n}", "response": "x" * n, "label": n == 1} for n in range(1, 11)]
    model = Model(price=CHEAP)
    with pytest.raises(RunError, match="max-cost"):
        run(tmp_path, rows, Judging(model), max_cost=0.001, concurrency=1)
    more = Model(price=CHEAP)
    found = run(tmp_path, rows, Judging(more), max_cost=1, concurrency=1, resume="last")
    assert sorted(model.asked + more.asked, key=len) == [row["response"] for row in rows]
    assert (found.compared, found.accuracy.value) == (10, 1.0)
    usage: Any = found.usage["judging"]
    assert usage["calls"] == 10


def test_a_judges_errors_are_left_out_and_tried_again(tmp_path: Path) -> None:
    rows = [{"id": f"r{n}", "response": "x" * n, "label": n == 1} for n in range(1, 4)]
    first = run(tmp_path, rows, Judging(Model(failing={"xx": EndpointError("busy")})))
    assert (first.compared, first.errors) == (2, 1)
    again = Model()
    second = run(tmp_path, rows, Judging(again), resume=first.run_dir)
    assert (second.compared, second.errors, again.asked) == (3, 0, ["xx"])
