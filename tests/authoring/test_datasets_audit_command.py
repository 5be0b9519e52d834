"""`tunecheck datasets audit` as a person at a terminal sees it."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.bfcl_data_parts import write_lines

from tunecheck import ConfigurationError
from tunecheck.cli import Invocation
from tunecheck_authoring._cli.audit import audit

TOOL = {"name": "send", "parameters": {"type": "object", "properties": {"text": {"type": "string"}}}}


def _run(*arguments: str) -> int:
    return audit(audit.parse("audit", arguments), Invocation())


def _row(name: str, asked: str, text: str) -> dict[str, Any]:
    calls = [{"type": "function", "function": {"name": "send", "arguments": {"text": text}}}]
    return {"id": name, "messages": [{"role": "user", "content": asked}], "tools": [TOOL], "ground_truth": calls}


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    path = tmp_path / "rows.jsonl"
    right, wrong = _row("a", "Send 'Hello there'.", "Hello there"), _row("b", "Say 'We are late'.", "We are lat")
    write_lines(path, [right, wrong, _row("c", "Send word to Oslo.", "KEF")])
    return path


def test_findings_are_listed_worst_first_with_the_baseline(rows: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _run(str(rows)) == 3
    assert capsys.readouterr().out.splitlines() == [
        "probably wrong:",
        "  b, turn 0: an argument is nearly, not quite, what the user quoted: "
        "text of send is 'We are lat'; the user said 'We are late'",
        '    fix: send(text="We are late")',
        "audited 3 rows: 1 with something certainly or probably wrong; 1 finding more to look at (--all lists them)",
        "baseline: never calling a function passes 0.0% of the rows",
    ]


def test_json_holds_every_finding_in_its_fixed_shape(rows: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _run(str(rows), "--json") == 3
    value = json.loads(capsys.readouterr().out)
    assert value["rows"] == 3
    assert [(each["id"], each["kind"], each["certainty"]) for each in value["findings"]] == [
        ("b", "nearly_quoted", "likely"),
        ("c", "ungrounded_value", "look"),
    ]
    assert all([*each] == ["id", "kind", "certainty", "turn", "evidence", "fix"] for each in value["findings"])


def test_rows_that_are_only_worth_a_look_leave_the_exit_code_0(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_lines(tmp_path / "rows.jsonl", [_row("c", "Send word to Oslo.", "KEF")])
    assert _run(str(tmp_path / "rows.jsonl"), "--all") == 0
    assert "worth a look:" in capsys.readouterr().out


def test_rows_of_the_training_data_are_found(rows: Path, capsys: pytest.CaptureFixture[str]) -> None:
    train = rows.with_name("train.jsonl")
    write_lines(train, [_row("t", "Send 'Hello there'.", "Hello there")])
    assert _run(str(rows), "--against", str(train)) == 3
    assert "certainly wrong:\n  a: the row is in the training data: t of the training" in capsys.readouterr().out


def test_training_data_that_cannot_be_compared_is_said(rows: Path) -> None:
    train = rows.with_name("train.jsonl")
    write_lines(train, [{"said": "Send 'Hello there'."}])
    with pytest.raises(ConfigurationError, match=r"1 of 1 row cannot be compared .* datasets convert"):
        _run(str(rows), "--against", str(train))
