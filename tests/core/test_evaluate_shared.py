"""A run that several workers share leaves what one process would have left, whoever dies."""

from __future__ import annotations

import asyncio
import json
import shutil
import threading
import time
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from msgspec import UNSET, structs

from tunecheck import ConfigurationError, RunError, evaluate
from tunecheck._progress import Progress
from tunecheck._records import WholeRecords
from tunecheck._targets import CallContext, Row, Target, TargetOutput
from tunecheck.endpoints._base import ChatRequest, Completion, Endpoint, ModelCalls, Price, Usage
from tunecheck.evaluation._ending import now
from tunecheck.evaluation._evaluate import work
from tunecheck.evaluation._workers import _show
from tunecheck.runs._claims import Claims, Lease, Moment
from tunecheck.runs._manifest import versions
from tunecheck.runs._store import Run
from tunecheck.storage._address import open_store

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

ROWS = 60


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "rows.jsonl"
    rows = [{"id": f"r{n}", "n": n, "group": n % 7, "ground_truth": f"answer {n}"} for n in range(ROWS)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


class Answers(Target):
    """Answers a row as it stands, fails on every tenth, and knows which rows it was asked."""

    name = "answers"
    columns = frozenset({"text"})
    asked: list[int]

    def __init__(self, groups: bool = False) -> None:
        self.asked = []
        self.groups = groups

    async def answer(self, row: Row, context: CallContext) -> TargetOutput:
        self.asked.append(row.index)
        if row.index % 10 == 3:
            raise ValueError(f"no answer to {row.id}")
        return {"text": f"answer {row.index // 2 * 2}"}

    def input_hash(self, row: Row) -> str | None:
        return row.fingerprint

    def fingerprint(self) -> str:
        return "answers"

    def group_key(self, row: Row) -> str | None:
        return str(row.values["group"]) if self.groups else None


def length(*, text: str) -> dict[str, object]:
    """Has no number for some rows, and fails on others."""
    if text.endswith("4"):
        raise ValueError(f"not {text}")
    return {"length": len(text) if not text.endswith("6") else float("nan"), "first": text[:1]}


class Mean:
    """An evaluator with an aggregation of its own, which sees all rows at once."""

    def __call__(self, *, text: str) -> dict[str, float]:
        return {"number": float(text.split()[1])}

    def __aggregate__(self, rows: list[Mapping[str, Any]]) -> dict[str, float]:
        return {"spread": max(row["number"] for row in rows) - min(row["number"] for row in rows)}


def arguments(data: Path, target: Target) -> dict[str, Any]:
    return {
        "data": data,
        "target": target,
        "evaluators": {"f1": "f1_score", "length": length, "mean": Mean()},
        "evaluator_config": {"default": {"column_mapping": {"response": "${target.text}", "text": "${target.text}"}}},
        "evaluation_name": "shared",
    }


class Threads:
    """Workers in threads of this process, all started at once; `count` says how many."""

    def __init__(self, work: Callable[[Path], object], count: int = 3) -> None:
        self.count = count
        self._work = work
        self._threads: list[threading.Thread] = []
        self.errors: list[Exception] = []

    def start(self, run: Path) -> None:
        self._threads = [threading.Thread(target=self._try, args=(run,)) for _ in range(self.count)]
        for thread in self._threads:
            thread.start()

    def _try(self, run: Path) -> None:
        try:
            self._work(run)
        except Exception as error:
            self.errors.append(error)

    def look(self, claims: Claims, finished: int) -> None:
        if self.errors:
            raise self.errors[0]

    def wait(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until and any(thread.is_alive() for thread in self._threads):
            time.sleep(0.01)

    def stop(self) -> None:
        for thread in self._threads:
            thread.join()


def shared(data: Path, folder: Path, targets: list[Answers], **more: Any) -> Run:
    def one(run: Path) -> None:
        targets.append(Answers(targets[0].groups))
        work(**arguments(data, targets[-1]), results_dir=folder, resume=run)

    result = evaluate(**arguments(data, targets[0]), results_dir=folder, on=Threads(one), **more)
    return Run(result.run_dir)


def files(run: Run) -> tuple[list[Any], Any, str]:
    rows = [json.loads(line) for line in run.results.read_text().splitlines()]
    return rows, json.loads(run.metrics_file.read_text()), run.table.read_text()


def alone(data: Path, folder: Path, target: Answers) -> Run:
    return Run(evaluate(**arguments(data, target), results_dir=folder).run_dir)


def test_the_results_are_those_of_one_process_with_its_failures(data: Path, tmp_path: Path) -> None:
    targets = [Answers()]
    run = shared(data, tmp_path / "shared", targets)
    assert files(run) == files(alone(data, tmp_path / "alone", Answers()))
    assert sorted(row for target in targets for row in target.asked) == list(range(ROWS))
    assert targets[0].asked == []  # who put the results together asked nobody


def test_columns_that_only_some_chunks_have_are_in_the_table_of_all(data: Path, tmp_path: Path) -> None:
    lines = data.read_text().splitlines()
    for at, more in ((5, {"first": "=1,2"}), (50, {"late": "two\nlines"})):
        lines[at] = json.dumps({**json.loads(lines[at]), **more})
    data.write_text("\n".join(lines) + "\n")
    assert files(shared(data, tmp_path / "shared", [Answers()])) == files(alone(data, tmp_path / "alone", Answers()))


def test_the_last_chunks_are_halves_so_that_all_workers_end_together(data: Path, tmp_path: Path) -> None:
    cut: list[list[int]] = []

    class Seen(Threads):
        def look(self, claims: Claims, finished: int) -> None:
            cut.append([end - begin for ((begin, end),) in claims.chunks])
            super().look(claims, finished)

    def one(run: Path) -> None:
        work(**arguments(data, Answers()), results_dir=tmp_path, resume=run, concurrency=1)

    evaluate(**arguments(data, Answers()), results_dir=tmp_path, concurrency=1, on=Seen(one, count=1))
    assert cut[0] == [15, 15, 15, 8, 7]


def test_results_that_were_damaged_after_their_commit_are_an_error(data: Path, tmp_path: Path) -> None:
    class Damaging(Threads):
        def start(self, run: Path) -> None:
            super().start(run)
            self.stop()
            for path in tmp_path.rglob("results/1/*-rows-0"):
                path.write_bytes(path.read_bytes().replace(b"answer", b"another"))

    def one(run: Path) -> None:
        work(**arguments(data, Answers()), results_dir=tmp_path, resume=run)

    with pytest.raises(RunError, match=r"results/1/.*is damaged"):
        evaluate(**arguments(data, Answers()), results_dir=tmp_path, on=Damaging(one))


def test_the_journal_is_whole_and_nothing_else_is_left(data: Path, tmp_path: Path) -> None:
    run = shared(data, tmp_path, [Answers()])
    with run.journal.open("rb") as file:
        assert WholeRecords(run.journal, file).read().lost == 0
    alone_names = {path.name for path in alone(data, tmp_path / "alone", Answers()).folder.iterdir()}
    assert {path.name for path in run.folder.iterdir()} == alone_names


def test_the_manifest_says_who_did_how_much(data: Path, tmp_path: Path) -> None:
    manifest = shared(data, tmp_path, [Answers()]).manifest()
    assert manifest.workers is not UNSET
    assert sum(worker.rows for worker in manifest.workers) == ROWS
    assert all(worker.versions == versions() for worker in manifest.workers)
    assert manifest.created is not None
    assert all(manifest.created <= worker.started <= worker.ended <= now() for worker in manifest.workers)
    assert manifest.status == "finished"


def test_rows_of_a_group_are_answered_by_one_worker_in_order(data: Path, tmp_path: Path) -> None:
    targets = [Answers(groups=True)]
    run = shared(data, tmp_path / "shared", targets)
    for target in targets:
        for group in range(7):
            of_group = [row for row in target.asked if row % 7 == group]
            assert of_group in ([], list(range(group, ROWS, 7)))
    assert files(run) == files(alone(data, tmp_path / "alone", Answers()))


def test_a_finished_run_goes_on_as_any_other(data: Path, tmp_path: Path) -> None:
    """Also with the options that it was begun with, as `--resume` takes them: what is left is no matter of workers."""
    run = shared(data, tmp_path, [Answers()])
    target = Answers()
    evaluate(**arguments(data, target), results_dir=tmp_path, resume=run.folder, on=Threads(lambda run: None))
    assert sorted(target.asked) == [row for row in range(ROWS) if row % 10 == 3]  # what failed is tried again


def test_a_run_of_one_process_stays_finished_where_workers_are_to_go_on(data: Path, tmp_path: Path) -> None:
    run = alone(data, tmp_path, Answers())
    with pytest.raises(ConfigurationError, match="was begun by one process: go on without --on"):
        shared(data, tmp_path, [Answers()], resume=run.folder)
    assert run.status() == "finished"


def test_a_run_whose_workers_were_lost_is_taken_up_by_others(data: Path, tmp_path: Path) -> None:
    class Gone(Threads):
        def look(self, claims: Claims, finished: int) -> None:
            raise RunError("all workers are gone")

    first = Answers()

    def one_chunk(run: Path) -> None:
        claims = Claims.of(Run(run), "dead")
        assert claims.claim() is not None  # and dies with it

    with pytest.raises(RunError, match="gone"):
        evaluate(**arguments(data, first), results_dir=tmp_path, on=Gone(one_chunk, 1))
    (folder,) = (path for path in tmp_path.iterdir() if path.is_dir())
    Claims.of(Run(folder)).release("dead")
    run = shared(data, tmp_path, [Answers()], resume=folder)
    assert files(run) == files(alone(data, tmp_path / "alone", Answers()))


def test_journals_that_are_read_from_one_place_give_the_same_run(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tunecheck.runs._claims._FEW_SEGMENTS", 0)
    run = shared(data, tmp_path, [Answers(), Answers()])
    assert files(run) == files(alone(data, tmp_path / "alone", Answers()))


def test_the_progress_of_all_workers_has_their_rows_under_way_and_their_cost(data: Path, tmp_path: Path) -> None:
    one, other = (Claims(open_store(str(tmp_path)), name) for name in ("one", "other"))
    one.prepare([[(0, 50)], [(50, 100)]])
    for claims, moment in ((one, Moment(20, 10, 1, 0, 16, 0.25)), (other, Moment(10, 5, 0, 0, 1_000, 0.5))):
        claim = claims.claim()
        assert claim is not None
        claim.renew(moment)
    shown: list[Progress] = []
    _show(shown.append, one.moment(), 100, one)
    assert shown == [Progress(100, 30, 15, 1, 0, "2 workers, 1,016 rows under way, cost 0.75")]


def test_a_worker_of_a_finished_run_has_nothing_to_do(data: Path, tmp_path: Path) -> None:
    run = shared(data, tmp_path, [Answers()])
    late = Answers()
    work(**arguments(data, late), results_dir=tmp_path, resume=run.folder)
    assert late.asked == []


def test_a_shared_run_is_not_finished_without_workers(data: Path, tmp_path: Path) -> None:
    def fail(run: Path) -> None:
        raise RunError("this worker cannot")

    with pytest.raises(RunError, match="this worker cannot"):
        evaluate(**arguments(data, Answers()), results_dir=tmp_path, on=Threads(fail, 1))
    (folder,) = (path for path in tmp_path.iterdir() if path.is_dir())
    with pytest.raises(ConfigurationError, match="shared by workers"):
        evaluate(**arguments(data, Answers()), results_dir=tmp_path, resume=folder)


def test_a_worker_with_other_data_is_refused(data: Path, tmp_path: Path) -> None:
    def one(run: Path) -> None:
        other = tmp_path / "other.jsonl"
        other.write_text('{"id": "r0", "group": 1, "ground_truth": "x"}\n')
        work(**arguments(other, Answers()), results_dir=tmp_path, resume=run)

    with pytest.raises(ConfigurationError, match="the data"):
        evaluate(**arguments(data, Answers()), results_dir=tmp_path / "runs", on=Threads(one, 1))


class Model(Endpoint):
    """Answers with the length of the question, and remembers what it was asked."""

    kind = name = "model"
    price = Price(1.0, 10.0)

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def complete(self, request: ChatRequest) -> Completion:
        self.asked.append(str(request.messages[-1]["content"]))
        await asyncio.sleep(0.002)
        return Completion(text=str(len(self.asked[-1])), usage=Usage(100, 10))

    def settings(self) -> dict[str, Any]:
        return {"kind": self.kind}


class Judge:
    """Asks the model with the last character of the text: there are five of them."""

    def __init__(self, model: Model) -> None:
        self.endpoint = model

    def __call__(self, *, text: str) -> dict[str, Any]:
        raise AssertionError("in a run, models are asked through it")

    async def call_with(self, calls: ModelCalls, *, text: str) -> dict[str, Any]:
        request = ChatRequest([{"role": "user", "content": text[-1:]}])
        return {"n": int((await calls.complete(self.endpoint, request)).text or 0)}


class Hanging(Answers):
    """Its first answer never comes."""

    async def answer(self, row: Row, context: CallContext) -> TargetOutput:
        if not self.asked:
            self.asked.append(row.index)
            await asyncio.Event().wait()
        return await super().answer(row, context)


def test_a_worker_that_has_lost_its_chunk_leaves_what_its_calls_wait_for(data: Path, tmp_path: Path) -> None:
    """They may wait for a share of the limits, which the chunk's new owner has."""
    target, thieves = Hanging(), list[threading.Thread]()

    def one(run: Path) -> None:
        thief = threading.Thread(target=steal, args=(Run(run).shared, target))
        thief.start()
        work(**arguments(data, target), results_dir=tmp_path, resume=run)
        thieves.append(thief)

    run = Run(evaluate(**arguments(data, Answers()), results_dir=tmp_path, on=Threads(one, 1)).run_dir)
    thieves[0].join()
    assert files(run) == files(alone(data, tmp_path / "alone", Answers()))


def steal(shared: str, target: Answers) -> None:
    """Take over the chunk that a worker has, as if it had been frozen, and leave it again."""
    store = open_store(shared)
    while not target.asked:
        time.sleep(0.01)
    (name,) = store.list("lease/")
    store.create(name.replace("-1", "-2"), msgspec.json.encode(Lease(owner="thief", released=True)))


def test_a_worker_of_another_version_is_refused(data: Path, tmp_path: Path) -> None:
    late = Answers()

    def one(run: Path) -> None:
        begun = Run(run).manifest()
        Run(run).write(structs.replace(begun, versions={**begun.versions, "tunecheck": "9.9"}))
        work(**arguments(data, late), results_dir=tmp_path, resume=run)

    with pytest.raises(ConfigurationError, match=r"9\.9"):
        evaluate(**arguments(data, Answers()), results_dir=tmp_path, on=Threads(one, 1))
    assert late.asked == []


def test_equal_calls_of_judges_are_bought_once_by_all_workers(data: Path, tmp_path: Path) -> None:
    model, single = Model(), Model()

    def judged(model: Model, **more: Any) -> dict[str, Any]:
        return {**arguments(data, Answers()), "evaluators": {"judge": Judge(model)}, **more}

    def one(run: Path) -> None:
        work(**judged(model, results_dir=tmp_path, resume=run))

    run = Run(evaluate(**judged(model, results_dir=tmp_path, on=Threads(one))).run_dir)
    assert sorted(model.asked) == ["0", "2", "4", "6", "8"]
    assert files(run) == files(Run(evaluate(**judged(single, results_dir=tmp_path / "alone")).run_dir))


def test_a_shared_run_reuses_what_is_unchanged_of_another(data: Path, tmp_path: Path) -> None:
    first = alone(data, tmp_path, Answers())
    data.write_text(data.read_text().replace('"n": 7,', '"n": 700,'))
    targets = [Answers()]
    run = shared(data, tmp_path, targets, reuse=first.folder)
    failed = [row for row in range(ROWS) if row % 10 == 3]
    assert sorted(row for target in targets for row in target.asked) == sorted([7, *failed])
    assert files(run) == files(alone(data, tmp_path / "alone", Answers()))
    assert run.manifest().parent == first.id


def test_a_worker_that_cannot_see_the_run_that_is_reused_says_so(data: Path, tmp_path: Path) -> None:
    first = alone(data, tmp_path, Answers())

    def one(run: Path) -> None:
        shutil.rmtree(first.folder)
        work(**arguments(data, Answers()), results_dir=tmp_path, resume=run)

    with pytest.raises(ConfigurationError, match="is no longer there"):
        evaluate(**arguments(data, Answers()), results_dir=tmp_path, on=Threads(one, 1), reuse=first.folder)
