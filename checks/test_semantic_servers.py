"""Embedding similarity against llama.cpp's own server, and both semantic evaluators in Azure's `evaluate()`."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from checks.semantic_pairs import PAIRS
from checks.test_real_servers import free_port, running
from tests.conftest import ROOT, ReferenceEnvironment
from tests.pipeline_parts import column, run
from tests.reference_environments import AZURE
from tests.semantic_parts import MODEL, semantic_packages

from tunecheck import RefusedError
from tunecheck_semantic import EmbeddingSimilarityEvaluator

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]  # making the environments is most of it, the first time

KEY = "a-key-for-tests-only"


@pytest.fixture(scope="module")
def llama(reference_env: ReferenceEnvironment, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    python = reference_env("llamacpp", "xllamacpp==2026.10.11549", "gguf==0.19.0")
    folder, port = tmp_path_factory.mktemp("llama"), free_port()
    script = ROOT / "checks" / "llama_embeddings.py"
    command = [str(python), str(script), str(folder / "tiny.gguf"), str(port), KEY]
    with running(command, folder, port, "/health") as url:
        yield url


def by_llama(url: str, monkeypatch: pytest.MonkeyPatch, key: str = KEY, **more: Any) -> EmbeddingSimilarityEvaluator:
    monkeypatch.setenv("LLAMA_KEY", key)
    auth = {"type": "key", "value": "${env:LLAMA_KEY}"}
    given = {"kind": "openai", "url": f"{url}/v1", "model": "tiny", "auth": auth, "retries": 0, **more}
    return EmbeddingSimilarityEvaluator(model_config=given)


def test_llama_cpp_gives_embeddings_and_counts_their_tokens(llama: str, monkeypatch: pytest.MonkeyPatch) -> None:
    judge = by_llama(llama, monkeypatch)
    same: Any = judge(response="It rained.", ground_truth="It rained.")
    other: Any = judge(response="It rained.", ground_truth="Völlig anders!")
    assert same["embedding_similarity"] == 1
    assert -1 <= other["embedding_similarity"] < 0.99999
    assert other["embedding_similarity_properties"]["input_tokens"] > 10


def test_llama_cpp_takes_a_run_s_texts_together(llama: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    rows = [{"id": str(n), "response": a, "ground_truth": b} for n, (a, b) in enumerate(PAIRS[:8])]
    judge = by_llama(llama, monkeypatch)
    result = run(tmp_path, rows, evaluators={"near": judge})
    alone = [judge(response=a, ground_truth=b)["embedding_similarity"] for a, b in PAIRS[:8]]
    assert column(result, "outputs.near.embedding_similarity") == pytest.approx(alone, abs=1e-4)


def test_llama_cpp_s_refusal_is_ours(llama: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RefusedError):
        by_llama(llama, monkeypatch, key="wrong-key-here")(response="a", ground_truth="b")


def test_a_text_too_long_for_llama_cpp_is_one_row_s_error(
    llama: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    rows = [
        {"id": "long", "response": "x" * 5_000, "ground_truth": "short"},
        {"id": "short", "response": "brief", "ground_truth": "short"},
    ]
    result = run(tmp_path, rows, evaluators={"near": by_llama(llama, monkeypatch)})
    errors = column(result, "error.near")
    assert (bool(errors[0]), bool(errors[1])) == (True, False)


SCRIPT = """
import contextlib, json, sys
data, llama, model, packages = sys.argv[1:]
sys.path.append(packages)
from azure.ai.evaluation import evaluate
from tunecheck_semantic import BertScoreEvaluator, EmbeddingSimilarityEvaluator

judges = {
    "bert": BertScoreEvaluator(model),
    "near": EmbeddingSimilarityEvaluator(model),
    "asked": EmbeddingSimilarityEvaluator(
        model_config={"type": "openai", "model": "tiny", "base_url": llama + "/v1", "api_key": "a-key-for-tests-only"}
    ),
}
with contextlib.redirect_stdout(sys.stderr):
    found = evaluate(data=data, evaluators=judges)
print(json.dumps(found["metrics"] | {"rows": found["rows"]}))
"""


def test_both_work_in_azure_s_evaluate(
    llama: str, reference_env: ReferenceEnvironment, shared_data: Path, tmp_path: Path
) -> None:
    rows = [{"response": a, "ground_truth": b} for a, b in PAIRS[:6]]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    python = reference_env("azure", *AZURE)
    with semantic_packages() as folder:
        packages = str(folder)
    done = subprocess.run(
        [str(python), "-c", SCRIPT, str(tmp_path / "rows.jsonl"), llama, MODEL, packages],
        env=os.environ | {"PYTHONPATH": str(ROOT / "src"), "NLTK_DATA": str(shared_data / "nltk_data")},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    similar = [row["outputs.near.embedding_similarity"] for row in found["rows"]]
    assert similar == pytest.approx([0.969760, 0.354649, 0.057588, 0.767298, 0.733495, 0.908992], abs=2e-5)
    assert [row["outputs.bert.bert_score_result"] for row in found["rows"]] == ["pass", "fail", "fail", *["pass"] * 3]
    assert found["near.embedding_similarity"] == pytest.approx(sum(similar) / 6, abs=1e-6)
    assert -1 <= found["asked.embedding_similarity"] <= 1
