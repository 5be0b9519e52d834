"""`repeat`: each row gets several trials, and the metrics report how often at least one, or every one, passes."""

from math import comb
from pathlib import Path
from typing import Any

import pytest
from tests.pipeline_parts import Answering, column, metrics_of, rows_of, run

from tunecheck import ConfigurationError, RunError, StopRunError, score

DATA = [{"id": "a", "question": "?"}, {"id": "b", "question": "!"}]


def graded(response: str) -> dict[str, Any]:
    return {"g_result": response}


class Trying(Answering):
    """Answers the n-th trial of a row with the n-th word."""

    def __init__(self, words: dict[str, list[str]]) -> None:
        super().__init__(lambda row: {"response": words[str(row.values["id"])][int(str(row.values["trial"])) - 1]})


def test_each_row_has_so_many_trials_under_ids_of_their_own(tmp_path: Path) -> None:
    target = Answering()
    result = run(tmp_path, DATA, target=target, evaluators={"n": lambda response: 1}, repeat=3)
    assert column(result, "row_id") == ["a", "a#2", "a#3", "b", "b#2", "b#3"]
    assert column(result, "inputs.trial") == [1, 2, 3] * 2
    assert column(result, "inputs.source_id") == ["a"] * 3 + ["b"] * 3
    assert len(set(target.keys)) == 6, "each trial is a call of its own"


def test_pass_at_k_and_pass_hat_k_are_the_unbiased_estimates(tmp_path: Path) -> None:
    words = {"a": ["pass", "fail", "pass", "pass"], "b": ["fail", "fail", "fail", "pass"]}
    result = run(tmp_path, DATA, target=Trying(words), evaluators={"g": graded}, repeat=4)
    metrics = metrics_of(result)
    for k in (1, 2, 4):
        at = [1 - comb(4 - passed, k) / comb(4, k) for passed in (3, 1)]
        always = [comb(passed, k) / comb(4, k) for passed in (3, 1)]
        assert metrics[f"g.pass_at_{k}"] == pytest.approx(sum(at) / 2)
        assert metrics[f"g.pass_hat_{k}"] == pytest.approx(sum(always) / 2)
    assert metrics["g.binary_aggregate"] == 0.5


def test_score_judges_the_trials_of_a_row_as_trials(tmp_path: Path) -> None:
    """Without pass@k, the trials of a row would count as independent rows."""
    words = {"a": ["pass", "fail"], "b": ["pass", "pass"]}
    tried = run(tmp_path, DATA, target=Trying(words), evaluators={"n": lambda response: 1}, repeat=2)
    metrics = metrics_of(score(tried.run_dir, evaluators={"g": graded}, results_dir=tmp_path / "runs"))
    assert (metrics["g.pass_at_2"], metrics["g.pass_hat_2"]) == (1, 0.5)


def test_columns_named_like_those_of_trials_make_no_trials(tmp_path: Path) -> None:
    data = [{"id": name, "trial": 1, "source_id": "s", "word": "pass"} for name in ("a", "b")]
    result = run(tmp_path, data, evaluators={"g": lambda word: {"g_result": word}})
    assert not [name for name in metrics_of(result) if "pass_" in name]


def test_an_item_with_a_failed_trial_counts_where_it_has_trials_enough(tmp_path: Path) -> None:
    words = {"a": ["pass", "pass"], "b": ["pass"]}
    result = run(tmp_path, DATA, target=Trying(words), evaluators={"g": graded}, repeat=2)
    assert column(result, "error.target")[3]["type"] == "IndexError"
    assert metrics_of(result)["g.pass_hat_2"] == 1


def test_one_trial_leaves_everything_as_it_is(tmp_path: Path) -> None:
    result = run(tmp_path, DATA, target=Answering(), evaluators={"g": lambda response: {"g_result": "pass"}}, repeat=1)
    assert column(result, "row_id") == ["a", "b"]
    assert "inputs.trial" not in rows_of(result)[0]
    assert not [name for name in metrics_of(result) if "pass_" in name]


def test_a_run_of_trials_goes_on_where_it_stopped(tmp_path: Path) -> None:
    class Stopping(Answering):
        async def answer(self, row: Any, context: Any) -> Any:
            if row.id == "b#2":
                raise StopRunError("stop")
            return await super().answer(row, context)

    with pytest.raises(RunError, match="resume='rows-"):
        run(tmp_path, DATA, target=Stopping(), evaluators={"n": lambda response: 1}, repeat=2, concurrency=1)
    again = Answering()
    result = run(
        tmp_path, DATA, target=again, evaluators={"n": lambda response: 1}, repeat=2, concurrency=1, resume="last"
    )
    assert column(result, "row_id") == ["a", "a#2", "b", "b#2"]
    assert "a" not in again.asked


def test_an_id_that_ends_like_that_of_a_trial_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="looks like an id that --repeat adds"):
        run(tmp_path, [{"id": "a#2"}], target=Answering(), evaluators={"n": lambda response: 1}, repeat=2)
