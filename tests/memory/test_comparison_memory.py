"""Two memory runs compared: a difference of the tests comes first, then each data set with its spread and span."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.memory.test_memory_run import CONFIG, Recalling
from tests.memory_run_parts import run_benchmark

from tunecheck import Run, select
from tunecheck.cli import main

pytestmark = pytest.mark.usefixtures("cwd")


def run(name: str, span: int, **more: object) -> str:
    Path(f"{name}.yml").write_text(CONFIG.replace("memory_span: 900", f"memory_span: {span}"), "utf-8")
    return str(run_benchmark(f"{name}.yml", Recalling(), name=name, mode="reuse", **more).result.run_dir)


def compared(base: str, new: str, capsys: pytest.CaptureFixture[str]) -> list[str]:
    capsys.readouterr()
    assert main(["compare", "--details", base, new]) == 0
    return capsys.readouterr().out.splitlines()


def test_other_memory_spans_are_said_before_any_figure(capsys: pytest.CaptureFixture[str]) -> None:
    said = compared(run("short", 900), run("long", 1800), capsys)
    objection = "- memory spans differ: 900 tokens in the base, 1,800 in the new run"
    places = [next(at for at, line in enumerate(said) if words in line) for words in (objection, "pairs")]
    assert places == sorted(places), said[:8]


def test_each_data_set_is_shown_with_score_spread_and_span(capsys: pytest.CaptureFixture[str]) -> None:
    said = compared(run("short", 900), run("long", 1800), capsys)
    for title in ("Colours", "NameList", "Names", "Jokes", "Prospective Memory", "Shopping"):
        (line,) = [line for line in said if line.strip().startswith(f"{title} ") and "(n=" in line]
        assert line.count("±") == 2 and line.count("(n=2)") == 2


def test_the_file_and_the_markdown_say_the_same(tmp_path: Path) -> None:
    base, new = run("short", 900), run("long", 1800)
    assert main(["compare", "--details", base, new, "--out", "c.json", "--markdown", "c.md"]) == 0
    (against,) = json.loads((tmp_path / "c.json").read_text("utf-8"))["against"]
    (names,) = [each for each in against["tables"]["memory"] if each["title"] == "Names"]
    rows: Any = Run(Path(base)).rows()
    scores = [row["outputs.memory.memory"] for row in rows if row["inputs.dataset"] == "Names"]
    assert (names["base"]["scored"], names["base"]["mean"]) == (2, sum(scores) / 2)
    assert names["new"]["tokens"] > names["base"]["tokens"]
    assert any(each["text"].startswith("memory spans differ") for each in against["decision"]["objections"])
    text = (tmp_path / "c.md").read_text("utf-8")
    assert "memory spans differ: 900 tokens" in text
    assert f"| `Names` | {sum(scores) / 2:.2f} ± " in text


def test_other_memory_spans_speak_against_a_choice_among_runs() -> None:
    short, long = run("short", 900), run("long", 1800)
    said = "memory spans differ: 900 tokens in the base, 1,800 in the new run"
    assert any(each.text.startswith(said) for each in select(short, long).decision.objections)


def test_runs_of_one_span_have_no_such_warning(capsys: pytest.CaptureFixture[str]) -> None:
    said = compared(run("one", 900), run("two", 900), capsys)
    assert not any("spans differ" in line or "had other" in line for line in said)


def test_isolated_tests_and_another_prompt_size_are_said(capsys: pytest.CaptureFixture[str]) -> None:
    said = "\n".join(compared(run("one", 900), run("two", 900, isolated=True, max_prompt_size=400), capsys))
    assert "only the new run has each test in its own conversation" in said
    assert "the conversations differ in prompt size" in said
