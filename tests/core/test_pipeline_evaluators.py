"""Evaluators of every shape: what they may be, what they may return, and what their mistakes cost."""

import asyncio
import datetime
import functools
import json
import math
import re
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn, overload

import numpy as np
import pytest
from tests.endpoint_parts import azure_ml
from tests.fault_server import FaultServer, answer
from tests.pipeline_parts import column, metrics_of, records, rows_of, run
from tests.tables import cases

from tunecheck import ConfigurationError, FunctionCallMatchEvaluator, Metric

DATA = [{"response": text} for text in ("a", "bb", "ccc")]


class Instance:
    def __call__(self, *, response: str) -> dict[str, int]:
        return {"n": len(response)}

    def method(self, response: str) -> dict[str, int]:
        return {"n": len(response)}

    @staticmethod
    def static(response: str) -> dict[str, int]:
        return {"n": len(response)}

    @classmethod
    def made(cls, response: str) -> dict[str, int]:
        return {"n": len(response)}


class Asynchronous:
    async def __call__(self, *, response: str) -> dict[str, int]:
        await asyncio.sleep(0)
        return {"n": len(response)}


async def coroutine(response: str) -> dict[str, int]:
    return {"n": len(response)}


class Overloaded:
    """An evaluator like Azure AI Evaluation's: two ways to call it, declared as overloads."""

    @overload
    def __call__(self, *, response: str) -> dict[str, int]: ...
    @overload
    def __call__(self, *, conversation: list[str]) -> dict[str, int]: ...
    def __call__(self, *args: Any, **kwargs: Any) -> dict[str, int]:
        return {"n": len(kwargs.get("response") or kwargs["conversation"][0])}


def positional(response: str, /, other: int = 0) -> int:
    return 0


def with_rest(*rest: object, response: str) -> dict[str, int]:
    return {"n": len(response)}


@pytest.mark.parametrize(
    "evaluator",
    [
        Instance(),
        Instance,
        Instance().method,
        Instance.static,
        Instance.made,
        Asynchronous(),
        Asynchronous,
        coroutine,
        Overloaded(),
        functools.partial(lambda response, more: {"n": len(response) + more}, more=0),
        functools.partial(coroutine),
        lambda response: {"n": len(response)},
        lambda response, unknown=3: {"n": len(response)},
        with_rest,
    ],
    ids=lambda evaluator: getattr(evaluator, "__qualname__", type(evaluator).__name__),
)
def test_anything_that_can_be_called_with_keywords_is_an_evaluator(tmp_path: Path, evaluator: Any) -> None:
    result = run(tmp_path, DATA, evaluators={"e": evaluator})
    assert column(result, "outputs.e.n") == [1, 2, 3]


def test_overloads_are_chosen_row_by_row(tmp_path: Path) -> None:
    data = [{"response": "four"}, {"conversation": ["sixsix"]}]
    assert column(run(tmp_path, data, evaluators={"e": Overloaded()}), "outputs.e.n") == [4, 6]


class NeedsArguments:
    def __init__(self, threshold: int) -> None: ...
    def __call__(self, *, response: str) -> int:
        return 1


class CannotBeMade(NeedsArguments):
    def __init__(self) -> None:
        raise KeyError("no key")


