"""Filler: pools, and messages of the wanted size."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import given, strategies as st
from tests.memory_core_parts import POOL, Words, wording
from tests.tables import cases

from tunecheck import DataError
from tunecheck_memory import FillerPool, load_filler, load_tokenizer
from tunecheck_memory._tokens import ENCODINGS
from tunecheck_memory._wording import FillerWriter

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
