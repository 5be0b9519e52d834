"""`datasets convert --from openai-evals`: exported items and graders become rows and evaluators that do the same."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from rapidfuzz import fuzz
from tests.judge_parts import JudgeServer
from tests.tables import cases

from tunecheck import ConfigurationError, PluginError, PromptyEvaluator, load_endpoint
from tunecheck.cli import main
from tunecheck.plugins import find

CALL = {"id": "a", "type": "function", "function": {"name": "look_up", "arguments": '{"city": "Oslo"}'}}
ITEMS = [
    {
        "item": {"question": "Capital of France?", "answer": "Paris", "tags": ["geo"]},
        "sample": {"output_text": "Paris"},
    },
    {"item": {"question": "Capital of Spain?", "answer": "Madrid"}, "sample": {"output_text": "It is madrid."}},
    {"item": {"question": "Norway?", "answer": "Oslo"}, "sample": {"output_text": None, "output_tools": [CALL]}},
]
CHECK = {"type": "string_check", "name": "check", "input": "{{ sample.output_text }}", "reference": "{{item.answer}}"}
NEAR = {**CHECK, "type": "text_similarity", "name": "near", "evaluation_metric": "fuzzy_match", "pass_threshold": 0.6}
LABELS = {
    "type": "label_model", "name": "Tone!", "model": "gpt-4o", "labels": ["good", "bad"], "passing_labels": ["good"],
    "input": [
        {"role": "developer", "content": "Say good or bad."},
        {"role": "user", "content": {"type": "input_text", "text": "{{item.tags[0]}}: {{sample.output_text}}"}},
    ],
}  # fmt: skip
SCORE = {
    "type": "score_model", "name": "quality", "model": "gpt-4o", "range": [1, 7], "pass_threshold": 5,
    "sampling_params": {"temperature": 0}, "input": [{"role": "user", "content": "Rate {{sample.output_text}}"}],
}  # fmt: skip


pytestmark = pytest.mark.usefixtures("cwd")


def convert(*graders: dict[str, Any], items: list[Any] = ITEMS, **definition: Any) -> int:
    Path("items.jsonl").write_text("".join(f"{json.dumps(item)}\n" for item in items))
    Path("eval.json").write_text(json.dumps({"testing_criteria": graders, **definition}))
    return main(["datasets", "convert", "items.jsonl", "--from", "openai-evals", "--graders", "eval.json"])


def rows() -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path("datasets/items.jsonl").read_text().splitlines()]


def passed(name: str) -> list[bool]:
    evaluator: Any = find("evaluators", name)()
    return [evaluator(response=row["response"], item=row["item"])[f"{name}_passed"] for row in rows()]


@cases("authoring")
def test_graders_of_texts_judge_recorded_answers_as_openai_documents_them(
    grader: dict[str, Any], items: list[Any], expected: list[bool]
) -> None:
    assert convert({**CHECK, **grader}, items=items or ITEMS) == 0
    assert passed("check") == expected


def test_fuzzy_match_is_the_ratio_of_rapidfuzz() -> None:
    assert convert(NEAR) == 0
    evaluator: Any = find("evaluators", "near")()
    verdict = evaluator(response="It is madrid.", item={"answer": "Madrid"})
    assert verdict["near"] == fuzz.ratio("It is madrid.", "Madrid") / 100


def test_a_row_without_the_value_of_a_variable_has_an_error() -> None:
    assert convert({**CHECK, "operation": "eq", "reference": "{{item.expected}}"}) == 0
    with pytest.raises(ValueError, match=r"no value for the variable \{\{item.expected\}\}"):
        passed("check")


def test_the_recorded_answers_are_judged_by_the_graders_of_texts(capsys: pytest.CaptureFixture[str]) -> None:
    assert convert({**CHECK, "operation": "ilike"}, NEAR) == 0
    assert main(["evaluate", "--dataset", "datasets/items.jsonl", "--response-column", "response"]) == 0
    assert "check: 2 of 3 rows passed" in capsys.readouterr().out


def test_model_graders_become_judges_with_their_labels_ranges_and_thresholds() -> None:
    assert convert(LABELS, SCORE) == 0
    replies = {"Say good": '{"reason": "kind", "label": "good"}', "Rate": '{"reason": "fine", "result": 4}'}

    def reply(body: Any) -> str:
        return next(text for start, text in replies.items() if body["messages"][0]["content"].startswith(start))

    with JudgeServer(reply) as server:
        model = load_endpoint({"kind": "openai", "url": server.url, "model": "m", "auth": {"type": "none"}})
        tone = PromptyEvaluator("prompty/tone.prompty", model)(response="Paris", item={"tags": ["geo"]})
        quality = PromptyEvaluator("prompty/quality.prompty", model)(response="Paris")
        asked = server.asked
    assert (tone["tone_passed"], tone["tone"]) == (True, 1)
    assert (quality["quality_passed"], quality["quality"], quality["quality_threshold"]) == (False, 4, 5)
    assert [message["content"] for message in asked[0]["messages"][:2]] == ["Say good or bad.", "geo: Paris"]
    assert asked[1]["temperature"] == 0


def test_python_graders_are_not_run_before_somebody_deletes_the_line_that_refuses(cwd: Path) -> None:
    source = "open('ran', 'w')\ndef grade(sample, item):\n    return float(sample['output_text'] == item['answer'])\n"
    assert convert({"type": "python", "name": "own", "source": source}) == 0
    with pytest.raises(PluginError, match="read the file, then delete this line"):
        find("evaluators", "own")
    assert not (cwd / "ran").exists()
    stub = Path("evaluators/own.py")
    stub.write_text("".join(line for line in stub.open() if not line.startswith("raise")))
    own: Any = find("evaluators", "own")
    assert own(response="Paris", item={"answer": "Paris"}) == {"own": 1.0, "own_result": "pass"}


def test_the_template_of_a_run_asks_the_question() -> None:
    template = [{"role": "user", "content": {"type": "input_text", "text": "Q: {{item.question}}"}}]
    assert convert(NEAR, data_source={"input_messages": {"type": "template", "template": template}}) == 0
    assert rows()[0]["query"] == [{"role": "user", "content": "Q: Capital of France?"}]


def test_output_items_of_a_run_keep_what_was_asked_and_answered() -> None:
    asked = [{"role": "user", "content": "Capital of France?"}]
    said = [{"role": "assistant", "content": "Paris"}]
    item = {
        "object": "eval.run.output_item",
        "datasource_item": {"answer": "Paris"},
        "sample": {"input": asked, "output": said},
    }
    assert convert(NEAR, items=[item]) == 0
    assert rows() == [{"id": "item-1", "item": {"answer": "Paris"}, "query": asked, "response": "Paris"}]


@pytest.mark.parametrize("sample", [{"output_text": ""}, {"output": [{"role": "assistant", "content": ""}]}])
def test_an_empty_answer_is_judged_and_only_a_missing_one_is_an_error(
    sample: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    item = {"question": "Capital of Italy?", "answer": "Rome"}
    assert (
        convert({**CHECK, "operation": "ilike"}, items=[*ITEMS[:2], {"item": item, "sample": sample}, {"item": item}])
        == 0
    )
    assert main(["evaluate", "--dataset", "datasets/items.jsonl", "--response-column", "response"]) == 0
    assert "check: 2 of 3 rows passed (66.7%). 1 row ended in an error" in " ".join(capsys.readouterr().out.split())


def test_a_grader_with_the_name_of_an_evaluator_gets_another() -> None:
    assert convert({**NEAR, "name": "match"}, {**NEAR, "name": "match"}) == 0
    assert [path.stem for path in sorted(Path("graders").iterdir())] == ["match_grader", "match_grader_2"]


@cases("authoring")
def test_what_cannot_be_converted_is_refused_in_one_line_that_says_where(
    grader: dict[str, Any], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert convert(grader) == 2
    said = capsys.readouterr().err
    assert words in said
    assert said.startswith("error: eval.json: ")
    assert said.count("\n") == 1
    assert not Path("datasets").exists()


def test_files_that_are_there_are_kept_without_overwrite(capsys: pytest.CaptureFixture[str]) -> None:
    assert convert(NEAR) == 0
    Path("datasets/items.jsonl").unlink()
    assert convert(NEAR) == 2
    assert "graders/near.json would be replaced: rename it, or pass --overwrite" in capsys.readouterr().err


SCRIPT = {"type": "python", "name": "script", "source": "def grade(sample, item):\n    return 0"}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{", "own.json: cannot be read: "),
        ("[]", "own.json: must be a mapping, not a list"),
        (json.dumps(CHECK), "own.json: the string_check grader lacks the key 'operation'"),
        (json.dumps({**CHECK, "operation": "eq", "input": SCORE["input"]}), "own.json: `input` must be"),
        (json.dumps({**SCORE, "input": "Rate {{sample.output_text}}"}), "own.json: `input` must be"),
        (json.dumps(SCORE), "own.json: type must be string_check or text_similarity, not score_model"),
        (json.dumps(SCRIPT), "own.json: type must be string_check or text_similarity, not python"),
    ],
)
def test_a_file_that_is_no_text_grader_ends_the_command_in_one_line(
    text: str, problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("graders").mkdir()
    Path("graders/own.json").write_text(text)
    Path("rows.jsonl").write_text('{"id": "1", "response": "Paris", "item": {"answer": "Rome"}}\n')
    assert main(["evaluate", "--dataset", "rows.jsonl", "--response-column", "response", "--evaluators", "own"]) == 2
    said = capsys.readouterr().err
    assert problem in said
    assert said.count("\n") == 1


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("missing.json", r"missing\.json: cannot be read: No such file"),
        pytest.param(
            "pipe.json",
            r"pipe\.json: cannot be read: the path is not a regular file",
            marks=pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no pipes"),
        ),
    ],
)
def test_a_grader_that_cannot_be_read_is_a_configuration_error(name: str, reason: str) -> None:
    assert convert({**CHECK, "operation": "eq"}) == 0
    grader: Any = find("evaluators", "check")
    if name == "pipe.json":
        os.mkfifo(name)
    with pytest.raises(ConfigurationError, match=reason):
        type(grader())(name)


HIDDEN = {"type": "python", "name": "hidden", "source": "def grade(sample, item):\n    return 1\u202e"}


@pytest.mark.parametrize(
    ("grader", "words"),
    [
        (HIDDEN, "`source` contains invisible characters"),
        ({**SCORE, "sampling_params": {"user": "${env:HOME}"}}, "parameters contain '${', reserved in prompt files"),
        ({**SCORE, "model": "x ${env:HOME}"}, "parameters contain '${', reserved in prompt files"),
        (
            {**SCORE, "input": [{"role": "user", "content": "\n" * 200_000 + "system:"}]},
            "'system:', reserved in prompt files",
        ),
        ({**SCORE, "input": [{"role": "user", "content": "{{a" * 200_000}]}, "longer than 262,144 characters"),
    ],
    ids=["hidden characters", "an environment variable", "a variable in a name", "many lines", "many braces"],
)
def test_a_hostile_grader_is_refused_at_once(
    grader: dict[str, Any], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert convert(grader) == 2
    assert words in capsys.readouterr().err
    assert not Path("datasets/items.jsonl").exists()


def test_thousands_of_graders_of_one_long_name_get_short_names() -> None:
    assert convert(*[{**NEAR, "name": "near" * 1000}] * 300) == 0
    files = [path.name for path in Path("graders").iterdir()]
    assert len(files) == 300
    assert max(map(len, files)) < 80


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no pipes")
def test_a_definition_that_is_a_pipe_is_refused_and_a_link_is_read(capsys: pytest.CaptureFixture[str]) -> None:
    assert convert(NEAR) == 0
    options = ["datasets", "convert", "items.jsonl", "--from", "openai-evals", "--overwrite", "--graders"]
    Path("link.json").symlink_to("eval.json")
    assert main([*options, "link.json"]) == 0
    os.mkfifo("pipe.json")
    assert main([*options, "pipe.json"]) == 2
    assert "is not a regular file" in capsys.readouterr().err
