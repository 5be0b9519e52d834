"""The schemas in docs/ are those of the code, and what a run writes fits them."""

import json
import shutil
from pathlib import Path
from typing import Any

import jsonschema_rs
import msgspec
import pytest
from scripts.write_schemas import FOLDER, WRITTEN_BY_PEOPLE, WRITTEN_BY_US, schemas
from tests.bfcl_copy import bfcl_copy
from tests.cli_parts import here, replay, rows, workspace, write_lines
from tests.memory_heard import serving
from tests.tables import cases

from tunecheck import Run, find_run
from tunecheck.episodes import RowVerdict
from tunecheck.plugins import Failure, dumps, load_yaml as yaml_load, loads
from tunecheck_bfcl._summary import verdict_line
from tunecheck_upload import UploadRecord


def check(name: str, content: object) -> None:
    """The content fits the committed schema of that file."""
    schema: Any = json.loads((FOLDER / f"{name}.schema.json").read_text())
    wrong = [error.message for error in jsonschema_rs.validator_for(schema).iter_errors(content)]
    assert not wrong, (name, wrong)


def described(name: str) -> dict[str, Any]:
    """The committed schema's entries for the keys of a file."""
    schema: Any = json.loads((FOLDER / f"{name}.schema.json").read_text())
    kind: str = schema["$ref"].rpartition("/")[2]
    keys: dict[str, Any] = schema["$defs"][kind]["properties"]
    return keys


def check_file(name: str, path: Path) -> None:
    """The file fits its schema, and no key of it is left out there."""
    if path.suffix != ".jsonl":
        content = json.loads(path.read_text())
        check(name, content)
        assert {*content} <= {*described(name)}
        return
    lines = path.read_bytes().splitlines()
    assert lines
    for line in lines:
        check(name, json.loads(line))


def test_the_committed_schemas_are_those_of_the_code() -> None:
    written = schemas()
    assert {path.name: path.read_bytes() for path in FOLDER.glob("*.schema.json")} == written


@pytest.mark.parametrize("name", [name for name in WRITTEN_BY_US if name.endswith(".json")])
def test_each_file_that_we_write_carries_its_version(name: str) -> None:
    assert described(name)["format_version"] == {"type": "integer", "default": 1}


@pytest.mark.parametrize("name", WRITTEN_BY_PEOPLE)
def test_no_file_that_people_write_carries_one(name: str) -> None:
    assert b"format_version" not in (FOLDER / f"{name}.schema.json").read_bytes()


def test_what_people_write_fits() -> None:
    for path in (FOLDER.parent.parent / "datasets").glob("*.yaml"):
        check("sidecar.yaml", yaml_load(path))
    check("evaluate-config.yaml", {"dataset": "val.jsonl", "evaluators": ["bleu", "match"], "limit": 10, "seed": 3})
    check("endpoint-openai.yaml", {"kind": "openai", "url": "https://a.b/v1", "model": "m"})
    check("prices.yaml", {"currency": "EUR", "models": {"m": {"input_per_million": 1, "output_per_million": 2.5}}})


@cases("others")
def test_what_commands_refuse_fits_no_schema(name: str, content: dict[str, object]) -> None:
    with pytest.raises(AssertionError):
        check(name, content)


def test_what_runs_and_commands_write_fits(cwd: Path, capsys: pytest.CaptureFixture[str]) -> None:
    workspace(cwd, rows(8))
    right = {str(row["id"]): row["answer"] for row in rows(8)}
    for name, answers in (("base", right), ("new", {**right, "r0": "no", "r1": None})):
        replay(cwd, answers, name)
        here(capsys, "evaluate", "--dataset", "small.jsonl", "--endpoint", f"endpoints/{name}.yaml", "--name", name)
    run = find_run("new", cwd / "eval_results")
    UploadRecord(run, "https://here").save()
    here(capsys, "compare", "base", "new", "--out", "comparison.json")
    check_file("comparison.json", cwd / "comparison.json")
    for name in ("run.json", "metrics.json", "journal.jsonl", "eval_results.jsonl", "upload.json"):
        check_file(name, run.folder / name)
    written = [json.loads(line)["k"] for line in run.journal.read_bytes().splitlines()]
    assert {"journal", "answer", "verdicts"} <= {*written}


