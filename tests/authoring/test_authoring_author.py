"""`datasets author`: rows that hold, made in stages; a person may edit the files of each stage."""

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar, cast

import pytest
import yaml
from tests.authoring_parts import authored, calls_of, lines, passes, workspace
from tests.cli_parts import write_lines
from tests.core.test_schemas import check
from tests.pipeline_parts import column
from tests.tables import cases

from tunecheck import ConfigurationError, evaluate
from tunecheck.cli import main
from tunecheck.endpoints import load_endpoint
from tunecheck.plugins import JSON
from tunecheck.simulators import Simulator, tool
from tunecheck_authoring import AuthorReport
from tunecheck_authoring._author.files import AuthoredTask, GraphFile, Weakness
from tunecheck_authoring._author.graph import find_graph, names_agree
from tunecheck_authoring._author.paths import sample_tasks
from tunecheck_authoring._author.rows import Trial
from tunecheck_authoring._author.wording import VOICES, Ask, details_of, place_text, request_of
from tunecheck_authoring._author.world import World, describe_world, wrong_values
from tunecheck_bfcl import CallCheckEvaluator


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, AuthorReport]]:
    """A set of twelve conversations with the library, each with a variant, split in two."""
    with workspace(tmp_path_factory.mktemp("library")) as folder:
        yield folder, authored(split=0.3, draw=Path("graph.mmd"))


@pytest.fixture
def folder(library: tuple[Path, AuthorReport]) -> Path:
    return library[0]


@pytest.fixture
def rows(folder: Path) -> list[dict[str, Any]]:
    """All rows, of the test set and the training set."""
    return [*lines(folder / "datasets/loans.jsonl"), *lines(folder / "datasets/loans-train.jsonl")]


def of_variant(rows: list[dict[str, Any]], variant: str) -> list[dict[str, Any]]:
    found = [row for row in rows if row["variant"] == variant]
    assert found, f"no row is of variant {variant}"
    return found


def test_the_ground_truth_of_every_row_passes_and_an_agent_that_does_nothing_fails(rows: list[dict[str, Any]]) -> None:
    assert len(of_variant(rows, "base")) == 12
    for row in rows:
        assert passes(row, calls_of(row)), row["id"]
        assert not passes(row, [[] for _ in row["ground_truth"]]), row["id"]


def test_leaving_out_any_call_fails_the_row(rows: list[dict[str, Any]]) -> None:
    for row in rows[::4]:
        turns = calls_of(row)
        for number, turn in enumerate(turns):
            for at in range(len(turn)):
                fewer = [*turns[:number], [*turn[:at], *turn[at + 1 :]], *turns[number + 1 :]]
                assert not passes(row, fewer), (row["id"], turn[at])


def test_the_words_name_what_the_calls_need(rows: list[dict[str, Any]]) -> None:
    for row in of_variant(rows, "base"):
        for messages, turn in zip(row["turns"], calls_of(row), strict=True):
            for call in turn:
                if "title" in call.arguments:
                    words = messages[0]["content"]
                    assert f'"{call.arguments["title"]}"' in words or "first title" in words


def test_a_missing_parameter_is_asked_for_and_said_in_the_next_turn(rows: list[dict[str, Any]]) -> None:
    for row in of_variant(rows, "missing_parameter"):
        at = row["ground_truth"].index([])
        (call,) = calls_of(row)[at + 1]
        before, after = row["turns"][at][0]["content"], row["turns"][at + 1][0]["content"]
        assert any(str(value) in after and str(value) not in before for value in call.arguments.values())


def test_a_missing_function_is_held_out_until_it_is_needed(rows: list[dict[str, Any]]) -> None:
    for row in of_variant(rows, "missing_function"):
        ((turn, names),) = row["held_out"].items()
        assert row["turns"][int(turn)] == [] and row["ground_truth"][int(turn) - 1] == []
        assert [call.name for call in calls_of(row)[int(turn)]] == names
        assert all(call.name not in names for calls in calls_of(row)[: int(turn)] for call in calls)


def test_an_irrelevant_request_is_right_when_nothing_is_called(rows: list[dict[str, Any]]) -> None:
    for row in of_variant(rows, "irrelevant"):
        turns = calls_of(row)
        at = turns.index([])
        spurious = [*turns[:at], calls_of(row)[at - 1][:1], *turns[at + 1 :]]
        assert passes(row, turns) and not passes(row, spurious)


