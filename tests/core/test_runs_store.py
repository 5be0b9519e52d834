"""Run folders: their names, how they are found, and what run.json says."""

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st
from msgspec.structs import replace
from tests.pipeline_parts import length, run
from tests.tables import cases

from tunecheck import BleuScoreEvaluator, ConfigurationError, DataError, Run, find_run
from tunecheck.pipeline import Journal, bind_evaluator
from tunecheck.plugins import EvaluatorEntry, RunFile, replacing, write_file
from tunecheck.runs import (
    _manifest as manifest,
    create_run,
    describe_evaluators,
    list_runs,
    resume_manifest,
    reusable,
    versions,
)
from tunecheck.runs._manifest import Reusable


def made(folder: Path, *names: str) -> list[Run]:
    """Finished runs of these folder names."""
    for name in names:
        (folder / name).mkdir(parents=True)
        (folder / name / "run.json").write_text(f'{{"status": "finished", "name": "{name}"}}')
    return [Run(folder / name) for name in names]


A, B, C = "a-20240101T000000Z-aaaaaa", "with-hyphens-20240102T000000Z-bbbbbb", "a-20240103T000000Z-cccccc"


@cases("runs")
def test_a_run_s_folder_has_its_name_the_time_and_six_digits(tmp_path: Path, name: str, beginning: str) -> None:
    folder = create_run(tmp_path / "deep" / "er", name)[0].folder
    assert folder.name.startswith(beginning)
    assert re.fullmatch(r".+-\d{8}T\d{6}Z-[0-9a-f]{6}", folder.name)


@given(st.text())
def test_no_name_leads_elsewhere(tmp_path_factory: pytest.TempPathFactory, name: str) -> None:
    base = tmp_path_factory.mktemp("runs")
    assert create_run(base, name)[0].folder.parent == base


def test_a_run_is_found_by_its_folder_its_id_its_beginning_and_as_the_last(tmp_path: Path) -> None:
    first, second, third = made(tmp_path, A, B, C)
    assert find_run(tmp_path / A, tmp_path) == first
    assert find_run(str(tmp_path / A), Path("elsewhere")) == first
    assert find_run(B, tmp_path) == second
    assert find_run("with", tmp_path) == second
    assert find_run("last", tmp_path) == third


def test_a_run_of_exactly_this_name_is_meant_though_longer_names_begin_with_it(tmp_path: Path) -> None:
    first, _ = made(tmp_path, "ck1-20240101T000000Z-aaaaaa", "ck10-20240101T000000Z-aaaaaa")
    assert find_run("ck1", tmp_path) == first
    with pytest.raises(ConfigurationError, match="'ck' matches 2 runs"):
        find_run("ck", tmp_path)


@cases("runs")
def test_a_name_that_stands_for_no_run_or_for_several_is_said(tmp_path: Path, name: str, said: str) -> None:
    made(tmp_path, A, B, C)
    with pytest.raises(ConfigurationError, match=said):
        find_run(name, tmp_path)


def test_of_many_runs_that_a_name_stands_for_five_are_named(tmp_path: Path) -> None:
    made(tmp_path, *(f"a-2024010{day}T000000Z-aaaaaa" for day in range(1, 7)))
    with pytest.raises(ConfigurationError, match=r"'a-' matches 6 runs \(.*a-20240105T000000Z-aaaaaa, …\): write more"):
        find_run("a-", tmp_path)


def test_a_name_means_its_newest_run_and_not_longer_names(tmp_path: Path) -> None:
    made(tmp_path, *(f"{name}-2024010{day}T000000Z-aaaaaa" for name, day in (("a", 1), ("a", 2), ("a-b", 3))))
    assert find_run("a", tmp_path).id == "a-20240102T000000Z-aaaaaa"


@pytest.mark.parametrize("ending", ["", "-20240101T000000Z-aaaaaa"], ids=["a name", "a whole id"])
def test_a_run_that_is_not_there_has_the_nearest_names(tmp_path: Path, ending: str) -> None:
    made(tmp_path, "bfcl-simulated-20240101T000000Z-aaaaaa", "notes-20240102T000000Z-bbbbbb")
    with pytest.raises(ConfigurationError, match=f"did you mean 'bfcl-simulated{ending}'"):
        find_run(f"bfcl-simulatd{ending}", tmp_path)


