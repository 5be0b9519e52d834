"""`tunecheck_azure`'s evaluators: names, inputs, output keys and thresholds as Azure's have them."""

import gc
import inspect
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.azure_parts import CONVERSATION, QA, column, evaluate
from tests.judge_parts import Credential, JudgeServer, Scripted, judgement
from tests.tables import cases

import tunecheck
import tunecheck_azure as azure
from tunecheck.endpoints import ChatRequest, Completion, Usage

TEXT = [
    azure.BleuScoreEvaluator,
    azure.GleuScoreEvaluator,
    azure.MeteorScoreEvaluator,
    azure.F1ScoreEvaluator,
    lambda **given: azure.RougeScoreEvaluator(azure.RougeType.ROUGE_L, **given),
]
NAMES = ["bleu", "gleu", "meteor", "f1_score", "rouge"]
ENDS = ["", "_score", "_passed", "_result", "_reason", "_status", "_threshold", "_properties"]


@pytest.mark.parametrize(("kind", "name"), [*zip(TEXT, NAMES, strict=True)])
def test_a_text_metric_has_azure_s_eight_keys(kind: Any, name: str) -> None:
    verdict = kind()(response="The cat sat on the mat.", ground_truth="The cat sat on the mat.")
    assert list(verdict) == [f"{name}{end}" for end in ENDS]
    assert verdict[f"{name}_result"] == "pass"
    assert (verdict[f"{name}_threshold"], verdict[f"{name}_status"]) == (0.5, "completed")


@pytest.mark.parametrize("kind", TEXT[:4])
def test_a_row_passes_from_its_threshold_on(kind: Any) -> None:
    pair = {"response": "a blue sky today", "ground_truth": "a blue sea"}
    score = next(iter(kind()(**pair).values()))
    results = [[*kind(threshold=limit)(**pair).values()][3] for limit in (0.0, score, score + 0.01)]
    assert results == ["pass", "pass", "fail"]


def test_rouge_takes_its_kind_first_and_floats_as_thresholds() -> None:
    judge = azure.RougeScoreEvaluator("rouge1", f1_score_threshold=0.9)
    verdict: Any = judge(response="a b c", ground_truth="a b d")
    assert verdict["rouge_properties"]["rouge_precision"] == pytest.approx(2 / 3)
    assert (verdict["rouge_result"], verdict["rouge_properties"]["rouge_recall_result"]) == ("fail", "pass")
    with pytest.raises(azure.EvaluationException) as raised:
        azure.RougeScoreEvaluator("rouge1", recall_threshold=1)
    assert raised.value.args[0] == "recall_threshold must be a float, got <class 'int'>"
    with pytest.raises(TypeError):
        azure.RougeScoreEvaluator()  # type: ignore[call-arg]


INCOMPLETE = "F1ScoreEvaluator: Either 'conversation' or individual inputs must be provided."


@pytest.mark.parametrize("given", [{}, {"response": "a"}, {"response": None, "ground_truth": "a"}])
def test_missing_inputs_are_told_in_azure_s_words(given: dict[str, Any]) -> None:
    with pytest.raises(azure.EvaluationException) as raised:
        azure.F1ScoreEvaluator()(**given)
    error = raised.value
    assert (error.args[0], error.target) == (INCOMPLETE, azure.ErrorTarget.CONVERSATION)
    with pytest.raises(azure.EvaluationException, match=re.escape(INCOMPLETE)):
        azure.F1ScoreEvaluator()("a", "a")  # inputs have names, no places


def test_a_conversation_of_one_turn_is_judged_like_single_inputs() -> None:
    conversation = {"messages": CONVERSATION["messages"][:2]}
    assert azure.F1ScoreEvaluator()(conversation=conversation) == azure.F1ScoreEvaluator()(
        response="blue sky", ground_truth="blue sky"
    )
    assert azure.F1ScoreEvaluator()(conversation={"messages": []}) == {}


@pytest.mark.usefixtures("azure_s_prompts")
@pytest.mark.parametrize("judge", [azure.SimilarityEvaluator, azure.RetrievalEvaluator])
def test_a_judge_that_needs_no_input_by_name_does_not_see_through_a_conversation(judge: Any) -> None:
    assert judge(Scripted())(conversation={"messages": []}) == {}
    with pytest.raises(azure.EvaluationException, match="the conversation's list of messages is missing or empty"):
        azure.FluencyEvaluator(Scripted())(conversation={"messages": []})


