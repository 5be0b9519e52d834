"""Why a conversation failed: what the model did otherwise than the ground truth in the turn that failed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from tests.bfcl_check_parts import Row, as_tools, check_conversation

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
@pytest.mark.parametrize(
    ("truth", "made", "code", "call"),
    [
        (["get_level()", "fill(liters=1)"], [fill(1)], "skipped_lookup", "fill"),
        (["fill(liters=1.5)"], [fill(2)], "against_state", "fill"),
        (["fill(liters=1)", "boil()"], [BOIL, fill(1)], "gave_up", "boil"),
        (["name(label='blue-7')"], [name("red-9")], "unfounded_value", "name"),
        (["fill(liters=1)"], [fill(1), name("blue-7")], "needless_step", "name"),
        (["fill(liters=1)"], [LEVEL, LEVEL, LEVEL], "loop", "get_level"),
        (["fill(liters=1)"], [("fill<|channel|>commentary", {"liters": 1})], "decorated_name.token", None),
        (["fill(liters=1)"], [("functions.fill:0", {"liters": 2})], "decorated_name", None),
        (["fill(liters=1)"], [("fill_up", {"liters": 1})], "unknown_function", None),
        (["fill(liters=1)", "boil()"], [fill(1)], "missing_call", "boil"),
        (["fill(liters=1)"], [fill(1.2)], "wrong_argument.other", "fill"),
    ],
)
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
    assert "fill(liters=1) without get_level(), which the ground truth calls before" in verdict.reason


@pytest.mark.parametrize("label", ["blue-7", "1500", "7 blue"])
def test_a_value_that_was_given_or_is_put_together_from_what_was_given_is_no_made_up_one(label: str) -> None:
    codes = [cause.code for cause in judged(["name(label='1500')", "fill(liters=1)"], name(label)).causes]
    assert "unfounded_value" not in codes


def test_a_row_that_passes_has_no_causes() -> None:
    assert judged(["fill(liters=1)"], fill(1)).causes == ()
