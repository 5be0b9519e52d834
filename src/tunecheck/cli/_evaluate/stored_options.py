"""Options that stand in a file: a configuration (`--config eval.yaml`), or the manifest of a run that goes on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from tunecheck._errors import ConfigurationError
from tunecheck._json import JSON
from tunecheck.cli._evaluate.options import Options
from tunecheck.cli._recorded_command import command_of

if TYPE_CHECKING:
    from tunecheck._yaml import Document
    from tunecheck.endpoints._definition import Section

_MOST = 2**53


def read_config(path: str) -> Options:
    """The options of a configuration file: the command's long options as keys, with dashes or underscores.

    Raises:
        ConfigurationError: the file cannot be read, or a key or value is wrong; names file, line and key.
    """
    from tunecheck import _yaml as yamltext

    return _read(_underscored(yamltext.read(Path(path))))


def recorded_options(run_id: str, command: JSON) -> Options:
    """The options that a run's manifest keeps.

    Raises:
        ConfigurationError: the manifest was written by another version, and holds what this one does not know.
    """
    from tunecheck._yaml import Document

    begun = command_of(command)
    if begun is not None:
        raise ConfigurationError(
            f"run {run_id} was started by `tunecheck {begun}`: go on with `tunecheck {begun} --resume {run_id}`"
        )
    return _read(Document(f"the command recorded in run {run_id}", command, {}))


def _underscored(document: Document) -> Document:
    """The document with `group-by` as `group_by`."""
    from tunecheck._yaml import Document

    values = document.value
    if values is None:
        return Document(document.name, {}, {})
    if not isinstance(values, dict):
        raise ConfigurationError(f"{document.name}: a configuration holds options, one `option: value` a line")
    renamed: dict[str, JSON] = {}
    for key, value in values.items():
        name = key.replace("-", "_")
        if name in renamed:
            raise ConfigurationError(f"{document.where(key)}: the option {key!r} stands here twice")
        renamed[name] = value
    lines = {(str(path[0]).replace("-", "_"), *path[1:]) if path else path: at for path, at in document.lines.items()}
    return Document(document.name, renamed, lines)


def _read(document: Document) -> Options:
    from tunecheck.endpoints._definition import Section

    values = document.value
    section = Section(values if isinstance(values, dict) else {}, document)
    # Each reader is asked for every key, so that a misspelt one is told what it was probably meant to be.
    found = {key: read(section, key) for key, read in _READERS.items()}
    section.finish()
    return Options(**found)  # type: ignore[arg-type]  # each reader gives its field's type


def _text(section: Section, key: str) -> str | None:
    return section.maybe_text(key)


def _positive(section: Section, key: str) -> int | None:
    return section.integer(key, 1, least=1, most=_MOST) if section.has(key) else None


def _whole(section: Section, key: str) -> int | None:
    return section.integer(key, 0, least=0, most=_MOST) if section.has(key) else None


def _share(section: Section, key: str) -> float | None:
    value = section.maybe_number(key, most=1)
    if value is not None and value < 0:
        raise section.error(key, "must be a share from 0 to 1")
    return value


def _cost(section: Section, key: str) -> float | None:
    return section.maybe_number(key, above=-1e-12)


def _flag(section: Section, key: str) -> bool | None:
    return section.flag(key, False) or None


def _texts(section: Section, key: str) -> list[str] | None:
    value = section.value(key)
    items = value if isinstance(value, list) else [value]
    if value is None:
        return None
    texts = [item for item in items if isinstance(item, str) and item.strip()]
    if not texts or len(texts) != len(items):
        raise section.error(key, "must be a text or a list of texts")
    return texts


def _names(section: Section, key: str) -> list[str] | None:
    texts = _texts(section, key)
    names = [name.strip() for text in texts or () for name in text.split(",") if name.strip()]
    if len(set(names)) != len(names):
        raise section.error(key, "holds a name twice")
    return names or None


def _entries(section: Section, key: str) -> dict[str, JSON] | None:
    """`{bleu.threshold: 0.4}`, or the same nested: `{bleu: {threshold: 0.4}}`."""
    found: dict[str, JSON] = {}
    for name, value in section.mapping(key).items():
        inner: Mapping[str, JSON] = value if isinstance(value, dict) and "." not in name else {"": value}
        for parameter, setting in inner.items():
            full = f"{name}.{parameter}" if parameter else name
            if full in found:
                raise section.error(key, f"gives {full!r} twice")
            found[full] = setting
    return found or None


_READERS: Mapping[str, Callable[[Section, str], object]] = {
    "dataset": _text,
    "endpoint": _text,
    "response_column": _text,
    "judge": _text,
    "prices": _text,
    "max_cost": _cost,
    "evaluators": _names,
    "set": _entries,
    "mapping": _entries,
    "name": _text,
    "limit": _positive,
    "repeat": _positive,
    "concurrency": _positive,
    "workers": _whole,
    "group_by": _texts,
    "seed": _whole,
    "fail_under": _texts,
    "max_error_rate": _share,
    "no_worse_than": _text,
    "margin": _cost,
    "junit": _text,
    "markdown": _text,
    "allow_simulated": _flag,
    "upload": _flag,
    "project": _text,
    "mlflow": _text,
    "run": _text,
    "resume": _text,
    "reuse": _text,
    "results_dir": _text,
    "quiet": _flag,
    "json": _flag,
    "debug": _flag,
    "dry_run": _flag,
}
