"""The published rows of both kinds, judged side by side by one evaluator."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.bfcl.test_bfcl_check_groups import (
    CONVERSATION,
    QUESTION,
    check_that_each_row_has_one_verdict,
    counts,
    workspace,
)
from tests.bfcl_copy import bfcl_copy

from tunecheck.datasets._reading import open_dataset
from tunecheck.evaluation._evaluate import evaluate
from tunecheck_bfcl._data.files import CATEGORIES

if TYPE_CHECKING:
    import pytest

__all__ = ["workspace"]


def test_the_published_rows_of_both_kinds_are_judged_side_by_side(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TUNECHECK_BFCL", str(bfcl_copy()))
    data = [dict(row.values) for row in open_dataset("bfcl:all,multi_turn_composite").rows()][::40]
    evaluators = {CONVERSATION: CONVERSATION, QUESTION: QUESTION}
    recorded = [{**row, "result": "I cannot do that."} for row in data]
    result = evaluate(data=recorded, evaluators=evaluators, workers=0)
    check_that_each_row_has_one_verdict(result)
    conversations = sum(CATEGORIES[str(row["category"])].multi_turn for row in data)
    assert counts(result, CONVERSATION) == (conversations, len(data) - conversations, 0)
    assert counts(result, QUESTION) == (len(data) - conversations, conversations, 0)
