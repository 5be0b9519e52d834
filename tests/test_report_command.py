"""`tunecheck report`: where the file goes, and what it says when there is none to be had."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cli_parts import here, inside
from tests.report_parts import make_run, row, small_rows


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


def test_against_compares_with_another_run(tmp_path: Path) -> None:
    base, new = make_run(tmp_path, small_rows(), "one"), make_run(tmp_path, small_rows(), "two")
    said = inside(tmp_path, "report", new.id, "--against", base.id)
    assert said.code == 0
    assert f'"run":"{base.id}"' in (new.folder / "report.html").read_text("utf-8")


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