def test_a_folder_that_is_no_run_is_said_to_have_no_run_json(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    problem = r"^\S*data has no run\.json, so it is not a run: name a run's folder or id \(`compare` also reads"
    with pytest.raises(ConfigurationError, match=problem):
        find_run(tmp_path / "data", tmp_path / "eval_results")


def test_the_last_of_no_runs_is_said(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="there is no run 'last'"):
        find_run("last", tmp_path / "nothing")


def test_runs_are_listed_oldest_first_whatever_their_names(tmp_path: Path) -> None:
    made(tmp_path, C, B, A, "odd")
    (tmp_path / "not a run").mkdir()
    (tmp_path / "file").write_text("")
    assert [found.id for found in list_runs(tmp_path)] == ["odd", A, B, C]


def test_runs_of_one_second_are_listed_in_the_order_they_were_made(tmp_path: Path) -> None:
    ids = [run(tmp_path, [{"response": "x"}], evaluators={"e": length}).run_dir.name for _ in range(12)]
    assert [found.id for found in list_runs(tmp_path / "runs")] == ids
    assert find_run("last", tmp_path / "runs").id == ids[-1]


@pytest.mark.parametrize("content", ["", "[]", "{", "null", "\0"])
def test_a_damaged_manifest_is_said_and_lists_all_the_same(tmp_path: Path, content: str) -> None:
    first, second = made(tmp_path, A, A.replace("aaaaaa", "dddddd"))
    (first.folder / "run.json").write_text(content)
    assert list(list_runs(tmp_path)) == [first, second]
    with pytest.raises(ConfigurationError, match=r"run\.json: (cannot be read|the file is not a JSON object)"):
        first.manifest()


def test_a_run_whose_process_is_gone_was_killed(tmp_path: Path) -> None:
    (found,) = made(tmp_path, A)
    found.write(RunFile(status="running"))
    journal = Journal(found.journal)
    assert found.status() == "running"
    journal.close()
    assert found.status() == "killed"


def test_a_finished_run_whose_rows_are_gone_says_so(tmp_path: Path) -> None:
    (found,) = made(tmp_path, A)
    found.write(RunFile(status="finished"))
    with pytest.raises(ConfigurationError, match=r"is finished, but eval_results\.jsonl is missing"):
        found.rows()
    found.results.mkdir()
    with pytest.raises(ConfigurationError, match=r"is finished, but eval_results\.jsonl is missing"):
        found.rows()


@pytest.mark.parametrize(
    "content", [b'{"row_id": "a"}\n{"row_id": "b', b'{"row_id": "a"}\n[1]\n', b'{"row_id": "a"}\n\xff\n']
)
def test_a_damaged_row_names_its_file_and_line(tmp_path: Path, content: bytes) -> None:
    (found,) = made(tmp_path, A)
    found.write(RunFile(status="finished"))
    found.results.write_bytes(content)
    rows = found.rows()
    assert rows[0] == {"row_id": "a"}
    for read in (lambda: list(rows), lambda: rows[1], lambda: rows[1:], lambda: list(rows.only([1]))):
        with pytest.raises(DataError, match=r"eval_results\.jsonl: line 2 is damaged \(.+\): restore"):
            read()


def test_a_run_whose_manifest_does_not_say_how_it_ended_is_unknown(tmp_path: Path) -> None:
    (found,) = made(tmp_path, A)
    found.write(RunFile())
    assert found.status() == "unknown"


def test_an_unfinished_run_has_no_rows_and_no_metrics(tmp_path: Path) -> None:
    (found,) = made(tmp_path, A)
    found.write(RunFile(status="interrupted"))
    problem = rf"run {A} has no results, because it is not finished \(interrupted\)"
    with pytest.raises(ConfigurationError, match=f"{problem}: finish it with the same Python call and resume='{A}'"):
        found.rows()
    place = f"--results-dir {found.folder.parent}"
    for key, words in (("dataset", "evaluate"), ("judge_calibrate", "judge calibrate")):
        found.write(RunFile(status="interrupted", command={key: {}}))
        with pytest.raises(ConfigurationError, match=f"finish it with tunecheck {words} --resume {A} {place}"):
            found.rows()
    advice = "resume the run, or if it has finished, restore the file"
    with pytest.raises(ConfigurationError, match=rf"no metrics\.json: {advice}$"):
        found.metrics()


def test_a_file_is_replaced_as_a_whole(tmp_path: Path) -> None:
    path = tmp_path / "f.json"
    write_file(path, b"one")
    write_file(path, b"two")
    assert path.read_bytes() == b"two"
    assert [entry.name for entry in tmp_path.iterdir()] == ["f.json"]


def test_a_file_is_on_the_disk_before_it_takes_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[bool] = []
    monkeypatch.setattr("os.fsync", lambda number: synced.append((tmp_path / "a").exists()))
    write_file(tmp_path / "a", b"x")
    assert synced == [False]


def test_nobody_can_guess_the_name_of_an_unfinished_file_and_put_a_link_there(tmp_path: Path) -> None:
    with replacing(tmp_path / "a") as first, replacing(tmp_path / "a") as second:
        assert first != second
        first.touch()
        second.touch()


def test_a_file_that_could_not_be_written_stays_what_it_was(tmp_path: Path) -> None:
    path = tmp_path / "f.json"
    path.write_bytes(b"before")

    def half() -> Any:
        with replacing(path) as temporary:
            temporary.write_bytes(b"half of i")
            raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        half()
    assert path.read_bytes() == b"before"
    assert [entry.name for entry in tmp_path.iterdir()] == ["f.json"]


ENDPOINT: dict[str, Any] = {"kind": "openai", "parameters": {"temperature": 0, "top_p": 1}, "fingerprint": "a"}


def of(target: dict[str, Any] | None = None, **fingerprints: str | None) -> RunFile:
    """A run that this target answered, judged by evaluators of these fingerprints."""
    entries = {name: EvaluatorEntry(type="judges.E", fingerprint=known) for name, known in fingerprints.items()}
    return RunFile(status="failed", target=target, evaluators=entries)


def test_an_evaluator_is_called_as_its_users_import_it() -> None:
    bound = [bind_evaluator("own", length, {}), bind_evaluator("bleu", BleuScoreEvaluator(), {})]
    types = {name: entry.type for name, entry in describe_evaluators(bound).items()}
    assert types == {"own": "tests.pipeline_parts.length", "bleu": "tunecheck.BleuScoreEvaluator"}


def test_a_metric_s_range_is_that_which_it_declares() -> None:
    (score,) = describe_evaluators([bind_evaluator("bleu", BleuScoreEvaluator(), {})])["bleu"].metrics
    assert score.range == [0.0, 1.0]


def test_versions_go_on_after_a_package_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifest, "_SHOWN_VERSIONS", ("a package that nobody has", "msgspec"))
    assert versions().keys() == {"python", "msgspec"}


