"""Data sets are found by name or path, and declare defaults in a YAML file beside them."""

import os
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.cli_parts import write_files
from tests.platforms import posix_only
from tests.tables import cases

from tunecheck import ConfigurationError, DataError, PluginError
from tunecheck.datasets import DatasetDefaults, open_dataset, read_sidecar, sidecar_text


def refusal(data: object, **options: object) -> str:
    with pytest.raises(DataError) as caught:
        open_dataset(data, **options)  # type: ignore[arg-type]
    return str(caught.value)


@pytest.fixture
def workspace(cwd: Path) -> Path:
    write_files(cwd, {"datasets/val.jsonl": '{"a": "in datasets"}\n'})
    return cwd


def test_a_file_is_looked_for_as_given_then_in_datasets(workspace: Path) -> None:
    assert next(open_dataset("val.jsonl").rows()).values == {"a": "in datasets"}
    (workspace / "val.jsonl").write_text('{"a": "as given"}\n')
    assert next(open_dataset("val.jsonl").rows()).values == {"a": "as given"}


def test_a_data_set_is_named_after_its_file(workspace: Path) -> None:
    assert open_dataset("val.jsonl").name == "val"
    assert open_dataset([{"a": 1}]).name == "rows"


def test_a_missing_file_is_refused_with_where_it_was_looked_for_and_what_was_meant(workspace: Path) -> None:
    assert refusal("vall.jsonl") == (
        "there is no data file 'vall.jsonl' (looked in '.' and 'datasets'); did you mean 'val.jsonl'?"
    )
    assert "did you mean" not in refusal("everything.jsonl"), "a suffix in common makes no two files alike"


@pytest.mark.parametrize("name", ["a\0b.jsonl", "x" * 5_000 + ".jsonl", "no/such/folder/x.jsonl", "C:\\data\\x.jsonl"])
def test_a_name_that_no_file_can_have_is_a_missing_file(workspace: Path, name: str) -> None:
    text = refusal(name)
    assert text.startswith("there is no data file ")
    assert len(text) < 1_000


def test_a_folder_is_refused_with_a_file_to_give_instead(workspace: Path) -> None:
    assert refusal("datasets") == "datasets is a folder: give a data file, such as 'datasets/val.jsonl'"


@posix_only
def test_a_pipe_is_refused_instead_of_waiting_for_it(workspace: Path) -> None:
    os.mkfifo(workspace / "pipe.jsonl")
    assert refusal("pipe.jsonl") == "pipe.jsonl is not a regular file: give a data file"


@pytest.mark.parametrize(("name", "hint"), [("x.txt", "known: "), ("x", "known: "), ("x.jsnl", "mean '.jsonl'?")])
def test_an_unknown_suffix_is_refused(workspace: Path, name: str, hint: str) -> None:
    (workspace / name).touch()
    assert hint in refusal(name)


def test_an_upper_case_suffix_is_known(workspace: Path) -> None:
    (workspace / "X.JSONL").write_text('{"a": 1}\n')
    assert open_dataset("X.JSONL").scan().rows == 1


def test_an_address_is_refused_with_what_to_do(workspace: Path) -> None:
    assert refusal("https://example.com/val.jsonl").endswith("download the file and pass its path")


@pytest.mark.parametrize("limit", [0, -1, 1 << 63])
def test_a_limit_out_of_range_is_refused(limit: int) -> None:
    with pytest.raises(ConfigurationError, match="must be from 1 to"):
        open_dataset([{"a": 1}], limit=limit)


def test_an_open_data_set_is_passed_through_with_a_limit() -> None:
    dataset = open_dataset([{"a": 1}, {"a": 2}, {"a": 3}]).with_defaults(DatasetDefaults(target="t"), name="mine")
    limited = open_dataset(dataset, limit=2)
    assert (limited.name, limited.defaults.target, limited.scan().rows) == ("mine", "t", 2)
    assert open_dataset(limited, limit=5).scan().rows == 2


def loader(workspace: Path, code: str) -> None:
    (workspace / "datasets" / "toy.py").write_text(f"def toy(argument):\n    {code}\n")


def test_a_loader_gives_rows_for_its_argument(workspace: Path) -> None:
    loader(workspace, "return ({'n': number, 'text': argument} for number in range(3))")
    dataset = open_dataset("toy:a:b", limit=2)
    assert dataset.name == "toy:a:b"
    assert [row.values for row in dataset.rows()] == [{"n": 0, "text": "a:b"}, {"n": 1, "text": "a:b"}]


