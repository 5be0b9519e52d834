"""The public names of this package and their homes; `__init__.py` loads them from there."""

from ._bert_score import BertScoreEvaluator as BertScoreEvaluator
from ._embedding_similarity import EmbeddingSimilarityEvaluator as EmbeddingSimilarityEvaluator
