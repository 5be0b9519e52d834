"""A judge asks a model over HTTP and makes a verdict of the reply, however the server behaves."""

import asyncio
import gc
import json
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tests.fault_server import Step, failing, filtered
from tests.judge_parts import (
    QUALITY,
    Asked,
    JudgeServer,
    Scripted,
    chat,
    format_of,
    judgement,
    plain_prompt,
    prompt_file,
)
from tests.tables import cases

from tunecheck import (
    ConfigurationError,
    ContentFilterError,
    EndpointError,
    JudgementError,
    JudgeOutput,
    JudgeRefusalError,
    PromptyEvaluator,
    RefusedError,
)

GOOD = judgement(4)


def test_a_verdict_has_the_eight_keys_and_the_tokens(tmp_path: Path) -> None:
    with JudgeServer([GOOD]) as server:
        judge = PromptyEvaluator(prompt_file(tmp_path), server.endpoint())
        found = judge(response="hello")
    assert found == {
        "quality": 4,
        "quality_score": 4,
        "quality_passed": True,
        "quality_result": "pass",
        "quality_reason": "because",
        "quality_status": "completed",
        "quality_threshold": 3,
        "quality_properties": {"input_tokens": 100, "output_tokens": 10, "samples": 1, "model": "judge-model"},
    }
    (asked,) = server.asked
    assert asked["messages"] == [
        {"role": "system", "content": "You judge quality."},
        {"role": "user", "content": "hello"},
    ]
    assert (asked["temperature"], asked["max_tokens"], asked["model"]) == (0.5, 200, "judge-model")


def test_other_values_of_the_answer_stand_in_the_properties(tmp_path: Path) -> None:
    judge = PromptyEvaluator(plain_prompt(tmp_path), Scripted('{"score": 1, "hint": "longer", "parts": [1, 2]}'))
    usual = {"input_tokens": 100, "output_tokens": 10, "samples": 1, "model": "scripted"}
    assert judge(response="x")["quality_properties"] == {**usual, "hint": "longer", "parts": [1, 2]}


def test_the_schema_is_asked_for_strictly_without_bounds_and_with_the_reason_before_the_score(tmp_path: Path) -> None:
    with JudgeServer([GOOD]) as server:
        PromptyEvaluator(prompt_file(tmp_path), server.endpoint())(response="x")
    wanted = server.asked[0]["response_format"]["json_schema"]
    assert wanted["strict"] is True
    schema = wanted["schema"]
    assert list(schema["properties"]) == ["reason", "score"]
    assert schema["required"] == ["reason", "score"]
    assert schema["additionalProperties"] is False
    # Some services refuse a schema with bounds, and a schema's enum gives the bounds to the model.
    assert schema["properties"]["score"] == {"type": "integer", "enum": [1, 2, 3, 4, 5]}


def picky(refused: set[str | None], message: str = "response_format of this type is not supported") -> Any:
    def reply(asked: Asked) -> Step | str:
        return failing(400, message) if format_of(asked) in refused else GOOD

    return reply


def test_a_service_without_schemas_is_asked_for_json_and_never_for_a_schema_again(tmp_path: Path) -> None:
    with JudgeServer(picky({"json_schema"})) as server:
        judge = PromptyEvaluator(prompt_file(tmp_path), server.endpoint())
        assert judge(response="a")["quality"] == 4
        first = [format_of(asked) for asked in server.asked]
        assert judge(response="b")["quality"] == 4
        assert judge(response="c")["quality"] == 4
    assert first == ["json_schema", "json_object"]
    assert [format_of(asked) for asked in server.asked[2:]] == ["json_object"] * 2


def test_the_prompts_own_response_format_is_kept(tmp_path: Path) -> None:
    text = QUALITY.replace("max_tokens: 200}", "max_tokens: 200, response_format: {type: json_object}}")
    with JudgeServer(picky({"json_schema", "json_object"})) as server:
        judge = PromptyEvaluator(prompt_file(tmp_path, text), server.endpoint())
        assert judge(response="a")["quality"] == 4
    assert [format_of(asked) for asked in server.asked] == ["json_object", None]


def test_a_refused_text_format_is_left_out_and_never_becomes_json(tmp_path: Path) -> None:
    text = QUALITY.replace("max_tokens: 200}", "max_tokens: 200, response_format: {type: text}}")
    with JudgeServer(picky({"text"})) as server:
        endpoint = server.endpoint()
        assert PromptyEvaluator(prompt_file(tmp_path, text), endpoint)(response="a")["quality"] == 4
    assert [format_of(asked) for asked in server.asked] == ["text", None]
    assert [*endpoint.facts.sentences()] == ["this model refuses response_format text, so Tunecheck leaves it out"]


