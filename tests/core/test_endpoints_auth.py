"""Signing in with Microsoft Entra: a token fetched once, renewed in time, never shown."""

import asyncio
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from tests.endpoint_parts import HELLO, HandClock, ask_once, definition
from tests.fault_server import FaultServer, Plan, Request, Step, answer, failing

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


class NoCredential(Credential):
    def get_token(self, *scopes: str) -> Token:
        raise RuntimeError("not signed in\nTo fix, run:\n az login\tor so")


def bearer(request: Request) -> str:
    return request.headers["authorization"]


@asynccontextmanager
async def signing_in(plan: Plan, kind: Any = Credential) -> AsyncIterator[tuple[AzureMLEndpoint, FaultServer, Any]]:
    """An endpoint that signs in, the server that answers it, and its credential of this kind."""
    clock = HandClock()
    credential = kind(clock)
    with FaultServer(plan) as server:
        endpoint = AzureMLEndpoint(definition(url=server.url, auth=ENTRA), credential=credential, clock=clock)
        try:
            yield endpoint, server, credential
        finally:
            await endpoint.close()


def fine(*_: object) -> Step:
    return answer("ok")


def only_the_second_token(request: Request, _: int) -> Step:
    return answer("ok") if bearer(request).endswith("2") else failing(401)


@pytest.mark.parametrize("kind", [Credential, AsyncCredential])
async def test_one_token_serves_all_calls(kind: type[Credential]) -> None:
    async with signing_in(fine, kind) as (endpoint, server, credential):
        await asyncio.gather(*(endpoint.complete(HELLO) for _ in range(20)))
    assert credential.scopes == ["https://ml.azure.com/.default"]
    assert {bearer(request) for request in server.requests} == {"Bearer token-number-1"}


async def test_azure_openai_has_its_own_scope_and_a_definition_may_name_another() -> None:
    clock = HandClock()
    credential = Credential(clock)
    values = {"kind": "azure_openai", "deployment": "d"}
    with FaultServer(lambda *_: answer({"choices": [{"message": {"content": "ok"}}]})) as server:
        for auth in (ENTRA, {**ENTRA, "scope": "https://ai.azure.com/.default"}):
            found = read_definition({**values, "url": server.url, "auth": auth})
            await ask_once(AzureOpenAIEndpoint(found, credential=credential, clock=clock))
    assert credential.scopes == ["https://cognitiveservices.azure.com/.default", "https://ai.azure.com/.default"]


async def test_a_token_is_renewed_five_minutes_before_its_end() -> None:
    async with signing_in(fine) as (endpoint, server, credential):
        for time in (0, 3299, 3301):
            credential.clock.time = time
            await endpoint.complete(HELLO)
    assert [bearer(request)[-1] for request in server.requests] == ["1", "1", "2"]


async def test_a_refused_token_is_replaced_once() -> None:
    async with signing_in(only_the_second_token) as (endpoint, server, _):
        assert (await endpoint.complete(HELLO)).text == "ok"
    assert len(server.requests) == 2


async def test_a_token_that_ends_at_once_is_used_all_the_same() -> None:
    async with signing_in(fine) as (endpoint, _, credential):
        credential.clock = HandClock(wall=0.0)
        assert (await endpoint.complete(HELLO)).text == "ok"


async def test_calls_refused_together_fetch_one_new_token_together() -> None:
    async with signing_in(only_the_second_token) as (endpoint, _, credential):
        await asyncio.gather(*(endpoint.complete(HELLO) for _ in range(10)))
    assert len(credential.scopes) == 2


async def test_a_token_that_stays_refused_is_an_error() -> None:
    async with signing_in(lambda *_: failing(401)) as (endpoint, server, _):
        with pytest.raises(RefusedError):
            await endpoint.complete(HELLO)
    assert len(server.requests) == 2


async def test_a_failed_sign_in_is_one_line_with_what_to_do() -> None:
    async with signing_in(fine, NoCredential) as (endpoint, server, _):
        with pytest.raises(RefusedError) as caught:
            await endpoint.complete(HELLO)
    assert str(caught.value) == (
        "Microsoft Entra gave no token: not signed in To fix, run: az login or so (to sign in, run `az login`)"
    )
    assert server.requests == []


async def test_a_token_that_is_echoed_is_masked() -> None:
    async with signing_in(lambda request, _: failing(400, f"bad token {bearer(request)}")) as (endpoint, _, _):
        with pytest.raises(Exception, match=r"bad token Bearer \*\*\*") as caught:
            await endpoint.complete(HELLO)
    assert "token-number" not in str(caught.value)


def test_without_azure_identity_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("azure", "azure.identity"):  # whether something has imported them before or not
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(MissingExtraError, match=r"pip install 'tunecheck\[azure\]'"):
        load_endpoint({"kind": "azure_ml", "url": "https://a.b/c", "auth": ENTRA})
