"""Definitions: made from a configuration, kept next to it, reused, and made anew only on request."""

import json
from pathlib import Path

import pytest
from checks.goodai_run import read_definitions
from tests.memory.test_memory_kinds_chapterbreak import write_passages
from tests.tables import cases

from tunecheck import ConfigurationError
from tunecheck_memory import GenerationContext, make_definitions, read_configuration
from tunecheck_memory._benchmark import DefinitionSet, Mode

CONFIG = """\
config: {run_name: Small}
datasets:
  args: {memory_span: 5000, dataset_examples: 2, seed: SEED}
  datasets:
    - {name: colours, args: {colour_changes: CHANGES}}
    - name: jokes
    - name: restaurant
"""


def make(
    folder: Path,
    *,
    seed: int = 0,
    changes: int = 3,
    mode: Mode | None = None,
    texts: Path | None = None,
    more: str = "",
) -> DefinitionSet:
    config = folder / "config.yml"
    config.write_text(CONFIG.replace("SEED", str(seed)).replace("CHANGES", str(changes)) + more)
    making = GenerationContext(seed, 5000, texts)
    return make_definitions(read_configuration(config), folder / "definitions", making, mode=mode)


def contents(folder: Path) -> dict[str, bytes]:
    return {str(each.relative_to(folder)): each.read_bytes() for each in sorted(folder.rglob("*")) if each.is_file()}


def test_definitions_are_made_and_kept_in_the_published_layout(tmp_path: Path) -> None:
    made = make(tmp_path)
    assert [each.id for each in made.definitions] == [
        "Colours - 0", "Colours - 1", "Jokes - 0", "Jokes - 1", "Restaurant - 0", "Restaurant - 1",
    ]  # fmt: skip
    assert sorted(contents(tmp_path / "definitions")) == [
        "Colours/0.def.json", "Colours/1.def.json", "Jokes/0.def.json", "Jokes/1.def.json", "Restaurant/0.def.json",
        "Restaurant/1.def.json", "config.yml", "made_of.json",
    ]  # fmt: skip
    assert read_definitions(tmp_path / "definitions") == list(made.definitions)


def test_the_next_run_takes_them_as_they_are(tmp_path: Path) -> None:
    first = make(tmp_path)
    before = contents(tmp_path)
    second = make(tmp_path)
    assert second.definitions == first.definitions
    assert contents(tmp_path) == before


def test_what_was_changed_by_hand_is_taken_too(tmp_path: Path) -> None:
    make(tmp_path)
    file = tmp_path / "definitions" / "Colours" / "0.def.json"
    file.write_text(file.read_text().replace("favourite", "preferred"))
    assert any("preferred" in line for line in make(tmp_path).definitions[0].script)


@cases("memory")
def test_those_of_another_configuration_are_refused_with_the_difference(
    tmp_path: Path, change: dict[str, int], difference: str, advice: str
) -> None:
    make(tmp_path)
    before = contents(tmp_path / "definitions")
    with pytest.raises(ConfigurationError) as error:
        make(tmp_path, **change)  # type: ignore[arg-type]
    assert str(error.value).endswith(f"({difference}); {advice}")
    assert contents(tmp_path / "definitions") == before


def test_reusing_takes_them_whatever_they_were_made_of(tmp_path: Path) -> None:
    first = make(tmp_path)
    assert make(tmp_path, seed=5, mode="reuse").definitions == first.definitions


def test_reusing_makes_no_data_set_that_is_not_there(tmp_path: Path) -> None:
    make(tmp_path)
    with pytest.raises(ConfigurationError, match="data set 'Names' has no definitions; make them with --regenerate"):
        make(tmp_path, more="    - name: names\n", mode="reuse")


def test_regenerating_makes_all_of_them_anew(tmp_path: Path) -> None:
    first = make(tmp_path, more="    - name: names\n")
    second = make(tmp_path, seed=5, mode="regenerate")
    assert second.definitions != first.definitions
    assert not (tmp_path / "definitions" / "Names").exists()
    assert make(tmp_path, seed=5).definitions == second.definitions


def test_regenerating_leaves_what_is_none_of_its_business(tmp_path: Path) -> None:
    make(tmp_path)
    (tmp_path / "definitions" / "notes.md").write_text("mine")
    make(tmp_path, seed=5, mode="regenerate")
    assert (tmp_path / "definitions" / "notes.md").read_text() == "mine"


def test_definitions_without_any_record_are_not_taken_silently(tmp_path: Path) -> None:
    first = make(tmp_path)
    for name in ("config.yml", "made_of.json"):
        (tmp_path / "definitions" / name).unlink()
    with pytest.raises(ConfigurationError, match=r"the record of the definitions, is missing; give --regenerate"):
        make(tmp_path)
    assert make(tmp_path, mode="reuse").definitions == first.definitions


