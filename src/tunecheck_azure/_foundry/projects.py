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

_PROJECT_FORMS = (
    "a Foundry project's endpoint (https://<resource>.services.ai.azure.com/api/projects/<project>, "
    "without user, query or fragment) or, for a project in a hub, <subscription id>/<resource group>/<project>"
)

# Matches https://res.services.ai.azure.com/api/projects/p and ends before trailing slashes. An @ (a password), a query
# or a fragment is refused.
_ENDPOINT = re.compile(r"(https://[^\s/?#@]+)(/api/projects/[^\s/?#]+)/*")

# Parts of a path in Azure Resource Manager: letters, digits and _ ( ) . -, as in "my-group_(test)".
_Part = Annotated[str, msgspec.Meta(pattern=r"^[\w().-]+$")]

# A host without a path, such as https://management.usgovcloudapi.net. Tokens are sent to it, so only https counts.
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
        """Return the project's scope; outside the public cloud, after the address of the resource manager."""
        return self.scope if self.resource_manager == ARM else self.resource_manager + self.scope


def read_project(value: object) -> str | HubProject:
    """Return the project that a value names: the endpoint of a Foundry project, or a project in a hub.

    A text or path is read in the first way that fits:

      ends in .yaml, .yml or .json, or is a file    a YAML or JSON file with the keys below
      three parts: `subscription/group/project`     a project in a hub
      otherwise                                     the URL of a Foundry project's endpoint

    A dict has the key `endpoint`, or `subscription_id`, `resource_group_name`, `project_name` and optionally
    `resource_manager`.

    Raises:
        ConfigurationError: the value names no project.
    """
    keys, source = value, "the project"

    if isinstance(value, (str, os.PathLike)):
        text = os.fspath(value).strip()
        parts = text.split("/")
        if text.lower().endswith((".yaml", ".yml", ".json")) or Path(text).is_file():
            keys, source = load_yaml(text), f"the project in {text}"
        else:
            is_hub = len(parts) == len(_KEYS) and all(parts)
            keys = dict(zip(_KEYS, parts, strict=True)) if is_hub else {"endpoint": text}

    if not isinstance(keys, Mapping):
        raise ConfigurationError(f"{source} must be {_PROJECT_FORMS}, not {keys!r:.60}")

    if "endpoint" not in keys:
        return read_as({str(key): entry for key, entry in keys.items()}, HubProject, source)
    if len(keys) > 1:
        raise ConfigurationError(f"{source}: `endpoint` must be the only key; remove the other keys")

    found = _ENDPOINT.fullmatch(str(keys["endpoint"]).strip())
    if found is None:  # the value is not shown, because its query or password may be a secret
        raise ConfigurationError(f"{source} must be {_PROJECT_FORMS}")

    # Spaces are excluded above; other characters, as in "café", are escaped. A % is kept: it may be an escape.
    return found[1] + quote(found[2], safe="/%")