# -- judges


TOOLS = [{"name": "weather", "description": "Tells it.", "parameters": {"type": "object", "properties": {}}}]
CALL = {"type": "tool_call", "tool_call_id": "c1", "name": "weather", "arguments": {"city": "stars:4"}}


class Stars(Scripted):
    """A model that gives as many stars as the text that it judges says."""

    async def complete(self, request: ChatRequest) -> Completion:
        self.requests.append(request)
        stars = int(re.findall(r"stars:(\d)", json.dumps(request.messages[-1]))[-1])
        said = json.dumps({"reason": f"{stars} stars", "score": stars, "properties": {"kind": "stars"}})
        return Completion(text=said, usage=Usage(100, 10), finish_reason="stop")


PROMPTS = {
    "coherence": "query response",
    "fluency": "response",
    "similarity": "query response ground_truth",
    "retrieval": "query context",
    "response_completeness": "response ground_truth",
    "intent_resolution": "query response tool_definitions",
    "task_adherence": "system_message query response tool_calls",
    "tool_call_accuracy": "query tool_definitions tool_calls",
}


@pytest.fixture
def azure_s_prompts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A package in the place of azure-ai-evaluation: prompts of the same names and inputs."""
    package = tmp_path / "site" / "azure" / "ai" / "evaluation"
    for name, inputs in PROMPTS.items():
        path = package / "_evaluators" / f"_{name}" / f"{name}.prompty"
        path.parent.mkdir(parents=True)
        declared = ", ".join(f"{each}: {{type: string}}" for each in inputs.split())
        body = "\n".join(f"{each} is {{{{{each}}}}}" for each in inputs.split())
        front = f"model:\n  api: chat\n  parameters: {{temperature: 0, max_tokens: 800}}\ninputs: {{{declared}}}"
        path.write_text(f"---\n{front}\n---\nuser:\n{body}\n")
    (package / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path / "site")
    yield
    for name in [name for name in sys.modules if name == "azure.ai" or name.startswith("azure.ai.")]:
        del sys.modules[name]


QUESTION = {"query": "how?", "response": "stars:4 so", "ground_truth": "so", "context": "stars:4"}
JUDGES = {
    "coherence": azure.CoherenceEvaluator,
    "fluency": azure.FluencyEvaluator,
    "similarity": azure.SimilarityEvaluator,
    "retrieval": azure.RetrievalEvaluator,
    "response_completeness": azure.ResponseCompletenessEvaluator,
    "relevance": azure.RelevanceEvaluator,
    "groundedness": azure.GroundednessEvaluator,
}


@pytest.mark.usefixtures("azure_s_prompts")
@pytest.mark.parametrize("name", JUDGES)
def test_a_judge_has_azure_s_keys_and_properties(name: str) -> None:
    verdict = JUDGES[name](Stars())(**QUESTION)
    assert list(verdict) == [f"{name}{end}" for end in ENDS]
    assert [verdict[f"{name}{end}"] for end in ENDS[:7]] == [4.0, 4.0, True, "pass", "4 stars", "completed", 3]
    assert type(verdict[f"{name}_threshold"]) is int
    strict = JUDGES[name](Stars(), threshold=5)(**QUESTION)
    assert (strict[f"{name}_result"], strict[f"{name}_threshold"]) == ("fail", 5)
    properties: Any = verdict[f"{name}_properties"]
    counted = {"kind": "stars", "prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}
    assert properties.items() >= {**counted, "finish_reason": "stop", "model": "scripted"}.items()
    asked = json.loads(json.loads(properties["sample_input"])[0]["content"])
    assert asked.items() <= QUESTION.items()
    assert json.loads(properties["sample_output"])[0]["role"] == "assistant"


@pytest.mark.usefixtures("azure_s_prompts")
def test_a_judge_of_a_conversation_gives_means_and_each_turn(tmp_path: Path) -> None:
    said = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "stars:5"}]
    said += [{"role": "user", "content": "b"}, {"role": "assistant", "content": "stars:2"}]
    model = Stars()
    result = evaluate(tmp_path, {"conversation": {"messages": said}}, evaluators={"c": azure.CoherenceEvaluator(model)})
    row = result["rows"][0]
    assert row["outputs.c.evaluation_per_turn.coherence"] == [5.0, 2.0]
    assert (row["outputs.c.coherence"], row["outputs.c.coherence_reason"]) == (3.5, "2 stars")
    assert result["metrics"]["c.coherence"] == 3.5
    assert len(model.requests) == 2


@pytest.mark.usefixtures("azure_s_prompts")
def test_a_reasoning_model_is_asked_without_what_it_does_not_take() -> None:
    plain, reasoning = Stars(), Stars()
    azure.FluencyEvaluator(plain)(response="stars:4")
    azure.FluencyEvaluator(reasoning, is_reasoning_model=True)(response="stars:4")
    assert {"temperature", "max_tokens"} <= plain.requests[0].parameters.keys()
    assert {"temperature", "max_tokens"}.isdisjoint(reasoning.requests[0].parameters)
    assert reasoning.requests[0].parameters["max_completion_tokens"] == 60_000


def test_a_judge_whose_prompt_is_not_there_says_what_to_install_and_ours_need_none(tmp_path: Path) -> None:
    with pytest.raises(azure.EvaluationException) as raised:
        azure.CoherenceEvaluator(Stars())(query="q", response="stars:4")
    assert raised.value.args[0] == (
        "CoherenceEvaluator needs a prompt of Azure AI Evaluation: pip install azure-ai-evaluation"
    )
    assert raised.value.category is azure.ErrorCategory.MISSING_PACKAGE
    said = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "stars:4"}]
    result = evaluate(tmp_path, {"messages": said}, evaluators={"r": azure.RelevanceEvaluator(Stars())})
    assert column(result, "outputs.r.relevance") == [4.0]


@cases("azure")
def test_what_a_judge_needs_is_told(kind: str, given: dict[str, Any], said: str) -> None:
    evaluator: Any = getattr(azure, kind)
    with pytest.raises(azure.EvaluationException) as raised:
        (evaluator() if kind == "F1ScoreEvaluator" else evaluator(Stars()))(**given)
    assert raised.value.args[0].startswith(said)
    assert raised.value.blame is azure.ErrorBlame.USER_ERROR


@cases("azure")
def test_a_model_configuration_that_is_none_is_refused(config: Any) -> None:
    for judge in (azure.FluencyEvaluator, azure.QAEvaluator):
        with pytest.raises(azure.EvaluationException, match="Model config validation failed"):
            judge(config)


def test_headers_of_a_model_configuration_are_texts_by_name() -> None:
    assert azure.FluencyEvaluator({"model": "m", "api_key": "k", "extra_headers": {"X-Team": "a"}})


@pytest.mark.usefixtures("azure_s_prompts")
def test_without_a_key_all_judges_of_qa_sign_in_with_its_credential() -> None:
    credential = Credential()
    with JudgeServer(lambda asked: judgement(4)) as server:
        config = azure.AzureOpenAIModelConfiguration(azure_endpoint=server.address, azure_deployment="judge")
        azure.QAEvaluator(config, credential=credential)(**QUESTION)
    assert [request.headers["authorization"] for request in server.requests] == ["Bearer entra-token"] * 5


@pytest.mark.filterwarnings("default::ResourceWarning")
def test_a_judge_called_before_its_run_closes_all_connections(tmp_path: Path, recwarn: pytest.WarningsRecorder) -> None:
    with JudgeServer(lambda asked: judgement(4)) as server:
        judge = azure.RelevanceEvaluator(server.endpoint())
        judge(query="q", response="r")
        result = evaluate(tmp_path, QUESTION, evaluators={"relevance": judge})
        del judge
        gc.collect()
    assert result["metrics"]["relevance.relevance"] == 4
    assert not [warning for warning in recwarn if "Unclosed" in str(warning.message)]


@pytest.mark.usefixtures("azure_s_prompts")
def test_qa_is_five_judges_and_f1_of_one_row(tmp_path: Path) -> None:
    result = evaluate(tmp_path, QUESTION, evaluators={"qa": azure.QAEvaluator(Stars(), fluency_threshold=5)})
    row = result["rows"][0]
    names = ["f1_score", "groundedness", "relevance", "coherence", "fluency", "similarity"]
    assert [key for key in row if key.startswith("outputs.")] == [
        f"outputs.qa.{name}{end}" for name in names for end in ENDS
    ]
    assert row["outputs.qa.fluency_result"] == "fail"
    assert azure.QAEvaluator(Stars())(**QUESTION)["similarity"] == 4.0
    with pytest.raises(azure.EvaluationException, match="f1_score_threshold must be an int or float"):
        azure.QAEvaluator(Stars(), f1_score_threshold="high")  # type: ignore[arg-type]


# -- judges of agents


@pytest.mark.usefixtures("azure_s_prompts")
@cases("azure")
def test_tool_call_accuracy_takes_calls_wherever_they_stand(called: dict[str, Any]) -> None:
    verdict = azure.ToolCallAccuracyEvaluator(Stars())(query="w?", tool_definitions=TOOLS, **called)
    assert (verdict["tool_call_accuracy"], verdict["gpt_tool_call_accuracy"]) == (4.0, 4.0)
    assert verdict["tool_call_accuracy_result"] == "pass"


@pytest.mark.usefixtures("azure_s_prompts")
@cases("azure")
def test_a_judge_shows_its_model_what_it_was_given(kind: str, given: dict[str, Any], shown: list[str]) -> None:
    model = Stars()
    getattr(azure, kind)(model)(**given)
    (asked,) = model.requests
    assert [text for text in shown if text in str(asked.messages[-1]["content"])] == shown


@pytest.mark.usefixtures("azure_s_prompts")
@cases("azure")
def test_what_a_judge_cannot_judge_is_not_applicable(kind: str, given: dict[str, Any], reason: str) -> None:
    judge = getattr(azure, kind)(Stars())
    verdict = {key.removeprefix(judge.metric): value for key, value in judge(**given).items()}
    assert str(verdict.pop("_reason")).startswith(f"Not applicable: {reason}")
    skipped = {"": None, "_score": None, "_passed": None, "_result": "not_applicable", "_status": "skipped"}
    assert verdict == {**skipped, "_threshold": 3, "_properties": None}


@pytest.mark.usefixtures("azure_s_prompts")
@pytest.mark.parametrize(("stars", "result"), [(1, "pass"), (0, "fail")])
def test_task_adherence_is_yes_or_no(stars: int, result: str) -> None:
    verdict = azure.TaskAdherenceEvaluator(Stars())(query="hello", response=f"stars:{stars}")
    assert (verdict["task_adherence"], verdict["task_adherence_result"]) == (float(stars), result)


def test_task_adherence_declares_a_verdict_and_other_judges_a_score() -> None:
    assert [each.kind for each in azure.TaskAdherenceEvaluator.metrics] == ["binary"]
    assert [(each.kind, each.range) for each in azure.CoherenceEvaluator.metrics] == [("score", (1, 5))]


@pytest.mark.usefixtures("azure_s_prompts")
@pytest.mark.parametrize("judge", [azure.IntentResolutionEvaluator, azure.TaskAdherenceEvaluator])
def test_an_agent_s_conversation_is_judged_turn_by_turn(judge: Any) -> None:
    messages = [{"role": role, "content": f"stars:{n}"} for n, role in ((9, "user"), (1, "assistant")) * 2]
    assert judge(Stars())(conversation={"messages": messages})[judge.metric] == 1.0


@pytest.mark.parametrize("name", ["CoherenceEvaluator", "ToolCallAccuracyEvaluator", "TaskAdherenceEvaluator"])
def test_a_judge_is_made_with_what_azure_s_is(name: str) -> None:
    made = inspect.signature(getattr(azure, name)).parameters.values()
    assert [(each.name, each.kind.description) for each in made] == [
        ("model_config", "positional or keyword"),
        ("threshold", "keyword-only"),
        ("credential", "keyword-only"),
        ("kwargs", "variadic keyword"),
    ]


@pytest.mark.usefixtures("azure_s_prompts")
def test_a_score_that_is_not_from_1_to_5_is_an_error_of_the_judges_of_agents() -> None:
    said = r"Invalid score value: 9. Expected a number in range \[1, 5\]."
    with pytest.raises(azure.EvaluationException, match=said) as raised:
        azure.IntentResolutionEvaluator(Stars())(query="q", response="stars:9")
    assert raised.value.category is azure.ErrorCategory.FAILED_EXECUTION
    assert raised.value.blame is azure.ErrorBlame.SYSTEM_ERROR
    assert raised.value.target is azure.ErrorTarget.UNKNOWN


TEXT_PART, RESULT = {"type": "text"}, {"type": "tool_result"}


@cases("azure")
def test_a_message_that_is_none_of_azure_s_is_refused(message: dict[str, Any], place: str) -> None:
    for judge in (azure.CoherenceEvaluator, azure.TaskAdherenceEvaluator, azure.ToolCallAccuracyEvaluator):
        with pytest.raises(azure.EvaluationException) as raised:
            judge(Stars())(query=[message], response="r")
        assert raised.value.message.startswith(f"Query[0]{place}")
        assert (raised.value.category, raised.value.target) == (azure.ErrorCategory.INVALID_VALUE, judge.error_target)


USER = {"role": "user", "content": "hi"}


@pytest.mark.parametrize("messages", ["hi", [], ["hi"], [{"content": "hi"}], [USER, {"role": "boss"}], [USER]])
def test_messages_that_are_no_conversation_are_refused(messages: Any) -> None:
    with pytest.raises(azure.EvaluationException) as raised:
        azure.FluencyEvaluator(Stars())(messages=messages)
    assert raised.value.message.startswith("messages")


@cases("azure")
def test_calls_and_definitions_that_are_none_of_azure_s_are_refused(given: dict[str, Any], place: str) -> None:
    judge = azure.ToolCallAccuracyEvaluator(Stars())
    with pytest.raises(azure.EvaluationException) as raised:
        judge(**{"query": "w?", "tool_calls": [CALL], "tool_definitions": TOOLS, **given})
    assert raised.value.message.startswith(place)


def test_groundedness_is_not_judged_over_a_search_of_the_web() -> None:
    search = {"type": "tool_call", "tool_call_id": "s", "name": "bing_grounding", "arguments": {}}
    with pytest.raises(
        azure.EvaluationException, match="GroundednessEvaluator cannot judge calls of bing_grounding"
    ) as raised:
        azure.GroundednessEvaluator(Stars())(query="when?", response=[{"role": "assistant", "content": [search]}])
    assert raised.value.category is azure.ErrorCategory.NOT_APPLICABLE


def test_the_context_of_groundedness_is_judged_as_it_is() -> None:
    call = {"type": "function_call", "call_id": "c1", "name": "weather", "arguments": {"city": "Oslo"}}
    model = Stars()
    azure.GroundednessEvaluator(model)(response="stars:4", context=[{"role": "user", "content": [call]}])
    assert "function_call" in json.dumps(model.requests[0].messages[-1])


@pytest.mark.usefixtures("azure_s_prompts")
@pytest.mark.parametrize(
    ("judge", "accounted"), [(azure.CoherenceEvaluator, True), (azure.IntentResolutionEvaluator, False)]
)
def test_what_a_skipped_verdict_cost_is_told_by_the_judges_of_texts_only(judge: Any, accounted: bool) -> None:
    verdict = judge(Scripted('{"reason": "nothing said", "score": null, "status": "skipped"}'))(query="q", response="r")
    assert verdict[f"{judge.metric}_result"] == "not_applicable"
    properties: Any = verdict[f"{judge.metric}_properties"]
    assert ("total_tokens" in (properties or {})) is accounted


# -- names


def test_an_evaluator_has_the_identifier_that_azure_ai_foundry_knows_it_by() -> None:
    kinds = azure.BleuScoreEvaluator, azure.F1ScoreEvaluator, azure.QAEvaluator, azure.ToolCallAccuracyEvaluator
    names = [kind.id.removeprefix("azureai://built-in/evaluators/") for kind in kinds]
    assert names == ["bleu_score", "f1_score", "qa", "tool_call_accuracy"]
    own: Any = type("Own", (azure.F1ScoreEvaluator,), {})
    assert own.id == azure.F1ScoreEvaluator.id


def test_a_dictionary_s_required_keys_are_azure_s() -> None:
    assert azure.AzureOpenAIModelConfiguration.__required_keys__ == {"azure_endpoint", "azure_deployment"}
    assert azure.OpenAIModelConfiguration.__required_keys__ == {"api_key", "model"}
    assert azure.Conversation.__required_keys__ == {"messages"}
    assert azure.EvaluationResult.__required_keys__ == {"rows", "metrics"}


def test_every_name_can_be_imported() -> None:
    for name in azure.__all__:
        assert getattr(azure, name).__name__ == name


def test_a_name_that_nobody_has_is_no_attribute() -> None:
    with pytest.raises(AttributeError, match="no attribute 'NopeEvaluator'"):
        azure.NopeEvaluator  # noqa: B018


def test_its_evaluators_work_in_our_evaluate_too(tmp_path: Path) -> None:
    result = tunecheck.evaluate(data=[*QA], evaluators={"f1": azure.F1ScoreEvaluator()}, results_dir=tmp_path)
    assert column(result, "outputs.f1.f1_score")[2] == 1.0


def test_a_verdict_that_a_model_does_not_give_is_an_error_of_its_row(tmp_path: Path) -> None:
    evaluators = {"r": azure.RelevanceEvaluator(Scripted("no idea", "none at all")), "f1": azure.F1ScoreEvaluator()}
    result = evaluate(tmp_path, QUESTION, evaluators=evaluators)
    assert {key.partition(".")[0] for key in result["metrics"]} == {"f1"}
    assert "JudgementError" in (result.run_dir / "eval_results.jsonl").read_text()


# -- prompt files of a script's own


FRIENDLY = """\
---
name: Friendliness
model:
  api: chat
  configuration: {type: openai, model: gpt, api_key: "${env:OPENAI_API_KEY}"}
  parameters: {max_tokens: 20%s}
