"""Rows answered and judged by tasks elsewhere: the results are those of one process."""

import asyncio
import json
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tunecheck import CallContext, ConfigurationError, Row, RunError, Target, evaluate
from tunecheck.endpoints import ChatRequest, Completion, Endpoint, ModelCalls, Price, Usage
from tunecheck.evaluation import Execution, prepare_run
from tunecheck.pipeline import Budget, CachedResults, Chunk, ChunkRunner, Journal, Plan, Portion
from tunecheck.plugins import JSON, TargetOutput
from tunecheck_ray import ChunkDriver, Flight

ROWS = 40


class Unshared:
    """Answers of judges that no other task has."""

    async def answer(self, key: str) -> None: ...
    async def settle(self, key: str, answer: dict[str, JSON] | None) -> None: ...


class Answers(Target):
    """Answers rows, fails on every tenth, and counts how often each row was asked."""

    name = "answers"
    columns = frozenset({"text"})

    def __init__(self, asked: Counter[int]) -> None:
        self.asked = asked

    async def answer(self, row: Row, context: CallContext) -> TargetOutput:
        self.asked[row.index] += 1
        if row.index % 10 == 3:
            raise ValueError(f"no answer to {row.id}")
        return {"text": f"answer {row.index // 2 * 2}"}

    def fingerprint(self) -> str | None:
        return "answers"


def same(text: str, ground_truth: str) -> dict[str, float]:
    if text == "answer 8":
        raise ValueError("cannot be judged")
    return {"same": float(text == ground_truth)}


class TasksHere(ChunkDriver):
    """A driver with tasks in this process, one after the other.

    It fails after `most` chunks. A task dies when a row sets `reached`.
    """

    def __init__(
        self, make: Callable[[], Execution], size: int, most: int | None, reached: threading.Event, *run: Any
    ) -> None:
        super().__init__(*run)
        self.make, self.size, self.most, self.reached = make, size, most, reached
        self.chunks: list[Chunk] = []
        self.spent_before = self.spent()

    async def portions(self) -> AsyncIterator[Portion]:
        while (chunk := self.next_chunk(self.size)) is not None:
            if self.most is not None and len(self.chunks) == self.most:
                raise RunError("the cluster is gone")
            self.chunks.append(chunk)
            flight, ended = Flight(chunk), asyncio.Event()
            runner = ChunkRunner(self.make().plan(self.plan.run_id), dict, Budget(None), Unshared(), ended.wait)
            for portion in runner.run(chunk):
                flight.take(portion)
                yield portion
                if self.reached.is_set():
                    break
            if self.reached.is_set():
                self.reached.clear()
                for portion in self.hand_on(flight, "signal 11", died=chunk.isolated):
                    yield portion


class Runs:
    """Runs of one data set in one folder."""

    def __init__(self, folder: Path, rows: list[dict[str, Any]], **more: Any) -> None:
        self.folder, self.asked, self.reached = folder, Counter[int](), threading.Event()
        self.made: list[TasksHere] = []
        self.arguments: dict[str, Any] = {
            "data": rows, "target": Answers(self.asked), "evaluators": {"same": same}, "evaluator_config": MAPPING,
            "evaluation_name": "run", "results_dir": folder, **more,
        }  # fmt: skip

    def here(self, **more: Any) -> Any:
        return evaluate(**{**self.arguments, **more})

    def elsewhere(self, size: int = 7, most: int | None = None, **more: Any) -> Any:
        arguments = {**self.arguments, **more}
        recipe = partial(prepare_run, **{k: v for k, v in arguments.items() if k not in ("resume", "reuse")})

        def made(plan: Plan, journal: Journal, cached: CachedResults, execution: Execution) -> TasksHere:
            self.made.append(TasksHere(recipe, size, most, self.reached, plan, journal, cached, execution))
            return self.made[-1]

        return evaluate(**arguments, on=made)


MAPPING = {"default": {"column_mapping": {"text": "${target.text}", "ground_truth": "${data.ground_truth}"}}}


