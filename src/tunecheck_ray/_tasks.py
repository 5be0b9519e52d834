"""The code in Ray's processes: tasks, which run one chunk each, and the actor with the services that they share.

A task streams its portions to the driver. Rows that may have killed a task run one by one in a child process of the
next task. The task can then report how that process ended.

The services are request and token limits, the budget, and the judges' answers. One named actor on the driver's node
provides them. Before a task sends a call, it waits in the actor for room in the limits and reserves the call's expected
cost. The actor grants nothing more to a task that the driver has given up.

A task ends in one of these ways; the last item of its stream tells the driver which:

| end | last item | the driver |
|---|---|---|
| all rows are finished | a portion | goes on |
| an error of its code, a spent budget | `TaskEnd(stop=True)` | stops the run |
| the child process of an isolated row died or hung | `TaskEnd(stop=False)` | blames the row, hands on the others |
| the worker died | none; Ray raises an error | hands on all unfinished rows |
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import multiprocessing
import os
import pickle
import sys
import threading
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from functools import partial
from itertools import count, islice
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from tunecheck import ConfigurationError, StopRunError, TunecheckError, __version__
from tunecheck.endpoints import TOKEN_BURST_S, Bucket, Clock, EndCall, SharedLimits, TokenBucket
from tunecheck.evaluation import Execution
from tunecheck.pipeline import Budget, Chunk, ChunkRunner, Portion, Reservation
from tunecheck.plugins import JSON, how_it_ended

if TYPE_CHECKING:
    from ray.actor import ActorHandle


SILENCE_S = 30.0
"""A process is treated as hung if it sends nothing for this long. Processes report every two seconds."""


class TaskEnd(msgspec.Struct, frozen=True):
    """The last item of a task that ended early.

    If `stop` is true, the run must end. Otherwise the process of an isolated row died.
    """

    message: str
    stop: bool


def run_chunk(task_input: bytes, task: str, chunk: Chunk) -> Iterator[Portion | TaskEnd]:
    """Yield the portions of a chunk. Ray calls this function."""
    yield Portion()  # the driver counts silence from here
    yield from (_run_isolated_chunk if chunk.isolated else _portions)(task_input, task, chunk)


def _portions(task_input: bytes, task: str, chunk: Chunk) -> Iterator[Portion | TaskEnd]:
    """Yield the portions of a chunk that runs in this process. After an error, the last item is a TaskEnd."""
    try:
        runner, services = _open_input(task_input)
        services.task = task
        yield from runner.run(chunk)
    except Exception as error:  # noqa: BLE001 - the driver ends the run with it
        # Task groups wrap the error that matters.
        while isinstance(error, ExceptionGroup):
            error = error.exceptions[0]

        message = str(error) if isinstance(error, TunecheckError) else f"{type(error).__name__}: {error}"
        yield TaskEnd(message, stop=True)


@functools.lru_cache(maxsize=1)
def _open_input(task_input: bytes) -> tuple[ChunkRunner, TaskServices]:
    """Return the runner of chunks and the services, which the tasks of one run share in this process.

    Raises:
        TunecheckError: A file or package of the run is missing on this node, or differs from that of the driver.
    """
    import ray

    given: TaskInput = pickle.loads(task_input)  # noqa: S301 - from the driver, which Ray lets run code here
    if (given.version, given.python) != (__version__, sys.version_info[:2]):
        worker = f"{__version__} on Python {sys.version_info[0]}.{sys.version_info[1]}"
        driver = f"{given.version} on Python {given.python[0]}.{given.python[1]}"
        raise ConfigurationError(
            f"a Ray worker has Tunecheck {worker}, but the driver has {driver}; install the same versions on all nodes"
        )

    if given.workspace is not None:
        os.chdir(given.workspace)
    # The workspace's Python files, such as functions and evaluators, are imported from the working folder.
    sys.path.insert(0, str(Path.cwd()))

    services = TaskServices(ray.get_actor("services", namespace=given.namespace), given)
    execution = given.make()

    facts = execution.facts
    facts.recall(given.facts)
    for name, endpoint in facts.endpoints.items():
        endpoint.share_limits(services.limits(name))
    plan = execution.plan(given.run_id)
    return ChunkRunner(plan, facts.known, services.budget, services, services.stopped), services


# -- isolated rows


def _run_isolated_chunk(task_input: bytes, task: str, chunk: Chunk) -> Iterator[Portion | TaskEnd]:
    """Run a chunk in a child process and yield its portions.

    If the process dies or falls silent, the last item says how it ended, and the task itself survives.
    """
    import ray

    # "spawn", because a fork would share the task's connections to Ray.
    context = multiprocessing.get_context("spawn")
    reading_end, writing_end = context.Pipe(duplex=False)
    address = ray.get_runtime_context().gcs_address
    process = context.Process(target=_serve_isolated, args=(address, task_input, task, chunk, writing_end))
    process.start()
    writing_end.close()  # so that the end of the child closes the pipe

    try:
        while reading_end.poll(SILENCE_S):
            yield reading_end.recv()
        yield TaskEnd(f"the task sent nothing for {SILENCE_S:g} s", stop=False)
    except EOFError:
        process.join(SILENCE_S)
        if process.exitcode:
            yield TaskEnd(how_it_ended(process.exitcode), stop=False)
    finally:
        process.kill()
        process.join()


def _serve_isolated(address: str, task_input: bytes, task: str, chunk: Chunk, connection: Connection) -> None:
    """Run a chunk in the task's child process, send its portions over the connection, and end the process.

    The process connects to Ray at `address` to use the services.
    """
    import ray

    threading.Thread(target=_end_with_the_task, daemon=True).start()
    ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
    for item in _portions(task_input, task, chunk):
        connection.send(item)
    connection.close()
    os._exit(0)  # threads of user code must not keep the process


def _end_with_the_task() -> None:
    """End this child process when the task's process has ended."""
    task = multiprocessing.parent_process()
    assert task is not None
    task.join()
    os._exit(1)


