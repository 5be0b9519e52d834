"""Authentication of HTTP endpoints: the `auth:` section of a definition becomes the headers of each attempt.

There are three ways: a key (or an Azure ML token, which is sent like one), a Microsoft Entra token, or none. An HTTP
endpoint makes its Auth once; its client then asks the Auth for headers before each attempt.

    auth: {type: key, value: "${env:KEY}"}               Authorization: Bearer <key>, or the kind's own header
    auth: {type: key, value: "${env:KEY}", header: X}    X: <key>
    auth: {type: entra, scope: "https://…/.default"}     Authorization: Bearer <token>
    no value and no type                                 no header
"""

import asyncio
import importlib.util
import inspect
from collections.abc import Mapping
from typing import Any, Literal, Protocol, TypeAlias, cast

from tunecheck._describe import Written
from tunecheck._errors import MissingExtraError, RefusedError
from tunecheck.endpoints._base import Text
from tunecheck.endpoints._limits import Clock
from tunecheck.endpoints._masking import Redactor, Secret

_REFRESH_S = 300.0
"""A token is replaced this long before it expires."""


class TokenCredential(Protocol):
    """A credential of azure-identity (sync or async), or any other object with the method `get_token`."""

    def get_token(self, *scopes: str) -> object:
        """Return an AccessToken of azure-core, or an awaitable of one: `token`, and `expires_on` in seconds (epoch)."""


class Auth:
    """The source of the authentication headers of each attempt. The base class sends fixed headers, or none."""

    def __init__(self, headers: Mapping[str, str] | None = None) -> None:
        self._headers = headers or {}

    async def headers(self) -> Mapping[str, str]:
        """Return the headers to send.

        Raises:
            RefusedError: no credential is available.
        """
        return self._headers

    def discard_refused(self, sent: Mapping[str, str]) -> bool:
        """Return whether new headers are worth a retry after status 401 for the headers `sent`.

        The base class has no other headers and returns False. A subclass discards a refused token and returns True.
        """
        return False


def key_headers(key: Secret, header: str) -> dict[str, str]:
    """Return the header with a key; in Authorization as `Bearer …`, unless the key itself names a scheme."""
    # A key such as "Basic dXNlcjpwYXNz" names its scheme itself.
    bearer = header.lower() == "authorization" and " " not in key.reveal()
    return {header: f"Bearer {key.reveal()}" if bearer else key.reveal()}


class EntraAuth(Auth):
    """Sends a Microsoft Entra token, shared by all calls and renewed five minutes before it expires."""

    def __init__(
        self, scope: str, redactor: Redactor, *, credential: TokenCredential | None = None, clock: Clock | None = None
    ) -> None:
        """Keep the settings of the sign-in; the first call signs in.

        `scope` names the service for which a token is requested. By default, azure-identity finds the credential.

        Raises:
            MissingExtraError: no credential is given, and azure-identity is not installed.
        """
        # Without this check, the first call would fail, after the run has begun.
        if credential is None and not can_import("azure.identity"):
            raise MissingExtraError("sign-in with Microsoft Entra (auth type entra)", "azure")

        self._scope = scope
        self._redactor = redactor
        self._credential = credential
        self._clock = clock or Clock()
        self._token: Secret | None = None
        self._expires_at = 0.0
        self._sign_in_task: asyncio.Task[Secret] | None = None

    async def headers(self) -> Mapping[str, str]:
        """Return the header with a token; sign in first if there is none or it ends within five minutes.

        Raises:
            RefusedError: the sign-in failed.
        """
        token = self._token
        if token is None or self._clock.wall() >= self._expires_at - _REFRESH_S:
            # All waiting calls share one sign-in, which may take seconds and start a process. A task of another event
            # loop cannot be awaited here: that loop may have ended with the task unfinished.
            loop = asyncio.get_running_loop()
            if self._sign_in_task is None or self._sign_in_task.done() or self._sign_in_task.get_loop() is not loop:
                self._sign_in_task = loop.create_task(self._sign_in())
            token = await asyncio.shield(self._sign_in_task)
        return _bearer(token)

    def discard_refused(self, sent: Mapping[str, str]) -> bool:
        """Discard the token that was sent, unless another call has replaced it; True, because a new token may help."""
        # If another call has signed in since, its token is new and stays.
        if self._token is not None and sent == _bearer(self._token):
            self._token = None
        return True

    async def _sign_in(self) -> Secret:
        """Sign in, keep the token until it expires, and mask it from now on.

        Raises:
            RefusedError: the sign-in failed, for any reason.
        """
        try:
            if self._credential is None:
                self._credential = await asyncio.to_thread(_default_credential)

            # A credential is sync (then called in a thread) or async.
            get_token = self._credential.get_token
            is_async = inspect.iscoroutinefunction(get_token)
            result = get_token(self._scope) if is_async else await asyncio.to_thread(get_token, self._scope)

            access_token: Any = await result if inspect.isawaitable(result) else result
            token, expires_at = Secret(str(access_token.token)), float(access_token.expires_on)
        except Exception as error:  # noqa: BLE001 - a credential chain raises errors of many packages
            reason = self._redactor.line(str(error)) or type(error).__name__
            raise RefusedError(f"Microsoft Entra gave no token: {reason} (to sign in, run `az login`)") from None

        self._redactor.add(token)

        # Kept for all calls until it expires.
        self._token, self._expires_at = token, expires_at
        return token


def _bearer(token: Secret) -> dict[str, str]:
    return {"Authorization": f"Bearer {token.reveal()}"}


AuthType: TypeAlias = Literal["key", "aml_token", "entra", "none"]
"""The ways to authenticate. Only the kind `azure_ml` accepts `aml_token`: a token that expires, sent like a key."""

TYPES_BY_FIELD = {"value": ("key", "aml_token"), "header": ("key", "aml_token"), "scope": ("entra",)}
"""The types of sign-in to which each key of `auth:` belongs."""


class AuthConfig(Written, frozen=True):
    """The `auth:` section of a definition. The default type is `key` if there is a value, else `none`.

    `header` and `value` belong to the type `key`, `scope` to the type `entra`.
    """

    type: Literal["key", "entra", "none"] | None = None
    value: Any = None  # not typed: an error about its type would show a secret that is written out
    header: Text | None = None
    scope: Text | None = None


def is_header_name(text: str) -> bool:
    """Return whether a text may be a header's name here: ASCII letters and digits, with `-` and `_` among them."""
    return text.isascii() and text.replace("-", "").replace("_", "").isalnum()


def can_import(package: str) -> bool:
    """Return whether a package is installed, including its parent packages."""
    try:
        return importlib.util.find_spec(package) is not None
    except ModuleNotFoundError:
        return False


def _default_credential() -> TokenCredential:
    from azure.identity import DefaultAzureCredential

    return cast("TokenCredential", DefaultAzureCredential())
