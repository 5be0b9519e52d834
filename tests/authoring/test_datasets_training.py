"""Training files as rows: the forms of OpenAI, Azure OpenAI, TRL, ShareGPT and xLAM, converted or unchanged."""

import hashlib
import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st
from tests.cli_parts import write_lines
from tests.tables import cases

from tunecheck import DataError, Row, evaluate
from tunecheck.cli import main
from tunecheck.datasets import ConversationError, Form, convert, forms, open_dataset
from tunecheck.endpoints import ChatRequest, Completion, Endpoint, EndpointTarget
from tunecheck.formats import read_calls
from tunecheck.plugins import dumps

SYSTEM = {"role": "system", "content": "You plan trips."}
ASK = {"role": "user", "content": "How far is Bergen, and does it rain there?"}
TOOLS = [
    {"type": "function", "function": {"name": name, "parameters": {"type": "object", "properties": {"to": {}}}}}
    for name in ("distance", "weather")
]


def called(name: str, call_id: str | None = None, *, to: str = "Bergen", as_text: bool = True) -> dict[str, Any]:
    arguments = {"to": to}
    function = {"name": name, "arguments": json.dumps(arguments) if as_text else arguments}
    return {"type": "function", "function": function} | ({"id": call_id} if call_id else {})


CHAT: dict[str, Any] = {
    "messages": [
        SYSTEM,
        ASK,
        {"role": "assistant", "tool_calls": [called("distance", "a1"), called("weather", "a2")]},
        {"role": "tool", "tool_call_id": "a2", "content": "rain"},
        {"role": "tool", "tool_call_id": "a1", "content": "460 km"},
        {"role": "assistant", "content": "460 km, and it rains."},
    ],
    "tools": TOOLS,
    "parallel_tool_calls": True,
    "source": "trips",
}


@cases("authoring")
def test_a_record_becomes_these_rows(form: str, record: dict[str, Any], rows: list[dict[str, Any]]) -> None:
    """Only the columns of the table are compared; null stands for a column that is not there."""
    assert forms()[form].fits(record)
    found = forms()[form].rows(record, 7)
    assert [{key: row.get(key) for key in wanted} for row, wanted in zip(found, rows, strict=True)] == rows


@pytest.mark.parametrize("answer", [{"text": "Far."}, {"tool_uses": None}, {"tool_uses": "none"}, None, ["Far."]])
def test_a_plugin_s_form_may_answer_in_its_own_way(tmp_path: Path, answer: Any) -> None:
    form = Form("acme", "an example", lambda _: True, lambda record, number: [{"id": f"{number}", "answer": answer}])
    report = convert(write_lines(tmp_path / "data.jsonl", [{"a": 1}]), form, tmp_path / "rows.jsonl")
    assert (report.rows, report.call_rows, report.calls) == (1, 0, 0)
    assert json.loads((tmp_path / "rows.jsonl").read_text("utf-8")) == {"id": "1", "answer": answer}


def test_a_prompt_of_text_is_converted_but_not_recognised_since_any_columns_are_called_so() -> None:
    record: dict[str, Any] = {"prompt": "How far?", "completion": "Far."}
    assert not forms()["openai"].fits(record)
    (row,) = forms()["openai"].rows(record, 1)
    assert (row["query"], row["answer"]) == ([{"role": "user", "content": "How far?"}], "Far.")


@cases("authoring")
def test_a_conversation_that_cannot_be_read_says_where_and_why(form: str, record: dict[str, Any], reason: str) -> None:
    with pytest.raises(ConversationError, match=f"^{re.escape(reason)}"):
        forms()[form].rows(record, 7)


TOOL = {"role": "tool", "content": "3"}


@pytest.mark.parametrize(
    ("form", "record", "has_id"),
    [
        ("glaive", {"system": "", "chat": "USER: Hi\nFUNCTION RESPONSE: 3"}, False),
        ("sharegpt", {"conversations": [{"from": "tool", "value": "3"}]}, False),
        ("openai", {"messages": [TOOL]}, False),
        ("openai", {"messages": [TOOL | {"tool_call_id": "call_9"}]}, True),
    ],
)
def test_only_a_result_with_an_id_is_said_to_need_another_id(form: str, record: dict[str, Any], has_id: bool) -> None:
    with pytest.raises(ConversationError, match="result has no matching call before it: add the call") as caught:
        forms()[form].rows(record, 7)
    assert str(caught.value).endswith(", or correct `tool_call_id`") is has_id


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from(["", "a", "user", "assistant", "human", "[{}]"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["role", "content", "from"]), inner),
)
KEYS = "messages tools prompt chosen rejected input conversations query answers system chat".split()


@given(st.dictionaries(st.sampled_from(KEYS), values), st.sampled_from(sorted(forms())))
def test_any_record_becomes_rows_or_a_reason(record: dict[str, Any], form: str) -> None:
    forms()[form].fits(record)
    try:
        rows = forms()[form].rows(record, 1)
    except ConversationError as error:
        assert str(error)
        return
    for row in rows:
        dumps(row)


def test_a_conversation_nested_too_deeply_is_told_with_its_line(tmp_path: Path) -> None:
    deep: Any = "\ud83d"
    for _ in range(250):
        deep = [deep]
    path = written(tmp_path, CHAT, {"messages": [{**ASK, "content": deep}, {"role": "assistant", "content": "Hm."}]})
    with pytest.raises(DataError, match=r"line 2: .*nested deeper"):
        open_dataset(path).scan()


