"""Chapter breaks, made of the user's own passages: nothing is lost, one option is right."""

from pathlib import Path

import pytest
from hypothesis import given, strategies as st
from tests.memory_kinds_parts import as_rows
from tests.memory_scoring_parts import score_by_words
from tests.tables import cases

from tunecheck import ConfigurationError, DataError
from tunecheck.plugins import JSON
from tunecheck_memory import FinishedTest, GenerationContext, MemoryTest, Wait, find_kind
from tunecheck_memory._kinds.chapterbreak import CONTEXT_CHARACTERS, OPTION_CHARACTERS, pages_of


def sentence(book: str, chapter: int, number: int) -> str:
    return f"In {book} chapter {chapter} sentence {number} tells of a door that nobody opened."


def write_passages(folder: Path, name: str, chapters: int, sentences: int = 30) -> Path:
    """Write a passage for each chapter of a book except the first; the wrong beginnings are those of all others."""
    texts = [
        " ".join(sentence(name, chapter, number) for number in range(1, sentences + 1))
        for chapter in range(1, chapters + 1)
    ]
    rows = [
        as_rows({"context": "\n\n".join(texts[:number]), "next": texts[number], "others": [*texts]})
        for number in range(1, chapters)
    ]
    path = folder / f"{name}.jsonl"
    path.write_text("".join(rows), "utf-8")
    return path


def make(texts: Path | None, count: int = 1, seed: int = 0, **arguments: JSON) -> list[MemoryTest]:
    return find_kind("chapterbreak", arguments).definitions(count, GenerationContext(seed, 32_000, texts))


def pages(test: MemoryTest) -> list[str]:
    return [line.partition("\n\n")[2] for line in test.script if line.startswith("Page ")]


def options(test: MemoryTest) -> list[str]:
    return [line.partition("\n\n")[2] for line in test.script if line.startswith("Text number ")]


def test_without_texts_it_says_what_to_give() -> None:
    with pytest.raises(ConfigurationError, match="give the folder of the texts with --texts"):
        make(None)


def test_the_right_option_is_how_the_next_chapter_begins(tmp_path: Path) -> None:
    write_passages(tmp_path, "A", 10)
    for test in make(tmp_path, 9):
        chosen = options(test)[int(str(test.expected[0])) - 1]
        chapter = int(chosen.split()[3])
        assert pages(test)[-1].endswith(sentence("A", chapter - 1, 30))
        assert chosen.startswith(sentence("A", chapter, 1))
        assert len(options(test)) == len(set(options(test))) == 6


def test_each_passage_is_used_once_and_the_seed_shuffles_them(tmp_path: Path) -> None:
    write_passages(tmp_path, "A", 10)
    assert len({test.script[1] + test.script[-2] for test in make(tmp_path, 9)}) == 9
    assert make(tmp_path, 9) == make(tmp_path, 9)
    assert make(tmp_path, 3) == make(tmp_path, 9)[:3]
    assert make(tmp_path, 9, seed=1) != make(tmp_path, 9)


def test_the_answers_are_spread_over_the_options(tmp_path: Path) -> None:
    write_passages(tmp_path, "A", 60, sentences=3)
    assert {str(test.expected[0]) for test in make(tmp_path, 59)} == set("123456")


def test_nothing_waits_so_that_it_is_read_in_one_go(tmp_path: Path) -> None:
    write_passages(tmp_path, "A", 10)
    (test,) = make(tmp_path)
    assert all(wait == Wait() for wait in test.waits)
    assert len(test.waits) == len(test.is_question) == len(test.script)
    assert test.is_question[-1]
    assert sum(test.is_question) == 1


def test_the_pages_hold_every_sentence_of_the_chapters_before(tmp_path: Path) -> None:
    write_passages(tmp_path, "A", 7)
    for test in make(tmp_path, 6, max_message_size=200):
        read = " ".join(pages(test))
        chapter = int(options(test)[int(str(test.expected[0])) - 1].split()[3])
        for before in range(1, chapter):
            for number in range(1, 31):
                assert sentence("A", before, number) in read
        assert all(len(page) <= 200 * 3.6 for page in pages(test))
        assert test.script[1].startswith(f"Page 1 of {len(pages(test))}:")


