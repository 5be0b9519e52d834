"""The possible answers against themselves: which rows an answer can pass, and which no answer can pass."""

import json
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Literal

import pytest
from tests.bfcl_check_parts import as_text, entries
from tests.bfcl_copy import bfcl_copy

from tunecheck.episodes import RowVerdict
from tunecheck_bfcl import CallCheckEvaluator, score_results

PYTHON = ["simple_python", "multiple", "parallel", "parallel_multiple"]
PYTHON += [f"live_{name}" for name in ("simple", "multiple", "parallel", "parallel_multiple")]
ANSWERED = [*PYTHON, "simple_java", "simple_javascript"]

UNWINNABLE = {"simple_java_36", "simple_java_64", "simple_java_65", "live_simple_106-63-0", "live_simple_112-68-0"}
UNWINNABLE |= {"live_multiple_862-181-3", "live_multiple_964-207-0"}
"""Rows that no answer passes on the leaderboard, as its documentation of known issues lists them."""

AT_FACE_VALUE = {
    # the checker reads no texts and numbers side by side out of a Java list
    "simple_java_36": ("value_error:list/tuple", "parts"),
    "simple_java_65": ("value_error:list/tuple", "params"),
    # its possible values are a text, not a list of one: they are its letters
    "simple_java_64": ("value_error:dict_value", "epoch_millis"),
    # a required argument has no possible value, or only the empty one
    "live_simple_106-63-0": ("simple_function_checker:missing_required", "auto_loan_payment_start"),
    "live_simple_112-68-0": ("simple_function_checker:missing_required", "acc_routing_start"),
    "live_multiple_507-149-4": ("simple_function_checker:missing_required", "origin_airport"),
    "live_multiple_964-207-0": ("simple_function_checker:missing_required", "statement"),
    # the function has no such parameter
    "live_multiple_862-181-3": ("simple_function_checker:unexpected_param", "journey_start_time"),
    "parallel_multiple_12": ("parallel_function_checker_no_order:cannot_find_match", "permeability"),
    "parallel_multiple_26": ("parallel_function_checker_no_order:cannot_find_match", "type"),
}
"""Rows that fail where every possible value is given as it stands, with error type and argument: the page's ten."""

WITHOUT_ANSWER = {"live_simple_106-63-0", "live_simple_112-68-0", "live_multiple_862-181-3", "live_multiple_964-207-0"}
"""Those among them whose ground truth allows no answer at all; of the others it is only the checker that does not."""


def test_the_leaderboards_checks_pass_every_row_that_can_be_passed(tmp_path: Path) -> None:
    assert failing(judged(tmp_path)) == UNWINNABLE


def test_ten_rows_fail_where_each_possible_value_is_given_as_it_stands(tmp_path: Path) -> None:
    verdicts = judged(tmp_path, as_it_stands=True)
    assert len(verdicts) == 2_501
    assert {name: verdicts[name].error_type for name in failing(verdicts)} == {
        name: error_type for name, (error_type, _) in AT_FACE_VALUE.items()
    }
    for name, (_, argument) in AT_FACE_VALUE.items():
        assert argument in str(verdicts[name].message)


def test_the_leaderboards_checks_pass_the_same_rows_as_call_text(tmp_path: Path) -> None:
    verdicts = judged(tmp_path, mode="text", categories=PYTHON)
    assert failing(verdicts) == {name for name in UNWINNABLE if "java" not in name}


def test_the_strict_checks_leave_out_only_rows_whose_ground_truth_allows_no_answer(tmp_path: Path) -> None:
    verdicts = judged(tmp_path, compat=False)
    assert failing(verdicts) == WITHOUT_ANSWER
    assert {verdicts[name].error_type for name in WITHOUT_ANSWER} == {"invalid_entry"}


def failing(verdicts: Mapping[str, RowVerdict]) -> set[str]:
    return {name for name, verdict in verdicts.items() if not verdict.valid}


