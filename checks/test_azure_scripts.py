"""Thirteen scripts of Azure AI Evaluation's documentation, on the package and on `tunecheck_azure`: equal results."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import ReferenceEnvironment
from tests.fault_server import Step, answer
from tests.judge_parts import Asked, JudgeServer
from tests.reference_environments import AZURE, said_by

pytestmark = pytest.mark.slow

SCRIPTS = (
    "text_metrics target function own_class own_prompt questions_and_answers conversation assisted grounded agents "
    "table documents reasoning"
).split()


def stars(asked: Asked) -> Step | str:
    """As many stars as the text that is judged says."""
    found = re.findall(r"stars:(\d)", json.dumps(asked["messages"][-1]))
    score = int(found[-1])
    said = json.dumps({"reason": f"{score} stars", "score": score, "properties": {"kind": "stars"}})
    choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": said}}
    usage = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}
    head = {"id": "c1", "object": "chat.completion", "created": 1, "model": "judge"}
    return answer({**head, "choices": [choice], "usage": usage})


@pytest.fixture(scope="module")
def found(
    tmp_path_factory: pytest.TempPathFactory, reference_env: ReferenceEnvironment, shared_data: Path
) -> dict[str, dict[str, Any]]:
    python = reference_env("azure", *AZURE)
    results = {}
    with JudgeServer(stars) as server:
        for module in ("azure.ai.evaluation", "tunecheck_azure"):
            folder = tmp_path_factory.mktemp("scripts")
            given = (module, str(folder), server.address)
            results[module] = said_by(
                python, "azure_scripts.py", *given, env={"NLTK_DATA": str(shared_data / "nltk_data")}
            )
    return results


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_script_gives_the_same_rows_and_metrics(found: dict[str, dict[str, Any]], script: str) -> None:
    theirs, ours = found["azure.ai.evaluation"][script], found["tunecheck_azure"][script]
    assert [*differences(theirs, ours, script)] == []
    assert theirs["metrics"] or script == "own_prompt"


def differences(theirs: Any, ours: Any, place: str) -> Any:
    """Where two results differ: numbers by more than 1e-12, all else at all; NaN and null are the same in a file."""
    shown_query = "groundedness" in place and place.endswith("/sample_input")  # ours is shown the query, too
    if shown_query or (_is_nothing(theirs) and _is_nothing(ours)):
        return
    if isinstance(theirs, dict) and isinstance(ours, dict):
        for key in {*theirs, *ours}:
            if key in theirs and key in ours:
                yield from differences(theirs[key], ours[key], f"{place}/{key}")
            else:
                yield f"{place}/{key}: only {'there' if key in theirs else 'here'}"
    elif isinstance(theirs, list) and isinstance(ours, list) and len(theirs) == len(ours):
        for number, (one, other) in enumerate(zip(theirs, ours, strict=True)):
            yield from differences(one, other, f"{place}/{number}")
    elif type(theirs) is float and type(ours) is float:
        if not math.isclose(theirs, ours, rel_tol=1e-12):
            yield f"{place}: {theirs} there, {ours} here"
    elif type(theirs) is not type(ours) or theirs != ours:
        yield f"{place}: {theirs!r} there, {ours!r} here"


def _is_nothing(value: object) -> bool:
    return value is None or value != value


def test_every_script_was_run(found: dict[str, dict[str, Any]]) -> None:
    assert [*found["tunecheck_azure"]] == [*found["azure.ai.evaluation"]] == SCRIPTS
