"""The plan of a run, its random row order, and a function as its target.

`Plan` has the parts and settings that a run needs, `Tally` counts its progress. In a run that may stop early, a
`RandomOrder` decides which rows count: only the rows of the first units, in the order of the seed. Two runs with equal
seeds and answers stop at the same row, however fast each answer comes.
"""

from __future__ import annotations

import dataclasses
import random
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec

from tunecheck._errors import TimedOutError
from tunecheck._files import CallsRead
from tunecheck._fingerprints import fingerprint
from tunecheck._json import JSON
from tunecheck._loops import CallBatches, LateError, Threads, UserLoop
from tunecheck._messages import plural
from tunecheck._targets import CallContext, Row, Target, TargetOutput
from tunecheck.calls._model import decode_calls
from tunecheck.calls._schemas import TOOL_COLUMNS
from tunecheck.endpoints._base import COMPLETE, UNPARSED
from tunecheck.formats._reading import UnreadText, read_calls, tools_of
from tunecheck.pipeline._finished_rows import PASS_RATE
from tunecheck.pipeline._mapping import is_async, make_binder, read_signature
from tunecheck.pipeline._results import RowState
from tunecheck.pipeline._scoring import BoundEvaluator, Mapped, RowValues, call, private_copies
from tunecheck.pipeline._worker_queues import DEFAULT_TIMEOUT_S

CallsChoice: TypeAlias = Literal["strict", "lenient"]
"""`strict`: an answer calls what the API returned; `lenient`: calls in its text or wrongly encoded calls count, too."""

_MOST_REFUSED = 5
"""Maximum number of notes on files that rows may not use."""

_MOST_LOST = 20
"""Maximum number of notes on keys that became null."""


class RandomOrder:
    """Gives a run its rows unit by unit; a unit holds dependent rows, such as a conversation's.

    Units come in a seeded random order and are judged in that order, whichever finishes first.

    `enough` receives each unit's finished rows in that order and returns True if the run may stop. Rows that finish
    early wait for their turn, so the speed of answers does not affect which rows count. `is_useful`
    returns True for a unit that can show a difference, for example because the base run has one of its rows. Other
    units come last.

    For example, the units are shuffled to c, a, b, and b finishes first. Its rows wait until c and a have been judged.
    """

    def __init__(
        self,
        rows: Iterable[Row],
        label: Callable[[Row], Hashable],
        seed: int,
        enough: Callable[[Sequence[RowState]], bool],
        is_useful: Callable[[Sequence[Row]], bool],
    ) -> None:
        """Group the rows into units by `label` and shuffle them with the seed; units that are not useful come last.

        Rows with equal labels form a unit. `enough` gets the finished rows of a unit, and returns True if the run may
        stop. `is_useful` gets a unit's rows.
        """
        units: dict[Hashable, list[Row]] = {}
        for row in rows:
            units.setdefault(label(row), []).append(row)

        self.units = [*units.values()]
        random.Random(seed).shuffle(self.units)
        # Sorting is stable: both kinds of units keep their random order.
        self.units.sort(key=is_useful, reverse=True)

        self._unit_of = {row.index: number for number, unit in enumerate(self.units) for row in unit}
        self._enough = enough
        self._waiting: dict[int, list[RowState]] = {}
        """The finished rows of units whose turn has not come, by the unit's number."""
        self._units_begun = self._next_unit = 0
        self.decided = False
        self.asked: set[int] = set()
        """The indices of the rows that were sent to the target."""

    def rows(self) -> Iterator[Row]:
        """Yield every row on demand, unit by unit."""
        for unit in self.units:
            self._units_begun += 1
            yield from unit

    @property
    def ahead(self) -> int:
        """The number of units that were handed out but are not judged yet."""
        return self._units_begun - self._next_unit

    def settle(self, state: RowState) -> Iterator[RowState]:
        """Add a finished row; yield the rows of each unit that is now finished, if all units before it are, too.

        After each unit, `enough` decides whether the run may stop. Once the run may stop, yield nothing.
        """
        self._waiting.setdefault(self._unit_of[state.row.index], []).append(state)
        # A unit that finishes may release several later ones, which have waited for it.
        while not self.decided and len(self._waiting.get(self._next_unit, ())) == len(self.units[self._next_unit]):
            unit = sorted(self._waiting.pop(self._next_unit), key=lambda finished: finished.row.index)
            yield from unit
            self._next_unit += 1
            self.decided = self._enough(unit)
            if self._next_unit == len(self.units):
                return

    @property
    def total(self) -> int:
        """The number of rows."""
        return len(self._unit_of)

    def judged(self) -> list[int]:
        """Return the indices of the rows in the units that counted for the decision, in the order of the data."""
        return sorted(row.index for unit in self.units[: self._next_unit] for row in unit)

    def unjudged(self) -> Iterator[Row]:
        """Yield the rows that are not counted, in the random order."""
        for unit in self.units[self._next_unit :]:
            yield from unit


