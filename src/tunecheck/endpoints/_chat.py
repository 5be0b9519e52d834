"""The endpoint kinds over HTTP: chat completions and the Responses API of OpenAI and Azure OpenAI, and Azure ML.

The address that a definition's `url` becomes (`_address` of each kind):

    openai         https://host/v1                     https://host/v1/chat/completions
    azure_openai   https://name.openai.azure.com       …/openai/v1/chat/completions, the deployment is the model
                   the same, with `api_version`        …/openai/deployments/<deployment>/chat/completions?api-version=…
                   an address of a deployment          the same, with `api_version` if it is set
    azure_ml       any address                         unchanged

With `api: responses`, or a `url` that ends in `/responses`, OpenAI's kinds post to `/responses` instead. Requests and
replies are converted from and to chat completions at the end of this module.
"""

import contextlib
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar, Literal, TypeVar
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit, urlunsplit

import msgspec

from tunecheck._errors import ConfigurationError
from tunecheck._json import JSON, Missing, find_value, object_or_empty, parse_path
from tunecheck.endpoints._answers import UnreadableReplyError, keys_of, read_answer, read_chat, read_json, says_error
from tunecheck.endpoints._api_facts import FORMAT, LIMITS
from tunecheck.endpoints._auth import AuthConfig, AuthType
from tunecheck.endpoints._base import ChatRequest, Completion, Definition, Text
from tunecheck.endpoints._client import Client
from tunecheck.endpoints._http_endpoint import HttpConfig, HttpEndpoint

# Paths of the two APIs.
_OPERATION = "/chat/completions"
_RESPONSES = "/responses"


class ServiceOperation(msgspec.Struct, frozen=True):
    """Another operation of a service with chat completions, such as embeddings.

    `body` is the common part of all requests.
    """

    url: str
    body: Mapping[str, JSON]
    client: Client


class ChatConfig(HttpConfig, frozen=True, kw_only=True):
    """Keys of both kinds. `api: responses`, or a `url` that ends in `/responses`, uses the Responses API."""

    api: Literal["chat", "responses"] = "chat"


class OpenAIConfig(ChatConfig, frozen=True, kw_only=True):
    """A definition of kind `openai`."""

    model: Text


class AzureOpenAIConfig(ChatConfig, frozen=True, kw_only=True):
    """A definition of kind `azure_openai`. `deployment` may be omitted if the url contains the deployment."""

    deployment: Text | None = None
    api_version: Text | None = None


C = TypeVar("C", bound=ChatConfig)


class ChatEndpoint(HttpEndpoint[C]):
    """Posts chat completions: model, messages, tools if there are any, and parameters.

    A request template in the definition replaces this body.
    """

    _is_responses = False

    @property
    def is_chat(self) -> bool:
        return self._template is None

    def _operation(self, url: str) -> str:
        """Return the address of the API that the definition asks for, and note in `_is_responses` which one it is."""
        self._is_responses = self.config.api == "responses" or _path(url).endswith(_RESPONSES)
        return _responses_url(url) if self._is_responses else url

    def beside(self, operation: str) -> ServiceOperation:
        """Return another operation of the service, such as `/embeddings`, with the same sign-in, limits and retries.

        The definition's url may already end with that operation.

        Raises:
            ConfigurationError: the definition has a request template, which only works for chats.
        """
        if self._template is not None:
            raise ConfigurationError(f"`request` of endpoint {self.name!r} is for chats, not {operation}: leave it out")

        url = _sibling_url(self._url, operation)
        body = {**({"model": self._model} if self._model else {}), **self._parameters}
        return ServiceOperation(url, body, self._client)

    def _body(self, request: ChatRequest, parameters: Mapping[str, JSON]) -> JSON:
        """Return the filled template, else the chat completion, converted for the Responses API if that is used."""
        if self._template is not None:
            return self._render(request, parameters)

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

    vLLM, llama.cpp and Ollama have the same API.
    """

    kind = "openai"
    config_type = OpenAIConfig
    key_variable: ClassVar[str] = "OPENAI_API_KEY"

    def _address(self, url: str, definition: Definition) -> str:
        """Note the model, if the definition names one. Return the address: a base url gets the API's path added."""
        self._model = self._text("model", definition)

        path = _path(url)
        is_complete = path.endswith((_OPERATION, _RESPONSES))
        return self._operation(url if is_complete else urlunsplit(urlsplit(url)._replace(path=path + _OPERATION)))


