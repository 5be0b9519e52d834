"""BFCL in text mode: a model that answers as the ground truth does, in its family's form, has every row right."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tests.bfcl_copy import bfcl_copy
from tests.core.test_formats_prompts import PROFILES

from tunecheck._json import JSON
from tunecheck.endpoints import first_accepted_answer, openai_tools
from tunecheck.endpoints._answers import read_answer
from tunecheck.endpoints._base import ChatRequest, Completion, Endpoint
from tunecheck.episodes._target import ConversationTarget
from tunecheck.formats import Profile, read_calls
from tunecheck_bfcl._evaluation import run_bfcl
from tunecheck_bfcl._scoring import score_results

CATEGORIES = "simple_python,parallel,simple_javascript,live_simple,multi_turn_base,multi_turn_miss_func"


class InForm(Endpoint):
    """Answers with the ground truth's calls as a family writes them."""

    kind = "in_form"
    simulated = True
    depends_on_row = True

    def __init__(self, profile: Profile) -> None:
        self.name = profile.name
        self._family = profile

    async def complete(self, request: ChatRequest) -> Completion:
        assert request.row is not None and self._family.prompt is not None
        values = request.row.values
        calls = read_calls(first_accepted_answer(values, openai_tools(values.get("tool_definitions")) or ())).calls
        said = self._family.prompt.written(calls) if calls else "Done."
        return replace(read_answer(f"<think>Which one?</think>\n\n{said}"), simulated=True)

    def settings(self) -> dict[str, JSON]:
        return {"kind": self.kind, "family": self._family.name}


@pytest.mark.parametrize("profile", PROFILES, ids=lambda profile: profile.name)
def test_a_model_that_answers_as_the_ground_truth_in_its_familys_form_has_every_row_right(
    profile: Profile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TUNECHECK_BFCL", str(bfcl_copy()))
    monkeypatch.chdir(tmp_path)
    target = ConversationTarget(InForm(profile), mode="text", format=profile)
    outcome = run_bfcl(target, categories=CATEGORIES, limit=3)
    (model,) = score_results(outcome.folder, mode="text").models.values()
    assert [name for name, score in model.categories.items() if score.correct < score.total] == []
