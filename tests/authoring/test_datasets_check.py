"""`check`: what is wrong with a multi-turn data set is found by replaying its ground truth."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.tables import cases

from tunecheck import DataError
from tunecheck.calls import FunctionCall
from tunecheck.episodes import Services
from tunecheck.plugins import JSON
from tunecheck.simulators import Simulator, SimulatorError, tool
from tunecheck_authoring import PROBLEMS, findings


class Shelf(Simulator):
    """A shelf of notes by name, numbered tickets, and a door; its operations fail and refuse like real ones."""

    def load(self, config: Mapping[str, JSON], *, long_context: Mapping[str, JSON] | None = None) -> None:
        if not isinstance(config.get("notes", {}), dict):
            raise DataError("notes must be an object")
        given: Any = config
        self.notes: dict[str, str] = dict(given.get("notes", {}))
        self.tickets: list[dict[str, JSON]] = [dict(ticket) for ticket in given.get("tickets", [])]
        self.orders: dict[str, str] = dict(given.get("orders", {}))
        self.next: int = given.get("next", 1)
        self.words = "" if long_context is None else str(long_context["WORDS"])

    def state(self) -> dict[str, object]:
        return {"notes": self.notes, "tickets": self.tickets, "orders": self.orders, "next": self.next}

    @tool
    def create(self, name: str, text: str = "") -> None:
        """Make a note; its name must be free."""
        if name in self.notes:
            raise SimulatorError(f"{name} is there already")
        self.notes[name] = text

    @tool
    def ensure(self, name: str) -> None:
        """Make a note where there is none."""
        self.notes.setdefault(name, "")

    @tool
    def read(self, name: str) -> dict[str, str]:
        """Read a note."""
        if name not in self.notes:
            raise SimulatorError(f"there is no {name}")
        return {"text": self.notes[name] + self.words}

    @tool
    def open_ticket(self, title: str) -> dict[str, JSON]:
        """Open a ticket under the next number."""
        ticket: dict[str, JSON] = {"id": self.next, "title": title}
        self.tickets.append(ticket)
        self.next += 1
        return dict(ticket)

    @tool
    def order(self, what: str) -> dict[str, JSON]:
        """Order something under the next number."""
        self.orders[str(self.next)] = what
        self.next += 1
        return {"order_id": self.next - 1}

    @tool
    def login(self, password: str) -> dict[str, bool]:
        """Log in."""
        return {"login_status": password == "right"}

    @tool
    def get_login_status(self) -> dict[str, bool]:
        """Ask for it."""
        return {"login_status": False}

    @tool
    def wait(self) -> None:
        """Do nothing."""

    @tool
    def sleep(self) -> None:
        """Do nothing for long."""
        time.sleep(30)


class Clock(Simulator):
    """It has no state, and so nothing to configure."""

    @tool
    def now(self) -> str:
        """Tell the time."""
        return "noon"


SIMULATORS: dict[str, type[Simulator]] = {"Shelf": Shelf, "Clock": Clock}


def _row(*truth: list[Any], **columns: Any) -> dict[str, Any]:
    """An entry with these calls a turn, in which all is well otherwise."""
    turns = [[{"role": "user", "content": "please"}] for _ in truth]
    config = {"Shelf": {"notes": {"old": "words"}}}
    row = {"id": "entry", "turns": turns, "ground_truth": list(truth), "involved_classes": ["Shelf"]}
    return row | {"initial_config": config} | columns


def _found(
    *rows: Mapping[str, Any], long_context: Mapping[str, JSON] | None = None, time_limit_s: float = 10
) -> list[tuple[str, int | None, str]]:
    """Problem, turn and text of everything that is found."""
    constants = None if long_context is None else lambda: long_context
    services = Services(SIMULATORS, long_context=constants, time_limit_s=time_limit_s)
    found = list(findings(rows, services))
    assert all(finding.problem in PROBLEMS for finding in found)
    return [(finding.problem, finding.turn, finding.text) for finding in found]


def test_a_sound_entry_has_nothing_to_be_found() -> None:
    assert _found(_row(["create(name='new')", "read('new')"], [], ["open_ticket(title='a')"])) == []


def test_calls_may_stand_in_any_format() -> None:
    tool_call = {"type": "function", "function": {"name": "read", "arguments": '{"name": "old"}'}}
    assert _found(_row([tool_call], ["[create('a'), read('a')]"], [{"name": "read", "arguments": {"name": "a"}}])) == []


def test_a_call_that_fails_is_found_with_its_turn_and_the_simulators_words() -> None:
    (found,) = list(findings([_row(["read('old')"], ["read('new')"])], Services(SIMULATORS)))
    assert (found.entry, found.turn, found.problem, found.call) == ("entry", 1, "call_fails", "read('new')")
    assert found.text == '{"error": "there is no new"}'
    assert not found.is_remark


def test_a_call_may_fail_if_the_row_says_that_it_does() -> None:
    assert _found(_row(["read('new')", "read('old')"], failing_calls=["read('new')"])) == []


def test_a_call_that_is_said_to_fail_and_succeeds_is_found() -> None:
    (found,) = _found(_row(["read('old')"], failing_calls=["read('old')"]))
    assert found == ("call_fails", 0, "failing_calls lists it, and it succeeds")


def test_a_call_of_what_no_simulator_has_fails_and_is_not_offered() -> None:
    assert [problem for problem, _, _ in _found(_row(["rea('old')"]))] == ["not_offered", "call_fails"]


def test_a_call_that_cannot_be_read_is_found_and_the_others_are_made_all_the_same() -> None:
    found = _found(_row(["read(name=open('x'))", "read('nowhere')"]))
    assert [problem for problem, _, _ in found] == ["unreadable_call", "call_fails"]


def test_an_answer_that_says_no_is_found_unless_the_call_only_asks() -> None:
    assert _found(_row(["login('wrong')"], ["get_login_status()"], ["login('right')"])) == [
        ("reports_failure", 0, '{"login_status": false}')
    ]


def test_a_turn_whose_calls_neither_change_nor_read_is_found() -> None:
    nothing = ("no_effect", 1, "the calls of this turn neither change nor read anything")
    assert _found(_row(["wait()", "read('old')"], ["wait()", "wait()"], [])) == [nothing]


def test_a_number_that_is_taken_when_a_call_gives_it_away_is_found_in_lists_and_objects() -> None:
    taken = {"Shelf": {"tickets": [{"id": 1, "title": "old"}], "orders": {"2": "old"}, "next": 1}}
    found = _found(_row(["open_ticket('new')"], ["order('new')"], initial_config=taken))
    assert found == [
        ("already_there", 0, "initial_config holds Shelf.tickets[0] already, which this is to create"),
        ("already_there", 1, "initial_config holds Shelf.orders['2'] already, which this is to create"),
    ]


def test_functions_that_are_not_among_those_of_the_row_are_not_offered() -> None:
    found = _found(_row(["read('old')"], functions=[{"name": "create"}]))
    assert found == [("not_offered", 0, "'read' is not on offer")]


@cases("authoring")
def test_a_held_out_function_is_needed_too_early_or_in_time(columns: dict[str, Any]) -> None:
    early = _found(_row(["read('old')"], ["read('old')"], **columns))
    assert early == [("not_offered", 0, "'read' is on offer from turn 1 on only")]
    assert _found(_row(["create('new')"], ["read('old')"], **columns)) == []


def test_functions_held_out_in_a_way_that_cannot_work_are_found() -> None:
    offered = [{"name": "read"}]
    found = _found(_row(["read('old')"], functions=offered, held_out={"0": ["read"], "7": [{"name": "x"}]}))
    assert [(problem, turn) for problem, turn, _ in found] == [("held_out", 0), ("held_out", 7)]


def test_a_turn_in_which_nobody_speaks_needs_a_function_to_be_added() -> None:
    silent = _row(["read('old')"], ["read('old')"]) | {"turns": [[], []]}
    assert [each[:2] for each in _found(silent)] == [("row", 0), ("row", 1)]
    assert [each[:2] for each in _found(silent | {"held_out": {"1": [{"name": "wait"}]}})] == [("row", 0)]


def test_a_function_that_is_held_out_by_name_must_be_an_operation() -> None:
    found = _found(_row(["read('old')"], ["read('old')"], held_out={"1": ["craete"]}))
    assert found == [("held_out", 1, "no simulator here has an operation 'craete'; did you mean 'create'?")]


def test_a_simulator_without_its_configuration_is_remarked_and_one_without_a_state_needs_none() -> None:
    row = _row(["now()"], involved_classes=["Shelf", "Clock"], initial_config={"Other": {}})
    found = list(findings([row], Services(SIMULATORS)))
    assert [finding.problem for finding in found] == ["default_configuration", "unused_configuration"]
    assert all(finding.is_remark for finding in found)


@cases("authoring")
def test_a_configuration_that_cannot_be_loaded_is_found(config: JSON, said: str) -> None:
    assert _found(_row(["wait()"], initial_config=config)) == [("configuration", None, said)]


def test_a_simulator_that_is_not_there_is_found_with_the_one_that_was_meant() -> None:
    (found,) = _found(_row(["wait()"], involved_classes=["MathApi"]))
    assert found == ("simulator", None, "there is no plugin 'MathApi' among the simulators; did you mean 'MathAPI'?")


@cases("authoring")
def test_a_row_that_is_no_conversation_is_found_and_the_next_is_checked(columns: dict[str, Any], said: str) -> None:
    found = _found(_row([]) | columns, _row(["read('new')"]))
    assert [(problem, text) for problem, _, text in found] == [
        ("row", said),
        ("call_fails", '{"error": "there is no new"}'),
    ]


def test_rows_without_an_id_go_by_their_number() -> None:
    rows = [_row(["read('new')"]) | {"id": None}, _row(["read('new')"]) | {"id": " "}]
    assert [finding.entry for finding in list(findings(rows, Services(SIMULATORS)))] == ["row-1", "row-2"]


def test_a_call_that_does_not_return_fails_when_its_time_is_over() -> None:
    found = _found(_row(["sleep()"]), time_limit_s=0.1)
    assert [(problem, turn) for problem, turn, _ in found] == [("call_fails", 0)]


class Broken(Simulator):
    """Its state cannot be had."""

    def state(self) -> dict[str, object]:
        raise RuntimeError("out of\norder")


class Endless(Simulator):
    """Its state holds itself."""

    def state(self) -> dict[str, object]:
        state: dict[str, object] = {}
        state["self"] = state
        return state


@pytest.mark.parametrize("simulator", [Broken, Endless])
def test_a_simulator_that_breaks_is_found_and_the_next_entry_is_checked(simulator: type[Simulator]) -> None:
    rows = [_row([], involved_classes=["Bad"]), _row(["read('new')"])]
    found = list(findings(rows, Services(SIMULATORS | {"Bad": simulator})))
    assert [finding.problem for finding in found] == ["simulator", "call_fails"]
    assert "\n" not in found[0].text


def test_rows_are_taken_one_at_a_time_and_nothing_goes_from_one_to_the_next() -> None:
    taken: list[int] = []

    def rows() -> Any:
        for number in range(3):
            taken.append(number)
            yield _row(["create('new')", "read('nowhere')"])

    found = findings(rows(), Services(SIMULATORS))
    next(found)
    assert taken == [0]
    assert [finding.problem for finding in found] == ["call_fails"] * 2


def test_constants_of_long_context_go_to_the_rows_that_ask_for_them() -> None:
    given = {"WORDS": "many"}
    assert _found(_row(["read('old')"], long_context=True), long_context=given) == []


def test_without_a_copy_of_bfcl_a_row_that_asks_for_long_context_says_how_to_get_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TUNECHECK_CACHE", str(tmp_path))
    monkeypatch.delenv("TUNECHECK_BFCL", raising=False)
    with pytest.raises(DataError, match="tunecheck bfcl get"):
        _found(_row(["read('old')"], long_context=True))


@cases("authoring")
def test_what_a_row_says_of_its_judging_and_nothing_answers_to_is_found(columns: dict[str, Any], said: str) -> None:
    ((problem, _, text),) = _found(_row(["create(name='new')"], **columns))
    assert (problem, said in text) == ("judging", True)


def test_alternative_ground_truths_are_replayed_from_the_start() -> None:
    other = [["create(name='new')", "read(name='newt')"]]
    assert _found(_row(["create(name='new')"], alternative_ground_truths=[[["create(name='new')"]], other])) == [
        ("call_fails", 0, '{"error": "there is no newt"}')
    ]
    right = _row(["create(name='new')"], free_calls="read_only", final_state_only=True, ignored_state=["Shelf.notes"])
    assert _found(right) == []


READ = {
    "name": "read",
    "parameters": {"type": "object", "properties": {"name": {"type": "string", "enum": ["old"]}}, "required": ["name"]},
}


def test_a_call_that_breaks_the_schema_of_its_function_is_found_by_position_and_by_name() -> None:
    rows = [_row(["create('new')", call], functions=[READ, "create"]) for call in ("read('new')", "read(name='new')")]
    found = [each for each in _found(*rows) if each[0] == "breaks_schema"]
    assert [each[1] for each in found] == [0, 0]
    assert "is not one of" in found[0][2]


class Waiting(Simulator):
    """An operation that waits for something, as clients of other services do."""

    @tool
    async def now(self) -> str:
        """Tell the time."""
        await asyncio.sleep(0)
        return "noon"


def test_an_async_operation_is_waited_for() -> None:
    result = Services({"Waiting": Waiting}).start(["Waiting"], {}).call(FunctionCall("now", {}))
    assert (result.text, result.error) == ("noon", False)
