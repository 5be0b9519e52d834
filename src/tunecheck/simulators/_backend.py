"""The simulators of one attempt at a conversation: executes calls and returns results; never raises.

Nothing is global or shared: each attempt has its own backend.
"""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import cast

from tunecheck._errors import DataError, PluginError
from tunecheck._json import JSON
from tunecheck._loops import Threads
from tunecheck._messages import did_you_mean
from tunecheck._trust import Trust
from tunecheck.calls._model import FunctionCall, kind_of, positional_count, quoted
from tunecheck.plugins import Candidate, discover, find
from tunecheck.simulators._base import ArgumentError, Operation, Simulator, SimulatorError


@dataclass(frozen=True, slots=True)
class OperationResult:
    """The result of one call.

    `text` is shown to the model; `error` is True if the call failed; `value` is the operation's return value
    (`{"error": …}` if it failed), for calls that are arguments of other calls.
    """

    text: str
    error: bool = False
    value: object = None


def success(value: object) -> OperationResult:
    """Return the result of an operation that returned `value`; a dict with an `error` (not None or False) failed."""
    return OperationResult(
        result_text(value), isinstance(value, dict) and value.get("error") not in (None, False), value
    )


def failure(message: str) -> OperationResult:
    """Return the result of a failed call; the model sees the message as `{"error": message}`."""
    value = {"error": message}
    return OperationResult(result_text(value), True, value)


def result_text(value: object) -> str:
    """Return text unchanged, a dict as JSON (ASCII, key order kept, NaN allowed), other values as Python's str.

    BFCL shows results to models, and compares them, in these forms. A dict that JSON cannot hold becomes Python text.
    """
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        try:
            return json.dumps(value)
        except (TypeError, ValueError, RecursionError):
            return str(value)
    return str(value)


class Backend:
    """The loaded simulators of one attempt, by class name.

    Args:
        simulators: instances that only this attempt uses.
        time_limit_s: time limit of a call to a simulator that is not `bounded`.

    Raises:
        PluginError: two simulators have an operation of the same name.
    """

    def __init__(self, simulators: Mapping[str, Simulator], *, time_limit_s: float = 10) -> None:
        """List the operations of all simulators by name.

        Raises:
            PluginError: two simulators have an operation of the same name.
        """
        self.simulators = dict(simulators)
        self.time_limit_s = time_limit_s
        self._stuck: dict[str, str] = {}
        self._table: dict[str, tuple[str, Operation]] = {}
        for owner, simulator in self.simulators.items():
            for name, operation in simulator.operations().items():
                if name in self._table:
                    raise PluginError(f"{self._table[name][0]} and {owner} both have {name!r}; leave out one simulator")
                self._table[name] = (owner, operation)

    @classmethod
    def of(
        cls,
        classes: Mapping[str, type[Simulator]],
        config: Mapping[str, JSON],
        *,
        long_context: Mapping[str, JSON] | None = None,
        time_limit_s: float = 10,
    ) -> Backend:
        """Return a backend of new instances, each loaded from its part of the configuration.

        Raises:
            DataError: a part of the configuration is invalid.
        """
        simulators = {name: simulator() for name, simulator in classes.items()}
        backend = cls(simulators, time_limit_s=time_limit_s)
        for name, simulator in simulators.items():
            simulator.load(_part(config, name), long_context=long_context)
        return backend

    def call(self, call: FunctionCall) -> OperationResult:
        """Make a call, after the calls in its arguments. Never raises: every error becomes an error result.

        If a call in an argument fails, the outer call fails with the same text. Positional arguments are under "0",
        "1", … as from `read_calls`.
        """
        owner, operation = self._table.get(call.name, ("", None))
        if operation is None:
            return failure(f"there is no operation {quoted(call.name)}{did_you_mean(call.name[:100], self._table)}")
        if owner in self._stuck:
            return failure(f"{owner} is out of order since {self._stuck[owner]} did not return")
        try:
            given: Mapping[str, JSON] = call.arguments
            if any(holds_calls(value) for value in given.values()):
                given = {name: self._make_argument(value) for name, value in given.items()}
            count = 0 if "0" in operation.parameters else positional_count(call.arguments)
            places = [str(place) for place in range(count)]
            named = {name: value for name, value in given.items() if name not in places} if places else given
            arguments = operation.bind([given[place] for place in places], named)
            return success(self._perform(owner, operation, arguments))
        except _ArgumentFailedError as failed:
            return failed.result
        except _OverdueError:
            self._stuck[owner] = operation.name
            return failure(f"{operation.name} did not return within {self.time_limit_s:g} seconds")
        except (SimulatorError, ArgumentError) as error:
            return failure(str(error))
        except (Exception, SystemExit) as error:  # noqa: BLE001 - a user's simulator with a model's arguments
            text = " ".join(str(error).split())[:1000]
            return failure(f"{operation.name} failed: {type(error).__name__}{': ' if text else ''}{text}")

    def _perform(self, owner: str, operation: Operation, arguments: Mapping[str, JSON]) -> object:
        """Run an operation: at once if it is bounded and sync, else in a thread with the time limit."""
        simulator = self.simulators[owner]
        work = partial(operation.method, simulator, **arguments)
        if simulator.bounded and not operation.waits:
            return work()
        if operation.waits:
            work = partial(asyncio.run, _await_result(work))  # asyncio.run needs a thread without an event loop
        return _run_with_time_limit(work, self.time_limit_s)

    def _make_argument(self, value: JSON) -> JSON:
        """Return an argument with the calls in it replaced by their results.

        Raises:
            _ArgumentFailedError: one of the calls failed.
        """
        if isinstance(value, FunctionCall):
            result = self.call(value)
            if result.error:
                raise _ArgumentFailedError(result)
            return cast("JSON", result.value)
        if isinstance(value, dict):
            return {key: self._make_argument(item) for key, item in value.items()}
        if isinstance(value, (list, tuple)):
            return type(value)(self._make_argument(item) for item in value)
        return value

    def states(self) -> dict[str, dict[str, object]]:
        """Return each simulator's live state, or since when it is stuck, by class name; callers must not change it."""
        return {  # a stuck call may still be changing the state
            name: {"out_of_order_since": self._stuck[name]} if name in self._stuck else simulator.state()
            for name, simulator in self.simulators.items()
        }

    def state_texts(self) -> dict[str, dict[str, JSON]]:
        """Return each simulator's state for the inference log, by class name; empty states are left out."""
        texts = {name: simulator.state_text() for name, simulator in self.simulators.items() if name not in self._stuck}
        return {name: text for name, text in texts.items() if text}

    def tool_definitions(self) -> list[dict[str, JSON]]:
        """Return the OpenAI tools of all operations."""
        return [definition for each in self.simulators.values() for definition in each.tool_definitions()]


