"""Which causes of failures grew between two runs, over the rows that both have."""

from __future__ import annotations

import re
from pathlib import Path

from tests.cli_parts import inside
from tests.comparison_parts import declares, row, verdict, write_run

from tunecheck import compare


def run_with(folder: Path, name: str, *causes: str | None, **more: str) -> Path:
    rows = [
        row(number, verdict("match", cause is None), {"cause": cause} | ({"cause_evidence": more} if cause else {}))
        for number, cause in enumerate(causes)
    ]
    return write_run(folder, name, rows, declares("match"))


def test_causes_are_counted_over_the_rows_of_both_runs(tmp_path: Path) -> None:
    base = run_with(tmp_path, "a", "cut_off", "cut_off", "refusal", "refusal", None)
    new = run_with(tmp_path, "b", "cut_off", "refusal", "refusal", None, "refusal", "loop", message="again")
    found = {each.cause: each for each in compare(base, new).against[-1].causes}
    assert list(found) == ["refusal", "cut_off"]  # the row of the loop is in the new run only
    refusal, cut_off = found.values()
    assert (refusal.base, refusal.new, refusal.only_base, refusal.only_new) == (2, 3, 1, 2)
    assert (cut_off.base, cut_off.new, cut_off.only_base, cut_off.only_new) == (2, 1, 1, 0)
    assert (refusal.side, cut_off.side) == ("model", "serving")


def test_a_run_that_tells_of_no_causes_is_compared_without_them(tmp_path: Path) -> None:
    old = write_run(tmp_path, "old", [row(0, verdict("match", False))], declares("match"))
    assert compare(old, run_with(tmp_path, "new", "refusal")).against[-1].causes == ()


def test_trials_of_one_row_have_the_causes_of_all_of_them(tmp_path: Path) -> None:
    def trials(name: str, *causes: str | None) -> Path:
        rows = [
            row(
                number,
                verdict("match", cause is None),
                {"cause": cause, "row_id": f"q#{number}"},
                source_id="q",
                trial=number,
            )
            for number, cause in enumerate(causes)
        ]
        return write_run(tmp_path, name, rows, declares("match"))

    found = compare(trials("a", None, "cut_off"), trials("b", "refusal", "cut_off"), pair_by="id").against[-1].causes
    assert [(each.cause, each.base, each.new) for each in found] == [("refusal", 0, 1), ("cut_off", 1, 1)]


def test_the_causes_that_grew_come_first(tmp_path: Path) -> None:
    base, new = run_with(tmp_path, "a", "cut_off", None), run_with(tmp_path, "b", "refusal", "refusal")
    said = inside(tmp_path, "compare", str(base), str(new), "--markdown", "out.md", "--details")
    assert said.code == 0, said
    assert said.out.index("why rows failed") < said.out.index("refused") < said.out.index("cut off at the token limit")
    page = (tmp_path / "out.md").read_text("utf-8")
    first, second = ("| refused | 0 | 2 | +2 | 0 | 2 |", "| cut off at the token limit | 1 | 0 | -1 | 1 | 0 |")
    assert re.search(f"{re.escape(first)} .*\n{re.escape(second)} .* serving \\|", page)
