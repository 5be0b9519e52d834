"""Wrong use of the command line: one clear line, and the exit code 2."""

from pathlib import Path

import pytest
from tests.cli_parts import here, process
from tests.tables import cases

from tunecheck.plugin import PLUGIN

DATA = ("evaluate", "--dataset", "small.jsonl")


@cases("cli")
def test_a_mistake_is_one_line_that_says_what_to_do(
    small: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], problem: str
) -> None:
    said = here(capsys, *arguments)
    assert (said.code, said.out) == (2, "")
    assert said.err.count("\n") == 1
    assert said.err.startswith("error: ")
    assert problem in said.err
    assert not (small / "eval_results").exists()


@pytest.mark.parametrize(("name", "more"), [("datasets/small.yaml", ()), ("endpoints/one.yaml", ("--endpoint", "one"))])
def test_a_link_to_what_no_file_can_be_called_is_named(
    small: Path, capsys: pytest.CaptureFixture[str], name: str, more: tuple[str, ...]
) -> None:
    (small / name).parent.mkdir(exist_ok=True)
    (small / name).unlink(missing_ok=True)
    (small / name).symlink_to("x" * 300)
    for arguments in ((*DATA, *more), ("trust", ".")):
        said = here(capsys, *arguments)
        assert (said.code, said.err) == (2, f"error: {name}: File name too long\n")


def test_what_was_typed_is_not_what_may_have_been_meant(small: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (small / "gone.jsonl").symlink_to("nowhere")
    said = here(capsys, "evaluate", "--dataset", "gone.jsonl")
    assert "there is no data file 'gone.jsonl'" in said.err
    assert "did you mean 'gone.jsonl'" not in said.err


def test_what_nobody_expected_is_one_line_too(
    small: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("the sky\nfell")

    monkeypatch.setattr("tunecheck.cli._evaluate.prepared_run.prepare", broken)
    said = here(capsys, *DATA)
    assert said.code == 1
    assert said.err == "internal error: RuntimeError: the sky fell (run with --debug to see where)\n"


def test_nothing_at_all_shows_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    said = here(capsys)
    assert said.code == 2
    assert "Usage" in said.out


def test_the_first_screen_begins_with_the_commands_of_the_first_hour(capsys: pytest.CaptureFixture[str]) -> None:
    listed = here(capsys, "--help").out.partition("Commands:\n")[2].partition("\n\n")[0].splitlines()
    assert [line.split()[0] for line in listed] == ["init", "check", "evaluate", "compare", "report", "view"]


def test_the_core_has_at_most_fourteen_commands() -> None:
    assert len(PLUGIN.commands) <= 14


def test_the_help_of_evaluate_has_at_most_24_options_of_one_line_each(tmp_path: Path) -> None:
    said = process(tmp_path, "evaluate", "--help", COLUMNS="80").out.partition("Data and answers:")[2]
    lines = [line for line in said.splitlines() if line.strip() and not line.endswith(":")]
    assert len(lines) <= 24
    assert all(line.startswith("  --") for line in lines)


def test_the_help_of_all_options_has_those_that_the_short_one_leaves_out(capsys: pytest.CaptureFixture[str]) -> None:
    short, whole = here(capsys, "evaluate", "--help").out, here(capsys, "evaluate", "--help-all").out
    for option in ("--allow-simulated", "--group-by", "--junit", "--step-limit"):
        assert option not in short
        assert option in whole


def test_a_page_of_help_has_whole_sentences_and_no_type_beside_a_flag(capsys: pytest.CaptureFixture[str]) -> None:
    said = here(capsys, "judge", "calibrate", "--help").out
    assert "the kinds of mistakes and the rows that" in said, "no line breaks off where the source does"
    (flag,) = (line for line in said.splitlines() if "--json" in line)
    assert "bool" not in flag.lower()
