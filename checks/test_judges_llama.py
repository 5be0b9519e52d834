"""Judges over a real model server, llama.cpp's, which holds its model to the schema that it is given."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from checks.test_real_servers import KEY, LLAMA_SERVER, free_port, running
from tests.conftest import ReferenceEnvironment
from tests.judge_parts import prompt_file

from tunecheck import DifferenceEvaluator, EndpointError, JudgementError, PromptyEvaluator, evaluate, load_endpoint
from tunecheck.endpoints import Endpoint
from tunecheck.evaluators import KINDS

pytestmark = [pytest.mark.timeout(900)]  # making the environment is most of it, the first time

SCORED = """\
---
model: {api: chat, parameters: {temperature: 1.5, max_tokens: 300, seed: 11}}
inputs: {response: {type: string}}
outputs:
  label: {type: string, enum: [pass, fail]}
  score: {type: integer, minimum: 1, maximum: 5}
judge: {metric: quality}
---
user:
Judge {{response}}
"""


@pytest.fixture(scope="module")
def llama(reference_env: ReferenceEnvironment, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    python = reference_env("llamacpp", "xllamacpp==2026.10.11549", "gguf==0.19.0")
    folder, port = tmp_path_factory.mktemp("llama"), free_port()
    with running(
        [str(python), str(LLAMA_SERVER), str(folder / "tiny.gguf"), str(port), KEY], folder, port, "/health"
    ) as url:
        yield url


@pytest.fixture
def model(llama: str, monkeypatch: pytest.MonkeyPatch) -> Endpoint:
    monkeypatch.setenv("TEST_LLAMA_KEY", KEY)
    auth = {"type": "key", "value": "${env:TEST_LLAMA_KEY}"}
    return load_endpoint({"kind": "openai", "url": f"{llama}/v1", "model": "tiny", "retries": 1, "auth": auth})


def test_a_model_of_noise_gives_verdicts_by_the_schema_alone(model: Endpoint, tmp_path: Path) -> None:
    judge = PromptyEvaluator(prompt_file(tmp_path, SCORED, "noise"), model)
    data = [{"response": f"answer {number}"} for number in range(12)]
    result = evaluate(data=data, evaluators={"quality": judge}, results_dir=tmp_path / "runs", workers=0)
    rows: Any = list(result["rows"])  # type: ignore[call-overload]
    assert not [row for row in rows if "error.quality" in row]
    for row in rows:
        assert row["outputs.quality.quality"] in range(1, 6)
        properties = row["outputs.quality.quality_properties"]
        assert properties["label"] in ("pass", "fail")
        assert properties["input_tokens"] > 0
        assert properties["output_tokens"] > 0
    assert len({row["outputs.quality.quality"] for row in rows}) > 1, "it is noise"


def test_text_without_end_is_cut_off_by_the_model_server_and_an_error_here(model: Endpoint, tmp_path: Path) -> None:
    text = SCORED.replace("  label: {type: string, enum: [pass, fail]}", "  reason: {type: string}")
    judge = PromptyEvaluator(prompt_file(tmp_path, text.replace("300", "20"), "endless"), model)
    try:
        assert judge(response="x")["quality"] in range(1, 6)
    except JudgementError as error:
        assert "cut off at the limit of tokens" in str(error)


SHORT = """\
---
model: {api: chat, parameters: {temperature: 1, max_tokens: 1200}}
inputs: {response: {type: string}, ground_truth: {type: string}}
outputs:
  reason: {type: string, maxLength: 20}
  differences: {type: array}
  score: {type: integer, minimum: 0, maximum: 1}
---
user:
{{response}} / {{ground_truth}}
"""
"""A character is a token of the tiny model: our own prompt does not fit into its context."""


def test_the_schema_of_the_difference_judge_is_one_that_llama_cpp_can_follow(model: Endpoint, tmp_path: Path) -> None:
    judge = DifferenceEvaluator(model, prompty=prompt_file(tmp_path, SHORT, "short"))
    for number in range(8):
        try:
            found: Any = judge(response=f"It is {number} degrees.", ground_truth="It is warm.")
        except EndpointError as error:  # noise may talk until it is cut off, which the server answers with 500
            assert isinstance(error, JudgementError) or error.status == 500
            continue
        assert found["difference"] in (0, 1)
        assert all(difference["kind"] in KINDS for difference in found["difference_differences"])
    assert not judge.endpoint.facts.formats, "the server took the schema"
