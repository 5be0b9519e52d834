"""The page about comparisons does what it shows: its commands run, and their output is the page's."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli_parts import ROOT, environment, inside

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
    early, compared = (ran(workspace, program) for program in blocks("python"))
    assert early == ["better 18"]
    assert compared[0] == "worse"


def ran(workspace: Path, program: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=workspace, env=environment(), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()
