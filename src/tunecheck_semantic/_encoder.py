"""The forward pass of a BERT-like encoder (Devlin et al., 2019) in NumPy: token ids in, hidden states out.

On a CPU this is as fast as PyTorch, whose package is thirty times as large. Texts are joined to one long matrix, so
that none is padded; only attention goes text by text.
"""

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from tunecheck_semantic._blueprint import Architecture

Matrix: TypeAlias = npt.NDArray[np.float32]

_WORDS = "embeddings.word_embeddings.weight"

_BUCKETS_DISTANCE = 128
"""From this distance on, MPNet's relative positions are all the same."""


class _Linear(NamedTuple):
    weight: Matrix
    bias: Matrix

    def __call__(self, x: Matrix) -> Matrix:
        product: Matrix = x @ self.weight
        product += self.bias
        return product


class _Norm(NamedTuple):
    weight: Matrix
    bias: Matrix
    epsilon: float

    def __call__(self, x: Matrix) -> Matrix:
        x = x - x.mean(axis=-1, keepdims=True)
        x /= np.sqrt(np.square(x).mean(axis=-1, keepdims=True) + np.float32(self.epsilon))
        x *= self.weight
        x += self.bias
        return x


class _Layer(NamedTuple):
    attention: _Linear
    """Query, key and value beside each other."""
    out: _Linear
    out_norm: _Norm
    up: _Linear
    down: _Linear
    down_norm: _Norm


