"""The semantic evaluators where the extra is not installed."""

from __future__ import annotations

import sys

import pytest
from tests.semantic_parts import MODEL

from tunecheck import MissingExtraError
from tunecheck_semantic import BertScoreEvaluator, EmbeddingSimilarityEvaluator


@pytest.mark.parametrize("kind", [BertScoreEvaluator, EmbeddingSimilarityEvaluator])
def test_without_the_extra_the_error_says_what_to_install(
    kind: type[BertScoreEvaluator], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'tunecheck\[semantic\]'"):
        kind(MODEL)
