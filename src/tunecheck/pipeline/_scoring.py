"""Users' evaluators on the rows of a run: their arguments from a row's columns, safe calls, and outcomes.

A run binds its evaluators once (`bind_evaluator` of `_mapping.py`); worker queues then `call` them row by row. The
result or exception of a function becomes an `Outcome`, which is plain data.

A parameter of an evaluator gets its value from the first rule that applies:

1.  If the mapping names the parameter, the mapped constant or column, and no other.
2.  The target's column of the parameter's name.
3.  The data's column of that name. With `only_mapped`, only a required parameter gets it.

If a required parameter gets no value, the next parameter list of the callable is tried. If no list fits, the row has a
`ColumnMissingError`.

An outcome is one of these:

*   an `Output`: a mapping such as `{"match": 1.0, "match_result": "pass"}`. A number becomes `{"<evaluator>": 0.5}`.
*   a `Partial`: an output in which some values became null, with a `failure` if no value that counts is left
*   a `Failure`: an exception or a timeout
*   None: the evaluator was not called
"""

from __future__ import annotations

import asyncio
import inspect
import math
import os
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

import msgspec

from tunecheck._errors import EndpointError, LeftAtOnceError, RunError
from tunecheck._faults import error_cause
from tunecheck._files import Failure, MetricEntry
from tunecheck._json import (
    ALWAYS_PLAIN,
    JSON,
    MISSING,
    SCALAR_TYPES,
    Missing,
    ValuePath,
    content_hash,
    dumps,
    find_value,
    plain,
)
from tunecheck._loops import end_if_forked
from tunecheck.calls._schemas import ToolDefinitions
from tunecheck.formats._collector import may_hold_calls
from tunecheck.formats._reading import cached_reading, is_prose, tools_of

if TYPE_CHECKING:
    from tunecheck.endpoints._base import Endpoint, ModelCalls

Output: TypeAlias = dict[str, JSON]
"""One evaluator's result for one row, such as `{"match": 1.0, "match_result": "pass"}`."""


# -- the arguments of an evaluator, from the columns of a row

Source = Literal["data", "target"]
"""The source of a value: the row's data, or the target's answer to it."""

RowValues: TypeAlias = Mapping[str, object]
"""The columns of a row's data, or of the target's answer to it, by name."""


class ColumnMissingError(KeyError):
    """A row lacks the column that a required parameter is mapped to."""

    def __str__(self) -> str:
        return str(self.args[0])


class Reference(msgspec.Struct, frozen=True):
    """`${data.a.b}`: the source of a value and the path to it.

    For this text, the source is `data`, and the steps are `a` and `b`.
    """

    source: Source
    steps: ValuePath
    text: str

    def resolve(self, data: RowValues, target: RowValues) -> object | Missing:
        """Return the value at the path in a row's data or target columns, or MISSING."""
        return find_value(data if self.source == "data" else target, self.steps)

    def value_in(self, data: RowValues, target: RowValues) -> object:
        """Return the value at the path in a row's data or target columns, or None if there is none."""
        value = self.resolve(data, target)
        return None if value is MISSING else value


class Constant(msgspec.Struct, frozen=True):
    """A value that is written in the mapping, in place of a reference to a column."""

    value: JSON

    def value_in(self, data: RowValues, target: RowValues) -> object:
        """Return the value, which is the same for each row."""
        return self.value

    resolve = value_in


Mapped = Reference | Constant
MappingLayers = Mapping[str, Mapping[str, Mapped]]
"""The values of parameters by layer: `default`, `target`, or an evaluator's name. `_mapping.py` makes the layers."""


class Signature(msgspec.Struct, frozen=True):
    """The possible parameter lists of a callable.

    Each choice maps parameter names to True if required. Most callables have one choice; a callable with overloads
    (such as Azure AI Evaluation's evaluators) has several, tried in order. `takes_any`: it accepts `**kwargs`.

    For example, `def f(response, query=None)` has the single choice `{"response": True, "query": False}`.
    """

    choices: Sequence[Mapping[str, bool]]
    takes_any: bool = False

    def __contains__(self, name: str) -> bool:
        """Return True if a choice has a parameter of this name."""
        return any(name in choice for choice in self.choices)


