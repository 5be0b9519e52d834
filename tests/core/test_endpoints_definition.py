"""Definitions of endpoints, their request templates and paths."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st
from tests.endpoint_parts import definition, row
from tests.tables import cases

from tunecheck import ConfigurationError, PluginError
from tunecheck.endpoints import AzureMLEndpoint, ChatRequest, Endpoint, Price, Redactor, RequestTemplate, load_endpoint
from tunecheck.plugins import MISSING, find_value, parse_path

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


@pytest.mark.parametrize("given", ["mine", "mine.yaml", "endpoints/mine", "endpoints/mine.yaml"])
def test_a_bare_name_is_looked_for_in_the_workspace(cwd: Path, given: str) -> None:
    write(cwd / "endpoints", FULL)
    assert load_endpoint(given).name == "mine"


def test_a_bare_name_is_the_workspaces_before_a_files(cwd: Path) -> None:
    write(cwd / "endpoints", FULL)
    for beside in ("mine.yml", "mine.yaml", "mine"):
        write(cwd, "kind: openai\n", beside)
    assert load_endpoint("mine").kind == "azure_ml"
    with pytest.raises(ConfigurationError, match=r"mine\.yml"):
        load_endpoint("mine.yml")


def test_an_unknown_file_suggests_a_known_one(tmp_path: Path) -> None:
    write(tmp_path / "endpoints", FULL, "production.yaml")
    with pytest.raises(ConfigurationError, match=r"no endpoint definition 'prodution' .*; did you mean 'production'"):
        load_endpoint("prodution", workspace=tmp_path)


@cases("endpoints")
def test_a_mistake_is_answered_with_where_what_and_what_instead(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        load_endpoint(write(tmp_path, text))
    assert message in str(caught.value)
    assert "mine.yaml" in str(caught.value)
    assert "\n" not in str(caught.value)


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
        with pytest.raises(ConfigurationError, match="over plain http to the public host"):
            load_endpoint({**definition, **more})


@cases("endpoints")
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


def test_a_plugin_that_is_no_endpoint_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tunecheck.plugins.find", lambda *_, **__: object)
    with pytest.raises(PluginError, match="kind: the kind's class must extend"):
        load_endpoint({"kind": "x"})


def test_a_kind_without_a_definition_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tunecheck.plugins.find", lambda *_, **__: Endpoint)
    with pytest.raises(PluginError, match=r"must extend tunecheck\.endpoints\.Endpoint and set `config_type`"):
        load_endpoint({"kind": "x"})


MESSAGES = [{"role": "user", "content": 'a "b"'}]
TOOLS = [{"type": "function", "function": {"name": "f"}}]
ROW = row({"id": "7", "name": "Ann", "deep": {"list": [1, {"x": None}]}, "a column": 5, "a.b": 6})


def render(body: Any, tools: Any = TOOLS, **parameters: Any) -> Any:
    template = RequestTemplate(body, definition().at("request"), Redactor())
    return template.render(ChatRequest(messages=MESSAGES, tools=tools, row=ROW), parameters)


@cases("endpoints")
def test_references_stand_for_values(body: Any, expected: Any) -> None:
    assert render(body, t=0.5) == expected


def test_what_a_row_holds_is_not_looked_at_for_references() -> None:
    template = RequestTemplate("${data.x} ${data.x}", definition().at("request"), Redactor())
    request = ChatRequest(messages=[], row=row({"x": "${env:PATH}${messages}"}))
    assert template.render(request, {}) == "${env:PATH}${messages} ${env:PATH}${messages}"


@pytest.mark.parametrize("tools", [None, []])
def test_tools_are_left_out_where_there_are_none(tools: Any) -> None:
    assert render({"a": 1, "tools": "${tools}"}, tools=tools) == {"a": 1}


def test_the_environment_is_read_when_the_template_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TC_MODE", "fast")
    assert render({"mode": "${env:TC_MODE}", "text": "very ${env:TC_MODE}"}) == {"mode": "fast", "text": "very fast"}


@pytest.mark.parametrize(
    "text", ["${}", "${data}", "${data.}", "${row.x}", "${message}", "${data[x]}", "${ messages }"]
)
def test_an_unknown_reference_is_an_error_of_the_definition(text: str) -> None:
    with pytest.raises(ConfigurationError, match="unknown reference"):
        render({"a": [text]})


def test_a_column_that_a_row_lacks_is_that_rows_error() -> None:
    with pytest.raises(ValueError, match=r"the row has no value for \$\{data.absent\}"):
        render("${data.absent}")


def test_a_template_says_what_it_refers_to() -> None:
    template = RequestTemplate(["${messages}", "x ${data.a}"], definition().at("request"), Redactor())
    assert template.references == {"messages", "data"}


class TestPaths:
    @cases("endpoints")
    def test_are_read(self, text: str, steps: list[str | int]) -> None:
        assert parse_path(text) == tuple(steps)

    @pytest.mark.parametrize("text", [".a", "a..b", "a.", "a[", "a[x]", "a[-1]", "[0]a", "a]", "a['b", "a[0]b"])
    def test_mistakes_are_refused(self, text: str) -> None:
        with pytest.raises(ValueError, match=r"is not a path such as .*: correct character"):
            parse_path(text)

    def test_lead_nowhere_or_to_null(self) -> None:
        assert find_value({"a": None}, ("a",)) is None
        assert find_value({"a": None}, ("a", "b")) is MISSING
        assert find_value([1], (5,)) is MISSING
        assert find_value("text", (0,)) is MISSING

    @given(st.text(alphabet=".[]'\"a0 é", max_size=12))
    def test_never_raise_anything_but_value_error(self, text: str) -> None:
        try:
            steps = parse_path(text)
        except ValueError:
            return
        find_value({"a": [{"0": 1}]}, steps)
