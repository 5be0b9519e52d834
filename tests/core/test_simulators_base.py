"""User-written backends and simulators: how calls are bound, what goes wrong quietly, what a state is."""

import json
import math
import re
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy
import pytest
from hypothesis import given, strategies as st
from tests.conftest import ROOT
from tests.tables import cases
from tests.text_fragments import WITH_NAN

from tunecheck import DataError, PluginError
from tunecheck.calls import FunctionCall
from tunecheck.formats import read_calls
from tunecheck.plugins import JSON
from tunecheck.simulators import Backend, Backends, Simulator, SimulatorError, result_text, tool


class Counter(Simulator):
    """A number that can be raised."""

    bounded: ClassVar[bool] = True

    def load(self, config: Mapping[str, JSON], *, long_context: object = None) -> None:
        self.value: Any = config.get("value", 0)
        self.seen: set[int] = set()

    def state(self) -> dict[str, object]:
        return {"value": self.value, "seen": self.seen}

    @tool
    def add(self, amount: int = 1, *, twice: bool = False) -> dict[str, Any]:
        """Add to
        the number.

        More about it.

        Args:
            amount: How much to add,
                in whole numbers.
            twice: Whether to add it twice.
        """
        self.value += amount * (2 if twice else 1)
        return {"value": self.value}

    @tool
    def name(self, first: str, last: str) -> str:
        """Put a name together.

        Args:
            first: The first name.
        """
        return f"{first} {last}"

    @tool
    def refuse(self) -> None:
        """Never works."""
        raise SimulatorError("not today")

    @tool
    def crash(self, value: Any = None) -> Any:
        """Fail in some way."""
        raise value if isinstance(value, BaseException) else KeyError(value)

    @tool
    def told(self, value: Any) -> Any:
        """Return what is given."""
        return value

    def hidden(self) -> str:
        return "not a tool"


def started(**config: JSON) -> Backend:
    counter = Counter()
    counter.load(config)
    return Backend({"Counter": counter})


def by_place(values: Iterable[Any]) -> dict[str, Any]:
    return {str(place): value for place, value in enumerate(values)}


def call(backend: Backend, name: str, *positional: Any, **arguments: Any) -> Any:
    return backend.call(FunctionCall(name, by_place(positional) | arguments))


def test_a_call_is_made_by_keyword_and_its_result_is_json_text() -> None:
    result = call(started(value=2), "add", amount=3)
    assert (result.text, result.error, result.value) == ('{"value": 5}', False, {"value": 5})


def test_positional_arguments_are_bound_in_the_order_of_the_signature() -> None:
    assert call(started(), "name", "Ada", "Byron").text == "Ada Byron"
    assert call(started(), "name", "Ada", last="Byron").text == "Ada Byron"


def test_positional_arguments_may_come_as_read_calls_gives_them() -> None:
    (read,) = read_calls("[name('Ada', last='Byron')]").calls
    assert started().call(read).text == "Ada Byron"


@cases("simulators")
def test_wrong_arguments_are_an_error_that_says_which(positional: list[Any], arguments: Any, words: str) -> None:
    result = call(started(), "name", *positional, **arguments)
    assert result.error
    assert words in result.text
    assert len(result.text) < 300


def test_an_argument_of_a_long_name_is_told_in_few_letters() -> None:
    result = call(started(), "name", **{"x" * 100_000: 1})
    assert "no parameter" in result.text
    assert len(result.text) < 300


def test_a_parameter_behind_a_star_is_given_by_name_only() -> None:
    assert call(started(), "add", 1, True).error
    assert call(started(), "add", 1, twice=True).value == {"value": 2}


@pytest.mark.parametrize("name", ["ad", "hidden", "load", "state", "__init__", "", "add.amount", "x" * 100_000])
def test_what_is_not_marked_as_a_tool_cannot_be_called(name: str) -> None:
    result = call(started(), name)
    assert result.error
    assert "there is no operation" in result.text
    assert len(result.text) < 300


