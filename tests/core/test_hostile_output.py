"""Texts from data and models, in the files and on the terminal: no control characters, no commands of CI systems."""

import json
import unicodedata
from pathlib import Path
from typing import Any

import pytest
from tests.cli_parts import here, inside, process, write_files, write_lines
from tests.pipeline_parts import only_run, run
from tests.tables import cases

from tunecheck import ConfigurationError, load_endpoint, write_report
from tunecheck._pytest_plugin import assert_no_regression
from tunecheck.plugins import discover
from tunecheck.views import Check, View, junit

HOSTILE = "".join(map(chr, [*range(1, 9), *range(11, 32), *range(127, 160)])) + "\x1b]0;pwned\x07\x1b[2J"


def controls(text: str) -> set[str]:
    return {letter for letter in text if unicodedata.category(letter) == "Cc"} - {"\n", "\r", "\t"}


def hostile(response: str) -> dict[str, Any]:
    return {"score": 0.5, "score_passed": False, "score_result": "fail", "score_reason": f"because {HOSTILE}"}


def test_the_table_and_the_report_of_a_run_hold_none(tmp_path: Path) -> None:
    rows = [{"id": f"r{HOSTILE}", "response": HOSTILE, f"column {HOSTILE}": {"a": [HOSTILE]}}]
    run(tmp_path, rows, evaluators={"own": hostile}, evaluation_name=f"name {HOSTILE}", tags={"t": HOSTILE})
    kept = only_run(tmp_path)
    write_report(kept, kept.folder / "report.html")
    for name in ("eval_results.csv", "report.html"):
        assert not controls((kept.folder / name).read_text("utf-8-sig")), name


@pytest.mark.parametrize("form", ["markdown", "junit"])
def test_nor_do_summaries_and_what_the_terminal_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], form: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "evaluators").mkdir()
    (tmp_path / "evaluators" / "own.py").write_text(
        "def own(response):\n"
        "    return {'own': 0.5, 'own_passed': False, 'own_result': 'fail', 'own_reason': response}\n"
    )
    data = f"data{HOSTILE}.jsonl"
    write_lines(tmp_path / data, [{"id": f"r{HOSTILE}{n}", "response": f"{n}{HOSTILE}"} for n in range(3)])
    arguments = ["--dataset", data, "--response-column", "response", "--evaluators", "own"]
    said = here(capsys, "evaluate", *arguments, f"--{form}", f"out.{form}", "--fail-under", "own>=0.9")
    assert said.code == 3, said.err
    assert not controls(said.out + said.err)
    assert not controls((tmp_path / f"out.{form}").read_text())


def test_nor_do_errors(tmp_path: Path) -> None:
    for name, text in ((f"{HOSTILE}.yaml", "kind: none"), ("a.yaml", json.dumps({"kind": "openai", HOSTILE: 1}))):
        (tmp_path / name).write_text(text)
        with pytest.raises(ConfigurationError) as raised:
            load_endpoint(tmp_path / name)
        assert "pwned" in str(raised.value)
        assert not controls(str(raised.value))


# -- commands that CI systems take from logs

LOG_COMMANDS = "\n::error::x\r ::set-output name=a::b ##vso[task.complete result=Succeeded;]ok ##[error]x ##teamcity[a]"
LOG_NAME = "::a ##vso[task.complete result=Succeeded;] ##[error]"


def obeyed(text: str) -> list[str]:
    """The lines that Azure Pipelines, GitHub Actions or TeamCity would obey."""
    lines = text.replace("\r", "\n").split("\n")
    marks = ("##vso[", "##[", "##teamcity[")
    return [line for line in lines if line.strip().startswith("::") or any(mark in line for mark in marks)]


