"""What is needed to know of a model's `config.json`: how large it is, and what its weights are called.

The encoders of BERT's family differ in names, in where positions begin, and in MPNet's relative positions; the
arithmetic is the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tunecheck._errors import ConfigurationError
from tunecheck._json import JSON


@dataclass(frozen=True, slots=True)
class LayerNames:
    """What the parts of one layer are called."""

    layer: str = "encoder.layer"
    query: str = "attention.self.query"
    key: str = "attention.self.key"
    value: str = "attention.self.value"
    out: str = "attention.output.dense"
    out_norm: str = "attention.output.LayerNorm"
    up: str = "intermediate.dense"
    down: str = "output.dense"
    down_norm: str = "output.LayerNorm"


_BERT = LayerNames()
_MPNET = LayerNames(
    query="attention.attn.q",
    key="attention.attn.k",
    value="attention.attn.v",
    out="attention.attn.o",
    out_norm="attention.LayerNorm",
)
_DISTILBERT = LayerNames(
    layer="transformer.layer",
    query="attention.q_lin",
    key="attention.k_lin",
    value="attention.v_lin",
    out="attention.out_lin",
    out_norm="sa_layer_norm",
    up="ffn.lin1",
    down="ffn.lin2",
    down_norm="output_layer_norm",
)

_NAMES: Mapping[str, LayerNames] = {
    "bert": _BERT,
    "roberta": _BERT,
    "xlm-roberta": _BERT,
    "camembert": _BERT,
    "mpnet": _MPNET,
    "distilbert": _DISTILBERT,
}

_COUNT_FROM_PADDING = frozenset({"roberta", "xlm-roberta", "camembert", "mpnet"})
_ACTIVATIONS = frozenset({"gelu", "relu"})
_OTHER_KEYS: Mapping[str, str] = {
    "num_hidden_layers": "n_layers",
    "num_attention_heads": "n_heads",
    "hidden_act": "activation",
}


@dataclass(frozen=True, slots=True)
class Architecture:
    """An encoder's shape. `first_position`: the row of the position table that a text's first token takes."""

    names: LayerNames
    layers: int
    heads: int
    activation: str
    epsilon: float
    first_position: int
    positions: int
    """How many tokens a text may have."""


def read_architecture(config: Mapping[str, JSON], where: str) -> Architecture:
    """The shape of the model that a `config.json` describes; `where` names it in errors.

    Raises:
        ConfigurationError: such a model is not run here.
    """
    kind = config.get("model_type")
    if not isinstance(kind, str) or kind not in _NAMES:
        raise ConfigurationError(
            f"{where}: models of type {kind!r} are not run here, only {', '.join(_NAMES)}; others can be served by any "
            "server with /v1/embeddings and given as an endpoint"
        )
    activation = _value(config, "hidden_act")
    relative = config.get("position_embedding_type") or "absolute"
    if activation not in _ACTIVATIONS or relative != "absolute":
        raise ConfigurationError(f"{where}: its activation {activation!r} or {relative!r} positions are not run here")
    first = _count(config, "pad_token_id", where, 1) + 1 if kind in _COUNT_FROM_PADDING else 0
    return Architecture(
        names=_NAMES[kind],
        layers=_count(config, "num_hidden_layers", where),
        heads=max(1, _count(config, "num_attention_heads", where)),
        activation=str(activation),
        epsilon=_epsilon(config),
        first_position=first,
        positions=max(1, _count(config, "max_position_embeddings", where, 512) - first),
    )


def _value(config: Mapping[str, JSON], key: str) -> JSON:
    return config.get(key, config.get(_OTHER_KEYS.get(key, key)))


def _count(config: Mapping[str, JSON], key: str, where: str, default: int | None = None) -> int:
    value = _value(config, key)
    value = default if value is None else value
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 20:
        return value
    raise ConfigurationError(f"{where}: {key} must be a whole number, not {value!r}")


def _epsilon(config: Mapping[str, JSON]) -> float:
    value = config.get("layer_norm_eps")
    return value if isinstance(value, float) and 0 < value < 1 else 1e-12
