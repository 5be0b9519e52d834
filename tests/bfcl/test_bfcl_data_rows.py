"""BFCL as a data set: names and groups, rows of every category, functions as the reference shows them to a model."""

import json
from collections import Counter
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest
from tests.bfcl_data_parts import document, make_tree, question
from tests.bfcl_reference import reference_wheel
from tests.cli_parts import inside, write_lines
from tests.tables import cases

from tunecheck import DataError
from tunecheck.datasets import open_dataset
from tunecheck.plugins import JSON
from tunecheck_bfcl import CATEGORIES, get_bfcl
from tunecheck_bfcl._data.files import GROUPS, HINTS, TOOL_HINTS, Language, named_categories
from tunecheck_bfcl._data.loader import load_bfcl, to_tools, with_hints
from tunecheck_bfcl._data.prompts import OWN_HINTS, Hints, read_hints

SINGLE_TURN = {"id", "category", "check", "language", "messages", "tools", "functions", "ground_truth"}
MULTI_TURN = {
    *("id", "category", "check", "turns", "tools", "functions", "held_out", "held_out_tools"),
    *("initial_config", "involved_classes", "ground_truth", "long_context"),
}


@pytest.fixture(scope="session")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The release's data, unpacked."""
    return get_bfcl(to=tmp_path_factory.mktemp("bfcl") / "data", source=reference_wheel())


@lru_cache
def _rows(names: str, folder: Path) -> list[dict[str, Any]]:
    return [dict(row.values) for row in load_bfcl(f"{names}?data={folder}").rows()]


def _tools(*documents: dict[str, Any], words: Hints = OWN_HINTS) -> list[Any]:
    return to_tools(documents, words)


# Names


@cases("bfcl")
def test_the_categories_are_those_of_v3_with_the_rows_of_the_reference_page(rows: dict[str, int]) -> None:
    assert {name: category.rows for name, category in CATEGORIES.items()} == rows


def test_a_group_stands_for_its_categories_and_each_is_taken_once() -> None:
    names = [category.name for category in named_categories("live_simple, multi_turn,multi_turn_base")]
    assert names == [
        "live_simple",
        *(f"multi_turn_{end}" for end in ("base", "miss_func", "miss_param", "long_context")),
    ]
    assert len(GROUPS["all"]) == 17
    assert len(GROUPS["single_turn"]) == len(GROUPS["live"]) + len(GROUPS["non_live"]) == 13


def test_a_misspelt_category_is_answered_with_the_one_that_was_meant() -> None:
    with pytest.raises(DataError, match="no category 'simple_pyton'; did you mean 'simple_python'"):
        load_bfcl("simple_pyton")


@pytest.mark.parametrize("names", ["", ",", "all,", "x" * 10_000, "\0"])
def test_what_names_no_category_is_an_error_in_one_line(names: str) -> None:
    with pytest.raises(DataError, match="there is no category") as caught:
        load_bfcl(names)
    assert len(str(caught.value)) < 600


def test_without_data_the_error_names_the_command_that_gets_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TUNECHECK_CACHE", str(tmp_path))
    monkeypatch.delenv("TUNECHECK_BFCL", raising=False)
    with pytest.raises(DataError, match="has no BFCL data; get the data with: tunecheck bfcl get"):
        load_bfcl("all")


def test_a_wheel_given_as_the_data_is_answered_with_the_command_that_unpacks_it(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"tunecheck bfcl get --from .*b\.whl"):
        load_bfcl(f"all?data={tmp_path / 'b.whl'}")


def test_the_data_is_found_where_the_environment_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_tree(tmp_path)
    monkeypatch.setenv("TUNECHECK_BFCL", str(tmp_path))
    assert [row.id for row in load_bfcl("irrelevance,live_relevance").rows()] == ["irrelevance_0", "live_relevance_0"]


def test_evaluators_go_by_what_the_rows_are_and_all_are_asked_in_conversations(tmp_path: Path) -> None:
    make_tree(tmp_path)
    declared = {
        names: (data.defaults.evaluators, data.defaults.target)
        for names in ("live", "multi_turn", "all")
        for data in [load_bfcl(f"{names}?data={tmp_path}")]
    }
    assert declared == {
        "live": (["call_check"], "conversation"),
        "multi_turn": (["multi_turn_state"], "conversation"),
        "all": (["multi_turn_state", "call_check"], "conversation"),
    }


