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


def _asked(judge: Any, inputs: dict[str, Any]) -> dict[str, Any]:
    """What the prompt is given; or, where nothing is asked, the verdict; or the error."""
    seen: dict[str, Any] = {}

    async def flow(timeout: float | None = None, **given: Any) -> dict[str, Any]:
        seen.update(given)
        return {"llm_output": {"score": 3, "reason": "", "status": "completed", "properties": {}}}

    judge._flow = flow
    try:
        verdict = judge(**json.loads(json.dumps(inputs)))
    except Exception as error:  # noqa: BLE001 - either package's errors are compared
        return {"error": str(error)}
    return {"given": seen} if seen else {"verdict": verdict}


def main(seed: int, pairs: int) -> None:
    import azure.ai.evaluation as theirs

    import tunecheck_azure as ours

    draw = random.Random(seed)
    found = []
    with contextlib.redirect_stdout(sys.stderr):
        for _ in range(pairs):
            query, response = _query(draw), _response(draw)
            for name, inputs_of in JUDGES.items():
                inputs = inputs_of(query, response)
                both = [_asked(getattr(package, name)(CONFIG), inputs) for package in (theirs, ours)]
                found.append([name, inputs, *both])
    print(json.dumps(found, default=str))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
