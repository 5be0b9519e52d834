"""`tunecheck check`, as a person at a terminal sees it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.bfcl_data_parts import write_lines

from tunecheck.cli import main

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
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A workspace with a simulator of its own."""
    (tmp_path / "simulators").mkdir()
    (tmp_path / "simulators" / "Shelf.py").write_text(SIMULATOR)
    monkeypatch.chdir(tmp_path)
    return tmp_path


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


def _run(*arguments: str) -> int:
    return main([*arguments])


def test_a_sound_data_set_of_ones_own_passes(workspace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _run("check", str(_write(workspace, "read('a')", "read(name='a')"))) == 0
    assert capsys.readouterr().out == "checked 2 rows: no problems\n"


def test_problems_are_listed_by_entry_and_turn_and_the_exit_code_says_so(
    workspace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _run("check", str(_write(workspace, "read('a')", "read('b')"))) == 3
    assert capsys.readouterr().out.splitlines() == [
        "n1",
        """  turn 0: a ground-truth call fails: read('b'): {"error": "no b"}""",
        "checked 2 rows: 1 problem in 1 of them",
    ]


def test_remarks_are_counted_and_listed_on_request(workspace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(_write(workspace, "read('a')", initial_config={"Shelf": {"notes": {"a": ""}}, "Else": {}}))
    assert _run("check", path) == 3  # the note is empty: nothing is read
    assert "1 problem in 1 of them, 1 remark (--remarks lists them)" in capsys.readouterr().out
    _run("check", path, "--remarks")
    assert "is not involved" in capsys.readouterr().out


def test_json_holds_every_finding(workspace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _run("check", str(_write(workspace, "read('b')")), "--json") == 3
    value = json.loads(capsys.readouterr().out)
    assert (value["rows"], value["problems"]) == (1, 1)
    assert value["findings"] == [
        {"entry": "n0", "problem": "call_fails", "text": '{"error": "no b"}', "turn": 0, "call": "read('b')"}
    ]


def test_only_the_first_rows_are_checked_on_request(workspace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _run("check", str(_write(workspace, "read('a')", "read('b')")), "--limit", "1") == 0
    assert capsys.readouterr().out == "checked 1 row: no problems\n"


def test_what_the_data_says_is_made_harmless_before_it_is_printed(
    workspace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _run("check", str(_write(workspace, "read('\x1b[31m\u202e')", id="\x1b]0;title\x07")))
    assert "\x1b" not in capsys.readouterr().out


def test_rows_of_a_single_turn_are_checked_by_what_their_sidecar_names(
    workspace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tools = [{"name": "f", "parameters": {"type": "object", "properties": {"n": {"type": "integer"}}}}]
    message = {"role": "human", "content": "?"}
    calls = ['[{"name": "f", "arguments": {"n": 1}}]', '[{"name": "f", "arguments": {"n": "1"}}]', "[g(n=1)]"]
    rows = [{"id": "a", "tools": tools, "answer": call, "messages": [message]} for call in [*calls, "all is well"]]
    write_lines(workspace / "own.jsonl", rows)
    (workspace / "own.yaml").write_text('column_mapping: {ground_truth: "${data.answer}"}')
    assert _run("check", "own.jsonl") == 3
    said = capsys.readouterr().out
    assert said.count("messages[0].role is 'human'") == 4
    assert "row 2 has the id of row 1" in said
    assert """breaks the schema of its function: f(n="1"): """ in said
    assert "'g' is not among the row's tools" in said
    assert said.endswith("checked 4 rows: 9 problems in 1 of them\n")


TOOL = {"name": "get_weather", "description": "Weather.", "parameters": {"type": "object", "properties": {}}}


def _questions(folder: Path, rows: list[dict[str, Any]], evaluators: str = "[match]") -> str:
    """Write rows with a question, a tool and a right call, changed by these columns; None removes a column."""
    whole = {"query": "How is it?", "tools": [TOOL], "answer": [{"name": "get_weather", "arguments": {}}]}
    filled = [{key: value for key, value in (whole | row).items() if value is not None} for row in rows]
    write_lines(folder / "own.jsonl", [{"id": f"q{at}"} | row for at, row in enumerate(filled)])
    mapping = 'column_mapping: {ground_truth: "${data.answer}", response: "${target.response}"}'
    (folder / "own.yaml").write_text(f"{mapping}\nevaluators: {evaluators}\n")
    return "own.jsonl"


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        ({"query": None}, "no messages to send: this row has no column messages or query; mend it"),
        ({"query": [{"content": "?"}]}, "column messages or query holds a message without a role; mend it"),
        ({"answer": None}, "cannot be scored: parameter 'ground_truth' is mapped to ${data.answer}, which this row"),
        (
            {"tools": [{"name": "get_weather", "description": "W.", "paramaters": {}}]},
            "a tool definition has the key 'paramaters'; did you mean 'parameters'?",
        ),
        (
            {"tools": [TOOL | {"parameters": {"type": "object", "propertes": {}}}]},
            "a tool definition has the key 'propertes'; did you mean 'properties'?",
        ),
    ],
)
def test_rows_that_cannot_work_are_counted_on_one_line_with_their_places(
    workspace: Path, capsys: pytest.CaptureFixture[str], broken: dict[str, Any], said: str
) -> None:
    assert _run("check", _questions(workspace, [{}, broken, {}, broken, broken, broken])) == 3
    line, summary = capsys.readouterr().out.splitlines()
    assert line.startswith(f"4 rows (own.jsonl:2, own.jsonl:4, own.jsonl:5 and 1 more): {said}")
    assert summary == "checked 6 rows: 4 problems in 4 of them"


def test_unusable_rows_are_findings_of_the_json(workspace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _run("check", _questions(workspace, [{}, {"answer": None}]), "--json") == 3
    found = json.loads(capsys.readouterr().out)
    assert found["problems"] == 1
    assert [(each["entry"], each["place"]) for each in found["findings"]] == [("q1", "own.jsonl:2")]


def test_rows_that_all_lack_messages_may_be_for_another_target(
    workspace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _run("check", _questions(workspace, [{"query": None}, {"query": None}])) == 0
    assert capsys.readouterr().out.startswith("note: 2 rows (own.jsonl:1, own.jsonl:2): no messages to send")


def test_a_column_that_no_chosen_evaluator_needs_may_be_missing(
    workspace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (workspace / "evaluators").mkdir()
    (workspace / "evaluators" / "length.py").write_text("def length(response):\n    return len(str(response))\n")
    assert _run("check", _questions(workspace, [{}, {"answer": None}], "[length]")) == 0
    assert capsys.readouterr().out == "checked 2 rows: no problems\n"


def test_recorded_answers_need_no_messages(workspace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = _questions(workspace, [{"said": "yes"}, {"said": "yes", "query": None}])
    sidecar = workspace / "own.yaml"
    sidecar.write_text(sidecar.read_text().replace("${target.response}", "${data.said}"))
    assert _run("check", data) == 0
    assert capsys.readouterr().out == "checked 2 rows: no problems\n"
