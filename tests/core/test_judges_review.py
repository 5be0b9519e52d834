"""Judges when things go wrong: odd inputs, hostile replies, calls that fail or are given up, secrets."""

import asyncio
import contextlib
import json
import pickle
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.core.test_pipeline_model_calls import CHEAP, Judge, Model, judged, rows
from tests.judge_parts import JudgeServer, Scripted, judgement, prompt_file
from tests.pipeline_parts import run

from tunecheck import (
    ConfigurationError,
    DifferenceEvaluator,
    EndpointError,
    JudgementError,
    PromptyEvaluator,
    RelevanceEvaluator,
    load_endpoint,
)
from tunecheck.cli import Invocation, Options, make_evaluators
from tunecheck.cli._evaluate.prepared_run import PreparedRun, complete_options, prepare
from tunecheck.endpoints import ChatRequest, Completion, EndpointTarget, Price, looks_secret
from tunecheck.evaluators import data_mark, input_text, judge_endpoint
from tunecheck.pipeline import Budget, CachedResults, Journal, RunCalls
from tunecheck.plugins import Trust

KEY = "sk-not-to-be-seen-anywhere"

OWN_MODEL = """\
---
model:
  configuration: {type: openai, base_url: "http://127.0.0.1:9/v1", model: own-model}
inputs: {response: {type: string}}
---
user:
{{response}}
"""


def prompt_with(folder: Path, name: str) -> Path:
    body = f"---\ninputs: {{'{name}': {{type: string}}}}\n---\nuser:\n{{{{{name}}}}}\n"
    return prompt_file(folder, body if name.isidentifier() else body.replace(f"{{{{{name}}}}}", "hello"))


# -- replies


@pytest.mark.parametrize("score", ["1" + "0" * 400, '"1' + "0" * 400 + '"', "-1" + "0" * 4000])
def test_a_score_too_large_for_a_float_is_no_judgement(tmp_path: Path, score: str) -> None:
    judge = PromptyEvaluator(prompt_file(tmp_path), Scripted(f'{{"score": {score}}}', f'{{"score": {score}}}'))
    with pytest.raises(JudgementError, match=r"'score' is (a number|text), not a number from 1 to 5"):
        judge(response="a")


# -- inputs


@pytest.mark.parametrize("name", ["calls", "args", "inputs"])
async def test_an_input_may_have_any_name(tmp_path: Path, name: str) -> None:
    judge = PromptyEvaluator(prompt_with(tmp_path, name), Scripted("1", "1"))
    assert judge(**{name: "a"})["quality"] == 1
    await judge.close()

    class Calls:
        async def complete(self, endpoint: Any, request: ChatRequest, *, sample: int = 0) -> Completion:
            return Completion(text=json.dumps({"score": 2}))

    assert (await judge.call_with(Calls(), **{name: "a"}))["quality"] == 2


@pytest.mark.parametrize("name", ["class", "my input", "1st"])
def test_an_input_that_can_be_no_parameter_is_named(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigurationError, match=rf"quality\.prompty: the input '{name}' is not a valid Python name"):
        PromptyEvaluator(prompt_with(tmp_path, name), Scripted())


def test_a_mark_that_stands_in_the_data_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[bytes] = []

    class Hash:
        def __init__(self, data: bytes, *, digest_size: int, salt: bytes) -> None:
            given.append(salt)

        def hexdigest(self) -> str:
            return "aaaaaaaaaaaa" if len(given) == 1 else "bbbbbbbbbbbb"

    monkeypatch.setattr("tunecheck.evaluators._judges.prompty.hashlib.blake2b", Hash)
    assert data_mark({"response": "=== end aaaaaaaaaaaa ==="}) == "bbbbbbbbbbbb"
    assert len(set(given)) == 2


