"""Which rows a run of BFCL asks, and the result files it leaves."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.bfcl_data_parts import make_tree, question
from tests.cli_parts import write_lines
from tests.tables import cases

from tunecheck import ConfigurationError, DataError
from tunecheck_bfcl import CATEGORIES
from tunecheck_bfcl._data.loader import select_rows
from tunecheck_bfcl._evaluation import RunFiles


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of BFCL with three rows in `irrelevance` and one in each other category."""
    data = make_tree(tmp_path)
    rows = [question(f"irrelevance_{number}", {"name": "f", "parameters": {}}) for number in range(3)]
    write_lines(data / CATEGORIES["irrelevance"].questions, rows)
    return tmp_path


def ids(*arguments: Any, **options: Any) -> list[str]:
    return [row.id for row in select_rows(*arguments, **options).rows()]


def test_all_scored_categories_are_asked_unless_some_are_named(copy: Path) -> None:
    found = ids(None, folder=copy)
    assert len(found) == len([each for each in CATEGORIES.values() if each.scored]) + 2
    assert "multi_turn_composite_0" not in found
    assert ids("live_simple,irrelevance", folder=copy) == ["live_simple_0", *[f"irrelevance_{n}" for n in range(3)]]


def test_the_limit_is_of_each_category(copy: Path) -> None:
    assert ids("irrelevance,live_simple", limit=2, folder=copy) == ["irrelevance_0", "irrelevance_1", "live_simple_0"]


def test_rows_are_picked_by_their_ids_in_the_data_s_order(copy: Path) -> None:
    picked = ["irrelevance_2", "multi_turn_composite_0", "irrelevance_0"]
    assert ids(None, ids=picked, folder=copy) == ["irrelevance_0", "irrelevance_2", "multi_turn_composite_0"]


@cases("bfcl")
def test_what_is_not_there_is_said(copy: Path, arguments: dict[str, Any], complaint: str) -> None:
    with pytest.raises(DataError, match=complaint):
        ids(arguments.pop("categories", None), folder=copy, **arguments)


def test_a_limit_of_no_rows_is_refused(copy: Path) -> None:
    with pytest.raises(ConfigurationError, match="`limit` must be at least 1 row, not 0"):
        ids(None, limit=0, folder=copy)


def test_a_copy_that_is_not_there_is_said_with_how_to_get_it(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="tunecheck bfcl get"):
        ids(None, folder=tmp_path)


def test_ids_are_stable_and_the_selection_is_told_apart_by_its_digest(copy: Path) -> None:
    scans = [select_rows("irrelevance", limit=limit, folder=copy).scan() for limit in (None, 2)]
    assert [scan.rows for scan in scans] == [3, 2]
    assert scans[0].has_ids
    assert scans[0].sha256 != scans[1].sha256


def result_row(row_id: str, category: str, **outputs: Any) -> dict[str, Any]:
    return {
        "row_id": row_id,
        "inputs.category": category,
        **{f"outputs.{name}": value for name, value in outputs.items()},
    }


def test_result_files_stand_by_model_group_and_category(tmp_path: Path) -> None:
    rows = [
        result_row("multi_turn_base_0", "multi_turn_base", result=[["hi"]], inference_log=[], forced_quit=True),
        result_row("live_simple_0-0-0", "live_simple", result=[{"f": "{}"}], input_token_count=5, latency=0.5),
        result_row("simple_java_0", "simple_java", result="no"),
        {"row_id": "simple_java_1", "inputs.category": "simple_java", "error.target": {"type": "E", "message": "m"}},
        result_row("x", "mine", result="no"),
    ]
    written = RunFiles(tmp_path, "org/model")
    written.write(rows)
    files = [file.path for file in written.files.values()]
    assert [path.relative_to(tmp_path).as_posix() for path in files] == [
        "org_model/multi_turn/BFCL_v4_multi_turn_base_result.json",
        "org_model/live/BFCL_v4_live_simple_result.json",
        "org_model/non_live/BFCL_v4_simple_java_result.json",
    ]
    (conversation,), (live,), java = [[json.loads(line) for line in path.open()] for path in files]
    assert conversation["forced_quit"] is True
    counts = {"input_token_count": 5, "output_token_count": 0, "latency": 0.5}
    assert live == {"id": "live_simple_0-0-0", "result": [{"f": "{}"}], **counts}
    assert [line["result"] for line in java] == ["no", "Error during inference: E: m"]
    assert not list(tmp_path.rglob("*.partial"))
