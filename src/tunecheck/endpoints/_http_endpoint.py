"""What all endpoints over HTTP share: the common keys of a definition, and the way from a request to a completion."""

from __future__ import annotations

import random
import uuid
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import ClassVar

from tunecheck._errors import ContentFilterError, ReplyError
from tunecheck._json import JSON, dumps
from tunecheck._version import __version__
from tunecheck.endpoints._answers import Answer, FilteredError, read_usage
from tunecheck.endpoints._auth import Auth, KeyAuth, TokenCredential, read_auth
from tunecheck.endpoints._base import ChatRequest, Completion, Endpoint, Price, time_text
from tunecheck.endpoints._client import Client, Exchange, Limits
from tunecheck.endpoints._definition import Definition, Section
from tunecheck.endpoints._failures import one_line
from tunecheck.endpoints._limits import Backoff, Clock
from tunecheck.endpoints._masking import (
    ENV_REFERENCE,
    Redactor,
    Secret,
    environment,
    looks_secret,
    resolved,
    secret,
    sent_text,
)
from tunecheck.endpoints._prices import read_price
from tunecheck.endpoints._templates import RequestTemplate

_OPERATIONAL = ("auth", "timeout_s", "retries", "limits", "price")
"""Settings that say how an endpoint is asked, not what it answers."""

_MOST_TOKENS_NAMES = ("max_completion_tokens", "max_tokens", "max_new_tokens", "max_output_tokens")

_CHARACTERS_PER_TOKEN = 4


@dataclass(frozen=True, slots=True)
class GivenSecrets:
    """What identifies calls and was given in code: a key, and headers by name. A definition holds neither."""

    key: Secret | None = None
    headers: Mapping[str, Secret] = field(default_factory=dict)

    def all(self) -> Iterator[Secret]:
        """Each of them."""
        yield from (() if self.key is None else (self.key,))
        yield from self.headers.values()