class Plan(msgspec.Struct, frozen=True):
    """The parts and settings of a run."""

    run_id: str
    rows: Callable[[], Iterator[Row]]
    """Reads the rows from the data, each time it is called."""
    target: Target | None
    """None if the data has the answers already."""
    evaluators: Sequence[BoundEvaluator]
    concurrency: int
    """Maximum number of calls in flight, for the target and for each evaluator that may wait."""
    workers: int
    """Processes for synchronous evaluators; 0: none."""
    row_kind: Callable[[RowValues, RowValues], str | None]
    """Returns `call` or `answer` for a row's data and target columns, or None without a ground truth."""
    isolates_files: bool = False
    """Only `pure` evaluators share worker processes; each evaluator from a workspace file has its own process."""
    evaluator_timeout: float = DEFAULT_TIMEOUT_S
    """Time limit of one evaluator call in seconds."""
    fail_on_evaluator_errors: bool = False
    group_column: str | None = None
    """Rows with the same value in this column are answered in order, if the target defines no groups."""
    row_count: int | None = None
    """Number of rows, for the progress; None in the plan of a distributed run's task, which gets its rows later."""
    folder: Path | None = None
    """The run's folder, in which a target may keep files."""
    calls: CallsChoice | None = None
    """`lenient` if calls in an answer's text count; by default only calls that the API returned do."""
    order: RandomOrder | None = None
    """The row order of a run that may stop before all rows are asked."""


def response_as_read(choice: CallsChoice | None, arguments: Mapping[str, object], state: RowState) -> object:
    """Return an evaluator's response; a text with calls that do not count becomes an UnreadText.

    Under `strict`, no calls in a text count. Without a choice (None), calls do not count if the adapter marked them as
    complete but unparsed. Under `lenient`, wrongly encoded arguments are decoded.

    For example, a server leaves `<tool_call>{"name": "f", "arguments": {}}</tool_call>` in the text. Production
    clients could not use such a call, so it does not count by default.
    """
    response = arguments.get("response")

    if choice == "lenient":
        return decode_calls(response) or response

    is_unread = type(response) is str and state.target.get(UNPARSED) == COMPLETE
    if type(response) is str and choice == "strict" and not is_unread:
        tools = tools_of(*(source.get(name) for source in (arguments, state.row.values) for name in TOOL_COLUMNS))
        is_unread = bool(read_calls(response, tools=tools).complete_calls)

    return UnreadText(response) if is_unread else response


class ReadCallsCount(msgspec.Struct):
    """Counts answers with calls in their text, and how pass counts change if those calls count or not."""

    choice: CallsChoice | None = None
    answers: int = 0
    unparsed: int = 0
    gained: Counter[str] = msgspec.field(default_factory=Counter)
    """Additional passes in the other reading, by evaluator (negative if fewer)."""

    def add(self, state: RowState, evaluators: Sequence[BoundEvaluator]) -> None:
        """Count a finished row; if its text has calls, judge it in the other reading, too, to compare pass counts.

        In the other reading, the calls in the text count if they did not count, or do not count if they did. Only pure
        synchronous evaluators with a primary metric judge again.
        """
        self.answers += "target" not in state.errors
        if not (state.unread or state.target.get(UNPARSED) == COMPLETE):
            return

        self.unparsed += 1
        for evaluator in evaluators:
            output = state.outputs.get(evaluator.name)
            can_repeat = evaluator.pure and evaluator.primary and not evaluator.asynchronous
            if output is None or not can_repeat:
                continue

            arguments = evaluator.bind(state.row.values, state.target)
            other_choice: CallsChoice = "strict" if self.choice == "lenient" else "lenient"
            arguments["response"] = response_as_read(other_choice, arguments, state)
            other = call(evaluator, arguments)

            if isinstance(other, dict):
                key = f"{evaluator.primary}_result"
                # One more if only the other reading passes, one less if only this one does.
                self.gained[evaluator.name] += (other.get(key) == "pass") - (output.get(key) == "pass")

    def result(self, metrics: Mapping[str, JSON]) -> CallsRead | None:
        """Return how many answers have calls only in their text, and what the other value of --calls would change.

        `pass_rates` has the rates as read and as the other value would read, for evaluators whose rate would change.
        None without such answers.
        """
        if not self.unparsed:
            return None

        other = {}
        for name, passes in self.gained.items():
            rate, scored = metrics.get(f"{name}.{PASS_RATE}"), metrics.get(f"{name}.scored_count")
            if passes and isinstance(rate, (int, float)) and isinstance(scored, int):
                other[name] = (rate, rate + passes / scored)

        reading = self.choice or "strict"
        return CallsRead(reading=reading, unparsed=self.unparsed, answers=self.answers, pass_rates=other)