def test_what_a_memory_run_writes_fits(cwd: Path, capsys: pytest.CaptureFixture[str]) -> None:
    configuration: dict[str, object] = {
        "config": {"run_name": "Small"},
        "datasets": {"args": {"memory_span": 900, "dataset_examples": 1}, "datasets": [{"name": "colours"}]},
    }
    check("memory-configuration.yml", configuration)
    (cwd / "small.yml").write_text(json.dumps(configuration))
    (cwd / "endpoints").mkdir()
    with serving() as agent:
        definition = {"kind": "memory_agent", "url": f"http://127.0.0.1:{agent.port}/agent", "auth": {"type": "none"}}
        (cwd / "endpoints" / "agent.yaml").write_text(json.dumps(definition))
        assert here(capsys, "memory", "run", "-c", "small.yml", "--endpoint", "agent").code == 0
    run: Run = find_run("last", cwd / "eval_results")
    check_file("memory-summary.json", run.folder / "memory" / "summary.json")
    check_file("memory-events.jsonl", run.folder / "memory" / "session-1" / "events.jsonl")
    check_file("journal.jsonl", run.journal)
    check_file("run.json", run.manifest_file)


def test_a_row_error_is_described_as_it_is_written(cwd: Path, capsys: pytest.CaptureFixture[str]) -> None:
    workspace(cwd, rows(3))
    replay(cwd, {"r0": rows(3)[0]["answer"]}, "partly")
    here(capsys, "evaluate", "--dataset", "small.jsonl", "--endpoint", "endpoints/partly.yaml")
    failed = [row for row in find_run("last", cwd / "eval_results").rows() if "error.target" in row]
    assert len(failed) == 2
    for row in failed:
        assert msgspec.convert(row["error.target"], Failure).message
        assert {*loads(dumps(row["error.target"]))} <= {"type", "message", "request_id", "cause"}  # type: ignore[misc]


def test_a_line_of_a_verdict_file_fits() -> None:
    verdict = RowVerdict(False, "value_error", 1, "a value")
    check("verdicts.jsonl", loads(dumps(verdict_line("simple_0", verdict))))


@pytest.mark.parametrize("compat", ["bfcl", "strict"])
def test_what_is_written_of_published_results_fits(
    compat: str, shared_data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    results = tmp_path / "results"
    for model, run in (("one", "v0.11.0"), ("two", "2025-11-12-main")):
        for category in ("live_multiple", "multi_turn_base"):
            (file,) = (shared_data / "bfcl_runs" / run / "result").glob(f"*/*/BFCL_v4_{category}_result.json")
            (results / model).mkdir(parents=True, exist_ok=True)
            shutil.copy(file, results / model)
    out = tmp_path / "scores"
    score = ("bfcl", "score", "--data", str(bfcl_copy()), "--compat", compat, "--out", str(out))
    assert here(capsys, *score, str(results)).code == 0
    check_file("bfcl-summaries.json", out / "summary.json")
    for model in ("one", "two"):
        check_file("bfcl-summary.json", out / model / "summary.json")
        verdicts = sorted((out / model).glob("*.verdicts.jsonl"))
        assert [path.name.partition(".")[0] for path in verdicts] == ["live_multiple", "multi_turn_base"]
        for path in verdicts:
            check_file("verdicts.jsonl", path)
    whole = json.loads((out / "summary.json").read_text())["models"]["one"]
    assert {"format_version": 1, **whole} == json.loads((out / "one" / "summary.json").read_text())


def test_a_calibration_fits(cwd: Path, capsys: pytest.CaptureFixture[str]) -> None:
    labels = [("pass", "a b"), ("fail", "c d"), ("fail", "a b"), (None, "a b")]
    lines = [
        {"id": f"r{n}", "response": said, "ground_truth": "a b", "label": label}
        for n, (label, said) in enumerate(labels)
    ]
    write_lines(cwd / "labels.jsonl", lines)
    calibrate = ("judge", "calibrate", "--labels", "labels.jsonl", "--evaluator", "f1_score", "--out", "found.json")
    assert here(capsys, *calibrate).code == 0
    check_file("calibration.json", cwd / "found.json")
    assert json.loads((cwd / "found.json").read_text())["run_dir"].startswith("eval_results")


@pytest.mark.parametrize(
    "path", sorted((FOLDER.parent.parent / "endpoints").glob("*.yaml")), ids=lambda path: path.stem
)
def test_the_definitions_of_endpoints_that_are_shipped_fit(path: Path) -> None:
    definition = yaml_load(path)
    assert isinstance(definition, dict)
    check(f"endpoint-{definition['kind']}.yaml", definition)
