"""Embedding similarity: the cosine of two texts' embeddings, from a local model or an embeddings endpoint."""

import asyncio
import functools
import os
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any, ClassVar

from tunecheck import ConfigurationError, Metric, ReplyError
from tunecheck.endpoints import Completion, DirectCalls, Endpoint, ModelCalls
from tunecheck.evaluators import JudgeLoop, ModelConfig, TextPair, judge_endpoint
from tunecheck.plugins import JSON, Verdict
from tunecheck_semantic._endpoint import EmbeddingEndpoint, cosine, text_request, unpacked_vector
from tunecheck_semantic._models import check_installed, digest, find_model
from tunecheck_semantic._pairs import SemanticEvaluator, cut_texts

_DEFINITIONS = (".yaml", ".yml")
_MOST_ROWS = 512

_CallWith = Callable[..., Coroutine[Any, Any, Verdict]]


class EmbeddingSimilarityEvaluator(SemanticEvaluator):
    """The cosine of the embeddings of response and ground truth, from -1 to 1.

    `model` is a local model: a folder, the name of an installed package that contains one, or a name in the Hugging
    Face cache. It may also be the file or name of an endpoint's definition. `model_config` is an endpoint with
    `/embeddings`: an endpoint of kind openai or azure_openai, its definition (mapping, file or name), or one of
    Azure's model configurations. Give one of the two.

    Raises, when made:
        ConfigurationError: there is no such model or endpoint, or it gives no embeddings.
        MissingExtraError: the model is local, and the extra `semantic` is not installed.
    """

    metrics: ClassVar[tuple[Metric, ...]] = (Metric("embedding_similarity", range=(-1, 1)),)
    primary = "embedding_similarity"

    def __init__(
        self,
        model: str | os.PathLike[str] | None = None,
        *,
        model_config: ModelConfig | None = None,
        threshold: float = 0.7,
        render_calls: bool = False,
    ) -> None:
        """Check the arguments, and find the local model or create the endpoint.

        Raises:
            ConfigurationError: not exactly one of `model` and `model_config` is given, or it gives no embeddings.
        """
        if (model is None) == (model_config is None):
            raise ConfigurationError("give either model (a local embedding model) or model_config (an endpoint)")
        if model is not None and _is_definition(Path(model)):
            model, model_config = None, model
        name = None if model is None else os.fspath(model)
        super().__init__(model=name, threshold=threshold, render_calls=render_calls)
        self._folder: Path | None = None
        if name is not None:
            check_installed("embedding_similarity with a local model")
            self._folder = find_model(name)
        chat = None if model_config is None else judge_endpoint(model_config)
        self._embeddings = None if chat is None else EmbeddingEndpoint(chat)
        if self._embeddings is not None:
            self._loop = JudgeLoop(self._embeddings.close)
        self._made_of = {"model": name, "model_config": chat, "threshold": threshold, "render_calls": render_calls}

    @property
    def arguments(self) -> dict[str, JSON]:
        """The constructor's arguments, and the digest of the model or the settings that affect its embeddings."""
        if self._embeddings is not None:
            return {**super().arguments, "model_config": self._embeddings.answer_settings()}
        return {**super().arguments, "model_digest": digest(self._local)}

    @property
    def endpoint(self) -> Endpoint | None:
        """The embeddings endpoint; None if the model is local."""
        return self._embeddings

    @property
    def concurrency(self) -> int | None:
        """The number of rows at once: enough to fill a batch for each concurrent call of the endpoint."""
        endpoint = self._embeddings
        return None if endpoint is None else min(_MOST_ROWS, (endpoint.concurrency or 1) * EmbeddingEndpoint.most_texts)

    def __call__(self, *, response: object, ground_truth: object) -> Verdict:
        """Return the verdict on one row, with the metric's eight keys.

        Raises:
            ValueError: there is no ground truth.
            TypeError: a value is not a text, a call or a message.
            EndpointError: a call failed, also after retries.
        """
        if self._embeddings is None:
            return super().__call__(response=response, ground_truth=ground_truth)
        read = self._read(response, ground_truth)
        return self._loop.run(self._ask(DirectCalls(), self._embeddings, read)) if isinstance(read, TextPair) else read

    @property
    def call_with(self) -> _CallWith:
        """A coroutine function `call_with(calls, response=…, ground_truth=…)` that calls the endpoint through `calls`.

        An evaluator with a local model has no such attribute, because it runs in worker processes instead.
        """
        if self._embeddings is None:
            raise AttributeError("call_with")
        return self._call_with

    async def close(self) -> None:
        """Close connections."""
        if self._embeddings is not None:
            await self._embeddings.close()
            await asyncio.to_thread(self._loop.close)

    async def _call_with(self, calls: ModelCalls, *, response: object, ground_truth: object) -> Verdict:
        """Return the verdict on one row, with the texts' embeddings asked through `calls`."""
        assert self._embeddings is not None
        read = self._read(response, ground_truth)
        return await self._ask(calls, self._embeddings, read) if isinstance(read, TextPair) else read

    async def _ask(self, calls: ModelCalls, endpoint: EmbeddingEndpoint, pair: TextPair) -> Verdict:
        """Return the verdict on a pair of texts, each embedded by the endpoint. Equal texts are one call.

        Raises:
            ReplyError: an embedding has only zeros, or the two have different lengths.
        """
        requests = [text_request(text) for text in dict.fromkeys((pair.candidate, pair.reference))]
        completions = await asyncio.gather(*(calls.complete(endpoint, request) for request in requests))
        vectors = [unpacked_vector(completion.text or "") for completion in completions]
        try:
            score = cosine(vectors[0].tolist(), vectors[-1].tolist())
        except ValueError as error:
            raise ReplyError(f"endpoint {endpoint.name!r}: {error}") from None
        return self._verdict(score, pair.fault, _tokens(completions))

    def _judge(self, pair: TextPair) -> Verdict:
        """Return the verdict on a pair of texts by the local model, with the names of cut texts as property."""
        from tunecheck_semantic._local import load_model

        given, wanted = load_model(self._local).embed([pair.candidate, pair.reference])
        properties = cut_texts(given.truncated, wanted.truncated)
        return self._verdict(cosine(given.vector, wanted.vector), pair.fault, properties)

    @property
    def _local(self) -> Path:
        assert self._folder is not None
        return self._folder

    def __reduce__(self) -> tuple[Callable[[], object], tuple[()]]:
        return functools.partial(type(self), **self._made_of), ()  # type: ignore[arg-type]


def _is_definition(path: Path) -> bool:
    """True if a name is that of an endpoint's definition, not of a model. A folder is always a model."""
    if os.path.isdir(path):  # noqa: PTH112 - any text may be given as a model's name
        return False
    files = (Path("endpoints", path.name + ending) for ending in _DEFINITIONS)
    return path.suffix in _DEFINITIONS or any(map(os.path.isfile, files))


def _tokens(completions: Sequence[Completion]) -> dict[str, JSON]:
    """Return the calls' input tokens as a property, or nothing if the service counts none."""
    counts = [completion.usage.input_tokens for completion in completions]
    known = [count for count in counts if count is not None]
    return {"input_tokens": sum(known)} if known else {}
