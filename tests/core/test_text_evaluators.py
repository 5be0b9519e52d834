"""The text metrics: their verdicts as evaluators, and tokens and scores that are those of nltk and rouge_score."""

import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import example, given, strategies as st
from tests.tables import cases
from tests.text_fragments import ascii_texts, international_texts

import tunecheck
from tunecheck import ConfigurationError, Evaluator
from tunecheck.evaluators import (
    BleuScoreEvaluator,
    F1ScoreEvaluator,
    GleuScoreEvaluator,
    MeteorScoreEvaluator,
    RougeScoreEvaluator,
    RougeType,
    _text as rouge,
)
from tunecheck.evaluators._text import bleu, common_ngrams, gleu, meteor, rouge_l_f, token_f1
from tunecheck.evaluators._text.words import (
    nist_tokens,
    sentence_tokens,
    split_sentences,
    stem,
    synonyms,
    tokens_of,
    treebank_tokens,
)

ALL: tuple[Callable[..., Evaluator], ...] = (
    BleuScoreEvaluator,
    GleuScoreEvaluator,
    MeteorScoreEvaluator,
    RougeScoreEvaluator,
    F1ScoreEvaluator,
)
CALL = [{"id": "c1", "type": "function", "function": {"name": "get_weather", "arguments": '{"city": "Paris"}'}}]
CALL_TEXT = 'get_weather(city="Paris")'

every_metric = pytest.mark.parametrize("evaluator", [make() for make in ALL], ids=lambda made: made.primary)


@every_metric
def test_a_verdict_has_the_eight_keys_of_azure_in_its_order(evaluator: Evaluator) -> None:
    verdict = evaluator(response="It will rain.", ground_truth="It will rain.")
    name = evaluator.primary
    endings = ("", "_score", "_passed", "_result", "_reason", "_status", "_threshold", "_properties")
    assert list(verdict) == [name + ending for ending in endings]
    assert verdict[name] == verdict[f"{name}_score"]
    assert (verdict[f"{name}_passed"], verdict[f"{name}_result"]) == (True, "pass")
    assert (verdict[f"{name}_status"], verdict[f"{name}_reason"]) == ("completed", None)
    assert verdict[f"{name}_threshold"] == 0.5


def test_rouge_has_precision_recall_and_f1_in_its_properties() -> None:
    evaluator = RougeScoreEvaluator(RougeType.ROUGE_L, precision_threshold=0.8, recall_threshold=0.8)
    verdict = evaluator(response="the cat sat down", ground_truth="the cat sat")
    assert verdict["rouge_properties"] == {
        "rouge_precision": 0.75,
        "rouge_recall": 1.0,
        "rouge_f1_score": pytest.approx(6 / 7),
        "rouge_precision_result": "fail",
        "rouge_recall_result": "pass",
        "rouge_f1_score_result": "pass",
        "rouge_precision_passed": False,
        "rouge_recall_passed": True,
        "rouge_f1_score_passed": True,
        "rouge_precision_threshold": 0.8,
        "rouge_recall_threshold": 0.8,
        "rouge_f1_score_threshold": 0.5,
    }


@cases("scoring")
def test_identical_texts_score_as_in_azure(text: str, bleu: float, meteor: float, rouge: float, f1: float) -> None:
    scores = [make()(response=text, ground_truth=text) for make in ALL]
    assert scores[0]["bleu"] == pytest.approx(bleu, abs=6e-4)
    assert scores[1]["gleu"] == (1.0 if text else 0.0)
    assert scores[2]["meteor"] == pytest.approx(meteor, abs=6e-4)
    assert (scores[3]["rouge"], scores[4]["f1_score"]) == (rouge, f1)


def test_a_row_passes_from_the_threshold_on() -> None:
    pair = {"response": "the cat sat down", "ground_truth": "the cat sat"}
    assert F1ScoreEvaluator(threshold=0.8)(**pair)["f1_score_result"] == "pass"  # cat, sat of cat, sat, down: 0.8
    assert F1ScoreEvaluator(threshold=0.81)(**pair)["f1_score_result"] == "fail"


def test_thresholds_may_be_whole_numbers() -> None:
    verdict = RougeScoreEvaluator(f1_score_threshold=1)(response="so it is", ground_truth="so it is")
    assert (verdict["rouge_threshold"], verdict["rouge_result"]) == (1, "pass")


def test_a_rouge_type_may_be_given_as_its_text() -> None:
    by_text = RougeScoreEvaluator("rouge2")(response="a b c", ground_truth="b c d")
    by_member = RougeScoreEvaluator(RougeType.ROUGE_2)(response="a b c", ground_truth="b c d")
    assert by_text == by_member
    assert by_text["rouge"] == 0.5


def test_an_unknown_rouge_type_says_which_there_are() -> None:
    with pytest.raises(ConfigurationError, match=r"rouge_type must be one of rouge1, .*rougeL, not 'rougel'"):
        RougeScoreEvaluator("rougel")