class Encoder:
    """The encoder with its weights. Threads may share it.

    Raises:
        KeyError, ValueError: the weights do not fit the architecture.
    """

    def __init__(self, architecture: Architecture, weights: Mapping[str, Matrix]) -> None:
        self.architecture = architecture
        # The weights by their names within the encoder; a whole model has them under `bert.` or the like.
        prefix = next((name.removesuffix(_WORDS) for name in weights if name.endswith(_WORDS)), "")
        self._weights = {
            name.removeprefix(prefix): weight for name, weight in weights.items() if name.startswith(prefix)
        }
        self._words = self._weights[_WORDS]
        self._positions = self._weights["embeddings.position_embeddings.weight"][architecture.first_position :]
        types = self._weights.get("embeddings.token_type_embeddings.weight")
        self._type = types[0] if types is not None else None
        self._norm = self._normalisation("embeddings.LayerNorm")
        self._layers = [self._layer(number) for number in range(architecture.layers)]
        self._relative = self._weights.get("encoder.relative_attention_bias.weight")
        self.width: int = self._words.shape[1]
        if self.width % architecture.heads or len(self._positions) < architecture.positions:
            raise ValueError("sizes do not fit together")
        self.states([[0]], architecture.layers)  # what does not fit shows now
        del self._weights  # the layers hold what is used of them

    def states(self, texts: Sequence[Sequence[int]], layers: int) -> list[Matrix]:
        """The hidden states after so many layers: for each text of token ids a matrix, one row for each token."""
        if not texts:
            return []
        ends = list(itertools.accumulate(len(ids) for ids in texts))
        spans = [slice(end - len(ids), end) for ids, end in zip(texts, ends, strict=True)]
        biases = [self._bias(len(ids)) for ids in texts]
        x = self._embedded(texts)
        for layer in self._layers[:layers]:
            x = self._through(layer, x, spans, biases)
        return [x[span].copy() for span in spans]

    def _embedded(self, texts: Sequence[Sequence[int]]) -> Matrix:
        ids = np.concatenate([np.asarray(text, dtype=np.int64) for text in texts])
        places = np.concatenate([np.arange(len(text)) for text in texts])
        x: Matrix = self._words[ids] + self._positions[places]
        if self._type is not None:
            x += self._type
        return self._norm(x)

    def _through(self, layer: _Layer, x: Matrix, spans: Sequence[slice], biases: Sequence[Matrix | None]) -> Matrix:
        projected = layer.attention(x)
        context = np.empty_like(x)
        for span, bias in zip(spans, biases, strict=True):
            context[span] = self._attended(projected[span], bias)
        x = layer.out_norm(layer.out(context) + x)
        inner = layer.up(x)
        inner = np.maximum(inner, 0, out=inner) if self.architecture.activation == "relu" else _gelu(inner)
        return layer.down_norm(layer.down(inner) + x)

    def _attended(self, projected: Matrix, bias: Matrix | None) -> Matrix:
        """One text's attention: softmax(q k / √d) v, in each head."""
        length, heads = len(projected), self.architecture.heads
        query, key, value = projected.reshape(length, 3, heads, -1).transpose(1, 2, 0, 3)
        scores: Matrix = query @ key.transpose(0, 2, 1)
        scores /= np.float32(math.sqrt(query.shape[-1]))
        if bias is not None:
            scores += bias
        scores -= scores.max(axis=-1, keepdims=True)
        np.exp(scores, out=scores)
        scores /= scores.sum(axis=-1, keepdims=True)
        return (scores @ value).transpose(1, 0, 2).reshape(length, -1)

    def _bias(self, length: int) -> Matrix | None:
        """What MPNet adds to the scores of each two tokens, by how far they are apart."""
        if self._relative is None:
            return None
        places = np.arange(length)
        buckets = _buckets(places[None, :] - places[:, None], len(self._relative))
        return self._relative[buckets].transpose(2, 0, 1)

    # -- weights

    def _layer(self, number: int) -> _Layer:
        names = self.architecture.names
        prefix = f"{names.layer}.{number}."
        parts = [self._linear(prefix + name) for name in (names.query, names.key, names.value)]
        return _Layer(
            _Linear(np.concatenate([p.weight for p in parts], axis=1), np.concatenate([p.bias for p in parts])),
            self._linear(prefix + names.out),
            self._normalisation(prefix + names.out_norm),
            self._linear(prefix + names.up),
            self._linear(prefix + names.down),
            self._normalisation(prefix + names.down_norm),
        )

    def _linear(self, name: str) -> _Linear:
        return _Linear(self._weights[f"{name}.weight"].T, self._weights[f"{name}.bias"])

    def _normalisation(self, name: str) -> _Norm:
        weight, bias = ("weight", "bias") if f"{name}.weight" in self._weights else ("gamma", "beta")
        return _Norm(self._weights[f"{name}.{weight}"], self._weights[f"{name}.{bias}"], self.architecture.epsilon)


def _gelu(x: Matrix) -> Matrix:
    """x Φ(x), exactly but for 1.5e-7: erf by Abramowitz and Stegun (1964), formula 7.1.26."""
    z = np.abs(x)
    z *= np.float32(math.sqrt(0.5))
    t = 1 / (1 + np.float32(0.3275911) * z)
    series = np.float32(1.061405429) * t
    for factor in (-1.453152027, 1.421413741, -0.284496736, 0.254829592):
        series += np.float32(factor)
        series *= t
    np.square(z, out=z)
    np.negative(z, out=z)
    series *= np.exp(z, out=z)
    erf = np.copysign(1 - series, x)
    erf += 1
    erf *= x
    erf *= np.float32(0.5)
    return erf


def _buckets(distance: npt.NDArray[np.int64], count: int) -> npt.NDArray[np.int64]:
    """Relative positions in buckets, as in T5 (Raffel et al., 2020): near ones each, far ones by their logarithm."""
    half = count // 2
    near = half // 2
    apart = np.abs(distance)
    steps = np.log(np.maximum(apart, 1) / np.float32(near)) / math.log(_BUCKETS_DISTANCE / near) * (half - near)
    far = np.minimum(near + steps.astype(np.int64), half - 1)
    buckets: npt.NDArray[np.int64] = np.where(apart < near, apart, far) + half * (distance > 0)
    return buckets
