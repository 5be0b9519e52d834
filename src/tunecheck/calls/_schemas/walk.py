"""A JSON Schema walked along with a value: what it says of a property, an item, a number, a default.

Only what typed matching asks for; local references and the branches of anyOf, oneOf and allOf are followed, a few
steps far, since a hostile schema may refer to itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from urllib.parse import unquote

from tunecheck._json import JSON

_MOST_STEPS = 6
_BRANCHES = ("anyOf", "oneOf", "allOf")
_NUMBER_NAMES = frozenset(("number", "float", "double"))


@dataclass(frozen=True, slots=True)
class Schema:
    """A place in a schema document; `root` is the document, which references are looked up in."""

    node: Mapping[str, JSON]
    root: Mapping[str, JSON]

    def property(self, name: str) -> Schema | None:
        """What is said of the property of that name."""
        for node in self._variants():
            properties = node.get("properties")
            inner = properties.get(name) if isinstance(properties, dict) else None
            if isinstance(inner, dict):
                return Schema(inner, self.root)
        return self._first("additionalProperties")

    def item(self, index: int) -> Schema | None:
        """What is said of the list's item at this index."""
        for node in self._variants():
            for key in ("prefixItems", "items"):
                listed = node.get(key)
                inner = listed[index] if isinstance(listed, list) and index < len(listed) else None
                if isinstance(inner, dict):
                    return Schema(inner, self.root)
        return self._first("items")

    def says_number(self) -> bool:
        """Whether a `number` is accepted here, so that `5` and `5.0` are the same."""
        for node in self._variants():
            kind = node.get("type")
            names = kind if isinstance(kind, list) else [kind]
            if any(isinstance(name, str) and name.lower() in _NUMBER_NAMES for name in names):
                return True
        return False

    def default(self, name: str) -> tuple[JSON] | None:
        """The default of the optional property of that name, in a tuple of one; None where it has none."""
        for node in self._variants():
            required = node.get("required")
            if isinstance(required, list) and name in required:
                return None
        place = self.property(name)
        return place.own_default() if place else None

    def own_default(self) -> tuple[JSON] | None:
        """The default of the value described here, in a tuple of one; None where it has none."""
        for node in self._variants():
            if "default" in node:
                return (node["default"],)
        return None

    def _first(self, key: str) -> Schema | None:
        for node in self._variants():
            inner = node.get(key)
            if isinstance(inner, dict):
                return Schema(inner, self.root)
        return None

    def _variants(self) -> Iterator[Mapping[str, JSON]]:
        """This node, what it refers to, and the branches of both; at most some dozens."""
        waiting: list[tuple[Mapping[str, JSON], int]] = [(self.node, 0)]
        for node, steps in waiting:
            yield node
            if steps >= _MOST_STEPS or len(waiting) > 50:
                continue
            target = node.get("$ref")
            inner = at_pointer(self.root, target) if isinstance(target, str) else None
            if isinstance(inner, dict):
                waiting.append((inner, steps + 1))
            for key in _BRANCHES:
                branches = node.get(key)
                if isinstance(branches, list):
                    waiting.extend((branch, steps + 1) for branch in branches[:20] if isinstance(branch, dict))


def at_pointer(root: Mapping[str, JSON], reference: str) -> JSON:
    """What a local reference (`#`, `#/$defs/x`) points to; None where there is nothing, or it is not local."""
    if reference == "#":
        return dict(root)
    if not reference.startswith("#/"):
        return None
    place: JSON = dict(root)
    for part in unquote(reference[2:]).split("/"):
        key = part.replace("~1", "/").replace("~0", "~")
        if isinstance(place, dict):
            place = place.get(key)
        elif isinstance(place, list) and key.isdecimal() and key.isascii() and int(key[:9]) < len(place):
            place = place[int(key[:9])]
        else:
            return None
    return place
