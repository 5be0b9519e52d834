"""The command `compare`, and the page on comparing."""

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli_parts import ROOT, Command, Said, environment, here, inside, outside_code
from tests.comparison_parts import declares, passes, row, scores, verdict, write_run

from tunecheck.views._files import code

HOSTILE = (
    "\x1b[31mred\x1b]0;title\x07 | <img src=x onerror=alert(1)> `code` [link](http://x) @everyone \u202e ‮ **b**\n# head"
)


@pytest.fixture
def compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")

    def run(*arguments: str) -> Said:
        return here(capsys, "compare", "--results-dir", str(tmp_path), "--details", *arguments)

    return run


def test_the_answer_stands_first_in_words(tmp_path: Path, compared: Command) -> None:
    passes(tmp_path, "a", [True] * 90 + [False] * 10)
    passes(tmp_path, "b", [False] * 12 + [True] * 78 + [False] * 10)
    said = compared("a", "b")
    assert said.code == 0
    lines = [line for line in said.out.splitlines() if line.strip()]
    assert lines[2].startswith("Keep a, not b. match: worse, 90.0% → 78.0%, −12.0 points (−")
    assert "match: 12 regressed, 0 fixed, 0 changed" in said.out
    assert said.err == ""


def test_two_runs_are_compared_in_thirty_lines_whatever_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Twelve metrics and six slices get worse, six causes grow, rows fail to score, and rows are in one run only."""
    causes = ("refusal", "cut_off", "loop", "missing_call", "unreadable", "empty_answer")
    names = [f"m{number}" for number in range(12)]
    declared = {key: value for name in ("match", *names) for key, value in declares(name).items()}
    for run, lost in (("base", 0), ("new", 30)):
        rows = []
        for at in range(10 * (run == "new"), 300 + 10 * (run == "new")):
            failed = at % 60 < lost
            parts = [verdict(name, not failed, "no call" if failed else None) for name in ("match", *names)]
            errors = {"error.m3": {"type": "E", "message": "m"}} if run == "new" and at % 50 == 49 else {}
            more = {"cause": causes[at % 6] if failed else None}
            rows.append(row(at, *parts, more, errors, domain=f"d{at % 6}"))
        write_run(tmp_path, run, rows, declared, group_by=["domain"])
    monkeypatch.setenv("COLUMNS", "120")
    for arguments in (("base", "new"), ("new", "base")):
        said = here(capsys, "compare", *arguments, "--results-dir", str(tmp_path)).out
        assert len(said.splitlines()) <= 30, said
    said = here(capsys, "compare", "base", "new", "--results-dir", str(tmp_path)).out
    assert "and 21 more objections" in said
    hint = "compare --details shows each metric, slices, more causes and rows (--rows N)"
    assert f"12 other metrics: 0 better, 12 worse; {hint}" in said
    assert said.count("now: no call") == 3
    details = here(capsys, "compare", "base", "new", "--details", "--results-dir", str(tmp_path)).out
    assert said.count("\n") < details.count("\n")


def test_what_is_not_shown_is_said_in_one_line(tmp_path: Path, compared: Command) -> None:
    for side in ("base", "new"):
        passes(tmp_path, side, {name: [n % 3 > 0 for n in range(100)] for name in "abcde"})
    said = compared("base", "new")
    assert said.out.count("no difference shown") == 1


def test_json_and_files_hold_everything(tmp_path: Path, compared: Command) -> None:
    passes(tmp_path, "a", [True] * 20)
    passes(tmp_path, "b", [False] * 20)
    said = compared("a", "b", "--json", "--out", "c.json", "--markdown", "c.md", "--rows", "3")
    assert said.json() == json.loads((tmp_path / "c.json").read_text())
    metric = said.json()["against"][0]["metrics"]["match"]
    assert (metric["verdict"], metric["b"], len(metric["regressed"])) == ("worse", 20, 20)
    assert metric["difference"]["value"] == -1
    text = (tmp_path / "c.md").read_text()
    assert "❌ Keep a, not b. match: worse, 100.0% → 0.0%" in text
    assert "<summary>❌ regressed 20: " in text and "`q2`" in text and "`q3`" not in text


def test_a_margin_has_its_own_column_and_words(tmp_path: Path, compared: Command) -> None:
    passes(tmp_path, "a", [True] * 80 + [False] * 20)
    passes(tmp_path, "b", [True] * 79 + [False] * 21)
    said = compared("a", "b", "--margin", "0.1")
    assert "shown to be at most 10.0 points worse" in said.out
    assert "worse by < 0.1" in said.out


def test_iterations_stand_below_each_other(tmp_path: Path, compared: Command) -> None:
    for name, good in (("a", 10), ("b", 30), ("c", 60)):
        passes(tmp_path, name, [True] * good + [False] * (60 - good))
    said = compared("a", "b", "c")
    shown = " ".join(said.out.split())
    assert re.search("match rows 60 run 1 16.7% run 2 ▲ 50.0% run 3 ▲ 100.0% ▲ better", shown)


def test_many_iterations_and_metrics_fit_on_a_narrow_screen(
    tmp_path: Path, compared: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ("function_call_match", "argument_match", "rouge")
    for number in range(8):
        passes(tmp_path, f"ck{number}", {name: [number < 7] * 40 for name in names})
    monkeypatch.setenv("COLUMNS", "44")
    lines = compared(*(f"ck{number}" for number in range(8)), "--rows", "0").out.splitlines()
    assert sum(bool(re.fullmatch(r"run 8( +▼ 0.0%)+", line.strip())) for line in lines) == 2
    assert any(line.split() == ["function_call_match", "argument_match"] for line in lines)


@pytest.fixture
def hostile(tmp_path: Path, compared: Command) -> tuple[str, str]:
    """The output and the Markdown file of a comparison of runs with hostile row ids and reasons."""
    for side, passed in (("base", True), ("new", False)):
        match = verdict("match", passed, None if passed else HOSTILE)
        rows = [row(n, match, {"row_id": f"{HOSTILE}{n}"}) for n in range(9)]
        write_run(tmp_path, side, rows, declares("match"))
    said = compared("base", "new", "--markdown", "c.md")
    assert said.code == 0
    return said.out, (tmp_path / "c.md").read_text()


def test_nothing_of_the_data_acts_in_the_terminal(hostile: tuple[str, str]) -> None:
    for text in hostile:
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f\u202e]", text)
    assert "onerror" in hostile[0]  # shown as the text that it is


def test_what_comes_from_data_stands_in_code_spans_in_markdown(hostile: tuple[str, str]) -> None:
    outside = outside_code(hostile[1])
    for sign in ("<img", "@everyone", "](http", "**b**", "# head"):
        assert sign not in outside


@pytest.mark.parametrize("text", ["", "`", "``a`", "a|b", "\n", "`a`"])
def test_a_code_span_is_closed_whatever_it_holds(text: str) -> None:
    span = code(text)
    fence = re.match("`+", span)
    assert fence is not None
    assert span.endswith(fence[0])
    inner = span[len(fence[0]) : -len(fence[0])]
    assert not re.search(rf"(?<!`){fence[0]}(?!`)", inner)
    assert not re.search(r"(?<!\\)\|", span)


def test_a_simulated_run_is_refused_with_exit_code_2(tmp_path: Path, compared: Command) -> None:
    passes(tmp_path, "a", [True], simulated=True)
    passes(tmp_path, "b", [True])
    said = compared("a", "b")
    assert said.code == 2
    assert re.search(r"a-\S+ are simulated, so .* --allow-simulated", said.err) and said.err.count("\n") == 1
    allowed = compared("a", "b", "--allow-simulated")
    assert allowed.code == 0
    assert "SIMULATED answers: no model was asked" in allowed.out


def test_rows_in_one_run_only_and_failures_are_noted(tmp_path: Path, compared: Command) -> None:
    passes(tmp_path, "a", [True, True, True, True])
    rows = [row(0, {"error.match": {"type": "E", "message": "m"}}), *(row(n, verdict("match", True)) for n in (1, 9))]
    write_run(tmp_path, "b", rows, declares("match"))
    said = compared("a", "b")
    assert "2 rows only in the base, left out of all figures: q2, q3" in said.out
    assert "1 row only in the new run, left out of all figures: q9" in said.out
    assert "match: errors in 0 rows of the base, 1 of the new run" in said.out


def test_wrong_use_is_exit_code_2_in_one_line(tmp_path: Path, compared: Command) -> None:
    passes(tmp_path, "a", [True])
    for words in ("a", "a nothing", "a a --metric b", "a a --confidence 2", "a a --out no/where"):
        said = compared(*words.split())
        assert said.code == 2, words
        assert said.err.startswith("error: ") and said.err.count("\n") == 1


def test_scores_are_written_as_decimals(tmp_path: Path, compared: Command) -> None:
    scores(tmp_path, "a", [0.25] * 15)
    scores(tmp_path, "b", [0.25 + 0.01 * number for number in range(15)])
    said = compared("a", "b")
    assert "bleu: better, 0.250 → 0.320, +0.070 (" in said.out


@pytest.mark.parametrize("others", [0, 5])
def test_another_threshold_is_said_beside_rates_and_mean(tmp_path: Path, compared: Command, others: int) -> None:
    names = [f"other{number}" for number in range(others)]
    for side, threshold in (("a", 0.5), ("b", 0.7)):
        entry = {**declares("bleu", "score")["bleu"], "arguments": {"threshold": threshold}}  # type: ignore[dict-item]
        declared = {"bleu": entry} | {name: declares(name, "score")[name] for name in names}
        constant = [verdict(name, True, score=1) for name in names]
        rows = [row(n, verdict("bleu", n / 20 >= threshold, score=n / 20), *constant) for n in range(20)]
        write_run(tmp_path, side, rows, declared)
    said = compared("a", "b")
    words = " ".join(said.out.split())
    assert re.search(r"bleu: 50\.0% → 30\.0%, −20\.0 points", words)
    assert "mean 20 0.475 0.475 ±0.000" in words
    assert "invalid: bleu differs between the runs (threshold 0.5 → 0.7)" in words


def test_what_is_not_tested_keeps_its_evaluators_name(tmp_path: Path, compared: Command) -> None:
    evaluators = {**declares("one"), **declares("two", "score")}
    for side in ("base", "new"):
        rows = [row(n, verdict("one", n > 3), verdict("two", n > 5, score=n / 12)) for n in range(12)]
        write_run(tmp_path, side, rows, evaluators)
    said = compared("base", "new", "--metric", "one")
    names = [line.strip().split("  ")[0] for line in said.out.splitlines() if " 12  " in line]
    assert names == ["one", "two", "mean"]


@pytest.mark.parametrize("width", [50, 60, 80, 100, 120])
def test_names_are_whole_and_lines_fit_on_every_screen(
    tmp_path: Path, compared: Command, monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    names = ("function_call_match", "multi_turn_miss_param")
    for side in ("base", "new"):
        passes(tmp_path, side, {name: [n % 3 > 0 for n in range(100)] for name in names})
    monkeypatch.setenv("COLUMNS", str(width))
    table = compared("base", "new", "--margin", "0.05", "--rows", "0").out.split("\n\n")[2].splitlines()
    assert all(len(line) <= width for line in table)
    heads = [line for line in table if line.startswith(" ")]
    assert [line.split()[0] for line in table if line not in heads] == list(names) * len(heads)
    columns = "pairs base new difference (95%) p adj. p min. detectable worse by < 0.05"
    assert " ".join(" ".join(heads).split()) == columns
    assert (len(heads) == 1) is (width > 100)


def test_evaluators_of_other_code_are_named_the_primary_one_first(tmp_path: Path, compared: Command) -> None:
    def entries(fingerprint: str) -> dict[str, object]:
        about: dict[str, object] = {"primary": None, "metrics": [], "arguments": {}, "fingerprint": fingerprint}
        return {"a": about, "b": about, "c": about}

    for side in ("base", "new"):
        passes(tmp_path, side, {name: [True] * 3 for name in "abc"}, evaluators=entries(side))
    said = " ".join(compared("base", "new").out.split())
    assert "invalid: a differs between the runs (its code)" in said
    # One objection for all others, so that none of another kind is cut off.
    assert "- b differs between the runs (its code); c differs between the runs (its code)" in said


PAGE = (ROOT / "docs" / "comparison.md").read_text("utf-8")
RUN_ID = re.compile(r"\d{8}T\d{6}Z-[0-9a-f]{6}")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.S | re.M)


def plain(text: str) -> list[str]:
    """The words of each line: how wide a table is, depends on where it is printed."""
    return RUN_ID.sub("ID", text).split()


def run(folder: Path, line: str) -> str:
    program, *arguments = shlex.split(line)
    assert program == "tunecheck"
    said = inside(folder, *arguments, COLUMNS="120")
    assert said.code == 0, (line, said.err)
    return said.out


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace with the page's endpoints, in which its runs were made."""
    folder = tmp_path_factory.mktemp("comparison")
    run(folder, "tunecheck init .")
    for name, definition in zip(("seven", "eight", "nine"), blocks("yaml"), strict=True):
        (folder / "endpoints" / f"{name}.yaml").write_text(definition, "utf-8")
    for line in "".join(blocks("sh")).splitlines():
        if line.startswith("tunecheck evaluate"):
            run(folder, line)
    return folder


def test_the_pages_commands_print_what_it_shows(workspace: Path) -> None:
    for block in blocks("console"):
        line, _, shown = block.removeprefix("$ ").partition("\n")
        assert plain(run(workspace, line)) == plain(shown), line


def test_the_pages_programs_run_and_find_what_the_page_says(workspace: Path) -> None:
    printed = []
    for program in blocks("python"):
        words = [sys.executable, "-c", program]
        done = subprocess.run(words, cwd=workspace, env=environment(), capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        printed.append(done.stdout.splitlines())
    assert printed[0] == ["better 18"]
    assert printed[1][0] == "worse"