class AzureOpenAIEndpoint(ChatEndpoint[AzureOpenAIConfig]):
    """Azure OpenAI: `url` is the resource, such as `https://name.openai.azure.com`, or a full address from the portal.

    With `api_version` it posts to `/openai/deployments/<deployment>/chat/completions`. Without it, it posts to
    `/openai/v1/chat/completions` with the deployment as the model.
    """

    kind = "azure_openai"
    config_type = AzureOpenAIConfig
    key_header: ClassVar[str] = "api-key"
    key_variable: ClassVar[str] = "AZURE_OPENAI_API_KEY"
    scope: ClassVar[str | None] = "https://cognitiveservices.azure.com/.default"

    def _address(self, url: str, definition: Definition) -> str:
        """Return the address to post to, for the url of a resource, a deployment or the Responses API.

        Without a deployment in the address, requests name the deployment as their model (`_model`).

        Raises:
            ConfigurationError: the deployment or the API version is missing, or two deployments are named.
        """
        deployment, version = self._text("deployment", definition), self._text("api_version", definition)

        parts = urlsplit(url)

        # The address of a deployment's operation, as the portal shows it.
        if (named := _deployment(url)) is not None:
            if deployment not in (None, named):
                raise definition.at("deployment").error("the url names another deployment: leave out `deployment`")

            # `_operation` sets `_is_responses`, which the next line reads.
            address = self._operation(_with_version(url, version, definition))
            self._model = named if self._is_responses else None
            return address

        if deployment is None:
            raise definition.at().error("the key `deployment` is missing: write the deployment's name")

        base = parts.path.rstrip("/").removesuffix(_OPERATION).removesuffix("/v1").removesuffix("/openai")

        # The API without versions takes the deployment as the model. Only it has the Responses API.
        if version is None or self.config.api == "responses" or _path(url).endswith(_RESPONSES):
            self._model = deployment
            path = parts.path if _path(url).endswith(_RESPONSES) else f"{base}/openai/v1{_OPERATION}"
            return self._operation(urlunsplit(parts._replace(path=path)))

        path = f"{base}/openai/deployments/{quote(deployment, safe='')}{_OPERATION}"
        return _with_version(urlunsplit(parts._replace(path=path)), version, definition)


def _path(url: str) -> str:
    return urlsplit(url).path.rstrip("/")


def _deployment(url: str) -> str | None:
    """Return the deployment in an address of an operation of Azure OpenAI, or None.

    It is `gpt-4o` in `https://name.openai.azure.com/openai/deployments/gpt-4o/chat/completions`.
    """
    match = re.search(r"/deployments/([^/]+)/[^/]", urlsplit(url).path)
    return unquote(match[1]) if match else None


def _responses_url(url: str) -> str:
    """Return the Responses API's address next to `url`; Azure OpenAI has one for all deployments."""
    if _path(url).endswith(_RESPONSES):
        return url

    if _deployment(url) is None:
        return _sibling_url(url, _RESPONSES)

    parts = urlsplit(url)
    base = parts.path.partition("/openai/")[0]
    return urlunsplit(parts._replace(path=f"{base}/openai/v1{_RESPONSES}", query=""))


def _sibling_url(url: str, operation: str) -> str:
    """Return `url` with its operation, such as `/chat/completions`, replaced by another operation."""
    path = _path(url).removesuffix(_OPERATION).removesuffix(_RESPONSES).removesuffix(operation) + operation
    return urlunsplit(urlsplit(url)._replace(path=path))


def _with_version(url: str, version: str | None, definition: Definition) -> str:
    """Return the url with `version` as its api-version; without a version, return it unchanged.

    Raises:
        ConfigurationError: neither the definition nor the url has an api-version.
    """
    parts = urlsplit(url)
    query = dict(parse_qsl(parts.query))
    if version is not None:
        query["api-version"] = version

    if "api-version" not in query:
        raise definition.at().error("the key `api_version` is missing: write a version, such as 2024-10-21")

    return urlunsplit(parts._replace(query=urlencode(query)))


# -- Azure Machine Learning online endpoints, and any scoring server that accepts and returns JSON


class AzureMLAuthConfig(AuthConfig, frozen=True):
    """The `auth:` section, with the additional type `aml_token`, which is sent like a key."""

    type: AuthType | None = None  # type: ignore[assignment]  # one type more


