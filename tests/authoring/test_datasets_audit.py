"""`datasets audit`: what is probably wrong with a data set; each kind of finding on a row that has it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from tests.tables import cases

from tunecheck.episodes import Services
from tunecheck.plugins import JSON
from tunecheck.simulators import Simulator, SimulatorError, tool
from tunecheck_authoring import Audit, AuditFinding, CheckedRow, Dialogue, DialogueReader, RowCheck, audit, checked_rows
from tunecheck_authoring._audit.dialogue import shortens


class Office(Simulator):
    """Messages, a door and a lamp, a drawer that must be open to be read, and the codes of cities."""

    def load(self, config: Mapping[str, JSON], *, long_context: Mapping[str, JSON] | None = None) -> None:
        self.sent: list[str] = []
        self.door = str(config.get("door", "shut"))
        self.limit: object = config.get("limit", 0)
        self.orders: object = config.get("orders", [])
        self.folders: dict[str, dict[str, str]] = {"desk": {"plan": "Paint it."}, "attic": {}}
        self._open = False

    def state(self) -> dict[str, object]:
        return {"sent": self.sent, "door": self.door, "limit": self.limit, "orders": self.orders, "f": self.folders}

    @tool
    def copy_page(self, page: str, to: str) -> dict[str, bool]:
        """Copy a page of the desk into a folder."""
        self.folders[to][page] = self.folders["desk"][page]
        return {"done": True}

    @tool
    def rename_page(self, folder: str, page: str, name: str) -> dict[str, bool]:
        """Rename a page in a folder."""
        self.folders[folder][name] = self.folders[folder].pop(page)
        return {"done": True}

    @tool
    def send_message(self, text: str) -> dict[str, str]:
        """Send a message."""
        self.sent.append(text)
        return {"sent": "yes"}

    @tool
    def set_door(self, to: str) -> dict[str, str]:
        """Open the door, or shut it."""
        self.door = to
        return {"door": to}

    @tool
    def set_limit(self, amount: float) -> dict[str, bool]:
        """Set the most that may be spent."""
        self.limit = amount
        return {"done": True}

    @tool
    def open_drawer(self) -> dict[str, bool]:
        """Open the drawer."""
        self._open = True
        return {"opened": True}

    @tool
    def lock_drawer(self) -> dict[str, bool]:
        """Lock the drawer."""
        self._open = False
        return {"locked": True}

    @tool
    def read_note(self) -> dict[str, str]:
        """Read the note in the drawer, which must be open."""
        if not self._open:
            raise SimulatorError("the drawer is shut")
        return {"note": "Costs rose by a tenth in the second quarter."}

    @tool
    def get_orders(self) -> dict[str, object]:
        """The numbers of all orders."""
        return {"orders": self.orders}

    @tool
    def cancel_order(self, number: int) -> dict[str, int]:
        """Cancel an order."""
        self.orders = [each for each in self.orders if each != number]  # type: ignore[attr-defined]  # numbers
        return {"cancelled": number}

    @tool
    def get_city_code(self, city: str) -> dict[str, str]:
        """The code of a city's airport."""
        if city != "Bergen":
            raise SimulatorError("unknown city")
        return {"code": "BGO"}


def _row(*turns: tuple[str, list[str]], **columns: Any) -> dict[str, Any]:
    return {
        "id": "one",
        "turns": [[{"role": "user", "content": asked}] for asked, _ in turns],
        "ground_truth": [calls for _, calls in turns],
        "involved_classes": ["Office"],
        "initial_config": {},
        "tools": Office.tool_definitions(),
    } | columns


def _question(asked: str, *calls: str, **columns: Any) -> dict[str, Any]:
    row = {"id": "one", "messages": [{"role": "user", "content": asked}], "tools": Office.tool_definitions()}
    return row | {"ground_truth": f"[{', '.join(calls)}]" if calls else "No."} | columns


