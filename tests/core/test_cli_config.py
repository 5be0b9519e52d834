"""Options in a YAML file."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.tables import cases

from tunecheck import ConfigurationError
from tunecheck.cli import Options, recorded_options
from tunecheck.cli._stored_options import read_config

EVERYTHING = """\
dataset: val.jsonl
endpoint: prod
evaluators: [bleu, match]
set: {bleu: {threshold: 0.4}, match.ordered: true}
mapping:
  response: ${target.text}
  bleu: {response: "${data.x}"}
name: it-7
limit: 5
concurrency: 2
workers: 0
group-by: [city, length]
seed: 0
fail-under: match>=0.5
max_error_rate: 0
allow-simulated: true
results-dir: out
dry-run: true
"""


def written(folder: Path, text: str) -> str:
    (folder / "eval.yaml").write_text(text, "utf-8")
    return str(folder / "eval.yaml")


def test_every_option_can_stand_in_a_file_with_dashes_or_underscores(tmp_path: Path) -> None:
    assert read_config(Options, written(tmp_path, EVERYTHING)) == Options(
        dataset="val.jsonl",
        endpoint="prod",
        evaluators=["bleu", "match"],
        set={"bleu.threshold": 0.4, "match.ordered": True},
        mapping={"response": "${target.text}", "bleu.response": "${data.x}"},
        name="it-7",
        limit=5,
        concurrency=2,
        workers=0,
        group_by=["city", "length"],
        seed=0,
        fail_under=["match>=0.5"],
        max_error_rate=0.0,
        allow_simulated=True,
        results_dir="out",
        dry_run=True,
    )


def test_names_may_stand_between_commas_as_on_the_command_line(tmp_path: Path) -> None:
    assert read_config(Options, written(tmp_path, "evaluators: bleu, match\n")).evaluators == ["bleu", "match"]


def test_an_empty_file_gives_nothing(tmp_path: Path) -> None:
    assert read_config(Options, written(tmp_path, "# nothing yet\n")) == Options()


@cases("cli")
def test_a_mistake_is_named_with_file_line_and_key(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(ConfigurationError, match=problem):
        read_config(Options, written(tmp_path, text))


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"nope\.yaml: cannot be read"):
        read_config(Options, str(tmp_path / "nope.yaml"))


def test_what_a_run_records_is_read_back_as_it_was() -> None:
    options = Options(dataset="d", set={"bleu.threshold": 0.4}, group_by=["a"], max_error_rate=0.5, workers=0, seed=3)
    assert recorded_options(Options, "r", options.recorded()) == options


def test_a_record_of_another_version_is_refused_by_name() -> None:
    with pytest.raises(
        ConfigurationError, match="Object contains unknown field `jury`; known: allow_changed_evaluator, "
    ):
        recorded_options(Options, "r", {"jury": "gpt"})
