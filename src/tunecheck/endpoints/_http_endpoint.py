"""The base of endpoints over HTTP: the common keys of definitions, and how a request becomes a completion.

The path of a request, in `complete()`:

1. The definition's parameters, those of the request and those for streams are merged. System messages get the role that
   the definition names.
2. `facts` changes parameters that the API has refused before, and the kind builds the body (`_body`).
3. The client posts the body, with retries. The kind reads the answer (`_answer`), in which echoed secrets are masked.
4. If the API refused a parameter, or the token limit cut off a judge's reasoning, `facts` learns this and the request
   is repeated from step 2. An error from which nothing can be learned is raised.
"""

import random
import re
import uuid
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, ClassVar, Generic, Literal, TypeVar, cast
from urllib.parse import urlsplit, urlunsplit

import msgspec

from tunecheck._errors import EndpointError
from tunecheck._faults import CUT_OFF
from tunecheck._json import JSON, content_hash, dumps, object_or_empty
from tunecheck._messages import suggest_names
from tunecheck._targets import Load
from tunecheck._version import __version__
from tunecheck.endpoints import _masking as masking
from tunecheck.endpoints._answers import read_usage
from tunecheck.endpoints._api_facts import ApiFacts
from tunecheck.endpoints._auth import (
    TYPES_BY_FIELD,
    Auth,
    AuthConfig,
    AuthType,
    EntraAuth,
    TokenCredential,
    is_header_name,
    key_headers,
)
from tunecheck.endpoints._base import (
    ChatRequest,
    Completion,
    Definition,
    Endpoint,
    EndpointConfig,
    Place,
    Price,
    SentBack,
    Text,
    mask_answer,
    output_limit,
    time_text,
)
from tunecheck.endpoints._client import Client, ServiceCall, ServiceConfig
from tunecheck.endpoints._limits import Clock, SharedLimits
from tunecheck.endpoints._templates import RequestTemplate
from tunecheck.endpoints._transport import checked_url

_ADDRESS = ("url", "model", "deployment", "api_version")
"""Keys that decide which model answers."""

_MOST_MODELS = 8
"""Number of offered models that an error names."""

_OF_STREAMS = ("stream", "stream_options")
"""Parameters for streams. A template gets all others in `${parameters}`."""

# Headers that Tunecheck or the HTTP library sets.
_RESERVED_HEADERS = frozenset(
    {"content-length", "content-type", "host", "idempotency-key", "transfer-encoding", "connection", "tunecheck-time"}
)


class HttpConfig(ServiceConfig, frozen=True, kw_only=True):
    """The common keys of definitions of endpoints over HTTP. `request` is a template of the body.

    `stream`: request streamed answers. `system_role`: the role of system messages; `user` puts their text before the
    user's first message. `send_reasoning`: when a conversation sends the model its own reasoning back. `allow_http`:
    allow http to private networks, and to any host if no key is sent.
    """

    url: Text
    allow_http: bool = False
    auth: AuthConfig = AuthConfig()
    # Any, because an error about a wrong type could show a secret.
    headers: dict[str, Any] = msgspec.field(default_factory=dict)
    parameters: dict[str, Any] = msgspec.field(default_factory=dict)
    request: Any = None
    stream: bool = False
    system_role: Literal["system", "developer", "user"] = "system"
    send_reasoning: SentBack = "turn"
    price: Price | None = None


C = TypeVar("C", bound=HttpConfig)


