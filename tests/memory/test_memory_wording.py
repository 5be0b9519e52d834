"""The wording: what the session itself says comes from a file, and what the file leaves out from ours."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.tables import cases

from tunecheck import ConfigurationError, MissingExtraError
from tunecheck_memory import load_tokenizer, load_wording
from tunecheck_memory._wording import fill


def file(folder: Path, text: str) -> Path:
    path = folder / "wording.yml"
    path.write_text(text, "utf-8")
    return path


def test_the_wording_that_ships_has_a_text_for_everything() -> None:
    wording = load_wording()
    assert wording.introduction and wording.filler.preface.endswith("\n")
    assert wording.farewell("Restaurant") != wording.farewell("Something of yours")
    assert wording.farewell("Something of yours")
    assert "{elapsed}" in wording.jokes.question


def test_the_references_wording_is_read_as_it_is(shared_data: Path) -> None:
    wording = load_wording(shared_data / "ltm" / "wording.yml")
    assert wording.filler.line == "Q: {question}, A: {answer}\n"
    assert wording.farewell("Prospective Memory") == "Forget my instruction to append a quote to one of your replies."
    assert wording.farewell("Colours") is None
    assert len(wording.restaurant.menu.sections) > 3


def test_what_a_file_leaves_out_is_ours(tmp_path: Path) -> None:
    ours = load_wording()
    wording = load_wording(file(tmp_path, "introduction: Hello.\nfiller: {preface: 'Well. '}\n"))
    assert (wording.introduction, wording.filler.preface) == ("Hello.", "Well. ")
    assert (wording.filler.line, wording.reset, wording.jokes) == (ours.filler.line, ours.reset, ours.jokes)
    assert wording.restaurant == ours.restaurant


def test_resets_of_a_file_stand_alone(tmp_path: Path) -> None:
    wording = load_wording(file(tmp_path, "reset: {Colours: Gone.}"))
    assert (wording.farewell("Colours"), wording.farewell("Shopping")) == ("Gone.", None)


def test_a_menu_file_is_looked_for_beside_the_wording(tmp_path: Path) -> None:
    (tmp_path / "menu.json").write_text('{"Soup": ["Tomato", "Leek", "Pea"], "Beverages": ["Tea"]}', "utf-8")
    wording = load_wording(file(tmp_path, "restaurant: {menu_file: menu.json}"))
    assert set(wording.restaurant.menu.sections) == {"Soup", "Beverages"}


@cases("memory")
def test_what_is_wrong_is_named_with_its_line(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(ConfigurationError, match=problem):
        load_wording(file(tmp_path, text))


def test_a_missing_menu_is_named_when_it_is_needed(tmp_path: Path) -> None:
    wording = load_wording(file(tmp_path, "restaurant: {menu_file: none.json}"))
    with pytest.raises(ConfigurationError, match=r"none\.json: cannot be read"):
        _ = wording.restaurant.menu


def test_only_what_stands_in_the_template_is_filled_in() -> None:
    assert fill("{a} {b} {} {0} {c}", {"a": "{b}", "b": "2"}) == "{b} 2 {} {0} {c}"


def test_tokens_are_counted_as_cl100k_counts_them() -> None:
    tokenizer = load_tokenizer()
    # From the encoding's own table: " world" is one token, and a special token's name within a text is text.
    assert (tokenizer.count(""), tokenizer.count("hello world"), tokenizer.count("<|endoftext|>")) == (0, 2, 7)


def test_an_unknown_encoding_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="no tokenizer 'cl100k'; did you mean 'cl100k_base'"):
        load_tokenizer("cl100k")


def test_without_the_package_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys
    from importlib import util

    monkeypatch.delitem(sys.modules, "bpe_openai._bindings", raising=False)
    monkeypatch.setitem(sys.modules, "bpe_openai", None)
    monkeypatch.setattr(util, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"tunecheck\[memory\]"):
        load_tokenizer()