@pytest.mark.parametrize("threshold", ["0.5", None, True, float("nan"), float("inf")])
def test_a_threshold_that_is_no_number_is_refused_by_name(threshold: object) -> None:
    makes: tuple[Callable[..., Evaluator], ...] = (BleuScoreEvaluator, MeteorScoreEvaluator, F1ScoreEvaluator)
    for make in makes:
        with pytest.raises(ConfigurationError, match="threshold must be a finite number, not"):
            make(threshold=threshold)
    with pytest.raises(ConfigurationError, match="recall_threshold must be a finite number"):
        RougeScoreEvaluator(recall_threshold=threshold)  # type: ignore[arg-type]


def test_meteors_parameters_come_in_azures_order() -> None:
    expected = {"alpha": 0.8, "beta": 2.0, "gamma": 0.4, "threshold": 0.5, "render_calls": False}
    assert MeteorScoreEvaluator(0.8, 2.0, 0.4).arguments == expected


def test_without_a_penalty_meteor_is_the_weighted_mean() -> None:
    # one of two words found, one of one word given: P = 1, R = 1/2, PR / (0.9 P + 0.1 R)
    verdict = MeteorScoreEvaluator(gamma=0)(response="rain", ground_truth="rain today")
    assert verdict["meteor"] == pytest.approx(0.5 / 0.95)


@every_metric
@pytest.mark.parametrize(
    "ground_truth",
    [CALL, '<functioncall> {"name": "get_weather", "arguments": \'{"city": "Paris"}\'}', "[get_weather(city='Paris')]"],
)
def test_a_row_whose_ground_truth_is_a_call_is_not_applicable(evaluator: Evaluator, ground_truth: object) -> None:
    verdict = evaluator(response="It rains.", ground_truth=ground_truth)
    name = evaluator.primary
    assert (verdict[name], verdict[f"{name}_passed"], verdict[f"{name}_result"]) == (None, None, "not_applicable")
    assert verdict[f"{name}_status"] == "skipped"
    assert "render_calls" in str(verdict[f"{name}_reason"])


@pytest.mark.parametrize("make", ALL)
def test_rendered_calls_are_compared_as_text_in_any_format(make: Callable[..., Evaluator]) -> None:
    evaluator = make(render_calls=True)
    name = evaluator.primary
    same = evaluator(
        response='<tool_call>{"name": "get_weather", "arguments": {"city": "Paris"}}</tool_call>', ground_truth=CALL
    )
    other = evaluator(response="[get_time(zone='Paris')]", ground_truth=CALL)
    as_text = make()(response=CALL_TEXT, ground_truth=CALL_TEXT)
    assert same[name] == as_text[name]
    assert float(str(other[name])) < float(str(same[name]))


@every_metric
def test_a_response_that_calls_instead_of_answering_scores_0_with_a_reason(evaluator: Evaluator) -> None:
    verdict = evaluator(response=CALL, ground_truth="It rains in Paris.")
    name = evaluator.primary
    assert (verdict[name], verdict[f"{name}_result"]) == (0, "fail")
    assert verdict[f"{name}_reason"] == "the response calls get_weather; there is no text to score"


def test_the_text_beside_a_call_is_what_is_scored() -> None:
    response = {"role": "assistant", "content": "It rains in Paris.", "tool_calls": CALL}
    verdict = BleuScoreEvaluator()(response=response, ground_truth="It rains in Paris.")
    assert verdict["bleu"] == pytest.approx(1.0)
    assert verdict["bleu_reason"] == "the response calls get_weather; only the response's text is scored"


def test_a_response_with_an_unreadable_call_says_so() -> None:
    response = [{"type": "function", "function": {"name": "f", "arguments": "{broken"}}]
    verdict = GleuScoreEvaluator()(response=response, ground_truth="It rains.")
    assert verdict["gleu"] == 0
    assert str(verdict["gleu_reason"]).startswith("the response holds a call that cannot be read: ")


def test_a_chat_message_counts_as_its_text() -> None:
    message = [{"role": "assistant", "content": "It rains."}]
    of_message, of_text = (BleuScoreEvaluator()(response=each, ground_truth=each) for each in (message, "It rains."))
    assert of_message["bleu"] == of_text["bleu"]


@every_metric
@pytest.mark.parametrize("response", [None, []])
def test_no_response_scores_0_with_a_reason(evaluator: Evaluator, response: object) -> None:
    verdict = evaluator(response=response, ground_truth="It rains.")
    name = evaluator.primary
    assert (verdict[name], verdict[f"{name}_result"], verdict[f"{name}_reason"]) == (0, "fail", "no response")


@every_metric
def test_a_missing_ground_truth_is_an_error_of_the_row(evaluator: Evaluator) -> None:
    with pytest.raises(ValueError, match=r"^there is no ground truth: map a column to `ground_truth`\Z"):
        evaluator(response="It rains.", ground_truth=None)


