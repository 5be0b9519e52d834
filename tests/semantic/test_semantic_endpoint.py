"""Embedding similarity by an embeddings endpoint: on the wire, in a run, and when the service misbehaves."""

import asyncio
import base64
import json
import math
import pickle
import struct
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.fault_server import FaultServer, Request, Step, answer, busy, failing, raw
from tests.pipeline_parts import column, records, run
from tests.semantic_parts import MODEL
from tests.tables import cases

from tunecheck import ConfigurationError, EndpointError, MissingExtraError, RefusedError, ReplyError, RunError
from tunecheck.endpoints import load_endpoint, read_prices
from tunecheck_semantic import BertScoreEvaluator, EmbeddingSimilarityEvaluator
from tunecheck_semantic._endpoint import EmbeddingEndpoint, cosine, text_request, unpacked_vector
from tunecheck_semantic._evaluators import find_model

VECTORS: dict[str, list[float]] = {
    "east": [1.0, 0.0],
    "north": [0.0, 2.0],
    "west": [-3.0, 0.0],
    "north-east": [1.0, 1.0],
    "nowhere": [0.0, 0.0],
}


def texts_of(request: Request) -> list[str]:
    body: Any = request.json()
    texts: list[str] = body["input"]
    return texts


def reply_to(texts: list[str], **more: Any) -> dict[str, Any]:
    """An embeddings reply in OpenAI's form, the embeddings in another order than the texts."""
    data = [
        {"object": "embedding", "index": n, "embedding": VECTORS.get(text, [1.0, float(len(text))])}
        for n, text in enumerate(texts)
    ]
    return {"object": "list", "data": data[::-1], "model": "m", **more}


def embeds(request: Request, attempt: int) -> Step:
    texts = texts_of(request)
    tokens = sum(map(len, texts))
    return answer(reply_to(texts, usage={"prompt_tokens": tokens, "total_tokens": tokens}))


@pytest.fixture
def server() -> Iterator[FaultServer]:
    with FaultServer(embeds) as running:
        yield running


def base(server: FaultServer) -> str:
    return server.url.replace("/score", "/v1")


def definition(server: FaultServer, **more: Any) -> dict[str, Any]:
    return {"kind": "openai", "url": base(server), "model": "m", "retries": 0, **more}


def evaluator(server: FaultServer, **more: Any) -> EmbeddingSimilarityEvaluator:
    return EmbeddingSimilarityEvaluator(model_config=definition(server, **more))


def score_of(judge: EmbeddingSimilarityEvaluator, response: object, ground_truth: object) -> Any:
    return judge(response=response, ground_truth=ground_truth)["embedding_similarity"]


# -- scores


def test_the_score_is_the_cosine_of_the_two_vectors(server: FaultServer) -> None:
    judge = evaluator(server)
    assert score_of(judge, "east", "north") == 0
    assert score_of(judge, "east", "west") == -1
    assert score_of(judge, "east", "north-east") == pytest.approx(math.sqrt(0.5), abs=1e-6)


def test_a_verdict_has_the_eight_keys(server: FaultServer) -> None:
    found = evaluator(server)(response="east", ground_truth="north-east")
    assert found == {
        "embedding_similarity": pytest.approx(math.sqrt(0.5), abs=1e-6),
        "embedding_similarity_score": found["embedding_similarity"],
        "embedding_similarity_passed": True,
        "embedding_similarity_result": "pass",
        "embedding_similarity_reason": None,
        "embedding_similarity_status": "completed",
        "embedding_similarity_threshold": 0.7,
        "embedding_similarity_properties": {"input_tokens": len("east" + "north-east")},
    }


def test_both_texts_of_a_row_go_in_one_request(server: FaultServer) -> None:
    evaluator(server, parameters={"dimensions": 2})(response="east", ground_truth="north")
    (request,) = server.requests
    assert request.path == "/v1/embeddings"
    assert request.json() == {"model": "m", "dimensions": 2, "input": ["east", "north"]}