# Rows


@pytest.mark.parametrize("name", list(CATEGORIES))
def test_every_category_has_its_rows_and_their_ids_are_unique(copy: Path, name: str) -> None:
    dataset = load_bfcl(f"{name}?data={copy}")
    scan = dataset.scan()
    assert (scan.rows, scan.has_ids) == (CATEGORIES[name].rows, True)
    extra = {"declared"} if CATEGORIES[name].language != "python" else set()
    assert scan.columns == (MULTI_TURN if CATEGORIES[name].multi_turn else SINGLE_TURN | extra)
    assert all(row.values["category"] == name for row in dataset.rows())


def test_counts_of_conversations_are_those_of_the_reference_page(copy: Path) -> None:
    turns, calls, classes = {}, {}, {}
    for name in GROUPS["multi_turn"]:
        rows = _rows(name, copy)
        turns[name] = sum(len(row["turns"]) for row in rows)
        calls[name] = sum(len(turn) for row in rows for turn in row["ground_truth"])
        classes[name] = Counter(each for row in rows for each in row["involved_classes"])
    assert list(turns.values()) == [734, 934, 934, 734]
    assert list(calls.values()) == [1142, 1140, 1140, 1203]
    expected = {"GorillaFileSystem": 50, "VehicleControlAPI": 50, "TradingBot": 50, "TravelAPI": 50}
    expected |= {"MessageAPI": 40, "TwitterAPI": 39, "TicketAPI": 31, "MathAPI": 25}
    assert all(found == expected for found in classes.values())


def test_held_out_functions_are_not_on_offer_and_come_in_a_turn_in_which_nobody_speaks(copy: Path) -> None:
    counts: Counter[int] = Counter()
    for row in _rows("multi_turn_miss_func", copy):
        held_out = row["held_out"]
        assert isinstance(held_out, dict)
        offered = {function["name"] for function in row["functions"]}
        later = [function["name"] for each in held_out.values() for function in each]
        assert not offered & set(later)
        assert all(row["turns"][int(turn)] == [] for turn in held_out)
        assert list(row["held_out_tools"]) == list(held_out)
        counts[len(later)] += 1
    assert counts == {1: 182, 2: 14, 3: 4}


def test_only_functions_on_offer_from_the_start_say_which_language_they_are_in(copy: Path) -> None:
    hint = read_hints(copy / "bfcl_eval")["python"]
    assert hint != OWN_HINTS["python"]
    for row in _rows("multi_turn_miss_func", copy):
        assert all(each["description"].endswith(hint) for each in row["functions"])
        later = [each for documents in row["held_out"].values() for each in documents]
        assert not any(each["description"].endswith(hint) for each in later)


def test_java_and_javascript_rows_keep_the_declared_types_beside_what_the_model_sees(copy: Path) -> None:
    for name in ("simple_java", "simple_javascript"):
        lines = (copy / "bfcl_eval/data" / CATEGORIES[name].questions).read_text(encoding="utf-8").splitlines()
        for row, line in zip(_rows(name, copy), lines, strict=True):
            assert row["declared"] == json.loads(line)["function"]
            for function in row["functions"]:
                properties = function["parameters"]["properties"]
                assert {part["type"] for part in properties.values()} <= {"string"}


def test_rows_share_nothing_so_that_changing_one_changes_no_other(copy: Path) -> None:
    rows = load_bfcl(f"multi_turn_base?data={copy}").rows()
    first: Any = next(rows).values
    for column in ("functions", "tools"):
        for item in first[column]:
            item.clear()
    others: list[Any] = [row.values["functions"] for row in rows]
    assert all(functions[0]["parameters"] for functions in others)


def test_function_names_in_tools_are_those_that_published_runs_answer_with(copy: Path, shared_data: Path) -> None:
    results = shared_data / "bfcl_runs/2025-11-12-main/result/openai_gpt-oss-20b/non_live"
    answers = (results / "BFCL_v4_simple_python_result.json").read_text(encoding="utf-8").splitlines()
    offered = {row["id"]: {tool["function"]["name"] for tool in row["tools"]} for row in _rows("simple_python", copy)}
    for line in answers:
        answer = json.loads(line)
        calls = answer["result"] if isinstance(answer["result"], list) else []
        assert {name for call in calls for name in call} <= offered[answer["id"]]


