"""Projects of Azure AI Foundry, with their own endpoint or in a hub, and the reader of their names."""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated
from urllib.parse import quote

import msgspec

from tunecheck import ConfigurationError
from tunecheck.plugins import Written, load_yaml, read_as

ARM = "https://management.azure.com"
"""Azure Resource Manager in the public cloud."""

_SHOWN = (
    "a Foundry project's endpoint (https://<resource>.services.ai.azure.com/api/projects/<project>, "
    "without user, query or fragment) or, for a project in a hub, <subscription id>/<resource group>/<project>"
)

_ENDPOINT = re.compile(r"(https://[^\s/?#@]+)(/api/projects/[^\s/?#]+)/*")
_Part = Annotated[str, msgspec.Meta(pattern=r"^[\w().-]+$")]
_Host = Annotated[str, msgspec.Meta(pattern=r"^https://[^\s/?#@]+$")]
_KEYS = ("subscription_id", "resource_group_name", "project_name")


class HubProject(Written, frozen=True):
    """A project in a hub, which is an Azure ML workspace. Sovereign clouds have another `resource_manager`."""

    subscription_id: _Part
    resource_group_name: _Part
    project_name: _Part
    resource_manager: _Host = ARM

    @property
    def scope(self) -> str:
        """The path of the project's workspace in Azure Resource Manager."""
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


def read_project(value: object) -> str | HubProject:
    """Return the project that a value names: the endpoint of a Foundry project, or a project in a hub.

    `value` is the URL of an endpoint, or a text `subscription/group/project`. It may also be a dict with the key
    `endpoint`, or with `subscription_id`, `resource_group_name` and `project_name`, or the path of a YAML or JSON file
    with these keys.

    Raises:
        ConfigurationError: the value names no project.
    """
    keys, where = value, "the project"
    if isinstance(value, (str, os.PathLike)):
        text = os.fspath(value).strip()
        parts = text.split("/")
        if text.lower().endswith((".yaml", ".yml", ".json")) or Path(text).is_file():
            keys, where = load_yaml(text), text
        else:
            is_hub = len(parts) == len(_KEYS) and all(parts)
            keys = dict(zip(_KEYS, parts, strict=True)) if is_hub else {"endpoint": text}
    if not isinstance(keys, Mapping):
        raise ConfigurationError(f"{where} must be {_SHOWN}, not {value!r}")
    if "endpoint" not in keys:
        return read_as({str(key): entry for key, entry in keys.items()}, HubProject, where)
    if len(keys) > 1:
        raise ConfigurationError(f"{where}: `endpoint` must be the only key; remove the others")
    found = _ENDPOINT.fullmatch(str(keys["endpoint"]).strip())
    if found is None:  # not shown, because a query or a password may be a secret
        raise ConfigurationError(f"{where} must be {_SHOWN}")
    return found[1] + quote(found[2], safe="/%")
