"""The sidecar of a data file: what it may hold, and where its mistakes are."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.tables import cases

from tunecheck import ConfigurationError
from tunecheck.datasets import DatasetDefaults, open_dataset, read_sidecar, sidecar_text


def with_sidecar(folder: Path, text: str, name: str = "val.jsonl") -> Path:
    path = folder / name
    path.write_text('{"a": 1}\n')
    path.with_suffix(".yaml").write_text(text, "utf-8")
    return path


def refusal(folder: Path, text: str) -> str:
    path = with_sidecar(folder, text)
    with pytest.raises(ConfigurationError) as caught:
        open_dataset(path)
    return str(caught.value).removeprefix(str(path.with_suffix(".yaml")))


def test_a_file_declares_its_defaults_in_the_yaml_beside_it(tmp_path: Path) -> None:
    path = with_sidecar(
        tmp_path,
        'description: questions\ncolumn_mapping:\n  ground_truth: "${data.answer}"\n  response: ${target.response}\n'
        "evaluators: [bleu, match]\ntarget: blue\ngroup_key: session\n"
        "cluster: scenario\nprimary: match\nstep_limit: 5\nmode:\n"
        "columns: {final_state_only: true}\n",
    )
    assert open_dataset(path).defaults == DatasetDefaults(
        column_mapping={"ground_truth": "${data.answer}", "response": "${target.response}"},
        evaluators=["bleu", "match"],
        target="blue",
        group_key="session",
        cluster="scenario",
        primary="match",
        conversation={"step_limit": 5},
        columns={"final_state_only": True},
    )


def test_every_row_has_the_declared_columns_unless_it_says_otherwise(tmp_path: Path) -> None:
    path = with_sidecar(tmp_path, "columns: {a: 5, b: [x]}\n")
    dataset = open_dataset(path)
    assert dataset.scan().columns == {"a", "b"}
    (row,) = dataset.rows()
    assert row.values == {"a": 1, "b": ["x"]}
    bare = with_sidecar(tmp_path, "", "bare.jsonl")
    assert row.fingerprint != next(open_dataset(bare).rows()).fingerprint


@pytest.mark.parametrize("text", ["", "# nothing yet\n", "evaluators:\ncolumn_mapping:\n"])
def test_without_a_sidecar_or_with_an_empty_one_there_are_no_defaults(tmp_path: Path, text: str) -> None:
    assert open_dataset(with_sidecar(tmp_path, text)).defaults == DatasetDefaults()
    (tmp_path / "val.yaml").unlink()
    assert open_dataset(tmp_path / "val.jsonl").defaults == DatasetDefaults()


def test_an_unknown_key_is_refused_with_line_and_what_was_meant(tmp_path: Path) -> None:
    text = refusal(tmp_path, "evaluators: [bleu]\ncolum_mapping: {}\n")
    assert text == ", line 2: Object contains unknown field `colum_mapping`; did you mean 'column_mapping'?"


@cases("datasets")
def test_a_value_of_the_wrong_type_is_refused_with_its_line(tmp_path: Path, text: str, line: int, reason: str) -> None:
    found = refusal(tmp_path, text)
    assert found.startswith(f", line {line}: ")
    assert reason in found


def test_broken_yaml_is_refused_with_file_and_line(tmp_path: Path) -> None:
    assert refusal(tmp_path, "evaluators: [bleu\ntarget: x\n").startswith(", line ")


def test_what_is_written_as_a_sidecar_is_read_back(tmp_path: Path) -> None:
    defaults = DatasetDefaults({"response": "${target.response}", "größe": "${data['a column']}"}, ["bleu"], "x", "g")
    path = with_sidecar(tmp_path, sidecar_text(defaults, description="a: #1"))
    assert read_sidecar(path) == defaults


@pytest.mark.parametrize("target", ["nowhere.yaml", "."])
def test_a_sidecar_that_is_no_file_is_not_passed_over(tmp_path: Path, target: str) -> None:
    (tmp_path / "val.yaml").symlink_to(target)
    with pytest.raises(ConfigurationError, match=r"val\.yaml: not a regular file"):
        read_sidecar(tmp_path / "val.jsonl")