def judged(
    folder: Path,
    *,
    compat: bool = True,
    mode: Literal["tools", "text"] = "tools",
    as_it_stands: bool = False,
    categories: Sequence[str] = ANSWERED,
) -> dict[str, RowVerdict]:
    """The verdicts of the ground truth, each in the first of the ways of writing it that passes."""
    best: dict[str, RowVerdict] = {}
    for quoted in (True, False):
        for category in categories:
            with (folder / f"BFCL_v4_{category}_result.json").open("w", encoding="utf-8") as file:
                for row in entries(category).values():
                    calls = _calls(row, quoted=quoted, as_it_stands=as_it_stands)
                    named = [{name.replace(".", "_"): json.dumps(given)} for name, given in calls]
                    result = as_text(calls) if mode == "text" else named
                    file.write(json.dumps({"id": row["id"], "result": result}) + "\n")
        (model,) = score_results(folder, compat=compat, mode=mode, data=bfcl_copy()).models.values()
        for scored in model.categories.values():
            best |= {name: verdict for name, verdict in scored.verdicts if name not in best or not best[name].valid}
    return best


def _calls(row: Mapping[str, Any], *, quoted: bool, as_it_stands: bool = False) -> Sequence[tuple[str, dict[str, Any]]]:
    """The ground truth's calls; without unknown arguments and with required ones, unless `as_it_stands`."""
    functions: Any = row["functions"]
    schemas = {function["name"]: function["parameters"] for function in functions}
    calls = []
    truth: Any = row["ground_truth"]
    for answer in truth:
        ((name, arguments),) = answer.items()
        schema = schemas[name]
        given = {}
        for parameter, options in arguments.items():
            written = [option for option in options if option != ""]
            known, needed = parameter in schema["properties"], parameter in schema["required"]
            if (written and as_it_stands) or (known and (written or needed) and not as_it_stands):
                value = _concrete((written or [""])[0])
                kind = schema["properties"].get(parameter, {})
                given[parameter] = value if row["language"] == "python" else _source(value, kind, row, quoted=quoted)
        calls.append((name, given))
    return calls


def _concrete(value: object) -> object:
    """Return an object with the first alternative of each key; what may be left out is left out."""
    if isinstance(value, list):
        return [_concrete(each) for each in value]
    if not isinstance(value, dict):
        return value
    first = {key: each[0] if isinstance(each, list) and each else each for key, each in value.items()}
    return {key: each for key, each in first.items() if each != ""}


def _source(value: object, schema: Mapping[str, Any], row: Mapping[str, Any], *, quoted: bool) -> str:
    """The value as Java or JavaScript source text, the way the leaderboard's patterns read it."""
    java = row["language"] == "java"
    if isinstance(value, list):
        suffix = "L" if schema.get("items", {}).get("type") == "long" else ""
        items = ", ".join(_item(each, quoted=quoted) + suffix for each in value)
        if not java:
            return f"[{items}]"
        return f"new ArrayList<>(Arrays.asList({items}))" if schema["type"] == "ArrayList" else f"new X[]{{{items}}}"
    if isinstance(value, dict) and java:
        puts = " ".join(f'put("{key}", {_item(each, quoted=True)});' for key, each in value.items())
        return f"new HashMap<String, Object>() {{{{ {puts} }}}}"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key}: {_item(each, quoted=True)}' for key, each in value.items())}}}"
    text = json.dumps(value) if not isinstance(value, str) else value
    return text + {"long": "L", "float": "f" if java else ""}.get(schema["type"], "")


def _item(value: object, *, quoted: bool) -> str:
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False) if quoted else value
    if isinstance(value, list):
        return f"[{', '.join(_item(each, quoted=quoted) for each in value)}]"
    return json.dumps(value)


# -- one answer against possible answers: the leaderboard's rules, and where the strict mode is right instead
# A line of single_turn_cases.jsonl has a row (`check`, `answers`, `functions`), a `result`, and the verdicts "bfcl" and
# "strict": "pass", "fail", "not_applicable", or the error type of a failure (`*` matches any ending).


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
