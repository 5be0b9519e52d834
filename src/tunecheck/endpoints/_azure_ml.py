"""Azure Machine Learning online endpoints, and any scoring server that takes JSON and gives JSON."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import ClassVar

from tunecheck._json import JSON, loads
from tunecheck._paths import Missing, ValuePath, find, parse_path
from tunecheck.endpoints._answers import Answer, UnreadableReplyError, read_answer
from tunecheck.endpoints._auth import TokenCredential
from tunecheck.endpoints._base import ChatRequest
from tunecheck.endpoints._definition import Definition
from tunecheck.endpoints._http_endpoint import HttpEndpoint
from tunecheck.endpoints._limits import Clock
from tunecheck.endpoints._urls import read_url


class AzureMLEndpoint(HttpEndpoint):
    """Posts the request template's body to `url` and takes the answer from the reply's `response` path.

    Without a template the body is `{"input_data": <messages>, "params": <parameters>}`; without a path the whole reply
    is the answer. A scoring script that returns JSON as text is understood: where the path needs an object and the
    reply is a text, the text is read as JSON first.
    """

    kind = "azure_ml"
    auth_types: ClassVar[tuple[str, ...]] = ("key", "aml_token", "entra", "none")
    scope: ClassVar[str | None] = "https://ml.azure.com/.default"
    text_answers: ClassVar[bool] = True
    default_request: ClassVar[JSON] = {"input_data": "${messages}", "params": "${parameters}"}

    def __init__(
        self,
        definition: Definition,
        *,
        credential: TokenCredential | None = None,
        clock: Clock | None = None,
        rng: random.Random | None = None,
    ) -> None:
        super().__init__(definition, credential=credential, clock=clock, rng=rng)
        self._path_text = definition.maybe_text("response") or ""
        self._path = _answer_path(definition, self._path_text)

    def _address(self, definition: Definition) -> str:
        return read_url(definition, "url")

    def _body(self, request: ChatRequest, parameters: Mapping[str, JSON]) -> JSON:
        assert self._template is not None
        return self._template.render(request, parameters)

    def _answer(self, reply: JSON) -> Answer:
        if self._path and isinstance(reply, str):
            reply = _inner(reply)
        found = find(reply, self._path)
        if isinstance(found, Missing):
            has = f" (it has: {', '.join(list(reply)[:8])})" if isinstance(reply, dict) and reply else ""
            raise UnreadableReplyError(f"the reply has nothing at {self._path_text!r}{has}")
        return read_answer(found)


def _answer_path(definition: Definition, text: str) -> ValuePath:
    try:
        return parse_path(text)
    except ValueError as error:
        raise definition.error("response", f"{error}; write a path such as result or choices[0].message") from None


def _inner(text: str) -> JSON:
    try:
        return loads(text)
    except ValueError:
        return text
