"""The page about user-written memory tests: its files make the tests that it says, which run and are scored."""

import asyncio
import json
import re
from pathlib import Path

import pytest
from tests.cli_parts import ROOT, process
from tests.judge_parts import Scripted as Model
from tests.memory_core_parts import run
from tests.memory_session_parts import some_settings

from tunecheck import ConfigurationError
from tunecheck_memory import (
    AskJudge,
    Configuration,
    Consult,
    Effect,
    End,
    EndpointJudge,
    FinishedTest,
    GenerationContext,
    MemoryTest,
    Outcome,
    Points,
    Replied,
    Say,
    Scene,
    Send,
    Test,
    load_wording,
    make_definitions,
    read_configuration,
)

PAGE = (ROOT / "docs" / "memory-kinds.md").read_text("utf-8")


def named_blocks() -> dict[str, str]:
    """The page's files, by the name that stands in their first line."""
    blocks = re.findall(r"^```(?:yaml|python)\n# (\S+)\n(.*?)^```$", PAGE, re.S | re.M)
    return dict(blocks)


@pytest.fixture
def workspace(cwd: Path) -> Path:
    """A folder with the page's files in it."""
    for name, content in named_blocks().items():
        (cwd / name).parent.mkdir(exist_ok=True)
        (cwd / name).write_text(content, "utf-8")
    (prompt,) = re.findall(r"^```prompty\n(.*?)^```$", PAGE, re.S | re.M)
    (cwd / "prompty").mkdir()
    (cwd / "prompty" / "memory_limerick.prompty").write_text(prompt, "utf-8")
    return cwd


@pytest.fixture
def configuration(workspace: Path) -> Configuration:
    return read_configuration(workspace / "benchmark.yml")


def made(configuration: Configuration, title: str) -> list[MemoryTest]:
    making = GenerationContext(seed=configuration.seed, memory_span=configuration.memory_span)
    found = make_definitions(configuration, Path("definitions"), making).definitions
    return [each for each in found if each.title == title]


def score(configuration: Configuration, definition: MemoryTest, *replies: str) -> float | None:
    data_set = next(each for each in configuration.data_sets if each.title == definition.title)
    assert data_set is not None
    found = data_set.kind.score(FinishedTest(definition.title, definition.expected, replies))
    return None if found is None else found.score


def test_the_configuration_names_every_file_of_the_page(configuration: Configuration) -> None:
    titles = [each.title for each in configuration.data_sets]
    assert titles == ["Colours", "Birthdays", "Limerick"]
    assert [each.examples for each in configuration.data_sets] == [2, 2, 2]


def test_the_class_makes_the_same_tests_each_time_and_scores_them(workspace: Path) -> None:
    tests = [made(read_configuration(workspace / "benchmark.yml"), "Birthdays") for _ in range(2)]
    assert tests[0] == tests[1]
    one = tests[0][0]
    assert len(one.script) == 5
    configuration = read_configuration(workspace / "benchmark.yml")
    assert score(configuration, one, f"On May {one.expected[0]} I think") == 1
    assert score(configuration, one, "") == 0


def test_an_argument_that_the_class_refuses_is_reported_with_its_line(workspace: Path) -> None:
    file = workspace / "benchmark.yml"
    file.write_text(file.read_text().replace("people: 4", "people: 40"))
    with pytest.raises(ConfigurationError, match=r"benchmark\.yml, line \d+: people must be from 1 to 6, not 40"):
        read_configuration(file)


def conversation(configuration: Configuration) -> list[tuple[Effect, Outcome]]:
    """All tests of the page in one conversation, with an agent that knows one poem and a judge that likes it."""
    tests = [
        Test(definition, data_set.kind)
        for data_set in configuration.data_sets
        for definition in made(configuration, data_set.title)
    ]

    def reply(effect: Effect) -> str:
        if isinstance(effect, Consult):
            judge = EndpointJudge(Model('{"is_limerick": true}'))
            return asyncio.run(judge.ask(AskJudge(effect.purpose, effect.values), key="k")).text or ""
        assert isinstance(effect, Send)
        return "There once was a lighthouse" if effect.message == "Your turn!" else effect.suggested or "Fine."

    return run(tests, some_settings(memory_span=configuration.memory_span), reply)


def test_all_of_them_run_in_one_conversation(configuration: Configuration) -> None:
    events = conversation(configuration)
    ended = {effect.test: effect.points for effect, _ in events if isinstance(effect, End)}
    assert sorted(ended) == [f"{each.title} - {n}" for each in sorted(
        configuration.data_sets, key=lambda one: one.title) for n in (0, 1)]  # fmt: skip
    assert ended["Limerick - 0"] == Points(1, 1, ("promise kept",))
    asked = [effect for effect, _ in events if isinstance(effect, Consult)]
    assert {request.purpose for request in asked} == {"limerick"}
    assert len(asked) == 2


def test_the_dynamic_kind_asks_its_judge_by_the_pages_prompt(workspace: Path) -> None:
    model = Model('{"is_limerick": false}')
    request = AskJudge("limerick", {"subject": "a goat in a lift", "poem": "There once was a goat."})
    assert json.loads(asyncio.run(EndpointJudge(model).ask(request, key="k")).text or "") == {"is_limerick": False}
    assert "a goat in a lift" in str(model.requests[0].messages[1]["content"])


def test_the_dynamic_kind_keeps_score_itself(configuration: Configuration) -> None:
    data_set = next(each for each in configuration.data_sets if each.title == "Limerick")
    assert data_set is not None
    for judged, points in (('{"is_limerick": true}', 1), ('{"is_limerick": 1}', 0), ("?", 0), ("[]", 0)):
        scene = Scene(lambda: 0, GenerationContext(1, 1).random("Limerick", "0"), load_wording())
        steps = data_set.kind.steps(made(configuration, "Limerick")[0], scene)
        first = next(steps)
        assert isinstance(first, Say)
        assert "recite a limerick about" in first.message
        for reply in ("Fine.", None, "There once was"):
            steps.send(Replied(reply, 0, 0))
        with pytest.raises(StopIteration) as end:
            steps.send(Replied(judged, 0, 0))
        assert isinstance(end.value.value, Points)
        assert end.value.value.points == points


def test_the_workspaces_memory_folder_holds_kinds_by_name(workspace: Path) -> None:
    (workspace / "memory").mkdir()
    (workspace / "kinds" / "birthdays.py").rename(workspace / "memory" / "birthdays.py")
    file = workspace / "benchmark.yml"
    file.write_text(file.read_text().replace("kinds/birthdays.py", "birthdays"))
    assert "Birthdays" in {each.title for each in read_configuration(file).data_sets}
    done = process(workspace, "plugins")
    assert done.code == 0
    assert "birthdays" in done.out
