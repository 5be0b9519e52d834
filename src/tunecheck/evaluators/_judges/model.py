"""The model that a judge asks: an endpoint, its definition, or a model configuration of Azure AI Evaluation."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from tunecheck._errors import ConfigurationError
from tunecheck._json import JSON
from tunecheck._messages import did_you_mean
from tunecheck.endpoints._base import Endpoint
from tunecheck.endpoints._definition import load_endpoint, read_definition
from tunecheck.endpoints._masking import ENV_REFERENCE, Secret, looks_secret
from tunecheck.prompts._model_config import AZURE, OPENAI, OPENAI_URL, definition_of

if TYPE_CHECKING:
    from tunecheck.endpoints._http_endpoint import GivenSecrets
    from tunecheck.prompts._prompt import Prompt

ModelConfig: TypeAlias = Endpoint | Mapping[str, object] | str | os.PathLike[str]
"""An endpoint; the mapping, file or name of its definition; Azure's `AzureOpenAIModelConfiguration` or
`OpenAIModelConfiguration`."""

_KEYS = {
    AZURE: ("type", "azure_endpoint", "azure_deployment", "api_key", "api_version", "credential", "extra_headers"),
    OPENAI: ("type", "model", "api_key", "base_url", "organization", "extra_headers"),
}
_API_VERSION = "2024-02-15-preview"
"""Which version Azure AI Evaluation takes where a configuration names none."""

_MODEL_KEYS = ("model", "deployment")


def judge_endpoint(model: ModelConfig | None, prompt: Prompt | None = None) -> Endpoint:
    """The endpoint to ask: the given one, else the prompt's own.

    A model configuration is read, never changed.

    Raises:
        ConfigurationError: there is neither, or it is wrong.
    """
    if isinstance(model, Endpoint):
        return model
    if isinstance(model, Mapping):
        return _of_mapping(model)
    if isinstance(model, (str, os.PathLike)):
        return load_endpoint(os.fspath(model))
    if model is not None:
        raise ConfigurationError(
            f"model_config must be an endpoint, its definition or a model configuration, not a {type(model).__name__}"
        )
    own = None if prompt is None else prompt.model_definition()
    if own is None:
        raise ConfigurationError(
            "it asks a model, and none is given: name one with --judge ENDPOINT (in Python model_config=…), "
            "or in its prompt's own model.configuration"
        )
    return load_endpoint(own, name=model_name_in(own))


def model_name(endpoint: Endpoint) -> str:
    """What the model is called: as the settings name it, else the endpoint's name."""
    return model_name_in(endpoint.settings()) or endpoint.name


def model_name_in(settings: Mapping[str, JSON]) -> str | None:
    """The model or deployment that settings name."""
    return next((value for key in _MODEL_KEYS if isinstance(value := settings.get(key), str) and value), None)


# -- model configurations of Azure AI Evaluation


def _of_mapping(config: Mapping[str, object]) -> Endpoint:
    if "kind" in config:
        return load_endpoint(config)
    kind = _kind(config)
    for unknown in config.keys() - set(_KEYS[kind]):
        raise ConfigurationError(f"model_config: unknown key {unknown!r}{did_you_mean(str(unknown), _KEYS[kind])}")
    key, plain, secrets = _identification(config)
    if kind == AZURE:
        name, url = _required_text(config, "azure_deployment"), _required_text(config, "azure_endpoint")
        version = _text(config, "api_version") or _API_VERSION
        entra = key is None and secrets.key is None
        definition = definition_of(kind, url, name, api_version=version, key=key, entra=entra, headers=plain)
    else:
        name = _required_text(config, "model")
        definition = definition_of(kind, _text(config, "base_url") or OPENAI_URL, name, key=key, headers=plain)
    read = read_definition(definition, name=name)
    from tunecheck.endpoints._chat import AzureOpenAIEndpoint, OpenAIEndpoint

    if kind == AZURE:
        # The credential is checked when it is asked for a token.
        credential: Any = config.get("credential")
        return AzureOpenAIEndpoint(read, credential=credential, secrets=secrets)
    return OpenAIEndpoint(read, secrets=secrets)


def _kind(config: Mapping[str, object]) -> str:
    given = config.get("type")
    if given is None:
        given = AZURE if "azure_endpoint" in config or "azure_deployment" in config else OPENAI
    if given not in _KEYS:
        raise ConfigurationError(f"model_config: type is not {given!r}{did_you_mean(str(given), _KEYS)}")
    return str(given)


def _identification(config: Mapping[str, object]) -> tuple[str | None, dict[str, str], GivenSecrets]:
    """The key and the headers that may stand in a definition, and what is sent without being shown anywhere."""
    from tunecheck.endpoints._http_endpoint import GivenSecrets

    headers, key = _headers(config), _text(config, "api_key")
    hidden = {
        name: _secret(value)
        for name, value in headers.items()
        if looks_secret(name, value) and not ENV_REFERENCE.search(value)
    }
    plain = {name: value for name, value in headers.items() if name not in hidden}
    if key is None or ENV_REFERENCE.fullmatch(key):
        return key, plain, GivenSecrets(None, hidden)
    return None, plain, GivenSecrets(_secret(key), hidden)


def _headers(config: Mapping[str, object]) -> dict[str, str]:
    given = config.get("extra_headers") or {}
    if not isinstance(given, Mapping) or not all(
        isinstance(text, str) and text for item in given.items() for text in item
    ):
        raise ConfigurationError("model_config: extra_headers must be a mapping of names to texts")
    organization = _text(config, "organization")
    return {**({"OpenAI-Organization": organization} if organization else {}), **given}


def _secret(text: str) -> Secret:
    if not text.isascii() or not text.isprintable():
        raise ConfigurationError("model_config: a key or header holds characters that a header cannot carry")
    return Secret(text)


def _required_text(config: Mapping[str, object], key: str) -> str:
    value = _text(config, key)
    if value is None:
        raise ConfigurationError(f"model_config: {key} is missing")
    return value


def _text(config: Mapping[str, object], key: str) -> str | None:
    value = config.get(key)
    if value is not None and not isinstance(value, str):
        # Its type only: it may be a key.
        raise ConfigurationError(f"model_config: {key} must be a text, not a {type(value).__name__}")
    return value.strip() or None if value is not None else None
