"""The schemas in docs/ are those of the code, and what a run writes fits them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from scripts.write_schemas import FOLDER, WRITTEN_BY_PEOPLE, WRITTEN_BY_US, schemas
from tests.cli_parts import here, replay, rows, workspace
from tests.memory_kill_parts import serving

from tunecheck._json import dumps, loads
from tunecheck._yaml import load as yaml_load
from tunecheck.bfcl._verdicts import Verdict
from tunecheck.runs._store import Run, find_run
from tunecheck.upload._record import UploadRecord


def check(name: str, content: object) -> None:
    """The content fits the committed schema of that file."""
    schema: Any = json.loads((FOLDER / f"{name}.schema.json").read_text())
    wrong = [error.message for error in jsonschema_rs.validator_for(schema).iter_errors(content)]
    assert not wrong, (name, wrong)


def check_file(name: str, path: Path) -> None:
    if path.suffix != ".jsonl":
        check(name, json.loads(path.read_text()))
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
    schema = json.loads((FOLDER / f"{name}.schema.json").read_text())
    (described,) = [each for each in schema["$defs"].values() if "format_version" in each["properties"]]
    assert described["properties"]["format_version"] == {"type": "integer", "default": 1}


@pytest.mark.parametrize("name", WRITTEN_BY_PEOPLE)
def test_no_file_that_people_write_carries_one(name: str) -> None:
    assert b"format_version" not in (FOLDER / f"{name}.schema.json").read_bytes()


def test_what_people_write_fits() -> None:
    for path in (FOLDER.parent.parent / "datasets").glob("*.yaml"):
        check("sidecar.yaml", yaml_load(path))
    check("evaluate-config.yaml", {"dataset": "val.jsonl", "evaluators": ["bleu", "match"], "limit": 10, "seed": 3})
    check("prices.yaml", {"currency": "EUR", "models": {"m": {"input_per_million": 1, "output_per_million": 2.5}}})


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("evaluate-config.yaml", {"evaluater": "bleu"}),
        ("sidecar.yaml", {"column_mapping": ["a"]}),
        ("prices.yaml", {"model": {}}),
    ],
)
def test_what_commands_refuse_fits_no_schema(name: str, content: dict[str, object]) -> None:
    with pytest.raises(AssertionError):
        check(name, content)


def test_what_runs_and_commands_write_fits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(workspace(tmp_path, rows(8)))
    right = {str(row["id"]): row["answer"] for row in rows(8)}
    for name, answers in (("base", right), ("new", {**right, "r0": "no", "r1": None})):
        replay(tmp_path, answers, name)
        here(capsys, "evaluate", "--dataset", "small.jsonl", "--endpoint", f"endpoints/{name}.yaml", "--name", name)
    run = find_run("new", tmp_path / "eval_results")
    UploadRecord(run, "https://here").save()
    here(capsys, "compare", "base", "new", "--out", "comparison.json")
    check_file("comparison.json", tmp_path / "comparison.json")
    for name in ("run.json", "metrics.json", "journal.jsonl", "eval_results.jsonl", "upload.json"):
        check_file(name, run.folder / name)
    written = [json.loads(line)["k"] for line in run.journal.read_bytes().splitlines()]
    assert {"journal", "answer", "verdicts"} <= {*written}


def test_what_a_memory_run_writes_fits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    configuration: dict[str, object] = {
        "config": {"run_name": "Small"},
        "datasets": {"args": {"memory_span": 900, "dataset_examples": 1}, "datasets": [{"name": "colours"}]},
    }
    check("memory-configuration.yml", configuration)
    (tmp_path / "small.yml").write_text(json.dumps(configuration))
    (tmp_path / "endpoints").mkdir()
    with serving() as agent:
        definition = {"kind": "memory_agent", "url": f"http://127.0.0.1:{agent.port}/agent", "auth": {"type": "none"}}
        (tmp_path / "endpoints" / "agent.yaml").write_text(json.dumps(definition))
        assert here(capsys, "memory", "run", "-c", "small.yml", "--endpoint", "agent").code == 0
    run: Run = find_run("last", tmp_path / "eval_results")
    check_file("memory-summary.json", run.folder / "memory" / "summary.json")
    check_file("memory-events.jsonl", run.folder / "memory" / "session-1" / "events.jsonl")
    check_file("journal.jsonl", run.journal)
    check_file("run.json", run.manifest_file)


def test_a_line_of_a_verdict_file_fits() -> None:
    verdict = Verdict(False, "value_error", 1, "a value")
    check("verdicts.jsonl", loads(dumps(verdict.as_line("simple_0"))))


@pytest.mark.parametrize(
    "path", sorted((FOLDER.parent.parent / "endpoints").glob("*.yaml")), ids=lambda path: path.stem
)
def test_the_definitions_of_endpoints_that_are_shipped_fit(path: Path) -> None:
    definition = yaml_load(path)
    assert isinstance(definition, dict)
    check(f"endpoint-{definition['kind']}.yaml", definition)


def test_a_definition_with_an_unknown_key_does_not_fit() -> None:
    schema: Any = json.loads((FOLDER / "endpoint-openai.yaml.schema.json").read_text())
    definition = {"kind": "openai", "url": "https://a.b/v1", "model": "m"}
    assert jsonschema_rs.validator_for(schema).is_valid(definition)
    assert not jsonschema_rs.validator_for(schema).is_valid({**definition, "respnse": "x"})
    assert not jsonschema_rs.validator_for(schema).is_valid({**definition, "limits": {"concurrency": 0}})
