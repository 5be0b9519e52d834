"""Constants in a Python file are read as data: nothing in the file is ever run."""

import ast
import gc
from pathlib import Path

import pytest
from tests.bfcl_data_parts import make_tree
from tests.bfcl_reference import reference_wheel
from tests.tables import cases

from tunecheck import DataError
from tunecheck.plugins import JSON
from tunecheck_bfcl import find_bfcl, get_bfcl
from tunecheck_bfcl._data.files import LONG_CONTEXT, PROMPTS, BfclFiles
from tunecheck_bfcl._data.prompts import (
    ADDED_FUNCTIONS,
    ADDED_FUNCTIONS_TEXT,
    read_constants,
    read_long_context,
    read_prompts,
    system_prompt,
    text_constants,
)


def _file(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "constants.py"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def bfcl_copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The release's data, unpacked."""
    return get_bfcl(to=tmp_path_factory.mktemp("bfcl") / "data", source=reference_wheel())


def test_literals_are_read_and_what_surrounds_them_is_passed_over(tmp_path: Path) -> None:
    path = _file(
        tmp_path,
        "import os\n"
        "A = 'text'\n"
        "B: list[int] = [1, -2.5, None, True]\n"
        "C = {'k': (1, 2)}\n"
        "def f():\n    D = 1\n"
        "class E:\n    F = 2\n",
    )
    assert read_constants(path) == {"A": "text", "B": [1, -2.5, None, True], "C": {"k": (1, 2)}}


def test_texts_put_together_from_constants_are_read(tmp_path: Path) -> None:
    path = _file(tmp_path, "A = 'a'\nB = A + 'b'\nC = {'x': B, 'y': {'z': A + B + '-'}}\nD = f'{A}'\n")
    assert read_constants(path) == {"A": "a", "B": "ab", "C": {"x": "ab", "y": {"z": "aab-"}}}


def test_a_file_that_would_act_when_run_is_only_read(tmp_path: Path) -> None:
    canary = tmp_path / "canary"
    touch = f"__import__('pathlib').Path({str(canary)!r}).touch()"
    path = _file(
        tmp_path,
        f"{touch}\nA = {touch}\nB = [{touch}]\nC = {{'k': {touch}}}\nD = 'a' + {touch}\nE = f\"{{{touch}}}\"\n"
        f"F: {touch} = 1\nG = (lambda: {touch})()\nH = [x for x in [{touch}]]\nOK = 'read'\n",
    )
    assert read_constants(path) == {"F": 1, "OK": "read"}
    assert list(text_constants(path))
    assert not canary.exists()


def test_a_constant_that_is_assigned_again_to_something_else_is_unknown(tmp_path: Path) -> None:
    assert read_constants(_file(tmp_path, "A = 1\nA = f()\nB = A\n")) == {}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("A = (", ", line 1: this is not Python"),
        ("A = " + "(" * 5000 + ")" * 5000, "is not Python|cannot be parsed"),
        ("A = '\0'", "is not Python|cannot be parsed"),
        ("A = " + "-" * 100_000 + "1", "is not Python|cannot be parsed"),
    ],
)
def test_what_is_not_python_is_an_error_in_one_line(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(DataError, match=said):
        read_constants(_file(tmp_path, text))


def test_prompts_are_read_by_dotted_name_and_never_run(tmp_path: Path) -> None:
    make_tree(tmp_path)
    prompts = read_prompts(tmp_path)
    assert prompts["TABLE.classic.task"] == "do it"
    assert prompts[ADDED_FUNCTIONS] == "there is more"
    assert prompts[ADDED_FUNCTIONS_TEXT] == "{functions}|there is more"


def test_a_copy_without_prompts_says_how_to_get_them(tmp_path: Path) -> None:
    make_tree(tmp_path)
    (tmp_path / "bfcl_eval" / PROMPTS).unlink()
    with pytest.raises(DataError, match=r"the file constants/default_prompts\.py is missing; .* tunecheck bfcl get"):
        read_prompts(tmp_path)


def test_a_missing_piece_of_the_system_prompt_is_named(tmp_path: Path) -> None:
    make_tree(tmp_path)
    with pytest.raises(DataError, match=r"has no prompt PROMPT_STYLE_TEMPLATES\.classic\.persona; get the data again"):
        system_prompt(read_prompts(tmp_path), [])


def test_braces_in_functions_do_not_disturb_the_system_prompt(bfcl_copy: Path) -> None:
    tricky: JSON = {"name": "{persona}", "description": "{0.__class__} {functions}"}
    text = system_prompt(read_prompts(bfcl_copy), [tricky])
    assert '"name": "{persona}"' in text
    assert '"description": "{0.__class__} {functions}"' in text


def test_long_context_constants_are_found_in_a_copy_its_package_and_its_data(tmp_path: Path) -> None:
    data = make_tree(tmp_path)
    for place in (tmp_path, data.parent, data):
        assert dict(read_long_context(find_bfcl(place))) == {"WORDS": ["a", "b"]}


def test_a_parser_that_is_disturbed_is_tried_again(bfcl_copy: Path) -> None:
    """CPython 3.11's parser fails if it is used while it works; here by the garbage collector, usually by a thread."""
    uses = iter(range(6))

    def use_parser(phase: str, info: object) -> None:
        if next(uses, None) is not None:
            ast.parse("[[1]]")

    gc.callbacks.append(use_parser)
    try:
        constants = read_long_context(find_bfcl(bfcl_copy))
    finally:
        gc.callbacks.remove(use_parser)
    assert next(uses, None) is None
    assert constants == read_long_context(find_bfcl(bfcl_copy))


def test_without_its_file_long_context_says_how_to_get_it(tmp_path: Path) -> None:
    said = r"long_context\.py: the file is missing, but long-context rows need it; .* tunecheck bfcl get"
    with pytest.raises(DataError, match=said):
        read_long_context(BfclFiles(tmp_path, tmp_path))


def test_a_file_without_constants_is_no_long_context(tmp_path: Path) -> None:
    path = tmp_path / LONG_CONTEXT
    path.parent.mkdir(parents=True)
    path.write_text("A = object()\n")
    with pytest.raises(DataError, match="contains no constants"):
        read_long_context(BfclFiles(tmp_path, tmp_path))


@cases("bfcl")
def test_the_release_has_the_sixteen_constants_of_the_reference_page(bfcl_copy: Path, sizes: dict[str, int]) -> None:
    constants = read_long_context(find_bfcl(bfcl_copy))
    found = {name: len(value) for name, value in constants.items() if isinstance(value, (str, list, dict))}
    assert found == sizes