def _audit(*rows: dict[str, Any], against: tuple[dict[str, Any], ...] = (), cluster: str | None = None) -> Audit:
    readers = (lambda row: row.get("ground_truth")), (lambda row: row.get("tools"))
    reader = DialogueReader(*readers, question=lambda row: row.get("messages"), cluster=cluster)
    training = [reader.read(CheckedRow(row["id"], row, ())) for row in against]
    checked = checked_rows(rows, Services({"Office": Office}), row_check=RowCheck(*readers))
    return audit(checked, reader, training=[each for each in training if isinstance(each, Dialogue)])


def _found(*rows: dict[str, Any], against: tuple[dict[str, Any], ...] = ()) -> list[AuditFinding]:
    return [*_audit(*rows, against=against).findings]


def _kinds(*rows: dict[str, Any], against: tuple[dict[str, Any], ...] = ()) -> list[str]:
    return [finding.kind for finding in _found(*rows, against=against)]


GOOD = _row(("Send the message 'We are late' please.", ["send_message(text='We are late')"]))


def test_a_good_row_has_no_findings() -> None:
    assert _kinds(GOOD) == []


def test_what_check_finds_is_sure() -> None:
    [found] = _found(_row(("Read the note.", ["read_note()"])))
    assert (found.kind, found.certainty, found.turn) == ("call_fails", "sure", 0)


def test_a_text_that_is_nearly_what_the_user_quoted_is_found_with_the_call_that_is_meant() -> None:
    [found] = _found(_row(("Send the message 'We are late' please.", ["send_message(text='We are lat')"])))
    assert found.kind == "nearly_quoted"
    assert found.fix == "send_message(text='We are late')"


@cases("authoring")
def test_what_fills_a_template_or_carries_a_mark_is_quoted_well_enough(asked: str, text: str) -> None:
    assert _kinds(_row((asked, [f'send_message(text="{text}")']))) == []


def test_a_long_text_that_is_nearly_an_earlier_result_is_a_stale_copy() -> None:
    copied = "Costs rose by a fifth in the third quarter."
    row = _row(("Open the drawer, read me the note.", ["open_drawer()", "read_note()"]), ("Send it.", [_send(copied)]))
    [found] = _found(row)
    assert (found.kind, found.turn) == ("stale_copy", 1)
    assert found.fix == _send("Costs rose by a tenth in the second quarter.")


def test_an_id_one_character_off_is_mistyped() -> None:
    [found] = _found(_row(("Send order NL-204417 to them.", ["send_message(text='NL-204471')"])))
    assert (found.kind, found.fix) == ("mistyped_value", "is 'nl-204417' meant?")


def test_a_value_that_nothing_gives_is_found_and_one_that_is_looked_up_by_a_name_is_not() -> None:
    said = "Send the code of the airport of Bergen."
    assert _kinds(_row((said, ["send_message(text='OSL')"]))) == ["ungrounded_value"]
    assert _kinds(_row((said, ["send_message(text='BGO')"]))) == []


@pytest.mark.parametrize("amount", [350, 3000, 0.5])
def test_a_number_may_follow_from_what_was_given(amount: float) -> None:
    said = "The limit is half of one euro, or what 7 days of 50 cost, or 50 minutes in seconds."
    assert _kinds(_row((said, [f"set_limit(amount={amount})"]))) == []


@cases("authoring")
def test_what_is_said_may_be_spelled_out(asked: str, text: str) -> None:
    assert "ungrounded_value" not in _kinds(_question(asked, f"send_message(text='{text}')"))


@pytest.mark.parametrize(
    ("asked", "amount"),
    [("Take the mean of 200,300,400,500.", 300), ("Compounded monthly.", 12), ("$1.2M in 2020", 1_200_000)],
    ids=["a list", "by the month", "millions"],
)
def test_numbers_are_written_in_many_ways(asked: str, amount: float) -> None:
    assert _kinds(_question(asked, f"set_limit(amount={amount})")) == []


