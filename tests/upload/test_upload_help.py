"""The option of `evaluate` that this package adds, in the help."""

import pytest
from tests.cli_parts import here


def test_the_help_of_all_options_has_upload_and_the_short_one_leaves_it_out(capsys: pytest.CaptureFixture[str]) -> None:
    assert "--upload" not in here(capsys, "evaluate", "--help").out
    assert "--upload" in here(capsys, "evaluate", "--help-all").out