@pytest.mark.parametrize(("response", "ground_truth"), [("", "east"), (None, "east"), (" \n", "east"), ("east", "")])
def test_an_empty_text_scores_nothing_and_asks_nobody(server: FaultServer, response: Any, ground_truth: Any) -> None:
    found = evaluator(server)(response=response, ground_truth=ground_truth)
    assert (found["embedding_similarity"], found["embedding_similarity_result"]) == (0, "fail")
    assert found["embedding_similarity_reason"]
    assert not server.requests


def test_a_row_whose_ground_truth_is_a_call_is_not_applicable(server: FaultServer) -> None:
    call = {"name": "book", "arguments": {"city": "Rome"}}
    found = evaluator(server)(response="east", ground_truth=call)
    assert found["embedding_similarity_result"] == "not_applicable"
    assert not server.requests


def test_calls_can_be_compared_as_text(server: FaultServer) -> None:
    call = {"name": "book", "arguments": {"city": "Rome"}}
    judge = EmbeddingSimilarityEvaluator(model_config=definition(server), render_calls=True)
    assert score_of(judge, call, call) == pytest.approx(1)
    assert texts_of(server.requests[0]) == ['book(city="Rome")']


def test_what_is_neither_text_nor_call_is_an_error_of_the_row(server: FaultServer) -> None:
    with pytest.raises(TypeError, match="response must be text"):
        evaluator(server)(response=3.5, ground_truth="east")
    with pytest.raises(ValueError, match="there is no ground truth"):
        evaluator(server)(response="east", ground_truth=None)


def test_a_zero_vector_is_an_error_of_the_row(server: FaultServer) -> None:
    with pytest.raises(ReplyError, match="only zeros"):
        score_of(evaluator(server), "east", "nowhere")


# -- services


def test_azure_s_deployment_and_key_are_used(server: FaultServer) -> None:
    config = {
        "azure_endpoint": server.url.replace("/score", ""),
        "azure_deployment": "ada",
        "api_key": "a-secret-of-azure",
        "api_version": "2024-10-21",
    }
    judge = EmbeddingSimilarityEvaluator(model_config=config)
    score_of(judge, "east", "north")
    (request,) = server.requests
    assert request.path == "/openai/deployments/ada/embeddings?api-version=2024-10-21"
    assert request.headers["api-key"] == "a-secret-of-azure"
    assert "a-secret-of-azure" not in repr(judge) + json.dumps(judge.arguments)


@pytest.mark.parametrize("path", ["/v1", "/v1/", "/v1/embeddings", "/v1/chat/completions"])
def test_an_address_may_name_the_operation_or_not(server: FaultServer, path: str) -> None:
    judge = evaluator(server, url=server.url.replace("/score", path))
    score_of(judge, "east", "north")
    assert server.requests[0].path == "/v1/embeddings"


def test_a_full_azure_address_is_taken_as_it_is(server: FaultServer) -> None:
    url = server.url.replace("/score", "/openai/deployments/ada/embeddings")
    azure = {"kind": "azure_openai", "url": url, "deployment": "ada", "api_version": "v", "retries": 0}
    score_of(EmbeddingSimilarityEvaluator(model_config=azure), "east", "north")
    assert server.requests[0].path == "/openai/deployments/ada/embeddings?api-version=v"


def test_a_definition_file_can_be_given_as_the_model(server: FaultServer, cwd: Path) -> None:
    (cwd / "endpoints").mkdir()
    (cwd / "endpoints" / "ada.yaml").write_text(f"kind: openai\nurl: {base(server)}\nmodel: m\n", "utf-8")
    for name in ("ada", "ada.yaml", "endpoints/ada.yaml"):
        assert score_of(EmbeddingSimilarityEvaluator(name), "east", "north") == 0


def test_embeddings_in_base64_are_read(server: FaultServer) -> None:
    def packed(request: Request, attempt: int) -> Step:
        data = [
            {"index": n, "embedding": base64.b64encode(struct.pack("<2f", *VECTORS[text])).decode()}
            for n, text in enumerate(texts_of(request))
        ]
        return answer({"data": data})

    with FaultServer(packed) as other:
        judge = evaluator(other, parameters={"encoding_format": "base64"})
        assert score_of(judge, "east", "north-east") == pytest.approx(math.sqrt(0.5), abs=1e-6)


