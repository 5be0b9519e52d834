"""Run by a python that has torch, bert-score and sentence-transformers: their numbers for a model, as JSON.

python semantic_reference.py MODEL PAIRS.json FOLDER

FOLDER gets a small model with random weights of each family, and the hidden states that transformers computes with it.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

os.environ["HF_HUB_OFFLINE"] = "1"

import numpy as np
import torch
import transformers
from bert_score import BERTScorer
from sentence_transformers import SentenceTransformer

FAMILIES: dict[str, type[Any]] = {
    "bert": transformers.BertConfig,
    "roberta": transformers.RobertaConfig,
    "xlm-roberta": transformers.XLMRobertaConfig,
    "camembert": transformers.CamembertConfig,
    "mpnet": transformers.MPNetConfig,
    "distilbert": transformers.DistilBertConfig,
}
SHAPE = {
    "vocab_size": 90,
    "hidden_size": 32,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "initializer_range": 0.5,
}
DISTIL_SHAPE = {"vocab_size": 90, "dim": 32, "n_layers": 3, "n_heads": 4, "hidden_dim": 48, "initializer_range": 0.5}
TEXTS = [[0, 5, 7, 2], list(range(2, 90)), [3] * 300]
"""Token ids; the longest has pairs of tokens farther apart than MPNet tells apart."""


def write_family(folder: Path, config: type[Any]) -> None:
    """A model with random weights, and its states after each layer for each text."""
    torch.manual_seed(7)
    shape = DISTIL_SHAPE if config is transformers.DistilBertConfig else SHAPE
    model = transformers.AutoModel.from_config(config(**shape)).eval()
    for parameter in model.parameters():  # norms and biases too: they begin as ones and zeros
        torch.nn.init.normal_(parameter, std=0.3)
    model.save_pretrained(folder)
    found: dict[str, Any] = {}
    with torch.no_grad():
        for number, ids in enumerate(TEXTS):
            states = model(input_ids=torch.tensor([ids]), output_hidden_states=True).hidden_states
            found |= {f"{number}-{layer}": state[0].numpy() for layer, state in enumerate(states)}
    np.savez(folder / "states.npz", **found)
    (folder / "texts.json").write_text(json.dumps(TEXTS))


def bert_scores(model: str, layer: int, pairs: list[list[str]]) -> list[list[float]]:
    """Precision, recall and F1 of each pair."""
    scorer = BERTScorer(model_type=model, num_layers=layer, device="cpu")
    # One at a time: in a batch, the zeros of the padding take part in the matching.
    return [[float(value) for value in scorer.score([response], [truth])] for response, truth in pairs]


def main(model: str, pairs: list[list[str]], folder: Path) -> None:
    responses, truths = ([pair[side] for pair in pairs] for side in (0, 1))
    bert = {layer: bert_scores(model, layer, pairs) for layer in (3, 6)}
    encoder = SentenceTransformer(model, device="cpu")
    given, wanted = (torch.tensor(encoder.encode(texts)) for texts in (responses, truths))
    cosines = torch.nn.functional.cosine_similarity(given, wanted)
    for name, config in FAMILIES.items():
        write_family(folder / name, config)
    print(json.dumps({"bert_score": bert, "cosine": cosines.tolist()}))


if __name__ == "__main__":
    main(sys.argv[1], json.loads(Path(sys.argv[2]).read_text("utf-8")), Path(sys.argv[3]))
