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
