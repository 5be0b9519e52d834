"""Azure Machine Learning online endpoints, and any scoring server that accepts and returns JSON."""

import contextlib
from collections.abc import Mapping
from typing import ClassVar

from tunecheck._json import JSON, Missing, find_value, parse_path
from tunecheck.endpoints._answers import UnreadableReplyError, keys_of, read_answer, read_chat, read_json, says_error
from tunecheck.endpoints._auth import AuthConfig, AuthType
from tunecheck.endpoints._base import ChatRequest, Completion, Definition, Text
from tunecheck.endpoints._http_endpoint import HttpConfig, HttpEndpoint


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
            problem = f"{error}; write a path such as result or choices[0].message"
            raise definition.at("response").error(problem) from None
        if self.config.stream and not (isinstance(self.config.request, dict) and "messages" in self.config.request):
            problem = "only chat completions can be streamed: write request: {messages: ${messages}, …}"
            raise definition.at("stream").error(problem)
        return url

    def _body(self, request: ChatRequest, parameters: Mapping[str, JSON]) -> JSON:
        return self._render(request, parameters)

    def _answer(self, reply: JSON) -> Completion:
        """Return the answer at the path `response` of a reply, or in the whole reply without a path.

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
            problem = f"the reply has no value at {self.config.response!r}, the path given as response{keys_of(reply)}"
            # A broken text or an error may be gone at the next attempt; a wrong path stays wrong.
            broken = isinstance(reply, str) and reply.lstrip().startswith("{")
            raise UnreadableReplyError(problem, lasting=not (broken or says_error(reply)))
        if not self._path and says_error(reply):
            raise UnreadableReplyError(f"the reply is an error{keys_of(reply)}")
        if [*map(str, self._path)] == ["choices", "0", "message"] and isinstance(value, dict):
            return read_chat(reply)  # the finish reason stands beside the message
        return read_answer(value)
