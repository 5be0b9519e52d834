"""One answer against possible answers: the leaderboard's rules, and where the strict mode is right instead.

A line of single_turn_cases.jsonl has a row (`check`, `answers`, `functions`), a `result`, and the verdicts "bfcl" and
"strict": "pass", "fail", "not_applicable", or the error type of a failure (`*` matches any ending).
"""

from __future__ import annotations

import json
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest

from tunecheck_bfcl import CallCheckEvaluator

CASES = [
    json.loads(line) for line in Path(__file__).with_name("single_turn_cases.jsonl").read_text("utf-8").splitlines()
]
WEATHER = {
    "name": "weather.get",
    "parameters": {
        "type": "dict",
        "properties": {
            "city": {"type": "string"},
            "days": {"type": "integer"},
            "limit": {"type": "float"},
            "detailed": {"type": "boolean"},
            "tags": {"type": "array", "items": {"type": "string"}},
            "points": {"type": "array", "items": {"type": "float"}},
            "place": {"type": "dict"},
            "people": {"type": "array", "items": {"type": "dict"}},
            "unit": {"type": "string", "default": "metric"},
        },
        "required": ["city"],
    },
}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["behaviour"])
def test_an_answer_has_the_verdict_of_the_table(case: dict[str, Any]) -> None:
    for compat in ("bfcl", "strict"):
        if compat not in case:
            continue
        judge = CallCheckEvaluator(compat=compat, mode=case.get("mode", "auto"), names=case.get("names", "auto"))
        found: dict[str, Any] = judge(
            result=case["result"],
            functions=case.get("functions") or [WEATHER],
            ground_truth=case["answers"] or None,
            check=case["check"],
        )
        verdict, wanted = found["call_check_result"], case[compat]
        error_type = (found["call_check_properties"] or {}).get("error_type")
        if wanted in ("pass", "fail", "not_applicable"):
            assert verdict == wanted, (compat, error_type)
        else:
            assert verdict == "fail" and fnmatchcase(str(error_type), wanted), (compat, error_type)
        assert verdict == "pass" or case.get("said", "") in found["call_check_reason"]