# -- services

_MOST_ANSWERS = 20_000
"""The most judges' answers that are kept for equal calls of other tasks."""

REQUESTS, TOKENS = 0, 1
"""The two kinds of limits of an endpoint."""

_TOGETHER_S = 0.005
"""Calls that one task requests together are granted together if there is room within this many seconds."""

_ARRIVED_S = 5.0
"""A request is assumed to arrive at the service within this many seconds after its grant."""


class TaskInput(msgspec.Struct, frozen=True):
    """The input of every task of a run, without secrets.

    `make` builds the run's execution in a task. `facts` are known facts about the endpoints' APIs, and `rates` gives
    each endpoint's limits in requests and tokens per minute. `spent` is the cost before this start. If `max_cost` is
    None, there is no budget. `namespace` is the actor's namespace. `workspace` is the working folder, or None for the
    folder that Ray has unpacked.
    """

    run_id: str
    make: Callable[[], Execution]
    facts: Mapping[str, JSON]
    rates: Mapping[str, tuple[float | None, float | None]]
    max_cost: float | None
    spent: float
    namespace: str
    workspace: str | None
    version: str = __version__
    python: tuple[int, int] = sys.version_info[:2]


class RequestWindow:
    """A limit of `per_minute` requests in any 60 seconds, counted by their arrival at the service, and spread evenly.

    A request arrives between its grant and the end of its call, and at most five seconds after the grant. It uses the
    limit until 60 seconds after the latest possible arrival. The minute before the start counts as used up.

    Example: a request that is granted at 0 s and whose call ends at 2 s uses the limit until 62 s. If its call runs
    longer than five seconds, the request counts as arrived by then.
    """

    def __init__(self, per_minute: float, *, clock: Clock) -> None:
        """Start with a full window: requests of the minute before the start may still count at the service."""
        self._most = max(1, int(per_minute))
        self._pace = TokenBucket(per_minute, clock=clock)
        self._clock = clock
        self._begun: OrderedDict[object, float] = OrderedDict()
        """The times of grants whose requests may not have arrived yet."""

        # When requests stop using the limit, in order; at first the places of the minute before the start.
        self._free_at = deque(clock.now() + 60 * place / self._most for place in range(1, self._most + 1))
        self._turn = asyncio.Lock()

    async def take(self, units: float) -> EndCall:
        """Wait until a request of this many units may be sent; return the function that ends its call."""
        async with self._turn:
            await self._pace.take(units)
            while (wait_s := self._wait_s()) > 0:
                await self._clock.sleep(wait_s)
            call = object()
            self._begun[call] = self._clock.now()
        return lambda _: self._end(call)

    def _end(self, call: object) -> None:
        """Note that a call has ended: its request uses the limit for 60 seconds more."""
        if self._begun.pop(call, None) is not None:
            self._free_at.append(self._clock.now() + 60)

    def _wait_s(self) -> float:
        """Return the seconds until a request may be granted, 0 if it may be granted now.

        Requests that must have arrived by now count as ended, and requests of more than a minute ago are removed.
        """
        now = self._clock.now()
        while self._begun and next(iter(self._begun.values())) + _ARRIVED_S <= now:
            self._end(next(iter(self._begun)))
        while self._free_at and self._free_at[0] <= now:
            self._free_at.popleft()

        if len(self._begun) + len(self._free_at) < self._most:
            return 0.0
        # The first place to become free; both collections are in order, and one may be empty.
        arrived = [granted + _ARRIVED_S for granted in islice(self._begun.values(), 1)]
        return min([*islice(self._free_at, 1), *arrived]) - now


