"""Endpoint definitions: what is understood, and what each mistake is answered with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tunecheck import ConfigurationError, PluginError
from tunecheck.endpoints import AzureMLEndpoint, Endpoint, Price, load_endpoint

FULL = """\
kind: azure_ml
url: https://my-endpoint.westus3.inference.ml.azure.com/score
auth: {type: key, value: "${env:TC_KEY}"}
headers: {azureml-model-deployment: blue}
parameters: {temperature: 0.1, max_new_tokens: 512}
request: {input_data: "${messages}", params: "${parameters}"}
response: result
timeout_s: 60
retries: 5
limits: {concurrency: 7, requests_per_minute: 600, tokens_per_minute: 100000}
price: {input_per_million: 0.15, output_per_million: 0.6, currency: EUR}
"""


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TC_KEY", "sk-0123456789abcdef")
    monkeypatch.delenv("TC_UNSET", raising=False)


def write(folder: Path, text: str, name: str = "mine.yaml") -> Path:
    path = folder / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    return path


def test_the_definition_of_the_manual_is_understood(tmp_path: Path) -> None:
    endpoint = load_endpoint(write(tmp_path, FULL))
    assert (endpoint.name, endpoint.kind, endpoint.concurrency) == ("mine", "azure_ml", 7)
    assert endpoint.price == Price(0.15, 0.6, "EUR")


def test_a_name_given_by_the_caller_wins(tmp_path: Path) -> None:
    assert load_endpoint(write(tmp_path, FULL), name="iteration-7").name == "iteration-7"


def test_a_mapping_is_a_definition_too() -> None:
    assert load_endpoint({"kind": "openai", "url": "http://localhost:8000/v1", "model": "m"}).name == "openai"


@pytest.mark.parametrize("given", ["mine", "mine.yaml", "endpoints/mine", "endpoints/mine.yaml"])
def test_a_bare_name_is_looked_for_in_the_workspace(
    tmp_path: Path, given: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "endpoints", FULL)
    monkeypatch.chdir(tmp_path)
    assert load_endpoint(given).name == "mine"


def test_a_bare_name_is_one_of_the_workspace_before_a_file_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "endpoints", FULL)
    for beside in ("mine.yml", "mine.yaml", "mine"):
        write(tmp_path, "kind: openai\n", beside)
    assert load_endpoint("mine").kind == "azure_ml"
    with pytest.raises(ConfigurationError, match=r"mine\.yml"):
        load_endpoint("mine.yml")


def test_an_unknown_file_suggests_a_known_one(tmp_path: Path) -> None:
    write(tmp_path / "endpoints", FULL, "production.yaml")
    with pytest.raises(ConfigurationError, match=r"no endpoint definition 'prodution' .*; did you mean 'production'"):
        load_endpoint("prodution", workspace=tmp_path)


MISTAKES: list[tuple[str, str]] = [
    ("url: https://x/score", "kind is missing"),
    ("kidn: azure_ml", "kind is missing; did you mean 'kidn'?"),
    ("- a list", "an endpoint definition is a mapping"),
    ("", "an endpoint definition is a mapping"),
    ("kind: azure_lm\nurl: https://x/score", "line 1: kind: there is no plugin 'azure_lm' among the endpoints"),
    ("kind: azure_ml", "Object missing required field `url`"),
    ("kind: azure_ml\nurl: 5", "line 2: Expected `str`, got `int` - at `$.url`"),
    ("kind: azure_ml\nurl: https://x/score\nrespnse: a",
     "line 3: Object contains unknown field `respnse`; did you mean 'response'?"),
    ("kind: azure_ml\nurl: https://x/s\nlimits: {concurency: 3}",
     "Object contains unknown field `concurency` - at `$.limits`; did you mean 'concurrency'?"),
    ("kind: azure_ml\nurl: https://x/s\nlimits: 3", "Expected `object`, got `int` - at `$.limits`"),
    ("kind: azure_ml\nurl: https://x/s\nlimits:\n  concurrency: 0",
     "line 4: Expected `int` >= 1 - at `$.limits.concurrency`"),
    ("kind: azure_ml\nurl: https://x/s\nlimits: {concurrency: true}",
     "Expected `int`, got `bool` - at `$.limits.concurrency`"),
    ("kind: azure_ml\nurl: https://x/s\nlimits: {requests_per_minute: 0}",
     "Expected `float` > 0.0 - at `$.limits.requests_per_minute`"),
    ("kind: azure_ml\nurl: https://x/s\ntimeout_s: 0", "Expected `float` > 0.0 - at `$.timeout_s`"),
    ("kind: azure_ml\nurl: https://x/s\ntimeout_s: '60'", "Expected `float`, got `str` - at `$.timeout_s`"),
    ("kind: azure_ml\nurl: https://x/s\nretries: -1", "Expected `int` >= 0 - at `$.retries`"),
    ("kind: azure_ml\nurl: https://x/s\nretries: 1.5", "Expected `int`, got `float` - at `$.retries`"),
    ("kind: azure_ml\nurl: https://x/s\nparameters: [1]", "Expected `object`, got `array` - at `$.parameters`"),
    ("kind: azure_ml\nurl: https://x/s\nstream: true", "only chat completions are streamed"),
    ("kind: azure_ml\nurl: https://x/s\nresponse: 'a..b'", "response: not a path at character 2"),
    ("kind: azure_ml\nurl: https://x/s\nresponse: [a]", "Expected `str | null`, got `array` - at `$.response`"),
    ("kind: azure_ml\nurl: https://x/s\nrequest: {a: '${mesages}'}", "request.a: unknown reference ${mesages}; did"),
    ("kind: azure_ml\nurl: https://x/s\nrequest: {a: ['${data}']}", "request.a[0]: unknown reference ${data}"),
    ("kind: azure_ml\nurl: https://x/s\nrequest: {a: '${env:TC_UNSET}'}", "environment variable TC_UNSET is not set"),
    ("kind: azure_ml\nurl: https://x/s\nrequest: {a: '${messages}'}\nparameters: {b: 1}", "put ${parameters} some"),
    ("kind: azure_ml\nurl: https://x/s\nauth: key", "Expected `object`, got `str` - at `$.auth`"),
    ("kind: azure_ml\nurl: https://x/s\nauth: {type: kee}",
     "Invalid enum value 'kee' - at `$.auth.type`; did you mean 'key'?"),
    ("kind: azure_ml\nurl: https://x/s\nauth: {type: key}", "auth.value: is missing: write ${env:NAME}"),
    ("kind: azure_ml\nurl: https://x/s\nauth: {type: key, value: '${env:TC_UNSET}'}", "variable TC_UNSET is not set"),
    ("kind: azure_ml\nurl: https://x/s\nauth: {type: key, value: '${env:a b}'}", "with the name of an environment"),
    ("kind: azure_ml\nurl: https://x/s\nauth: {type: none, scope: x}", "auth.scope: unknown key"),
    ("kind: azure_ml\nurl: https://x/s\nauth: {type: key, value: '${env:TC_KEY}', header: 'a b'}", "name of a header"),
    ("kind: azure_ml\nurl: https://x/s\nheaders: {'a\\r\\nb': 1}", "is not the name of a header"),
    ("kind: azure_ml\nurl: https://x/s\nheaders: {x-a: \"b\\r\\nc\"}", "characters that a header cannot carry"),
    ("kind: azure_ml\nurl: https://x/s\nheaders: {x-a: é}", "characters that a header cannot carry"),
    ("kind: azure_ml\nurl: https://x/s\nheaders: {x-a: [b]}", "headers.x-a: must be a text or a number"),
    ("kind: azure_ml\nurl: https://x/s\nheaders: {Content-Length: 5}", "is set for each request"),
    ("kind: azure_ml\nurl: https://x/s\nheaders: {Idempotency-Key: a}", "is set for each request"),
    ("kind: azure_ml\nurl: https://x/s\nprice: {input_per_million: -1}",
     "Expected `float` >= 0.0 - at `$.price.input_per_million`"),
    ("kind: openai\nurl: https://x/v1", "Object missing required field `model`"),
    ("kind: openai\nurl: https://x/v1\nmodel: m\nauth: {type: entra}", "auth: scope is missing"),
    ("kind: openai\nurl: https://x/v1\nmodel: m\nauth: {type: aml_token}",
     "Invalid enum value 'aml_token' - at `$.auth.type`; known: entra, key, none"),
    ("kind: azure_openai\nurl: https://x", "deployment is missing"),
    ("kind: azure_openai\nurl: https://x/openai/deployments/d/chat/completions", "api_version is missing"),
    ("kind: python\nfunction: os", "function: write module:function or file.py:function"),
    ("kind: python\nfunction: os:nothing_there", "os has no function nothing_there"),
    ("kind: python\nfunction: 'absent.py:f'", "absent.py does not load: FileNotFoundError"),
    ("kind: azure_ml\nkind: openai", "the key 'kind' is given twice"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "message"), MISTAKES)
def test_a_mistake_is_answered_with_where_what_and_what_instead(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        load_endpoint(write(tmp_path, text))
    assert message in str(caught.value)
    assert "mine.yaml" in str(caught.value)
    assert "\n" not in str(caught.value)


URLS: list[tuple[str, str]] = [
    ("http://example.com/score", "plain http goes to this machine only, not to example.com"),
    ("http://127.0.0.1.example.com/", "plain http goes to this machine only"),
    ("http://localhost.example.com/", "plain http goes to this machine only"),
    ("http://10.0.0.1/", "plain http goes to this machine only"),
    ("http://0.0.0.0/", "plain http goes to this machine only"),
    ("http://[::2]/", "plain http goes to this machine only"),
    ("https://user:hunter22@example.com/", "holds credentials"),
    ("https://user@example.com/", "holds credentials"),
    ("https://example.com/?sig=hunter22", "holds a secret, sig=…"),
    ("https://example.com/?api-key=hunter22", "holds a secret, api-key=…"),
    ("https://example.com/?code=hunter22", "holds a secret, code=…"),
    ("ftp://example.com/", "must be an address such as https://host/path"),
    ("example.com/score", "must be an address such as https://host/path"),
    ("https:///score", "must be an address such as https://host/path"),
    ("https://exa mple.com/score", "must be an address such as https://host/path"),
    ("https://[::1/score", "is not an address that can be called"),
    ("https://example.com:99999/", "is not an address that can be called"),
    ("file:///etc/passwd", "must be an address such as https://host/path"),
]


@pytest.mark.parametrize("host", ["10.0.0.1", "192.168.1.7", "[fd00::1]", "gpu-box", "vllm.default.svc"])
def test_plain_http_goes_to_a_private_network_where_the_definition_allows_it(host: str) -> None:
    definition = {"kind": "openai", "url": f"http://{host}:8000/v1", "model": "m"}
    with pytest.raises(ConfigurationError, match="add allow_http: true for a private network"):
        load_endpoint(definition)
    load_endpoint({**definition, "allow_http": True, "auth": {"type": "key", "value": "${env:HOME}"}})


def test_plain_http_goes_to_a_public_host_without_a_key_only() -> None:
    definition = {"kind": "openai", "url": "http://example.com/v1", "model": "m", "allow_http": True}
    load_endpoint(definition)
    for more in ({"auth": {"type": "key", "value": "${env:HOME}"}}, {"headers": {"x-token": "${env:HOME}"}}):
        with pytest.raises(ConfigurationError, match="allow_http sends no key to a public host"):
            load_endpoint({**definition, **more})


@pytest.mark.parametrize(("url", "message"), URLS)
def test_an_address_that_must_not_be_called_is_refused(url: str, message: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        load_endpoint({"kind": "azure_ml", "url": url})
    assert message in str(caught.value)
    assert "hunter22" not in str(caught.value)


@pytest.mark.parametrize(
    "url", ["http://localhost:1/a", "http://127.8.9.1/a", "http://[::1]:80/a", "https://a.b/c?api-version=2024-02-01"]
)
def test_https_anywhere_and_http_to_this_machine_are_fine(url: str) -> None:
    assert load_endpoint({"kind": "azure_ml", "url": url}).settings()["url"] == url


def test_an_address_may_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TC_HOST", "east")
    endpoint = load_endpoint({"kind": "azure_ml", "url": "https://${env:TC_HOST}.example.com/score"})
    assert isinstance(endpoint, AzureMLEndpoint)
    assert endpoint._client.url == "https://east.example.com/score"
    assert endpoint.settings()["url"] == "https://${env:TC_HOST}.example.com/score"


def test_settings_that_do_not_change_answers_are_not_among_the_answers_settings() -> None:
    def settings(**values: Any) -> object:
        return load_endpoint({"kind": "azure_ml", "url": "https://a.b/c", **values}).answer_settings()

    plain = settings()
    assert plain == settings(timeout_s=5, retries=1, limits={"concurrency": 2}, price={"input_per_million": 1})
    assert plain == settings(auth={"type": "key", "value": "${env:TC_KEY}"})
    assert plain != settings(parameters={"temperature": 0.5})
    assert plain != settings(headers={"azureml-model-deployment": "green"})
    assert plain != settings(response="result")


def test_a_plugin_that_is_no_endpoint_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tunecheck.plugins.find", lambda *_, **__: object)
    with pytest.raises(PluginError, match="the endpoint kind 'x' is not a subclass"):
        load_endpoint({"kind": "x"})


def test_a_kind_without_a_definition_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tunecheck.plugins.find", lambda *_, **__: Endpoint)
    with pytest.raises(ConfigurationError, match="cannot be made from a definition"):
        load_endpoint({"kind": "x"})