# -- datasets convert


def test_a_file_is_converted_into_the_folder_of_data_sets(cwd: Path, capsys: pytest.CaptureFixture[str]) -> None:
    written(cwd, CHAT, {"messages": [ASK]})
    assert main(["datasets", "convert", "train.jsonl", "--from", "openai"]) == 0
    said = capsys.readouterr().out
    assert "1 of 2 conversations: 2 rows, 1 with 2 function calls" in said
    assert "left out number 2: the conversation has no assistant message after a user message" in said
    rows = [dict(row.values) for row in open_dataset("datasets/train.jsonl").rows()]
    assert rows == forms()["openai"].rows(CHAT, 1)


def test_a_file_of_another_form_is_told_which_it_is(tmp_path: Path) -> None:
    with pytest.raises(
        DataError,
        match=r"'conversations' must be a list of turns, not None\); the file is a chat training file: use --from",
    ):
        convert(written(tmp_path, CHAT), forms()["sharegpt"], tmp_path / "rows.jsonl")


# -- a file as it is


def written(folder: Path, *records: dict[str, Any]) -> Path:
    return write_lines(folder / "train.jsonl", records)


def test_a_training_file_is_a_data_set_as_it_is(tmp_path: Path) -> None:
    path = written(tmp_path, CHAT, CHAT)
    dataset = open_dataset(path)
    assert [row.id for row in dataset.rows()] == ["openai-1-1", "openai-1-2", "openai-2-1", "openai-2-2"]
    assert dataset.scan().sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    assert dataset.defaults.group_key == "conversation_id"
    assert dataset.defaults.column_mapping["ground_truth"] == "${data.answer}"
    assert dataset.note == "train.jsonl is a chat training file: each turn of the assistant is a row"


def test_keys_that_parquet_adds_are_no_arguments(tmp_path: Path) -> None:
    parquet, arrow = pytest.importorskip("pyarrow.parquet"), pytest.importorskip("pyarrow")
    calls = [called("weather", as_text=False), {"function": {"name": "roll", "arguments": {"sides": 6}}}]
    record = {"messages": [ASK, {"role": "assistant", "tool_calls": calls}]}
    parquet.write_table(arrow.Table.from_pylist([record]), tmp_path / "train.parquet")
    (row,) = open_dataset(tmp_path / "train.parquet").rows()
    assert [call.arguments for call in read_calls(row.values["answer"]).calls] == [{"to": "Bergen"}, {"sides": 6}]


def test_answers_of_other_forms_that_are_null_say_nothing(tmp_path: Path) -> None:
    path = written(tmp_path, CHAT | {"completion": None, "chosen": None})
    assert [row.id for row in open_dataset(path).rows()] == ["openai-1-1", "openai-1-2"]


def test_what_its_own_sidecar_declares_wins(tmp_path: Path) -> None:
    path = written(tmp_path, CHAT)
    path.with_suffix(".yaml").write_text("evaluators: [function_call_match]\n")
    assert open_dataset(path).defaults.evaluators == ["function_call_match"]
    path.with_suffix(".yaml").write_text("column_mapping: {response: '${data.messages}'}\n")
    assert [row.id for row in open_dataset(path).rows()] == ["row-1"]


def test_a_line_that_cannot_be_read_is_told_with_its_number(tmp_path: Path) -> None:
    path = written(tmp_path, CHAT, {"messages": [ASK, {"role": "assistant", "content": ""}]})
    with pytest.raises(
        DataError,
        match=r"line 2: message 2: the assistant's message has neither text nor calls: .* \S*jsonl --from openai$",
    ):
        open_dataset(path).scan()


@cases("authoring")
def test_rows_are_not_taken_for_a_training_file(tmp_path: Path, record: dict[str, Any]) -> None:
    (row,) = open_dataset(written(tmp_path, record)).rows()
    assert dict(row.values) == record


class Trained(Endpoint):
    """A model that says at each place of the conversation what it was trained to."""

    name = "trained"

    def __init__(self) -> None:
        self.asked: list[ChatRequest] = []

    async def complete(self, request: ChatRequest) -> Completion:
        self.asked.append(request)
        turn = CHAT["messages"][len(request.messages)]
        return Completion(text=turn.get("content"), tool_calls=tuple(turn.get("tool_calls", ())))

    def settings(self) -> dict[str, Any]:
        return {}


def test_a_training_file_is_evaluated_with_the_whole_conversation_as_messages(tmp_path: Path) -> None:
    model = Trained()
    result: Any = evaluate(data=written(tmp_path, CHAT), target=model, results_dir=tmp_path / "runs")
    _, second = model.asked
    assert [message["role"] for message in second.messages] == ["system", "user", "assistant", "tool", "tool"]
    assert second.parameters == {"parallel_tool_calls": True}
    assert result["metrics"]["function_call_match.binary_aggregate"] == 1
    assert result.notes[0].startswith("train.jsonl is a chat training file")


def test_whether_calls_may_be_parallel_is_not_said_to_a_model_without_tools() -> None:
    values: dict[str, Any] = {"query": "Hi", "tools": [], "parallel_tool_calls": False}
    assert EndpointTarget(Trained()).request(Row(0, "a", values, "")).parameters == {}