class Remarks(msgspec.Struct, frozen=True):
    """Counts of events that are reported to the user."""

    lost: Counter[str] = msgspec.field(default_factory=Counter)
    """Number of rows with a null key, by a text that names evaluator, key and reason."""
    refused: Counter[str] = msgspec.field(default_factory=Counter)
    """Number of rows that named a file they may not use, by the text of the refusal."""
    late: Counter[str] = msgspec.field(default_factory=Counter)
    """Number of rows on which an evaluator exceeded its time limit, by evaluator."""

    def add(self, more: Remarks) -> None:
        """Add the counts of another process."""
        self.lost.update(more.lost)
        self.refused.update(more.refused)
        self.late.update(more.late)


class Tally(msgspec.Struct):
    """The progress of a run."""

    read: int = 0
    answered: int = 0
    unanswered: int = 0
    """The answered rows on which the target failed."""
    finished: int = 0
    failed: int = 0
    reused: int = 0
    reused_verdicts: int = 0
    notes: list[str] = msgspec.field(default_factory=list)
    remarks: Remarks = msgspec.field(default_factory=Remarks)
    read_calls: ReadCallsCount = msgspec.field(default_factory=ReadCallsCount)

    def sentences(self, evaluator_timeout: float, masked: int = 0) -> list[str]:
        """Return notes for the user: refused files, timeouts, values that became null, and `masked` answers."""
        remarks = self.remarks
        limit = f"{evaluator_timeout:g} s (--evaluator-timeout)"
        notes = [
            *(f"refused on {plural(rows, 'row')}: {text}" for text, rows in remarks.refused.most_common(_MOST_REFUSED)),
            *(f"evaluator {name!r} took longer than {limit} on {plural(n, 'row')}" for name, n in remarks.late.items()),
            *(f"{lost}: stored as null on {plural(n, 'row')}" for lost, n in remarks.lost.most_common(_MOST_LOST)),
        ]

        if masked:
            notes.append(
                f"{plural(masked, 'answer')} contained an environment variable's value, masked as ***: "
                "if the value is not secret, write ${env:NAME:plain} in the definition or prompt"
            )
        return notes


# -- a function as the target


class CallableTarget(Target):
    """Calls `function(**columns)` for each row with the columns of its parameters, or all columns for `**kwargs`.

    A returned dict or dataclass becomes columns; any other value becomes the column `response`. A synchronous function
    runs in up to `concurrency` threads, a coroutine function in `loop`. After `limit_s` seconds a call counts as timed
    out; its thread is not stopped.
    """

    def __init__(
        self, function: Callable[..., object], mapping: Mapping[str, Mapped], concurrency: int, limit_s: float
    ) -> None:
        """Read the function's parameters and prepare its threads; `limit_s` is the time limit of one call in seconds.

        Raises:
            ConfigurationError: the parameters cannot be read.
        """
        self.name = getattr(function, "__name__", type(function).__name__)
        self.bind = make_binder(read_signature(function, "the target"), mapping, "the target")
        self._function = function
        self._limit_s = limit_s

        # Coroutines run in the user loop and need no threads.
        self._threads = None if is_async(function) else Threads(concurrency, "target")
        self._batches = None if self._threads is None else CallBatches(self._threads)
        self.loop = UserLoop()
        """Event loop of the function and of evaluators' coroutines, which may share a client. The run closes it."""

    def inputs(self, row: Row) -> JSON:
        """Return the columns that the function is called with."""
        return self.bind(row.values, target={})  # type: ignore[return-value]

    async def answer(self, row: Row, context: CallContext) -> TargetOutput:
        """Call the function on a row, in a thread or the user loop; return the columns of its answer.

        The columns are the items of a mapping or the fields of a dataclass. Any other value is the column `response`.

        Raises:
            TimedOutError: the call took longer than the time limit.
            Exception: whatever the function raises.
        """
        # The function may change its arguments, so it gets copies.
        function = partial(self._function, **private_copies(self.bind(row.values, target={})))
        try:
            value = await self.loop.call("the target", function, self._limit_s, self._batches)
        except LateError as timeout:
            raise TimedOutError(f"target {self.name!r}: {timeout}") from None

        if isinstance(value, Mapping):
            return value
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            return dataclasses.asdict(value)
        return {"response": value}

    def fingerprint(self) -> str | None:
        """Return the fingerprint of the function's code, or None if it has none."""
        return fingerprint(self._function)

    def describe(self) -> dict[str, JSON]:
        """Return the kind and name of the target."""
        return {"kind": "function", "name": self.name}

    async def close(self) -> None:
        """Shut the threads down."""
        if self._threads is not None:
            self._threads.shutdown()