def test_a_loader_may_give_a_path(workspace: Path) -> None:
    loader(workspace, "return argument + '.jsonl'")
    assert open_dataset("toy:val").name == "val"


def test_a_loader_may_declare_defaults(workspace: Path) -> None:
    loader(
        workspace,
        "from tunecheck.datasets import DatasetDefaults, open_dataset; "
        "return open_dataset([{'a': 1}]).with_defaults(DatasetDefaults(group_key='a'), name='toy')",
    )
    dataset = open_dataset("toy:x")
    assert (dataset.name, dataset.defaults.group_key) == ("toy", "a")


def test_a_loader_that_raises_is_one_error(workspace: Path) -> None:
    loader(workspace, "raise KeyError(argument)")
    problem = "the loader 'toy' failed on the argument 'x' (KeyError: 'x'): correct the argument or the loader"
    assert refusal("toy:x") == problem


def test_a_loader_that_gives_no_rows_is_refused(workspace: Path) -> None:
    loader(workspace, "return 3")
    assert "data is of type int" in refusal("toy:x")


def test_an_unknown_loader_is_refused(workspace: Path) -> None:
    loader(workspace, "return []")
    with pytest.raises(PluginError, match="did you mean 'toy'"):
        open_dataset("toi:x")


def with_sidecar(folder: Path, text: str, name: str = "val.jsonl") -> Path:
    path = folder / name
    path.write_text('{"a": 1}\n')
    path.with_suffix(".yaml").write_text(text, "utf-8")
    return path


def refused_sidecar(folder: Path, text: str) -> str:
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
    defaults = open_dataset(path).defaults
    assert defaults.conversation == {"step_limit": 5}
    assert replace(defaults, places={}) == DatasetDefaults(
        description="questions",
        column_mapping={"ground_truth": "${data.answer}", "response": "${target.response}"},
        evaluators=["bleu", "match"],
        target="blue",
        group_key="session",
        cluster="scenario",
        primary="match",
        step_limit=5,
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
    text = refused_sidecar(tmp_path, "evaluators: [bleu]\ncolum_mapping: {}\n")
    assert text == ", line 2: colum_mapping: unknown key; did you mean 'column_mapping'?"


@cases("datasets")
def test_a_value_of_the_wrong_type_is_refused_with_its_line(tmp_path: Path, text: str, line: int, reason: str) -> None:
    found = refused_sidecar(tmp_path, text)
    assert found.startswith(f", line {line}: ")
    assert reason in found


def test_broken_yaml_is_refused_with_file_and_line(tmp_path: Path) -> None:
    assert refused_sidecar(tmp_path, "evaluators: [bleu\ntarget: x\n").startswith(", line ")


def test_what_is_written_as_a_sidecar_is_read_back(tmp_path: Path) -> None:
    defaults = DatasetDefaults({"response": "${target.response}", "größe": "${data['a column']}"}, ["bleu"], "x", "g")
    path = with_sidecar(tmp_path, sidecar_text(defaults, description="a: #1"))
    assert replace(read_sidecar(path), places={}, description=None) == defaults


def test_a_data_set_names_the_column_of_its_ids(tmp_path: Path) -> None:
    path = with_sidecar(tmp_path, "id: ticket\n")
    path.write_text('{"ticket": "a", "id": 1}\n{"ticket": 7, "id": 1}\n', "utf-8")
    assert [row.id for row in open_dataset(path).rows()] == ["a", "7"]
    path.write_text('{"ticket": "a"}\n{"tickets": "b"}\n', "utf-8")
    with pytest.raises(
        DataError, match=r"line 2: the row has no id in 'ticket', which val.yaml declares as ids: .*mean 'tickets'"
    ):
        open_dataset(path).scan()


@pytest.mark.parametrize("target", ["nowhere.yaml", "."])
def test_a_sidecar_that_is_no_file_is_not_passed_over(tmp_path: Path, target: str) -> None:
    (tmp_path / "val.yaml").symlink_to(target)
    with pytest.raises(ConfigurationError, match=r"val\.yaml is not a regular file"):
        read_sidecar(tmp_path / "val.jsonl")
