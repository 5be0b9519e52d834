"""What a ground-truth call does to the simulators: the state before and after it, as data that stays as it was."""

from __future__ import annotations

from collections.abc import Callable, ItemsView, Iterator, KeysView, Mapping, Sequence, ValuesView
from dataclasses import dataclass
from itertools import islice
from typing import TypeAlias

from tunecheck._json import JSON
from tunecheck.calls._model import FunctionCall
from tunecheck.simulators._backend import Backend, Result

Path: TypeAlias = "tuple[str | int, ...]"

MAX_CHANGES = 1_000
"""Most differences of two states that are looked at."""

_ABSENT = object()


@dataclass(frozen=True, slots=True)
class Change:
    """One difference: where it is, and whether something stood there before and stands there now."""

    path: Path
    before: object
    after: object

    @property
    def is_new(self) -> bool:
        return self.before is _ABSENT

    @property
    def is_gone(self) -> bool:
        return self.after is _ABSENT


@dataclass(frozen=True, slots=True)
class Step:
    """One call: its result and what it changed."""

    result: Result
    changes: Sequence[Change]

    @property
    def has_effect(self) -> bool:
        """Whether it changed something, or answered with something, and so read it."""
        return bool(self.changes) or self.result.value not in (None, "", (), [], {})


class Replay:
    """A backend whose calls are made one after another, from the state `start`; `state` is what it holds now."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        self.state = copied(backend.states())
        self.start = self.state

    def call(self, call: FunctionCall) -> Step:
        result = self.backend.call(call)
        before, self.state = self.state, copied(self.backend.states())
        return Step(result, list(islice(_changes(before, self.state, ()), MAX_CHANGES)))


class Settings(dict[str, JSON]):
    """A simulator's configuration that notes which of its keys are asked for, by whatever way."""

    def __init__(self, values: Mapping[str, JSON]) -> None:
        super().__init__(values)
        self.asked: set[str] = set()
        self._wholly = False

    @classmethod
    def of(cls, config: Mapping[str, JSON]) -> dict[str, JSON]:
        """The configuration of an entry, each simulator's part as one of these."""
        return {name: cls(part) if isinstance(part, dict) else part for name, part in config.items()}

    def left(self) -> list[str]:
        """The keys that nobody asked for."""
        return [] if self._wholly else [key for key in dict.keys(self) if key not in self.asked]

    def missed(self) -> set[str]:
        """The keys that were asked for and are not there."""
        return {key for key in self.asked if not super(Settings, self).__contains__(key)}

    def __getitem__(self, key: str) -> JSON:
        self.asked.add(key)
        return super().__getitem__(key)

    def get(self, key: str, default: object = None) -> object:  # type: ignore[override]  # as dict has it
        self.asked.add(key)
        return super().get(key, default)

    def __contains__(self, key: object) -> bool:
        if isinstance(key, str):
            self.asked.add(key)
        return super().__contains__(key)

    def _whole(self) -> dict[str, JSON]:
        self._wholly = True
        return dict(zip(dict.keys(self), dict.values(self), strict=True))

    def __iter__(self) -> Iterator[str]:
        return iter(self._whole())

    def keys(self) -> KeysView[str]:  # type: ignore[override]  # a view of a dict of the same
        return self._whole().keys()

    def values(self) -> ValuesView[JSON]:  # type: ignore[override]
        return self._whole().values()

    def items(self) -> ItemsView[str, JSON]:  # type: ignore[override]
        return self._whole().items()

    def copy(self) -> dict[str, JSON]:
        return self._whole()


def leaves(value: object) -> Iterator[object]:
    """Every value in a structure that holds no others."""
    if isinstance(value, Mapping):
        for item in value.values():
            yield from leaves(item)
    elif isinstance(value, (list, tuple, set, frozenset)):
        for item in value:
            yield from leaves(item)
    else:
        yield value


def path_text(path: Path) -> str:
    """`TicketAPI.ticket_queue[2].id`"""
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).removeprefix(".")
    return text if len(text) <= 200 else f"{text[:200]}…"


