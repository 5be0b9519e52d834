"""Run by a python that has azure-ai-evaluation: what its judges and ours would ask of messages of agents, as JSON."""

from __future__ import annotations

import contextlib
import json
import random
import sys
from collections.abc import Callable
from typing import Any

CONFIG = {"azure_endpoint": "https://judge", "azure_deployment": "judge", "api_key": "k", "api_version": "2024-06-01"}
DEFINITIONS = [
    {"name": name, "description": name, "parameters": {"type": "object", "properties": {}}}
    for name in ("get_weather", "book")
]
ANSWER = {"score": 3, "reason": "", "status": "completed", "properties": {}}
CALLS = ("tool_call", "tool_call", "function_call", "openapi_call", "mcp_approval_request")
RESULTS = ("tool_result", "function_call_output", "openapi_call_output", "mcp_approval_response")
JUDGES: dict[str, Callable[[Any, Any], dict[str, Any]]] = {
    "IntentResolutionEvaluator": lambda q, r: {"query": q, "response": r, "tool_definitions": DEFINITIONS},
    "TaskAdherenceEvaluator": lambda q, r: {"query": q, "response": r, "tool_definitions": DEFINITIONS},
    "ToolCallAccuracyEvaluator": lambda q, r: {"query": q, "response": r, "tool_definitions": DEFINITIONS},
    "CoherenceEvaluator": lambda q, r: {"query": q, "response": r},
    "ResponseCompletenessEvaluator": lambda q, r: {"response": r, "ground_truth": "g"},
    "FluencyEvaluator": lambda q, r: {"response": r},
}


def _part(draw: random.Random, role: str) -> dict[str, Any]:
    if role == "user" or draw.random() < 0.3:
        return {"type": "text", "text": draw.choice(["hello", "Book a flight.", "one\ntwo"])}
    if role == "tool":
        type = draw.choice(RESULTS)
        return {"type": type, type: draw.choice(["sunny", {"degrees": 3}, [1, 2], None])}
    type = draw.choice(CALLS)
    called = {
        "type": type,
        "tool_call_id": draw.choice(["c1", "c2"]),
        "name": draw.choice(["get_weather", "book"]),
        "arguments": draw.choice([{"city": "Rome"}, {"nights": 2, "late": True, "note": None}, {}]),
    }
    return called | ({type: {"more": 1}} if draw.random() < 0.1 else {})


def _message(draw: random.Random, role: str) -> dict[str, Any]:
    message: dict[str, Any] = {"role": role}
    if draw.random() < 0.4:
        message["createdAt"] = "2025-01-01"
    if role == "tool":
        message["tool_call_id"] = draw.choice(["c1", "c2"])
    is_text = role == "user" and draw.random() < 0.4
    return message | {"content": "plain" if is_text else [_part(draw, role) for _ in range(draw.randint(1, 2))]}


def _query(draw: random.Random) -> Any:
    if draw.random() < 0.2:
        return "What is the weather?"
    system: list[Any] = [{"role": "system", "content": "be kind\nand brief"}] if draw.random() < 0.5 else []
    turns = [
        _message(draw, role)
        for _ in range(draw.randint(0, 3))
        for role in ("user", *draw.choices(["assistant", "tool"], k=draw.randint(0, 2)))
    ]
    return [*system, *turns, _message(draw, draw.choice(["user", "user", "assistant"]))]


def _response(draw: random.Random) -> Any:
    if draw.random() < 0.15:
        return "It is sunny."
    messages = [_message(draw, draw.choice(["assistant", "assistant", "tool"])) for _ in range(draw.randint(1, 4))]
    done = {"role": "assistant", "content": [{"type": "text", "text": "done"}]}
    return [*messages, done] if draw.random() < 0.6 else messages


def _asked_by_theirs(judge: Any, inputs: dict[str, Any]) -> dict[str, Any]:
    """What the prompt is given; if nothing is asked, the verdict, or that there is an error."""
    seen: dict[str, Any] = {}

    async def flow(timeout: float | None = None, **given: Any) -> dict[str, Any]:
        seen.update(given)
        return {"llm_output": ANSWER}

    judge._flow = flow
    try:
        verdict = judge(**json.loads(json.dumps(inputs)))
    except Exception:  # noqa: BLE001 - either package's
        return {"error": True}
    return {"given": seen} if seen else {"verdict": verdict}


def _asked_by_ours(judge: Any, inputs: dict[str, Any]) -> dict[str, Any]:
    """The same of our judge, whose verdict says what the prompt was given."""
    try:
        verdict = judge(**json.loads(json.dumps(inputs)))
    except Exception:  # noqa: BLE001 - either package's
        return {"error": True}
    properties = verdict[f"{judge.metric}_properties"]
    if properties is None or not properties["sample_input"]:
        return {"verdict": verdict}
    return {"given": json.loads(json.loads(properties["sample_input"])[0]["content"])}


def _model() -> Any:
    """A model without a wire that always gives the same answer."""
    from tunecheck.endpoints._base import ChatRequest, Completion, Endpoint

    class Answering(Endpoint):
        kind = name = "answering"

        async def complete(self, request: ChatRequest) -> Completion:
            return Completion(text=json.dumps(ANSWER), finish_reason="stop")

        def settings(self) -> dict[str, Any]:
            return {"kind": self.kind}

    return Answering()


def main(seed: int, pairs: int) -> None:
    import azure.ai.evaluation as theirs

    import tunecheck_azure as ours

    model = _model()
    draw = random.Random(seed)
    found = []
    with contextlib.redirect_stdout(sys.stderr):
        for _ in range(pairs):
            query, response = _query(draw), _response(draw)
            for name, inputs_of in JUDGES.items():
                inputs = inputs_of(query, response)
                their_judge, our_judge = getattr(theirs, name)(CONFIG), getattr(ours, name)(model)
                found.append([name, inputs, _asked_by_theirs(their_judge, inputs), _asked_by_ours(our_judge, inputs)])
    print(json.dumps(found, default=str))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
