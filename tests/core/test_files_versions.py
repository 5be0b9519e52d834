"""A run that a later version wrote is refused by every command that takes one, and nothing in it is touched."""

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from tests.cli_parts import here, pytest_in, replay, rows, workspace, write_lines

from tunecheck import ConfigurationError, NewerFileError, Run, evaluate, find_run, score
from tunecheck.plugins import check_version, read_object

COMMANDS = {
    "resume": ("evaluate", "--resume", "{run}"),
    "resume with options": ("evaluate", "--dataset", "small.jsonl", "--resume", "{run}"),
    "reuse": ("evaluate", "--reuse", "{run}"),
    "reuse with options": ("evaluate", "--dataset", "small.jsonl", "--reuse", "{run}"),
    "dry run of a resumed run": ("evaluate", "--resume", "{run}", "--dry-run"),
    "score": ("score", "{run}", "--evaluators", "match"),
    "score by the run's own evaluators": ("score", "{run}"),
    "report": ("report", "{run}"),
    "report against it": ("report", "{other}", "--against", "{run}"),
    "compare": ("compare", "{run}", "{other}"),
    "compare with it": ("compare", "{other}", "{run}"),
    "upload": ("upload", "{run}", "--mlflow", "http://127.0.0.1:9"),
    "upload to Foundry": ("upload", "{run}", "--project", "https://a.services.ai.azure.com/api/projects/p"),
    "gate": ("evaluate", "--dataset", "small.jsonl", "--endpoint", "endpoints/e.yaml", "--no-worse-than", "{run}",
             "--margin", "0.1"),
    "bfcl run": ("bfcl", "run", "--resume", "{run}"),
    "memory run": ("memory", "run", "--resume", "{run}"),
    "calibrate": ("judge", "calibrate", "--resume", "{run}"),
    "select": ("select", "{other}", "{run}"),
    "select against it": ("select", "{other}", "{other}", "--base", "{run}"),
    "export": ("datasets", "export", "{run}", "--to", "sft", "--no-test-set", "--out", "sft.jsonl"),
    "export against it": ("datasets", "export", "{other}", "--against", "{run}", "--to", "dpo", "--no-test-set"),
    "audit": ("datasets", "audit", "datasets/multi.jsonl", "--runs", "{other}", "--runs", "{run}"),
}  # fmt: skip


def content_of(folder: Path) -> dict[str, tuple[bytes, int]]:
    return {
        str(path.relative_to(folder)): (path.read_bytes(), path.stat().st_mtime_ns)
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def rewrite(path: Path, version: Mapping[str, object]) -> None:
    content = json.loads(path.read_text())
    for key in ("format_version", "records"):
        content.pop(key, None)
    path.write_text(json.dumps({**content, **version}))


@pytest.fixture
def two_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> tuple[Run, Run]:
    """A run, and a later one in a known version."""
    monkeypatch.chdir(workspace(tmp_path, rows(8)))
    turns = {"question": [[{"role": "user", "content": "x"}]], "ground_truth": [[]], "involved_classes": []}
    write_lines(tmp_path / "datasets" / "multi.jsonl", [{"id": "m", "initial_config": {}, **turns}])
    replay(tmp_path, {str(row["id"]): row["answer"] for row in rows(8)}, "e")
    for name in ("newer", "other"):
        told = here(capsys, "evaluate", "--dataset", "small.jsonl", "--endpoint", "endpoints/e.yaml", "--name", name)
        assert told.code == 0, told.err
    results = tmp_path / "eval_results"
    return find_run("newer", results), find_run("other", results)


def test_functions_refuse_a_run_of_a_later_version(two_runs: tuple[Run, Run]) -> None:
    run, _ = two_runs
    rewrite(run.manifest_file, {"format_version": 2})
    before = content_of(run.folder.parent)
    columns = {"response": "${data.answer}", "ground_truth": "${data.answer}"}
    more = {"evaluators": {"match": "match"}, "evaluator_config": {"default": {"column_mapping": columns}}}
    calls: list[Callable[[], object]] = [
        lambda: evaluate(data="datasets/small.jsonl", resume=run.id, **more),  # type: ignore[arg-type]
        lambda: evaluate(data="datasets/small.jsonl", reuse=run.folder, **more),  # type: ignore[arg-type]
        lambda: score(run.id, evaluators={"match": "match"}),
        run.rows,
        run.manifest,
        run.status,
    ]
    for call in calls:
        with pytest.raises(NewerFileError, match="a newer Tunecheck wrote this file"):
            call()
    assert content_of(run.folder.parent) == before


def test_the_list_says_why_a_run_is_unreadable(two_runs: tuple[Run, Run], capsys: pytest.CaptureFixture[str]) -> None:
    run, other = two_runs
    rewrite(run.manifest_file, {"format_version": 99})
    before = content_of(run.folder.parent)
    listed = {each["run"]: each for each in here(capsys, "runs", "--json").json()}
    assert listed[run.id]["status"] == "unreadable"
    assert "update tunecheck" in listed[run.id]["problem"]
    assert listed[other.id]["status"] == "finished"
    assert "a newer Tunecheck wrote this file" in " ".join(here(capsys, "runs").out.split())
    assert content_of(run.folder.parent) == before


def test_the_pytest_plugin_refuses_a_run_of_a_later_version(two_runs: tuple[Run, Run], tmp_path: Path) -> None:
    run, other = two_runs
    rewrite(run.manifest_file, {"format_version": 99})
    (tmp_path / "test_it.py").write_text(
        f"def test_it(assert_no_regression):\n    assert_no_regression({other.id!r}, {run.id!r})\n"
    )
    told = pytest_in(tmp_path)
    assert "1 failed" in told.out
    assert "update tunecheck" in told.out


@pytest.mark.parametrize("name", ["run.json", "metrics.json", "journal.jsonl", "upload.json"])
def test_a_run_with_a_file_of_a_later_version_is_refused_by_every_command(
    two_runs: tuple[Run, Run], capsys: pytest.CaptureFixture[str], name: str
) -> None:
    run, other = two_runs
    path = run.folder / name
    if name == "upload.json":
        path.write_text('{"format_version": 1, "uploads": {}}')
    path.write_text(re.sub(r'"format_version": ?1', '"format_version": 7', path.read_text(), count=1))
    before = content_of(run.folder.parent)
    for title, command in COMMANDS.items():
        told = here(capsys, *(part.format(run=run.id, other=other.id) for part in command))
        assert told.code == 2, f"{title}: {told}"
        versions = "format_version 7; this version reads at most 1"
        newer = f"{name}: a newer Tunecheck wrote this file ({versions}): update tunecheck"
        assert newer in told.err, title
        assert content_of(run.folder.parent) == before, title


@pytest.mark.parametrize("version", ["1", 1.0, True, None, 0, -1, [1]])
def test_a_version_that_is_none_is_damage(tmp_path: Path, version: object) -> None:
    (tmp_path / "run.json").write_text(json.dumps({"format_version": version}))
    with pytest.raises(ConfigurationError, match=r"run\.json: `format_version` is not a whole number.*restore"):
        read_object(tmp_path / "run.json")


def test_content_without_a_version_is_of_the_first() -> None:
    check_version({}, "run.json")


def test_files_name_an_evaluator_by_its_public_name(two_runs: tuple[Run, Run]) -> None:
    types = {name: entry.type for name, entry in two_runs[0].manifest().evaluators.items()}
    assert types == {
        "function_call_match": "tunecheck.FunctionCallMatchEvaluator", "match": "tunecheck.MatchEvaluator"
    }  # fmt: skip
