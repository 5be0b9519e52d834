"""Run by a python that has torch, bert-score and sentence-transformers: their numbers for a model, as JSON.

python semantic_reference.py MODEL PAIRS.json
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"

import torch
from bert_score import BERTScorer
from sentence_transformers import SentenceTransformer


def bert_scores(model: str, layer: int, pairs: list[list[str]]) -> list[list[float]]:
    """Precision, recall and F1 of each pair."""
    scorer = BERTScorer(model_type=model, num_layers=layer, device="cpu")
    # One at a time: in a batch, the zeros of the padding take part in the matching.
    return [[float(value) for value in scorer.score([response], [truth])] for response, truth in pairs]


def main(model: str, pairs: list[list[str]]) -> None:
    responses, truths = ([pair[side] for pair in pairs] for side in (0, 1))
    bert = {layer: bert_scores(model, layer, pairs) for layer in (3, 6)}
    encoder = SentenceTransformer(model, device="cpu")
    given, wanted = (torch.tensor(encoder.encode(texts)) for texts in (responses, truths))
    cosines = torch.nn.functional.cosine_similarity(given, wanted)
    print(json.dumps({"bert_score": bert, "cosine": cosines.tolist()}))


if __name__ == "__main__":
    main(sys.argv[1], json.loads(Path(sys.argv[2]).read_text("utf-8")))
