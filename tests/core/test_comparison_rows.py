"""The rows behind a difference: regressed, fixed and changed, with what changed in their reasons."""

from __future__ import annotations

from pathlib import Path

from tests.comparison_parts import declares, passes, row, verdict, write_run

from tunecheck import compare


def run(folder: Path, name: str, verdicts: list[tuple[bool, str | None]]) -> Path:
    rows = [row(number, verdict("match", passed, reason)) for number, (passed, reason) in enumerate(verdicts)]
    return write_run(folder, name, rows, declares("match"))


def faulty(folder: Path, name: str, reason: str, faults: list[dict[str, str]]) -> Path:
    """A run with these faults in its first row."""
    first = row(0, verdict("match", False, reason)) | {"outputs.match.match_properties": {"faults": faults}}
    return write_run(folder, name, [first, row(1, verdict("match", True))], declares("match"))


def test_each_row_that_changed_sides_says_what_its_reason_says_now(tmp_path: Path) -> None:
    base = run(tmp_path, "a", [(True, None), (False, "missing call f()"), (True, None), (False, "same")])
    new = run(tmp_path, "b", [(False, "extra call g()"), (True, None), (True, None), (False, "same")])
    found = compare(base, new).metrics["match"]
    (lost,), (gained,) = found.regressed, found.fixed
    assert (lost.row_id, lost.base, lost.new, lost.base_reason, lost.new_reason) == ("q0", 1, 0, None, "extra call g()")
    assert (gained.row_id, gained.base_reason, gained.new_reason) == ("q1", "missing call f()", None)
    assert found.changed == ()
    assert found.totals == {"regressed": 1, "fixed": 1, "flaky": 0, "changed": 0}


def test_a_row_that_fails_for_another_reason_has_changed(tmp_path: Path) -> None:
    missing = [{"code": "missing_argument", "call": "f", "path": name} for name in "ab"]
    extra = {"code": "extra_call", "call": "g"}
    base, new = faulty(tmp_path, "a", "two faults", missing), faulty(tmp_path, "b", "other faults", [missing[1], extra])
    (change,) = compare(base, new).metrics["match"].changed
    assert (len(change.gone), len(change.come)) == (1, 1)
    assert "missing argument" in change.gone[0]
    assert "extra call" in change.come[0]
    assert [fault.code for fault in change.base_faults] == ["missing_argument"] * 2
    assert change.as_json()["new_faults"] == [missing[1], extra]


def test_an_own_reason_is_compared_as_a_whole(tmp_path: Path) -> None:
    base = run(tmp_path, "a", [(False, "missing call to action; too long"), (True, None)])
    new = run(tmp_path, "b", [(False, "missing call to action; too short"), (True, None)])
    (change,) = compare(base, new).metrics["match"].changed
    assert change.gone == ("missing call to action; too long",)
    assert change.come == ("missing call to action; too short",)
    assert [fault.code for fault in (*change.base_faults, *change.new_faults)] == ["own", "own"]


def test_scores_that_stay_on_their_side_have_changed_the_largest_first(tmp_path: Path) -> None:
    before, after = (
        write_run(
            tmp_path,
            name,
            [row(at, verdict("bleu", value >= 0.5, score=value)) for at, value in enumerate(values)],
            declares("bleu", "score"),
        )
        for name, values in (("a", [0.9, 0.1, 0.2, 0.7]), ("b", [0.8, 0.4, 0.9, 0.7]))
    )
    found = compare(before, after, metrics="bleu.bleu").metrics["bleu.bleu"]
    assert [each.row_id for each in found.changed] == ["q1", "q0"]
    assert [(each.row_id, each.base, each.new) for each in found.fixed] == [("q2", 0.2, 0.9)]


def test_lists_hold_the_first_rows_and_totals_count_all(tmp_path: Path) -> None:
    base, new = passes(tmp_path, "a", [True] * 30), passes(tmp_path, "b", [False] * 30)
    found = compare(base, new, rows=4).metrics["match"]
    assert [each.row_id for each in found.regressed] == ["q0", "q1", "q2", "q3"]
    assert found.totals["regressed"] == 30
    assert len(compare(base, new, rows=None).metrics["match"].regressed) == 30


def test_a_reason_of_megabytes_is_cut(tmp_path: Path) -> None:
    base, new = run(tmp_path, "a", [(True, None)]), run(tmp_path, "b", [(False, "x" * 3_000_000)])
    (lost,) = compare(base, new).metrics["match"].regressed
    assert lost.new_reason is not None
    assert len(lost.new_reason) == 2_000


def repeated(folder: Path, name: str, items: list[list[bool]]) -> Path:
    """Rows in the form of `evaluate --repeat`: `<id>`, `<id>#2` and so on, with columns trial and source_id."""
    rows = []
    for number, trials in enumerate(items):
        for trial, passed in enumerate(trials, 1):
            made = row(
                number,
                verdict("match", passed, None if passed else f"trial {trial}"),
                trial=trial,
                source_id=f"q{number}",
            )
            made["row_id"] = f"q{number}" if trial == 1 else f"q{number}#{trial}"
            rows.append(made)
    return write_run(folder, name, rows, declares("match"))


def test_trials_are_averaged_within_their_row_before_rows_are_compared(tmp_path: Path) -> None:
    base = repeated(tmp_path, "a", [[True, False], [True, True], [False, False]])
    new = repeated(tmp_path, "b", [[True, True], [True, True], [False, True]])
    found = compare(base, new)
    metric = found.metrics["match"]
    assert found.base.trials == 2
    assert found.pairs.paired == metric.difference.n == 3
    assert (metric.base.value, metric.new.value) == (0.5, 5 / 6)
    assert metric.kind == "binary"
    assert metric.b is None
    assert [(each.row_id, each.base, each.new) for each in metric.flaky] == [("q0", 0.5, 1), ("q2", 0, 0.5)]
    assert metric.flaky[0].base_reason == "trial 2"


def test_a_row_whose_trials_disagree_is_flaky_and_not_changed(tmp_path: Path) -> None:
    some, all_of, none = [True, True, False], [True] * 3, [False] * 3
    base = repeated(tmp_path, "a", [some, all_of, none, all_of])
    new = repeated(tmp_path, "b", [some, none, all_of, some])
    metric = compare(base, new).metrics["match"]
    assert {name: [each.row_id for each in getattr(metric, name)] for name in ("regressed", "fixed", "flaky")} == {
        "regressed": ["q1"],
        "fixed": ["q2"],
        "flaky": ["q3", "q0"],
    }


def test_trials_pair_with_a_run_without_any(tmp_path: Path) -> None:
    found = compare(passes(tmp_path, "a", [True, False]), repeated(tmp_path, "b", [[True, False], [True, False]]))
    assert found.pairs.paired == 2
    assert found.metrics["match"].new.value == 0.5


def test_several_runs_are_each_compared_with_the_first_over_rows_that_all_have(tmp_path: Path) -> None:
    first = passes(tmp_path, "a", [False] * 20)
    second = passes(tmp_path, "b", [True] * 10 + [False] * 9)
    third = passes(tmp_path, "c", [True] * 18)
    found = compare(first, second, third)
    assert [run.id for run in found.runs] == [first.name, second.name, third.name]
    assert [each.metrics["match"].verdict for each in found.against] == ["better", "better"]
    assert found.against[0].metrics["match"].difference.n == 19
    (history,) = found.history
    assert [each.value for each in history.values] == [0, 10 / 18, 1]
    assert {each.n for each in history.values} == {18}
