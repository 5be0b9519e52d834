"""The wording: what the session itself says comes from a file, and what the file leaves out from ours."""

import json
import random
from pathlib import Path

import pytest
from hypothesis import given, strategies as st
from tests.agent_parts import Words
from tests.memory_core_parts import POOL, wording
from tests.tables import cases

from tunecheck import ConfigurationError, DataError, MissingExtraError
from tunecheck_memory import FillerPool, load_filler, load_tokenizer, load_wording
from tunecheck_memory._tokens import ENCODINGS
from tunecheck_memory._wording import FillerWriter, fill


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


def test_a_menu_file_is_read_as_json(tmp_path: Path) -> None:
    menu = {"Soup": ["Tomato 🍅", "Leek", "Pea"], "Beverages": ["Tea"]}
    (tmp_path / "menu.json").write_text(json.dumps(menu, indent="\t"), "utf-8")
    wording = load_wording(file(tmp_path, "restaurant: {menu_file: menu.json}"))
    assert wording.restaurant.menu.sections["Soup"][0] == "Tomato 🍅"


@cases("memory")
def test_what_is_wrong_is_named_with_its_line(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(ConfigurationError, match=problem):
        load_wording(file(tmp_path, text))


def test_only_what_stands_in_the_template_is_filled_in() -> None:
    assert fill("{a} {b} {} {0} {c}", {"a": "{b}", "b": "2"}) == "{b} 2 {} {0} {c}"


def test_tokens_are_counted_as_cl100k_counts_them() -> None:
    tokenizer = load_tokenizer()
    # From the encoding's own table: " world" is one token, and a special token's name within a text is text.
    assert (tokenizer.count(""), tokenizer.count("hello world"), tokenizer.count("<|endoftext|>")) == (0, 2, 7)


def test_an_unknown_encoding_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="tokenizer: 'cl100k' is unknown; did you mean 'cl100k_base'"):
        load_tokenizer("cl100k")


def test_without_the_package_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys
    from importlib import util

    monkeypatch.delitem(sys.modules, "bpe_openai._bindings", raising=False)
    monkeypatch.setitem(sys.modules, "bpe_openai", None)
    monkeypatch.setattr(util, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"tunecheck\[memory\]"):
        load_tokenizer()


# -- filler: pools, and messages of the wanted size


pairs = st.lists(st.tuples(st.text(max_size=30), st.text(max_size=30)), min_size=1, max_size=8)


def test_a_pool_is_read_from_lines_of_question_and_answer(tmp_path: Path) -> None:
    file = tmp_path / "pool.jsonl"
    file.write_text('{"question": "Q?", "answer": "A", "more": 1}\n\n{"question": "R?", "answer": "B"}', "utf-8")
    assert load_filler(file).pairs == (("Q?", "A"), ("R?", "B"))


def test_the_references_file_is_read_as_it_is(shared_data: Path) -> None:
    pool = load_filler(shared_data / "ltm" / "trivia" / "trivia.json")
    assert len(pool.pairs) == 11_313
    assert pool.pairs[0] == ("Who was the man behind The Chipmunks?", "David Seville")


def test_the_pool_that_ships_holds_hundreds_of_questions() -> None:
    assert len(load_filler().pairs) >= 200


@cases("memory")
def test_a_file_that_is_no_pool_is_refused_with_its_line(tmp_path: Path, content: str, problem: str) -> None:
    file = tmp_path / "pool.jsonl"
    file.write_text(content, "utf-8")
    with pytest.raises(DataError, match=problem) as caught:
        load_filler(file)
    assert str(file) in str(caught.value)


def test_equal_pools_have_equal_hashes_and_others_have_others() -> None:
    assert FillerPool([("a", "b")]).sha256 == FillerPool((("a", "b"),)).sha256
    assert FillerPool([("a", "b")]).sha256 != FillerPool([("ab", "")]).sha256


def test_the_draws_are_those_of_choice() -> None:
    filler = FillerWriter(POOL, wording(), Words()).write(random.Random(3), 60)
    source = random.Random(3)
    assert [POOL.pairs[place] for place in filler.draws] == [source.choice(POOL.pairs) for _ in filler.draws]
    assert len(filler.draws) == 12  # 3 + 5 × 12 = 63, with 11 it would be 58


def test_a_message_has_an_entry_even_where_no_token_is_asked_for() -> None:
    assert len(FillerWriter(POOL, wording(), Words()).write(random.Random(0), 0).draws) == 1


def test_nothing_in_a_question_is_taken_for_a_placeholder() -> None:
    writer = FillerWriter(FillerPool([("{answer} {0} %s", "{question}")]), wording(), Words())
    assert writer.write(random.Random(0), 1).message == "p p p Q {answer} {0} %s A {question}\n"


@pytest.mark.parametrize("encoding", ENCODINGS)
@given(pairs=pairs, seed=st.integers(0, 99), tokens=st.integers(0, 300))
def test_the_size_is_that_of_the_whole_list_counted_at_once(
    encoding: str, pairs: list[tuple[str, str]], seed: int, tokens: int
) -> None:
    tokenizer = load_tokenizer(encoding)
    words = wording()
    filler = FillerWriter(FillerPool(pairs), words, tokenizer).write(random.Random(seed), tokens)

    def size(entries: tuple[int, ...]) -> int:
        lines = [f"Q {pairs[place][0]} A {pairs[place][1]}\n" for place in entries]
        answers = str([pairs[place][1] for place in entries])
        return tokenizer.count(words.filler.preface) + sum(map(tokenizer.count, lines)) + tokenizer.count(answers)

    # The reference stops in the same way: at the first entry that brings preface, lines and answers to the size.
    assert size(filler.draws) >= tokens
    assert len(filler.draws) == 1 or size(filler.draws[:-1]) < tokens
    assert filler.suggested == str([pairs[place][1] for place in filler.draws])
