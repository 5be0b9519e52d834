"""The model that a judge uses: an endpoint, its definition, or a model configuration of Azure AI Evaluation."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from tunecheck._describe import Written, read_as
from tunecheck._errors import ConfigurationError
from tunecheck._json import JSON
from tunecheck.endpoints._base import Endpoint
from tunecheck.endpoints._definition import load_endpoint, read_definition
from tunecheck.endpoints._masking import ENV_REFERENCE, Secret, looks_secret
from tunecheck.prompts._front_matter import Name
from tunecheck.prompts._prompt import AZURE, OPENAI, OPENAI_URL, definition_of

if TYPE_CHECKING:
    from tunecheck.endpoints._http_endpoint import GivenSecrets
    from tunecheck.prompts._prompt import Prompt

ModelConfig: TypeAlias = Endpoint | Mapping[str, object] | str | os.PathLike[str]
"""An endpoint; the mapping, file or name of its definition; Azure's `AzureOpenAIModelConfiguration` or
`OpenAIModelConfiguration`."""


class _Configuration(Written, frozen=True, kw_only=True):
    """The common keys of Azure AI Evaluation's two model configurations."""

    api_key: str | None = None
    extra_headers: dict[Name, Name] | None = None


class _AzureConfiguration(_Configuration, frozen=True, kw_only=True):
    type: Literal["azure_openai"] = "azure_openai"
    azure_endpoint: Name
    azure_deployment: Name
    api_version: str | None = None
    credential: Any = None


class _OpenAIConfiguration(_Configuration, frozen=True, kw_only=True):
    type: Literal["openai"] = "openai"
    model: Name
    base_url: str | None = None
    organization: str | None = None


_API_VERSION = "2024-02-15-preview"
"""The version that Azure AI Evaluation uses if a configuration names none."""

_AZURE_KEYS = {"azure_endpoint", "azure_deployment"}
_MODEL_KEYS = ("model", "deployment")


def judge_endpoint(model: ModelConfig | None, prompt: Prompt | None = None) -> Endpoint:
    """Return the endpoint that a judge asks: the given one, else the one in the prompt's own configuration.

    A model configuration is not changed.

    Raises:
        ConfigurationError: no model is given, or its configuration is invalid.
    """
    if isinstance(model, Endpoint):
        return model
    if isinstance(model, Mapping):
        return _endpoint_of_mapping(model)
    if isinstance(model, (str, os.PathLike)):
        return load_endpoint(os.fspath(model))
    if model is not None:
        raise ConfigurationError(
            f"model_config must be an endpoint, its definition or a model configuration, not a {type(model).__name__}"
        )
    own = None if prompt is None else prompt.model_definition()
    if own is None:
        raise ConfigurationError(
            "a judge needs a model: name one with --judge ENDPOINT (in Python model_config=…), "
            "or in model.configuration of the judge's prompt"
        )
    return load_endpoint(own, name=model_name_in(own))


def model_name(endpoint: Endpoint) -> str:
    """Return the model or deployment that the endpoint's settings name, else the endpoint's name."""
    return model_name_in(endpoint.settings()) or endpoint.name


def model_name_in(settings: Mapping[str, JSON]) -> str | None:
    """Return the model or deployment that the settings name, or None."""
    return next((value for key in _MODEL_KEYS if isinstance(value := settings.get(key), str) and value), None)


# -- model configurations of Azure AI Evaluation


def _endpoint_of_mapping(config: Mapping[str, object]) -> Endpoint:
    """Make an endpoint from its definition, or from one of Azure AI Evaluation's two model configurations.

    Raises:
        ConfigurationError: the mapping is neither; the message names the key.
    """
    from tunecheck.endpoints._chat import AzureOpenAIEndpoint, OpenAIEndpoint

    if "kind" in config:
        return load_endpoint(config)
    azure = config.get("type") == AZURE or ("type" not in config and _AZURE_KEYS & config.keys())
    if azure:
        read = read_as({**config}, _AzureConfiguration, "model_config")
        name = read.azure_deployment.strip()
        key, plain, secrets = _identification(read.api_key, read.extra_headers or {})
        definition = definition_of(
            AZURE,
            read.azure_endpoint.strip(),
            name,
            api_version=read.api_version or _API_VERSION,
            key=key,
            entra=key is None and secrets.key is None,
            headers=plain,
        )
        # The credential is checked at the first request for a token.
        return AzureOpenAIEndpoint(read_definition(definition, name=name), credential=read.credential, secrets=secrets)
    given = read_as({**config}, _OpenAIConfiguration, "model_config")
    name = given.model.strip()
    organization = {"OpenAI-Organization": given.organization} if given.organization else {}
    key, plain, secrets = _identification(given.api_key, organization | (given.extra_headers or {}))
    definition = definition_of(OPENAI, given.base_url or OPENAI_URL, name, key=key, headers=plain)
    return OpenAIEndpoint(read_definition(definition, name=name), secrets=secrets)


def _identification(key: str | None, headers: Mapping[str, str]) -> tuple[str | None, dict[str, str], GivenSecrets]:
    """Divide key and headers of a model configuration into what may be shown and what is secret.

    Returns the key for the definition (None if it is secret or absent), the headers for the definition, and the
    secrets, which are only sent. References to environment variables are no secrets.
    """
    from tunecheck.endpoints._http_endpoint import GivenSecrets

    hidden = {
        name: _secret(value)
        for name, value in headers.items()
        if looks_secret(name, value) and not ENV_REFERENCE.search(value)
    }
    plain = {name: value for name, value in headers.items() if name not in hidden}
    key = key.strip() if key else None
    if not key or ENV_REFERENCE.fullmatch(key):
        return key or None, plain, GivenSecrets(None, hidden)
    return None, plain, GivenSecrets(_secret(key), hidden)


def _secret(text: str) -> Secret:
    if not text.isascii() or not text.isprintable():
        raise ConfigurationError("model_config: api_key or a secret header has characters that a header cannot contain")
    return Secret(text)
