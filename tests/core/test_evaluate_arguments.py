"""Arguments and results of `evaluate`, and where Azure AI Evaluation goes wrong."""

import csv
import datetime
import json
import os
import re
import subprocess
import sys
import textwrap
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from tests.cli_parts import write_files
from tests.pipeline_parts import (
    Answering,
    column,
    length,
    metrics_of,
    only_run,
    questions,
    rows_of,
    run,
    strict_json,
    strict_lines,
)
from tests.tables import cases

from tunecheck import ConfigurationError, DataError, RunError, evaluate

DATA = [{"response": "a"}, {"response": "bb"}]


def test_rows_and_metrics_have_azure_s_shape(tmp_path: Path) -> None:
    data = [{"id": "x", "question": "q", "deep": {"a": [1]}}]
    result = run(tmp_path, data, target=Answering(lambda row: {"response": "abc", "n": 1}), evaluators={"e": length})
    assert set(result) == {"rows", "metrics", "studio_url"}
    assert result["studio_url"] is None
    (row,) = rows_of(result)
    assert list(row) == [
        "row_id",
        "row_fingerprint",
        "cause",
        "inputs.id",
        "inputs.question",
        "inputs.deep",
        "outputs.response",
        "outputs.n",
        "outputs.e.length",
    ]
    assert row["inputs.deep"] == {"a": [1]}
    assert metrics_of(result) == {"e.length": 3, "e.scored_count": 1, "e.not_applicable_count": 0, "e.error_count": 0}


def test_a_row_goes_by_its_id_and_without_one_by_its_line(tmp_path: Path) -> None:
    named = run(tmp_path, [{"id": 7, "response": ""}, {"id": "b", "response": ""}], evaluators={"e": length})
    nameless = run(tmp_path, [{"response": ""}, {"response": ""}], evaluators={"e": length})
    assert (column(named, "row_id"), column(nameless, "row_id")) == (["7", "b"], ["row-1", "row-2"])
    assert len(set(column(named, "row_fingerprint"))) == 2
    assert len(set(column(nameless, "row_fingerprint"))) == 1


def test_a_row_s_kind_comes_from_its_ground_truth_and_metrics_are_by_kind(tmp_path: Path) -> None:
    data = [
        {"response": "aa", "ground_truth": "text"},
        {"response": "a", "ground_truth": {"tool_uses": [{"recipient_name": "functions.f", "parameters": {}}]}},
        {"response": "aaa", "ground_truth": None},
        {"response": "a", "ground_truth": [[], ["cd(folder='x')"]]},
        {"response": "aa", "ground_truth": [[], ["no call at all"]]},
    ]
    result = run(tmp_path, data, evaluators={"e": length})
    assert column(result, "row_kind") == ["answer", "call", None, "call", "answer"]
    lengths = {kind: metrics["e.length"] for kind, metrics in result.by_group["row_kind"].items()}
    assert lengths == {"answer": 2, "call": 1}


def test_the_run_folder_holds_what_the_design_says(tmp_path: Path) -> None:
    result = run(tmp_path, DATA, evaluators={"e": length}, evaluation_name="iteration 7", tags={"team": "a"})
    folder = result.run_dir
    assert re.fullmatch(r"iteration-7-\d{8}T\d{6}Z-[0-9a-f]{6}", folder.name)
    assert {path.name for path in folder.iterdir()} == {
        "run.json",
        "journal.jsonl",
        "journal.synced",
        "eval_results.jsonl",
        "eval_results.csv",
        "metrics.json",
    }
    assert strict_lines(folder / "eval_results.jsonl") == rows_of(result)
    summary = strict_json((folder / "metrics.json").read_bytes())
    assert (summary["metrics"], summary["rows"], summary["failed_rows"]) == (metrics_of(result), 2, 0)
    manifest = strict_json((folder / "run.json").read_bytes())
    assert (manifest["status"], manifest["tags"], manifest["id"]) == ("finished", {"team": "a"}, folder.name)
    assert manifest["dataset"]["rows"] == 2
    assert len(manifest["dataset"]["sha256"]) == 64
    assert manifest["versions"]["tunecheck"]
    with (folder / "eval_results.csv").open(encoding="utf-8-sig", newline="") as file:
        assert [row["outputs.e.length"] for row in csv.DictReader(file)] == ["1", "2"]


def test_an_unknown_argument_says_what_was_meant() -> None:
    with pytest.raises(
        ConfigurationError, match="has no argument 'evaluator_configs'; did you mean 'evaluator_config'"
    ):
        evaluate(data=DATA, evaluators={"e": length}, evaluator_configs={})  # type: ignore[call-arg]


