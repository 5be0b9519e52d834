"""The model configuration of a prompt as an endpoint definition."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass

from tunecheck._json import JSON
from tunecheck._messages import did_you_mean
from tunecheck.prompts._front_matter import Front, shown
from tunecheck.prompts._prompt import PromptError

_SECRET = re.compile(
    r"(api[-_]?key|authorization|passw(or)?d|passwd|secret|credentials?|(access|auth|bearer|session|ad)[-_]?token)$",
    re.IGNORECASE,
)
_REFERENCE = re.compile(r"(?:(?:Bearer|Basic|Token|ApiKey|Key)\s+)?\$\{env:[^{}]+\}\Z", re.IGNORECASE)
_VARIABLE = re.compile(r"\$\{env:([^{}]*)\}")

_OPENAI = "https://api.openai.com/v1"


def check_secrets(front: Front, *path: str, references: bool) -> None:
    """Refuse secrets that are written out below this path, and without `references` any at all.

    Raises:
        PromptError: there is one; its text is not shown.
    """
    todo: list[tuple[tuple[str | int, ...], JSON]] = [(path, front.value(*path))]
    while todo:
        here, value = todo.pop()
        if isinstance(value, list):
            todo.extend(((*here, index), item) for index, item in enumerate(value))
        elif isinstance(value, dict):
            todo.extend(((*here, key), item) for key, item in value.items())
        elif isinstance(value, str) and value.strip() and _SECRET.search(str(here[-1])):
            if not references:
                raise front.error(here, "a secret has no place here: the model's configuration takes one")
            if not _REFERENCE.match(value.strip()):
                raise front.error(
                    here, "a secret is not written here: write ${env:NAME} and set that environment variable"
                )


@dataclass(frozen=True)
class Configuration(ABC):
    """A model configuration and the file that it stands in."""

    front: Front

    @abstractmethod
    def definition(self) -> dict[str, JSON] | None:
        """The endpoint definition, None where nothing is configured.

        Raises:
            PromptError: the configuration is of an unknown type or incomplete, or a variable is not set.
        """

    def _named(self, *path: str) -> str | None:
        """A text that endpoint definitions take as it is: its references are looked up here."""
        text = self._text(*path)
        return None if text is None else _VARIABLE.sub(lambda match: self.front.variable(match.group(1), path), text)

    def _needed(self, *path: str) -> str:
        text = self._named(*path)
        if text is None:
            raise self.front.error(path, "is missing")
        return text

    def _text(self, *path: str) -> str | None:
        text = self.front.text(*path)
        return text if text and text.strip() else None


class OlderConfiguration(Configuration):
    """`model.configuration` with the keys that Azure's loader knows."""

    def definition(self) -> dict[str, JSON] | None:
        """See Configuration."""
        given = self.front.mapping("model", "configuration")
        if not given:
            return None
        if given.get("connection") is not None:
            raise self._error("connection", "a connection of prompt flow cannot be looked up: write the endpoint here")
        sort = self._text("model", "configuration", "type") or _sort(given)
        if sort == "azure_openai":
            return self._azure(given)
        if sort == "openai":
            return self._openai(given)
        known = ("azure_openai", "openai")
        raise self._error("type", f"{sort!r} is none of {', '.join(known)}{did_you_mean(sort, known)}")

    def _azure(self, given: Mapping[str, JSON]) -> dict[str, JSON]:
        # Azure's loader takes all else from the environment where only the deployment is named.
        bare = not {key for key, value in given.items() if value} - {"type", "azure_deployment", "model"}
        key = "${env:AZURE_OPENAI_API_KEY}" if bare else self._text("model", "configuration", "api_key")
        endpoint = "${env:AZURE_OPENAI_ENDPOINT}" if bare else self._text("model", "configuration", "azure_endpoint")
        if endpoint is None:
            raise self._error("azure_endpoint", "is missing")
        return {
            "kind": "azure_openai",
            "url": endpoint,
            "deployment": self._needed("model", "configuration", "azure_deployment"),
            "api_version": self._named("model", "configuration", "api_version") or "2024-02-01",
            "auth": {"type": "key", "value": key} if key else {"type": "entra"},
            **self._headers(),
        }

    def _openai(self, given: Mapping[str, JSON]) -> dict[str, JSON]:
        bare = not {key for key, value in given.items() if value} - {"type", "model"}
        key = "${env:OPENAI_API_KEY}" if bare else self._text("model", "configuration", "api_key")
        definition: dict[str, JSON] = {
            "kind": "openai",
            "url": self._text("model", "configuration", "base_url") or _OPENAI,
            "model": self._needed("model", "configuration", "model"),
        }
        return definition | ({"auth": {"type": "key", "value": key}} if key else {}) | self._headers()

    def _headers(self) -> dict[str, JSON]:
        headers = self.front.mapping("model", "configuration", "extra_headers")
        organization = self._text("model", "configuration", "organization")
        if organization is not None:
            headers = {"OpenAI-Organization": organization, **headers}
        return {"headers": headers} if headers else {}

    def _error(self, key: str, problem: str) -> PromptError:
        return self.front.error(("model", "configuration", key), problem)


def _sort(given: Mapping[str, JSON]) -> str:
    """The type of a configuration that does not say it."""
    azure = any(given.get(key) for key in ("azure_deployment", "azure_endpoint"))
    return "azure_openai" if azure else "openai" if given.get("model") else ""


class NewerConfiguration(Configuration):
    """`model.provider`, `model.id` and `model.connection`, as the package `prompty` has them."""

    def definition(self) -> dict[str, JSON] | None:
        """See Configuration."""
        if isinstance(self.front.value("model"), str) or not self.front.mapping("model", "connection"):
            return None
        kind = self._text("model", "connection", "kind") or ""
        known = ("key", "anonymous", "foundry")
        if kind not in known:
            problem = f"{kind!r} is none of {', '.join(known)}{did_you_mean(kind, known)}"
            raise self.front.error(("model", "connection", "kind"), problem)
        provider = self._text("model", "provider") or ("foundry" if kind == "foundry" else "openai")
        if provider in ("foundry", "azure"):
            return self._azure(kind)
        if provider == "openai":
            return self._openai()
        problem = f"{shown(provider)} is not supported{did_you_mean(provider, ('openai', 'foundry', 'azure'))}"
        raise self.front.error(("model", "provider"), problem)

    def _azure(self, kind: str) -> dict[str, JSON]:
        endpoint = self._text("model", "connection", "endpoint")
        if endpoint is None:
            raise self.front.error(("model", "connection", "endpoint"), "is missing")
        definition = {"kind": "azure_openai", "url": endpoint, "deployment": self._needed("model", "id")}
        if kind == "foundry":
            return {**definition, "auth": {"type": "entra"}}
        # The version that the package sends.
        return {**definition, "api_version": "2024-12-01-preview", **self._key()}

    def _openai(self) -> dict[str, JSON]:
        endpoint = self._text("model", "connection", "endpoint") or _OPENAI
        return {"kind": "openai", "url": endpoint, "model": self._needed("model", "id"), **self._key()}

    def _key(self) -> dict[str, JSON]:
        key = self._text("model", "connection", "apiKey")
        return {"auth": {"type": "key", "value": key}} if key else {}