def test_a_long_book_is_read_from_a_sentence_on(tmp_path: Path) -> None:
    write_passages(tmp_path, "A", 12, sentences=200)
    contexts = [" ".join(pages(test)) for test in make(tmp_path, 11)]
    assert all(len(context) <= CONTEXT_CHARACTERS for context in contexts)
    assert any(context.startswith("In A chapter") for context in contexts)
    assert all(len(option) <= OPTION_CHARACTERS for test in make(tmp_path, 11) for option in options(test))


def test_more_tests_than_passages_are_refused(tmp_path: Path) -> None:
    write_passages(tmp_path, "A", 6)
    write_passages(tmp_path, "B", 6)
    assert len(make(tmp_path, 10)) == 10
    with pytest.raises(ConfigurationError, match="needs 11 passages, but the texts have 10"):
        make(tmp_path, 11)


def test_a_passage_with_too_few_wrong_beginnings_is_refused(tmp_path: Path) -> None:
    write_passages(tmp_path, "A", 3)
    with pytest.raises(DataError, match=r"needs 5 wrong options .* there are only 2"):
        make(tmp_path)


@pytest.mark.parametrize("names", [("context", "next", "others"), ("ctx", "pos", "negs")])
def test_lines_hold_passages_under_either_name(tmp_path: Path, names: tuple[str, str, str]) -> None:
    wrong: list[JSON] = [f"Wrong number {number}." for number in range(7)]
    row: dict[str, JSON] = dict(zip(names, ("It was so. Then it ended.", "The right one.", wrong), strict=True))
    (tmp_path / "a.jsonl").write_text(as_rows(row) + "\n" + as_rows({**row, names[1]: "Another right one."}))
    for test in make(tmp_path, 2):
        assert options(test)[int(str(test.expected[0])) - 1] in ("The right one.", "Another right one.")
        assert sum("right one." in option for option in options(test)) == 1
        assert pages(test) == ["It was so. Then it ended."]


def test_a_split_takes_the_lines_that_name_it(tmp_path: Path) -> None:
    row: dict[str, JSON] = {"context": "So.", "others": list("abcde")}
    lines = [{**row, "next": "From pg19.", "split": "pg19"}, {**row, "next": "From ao3.", "split": "ao3"}]
    (tmp_path / "a.jsonl").write_text("".join(map(as_rows, lines)))
    (test,) = make(tmp_path, split="ao3")
    assert "From ao3." in options(test)
    assert len(make(tmp_path, 2, split="goodai")) == 2


@cases("memory")
def test_a_line_that_is_no_passage_is_named(tmp_path: Path, content: str, problem: str) -> None:
    (tmp_path / "a.jsonl").write_text(content)
    with pytest.raises(DataError, match=problem):
        make(tmp_path)


def test_a_folder_without_passages_and_a_line_that_is_not_utf8_are_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"there is no \.jsonl file"):
        make(tmp_path)
    (tmp_path / "a.jsonl").write_bytes(b'\n\n{"context": "Ch\xff"}')
    with pytest.raises(DataError, match=r"a\.jsonl, line 3: the line is not UTF-8"):
        make(tmp_path)


@given(st.text(alphabet="ab .!?…\n”\"'", max_size=400), st.integers(1, 60))
def test_paging_loses_nothing_and_keeps_to_the_size(text: str, size: int) -> None:
    found = pages_of(text, size)
    assert "".join(found).strip() == text.strip()
    assert all(len(page) <= size for page in found)


def test_pages_end_with_sentences_where_there_are_any() -> None:
    text = "One two three. Four five! “Six,” he said. " * 40
    assert all(page.rstrip().endswith((".", "!")) for page in pages_of(text, 200))


def test_the_right_number_scores_and_another_does_not(tmp_path: Path) -> None:
    write_passages(tmp_path, "A", 10)
    (test,) = make(tmp_path)
    scores = [score_by_words(FinishedTest(test.title, test.expected, [str(number)])) for number in range(1, 7)]
    assert sorted(score.score for score in scores if score) == [0, 0, 0, 0, 0, 1]
