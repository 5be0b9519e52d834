"""Our judges in Azure's `evaluate()`: the same rows and means as in ours, over its model configurations."""

from __future__ import annotations

import inspect
import json
from typing import Any

import pytest
from tests.conftest import ROOT, ReferenceEnvironment
from tests.fault_server import Step
from tests.judge_parts import Asked, JudgeServer, Scripted
from tests.reference_environments import AZURE, said_by

from tunecheck import JudgeOutput, PromptyEvaluator

pytestmark = pytest.mark.slow

DIFFERENCES = [{"expected": "nine", "actual": "ten", "kind": "wording", "where": "the hour"}]


def reply(asked: Asked) -> Step | str:
    """A judgement that depends on the row, in a form that suits all three judges."""
    text = str([message["content"] for message in asked["messages"] if message["role"] == "user"])
    if "broken" in text:
        return "no judgement at all"
    score = 0 if "Compare" in text else 2 if "ten" in text else 5
    return json.dumps({"reason": "as it is", "differences": DIFFERENCES, "score": score})


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory, reference_env: ReferenceEnvironment) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("judges")
    (folder / "tone.prompty").write_bytes((ROOT / "prompty" / "tone.prompty").read_bytes())
    rows = [
        {"question": "When?", "given": "at ten", "expected": "at nine"},
        {"question": "When?", "given": "at nine", "expected": "at nine"},
        {"question": "When?", "given": "broken", "expected": "at nine"},
        {"question": "Where?", "given": '[{"name": "f", "arguments": {"a": 1}}]', "expected": "f(a=1)"},
    ]
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    python = reference_env("azure", *AZURE)
    with JudgeServer(reply) as server:
        result: dict[str, Any] = said_by(python, "azure_judges.py", str(folder), server.address)
        paths = {request.path for request in server.requests}
    assert paths == {
        "/openai/deployments/judge-1/chat/completions?api-version=2024-02-15-preview",
        "/v1/chat/completions",
    }
    return result


def test_every_verdict_is_the_same_in_both(found: dict[str, Any]) -> None:
    azure, ours = found["azure"]["rows"], found["ours"]["rows"]
    assert len(azure) == len(ours) == 4
    for name in ("difference.difference", "relevance.relevance", "tone.tone"):
        for key in (name, f"{name}_score", f"{name}_result", f"{name}_reason", f"{name}_status"):
            for row, (theirs, own) in enumerate(zip(azure, ours, strict=True)):
                if row == 2:
                    assert f"outputs.{key}" not in own, "an unreadable judgement is an error, never a zero"
                else:
                    value = theirs[f"outputs.{key}"]
                    # A DataFrame of the package has NaN for the None of a row that a judge does not apply to.
                    assert (None if value != value else value) == own[f"outputs.{key}"], (key, row)


def test_an_unreadable_judgement_has_no_score_in_azure_either(found: dict[str, Any]) -> None:
    value = found["azure"]["rows"][2]["outputs.tone.tone"]
    assert value is None or value != value


def test_the_means_are_the_same_in_both(found: dict[str, Any]) -> None:
    azure, ours = found["azure"]["metrics"], found["ours"]["metrics"]
    for name in ("difference.difference", "relevance.relevance", "tone.tone"):
        assert azure[name] == pytest.approx(ours[name])


def test_the_list_of_differences_survives_in_both_and_has_no_mean(found: dict[str, Any]) -> None:
    for side in ("azure", "ours"):
        row = found[side]["rows"][0]
        assert row["outputs.difference.difference_differences"] == DIFFERENCES
        assert found[side]["rows"][1]["outputs.difference.difference_differences"] == []
        assert not [name for name in found[side]["metrics"] if "differences" in name or "token" in name]


def test_azures_model_configurations_are_left_as_they_were(found: dict[str, Any]) -> None:
    assert found["unchanged"] is True


def test_azures_own_prompts_are_judges_here(reference_env: ReferenceEnvironment) -> None:
    python = reference_env("azure", *AZURE)
    files = sorted(python.parents[1].rglob("azure/ai/evaluation/_evaluators/**/*.prompty"))
    assert len(files) == 16
    said = '{"reason": "as it is", "score": 4, "status": "completed"}'
    for path in files:
        judge = PromptyEvaluator(path, Scripted(said), JudgeOutput(range=(1, 5)))
        found = judge(**dict.fromkeys(inspect.signature(judge).parameters, "a value"))
        assert (found[path.stem], found[f"{path.stem}_reason"]) == (4, "as it is")