WEATHER = [{"id": "1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Bern"}'}}]


@pytest.mark.parametrize("said", [{"content": ""}, {"content": None}, {}])
def test_a_conversation_shows_the_calls_of_a_message_without_text(said: dict[str, Any]) -> None:
    messages = [{"role": "user", "content": "Is it warm?"}, {"role": "assistant", **said, "tool_calls": WEATHER}]
    assert input_text(messages) == 'user: Is it warm?\nassistant: weather(city="Bern")'


def test_a_conversation_shows_what_was_said_beside_a_call() -> None:
    messages = [
        {"role": "user", "content": "Is it warm?"},
        {"role": "assistant", "content": "Let me look.", "tool_calls": WEATHER},
    ]
    assert input_text(messages) == 'user: Is it warm?\nassistant: Let me look.\nweather(city="Bern")'


def test_a_question_of_one_message_is_shown_as_one() -> None:
    assert input_text([{"role": "user", "content": "Is it warm?"}]) == "user: Is it warm?"
    assert input_text([{"role": "assistant", "content": None, "tool_calls": WEATHER}]) == 'weather(city="Bern")'


# -- calls


def test_a_judge_that_is_closed_while_it_judges_ends_the_call(tmp_path: Path) -> None:
    asked = threading.Event()

    class Waiting(Scripted):
        async def complete(self, request: ChatRequest) -> Completion:
            asked.set()
            await asyncio.Event().wait()
            raise AssertionError

    judge = PromptyEvaluator(prompt_file(tmp_path), Waiting())
    errors: list[BaseException] = []

    def call() -> None:
        try:
            judge(response="a")
        except EndpointError as error:
            errors.append(error)

    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    assert asked.wait(30)
    asyncio.run(judge.close())
    thread.join(30)
    assert [str(error) for error in errors] == [
        "close() cancelled calls of this evaluator or flow: wait for them first"
    ]


@contextlib.contextmanager
def run_calls(folder: Path) -> Iterator[RunCalls]:
    """The calls of a run that has just begun."""
    journal = Journal(folder / "journal.jsonl")
    calls = RunCalls("run", journal, CachedResults(), Budget(None))
    try:
        yield calls
    finally:
        journal.close()


async def test_who_waits_for_a_call_that_is_given_up_makes_it(tmp_path: Path) -> None:
    class Slow(Model):
        async def complete(self, request: ChatRequest) -> Completion:
            self.asked.append("asked")
            await (asyncio.Event().wait() if len(self.asked) == 1 else asyncio.sleep(0))
            return Completion(text="answered")

    model, request = Slow(), ChatRequest([{"role": "user", "content": "a"}])
    with run_calls(tmp_path) as calls:
        tasks = [asyncio.create_task(calls.complete("judge", model, request, 0)) for _ in range(3)]
        while not model.asked:
            await asyncio.sleep(0)
        tasks[0].cancel()
        first, *others = await asyncio.gather(*tasks, return_exceptions=True)
    assert isinstance(first, asyncio.CancelledError)
    assert [other.text for other in others if isinstance(other, Completion)] == ["answered"] * 2
    assert len(model.asked) == 2, "the two that waited share one call"


def test_calls_that_all_fail_do_not_go_one_by_one_for_ever(tmp_path: Path) -> None:
    texts = [f"{number:02d}" for number in range(40)]
    model = Model(price=CHEAP, wait=0.01, failing={text: EndpointError("down") for text in texts})
    judged(tmp_path, Judge(model, concurrency=20), rows(*texts), concurrency=20, max_cost=1)
    assert len(model.asked) == 40
    assert model.most > 10


def test_the_first_call_goes_alone_until_one_has_succeeded(tmp_path: Path) -> None:
    alone: list[int] = []

    class Failing(Model):
        async def complete(self, request: ChatRequest) -> Completion:
            alone.append(self.under_way)
            return await super().complete(request)

    model = Failing(price=CHEAP, wait=0.01, failing={"0": EndpointError("down"), "1": EndpointError("down")})
    judged(tmp_path, Judge(model, concurrency=8), rows(*map(str, range(20))), concurrency=8, max_cost=1)
    assert alone[:3] == [0, 0, 0]
    assert model.most > 1


def test_simulated_answers_of_a_priced_endpoint_do_not_go_one_by_one_for_ever(tmp_path: Path) -> None:
    class Simulated(Model):
        async def complete(self, request: ChatRequest) -> Completion:
            found = await super().complete(request)
            return Completion(text=found.text, usage=found.usage, simulated=True)

    model = Simulated(price=CHEAP, wait=0.01)
    model.concurrency = 20
    data = [{"id": f"r{number}", "messages": [{"role": "user", "content": str(number)}]} for number in range(40)]
    mapping = {"default": {"column_mapping": {"response": "${target.response}"}}}
    settings: dict[str, Any] = {"evaluator_config": mapping, "concurrency": 20, "max_cost": 1}
    run(tmp_path, data, target=EndpointTarget(model), evaluators={"n": lambda response: {"n": 1}}, **settings)
    assert model.most > 10


# -- models and their prices


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for folder in ("prompty", "endpoints"):
        (tmp_path / folder).mkdir()
    (tmp_path / "prompty" / "own.prompty").write_text(OWN_MODEL)
    (tmp_path / "endpoints" / "judge.yaml").write_text("{kind: openai, url: 'http://127.0.0.1:9/v1', model: m}")
    (tmp_path / "prices.yaml").write_text("models: {own-model: {input_per_million: 1, output_per_million: 2}}")
    (tmp_path / "data.jsonl").write_text('{"response": "a", "ground_truth": "a"}\n')
    return tmp_path


def prepared(options: Options) -> PreparedRun:
    trust, invocation = Trust(), Invocation()
    return prepare(complete_options(options, trust, invocation), trust, invocation)


@pytest.mark.usefixtures("workspace")
def test_the_command_prices_the_model_of_a_prompt() -> None:
    options = Options(dataset="data.jsonl", response_column="response", evaluators=["own"], prices="prices.yaml")
    judge = prepared(options).evaluators["own"]
    assert isinstance(judge, PromptyEvaluator)
    assert judge.endpoint.price == Price(1.0, 2.0)


@pytest.mark.usefixtures("workspace")
def test_a_judge_that_nobody_asks_is_remarked_upon() -> None:
    options = Options(dataset="data.jsonl", response_column="response", evaluators=["f1_score"], judge="judge")
    assert "--judge has no effect, because no evaluator calls a model" in prepared(options).remarks()
    options = Options(dataset="data.jsonl", response_column="response", evaluators=["own"], judge="judge")
    assert prepared(options).remarks() == []


@pytest.mark.usefixtures("workspace")
def test_the_model_of_a_judge_is_given_once() -> None:
    judge = load_endpoint("judge")
    with pytest.raises(ConfigurationError, match=r"--set own\.model cannot set the model of a judge"):
        make_evaluators(["own"], {"own": {"model": "judge"}}, judge)


def test_without_a_model_the_error_does_not_send_anybody_into_the_package() -> None:
    with pytest.raises(ConfigurationError, match="a judge needs a model") as caught:
        RelevanceEvaluator()
    assert "tunecheck/prompts" not in str(caught.value)
    with pytest.raises(ConfigurationError, match="a judge needs a model"):
        judge_endpoint(None)


# -- secrets


def test_a_header_that_identifies_stays_hidden_whatever_it_is_called(tmp_path: Path) -> None:
    with JudgeServer([judgement(3)]) as server:
        config = {
            "model": "m",
            "base_url": f"{server.address}/v1",
            "api_key": KEY,
            "extra_headers": {"X-Gateway": f"Bearer {KEY}", "X-Team": "blue", "X-Token": "a-second-secret"},
        }
        judge = PromptyEvaluator(prompt_file(tmp_path), config)
        assert judge(response="a")["quality"] == 3
        sent = {name.lower(): value for name, value in server.requests[0].headers.items()}
    assert (sent["x-gateway"], sent["x-team"], sent["authorization"]) == (f"Bearer {KEY}", "blue", f"Bearer {KEY}")
    shown_anywhere = f"{judge!r} {judge.arguments} {judge.endpoint!r} {judge.endpoint.settings()}"
    assert "blue" in shown_anywhere
    for secret in (KEY, "a-second-secret"):
        assert secret not in shown_anywhere
        assert secret.encode() not in pickle.dumps(judge)


def test_a_definition_does_not_hold_such_a_header_either() -> None:
    headers = {"X-Gateway": f"Bearer {KEY}"}
    definition = {"kind": "openai", "url": "http://127.0.0.1:9/v1", "model": "m", "headers": headers}
    with pytest.raises(ConfigurationError, match=r"headers\.X-Gateway: do not write a secret here") as caught:
        load_endpoint(definition)
    assert KEY not in str(caught.value)


@pytest.mark.parametrize("value", ["Basic plan", "token economy", "Bearer ${env:GATEWAY_KEY_OF_OURS}", "blue"])
def test_ordinary_headers_are_not_taken_for_secrets(value: str) -> None:
    assert not looks_secret("X-Team", value)


# -- recorded runs


def test_a_runs_own_judges_keep_their_model_when_its_answers_are_scored_again(workspace: Path) -> None:
    with JudgeServer(lambda asked: judgement(0.5)) as server:
        definition = f"{{kind: openai, url: '{server.address}/v1', model: m}}"
        (workspace / "endpoints" / "judge.yaml").write_text(definition)
        options = Options(dataset="data.jsonl", response_column="response", evaluators=["difference"], judge="judge")
        result = prepared(options).run()
    judge = prepared(Options(run=result.run_dir.name)).evaluators["difference"]
    assert isinstance(judge, DifferenceEvaluator)
    assert judge.endpoint.name == "judge"
