"""Chat completions, or the Responses API: OpenAI, every server compatible with it, and Azure OpenAI."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal, TypeVar
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit, urlunsplit

from tunecheck._errors import ConfigurationError
from tunecheck._json import JSON
from tunecheck.endpoints._answers import read_chat
from tunecheck.endpoints._base import ChatRequest, Completion
from tunecheck.endpoints._client import Client
from tunecheck.endpoints._config import Definition, Text
from tunecheck.endpoints._http_endpoint import HttpConfig, HttpEndpoint
from tunecheck.endpoints._responses import chat_reply, responses_body

_OPERATION = "/chat/completions"
_RESPONSES = "/responses"


@dataclass(frozen=True, slots=True)
class ServiceOperation:
    """Another operation of a service that has chat completions; `body` is what every body of it holds.

    `counts_tokens`: whether calls are to say what they are expected to use, for a limit of tokens.
    """

    url: str
    body: Mapping[str, JSON]
    client: Client
    counts_tokens: bool


class ChatConfig(HttpConfig, frozen=True, kw_only=True):
    """`api`: `responses` posts to the Responses API, as does a `url` that ends in `/responses`."""

    api: Literal["chat", "responses"] = "chat"


class OpenAIConfig(ChatConfig, frozen=True, kw_only=True):
    """A definition of kind `openai`."""

    model: Text


class AzureOpenAIConfig(ChatConfig, frozen=True, kw_only=True):
    """A definition of kind `azure_openai`; an url that names a deployment takes the place of `deployment`."""

    deployment: Text | None = None
    api_version: Text | None = None


C = TypeVar("C", bound=ChatConfig)


class ChatEndpoint(HttpEndpoint[C]):
    """Posts chat completions: model, messages, tools where there are any, and the parameters beside them.

    A request template of the definition takes the place of all that.
    """

    _is_responses = False

    @property
    def is_chat(self) -> bool:
        return self._template is None

    def _operation(self, url: str) -> str:
        """Return the address of the operation that the definition asks for."""
        self._is_responses = self.config.api == "responses" or _path(url).endswith(_RESPONSES)
        return _responses_url(url) if self._is_responses else url

    def beside(self, operation: str) -> ServiceOperation:
        """The operation beside chat completions, such as `/embeddings`: with the same sign-in, limits and retries.

        An address that was given with that operation already is recognised.

        Raises:
            ConfigurationError: a request template says what is sent, and knows chats only.
        """
        if self._template is not None:
            raise ConfigurationError(f"endpoint {self.name!r}: a request template does not go with {operation}")
        url = _sibling_url(self._url, operation)
        body = {**({"model": self._model} if self._model else {}), **self._parameters}
        return ServiceOperation(url, body, self._client, self.config.limits.tokens_per_minute is not None)

    def _body(self, request: ChatRequest, parameters: Mapping[str, JSON]) -> JSON:
        if self._template is not None:
            return self._rendered(request, parameters)
        body: dict[str, JSON] = {"model": self._model} if self._model else {}
        body["messages"] = [dict(message) for message in request.messages]
        if request.tools:
            body["tools"] = [dict(tool) for tool in request.tools]
        body |= parameters
        return responses_body(body) if self._is_responses else body

    def _answer(self, reply: JSON) -> Completion:
        return read_chat(chat_reply(reply))


class OpenAIEndpoint(ChatEndpoint[OpenAIConfig]):
    """Posts to `<url>/chat/completions`; `url` is a base such as `https://api.openai.com/v1`.

    vLLM, llama.cpp and Ollama speak the same.
    """

    kind = "openai"
    config_type = OpenAIConfig
    key_variable: ClassVar[str] = "OPENAI_API_KEY"

    def _address(self, url: str, definition: Definition) -> str:
        self._model = self._text("model", definition)
        path = _path(url)
        known = path.endswith((_OPERATION, _RESPONSES))
        return self._operation(url if known else urlunsplit(urlsplit(url)._replace(path=path + _OPERATION)))


class AzureOpenAIEndpoint(ChatEndpoint[AzureOpenAIConfig]):
    """Azure OpenAI: `url` is the resource, such as `https://name.openai.azure.com`, or a full address from the portal.

    With `api_version` it posts to `/openai/deployments/<deployment>/chat/completions`, without one to the
    versionless `/openai/v1/chat/completions`, where the deployment goes as the model.
    """

    kind = "azure_openai"
    config_type = AzureOpenAIConfig
    key_header: ClassVar[str] = "api-key"
    key_variable: ClassVar[str] = "AZURE_OPENAI_API_KEY"
    scope: ClassVar[str | None] = "https://cognitiveservices.azure.com/.default"

    def _address(self, url: str, definition: Definition) -> str:
        deployment, version = self._text("deployment", definition), self._text("api_version", definition)
        parts = urlsplit(url)
        if parts.path.rstrip("/").endswith(_OPERATION) and "/deployments/" in parts.path:
            if deployment and f"/deployments/{quote(deployment, safe='')}/" not in parts.path:
                raise definition.at("deployment").error("is not the one in the url: leave one of them out")
            address = self._operation(_with_version(url, version, definition))
            self._model = _deployment(url) if self._is_responses else None
            return address
        if deployment is None:
            raise definition.at().error("deployment is missing")
        base = parts.path.rstrip("/").removesuffix(_OPERATION).removesuffix("/v1").removesuffix("/openai")
        if version is None or self.config.api == "responses" or _path(url).endswith(_RESPONSES):
            self._model = deployment
            known = _path(url).endswith(_RESPONSES)
            return self._operation(url if known else urlunsplit(parts._replace(path=f"{base}/openai/v1{_OPERATION}")))
        path = f"{base}/openai/deployments/{quote(deployment, safe='')}{_OPERATION}"
        return _with_version(urlunsplit(parts._replace(path=path)), version, definition)


def _path(url: str) -> str:
    return urlsplit(url).path.rstrip("/")


def _deployment(url: str) -> str | None:
    """The deployment that an address of Azure OpenAI names."""
    found = re.search(r"/deployments/([^/]+)/", urlsplit(url).path)
    return unquote(found[1]) if found else None


def _responses_url(url: str) -> str:
    """Return the address of the Responses API beside chat completions; Azure OpenAI has one for all deployments."""
    parts = urlsplit(url)
    if _path(url).endswith(_RESPONSES):
        return url
    if _deployment(url) is None:
        return urlunsplit(parts._replace(path=_path(url).removesuffix(_OPERATION) + _RESPONSES))
    base = parts.path.partition("/openai/")[0]
    return urlunsplit(parts._replace(path=f"{base}/openai/v1{_RESPONSES}", query=""))


def _sibling_url(url: str, operation: str) -> str:
    parts = urlsplit(url)
    deployment = re.escape(operation) + r"(?=/openai/deployments/[^/]+/chat/completions\Z)"
    given = re.match(r".*/deployments/[^/]+" + deployment, parts.path)
    path = (
        given[0]
        if given
        else parts.path.removesuffix(_OPERATION).removesuffix(_RESPONSES).removesuffix(operation) + operation
    )
    return urlunsplit(parts._replace(path=path))


def _with_version(url: str, version: str | None, definition: Definition) -> str:
    parts = urlsplit(url)
    query = dict(parse_qsl(parts.query))
    if version is not None:
        query["api-version"] = version
    if "api-version" not in query:
        raise definition.at().error("api_version is missing: the url names a deployment, which needs one")
    return urlunsplit(parts._replace(query=urlencode(query)))
