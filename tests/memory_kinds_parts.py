"""Shared parts of the tests of memory kinds: making tests from a seed, and an agent that knows the answers."""

import json
from collections.abc import Mapping, Sequence

from tunecheck.plugins import JSON
from tunecheck_memory import GenerationContext, MemoryTest, find_kind

SCRIPTED = (
    "colours", "names", "name_list", "shopping", "locations", "locations_directions", "jokes", "sallyanne", "kv",
    "delayed_recall", "instruction_recall", "how_to_think", "prospective_memory", "trigger_response", "spy_meeting",
)  # fmt: skip
"""The kinds that need nothing from outside and say lines."""


def tests_of(name: str, seed: int = 0, count: int = 1, **arguments: JSON) -> list[MemoryTest]:
    """The first tests of a kind."""
    return find_kind(name, arguments).definitions(count, GenerationContext(seed, 32_000))


def test_of(name: str, seed: int = 0, **arguments: JSON) -> MemoryTest:
    """The first test of a kind."""
    return tests_of(name, seed, 1, **arguments)[0]


test_of.__test__ = False  # type: ignore[attr-defined]
tests_of.__test__ = False  # type: ignore[attr-defined]


def texts(values: Sequence[JSON]) -> list[str]:
    """Values that are all texts."""
    found = [value for value in values if isinstance(value, str)]
    assert len(found) == len(values)
    return found


def right_replies(definition: MemoryTest) -> list[str]:
    """The replies of an agent that remembers everything, one for each question of the test."""
    expected = definition.expected
    match definition.title:
        case "NameList":
            return [json.dumps(list(expected))]
        case "Shopping":
            pairs = [(item, count) for item, count in expected]
            return [json.dumps([{"item": item, "quantity": count} for item, count in pairs])]
        case "SallyAnne":
            return [json.dumps({"answer": expected[0]})]
        case "Spy Meeting":
            return ["It is about " + ", ".join(str(words[0]) for words in expected) + "."]
        case _:
            return texts(expected)


def replies_since(definition: MemoryTest) -> list[str]:
    """The replies since the question, with the saying at the end of the one that is to have it."""
    saying, _, number = definition.expected[0]
    return [f"All right. {saying}" if turn == number else "All right." for turn in range(1, int(str(number)) + 1)]


def as_rows(value: Mapping[str, JSON]) -> str:
    """One JSON object as a line."""
    return json.dumps(value) + "\n"