class TaskServer:
    """The actor. Every method is a coroutine, so that thousands of calls can wait in it at once."""

    def __init__(self, task_input: TaskInput) -> None:
        """Create a bucket for each limit of each endpoint, and the budget with the cost spent so far."""
        clock = Clock()
        self._buckets: dict[tuple[str, int], Bucket] = {}
        for name, (requests, tokens) in task_input.rates.items():
            if requests is not None:
                self._buckets[name, REQUESTS] = RequestWindow(requests, clock=clock)
            if tokens is not None:
                self._buckets[name, TOKENS] = TokenBucket.within_a_minute(tokens, clock=clock, burst_s=TOKEN_BURST_S)

        self._ends: dict[int, EndCall] = {}
        self._budget = Budget(task_input.max_cost)
        self._budget.add_cost(task_input.spent)
        self._reserved: dict[int, tuple[str, contextlib.AbstractAsyncContextManager[Reservation], Reservation]] = {}
        self._tickets = count(1)
        self._lost = 0.0
        self._given_up: set[str] = set()

        self._answers: OrderedDict[str, tuple[str, asyncio.Future[dict[str, JSON] | None]]] = OrderedDict()
        """The task that makes or made each judge's call, and the call's answer, by the call's key."""
        self._stopped = asyncio.Event()

    async def take(self, task: str, name: str, kind: int, wanted: list[float]) -> list[int]:
        """Wait for room in an endpoint's limit of this kind; return tickets for at least the first of the calls.

        `wanted` has the units of each call. Further calls get a ticket if there is room within `_TOGETHER_S` seconds. A
        task that was given up waits for ever.
        """
        ends = [await self._buckets[name, kind].take(wanted[0])]
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_TOGETHER_S):
                for units in wanted[1:]:
                    ends.append(await self._buckets[name, kind].take(units))

        await self._wait_if_given_up(task)
        granted = {next(self._tickets): end for end in ends}
        self._ends |= granted
        return [*granted]

    async def end(self, ticket: int, used: float) -> None:
        """End a call that has used this many units."""
        if (end := self._ends.pop(ticket, None)) is not None:
            end(used)

    async def reserve(self, task: str, name: str, expected: float) -> tuple[int, float, float] | str:
        """Reserve the expected cost of a task's call; `name` is that of the call's evaluator, or "target".

        Return the call's ticket, the reserved amount and the run's spending so far, or a text with the reason of a
        refusal. A task that was given up waits for ever.
        """
        await self._wait_if_given_up(task)
        # Entered here and left in `settle`, which is another call of the task.
        held = self._budget.reserve(name, expected)
        try:
            reservation = await held.__aenter__()
        except StopRunError as error:
            return str(error)

        ticket = next(self._tickets)
        self._reserved[ticket] = task, held, reservation
        return ticket, reservation.amount, self._budget.spent

    async def settle(self, ticket: int, cost: float | None) -> None:
        """Replace a call's reservation by the actual cost, or by nothing if `cost` is None."""
        if ticket in self._reserved:
            _, held, reservation = self._reserved.pop(ticket)
            reservation.cost = cost
            self._budget.add_cost(cost)
            await held.__aexit__(None, None, None)

    async def answer(self, task: str, key: str) -> dict[str, JSON] | None:
        """Return the judge's answer to the call with this key, or None if the caller must make the call.

        The answer is one that another task has or is waiting for. After None, other tasks wait until the caller shares
        its answer.
        """
        # None as the answer means that its task failed: the next round finds no entry, or another task's.
        while (known := self._answers.get(key)) is not None:
            if (found := await asyncio.shield(known[1])) is not None:
                return found

        await self._wait_if_given_up(task)
        self._answers[key] = task, asyncio.get_running_loop().create_future()
        # The oldest go first, but none that a task still waits for.
        while len(self._answers) > _MOST_ANSWERS and next(iter(self._answers.values()))[1].done():
            self._answers.popitem(last=False)
        return None

    async def share(self, key: str, answer: dict[str, JSON] | None) -> None:
        """Keep a judge's answer to the call with this key, and give it to the tasks that wait for it.

        If the answer is None, the call has failed: one of the waiting tasks makes it again.
        """
        known = self._answers.get(key) if answer is not None else self._answers.pop(key, None)
        if known is not None and not known[1].done():
            known[1].set_result(answer)

    async def give_up(self, task: str) -> None:
        """Grant nothing more to a lost task. The expected cost of the task's calls in flight counts as spent."""
        self._given_up.add(task)
        for ticket, (holder, _, reservation) in list(self._reserved.items()):
            if holder == task:
                self._lost += reservation.amount
                await self.settle(ticket, reservation.amount)

        for key, (holder, answer) in list(self._answers.items()):
            if holder == task and not answer.done():
                await self.share(key, None)

    async def lost(self) -> float:
        """Return the expected cost of the calls of lost tasks without an answer."""
        return self._lost

    async def stop(self) -> None:
        """Tell all tasks to finish their calls and stop."""
        self._stopped.set()

    async def stopped(self) -> None:
        """Wait until the tasks must stop."""
        await self._stopped.wait()

    async def _wait_if_given_up(self, task: str) -> None:
        """Return at once, unless the task was given up: then wait for ever, so that the task gets nothing more."""
        if task in self._given_up:
            await asyncio.Event().wait()  # for ever: the driver ignores this task's portions


