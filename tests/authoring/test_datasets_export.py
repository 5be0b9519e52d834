"""`datasets export`: failed rows as training examples that the formats' readers take back as the same calls."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.authoring_parts import export
from tests.cli_parts import write_lines
from tests.pipeline_parts import run
from tests.tables import cases

from tunecheck import EvaluationResult, MatchEvaluator
from tunecheck.cli import main
from tunecheck.datasets import open_dataset
from tunecheck.formats import read_calls

TOOLS = [
    {"type": "function", "function": {"name": "weather", "parameters": {"type": "object", "properties": {"in": {}}}}}
]


def call(place: str) -> dict[str, Any]:
    return {"tool_uses": [{"recipient_name": "functions.weather", "parameters": {"in": place}}]}


def asked(place: str, **columns: Any) -> dict[str, Any]:
    """A row: the weather in a place, after a greeting."""
    query = [
        {"role": "user", "content": "Hello"},
        {"role": "assistant", "content": "Hello!"},
        {"role": "user", "content": f"Weather in {place}?"},
    ]
    return {"id": place, "query": query, "tools": TOOLS, "ground_truth": call(place), **columns}


ROWS = [asked("Bergen"), asked("Oslo"), asked("Voss", parallel_tool_calls=False)]


def made(folder: Path, answers: dict[str, Any], rows: list[dict[str, Any]] = ROWS, **how: Any) -> EvaluationResult:
    """A run over the rows in a file, with these answers, else the right ones."""
    data = write_lines(folder / "test.jsonl", rows)

    def target(id: str, ground_truth: Any) -> dict[str, Any]:
        return {"response": answers.get(id, ground_truth)}

    return run(folder, str(data), target=target, evaluators={"match": MatchEvaluator()}, **how)


def test_a_failed_row_is_a_chat_in_which_only_the_right_answer_has_weight(tmp_path: Path) -> None:
    (line,) = export(tmp_path, made(tmp_path, {"Voss": call("Lom")}), "openai")
    *history, answer = line["messages"]
    assert [(each["role"], each.get("weight")) for each in history] == [
        ("user", None),
        ("assistant", 0),
        ("user", None),
    ]
    assert answer["tool_calls"][0]["function"] == {"name": "weather", "arguments": '{"in":"Voss"}'}
    assert (line["tools"], line["parallel_tool_calls"]) == (TOOLS, False)


@pytest.mark.parametrize("form", ["openai", "sft", "dpo"])
def test_what_is_exported_is_data_with_the_same_question_and_calls(form: str, tmp_path: Path) -> None:
    export(tmp_path, made(tmp_path, {"Oslo": call("Lom")}), form)
    (row,) = open_dataset(str(tmp_path / f"{form}.jsonl")).rows()
    assert [read.arguments for read in read_calls(row.values["answer"]).calls] == [{"in": "Oslo"}]
    assert row.values["tools"] == TOOLS
    query: Any = row.values["query"]
    assert [message["content"] for message in query] == ["Hello", "Hello!", "Weather in Oslo?"]


def test_trl_has_arguments_as_objects_and_the_failed_answer_rejected(tmp_path: Path) -> None:
    (line,) = export(tmp_path, made(tmp_path, {"Oslo": call("Lom")}), "dpo")
    sides = [line[side][0]["tool_calls"][0]["function"]["arguments"] for side in ("chosen", "rejected")]
    assert sides == [{"in": "Oslo"}, {"in": "Lom"}]


def test_of_two_runs_the_right_answer_is_preferred_whichever_gave_it(tmp_path: Path) -> None:
    first = made(tmp_path, {"Bergen": call("Lom"), "Oslo": "No idea."})
    second = made(tmp_path, {"Voss": call("Lom"), "Oslo": "Rain."})
    lines = export(tmp_path, first, "openai", "--against", str(second.run_dir))
    assert len(lines) == 2  # Oslo is wrong in both
    for line in lines:
        (right,), (wrong,) = line["preferred_output"], line["non_preferred_output"]
        place = line["input"]["messages"][-1]["content"].removeprefix("Weather in ").rstrip("?")
        assert [json.loads(each["tool_calls"][0]["function"]["arguments"])["in"] for each in (right, wrong)] == [
            place,
            "Lom",
        ]


def test_a_pair_needs_an_answer_that_can_be_rejected(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    silent, other = made(tmp_path, {"Oslo": "", "Voss": call("Lom")}), made(tmp_path, {})
    causes = ("--cause", "empty_answer", "--cause", "wrong_argument.other")
    (line,) = export(tmp_path, silent, "openai", "--against", str(other.run_dir), *causes)
    assert line["input"]["messages"][-1]["content"] == "Weather in Voss?"
    assert "left out 1: the model gave no reply to reject" in capsys.readouterr().out


def test_a_pair_needs_an_answer_that_can_be_preferred(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def silence(response: Any) -> dict[str, Any]:
        return {"silence_result": "fail" if response else "pass"}

    data = str(write_lines(tmp_path / "test.jsonl", ROWS[:1]))
    speaking, silent = (
        run(tmp_path, data, target=lambda id, reply=reply: {"response": reply}, evaluators={"silence": silence})
        for reply in (call("Lom"), "")
    )
    arguments = ["--to", "dpo", "--no-test-set", "--out", str(tmp_path / "x.jsonl"), "--against", str(silent.run_dir)]
    assert main(["datasets", "export", str(speaking.run_dir), *arguments]) == 2
    assert "is usable: the run with the right answer gave no reply to prefer (1)" in capsys.readouterr().err


def test_two_runs_without_a_difference_say_which_rows_are_missing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = made(tmp_path, {"Oslo": call("Lom")}), made(tmp_path, {"Oslo": call("Lom")})
    arguments = ["--to", "dpo", "--no-test-set", "--out", str(tmp_path / "x.jsonl"), "--against", str(second.run_dir)]
    assert main(["datasets", "export", str(first.run_dir), *arguments]) == 2
    assert "none of the 3 rows got a right answer from just one run" in capsys.readouterr().err


def test_rows_are_grouped_by_cause_and_the_source_says_which_line_is_which(tmp_path: Path) -> None:
    result = made(tmp_path, {"Bergen": call("Lom"), "Oslo": "I cannot help with that.", "Voss": call("Lom")})
    export(tmp_path, result, "openai")
    source = json.loads((tmp_path / "openai.source.json").read_text())
    causes = [row["cause"] for row in source["rows"]]
    assert [row["id"] for row in source["rows"]] == ["Oslo", "Bergen", "Voss"]
    assert causes[0] != causes[1] == causes[2]
    assert len(export(tmp_path, result, "sft", "--cause", causes[0])) == 1


def test_the_report_of_an_export_is_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result = made(tmp_path, {"Oslo": call("Lom"), "Voss": ""})
    out = str(tmp_path / "x.jsonl")
    arguments = ["--to", "sft", "--no-test-set", "--out", out, "--json"]
    capsys.readouterr()
    assert main(["datasets", "export", str(result.run_dir), *arguments]) == 0
    report = json.loads(capsys.readouterr().out)
    (left_out,) = report.pop("left_out").items()
    assert (left_out[0].partition(":")[0], left_out[1]) == ("perhaps not the model's fault", 1)
    (written,) = report.pop("written").items()
    assert written == ("wrong_argument.other", 1)
    assert report == {"out": out, "rows": 3, "failed": 2, "equal": 0, "rest": None, "left_along": 0}


def test_test_set_rows_are_exported_only_if_they_leave_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result = made(tmp_path, {"Oslo": call("Lom")})
    out = tmp_path / "train.jsonl"
    arguments = ["datasets", "export", str(result.run_dir), "--to", "sft", "--out", str(out)]
    assert main(arguments) == 2
    assert "--leave-test-set FILE" in capsys.readouterr().err
    assert not out.exists()
    assert main([*arguments, "--leave-test-set", str(tmp_path / "rest.jsonl")]) == 0
    assert [row.id for row in open_dataset(str(tmp_path / "rest.jsonl")).rows()] == ["Bergen", "Voss"]
    assert json.loads((tmp_path / "train.source.json").read_text())["left"] == str(tmp_path / "rest.jsonl")


def test_rows_of_one_group_leave_the_test_set_together(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "test.yaml").write_text("cluster: day")
    rows = [asked(place, day=day) for place, day in (("Bergen", 1), ("Oslo", 1), ("Voss", 2))]
    result = made(tmp_path, {"Oslo": call("Lom")}, rows)
    export(tmp_path, result, "sft", "--leave-test-set", str(tmp_path / "rest.jsonl"), free=False)
    assert [row.id for row in open_dataset(str(tmp_path / "rest.jsonl")).rows()] == ["Voss"]
    assert "1 row stay" in capsys.readouterr().out.replace("stays", "stay")


def test_rows_that_compare_takes_together_leave_the_test_set_together(tmp_path: Path) -> None:
    """Nobody declares `conversation_id`: its values repeat."""
    rows = [asked(place, conversation_id=day) for place, day in (("Bergen", 1), ("Oslo", 1), ("Voss", 2))]
    result = made(tmp_path, {"Oslo": call("Lom")}, rows)
    export(tmp_path, result, "sft", "--leave-test-set", str(tmp_path / "rest.jsonl"), free=False)
    assert [row.id for row in open_dataset(str(tmp_path / "rest.jsonl")).rows()] == ["Voss"]


def test_trials_of_a_question_are_one_example_and_leave_as_one_row(tmp_path: Path) -> None:
    result = made(tmp_path, {"Oslo": call("Lom")}, repeat=3)
    lines = export(tmp_path, result, "sft", "--leave-test-set", str(tmp_path / "rest.jsonl"), free=False)
    assert len(lines) == 1
    assert [row.id for row in open_dataset(str(tmp_path / "rest.jsonl")).rows()] == ["Bergen", "Voss"]


def test_faults_of_serving_are_left_out_and_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result = made(tmp_path, {"Oslo": call("Lom"), "Voss": '{"name": "weather", "arguments": {"in": "Voss"}'})
    rows: Any = result["rows"]
    assert {row["cause"] for row in rows if row["row_id"] == "Voss"} <= {"unreadable", "call_left_in_text", "cut_off"}
    (line,) = export(tmp_path, result, "sft", "--cause", "server_fault", "--cause", rows[1]["cause"])
    assert line["completion"][0]["tool_calls"][0]["function"]["arguments"] == {"in": "Oslo"}
    assert "left out 1: the cause of the failure is not selected by --cause" in capsys.readouterr().out


def test_a_row_without_a_right_answer_or_with_turns_of_nothing_is_left_out_and_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [*ROWS, asked("Lom", ground_truth="[weather(in='Lom'"), asked("Moss", turns=[[]])]
    wrong = {place: call("Rome") for place in ("Oslo", "Lom", "Moss")}
    result = run(
        tmp_path,
        rows,
        target=lambda id, ground_truth: {"response": wrong.get(id, ground_truth)},
        evaluators={"mine": lambda response, id: {"m": 0, "m_result": "fail" if id in wrong else "pass"}},
    )
    assert len(export(tmp_path, result, "sft")) == 1
    said = capsys.readouterr().out
    assert "ground truth cannot be read" in said
    assert "turns[0] must be a list of messages" in said


def test_mistakes_that_were_made_up_are_not_exported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = tmp_path / "test.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in ROWS), "utf-8")
    answer = {"response": "?", "simulated": True}
    result = run(tmp_path, str(data), target=lambda id: dict(answer), evaluators={"match": MatchEvaluator()})
    options = ["--to", "sft", "--no-test-set", "--out", str(tmp_path / "x.jsonl")]
    assert main(["datasets", "export", str(result.run_dir), *options]) == 2
    assert "has simulated answers" in capsys.readouterr().err


@cases("authoring")
def test_what_cannot_be_done_is_one_line(
    options: list[str], says: str, cwd: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    result = made(Path(), {"Oslo": call("Lom")})
    assert main(["datasets", "export", str(result.run_dir), *options]) == 2
    assert says in capsys.readouterr().err
