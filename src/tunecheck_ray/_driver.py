"""The driver of a run on tasks, and the recipe of a task.

Execution ──ChunkSource──► Runner ──Portion──► RemoteEngine ──► journal; then an ordinary engine reads the journal
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from tunecheck import RunError
from tunecheck.endpoints import SharedLimits
from tunecheck.evaluation import Execution
from tunecheck.pipeline import Budget, CachedResults, Journal, Load, Plan, RunCalls, SharedCalls, Tally
from tunecheck.plugins import JSON
from tunecheck_ray._chunk_engine import ChunkRunner
from tunecheck_ray._chunks import ChunkSource, Portion, Runner, SharedSettings


@dataclass(frozen=True)
class TaskRecipe:
    """Makes a task's execution in another process. It is pickled, without secrets.

    `make` builds the execution there; `facts` holds known facts about the endpoints' APIs.
    """

    run_id: str
    make: Callable[[], Execution]
    facts: Mapping[str, JSON]


RunnerFactory = Callable[[TaskRecipe], Runner]


@dataclass(frozen=True)
class RunsOnTasks:
    """Makes the engine of a run on tasks. `recipe` makes the execution in a task."""

    runner: RunnerFactory
    recipe: Callable[[], Execution]

    def __call__(self, plan: Plan, journal: Journal, cached: CachedResults, execution: Execution) -> RemoteEngine:
        """Return the engine of a run; it has a runner of its own."""
        facts, most = execution.facts, execution.settings.max_cost
        rates = {name: endpoint.rates() for name, endpoint in facts.endpoints.items()}
        shared = SharedSettings(rates, most, 0.0 if most is None else spent_before(plan, journal, cached))
        runner = self.runner(TaskRecipe(plan.run_id, self.recipe, facts.known()))
        return RemoteEngine(plan, journal, ChunkSource(plan, cached), runner, shared, facts.recall)


class RemoteEngine:
    """Has a runner work on the unfinished rows of a run, and journals the records that come back."""

    def __init__(
        self,
        plan: Plan,
        journal: Journal,
        source: ChunkSource,
        runner: Runner,
        shared: SharedSettings,
        recall: Callable[[Mapping[str, JSON]], None],
    ) -> None:
        """Pass facts about the endpoints' APIs that tasks find out to `recall`."""
        self.plan = plan
        self.tally = Tally()
        self._journal = journal
        self._source = source
        self._runner = runner
        self._shared = shared
        self._recall = recall
        self._stop: BaseException | None = None

    async def run(self) -> None:
        """Journal portions until no row is left.

        Raises:
            RunError: The run was stopped.
        """
        async for portion in self._runner.run(self._source, self._shared):
            try:
                self._take(portion)
            except RunError as error:
                self.stop(error)
        if self._stop is not None:
            raise self._stop

    def _take(self, portion: Portion) -> None:
        tally = self.tally
        for _, record in portion.records:
            self._journal.take(record)
        tally.answered += portion.answered
        tally.finished += len(portion.finished)
        tally.failed += portion.failed
        tally.reused = self._source.finished
        tally.notes += [note for note in portion.notes if note not in tally.notes]
        tally.remarks.add(portion.remarks)
        if portion.facts:
            self._recall(portion.facts)

    def stop(self, reason: BaseException) -> None:
        """Start nothing more; calls in flight may finish and are journaled. `run` then raises the reason."""
        if self._stop is None:
            self._stop = reason
            self._runner.stop()

    def load(self) -> Load | None:
        """Return None: calls are counted in the tasks."""
        return None

    def waiting_for(self) -> str:
        """Return the runner's remark on its tasks."""
        return self._runner.status()


def spent_before(plan: Plan, journal: Journal, cached: CachedResults) -> float:
    """Return the cost of recorded calls of a resumed run, in the currency of its prices."""
    budget = Budget(None)
    calls = RunCalls(plan.run_id, journal, cached, budget)
    calls.close()
    target = plan.target
    if target is None or not cached:
        return budget.spent
    for row in plan.rows():
        found = cached.answer(row.index, target.input_hash(row))
        if found is not None and not found.paid_elsewhere:
            calls.count_target(target, row, found.value)
    return budget.spent


class TaskServices(Protocol):
    """Services that the tasks of a run share."""

    @property
    def calls(self) -> SharedCalls | None:
        """Return the judges' shared answers."""
        ...

    def limits(self, endpoint: str) -> SharedLimits:
        """Return the buckets for the calls to an endpoint, by its name in the run."""
        ...

    def budget(self) -> Budget:
        """Return a budget for the calls of one chunk."""
        ...

    async def stopped(self) -> None:
        """Return when the run is to stop."""
        ...


def chunk_runner(recipe: TaskRecipe, services: TaskServices) -> ChunkRunner:
    """Make the runner of chunks in a task.

    Raises:
        TunecheckError: A file or package of the run is missing here, or differs from that on the driver.
    """
    execution = recipe.make()
    facts = execution.facts
    facts.recall(recipe.facts)
    for name, endpoint in facts.endpoints.items():
        endpoint.share_limits(services.limits(name))
    plan = execution.task_plan(recipe.run_id)
    return ChunkRunner(plan, facts.known, services.budget, services.calls, services.stopped)