def copied(value: object) -> object:
    if isinstance(value, Mapping):
        return {key: copied(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [copied(item) for item in value]
    return frozenset(value) if isinstance(value, set) else value


def _changes(before: object, after: object, path: Path) -> Iterator[Change]:
    if isinstance(before, dict) and isinstance(after, dict):
        for key in {**before, **after}:
            step = key if isinstance(key, str) else str(key)
            yield from _changes(before.get(key, _ABSENT), after.get(key, _ABSENT), (*path, step))
    elif isinstance(before, list) and isinstance(after, list):
        for index in range(max(len(before), len(after))):
            old, new = (each[index] if index < len(each) else _ABSENT for each in (before, after))
            yield from _changes(old, new, (*path, index))
    elif before is not after and before != after:
        yield Change(path, before, after)


MAX_TRIALS = 20
"""Most replays of one entry without some part of its configuration."""

Start = Callable[[dict[str, JSON]], Replay]


class ConfigurationSearch:
    """Looks for the part of an entry's configuration that breaks a call; `start` replays from a configuration."""

    def __init__(self, config: dict[str, JSON], start: Start) -> None:
        self._config = config
        self._start = start
        self._trials = 0

    def explains(self, call: FunctionCall, before: Sequence[tuple[FunctionCall, bool]]) -> str | None:
        """Where the configuration holds what makes this call fail or do nothing, or None.

        `before` are the calls made before it and whether each of them failed: none more may fail without that part.
        """
        named = {str(value) for value in leaves(call.arguments) if isinstance(value, (str, int))} - {""}
        for path in _places(self._config, named, ()):
            if self._trials == MAX_TRIALS:
                return None
            self._trials += 1
            if self._works_without(path, call, before):
                return path_text(path)
        return None

    def _works_without(self, path: Path, call: FunctionCall, before: Sequence[tuple[FunctionCall, bool]]) -> bool:
        try:
            replay = self._start(_without(self._config, path))
        except Exception:  # noqa: BLE001 - a user's simulator cannot do without that part, and may raise anything
            return False
        for earlier, failed in before:
            if replay.call(earlier).result.error and not failed:
                return False
        step = replay.call(call)
        return bool(step.changes) and not step.result.error


def collision(call: FunctionCall, step: Step, start: object) -> str | None:
    """Where the call put something new over something that was there from the start, or None.

    New is what the call answers with and was not given: a number that it chose.
    """
    given = {str(value) for value in leaves(call.arguments)}
    answered = [value for value in leaves(step.result.value) if isinstance(value, (str, int))]
    chosen = {str(value) for value in answered if not isinstance(value, bool)} - {"", *given}
    for change in step.changes:
        for depth, part in enumerate(change.path):
            place = change.path[: depth + 1]
            if isinstance(part, str) and part in chosen and not change.is_new and _at(start, place) is not None:
                return path_text(place)
        if change.is_new and isinstance(change.path[-1], int):
            taken = _same_id(change.after, start, change.path[:-1])
            if taken is not None:
                return path_text(taken)
    return None


def _same_id(item: object, start: object, path: Path) -> Path | None:
    """Where a list held, from the start, an item with the id of the new one."""
    others = _at(start, path)
    if not isinstance(item, dict) or not isinstance(others, list) or item.get("id") is None:
        return None
    for index, other in enumerate(others):
        if isinstance(other, dict) and other.get("id") == item["id"]:
            return (*path, index)
    return None


def _at(value: object, path: Path) -> object:
    for step in path:
        if isinstance(value, dict):
            value = next((item for key, item in value.items() if str(key) == step), None)
        elif isinstance(value, list) and isinstance(step, int):
            value = value[step] if step < len(value) else None
        else:
            return None
    return value


def _places(value: JSON, names: set[str], path: Path) -> Iterator[Path]:
    """Where one of these names stands in a configuration, as a key or as an item of a list."""
    if isinstance(value, dict):
        for key, item in value.items():
            if path and key in names:
                yield (*path, key)
            yield from _places(item, names, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            if isinstance(item, (str, int)) and str(item) in names:
                yield (*path, index)
            yield from _places(item, names, (*path, index))


def _without(config: dict[str, JSON], path: Path) -> dict[str, JSON]:
    """A copy of the configuration in which that place is left out."""

    def copied(value: JSON, here: Path) -> JSON:
        if isinstance(value, dict):
            return {key: copied(item, (*here, key)) for key, item in value.items() if (*here, key) != path}
        if isinstance(value, list):
            return [copied(item, (*here, at)) for at, item in enumerate(value) if (*here, at) != path]
        return value

    whole = copied(config, ())
    assert isinstance(whole, dict)
    return whole