def test_an_unknown_operation_suggests_the_nearest_one() -> None:
    assert "did you mean 'refuse'?" in call(started(), "refused").text


def test_a_refusal_is_shown_as_an_error_object() -> None:
    result = call(started(), "refuse")
    assert (result.text, result.error, result.value) == ('{"error": "not today"}', True, {"error": "not today"})
    assert call(started(), "crash", SimulatorError("")).error


@pytest.mark.parametrize("error", [ValueError("a\nb"), RecursionError(), MemoryError(), SystemExit(3)])
def test_an_exception_in_a_simulator_is_an_error_result_of_one_line(error: BaseException) -> None:
    result = call(started(), "crash", error)
    assert result.error
    assert type(error).__name__ in result.text
    assert "\n" not in result.text


def test_an_object_with_an_error_is_an_error_result_unless_it_says_none() -> None:
    assert call(started(), "told", {"error": "no"}).error
    assert call(started(), "told", {"error": ""}).error
    assert not call(started(), "told", {"error": None, "value": 1}).error
    assert not call(started(), "told", "error").error


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("as it is\n", "as it is\n"),
        (None, "None"),
        (["a", 1.0, True], "['a', 1.0, True]"),
        ({"é": math.nan, 1: None}, '{"\\u00e9": NaN, "1": null}'),
        ({"a": {1}}, "{'a': {1}}"),
        ({"a": [1, True, 1.0, numpy.float64(1.5)]}, '{"a": [1, true, 1.0, 1.5]}'),
        ({"a": [1.0, 1, True]}, '{"a": [1.0, 1, true]}'),
        ({"a": ["x"] * 500}, json.dumps({"a": ["x"] * 500})),
        (2.50, "2.5"),
    ],
)
def test_results_are_written_as_bfcl_writes_them(value: object, text: str) -> None:
    assert result_text(value) == text


def test_a_value_without_any_text_is_an_error_result() -> None:
    class Wordless:
        def __str__(self) -> str:
            raise RuntimeError("no words")

    assert call(started(), "told", Wordless()).error


def test_what_returns_too_late_is_an_error_result_and_puts_its_simulator_out_of_order() -> None:
    class Slow(Counter):
        bounded: ClassVar[bool] = False

        @tool
        def wait(self) -> None:
            """Never return."""
            while True:
                time.sleep(0.001)

    slow = Slow()
    slow.load({})
    backend = Backend({"Slow": slow}, time_limit_s=0.05)
    assert call(backend, "add").text == '{"value": 1}'
    assert "did not return within 0.05 seconds" in call(backend, "wait").text
    assert "out of order" in call(backend, "add").text
    assert backend.states() == {"Slow": {"out_of_order_since": "wait"}}
    assert backend.state_texts() == {}


def test_exceptions_of_unbounded_simulators_are_error_results_too() -> None:
    class Wild(Counter):
        bounded: ClassVar[bool] = False

    wild = Wild()
    wild.load({})
    backend = Backend({"Wild": wild})
    assert "KeyError" in call(backend, "crash", 5).text
    assert call(backend, "crash", SystemExit(1)).error
    assert call(backend, "refuse").text == '{"error": "not today"}'


def test_an_operation_that_two_simulators_offer_is_refused_by_name() -> None:
    with pytest.raises(PluginError, match="the simulators One and Two both have a tool 'add'"):
        Backend({"One": Counter(), "Two": Counter()})


def test_tool_definitions_come_from_signatures_and_docstrings() -> None:
    definitions: Any = Counter.tool_definitions()
    assert definitions[0] == {
        "type": "function",
        "function": {
            "name": "add",
            "description": "Add to the number.",
            "parameters": {
                "type": "object",
                "properties": {
                    "amount": {"type": "integer", "description": "How much to add, in whole numbers.", "default": 1},
                    "twice": {"type": "boolean", "description": "Whether to add it twice.", "default": False},
                },
                "required": [],
            },
        },
    }
    assert definitions[1]["function"]["parameters"] == {
        "type": "object",
        "properties": {"first": {"type": "string", "description": "The first name."}, "last": {"type": "string"}},
        "required": ["first", "last"],
    }


