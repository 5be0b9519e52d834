"""Defaults that a data set declares in a YAML file: column mapping, evaluators, target, group key and more."""

import dataclasses
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec.structs import asdict

from tunecheck._describe import Written, read_as
from tunecheck._errors import ConfigurationError
from tunecheck._json import JSON

Name: TypeAlias = Annotated[str, msgspec.Meta(min_length=1)]


class Sidecar(Written, frozen=True, kw_only=True):
    """The YAML file with a data file's defaults; missing and null keys declare nothing."""

    description: Name | None = None
    column_mapping: dict[str, str] | None = None
    evaluators: list[Name] | None = None
    target: Name | None = None
    group_key: Name | None = None
    cluster: Name | None = None
    primary: Name | None = None
    columns: dict[str, Any] | None = None
    mode: Literal["tools", "text"] | None = None
    step_limit: Annotated[int, msgspec.Meta(ge=1)] | None = None
    include_input_log: bool | None = None
    format: Name | None = None


CONVERSATION_KEYS = ("mode", "step_limit", "include_input_log", "format")
"""The keys that configure conversations: parameters of the conversation target."""


@dataclass(frozen=True)
class DatasetDefaults:
    """Defaults that a data set declares; options of the command or call override them.

    `column_mapping` binds evaluators' parameters to `${data.…}` and `${target.…}`; its keys `target.messages`,
    `target.tools` and `target.parameters` are an endpoint's. `evaluators` are plug-in names.
    `target` is an endpoint's name or file. Rows with equal values in the column `group_key` are answered in order.
    `cluster` names the column of dependent rows (by default the group key), `primary` the metric that decides.
    `conversation` holds parameters of the conversation target. `columns` holds default values of columns for all rows.
    """

    column_mapping: dict[str, str] = field(default_factory=dict)
    evaluators: list[str] = field(default_factory=list)
    target: str | None = None
    group_key: str | None = None
    cluster: str | None = None
    primary: str | None = None
    conversation: dict[str, JSON] = field(default_factory=dict)
    columns: dict[str, JSON] = field(default_factory=dict)

    @property
    def target_mapping(self) -> dict[str, str]:
        """Return the columns of an endpoint's messages, tools and parameters, as far as they are mapped."""
        entries = self.column_mapping.items()
        return {key.removeprefix("target."): column for key, column in entries if key.startswith("target.")}


def sidecar_path(data: Path) -> Path:
    """Return the path of a data file's defaults, such as `val.yaml` for `val.jsonl`."""
    return data.with_suffix(".yaml")


def read_sidecar(data: Path) -> DatasetDefaults:
    """Return the defaults in a data file's YAML file, or empty defaults if there is no such file.

    Raises:
        ConfigurationError: the file is invalid; the text names the file, the line and the key.
    """
    path = sidecar_path(data)
    if not os.path.lexists(path):
        return DatasetDefaults()
    if not path.is_file():
        raise ConfigurationError(f"{path}: not a regular file, but the data's defaults are read from it; rename it")
    from tunecheck._yaml import read_yaml  # and PyYAML, which a run without such a file does not need

    document = read_yaml(path)
    if document.value is None:
        return DatasetDefaults()
    sidecar = read_as(document.value, Sidecar, document.where)
    given = {key: value for key, value in asdict(sidecar).items() if value is not None}
    given.pop("description", None)
    conversation = {key: given.pop(key) for key in CONVERSATION_KEYS if key in given}
    return DatasetDefaults(**given, conversation=conversation)


def sidecar_text(defaults: DatasetDefaults, *, description: str = "") -> str:
    import yaml

    declared = dataclasses.asdict(defaults)
    conversation = declared.pop("conversation")
    given = {"description": description, **declared, **conversation}
    filled = {key: value for key, value in given.items() if value}
    return yaml.safe_dump(filled, sort_keys=False, allow_unicode=True, width=120)
