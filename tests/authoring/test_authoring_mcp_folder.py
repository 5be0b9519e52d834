"""The files in an MCP server's folder: taken down, put back, shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from tunecheck_authoring._mcp.folder import put_back, shown_files, taken_down


def held(folder: Path) -> dict[str, str | None]:
    """All that is in a folder: what files hold, None for folders."""
    return {
        str(path.relative_to(folder)): None if path.is_dir() else path.read_text() for path in sorted(folder.rglob("*"))
    }


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "drafts").mkdir()
    (tmp_path / "drafts" / "letter.txt").write_text("Dear neighbours")
    (tmp_path / "notes.txt").write_text("Monday")
    return tmp_path


def test_what_was_added_changed_moved_and_deleted_is_undone(folder: Path) -> None:
    before, files = held(folder), taken_down(folder)
    (folder / "notes.txt").unlink()
    (folder / "notes.txt").mkdir()
    (folder / "notes.txt" / "inner.txt").write_text("new")
    (folder / "drafts").rename(folder / "old")
    (folder / "drafts").write_text("a file now")
    (folder / "link").symlink_to(folder / "old")
    assert files is not None
    put_back(folder, files)
    assert held(folder) == before


def test_a_file_that_stays_is_not_written_again(folder: Path) -> None:
    files = taken_down(folder)
    before = (folder / "notes.txt").stat()
    assert files is not None
    put_back(folder, files)
    after = (folder / "notes.txt").stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_the_folders_own_name_in_a_file_is_that_of_the_folder_it_is_put_into(folder: Path, tmp_path: Path) -> None:
    (folder / "index.txt").write_text(f"see {folder}/notes.txt and /service/notes.txt")
    files = taken_down(folder)
    other = tmp_path / "other"
    other.mkdir()
    assert files is not None
    put_back(other, files)
    assert (other / "index.txt").read_text() == f"see {other}/notes.txt and /service/notes.txt"


def test_files_are_shown_by_the_paths_that_calls_have_and_folders_hold_nothing(folder: Path) -> None:
    (folder / "photo.bin").write_bytes(b"\xff\x00")
    files = taken_down(folder)
    assert files is not None
    shown = shown_files(files)
    assert shown["/service/drafts"] is None
    assert shown["/service/notes.txt"] == "Monday"
    assert str(shown["/service/photo.bin"]).startswith("sha256:")


def test_a_folder_with_links_or_very_much_is_not_taken_down(folder: Path) -> None:
    (folder / "large.bin").write_bytes(b"7" * 1_000_001)
    assert taken_down(folder) is None
    (folder / "large.bin").unlink()
    (folder / "link").symlink_to(folder / "notes.txt")
    assert taken_down(folder) is None
