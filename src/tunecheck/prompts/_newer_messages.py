"""From a rendered template of the newer dialect to chat messages, as the package `prompty` splits it.

A header is a line such as `user:`, `# system:` or `user[name="Ann"]:`. What stands before the first is a system
message.
"""

from __future__ import annotations

import re

from tunecheck._json import JSON
from tunecheck.prompts._fragments import Skeleton

_HEADER = re.compile(r"#?\s*+(system|user|assistant|developer)(?:\[([^\]]*+)\])?\s*+:", re.IGNORECASE)
_ATTRIBUTE = re.compile(r'\s*+(\w++)\s*+=\s*+(?:"([^"]*+)"|([^",\]]*+))\s*+(?:,|\Z)')


def split(skeleton: Skeleton) -> list[dict[str, JSON]]:
    """The messages."""
    messages: list[dict[str, JSON]] = []
    head: dict[str, JSON] = {"role": "system"}
    lines: list[str] = []
    for line in skeleton.text.splitlines():
        found = _header(line.strip(), skeleton)
        if found is None:
            lines.append(line)
            continue
        messages += _message(head, lines, skeleton)
        head, lines = found, []
    return messages + _message(head, lines, skeleton)


def _header(line: str, skeleton: Skeleton) -> dict[str, JSON] | None:
    match = _HEADER.fullmatch(line)
    if match is None:
        return None
    attributes = {} if match.group(2) is None else _attributes(match.group(2))
    if attributes is None:
        return None
    named = {name: skeleton.filled(value) for name, value in attributes.items() if name not in ("role", "content")}
    return {"role": match.group(1).lower(), **named}


def _attributes(text: str) -> dict[str, str] | None:
    """`name="Ann", id=7` as texts; None where it is nothing or something else."""
    found: dict[str, str] = {}
    position = 0
    while position < len(text):
        match = _ATTRIBUTE.match(text, position)
        if match is None:
            return None
        found[match.group(1)] = match.group(2) if match.group(2) is not None else match.group(3).strip()
        position = match.end()
    return found or None


def _message(head: dict[str, JSON], lines: list[str], skeleton: Skeleton) -> list[dict[str, JSON]]:
    if not lines:
        return []
    return [{**head, "content": skeleton.filled("\n".join(lines)).strip("\n")}]