def test_operations_are_inherited_and_may_be_replaced() -> None:
    class Doubled(Counter):
        @tool
        def add(self, amount: int = 1) -> dict[str, Any]:  # type: ignore[override]
            """Add twice."""
            return super().add(amount, twice=True)

    doubled = Doubled()
    doubled.load({})
    backend = Backend({"Doubled": doubled})
    assert call(backend, "add").value == {"value": 2}
    assert [each["function"]["name"] for each in backend.tool_definitions()].count("add") == 1  # type: ignore[call-overload,index]


def test_an_operation_with_open_parameters_is_refused() -> None:
    class Open(Simulator):
        @tool
        def anything(self, **values: Any) -> None:
            """Take anything."""

    with pytest.raises(PluginError, match="anything has"):
        Backend({"Open": Open()})


def test_a_state_in_a_log_is_a_copy_and_text_where_json_has_no_form() -> None:
    backend = started(value=[1, {"a": 2}])
    text: Any = backend.state_texts()["Counter"]
    assert text == {"value": [1, {"a": 2}], "seen": "set()"}
    text["value"].append(3)
    assert backend.states()["Counter"]["value"] == [1, {"a": 2}]


def test_backends_of_two_attempts_share_nothing() -> None:
    config: dict[str, Any] = {"value": 1}
    one, other = started(**config), started(**config)
    call(one, "add")
    assert (one.states()["Counter"]["value"], other.states()["Counter"]["value"]) == (2, 1)


def test_a_plugin_that_is_no_simulator_is_refused(tmp_path: Path) -> None:
    (tmp_path / "simulators").mkdir()
    (tmp_path / "simulators" / "thing.py").write_text("class Thing:\n    pass\n")
    with pytest.raises(PluginError, match="must be a subclass"):
        Backends(workspace=tmp_path).find("thing")


@given(
    name=st.sampled_from(["add", "name", "told", "crash", "refuse"]) | st.text(max_size=10),
    arguments=st.dictionaries(st.sampled_from(["amount", "first", "last", "value", "0", "1"]) | st.text(), WITH_NAN),
    positional=st.lists(WITH_NAN, max_size=3),
)
def test_no_call_whatever_raises(name: str, arguments: dict[str, Any], positional: list[Any]) -> None:
    result = started().call(FunctionCall(name, by_place(positional) | arguments))
    assert isinstance(result.text, str)


@pytest.fixture
def backends(tmp_path: Path) -> Backends:
    """A workspace with the simulator of the page in `docs`."""
    page = (ROOT / "docs" / "own-simulators.md").read_text("utf-8")
    (code,) = re.findall(r"```python\n# simulators/thermostat\.py\n(.*?)```", page, re.S)
    (tmp_path / "simulators").mkdir()
    (tmp_path / "simulators" / "thermostat.py").write_text(code)
    return Backends(workspace=tmp_path)


def test_a_file_in_the_workspace_is_a_simulator_of_its_name(backends: Backends) -> None:
    backend = backends.start(["thermostat"], {"thermostat": {"target": 18}})
    assert call(backend, "set_target", degrees=22).text == '{"target": 22}'
    assert backend.states() == {"thermostat": {"target": 22, "locked": False}}


def test_a_simulator_without_a_configuration_starts_from_an_empty_one(backends: Backends) -> None:
    started = backends.start(["thermostat"], {"other": 1})
    assert started.states() == {"thermostat": {"target": 20.0, "locked": False}}
    with pytest.raises(DataError, match=r"initial_config\.thermostat must be an object, not a list"):
        backends.start(["thermostat"], {"thermostat": []})