@cases("evaluate")
def test_a_wrong_argument_is_reported_before_anything_is_written(
    tmp_path: Path, arguments: dict[str, Any], said: str
) -> None:
    with pytest.raises(ConfigurationError, match=said):
        run(tmp_path, **({"data": DATA, "evaluators": {"e": length}, "target": lambda response: 1} | arguments))
    assert not (tmp_path / "runs").exists()


def test_results_that_cannot_go_anywhere_are_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigurationError, match=r"the run folder .* cannot be made \((Not a directory|File exists)\)"):
        run(tmp_path, DATA, evaluators={"e": length}, results_dir=tmp_path / "file")


@pytest.mark.parametrize("data", [[], iter([]), "nothing.jsonl", 3, {"a": 1}])
def test_data_that_is_none_is_said(tmp_path: Path, data: Any) -> None:
    with pytest.raises(DataError):
        run(tmp_path, data, evaluators={"e": length})
    assert not (tmp_path / "runs").exists()


def test_data_that_breaks_off_half_way_keeps_what_was_done(tmp_path: Path) -> None:
    path = tmp_path / "d.jsonl"
    path.write_text("".join(json.dumps({"response": "x" * n}) + "\n" for n in range(2000)))

    def truncate(response: str) -> str:
        if len(response) == 10:
            path.write_text('{"response": "x"}\n{"respo')
        return response

    with pytest.raises((RunError, DataError)):
        run(tmp_path, path, target=truncate, evaluators={"e": length}, concurrency=1)
    assert only_run(tmp_path).status() in ("stopped", "failed")


def test_the_evaluators_and_mapping_that_a_data_set_declares_are_used_where_none_are_given(cwd: Path) -> None:
    files = {
        "evaluators/words.py": "def words(response): return len(response.split())\n",
        "datasets/d.jsonl": '{"answer": "two words"}\n',
        "datasets/d.yaml": 'evaluators: [words]\ncolumn_mapping: {response: "${data.answer}"}\n',
    }
    write_files(cwd, files)
    assert metrics_of(evaluate(data="d.jsonl"))["words.words"] == 2
    assert "e.length" in metrics_of(evaluate(data="d.jsonl", evaluators={"e": length}))


# -- output_path


def test_output_path_is_one_strict_json_file_of_azure_s_shape(tmp_path: Path) -> None:
    result = run(tmp_path, DATA, evaluators={"e": lambda response: float("nan")}, output_path=tmp_path / "out.json")
    assert strict_json((tmp_path / "out.json").read_bytes()) == dict(result)


def test_each_row_of_the_file_is_one_line_for_every_reader(tmp_path: Path) -> None:
    rows = [{"response": "one\u2028two\u2029three\x85four"}] * 2
    run(tmp_path, rows, evaluators={"e": length}, output_path=tmp_path / "out.json")
    assert len((tmp_path / "out.json").read_text("utf-8").splitlines()) == len(rows) + 2


def test_output_path_may_be_a_folder(tmp_path: Path) -> None:
    run(tmp_path, DATA, evaluators={"e": length}, output_path=tmp_path)
    assert strict_json((tmp_path / "evaluation_results.json").read_bytes())["metrics"]["e.length"] == 1.5