@dataclass(frozen=True, slots=True)
class Binder:
    """Builds the keyword arguments of one call from a row's data columns and target columns.

    `mapping` has only parameters of the callable. `only_mapped`: optional parameters get a column of the data only by
    the mapping; columns of the target need none. `owner` names the evaluator or target in errors; binders that differ
    only in `owner` are equal.
    """

    signature: Signature
    mapping: Mapping[str, Mapped]
    only_mapped: bool
    owner: str = field(compare=False)

    def __call__(self, data: RowValues, target: RowValues) -> dict[str, object]:
        """Return the arguments for one row, for the first parameter list whose required columns the row has.

        A callable with `**kwargs` gets all other columns, too; with `only_mapped`, only those of the target.

        Raises:
            ColumnMissingError: the row lacks a column for a required parameter.
        """
        first_error: ColumnMissingError | None = None
        unmapped_data = {} if self.only_mapped else data

        for parameters in self.signature.choices:
            try:
                arguments = self._bind(parameters, data, unmapped_data, target)
            except ColumnMissingError as error:
                first_error = first_error or error
            else:
                return {**unmapped_data, **target, **arguments} if self.signature.takes_any else arguments

        assert first_error is not None  # a signature has at least one choice
        raise first_error

    def _bind(
        self, parameters: Mapping[str, bool], data: RowValues, unmapped_data: RowValues, target: RowValues
    ) -> dict[str, object]:
        """Return the arguments of one call by parameter name, without optional parameters that have no value.

        A parameter without a mapping takes the target's column of its name. Without that, a required one takes the
        column of `data`, an optional one that of `unmapped_data`: all of `data`, or nothing if `only_mapped`.

        Raises:
            ColumnMissingError: a required parameter has no value in this row.
        """
        arguments: dict[str, object] = {}
        for name, required in parameters.items():
            mapped = self.mapping.get(name)
            if mapped is not None:
                value = mapped.resolve(data, target)
            elif name in target:
                value = target[name]
            else:
                value = (data if required else unmapped_data).get(name, MISSING)

            if value is not MISSING:
                arguments[name] = value
            elif required:
                reason = f"is mapped to {mapped.text}" if isinstance(mapped, Reference) else "has no mapping"
                problem = f"this row has no value for parameter {name!r}, which {reason}"
                raise ColumnMissingError(f"{self.owner}: {problem}; add the column, or map another column")
        return arguments


# -- evaluators


class Partial(msgspec.Struct, frozen=True):
    """An output with null keys, because some values have no JSON form or are not finite; `lost` has the reasons by key.

    `failure` is set if no remaining value can count: the row is not scored.

    For example, the result `{"f": 0.5, "g": nan}` becomes the output `{"f": 0.5, "g": None}`, and `g` is lost.
    """

    output: Output
    lost: dict[str, str]
    failure: Failure | None


Outcome: TypeAlias = "Output | Partial | Failure | None"
"""The outcome of one evaluator on one row; None if it was not called."""


@dataclass(frozen=True)
class Scorer:
    """The parts of an evaluator that are needed to call it.

    `pure` evaluators declare that they only compute and do not change their arguments. All others get copies of nested
    values, so that they cannot change what other evaluators or the result file see.
    """

    name: str
    function: Callable[..., object]
    pure: bool


@dataclass(frozen=True)
class BoundEvaluator(Scorer):
    """One evaluator of a run with the binding of its parameters."""

    signature: Signature
    bind: Binder
    asynchronous: bool
    cpu_bound: bool
    """True if it is pure and worth a worker process."""
    asks_models: bool
    """True if it has a `call_with` method, which takes a `ModelCalls` in addition to the row's values."""
    needs_target: bool
    fingerprint: str | None
    primary: str | None
    metrics: Sequence[MetricEntry]

    @property
    def module(self) -> str:
        """The name of the module that defines the evaluator."""
        return str(getattr(self.function, "__module__", ""))

    @property
    def concurrency(self) -> int | None:
        """The maximum number of concurrent rows, if the evaluator asks models and declares a limit."""
        limit = getattr(self.function, "concurrency", None) if self.asks_models else None
        return limit if isinstance(limit, int) and limit > 0 else None

    @property
    def endpoint(self) -> Endpoint | None:
        """The endpoint that the evaluator calls, if any."""
        from tunecheck.endpoints._base import Endpoint  # a worker process, which does not need it, starts sooner

        endpoint = getattr(self.function, "endpoint", None) if self.asks_models else None
        return endpoint if isinstance(endpoint, Endpoint) else None

    @property
    def notes(self) -> Sequence[str]:
        """Notes of an evaluator that asks models; they are printed with the results."""
        return tuple(map(str, getattr(self.function, "notes", ()))) if self.asks_models else ()

    @property
    def aggregate(self) -> Callable[[Sequence[Output]], Mapping[str, object]] | None:
        """The evaluator's own aggregation over a run, or None."""
        return getattr(self.function, "__aggregate__", None)

    def input_hash(self, arguments: Mapping[str, object]) -> str | None:
        """Return a hash of the arguments, by which recorded verdicts are found; None if one has no JSON form."""
        try:
            return content_hash(arguments)
        except TypeError:
            return None


