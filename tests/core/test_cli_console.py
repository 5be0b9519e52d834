"""Model output on its way to a terminal, and the progress of a run."""

import io
import os
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st
from rich.console import Console
from tests.cli_parts import command, environment, workspace
from tests.tables import cases

from tunecheck import Run
from tunecheck.cli import print_path
from tunecheck.pipeline import cost_text
from tunecheck.plugins import Progress, ProgressBar, Throughput, clean, plural, printable
from tunecheck.views import Table, View, console, print_view


@cases("cli")
def test_a_text_is_cleaned_for_a_terminal(text: str, most: int | None, shown: str) -> None:
    assert (clean(text, most) if most else clean(text)) == shown


IDS = ("customer-question-about-the-weather-0001", "customer-question-about-the-weather-0002")


def printed(table: Table, width: int) -> list[str]:
    stream = io.StringIO()
    shown = console(stream)
    shown.width = width
    print_view(View("", [table]), shown)
    return [line.rstrip() for line in stream.getvalue().splitlines()[1:]]


def test_labels_are_wrapped_before_a_table_repeats_its_heads() -> None:
    heads = ("", "all 50 rows", "call (40)", "answer (10)")
    table = Table(heads, [("difference, as judged, uncalibrated", *["49 of 49 (100.0%)"] * 3)])
    lines = printed(table, 80)
    assert lines[0].split() == ["all", "50", "rows", "call", "(40)", "answer", "(10)"]
    assert [line[:22].strip() for line in lines[1:]] == ["difference, as judged,", "uncalibrated"]


def test_an_identifier_that_is_longer_than_a_line_loses_its_middle() -> None:
    table = Table(("", "rows"), [(each, "1") for each in IDS])
    names = [line.split()[0] for line in printed(table, 40)[1:]]
    assert all(name.startswith("customer") and "…" in name for name in names)
    assert [name[-4:] for name in names] == ["0001", "0002"]


@pytest.mark.parametrize("width", [40, 60, 80])
def test_identifiers_of_any_column_are_not_broken(width: int) -> None:
    table = Table(("", "", ""), [("whole", each, "not checked: the journal is in storage") for each in IDS], "l")
    lines = printed(table, width)
    assert [line.split()[1][-4:] for line in lines if line.startswith("whole")] == ["0001", "0002"]
    assert all(len(line) <= width for line in lines)


def test_a_title_of_several_words_is_wrapped_before_a_table_of_figures_is_split() -> None:
    table = Table(("", "all rows", "call"), [("no answer: the server does not offer this model", "9", "9")])
    assert printed(table, 60)[0].split() == ["all", "rows", "call"]


def test_a_narrow_table_breaks_no_word_and_no_number() -> None:
    heads, causes = ("why rows failed", "base", "new", "change", "only new", ""), ("a call was left in the text", "x")
    table = Table(heads, [(each, "12", "1,200", "+1,188", "1,190", "serving") for each in causes], "lrrrrl")
    words = {word for each in (*heads, *causes, "12", "1,200", "+1,188", "1,190", "serving") for word in each.split()}
    lines = printed(table, 40)
    assert max(map(len, lines)) <= 40
    assert {word for line in lines for word in line.split()} == words


def test_a_long_identifier_is_cut_before_a_table_is_split() -> None:
    rows = [("azure", "https://my-endpoint.westus3.inference.ml.azure.com/score"), ("local", "http://127.0.0.1")]
    lines = printed(Table(("name", "url"), rows, "ll"), 60)
    assert (len(lines), lines[0].split(), "…" in lines[1]) == (3, ["name", "url"], True)


def test_spaces_of_a_line_that_was_laid_out_stay() -> None:
    assert printable("  text       a\x1bb") == "  text       ab"


@given(st.text())
def test_whatever_is_cleaned_is_one_printable_line(text: str) -> None:
    assert clean(text).isprintable()


@pytest.mark.parametrize(("terminal", "shown"), [(True, "a]0;xb\n"), (False, "a\x1b]0;x\x07b\n")])
def test_a_path_is_cleaned_for_a_terminal_only(terminal: bool, shown: str, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    monkeypatch.setattr(stream, "isatty", lambda: terminal)
    monkeypatch.setattr("sys.stdout", stream)
    print_path(Path("a\x1b]0;x\x07b"))
    assert stream.getvalue() == shown


def test_markup_in_a_text_is_text() -> None:
    stream = io.StringIO()
    console(stream).print("[red]x[/red] [link=file:///etc]y[/link] :smile:")
    assert stream.getvalue() == "[red]x[/red] [link=file:///etc]y[/link] :smile:\n"


def test_numbers_and_words_agree() -> None:
    assert [plural(number, "row") for number in (0, 1, 1000)] == ["0 rows", "1 row", "1,000 rows"]


@cases("cli")
def test_a_cost_that_was_not_counted_is_unknown_not_nothing(spent: dict[str, Any], text: str | None) -> None:
    assert cost_text(spent) == text


@pytest.mark.skipif(os.name == "nt", reason="closed by a POSIX shell")
def test_a_command_whose_streams_are_closed_does_its_work(tmp_path: Path) -> None:
    folder = workspace(tmp_path)
    words = shlex.join(command("evaluate", "--dataset", "small.jsonl"))
    line = f"{words} <&- >&- 2>&-"
    assert subprocess.run(["sh", "-c", line], cwd=folder, env=environment(), check=False).returncode == 0
    (run,) = (folder / "eval_results").iterdir()
    assert Run(run).status() == "finished"


def test_rows_of_another_run_do_not_count_for_the_rate() -> None:
    now = 100.0
    pace = Throughput(lambda: now)
    assert pace.texts_of(Progress(None, 0, 0, 0, 0)) == ("", "")
    now = 110.0
    assert pace.texts_of(Progress(1_120, 1_020, 1_020, 0, 1_000)) == ("2.0 rows/s", "0:50 left")
    assert pace.texts_of(Progress(1_120, 1_000, 900, 0, 1_000)) == ("", "")


def shown(*moments: tuple[float, Progress], label: str = "iteration-7", width: int = 80) -> str:
    now = 100.0
    stream = io.StringIO()
    terminal = Console(file=stream, force_terminal=True, width=width, color_system=None)
    bar = ProgressBar(label, console=terminal, clock=lambda: now)
    for seconds, progress in moments:
        now = 100.0 + seconds
        bar(progress)
    bar.close()
    return stream.getvalue()


@cases("cli")
def test_the_bar_of_a_run_says(
    rows: int | None, seconds: float, finished: list[int], errors: int, parts: list[str]
) -> None:
    answered, done = finished
    text = shown((0, Progress(rows, 0, 0, 0, 0)), (seconds, Progress(rows, answered, done, errors, 0)))
    assert [part for part in parts if part not in text] == []


def test_a_name_is_shown_as_text_and_cut() -> None:
    text = shown((0, Progress(5, 0, 0, 0, 0)), label="[bold]\x1b[2J" + "x" * 50)
    assert "[bold][2J" in text
    assert "\x1b[2J" not in text


def test_closing_a_bar_that_never_began_or_closing_twice_does_nothing() -> None:
    bar = ProgressBar("x")
    bar.close()
    bar.close()
