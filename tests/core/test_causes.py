"""Each failed row says in one code why it failed; what holds by the answer comes before what evaluators found."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.pipeline_parts import metrics_of, rows_of, run
from tests.tables import cases, table

from tunecheck import ArgumentMatchEvaluator, ContentFilterError, FunctionCallMatchEvaluator, score
from tunecheck.plugins import causes, codes
from tunecheck_bfcl import CallCheckEvaluator

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": name,
            "parameters": {"type": "object", "properties": {"city": {"type": "string"}, "spans": {"type": "array"}}},
        },
    }
    for name in ("weather.now", "book_table", "set_alarm")
]
TRUTH = [{"name": "book_table", "arguments": {"city": "Paris"}}]


def call(arguments: str) -> dict[str, Any]:
    return {"id": "1", "type": "function", "function": {"name": "book_table", "arguments": arguments}}


def called(*calls: dict[str, Any]) -> dict[str, Any]:
    """An endpoint's columns where it called."""
    return {"response": list(calls), "text": None, "tool_calls": list(calls), "finish_reason": "tool_calls"}


def said(text: str) -> dict[str, Any]:
    """An endpoint's columns where it wrote."""
    return {"response": text, "text": text, "tool_calls": None, "finish_reason": None}


TABLE = table(Path(__file__).parent / "cases" / "causes.jsonl")


def target(answer: dict[str, Any]) -> dict[str, Any]:
    if "raise" in answer:
        raise (ContentFilterError if "ContentFilter" in answer["raise"] else RuntimeError)(answer["raise"])
    return answer


def exact(ground_truth: Any, text: str | None) -> dict[str, str]:
    """A user's own evaluator, for answers."""
    return {"same_result": "not_applicable" if not isinstance(ground_truth, str) else "fail"}


EVALUATORS: dict[str, Any] = {
    "functions": FunctionCallMatchEvaluator(),
    "arguments": ArgumentMatchEvaluator(),
    "exact": exact,
}


def own(
    output: dict[str, Any], response: Any = None, ground_truth: Any = None, functions: Any = None, result: Any = None
) -> dict[str, Any]:
    """A user's own evaluator, whose output stands in the row."""
    return output if "own_result" in output else {"own": 0.0, "own_result": "fail", **output}


def other(other: dict[str, Any], response: Any = None) -> dict[str, Any]:
    """A second one, which gets another answer."""
    return other


def causes_of(result: Any) -> dict[str, tuple[str | None, Any]]:
    return {row["row_id"]: (row["cause"], row.get("cause_evidence")) for row in rows_of(result)}


def test_a_row_has_the_first_cause_that_holds_with_its_evidence(tmp_path: Path) -> None:
    """In one test, as mutants of what a fixture calls would only be run on one row."""
    lines = [line for line in TABLE if "truth" in line]
    data = [{"id": row["id"], "answer": row["answer"], "tools": TOOLS, "ground_truth": row["truth"]} for row in lines]
    mapping = {"tool_definitions": "${data.tools}", "response": "${target.response}"}
    config = {"default": {"column_mapping": mapping}}
    result = run(tmp_path, data, target=target, evaluators=EVALUATORS, evaluator_config=config)
    expected = {row["id"]: (row["code"], row["evidence"]) for row in lines}
    assert causes_of(result) == expected
    # Another run over the recorded answers finds the same.
    assert causes_of(score(result.run_dir, evaluators=EVALUATORS, results_dir=result.run_dir.parent)) == expected

    shares = {name: value for name, value in metrics_of(result).items() if name.startswith("cause.")}
    assert shares["cause.thinking_used_budget"] == 3 / len(lines)
    assert "cause.gave_up" not in shares
    assert sum(shares.values()) == pytest.approx(sum(code is not None for code, _ in expected.values()) / len(lines))


NOT_LEFT = "- double_encoded answered_instead_of_calling double_encoded bad_arguments.fenced bad_arguments"