inputs:
  response: {type: string}
---
user:
How friendly is [{{response}}] [{{undeclared}}]?
"""


@pytest.mark.parametrize(
    ("parameter", "said"), [("", '{"score": 4}'), (", response_format: {type: json_object}", {"score": 4})]
)
def test_an_evaluator_of_one_s_own_asks_with_a_prompt_file(tmp_path: Path, parameter: str, said: Any) -> None:
    (tmp_path / "friendly.prompty").write_text(FRIENDLY % parameter)
    model = Scripted(*['{"score": 4}'] * 3)

    class Friendliness:
        def __init__(self, model_config: Any) -> None:
            self._flow = azure.load_flow(tmp_path / "friendly.prompty", model={"configuration": model_config})

        def __call__(self, *, response: str, **kwargs: Any) -> dict[str, Any]:
            return {"said": self._flow(response=response, undeclared="x")}

    result = evaluate(tmp_path, evaluators={"f": Friendliness(model)})
    assert column(result, "outputs.f.said") == [said] * 3
    assert model.requests[0].parameters["max_tokens"] == 20
    assert "[blue sky] []?" in " ".join(str(request.messages[0]["content"]) for request in model.requests)


def test_a_prompt_file_names_the_declared_inputs_that_it_lacks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    (tmp_path / "friendly.prompty").write_text(FRIENDLY % "")
    with pytest.raises(azure.EvaluationException, match=r"Missing required inputs: \['response'\]"):
        azure.Prompty.load(tmp_path / "friendly.prompty").render(undeclared="x")


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        ([1], "`model` must be a mapping, not a list"),
        ({"parameters": [1]}, "`parameters` must be a mapping, not a list"),
        ({"parameters": "x"}, "`parameters` must be a mapping, not a str"),
        (
            {"parameters": {"seed": object()}},
            "parameters.seed: a value of type object has no JSON form: convert it to a text, number, list or dict",
        ),
    ],
)
def test_a_wrong_model_of_a_prompt_file_is_explained(tmp_path: Path, model: Any, reason: str) -> None:
    (tmp_path / "friendly.prompty").write_text(FRIENDLY % "")
    with pytest.raises(azure.EvaluationException, match=rf"^\(UserError\) {re.escape(reason)}$"):
        azure.load_flow(tmp_path / "friendly.prompty", model=model)


def test_an_error_without_a_text_is_named_by_its_type(tmp_path: Path) -> None:
    class Unreadable(dict[str, object]):
        def get(self, *_: object) -> object:
            raise ZeroDivisionError

    (tmp_path / "friendly.prompty").write_text(FRIENDLY % "")
    with pytest.raises(azure.EvaluationException, match=r"^\(InternalError\) ZeroDivisionError$"):
        azure.load_flow(tmp_path / "friendly.prompty", model=Unreadable(parameters={}))


class TurnsOfItsOwn(msgspec.Struct):
    messages: list[dict[str, str]]


@pytest.mark.parametrize(
    ("conversation", "reason"),
    [
        (TurnsOfItsOwn([{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Yes"}]), "must be a dict"),
        (
            object(),
            "the conversation: a value of type object has no JSON form: convert it to a text, number, list or dict",
        ),
    ],
)
def test_a_conversation_of_another_type_is_refused(conversation: Any, reason: str) -> None:
    with pytest.raises(azure.EvaluationException, match=reason):
        azure.CoherenceEvaluator(Scripted("5"))(conversation=conversation)