def rows(count: int = ROWS, **more: Any) -> list[dict[str, Any]]:
    return [{"id": f"r{n}", "ground_truth": f"answer {n}", **more} for n in range(count)]


@pytest.fixture
def runs(tmp_path: Path) -> Runs:
    return Runs(tmp_path, rows())


def lasting(result: Any) -> tuple[list[Mapping[str, Any]], Any, int]:
    return list(result["rows"]), result["metrics"], result.failed_row_count


def test_rows_metrics_and_errors_are_those_of_one_process(runs: Runs) -> None:
    assert lasting(runs.elsewhere()) == lasting(runs.here())


def test_a_row_that_failed_in_a_task_is_not_asked_again_here(runs: Runs) -> None:
    result = runs.elsewhere()
    assert {*runs.asked.values()} == {1}
    assert result["rows"][3]["error.target"]["message"] == "no answer to r3"
    assert result["rows"][8]["error.same"]["message"] == "cannot be judged"
    assert result.reused == {"answers": 0, "verdicts": 0}


def test_new_answers_of_a_target_without_a_fingerprint_are_not_called_reused(tmp_path: Path) -> None:
    class Unknown(Answers):
        def fingerprint(self) -> None:
            return None

    runs = Runs(tmp_path, rows(), target=Unknown(Counter()))
    assert not [note for note in runs.elsewhere().notes if "reused" in note]


def test_a_run_that_lost_its_cluster_goes_on_where_it_was(runs: Runs) -> None:
    with pytest.raises(RunError, match="the cluster is gone"):
        runs.elsewhere(most=3)
    finished = [row for row in range(21) if row % 10 != 3]
    result = runs.elsewhere(resume="last")
    assert all(runs.asked[row] == 1 for row in finished)
    assert lasting(result) == lasting(Runs(runs.folder / "alone", rows()).here())
    assert result.reused["answers"] == len(finished)


def test_a_run_that_was_begun_elsewhere_is_finished_here(runs: Runs) -> None:
    with pytest.raises(RunError):
        runs.elsewhere(most=2)
    assert lasting(runs.here(resume="last")) == lasting(Runs(runs.folder / "alone", rows()).here())


def test_a_finished_run_hands_out_only_rows_that_failed(runs: Runs) -> None:
    runs.elsewhere()
    runs.elsewhere(resume="last")
    handed_out = [row.index for chunk in runs.made[-1].chunks for row in chunk.rows]
    assert handed_out == [3, 8, 9, 13, 23, 33]  # two rows get the answer that cannot be judged


def test_equal_rows_get_their_own_answers_of_the_run_that_is_reused(tmp_path: Path) -> None:
    runs = Runs(tmp_path, [{"ground_truth": "x"}] * 12)
    first = runs.here()
    result, expected = runs.elsewhere(reuse=first.run_dir), runs.here(reuse=first.run_dir)
    assert lasting(result) == lasting(expected)
    assert result.reused == expected.reused


