"""`tunecheck report`: where the file goes, and what it says when there is none to be had."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.cli_parts import here, inside
from tests.report_parts import data_of, make_run, row, small_rows


def test_the_report_lies_in_the_runs_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = make_run(tmp_path, small_rows())
    said = here(capsys, "report", run.id[:12], "--results-dir", str(run.folder.parent))
    assert (said.code, said.out.strip()) == (0, str(run.folder / "report.html"))
    assert (run.folder / "report.html").read_text("utf-8").startswith("<!doctype html>")


def test_out_says_where_else(tmp_path: Path) -> None:
    run = make_run(tmp_path, small_rows())
    said = inside(tmp_path, "report", "last", "--out", "x.html")
    assert (said.code, said.out) == (0, "x.html\n")
    assert (tmp_path / "x.html").is_file()
    assert not (run.folder / "report.html").exists()


def test_any_number_of_runs_are_held_against_the_first(tmp_path: Path) -> None:
    ids = [make_run(tmp_path, small_rows(), name).id for name in ("one", "two", "three")]
    assert inside(tmp_path, "report", ids[2], "--against", ids[0], "--against", ids[1]).code == 0
    against = data_of(tmp_path / "eval_results" / ids[2] / "report.html", "head")["against"]
    assert [each["run"] for each in against["runs"]] == ids[:2]
    assert [each["run"] for each in against["held"]] == ids[1:]
    assert [len(each["values"]) for each in against["history"]] == [3, 3, 3]


def test_results_of_azure_and_of_the_leaderboard_are_reported_too(tmp_path: Path) -> None:
    score = tmp_path / "tree" / "score" / "m" / "BFCL_v4_simple_python_score.json"
    result = tmp_path / "tree" / "result" / "m" / "BFCL_v4_simple_python_result.json"
    names = [f"simple_python_{number}" for number in range(3)]
    for path, lines in (
        (score, [{"accuracy": 2 / 3, "correct_count": 2, "total_count": 3}, {"id": names[1], "error": ["wrong type"]}]),
        (result, [{"id": name, "result": "f()"} for name in names]),
    ):
        path.parent.mkdir(parents=True)
        path.write_text("".join(f"{json.dumps(line)}\n" for line in lines), "utf-8")
    rows = [
        {
            "inputs.id": name,
            "outputs.bfcl_pooled.bfcl_pooled": 1.0,
            "outputs.bfcl_pooled.bfcl_pooled_result": "pass",
            "outputs.fluency.fluency": None,
        }
        for name in names
    ]
    (tmp_path / "evaluation_results.json").write_text(json.dumps({"rows": rows, "metrics": {}}), "utf-8")

    said = inside(tmp_path, "report", "evaluation_results.json", "--against", "tree")
    assert (said.code, "so the report needs a path: --out FILE" in said.err) == (2, True)
    said = inside(
        tmp_path, "report", "evaluation_results.json", "--against", "tree", "--out", "x.html", "--pair-by", "id"
    )
    assert said.code == 0
    index, head = (data_of(tmp_path / "x.html", name) for name in ("index", "head"))
    assert index["ids"] == names
    assert index["outcomes"][0]["results"] == "ppp"
    assert head["against"]["runs"][0]["outcomes"][0]["results"] == "pfp"
    assert inside(tmp_path, "report", "tree", "--out", "y.html").code == 0
    groups = data_of(tmp_path / "y.html", "head")["summary"]["groups"]
    assert ["category", "simple_python", 3] in [[each["column"], each["value"], each["rows"]] for each in groups]


def test_runs_without_a_row_in_common_are_refused_unless_paired_by_id(tmp_path: Path) -> None:
    make_run(tmp_path, [row(1, "x", "x")], "one")
    make_run(tmp_path, [row(1, "other", "x")], "two")
    said = inside(tmp_path, "report", "two", "--against", "one")
    assert said.code == 2
    assert "--pair-by id compares them all the same" in said.err
    assert inside(tmp_path, "report", "two", "--against", "one", "--pair-by", "id").code == 0


def test_a_run_that_is_not_there_is_named(tmp_path: Path) -> None:
    make_run(tmp_path, small_rows(), "one")
    said = inside(tmp_path, "report", "tow")
    assert said.code == 2
    assert said.err.startswith("error: there is no run 'tow'")


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    make_run(tmp_path, small_rows())
    for out in (".", "nowhere/x.html"):
        said = inside(tmp_path, "report", "last", "--out", out)
        assert said.code == 2
        assert f"--out {out}" in said.err
