"""Wrong use of `tunecheck serve`: one clear line, and the exit code 2."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cli_parts import here, workspace
from tests.tables import cases


@cases("serve")
def test_a_mistake_is_one_line_that_says_what_to_do(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    problem: str,
) -> None:
    monkeypatch.chdir(workspace(tmp_path))
    said = here(capsys, "serve", *arguments)
    assert (said.code, said.out, said.err.count("\n")) == (2, "", 1)
    assert said.err.startswith("error: ")
    assert problem in said.err
