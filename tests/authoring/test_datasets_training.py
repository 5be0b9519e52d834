"""Training files as rows: the forms of OpenAI, Azure OpenAI, TRL, ShareGPT and xLAM, converted or unchanged."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st
from tests.tables import cases

from tunecheck import DataError, Row, evaluate
from tunecheck.cli import main
from tunecheck.datasets import ConversationError, convert, forms, open_dataset
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


def rows_of(form: str, record: dict[str, Any]) -> list[dict[str, Any]]:
    assert forms()[form].fits(record)
    return forms()[form].rows(record, 7)


def refusal(form: str, record: dict[str, Any]) -> str:
    with pytest.raises(ConversationError) as caught:
        forms()[form].rows(record, 7)
    return str(caught.value)


def names(answer: object) -> list[str]:
    return [call.name for call in read_calls(answer).calls]


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


# -- OpenAI, Azure OpenAI


def test_each_turn_of_the_assistant_is_a_row_with_all_that_stood_before_it() -> None:
    calls, text = rows_of("openai", CHAT)
    assert calls == {
        "id": "openai-7-1",
        "conversation_id": "openai-7",
        "query": [SYSTEM, ASK],
        "answer": {
            "tool_uses": [
                {"recipient_name": "functions.distance", "parameters": {"to": "Bergen"}},
                {"recipient_name": "functions.weather", "parameters": {"to": "Bergen"}},
            ]
        },
        "tools": TOOLS,
        "parallel_tool_calls": True,
        "source": "trips",
    }
    assert (text["id"], text["answer"]) == ("openai-7-2", "460 km, and it rains.")
    assert [message["role"] for message in text["query"]] == ["system", "user", "assistant", "tool", "tool"]
    assert [call["id"] for call in text["query"][2]["tool_calls"]] == ["a1", "a2"]
    assert [message["tool_call_id"] for message in text["query"][3:]] == ["a2", "a1"]


def test_a_turn_of_weight_0_is_history_and_no_row() -> None:
    said = [{"role": "assistant", "content": "Well.", "weight": 0}, ASK, {"role": "assistant", "content": "Far."}]
    (row,) = rows_of("openai", {"messages": [ASK, *said]})
    assert (row["id"], row["answer"]) == ("openai-7-2", "Far.")
    assert row["query"] == [ASK, {"role": "assistant", "content": "Well."}, ASK]


def test_functions_as_they_were_once_become_tools_with_ids() -> None:
    record = {
        "messages": [
            ASK,
            {"role": "assistant", "function_call": {"name": "weather", "arguments": '{"to": "Bergen"}'}},
            {"role": "function", "name": "weather", "content": "rain"},
            {"role": "assistant", "content": "It rains."},
        ],
        "functions": [tool["function"] for tool in TOOLS],
    }
    call, text = rows_of("openai", record)
    assert (names(call["answer"]), call["tools"]) == (["weather"], TOOLS)
    assert text["query"][1]["tool_calls"][0]["id"] == text["query"][2]["tool_call_id"] == "call_1"


def test_parts_of_content_stay_and_the_answer_is_their_text() -> None:
    picture = {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}]}
    answer = {"role": "assistant", "content": [{"type": "text", "text": "A "}, {"type": "text", "text": "fjord."}]}
    (row,) = rows_of("openai", {"messages": [picture, answer]})
    assert (row["query"], row["answer"]) == ([picture], "A fjord.")


def test_text_beside_calls_and_reasoning_are_kept() -> None:
    turn = {
        "role": "assistant",
        "content": "Let me see.",
        "tool_calls": [called("weather")],
        "reasoning_content": "Hm.",
    }
    result = {"role": "tool", "content": {"rain": 3}}
    first, second = rows_of("openai", {"messages": [ASK, turn, result, {"role": "assistant", "content": "Yes."}]})
    assert first["answer"]["content"] == "Let me see."
    assert (second["query"][1]["content"], second["query"][1]["reasoning_content"]) == ("Let me see.", "Hm.")
    assert json.loads(second["query"][2]["content"]) == {"rain": 3}


def test_of_a_preference_the_preferred_answer_is_right() -> None:
    record = {
        "input": {"messages": [ASK], "tools": TOOLS, "parallel_tool_calls": False},
        "preferred_output": [{"role": "assistant", "tool_calls": [called("weather", "x")]}],
        "non_preferred_output": [{"role": "assistant", "content": "No idea."}],
    }
    (row,) = rows_of("openai", record)
    assert (row["query"], names(row["answer"]), row["parallel_tool_calls"]) == ([ASK], ["weather"], False)
    assert "non_preferred_output" not in row


# -- TRL


def test_arguments_may_be_an_object_and_results_go_by_the_functions_name() -> None:
    record = {
        "messages": [
            ASK,
            {"role": "assistant", "tool_calls": [called("distance", as_text=False), called("weather", as_text=False)]},
            {"role": "tool", "name": "weather", "content": "rain"},
            {"role": "tool", "name": "distance", "content": "460 km"},
            {"role": "assistant", "content": "460 km, and it rains."},
        ],
        "tools": TOOLS,
    }
    _, text = rows_of("openai", record)
    calls, rain, distance = text["query"][1:]
    ids = {call["function"]["name"]: call["id"] for call in calls["tool_calls"]}
    assert (rain["tool_call_id"], distance["tool_call_id"]) == (ids["weather"], ids["distance"])
    assert json.loads(calls["tool_calls"][0]["function"]["arguments"]) == {"to": "Bergen"}


@cases("authoring")
def test_prompts_with_completions_and_preferences_are_rows(record: dict[str, Any]) -> None:
    (row,) = rows_of("openai", record)
    assert (row["query"], row["answer"]) == ([ASK], "Far.")


def test_a_prompt_of_text_is_converted_but_not_recognised_since_any_columns_are_called_so() -> None:
    record: dict[str, Any] = {"prompt": "How far?", "completion": "Far."}
    assert not forms()["openai"].fits(record)
    (row,) = forms()["openai"].rows(record, 1)
    assert (row["query"], row["answer"]) == ([{"role": "user", "content": "How far?"}], "Far.")


# -- ShareGPT


def said(*turns: tuple[str, str], **beside: object) -> dict[str, Any]:
    return {"conversations": [{"from": role, "value": value} for role, value in turns], **beside}


def test_calls_and_observations_are_turns_and_tools_are_text() -> None:
    record = said(
        ("human", "Rain in Bergen?"),
        ("function_call", '{"name": "weather", "arguments": {"to": "Bergen"}}'),
        ("observation", "rain"),
        ("gpt", "It rains."),
        system="You plan trips.",
        tools=json.dumps([tool["function"] for tool in TOOLS]),
    )
    call, text = rows_of("sharegpt", record)
    assert (call["id"], names(call["answer"]), call["tools"]) == ("sharegpt-7-1", ["weather"], TOOLS)
    assert text["query"][0] == SYSTEM
    assert text["query"][3] == {"role": "tool", "tool_call_id": "call_1", "content": "rain"}
    assert text["answer"] == "It rains."


@cases("authoring")
def test_results_of_several_calls_are_shared_out(observed: list[str], results: list[str]) -> None:
    calls = json.dumps([{"name": name, "arguments": {"to": "Bergen"}} for name in ("distance", "weather")])
    turns = [("human", "?"), ("function_call", calls), *(("observation", each) for each in observed), ("gpt", "So.")]
    _, text = rows_of("sharegpt", said(*turns))
    assert [message["content"] for message in text["query"][2:]] == results


def test_a_call_in_a_familys_form_is_one() -> None:
    turn = 'I look.\n<tool_call>\n{"name": "weather", "arguments": {"to": "Bergen"}}\n</tool_call>'
    call, _ = rows_of("sharegpt", said(("human", "?"), ("gpt", turn), ("tool", "rain"), ("gpt", "It rains.")))
    assert (names(call["answer"]), call["answer"]["content"]) == (["weather"], "I look.")


def test_of_a_sharegpt_preference_only_the_chosen_turn_is_a_row() -> None:
    record = said(("human", "Hi"), ("gpt", "Hello!"), ("human", "How far?"))
    record |= {"chosen": {"from": "gpt", "value": "Far."}, "rejected": {"from": "gpt", "value": "Near."}}
    (row,) = rows_of("sharegpt", record)
    assert (row["answer"], len(row["query"])) == ("Far.", 3)


# -- xLAM


def test_a_question_of_xlam_has_its_calls_and_a_schema_of_each_tool() -> None:
    tool = {
        "name": "hotels",
        "description": "Finds hotels",
        "parameters": {
            "city": {"description": "Where", "type": "str"},
            "stars": {"description": "How good", "type": "List[int]", "default": "3"},
            "budget": {"description": "At most", "type": "Union[int, Tuple[float, float]], optional"},
        },
    }
    answers = [{"name": "hotels", "arguments": {"city": "Bergen", "stars": [4]}}] * 2
    record = {"id": 3, "query": "Two hotels", "tools": json.dumps([tool]), "answers": json.dumps(answers)}
    (row,) = rows_of("xlam", record)
    assert (row["id"], row["query"]) == ("xlam-7-1", [{"role": "user", "content": "Two hotels"}])
    assert [call.arguments for call in read_calls(row["answer"]).calls] == [{"city": "Bergen", "stars": [4]}] * 2
    assert row["tools"][0]["function"]["parameters"] == {
        "type": "object",
        "properties": {
            "city": {"description": "Where", "type": "string"},
            "stars": {"description": "How good", "default": "3", "type": "array", "items": {"type": "integer"}},
            "budget": {"description": "At most", "anyOf": [{"type": "integer"}, {"type": "array"}]},
        },
        "required": ["city"],
    }


def test_a_question_without_answers_asks_for_no_call() -> None:
    (row,) = rows_of("xlam", {"query": "Hi", "tools": "[]", "answers": "[]"})
    assert row["answer"] == {"tool_uses": []}


# -- what cannot be read


@cases("authoring")
def test_a_conversation_that_cannot_be_read_says_where_and_why(form: str, record: dict[str, Any], reason: str) -> None:
    assert refusal(form, record).startswith(reason)


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from(["", "a", "user", "assistant", "human", "[{}]"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["role", "content", "from"]), inner),
)
KEYS = [
    "messages",
    "tools",
    "prompt",
    "chosen",
    "rejected",
    "input",
    "conversations",
    "query",
    "answers",
    "system",
    "chat",
]


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
    with pytest.raises(DataError, match="'conversations' is not a list of turns; it is a chat training file: datasets"):
        convert(written(tmp_path, CHAT), forms()["sharegpt"], tmp_path / "rows.jsonl")


# -- a file as it is


def written(folder: Path, *records: dict[str, Any]) -> Path:
    path = folder / "train.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


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
        match=r"line 2: message 2: the assistant's message has neither text nor calls; .* \S*jsonl --from openai$",
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