def test_who_changes_their_mind_gets_the_last_value(rows: list[dict[str, Any]]) -> None:
    for row in of_variant(rows, "change_of_mind"):
        said = next(m["content"] for turn in row["turns"] for m in turn if "changed my mind" in m["content"])
        last = said.partition("changed my mind")[2]
        values = [str(value) for turn in calls_of(row) for call in turn for value in call.arguments.values()]
        assert any(value in last for value in values)


def test_distractors_come_with_a_service_that_no_call_uses(rows: list[dict[str, Any]]) -> None:
    for row in of_variant(rows, "distractors"):
        assert row["involved_classes"][0] == "library" and len(row["involved_classes"]) == 2
        assert row["involved_classes"][1] in row["initial_config"]


def test_a_long_context_is_long_and_ends_with_the_request(rows: list[dict[str, Any]]) -> None:
    for row in of_variant(rows, "long_context"):
        long = max((message["content"] for turn in row["turns"] for message in turn), key=len)
        assert len(long) > 4_000 and "What I want from you now: " in long[-600:]


def test_training_and_test_set_share_no_path_and_no_configuration(folder: Path) -> None:
    test, train = (lines(folder / "datasets" / name) for name in ("loans.jsonl", "loans-train.jsonl"))
    assert train and len(train) < len(test)
    for what in ("path", "initial_config", "task"):
        sides = [{json.dumps(row[what], sort_keys=True) for row in rows} for rows in (test, train)]
        assert sides[0].isdisjoint(sides[1]), what


def test_the_graph_says_what_feeds_what_and_what_cannot_be_used(folder: Path) -> None:
    graph = yaml.safe_load((folder / "authoring/loans/graph.yaml").read_text())
    edges = {(edge["source"], edge["target"]) for edge in graph["edges"]}
    assert {("borrow.loan_id", "give_back.loan_id"), ("list_shelf.titles.*", "borrow.title")} <= edges
    assert ["sign_in", "borrow"] in graph["enables"]
    problems = {name: each.get("problem") for name, each in graph["functions"].items()}
    assert "no result depends on tone" in problems["ring_bell"]
    assert "none of the function's trial calls" in problems["open_vault"]
    assert problems["borrow"] is None


def test_the_card_says_what_is_covered_and_why_something_is_not(folder: Path) -> None:
    card = (folder / "datasets/loans.card.md").read_text()
    assert "Functions used: 5 of 7" in card
    assert "`ring_bell`: no result depends on tone" in card
    assert "License" in card
    assert "| variant | rows |" in card and "| function | calls |" in card


def test_the_drawing_has_every_function_and_what_it_gets_from_others(folder: Path) -> None:
    diagram = (folder / "graph.mmd").read_text()
    names = dict(re.findall(r'(\w+)\["(\w+)"\]', diagram))
    assert {"borrow", "give_back"} <= {*names.values()}
    assert 'subgraph "library"' in diagram
    arrows = [(names[one], names[other]) for one, other in re.findall(r'(\w+) -- ".+" --> (\w+)', diagram)]
    assert ("borrow", "give_back") in arrows


@pytest.mark.parametrize("name", ["tasks", "variants", "rejected"])
def test_each_line_of_a_stage_fits_its_schema(folder: Path, name: str) -> None:
    file = folder / "authoring/loans" / f"{name}.jsonl"
    for line in lines(file):
        check(f"authoring-{name}.jsonl", line)
    check("author.json", json.loads((file.parent / "author.json").read_text()))
    for document in ("world", "graph"):
        check(f"authoring-{document}.yaml", yaml.safe_load((file.parent / f"{document}.yaml").read_text()))


def test_the_set_can_be_checked_and_evaluated_at_once(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "datasets/loans.jsonl"]) == 0
    assert main(["evaluate", "--dataset", "datasets/loans.jsonl", "--quiet", "--limit", "3"]) == 0
    assert "eval_results" in capsys.readouterr().out


