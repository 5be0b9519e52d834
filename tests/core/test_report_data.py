"""Contents of a report and its command: figures, charts, how rows are compared, and where the file goes."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as some
from tests.cli_parts import here, inside, write_lines
from tests.report_parts import TOOLS, data_of, make_run, report_of, row, small_rows, tool_call

from tunecheck import (
    ArgumentMatchEvaluator,
    ConfigurationError,
    Evaluator,
    Fault,
    FunctionCallMatchEvaluator,
    Run,
    evaluate,
    write_report,
)
from tunecheck._messages import cut_apart
from tunecheck.comparison import ComparisonSettings, RunPair
from tunecheck.pipeline import VerdictReader
from tunecheck.plugins import JSON, dumps
from tunecheck.report import as_json, cut
from tunecheck.report._calls import AnswerComparison, JudgedCalls, SideBySide, shown_turns, side_by_side
from tunecheck.report._details import DetailReader
from tunecheck.report._index import histogram
from tunecheck.report._page import Blocks, line
from tunecheck.report._reading import read_run
from tunecheck.report._writing import paired_rows
from tunecheck.results import read_run as read_run_table, read_runs

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report")
    return report_of(make_run(folder, small_rows(), group_by=["city"]), folder)


def laid_out(ground_truth: Any, response: Any, judged: JudgedCalls | None = None) -> SideBySide:
    return side_by_side(AnswerComparison(ground_truth, response, None, judged))


def judged_by(evaluator: Evaluator, ground_truth: object, response: object) -> SideBySide:
    """Both sides, as shown if this evaluator has judged the row."""
    said: Any = evaluator(response=response, ground_truth=ground_truth, tool_definitions=TOOLS)
    name = evaluator.primary
    verdict = VerdictReader("e", name).read({f"outputs.e.{key}": value for key, value in said.items()})
    return laid_out(ground_truth, response, JudgedCalls(verdict.faults, name != "function_call_match"))


def matched(ground_truth: object, response: object, **policy: Any) -> SideBySide:
    return judged_by(ArgumentMatchEvaluator(**policy), ground_truth, response)


def statuses(found: SideBySide) -> list[str]:
    return [pair[2] for pair in found.pairs if isinstance(pair, list) and isinstance(pair[2], str)]


def test_a_pass_rate_has_wilsons_interval(report: Path) -> None:
    calls = data_of(report, "head")["summary"]["evaluators"][0]
    rate = calls["lines"][0]["cells"][0]
    # 4 of 6; Wilson (1927), calculated by hand.
    assert (rate["passed"], rate["n"]) == (4, 6)
    assert rate["low"] == pytest.approx(0.29999, abs=1e-4)
    assert rate["high"] == pytest.approx(0.90322, abs=1e-4)


def test_figures_are_by_row_kind_and_by_group(report: Path) -> None:
    groups = data_of(report, "head")["summary"]["groups"]
    found = [(group["column"], group["value"], group["rows"]) for group in groups]
    assert found == [(None, None, 6), ("row_kind", "call", 5), ("row_kind", "answer", 1), ("city", "Oslo", 1)]


def test_a_mean_has_an_interval(report: Path) -> None:
    length = data_of(report, "head")["summary"]["evaluators"][2]
    cell = length["lines"][0]["cells"][0]
    assert cell["low"] < cell["value"] < cell["high"]


def test_confusions_are_counted_by_row(report: Path) -> None:
    chart = data_of(report, "head")["charts"]["confusion"]
    names = [*chart["names"], "(others)"]
    counts = {(names[row], names[column]): count for row, column, count in chart["cells"]}
    answered = {("book", "(an answer)"): 1, ("(an answer)", "(an answer)"): 1}
    assert counts == {("book", "book"): 3, ("cancel", "book"): 1, **answered}


def test_a_call_that_the_api_did_not_return_is_no_call_in_confusions(tmp_path: Path) -> None:
    run = make_run(tmp_path, small_rows())
    first, *others = run.results.read_text("utf-8").splitlines()
    write_lines(run.results, [{**json.loads(first), "cause": "call_left_in_text"}, *map(json.loads, others)])
    chart = data_of(report_of(run, tmp_path), "head")["charts"]["confusion"]
    assert "(serving fault)" in chart["names"]


def test_functions_have_pass_rates_by_evaluator(report: Path) -> None:
    functions = data_of(report, "head")["charts"]["functions"]["by"]
    for evaluator, passed in (("calls", 3), ("arguments", 2)):
        rates = {name: rate[:2] for name, *rate in functions[evaluator]}
        assert rates == {"book": [passed, 4], "cancel": [0, 1]}


def test_reasons_are_counted_by_kind(report: Path) -> None:
    kinds = ("wrong argument: number as text", "wrong function", "answered instead of calling")
    assert dict(data_of(report, "head")["charts"]["reasons"]) == dict.fromkeys(kinds, 1)


def test_causes_are_counted_by_what_has_to_change_and_rows_are_found_by_them(report: Path) -> None:
    causes = data_of(report, "head")["charts"]["causes"]
    assert list(causes) == ["model"]
    titles = ["answered instead of calling", "called the wrong function", "a number written as text"]
    assert [[title, rows] for title, rows, _ in causes["model"]] == [[title, 1] for title in titles]
    column = data_of(report, "index")["causes"]
    found = [None if code is None else column["values"][code] for code in column["rows"]]
    assert found == [None, *titles[::-1], None, None]


def test_the_table_has_a_letter_for_each_outcome(report: Path) -> None:
    index = data_of(report, "index")
    assert [outcome["results"] for outcome in index["outcomes"]] == ["ppffpp", "pfffnp", "ssssss"]


def test_long_texts_that_rows_share_are_in_the_file_once(tmp_path: Path) -> None:
    long = "Tables are booked by the hour. " * 100
    rows = [row(number, "x", "x", handbook=long) for number in range(50)]
    path = report_of(make_run(tmp_path, rows), tmp_path)
    assert data_of(path, "shared-0").count(cut(long)) == 1


def test_a_thousand_single_rows_take_less_than_a_megabyte(tmp_path: Path) -> None:
    sample = [json.loads(each) for each in (ROOT / "datasets/val.jsonl").read_text("utf-8").splitlines()]
    rows = [{**sample[number % len(sample)], "id": f"row {number}"} for number in range(1_000)]
    mapping = {"ground_truth": "${data.answer}", "response": "${data.answer}", "tool_definitions": "${data.tools}"}
    run = make_run(tmp_path, rows, evaluator_config={"default": {"column_mapping": mapping}})
    assert report_of(run, tmp_path).stat().st_size < 1_000_000


def test_arguments_that_differ_are_marked_with_how(tmp_path: Path) -> None:
    found = matched(tool_call("book", people=2, day="x"), tool_call("book", people="2", day="x", note="y"))
    assert statuses(found) == ["differs"]
    assert found.pairs[0] == [
        ["book", [["people", "2", "wrong"], ["day", '"x"', ""]]],
        ["book", [["people", '"2"', "wrong"], ["day", '"x"', ""], ["note", '"y"', "unexpected"]]],
        "differs",
        [["people", "number as text"], ["note", "unexpected"]],
    ]


def test_what_differs_deep_inside_marks_its_argument_and_names_the_place() -> None:
    found = matched(
        tool_call("f", to={"city": "Oslo", "no": [1, 2]}), tool_call("f", to={"city": "Oslo", "no": [1, 3]})
    )
    assert isinstance(found.pairs[0], list)
    assert found.pairs[0][3] == [["to.no[1]", "other"]]
    assert found.pairs[0][0] == ["f", [["to", '{"city":"Oslo","no":[1,2]}', "wrong"]]]


def test_a_value_that_the_evaluator_failed_is_marked_however_alike_it_looks(tmp_path: Path) -> None:
    """5 in a list is not 5.0 for the evaluator: the page says what it says."""
    truths: list[Any] = [tool_call("f", a=[5]), [{"f": {"a": [5]}}]]
    made, tools = tool_call("f", a=5.0), [{"name": "f", "parameters": {}}]
    run = make_run(tmp_path, [row(at, truth, made, tool_definitions=tools) for at, truth in enumerate(truths)])
    for details in data_of(report_of(run, tmp_path), "rows-0"):
        assert details["pairs"] == [
            [["f", [["a", "[5]", "wrong"]]], ["f", [["a", "5.0", "wrong"]]], "differs", [["a", "other"]]]
        ]
        assert {each[0]: each[1] for each in details["verdicts"]}["arguments"] == "fail"


def test_calls_that_nobody_judged_lie_side_by_side_without_marks() -> None:
    found = laid_out(tool_call("f", a=1), tool_call("f", a=2))
    assert found.pairs == [[["f", [["a", "1", ""]]], ["f", [["a", "2", ""]]], "beside", []]]


def test_an_evaluator_of_functions_says_nothing_of_arguments() -> None:
    evaluator = FunctionCallMatchEvaluator()
    assert statuses(judged_by(evaluator, tool_call("f", a=1), tool_call("f", a=2))) == ["named"]
    assert statuses(judged_by(evaluator, tool_call("f", a=1), tool_call("g", a=1))) == ["misnamed"]


def test_faults_mark_the_call_in_which_their_values_stand() -> None:
    wanted = [*tool_call("f", a=1, b="x"), *tool_call("f", a=2, b="y")]
    made = [*tool_call("f", a=2, b="Y!"), *tool_call("f", a=1, b="x")]
    found = matched(wanted, made)
    assert statuses(found) == ["same", "differs"]
    assert [pair[3] for pair in found.pairs if isinstance(pair, list)][1][0][0] == "b"  # type: ignore[index]


def test_faults_of_users_mark_arguments_too() -> None:
    fault = Fault(code="too_late", call="f", path="when", expected="noon", actual="night")
    found = laid_out(tool_call("f", when="noon"), tool_call("f", when="night"), JudgedCalls((fault,)))
    assert found.pairs == [
        [["f", [["when", '"noon"', "wrong"]]], ["f", [["when", '"night"', "wrong"]]], "differs", [["when", "too late"]]]
    ]


def test_calls_are_paired_whatever_their_order() -> None:
    calls = [*tool_call("book", day="a"), *tool_call("cancel", day="b")]
    assert statuses(matched(calls, calls[::-1])) == ["same", "same"]
    assert statuses(matched(calls, calls[:1])) == ["same", "missing"]
    assert statuses(matched(calls[:1], calls)) == ["same", "extra"]


def test_a_policy_of_the_evaluator_holds_for_the_page_too() -> None:
    pair = (tool_call("f", to="Oslo"), tool_call("f", to="OSLO"))
    assert statuses(matched(*pair)) == ["differs"]
    assert statuses(matched(*pair, ignore_case=True)) == ["same"]


def test_possible_answers_are_shown_beside_each_other_and_dots_in_names_do_not_differ() -> None:
    found = laid_out([{"math.hcf": {"a": [36], "unit": ["", "feet"]}}], [{"math_hcf": '{"a": 36}'}], JudgedCalls())
    expected = ["math.hcf", [["a", "36", ""], ["unit", '"feet" | (may be left out)', ""]]]
    assert found.pairs == [[expected, ["math.hcf", [["a", "36", ""]]], "same", []]]
    assert found.confused == [("math.hcf", "math.hcf")]


@pytest.mark.parametrize(
    ("ground_truth", "response", "confused"),
    [
        ("words", "words", [("(an answer)", "(an answer)")]),
        ("words", tool_call("f"), [("(an answer)", "f")]),
        (tool_call("f"), "words", [("f", "(an answer)")]),
        (tool_call("f"), [], [("f", "(no call)")]),
        (tool_call("f"), '<tool_call>{"name": "f", "argu', [("f", "(unreadable call)")]),
        (tool_call("f"), tool_call("g"), [("f", "g")]),
        (tool_call("f"), tool_call("f") + tool_call("g"), [("f", "f"), ("(no call)", "g")]),
        (None, tool_call("f"), []),
    ],
)
def test_what_was_taken_for_what(ground_truth: object, response: object, confused: list[tuple[str, str]]) -> None:
    assert laid_out(ground_truth, response).confused == confused


@given(
    some.recursive(some.none() | some.booleans() | some.integers() | some.floats() | some.text(), some.lists),
    some.text(),
)
def test_nothing_that_is_compared_raises(ground_truth: object, response: str) -> None:
    fault = Fault(code="wrong_argument", call=response, path=response, expected=ground_truth, actual=response)
    laid_out(ground_truth, response, JudgedCalls((fault, *hostile_faults(ground_truth, response))))
    laid_out(response, ground_truth, JudgedCalls((fault,)))


def hostile_faults(expected: object, name: str) -> list[Fault]:
    codes = ("misnamed_call", "missing_call", "extra_call", "call_out_of_order")
    return [Fault(code=code, call=name, expected=expected, actual=expected) for code in codes]


values = some.recursive(
    some.none() | some.booleans() | some.integers() | some.text(),
    lambda inner: some.lists(inner) | some.dictionaries(some.sampled_from(["role", "content", "step_0", "a"]), inner),
)


@given(values, values, values, values)
def test_nothing_that_is_logged_raises(turns: Any, ground_truth: Any, log: Any, result: Any) -> None:
    shown_turns(turns, ground_truth, log, result)


@given(some.text(), some.text(), some.text(), some.text())
def test_what_changed_in_a_text_keeps_what_differs(start: str, one: str, other: str, end: str) -> None:
    before, after = cut_apart(start + one + end, start + other + end, most=10_000)
    assert (before == after) == (one == other)
    assert before.strip("…") in start + one + end


def test_a_change_in_a_long_state_is_shown_with_the_60_characters_before_it() -> None:
    start = "".join(chr(ord("a") + at % 26) for at in range(900))
    states = [[{"role": "state_info", "class_name": "Notes", "content": f"{start}{end}"}] for end in ("old", "new")]
    log: Any = [states[0], {"begin_of_turn_query": []}, states[1]]
    (turn,) = shown_turns([[{"role": "user", "content": "?"}]], None, log, None)
    assert turn["changes"] == [["Notes", f"…{start[-60:]}old", f"…{start[-60:]}new"]]


@given(some.text(min_size=1), some.integers(min_value=5, max_value=50))
def test_a_text_that_is_cut_begins_and_ends_as_it_did(text: str, most: int) -> None:
    shown = cut(text * 20, most)
    whole = text * 20
    if len(whole) <= most:
        assert shown == whole
    else:
        assert shown.startswith(whole[: most - most // 5])
        assert shown.endswith(whole[len(whole) - most // 5 :])
        assert f"{len(whole) - most:,} characters" in shown


def test_a_line_is_one_line() -> None:
    assert line("a\n  b\tc", 100) == "a b c"
    assert line("word " * 100, 20) == "word word word word…"


def test_a_histogram_counts_every_value_once() -> None:
    found = histogram([0.0, 0.049, 0.05, 0.5, 1.0], 0.0, 1.0)
    counts = found["counts"]
    assert isinstance(counts, list)
    assert (counts[0], counts[1], counts[10], counts[19]) == (2, 1, 1, 1)
    assert histogram([3.0, 3.0], 3.0, 3.0)["counts"][0] == 2  # type: ignore[index]


def rows_paired(base: Run, new: Run) -> list[int | None]:
    base_table, new_table = read_runs([base, new], Path())
    return paired_rows(RunPair(base_table, new_table, ComparisonSettings(rows=0)))


def test_rows_are_paired_by_id_and_content_trials_each_for_itself(tmp_path: Path) -> None:
    base = make_run(tmp_path, [row(1, "x", "y"), row(2, "x", "y"), row(3, "x", "y")], "base")
    new = make_run(tmp_path, [row(3, "x", "y"), row(2, "other", "y"), row(1, "x", "y"), row(9, "x", "z")], "new")
    assert rows_paired(base, new) == [2, None, 0, None]
    with pytest.raises(ConfigurationError, match="share no row"):
        rows_paired(base, make_run(tmp_path, [row(8, "a", "b")], "another"))


def test_trials_are_paired_with_trials(tmp_path: Path) -> None:
    def run(name: str) -> Run:
        data = [{"id": "a", "question": "1"}, {"id": "b", "question": "2"}]
        answers = {"target": lambda question: question, "evaluators": {"n": lambda response: {"n": len(response)}}}
        result = evaluate(data=data, repeat=2, results_dir=tmp_path, evaluation_name=name, **answers)  # type: ignore[arg-type]
        return Run(Path(str(result.run_dir)))

    assert rows_paired(run("base"), run("new")) == [0, 1, 2, 3]


def test_a_run_that_has_not_finished_has_no_report(tmp_path: Path) -> None:
    folder = tmp_path / "run-20260101T000000Z-000000"
    folder.mkdir()
    (folder / "run.json").write_text("{}", "utf-8")
    with pytest.raises(ConfigurationError, match="has no results, because it is not finished"):
        write_report(Run(folder), tmp_path / "x.html")
    assert not (tmp_path / "x.html").exists()


def test_a_report_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    run = make_run(tmp_path, small_rows())
    with pytest.raises(ConfigurationError, match=r"cannot be written \(No such file or directory\): name another file"):
        write_report(run, tmp_path / "nowhere" / "x.html")


def test_first_tokens_and_reasoning_tokens_are_charted(tmp_path: Path) -> None:
    def thinking(*, id: str) -> dict[str, object]:
        usage = {"input_tokens": 1, "output_tokens": 30, "reasoning_tokens": 20}
        return {"response": "yes", "first_token_ms": 100.0 if id == "r1" else 300.0, "usage": usage}

    rows = [{"id": f"r{number}", "ground_truth": "yes"} for number in (1, 2)]
    drawn = data_of(report_of(make_run(tmp_path, rows, target=thinking), tmp_path), "head")["charts"]
    assert (drawn["first_token"]["p50"], drawn["first_token"]["p99"]) == (100, 300)
    assert drawn["reasoning_tokens"]["sum"] == 40


def test_a_step_shows_what_the_model_thought_and_a_test_log_too() -> None:
    step: JSON = [{"role": "assistant", "content": "Done.", "reasoning_content": "All is made."}]
    turns: Any = shown_turns([[]], None, [{"step_0": step}], None)
    assert (turns[0]["steps"][0]["text"], turns[0]["steps"][0]["reasoning"]) == ("Done.", "All is made.")


def logged_step(content: JSON, made: list[JSON]) -> dict[str, Any]:
    """A step as a page shows it, of an answer with these calls that were made."""
    note: JSON = {"role": "handler_log", "event": "decode_success", "model_response_decoded": made}
    turns: Any = shown_turns([[]], None, [{"step_0": [{"role": "assistant", "content": content}, note]}], None)
    step: dict[str, Any] = turns[0]["steps"][0]
    return step


def test_a_step_shows_the_calls_that_were_made_however_they_were_written() -> None:
    written = "<function=cd><parameter=folder>\n1\n</parameter></function>"
    step = logged_step(written, ["cd(folder='1')"])
    assert step["calls"] == logged_step("[cd(folder='1')]", ["cd(folder='1')"])["calls"] != []


def test_a_call_that_was_not_made_is_text_in_a_step() -> None:
    step = logged_step("[cd(folder='documents')]", [])
    assert (step["calls"], step["text"]) == ([], "[cd(folder='documents')]")


def test_a_turns_state_differences_stand_where_the_evaluator_says(tmp_path: Path) -> None:
    def state(*, id: str) -> dict[str, object]:
        differences: list[object] = [["Disk.a", "1", "2"], "odd", ["Disk.b", "missing"]]
        properties = {"turn": 1, "state_differences": differences}
        return {"state": 0.0, "state_result": "fail", "state_properties": properties}

    asked = [[{"role": "user", "content": "make it"}], [{"role": "user", "content": "remove it"}]]
    rows = [{"id": "r1", "turns": asked, "ground_truth": [["a()"], ["b()"]]}]
    run = make_run(tmp_path, rows, evaluators={"state": state})
    (row,) = data_of(report_of(run, tmp_path), "rows-0")
    assert [turn.get("apart") for turn in row["turns"]] == [None, [["Disk.a", "1", "2"]]]


def test_the_base_runs_same_answer_is_shown_the_same(tmp_path: Path) -> None:
    base, new = make_run(tmp_path, small_rows(), "before"), make_run(tmp_path, small_rows(), "after")
    old, now = (read_run(read_run_table(run, tmp_path)) for run in (base, new))
    reader = DetailReader(now, Blocks("shared", lambda name, text: None))
    for at, (before, after) in enumerate(zip(base.rows(), new.rows(), strict=True)):
        shown = reader.read(at, after)
        answer = DetailReader(old, Blocks("shared", lambda name, text: None)).answer(at, before, shown)
        assert answer == {name: shown.shown[name] for name in answer}
        assert {"verdicts", "errors", "actual", "pairs"} == set(answer)


def test_texts_and_numbers_are_written_as_json_writes_them() -> None:
    texts = ("plain", 'a "quote"', "back\\slash", "é", "line\nbreak", "\x7f", "")
    for value in (*texts, 0.1, 1e-5, 1e22, 5.0, -0.5, True, None, 3):
        assert json.loads(as_json(value)) == value
        assert as_json(value) == dumps(value).decode()


def test_the_report_lies_in_the_runs_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = make_run(tmp_path, small_rows())
    said = here(capsys, "report", run.id[:12], "--results-dir", str(run.folder.parent))
    assert (said.code, said.out.strip()) == (0, str(run.folder / "report.html"))
    assert (run.folder / "report.html").read_text("utf-8").startswith("<!doctype html>")


def test_out_says_where_else(tmp_path: Path) -> None:
    run = make_run(tmp_path, small_rows())
    said = inside(tmp_path, "report", "last", "--out", "x.html")
    assert (said.code, said.out) == (0, "x.html\n")
    assert (tmp_path / "x.html").is_file()
    assert not (run.folder / "report.html").exists()


def test_any_number_of_runs_are_held_against_the_first(tmp_path: Path) -> None:
    ids = [make_run(tmp_path, small_rows(), name).id for name in ("one", "two", "three")]
    assert inside(tmp_path, "report", ids[2], "--against", ids[0], "--against", ids[1]).code == 0
    against = data_of(tmp_path / "eval_results" / ids[2] / "report.html", "head")["against"]
    assert [each["run"] for each in against["runs"]] == ids[:2]
    assert [each["run"] for each in against["held"]] == ids[1:]
    assert [len(each["values"]) for each in against["history"]] == [3, 3, 3]


def test_results_of_azure_and_of_the_leaderboard_are_reported_too(tmp_path: Path) -> None:
    score = tmp_path / "tree" / "score" / "m" / "BFCL_v4_simple_python_score.json"
    result = tmp_path / "tree" / "result" / "m" / "BFCL_v4_simple_python_result.json"
    names = [f"simple_python_{number}" for number in range(3)]
    total = {"accuracy": 2 / 3, "correct_count": 2, "total_count": 3}
    write_lines(score, [total, {"id": names[1], "error": ["wrong type"]}])
    write_lines(result, [{"id": name, "result": "f()"} for name in names])
    passed = {"outputs.bfcl_pooled.bfcl_pooled": 1.0, "outputs.bfcl_pooled.bfcl_pooled_result": "pass"}
    rows = [{"inputs.id": name, **passed, "outputs.fluency.fluency": None} for name in names]
    (tmp_path / "evaluation_results.json").write_text(json.dumps({"rows": rows, "metrics": {}}), "utf-8")

    held = ("report", "evaluation_results.json", "--against", "tree")
    said = inside(tmp_path, *held)
    assert (said.code, "so the report needs a path: give --out FILE" in said.err) == (2, True)
    assert inside(tmp_path, *held, "--out", "x.html", "--pair-by", "id").code == 0
    index, head = (data_of(tmp_path / "x.html", name) for name in ("index", "head"))
    assert index["ids"] == names
    assert index["outcomes"][0]["results"] == "ppp"
    assert head["against"]["runs"][0]["outcomes"][0]["results"] == "pfp"
    assert inside(tmp_path, "report", "tree", "--out", "y.html").code == 0
    groups = data_of(tmp_path / "y.html", "head")["summary"]["groups"]
    assert ["category", "simple_python", 3] in [[each["column"], each["value"], each["rows"]] for each in groups]


def test_runs_without_a_row_in_common_are_refused_unless_paired_by_id(tmp_path: Path) -> None:
    make_run(tmp_path, [row(1, "x", "x")], "one")
    make_run(tmp_path, [row(1, "other", "x")], "two")
    said = inside(tmp_path, "report", "two", "--against", "one")
    assert said.code == 2
    assert "to compare them anyway, add --pair-by id" in said.err
    assert inside(tmp_path, "report", "two", "--against", "one", "--pair-by", "id").code == 0


def test_a_run_that_is_not_there_is_named(tmp_path: Path) -> None:
    make_run(tmp_path, small_rows(), "one")
    said = inside(tmp_path, "report", "tow")
    assert said.code == 2
    assert said.err.startswith("error: there is no run 'tow'")


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    make_run(tmp_path, small_rows())
    for out in (".", "nowhere/x.html"):
        said = inside(tmp_path, "report", "last", "--out", out)
        assert said.code == 2
        assert f"--out {out}" in said.err