class HttpEndpoint(Endpoint):
    """An endpoint that is asked over HTTP. A kind says what it sends (`_body`) and how a reply is read (`_answer`).

    `credential` signs in with Microsoft Entra (default: azure-identity's DefaultAzureCredential). `secrets` are sent
    beside what the definition says, their key in place of its `auth`; the settings then speak of `key_variable`.
    `clock` and `rng` are the time and the chance in limits and retries, for tests to turn by hand.
    """

    auth_types: ClassVar[tuple[str, ...]] = ("key", "entra", "none")
    key_header: ClassVar[str] = "Authorization"
    key_variable: ClassVar[str] = "ENDPOINT_KEY"
    scope: ClassVar[str | None] = None
    text_answers: ClassVar[bool] = False
    holds_back: ClassVar[bool] = True
    default_request: ClassVar[JSON] = None

    def __init__(
        self,
        definition: Definition,
        *,
        credential: TokenCredential | None = None,
        secrets: GivenSecrets | None = None,
        clock: Clock | None = None,
        rng: random.Random | None = None,
    ) -> None:
        self.name = definition.name
        self.price = read_own_price(definition)
        self._redactor = Redactor()
        secrets = secrets or GivenSecrets()
        for item in secrets.all():
            self._redactor.add(item)
        self._url = self._address(definition)
        self._parameters = read_parameters(definition, self._redactor)
        limits = read_limits(definition)
        self.concurrency = limits.concurrency
        self._counts_tokens = limits.tokens_per_minute is not None
        self._template = self._request_template(definition)
        self.depends_on_row = self._template is not None and "data" in self._template.references
        self._client = Client(
            self.name,
            self._url,
            auth=self._auth(definition, secrets.key, credential, clock),
            headers={
                **read_headers(definition, self._redactor),
                **{name: item.reveal() for name, item in secrets.headers.items()},
            },
            redactor=self._redactor,
            limits=limits,
            timeout_s=definition.number("timeout_s", 60.0, above=0, most=86_400),
            backoff=Backoff(definition.integer("retries", 5, least=0, most=100)),
            clock=clock,
            rng=rng,
        )
        self._data = dict(definition.data)
        if secrets.key is not None:
            self._data["auth"] = {"type": "key", "value": f"${{env:{self.key_variable}}}"}

    def _auth(
        self, definition: Definition, key: Secret | None, credential: TokenCredential | None, clock: Clock | None
    ) -> Auth:
        if key is not None:
            return KeyAuth(key, self.key_header)
        return read_auth(
            definition.section("auth"),
            self._redactor,
            types=self.auth_types,
            key_header=self.key_header,
            scope=self.scope,
            credential=credential,
            clock=clock,
        )

    @classmethod
    def from_definition(cls, definition: Definition) -> Endpoint:
        """The endpoint that a definition describes."""
        return cls(definition)

    @abstractmethod
    def _address(self, definition: Definition) -> str:
        """The address to post to."""

    @abstractmethod
    def _body(self, request: ChatRequest, parameters: Mapping[str, JSON]) -> JSON:
        """The body of one request."""

    @abstractmethod
    def _answer(self, reply: JSON) -> Answer:
        """The answer in a reply."""

    async def complete(self, request: ChatRequest) -> Completion:
        """Answer one request over HTTP."""
        parameters = {**self._parameters, **request.parameters}
        key = request.idempotency_key or uuid.uuid4().hex
        return self._completion(await self._asked(self._body(request, parameters), key, request.sent_at, parameters))

    async def _asked(self, value: JSON, key: str, sent_at: datetime | None, parameters: Mapping[str, JSON]) -> Exchange:
        body = dumps(value)
        return await self._client.post(
            body,
            key=key,
            tokens=_expected_tokens(body, parameters) if self._counts_tokens else 0,
            headers=time_header(sent_at),
            text_answers=self.text_answers,
        )

    def settings(self) -> dict[str, JSON]:
        """The definition as it was written (references to the environment, not their values), and the address."""
        return {**self._data, "kind": self.kind, "url": self._url}

    def answer_settings(self) -> dict[str, JSON]:
        """The settings without identification, timeouts, retries, limits and price."""
        return {key: value for key, value in self.settings().items() if key not in _OPERATIONAL}

    def sign(self, user_agent: str) -> None:
        """Append to the User-Agent of the calls to come."""
        self._client.sign(user_agent)

    @property
    def concurrency_now(self) -> int | None:
        """How many calls the service bears at once, as found so far; None before the first call."""
        return self._client.concurrency_now

    async def close(self) -> None:
        """Close connections. A later call opens new ones."""
        await self._client.close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, {self._url!r})"

    def _request_template(self, definition: Definition) -> RequestTemplate | None:
        if self._parameters.get("stream"):
            raise definition.error("parameters", "stream is not supported: answers are read whole")
        body = definition.value("request") if definition.has("request") else self.default_request
        if body is None:
            return None
        template = RequestTemplate(body, definition, "request", self._redactor)
        if self._parameters and "parameters" not in template.references:
            raise definition.error("request", "does not say where the parameters go: put ${parameters} somewhere in it")
        return template

    def _completion(self, exchange: Exchange) -> Completion:
        try:
            answer = self._masked(self._answer(exchange.reply))
        except FilteredError as error:
            raise ContentFilterError(
                f"endpoint {self.name!r}: {error}", status=200, request_id=exchange.request_id
            ) from None
        except ValueError as error:
            text = one_line(self._redactor.text(str(error)))
            raise ReplyError(f"endpoint {self.name!r}: {text}", status=200, request_id=exchange.request_id) from None
        reply = exchange.reply
        return answer.completion(
            usage=read_usage(reply),
            latency_ms=exchange.latency_ms,
            request_id=exchange.request_id,
            # `tunecheck serve` says so where its model is simulated: a gate must not take it for a real one.
            simulated=isinstance(reply, dict) and reply.get("simulated") is True,
        )

    def _masked(self, answer: Answer) -> Answer:
        """The answer without secrets that the service echoed; refused where it is nested too deeply to be stored."""
        masked = self._redactor.answer
        calls = [masked(dict(call)) for call in answer.tool_calls]
        return Answer(
            None if answer.text is None else str(masked(answer.text)),
            tuple(call for call in calls if isinstance(call, dict)),
            None if answer.finish_reason is None else str(masked(answer.finish_reason)),
        )


