"""Find duplicate rows, near duplicates, rows of the training data, and equal requests with different calls."""

from __future__ import annotations

import heapq
from array import array
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import TypeAlias

from tunecheck.plugins import dumps
from tunecheck_authoring._audit.dialogue import Dialogue, texts_in
from tunecheck_authoring._audit.findings import AuditFinding, found
from tunecheck_authoring._audit.given import words

_SHINGLE = 3
_SKETCH = 64
_KEYS = 8
"""Two rows are compared if they share one of this many smallest hashes of their sketches."""
_NEAR = 0.8
_MOST_TOGETHER = 20
"""The most rows of one key that are compared: a key that all rows share distinguishes none."""
_SHORTEST_PATH = 2
_FEWEST_WORDS = 6

Sketch: TypeAlias = "array[int]"


@dataclass(frozen=True, slots=True)
class KnownRow:
    """The digest of a row for comparisons: its messages, functions and calls, and a sketch of its wording.

    Rows of one `cluster` derive from one another by declaration, and are not compared.
    """

    name: str
    said: bytes
    offered: bytes
    path: tuple[str, ...]
    sketch: Sketch
    asked: tuple[bytes, ...]
    told: tuple[bytes, ...]
    cluster: object = None

    def is_made_with(self, other: KnownRow) -> bool:
        """True if both rows belong to one declared cluster."""
        return self.cluster is not None and self.cluster == other.cluster

    def continues(self, other: KnownRow) -> bool:
        """True if this row continues the other row's chat; `asked` and `told` are digests of their beginnings."""
        return other.asked[-1] in self.asked and other.told[-1] in self.told


@dataclass
class KnownRows:
    """Rows indexed by wording and calls, so that each new row is compared with few others."""

    _by_words: dict[bytes, KnownRow] = field(default_factory=dict)
    _by_path: dict[tuple[str, ...], KnownRow] = field(default_factory=dict)
    _by_key: dict[int, list[KnownRow]] = field(default_factory=lambda: defaultdict(list))

    def add(self, row: KnownRow) -> None:
        self._by_words.setdefault(row.said, row)
        if len(row.path) >= _SHORTEST_PATH:
            self._by_path.setdefault(row.path, row)
        for key in row.sketch[:_KEYS]:
            together = self._by_key[key]
            together.append(row)
            del together[:-_MOST_TOGETHER]

    def repeated(self, row: KnownRow) -> Iterator[AuditFinding]:
        """Yield the findings if the row repeats one that was added before."""
        same = self._by_words.get(row.said)
        if same is not None and same.is_made_with(row) and same.path == row.path:
            return
        if same is not None and same.path != row.path and same.offered == row.offered:
            evidence = f"{same.name} asks the same, with the same functions; its calls are {_path_text(same.path)}"
            yield found(row.name, "conflicting_answers", f"{evidence}, here {_path_text(row.path)}")
        elif same is not None and same.offered == row.offered:
            yield found(row.name, "near_duplicate", f"{same.name} says the same and asks for the same calls", fix=_DROP)
        elif same is None and (near := self._near(row, but_for_its_chat=True)) is not None:
            yield found(row.name, "near_duplicate", f"{near[0].name} has {near[1]:.0%} of its wording", fix=_DROP)

    def leaked(self, row: KnownRow) -> Iterator[AuditFinding]:
        """Yield the finding if a test row is among these training rows."""
        same = self._by_words.get(row.said)
        if same is not None:
            evidence = f"{same.name} of the training data says the same, word for word"
            yield found(row.name, "in_training_data", evidence, fix=_DROP, certainty="sure")
        elif (near := self._near(row)) is not None:
            evidence = f"{near[0].name} of the training data has {near[1]:.0%} of its wording"
            yield found(row.name, "in_training_data", evidence, fix=_DROP)
        elif row.path in self._by_path:
            evidence = f"{self._by_path[row.path].name} of the training data has the same calls, asked for otherwise"
            yield found(row.name, "in_training_data", f"{evidence}: {_path_text(row.path)}", certainty="look")

    def _near(self, row: KnownRow, *, but_for_its_chat: bool = False) -> tuple[KnownRow, float] | None:
        others = [*{id(other): other for key in row.sketch[:_KEYS] for other in self._by_key.get(key, ())}.values()]
        if but_for_its_chat:
            others = [other for other in others if not (row.continues(other) or other.continues(row))]
            others = [other for other in others if not other.is_made_with(row)]
        measured = [(_alike(row.sketch, other.sketch), other) for other in others]
        share, other = max(measured, key=lambda each: each[0], default=(0.0, None))
        return (other, share) if other is not None and share >= _NEAR else None


_DROP = "leave the row out"


def known_row(dialogue: Dialogue, cluster: object = None) -> KnownRow:
    said = words(" ".join(dialogue.asked))
    start = " ".join(texts_in(dialogue.start))
    shingles = {" ".join(said[at : at + _SHINGLE]) for at in range(max(1, len(said) - _SHINGLE + 1))}
    hashes = (int.from_bytes(_digest(each, 8), "big") for each in shingles)
    sketch = heapq.nsmallest(_SKETCH, hashes) if len(said) >= _FEWEST_WORDS else ()
    defined = {name: dialogue.tools.spelled(name) for name in sorted(dialogue.tools)}
    tools = [f"{name} {dumps(dict(each.parameters)).decode()}" for name, each in defined.items() if each is not None]
    return KnownRow(
        dialogue.name,
        said=_digest("\n".join([*said, *dialogue.told])),
        offered=_digest("\n".join(tools) + start),
        path=dialogue.path,
        sketch=array("Q", sketch),
        asked=_beginnings(dialogue.asked),
        told=_beginnings(dialogue.told),
        cluster=cluster,
    )


def _beginnings(texts: Sequence[str]) -> tuple[bytes, ...]:
    """Return a digest of no text, of the first text, of the first two texts …"""
    state = blake2b(digest_size=16)
    digests = [state.digest()]
    for text in texts:
        state.update(text.encode("utf-8", "replace") + b"\0")
        digests.append(state.digest())
    return tuple(digests)


def _alike(one: Sketch, other: Sketch) -> float:
    """Estimate the share of common shingles of two rows from their smallest hashes (MinHash)."""
    both = heapq.nsmallest(_SKETCH, {*one, *other})
    return len({*one} & {*other} & {*both}) / len(both) if both else 0.0


def _digest(text: str, size: int = 16) -> bytes:
    return blake2b(text.encode("utf-8", "replace"), digest_size=size).digest()


def _path_text(path: Sequence[str]) -> str:
    return ", ".join(path) or "none"