@pytest.mark.parametrize(
    ("evaluator", "said"),
    [
        (NeedsArguments, r"'e' cannot be created without arguments \(.*threshold.*\): pass an instance"),
        (
            CannotBeMade,
            r"^evaluator 'e' cannot be created without arguments \(KeyError: 'no key'\): "
            "pass an instance, or correct its __init__$",
        ),
        (3, "^evaluator 'e' must be a function or class, not a int$"),
        (None, "^evaluator 'e' must be a function or class, not a NoneType$"),
        (
            positional,
            "^evaluator 'e': parameter 'response' is positional-only: remove the / after it, or wrap the function$",
        ),
        (dict, "the parameters of .* cannot be read|must be a function or class, not a dict"),
        ("no_such_one", "no 'no_such_one' among the evaluators"),
    ],
)
def test_what_cannot_be_an_evaluator_is_said_before_the_first_row(tmp_path: Path, evaluator: Any, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        run(tmp_path, DATA, evaluators={"e": evaluator})
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("name", ["target", "default", "results", "", " ", 3, None])
def test_names_with_a_meaning_of_their_own_are_refused(tmp_path: Path, name: Any) -> None:
    with pytest.raises(ConfigurationError, match="evaluator"):
        run(tmp_path, DATA, evaluators={name: Instance()})


@pytest.mark.parametrize("evaluators", [None, {}, [], ["bleu"], "bleu"])
def test_evaluators_must_be_a_dict_of_at_least_one(tmp_path: Path, evaluators: Any) -> None:
    with pytest.raises(ConfigurationError, match="evaluators must be a non-empty dict of evaluators by name, not "):
        run(tmp_path, DATA, evaluators=evaluators)


@pytest.mark.parametrize(
    ("returned", "output"),
    [
        ({"n": 1}, {"n": 1}),
        ({}, {}),
        (0.5, {"e": 0.5}),
        (True, {"e": True}),
        (7, {"e": 7}),
        ({"v": np.array([[1, 2], [3, 4]]), "n": 1}, {"v": [[1, 2], [3, 4]], "n": 1}),
        ({"v": np.array([0.5, float("nan")]), "n": 1}, {"v": [0.5, None], "n": 1}),
        (np.array(0.5), {"e": 0.5}),
        (np.float64(0.5), {"e": 0.5}),
        (np.bool_(False), {"e": False}),
        ({"n": np.int64(3), "f": np.float32(0.5), "nan": float("nan")}, {"n": 3, "f": 0.5, "nan": None}),
        (
            {"t": (1, 2), 3: "x", "deep": {"l": [{"a": (None,)}]}},
            {"t": [1, 2], "3": "x", "deep": {"l": [{"a": [None]}]}},
        ),
        ({"big": 2**70, "lone": "\ud83d", "": 1}, {"big": 2**70, "lone": "\ud83d", "": 1}),
    ],
)
def test_an_output_is_plain_data(tmp_path: Path, returned: Any, output: dict[str, Any]) -> None:
    result = run(tmp_path, DATA[:1], evaluators={"e": lambda response: returned})
    (row,) = rows_of(result)
    written = {key: value for key, value in row.items() if key.startswith("outputs.e.")}
    assert written == {f"outputs.e.{key}": value for key, value in output.items()}
    assert metrics_of(result)["e.scored_count"] == 1


@pytest.mark.parametrize(
    ("returned", "said"),
    [
        (None, "the evaluator returned a NoneType: return a dict or a number"),
        ([1, 2], "the evaluator returned a list: return a dict or a number"),
        ("pass", "the evaluator returned a str: return a dict or a number"),
        (object(), "the evaluator returned a object: return a dict or a number"),
        (np.array([1.0, 2.0]), "the evaluator returned a ndarray: return a dict or a number"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_an_output_of_another_kind_is_an_error_of_its_rows(tmp_path: Path, returned: Any, said: str) -> None:
    result = run(tmp_path, DATA, evaluators={"e": lambda response: returned, "other": Instance()})
    for row in rows_of(result):
        assert row["error.e"]["type"] == "TypeError"
        assert row["error.e"]["message"].startswith(said)
    assert column(result, "outputs.other.n") == [1, 2, 3]


ODD = [
    (
        {"when": datetime.date(2024, 1, 5)},
        "e.when: a value of type date has no JSON form: convert it to a text, number, list or dict",
    ),
    ({"s": {1, 2}}, "e.s: a value of type set has no JSON form: convert it to a text, number, list or dict"),
    (
        {"deep": [{"x": object()}]},
        r"e.deep[0].x: a value of type object has no JSON form: convert it to a text, number, list or dict",
    ),
    ({None: 1}, "e: a key of type NoneType has no JSON form: use a text"),
    ({"n": 10**5000}, "e.n: a value of type int is too large: use a text"),
    (
        {"v": np.array([object()])},
        "e.v[0]: a value of type object has no JSON form: convert it to a text, number, list or dict",
    ),
    ({"nan": float("nan")}, "e.nan: the number is not finite"),
    ({"inf": -math.inf}, "e.inf: the number is not finite"),
    ({"nan": np.float32("nan")}, "e.nan: the number is not finite"),
]


@pytest.mark.parametrize(("odd", "said"), ODD, ids=[said for _, said in ODD])
def test_an_odd_value_costs_its_key_and_not_the_row(tmp_path: Path, odd: dict[Any, Any], said: str) -> None:
    result = run(tmp_path, DATA, evaluators={"e": lambda response: {"good": 1} | odd})
    assert column(result, "outputs.e.good") == [1, 1, 1]
    assert all(row.get(f"outputs.e.{key}") is None for row in rows_of(result) for key in odd)
    assert (metrics_of(result)["e.scored_count"], metrics_of(result)["e.good"]) == (3, 1)
    assert result.notes == [f"{said}: stored as null on 3 rows"]


@pytest.mark.parametrize(("odd", "said"), ODD, ids=[said for _, said in ODD])
def test_a_row_of_which_nothing_is_left_is_an_error(tmp_path: Path, odd: dict[Any, Any], said: str) -> None:
    result = run(tmp_path, DATA, evaluators={"e": lambda response: odd | {"e_threshold": 3}})
    assert column(result, "error.e") == [{"type": "NotScoredError", "message": said}] * 3
    assert (metrics_of(result)["e.scored_count"], metrics_of(result)["e.error_count"]) == (0, 3)


@pytest.mark.parametrize("number", [float("nan"), np.float64("nan"), math.inf])
def test_a_number_that_is_none_is_not_scored(tmp_path: Path, number: float) -> None:
    """Azure's judges report their failure in this way: nan, and `fail` because nothing is above a threshold by nan."""
    judged = {"e": number, "e_result": "fail", "e_passed": False, "e_reason": "", "e_threshold": 3, "other": 0.5}
    for returned in (number, judged):
        result = run(tmp_path, DATA[:2], evaluators={"e": lambda response, r=returned: r if response == "a" else 1})
        assert column(result, "outputs.e.e") == [None, 1]
        error = {"type": "NotScoredError", "message": "e.e: the number is not finite"}
        assert column(result, "error.e") == [error, None]
        metrics = metrics_of(result)
        assert (metrics["e.scored_count"], metrics["e.error_count"], metrics["e.e"]) == (1, 1, 1)
        assert metrics.get("e.binary_aggregate") is None
    assert column(result, "outputs.e.other") == [0.5, None], "the other keys stand"
    assert column(result, "outputs.e.e_result") == column(result, "outputs.e.e_passed") == [None, None]


def test_a_value_that_holds_itself_costs_its_key(tmp_path: Path) -> None:
    def knot(response: str) -> dict[str, Any]:
        value: dict[str, Any] = {"n": 1}
        value["self"] = value
        return value

    result = run(tmp_path, DATA[:1], evaluators={"e": knot})
    assert column(result, "outputs.e.n") == [1]
    assert "nested deeper" in result.notes[0]


def test_a_coroutine_from_a_synchronous_function_says_what_to_do(tmp_path: Path) -> None:
    result = run(tmp_path, DATA[:1], evaluators={"e": lambda response: coroutine(response)})
    assert "write `return await …` in an `async def`" in column(result, "error.e")[0]["message"]


class Unprintable(Exception):
    def __str__(self) -> str:
        raise SystemExit("no text")


def fails(error: BaseException | type[BaseException]) -> Callable[..., NoReturn]:
    def evaluator(response: str) -> NoReturn:
        raise error

    return evaluator


def fails_later(error: BaseException | type[BaseException]) -> Callable[..., Any]:
    async def evaluator(response: str) -> NoReturn:
        await asyncio.sleep(0)
        raise error

    return evaluator


ERRORS = [
    (ValueError("two\nlines"), "ValueError", "two lines"),
    (ValueError(), "ValueError", "no message"),
    (Unprintable(), "Unprintable", "no message"),
    (SystemExit(3), "SystemExit", "3"),
    (StopIteration("over"), "StopIteration|RuntimeError", "over|coroutine raised StopIteration"),
    (asyncio.CancelledError("mine"), "CancelledError", "mine"),
    (RecursionError("deep"), "RecursionError", "deep"),
    (ValueError("x" * 100_000), "ValueError", "x" * 2000),
    (ValueError("\ud83d"), "ValueError", "\ud83d"),
    (TimeoutError("slow"), "TimeoutError", "slow"),
    (KeyboardInterrupt("mine"), "KeyboardInterrupt", "mine"),
    (GeneratorExit("gone"), "GeneratorExit", "gone"),
    (BaseException("base"), "BaseException", "base"),
]


@pytest.mark.parametrize("make", [fails, fails_later], ids=["synchronous", "asynchronous"])
@pytest.mark.parametrize(("error", "name", "said"), ERRORS, ids=[name for _, name, _ in ERRORS])
def test_an_exception_is_its_rows_error_alone(tmp_path: Path, make: Any, error: Any, name: str, said: str) -> None:
    failing = make(error)

    async def sometimes_later(response: str) -> Any:
        return await failing(response) if response == "bb" else {"n": 1}

    def sometimes(response: str) -> Any:
        return failing(response) if response == "bb" else {"n": 1}

    evaluator = sometimes_later if make is fails_later else sometimes
    result = run(tmp_path, DATA, evaluators={"e": evaluator, "other": Instance()})
    found = column(result, "error.e")
    assert (found[0], found[2]) == (None, None)
    assert found[1]["type"] in name.split("|")
    assert found[1]["message"] in said.split("|")
    assert column(result, "outputs.e.n") == [1, None, 1]
    assert column(result, "outputs.other.n") == [1, 2, 3]
    assert metrics_of(result)["e.error_count"] == 1


def test_a_failing_row_is_noted_in_the_journal_for_people(tmp_path: Path) -> None:
    result = run(tmp_path, DATA[:1], evaluators={"e": fails(ValueError("no"))})
    (noted,) = records(result, "error")
    noted.pop("c")  # its number and checksum
    assert re.fullmatch(r"test_pipeline_evaluators\.py:\d+", noted.pop("place"))
    assert noted == {"k": "error", "i": 0, "id": "row-1", "stage": "e", "type": "ValueError", "message": "no"}


def test_an_error_in_a_library_names_the_line_of_user_code_that_called_it(tmp_path: Path) -> None:
    def parse(response: str) -> object:
        return json.loads(response)

    result = run(tmp_path, DATA[:1], evaluators={"e": parse})
    line = parse.__code__.co_firstlineno + 1
    assert column(result, "error.e")[0]["place"] == f"test_pipeline_evaluators.py:{line}"


def vandal(messages: list[Any], row: dict[str, Any]) -> dict[str, int]:
    messages[0]["content"] = "changed"
    messages.append({"role": "user"})
    row["deep"]["list"].clear()
    row["new"] = 1
    return {"n": len(messages)}


async def asynchronous_vandal(messages: list[Any], row: dict[str, Any]) -> dict[str, int]:
    return vandal(messages, row)


def witness(messages: list[Any], row: dict[str, Any]) -> dict[str, Any]:
    return {"saw": [messages, row]}


def nested() -> list[dict[str, Any]]:
    return [{"messages": [{"role": "user", "content": str(n)}], "row": {"deep": {"list": [n]}}} for n in range(20)]


@pytest.mark.parametrize("evaluator", [vandal, asynchronous_vandal])
def test_an_evaluator_that_changes_its_inputs_changes_nobody_s(tmp_path: Path, evaluator: Any) -> None:
    data = nested()
    result = run(tmp_path, data, evaluators={"first": evaluator, "w": witness, "second": evaluator})
    assert column(result, "outputs.w.saw") == [[row["messages"], row["row"]] for row in nested()]
    assert column(result, "inputs.messages") == [row["messages"] for row in nested()]
    assert set(column(result, "outputs.second.n")) == {2}
    assert data == nested(), "the caller's own rows were changed"


def test_an_evaluator_that_changes_the_answer_changes_nobody_s(tmp_path: Path) -> None:
    messages = [{"role": "assistant", "content": "a"}]
    evaluators = {"first": vandal, "w": witness}
    answer = {"messages": messages, "row": {"deep": {"list": [1]}}}
    result = run(tmp_path, [{"q": 1}] * 5, target=lambda q: answer, evaluators=evaluators)
    assert column(result, "outputs.messages") == [[{"role": "assistant", "content": "a"}]] * 5
    assert column(result, "outputs.w.saw") == [[[{"role": "assistant", "content": "a"}], {"deep": {"list": [1]}}]] * 5


def test_values_that_only_live_in_memory_reach_evaluators_as_they_are(tmp_path: Path) -> None:
    """Copying them through JSON would turn dates into texts, NaN into None and number keys into text keys."""
    inner = object()
    values = [datetime.date(2024, 1, 5), float("nan"), {1: "a"}, (1, [2]), {3}, inner]

    def look(values: list[Any]) -> dict[str, Any]:
        date, nan, numbers, pair, some, opaque = values
        assert isinstance(date, datetime.date)
        assert nan != nan
        assert numbers == {1: "a"}
        assert pair == (1, [2])
        assert isinstance(some, set)
        return {"same": opaque is inner}

    result = run(tmp_path, [{"values": values}], evaluators={"e": look})
    assert column(result, "outputs.e.same") == [True]


def test_a_row_value_without_a_json_form_is_left_out_of_the_results_and_said(tmp_path: Path) -> None:
    data = [{"a": object(), "b": 1}, {"a": 10**5000, "b": 2}, {"a": 3, "b": 3}]
    result = run(tmp_path, data, evaluators={"e": lambda a, b: {"b": b}})
    assert column(result, "inputs.a") == [None, None, 3]
    assert column(result, "inputs.b") == column(result, "outputs.e.b") == [1, 2, 3]
    errors = column(result, "error.results")
    assert (
        "inputs.a: $: a value of type object has no JSON form: convert it to a text, number, list or dict"
        in errors[0]["message"]
    )
    assert (bool(errors[1]), errors[2]) == (True, None)
    assert result.failed_row_count == 2


def test_asynchronous_evaluators_share_one_event_loop(tmp_path: Path) -> None:
    loops: set[int] = set()

    async def look(response: str) -> int:
        loops.add(id(asyncio.get_running_loop()))
        return 1

    async def target(response: str) -> dict[str, int]:
        loops.add(id(asyncio.get_running_loop()))
        return {"a": 1}

    run(tmp_path, DATA, target=target, evaluators={"a": look, "b": look})
    assert len(loops) == 1


def test_synchronous_evaluators_do_not_run_in_the_event_loop(tmp_path: Path) -> None:
    threads: set[str] = set()

    def look(response: str) -> int:
        threads.add(threading.current_thread().name)
        return 1

    run(tmp_path, DATA, evaluators={"a": look})
    assert all(name.startswith("tunecheck") for name in threads)


def test_what_an_evaluator_prints_goes_where_print_goes(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Azure swaps sys.stdout while it runs, and scrubs what others print."""
    before = sys.stdout

    def noisy(response: str) -> int:
        print("sort_key=zzz", response)
        return 1

    run(tmp_path, DATA, evaluators={"a": noisy})
    assert sys.stdout is before
    assert capfd.readouterr().out.count("sort_key=zzz") == 3


class Declaring:
    def __init__(self, metrics: Any = (), primary: Any = None) -> None:
        self.metrics = metrics
        self.primary = primary

    def __call__(self, *, response: str) -> dict[str, Any]:
        return {"n": 1}


@pytest.mark.parametrize("metrics", [["a"], "abc", 3, None, {"a": 1}, [object()], lambda: 1, [None]])
def test_an_untrusted_attribute_called_metrics_means_nothing_here(tmp_path: Path, metrics: Any) -> None:
    result = run(tmp_path, DATA, evaluators={"e": Declaring(metrics, primary=object())})
    assert metrics_of(result)["e.n"] == 1


def test_a_run_says_that_evaluators_are_not_given_the_tools_of_the_data(tmp_path: Path) -> None:
    tools = [{"name": "get_weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}]
    rows = [{"ground_truth": 'get_weather(city="Oslo")', "response": 'get_weather(city="Oslo")', "tools": tools}]
    evaluators = {"calls": FunctionCallMatchEvaluator(), "own": lambda response: 1}
    told = "calls are not checked against the tools in the column 'tools'"
    mapped = {"default": {"column_mapping": {"tool_definitions": "${data.tools}"}}}
    assert any(note.startswith(told) for note in run(tmp_path, rows, evaluators=evaluators).notes)
    for arguments in ({"evaluator_config": mapped}, {"evaluators": {"own": evaluators["own"]}}):
        given = run(tmp_path, rows, **{"evaluators": evaluators, **arguments})
        assert not any(told in note for note in given.notes)
    assert column(run(tmp_path, rows, evaluators=evaluators, evaluator_config=mapped), "row_kind") == ["call"]


@cases("pipeline")
def test_a_run_says_that_tools_are_never_sent(tmp_path: Path, body: dict[str, Any], column: str, said: bool) -> None:
    rows = [{"query": "Hi", column: [{"name": "f", "parameters": {}}]}]
    with FaultServer(lambda *_: answer({"result": "hi"})) as server:
        endpoint = azure_ml(server.url, request=body, response="result")
        notes = run(tmp_path, rows, target=endpoint, evaluators={"own": lambda response: 1}).notes
    assert any("never receives the data's tools: write ${tools} in `request`" in note for note in notes) is said


def test_a_metric_with_a_range_beyond_floats_is_refused(tmp_path: Path) -> None:
    class Graded(Instance):
        metrics = (Metric("n", range=(0, 10**400)),)

    with pytest.raises(ConfigurationError, match="metric 'n': Number out of range"):
        run(tmp_path, DATA, evaluators={"graded": Graded()})
