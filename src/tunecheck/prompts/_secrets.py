"""Secrets in a front matter: references to the environment belong there; what is written out is taken out of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from tunecheck._json import JSON
from tunecheck.endpoints._masking import MASK, SECRET_FIELD, WHOLE_SECRET, WRITTEN_OUT, Secret
from tunecheck.prompts._front_matter import Front

_LEAST = 8
"""Shorter ones are no keys, but words such as `none`, which stand elsewhere in a file, too."""

_NOTE = "is written out, for all who read the file: write ${env:NAME} here and set that environment variable"

_Path = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class WrittenSecrets:
    """What a file writes out: the model's key, headers by their names. `notes` say where."""

    key: Secret | None = None
    headers: Mapping[str, Secret] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def taken_from(self, text: str) -> str:
        """The text without them."""
        for secret in (self.key, *self.headers.values()):
            if secret is not None and len(secret.reveal()) >= _LEAST:
                text = text.replace(secret.reveal(), MASK)
        return text


def refuse_secrets(front: Front, *path: str) -> None:
    """Refuse any secret below this path, references too."""
    for here, _ in _secrets(path, front.value(*path)):
        raise front.error(here, "a secret has no place here: the model's configuration takes one")


def take_secrets(front: Front, *path: str) -> tuple[Front, WrittenSecrets]:
    """The front matter without the secrets that it writes out at this place, where a model's configuration stands."""
    keys: list[Secret] = []
    headers: dict[str, Secret] = {}
    notes: list[str] = []
    for here, text in _secrets(path, front.value(*path)):
        if WHOLE_SECRET.match(text):
            continue
        if "${" in text or len(here) > len(path) + 2 or (len(here) == len(path) + 2 and here[-2] != "extra_headers"):
            raise front.error(here, WRITTEN_OUT)
        if len(here) == len(path) + 1:
            keys.append(Secret(text))
        else:
            headers[str(here[-1])] = Secret(text)
        notes.append(front.told(here, _NOTE))
        front = replace(front, data=_without(dict(front.data), here))
    return front, WrittenSecrets(keys[0] if keys else None, headers, tuple(notes))


def _secrets(path: _Path, top: JSON) -> list[tuple[_Path, str]]:
    found: list[tuple[_Path, str]] = []
    todo: list[tuple[_Path, JSON]] = [(path, top)]
    while todo:
        here, value = todo.pop()
        if isinstance(value, list):
            todo.extend(((*here, index), item) for index, item in enumerate(value))
        elif isinstance(value, dict):
            todo.extend(((*here, key), item) for key, item in value.items())
        elif isinstance(value, str) and value.strip() and SECRET_FIELD.search(str(here[-1])):
            found.append((here, value.strip()))
    return found


def _without(data: dict[str, JSON], path: _Path) -> dict[str, JSON]:
    first, *rest = path
    inner = data[str(first)]
    if rest and isinstance(inner, dict):
        return {**data, str(first): _without(inner, tuple(rest))}
    return {key: value for key, value in data.items() if key != first}