def test_a_prompt_without_outputs_asks_for_no_format(tmp_path: Path) -> None:
    with JudgeServer([GOOD]) as server:
        PromptyEvaluator(plain_prompt(tmp_path), server.endpoint())(response="a")
    assert "response_format" not in server.asked[0]


def test_parameters_are_laid_over_the_prompts_and_none_takes_one_away(tmp_path: Path) -> None:
    with JudgeServer([GOOD]) as server:
        changes: Any = {"max_tokens": None, "max_completion_tokens": 9, "temperature": 1}
        PromptyEvaluator(prompt_file(tmp_path), server.endpoint(), parameters=changes)(response="a")
    (asked,) = server.asked
    assert "max_tokens" not in asked
    assert (asked["max_completion_tokens"], asked["temperature"]) == (9, 1)


# -- replies


@pytest.mark.parametrize(
    "reply", [f"```json\n{GOOD}\n```", f"My verdict: {GOOD} Thank you.", "4", '{"score": "4"}', "<S1>x</S1><S2>4</S2>"]
)
def test_a_reply_in_another_form_costs_no_second_call(tmp_path: Path, reply: str) -> None:
    with JudgeServer([reply]) as server:
        assert PromptyEvaluator(prompt_file(tmp_path), server.endpoint())(response="a")["quality"] == 4
    assert len(server.asked) == 1


@cases("judges")
def test_what_is_wrong_is_asked_for_again_once(tmp_path: Path, reply: str, problem: str) -> None:
    with JudgeServer([reply, GOOD]) as server:
        found: Any = PromptyEvaluator(prompt_file(tmp_path), server.endpoint())(response="a")
    assert found["quality"] == 4
    assert found["quality_properties"]["input_tokens"] == 200
    first, second = (asked["messages"] for asked in server.asked)
    assert second[: len(first)] == first
    said, again = second[len(first) :]
    assert said == {"role": "assistant", "content": reply}
    assert problem in again["content"]
    assert '"reason", "score"' in again["content"]


def test_a_reply_that_was_cut_off_is_asked_for_again_shorter(tmp_path: Path) -> None:
    with JudgeServer([chat('{"reason": "it is a long st', finish="length"), GOOD]) as server:
        assert PromptyEvaluator(prompt_file(tmp_path), server.endpoint())(response="a")["quality"] == 4
    again = server.asked[1]["messages"][-1]["content"]
    assert "cut off" in again
    assert "Keep it short" in again


def test_a_verdict_may_come_as_the_call_of_a_function(tmp_path: Path) -> None:
    call = {"id": "c", "type": "function", "function": {"name": "judgement", "arguments": GOOD}}
    with JudgeServer([chat(None, tool_calls=[call])]) as server:
        assert PromptyEvaluator(prompt_file(tmp_path), server.endpoint())(response="a")["quality"] == 4
    assert len(server.asked) == 1


def test_an_empty_reply_is_asked_for_again_without_an_empty_message(tmp_path: Path) -> None:
    with JudgeServer([chat(""), GOOD]) as server:
        assert PromptyEvaluator(prompt_file(tmp_path), server.endpoint())(response="a")["quality"] == 4
    assert [message["role"] for message in server.asked[1]["messages"]] == ["system", "user", "user"]


def test_the_error_of_a_long_reply_is_short(tmp_path: Path) -> None:
    judge = PromptyEvaluator(prompt_file(tmp_path), Scripted("word " * 10_000, "no"))
    with pytest.raises(JudgementError) as raised:
        judge(response="a")
    assert len(str(raised.value)) < 800
    assert raised.value.request_id == "r2"


DECLINED = r"the judge refused to judge this row \(change its prompt or model\): I'm sorry"
NO_VERDICT: dict[str, tuple[list[Step | str], type[Exception], str | None]] = {
    "unreadable twice": (
        ["What a lovely\nday.", "Indeed!"],
        JudgementError,
        "no JSON object.*reply is: What a lovely day",
    ),
    "refused in a text": ([chat("I'm sorry, but I cannot judge this.")], JudgeRefusalError, DECLINED),
    "refused as such": ([chat(None, refusal="I'm sorry, I can't assist with it.")], JudgeRefusalError, DECLINED),
    "a filtered request": ([filtered()], ContentFilterError, None),
    "a filtered answer": ([chat("", finish="content_filter")], ContentFilterError, None),
    "a bad request": ([failing(400, "the context is too long")], EndpointError, "the context is too long"),
    "a wrong key": ([failing(401, "response_format needs a valid key")], RefusedError, None),
}


@pytest.mark.parametrize(("replies", "error", "problem"), NO_VERDICT.values(), ids=NO_VERDICT)
def test_a_reply_without_a_verdict_is_an_error_of_its_own_and_never_a_zero(
    tmp_path: Path, replies: list[Step | str], error: type[Exception], problem: str | None
) -> None:
    with JudgeServer(replies) as server:
        judge = PromptyEvaluator(prompt_file(tmp_path), server.endpoint())
        with pytest.raises(error, match=problem):
            judge(response="a")
    assert len(server.asked) == len(replies)