class AzureMLConfig(HttpConfig, frozen=True, kw_only=True):
    """A definition of kind `azure_ml`. `response` is the path of the answer in a reply."""

    auth: AzureMLAuthConfig = AzureMLAuthConfig()
    response: Text | None = None


class AzureMLEndpoint(HttpEndpoint[AzureMLConfig]):
    """Posts the request template's body to `url` and takes the answer from the reply's `response` path.

    Without a template the body is `{"input_data": <messages>, "params": <parameters>}`. Without a path the whole reply
    is the answer. If there is a path and the reply is a text, the text is read as JSON first, because some scoring
    scripts return JSON as text.
    """

    kind = "azure_ml"
    config_type = AzureMLConfig
    scope: ClassVar[str | None] = "https://ml.azure.com/.default"
    text_answers: ClassVar[bool] = True
    default_request: ClassVar[JSON] = {"input_data": "${messages}", "params": "${parameters}"}

    def _address(self, url: str, definition: Definition) -> str:
        """Return the url unchanged, after reading the path `response` into `_path`.

        Raises:
            ConfigurationError: the path is invalid, or `stream` is set and the request has no messages.
        """
        try:
            self._path = parse_path(self.config.response or "")
        except ValueError as error:
            raise definition.at("response").error(str(error)) from None

        if self.config.stream and not (isinstance(self.config.request, dict) and "messages" in self.config.request):
            problem = "only chats can be streamed: leave out `stream`, or write `request: {messages: ${messages}, …}`"
            raise definition.at("stream").error(problem)
        return url

    def _body(self, request: ChatRequest, parameters: Mapping[str, JSON]) -> JSON:
        return self._render(request, parameters)

    def _answer(self, reply: JSON) -> Completion:
        """Return the answer at the path `response` of a reply, or in the whole reply without a path.

        If the reply is a text with JSON in it, the path leads into that JSON.

        Raises:
            UnreadableReplyError: there is nothing at the path, the reply is an error, or it is an invalid chat
                completion.
            FilteredError: the content filter stopped the answer.
        """
        if self._path and isinstance(reply, str):
            with contextlib.suppress(ValueError):
                reply = read_json(reply.encode())

        value = find_value(reply, self._path)
        if isinstance(value, Missing):
            problem = f"the reply has no value at {self.config.response!r}, the path in `response`{keys_of(reply)}"

            # A broken text or an error may be gone at the next attempt; a wrong path stays wrong.
            broken = isinstance(reply, str) and reply.lstrip().startswith("{")
            raise UnreadableReplyError(problem, lasting=not (broken or says_error(reply)))

        if not self._path and says_error(reply):
            raise UnreadableReplyError(f"the reply is an error, not an answer{keys_of(reply)}: see the server's log")

        if [*map(str, self._path)] == ["choices", "0", "message"] and isinstance(value, dict):
            return read_chat(reply)  # the finish reason is in the choice, next to the message
        return read_answer(value)


# -- conversion between chat completions and the Responses API

_PARTS: Mapping[str, str] = {"text": "text", "image_url": "image", "input_audio": "audio", "file": "file"}
"""Types of a chat message's parts, with the ends of their names in the Responses API: `input_text`, `output_text`."""


def responses_body(chat: Mapping[str, JSON]) -> dict[str, JSON]:
    """Convert the body of a chat completion to the Responses API. `store: false` asks the service to keep nothing.

        messages                            input: a message may become several items (`_items`)
        tools, functions                    tools, with the function's keys at the top level
        tool_choice                         the same, with the function's name at the top level
        max_tokens, max_completion_tokens   max_output_tokens
        response_format                     text.format
        reasoning_effort                    reasoning.effort

    Other parameters stay.
    """
    body: dict[str, JSON] = {"store": False}
    for name, value in chat.items():
        if name == "messages" and isinstance(value, list):
            body["input"] = [item for message in value if isinstance(message, dict) for item in _items(message)]
        elif name in ("tools", "functions") and isinstance(value, list):
            body["tools"] = [_flat_tool(tool, {"strict": False}) for tool in value]
        elif name == "tool_choice":
            body[name] = _flat_tool(value, {})
        elif name in LIMITS:
            body["max_output_tokens"] = value
        elif name == FORMAT and isinstance(value, dict):
            body["text"] = {"format": {**object_or_empty(value.get("json_schema")), "type": value.get("type")}}
        elif name == "reasoning_effort":
            body["reasoning"] = {"effort": value}
        else:
            body[name] = value

    return body