@cases("semantic")
def test_an_endpoint_without_embeddings_is_refused_at_once(given: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=r"returns no embeddings|is for chats, not /embeddings: leave it out"):
        EmbeddingSimilarityEvaluator(model_config=given)


def test_one_of_model_and_endpoint_must_be_given() -> None:
    with pytest.raises(ConfigurationError, match="needs either `model`"):
        EmbeddingSimilarityEvaluator()
    with pytest.raises(ConfigurationError, match="needs either `model`"):
        EmbeddingSimilarityEvaluator("a", model_config={"kind": "simulated"})


@pytest.mark.parametrize(("name", "full_name"), [("mini", "sentence-transformers/mini"), ("a/b", "a/b")])
def test_a_missing_model_is_told_with_the_name_for_its_download(
    name: str, full_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_for: list[str] = []

    def download(name: str, *, local_files_only: bool) -> str:
        looked_for.append(name)
        raise FileNotFoundError

    monkeypatch.setitem(sys.modules, "huggingface_hub", SimpleNamespace(snapshot_download=download))
    with pytest.raises(
        ConfigurationError, match=rf"the model '{name}' is no folder or package, .*: hf download {full_name}$"
    ):
        find_model(name)
    assert looked_for == [full_name]


# -- replies that are none


@cases("semantic")
def test_a_reply_that_is_none_is_an_error_of_the_row(reply: Any, said: str) -> None:
    with FaultServer(lambda *_: answer(reply)) as server, pytest.raises(ReplyError, match=said):
        score_of(evaluator(server), "east", "north")


def test_what_is_not_json_is_an_error_of_the_row() -> None:
    with FaultServer(lambda request, attempt: raw(b'{"data": [')) as server, pytest.raises(ReplyError):
        score_of(evaluator(server), "east", "north")


def test_a_busy_service_is_asked_again() -> None:
    plan = lambda request, attempt: busy("0") if attempt == 0 else embeds(request, attempt)  # noqa: E731
    with FaultServer(plan) as server:
        assert score_of(evaluator(server, retries=2), "east", "north") == 0
        assert len(server.requests) == 2


def test_refused_credentials_are_told_without_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EMBEDDING_KEY", "a-key-that-must-not-show")
    plan = lambda request, attempt: failing(401, f"bad key {request.headers['authorization']}")  # noqa: E731
    with FaultServer(plan) as server, pytest.raises(RefusedError) as caught:
        score_of(evaluator(server, auth={"type": "key", "value": "${env:EMBEDDING_KEY}"}), "east", "north")
    assert "must-not-show" not in str(caught.value)


# -- batches


async def asked_at_once(endpoint: EmbeddingEndpoint, *texts: str) -> list[Any]:
    try:
        return await asyncio.gather(*(endpoint.complete(text_request(text)) for text in texts), return_exceptions=True)
    finally:
        await endpoint.close()


def embedding_endpoint(server: FaultServer, **more: Any) -> EmbeddingEndpoint:
    return EmbeddingEndpoint(load_endpoint(definition(server, **more)))


async def test_texts_asked_for_at_once_go_together_up_to_64(server: FaultServer) -> None:
    texts = ["x" * n for n in range(1, 151)]
    found = await asked_at_once(embedding_endpoint(server), *texts)
    assert sorted(len(texts_of(request)) for request in server.requests) == [22, 64, 64]
    assert [unpacked_vector(each.text)[1] for each in found] == list(range(1, 151))


async def test_the_tokens_of_a_batch_are_shared_and_none_is_lost(server: FaultServer) -> None:
    found = await asked_at_once(embedding_endpoint(server), "a", "bbb", "cc" * 40)
    counts = [each.usage.input_tokens for each in found]
    assert sum(counts) == 84
    assert counts == sorted(counts)


async def test_one_refused_text_costs_the_others_nothing() -> None:
    def plan(request: Request, attempt: int) -> Step:
        return failing(400, "too long") if "toxic" in texts_of(request) else embeds(request, attempt)

    with FaultServer(plan) as server:
        good, bad, also_good = await asked_at_once(embedding_endpoint(server), "east", "toxic", "north")
    assert isinstance(bad, EndpointError)
    assert bad.status == 400
    assert [list(unpacked_vector(each.text)) for each in (good, also_good)] == [VECTORS["east"], VECTORS["north"]]


async def test_a_service_that_takes_fewer_texts_gets_fewer() -> None:
    def plan(request: Request, attempt: int) -> Step:
        return failing(413, "batch too large") if len(texts_of(request)) > 32 else embeds(request, attempt)

    texts = ["x" * n for n in range(1, 65)]
    with FaultServer(plan) as server:
        endpoint = embedding_endpoint(server)
        for _ in range(2):
            assert not any(isinstance(each, Exception) for each in await asked_at_once(endpoint, *texts))
        sizes = [len(texts_of(request)) for request in server.requests]
    assert sizes == [64, *[1] * 64, 32, 32]


async def test_a_failure_reaches_all_who_wait() -> None:
    with FaultServer(lambda request, attempt: failing(500)) as server:
        found = await asked_at_once(embedding_endpoint(server), "east", "north")
    assert all(isinstance(each, EndpointError) for each in found)


async def test_who_gives_up_waiting_does_not_disturb_the_others(server: FaultServer) -> None:
    endpoint = embedding_endpoint(server)
    first, second = (asyncio.ensure_future(endpoint.complete(text_request(text))) for text in ("east", "north"))
    await asyncio.sleep(0)
    first.cancel()
    assert list(unpacked_vector((await second).text or "")) == VECTORS["north"]
    await endpoint.close()
    assert [texts_of(request) for request in server.requests] == [["north"]]


# -- in a run


ROWS = [
    {"id": "a", "response": "east", "ground_truth": "north"},
    {"id": "b", "response": "north", "ground_truth": "north-east"},
    {"id": "c", "response": "east", "ground_truth": "east"},
    {"id": "d", "response": "anything", "ground_truth": {"name": "book", "arguments": {}}},
]


def test_in_a_run_each_text_is_bought_once_and_journaled(server: FaultServer, tmp_path: Path) -> None:
    result = run(tmp_path, ROWS, evaluators={"similar": evaluator(server)})
    scores = column(result, "outputs.similar.embedding_similarity")
    assert scores == [0, pytest.approx(math.sqrt(0.5), abs=1e-6), pytest.approx(1), None]
    assert sorted(text for request in server.requests for text in texts_of(request)) == ["east", "north", "north-east"]
    calls = records(result, "call")
    assert len(calls) == 3
    assert all(call["out"]["response"] is None for call in calls)  # the vector stands there once
    usage: Any = result.usage["similar"]
    assert (usage["calls"], usage["input_tokens"]) == (3, len("east" + "north" + "north-east"))


def test_rows_are_put_together_in_requests(server: FaultServer, tmp_path: Path) -> None:
    rows = [{"id": str(n), "response": f"text {n}", "ground_truth": f"truth {n}"} for n in range(320)]
    run(tmp_path, rows, evaluators={"similar": evaluator(server)})
    assert sum(len(texts_of(request)) for request in server.requests) == 640
    assert len(server.requests) <= 40


def test_a_run_taken_over_asks_only_for_the_texts_that_failed(tmp_path: Path) -> None:
    broken = ["north"]
    answered: set[str] = set()

    def plan(request: Request, attempt: int) -> Step:
        if set(broken) & set(texts_of(request)):
            return failing(400, "no")
        answered.update(texts_of(request))
        return embeds(request, attempt)

    with FaultServer(plan) as server:
        first = run(tmp_path, ROWS[:3], evaluators={"similar": evaluator(server)})
        assert [error and error["type"] for error in column(first, "error.similar")] == ["EndpointError"] * 2 + [None]
        # Which texts shared a request with the one that was refused depends on when they came.
        missing = {"east", "north", "north-east"} - answered
        broken.clear()
        server.requests.clear()
        second = run(tmp_path, ROWS[:3], evaluators={"similar": evaluator(server)}, reuse=first.run_dir)
        assert None not in column(second, "outputs.similar.embedding_similarity")
        assert sorted(text for request in server.requests for text in texts_of(request)) == sorted(missing)


def test_a_run_cut_off_by_its_budget_goes_on_and_buys_no_text_again(server: FaultServer, tmp_path: Path) -> None:
    rows = [{"id": str(n), "response": f"text {n:03}", "ground_truth": f"truth {n:03}"} for n in range(150)]
    price = {"input_per_million": 1_000.0}
    with pytest.raises(RunError, match="max-cost"):
        run(tmp_path, rows, evaluators={"similar": evaluator(server, price=price)}, max_cost=1.0)
    some = sum(len(texts_of(request)) for request in server.requests)
    assert 0 < some < 300
    result = run(tmp_path, rows, evaluators={"similar": evaluator(server, price=price)}, max_cost=9, resume="last")
    texts = [text for request in server.requests for text in texts_of(request)]
    assert len(texts) == len(set(texts)) == 300
    assert None not in column(result, "outputs.similar.embedding_similarity")


def test_the_price_counts_the_tokens_that_were_read(server: FaultServer, tmp_path: Path) -> None:
    price = {"input_per_million": 1_000.0}
    result = run(tmp_path, ROWS[:1], evaluators={"similar": evaluator(server, price=price)})
    usage: Any = result.usage["similar"]
    assert usage["cost"] == pytest.approx(len("east" + "north") * 1_000 / 1_000_000)


def test_a_price_file_names_the_model(server: FaultServer, tmp_path: Path) -> None:
    (tmp_path / "prices.yaml").write_text("models: {embedder: {input_per_million: 1000, output_per_million: 0}}\n")
    embedding = EmbeddingEndpoint(load_endpoint(definition(server, model="embedder")))
    read_prices(tmp_path / "prices.yaml").give(embedding)
    assert embedding.price is not None
    assert embedding.price.input_per_million == 1000


def test_it_may_be_used_in_a_run_after_direct_calls(server: FaultServer, tmp_path: Path) -> None:
    judge = evaluator(server)
    assert score_of(judge, "east", "north") == 0
    result = run(tmp_path, ROWS[:1], evaluators={"similar": judge})
    assert column(result, "outputs.similar.embedding_similarity") == [0]
    assert score_of(judge, "east", "west") == -1


def test_it_can_be_pickled_without_its_key(server: FaultServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EMBEDDING_KEY", "a-key-that-must-not-show")
    judge = evaluator(server, auth={"type": "key", "value": "${env:EMBEDDING_KEY}"})
    packed = pickle.dumps(judge)
    assert b"must-not-show" not in packed
    assert score_of(pickle.loads(packed), "east", "north") == 0
    assert server.requests[0].headers["authorization"] == "Bearer a-key-that-must-not-show"


def test_it_can_be_called_from_a_running_event_loop(server: FaultServer) -> None:
    async def notebook() -> Any:
        return score_of(evaluator(server), "east", "north")

    assert asyncio.run(notebook()) == 0


def test_its_fingerprint_knows_the_model_and_not_the_limits(server: FaultServer) -> None:
    plain, limited, other = (
        evaluator(server, **more).arguments for more in ({}, {"limits": {"concurrency": 2}}, {"model": "n"})
    )
    assert plain == limited
    assert plain != other


# -- vectors


def test_the_cosine_of_a_vector_with_itself_is_one_however_large() -> None:
    assert cosine([3e38, 3e38], [3e38, 3e38]) == 1
    assert cosine([1e-30], [-1e-30]) == -1


# -- the semantic evaluators where the extra is not installed


@pytest.mark.parametrize("kind", [BertScoreEvaluator, EmbeddingSimilarityEvaluator])
def test_without_the_extra_the_error_says_what_to_install(
    kind: type[BertScoreEvaluator], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'tunecheck\[semantic\]'"):
        kind(MODEL)
