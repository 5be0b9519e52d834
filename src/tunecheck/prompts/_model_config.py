"""Model configurations of prompts and of Azure AI Evaluation as endpoint definitions."""

from collections.abc import Mapping

from tunecheck._json import JSON

OPENAI_URL = "https://api.openai.com/v1"
"""Where a configuration of OpenAI's goes that names no address."""

AZURE, OPENAI = "azure_openai", "openai"


def definition_of(
    kind: str,
    url: str,
    model: str,
    *,
    api_version: str | None = None,
    key: str | None = None,
    entra: bool = False,
    headers: Mapping[str, JSON] | None = None,
) -> dict[str, JSON]:
    """Return an endpoint definition of kind `AZURE` or `OPENAI`. Without a key it may sign in with Entra."""
    definition: dict[str, JSON] = {"kind": kind, "url": url, "deployment" if kind == AZURE else "model": model}
    if api_version:
        definition["api_version"] = api_version
    if key or entra:
        definition["auth"] = {"type": "key", "value": key} if key else {"type": "entra"}
    if headers:
        definition["headers"] = dict(headers)
    return definition
