"""Signing in with Microsoft Entra: a token fetched once, renewed in time, never shown."""

from __future__ import annotations

import asyncio
import sys
import threading
from dataclasses import dataclass
from typing import Any

import pytest
from tests.endpoint_parts import HELLO, HandClock, definition
from tests.fault_server import FaultServer, Request, Step, answer, failing

from tunecheck import MissingExtraError, RefusedError
from tunecheck.endpoints import AzureMLEndpoint, AzureOpenAIEndpoint, load_endpoint, read_definition

ENTRA = {"type": "entra"}


@dataclass
class Token:
    token: str
    expires_on: int


class Credential:
    """Gives numbered tokens that live an hour, and counts."""

    def __init__(self, clock: HandClock) -> None:
        self.clock = clock
        self.scopes: list[str] = []
        self.lock = threading.Lock()

    def get_token(self, *scopes: str) -> Token:
        with self.lock:
            self.scopes += scopes
            return Token(f"token-number-{len(self.scopes)}", int(self.clock.wall()) + 3600)


class AsyncCredential(Credential):
    async def get_token(self, *scopes: str) -> Token:  # type: ignore[override]
        await asyncio.sleep(0)
        return super().get_token(*scopes)


class NoCredential:
    def __init__(self, text: str = "not signed in\nTo fix, run:\n az login\tor so") -> None:
        self.text = text

    def get_token(self, *scopes: str) -> Token:
        raise RuntimeError(self.text)


def endpoint(url: str, credential: Any, clock: HandClock | None = None, **values: Any) -> AzureMLEndpoint:
    return AzureMLEndpoint(definition(url=url, auth=ENTRA, **values), credential=credential, clock=clock or HandClock())


def bearer(request: Request) -> str:
    return request.headers["authorization"]


@pytest.mark.parametrize("kind", [Credential, AsyncCredential])
async def test_one_token_serves_all_calls(kind: type[Credential]) -> None:
    clock = HandClock()
    credential = kind(clock)
    with FaultServer(lambda *_: answer("ok")) as server:
        one = endpoint(server.url, credential, clock)
        await asyncio.gather(*(one.complete(HELLO) for _ in range(20)))
        await one.close()
    assert credential.scopes == ["https://ml.azure.com/.default"]
    assert {bearer(request) for request in server.requests} == {"Bearer token-number-1"}


async def test_azure_openai_has_its_own_scope_and_a_definition_may_name_another() -> None:
    clock = HandClock()
    credential = Credential(clock)
    values = {"kind": "azure_openai", "deployment": "d"}
    with FaultServer(lambda *_: answer({"choices": [{"message": {"content": "ok"}}]})) as server:
        for auth in (ENTRA, {**ENTRA, "scope": "https://ai.azure.com/.default"}):
            found = read_definition({**values, "url": server.url, "auth": auth})
            one = AzureOpenAIEndpoint(found, credential=credential, clock=clock)
            await one.complete(HELLO)
            await one.close()
    assert credential.scopes == ["https://cognitiveservices.azure.com/.default", "https://ai.azure.com/.default"]


async def test_a_token_is_renewed_five_minutes_before_its_end() -> None:
    clock = HandClock()
    with FaultServer(lambda *_: answer("ok")) as server:
        one = endpoint(server.url, Credential(clock), clock)
        for time in (0, 3299, 3301):
            clock.time = time
            await one.complete(HELLO)
        await one.close()
    assert [bearer(request)[-1] for request in server.requests] == ["1", "1", "2"]


async def test_a_refused_token_is_replaced_once() -> None:
    clock = HandClock()

    def plan(request: Request, _: int) -> Step:
        return answer("ok") if bearer(request).endswith("2") else failing(401)

    with FaultServer(plan) as server:
        one = endpoint(server.url, Credential(clock), clock)
        assert (await one.complete(HELLO)).text == "ok"
        await one.close()
    assert len(server.requests) == 2


async def test_a_token_that_ends_at_once_is_used_all_the_same() -> None:
    clock = HandClock()
    credential = Credential(clock)
    with FaultServer(lambda *_: answer("ok")) as server:
        one = endpoint(server.url, credential, clock)
        credential.clock = HandClock(wall=0.0)
        assert (await one.complete(HELLO)).text == "ok"
        await one.close()


async def test_calls_refused_together_fetch_one_new_token_together() -> None:
    clock = HandClock()
    credential = Credential(clock)
    with FaultServer(lambda request, _: answer("ok") if bearer(request).endswith("2") else failing(401)) as server:
        one = endpoint(server.url, credential, clock)
        await asyncio.gather(*(one.complete(HELLO) for _ in range(10)))
        await one.close()
    assert len(credential.scopes) == 2


async def test_a_token_that_stays_refused_is_an_error() -> None:
    clock = HandClock()
    with FaultServer(lambda *_: failing(401)) as server:
        one = endpoint(server.url, Credential(clock), clock)
        with pytest.raises(RefusedError):
            await one.complete(HELLO)
        await one.close()
    assert len(server.requests) == 2


async def test_a_failed_sign_in_is_one_line_with_what_to_do() -> None:
    with FaultServer(lambda *_: answer("ok")) as server:
        one = endpoint(server.url, NoCredential())
        with pytest.raises(RefusedError) as caught:
            await one.complete(HELLO)
        await one.close()
    assert str(caught.value) == (
        "no Microsoft Entra token: not signed in To fix, run: az login or so (sign in with `az login`?)"
    )
    assert server.requests == []


async def test_a_token_that_is_echoed_is_masked() -> None:
    clock = HandClock()
    with FaultServer(lambda request, _: failing(400, f"bad token {bearer(request)}")) as server:
        one = endpoint(server.url, Credential(clock), clock)
        with pytest.raises(Exception, match=r"bad token Bearer \*\*\*") as caught:
            await one.complete(HELLO)
        await one.close()
    assert "token-number" not in str(caught.value)


def test_without_azure_identity_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("azure", "azure.identity"):  # whether something has imported them before or not
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(MissingExtraError, match=r"pip install 'tunecheck\[azure\]'"):
        load_endpoint({"kind": "azure_ml", "url": "https://a.b/c", "auth": ENTRA})