# -- calling an evaluator


def call(evaluator: Scorer, arguments: dict[str, object]) -> Outcome:
    """Call a synchronous evaluator on one row; return its output, or a Failure for any exception (even SystemExit)."""
    # User code may fork. The child process must not go on with the run.
    process = os.getpid()
    try:
        values = arguments if evaluator.pure else private_copies(arguments)
        result = evaluator.function(**values)
        if isinstance(result, (Partial, Failure)):  # from functions of our own that stand in for evaluators
            return result
        return as_output(result, evaluator.name)
    except BaseException as error:  # noqa: BLE001 - even SystemExit is only an error of this row
        return as_failure(error)
    finally:
        end_if_forked(process)


async def call_async(evaluator: Scorer, arguments: dict[str, object], calls: ModelCalls | None = None) -> Outcome:
    """Call an asynchronous evaluator on one row; return its output, or a Failure for an exception not named below.

    If `calls` is given, the evaluator's `call_with` is called, which makes its model calls through it.

    Raises:
        CancelledError, LeftAtOnceError: this task was cancelled.
        RunError: a model call reports that the run must stop.
    """
    process = os.getpid()
    try:
        values = arguments if evaluator.pure else private_copies(arguments)
        if calls is None:
            result = evaluator.function(**values)
        else:
            result = evaluator.function.call_with(calls, **values)  # type: ignore[attr-defined]

        if inspect.isawaitable(result):
            result = await result
        return as_output(result, evaluator.name)
    except RunError:
        raise
    except BaseException as error:  # noqa: BLE001 - an evaluator may raise anything; a cancellation of this task goes on
        if cancels_this_task(error):
            raise
        return as_failure(error)
    finally:
        end_if_forked(process)


def cancels_this_task(error: BaseException) -> bool:
    """Return True if the exception cancels the current task, so that the caller must raise it again.

    Such exceptions are a cancellation of the task and a second Ctrl-C. A CancelledError or KeyboardInterrupt that user
    code raises is an ordinary error.
    """
    task = asyncio.current_task()
    cancelled = isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling() > 0
    return cancelled or isinstance(error, LeftAtOnceError)


def private_copies(arguments: Mapping[str, object]) -> dict[str, object]:
    """Return the arguments with nested lists, tuples and dicts copied, so that user code may change them.

    Other objects (in a row made in memory), and values nested deeper than 200, are not copied.
    """
    return {name: value if type(value) in SCALAR_TYPES else _copy_nested(value, 0) for name, value in arguments.items()}


_DEEPEST_COPY = 200
"""Maximum depth of nested values that are copied, so that no value exceeds Python's recursion limit."""


def _copy_nested(value: object, depth: int) -> object:
    """Return a deep copy of dicts, lists and tuples; other objects, and values nested deeper than 200, are shared.

    `depth` is the depth of the value itself.
    """
    if depth > _DEEPEST_COPY or type(value) not in (dict, list, tuple):
        return value

    # A call for each text and number would take most of the time.
    if isinstance(value, dict):
        return {
            key: item if type(item) in SCALAR_TYPES else _copy_nested(item, depth + 1) for key, item in value.items()
        }

    items = cast("list[object] | tuple[object, ...]", value)
    copied = [item if type(item) in SCALAR_TYPES else _copy_nested(item, depth + 1) for item in items]
    return copied if type(value) is list else tuple(copied)


# -- the kind of a row

# A row is a `call` if its ground truth contains a call, else an `answer`. metrics.json lists metrics by kind, too.
_GROUND_TRUTH = "ground_truth"
TOOLS = "tool_definitions"
"""The parameter of evaluators for the definitions of functions."""


def row_kind_reader(layers: MappingLayers) -> Callable[[RowValues, RowValues], str | None]:
    """Return a function that returns a row's kind, given its data and target columns."""
    read_truth, read_tools = value_reader(layers, _GROUND_TRUTH), value_reader(layers, TOOLS)

    def kind(data: RowValues, target: RowValues) -> str | None:
        """Return `call` if the row's ground truth contains a call, else `answer`; None without a ground truth."""
        truth = read_truth(data, target)
        if truth is None:
            return None

        # The ground truth of a conversation is a list of turns.
        tools = tools_of(read_tools(data, target))
        has_call = _contains_call(truth, tools) or (isinstance(truth, list) and _turns_contain_call(truth))
        return "call" if has_call else "answer"

    return kind