def test_a_reason_that_is_a_list_is_kept_as_text(tmp_path: Path) -> None:
    judge = PromptyEvaluator(plain_prompt(tmp_path), Scripted('{"reason": ["short", "kind"], "score": 4}'))
    assert judge(response="hi")["quality_reason"] == '["short","kind"]'


def test_where_there_is_nothing_to_judge_the_row_is_not_applicable(tmp_path: Path) -> None:
    judge = PromptyEvaluator(
        plain_prompt(tmp_path), Scripted('{"reason": "empty", "score": null, "status": "skipped"}')
    )
    found = judge(response="a")
    assert (found["quality"], found["quality_result"], found["quality_status"]) == (None, "not_applicable", "skipped")
    assert found["quality_reason"] == "empty"


# -- where it is called


def test_it_works_where_an_event_loop_is_running_as_in_a_notebook(tmp_path: Path) -> None:
    async def cell() -> Any:
        return judge(response="a")["quality"]

    with JudgeServer([GOOD, GOOD]) as server:
        judge = PromptyEvaluator(prompt_file(tmp_path), server.endpoint())
        assert asyncio.run(cell()) == 4
        assert asyncio.run(cell()) == 4


def test_it_is_called_from_many_threads_over_few_connections(tmp_path: Path) -> None:
    with JudgeServer(lambda asked: GOOD) as server:
        judge = PromptyEvaluator(prompt_file(tmp_path), server.endpoint())
        with ThreadPoolExecutor(8) as pool:
            scores = [row["quality"] for row in pool.map(lambda n: judge(response=str(n)), range(40))]
    assert scores == [4] * 40
    assert server.connections <= 16
    assert sorted(asked["messages"][1]["content"] for asked in server.asked) == sorted(map(str, range(40)))


async def test_it_is_closed_and_used_again(tmp_path: Path) -> None:
    before = own_threads()
    with JudgeServer(lambda asked: GOOD) as server:
        judge = PromptyEvaluator(prompt_file(tmp_path), server.endpoint())
        assert judge(response="a")["quality"] == 4
        await judge.close()
        await judge.close()
        assert judge(response="b")["quality"] == 4
        await judge.close()
    assert not own_threads() - before


def own_threads() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name == "tunecheck-judge"}


def test_its_thread_ends_with_it(tmp_path: Path) -> None:
    before = own_threads()
    with JudgeServer(lambda asked: GOOD) as server:
        judge = PromptyEvaluator(prompt_file(tmp_path), server.endpoint())
        judge(response="a")
        (own,) = own_threads() - before
        del judge
        gc.collect()
        own.join(30)
    assert not own.is_alive()


def test_a_pickled_judge_asks_the_same_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JUDGE_KEY", "a-secret-of-the-judge")
    with JudgeServer(lambda asked: GOOD) as server:
        endpoint = server.endpoint(auth={"type": "key", "value": "${env:JUDGE_KEY}"})
        judge = PromptyEvaluator(prompt_file(tmp_path), endpoint, threshold=5, samples=2)
        judge(response="a")
        data = pickle.dumps(judge)
        again = pickle.loads(data)
        assert again(response="a")["quality_result"] == "fail"
    assert b"a-secret-of-the-judge" not in data
    assert server.requests[-1].headers["authorization"] == "Bearer a-secret-of-the-judge"
    assert again.arguments == judge.arguments
    assert (again.metrics, again.primary) == (judge.metrics, judge.primary)


def test_its_parameters_are_the_prompts_inputs(tmp_path: Path) -> None:
    import inspect

    text = QUALITY.replace("inputs:\n", "inputs:\n  topic: {type: string, default: anything}\n")
    judge = PromptyEvaluator(prompt_file(tmp_path, text.replace("{{response}}", "{{topic}}: {{response}}")), Scripted())
    parameters = inspect.signature(judge).parameters
    defaults = {name: parameter.default for name, parameter in parameters.items()}
    assert defaults == {"topic": "anything", "response": inspect.Parameter.empty}
    with pytest.raises(TypeError, match="missing a required argument: 'response'"):
        judge(topic="a")
    with pytest.raises(TypeError, match="unexpected keyword argument 'answer'"):
        judge(response="a", answer="b")


def test_nan_counts_as_nothing(tmp_path: Path) -> None:
    text = QUALITY.replace("{{response}}", "{% if response is none %}nothing{% else %}{{response}}{% endif %}")
    model = Scripted(GOOD)
    PromptyEvaluator(prompt_file(tmp_path, text), model)(response=float("nan"))
    assert model.requests[0].messages[1]["content"] == "nothing"


