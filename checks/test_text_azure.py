"""More than a thousand real text pairs get the verdicts of azure-ai-evaluation's own evaluators."""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import ROOT, ReferenceEnvironment
from tests.reference_environments import AZURE

from tunecheck.evaluators._text import (
    BleuScoreEvaluator,
    F1ScoreEvaluator,
    GleuScoreEvaluator,
    MeteorScoreEvaluator,
    RougeScoreEvaluator,
    RougeType,
)
from tunecheck.evaluators._text.words import split_sentences
from tunecheck.formats._reading import read_calls

pytestmark = pytest.mark.slow

OURS = {
    "bleu": BleuScoreEvaluator(),
    "gleu": GleuScoreEvaluator(threshold=0.25),
    "meteor": MeteorScoreEvaluator(),
    "meteor_flat": MeteorScoreEvaluator(alpha=0.5, beta=1.0, gamma=0.2, threshold=0.3),
    "f1_score": F1ScoreEvaluator(),
    **{kind.value: RougeScoreEvaluator(kind, precision_threshold=0.6, recall_threshold=0.3) for kind in RougeType},
}
IDENTICAL = ["yes", "yes sir", "a b c", "今天天气很好", "привет мир как дела", "the", "", "!!!", " ", "\n"]
Pair = tuple[str, str]


@pytest.fixture(scope="module")
def pairs(shared_data: Path) -> list[Pair]:
    """Neighbouring texts of real chats and runs, the same with words lost and swapped, and identical texts."""
    chosen = random.Random(11)
    neighbours = [*chats(shared_data), *model_answers(shared_data), *memory_texts(shared_data), *trivia(shared_data)]
    usable = [
        pair for pair in dict.fromkeys(neighbours) if not read_calls(pair[1]).calls and max(map(len, pair)) < 1500
    ]
    foreign = [pair for pair in usable if not all(text.isascii() for text in pair)]
    real = [*chosen.sample(foreign, min(250, len(foreign))), *chosen.sample(usable, 600)]
    changed = [(damaged(truth, chosen), truth) for _, truth in chosen.sample(real, 400)]
    return [*real, *changed, *((text, text) for text in IDENTICAL), *((text, "It rains.") for text in IDENTICAL)]


def chats(folder: Path) -> Iterator[Pair]:
    for conversation in json.loads((folder / "glaive" / "glaive_v2_sample.json").read_text()):
        turns = re.split(r"(?:USER|ASSISTANT|FUNCTION RESPONSE):", conversation["chat"])
        yield from pairwise([turn.replace("<|endoftext|>", "").strip() for turn in turns])


def model_answers(folder: Path) -> Iterator[Pair]:
    for file in sorted((folder / "bfcl_runs").rglob("*_result.json"))[::3]:
        lines = file.read_text().splitlines()[:40]
        yield from pairwise([text for line in lines for text in strings(json.loads(line).get("result"))])


def memory_texts(folder: Path) -> Iterator[Pair]:
    for file in sorted((folder / "ltm").rglob("*.def.json")):
        yield from pairwise(list(strings(json.loads(file.read_text()))))
    for file in sorted((folder / "ltm").rglob("master_log.jsonl")):
        lines = file.read_text().splitlines()[:60]
        yield from pairwise([text for line in lines for text in strings(json.loads(line))])


def trivia(folder: Path) -> Iterator[Pair]:
    items = json.loads((folder / "ltm" / "trivia" / "trivia.json").read_text())["Data"]
    yield from ((following["AnswerValue"], item["AnswerValue"]) for item, following in pairwise(items[:400]))
    for item in items:
        if not (item["Question"] + item["AnswerValue"]).isascii():
            yield f"{item['AnswerValue']}: {item['Question']}", item["Question"]


def strings(value: object) -> Iterator[str]:
    """All texts inside of a JSON value that hold a blank, as identifiers and dates do not."""
    if isinstance(value, str) and " " in value:
        yield value
    elif isinstance(value, dict):
        yield from (text for item in value.values() for text in strings(item))
    elif isinstance(value, list):
        yield from (text for item in value for text in strings(item))


def damaged(text: str, chosen: random.Random) -> str:
    """The text with words lost and neighbours swapped: an answer that is nearly right."""
    words = [word for word in text.split(" ") if chosen.random() > 0.15]
    for place in range(0, len(words) - 1, 7):
        words[place], words[place + 1] = words[place + 1], words[place]
    return " ".join(words)


@pytest.fixture(scope="module")
def azure(
    pairs: list[Pair], shared_data: Path, reference_env: ReferenceEnvironment, tmp_path_factory: pytest.TempPathFactory
) -> list[dict[str, Any]]:
    folder = tmp_path_factory.mktemp("azure")
    (folder / "pairs.json").write_text(json.dumps(pairs))
    command = [str(reference_env("azure", *AZURE)), str(ROOT / "checks" / "azure_text_scores.py")]
    environment = {**os.environ, "NLTK_DATA": str(shared_data / "nltk_data")}
    done = subprocess.run(
        [*command, str(folder / "pairs.json"), str(folder / "verdicts.json")],
        env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    verdicts: list[dict[str, Any]] = json.loads((folder / "verdicts.json").read_text())
    return verdicts


def test_the_pairs_are_many_and_of_every_kind(pairs: list[Pair]) -> None:
    texts = [text for pair in pairs for text in pair]
    kinds = {
        "non-ASCII": sum(not text.isascii() for text in texts),
        "several sentences": sum(text.isascii() and len(split_sentences(text)) > 1 for text in texts),
        "contractions": sum(bool(re.search(r"\w'(?:s|t|re|ll|ve|m|d)\b", text)) for text in texts),
        "quotes": sum('"' in text for text in texts),
        "abbreviations": sum(bool(re.search(r"\b(?:Mr|Mrs|Dr|St|U\.S|e\.g|i\.e|[ap]\.m)\.", text)) for text in texts),
        "one word": sum(len(text.split()) == 1 for text in texts),
        "no word": sum(not text.strip() for text in texts),
    }
    assert len(pairs) >= 1000
    assert all(number >= 9 for number in kinds.values()), kinds
    assert kinds["non-ASCII"] >= 200


def test_every_verdict_is_azures(pairs: list[Pair], azure: list[dict[str, Any]]) -> None:
    for (response, truth), row in zip(pairs, azure, strict=True):
        for metric, theirs in row.items():
            ours: dict[str, Any] = OURS[metric](response=response, ground_truth=truth)
            assert same(ours, theirs), (metric, response, truth, ours, theirs)


def same(ours: object, theirs: object) -> bool:
    """Equal values under equal keys in equal order, numbers within 1e-9."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        return list(ours) == list(theirs) and all(same(ours[key], theirs[key]) for key in ours)
    if isinstance(ours, float) and isinstance(theirs, (int, float)):
        return abs(ours - theirs) <= 1e-9
    return type(ours) is type(theirs) and ours == theirs