def value_reader(layers: MappingLayers, parameter: str, *columns: str) -> Callable[[RowValues, RowValues], object]:
    """Return a function that reads a parameter's value from a row's data and target columns; None without a value.

    Without a mapping, the value comes from the data's column of this name, else from the first of `columns` with one.
    """
    if (mapped := mapped_reader(layers, parameter)) is not None:
        return mapped
    if not columns:  # a third of the time, and the pipeline reads two values of each row
        return lambda data, target: data.get(parameter)
    names = (parameter, *columns)
    return lambda data, target: next((data[name] for name in names if data.get(name) is not None), None)


def mapped_reader(layers: MappingLayers, parameter: str) -> Callable[[RowValues, RowValues], object] | None:
    """Return a function that reads the value to which a parameter is mapped; None without a mapping.

    The first layer that maps the parameter counts, `default` before the evaluators' own.
    """
    entries = (layers[name].get(parameter) for name in dict.fromkeys(["default", *layers]))
    return next((entry.value_in for entry in entries if entry is not None), None)


def _contains_call(value: object, tools: ToolDefinitions | None = None) -> bool:
    """Return True if a ground truth is a call, also one that cannot be parsed."""
    if type(value) is str and is_prose(value, gated=bool(tools)):  # the common case first
        return False
    reading = cached_reading(value, tools)
    return bool(reading.calls or reading.problem)


def _turns_contain_call(value: list[object]) -> bool:
    """Return True if a ground truth is a list of turns, each a list, and a turn contains a call.

    For example, `[["cd(folder='x')"], ["ls()"]]` has two turns with a call each.
    """
    turns = [turn for turn in value if isinstance(turn, list)]
    if len(turns) < len(value):
        return False

    # Texts that hold no calls need not be read.
    items = [item for turn in turns for item in turn if not isinstance(item, str) or may_hold_calls(item, gated=True)]
    # In brackets, a bare call is read as a call, and not as prose.
    return any(_contains_call(f"[{item}]" if isinstance(item, str) else item) for item in items)


# -- what an evaluator returned, as plain data

_MOST_BYTES = 16 << 20
"""Maximum size of one value of an output: characters of a text, or bytes of another value as JSON."""

_MOST_FLAT = 100
"""Maximum number of entries of an object, and of characters of each text in it, whose size need not be measured."""


def as_output(result: object, name: str) -> Output | Partial:
    """Return an evaluator's result as plain data: the items of a mapping, or a number under the evaluator's `name`.

    Return a Partial if values are lost: a value without a JSON form, or not a finite number, becomes null. The other
    keys are kept.

    Raises:
        TypeError: the result is neither a mapping nor a number.
        ValueError: a value is larger than 16 MB (a text: than 16 million characters).
    """
    output: Output = {}
    lost: dict[str, str] = {}
    not_finite: list[str] = []
    values: Mapping[str, Any] = result if isinstance(result, (dict, Mapping)) else {name: _check_number(result)}
    # The common case first: most values are plain already.
    for key, value in values.items():
        kind = type(value)
        if kind is float:
            is_plain = math.isfinite(value)
        elif kind is str:
            is_plain = len(value) <= _MOST_BYTES
        else:
            is_plain = kind in ALWAYS_PLAIN or _is_plain_number(value)

        if is_plain and type(key) is str:
            output[key] = value
            continue
        if type(key) is str and _is_flat(value):
            output[key] = dict(value)
            continue

        try:
            ((plain_key, plain_value),) = cast("Output", plain({key: value}, path=name)).items()
        except TypeError as error:
            lost[str(key)] = str(error)
            if type(key) is str:
                output[key] = None
            continue

        if len(dumps(plain_value)) > _MOST_BYTES:
            raise ValueError(f"the value of {name}.{plain_key} is larger than 16 MB: return a smaller value")

        output[plain_key] = plain_value
        # A number that is not finite becomes null without an error.
        if plain_value is None and value is not None:
            lost[plain_key] = f"{name}.{plain_key}: the number is not finite"
            not_finite.append(plain_key)

    return Partial(output, lost, _scoring_failure(output, lost, not_finite, name)) if lost else output


