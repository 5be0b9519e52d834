"""Conversations as the target of an evaluation: given in Python, and declared by a data set."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.cli_parts import write_files, write_lines
from tests.conversation_parts import Values, evaluated, said, serving, shelf_row
from tests.pipeline_parts import column, metrics_of, rows_of

from tunecheck import ConfigurationError, evaluate
from tunecheck.datasets import open_dataset
from tunecheck.endpoints import EndpointTarget
from tunecheck.episodes import ConversationTarget
from tunecheck.evaluation import is_driver

pytestmark = pytest.mark.usefixtures("shelf")


def rows(count: int) -> list[Values]:
    return [{**shelf_row(said(f"Put {number} cups.")).values, "id": f"c{number}"} for number in range(count)]


def reply(body: Values) -> Any:
    return "Done." if body["messages"][-1]["role"] == "tool" else [("put", {"name": "cup"})]


def declared(folder: Path, count: int, target: str = "conversation") -> Path:
    """A data file with a sidecar that declares its target."""
    path = write_lines(folder / "datasets" / "shelf.jsonl", rows(count))
    path.with_suffix(".yaml").write_text(f"target: {target}\n", "utf-8")
    return path


def test_a_conversation_is_a_target_like_any_other() -> None:
    with serving(reply) as server:
        result = evaluated(rows(5), ConversationTarget(server.endpoint()))
    assert column(result, "outputs.steps.steps") == [2] * 5
    assert metrics_of(result)["steps.steps"] == 2
    assert column(result, "outputs.response") == ["Done."] * 5
    assert column(result, "outputs.forced_quit") == [False] * 5


def test_an_endpoint_is_driven_as_the_data_set_declares(shelf: Path) -> None:
    with serving(reply) as server:
        result = evaluated(declared(shelf, 3), server.endpoint())
    assert column(result, "outputs.steps.steps") == [2, 2, 2]
    manifest = json.loads((result.run_dir / "run.json").read_bytes())
    assert manifest["target"]["conversation"]["mode"] == "tools"


def test_a_choice_of_calls_that_changes_no_verdict_is_noted(shelf: Path) -> None:
    with serving(reply) as server:
        result = evaluated(declared(shelf, 1), server.endpoint(), calls="lenient")
    assert (
        "calls: lenient does not apply to steps, as calls in `result` are read when the model answers" in result.notes
    )


def test_a_data_set_says_how_its_conversations_are_had(shelf: Path) -> None:
    """It may name the mode, the family that sets the form of calls, the step limit, and the parts of the log."""
    how = "mode: text\nformat: hermes\nstep_limit: 2\ninclude_input_log: true\n"
    data = declared(shelf, 1)
    data.with_suffix(".yaml").write_text(f"target: conversation\n{how}", "utf-8")
    written = '<tool_call>\n{"name": "put", "arguments": {"name": "cup"}}\n</tool_call>'
    with serving(lambda _: written) as server:
        result = evaluated(data, server.endpoint())
        sent = server.requests
    assert "tools" not in sent[0]
    assert sent[1]["messages"][-2] == {"role": "assistant", "content": written}
    (row,) = rows_of(result)
    assert row["outputs.result"] == [["[put(name='cup')]"] * 2]
    assert row["outputs.forced_quit"] is True
    first = row["outputs.inference_log"][1]["step_0"]
    assert [item["role"] for item in first] == ["inference_input", "assistant", "handler_log", "tool"]
    assert first[1]["raw_text"] == written


def test_a_data_set_of_single_questions_has_no_mode(shelf: Path) -> None:
    data = declared(shelf, 1)
    data.with_suffix(".yaml").write_text("mode: text\n", "utf-8")
    with (
        serving(reply) as server,
        pytest.raises(ConfigurationError, match="shelf: `mode` is only for conversations: leave out --mode, or "),
    ):
        evaluated(data, server.endpoint())


def test_a_data_set_that_names_an_endpoint_is_answered_as_ever(shelf: Path) -> None:
    write_files(shelf, {"endpoints/mine.yaml": "kind: simulated\n"})
    dataset = open_dataset(declared(shelf, 1, "mine"))
    assert not is_driver(dataset.defaults.target)
    result = evaluate(data=dataset, evaluators={"one": lambda response: {"one": 1}}, workers=0)
    assert result.simulated


def test_a_data_set_of_conversations_needs_somebody_who_answers(shelf: Path) -> None:
    with pytest.raises(
        ConfigurationError, match="shelf: target 'conversation' needs an endpoint: pass --endpoint or target=…"
    ):
        evaluated(declared(shelf, 1), None)


def test_a_mapping_of_the_target_s_columns_is_refused_in_a_conversation(shelf: Path) -> None:
    config = {"target": {"column_mapping": {"messages": "${data.turns}"}}}
    with (
        serving(reply) as server,
        pytest.raises(
            ConfigurationError, match="gets one request for each row, takes a mapping: leave --mapping target"
        ),
    ):
        evaluated(declared(shelf, 1), server.endpoint(), evaluator_config=config)


def test_a_row_that_describes_no_conversation_is_that_row_s_error_alone() -> None:
    data = [*rows(2), {**rows(3)[2], "turns": "hello"}]
    with serving(reply) as server:
        result = evaluated(data, ConversationTarget(server.endpoint()))
    assert column(result, "outputs.steps.steps") == [2, 2, None]
    assert "column `turns` must hold a list of turns" in rows_of(result)[2]["error.target"]["message"]


def test_conversations_go_on_side_by_side_as_many_as_the_endpoint_takes() -> None:
    with serving(reply) as server:
        endpoint = server.endpoint(limits={"concurrency": 7})
        target = ConversationTarget(endpoint)
        assert target.concurrency == EndpointTarget(endpoint).concurrency == 7
        result = evaluated(rows(40), target)
    assert column(result, "outputs.steps.steps") == [2] * 40


def test_answers_are_taken_over_by_a_run_that_changes_nothing_they_depend_on() -> None:
    with serving(reply) as server:
        data = rows(3)
        first = evaluated(data, ConversationTarget(server.endpoint()))
        asked = len(server.requests)
        relabelled = [{**row, "ground_truth": [["look()"]]} for row in data]
        evaluated(relabelled, ConversationTarget(server.endpoint()), reuse=first.run_dir)
        assert len(server.requests) == asked
        evaluated(data, ConversationTarget(server.endpoint(), step_limit=1), reuse=first.run_dir)
        assert len(server.requests) == asked + 3