@dataclass(eq=False, repr=False)
class Backends:
    """Starts the backends of many attempts; looks each simulator's class up only once, because that is slow.

    `classes` are simulators by name that are not plug-ins; they override plug-ins of the same name. `long_context`
    returns the constants for rows with long context. The `simulators/` folder of `workspace` is also searched. A call
    of a simulator is abandoned after `time_limit_s` seconds. `trust` is the trust in the rows that name simulators; by
    default every file may be loaded.
    """

    classes: Mapping[str, type[Simulator]] = field(default_factory=dict)
    _: KW_ONLY
    long_context: Callable[[], Mapping[str, JSON]] | None = None
    workspace: Path = field(default_factory=Path.cwd)
    time_limit_s: float = 10
    trust: Trust | None = None

    def start(self, names: Sequence[str], config: Mapping[str, JSON], *, long_context: bool = False) -> Backend:
        """Start a backend for one attempt, with each simulator loaded from its part of the configuration.

        Raises:
            PluginError: a simulator does not exist, or two have the same operation.
            DataError: a configuration is invalid, or the constants for long context are missing.
        """
        constants = self.constants if long_context else None
        classes = {name: self.find(name) for name in names}
        return Backend.of(classes, config, long_context=constants, time_limit_s=self.time_limit_s)

    @cached_property
    def constants(self) -> Mapping[str, JSON]:
        """The constants that extend rows with long context.

        Raises:
            DataError: this object has no `long_context`.
        """
        if self.long_context is None:
            raise DataError(
                "a row needs long-context texts: pass Backends(long_context=…), or use Services, which finds "
                "the texts of an installed benchmark"
            )
        return self.long_context()

    def find(self, name: str) -> type[Simulator]:
        """Return the class of a simulator by its name; raises the errors of `find_simulator`."""
        if name not in self.classes:
            found = find_simulator(name, among=self._plugins, trust=self.trust)
            self.classes = {**self.classes, name: found}
        return self.classes[name]

    def with_class(self, name: str, simulator: type[Simulator]) -> Backends:
        """Return a copy that uses this class for the name."""
        return replace(self, classes={**self.classes, name: simulator})

    @cached_property
    def _plugins(self) -> Sequence[Candidate]:
        return discover("simulators", workspace=self.workspace.absolute())


def find_simulator(
    name: str, *, workspace: Path | None = None, among: Sequence[Candidate] | None = None, trust: Trust | None = None
) -> type[Simulator]:
    """Return the simulator class with a plug-in name; `among` is the result of `discover`.

    `trust` is the trust in the row that names it; by default every file may be loaded.

    Raises:
        PluginError: there is no such plug-in, or it is not a simulator.
        ConfigurationError: the source of the name may not load a workspace file.
    """
    plugin = find("simulators", name, workspace=workspace, among=among, trust=trust)
    if not (isinstance(plugin, type) and issubclass(plugin, Simulator)):
        raise PluginError(f"the plugin {name!r} is not a subclass of tunecheck.simulators.Simulator")
    return plugin


def _part(config: Mapping[str, JSON], name: str) -> Mapping[str, JSON]:
    """Return a simulator's part of the configuration, empty if there is none.

    Raises:
        DataError: the part is not an object.
    """
    part = config.get(name)
    if part is None:
        return {}
    if not isinstance(part, dict):
        raise DataError(f"initial_config.{name} must be an object, not {kind_of(part)}")
    return part


async def _await_result(work: Callable[[], object]) -> object:
    """Call `work`, and await its result if that is a coroutine."""
    value = work()
    return await value if inspect.isawaitable(value) else value


class _OverdueError(Exception):
    """A call did not return within the time limit."""


class _ArgumentFailedError(Exception):
    def __init__(self, result: OperationResult) -> None:
        super().__init__(result.text)
        self.result = result


def holds_calls(value: object) -> bool:
    """Return True if the value contains a call at any depth."""
    if isinstance(value, dict):
        return any(map(holds_calls, value.values()))
    if isinstance(value, (list, tuple)):
        return any(map(holds_calls, value))
    return isinstance(value, FunctionCall)


def _run_with_time_limit(work: Callable[[], object], time_limit_s: float) -> object:
    """Return what `work` returns, or raise what it raises; raise _OverdueError after the time limit.

    After the limit, the thread is abandoned. Code that holds the interpreter's lock (`10**10**9`) cannot be abandoned,
    so a simulator must limit such arguments itself.
    """
    threads = Threads(1, "tunecheck-simulator")
    call = threads.submit(work)
    threads.shutdown()
    try:
        return call.result(time_limit_s)
    except TimeoutError:
        if call.done():  # the work itself raised the TimeoutError
            raise
        raise _OverdueError from None
