"""Definition files: read as published, written again, and refused with file and key where they are none."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from checks.goodai_run import read_definitions
from hypothesis import HealthCheck, given, settings, strategies as st
from tests.tables import cases

from tunecheck import DataError
from tunecheck_memory import Definition, Wait, write_definitions
from tunecheck_memory._kind import default_waits
from tunecheck_memory._making import definition_data, definition_path, read_definition

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
        files = write_definitions(definitions, tmp_path / folder.parent.name)
        for definition, file in zip(definitions, files, strict=True):
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
    with pytest.raises(DataError, match="cannot be the name of a file"):
        definition_path(tmp_path, Definition("Colours", name))
    with pytest.raises(DataError, match="cannot be the name of a file"):
        definition_path(tmp_path, Definition(name, "0"))


waits = st.builds(
    Wait, tokens=st.integers(0, 10**9), seconds=st.integers(0, 10**9), percentage=st.floats(0, 1000, allow_nan=False)
)


@st.composite
def definitions(draw: st.DrawFn) -> Definition:
    lines = tuple(draw(st.lists(st.text(max_size=20), min_size=1, max_size=5)))
    temporal = draw(st.booleans())
    length = len(lines) + temporal
    return Definition(
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
def test_what_is_written_is_read_again(tmp_path: Path, definition: Definition) -> None:
    read = read_definition(write_definitions([definition], tmp_path)[0])
    assert definition_data(read) == definition_data(definition)
    assert read.waits == definition.waits and read.id == definition.id
