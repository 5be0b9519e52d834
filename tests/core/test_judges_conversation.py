"""Our judges of a conversation: each turn is judged, and the row by their mean."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from tests.judge_parts import Scripted

import tunecheck
from tunecheck.endpoints._base import ChatRequest, Completion


class Stars(Scripted):
    """A model that gives as many stars as the text that it judges says."""

    async def complete(self, request: ChatRequest) -> Completion:
        self.requests.append(request)
        stars = int(re.findall(r"stars:(\d)", str(request.messages[-1]["content"]))[-1])
        return Completion(text=json.dumps({"reason": f"{stars} stars", "score": stars}))


def said(*answers: str, **more: Any) -> dict[str, Any]:
    messages = [({"role": "user", "content": "?"}, {"role": "assistant", "content": each, **more}) for each in answers]
    return {"messages": [message for turn in messages for message in turn]}


def test_a_conversation_is_judged_by_the_mean_of_its_turns(tmp_path: Path) -> None:
    model = Stars()
    rows = [{"conversation": said("stars:5", "stars:2", "stars:3")}, {"conversation": said("stars:1", "only stars:2")}]
    evaluators = {"r": tunecheck.RelevanceEvaluator(model)}
    result: Any = tunecheck.evaluate(data=rows, evaluators=evaluators, results_dir=tmp_path)
    first, second = result["rows"]
    assert first["outputs.r.relevance"] == pytest.approx(10 / 3)
    assert (first["outputs.r.relevance_result"], first["outputs.r.relevance_reason"]) == ("pass", "2 stars")
    assert first["outputs.r.evaluation_per_turn"]["relevance"] == [5.0, 2.0, 3.0]
    assert (second["outputs.r.relevance"], second["outputs.r.relevance_result"]) == (1.5, "fail")
    assert result["metrics"]["r.binary_aggregate"] == 0.5
    assert len(model.requests) == 5


def test_a_turn_alone_is_judged_like_a_question(tmp_path: Path) -> None:
    judge = tunecheck.RelevanceEvaluator(Stars())
    assert judge(conversation=said("stars:4")) == judge(query="?", response="stars:4")


def test_the_context_of_an_answer_supports_that_answer(tmp_path: Path) -> None:
    judge = tunecheck.GroundednessEvaluator(Stars())
    assert judge(conversation=said("stars:4", "stars:2", context={"book": "stars"}))["groundedness"] == 3.0


def test_a_conversation_without_an_answer_cannot_be_judged() -> None:
    with pytest.raises(ValueError, match="the conversation has no question with an answer"):
        tunecheck.RelevanceEvaluator(Stars())(conversation={"messages": [{"role": "user", "content": "?"}]})


def test_a_conversation_is_counted_whole_where_its_cost_is_estimated() -> None:
    request = tunecheck.RelevanceEvaluator(Stars()).expected_request(conversation=said("stars:4", "stars:2"))
    assert request is not None
    assert [message["role"] for message in request.messages] == ["system", "user"] * 2