def test_published_definitions_are_taken_if_that_is_asked_for(shared_data: Path) -> None:
    ltm = shared_data / "ltm"
    configuration = read_configuration(ltm / "configurations" / "benchmark-v3-32k.yml")
    folder = ltm / "tests" / "Benchmark 3 - 32k" / "definitions"
    made = make_definitions(configuration, folder, GenerationContext(0, 32_000), mode="reuse")
    assert (len(made.definitions), made.left_out) == (33, ())
    with pytest.raises(ConfigurationError, match=r"the record of the definitions, is missing; .* --reuse"):
        make_definitions(configuration, folder, GenerationContext(0, 32_000))


def test_published_configurations_are_made_without_chapterbreak_and_say_so(shared_data: Path, tmp_path: Path) -> None:
    path = shared_data / "ltm" / "configurations" / "benchmark-v3-32k.yml"
    made = make_definitions(read_configuration(path), tmp_path, GenerationContext(0, 32_000))
    assert len(made.definitions) == 30
    (left_out,) = made.left_out
    assert left_out.title == "ChapterBreak"
    assert "--texts" in left_out.reason


CHAPTERBREAK = "    - name: chapterbreak\n"


def test_a_data_set_that_was_left_out_is_made_with_all_others_once_its_texts_are_given(tmp_path: Path) -> None:
    (tmp_path / "books").mkdir()
    write_passages(tmp_path / "books", "A", 8)
    for _ in range(2):
        assert [each.title for each in make(tmp_path, more=CHAPTERBREAK).left_out] == ["ChapterBreak"]
    with pytest.raises(ConfigurationError, match=r"ChapterBreak is new\); give --regenerate to make new definitions$"):
        make(tmp_path, more=CHAPTERBREAK, texts=tmp_path / "books")
    later = make(tmp_path, more=CHAPTERBREAK, texts=tmp_path / "books", mode="regenerate")
    assert later.left_out == ()
    without = make(tmp_path, more=CHAPTERBREAK)
    assert (without.definitions, without.left_out) == (later.definitions, ())


def test_regenerating_without_texts_keeps_the_chapter_breaks_that_are_there(tmp_path: Path) -> None:
    (tmp_path / "books").mkdir()
    write_passages(tmp_path / "books", "A", 8)
    first = make(tmp_path, more=CHAPTERBREAK, texts=tmp_path / "books")
    second = make(tmp_path, more=CHAPTERBREAK, seed=3, mode="regenerate")
    assert second.left_out == ()
    assert [each for each in second.definitions if each.title == "ChapterBreak"] == [
        each for each in first.definitions if each.title == "ChapterBreak"
    ]


def test_a_data_set_without_generator_stops_everything_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="--generator"):
        make(tmp_path, more="    - name: conflicting_personal_info\n")
    assert not (tmp_path / "definitions").exists()


def test_a_test_that_its_span_cannot_hold_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.yml").write_text("datasets: {args: {memory_span: 300}, datasets: [{name: kv}]}")
    configuration = read_configuration(tmp_path / "a.yml")
    with pytest.raises(
        ConfigurationError, match=r"'Key-Value Pairs - 0' has [\d,]+ tokens .* memory_span of 300 tokens"
    ):
        make_definitions(configuration, tmp_path / "d", GenerationContext(0, 300), count=lambda text: len(text) // 4)


def test_a_folder_that_cannot_be_written_to_is_named(tmp_path: Path) -> None:
    (tmp_path / "definitions").write_text("a file")
    with pytest.raises(ConfigurationError, match="definitions: cannot be written"):
        make(tmp_path)


HAIKU = """\
from tunecheck_memory import Kind, scripted_test


class Haiku(Kind):
    name, title = "haiku", "Haiku"

    def definition(self, example, making):
        return scripted_test(self, example, ["An old silent pond"], ["What is silent?"], ["POND"])
"""


def test_a_kinds_own_file_that_has_changed_is_a_difference(tmp_path: Path) -> None:
    (tmp_path / "haiku.py").write_text(HAIKU)
    more = "    - name: haiku.py\n"
    first = make(tmp_path, more=more)
    assert make(tmp_path, more=more).definitions == first.definitions
    (tmp_path / "haiku.py").write_text(HAIKU.replace("POND", "the pond"))
    with pytest.raises(ConfigurationError, match="Haiku was made with sha256"):
        make(tmp_path, more=more)


def test_many_tests_of_a_data_set_come_in_the_same_order_made_or_read(tmp_path: Path) -> None:
    (tmp_path / "a.yml").write_text("datasets: {args: {dataset_examples: 12}, datasets: [{name: colours}]}")
    configuration = read_configuration(tmp_path / "a.yml")
    first = make_definitions(configuration, tmp_path / "d", GenerationContext(0, 1)).definitions
    assert make_definitions(configuration, tmp_path / "d", GenerationContext(0, 1)).definitions == first
    assert len(first) == 12


def test_the_record_says_what_each_data_set_was_made_of(tmp_path: Path) -> None:
    make(tmp_path, seed=4)
    record = json.loads((tmp_path / "definitions" / "made_of.json").read_bytes())
    assert record["Colours"] == {
        "name": "colours", "args": {"colour_changes": 3}, "dataset_examples": 2, "memory_span": 5000, "seed": 4,
    }  # fmt: skip