# Functions


def test_a_float_becomes_a_number_that_says_so() -> None:
    words = {**OWN_HINTS, "floating": " (a float)"}
    (tool,) = _tools(document("f", x={"type": "float", "description": "A size."}), words=words)
    assert tool["function"]["parameters"] == {
        "type": "object",
        "properties": {"x": {"type": "number", "description": "A size. (a float)", "format": "float"}},
        "required": ["x"],
    }


@cases("bfcl")
def test_types_become_those_of_json_schema_at_any_depth(declared: JSON, expected: str) -> None:
    nested: dict[str, JSON] = {"type": declared}
    for _ in range(4):
        nested = {"type": "array", "items": nested}
    (tool,) = _tools(document("f", x=nested))
    found = tool["function"]["parameters"]["properties"]["x"]
    for _ in range(4):
        found = found["items"]
    assert found == {"type": expected}


def test_a_document_keeps_what_a_tool_has_no_place_for_and_its_source_is_left_as_it_was() -> None:
    source = document("a.b.c") | {"response": {"type": "dict"}, "extra": 1}
    before = json.dumps(source)
    (tool,) = _tools(source)
    function = tool["function"]
    assert (function["name"], function["response"], function["extra"]) == ("a_b_c", {"type": "dict"}, 1)
    assert json.dumps(source) == before


@pytest.mark.parametrize(
    "parameters", [None, [], "text", {}, {"properties": None}, {"properties": {"x": None, "y": 3}}]
)
def test_odd_parameters_make_a_tool_all_the_same(parameters: JSON) -> None:
    odd: dict[str, JSON] = {"name": "f", "parameters": parameters}
    (tool,) = _tools(*with_hints([odd], "java", OWN_HINTS))
    assert tool["function"]["parameters"]["type"] == "object"


def test_a_schema_nested_without_end_is_converted_without_end_of_the_stack() -> None:
    nested: dict[str, JSON] = {"type": "dict"}
    for _ in range(2000):
        nested = {"type": "array", "items": nested}
    assert _tools(document("f", x=nested))


def test_java_lists_and_javascript_objects_tell_their_parts_in_words() -> None:
    words = dict(
        zip(
            OWN_HINTS,
            (" py", " java", " js", " any java", " any js", " <", " «", ">", " [", "]", " {", " float"),
            strict=True,
        )
    )
    schemas: dict[str, dict[str, JSON]] = {
        "a": {"type": "ArrayList", "description": "A", "items": {"type": "String"}},
        "b": {"type": "any", "description": "B"},
        "c": {"type": "dict", "description": "C", "properties": {"k": {"type": "integer"}}},
        "d": {"type": "array", "description": "D", "items": {"type": "float"}},
    }
    described = {}
    languages: tuple[Language, ...] = ("java", "javascript")
    for language in languages:
        shown: Any = with_hints([document("f", **schemas)], language, words)[0]
        properties = shown["parameters"]["properties"]
        described[language] = {name: part["description"] for name, part in properties.items()}
    assert described == {
        "java": {"a": "A <ArrayList> [String]", "b": "B any java", "c": "C <dict>", "d": "D <array>"},
        "javascript": {
            "a": "A «ArrayList>",
            "b": "B any js",
            "c": 'C «dict> {{"k": {"type": "integer"}}',
            "d": "D «array> [float]",
        },
    }


def test_a_copy_without_its_own_words_gets_ours(tmp_path: Path) -> None:
    package = make_tree(tmp_path).parent
    (package / HINTS).unlink()
    (package / TOOL_HINTS).unlink()
    assert read_hints(package) == OWN_HINTS
    assert _rows("simple_python", tmp_path)[0]["functions"][0]["description"] == "Does f.g. Write calls in Python 3."


# Broken copies


