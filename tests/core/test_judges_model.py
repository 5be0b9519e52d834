"""Which model a judge asks: an endpoint, its definition, or a model configuration of Azure AI Evaluation."""

import copy
import pickle
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.cli_parts import write_files
from tests.judge_parts import Credential, JudgeServer, Scripted, judgement, prompt_file
from tests.tables import cases

from tunecheck import ConfigurationError, MissingExtraError, PromptyEvaluator
from tunecheck.endpoints import Price
from tunecheck.plugins import dumps

KEY = "sk-plain-0123456789-secret"
GOOD = judgement(4)


def ask(folder: Path, config: Any) -> PromptyEvaluator:
    judge = PromptyEvaluator(prompt_file(folder), config)
    assert judge(response="a")["quality"] == 4
    return judge


@pytest.mark.parametrize("named", [{}, {"type": "azure_openai"}])
@pytest.mark.parametrize("version", [None, "2024-06-01"])
def test_azures_own_configuration_asks_its_deployment(tmp_path: Path, named: Any, version: str | None) -> None:
    with JudgeServer([GOOD]) as server:
        config = {**named, "azure_endpoint": f"{server.address}/", "azure_deployment": "judge-1", "api_key": KEY}
        config |= {"api_version": version} if version else {}
        before = copy.deepcopy(config)
        ask(tmp_path, config)
        assert config == before, "it is not changed"
    (request,) = server.requests
    expected = version or "2024-02-15-preview"  # the default of Azure AI Evaluation 1.18
    assert request.path == f"/openai/deployments/judge-1/chat/completions?api-version={expected}"
    assert request.headers["api-key"] == KEY
    assert "authorization" not in request.headers


@pytest.mark.parametrize("named", [{}, {"type": "openai"}])
def test_openais_configuration_asks_its_model(tmp_path: Path, named: Any) -> None:
    with JudgeServer([GOOD]) as server:
        config = {
            **named,
            "model": "gpt-judge",
            "api_key": KEY,
            "base_url": f"{server.address}/v1",
            "organization": "org-1",
            "extra_headers": {"X-Team": "blue", "X-Proxy-Token": "a-second-secret"},
        }
        ask(tmp_path, config)
    (request,) = server.requests
    assert request.path == "/v1/chat/completions"
    assert server.asked[0]["model"] == "gpt-judge"
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert request.headers["openai-organization"] == "org-1"
    assert (request.headers["x-team"], request.headers["x-proxy-token"]) == ("blue", "a-second-secret")


def test_a_configuration_without_a_key_sends_none(tmp_path: Path) -> None:
    with JudgeServer([GOOD]) as server:
        ask(tmp_path, {"model": "local", "base_url": f"{server.address}/v1"})
    assert "authorization" not in server.requests[0].headers


def test_a_credential_object_signs_in(tmp_path: Path) -> None:
    credential = Credential()
    with JudgeServer([GOOD]) as server:
        config = {"azure_endpoint": server.address, "azure_deployment": "judge-1", "credential": credential}
        ask(tmp_path, config)
    assert server.requests[0].headers["authorization"] == "Bearer entra-token"
    assert credential.scopes == ["https://cognitiveservices.azure.com/.default"]


def test_without_key_and_credential_azure_identity_is_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("azure", "azure.identity"):  # whether something has imported them before or not
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(MissingExtraError, match=r"tunecheck\[azure\]"):
        ask(tmp_path, {"azure_endpoint": "http://127.0.0.1:1", "azure_deployment": "judge-1"})


def test_a_reference_to_the_environment_may_stand_for_the_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_JUDGE_KEY", KEY)
    with JudgeServer([GOOD]) as server:
        ask(tmp_path, {"model": "m", "api_key": "${env:MY_JUDGE_KEY}", "base_url": f"{server.address}/v1"})
    assert server.requests[0].headers["authorization"] == f"Bearer {KEY}"


def test_an_endpoint_definition_may_be_a_mapping_path_or_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with JudgeServer(lambda asked: GOOD) as server:
        definition = {"kind": "openai", "url": f"{server.address}/v1", "model": "m"}
        write_files(tmp_path, {"endpoints/my-judge.yaml": dumps(definition).decode()})
        path = tmp_path / "endpoints" / "my-judge.yaml"
        for config in (definition, path, str(path), "my-judge"):
            ask(tmp_path, config)