def test_an_audit_finds_nothing_that_is_probably_wrong(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["datasets", "audit", "datasets/loans.jsonl", "--json"])
    said = json.loads(capsys.readouterr().out)
    assert said["rows"] > 12
    assert [found for found in said["findings"] if found["certainty"] != "look"] == []


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Another workspace; its set has three conversations without variants."""
    with workspace(tmp_path_factory.mktemp("prepared")) as folder:
        authored(tasks=3, variants=["none"], stage="variants")
    return folder


@pytest.fixture
def small(prepared: Path, tmp_path: Path) -> Iterator[Path]:
    """The stages' files of a copy of it, to edit in."""
    shutil.copytree(prepared, tmp_path, dirs_exist_ok=True)
    with workspace(tmp_path):
        yield tmp_path / "authoring/loans"


def test_the_same_seed_makes_the_same_set_and_another_one_another(small: Path) -> None:
    again = authored("again", tasks=3, variants=["none"], stage="variants").work
    other = authored("other", tasks=3, variants=["none"], stage="variants", seed=1).work
    assert (small / "tasks.jsonl").read_bytes() == (again / "tasks.jsonl").read_bytes()
    assert (small / "tasks.jsonl").read_bytes() != (other / "tasks.jsonl").read_bytes()


def test_what_is_unchanged_is_not_made_again(small: Path) -> None:
    report = authored(tasks=3, variants=["none"], stage="variants")
    assert set(report.stages.values()) == {"unchanged"}


@cases("authoring")
def test_a_description_becomes_a_request(description: str, chooses: bool, request_: str) -> None:
    assert request_of("place_order", description, chooses=chooses) == request_


@cases("authoring")
def test_requests_are_worded_as_people_say_them(voice: str, asks: list[tuple[str, dict[str, JSON]]], text: str) -> None:
    assert VOICES[voice]([Ask(request, details_of(values)) for request, values in asks], True) == text


@cases("authoring")
def test_a_value_of_a_result_is_called_by_where_it_stands(path: list[str | int], text: str) -> None:
    assert place_text(path) == text


def test_an_edited_request_is_kept_and_stands_in_the_row(small: Path) -> None:
    tasks = lines(small / "tasks.jsonl")
    tasks[0]["words"][0] = f"Good morning! {tasks[0]['words'][0]}"
    write_lines(small / "tasks.jsonl", tasks)
    report = authored(tasks=3, variants=["none"])
    assert report.stages["tasks.jsonl"] == "edited, and kept"
    assert report.stages["variants.jsonl"] == "made again"
    assert lines(Path("datasets/loans.jsonl"))[0]["turns"][0][0]["content"].startswith("Good morning! ")


def test_a_row_whose_words_leave_a_value_out_is_rejected_with_the_reason(small: Path) -> None:
    tasks = lines(small / "tasks.jsonl")
    needing = next(task for task in tasks if any(mark in "".join(task["words"]) for mark in '"0123456789'))
    needing["words"] = ["Please do what I need." for _ in needing["words"]]
    write_lines(small / "tasks.jsonl", tasks)
    authored(tasks=3, variants=["none"])
    (rejected,) = lines(small / "rejected.jsonl")
    assert rejected["id"] == f"loans-{needing['id']}"
    assert rejected["reason"] == "the request does not state a value"


def test_an_edge_of_ones_own_is_kept_when_the_graph_is_made_again(small: Path) -> None:
    graph = yaml.safe_load((small / "graph.yaml").read_text())
    own = {"source": "leave_note.notes", "target": "borrow.weeks", "found": "own"}
    graph["edges"].append(own)
    (small / "graph.yaml").write_text(yaml.safe_dump(graph))
    world = yaml.safe_load((small / "world.yaml").read_text())
    world["left_out"] = ["open_vault"]
    (small / "world.yaml").write_text(yaml.safe_dump(world))
    assert authored(tasks=3, stage="graph").stages == {"world.yaml": "edited, and kept", "graph.yaml": "made again"}
    graph = yaml.safe_load((small / "graph.yaml").read_text())
    assert own in graph["edges"] and "open_vault" not in graph["functions"]


@cases("authoring")
def test_a_mistake_in_an_edited_file_is_one_line(small: Path, file: str, change: dict[str, Any], words: str) -> None:
    content = yaml.safe_load((small / file).read_text())
    (small / file).write_text(yaml.safe_dump({**content, **change}))
    with pytest.raises(ConfigurationError) as raised:
        authored(tasks=3, stage="graph")
    assert words in str(raised.value) and "\n" not in str(raised.value)


