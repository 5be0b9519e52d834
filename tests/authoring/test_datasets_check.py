"""`check`: what is wrong with a multi-turn data set is found by replaying its ground truth."""

import asyncio
import json
import re
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.authoring_parts import findings
from tests.cli_parts import write_lines
from tests.tables import cases

from tunecheck import DataError
from tunecheck.calls import FunctionCall
from tunecheck.cli import main
from tunecheck.episodes import Services
from tunecheck.plugins import JSON
from tunecheck.simulators import Simulator, SimulatorError, tool
from tunecheck_authoring import PROBLEMS, RowCheck


class Shelf(Simulator):
    """A shelf of notes by name, numbered tickets, and a door; its operations fail and refuse like real ones."""

    def load(self, config: Mapping[str, JSON], *, long_context: Mapping[str, JSON] | None = None) -> None:
        if not isinstance(config.get("notes", {}), dict):
            raise DataError("notes must be an object")
        given: Any = config
        self.notes: dict[str, str] = dict(given.get("notes", {}))
        self.tickets: list[dict[str, JSON]] = [dict(ticket) for ticket in given.get("tickets", [])]
        self.next: int = given.get("next", 1)
        self.words = "" if long_context is None else str(long_context["WORDS"])

    def state(self) -> dict[str, object]:
        return {"notes": self.notes, "tickets": self.tickets, "next": self.next}

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


@cases("authoring")
def test_a_check_finds_what_the_table_names(rows: list[dict[str, Any]], then: dict[str, Any]) -> None:
    found, said = _found(*(_row(*row["truth"]) | row["columns"] for row in rows)), str(then.get("said"))
    seen = {
        "found": [list(each) for each in found],
        "problems": [problem for problem, _, _ in found],
        "turns": [turn for _, turn, _ in found],
        "said": said if any(said in text for _, _, text in found) else None,
    }
    assert {key: seen[key] for key in then} == then


def test_a_call_that_fails_is_found_with_its_turn_and_the_simulators_words() -> None:
    (found,) = list(findings([_row(["read('old')"], ["read('new')"])], Services(SIMULATORS)))
    assert (found.entry, found.turn, found.problem, found.call) == ("entry", 1, "call_fails", "read('new')")
    assert found.text == '{"error": "there is no new"}'
    assert not found.is_remark


def test_a_simulator_without_its_configuration_is_remarked_and_one_without_a_state_needs_none() -> None:
    row = _row(["now()"], involved_classes=["Shelf", "Clock"], initial_config={"Other": {}})
    found = list(findings([row], Services(SIMULATORS)))
    assert [finding.problem for finding in found] == ["default_configuration", "unused_configuration"]
    assert all(finding.is_remark for finding in found)


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


def test_a_long_context_row_says_how_to_get_a_copy_of_bfcl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TUNECHECK_CACHE", str(tmp_path))
    monkeypatch.delenv("TUNECHECK_BFCL", raising=False)
    with pytest.raises(DataError, match="tunecheck bfcl get"):
        _found(_row(["read('old')"], long_context=True))


READ = {
    "name": "read",
    "parameters": {"type": "object", "properties": {"name": {"type": "string", "enum": ["old"]}}, "required": ["name"]},
}


def test_a_call_that_breaks_the_schema_of_its_function_is_found_by_position_and_by_name() -> None:
    rows = [_row(["create('new')", call], functions=[READ, "create"]) for call in ("read('new')", "read(name='new')")]
    found = [each for each in _found(*rows) if each[0] == "breaks_schema"]
    assert [each[1] for each in found] == [0, 0]
    assert "is not one of" in found[0][2]


@cases("authoring")
def test_a_check_of_possible_answers_finds_what_the_table_names(
    answer: dict[str, Any], columns: dict[str, Any], said: str | None
) -> None:
    unit = {"type": "string", "enum": ["m", "km"]}
    schema = {"type": "object", "properties": {"metres": {"type": "integer"}, "unit": unit}, "required": ["metres"]}
    tool = {"type": "function", "function": {"name": "road_length", "parameters": schema}}
    row = {"id": "one", "check": "simple", "tools": [tool], "ground_truth": [answer]} | columns
    check = RowCheck(lambda row: row["ground_truth"], lambda row: row["tools"])
    found = [
        (each.problem, said if said and said in each.text else each.text) for each in findings([row], row_check=check)
    ]
    assert found == ([] if said is None else [("breaks_schema", said)])


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


# -- `tunecheck check` and `datasets audit`, as a person at a terminal sees them


SIMULATOR = '''
from tunecheck.simulators import Simulator, SimulatorError, tool


class Shelf(Simulator):
    """Notes by name."""

    def load(self, config, *, long_context=None):
        self.notes = dict(config.get("notes", {}))

    def state(self):
        return {"notes": self.notes}

    @tool
    def read(self, name: str) -> str:
        """Read a note."""
        if name not in self.notes:
            raise SimulatorError(f"no {name}")
        return self.notes[name]
'''


@pytest.fixture
def workspace(cwd: Path) -> Path:
    """A workspace with a simulator of its own."""
    (cwd / "simulators").mkdir()
    (cwd / "simulators" / "Shelf.py").write_text(SIMULATOR)
    return cwd


def _write(folder: Path, *calls: str, **columns: Any) -> Path:
    path = folder / "own.jsonl"
    row = {"turns": [[{"role": "user", "content": "?"}]], "involved_classes": ["Shelf"]}
    config = {"Shelf": {"notes": {"a": "x"}}}
    write_lines(
        path,
        [
            row | {"id": f"n{at}", "ground_truth": [[call]], "initial_config": config} | columns
            for at, call in enumerate(calls)
        ],
    )
    return path