def test_source_code_is_not_held_against_what_is_said() -> None:
    row = _question("Wait for five minutes on 'main'.", "send_message(text='TimeUnit.MINUTES')", language="java")
    assert _kinds(row) == []


def test_a_number_too_large_to_reckon_with_is_read() -> None:
    assert _kinds(_row(("Set the limit to 300.", [f"set_limit(amount={'9' * 400})"]))) == []


def test_a_number_that_follows_from_nothing_is_found() -> None:
    assert _kinds(_row(("Set the limit to 300.", ["set_limit(amount=7777)"]))) == ["ungrounded_number"]


def test_a_date_may_be_said_in_words() -> None:
    assert _kinds(_row(("Send the date, the 6th of October 2026.", ["send_message(text='2026-10-06')"]))) == []


def test_an_order_that_no_call_carries_out_is_found() -> None:
    row = _row(("Open the drawer, read the note, then set the door to open.", ["open_drawer()", "read_note()"]))
    [found] = _found(row)
    assert (found.kind, found.fix) == ("unanswered_request", "call set_door?")


def test_an_order_that_is_carried_out_in_the_next_turn_is_none() -> None:
    row = _row(("Open the drawer and set the door.", ["open_drawer()"]), ("To 'ajar'.", ["set_door(to='ajar')"]))
    assert _kinds(row) == []


def test_a_quote_that_nothing_uses_is_found() -> None:
    row = _row(("I am 'Ramona'. Send 'We are late'.", ["send_message(text='We are late')"]))
    assert [found.kind for found in _found(row) if "Ramona" in found.evidence] == ["unused_text"]


def test_a_call_that_is_made_twice_can_be_left_out() -> None:
    row = _row(("Set the door to 'ajar'.", ["set_door(to='ajar')", "set_door(to='ajar')", "get_city_code('Bergen')"]))
    [found] = [each for each in _found(row) if each.kind == "superfluous_call"]
    assert (found.turn, found.fix) == (0, "leave out set_door(to='ajar')")


def test_an_original_that_is_renamed_in_place_of_its_copy_is_found() -> None:
    asked, copied = "Copy the plan of the desk into the attic as idea.", "copy_page(page='plan', to='attic')"
    wrong = _row((asked, [copied, "rename_page(folder='desk', page='plan', name='idea')"]))
    right = _row((asked, [copied, "rename_page(folder='attic', page='plan', name='idea')"]))
    assert _kinds(wrong) == ["renamed_original"]
    assert _kinds(right) == []


def test_a_folder_that_the_user_quotes_and_no_call_names_is_found() -> None:
    start: dict[str, Any] = {"limit": {"cellar": {"shelf": {}}}}
    row = _row(("Send 'We are late' to the 'cellar'.", ["send_message(text='We are late')"]), initial_config=start)
    assert [(found.kind, "'cellar'" in found.evidence) for found in _found(row)] == [("unused_text", True)]


def test_a_call_that_is_made_twice_for_a_reason_is_not_left_out() -> None:
    opened = ["open_drawer()", "lock_drawer()", "open_drawer()", "read_note()"]
    sent = [_send("We are late"), _send("We are late")]
    assert _kinds(_row(("Open the drawer, lock it, open it, read me the note.", opened))) == []
    assert _kinds(_row(("Send 'We are late' two times.", sent))) == []


def test_a_document_is_not_searched_for_what_it_quotes() -> None:
    """Each quote is likened to each argument: of a long document that took minutes."""
    calls = ["send_message(text='We are late')"]
    for count, kinds in ((2, {"unused_text"}), (300, set[str]())):
        quoted = " ".join(f"'word{number} of it'" for number in range(count))
        assert {*_kinds(_row((f"Send 'We are late' to all who wait, and mind {quoted}.", calls)))} == kinds


