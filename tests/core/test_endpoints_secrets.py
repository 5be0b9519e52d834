"""Secrets: from the environment only, and never in a file, a message, a repr or an answer."""

import json
import pickle
import traceback
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from tests.endpoint_parts import HELLO, ask_once, azure_ml, failure, row, serving
from tests.fault_server import FaultServer, Request, Step, answer, failing, raw
from tests.tables import cases

from tunecheck import CallContext, ConfigurationError, EndpointError
from tunecheck.endpoints import EndpointTarget, Redactor, Secret, load_endpoint, looks_secret
from tunecheck.plugins import dumps

KEY = 'sk-0123"456/789+abcdef=='
AUTH = {"type": "key", "value": "${env:TC_KEY}"}


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TC_KEY", KEY)


def shown(text: str) -> bool:
    """Whether the key can be read out of a text, in any form that it may take there."""
    return any(form in text for form in (KEY, json.dumps(KEY)[1:-1], quote(KEY, safe=""), "0123"))


async def test_the_key_is_sent_in_the_header_that_the_definition_names() -> None:
    async with serving(
        lambda *_: answer("ok"), auth={**AUTH, "header": "X-API-Key"}, headers={"x-functions-key": "${env:TC_KEY}"}
    ) as (endpoint, server):
        await endpoint.complete(HELLO)
    headers = server.requests[0].headers
    assert (headers["x-api-key"], headers["x-functions-key"]) == (KEY, KEY)
    assert "authorization" not in headers


@cases("endpoints")
def test_a_secret_written_out_is_refused_without_being_shown(values: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError) as caught:
        load_endpoint({"kind": "azure_ml", "url": "https://a.b/c", **values})
    assert "write ${env:NAME} and set the environment variable NAME" in str(caught.value)
    assert "sk-literal" not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize("name", ["azureml-model-deployment", "x-ms-keyboard", "x-tokenizer", "accept", "x-monkey"])
def test_ordinary_headers_are_not_taken_for_secrets(name: str) -> None:
    assert not looks_secret(name)


def test_settings_reprs_and_manifests_do_not_show_the_key(tmp_path: Path) -> None:
    endpoint = load_endpoint(
        {
            "kind": "azure_ml",
            "url": "https://a.b/c",
            "auth": AUTH,
            "headers": {"api-key": "${env:TC_KEY}", "x-slot": "${env:TC_KEY}"},
            "request": {"m": "${messages}", "key": "${env:TC_KEY}"},
        }
    )
    target = EndpointTarget(endpoint)
    everything = [
        repr(endpoint),
        repr(vars(endpoint)),
        dumps(endpoint.settings()).decode(),
        dumps(target.describe()).decode(),
        repr(target.fingerprint()),
    ]
    assert not any(shown(text) for text in everything)
    assert endpoint.settings()["auth"] == AUTH


@pytest.mark.parametrize("auth", ["sk-literal-secret", {"type": "sk-literal-secret"}])
def test_a_secret_in_the_wrong_place_of_auth_is_not_shown(auth: object) -> None:
    with pytest.raises(ConfigurationError, match=r"^endpoint definition: auth") as refused:
        load_endpoint({"kind": "azure_ml", "url": "https://a.b/c", "auth": auth})
    assert "sk-literal-secret" not in str(refused.value)


def test_the_repr_of_an_endpoint_does_not_show_an_address_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TC_ADDRESS", "https://a.b/hook-1a2b3c4d/v1")
    endpoint = load_endpoint({"kind": "openai", "url": "${env:TC_ADDRESS}", "model": "m"}, name="e")
    assert repr(endpoint) == "OpenAIEndpoint('e', '***/chat/completions')"


@pytest.mark.parametrize("status", [400, 401, 404, 429, 500])
async def test_a_server_that_echoes_the_key_in_an_error_does_not_spread_it(status: int) -> None:
    def echo(request: Request, _: int) -> Step:
        sent = request.headers["authorization"]
        return failing(status, f"bad: {sent} {quote(KEY, safe='')} {json.dumps(KEY)}", x_request_id=KEY)

    error, _ = await failure(echo, auth=AUTH, retries=1)
    assert "***" in str(error)
    assert error.request_id == "***"
    assert not shown("".join(traceback.format_exception(error)))


async def test_nor_does_one_that_repeats_the_path_of_a_secret_address(monkeypatch: pytest.MonkeyPatch) -> None:
    with FaultServer(lambda request, _: failing(400, f"no such {request.path}")) as server:
        monkeypatch.setenv("TC_ADDRESS", f"{server.url}/hook-1a2b3c4d/v1")
        endpoint = load_endpoint({"kind": "openai", "url": "${env:TC_ADDRESS}", "model": "m", "retries": 0}, name="e")
        with pytest.raises(EndpointError, match=r"no such \*\*\*/chat/completions"):
            await ask_once(endpoint)


@pytest.mark.parametrize("content_type", ["application/json", "text/html", "text/plain", "text/event-stream"])
async def test_nor_in_a_body_that_is_not_json(content_type: str) -> None:
    step = raw(f"<title>{KEY}</title> {KEY}".encode(), content_type, 500)
    broken = raw(f"{KEY} is not JSON".encode(), "application/json")
    for one in (step, broken):
        error, _ = await failure(lambda *_, one=one: one, auth=AUTH, retries=0)
        assert not shown(str(error))


