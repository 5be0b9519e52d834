"""The public names of this package and their homes; `__init__.py` loads them from there."""

from ._evaluators import (
    BertScoreEvaluator as BertScoreEvaluator,
    EmbeddingSimilarityEvaluator as EmbeddingSimilarityEvaluator,
)