@cases("authoring")
def test_the_command_says_what_it_found(
    workspace: Path,
    capsys: pytest.CaptureFixture[str],
    files: dict[str, Any],
    command: list[str],
    code: int,
    lines: list[str],
) -> None:
    """A line of the table that ends with … is the beginning of the line that is printed."""
    for name, content in files.items():
        (workspace / name).parent.mkdir(exist_ok=True)
        if isinstance(content, str):
            (workspace / name).write_text(content)
        else:
            write_lines(workspace / name, content)
    assert main(command) == code
    for said, line in zip(capsys.readouterr().out.splitlines(), lines, strict=True):
        assert said.startswith(line[:-1]) if line.endswith("…") else said == line


@pytest.mark.parametrize(
    ("evaluator", "error"),
    [("mtach", "no 'mtach' among the evaluators; did you mean 'match'?"), ("broken", "RuntimeError: read me first")],
)
def test_an_evaluator_of_the_data_set_that_a_run_refuses_is_refused(
    workspace: Path, capsys: pytest.CaptureFixture[str], evaluator: str, error: str
) -> None:
    (workspace / "evaluators").mkdir(exist_ok=True)
    (workspace / "evaluators" / "broken.py").write_text("raise RuntimeError('read me first')\n")
    write_lines(workspace / "own.jsonl", [{"id": "a", "query": "hello", "ground_truth": "hello"}])
    (workspace / "own.yaml").write_text(f"evaluators: [{evaluator}]\n")
    assert main(["check", "own.jsonl"]) == 2
    assert error in capsys.readouterr().err


def test_json_holds_every_finding(workspace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(_write(workspace, "read('b')")), "--json"]) == 3
    value = json.loads(capsys.readouterr().out)
    assert (value["rows"], value["problems"]) == (1, 1)
    assert value["findings"] == [
        {"entry": "n0", "problem": "call_fails", "text": '{"error": "no b"}', "turn": 0, "call": "read('b')"}
    ]


def test_what_the_data_says_is_made_harmless_when_printed(workspace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["check", str(_write(workspace, "read('\x1b[31m\u202e')", id="\x1b]0;title\x07"))])
    assert "\x1b" not in capsys.readouterr().out


def test_single_turn_rows_are_checked_as_the_sidecar_says(workspace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tools = [{"name": "f", "parameters": {"type": "object", "properties": {"n": {"type": "integer"}}}}]
    message = {"role": "human", "content": "?"}
    calls = ['[{"name": "f", "arguments": {"n": 1}}]', '[{"name": "f", "arguments": {"n": "1"}}]', "[g(n=1)]"]
    rows = [{"id": "a", "tools": tools, "answer": call, "messages": [message]} for call in [*calls, "all is well"]]
    write_lines(workspace / "own.jsonl", rows)
    (workspace / "own.yaml").write_text('column_mapping: {ground_truth: "${data.answer}"}')
    assert main(["check", "own.jsonl"]) == 3
    said = capsys.readouterr().out
    assert said.count("messages[0].role is 'human'") == 4
    assert "row 2 has the same id as row 1" in said
    assert """breaks the schema of its function: f(n="1"): """ in said
    assert "'g' is not among the row's tools" in said
    assert said.endswith("checked 4 rows: 9 problems in 1 of them\n")


def test_unusable_rows_are_findings_of_the_json(workspace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_lines(
        workspace / "own.jsonl", [{"id": "q0", "query": "How is it?", "answer": "Fine."}, {"id": "q1", "query": "?"}]
    )
    (workspace / "own.yaml").write_text('column_mapping: {ground_truth: "${data.answer}"}\nevaluators: [match]\n')
    assert main(["check", "own.jsonl", "--json"]) == 3
    found = json.loads(capsys.readouterr().out)
    assert found["problems"] == 1
    assert [(each["entry"], each["place"]) for each in found["findings"]] == [("q1", "own.jsonl:2")]


def test_an_audit_as_json_holds_every_finding_in_its_fixed_shape(cwd: Path, capsys: pytest.CaptureFixture[str]) -> None:
    row = {"tools": [{"name": "send", "parameters": {"type": "object", "properties": {"text": {"type": "string"}}}}]}
    asked = {
        "b": ("Say 'We are late'.", "[send(text='We are lat')]"),
        "c": ("Send word to Oslo.", "[send(text='KEF')]"),
    }
    write_lines(
        cwd / "own.jsonl",
        [{**row, "id": id, "query": query, "ground_truth": calls} for id, (query, calls) in asked.items()],
    )
    assert main(["datasets", "audit", "own.jsonl", "--json"]) == 3
    value = json.loads(capsys.readouterr().out)
    assert value["rows"] == 2
    assert [(each["id"], each["kind"], each["certainty"]) for each in value["findings"]] == [
        ("b", "nearly_quoted", "likely"),
        ("c", "ungrounded_value", "look"),
    ]
    assert all([*each] == ["id", "kind", "certainty", "turn", "evidence", "fix"] for each in value["findings"])


def test_training_data_that_cannot_be_compared_is_said(cwd: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_lines(cwd / "own.jsonl", [{"query": "Hello.", "ground_truth": "Hi."}])
    write_lines(cwd / "train.jsonl", [{"said": "Send 'Hello there'."}])
    assert main(["datasets", "audit", "own.jsonl", "--against", "train.jsonl"]) == 2
    assert re.search(r"no row can be compared \(.*\); give .* datasets convert", capsys.readouterr().err)
