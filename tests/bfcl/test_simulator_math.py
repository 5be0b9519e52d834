"""MathAPI: Python's arithmetic, exact roots and logarithms, conversions; and nothing that could run for ever."""

from __future__ import annotations

import decimal
import math
import threading
from typing import Any

import pytest
from hypothesis import given, strategies as st

from tunecheck.calls import FunctionCall
from tunecheck.simulators import Backend, OperationResult
from tunecheck_bfcl._services._math_api import MAX_PRECISION, MathAPI

NUMBERS = st.integers(-(10**12), 10**12) | st.floats(allow_nan=False, allow_infinity=False, width=64)


def call(name: str, *positional: Any, **arguments: Any) -> OperationResult:
    return Backend({"MathAPI": MathAPI()}).call(FunctionCall(name, arguments), positional)


@pytest.mark.parametrize(
    ("name", "arguments", "text"),
    [
        ("add", (1, 2), '{"result": 3}'),
        ("add", (1, 2.0), '{"result": 3.0}'),
        ("subtract", (1, 2.5), '{"result": -1.5}'),
        ("multiply", (3, 4), '{"result": 12}'),
        ("divide", (3, 2), '{"result": 1.5}'),
        ("power", (2, 10), '{"result": 1024}'),
        ("power", (2, -1), '{"result": 0.5}'),
        ("percentage", (1, 4), '{"result": 25.0}'),
        ("absolute_value", (-3,), '{"result": 3}'),
        ("round_number", (2.345, 2), '{"result": 2.35}'),
        ("round_number", (2.5,), '{"result": 2.0}'),
        ("sum_values", ([1, 2, 3],), '{"result": 6}'),
        ("mean", ([1, 2],), '{"result": 1.5}'),
        ("standard_deviation", ([2, 4, 4, 4, 5, 5, 7, 9],), '{"result": 2.0}'),
        ("min_value", ([3, 1],), '{"result": 1}'),
        ("max_value", ([3, 1],), '{"result": 3}'),
        ("si_unit_conversion", (2, "km", "m"), '{"result": 2000.0}'),
        ("imperial_si_conversion", (100, "celsius", "fahrenheit"), '{"result": 212.0}'),
        ("imperial_si_conversion", (2, "in", "cm"), '{"result": 5.08}'),
    ],
)
def test_results_are_what_python_makes_of_the_numbers(name: str, arguments: tuple[Any, ...], text: str) -> None:
    result = call(name, *arguments)
    assert (result.text, result.error) == (text, False)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("divide", (1, 0)),
        ("percentage", (1, 0)),
        ("add", (1, "2")),
        ("multiply", ("a", 3)),
        ("mean", ([],)),
        ("sum_values", (["1"],)),
        ("square_root", (-1, 5)),
        ("logarithm", (8, 1, 5)),
        ("logarithm", ("eight", 2, 5)),
        ("si_unit_conversion", (1, "ft", "m")),
        ("imperial_si_conversion", (1, "stone", "kg")),
        ("imperial_si_conversion", ("1", "in", "cm")),
    ],
)
def test_what_has_no_result_is_an_error_result(name: str, arguments: tuple[Any, ...]) -> None:
    assert call(name, *arguments).error


def test_roots_have_as_many_digits_as_asked_for() -> None:
    # sqrt(2), OEIS A002193
    assert call("square_root", 2, 30).text == "{'result': Decimal('1.41421356237309504880168872421')}"


@pytest.mark.parametrize(
    ("value", "base", "digits"),
    [
        # log2(10), OEIS A020862; ln(10)/ln(3), A152566
        (10, 2, "3.321928094887362347870319429489390175864831393024580612054756395815934776608625"),
        (10, 3, "2.095903274289384604296567522435127"),
    ],
)
def test_logarithms_have_as_many_correct_digits_as_asked_for(value: int, base: int, digits: str) -> None:
    for precision in range(5, len(digits) - 3, 7):
        text = call("logarithm", value, base, precision).text
        assert text.startswith(f"{{'result': mpf('{digits[: precision + 1]}")


def test_a_logarithm_of_a_negative_number_is_complex() -> None:
    # ln(-1)/ln(2) = i pi/ln(2) = 4.532360141827193809...i
    assert call("logarithm", -1, 2, 12).text.startswith("{'result': mpc(real='0.0', imag='4.532360141827")


@given(value=NUMBERS.filter(lambda number: number > 0), base=st.floats(1.5, 1e6))
def test_logarithms_agree_with_floating_point(value: float, base: float) -> None:
    text = call("logarithm", value, base, 20).text
    assert float(text.removeprefix("{'result': mpf('").removesuffix("')}")) == pytest.approx(
        math.log(value) / math.log(base), rel=1e-11, abs=1e-13
    )


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("logarithm", (10, 2, 10**8)),
        ("logarithm", (10, 2, MAX_PRECISION + 1)),
        ("logarithm", (10**400, "1e999999999", 5)),
        ("logarithm", ("9" * 5_000, 2, 5)),
        ("square_root", (2, 10**8)),
        ("square_root", (2, 10**400)),
        ("power", (3, 10**8)),
        ("power", (10**300, 10**300)),
        ("power", (3.0, 10**400)),
        ("power", (-2, -(10**8))),
        ("multiply", ("ab", 10**9)),
        ("multiply", ([1], 10**9)),
        ("multiply", (10**4000, 10**4000)),
        ("add", (10**5000, 1)),
    ],
)
def test_what_could_run_or_grow_without_end_does_not(name: str, arguments: tuple[Any, ...]) -> None:
    result = call(name, *arguments)
    assert result.error or result.text == '{"result": 0.0}'


@pytest.mark.parametrize(("places", "text"), [(-(10**9), "0"), (-(10**400), "0"), (10**9, "12345"), (10**400, "12345")])
def test_a_whole_number_may_be_rounded_to_any_number_of_places(places: int, text: str) -> None:
    assert call("round_number", 12345, places).text == f'{{"result": {text}}}'


@given(
    st.sampled_from(list(MathAPI.operations())),
    st.lists(NUMBERS | st.sampled_from(["m", "cm", "7", None, [1, 2.5], [], {}, 10**300]), max_size=3),
)
def test_no_call_fails_to_come_back(name: str, arguments: list[Any]) -> None:
    assert isinstance(call(name, *arguments).text, str)


def test_precision_is_each_calls_own_in_every_thread() -> None:
    """The caller's decimal context stays as it is, and calls side by side do not change each other's digits."""
    before = decimal.getcontext().prec
    expected = {digits: call("square_root", 2, digits).text for digits in range(1, 60)}
    logs = {digits: call("logarithm", 7, 3, digits).text for digits in range(1, 60)}
    wrong: list[int] = []

    def work() -> None:
        for digits, text in expected.items():
            if call("square_root", 2, digits).text != text or call("logarithm", 7, 3, digits).text != logs[digits]:
                wrong.append(digits)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert decimal.getcontext().prec == before


def test_there_is_no_state() -> None:
    backend = Backend({"MathAPI": MathAPI()})
    backend.call(FunctionCall("add", {"a": 1, "b": 2}))
    assert backend.states() == {"MathAPI": {}}
    assert backend.state_texts() == {}
