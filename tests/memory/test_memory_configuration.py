"""Configurations: the published ones, unchanged, and errors that name the line."""

import json
from pathlib import Path

import pytest
from checks.goodai_run import read_definitions
from hypothesis import HealthCheck, given, settings, strategies as st
from tests.tables import cases

from tunecheck import ConfigurationError, DataError
from tunecheck_memory import Configuration, MemoryTest, Wait, read_configuration, write_definitions
from tunecheck_memory._benchmark import definition_data, definition_path, read_definition
from tunecheck_memory._kind import default_waits

SMALL = """\
config:
  run_name: Small
  debug: True
  incompatibilities:
    - - names
      - name_list
datasets:
  args:
    memory_span: 5000
    dataset_examples: 2
    seed: 7
  datasets:
    - name: colours
      args:
        colour_changes: 4
    - name: jokes
      args: {dataset_examples: 5, memory_span: 9000, seed: 8}
"""

PUBLISHED = {"1k": 1_000, "32k": 32_000, "120k": 120_000, "200k": 200_000, "500k": 500_000}


def read(folder: Path, content: str, seed: int | None = None) -> Configuration:
    (folder / "a.yml").write_text(content, "utf-8")
    return read_configuration(folder / "a.yml", seed=seed)


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_published_configurations_are_read_as_they_are(shared_data: Path, name: str) -> None:
    found = read_configuration(shared_data / "ltm" / "configurations" / f"benchmark-v3-{name}.yml")
    assert found.run_name == f"Benchmark 3 - {name}"
    assert {each.memory_span for each in found.data_sets} == {found.memory_span} == {PUBLISHED[name]}
    titles = [each.title for each in found.data_sets]
    assert titles == [
        "Colours", "Shopping", "Locations Directions", "NameList", "Jokes", "SallyAnne", "Prospective Memory",
        "Trigger Response", "Spy Meeting", *(["ChapterBreak"] if name != "1k" else []), "Restaurant",
    ]  # fmt: skip
    assert {each.examples for each in found.data_sets} == {3}
    assert found.incompatibilities == (
        frozenset({"Names", "NameList"}),
        frozenset({"Locations", "Locations Directions"}),
    )
    arguments = {each.title: each.kind.arguments for each in found.data_sets}
    assert arguments["Colours"]["colour_changes"] == 3
    assert arguments["Shopping"]["item_changes"] == 6
    assert arguments["Jokes"]["jokes_told"] == 4
    assert arguments["SallyAnne"]["question_type"] == "theory_of_mind"
    assert found.seed == 0


@pytest.mark.parametrize("name", ["benchmark-1k", "benchmark-10k", "benchmark-v2-1k", "benchmark-v2-10k"])
def test_configurations_of_old_versions_are_refused_with_their_line(shared_data: Path, name: str) -> None:
    with pytest.raises(
        ConfigurationError, match="line 12: no data set of this file has an argument 'filler_tokens_low'"
    ):
        read_configuration(shared_data / "ltm" / "configurations" / "legacy" / f"{name}.yml")


def test_the_configuration_that_stands_with_published_definitions_is_read(shared_data: Path) -> None:
    folder = shared_data / "ltm" / "tests" / "Benchmark 3 - 32k" / "definitions"
    assert len(read_configuration(folder / "config.yml").data_sets) == 11


def test_a_data_set_overrides_what_all_have(tmp_path: Path) -> None:
    colours, jokes = read(tmp_path, SMALL).data_sets
    assert (colours.examples, colours.memory_span, colours.seed) == (2, 5000, 7)
    assert (jokes.examples, jokes.memory_span, jokes.seed) == (5, 9000, 8)


def test_a_seed_from_outside_goes_before_the_files(tmp_path: Path) -> None:
    found = read(tmp_path, SMALL, seed=99)
    assert found.seed == 99
    assert {each.seed for each in found.data_sets} == {99}


def test_an_argument_for_all_goes_to_those_that_take_it(tmp_path: Path) -> None:
    found = read(tmp_path, SMALL.replace("    seed: 7\n", "    colour_changes: 9\n    jokes_told: 2\n"))
    assert [dict(each.kind.arguments) for each in found.data_sets] == [
        {"colour_changes": 4},
        {"jokes_told": 2, "minutes_low": 30, "minutes_high": 240},
    ]


def test_what_may_be_left_out_has_a_default(tmp_path: Path) -> None:
    found = read(tmp_path, "datasets: {datasets: [{name: colours}]}\n")
    assert (found.run_name, found.memory_span, found.seed, found.isolated) == ("a", 32_000, 0, False)
    assert found.data_sets[0].examples == 1
    assert found.incompatibilities == ()


def test_a_configuration_written_out_reads_as_the_same(tmp_path: Path) -> None:
    import yaml

    first = read(tmp_path, SMALL.replace("- - names\n      - name_list", "- [colours, jokes]"))
    assert first.incompatibilities
    second = read(tmp_path, yaml.safe_dump(first.settings()))
    assert [each.recipe() for each in first.data_sets] == [each.recipe() for each in second.data_sets]
    assert (first.incompatibilities, first.run_name) == (second.incompatibilities, second.run_name)
    assert first.settings() == second.settings()