async def test_nor_in_a_long_body_where_the_excerpt_ends_within_the_key() -> None:
    for before in range(170, 200):
        step = failing(500, "x" * before + KEY)
        error, _ = await failure(lambda *_, step=step: step, auth=AUTH, retries=0)
        assert "sk-" not in str(error)


async def test_an_answer_that_echoes_the_key_is_masked_everywhere() -> None:
    message = {
        "role": "assistant",
        "content": f"your key is {KEY}",
        "tool_calls": [{"id": KEY, "type": "function", "function": {"name": "f", "arguments": json.dumps({"k": KEY})}}],
    }
    reply = {"choices": [{"message": message, "finish_reason": KEY}]}
    with FaultServer(lambda *_: answer(reply)) as server:
        target = EndpointTarget(azure_ml(server.url, auth=AUTH))
        columns = await target.answer(row({"query": "hi"}), CallContext("run", "row-1", "h"))
        await target.close()
    text = dumps(columns).decode()
    assert text.count("***") >= 4
    assert not shown(text)


async def test_a_secret_in_the_body_comes_from_the_environment_too() -> None:
    async with serving(
        lambda request, _: answer(f"you sent {json.loads(request.body)['login']['api_key']}"),
        request={"login": {"api_key": "${env:TC_KEY}"}, "p": "${parameters}"},
        parameters={"token_for_tools": "${env:TC_KEY}", "max_tokens": 5, "pad_token": "<pad>"},
    ) as (endpoint, server):
        done = await endpoint.complete(HELLO)
    assert server.requests[0].json() == {
        "login": {"api_key": KEY},
        "p": {"token_for_tools": KEY, "max_tokens": 5, "pad_token": "<pad>"},
    }
    assert done.text == "you sent ***"
    assert not shown(dumps(endpoint.settings()).decode())


@pytest.mark.parametrize(("slot", "mark"), [("blue", ""), ("production", ":plain")])
async def test_a_short_or_plain_value_of_a_header_does_not_mask_answers(
    monkeypatch: pytest.MonkeyPatch, slot: str, mark: str
) -> None:
    monkeypatch.setenv("TC_SLOT", slot)
    async with serving(
        lambda *_: answer(f"the {slot} line"), headers={"azureml-model-deployment": f"${{env:TC_SLOT{mark}}}"}
    ) as (endpoint, server):
        done = await endpoint.complete(HELLO)
    assert done.text == f"the {slot} line"
    assert server.requests[0].headers["azureml-model-deployment"] == slot


@pytest.mark.parametrize("value", ["", "   "])
def test_an_empty_variable_is_as_good_as_none(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("TC_KEY", value)
    with pytest.raises(ConfigurationError, match=r"auth.value: the environment variable TC_KEY is empty"):
        load_endpoint({"kind": "azure_ml", "url": "https://a.b/c", "auth": AUTH})


async def test_a_line_feed_at_the_end_of_a_key_is_not_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TC_KEY", "sk-abcdefgh\n")
    async with serving(lambda *_: answer("ok"), auth=AUTH) as (endpoint, server):
        await endpoint.complete(HELLO)
    assert server.requests[0].headers["authorization"] == "Bearer sk-abcdefgh"


@pytest.mark.parametrize("value", ["abc\r\nX-Evil: 1", "abc\x7fdef", "schlüssel"])
def test_a_key_that_a_header_cannot_carry_is_refused_unseen(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("TC_KEY", value)
    with pytest.raises(ConfigurationError) as caught:
        load_endpoint({"kind": "azure_ml", "url": "https://a.b/c", "auth": AUTH})
    assert "characters other than printable ASCII" in str(caught.value)
    assert value not in str(caught.value)


def test_authorization_stands_in_one_place_only() -> None:
    with pytest.raises(ConfigurationError, match="`auth` already sends this header"):
        load_endpoint(
            {"kind": "azure_ml", "url": "https://a.b/c", "auth": AUTH, "headers": {"authorization": "${env:TC_KEY}"}}
        )


class TestSecret:
    def test_it_shows_itself_to_nobody(self) -> None:
        item = Secret("hunter2")
        assert [str(item), repr(item), f"{item}", f"{item!r:>5}"] == ["***", "Secret('***')", "***", "Secret('***')"]

    def test_it_is_not_pickled(self) -> None:
        with pytest.raises(TypeError, match="cannot be pickled"):
            pickle.dumps(Secret("hunter2"))

    @pytest.mark.parametrize("longer", ["abcdefghijkl", "0000abcdefgh", "0000abcdefghijkl", "zzzzabcdefghzzzz"])
    @pytest.mark.parametrize("longer_first", [True, False])
    def test_a_secret_within_a_secret_leaves_nothing(self, longer: str, longer_first: bool) -> None:
        redactor = Redactor()
        for text in (longer, "abcdefgh") if longer_first else ("abcdefgh", longer):
            redactor.add(Secret(text))
        assert redactor.text(f"{longer} abcdefgh") == "*** ***"
        assert redactor.answer({longer: [f"{longer} abcdefgh"]}) == {"***": ["*** ***"]}

    def test_the_forms_of_a_secret_within_another_leave_nothing(self) -> None:
        redactor = Redactor()
        redactor.add(Secret("key+/abcdefgh"))
        redactor.add(Secret("key+/abcdefgh&more"))
        for form in ("key+/abcdefgh&more", "key%2B%2Fabcdefgh%26more", "key+/abcdefgh&amp;more"):
            assert redactor.text(form) == redactor.answer(form) == "***"