def read_parameters(definition: Definition, redactor: Redactor) -> dict[str, JSON]:
    """The `parameters:` of a definition, references to the environment replaced."""
    given = definition.mapping("parameters")
    return {name: resolved(value, definition, "parameters", redactor, name) for name, value in given.items()}


def read_limits(definition: Definition) -> Limits:
    """The `limits:` of a definition."""
    section = definition.section("limits")
    return Limits(
        section.integer("concurrency", 16, least=1, most=10_000),
        section.maybe_number("requests_per_minute", above=0),
        section.maybe_number("tokens_per_minute", above=0),
    )


def read_own_price(definition: Definition) -> Price | None:
    """The `price:` of a definition, None where there is none."""
    if not definition.has("price"):
        return None
    return read_price(definition.section("price"))


def time_header(sent_at: datetime | None) -> dict[str, str]:
    """The header that tells when a request is sent, by the clock of a conversation that has one of its own."""
    return {} if sent_at is None else {"Tunecheck-Time": time_text(sent_at)}


def _expected_tokens(body: bytes, parameters: Mapping[str, JSON]) -> int:
    """A call's tokens, guessed before it is sent: a quarter of its characters, and the most that it may answer."""
    most = (parameters.get(name) for name in _MOST_TOKENS_NAMES)
    answer = next((value for value in most if isinstance(value, int) and value > 0), 0)
    return len(body) // _CHARACTERS_PER_TOKEN + answer


_RESERVED = frozenset(
    {"content-length", "content-type", "host", "idempotency-key", "transfer-encoding", "connection", "tunecheck-time"}
)


def read_headers(definition: Definition, redactor: Redactor) -> dict[str, str]:
    """All fixed headers of a request: ours, and over them the definition's.

    Raises:
        ConfigurationError: a name or value cannot be sent, or a secret is written out.
    """
    section = definition.section("headers")
    given = {name: _value(name, section, redactor) for name in definition.mapping("headers")}
    names = {name.lower() for name in given}
    if "authorization" in names and definition.has("auth"):
        raise section.error("Authorization", "stands beside auth, which sends it too: leave one of them out")
    ours = {"Content-Type": "application/json", "Accept": "application/json", "User-Agent": f"tunecheck/{__version__}"}
    return {**{name: value for name, value in ours.items() if name.lower() not in names}, **given}


def _value(name: str, section: Section, redactor: Redactor) -> str:
    if not name.isascii() or not name.replace("-", "").replace("_", "").isalnum():
        raise section.error(name, "is not the name of a header")
    if name.lower() in _RESERVED:
        raise section.error(name, "is set for each request and cannot be given")
    if looks_secret(name, str(section.value(name))):
        item = secret(section, name)
        redactor.add(item)
        redactor.add(Secret(item.reveal().rpartition(" ")[2]))  # "Bearer …" may come back without its first word
        return item.reveal()
    text = sent_text(environment(_text(name, section), section, name), section, name)
    if ENV_REFERENCE.search(_text(name, section)):
        redactor.add(Secret(text), in_answers=False)
    return text


def _text(name: str, section: Section) -> str:
    value: JSON = section.value(name)
    if isinstance(value, bool):
        return "true" if value else "false"
    if not isinstance(value, (str, int, float)):
        raise section.error(name, "must be a text or a number")
    return str(value)
