"""Key-value pairs: a table of identifiers that mean nothing, and one of them asked for."""

from __future__ import annotations

import math
from random import Random
from typing import TypeAlias
from uuid import UUID

from tunecheck._json import JSON, dumps
from tunecheck.memory._kind import Kind, Making
from tunecheck.memory._kinds.arguments import whole
from tunecheck.memory._kinds.scripts import scripted_test
from tunecheck.memory._model import Definition

_STATEMENT = "Keep this JSON object in mind, I am going to ask for one of its values:\n{pairs}"
_QUESTION = "In the JSON object that I gave you, which value stands under the key {path}? Answer with the value only."
_INNER = " within the key "

_Tree: TypeAlias = "dict[str, JSON]"


class KeyValuePairs(Kind):
    """`num_kv_pairs` pairs of random identifiers, `nested_levels` objects deep, and the question for one value.

    Without levels it is one flat object. With levels each pair stands in objects within objects, as evenly shared out
    as they can be; the question names the keys from the innermost to the outermost.
    """

    name = "kv"
    title = "Key-Value Pairs"

    def __init__(self, *, num_kv_pairs: int = 140, nested_levels: int = 0) -> None:
        self.num_kv_pairs = whole("num_kv_pairs", num_kv_pairs, least=1, most=100_000)
        self.nested_levels = whole("nested_levels", nested_levels, least=0, most=10)
        self.arguments = {"num_kv_pairs": num_kv_pairs, "nested_levels": nested_levels}

    def definition(self, example: str, making: Making) -> Definition:
        random = making.random(self.title, example)
        pairs: list[tuple[str, JSON]] = [(_identifier(random), _identifier(random)) for _ in range(self.num_kv_pairs)]
        asked = random.randrange(len(pairs))
        tree, path, value = _grouped(random, pairs, asked, self.nested_levels)
        keys = _INNER.join(f'"{key}"' for key in reversed(path))
        statement = _STATEMENT.format(pairs=dumps(tree).decode())
        return scripted_test(self, example, [statement], [_QUESTION.format(path=keys)], [value])


def _identifier(random: Random) -> str:
    return str(UUID(int=random.getrandbits(128), version=4))


def _grouped(
    random: Random, entries: list[tuple[str, JSON]], asked: int, levels: int
) -> tuple[_Tree, tuple[str, ...], JSON]:
    """The entries in objects within objects, the keys from the outermost to the one asked for, and its value."""
    path: tuple[str, ...] = (entries[asked][0],)
    value = entries[asked][1]
    for level in range(levels):
        size = _group_size(len(entries), levels - level)
        groups = [entries[at : at + size] for at in range(0, len(entries), size)]
        asked //= size
        entries = [(_identifier(random), dict(group)) for group in groups]
        path = (entries[asked][0], *path)
    return dict(entries), path, value


def _group_size(entries: int, levels: int) -> int:
    """How many entries one object gets where so many levels of objects are still to come."""
    return max(1, round(math.pow(entries, 1 / (levels + 1))))