@pytest.mark.parametrize("value", [3, 2.5, True, {"city": "Paris"}, ["It rains."], b"It rains."])
def test_what_is_neither_text_nor_call_is_refused_by_parameter_and_type(value: object) -> None:
    kind = type(value).__name__
    for arguments, name in (
        ({"response": value, "ground_truth": "It rains."}, "response"),
        ({"response": "It rains.", "ground_truth": value}, "ground_truth"),
    ):
        with pytest.raises(TypeError, match=f"^{name} must be text or function calls, not (a )?{kind}"):
            BleuScoreEvaluator()(**arguments)


def test_long_texts_are_compared_by_rouge_l() -> None:
    text = "word " * 20_000
    assert RougeScoreEvaluator("rougeL")(response=text, ground_truth=text)["rouge"] == 1.0


def test_rouge_l_f_takes_word_forms_for_equal_with_a_stemmer() -> None:
    assert rouge_l_f("the cats are sleeping", "the cat was sleeping", stemmer=False) == 0.5
    assert rouge_l_f("the cats are sleeping", "the cat was sleeping", stemmer=True) == 0.75
    assert rouge_l_f("two lieds", "two lie", stemmer=True) == 1.0  # as by nltk's stemmer


def run(code: str, *, path: Path | None = None, cwd: Path) -> str:
    """The output of a fresh interpreter that has neither network nor nltk's data."""
    package = path or Path(tunecheck.__file__).parents[1]
    offline = "import socket\ndef refuse(*a, **k): raise OSError('no network')\nsocket.socket.connect = refuse\n"
    environment = {"PYTHONPATH": str(package), "HOME": str(cwd), "NLTK_DATA": str(cwd)}
    done = subprocess.run(
        [sys.executable, "-c", offline + code], env=environment, cwd=cwd, capture_output=True, text=True, check=False
    )
    assert not done.stderr
    return done.stdout


SCORE_ALL = """
from tunecheck.evaluators._text import *
kinds = (BleuScoreEvaluator, GleuScoreEvaluator, MeteorScoreEvaluator, RougeScoreEvaluator, F1ScoreEvaluator)
def score(response, ground_truth):
    return [kind()(response=response, ground_truth=ground_truth) for kind in kinds]
"""


def test_importing_the_metrics_and_scoring_a_plain_row_loads_no_large_library(tmp_path: Path) -> None:
    code = SCORE_ALL + "score('It rains. We stay.', 'It is raining, so we stay in.')\nimport sys\n"
    code += "print([name for name in ('nltk', 'numpy', 'pandas', 'rouge_score', 'scipy') if name in sys.modules])"
    assert run(code, cwd=tmp_path) == "[]\n"


def test_scoring_needs_no_network_and_no_downloads(tmp_path: Path) -> None:
    row = "'Mr. Smith said \"Go!\" No. 5 went… café', 'Dr. Who said \"Stop.\" 5 p.m. is late. So he went.'"
    printed = run(SCORE_ALL + f"print(score({row}) == score({row}), len(score({row})))", cwd=tmp_path)
    assert printed == "True 5\n"


def test_the_metrics_work_from_a_zipped_package(tmp_path: Path) -> None:
    source = Path(tunecheck.__file__).parent
    with zipfile.ZipFile(tmp_path / "package.zip", "w") as archive:
        for file in source.rglob("*"):
            if file.suffix in (".py", ".pyi", ".txt", ".bin") and file.is_file():
                archive.write(file, Path("tunecheck") / file.relative_to(source))
    row = "'Mr. Smith is happy. 5 cats.', 'Mr. Smith is glad. No. 5 cats. é'"
    code = SCORE_ALL + f"print([list(verdict.values())[0] for verdict in score({row})])"
    assert run(code, path=tmp_path / "package.zip", cwd=tmp_path) == run(code, cwd=tmp_path) != ""


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
        lemmas = [SimpleNamespace(name=lambda name=name: name) for name in synonyms(word)]
        return [SimpleNamespace(lemmas=lambda: lemmas)]


@given(
    pair=PAIRS,
    alpha=st.sampled_from((0.9, 0.5, 0.0, 1.0)),
    beta=st.sampled_from((3.0, 1, 0.5)),
    gamma=st.sampled_from((0.5, 0, 1.0)),
)
def test_meteor_is_nltks_with_our_wordnet(pair: tuple[Tokens, Tokens], alpha: float, beta: float, gamma: float) -> None:
    from nltk.translate.meteor_score import meteor_score

    reference, candidate = pair
    theirs = meteor_score([reference], candidate, wordnet=NltkWordNet(), alpha=alpha, beta=beta, gamma=gamma)
    assert meteor(reference, candidate, alpha=alpha, beta=beta, gamma=gamma) == theirs


@pytest.mark.parametrize("kind", ["rouge1", "rouge2", "rouge3", "rouge4", "rouge5", "rougeL"])
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
