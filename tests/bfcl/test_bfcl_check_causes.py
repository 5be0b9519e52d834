"""Why a conversation failed: what the model did otherwise than the ground truth in the turn that failed."""

from collections.abc import Mapping
from typing import Any

import pytest
from tests.bfcl_check_parts import Row, as_tools, check_conversation
from tests.tables import cases

from tunecheck.episodes import RowVerdict, Services
from tunecheck.plugins import JSON
from tunecheck.simulators import Simulator, SimulatorError, tool


class Kettle(Simulator):
    """A kettle of two liters, with half a liter in it."""

    def load(self, config: Mapping[str, JSON], *, long_context: Mapping[str, JSON] | None = None) -> None:
        self.liters, self.hot, self.label = float(str(config.get("liters", 0.5))), False, ""

    def state(self) -> dict[str, object]:
        return {"liters": self.liters, "hot": self.hot, "label": self.label}

    @tool
    def get_level(self) -> dict[str, float]:
        """How much is in it."""
        return {"liters": self.liters}

    @tool
    def fill(self, liters: float) -> dict[str, float]:
        """Fill it."""
        if self.liters + liters > 2:
            raise SimulatorError("the kettle holds no more than 2 liters")
        self.liters += liters
        return {"liters": self.liters}

    @tool
    def boil(self) -> str:
        """Boil what is in it."""
        if self.liters < 1:
            raise SimulatorError("too little water")
        self.hot = True
        return "hot"

    @tool
    def name(self, label: str) -> str:
        """Label it."""
        self.label = label
        return label


KETTLES = Services({"Kettle": Kettle})
LEVEL: tuple[str, Row] = ("get_level", {})
BOIL: tuple[str, Row] = ("boil", {})


def fill(liters: float) -> tuple[str, Row]:
    return "fill", {"liters": liters}


def name(label: str) -> tuple[str, Row]:
    return "name", {"label": label}


def judged(truth: list[str], *made: tuple[str, Row], compat: bool = True) -> RowVerdict:
    row: Row = {
        "ground_truth": [[], truth],
        "involved_classes": ["Kettle"],
        "turns": [[{"role": "user", "content": "Hi."}], [{"role": "user", "content": "Label it blue-7, or 1,500."}]],
    }
    result: list[Any] = [["Hello."], [*(as_tools([call]) for call in made), "Done."]]
    return check_conversation(row, result, compat=compat, services=KETTLES)


@pytest.mark.parametrize("compat", [True, False], ids=["bfcl", "strict"])
@cases("bfcl")
def test_what_the_model_did_otherwise_is_named(
    truth: list[str], made: list[Any], code: str, call: str | None, compat: bool
) -> None:
    causes = judged(truth, *made, compat=compat).causes
    assert (causes[0].code, causes[0].call, causes[0].turn) == (code, call or made[0][0], 2)


def test_what_was_done_in_a_turn_that_asks_for_nothing_is_named_where_it_shows_later() -> None:
    row: Row = {"ground_truth": [[], ["fill(liters=1)"]], "involved_classes": ["Kettle"]}
    result = [[as_tools([name("x")])], [as_tools([fill(1)])]]
    (cause,) = check_conversation(row, result, compat=True, services=KETTLES).causes
    assert (cause.code, cause.call, cause.turn) == ("extra_call", "name", 1)


def test_the_evidence_is_the_call_and_the_one_of_the_ground_truth_where_they_part() -> None:
    verdict = judged(["get_level()", "fill(liters=1)"], fill(1))
    (cause,) = verdict.causes
    assert cause.expected == {"name": "get_level", "arguments": {}}
    assert cause.actual == {"name": "fill", "arguments": {"liters": 1}}
    assert verdict.reason is not None
    assert "fill(liters=1) without get_level(), which the ground truth calls first" in verdict.reason


def test_true_is_another_value_than_one() -> None:
    row: Row = {"ground_truth": [["fill(liters=1)"]], "involved_classes": ["Kettle"]}
    row["initial_config"] = {"Kettle": {"liters": 0}}
    for again, causes in (True, ["extra_call"]), (1.0, []):
        result = [[as_tools([fill(1)]), as_tools([fill(again)]), "Done."]]
        verdict = check_conversation(row, result, compat=True, services=KETTLES)
        assert (verdict.valid, [cause.code for cause in verdict.causes]) == (False, causes)


@pytest.mark.parametrize("label", ["blue-7", "1500", "7 blue"])
def test_a_value_that_was_given_or_is_put_together_from_what_was_given_is_no_made_up_one(label: str) -> None:
    codes = [cause.code for cause in judged(["name(label='1500')", "fill(liters=1)"], name(label)).causes]
    assert "unfounded_value" not in codes


def test_a_row_that_passes_has_no_causes() -> None:
    assert judged(["fill(liters=1)"], fill(1)).causes == ()
