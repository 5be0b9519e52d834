"""Made data for the benchmarks, the same for both systems: seeded sentences, calls of 400 functions, kilobytes."""

from __future__ import annotations

import json
import random
from pathlib import Path

__all__ = ["calls", "kilobyte", "many_tools", "sentences"]

_WORDS = (
    "the a this that weather order meeting ticket flight account price table report city street doctor hotel train "
    "morning evening week month customer payment balance message answer question small large early late quick slow "
    "please could would send show book find change cancel confirm check compare open close ask give take make keep "
    "with without before after between under over for from into near tomorrow today yesterday again always never"
).split()


def _sentence(chance: random.Random) -> str:
    words = [chance.choice(_WORDS) for _ in range(chance.randint(12, 24))]
    return " ".join(words).capitalize() + "."


def sentences(path: Path, rows: int) -> Path:
    """Pairs of sentences of 12 to 24 words, about 350 bytes a row: the response keeps most of the reference's words."""
    chance = random.Random(7)
    with path.open("w", encoding="utf-8") as file:
        for number in range(rows):
            truth = _sentence(chance)
            words = [chance.choice(_WORDS) if chance.random() < 0.25 else word for word in truth.split()]
            row = {"id": f"r{number}", "response": " ".join(words), "ground_truth": truth, "query": _sentence(chance)}
            file.write(json.dumps(row) + "\n")
    return path


def calls(path: Path, rows: int) -> Path:
    """Rows whose ground truth is a dict of arguments, over 400 functions with parameters of their own names."""
    chance = random.Random(11)
    with path.open("w", encoding="utf-8") as file:
        for number in range(rows):
            function = number % 400
            names = [f"parameter_{function}_{position}" for position in range(4)]
            arguments = {name: chance.choice([chance.randint(1, 99), chance.choice(_WORDS)]) for name in names}
            given = dict(arguments)
            if chance.random() < 0.2:
                given[names[0]] = "something else"
            schema = {"type": "object", "properties": {name: {} for name in names}}
            name = f"function_{function}"
            row = {
                "tool_definition": {"name": name, "parameters": schema},
                "ground_truth": {"name": name, "arguments": arguments},
                "response": {"name": name, "arguments": given},
                "expected": {name: arguments},
            }
            file.write(json.dumps(row) + "\n")
    return path


def many_tools(path: Path, rows: int, tools: int) -> Path:
    """Rows with tool definitions of their own, 250 bytes each, and a right call of one of them."""
    with path.open("w", encoding="utf-8") as file:
        for number in range(rows):
            properties = {"city": {"type": "string", "description": "The city's name."}, "count": {"type": "integer"}}
            parameters = {"type": "object", "properties": properties, "required": ["city"]}
            text = f"Does something for a user who asks for it, in the way of row {number}"
            names = [f"function_{number}_{position}" for position in range(tools)]
            call = {"name": names[3], "arguments": {"city": "Bern"}}
            definitions = [{"name": name, "description": text, "parameters": parameters} for name in names]
            row = {"id": f"r{number}", "response": [call], "ground_truth": [call], "tool_definitions": definitions}
            file.write(json.dumps(row) + "\n")
    return path


def kilobyte(number: int) -> str:
    """A text of 1,000 characters that differs from number to number."""
    return f"{number:010d}" * 100