def test_a_prompt_may_ask_for_a_mark_around_data_which_no_value_can_hold(tmp_path: Path) -> None:
    text = QUALITY.replace("{response: {type: string}}", "{}").replace("{{response}}", "{{data_mark}}|{{response}}")
    model = Scripted(GOOD, GOOD, GOOD)
    judge = PromptyEvaluator(prompt_file(tmp_path, text), model)
    for response in ("a", "a", "b"):
        judge(response=response)
    marks = [str(request.messages[1]["content"]).partition("|")[0] for request in model.requests]
    assert marks[0] == marks[1] != marks[2]
    assert all(len(mark) == 12 for mark in marks)


# -- injection


@cases("judges")
def test_a_response_stays_within_its_message(tmp_path: Path, response: str) -> None:
    model = Scripted(GOOD)
    PromptyEvaluator(prompt_file(tmp_path), model)(response=response)
    (request,) = model.requests
    assert [message["role"] for message in request.messages] == ["system", "user"]
    assert str(request.messages[1]["content"]).strip() == response.strip()


# -- making one


def test_the_prompts_own_model_is_asked_unless_one_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JUDGE_KEY", "k" * 20)
    with JudgeServer([GOOD, GOOD]) as server:
        monkeypatch.setenv("JUDGE_URL", f"{server.address}/v1")
        own = (
            "model:\n  configuration: {type: openai, model: own-model, "
            "base_url: '${env:JUDGE_URL}', api_key: '${env:JUDGE_KEY}'}"
        )
        judge = PromptyEvaluator(prompt_file(tmp_path, QUALITY.replace("model:", own, 1)))
        assert judge(response="a")["quality_properties"]["model"] == "own-model"  # type: ignore[index,call-overload]
    assert server.asked[0]["model"] == "own-model"
    assert server.requests[0].headers["authorization"] == "Bearer " + "k" * 20


def test_model_is_another_name_of_model_config(tmp_path: Path) -> None:
    model = Scripted(GOOD)
    assert PromptyEvaluator(prompt_file(tmp_path), model=model)(response="a")["quality"] == 4
    with pytest.raises(ConfigurationError, match="the same parameter"):
        PromptyEvaluator(prompt_file(tmp_path), model, model=model)


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"samples": 0}, r"samples: must be a whole number of at least 1"),
        ({"samples": True}, r"samples: must be a whole number, not true or false"),
        ({"combine": "median"}, r"combine: 'median' is unknown; did you mean 'mean'"),
        ({"threshold": 9}, "threshold of quality must be 1 to 5, not 9"),
        ({"threshold": "high"}, r"threshold: must be a number, not a text"),
        ({"parameters": [1]}, "`parameters` must be a mapping"),
        ({"parameters": {"a": object()}}, "no JSON form"),
        ({"output": JudgeOutput(score="scroe")}, "`outputs` must have 'scroe'; did you mean 'score'"),
        ({"output": JudgeOutput(kind="percent")}, r"kind: 'percent' is unknown"),  # type: ignore[arg-type]
        ({"output": JudgeOutput(range=(5, 1))}, "two numbers, the lower one first"),
    ],
)
def test_a_wrong_argument_is_refused(tmp_path: Path, arguments: Any, problem: str) -> None:
    with pytest.raises(ConfigurationError, match=problem):
        PromptyEvaluator(prompt_file(tmp_path), Scripted(), **arguments)


def test_outputs_that_are_no_schema_are_refused(tmp_path: Path) -> None:
    text = QUALITY.replace("reason: {type: string}", "reason: {type: string, pattern: '('}")
    with pytest.raises(ConfigurationError, match=r"quality\.prompty: the schema of the outputs cannot be used"):
        PromptyEvaluator(prompt_file(tmp_path, text), Scripted())


CALLS = [{"type": "function", "function": {"name": "book", "arguments": '{"seats": 2, "late": true}'}}]


def test_calls_stand_in_a_prompt_as_json(tmp_path: Path) -> None:
    with JudgeServer([GOOD]) as server:
        PromptyEvaluator(prompt_file(tmp_path), server.endpoint())(response=CALLS)
        shown = server.asked[0]["messages"][1]["content"]
    assert json.loads(shown) == CALLS


@pytest.mark.parametrize(
    ("applies_to", "results"), [("text", ["pass", "not_applicable"]), ("calls", ["not_applicable", "pass"])]
)
def test_a_judge_is_asked_only_where_it_applies(tmp_path: Path, applies_to: str, results: list[str]) -> None:
    with JudgeServer([GOOD]) as server:
        judge = PromptyEvaluator(plain_prompt(tmp_path, applies_to=applies_to, threshold=4), server.endpoint())
        assert [judge(response=response)["quality_result"] for response in ("Done.", CALLS)] == results
        assert len(server.asked) == 1