@cases("memory")
def test_what_cannot_be_is_refused_with_its_line(tmp_path: Path, old: str, new: str, problem: str) -> None:
    assert old in SMALL
    with pytest.raises(ConfigurationError, match=problem) as error:
        read(tmp_path, SMALL.replace(old, new, 1))
    assert "\n" not in str(error.value)


@cases("memory")
def test_what_is_no_configuration_is_refused(tmp_path: Path, content: str) -> None:
    with pytest.raises(ConfigurationError, match=r"a\.yml"):
        read(tmp_path, content)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"none\.yml: cannot be read"):
        read_configuration(tmp_path / "none.yml")


# -- definition files: read as published, written again, and refused with file and key where they are none


PLAIN: dict[str, object] = {
    "script": ["My favourite colour is red.", "Which one is it?"],
    "is_question": [False, True],
    "waits": [{"percentage_finished": 45.5, "time": 90000, "tokens": 7}, {}],
    "expected_responses": ["Red"],
    "can_be_interleaved": True,
    "is_temporal": False,
    "uses_callback": False,
}


def written(folder: Path, **changed: object) -> Path:
    file = folder / "definitions" / "Colours" / "0.def.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(PLAIN | changed), "utf-8")
    return file


def test_a_definition_is_named_by_its_folder_and_file(tmp_path: Path) -> None:
    definition = read_definition(written(tmp_path))
    assert (definition.title, definition.example, definition.id) == ("Colours", "0", "Colours - 0")


def test_waits_are_tokens_seconds_of_any_number_of_days_and_percentages(tmp_path: Path) -> None:
    assert read_definition(written(tmp_path)).waits == (Wait(tokens=7, seconds=90_000, percentage=45.5), Wait())


def test_every_published_definition_is_written_as_it_was_read(shared_data: Path, tmp_path: Path) -> None:
    folders = sorted((shared_data / "ltm" / "tests").glob("*/definitions"))
    assert len(folders) == 3
    for folder in folders:
        definitions = read_definitions(folder)
        write_definitions(definitions, tmp_path / folder.parent.name)
        for definition in definitions:
            file = definition_path(tmp_path / folder.parent.name, definition)
            published = json.loads((folder / definition.title / file.name).read_text("utf-8"))
            assert json.loads(file.read_text("utf-8")) == published


def test_missing_waits_are_spread_over_nine_tenths_of_the_span(tmp_path: Path) -> None:
    assert read_definition(written(tmp_path, waits=[])).waits == (Wait(percentage=90.0), Wait())
    assert default_waits(4) == (Wait(percentage=30.0), Wait(percentage=60.0), Wait(percentage=90.0), Wait())
    assert default_waits(1) == (Wait(),)
    assert default_waits(0) == ()


def test_a_temporal_test_has_one_question_more_than_lines(tmp_path: Path) -> None:
    file = written(tmp_path, is_temporal=True, is_question=[False, False, True], waits=[{}, {}, {}])
    assert read_definition(file).is_question == (False, False, True)


@cases("memory")
def test_what_is_wrong_is_named_with_its_file(tmp_path: Path, changed: dict[str, object], problem: str) -> None:
    with pytest.raises(DataError, match=problem) as caught:
        read_definition(written(tmp_path, **changed))
    assert str(caught.value).startswith(str(tmp_path)) and "\n" not in str(caught.value)


@pytest.mark.parametrize("content", [b"", b"[]", b"{", b'"text"', b"\xff\xfe", b'{"script": ' + b"[" * 5000])
def test_a_file_that_is_no_object_is_refused(tmp_path: Path, content: bytes) -> None:
    file = written(tmp_path)
    file.write_bytes(content)
    with pytest.raises(DataError, match=r"0\.def\.json: "):
        read_definition(file)


def test_a_folder_without_definitions_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="holds no definitions"):
        read_definitions(tmp_path)


@pytest.mark.parametrize("name", ["../up", "a/b", "", "..", "nul\0"])
def test_a_name_that_would_leave_the_folder_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(DataError, match="cannot be a file name"):
        definition_path(tmp_path, MemoryTest("Colours", name))
    with pytest.raises(DataError, match="cannot be a file name"):
        definition_path(tmp_path, MemoryTest(name, "0"))


waits = st.builds(
    Wait, tokens=st.integers(0, 10**9), seconds=st.integers(0, 10**9), percentage=st.floats(0, 1000, allow_nan=False)
)


@st.composite
def definitions(draw: st.DrawFn) -> MemoryTest:
    lines = tuple(draw(st.lists(st.text(max_size=20), min_size=1, max_size=5)))
    temporal = draw(st.booleans())
    length = len(lines) + temporal
    return MemoryTest(
        "Title",
        "0",
        lines,
        tuple(draw(st.lists(st.booleans(), min_size=length, max_size=length))),
        tuple(draw(st.lists(waits, min_size=length, max_size=length))),
        draw(st.lists(st.one_of(st.text(max_size=9), st.integers(), st.none(), st.lists(st.text(max_size=3))))),
        can_be_interleaved=draw(st.booleans()),
        is_temporal=temporal,
        uses_callback=draw(st.booleans()),
    )


@given(definitions())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_what_is_written_is_read_again(tmp_path: Path, definition: MemoryTest) -> None:
    write_definitions([definition], tmp_path)
    read = read_definition(definition_path(tmp_path, definition))
    assert definition_data(read) == definition_data(definition)
    assert read.waits == definition.waits and read.id == definition.id
