"""Tokens and scores of the text metrics are those of nltk and rouge_score."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import example, given, strategies as st
from tests.tables import cases
from tests.text_fragments import ascii_texts, international_texts

from tunecheck.evaluators import _text as rouge
from tunecheck.evaluators._text import bleu, common_ngrams, gleu, rouge_l_f, token_f1
from tunecheck.evaluators._text.meteor import Synset, meteor, stem, wordnet
from tunecheck.evaluators._text.tokens import nist_tokens, sentence_tokens, split_sentences, tokens_of, treebank_tokens

Tokens = tuple[str, ...]

FEW_WORDS = st.lists(st.sampled_from("a b c d the The".split()), max_size=12).map(tuple)
WORDS = st.lists(
    st.sampled_from(
        "the The cat cats dog dogs run running ran automobile cars car happy happily glad gladness best good well "
        "children child kid better purchase buy bought buying ice_cream icecream . , ! 今天 é".split()
    ),
    max_size=20,
).map(tuple)
PAIRS = st.one_of(st.tuples(FEW_WORDS, FEW_WORDS), st.tuples(WORDS, WORDS), WORDS.map(lambda words: (words, words)))


@given(pair=PAIRS)
@example(pair=((), ()))
@example(pair=(("a",), ()))
@example(pair=((), ("a",)))
@example(pair=(("a",), ("a",)))
def test_bleu_is_nltks_with_smoothing_method_4(pair: tuple[Tokens, Tokens]) -> None:
    from nltk.translate.bleu_score import SmoothingFunction, sentence_bleu

    reference, candidate = pair
    theirs = sentence_bleu([list(reference)], list(candidate), smoothing_function=SmoothingFunction().method4)
    assert bleu(reference, candidate) == theirs


@given(pair=PAIRS)
def test_gleu_is_nltks(pair: tuple[Tokens, Tokens]) -> None:
    from nltk.translate.gleu_score import sentence_gleu

    reference, candidate = pair
    assert gleu(reference, candidate) == sentence_gleu([list(reference)], list(candidate))


class NltkWordNet:
    """Our table as nltk's `meteor_score(…, wordnet=…)` asks it."""

    def synsets(self, word: str) -> list[SimpleNamespace]:
        return [_nltk_synset(synset) for synset in wordnet().synsets(word)]


def _nltk_synset(synset: Synset) -> SimpleNamespace:
    lemmas = [SimpleNamespace(name=lambda name=name: name) for name in synset.names]
    return SimpleNamespace(lemmas=lambda: lemmas)


@given(
    pair=PAIRS,
    alpha=st.sampled_from((0.9, 0.5, 0.0, 1.0)),
    beta=st.sampled_from((3.0, 1, 0.5)),
    gamma=st.sampled_from((0.5, 0, 1.0)),
)
def test_meteor_is_nltks_over_the_same_wordnet(
    pair: tuple[Tokens, Tokens], alpha: float, beta: float, gamma: float
) -> None:
    from nltk.translate.meteor_score import meteor_score

    reference, candidate = pair
    theirs = meteor_score([reference], candidate, wordnet=NltkWordNet(), alpha=alpha, beta=beta, gamma=gamma)
    assert meteor(reference, candidate, alpha=alpha, beta=beta, gamma=gamma) == theirs


@pytest.mark.parametrize("kind", ["rouge1", "rouge2", "rouge3", "rouge4", "rouge5", "rougeL", "rougeLsum"])
@given(
    texts=st.one_of(
        st.tuples(ascii_texts(), ascii_texts()),
        st.tuples(international_texts(), international_texts()),
        st.tuples(FEW_WORDS, FEW_WORDS).map(lambda pair: (" ".join(pair[0]), "\n".join(pair[1]))),
    )
)
def test_rouge_is_googles(kind: str, texts: tuple[str, str]) -> None:
    from rouge_score.rouge_scorer import RougeScorer

    reference, candidate = texts
    theirs = RougeScorer([kind]).score(reference, candidate)[kind]
    assert rouge_of(kind, reference, candidate) == (theirs.precision, theirs.recall, theirs.fmeasure)


def rouge_of(kind: str, reference: str, candidate: str) -> rouge.RougeScore:
    if kind == "rougeLsum":
        return rouge.rouge_lsum(reference, candidate)
    wanted, given = rouge.rouge_tokens(reference), rouge.rouge_tokens(candidate)
    return rouge.rouge_l(wanted, given) if kind == "rougeL" else rouge.rouge_n(wanted, given, int(kind[-1]))


@given(
    pair=st.one_of(
        st.tuples(ascii_texts(), ascii_texts()), st.tuples(WORDS, WORDS).map(lambda p: tuple(map(" ".join, p)))
    )
)
def test_rouge_l_with_a_stemmer_is_googles(pair: tuple[str, str]) -> None:
    from rouge_score.rouge_scorer import RougeScorer

    theirs = RougeScorer(["rougeL"], use_stemmer=True).score(*pair)["rougeL"]
    assert rouge_l_f(*pair, stemmer=True) == theirs.fmeasure


@given(
    word=st.builds(
        str.__add__,
        st.one_of(st.text("aeiouyssedtlnrbcgmpvzwx*d", max_size=8), st.text(max_size=6)),
        st.sampled_from(
            ",s,es,ies,sses,ss,ing,ed,ied,eed,ying,alli,allialli,logi,fulli,bli,ational,izer,ousness,icate,ative,ical,"
            "ement,ment,ent,ion,tion,sion,ll,e,ness,ably,yyy,*ded,y".split(",")
        ),
    )
)
@example(word="ab*ded")
@example(word="İ")
def test_stems_are_those_of_nltks_porter_stemmer(word: str) -> None:
    from nltk.stem.porter import PorterStemmer

    assert stem(word) == PorterStemmer().stem(word)


def test_meteors_worked_example_comes_out() -> None:
    # The example of nltk's documentation of meteor_score
    hypothesis = tuple(
        "It is a guide to action which ensures that the military always obeys the commands of the party".split()
    )
    reference = tuple("It is a guide to action that ensures that the military will forever heed Party commands".split())
    assert meteor(reference, hypothesis, alpha=0.9, beta=3.0, gamma=0.5) == pytest.approx(0.6944, abs=5e-5)
    assert meteor(("this", "is", "a", "cat"), ("non", "matching", "words"), alpha=0.9, beta=3.0, gamma=0.5) == 0.0


def test_repeated_ngrams_count_as_often_as_both_sides_have_them() -> None:
    # Papineni et al.: "the" occurs twice in the reference, seven times in the candidate
    assert common_ngrams(tuple("the cat is on the mat".split()), ("the",) * 7) == (2, 0, 0, 0)


@cases("scoring")
def test_f1_ignores_case_punctuation_and_articles(reference: str, candidate: str, expected: float) -> None:
    assert token_f1(reference, candidate) == pytest.approx(expected)


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


@cases("scoring")
def test_english_is_split_at_punctuation_and_clitics(text: str, tokens: list[str]) -> None:
    # Rules of the Penn Treebank: marks and clitics are tokens of their own, abbreviations keep their full stop.
    assert list(tokens_of(text)) == tokens


@cases("scoring")
def test_other_scripts_are_parted_from_ascii(text: str, tokens: list[str]) -> None:
    assert list(tokens_of(text)) == tokens