@pytest.mark.parametrize(
    ("before", "now", "held"),
    [
        (of(), of(), Reusable(frozenset(), answers=False)),
        (of(ENDPOINT), of(None), Reusable(frozenset(), answers=False)),
        (of(ENDPOINT), of(ENDPOINT), Reusable(frozenset(), answers=True)),
        (of(ENDPOINT), of(ENDPOINT | {"fingerprint": "b"}), Reusable(frozenset(), answers=False)),
        (of(ENDPOINT), of(ENDPOINT | {"fingerprint": None}), Reusable(frozenset(), answers=False)),
        (of(e="1", f="1", g=None), of(e="1", f="2", g=None, h="1"), Reusable(frozenset("e"), answers=False)),
    ],
)
def test_what_has_not_changed_may_be_reused(before: RunFile, now: RunFile, held: Reusable) -> None:
    assert reusable(before, now) == held


def test_answers_of_a_target_without_a_fingerprint_are_reused_with_a_note_where_its_settings_are_the_same() -> None:
    before = of({"kind": "own", "size": 1, "fingerprint": None})
    same = reusable(before, before)
    assert same.answers
    assert [note[:50] for note in same.notes] == ["answers were reused, but Tunecheck cannot tell whe"]
    assert reusable(before, of({"kind": "own", "size": 2, "fingerprint": None})) == Reusable(frozenset(), answers=False)


def test_a_run_that_goes_on_is_written_in_the_format_of_today() -> None:
    before = replace(of(ENDPOINT, e="1"), format_version=0, name="mine")
    now = of(ENDPOINT, e="1")
    assert resume_manifest("r", before, now, None) == replace(
        now, name="mine", status="running", format_version=now.format_version
    )


@pytest.mark.parametrize(
    ("now", "said"),
    [
        (
            of(ENDPOINT | {"parameters": {"temperature": 1, "top_p": 1}, "fingerprint": "b"}, e="1"),
            r"resumed, because the target's parameters\.temperature changed from 0 to 1: undo the change",
        ),
        (of(ENDPOINT, e="2"), r"resumed, because evaluator 'e' has other code: undo the change"),
        (
            of(None, e="1", f="1"),
            r"resumed, because the run had a target, now it has none; evaluator 'f' is new: undo the change",
        ),
    ],
)
def test_what_keeps_a_run_from_going_on_is_said_part_by_part(now: RunFile, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        resume_manifest("r", of(ENDPOINT, e="1"), now, None)
