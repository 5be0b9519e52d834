"""The files in an MCP server's folder: shown as the state of a service."""

from pathlib import Path

import pytest

from tunecheck_authoring._mcp.client import files_in


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "drafts").mkdir()
    (tmp_path / "drafts" / "letter.txt").write_text("Dear neighbours")
    (tmp_path / "notes.txt").write_text("Monday")
    return tmp_path


def test_files_are_shown_by_the_paths_that_calls_have_and_folders_hold_nothing(folder: Path) -> None:
    (folder / "photo.bin").write_bytes(b"\xff\x00")
    (folder / "index.txt").write_text(f"see {folder}/notes.txt")
    shown = files_in(folder)
    assert shown is not None
    assert shown["/service/drafts"] is None
    assert shown["/service/notes.txt"] == "Monday"
    assert shown["/service/drafts/letter.txt"] == "Dear neighbours"
    assert shown["/service/index.txt"] == "see /service/notes.txt"
    assert str(shown["/service/photo.bin"]).startswith("sha256:")


def test_a_folder_with_links_or_more_than_a_megabyte_is_not_shown(folder: Path) -> None:
    (folder / "large.bin").write_bytes(b"7" * 1_000_001)
    assert files_in(folder) is None
    (folder / "large.bin").unlink()
    (folder / "link").symlink_to(folder / "notes.txt")
    assert files_in(folder) is None
