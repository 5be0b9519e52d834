"""User-written kinds: a class in a file, and what goes wrong with it."""

from pathlib import Path

import pytest
from tests.tables import cases

from tunecheck import ConfigurationError, PluginError
from tunecheck_memory import find_kind

HAIKU = """
from tunecheck_memory import Kind, scripted_test


class Haiku(Kind):
    name = "haiku"
    title = "Haiku"

    def __init__(self, *, lines: int = 3) -> None:
        self.lines = lines

    def definitions(self, count, making):
        return [scripted_test(self, str(n), ["Frog."] * self.lines, ["Recite."], ["Frog."]) for n in range(count)]
"""


def write(folder: Path, name: str, content: str) -> str:
    (folder / name).write_text(content, "utf-8")
    return name


def test_its_arguments_are_checked_by_their_names(tmp_path: Path) -> None:
    name = write(tmp_path, "haiku.py", HAIKU)
    with pytest.raises(ConfigurationError, match="has no argument 'line'; did you mean 'lines'"):
        find_kind(name, {"line": 2}, folder=tmp_path)


@cases("memory")
def test_a_file_without_one_kind_in_it_is_an_error_that_names_it(tmp_path: Path, content: str, problem: str) -> None:
    with pytest.raises(PluginError, match=problem):
        find_kind(write(tmp_path, "haiku.py", content), folder=tmp_path)
