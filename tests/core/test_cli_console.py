"""Model output on its way to a terminal."""

from __future__ import annotations

import io
import os
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st
from tests.cli_parts import command, environment, workspace
from tests.tables import cases

from tunecheck import Run
from tunecheck.cli import print_path
from tunecheck.pipeline import cost_text
from tunecheck.plugins import clean, plural, printable
from tunecheck.views import console


def test_escape_sequences_lose_what_makes_a_terminal_obey() -> None:
    assert clean("a\x1b[31mred\x1b]0;title\x07b\x9bc") == "a[31mred]0;titlebc"


def test_line_breaks_and_tabs_become_single_spaces() -> None:
    assert clean(" one\r\n\ttwo\u2028three ") == "one two three"


def test_marks_that_turn_the_writing_direction_are_gone() -> None:
    assert clean("safe\u202egnp.exe\u2066x\u200b") == "safegnp.exex"


def test_lone_surrogates_are_gone() -> None:
    assert clean("a\ud83db") == "ab"


def test_a_long_text_is_cut() -> None:
    assert clean("x" * 50, 10) == "xxxxxxxxx…"


def test_spaces_of_a_line_that_was_laid_out_stay() -> None:
    assert printable("  text       a\x1bb") == "  text       ab"


@given(st.text())
def test_whatever_is_cleaned_is_one_printable_line(text: str) -> None:
    assert clean(text).isprintable()


@pytest.mark.parametrize(("terminal", "shown"), [(True, "a]0;xb\n"), (False, "a\x1b]0;x\x07b\n")])
def test_a_path_is_printed_as_it_is_but_to_a_terminal(
    terminal: bool, shown: str, monkeypatch: pytest.MonkeyPatch
) -> None:
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