def test_an_output_path_that_cannot_be_written_is_said_and_resuming_the_finished_run_writes_it(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    path = tmp_path / "out" / "x.json"

    def closing(response: str) -> int:
        with suppress(OSError):  # a folder with files stays
            (tmp_path / "out").rmdir()
        return 1

    with pytest.raises(
        RunError,
        match=r"run (rows-\S+) is finished, but \S+out/x\.json cannot be written: No such file or directory; "
        r"correct the cause, then write it with the same Python call and resume='\1'$",
    ):
        run(tmp_path, DATA[:1], evaluators={"e": closing}, output_path=path)
    finished = only_run(tmp_path)
    assert finished.status() == "finished"

    path.parent.mkdir()
    (path.parent / "other").touch()
    run(tmp_path, DATA[:1], evaluators={"e": closing}, output_path=path, resume=finished.id)
    assert strict_json(path.read_bytes())["metrics"]["e.e"] == 1


def test_results_that_stood_there_stay_when_a_run_fails(tmp_path: Path) -> None:
    """Azure leaves half a file over them."""
    path = tmp_path / "out.json"
    path.write_text('{"rows": "before"}')
    failing = {"e": lambda response: {"when": datetime.datetime(2024, 1, 5, tzinfo=datetime.UTC)}}
    with pytest.raises(RunError):
        run(tmp_path, DATA, evaluators=failing, output_path=path, fail_on_evaluator_errors=True)
    assert path.read_text() == '{"rows": "before"}'
    assert [file.name for file in tmp_path.iterdir() if file.name.endswith(".tmp")] == []


def test_a_disk_full_at_the_end_is_said_and_the_run_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tunecheck.evaluation._execution.write_table", full)
    target = Answering()
    with pytest.raises(RunError, match="No space left on device; go on with the same Python call and resume="):
        run(tmp_path, questions(3), target=target, evaluators={"e": length})
    monkeypatch.undo()
    target.asked.clear()
    result = run(tmp_path, questions(3), target=target, evaluators={"e": length}, resume="last")
    assert (target.asked, result.row_count) == ([], 3)


def test_the_folder_is_held_until_the_last_file_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    held: list[str] = []

    def write(path: Path, *_: object) -> None:
        held.append(only_run(tmp_path).status())
        path.touch()

    monkeypatch.setattr("tunecheck.evaluation._execution.write_table", write)
    run(tmp_path, DATA, evaluators={"e": length})
    assert held == ["running"]


def write(path: Path, *lines: str) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def test_dates_and_numbers_in_a_file_stay_what_they_are(tmp_path: Path) -> None:
    data = write(
        tmp_path / "d.jsonl",
        '{"date": "2024-01-05", "created_at": 1700000000, "n": 9007199254740993, "big": 18446744073709551616}',
        '{"date": "2024-13-99", "created_at": null, "n": null, "big": 1.5}',
    )
    result = run(tmp_path, data, evaluators={"e": lambda date: {"type": type(date).__name__}}, output_path=tmp_path)
    assert column(result, "inputs.date") == ["2024-01-05", "2024-13-99"]
    assert column(result, "inputs.created_at") == [1700000000, None]
    assert column(result, "inputs.n") == [9007199254740993, None]
    assert column(result, "inputs.big") == [18446744073709551616, 1.5]
    assert column(result, "outputs.e.type") == ["str", "str"]


def test_the_user_s_data_file_is_never_touched(tmp_path: Path) -> None:
    data = write(tmp_path / "d.jsonl", '{"response": "x"}')
    before = data.read_bytes(), data.stat().st_mtime_ns
    run(tmp_path, data, evaluators={"e": lambda response: 1}, target=lambda response: response)
    assert (data.read_bytes(), data.stat().st_mtime_ns) == before


def test_a_text_score_is_kept_in_its_row(tmp_path: Path) -> None:
    result = run(tmp_path, [{"response": "a"}], evaluators={"j": lambda response: {"score": "1.0"}})
    assert column(result, "outputs.j.score") == ["1.0"]


def test_a_score_of_ten_to_the_25_stays_exact_in_its_row_and_has_its_mean(tmp_path: Path) -> None:
    result = run(tmp_path, [{"response": "a"}], evaluators={"j": lambda response: {"score": 10**25}})
    assert column(result, "outputs.j.score") == [10**25]
    assert metrics_of(result)["j.score"] == 1e25


def test_dicts_of_arguments_are_not_spread_over_columns(tmp_path: Path) -> None:
    """Azure writes hundreds of times the input there."""
    data = [{"expected": {f"f{n}": {f"argument{n}": n}}, "response": "x"} for n in range(300)]
    result = run(tmp_path, data, evaluators={"e": lambda response: 1})
    keys = {key for row in rows_of(result) for key in row}
    assert keys == {"row_id", "row_fingerprint", "cause", "inputs.expected", "inputs.response", "outputs.e.e"}
    written = (result.run_dir / "eval_results.jsonl").stat().st_size
    assert written < 4 * sum(len(str(row)) for row in data)


SEEDED = """
    import sys
    from tunecheck import evaluate
    meta = {"a": {"id": 1}, "b": {"id": 2}}
    rows = [{"meta": meta, "id": n, "tags": ["x", "y"], "g": f"g{n % 3}"} for n in range(20)]
    def judge(id, meta, g):
        return {"a_result": "pass" if id % 2 else "fail", "b": id, **{k: 1 for k in {"p", "q", "r"}}}
    evaluate(data=rows, evaluators={"e": judge, "f": lambda tags: {"n": len(set(tags))}}, results_dir=sys.argv[1],
             group_by=["g", "tags"], workers=0)
"""


def test_nothing_depends_on_the_hash_seed(tmp_path: Path) -> None:
    found = []
    for seed in ("1", "2"):
        command = [sys.executable, "-c", textwrap.dedent(SEEDED), str(tmp_path / seed)]
        subprocess.run(command, env=os.environ | {"PYTHONHASHSEED": seed}, check=True, timeout=60)
        (folder,) = (tmp_path / seed).iterdir()
        # The evaluator itself makes its keys in the seed's order: what they are must not differ, nor the metrics.
        metrics = (folder / "metrics.json").read_text()
        found.append((strict_lines(folder / "eval_results.jsonl"), sorted(metrics.replace(",", "").split())))
    assert found[0] == found[1]