def test_a_configuration_that_a_simulator_refuses_names_the_world_file(tmp_path: Path) -> None:
    with workspace(tmp_path):
        authored(simulators=["GorillaFileSystem"], stage="world")
        path = tmp_path / "authoring/loans/world.yaml"
        configurations = {"GorillaFileSystem": {"root": 3}}
        path.write_text(yaml.safe_dump({**yaml.safe_load(path.read_text()), "configurations": configurations}))
        with pytest.raises(
            ConfigurationError,
            match=r"^world\.yaml: .* GorillaFileSystem cannot start from `configurations` \(initial_config\.",
        ):
            authored(simulators=["GorillaFileSystem"], stage="graph")


def test_where_no_task_holds_it_is_said_why(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Trial, "weakness", lambda self, row: Weakness(reason="it answers by chance"))
    monkeypatch.setattr("tunecheck_authoring._author.paths._WALKS", 5)
    with pytest.raises(ConfigurationError, match=r"only 0 of 4 tasks could be made .*: it answers by chance"):
        authored(tasks=4)


def first(values: list[Any]) -> Any:
    """The first possible value; an object holds possible values for each key."""
    return {key: inner[0] for key, inner in values[0].items()} if isinstance(values[0], dict) else values[0]


def test_single_questions_have_possible_answers(tmp_path: Path) -> None:
    with workspace(tmp_path):
        authored(turns="1", tasks=24, simulators=["library", "TicketAPI"])
        rows = lines(Path("datasets/loans.jsonl"))
        assert main(["check", "datasets/loans.jsonl"]) == 0
    assert {row["variant"] for row in rows} == {"one_call", "parallel", "no_call"}
    judge = CallCheckEvaluator()
    for row in rows:
        right = [
            {name: {each: first(values) for each, values in possible.items()} for name, possible in answer.items()}
            for answer in row["ground_truth"]
        ]
        needed = [
            {name: {each: first(values) for each, values in possible.items() if "" not in values}}
            for answer in row["ground_truth"]
            for name, possible in answer.items()
        ]
        for calls in (right, needed):  # what has a default may be given with it, or left out
            given = [{name: json.dumps(arguments) for name, arguments in call.items()} for call in calls]
            verdict = judge(result=given or "No.", tools=row["tools"], ground_truth=row["ground_truth"])
            assert verdict["call_check"] == 1.0, row
        if row["ground_truth"]:
            assert judge(result="No.", tools=row["tools"], ground_truth=row["ground_truth"])["call_check"] == 0.0


def test_the_simulated_endpoint_without_mistakes_answers_single_questions_right(tmp_path: Path) -> None:
    with workspace(tmp_path):
        authored(turns="1", tasks=24, simulators=["library", "TicketAPI"])
        endpoint = load_endpoint({"kind": "simulated", "rates": {}}, name="right")
        result = evaluate(data="datasets/loans.jsonl", target=endpoint, workers=0)
    assert {*column(result, "inputs.check")} == {"simple", "parallel", "irrelevance"}
    assert {*column(result, "outputs.call_check.call_check_result")} == {"pass"}


@cases("authoring")
def test_a_mistake_on_the_command_line_is_one_line(
    folder: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], words: str
) -> None:
    assert main(["datasets", "author", *arguments]) == 2
    said = capsys.readouterr().err
    assert words in said and said.count("\n") == 1


def test_the_command_says_what_it_made(small: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["datasets", "author", "loans", "--simulator", "simulators/library.py", "--tasks", "3", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["rows"] == sum(said["variants"].values()) >= 3
    assert said["written"] == ["datasets/loans.jsonl", "datasets/loans.yaml", "datasets/loans.card.md"]


@cases("authoring")
def test_the_id_that_a_function_takes_is_that_of_what_it_is_for(source: str, target: str, agree: bool) -> None:
    assert names_agree(source, *target.split(".")) == agree


# -- lists and objects in a call are made of what the service holds, as single arguments are


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
    assert wrong_values("celsius", schema) == ["fahrenheit", "celsius 2", "kelvin"]
