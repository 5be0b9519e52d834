"""Tokens are nltk's tokens: Treebank's and Punkt's for ASCII, NIST's for everything else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, strategies as st
from tests.tables import cases
from tests.text_fragments import ascii_texts, international_texts

from tunecheck.evaluators._text.tokens import nist_tokens, sentence_tokens, split_sentences, tokens_of, treebank_tokens


@pytest.fixture(scope="module")
def nltk_with_data(shared_data: Path) -> Any:
    import nltk

    folder = str(shared_data / "nltk_data")
    if folder not in nltk.data.path:
        nltk.data.path.insert(0, folder)
    return nltk


@given(text=ascii_texts())
@example('"Quoted" at the start')
@example("''doubly' quoted'' \n\"after a line break\"")
@example("the\x1ecannot'tis\x1c said\x0c")
@example("end.> >")
@example("Lots of ```code``` and ``quotes''")
def test_ascii_texts_have_the_tokens_of_word_tokenize(nltk_with_data: Any, text: str) -> None:
    assert treebank_tokens(text) == nltk_with_data.word_tokenize(text)


@given(text=international_texts())
def test_other_texts_have_the_tokens_of_nltks_nist_tokenizer(nltk_with_data: Any, text: str) -> None:
    from nltk.tokenize.nist import NISTTokenizer

    assert nist_tokens(text) == NISTTokenizer().international_tokenize(text)


@given(text=ascii_texts())
def test_sentences_are_those_of_sent_tokenize(nltk_with_data: Any, text: str) -> None:
    assert [part for part in split_sentences(text) if part] == nltk_with_data.sent_tokenize(text)


@given(text=ascii_texts().map(str.strip))
def test_a_sentence_is_split_as_by_nltks_treebank_rules(text: str) -> None:
    from nltk.tokenize import NLTKWordTokenizer

    assert sentence_tokens(text) == NLTKWordTokenizer().tokenize(text)


@given(text=st.text(st.sampled_from("ab.!? \"'(),é中1"), max_size=30))
def test_a_text_is_tokenised_the_same_when_it_is_seen_again(text: str) -> None:
    assert tokens_of(text) == tokens_of(text)


@cases("scoring")
def test_english_is_split_at_punctuation_and_clitics(text: str, tokens: list[str]) -> None:
    # Rules of the Penn Treebank: marks and clitics are tokens of their own, abbreviations keep their full stop.
    assert list(tokens_of(text)) == tokens


@cases("scoring")
def test_other_scripts_are_parted_from_ascii(text: str, tokens: list[str]) -> None:
    assert list(tokens_of(text)) == tokens
