"""`datasets audit --runs`: rows that all runs fail in the same way."""

from pathlib import Path

from tests.report_parts import make_run, small_rows, tool_call

from tunecheck_authoring._audit.audit import failing_alike


def test_a_row_that_every_run_answers_with_the_same_wrong_calls_is_found(tmp_path: Path) -> None:
    rows = small_rows()
    first = make_run(tmp_path, rows, "first")
    rows[1] = rows[1] | {"response": tool_call("book", day="2026-03-06", people=9)}
    second = make_run(tmp_path, rows, "second")
    found = [(each.id, each.certainty, each.fix) for each in failing_alike([first, second], {"r1", "r2", "r3", "r4"})]
    assert found == [
        ("r3", "likely", 'is book(day="2026-03-05") right?'),
        ("r4", "look", None),  # both refuse: the same cause, and no calls to compare
    ]  # and not r2, which they fail with different numbers of people


def test_one_run_tells_nothing(tmp_path: Path) -> None:
    assert [*failing_alike([make_run(tmp_path, small_rows())], {"r3"})] == []


def test_of_three_runs_two_may_agree_where_all_fail(tmp_path: Path) -> None:
    rows = small_rows()
    runs = [make_run(tmp_path, rows, name) for name in ("first", "second")]
    rows[2] = rows[2] | {"response": tool_call("book", day="2027-01-01")}
    runs.append(make_run(tmp_path, rows, "third"))
    [found] = [each for each in failing_alike(runs, {"r3"}) if each.id == "r3"]
    assert found.certainty == "likely"
    assert found.evidence.startswith('all 3 runs fail it, 2 of them answer book(day="2026-03-05")')


def test_rows_of_another_data_set_are_not_spoken_of(tmp_path: Path) -> None:
    runs = [make_run(tmp_path, small_rows(), name) for name in ("first", "second")]
    assert [*failing_alike(runs, {"other"})] == []
