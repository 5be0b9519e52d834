"""`datasets audit`: what is probably wrong with a data set; each kind of finding on a row that has it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.report_parts import make_run, small_rows, tool_call
from tests.tables import cases

from tunecheck.episodes import Services
from tunecheck.plugins import JSON
from tunecheck.simulators import Simulator, SimulatorError, tool
from tunecheck_authoring import Audit, AuditFinding, CheckedRow, Dialogue, DialogueReader, RowCheck, audit, checked_rows
from tunecheck_authoring._audit.audit import failing_alike
from tunecheck_authoring._audit.values import shortens


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


def _given(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row of the table: turns with their calls, or one question."""
    if "question" in row:
        return _question(row["question"], *row["calls"], **row["columns"])
    return _row(*row["turns"], **row["columns"])


@cases("authoring")
def test_an_audit_finds_what_the_table_names(rows: list[dict[str, Any]], then: dict[str, Any]) -> None:
    found, evidence = _found(*map(_given, rows)), str(then.get("evidence"))
    kinds = [each.kind for each in found]
    seen = {
        "kinds": kinds,
        "has": [kind for kind in then.get("has", ()) if kind in kinds],
        "lacks": [kind for kind in then.get("lacks", ()) if kind not in kinds],
        "found": [[each.kind, each.certainty, each.turn] for each in found],
        "fixes": [each.fix for each in found],
        "fix_of": {each.kind: each.fix for each in found if each.kind in then.get("fix_of", ())},
        "turns": [each.turn for each in found],
        "ids": [each.id for each in found],
        "certainties": [each.certainty for each in found],
        "evidence": evidence if any(evidence in each.evidence for each in found) else None,
    }
    assert {key: seen[key] for key in then} == then


def test_a_document_is_not_searched_for_what_it_quotes() -> None:
    """Each quote is likened to each argument: of a long document that took minutes."""
    calls = ["send_message(text='We are late')"]
    for count, kinds in ((2, {"unused_text"}), (300, set[str]())):
        quoted = " ".join(f"'word{number} of it'" for number in range(count))
        assert {*_kinds(_row((f"Send 'We are late' to all who wait, and mind {quoted}.", calls)))} == kinds


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


def test_a_text_as_long_as_a_book_is_no_name_that_another_shortens() -> None:
    assert shortens("nvda", "nvidia")
    assert not shortens("nvda", "nvidia" * 20_000)


# -- `datasets audit --runs`: rows that all runs fail in the same way


def test_a_row_that_every_run_answers_with_the_same_wrong_calls_is_found(tmp_path: Path) -> None:
    rows = small_rows()
    first = make_run(tmp_path, rows, "first")
    rows[1] = rows[1] | {"response": tool_call("book", day="2026-03-06", people=9)}
    second = make_run(tmp_path, rows, "second")
    found = [(each.id, each.certainty, each.fix) for each in failing_alike([first, second], {"r1", "r2", "r3", "r4"})]
    assert found == [
        ("r3", "likely", 'is book(day="2026-03-05") right?'),
        ("r4", "look", None),  # both refuse: the same cause, and no calls to compare
    ]  # and not r2, which they fail with different numbers of people


def test_one_run_tells_nothing(tmp_path: Path) -> None:
    assert [*failing_alike([make_run(tmp_path, small_rows())], {"r3"})] == []


def test_of_three_runs_two_may_agree_where_all_fail(tmp_path: Path) -> None:
    rows = small_rows()
    runs = [make_run(tmp_path, rows, name) for name in ("first", "second")]
    rows[2] = rows[2] | {"response": tool_call("book", day="2027-01-01")}
    runs.append(make_run(tmp_path, rows, "third"))
    [found] = [each for each in failing_alike(runs, {"r3"}) if each.id == "r3"]
    assert found.certainty == "likely"
    assert found.evidence.startswith('all 3 runs fail; 2 of them answer book(day="2026-03-05")')


def test_rows_of_another_data_set_are_not_spoken_of(tmp_path: Path) -> None:
    runs = [make_run(tmp_path, small_rows(), name) for name in ("first", "second")]
    assert [*failing_alike(runs, {"other"})] == []
