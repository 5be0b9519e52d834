"""Chat completions: OpenAI, every server compatible with it, and Azure OpenAI."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

from tunecheck._errors import ConfigurationError
from tunecheck._json import JSON
from tunecheck.endpoints._answers import Answer, read_chat
from tunecheck.endpoints._base import ChatRequest
from tunecheck.endpoints._client import Client
from tunecheck.endpoints._definition import Definition
from tunecheck.endpoints._http_endpoint import HttpEndpoint
from tunecheck.endpoints._urls import read_url

_OPERATION = "/chat/completions"


@dataclass(frozen=True, slots=True)
class Operation:
    """Another operation of a service that has chat completions: its address, and what every body of it holds."""

    url: str
    body: Mapping[str, JSON]
    client: Client
    counts_tokens: bool
    """Whether calls are to say what they are expected to use, for a limit of tokens."""


class OpenAIEndpoint(HttpEndpoint):
    """Posts to `<url>/chat/completions`; `url` is a base such as `https://api.openai.com/v1`.

    The body is model, messages, tools where there are any, and the parameters beside them, unless the definition has a
    request template of its own. vLLM, llama.cpp and Ollama speak the same.
    """

    kind = "openai"
    key_variable: ClassVar[str] = "OPENAI_API_KEY"
    _model: str | None = None

    def beside(self, operation: str) -> Operation:
        """The operation beside chat completions, such as `/embeddings`: with the same sign-in, limits and retries.

        An address that was given with that operation already is found inside.

        Raises:
            ConfigurationError: a request template says what is sent, and knows chats only.
        """
        if self._template is not None:
            raise ConfigurationError(f"endpoint {self.name!r}: a request template does not go with {operation}")
        url = _beside(self._url, operation)
        body = {**({"model": self._model} if self._model else {}), **self._parameters}
        return Operation(url, body, self._client.at(url), self._counts_tokens)

    def _address(self, definition: Definition) -> str:
        self._model = definition.text("model")
        return _with_operation(read_url(definition, "url"))

    def _body(self, request: ChatRequest, parameters: Mapping[str, JSON]) -> JSON:
        if self._template is not None:
            return self._template.render(request, parameters)
        body: dict[str, JSON] = {"model": self._model} if self._model else {}
        body["messages"] = [dict(message) for message in request.messages]
        if request.tools:
            body["tools"] = [dict(tool) for tool in request.tools]
        return {**body, **parameters}

    def _answer(self, reply: JSON) -> Answer:
        return read_chat(reply)


class AzureOpenAIEndpoint(OpenAIEndpoint):
    """Azure OpenAI: `url` is the resource, such as `https://name.openai.azure.com`, or a full address from the portal.

    With `api_version` it posts to `/openai/deployments/<deployment>/chat/completions`, without one to the
    versionless `/openai/v1/chat/completions`, where the deployment goes as the model.
    """

    kind = "azure_openai"
    key_header: ClassVar[str] = "api-key"
    key_variable: ClassVar[str] = "AZURE_OPENAI_API_KEY"
    scope: ClassVar[str | None] = "https://cognitiveservices.azure.com/.default"

    def _address(self, definition: Definition) -> str:
        url = read_url(definition, "url")
        version = definition.maybe_text("api_version")
        parts = urlsplit(url)
        if parts.path.rstrip("/").endswith(_OPERATION) and "/deployments/" in parts.path:
            deployment = definition.maybe_text("deployment")
            if deployment and f"/deployments/{quote(deployment, safe='')}/" not in parts.path:
                raise definition.error("deployment", "is not the one in the url: leave one of them out")
            return _with_version(url, version, definition)
        deployment = definition.text("deployment")
        base = parts.path.rstrip("/").removesuffix(_OPERATION).removesuffix("/v1").removesuffix("/openai")
        if version is None:
            self._model = deployment
            path = f"{base}/openai/v1{_OPERATION}"
        else:
            path = f"{base}/openai/deployments/{quote(deployment, safe='')}{_OPERATION}"
        address = urlunsplit(parts._replace(path=path))
        return address if version is None else _with_version(address, version, definition)


def _with_operation(url: str) -> str:
    parts = urlsplit(url)
    path = parts.path.rstrip("/")
    return url if path.endswith(_OPERATION) else urlunsplit(parts._replace(path=path + _OPERATION))


def _beside(url: str, operation: str) -> str:
    parts = urlsplit(url)
    deployment = re.escape(operation) + r"(?=/openai/deployments/[^/]+/chat/completions\Z)"
    given = re.match(r".*/deployments/[^/]+" + deployment, parts.path)
    path = given[0] if given else parts.path.removesuffix(_OPERATION).removesuffix(operation) + operation
    return urlunsplit(parts._replace(path=path))


def _with_version(url: str, version: str | None, definition: Definition) -> str:
    parts = urlsplit(url)
    query = dict(parse_qsl(parts.query))
    if version is not None:
        query["api-version"] = version
    if "api-version" not in query:
        raise definition.error(None, "api_version is missing: the url names a deployment, which needs one")
    return urlunsplit(parts._replace(query=urlencode(query)))