@pytest.mark.parametrize(
    ("calls", "found", "unparsed", "rates"),
    [
        (None, f"- call_left_in_text {NOT_LEFT}", 1, (25.0, 37.5)),
        ("strict", f"call_left_in_text call_left_in_text {NOT_LEFT}", 2, (12.5, 37.5)),
        ("lenient", f"- - - - answered_instead_of_calling{' wrong_argument.other' * 2} bad_arguments", 1, (50.0, 37.5)),
    ],
)
def test_calls_in_a_text_and_wrongly_encoded_ones_count_as_the_run_says(
    tmp_path: Path, calls: Any, found: str, unparsed: int, rates: tuple[float, float]
) -> None:
    text, right, wrong = f"<tool_call>{json.dumps(TRUTH[0])}</tool_call>", '{"city": "Paris"}', '{"city": "Rome"}'
    texts = [right, json.dumps(right), json.dumps(wrong), f"```json\n{wrong}\n```", '{"city": Rome}']
    answers = [said(text), said(text) | {"unparsed_calls": "complete"}, *(called(call(each)) for each in texts)]
    answers.insert(4, said("Hm."))
    data = [{"answer": answer, "tools": TOOLS, "ground_truth": TRUTH} for answer in answers]
    result = run(tmp_path, data, target=target, evaluators={"e": ArgumentMatchEvaluator()}, calls=calls)
    assert " ".join(row["cause"] or "-" for row in rows_of(result)) == found
    reading, other, effect = ("strict", "lenient", "do not count") if calls != "lenient" else (calls, "strict", "count")
    assert result.notes[-2:] == [
        f"{unparsed} of 8 answers contain calls that the server did not parse. Production clients could not use these "
        f"calls; with --calls {reading}, they {effect}",
        f"e: pass rate {rates[0]}% with --calls {reading}, {rates[1]}% with --calls {other}",
    ]


def test_what_a_users_evaluator_finds_is_a_cause_beside_those_of_the_answer(tmp_path: Path) -> None:
    lines = [line for line in TABLE if "truth" not in line]
    data = [{key: row[key] for key in row if key not in ("test", "code", "evidence")} for row in lines]
    config = {"other": {"response": "${data.said}"}}
    result = run(tmp_path, data, target=target, evaluators={"own": own, "other": other}, evaluator_config=config)
    assert causes_of(result) == {row["id"]: (row["code"], row["evidence"]) for row in lines}


@cases("scoring")
def test_a_recorded_text_has_its_cause_without_a_target(tmp_path: Path, text: str, cause: str) -> None:
    row = {"response": text, "functions": TOOLS, "ground_truth": [{"book_table": {"city": ["Rome"]}}]}
    check = CallCheckEvaluator(compat="bfcl", mode="tools")
    assert rows_of(run(tmp_path, [row], evaluators={"check": check}))[0]["cause"] == cause


@cases("scoring")
def test_verdicts_of_the_leaderboard_have_causes_too(tmp_path: Path, made: Any, truth: Any, cause: str) -> None:
    data = [{"answer": called(*made), "functions": [tool["function"] for tool in TOOLS], "ground_truth": truth}]
    result = run(tmp_path, data, target=target, evaluators={"check": CallCheckEvaluator(compat="strict")})
    assert rows_of(result)[0]["cause"] == cause


@pytest.mark.parametrize(
    "text", ["shall i " * 10_000, "a" * 100_000, '<tool_call>{"' + '\\"' * 50_000, "<tool_call>" + "<a " * 50_000]
)
def test_a_text_of_any_size_has_a_cause(tmp_path: Path, text: str) -> None:
    """Each would take minutes if looking at it took the square of its length."""
    data = [{"answer": said(text), "tools": TOOLS, "ground_truth": TRUTH}]
    result = run(tmp_path, data, target=target, evaluators={"functions": FunctionCallMatchEvaluator()})
    assert rows_of(result)[0]["cause"] in ("answered_instead_of_calling", "cut_off", "unreadable")


def test_every_cause_is_documented_with_what_to_try() -> None:
    text = (Path(__file__).parents[2] / "docs" / "causes.md").read_text(encoding="utf-8")
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines() if line.startswith("| `")]
    documented = {code.strip("`"): (what, side, advice) for code, what, side, advice in rows}
    assert documented == {
        code: (each.title, each.side, each.advice) for code, each in causes().items() if code not in codes()
    }
