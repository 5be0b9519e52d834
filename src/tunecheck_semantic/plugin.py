"""Register similarity by embeddings and BERTScore with Tunecheck."""

from tunecheck.plugins import Extension, Plugin

PLUGIN = Plugin(
    "semantic",
    "Similarity by embeddings and BERTScore.",
    evaluators={
        "bert_score": Extension(
            "tunecheck_semantic._evaluators:BertScoreEvaluator", "BERTScore of the response against the ground truth."
        ),
        "embedding_similarity": Extension(
            "tunecheck_semantic._evaluators:EmbeddingSimilarityEvaluator", "Cosine similarity of embeddings."
        ),
    },
)
