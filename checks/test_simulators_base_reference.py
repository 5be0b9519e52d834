"""Files, arithmetic, messages and tweets against the reference: what BFCL's own simulators answer, ours answer."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from checks.simulator_differential import differences, ground_truth_cases, random_cases, replay_reference
from checks.simulator_draws import DRAWS
from checks.simulator_services import ambiguous_refusals, awkward_arguments

from tunecheck.calls._model import FunctionCall
from tunecheck.simulators._backend import Backend, Simulator
from tunecheck_bfcl._services._file_system import GorillaFileSystem
from tunecheck_bfcl._services._math_api import MathAPI
from tunecheck_bfcl._services._message_api import MessageAPI
from tunecheck_bfcl._services._twitter_api import TwitterAPI

SIMULATORS: list[type[Simulator]] = [GorillaFileSystem, MathAPI, MessageAPI, TwitterAPI]

every_simulator = pytest.mark.parametrize("simulator", SIMULATORS, ids=lambda simulator: simulator.__name__)


@every_simulator
def test_the_ground_truth_of_every_entry_gives_the_references_answers(simulator: type[Simulator]) -> None:
    assert differences(simulator, ground_truth_cases(simulator)) == []


@every_simulator
def test_random_calls_give_the_references_answers(simulator: type[Simulator]) -> None:
    draws = DRAWS[simulator.__name__]
    cases = random_cases(simulator, calls=3_000, seed=1, values=draws, with_long_context=True)
    assert differences(simulator, cases) == []


@pytest.mark.slow
@every_simulator
@pytest.mark.parametrize("seed", [2, 3])
def test_many_random_calls_give_the_references_answers(simulator: type[Simulator], seed: int) -> None:
    draws = DRAWS[simulator.__name__]
    cases = random_cases(simulator, calls=25_000, seed=seed, values=draws, with_long_context=True)
    assert differences(simulator, cases) == []


@every_simulator
def test_refusals_read_the_same_exactly_where_the_references_do(simulator: type[Simulator]) -> None:
    drawn = list(random_cases(simulator, calls=3_000, seed=4, values=DRAWS[simulator.__name__]))
    cases = [case for case, replayed in zip(drawn, replay_reference(drawn), strict=True) if not _is_endless(replayed)]
    assert ambiguous_refusals(simulator, cases) == []


def _is_endless(replayed: Any) -> bool:
    """Whether a directory of the reference came to hold itself: from there on the two go apart."""
    return any(result["state"] == "endless" for result in replayed["results"])


@every_simulator
def test_awkward_arguments_are_answered_quickly_and_leave_a_state_that_can_be_kept(simulator: type[Simulator]) -> None:
    made = simulator()
    made.load({})
    backend = Backend({"it": made})
    for operation, arguments in awkward_arguments(simulator):
        result = backend.call(FunctionCall(operation, arguments))
        assert isinstance(result.text, str)
        assert copy.deepcopy(backend.states()) is not None
    assert isinstance(backend.state_texts(), dict)
