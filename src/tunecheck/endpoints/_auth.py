"""How calls identify themselves: a key, an Azure ML token, a Microsoft Entra token, or not at all."""

from __future__ import annotations

import asyncio
import importlib.util
import inspect
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Protocol

from tunecheck._errors import MissingExtraError, RefusedError
from tunecheck.endpoints._definition import Section
from tunecheck.endpoints._failures import one_line
from tunecheck.endpoints._limits import Clock
from tunecheck.endpoints._masking import Redactor, Secret, secret

_REFRESH_S = 300.0
"""How long before its end a token is replaced."""


class AccessToken(Protocol):
    """What azure-core's credentials give: `expires_on` in seconds since the epoch."""

    @property
    def token(self) -> str:
        """The bearer token."""

    @property
    def expires_on(self) -> int:
        """When it ends."""


class TokenCredential(Protocol):
    """A credential of azure-identity (sync or async), or anything else with its `get_token`."""

    def get_token(self, *scopes: str) -> object:
        """An AccessToken, or an awaitable of one."""


class Auth(ABC):
    """Gives the headers of each attempt."""

    @abstractmethod
    async def headers(self) -> Mapping[str, str]:
        """The headers to send.

        Raises:
            RefusedError: there is no way to identify.
        """

    def renew(self, sent: Mapping[str, str]) -> bool:
        """After these headers brought a 401: whether others may be tried."""
        return False


class NoAuth(Auth):
    """Sends nothing."""

    async def headers(self) -> Mapping[str, str]:
        """None."""
        return {}


class KeyAuth(Auth):
    """Sends a fixed secret, as a bearer token or in a header of its own."""

    def __init__(self, key: Secret, header: str = "Authorization") -> None:
        bearer = header.lower() == "authorization" and " " not in key.reveal()
        self._headers = {header: f"Bearer {key.reveal()}" if bearer else key.reveal()}

    async def headers(self) -> Mapping[str, str]:
        """The one header."""
        return self._headers

    def __repr__(self) -> str:
        return f"KeyAuth({', '.join(self._headers)})"


class EntraAuth(Auth):
    """Sends a Microsoft Entra token, fetched once for all calls and again five minutes before its end."""

    def __init__(
        self, scope: str, redactor: Redactor, *, credential: TokenCredential | None = None, clock: Clock | None = None
    ) -> None:
        if credential is None and not _identity_installed():
            raise MissingExtraError("sign-in with Microsoft Entra (auth type entra)", "azure")
        self._scope = scope
        self._redactor = redactor
        self._credential = credential
        self._clock = clock or Clock()
        self._token: Secret | None = None
        self._ends = 0.0
        self._fetching: asyncio.Task[Secret] | None = None

    async def headers(self) -> Mapping[str, str]:
        """The bearer token, a new one where the last is about to end."""
        token = self._token
        if token is None or self._clock.wall() >= self._ends - _REFRESH_S:
            token = await self._refresh()
        return _bearer(token)

    def renew(self, sent: Mapping[str, str]) -> bool:
        """Forget the token that was sent, unless another call has replaced it already."""
        if self._token is not None and sent == _bearer(self._token):
            self._token = None
        return True

    async def _refresh(self) -> Secret:
        # One fetch for all the calls that wait: a sign-in may take seconds and start a process.
        loop = asyncio.get_running_loop()
        if self._fetching is None or self._fetching.done() or self._fetching.get_loop() is not loop:
            self._fetching = loop.create_task(self._fetch())
        return await asyncio.shield(self._fetching)

    async def _fetch(self) -> Secret:
        try:
            found = await self._ask()
            token = Secret(str(found.token))
            ends = float(found.expires_on)
        except Exception as error:  # noqa: BLE001 - a credential chain raises errors of many packages
            reason = one_line(self._redactor.text(str(error))) or type(error).__name__
            raise RefusedError(f"no Microsoft Entra token: {reason} (sign in with `az login`?)") from None
        self._redactor.add(token)
        self._token, self._ends = token, ends
        return token

    async def _ask(self) -> AccessToken:
        if self._credential is None:
            self._credential = await asyncio.to_thread(_default_credential)
        get_token = self._credential.get_token
        if inspect.iscoroutinefunction(get_token):
            found = await get_token(self._scope)
        else:
            found = await asyncio.to_thread(get_token, self._scope)
        if inspect.isawaitable(found):
            found = await found
        return found  # type: ignore[no-any-return]  # what a credential gives is checked by being read


def _bearer(token: Secret) -> dict[str, str]:
    return {"Authorization": f"Bearer {token.reveal()}"}


def read_auth(
    section: Section,
    redactor: Redactor,
    *,
    types: tuple[str, ...],
    key_header: str = "Authorization",
    scope: str | None = None,
    credential: TokenCredential | None = None,
    clock: Clock | None = None,
) -> Auth:
    """The `auth:` of a definition: `{type: key, value: ${env:NAME}}`, `{type: entra, scope: …}` and so on.

    Raises:
        ConfigurationError: it is wrong, or holds a secret that should stand in the environment.
        MissingExtraError: azure-identity is needed and not installed.
    """
    sort = section.choice("type", types, "key" if section.has("value") else "none")
    if sort == "entra":
        scope = section.maybe_text("scope") or scope or section.text("scope")
        return EntraAuth(scope, redactor, credential=credential, clock=clock)
    if sort == "none":
        return NoAuth()
    header = section.maybe_text("header") or key_header
    if not header.isascii() or not header.replace("-", "").replace("_", "").isalnum():
        raise section.error("header", "must be the name of a header")
    key = secret(section, "value")
    redactor.add(key)
    redactor.add(Secret(key.reveal().rpartition(" ")[2]))  # "Bearer …" may come back without its first word
    return KeyAuth(key, header)


def _identity_installed() -> bool:
    try:
        return importlib.util.find_spec("azure.identity") is not None
    except ModuleNotFoundError:
        return False


def _default_credential() -> TokenCredential:
    from azure.identity import DefaultAzureCredential

    credential: TokenCredential = DefaultAzureCredential()
    return credential
