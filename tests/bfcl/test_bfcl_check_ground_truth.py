"""The possible answers against themselves: which rows some answer passes, and which nobody can pass."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tests.bfcl_check_parts import as_text, entries

from tunecheck.episodes import RowVerdict
from tunecheck_bfcl._data.categories import CATEGORIES
from tunecheck_bfcl._entries import CheckRow
from tunecheck_bfcl._single_turn import check_single_turn

ANSWERED = [name for name, category in CATEGORIES.items() if category.answers and not category.multi_turn]

UNWINNABLE = {
    "simple_java_36",
    "simple_java_64",
    "simple_java_65",
    "live_simple_106-63-0",
    "live_simple_112-68-0",
    "live_multiple_862-181-3",
    "live_multiple_964-207-0",
}
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


def test_the_leaderboards_checks_pass_every_row_that_can_be_passed() -> None:
    failing = {row["id"] for row in _rows() if not _best(row, compat=True, mode="tools").valid}
    assert failing == UNWINNABLE


def test_ten_rows_fail_where_each_possible_value_is_given_as_it_stands() -> None:
    verdicts = {row["id"]: _best(row, compat=True, mode="tools", as_it_stands=True) for row in _rows()}
    failing = {str(name): verdict for name, verdict in verdicts.items() if not verdict.valid}
    assert len(verdicts) - len(failing) == 2_491
    assert {name: verdict.error_type for name, verdict in failing.items()} == {
        name: error_type for name, (error_type, _) in AT_FACE_VALUE.items()
    }
    for name, (_, argument) in AT_FACE_VALUE.items():
        assert argument in str(failing[name].message)


def test_the_leaderboards_checks_pass_the_same_rows_as_call_text() -> None:
    rows = [row for row in _rows() if row["language"] == "python"]
    failing = {row["id"] for row in rows if not _best(row, compat=True, mode="text").valid}
    assert failing == {name for name in UNWINNABLE if "java" not in name}


def test_the_strict_checks_leave_out_only_rows_whose_ground_truth_allows_no_answer() -> None:
    verdicts = {row["id"]: _best(row, compat=False, mode="tools") for row in _rows()}
    assert {name for name, verdict in verdicts.items() if not verdict.valid} == WITHOUT_ANSWER
    assert {verdicts[name].error_type for name in WITHOUT_ANSWER} == {"invalid_entry"}


def test_there_are_as_many_rows_as_the_page_says() -> None:
    assert sum(1 for _ in _rows()) == 2_501


def _rows() -> Iterator[CheckRow]:
    for name in ANSWERED:
        yield from entries(name).values()


def _best(row: CheckRow, *, compat: bool, mode: Any, as_it_stands: bool = False) -> RowVerdict:
    """The verdict of the ground truth, in the first of the ways of writing it that passes."""
    verdict = RowVerdict(None)
    for quoted in (True, False):
        calls = _calls(row, quoted=quoted, as_it_stands=as_it_stands)
        result: Any = [{name.replace(".", "_"): json.dumps(given)} for name, given in calls]
        if mode == "text":
            result = as_text(calls)
        verdict = check_single_turn(row, result, compat=compat, mode=mode)
        if verdict.valid:
            break
    return verdict


def _calls(row: CheckRow, *, quoted: bool, as_it_stands: bool = False) -> Sequence[tuple[str, dict[str, Any]]]:
    """The ground truth's calls. Unless as they stand: without what the function does not know, with what it needs."""
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
    """An object whose keys have alternatives, with the first of each; what may be left out is left out."""
    if isinstance(value, list):
        return [_concrete(each) for each in value]
    if not isinstance(value, dict):
        return value
    first = {key: each[0] if isinstance(each, list) and each else each for key, each in value.items()}
    return {key: each for key, each in first.items() if each != ""}


def _source(value: object, schema: Mapping[str, Any], row: CheckRow, *, quoted: bool) -> str:
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
