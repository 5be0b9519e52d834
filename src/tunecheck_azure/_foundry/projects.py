"""Projects of Azure AI Foundry, with their own endpoint or in a hub, and the reader of their names."""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, TypeAlias
from urllib.parse import quote, urlsplit

import msgspec

from tunecheck import ConfigurationError
from tunecheck.plugins import Written, load_yaml, read_as

ARM = "https://management.azure.com"
"""Azure Resource Manager in the public cloud."""

_SHOWN = (
    "an endpoint https://<resource>.services.ai.azure.com/api/projects/<project>, "
    "or <subscription id>/<resource group>/<project> of a project in a hub"
)

_ENDPOINT_PATH = re.compile(r"/api/projects/[^/]+\Z")
_PART = re.compile(r"[\w().-]+\Z")
_Part = Annotated[str, msgspec.Meta(pattern=r"^[\w().-]+$")]
_KEYS = ("subscription_id", "resource_group_name", "project_name")


class FoundryProject(Written, frozen=True):
    """A project with its own endpoint."""

    endpoint: str

    @property
    def text(self) -> str:
        """The project as a value of `--project`."""
        return self.endpoint

    def __str__(self) -> str:
        return self.endpoint


class HubProject(Written, frozen=True):
    """A project in a hub, which is an Azure ML workspace. Sovereign clouds have another `resource_manager`."""

    subscription_id: _Part
    resource_group_name: _Part
    project_name: _Part
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
        """The project in the form of the option `--project`."""
        return f"{self.subscription_id}/{self.resource_group_name}/{self.project_name}"

    def __str__(self) -> str:
        return self.scope if self.resource_manager == ARM else self.resource_manager + self.scope


Project: TypeAlias = FoundryProject | HubProject


def read_project(value: object) -> Project:
    """Return the project that a value names.

    `value` is the URL of an endpoint, or a text `subscription/group/project`. It may also be a dict with the key
    `endpoint`, or with `subscription_id`, `resource_group_name` and `project_name`, or the path of a YAML or JSON file
    with these keys.

    Raises:
        ConfigurationError: the value names no project.
    """
    if isinstance(value, (FoundryProject, HubProject)):
        return value
    keys, where = value, "the project"
    if isinstance(value, (str, os.PathLike)):
        text = os.fspath(value).strip()
        if text.lower().endswith((".yaml", ".yml", ".json")) or Path(text).is_file():
            keys, where = load_yaml(text), text
        elif "://" in text:
            keys = {"endpoint": text}
        else:
            parts = text.split("/")
            if len(parts) == len(_KEYS) and all(map(_PART.match, parts)):
                keys = dict(zip(_KEYS, parts, strict=True))
    if not isinstance(keys, Mapping):
        raise ConfigurationError(f"{where} must be {_SHOWN}, not {value!r}")
    entries = {str(key): entry for key, entry in keys.items()}
    if "endpoint" in entries:
        if len(entries) > 1:
            raise ConfigurationError(f"{where}: an endpoint needs no other keys; leave them out")
        return FoundryProject(_endpoint(read_as(entries, FoundryProject, where).endpoint))
    hub = read_as(entries, HubProject, where)
    hub = msgspec.structs.replace(hub, resource_manager=hub.resource_manager.rstrip("/"))
    if urlsplit(hub.resource_manager).scheme != "https" or not urlsplit(hub.resource_manager).hostname:
        raise ConfigurationError(f"{where}: resource_manager must be an https address, such as {ARM}")
    return hub


def _endpoint(text: str) -> str:
    try:
        parts = urlsplit(text)
        host = parts.hostname
        _ = parts.port
    except ValueError:
        host = None
    # The error does not show the address: a query or a password may be a secret.
    if host is None or parts.username is not None or parts.password is not None or parts.query or parts.fragment:
        raise ConfigurationError(f"the project's endpoint must be {_SHOWN}, without user, query or fragment")
    if parts.scheme != "https":
        raise ConfigurationError("the project's endpoint must begin with https://: a token is sent there")
    path = parts.path.rstrip("/")
    if not _ENDPOINT_PATH.match(path):
        raise ConfigurationError(f"{host}{path} is not a project; expected {_SHOWN}")
    return f"https://{parts.netloc}{quote(path, safe='/%')}"
