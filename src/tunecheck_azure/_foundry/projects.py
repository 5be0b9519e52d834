"""Which project of Azure AI Foundry is meant: one with an endpoint of its own, or one in a hub."""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import quote, urlsplit

from tunecheck import ConfigurationError
from tunecheck.plugins import did_you_mean, load_yaml

ARM = "https://management.azure.com"
"""Azure Resource Manager in the public cloud."""

_SHOWN = (
    "an endpoint https://<resource>.services.ai.azure.com/api/projects/<project>, "
    "or <subscription id>/<resource group>/<project> of a project in a hub"
)

_ENDPOINT_PATH = re.compile(r"/api/projects/[^/]+\Z")
_ARM_ID = re.compile(
    r"/?subscriptions/([^/]+)/resourceGroups/([^/]+)/providers/Microsoft\.MachineLearningServices/workspaces/([^/]+)/?\Z",
    re.IGNORECASE,
)
_PART = re.compile(r"[\w().-]+\Z")
_OTHER_NAMES = {"resource_group": "resource_group_name", "workspace_name": "project_name"}
"""The names of these keys in Azure ML's config.json."""

_KEYS = ("subscription_id", "resource_group_name", "project_name")


@dataclass(frozen=True, slots=True)
class FoundryProject:
    endpoint: str

    @property
    def text(self) -> str:
        """It as `--project` takes it."""
        return self.endpoint

    def __str__(self) -> str:
        return self.endpoint


@dataclass(frozen=True, slots=True)
class HubProject:
    """A project in a hub, which is an Azure ML workspace. `resource_manager` is another one in sovereign clouds."""

    subscription_id: str
    resource_group_name: str
    project_name: str
    resource_manager: str = ARM

    @property
    def scope(self) -> str:
        return (
            f"/subscriptions/{quote(self.subscription_id, safe='')}/resourceGroups/"
            f"{quote(self.resource_group_name, safe='')}/providers/Microsoft.MachineLearningServices/workspaces/"
            f"{quote(self.project_name, safe='')}"
        )

    @property
    def text(self) -> str:
        """It as `--project` takes it."""
        return f"{self.subscription_id}/{self.resource_group_name}/{self.project_name}"

    def __str__(self) -> str:
        return self.scope if self.resource_manager == ARM else self.resource_manager + self.scope


Project: TypeAlias = FoundryProject | HubProject


def read_project(value: object) -> Project:
    """The project that is meant.

    `value`: an endpoint's URL; `subscription/group/project`; the project's ARM id; the name of a YAML or JSON file that
    says `endpoint: …`, or `subscription_id`, `resource_group_name` and `project_name`; a dict of these.

    Raises:
        ConfigurationError: it is none of them.
    """
    if isinstance(value, (FoundryProject, HubProject)):
        return value
    if isinstance(value, Mapping):
        return _of_mapping(value, "the project")
    if not isinstance(value, (str, os.PathLike)) or not os.fspath(value):
        raise ConfigurationError(f"the project must be {_SHOWN}; it is {value!r}")
    text = os.fspath(value).strip()
    if "://" in text:
        return FoundryProject(_endpoint(text))
    if text.lower().endswith((".yaml", ".yml", ".json")) or Path(text).is_file():
        content = load_yaml(text)
        if not isinstance(content, dict):
            raise ConfigurationError(f"{text}: expected `endpoint: …`, or {', '.join(_KEYS)}")
        return _of_mapping(content, text)
    matched = _ARM_ID.match(text)
    parts = list(matched.groups()) if matched else text.split("/")
    if len(parts) != 3 or not all(_PART.match(part) for part in parts):
        raise ConfigurationError(f"the project must be {_SHOWN}; it is {text!r}")
    return HubProject(*parts)


def _of_mapping(given: Mapping[Any, object], where: str) -> Project:
    entries = {_OTHER_NAMES.get(str(key), str(key)): entry for key, entry in given.items()}
    known = ("endpoint", "resource_manager", *_KEYS)
    for key, entry in entries.items():
        if key not in known:
            raise ConfigurationError(f"{where}: unknown key {key!r}{did_you_mean(key, known)}")
        if not isinstance(entry, str) or not entry.strip():
            raise ConfigurationError(f"{where}: {key} must be a text, not {entry!r}")
    texts = {key: str(entry).strip() for key, entry in entries.items()}
    if "endpoint" in texts:
        if len(texts) > 1:
            raise ConfigurationError(f"{where}: an endpoint stands alone; leave the other keys out")
        return FoundryProject(_endpoint(texts["endpoint"]))
    for key in _KEYS:
        if key not in texts:
            raise ConfigurationError(f"{where}: {key} is missing")
        if not _PART.match(texts[key]):
            raise ConfigurationError(f"{where}: {key} is not a name in Azure: {texts[key]!r}")
    manager = texts.get("resource_manager", ARM).rstrip("/")
    if urlsplit(manager).scheme != "https" or not urlsplit(manager).hostname:
        raise ConfigurationError(f"{where}: resource_manager must be an https address, such as {ARM}")
    return HubProject(texts["subscription_id"], texts["resource_group_name"], texts["project_name"], manager)


def _endpoint(text: str) -> str:
    try:
        parts = urlsplit(text)
        host = parts.hostname
        _ = parts.port
    except ValueError:
        host = None
    # A query or a password is not shown: it may be a secret.
    if host is None or parts.username is not None or parts.password is not None or parts.query or parts.fragment:
        raise ConfigurationError(f"the project's endpoint is not a plain address; expected {_SHOWN}")
    if parts.scheme != "https":
        raise ConfigurationError("the project's endpoint must begin with https://: a token is sent there")
    path = parts.path.rstrip("/")
    if not _ENDPOINT_PATH.match(path):
        raise ConfigurationError(f"{host}{path} is not a project; expected {_SHOWN}")
    return f"https://{parts.netloc}{quote(path, safe='/%')}"