def _check_number(result: object) -> object:
    """Return an evaluator's result unchanged if it is a number (also NumPy's, or NaN).

    Raises:
        TypeError: the result is no number, or a coroutine, which is closed.
    """
    if inspect.iscoroutine(result):
        result.close()
        raise TypeError("the evaluator returned a coroutine, not a result: write `return await …` in an `async def`")

    # Numbers of NumPy and tensors have `tolist`. A NaN becomes None in plain data.
    may_be_number = isinstance(result, (int, float)) or hasattr(result, "tolist")
    if not may_be_number or not isinstance(plain(result, path="it"), (int, float, type(None))):
        raise TypeError(f"the evaluator returned a {type(result).__name__}: return a dict or a number")
    return result


def _scoring_failure(output: Output, lost: Mapping[str, str], not_finite: Sequence[str], name: str) -> Failure | None:
    """Return the error that excludes a row with null values from the metrics, or None if the row still counts.

    The row is excluded if a metric with a verdict is not finite, or if no value is left. A metric has a verdict if it
    has a `_result`, or is named like the evaluator (`name`). Set the `_result` and `_passed` keys of metrics with a
    verdict that are not finite to null in `output`.

    For example, a score of NaN with `"match_result": "fail"` is no evidence of a failure, so the row is not scored.
    """
    with_verdict = [key for key in not_finite if key == name or f"{key}_result" in output]
    for verdict in (f"{key}_{ending}" for key in with_verdict for ending in ("result", "passed")):
        if verdict in output:
            output[verdict] = None

    if with_verdict:
        return Failure("NotScoredError", lost[with_verdict[0]])

    remaining = [value for key, value in output.items() if value is not None and not has_no_mean(key, output)]
    if not_finite:  # then only a number counts as a value
        remaining = [value for value in remaining if isinstance(value, (int, float))]
    return None if remaining else Failure("NotScoredError", min(lost.values()))


def has_no_mean(key: str, output: Output) -> bool:
    """Return True for a key that is no metric: a threshold, or a judge's token count.

    A token count is recognized by its metric: `relevance_total_tokens` next to `relevance`.
    """
    for ending in ("_prompt_tokens", "_completion_tokens", "_total_tokens"):
        if key.endswith(ending):
            return key.removesuffix(ending) in output
    return key.endswith("_threshold")


def _is_plain_number(value: object) -> bool:
    """Return True for a finite float or an integer of at most 64 bits: JSON can hold it unchanged."""
    if type(value) is float:
        return math.isfinite(value)
    return type(value) is int and value.bit_length() <= 64


def _is_flat(value: object) -> bool:
    """Return True if the value is a small object of numbers, short texts, booleans and None, as most properties are."""
    if type(value) is not dict or len(value) > _MOST_FLAT:
        return False
    for key, item in value.items():
        if type(key) is not str or len(key) > _MOST_FLAT:
            return False
        is_plain = type(item) in ALWAYS_PLAIN or _is_plain_number(item)
        if not is_plain or (type(item) is str and len(item) > _MOST_FLAT):
            return False
    return True


# -- an exception of user code, as a row's error


def as_failure(error: BaseException) -> Failure:
    """Return an exception as a row's error: its type, and its message on one line.

    An error of an endpoint also has its request id and cause. Any other has the innermost place in user code, if any.
    """
    try:
        text = " ".join(str(error).split())
    except BaseException:  # noqa: BLE001 - an exception's text comes from a user's code
        text = ""

    kind, text = type(error).__name__, text[:2000] or "no message"
    if not isinstance(error, EndpointError):
        return Failure(kind, text, place=_place_in_user_code(error))

    cause = error.cause or error_cause(f"{kind} {error.code or ''}: {text}")
    return Failure(kind, text, error.request_id or None, cause)


@cache
def _not_user_code() -> tuple[str, ...]:
    """Return the beginnings of paths whose code is not the user's: libraries, Tunecheck, and code without a file."""
    import sysconfig  # only errors of users' code need it

    libraries = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    return (*(f"{folder}{os.sep}" for folder in (*libraries, Path(__file__).parents[2])), "<")


def _place_in_user_code(error: BaseException) -> str | None:
    """Return file name and line of the innermost user code that an exception passed, or None if it passed none."""
    place = None
    for frame, line in traceback.walk_tb(error.__traceback__):
        file = frame.f_code.co_filename
        if not file.startswith(_not_user_code()):
            place = f"{Path(file).name}:{line}"
    return place
