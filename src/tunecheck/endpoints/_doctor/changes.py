"""Sets keys of a definition's text, with everything else, comments included, left as it was written."""

import re
from collections.abc import Mapping

from tunecheck._errors import ConfigurationError
from tunecheck._json import JSON, dumps
from tunecheck._yaml import loads

_CONTINUES = re.compile(r"[ \t]+\S|-(?:\s|\Z)")
_WORD = re.compile(r"[A-Za-z_][\w-]*\Z")


def with_keys(text: str, keys: Mapping[str, JSON], name: str) -> str:
    """The text of a definition with these keys at its top set; `name` stands in errors for the file.

    Raises:
        ConfigurationError: it is not written one key a line, so that there is no place for them.
    """
    before = loads(text, name)
    assert isinstance(before, dict)
    lines = text.splitlines()
    for key, value in keys.items():
        written = line_of(key, value)
        at = next((index for index, line in enumerate(lines) if re.match(rf"{re.escape(key)}\s*:", line)), None)
        if at is None:
            lines.append(written)
        else:
            lines[at : _end(lines, at)] = [written]
    changed = "".join(f"{line}\n" for line in lines)
    try:
        fits = loads(changed, name) == {**before, **keys}
    except ConfigurationError:
        fits = False
    if not fits:
        raise ConfigurationError(
            f"{name}: cannot be changed as it is written: each key must stand on a line of its own"
        )
    return changed


def line_of(key: str, value: JSON) -> str:
    """A key and its value as a line of YAML."""
    return f"{key}: {_flow(value)}"


def _end(lines: list[str], at: int) -> int:
    """The line after the last one of the value that begins on line `at`."""
    end = at + 1
    for index in range(at + 1, len(lines)):
        if _CONTINUES.match(lines[index]) and not lines[index].lstrip().startswith("#"):
            end = index + 1
        elif lines[index].strip() and not lines[index].lstrip().startswith("#"):
            break
    return end


def _flow(value: JSON) -> str:
    if isinstance(value, dict):
        pairs = (f"{key if _WORD.match(key) else dumps(key).decode()}: {_flow(item)}" for key, item in value.items())
        return f"{{{', '.join(pairs)}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(_flow, value))}]"
    return dumps(value).decode()
