"""What a data set declares for itself: column mapping, evaluators, target and group key, in the YAML file beside it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

from tunecheck._errors import ConfigurationError
from tunecheck._json import JSON
from tunecheck._messages import did_you_mean
from tunecheck._yaml import Document, read

KEYS = ("description", "column_mapping", "evaluators", "target", "group_key")


@dataclass(frozen=True)
class DatasetDefaults:
    """Defaults that a data set brings along; options of the command or call win over each of them.

    `column_mapping` binds evaluators' parameters to `${data.…}` and `${target.…}`; `evaluators` are plugin names;
    `target` is an endpoint's name or file; `group_key` names the column whose equal values are answered in order.
    """

    column_mapping: dict[str, str] = field(default_factory=dict)
    evaluators: list[str] = field(default_factory=list)
    target: str | None = None
    group_key: str | None = None


def sidecar_path(data: Path) -> Path:
    """Where the defaults of a data file stand: `val.jsonl` has `val.yaml`."""
    return data.with_suffix(".yaml")


def read_sidecar(data: Path) -> DatasetDefaults:
    """The defaults in the file beside a data file; empty ones where there is no such file.

    Raises:
        ConfigurationError: the file cannot be used; the text names it, the line and the key.
    """
    path = sidecar_path(data)
    if not path.is_file():
        return DatasetDefaults()
    return _Sidecar(read(path), data).defaults()


def sidecar_text(defaults: DatasetDefaults, *, description: str = "") -> str:
    """The defaults as the text of a sidecar file."""
    import yaml

    given: dict[str, object] = {
        "description": description,
        "column_mapping": defaults.column_mapping,
        "evaluators": defaults.evaluators,
        "target": defaults.target,
        "group_key": defaults.group_key,
    }
    filled = {key: value for key, value in given.items() if value}
    return yaml.safe_dump(filled, sort_keys=False, allow_unicode=True, width=120)


class _Sidecar:
    """A sidecar's document, checked key by key."""

    def __init__(self, document: Document, data: Path) -> None:
        self._document = document
        self._data = data

    def defaults(self) -> DatasetDefaults:
        values = self._document.value
        if values is None:
            return DatasetDefaults()
        if not isinstance(values, dict):
            self._refuse(f"the file beside {self._data.name} must hold keys such as {', '.join(KEYS[1:])}")
        for key in values:
            if key not in KEYS:
                hint = did_you_mean(key, KEYS)
                self._refuse(f"unknown key {key!r} in the defaults of {self._data.name}{hint}", key)
        self._text(values, "description")
        return DatasetDefaults(
            column_mapping=self._mapping(values.get("column_mapping")),
            evaluators=self._names(values.get("evaluators")),
            target=self._text(values, "target"),
            group_key=self._text(values, "group_key"),
        )

    def _mapping(self, value: JSON) -> dict[str, str]:
        if value is None:
            return {}
        if not isinstance(value, dict):
            self._refuse("column_mapping must have a parameter: value pair on each line", "column_mapping")
        return {name: self._mapped(item, name) for name, item in value.items()}

    def _mapped(self, value: JSON, name: str) -> str:
        if not isinstance(value, str):
            self._refuse(f'{name!r} must be text such as "${{data.answer}}"; quote it', "column_mapping", name)
        return value

    def _names(self, value: JSON) -> list[str]:
        if value is None:
            return []
        if not isinstance(value, list):
            self._refuse("evaluators must be a list of names, such as [bleu, function_call_match]", "evaluators")
        return [self._name(item, at) for at, item in enumerate(value)]

    def _name(self, value: JSON, at: int) -> str:
        if not isinstance(value, str) or not value:
            self._refuse("an evaluator's name must be text", "evaluators", at)
        return value

    def _text(self, values: dict[str, JSON], key: str) -> str | None:
        value = values.get(key)
        if value is not None and not (isinstance(value, str) and value):
            self._refuse(f"{key} must be text", key)
        return value

    def _refuse(self, what: str, *path: str | int) -> NoReturn:
        raise ConfigurationError(f"{self._document.where(*path)}: {what}")
