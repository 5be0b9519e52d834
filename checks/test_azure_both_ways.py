"""Our evaluators in Azure's `evaluate()`, Azure's in ours: the same rows and means come out."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import ReferenceEnvironment
from tests.reference_environments import AZURE, said_by

pytestmark = pytest.mark.slow

WORDS = [
    ("The meeting is on Monday at nine.", "The meeting is on Monday at 9 am."),
    ("yes", "yes"),
    ("It rained. He left.", "It rained, so he left early."),
    ("Le café est fermé aujourd'hui.", "Le café reste fermé aujourd'hui."),
    ("I cannot do that, sorry!", "Sorry, I can't do that."),
    ("", "something"),
    ("今天天气很好", "今天天气很好"),
    ("Dr. Smith's office opens at 8:30 (weekdays).", "Dr. Smith's office opens at 8:30 a.m. on weekdays."),
]

CALLS = [
    (
        {"name": "book", "arguments": {"city": "Rome", "nights": 2}},
        {"name": "book", "arguments": {"city": "Rome", "nights": 2}},
    ),
    (
        {"name": "book", "arguments": {"city": "Rome", "nights": "2"}},
        {"name": "book", "arguments": {"city": "Rome", "nights": 2}},
    ),
    ({"name": "cancel", "arguments": {}}, {"name": "book", "arguments": {"city": "Rome"}}),
]


@pytest.fixture(scope="module")
def found(
    tmp_path_factory: pytest.TempPathFactory, reference_env: ReferenceEnvironment, shared_data: Path
) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("both")
    _write(folder / "words.jsonl", WORDS * 12)  # enough for METEOR to be called while it loads WordNet, if it were
    _write(folder / "calls.jsonl", CALLS)
    python = reference_env("azure", *AZURE)
    words = {"NLTK_DATA": str(shared_data / "nltk_data")}
    result: dict[str, Any] = said_by(python, "azure_both_ways.py", str(folder), env=words)
    return result


def _write(path: Path, pairs: list[tuple[Any, Any]]) -> None:
    # The call is JSON text: Azure takes a column of objects apart into columns of their leaves.
    lines = [
        json.dumps({"given": _as_text(given), "expected": _as_text(expected)}, ensure_ascii=False)
        for given, expected in pairs
    ]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


@pytest.mark.parametrize("evaluators", ["theirs", "ours_on_words", "ours_on_calls"])
def test_every_number_of_every_row_is_the_same_in_both(found: dict[str, Any], evaluators: str) -> None:
    azure, ours = found[evaluators]["azure"]["rows"], found[evaluators]["ours"]["rows"]
    assert len(azure) == len(ours) > 0
    for theirs, row in zip(azure, ours, strict=True):
        numbers = {key: value for key, value in theirs.items() if key.startswith("outputs.") and _is_number(value)}
        assert numbers
        for key, value in numbers.items():
            assert row[key] == pytest.approx(value, abs=1e-12), key


@pytest.mark.parametrize("evaluators", ["theirs", "ours_on_words"])
def test_the_means_are_the_same_in_both(found: dict[str, Any], evaluators: str) -> None:
    azure, ours = found[evaluators]["azure"]["metrics"], found[evaluators]["ours"]["metrics"]
    means = {key: value for key, value in azure.items() if not key.endswith(".binary_aggregate")}
    assert means
    for key, value in means.items():
        assert ours[key] == pytest.approx(value, abs=1e-12), key


def test_the_pass_rate_differs_only_by_their_rounding_where_every_row_is_scored(found: dict[str, Any]) -> None:
    azure, ours = found["ours_on_words"]["azure"]["metrics"], found["ours_on_words"]["ours"]["metrics"]
    for name in ("bleu", "gleu", "meteor", "rouge", "f1"):
        assert round(ours[f"{name}.binary_aggregate"], 2) == azure[f"{name}.binary_aggregate"]


def test_our_call_evaluators_judge_in_azure_as_they_do_here(found: dict[str, Any]) -> None:
    results = [row["outputs.argument_match.argument_match_result"] for row in found["ours_on_calls"]["azure"]["rows"]]
    assert results == ["pass", "fail", "fail"]


def _is_number(value: object) -> bool:
    return isinstance(value, (bool, int, float)) and not (isinstance(value, float) and math.isnan(value))