@pytest.fixture(scope="module")
def commanding(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace in which every text that can be chosen holds log commands, with a run of two models each."""
    folder = tmp_path_factory.mktemp("ci")
    (folder / "evaluators").mkdir()
    (folder / "evaluators" / "own.py").write_text(
        "def own(response):\n"
        "    print(response)\n"
        "    if response.endswith('0'): raise ValueError(response)\n"
        "    good = response.endswith('good')\n"
        "    result = 'pass' if good else 'fail'\n"
        "    return {'own': 0.5, 'own_passed': good, 'own_result': result, 'own_reason': response}\n"
    )
    columns = {"tools": 1, f"{LOG_NAME}.jsonl": LOG_NAME}
    answers = ({"id": f"{LOG_NAME}{n}", "a": f"{LOG_COMMANDS}good", "b": f"{LOG_COMMANDS}{n}"} for n in range(12))
    write_lines(folder / f"{LOG_NAME}.jsonl", [answer | columns for answer in answers])
    for place in ("a", "b"):
        asked = ["--dataset", f"{LOG_NAME}.jsonl", "--response-column", place, "--evaluators", "own", "--name", place]
        files = ["--markdown", f"{place}.markdown", "--junit", f"{place}.junit", "--fail-under", "own>=0.9"]
        done = process(folder, "evaluate", *asked, *files)
        assert "vso" in done.out
        assert "vso" in done.err
        assert not obeyed(done.out + done.err)
    return folder


@cases("others")
def test_no_command_writes_what_a_ci_system_takes_for_a_command(commanding: Path, words: str) -> None:
    said = inside(commanding, *(f"{LOG_NAME}.jsonl" if word == "FILE" else word for word in words.split()))
    assert "vso" in said.out + said.err
    assert not obeyed(said.out + said.err)
    if "--json" in words:
        assert LOG_NAME in json.dumps(said.json(), ensure_ascii=False)


def test_nor_do_the_files_that_a_pipeline_shows(commanding: Path) -> None:
    text = (commanding / "a.markdown").read_text()
    assert "vso" in text
    assert not obeyed(text)
    checks = [Check("gates", LOG_COMMANDS, LOG_COMMANDS, end) for end in (None, "failure", "error")]
    text = junit(View(LOG_COMMANDS, [], checks=checks), 0.0).decode()
    assert text.count("vso") >= 1 + 2 * len(checks)
    assert not obeyed(text)


@pytest.mark.parametrize("words", sorted(each.name for each in discover("commands")))
def test_nor_does_the_error_of_any_command(tmp_path: Path, words: str) -> None:
    said = inside(tmp_path, *words.split(), f"--{LOG_NAME}", f"{LOG_COMMANDS}.jsonl")
    assert said.code == 2
    assert "vso" in said.err
    assert not obeyed(said.out + said.err)


def test_nor_does_a_failed_test_of_pytest(tmp_path: Path) -> None:
    data = [{"id": f"{LOG_NAME}{n}", "n": n} for n in range(40)]
    base, new = (
        run(tmp_path, data, evaluators={"own": judge}, evaluation_name=LOG_NAME)
        for judge in (lambda n: {"own": 1.0, "own_result": "pass"}, lambda n: {"own": 0.0, "own_result": "fail"})
    )
    with pytest.raises(AssertionError, match="vso") as raised:
        assert_no_regression(new.run_dir, base.run_dir, metric="own")
    assert "regressed 40:" in str(raised.value)
    assert not obeyed(str(raised.value))


@pytest.mark.parametrize(
    "pieces",
    [
        ["#", "#", "vso", "[x]"],
        ["a\n", " ", ":", ":x"],
        ["#\u200b#\u00advso\ufeff[x]"],
        ["##vso", "\u200b" * 250, "[x]"],
        ["a\n", " " * 250, "::x"],
        ["vso::" + "y" * 198, "z"],
    ],
)
def test_nor_does_a_command_that_is_written_in_pieces_or_with_letters_that_agents_pass_over(
    tmp_path: Path, pieces: list[str]
) -> None:
    own = f"def own(response):\n    for piece in {pieces!r}: print(piece, end='')\n    return 1.0\n"
    write_files(tmp_path, {"evaluators/own.py": own})
    write_lines(tmp_path / "data.jsonl", [{"response": "x"}])
    asked = ["--dataset", "data.jsonl", "--response-column", "response", "--evaluators", "own"]
    for workers in ("0", "1"):
        said = process(tmp_path, "evaluate", *asked, "--workers", workers)
        shown = (said.out + said.err).translate(dict.fromkeys(map(ord, "\u200b\u00ad\ufeff")))
        written = "".join(pieces).translate(dict.fromkeys(map(ord, "\u200b\u00ad\ufeff")))
        assert "".join(written.split()) in "".join(shown.split())
        assert not obeyed(shown)


LATE = {
    "at exit": "def own(response):\n    atexit.register(print, response)\n    return 1.0\n",
    "in a thread": "def own(response):\n    late = threading.Timer(1, print, [response])\n    late.daemon = False\n"
    "    late.start()\n    return 1.0\n",
    "in a finalizer": "class Kept:\n    def __del__(self): raise ValueError(self.text)\nkept = Kept()\n"
    "def own(response):\n    kept.text = response\n    return 1.0\n",
}


@pytest.mark.parametrize("workers", ["0", "1"])
@pytest.mark.parametrize("source", LATE.values(), ids=LATE)
def test_nor_does_what_an_evaluator_prints_after_the_command_has_ended(
    tmp_path: Path, source: str, workers: str
) -> None:
    write_files(tmp_path, {"evaluators/own.py": f"import atexit, threading\n{source}"})
    write_lines(tmp_path / "data.jsonl", [{"response": LOG_COMMANDS}])
    asked = ["--dataset", "data.jsonl", "--response-column", "response", "--evaluators", "own", "--workers", workers]
    said = process(tmp_path, "evaluate", *asked)
    assert said.code == 0
    assert not obeyed(said.out + said.err)
    if workers == "0":
        assert "vso" in said.out + said.err