class HttpEndpoint(Endpoint, Generic[C]):
    """An endpoint over HTTP. A kind implements the body of a request (`_body`) and reading a reply (`_answer`).

    `credential` signs in with Microsoft Entra (default: azure-identity's DefaultAzureCredential). `secret_headers` are
    sent in addition to the definition's headers. `key` replaces the definition's `auth`, and the settings then refer to
    the variable `key_variable`. Tests replace `clock` and `rng`.

    A kind may set these attributes:

    `key_header`, `scope`: the header of a key, and the scope of a Microsoft Entra token.
    `text_answers`: a reply of type text/plain is an answer.
    `default_request`: the template of the body, unless the definition has one; None if the kind builds the body.
    `_model`: the model that requests name; `_address` sets it.
    """

    config_type: ClassVar[type[EndpointConfig]] = HttpConfig
    key_header: ClassVar[str] = "Authorization"
    key_variable: ClassVar[str] = "ENDPOINT_KEY"
    scope: ClassVar[str | None] = None
    text_answers: ClassVar[bool] = False
    limits_concurrency: ClassVar[bool] = True
    pure: ClassVar[bool] = True
    default_request: ClassVar[JSON] = None
    _model: str | None = None

    def __init__(
        self,
        definition: Definition,
        *,
        credential: TokenCredential | None = None,
        key: masking.Secret | None = None,
        secret_headers: Mapping[str, masking.Secret] | None = None,
        clock: Clock | None = None,
        rng: random.Random | None = None,
    ) -> None:
        """Check the definition, resolve its secrets, and prepare the client. Nothing is sent.

        `secret_headers` are sent in addition to the definition's headers. `key` replaces the definition's `auth`.

        Raises:
            ConfigurationError: a key or value of the definition is wrong, or an environment variable is not set.
            MissingExtraError: azure-identity is needed but not installed.
        """
        self.facts = ApiFacts()
        self.config = config = cast("C", definition.read(self.config_type))
        self.name = definition.name
        self.price = config.price
        self.sent_back = config.send_reasoning
        self.concurrency = config.limits.concurrency
        self.rates = (config.limits.requests_per_minute, config.limits.tokens_per_minute)

        self._redactor = masking.Redactor()
        extra_headers = secret_headers or {}
        for item in (*extra_headers.values(), *([key] if key else ())):
            self._redactor.add(item)

        # With allow_http, plain http may go to a private network, and also to a public host if nothing secret is sent.
        keyless = key is None and config.auth.value is None and config.auth.type in (None, "none")
        sends_secrets = not keyless or bool(config.headers or extra_headers)
        url = checked_url(
            config.url, definition.at("url"), self._redactor, allow_http=config.allow_http, sends_secrets=sends_secrets
        )

        self._url = self._address(url, definition)
        self._parameters = cast(
            "dict[str, JSON]", masking.resolve(config.parameters, definition.at("parameters"), self._redactor)
        )
        self._template = self._request_template(definition)
        self.depends_on_row = self._template is not None and "data" in self._template.references

        headers = _headers(config, definition.at("headers"), self._redactor)
        if key is not None:
            auth = Auth(key_headers(key, self.key_header))
        else:
            auth = self._sign_in(definition.at("auth"), credential, clock)

        self._client = Client(
            who=f"endpoint {self.name!r}",
            url=self._url,
            auth=auth,
            headers={**headers, **{name: item.reveal() for name, item in extra_headers.items()}},
            redactor=self._redactor,
            config=config,
            clock=clock or Clock(),
            rng=rng or random.Random(),
            offered_models=self._offered_models,
        )

        # For files: secrets that are written out are masked, references to the environment stay.
        self._data = cast("dict[str, JSON]", masking.storable_settings(dict(definition.data)))
        self._hides_address = any(masking.hides(self._data.get(key)) for key in _ADDRESS)
        if key is not None:
            self._data["auth"] = {"type": "key", "value": f"${{env:{self.key_variable}}}"}

    def _sign_in(self, place: Place, credential: TokenCredential | None, clock: Clock | None) -> Auth:
        """Return the sign-in that the `auth:` section at this place describes.

        Raises:
            ConfigurationError: the section is wrong, or contains a secret instead of a reference to the environment.
            MissingExtraError: azure-identity is needed but not installed.
        """
        config = self.config.auth
        auth_type: AuthType = config.type or ("none" if config.value is None else "key")

        for name, types in TYPES_BY_FIELD.items():
            if getattr(config, name) is not None and auth_type not in types:
                raise place.at(name).error(f"the key `{name}` does not fit auth type `{auth_type}`: leave out `{name}`")

        if auth_type == "none":
            return Auth()

        if auth_type == "entra":
            scope = config.scope or self.scope
            if scope is None:
                raise place.error("the key `scope` is missing: write an audience, such as https://example.com/.default")
            return EntraAuth(scope, self._redactor, credential=credential, clock=clock)

        # `key`, or `aml_token`, which is sent like a key.
        header = config.header or self.key_header
        if not is_header_name(header):
            raise place.at("header").error("the key `header` must be an HTTP header's name, such as api-key")
        return Auth(key_headers(masking.sent_secret(config.value, place.at("value"), self._redactor), header))

    def fail_fast(self) -> None:
        """Do not retry requests that could not be sent, for example to a closed port."""
        self._client.retry_unreachable = False

    def _text(self, key: str, definition: Definition) -> str | None:
        """Return a key's value with environment variables inserted, or None; note the name of a model or deployment.

        Raises:
            ConfigurationError: a variable is empty or not set.
        """
        value = getattr(self.config, key)
        text = None if value is None else masking.insert_env(value, definition.at(key), self._redactor)
        if text is not None and key in ("model", "deployment"):
            self.model_names += (text,)
        return text

    def _address(self, url: str, definition: Definition) -> str:
        """Return the address to post to. Kinds also read their own keys here."""
        return url

    @abstractmethod
    def _body(self, request: ChatRequest, parameters: Mapping[str, JSON]) -> JSON:
        """Return the body of one request."""

    @abstractmethod
    def _answer(self, reply: JSON) -> Completion:
        """Return the text, calls and finish reason in a reply.

        Raises:
            ValueError: the reply has no readable answer; FilteredError if a content filter stopped the answer.
        """

    @property
    def returns_calls(self) -> bool:
        """True if requests contain tools and the API returns calls separately from the text."""
        return self.is_chat and self.sends_tools and self.profile is None and not self.tools_as_text

    @property
    def sends_tools(self) -> bool:
        """True if requests contain the tools, either as tools or in the text."""
        return self.tools_as_text or self._template is None or "tools" in self._template.references

    @property
    def tools_note(self) -> str:
        """A warning for users if the model never gets the data's tools, else ""."""
        advice = "write ${tools} in `request`, or set `tools: text` and `format` to the model's family"
        return "" if self.sends_tools else f"endpoint {self.name!r} never receives the data's tools: {advice}"

    async def look(self, path: str) -> JSON:
        """Return the JSON at a path of the service, or None without a readable reply. Redirects are not followed.

        `/models` is below the API's address; its request carries the key, and only chat APIs have it. Other paths are
        below the server's address, and their requests carry no key.
        """
        parts = urlsplit(self._url)
        api = re.sub(r"/(chat/completions|responses)/*\Z", "", parts.path) if self.is_chat else ""

        if path == "/models":
            url = urlunsplit(parts._replace(path=api + path))
            return await self._client.look(url, signed=True) if self.is_chat else None
        return await self._client.look(urlunsplit((*parts[:2], api.removesuffix("/v1") + path, "", "")), signed=False)

    async def models(self) -> list[dict[str, JSON]]:
        """Return the service's list of models; an empty list if the service gives no readable one."""
        listed = object_or_empty(await self.look("/models")).get("data")
        return [card for card in listed if isinstance(card, dict)] if isinstance(listed, list) else []

    async def _offered_models(self) -> str:
        return self.offer_text([str(card.get("id")) for card in await self.models()])

    def offer_text(self, models: Sequence[str]) -> str:
        """Return a text with the models that the service offers and the one with the nearest name.

        Return "" if the list is empty or contains the definition's model, or if the definition names no model.
        """
        if not models or self._model is None or self._model in models:
            return ""

        names = [self._redactor.line(name, 100) for name in models]
        more = f" and {len(names) - _MOST_MODELS:,} more" if len(names) > _MOST_MODELS else ""
        return f"the server offers {', '.join(names[:_MOST_MODELS])}{more}{suggest_names(self._model, names)}"

    def reply_headers(self) -> Mapping[str, str]:
        return self._client.last_headers

    async def complete(self, request: ChatRequest) -> Completion:
        """Answer a request.

        If the API refuses a parameter, repeat the request without it or with its other name. If the token limit cut off
        the reasoning and `may_raise_limit` is set, repeat the request with a higher limit; if that fails, return the
        answer so far.

        Raises:
            EndpointError: the call failed, and leaving out a refused parameter cannot help.
            StopRunError: too many calls were refused, or the budget is spent.
        """
        parameters = {**self._parameters, **request.parameters}
        if self.config.stream:
            parameters = {"stream_options": {"include_usage": True}, **parameters, "stream": True}
        if self.config.system_role != "system":
            request = replace(request, messages=_with_system_role(request.messages, self.config.system_role))

        key = request.idempotency_key or uuid.uuid4().hex
        completion: Completion | None = None
        while True:
            # Other calls may change `self.facts` during this one, so keep the facts that this request was built with.
            facts = self.facts
            sent = facts.parameters_of(parameters, may_raise_limit=request.may_raise_limit)
            body = self._body(request, sent)

            # A service may refuse an idempotency key with a new body. A resumed run sends equal keys.
            own_key = key if sent == parameters else f"{key}-{content_hash(body)[:8]}"
            try:
                latest, _ = await self._post(body, own_key, request.sent_at, sent)
            except EndpointError as error:
                learned = facts.learned(error, sent)

                # The repetition with a raised limit failed, so the answer that was cut off is the best one.
                if learned is None and completion is not None:
                    return completion
                if learned is None:
                    raise
            else:
                # The usage of a repeated request includes the answer that was cut off.
                completion = latest if completion is None else replace(latest, usage=completion.usage + latest.usage)

                cut_off = request.may_raise_limit and cut_off_thinking(completion)
                learned = facts.with_higher_limit(output_limit(sent)) if cut_off else None

                if learned is None:
                    return completion

            # Facts that another call has stored meanwhile stay; if they do not suffice, this call learns again.
            if self.facts is facts:
                self.facts = learned

    async def _post(
        self, value: JSON, key: str, sent_at: datetime | None, parameters: Mapping[str, JSON]
    ) -> tuple[Completion, JSON]:
        """Post a body (`value`), with the client's retries. Return the completion with tokens and times, and the reply.

        `key` is the idempotency key, `sent_at` the simulated time of the request. `parameters` are those in the body.

        Raises:
            EndpointError: the call failed.
            StopRunError: too many calls were refused, or the budget is spent.
        """
        body = dumps(value)
        tokens = 0
        if self.config.limits.tokens_per_minute:
            # A quarter of the bytes, plus the answer's token limit, which Azure OpenAI counts when the request arrives.
            tokens = len(body) // 4 + (output_limit(dict(parameters)) or 0)

        headers = time_header(sent_at)
        call = ServiceCall(body, key, self._completion, tokens, headers=headers, text_answers=self.text_answers)
        exchange = await self._client.post(call)

        reply = exchange.reply
        completion = replace(
            exchange.answer,
            usage=read_usage(reply).of_answer(exchange.answer),
            # `tunecheck serve` marks answers of a simulated model, so that no gate treats them as real.
            simulated=isinstance(reply, dict) and reply.get("simulated") is True,
            latency_ms=exchange.latency_ms,
            request_id=exchange.request_id,
            first_token_ms=exchange.first_token_ms,
        )
        return completion, reply

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle the definition, without connections and without secrets."""
        return _restore, (self.settings(), self.name, self.price)

    def settings(self) -> dict[str, JSON]:
        """Return the definition as written, with references to the environment unresolved, and the full address."""
        return {**self._data, "kind": self.kind, "url": self.shown_address(self._url)}

    def answer_settings(self) -> dict[str, JSON]:
        """Return the settings that answers depend on; an address or model with a secret variable adds a short hash."""
        settings = super().answer_settings()
        if not self._hides_address:
            return settings
        return {**settings, "address_trace": masking.trace([self._url, self._model])}

    def shown_address(self, url: str) -> str:
        """Return the address for files: the url as written if a key of `_ADDRESS` refers to a secret variable."""
        return self.config.url if self._hides_address else url

    def hide(self, secrets: masking.Redactor) -> None:
        self._redactor.learn(secrets)

    def sign(self, user_agent: str) -> None:
        self._client.sign(user_agent)

    def load(self) -> Load | None:
        """Return the concurrency, attempts and overloads so far, or None before the first call."""
        return self._client.load()

    def allow(self, concurrency: int) -> None:
        """Set the maximum number of concurrent calls, unless the definition sets it."""
        limits = self._data.get("limits")
        if not isinstance(limits, dict) or limits.get("concurrency") is None:
            self.concurrency = concurrency
            self._client.concurrency = concurrency

    def share_limits(self, buckets: SharedLimits) -> None:
        self._client.shared_limits = buckets

    async def close(self) -> None:
        await self._client.close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, {self._redactor.text(self._url)!r})"

    def _request_template(self, definition: Definition) -> RequestTemplate | None:
        """Return the template of the body (the definition's, else the kind's), or None if the kind builds the body.

        Raises:
            ConfigurationError: the definition has parameters, and the template has no place for them.
        """
        body = self.default_request if self.config.request is None else self.config.request
        if body is None:
            return None
        template = RequestTemplate(body, definition.at("request"), self._redactor)

        if self._parameters and "parameters" not in template.references:
            problem = "the request template leaves out the definition's parameters: write ${parameters} in it"
            raise definition.at("request").error(problem)
        return template

    def _render(self, request: ChatRequest, parameters: Mapping[str, JSON]) -> JSON:
        """Return the filled template. If the definition sets `stream`, its parameters go to the top level of the body.

        A body that is no object gets no parameters for streams.
        """
        assert self._template is not None

        streaming = {name: parameters[name] for name in _OF_STREAMS if self.config.stream and name in parameters}
        others = {name: value for name, value in parameters.items() if name not in streaming}
        body = self._template.render(request, others)
        return {**body, **streaming} if isinstance(body, dict) else body

    def _completion(self, reply: JSON) -> Completion:
        """Return the answer in a reply with echoed secrets masked; raises the errors of `_answer`."""
        return mask_answer(self._answer(reply), self._redactor)


def cut_off_thinking(completion: Completion) -> bool:
    """Return whether the token limit cut off an answer that is empty or came after reasoning."""
    unanswered = not (completion.text or "").strip() and not completion.tool_calls
    thought = bool(completion.reasoning or completion.usage.reasoning_tokens)
    return completion.finish_reason in CUT_OFF and (unanswered or thought)


def _with_system_role(messages: Sequence[Mapping[str, JSON]], role: str) -> Sequence[Mapping[str, JSON]]:
    """Return the messages with another role for system messages: `developer` or `user`.

    For `user`, the contents of system and developer messages are put before that of the user's first message. Without
    a user's message, they become user messages at the beginning.
    """
    if role == "developer":
        return [{**message, "role": role} if message.get("role") == "system" else message for message in messages]

    system = [message for message in messages if message.get("role") in ("system", "developer")]
    others = [message for message in messages if message.get("role") not in ("system", "developer")]
    first_user = next((index for index, message in enumerate(others) if message.get("role") == "user"), None)

    if first_user is None:
        return [{**message, "role": "user"} for message in system] + others
    others[first_user] = {**others[first_user], "content": _joined_content([*system, others[first_user]])}
    return others


def _joined_content(messages: Sequence[Mapping[str, JSON]]) -> JSON:
    """Return the contents of messages as one text, or as one list of parts if any content is a list."""
    contents = [message.get("content") for message in messages]
    if all(isinstance(content, str) for content in contents):
        return "\n\n".join(map(str, contents))

    parts: list[JSON] = []
    for content in contents:
        parts += content if isinstance(content, list) else [{"type": "text", "text": content}]
    return parts


def time_header(sent_at: datetime | None) -> dict[str, str]:
    """Return the Tunecheck-Time header with the simulated time of a conversation, if there is one."""
    return {} if sent_at is None else {"Tunecheck-Time": time_text(sent_at)}


def _headers(config: HttpConfig, place: Place, redactor: masking.Redactor) -> dict[str, str]:
    """Return the headers of all requests: the definition's headers, and defaults for headers that it does not set.

    Raises:
        ConfigurationError: a header is invalid, or both `headers` and `auth` set Authorization.
    """
    written = {name: _header(name, value, place.at(name), redactor) for name, value in config.headers.items()}
    names = {name.lower() for name in written}

    if "authorization" in names and (config.auth.type is not None or config.auth.value is not None):
        raise place.at("Authorization").error("`auth` already sends this header: leave out the header or `auth`")

    agent = f"tunecheck/{__version__}"
    defaults = {"Content-Type": "application/json", "Accept": "application/json", "User-Agent": agent}
    return {**{name: value for name, value in defaults.items() if name.lower() not in names}, **written}


def _header(name: str, value: JSON, place: Place, redactor: masking.Redactor) -> str:
    """Return the value to send for a header.

    Raises:
        ConfigurationError: the name or value is invalid, Tunecheck itself sets the header, or the header looks secret
            and does not refer to the environment.
    """
    if not is_header_name(name):
        raise place.error(f"{name!r} is not a header's name: use letters, digits, - and _")
    if name.lower() in _RESERVED_HEADERS:
        raise place.error(f"Tunecheck itself sets the header {name}: leave it out")
    if masking.looks_secret(name, str(value)) and not masking.is_plain(value):
        # A header such as X-Api-Key, or a value such as `Bearer …`, must come from the environment.
        return masking.sent_secret(value, place, redactor).reveal()

    if not isinstance(value, (str, int, float)):
        raise place.error("a header's value must be a text or a number")

    # YAML's true is sent as `true`, not as Python's `True`.
    written = str(value).lower() if isinstance(value, bool) else str(value)
    return masking.sent_text(masking.insert_env(written, place, redactor, in_answers=True), place)


def _restore(definition: Mapping[str, JSON], name: str, price: Price | None) -> Endpoint:
    """Return an unpickled endpoint, made anew from its definition."""
    from tunecheck.endpoints._definition import load_endpoint  # imported late: that module imports the kinds

    endpoint = load_endpoint(definition, name=name)
    endpoint.price = price
    return endpoint