@pytest.mark.parametrize("stage", ["target", "same"])
@pytest.mark.parametrize("grouped", [False, True])
def test_a_row_that_kills_its_process_has_the_error_in_that_stage(tmp_path: Path, stage: str, grouped: bool) -> None:
    runs = Runs(tmp_path, rows(16))

    async def die() -> None:
        runs.reached.set()
        await asyncio.Event().wait()

    class Poisoned(Answers):
        async def answer(self, row: Row, context: CallContext) -> TargetOutput:
            if stage == "target" and row.index == 5:
                await die()
            return await super().answer(row, context)

        def group_key(self, row: Row) -> str | None:
            return str(row.index // 4) if grouped else None

    async def poisoned(text: str, ground_truth: str) -> dict[str, float]:
        if stage == "same" and ground_truth == "answer 5":
            await die()
        return same(text, ground_truth)

    result = runs.elsewhere(size=8, target=Poisoned(runs.asked), evaluators={"same": poisoned})
    expected, found = lasting(Runs(tmp_path / "alone", rows(16)).here())[0], lasting(result)[0]
    error = found.pop(5).get(f"error.{stage}")
    del expected[5]
    assert error == {"type": "WorkerDied", "message": "the process that worked on this row died: signal 11"}
    assert found == expected
    if grouped and stage == "target":  # the rows behind it in its group have waited for it
        first = next(chunk for chunk in runs.made[0].chunks if chunk.isolated)
        assert [row.index for row in first.rows][-3:] == [5, 6, 7]


class Priced(Endpoint):
    """A model with a price; each answer is another one."""

    kind = name = "priced"
    price = Price(input_per_million=1, output_per_million=1, currency="USD")

    def __init__(self) -> None:
        self.calls = 0

    async def complete(self, request: ChatRequest) -> Completion:
        self.calls += 1
        return Completion(f"said {self.calls}", usage=Usage(10, 10))

    def settings(self) -> dict[str, Any]:
        return {"kind": "priced"}


def test_equal_rows_get_their_own_answers_under_a_budget_as_well(tmp_path: Path) -> None:
    runs = Runs(tmp_path, [{"query": "x", "ground_truth": f"said {n}"} for n in range(12)], target=Priced())
    first = runs.here()
    result, expected = runs.elsewhere(reuse=first.run_dir, max_cost=1.0), runs.here(reuse=first.run_dir, max_cost=1.0)
    assert lasting(result) == lasting(expected) == lasting(first)
    assert runs.made[-1].chunks == []  # each row has its own answer, so its verdict is known as well


def test_only_what_a_resumed_run_has_paid_itself_counts_as_spent(tmp_path: Path) -> None:
    runs = Runs(tmp_path, [{"query": f"{n}", "ground_truth": "x"} for n in range(12)], target=Priced())
    first = runs.here()
    runs.elsewhere(reuse=first.run_dir, max_cost=1.0)
    with pytest.raises(RunError, match="the cluster is gone"):
        runs.elsewhere(most=1, size=5, max_cost=1.0, evaluation_name="again")
    runs.elsewhere(resume="last", max_cost=1.0, evaluation_name="again")
    assert [made.spent_before for made in runs.made] == pytest.approx([0, 0, 5 * 20e-6])


def test_rows_of_a_group_come_in_one_chunk(tmp_path: Path) -> None:
    (tmp_path / "data.jsonl").write_text(
        "".join(json.dumps({"id": f"r{n}", "talk": n % 3, "ground_truth": "x"}) + "\n" for n in range(30))
    )
    (tmp_path / "data.yaml").write_text("group_key: talk\n")
    runs = Runs(tmp_path, [], data=tmp_path / "data.jsonl")
    runs.elsewhere(size=5)
    talks = [{row.values["talk"] for row in chunk.rows} for chunk in runs.made[-1].chunks]
    assert talks == [{0}, {1}, {2}]


class Judged:
    """An evaluator that asks a model, and fails for some rows after it has asked."""

    asks_models = True
    broken = True

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint

    async def call_with(self, calls: ModelCalls, *, text: str) -> dict[str, float]:
        completion = await calls.complete(self.endpoint, ChatRequest([{"role": "user", "content": text}]))
        if self.broken and text == "answer 4":
            raise ValueError("broken")
        return {"score": float(len(completion.text or ""))}

    async def __call__(self, *, text: str) -> dict[str, float]:
        raise AssertionError


def test_a_journaled_call_to_a_judge_is_not_made_again(tmp_path: Path) -> None:
    judge = Priced()
    judged = Judged(judge)
    runs = Runs(tmp_path, rows(6), evaluators={"judged": judged})
    assert runs.elsewhere(size=2).failed_row_count == 3
    made, judged.broken = judge.calls, False
    assert runs.elsewhere(size=2, resume="last").failed_row_count == 1
    assert judge.calls == made


def test_what_decides_row_by_row_is_refused(runs: Runs) -> None:
    base = runs.here()
    with pytest.raises(ConfigurationError, match="--until-decided does not work with --on"):
        runs.elsewhere(better_than=base.run_dir, until_decided=True)