class _SharedBucket:
    """A task's client of a limit in the actor. Calls that wait in the task are requested together."""

    def __init__(self, services: TaskServices, name: str, kind: int) -> None:
        self._services, self._name, self._kind = services, name, kind
        self._waiting: list[tuple[float, asyncio.Future[EndCall]]] = []
        self._asking: asyncio.Task[None] | None = None

    async def take(self, units: float) -> EndCall:
        """Wait until the actor grants a call of this many units; return the function that ends the call."""
        granted: asyncio.Future[EndCall] = asyncio.get_running_loop().create_future()
        self._waiting.append((units, granted))
        if self._asking is None or self._asking.done():
            self._asking = asyncio.create_task(self._ask())
        return await granted

    async def _ask(self) -> None:
        """Request room in the actor for all waiting calls, until each has its ticket."""
        actor, task = self._services.actor, self._services.task
        while self._waiting:
            wanted = [units for units, _ in self._waiting]
            for ticket in await actor.take.remote(task, self._name, self._kind, wanted):
                _, granted = self._waiting.pop(0)
                if not granted.done():
                    granted.set_result(partial(actor.end.remote, ticket))


class _SharedBudget(Budget):
    """A task's client of the run's budget, which the actor keeps.

    The actor grants each call. Before further attempts of a call, the task itself checks the budget with the run's
    spending at the last grant plus the task's own spending since then.
    """

    def __init__(self, services: TaskServices, limit: float) -> None:
        super().__init__(limit)
        self._services = services

    @contextlib.asynccontextmanager
    async def reserve(self, name: str, expected: float) -> AsyncIterator[Reservation]:
        """Reserve the expected cost of a call in the actor while it runs; the caller adds the cost to the reservation.

        `name` is that of the call's evaluator, or "target".

        Raises:
            StopRunError: the budget does not allow the call.
        """
        granted = await self._services.actor.reserve.remote(self._services.task, name, expected)
        if isinstance(granted, str):
            raise StopRunError(granted)

        ticket, amount, spent = granted
        self.spent = max(self.spent, spent)
        reservation = Reservation(amount)
        self._reservations.append(reservation)

        try:
            yield reservation
        finally:
            self._reservations.remove(reservation)
            self._services.actor.settle.remote(ticket, reservation.cost)


class TaskServices:
    """The services of a run in a task's process. `task` is the name of the task that this process runs now."""

    def __init__(self, actor: ActorHandle[TaskServer], task_input: TaskInput) -> None:
        self.actor, self.task = actor, ""
        self._rates = task_input.rates
        self.budget = Budget(None) if task_input.max_cost is None else _SharedBudget(self, task_input.max_cost)

    def limits(self, endpoint: str) -> SharedLimits:
        """Return the buckets for the calls to an endpoint, by its name in the run."""
        requests, tokens = self._rates.get(endpoint, (None, None))
        return SharedLimits(
            None if requests is None else _SharedBucket(self, endpoint, REQUESTS),
            None if tokens is None else _SharedBucket(self, endpoint, TOKENS),
        )

    async def answer(self, key: str) -> dict[str, JSON] | None:
        """Return the judge's answer if another task has made or makes this call, or None if this task must make it."""
        found: dict[str, JSON] | None = await self.actor.answer.remote(self.task, key)
        return found

    async def settle(self, key: str, answer: dict[str, JSON] | None) -> None:
        """Share a judge's answer with the other tasks; None if the call has failed."""
        self.actor.share.remote(key, answer)

    async def stopped(self) -> None:
        """Wait until the run must stop."""
        await self.actor.stopped.remote()
