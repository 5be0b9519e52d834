"""docs/options.md holds what the commands' help says now."""

from __future__ import annotations

from scripts.write_options import PAGE, page


def test_the_page_of_options_is_the_commands_help() -> None:
    assert PAGE.read_text("utf-8") == page(), "run python scripts/write_options.py"