@cases("judges")
def test_a_wrong_configuration_is_refused_in_one_line(tmp_path: Path, config: Any, problem: str) -> None:
    with pytest.raises(ConfigurationError, match=problem) as raised:
        PromptyEvaluator(prompt_file(tmp_path), config)
    assert KEY not in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("dialect", ["prompty1", "prompty2"])
def test_a_key_that_stands_in_the_prompt_is_refused_and_not_shown(tmp_path: Path, dialect: str) -> None:
    model = {
        "prompty1": f"model:\n  configuration: {{model: m, api_key: {KEY}}}\n",
        "prompty2": f"model: {{id: m, connection: {{kind: key, apiKey: {KEY}}}}}\n",
    }[dialect]
    path = prompt_file(tmp_path, f"---\n{model}judge: {{threshold: 3}}\n---\nuser:\nJudge {{{{ response }}}}\n")
    key = "configuration.api_key" if dialect == "prompty1" else "connection.apiKey"
    with pytest.raises(ConfigurationError, match=rf"model\.{key}: .*write \$\{{env:NAME\}}") as raised:
        PromptyEvaluator(path)
    assert KEY not in str(raised.value)


def test_a_key_that_the_service_echoes_is_masked(tmp_path: Path) -> None:
    from tests.fault_server import failing

    with JudgeServer([failing(400, f"the key {KEY} may not do this")]) as server:
        judge = PromptyEvaluator(
            prompt_file(tmp_path), {"model": "m", "api_key": KEY, "base_url": f"{server.address}/v1"}
        )
        with pytest.raises(Exception, match=r"the key \*\*\* may not") as raised:
            judge(response="a")
    assert KEY not in str(raised.value)


def test_a_pickled_judge_needs_its_key_in_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with JudgeServer([GOOD, GOOD]) as server:
        data = pickle.dumps(ask(tmp_path, {"model": "m", "api_key": KEY, "base_url": f"{server.address}/v1"}))
        monkeypatch.delenv("OPENAI_API_KEY", raising=False)
        with pytest.raises(ConfigurationError, match="OPENAI_API_KEY is not set"):
            pickle.loads(data)
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        assert pickle.loads(data)(response="a")["quality"] == 4


def test_an_endpoints_price_goes_along_when_it_is_pickled(tmp_path: Path) -> None:
    with JudgeServer([GOOD]) as server:
        endpoint = server.endpoint()
        endpoint.price = Price(1, 2)
        again = pickle.loads(pickle.dumps(PromptyEvaluator(prompt_file(tmp_path), endpoint)))
    assert again.endpoint.price == Price(1, 2)
    assert again.endpoint.name == "judge"


def test_arguments_change_with_whatever_the_judgement_depends_on(tmp_path: Path) -> None:
    base = PromptyEvaluator(prompt_file(tmp_path), Scripted()).arguments
    changes: list[dict[str, Any]] = [
        *({"threshold": 4}, {"samples": 3}, {"samples": 3, "combine": "majority"}),
        *({"parameters": {"temperature": 1}}, {"output": "other"}),
    ]
    others = [
        *(PromptyEvaluator(prompt_file(tmp_path), Scripted(), **each) for each in changes),
        PromptyEvaluator(prompt_file(tmp_path), {"model": "m", "base_url": "http://127.0.0.1:1"}),
        PromptyEvaluator(prompt_file(tmp_path), {"model": "n", "base_url": "http://127.0.0.1:1"}),
    ]
    path = prompt_file(tmp_path)
    path.write_text(path.read_text().replace("You judge quality.", "You judge the quality."))
    others.append(PromptyEvaluator(path, Scripted()))
    assert PromptyEvaluator(prompt_file(tmp_path), Scripted()).arguments == base
    seen = [dumps(base), *(dumps(judge.arguments) for judge in others)]
    assert len(set(seen)) == len(seen)


def test_what_does_not_change_a_judgement_does_not_change_the_arguments(tmp_path: Path) -> None:
    model: dict[str, Any] = {"kind": "openai", "url": "http://127.0.0.1:1", "model": "m"}
    one, other = (PromptyEvaluator(prompt_file(tmp_path), {**model, "retries": count}) for count in (1, 9))
    assert one.arguments == other.arguments
