"""Lists and objects in a call are made of what the service holds, as single arguments are."""

from __future__ import annotations

from typing import Any, ClassVar, cast

import pytest

from tunecheck.plugins import JSON
from tunecheck.simulators import Simulator, tool
from tunecheck_authoring._author.files import AuthoredTask, GraphFile
from tunecheck_authoring._author.graph import find_graph
from tunecheck_authoring._author.paths import sample_tasks
from tunecheck_authoring._author.values import others
from tunecheck_authoring._author.world import World, describe_world


class Club(Simulator):
    """Members, who are added and removed by lists; an empty removal returns that it is done."""

    bounded: ClassVar[bool] = True

    def load(self, config: Any, *, long_context: Any = None) -> None:
        self.members: dict[str, str] = {}
        self.pairs: list[list[str]] = []

    def state(self) -> dict[str, Any]:
        return {"members": [{"name": name, "team": team} for name, team in self.members.items()], "pairs": self.pairs}

    @tool
    def add_member(self, name: str, team: str) -> dict[str, Any]:
        """Add a member.

        Args:
            name: Their name, as "Ada" or "Grace" or "Mary" or "Edith".
            team: Their team, as "red" or "blue".
        """
        self.members[name] = team
        return {"member": {"name": name, "team": team}}

    @tool
    def remove_members(self, names: list[str]) -> dict[str, Any]:
        """Remove members.

        Args:
            names: The names of the members to remove.
        """
        for name in names:
            self.members.pop(name, None)
        return {"status": "removed"}

    @tool
    def pair_up(self, pair: dict[str, str]) -> dict[str, Any]:
        """Pair two members up.

        Args:
            pair: Who plays whom.
        """
        self.pairs.append([*pair.values()])
        return {"status": "paired"}

    @classmethod
    def tool_definitions(cls) -> list[dict[str, JSON]]:
        """With what the pair is made of, which annotations do not say."""
        definitions: Any = super().tool_definitions()
        sides = {side: {"type": "string", "description": "The name of the member"} for side in ("left", "right")}
        pair = definitions[[*cls.operations()].index("pair_up")]["function"]["parameters"]["properties"]["pair"]
        pair.update({"properties": sides, "required": ["left", "right"]})
        return cast("list[dict[str, JSON]]", definitions)


@pytest.fixture(scope="module")
def world() -> World:
    classes = {"club": Club}
    return World.of(classes, describe_world(classes))


@pytest.fixture(scope="module")
def graph(world: World) -> GraphFile:
    return find_graph(world, 5)


@pytest.fixture(scope="module")
def tasks(world: World, graph: GraphFile) -> list[AuthoredTask]:
    return [*sample_tasks(world, graph, 30, (3, 4), 5, lambda task: None)]


def test_a_removal_that_always_says_done_is_seen_to_remove(graph: GraphFile) -> None:
    assert graph.functions["remove_members"].writes
    assert graph.functions["remove_members"].problem is None


def test_places_in_lists_and_objects_have_edges_by_name_and_by_description(graph: GraphFile) -> None:
    edges = {(edge.source, edge.target) for edge in graph.edges}
    assert ("club.members.*.name", "remove_members.names.*") in edges
    assert ("club.members.*.name", "pair_up.pair.left") in edges
    assert ("club.members.*.team", "pair_up.pair.left") not in edges


def test_who_is_removed_was_a_member(tasks: list[AuthoredTask]) -> None:
    removals = 0
    for task in tasks:
        members: set[str] = set()
        for call in task.calls:
            arguments = {name: each.value for name, each in call.arguments.items()}
            if call.function == "add_member":
                members.add(str(arguments["name"]))
            elif call.function == "remove_members":
                assert isinstance(arguments["names"], list)
                assert members & {*map(str, arguments["names"])}
                members -= {*map(str, arguments["names"])}
                removals += 1
    assert removals > 5


def test_a_value_in_an_object_keeps_the_edge_that_it_came_by(tasks: list[AuthoredTask]) -> None:
    pairs = [call for task in tasks for call in task.calls if call.function == "pair_up"]
    fed = [call.arguments["pair"] for call in pairs if call.arguments["pair"].inner]
    assert fed
    assert {edge for each in fed for edge in each.inner.values()} <= {"club.members.*.name", "add_member.member.name"}
    assert all(isinstance(each.value, dict) and len({*each.value.values()}) == 2 for each in fed)


def test_a_mistake_in_a_choice_may_be_another_one_or_none_of_them() -> None:
    schema: dict[str, JSON] = {"type": "string", "enum": ["celsius", "fahrenheit", "kelvin"]}
    assert others("celsius", schema) == ["fahrenheit", "celsius 2", "kelvin"]
