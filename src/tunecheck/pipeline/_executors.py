"""Where a plan's evaluators run: in worker processes, in threads, or in the event loop."""

import asyncio
from collections.abc import AsyncIterator, Sequence

from tunecheck._loops import ForeignLoop
from tunecheck.pipeline._aggregate import Aggregator
from tunecheck.pipeline._lanes import AsyncExecutor, Executor, ThreadExecutor
from tunecheck.pipeline._model_calls import RunCalls
from tunecheck.pipeline._plan import Plan, Tally
from tunecheck.pipeline._processes import ProcessExecutor, can_be_sent, is_foreign, is_of_workspace
from tunecheck.pipeline._scoring import BoundEvaluator


async def opened(
    plan: Plan, calls: RunCalls, foreign: ForeignLoop, tally: Tally, aggregator: Aggregator
) -> AsyncIterator[tuple[Sequence[BoundEvaluator], Executor]]:
    """The evaluators of each lane and what runs them, worker processes first, which are started."""
    limit_s = plan.evaluator_timeout
    sent: set[str] = set()
    for process in await _processes(plan, tally, aggregator):
        sent |= {evaluator.name for evaluator in process.evaluators}
        yield process.evaluators, process
    here = [e for e in plan.evaluators if e.name not in sent and not e.asynchronous]
    together = [e for e in here if e.pure]
    if together:
        yield together, ThreadExecutor(together, 1, limit_s)
    for evaluator in here:
        if not evaluator.pure:
            yield [evaluator], ThreadExecutor([evaluator], plan.concurrency, limit_s)
    for evaluator in plan.evaluators:
        if evaluator.asynchronous and evaluator.name not in sent:
            asked = calls.of(evaluator.name) if evaluator.asks_models else None
            slots = evaluator.concurrency or plan.concurrency
            yield [evaluator], AsyncExecutor(evaluator, slots, limit_s, foreign, asked)


async def _processes(plan: Plan, tally: Tally, aggregator: Aggregator) -> list[ProcessExecutor]:
    """Start worker processes where they are wanted: those that have something to run."""
    isolate = plan.isolates_files
    shared = [e for e in plan.evaluators if plan.workers and not e.asynchronous and (e.pure or not isolate)]
    apart = [e for e in plan.evaluators if isolate and e not in shared and is_of_workspace(e) and not e.asks_models]
    stay = [e.name for e in (*shared, *apart) if not can_be_sent(e)]
    groups = [[e for e in shared if e.name not in stay], *([e] for e in apart if e.name not in stay)]
    limit_s = plan.evaluator_timeout
    executors = [
        ProcessExecutor(each, limit_s, workers=1, threads=plan.concurrency)
        if each[0] in apart
        else ProcessExecutor(each, limit_s, workers=plan.workers)
        for each in groups
        if each
    ]
    stay += [name for problems in await asyncio.gather(*(e.start() for e in executors)) for name in problems]
    if stay:
        tally.notes.append(f"in this process, because a worker process cannot import them: {', '.join(stay)}")
    sent = {evaluator.name for executor in executors for evaluator in executor.evaluators}
    aggregator.isolate(e for e in apart if e.name in sent)
    risky = [e.name for e in plan.evaluators if is_foreign(e) and e.name not in {*sent, *stay}]
    if risky and isolate:
        tally.notes.append(
            f"evaluators in this process, whose crash would end it: {', '.join(risky)}; "
            "workers=N (--workers N) runs those that can be sent there in processes"
        )
    return [executor for executor in executors if executor.evaluators]