def _flat_tool(tool: JSON, defaults: Mapping[str, JSON]) -> JSON:
    """Return a tool with the keys of its function at the top level, and `defaults` for keys that it does not have.

    Any value without a function is returned unchanged.
    """
    function = tool.get("function") if isinstance(tool, dict) else None
    return {"type": "function", **defaults, **function} if isinstance(function, dict) else tool


def _items(message: Mapping[str, JSON]) -> Iterator[JSON]:
    """Yield a chat message as items of the Responses API: reasoning, content and calls, or the result of a call.

    A message with a text and two calls becomes three items: the message and two of type `function_call`.
    """
    role, content, calls = message.get("role"), message.get("content"), message.get("tool_calls")
    if role == "tool":
        result = _content(content, "input")
        yield {"type": "function_call_output", "call_id": message.get("tool_call_id"), "output": result}
        return

    thoughts = message.get("reasoning_details")
    for thought in thoughts if isinstance(thoughts, list) else ():
        # The service rejects reasoning items without encrypted content.
        if isinstance(thought, dict) and thought.get("encrypted_content"):
            yield thought

    # A message with calls and without content gets no item for the content.
    if content not in (None, "", []) or not calls:
        yield {"role": role, "content": _content(content, "output" if role == "assistant" else "input")}

    for call in calls if isinstance(calls, list) else ():
        function = call.get("function") if isinstance(call, dict) else None
        if isinstance(call, dict) and isinstance(function, dict):
            name, arguments = function.get("name"), function.get("arguments")
            yield {"type": "function_call", "call_id": call.get("id"), "name": name, "arguments": arguments}


def _content(content: JSON, side: str) -> JSON:
    """Convert a chat message's content to the Responses API; null becomes "". `side` is "input" or "output"."""
    return [_part(part, side) for part in content] if isinstance(content, list) else content or ""


def _part(part: JSON, side: str) -> JSON:
    """Convert a part of a chat message to the Responses API; `side` is "input" or "output". Other parts stay."""
    kind = part.get("type") if isinstance(part, dict) else None
    if not isinstance(part, dict) or not isinstance(kind, str) or kind not in _PARTS:
        return part

    value = part.get(kind)
    converted = {key: content for key, content in part.items() if key != "file"}

    # Chat completions put the address into an object, the Responses API into the part itself.
    if kind == "image_url" and isinstance(value, dict):
        converted["image_url"] = value.get("url")
    if kind == "file" and isinstance(value, dict):
        converted |= value

    return {**converted, "type": f"{side}_{_PARTS[kind]}"}


def chat_reply(reply: JSON) -> JSON:
    """Convert a reply of the Responses API to a chat completion; a failed reply becomes a choice with an error.

    Any other reply is returned unchanged.
    """
    output = reply.get("output") if isinstance(reply, dict) and "choices" not in reply else None
    if not isinstance(reply, dict) or not isinstance(output, list):
        return reply

    items = [item for item in output if isinstance(item, dict)]
    calls: list[JSON] = [_call(item) for item in items if item.get("type") == "function_call"]

    contents = [item.get("content") for item in items if item.get("type") == "message"]
    content: JSON = [part for parts in contents if isinstance(parts, list) for part in parts]
    thoughts: JSON = [item for item in items if item.get("type") == "reasoning"]

    message: dict[str, JSON] = {"role": "assistant", "content": content or None, "reasoning_details": thoughts}
    if calls:
        message["tool_calls"] = calls

    choice: JSON = {"message": message, "finish_reason": _finish_reason(reply, calls)}
    failed: JSON = {"error": reply.get("error") or "it failed", "message": None}

    return {**reply, "choices": [failed if reply.get("status") == "failed" else choice]}


def _finish_reason(reply: Mapping[str, JSON], calls: Sequence[JSON]) -> str:
    """Return the finish reason of a chat completion for a reply of the Responses API."""
    reason = object_or_empty(reply.get("incomplete_details")).get("reason")

    if reply.get("status") == "incomplete":
        return "content_filter" if reason == "content_filter" else "length"
    return "tool_calls" if calls else "stop"


def _call(item: Mapping[str, JSON]) -> JSON:
    """Convert a call of the Responses API to a tool call of chat completions."""
    function: JSON = {"name": item.get("name"), "arguments": item.get("arguments")}
    return {"id": item.get("call_id"), "type": "function", "function": function}