@cases("bfcl")
def test_a_broken_entry_is_named_with_file_and_line(tmp_path: Path, entry: object, said: str) -> None:
    data = make_tree(tmp_path)
    good = question("ok", document("f"))
    answer: dict[str, object] = {"ground_truth": []}
    write_lines(data / "BFCL_v4_simple_python.json", [good, entry])
    write_lines(data / "possible_answer/BFCL_v4_simple_python.json", [{"id": "ok", **answer}, {"id": "a", **answer}])
    entry_id = entry.get("id") if isinstance(entry, dict) else None
    if entry_id not in ("a", "b"):
        write_lines(data / "possible_answer/BFCL_v4_simple_python.json", [{"id": "ok", **answer}, {"id": 3, **answer}])
    with pytest.raises(DataError, match=rf"BFCL_v4_simple_python\.json, line 2: the entry .* cannot be used: {said}"):
        _rows("simple_python", tmp_path)


@cases("bfcl")
def test_a_broken_conversation_is_named_too(tmp_path: Path, changes: dict[str, object], said: str) -> None:
    data = make_tree(tmp_path)
    path = data / CATEGORIES["multi_turn_base"].questions
    write_lines(path, [json.loads(path.read_text()) | changes])
    with pytest.raises(DataError, match=said):
        _rows("multi_turn_base", tmp_path)


@pytest.mark.parametrize("command", ["score", "show"])
@pytest.mark.parametrize(
    ("truth", "problem"),
    [(None, "ground_truth must be a list, not null or missing"), ([7], "ground_truth[0] must be a list, not a number")],
)
def test_a_broken_ground_truth_is_one_line_for_every_command(
    tmp_path: Path, command: str, truth: JSON, problem: str
) -> None:
    data = make_tree(tmp_path)
    answer = {"id": "multi_turn_base_0", "ground_truth": truth}
    write_lines(data / "possible_answer/BFCL_v4_multi_turn_base.json", [answer])
    write_lines(tmp_path / "m/BFCL_v4_multi_turn_base_result.json", [{"id": "multi_turn_base_0", "result": []}])
    argument = "m" if command == "score" else "multi_turn_base_0"
    said = inside(tmp_path, "bfcl", command, argument, "--data", str(tmp_path))
    place = "BFCL_v4_multi_turn_base.json, line 1: the entry 'multi_turn_base_0' cannot be used: "
    assert (said.code, said.err.count("\n")) == (2, 1)
    assert f"{place}{problem}" in said.err


@cases("bfcl")
def test_questions_and_answers_must_be_as_many(tmp_path: Path, answers: list[object], said: str) -> None:
    data = make_tree(tmp_path)
    write_lines(data / "possible_answer/BFCL_v4_multi_turn_base.json", answers)
    with pytest.raises(DataError, match=said):
        _rows("multi_turn_base", tmp_path)


def test_a_held_out_function_that_no_class_has_is_passed_over(tmp_path: Path) -> None:
    data = make_tree(tmp_path)
    path = data / CATEGORIES["multi_turn_miss_func"].questions
    write_lines(path, [json.loads(path.read_text()) | {"missed_function": {"0": ["second", "third", {}]}}])
    (row,) = _rows("multi_turn_miss_func", tmp_path)
    assert [each["name"] for each in row["held_out"]["0"]] == ["second"]
    assert [each["name"] for each in row["functions"]] == ["first"]


def test_a_file_that_is_missing_is_named(tmp_path: Path) -> None:
    data = make_tree(tmp_path)
    (data / "possible_answer/BFCL_v4_live_simple.json").unlink()
    with pytest.raises(DataError, match=r"possible_answer.BFCL_v4_live_simple\.json: cannot be read"):
        _rows("live_simple", tmp_path)


def test_data_that_changes_after_it_was_checked_is_refused(tmp_path: Path) -> None:
    data = make_tree(tmp_path)
    dataset = load_bfcl(f"multi_turn_base?data={tmp_path}")
    dataset.scan()
    (data / "multi_turn_func_doc/math_api.json").write_text("")
    with pytest.raises(DataError, match="has changed since it was first read"):
        list(dataset.rows())


def test_the_plugin_is_found_by_its_name(tmp_path: Path) -> None:
    make_tree(tmp_path)
    dataset = open_dataset(f"bfcl:simple_java?data={tmp_path}", limit=1)
    assert (dataset.name, [row.id for row in dataset.rows()]) == ("bfcl:simple_java", ["simple_java_0"])