def test_a_call_that_another_needs_is_not_left_out_though_no_state_shows_it() -> None:
    assert _kinds(_row(("Open the drawer, read me the note.", ["open_drawer()", "read_note()"]))) == []


def test_the_same_request_with_other_calls_is_a_conflict() -> None:
    other = GOOD | {"id": "two", "ground_truth": [["send_message(text='late')"]]}
    assert [(found.id, found.kind) for found in _found(GOOD, other)] == [("two", "conflicting_answers")]


def test_rows_that_say_nearly_the_same_are_found() -> None:
    words = "please open the big door on the left side of the hall and tell everybody who waits there to come in"
    first = _question(f"{words} now", "set_door(to='left')")
    near = _question(f"{words} soon", "set_door(to='left')", id="two")
    assert _kinds(first, near) == ["near_duplicate"]
    of_one_task = [row | {"task": "door"} for row in (first, near, first | {"id": "three"})]
    assert [each.kind for each in _audit(*of_one_task, cluster="task").findings] == []
    assert [each.kind for each in _audit(*of_one_task).findings] == ["near_duplicate"] * 2


def test_an_earlier_part_of_the_same_chat_is_no_repetition() -> None:
    later = GOOD | {"id": "two", "turns": [[*GOOD["turns"][0], {"role": "system", "content": "Sent."}]]}
    later |= {"ground_truth": [[]]}
    assert "conflicting_answers" not in _kinds(GOOD, later)


def test_rows_of_the_training_data_are_found_by_their_words_and_by_their_calls() -> None:
    trained = _question("Set the door to left, send word.", "set_door(to='left')", "send_message(text='word')", id="t")
    same = trained | {"id": "same"}
    otherwise = _question("Left goes the door, and word goes out.", "set_door(to='left')", "send_message(text='word')")
    found = [each for each in _found(same, otherwise, against=(trained,)) if each.kind == "in_training_data"]
    assert [(each.id, each.certainty) for each in found] == [("same", "sure"), ("one", "look")]


def test_a_row_that_an_agent_passes_by_doing_nothing_is_found() -> None:
    row = _row(("Shut the door: 'shut'.", ["set_door(to='shut')"]), final_state_only=True)
    assert "passes_idle" in _kinds(row)


def test_rows_that_an_agent_passes_without_a_call_are_counted() -> None:
    rows = [_question("Shut it: 'shut'.", "set_door(to='shut')", id="a"), _question("Hello there.", id="b")]
    done = _audit(*rows, _question("Who are you?", id="c"))
    assert (done.rows, done.idle) == (3, 2)


def test_a_row_that_could_not_be_looked_at_is_not_clean() -> None:
    unasked = {"id": "a", "ground_truth": "[set_door(to='ajar')]"}
    unplayed = _row(("Fly.", ["fly()"]), id="b", involved_classes=["Airport"])
    untold = _question("Set the door to 'ajar'.", "set_door(to='ajar')", id="c", tools=None)
    done = _audit(unasked, unplayed, untold, _question("Hello.", id="d", ground_truth=None), GOOD)
    assert done.unread == {"a", "b", "c", "d"}
    assert done.flagged == {"b"}
    assert done.idle == 0


def test_of_possible_answers_one_that_is_given_is_enough() -> None:
    row = _question("Set the door to 'ajar'.", check="simple", ground_truth=[{"set_door": {"to": ["open", "ajar"]}}])
    assert _kinds(row) == []


def test_the_worst_comes_first() -> None:
    row = _row(
        ("Send 'We are late'; limit 30.", ["read_note()", "send_message(text='We were late')", "set_door('XQ')"])
    )
    assert [found.certainty for found in _found(row)] == ["sure", "likely", "look"]


def _send(text: str) -> str:
    return f"send_message(text='{text}')"


def test_a_text_as_long_as_a_book_is_no_name_that_another_shortens() -> None:
    assert shortens("nvda", "nvidia")
    assert not shortens("nvda", "nvidia" * 20_000)
