"""The model that a judge asks: an endpoint, its definition, or a model configuration of Azure AI Evaluation."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from tunecheck._errors import ConfigurationError
from tunecheck._json import JSON
from tunecheck._messages import did_you_mean
from tunecheck.endpoints._base import Endpoint, Price
from tunecheck.endpoints._definition import load_endpoint, read_definition
from tunecheck.endpoints._masking import ENV_REFERENCE, Secret, looks_secret

if TYPE_CHECKING:
    from tunecheck.endpoints._http_endpoint import GivenSecrets
    from tunecheck.prompts._prompt import Prompt

ModelConfig: TypeAlias = Endpoint | Mapping[str, object] | str | os.PathLike[str]
"""An endpoint; the mapping, file or name of its definition; Azure's `AzureOpenAIModelConfiguration` or
`OpenAIModelConfiguration`."""

_AZURE = "azure_openai"
_OPENAI = "openai"
_KEYS = {
    _AZURE: ("type", "azure_endpoint", "azure_deployment", "api_key", "api_version", "credential", "extra_headers"),
    _OPENAI: ("type", "model", "api_key", "base_url", "organization", "extra_headers"),
}
_API_VERSION = "2024-02-15-preview"
"""Which version Azure AI Evaluation takes where a configuration names none."""

_OPENAI_URL = "https://api.openai.com/v1"
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
    sort = _sort(config)
    for key in config:
        if key not in _KEYS[sort]:
            raise ConfigurationError(f"model_config: unknown key {key!r}{did_you_mean(str(key), _KEYS[sort])}")
    return _azure(config) if sort == _AZURE else _openai(config)


def _sort(config: Mapping[str, object]) -> str:
    given = config.get("type")
    if given is None:
        given = _AZURE if "azure_endpoint" in config or "azure_deployment" in config else _OPENAI
    if given not in _KEYS:
        raise ConfigurationError(f"model_config: type is not {given!r}{did_you_mean(str(given), _KEYS)}")
    return str(given)


def _azure(config: Mapping[str, object]) -> Endpoint:
    from tunecheck.endpoints._chat import AzureOpenAIEndpoint

    definition: dict[str, object] = {
        "kind": _AZURE,
        "url": _text(config, "azure_endpoint"),
        "deployment": _text(config, "azure_deployment"),
        "api_version": _maybe_text(config, "api_version") or _API_VERSION,
    }
    key, credential = _maybe_text(config, "api_key"), config.get("credential")
    if key is None:
        definition["auth"] = {"type": "entra"}
    secrets = _identification(definition, key, config)
    read = read_definition(definition, name=_text(config, "azure_deployment"))
    endpoint = AzureOpenAIEndpoint(
        read,
        credential=credential,  # type: ignore[arg-type]  # checked when it is asked
        secrets=secrets,
    )
    return endpoint


def _openai(config: Mapping[str, object]) -> Endpoint:
    from tunecheck.endpoints._chat import OpenAIEndpoint

    definition: dict[str, object] = {
        "kind": _OPENAI,
        "url": _maybe_text(config, "base_url") or _OPENAI_URL,
        "model": _text(config, "model"),
    }
    secrets = _identification(definition, _maybe_text(config, "api_key"), config)
    read = read_definition(definition, name=_text(config, "model"))
    endpoint = OpenAIEndpoint(read, secrets=secrets)
    return endpoint


def _identification(definition: dict[str, object], key: str | None, config: Mapping[str, object]) -> GivenSecrets:
    """Put into the definition what may stand in one; what remains is sent without being shown anywhere."""
    from tunecheck.endpoints._http_endpoint import GivenSecrets

    plain: dict[str, object] = {}
    hidden: dict[str, Secret] = {}
    for name, value in _headers(config).items():
        if looks_secret(name, value) and not ENV_REFERENCE.search(value):
            hidden[name] = _secret(value)
        else:
            plain[name] = value
    if plain:
        definition["headers"] = plain
    if key is None:
        return GivenSecrets(None, hidden)
    if ENV_REFERENCE.fullmatch(key):
        definition["auth"] = {"type": "key", "value": key}
        return GivenSecrets(None, hidden)
    return GivenSecrets(_secret(key), hidden)


def _headers(config: Mapping[str, object]) -> dict[str, str]:
    given = config.get("extra_headers") or {}
    if not isinstance(given, Mapping) or not all(
        isinstance(text, str) and text for item in given.items() for text in item
    ):
        raise ConfigurationError("model_config: extra_headers must be a mapping of names to texts")
    organization = _maybe_text(config, "organization")
    return {**({"OpenAI-Organization": organization} if organization else {}), **given}


def _secret(text: str) -> Secret:
    if not text.isascii() or not text.isprintable():
        raise ConfigurationError("model_config: a key or header holds characters that a header cannot carry")
    return Secret(text)


def _text(config: Mapping[str, object], key: str) -> str:
    value = _maybe_text(config, key)
    if value is None:
        raise ConfigurationError(f"model_config: {key} is missing")
    return value


def _maybe_text(config: Mapping[str, object], key: str) -> str | None:
    value = config.get(key)
    if value is not None and not isinstance(value, str):
        raise ConfigurationError(f"model_config: {key} must be a text, not a {type(value).__name__}")
    return value.strip() or None if value is not None else None


# -- pickling


@dataclass(frozen=True, slots=True)
class Packed:
    """An endpoint as it can be pickled: its definition, without connections and without secrets."""

    definition: Mapping[str, JSON]
    name: str
    price: Price | None

    def endpoint(self) -> Endpoint:
        """The endpoint again.

        Raises:
            ConfigurationError: the variable that holds its key is not set here.
        """
        endpoint = load_endpoint(self.definition, name=self.name)
        endpoint.price = self.price
        return endpoint


def packed(endpoint: Endpoint) -> Packed | Endpoint:
    """What to pickle in the place of an endpoint; one of somebody's own kind pickles itself."""
    from tunecheck.endpoints._http_endpoint import HttpEndpoint

    if isinstance(endpoint, HttpEndpoint):
        return Packed(endpoint.settings(), endpoint.name, endpoint.price)
    return endpoint
