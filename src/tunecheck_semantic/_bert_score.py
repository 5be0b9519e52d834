"""BERTScore: how well the tokens of two texts can be matched by meaning."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, ClassVar

from tunecheck import ConfigurationError, Metric
from tunecheck.evaluators import TextPair
from tunecheck.plugins import JSON, Verdict
from tunecheck_semantic._models import check_installed, digest, find_model
from tunecheck_semantic._pairs import SemanticEvaluator, cut_texts

if TYPE_CHECKING:
    from tunecheck_semantic._local import EncodedText


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

        Raises:
            ConfigurationError: there is no such model, or `layer` is not a positive whole number.
        """
        name = os.fspath(model)
        super().__init__(model=name, layer=layer, threshold=threshold, render_calls=render_calls)
        check_installed("bert_score")
        self._folder = find_model(name)
        if layer is not None and not (type(layer) is int and layer >= 1):
            raise ConfigurationError(f"layer must be a whole number of at least 1, not {layer!r}")
        self._layer = layer

    @property
    def arguments(self) -> dict[str, JSON]:
        """The constructor's arguments, and a digest of the model's content."""
        return {**super().arguments, "model_digest": digest(self._folder)}

    def _judge(self, pair: TextPair) -> Verdict:
        """Return the verdict on a pair of texts: F1, with precision, recall, layer and cut texts as properties.

        Raises:
            ConfigurationError: the model has fewer layers.
        """
        from tunecheck_semantic._local import load_model

        model = load_model(self._folder)
        layer = model.layers if self._layer is None else self._layer
        if layer > model.layers:
            raise ConfigurationError(f"layer must be a whole number from 1 to {model.layers}, not {layer}")
        candidate, reference = (model.encode(text.strip(), layer) for text in (pair.candidate, pair.reference))
        precision, recall = _match_tokens(candidate, reference)
        total = precision + recall
        properties: dict[str, JSON] = {
            "bert_score_precision": round(precision, 6),
            "bert_score_recall": round(recall, 6),
            "layer": layer,
            **cut_texts(candidate.truncated, reference.truncated),
        }
        return self._verdict(2 * precision * recall / total if total > 0 else 0.0, pair.fault, properties)


def _match_tokens(candidate: EncodedText, reference: EncodedText) -> tuple[float, float]:
    """Return precision and recall: the mean of each token's best cosine in the other text (equation 1 of the paper).

    A text without words gives 0.
    """
    import numpy as np

    given, wanted = (
        each.states / np.linalg.norm(each.states, axis=1, keepdims=True) for each in (candidate, reference)
    )
    cosines = given @ wanted.T
    best = (cosines.max(axis=1)[candidate.is_word], cosines.max(axis=0)[reference.is_word])
    precision, recall = (float(values.mean()) if len(values) else 0.0 for values in best)
    return precision, recall
