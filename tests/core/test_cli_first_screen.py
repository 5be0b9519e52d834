"""The end of a run's output: three sentences and one table, the same as on the first screen of its report."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.cli_parts import Said, call, here, inside, like, replay, right_answers, write_files
from tests.fault_server import HANG, FaultServer, Step, failing
from tests.tables import cases

from tunecheck import evaluate

EVALUATE = ("evaluate", "--dataset", "small.jsonl", "--endpoint", "recorded")

Evaluated = Callable[..., list[str]]


@pytest.fixture
def evaluated(small: Path) -> Evaluated:
    """Run `evaluate` on right answers, except for these; return the lines."""

    def run(answers: dict[str, object] | None = None, *more: str, columns: str = "300") -> list[str]:
        replay(small, right_answers(answers))
        return inside(small, *EVALUATE, *more, COLUMNS=columns).out.splitlines()

    return run


@cases("cli")
def test_the_first_screen_says_this_in_its_lines(
    evaluated: Evaluated, small: Path, files: dict[str, str], answers: dict[str, object], words: str,
    sentences: dict[str, str],
) -> None:  # fmt: skip
    write_files(small, files)
    lines = evaluated(answers, *words.split())
    assert [text for at, text in sentences.items() if not like(text, lines[int(at)])] == []


def test_a_first_run_leads_to_its_report_and_a_second_one_to_the_comparison(evaluated: Evaluated, small: Path) -> None:
    first = evaluated({"r0": call(people=9)}, "--name", "one")[3]
    assert re.fullmatch(r"Next, look at every row:  tunecheck report one-\w+-\w+", first)
    second = evaluated({}, "--name", "two")[3]
    assert re.fullmatch(r"Next, compare with the previous run:  tunecheck compare one-\w+-\w+ two-\w+-\w+", second)
    assert inside(small, *second.partition(":  ")[2].split()[1:]).code == 0


def test_a_run_with_another_evaluator_of_that_name_is_not_the_run_to_compare_with(
    evaluated: Evaluated, small: Path
) -> None:
    evaluated({}, "--name", "one")
    evaluated({}, "--name", "two", "--set", "match.ignore_case=true")
    third = evaluated({}, "--name", "three")[3]
    assert re.fullmatch(r"Next, compare with the previous run:  tunecheck compare one-\w+-\w+ three-\w+-\w+", third)


class Length:
    """An evaluator whose state cannot be read, so that it has no fingerprint."""

    __slots__ = ("most",)

    def __init__(self) -> None:
        self.most = 9

    def __call__(self, response: str) -> dict[str, bool]:
        return {"passed": len(response) < self.most}


@pytest.mark.parametrize("own", [Length(), lambda response: {"passed": len(response) < 9}])
def test_a_run_of_unknown_evaluators_is_not_the_run_to_compare_with(small: Path, own: object) -> None:
    for _ in range(2):
        data = [{"id": f"r{number}", "row_id": f"r{number}"} for number in range(6)]
        evaluate(
            data=iter(data), target=lambda row_id: row_id, evaluators={"own": own}, results_dir=small / "eval_results"
        )
    said = inside(small, "runs", "last", COLUMNS="300").out
    next_step = "Next, look at every row" if isinstance(own, Length) else "Next, compare with the previous run"
    assert next_step in said


def test_scoring_recorded_answers_leads_to_the_report_as_the_run_before_may_have_newer_answers(
    evaluated: Evaluated, small: Path
) -> None:
    evaluated({}, "--name", "old")
    evaluated({}, "--name", "new")
    said = inside(small, "score", "old", "--evaluators", "match", COLUMNS="300").out
    assert "Next, look at every row:  tunecheck report old-" in said


def test_rows_without_a_column_lead_to_the_report_as_another_attempt_finds_none(small: Path) -> None:
    rows = [{"id": f"r{number}", "ground_truth": "a", **({"said": "a"} if number else {})} for number in range(4)]
    (small / "some.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    command = ("evaluate", "--dataset", "some.jsonl", "--response-column", "said", "--evaluators", "f1_score")
    said = inside(small, *command, COLUMNS="300").out
    assert re.search(r"Next, see which rows lack the column:  tunecheck report some-", said)


def test_rows_without_an_answer_lead_from_a_scored_run_to_the_run_with_the_endpoint(
    evaluated: Evaluated, small: Path
) -> None:
    """A run of `score` calls no endpoint, so resuming it cannot get an answer."""
    evaluated({"r0": call(people="2"), "r2": call(people="4"), "r5": None}, "--name", "old")
    said = inside(small, "score", "old", "--evaluators", "match", COLUMNS="300").out
    assert re.search(r"Next, get the missing answers, then score again:  \S+ evaluate --resume old-", said)


def test_a_run_of_python_code_leads_to_its_call(small: Path) -> None:
    def answer(row_id: str) -> str:
        return str(1 / (row_id != "r5"))

    data = [{"id": f"r{number}", "row_id": f"r{number}"} for number in range(6)]
    evaluate(
        data=data, target=answer, evaluators={"own": lambda response: len(response)}, results_dir=small / "eval_results"
    )
    said = inside(small, "runs", "last", COLUMNS="300").out
    assert "Next, run the rows with an error again:  the same Python call and resume='rows-" in said


def test_rows_that_all_fail_again_when_the_run_is_resumed_lead_to_their_errors(
    evaluated: Evaluated, small: Path
) -> None:
    """If one of them no longer fails, the next attempt may help the others as well."""
    locked = "import os\ndef strict(id):\n    return {'n': 1 / (not os.path.exists(id))}\n"
    write_files(small, {"evaluators/strict.py": locked, "r0": "", "r1": "", "r2": ""})
    steps = [evaluated({}, "--evaluators", "strict")[3]]
    for unlocked in ("r0", None, "r1", None, "r2"):
        (small / (unlocked or "r0")).unlink(missing_ok=True)
        steps.append(inside(small, "evaluate", "--resume", "last", COLUMNS="300").out.splitlines()[3])
    again = "Next, run the rows with an error again:  tunecheck evaluate --resume"
    look = "Next, look at the errors that came again (comparisons leave these rows out):  tunecheck report small-"
    assert [
        text for text, step in zip((again, again, look, again, look), steps, strict=False) if text not in step
    ] == []
    assert steps[-1].startswith("Next, look at every row:")


@pytest.mark.parametrize(
    ("step", "cause", "advice"),
    [
        (failing(401, "no such key"), "the service refused the key", "Check auth in the endpoint's definition and"),
        (failing(429, "slow down"), "too many calls", "Lower limits.concurrency, or try later"),
        (HANG, "no answer within the time limit", "Raise timeout_s"),
    ],
    ids=["401", "429", "late"],
)
def test_an_error_of_the_service_says_whether_the_key_the_limits_or_the_time_are_wrong(
    small: Path, step: Step, cause: str, advice: str
) -> None:
    with FaultServer(lambda *_: step) as server:
        settings = f"url: {server.url}\nmodel: m\nretries: 0\ntimeout_s: 0.5\n"
        write_files(small, {"endpoints/served.yaml": f"kind: openai\n{settings}"})
        said = inside(small, "evaluate", "--dataset", "small.jsonl", "--endpoint", "served", COLUMNS="300").out
    assert cause in " ".join(said.split())
    assert advice in " ".join(said.split())


def test_the_next_command_names_the_folder_of_the_runs(evaluated: Evaluated, small: Path) -> None:
    evaluated({}, "--results-dir", "elsewhere")
    said = inside(small, "runs", "last", "--results-dir", "elsewhere", COLUMNS="300").out
    assert re.search(r"tunecheck report small-\S+ --results-dir elsewhere$", said, re.MULTILINE)


def test_the_whole_output_has_at_most_25_lines_of_80_columns(small: Path) -> None:
    names = "bleu,gleu,meteor,rouge,f1_score,function_call_match,argument_match,match,long,longer"
    (small / "evaluators").mkdir()
    for name in ("long", "longer"):
        (small / "evaluators" / f"{name}.py").write_text(f"def {name}(response):\n    return {{'x' * 60: 1.0}}\n")
    wrong = [call(people="2"), "no", call(name="cancel"), call(), "I'm sorry, but I can't help with that.", call()]
    replay(small, {f"r{number}": answer for number, answer in enumerate(wrong)})
    said = inside(small, *EVALUATE, "--evaluators", names, COLUMNS="80")
    lines = said.out.splitlines()
    assert len(lines) <= 25
    assert max(map(len, (line.rstrip() for line in lines))) <= 80
    assert "3 more evaluators: --details" in said.out


def test_score_keeps_the_name_of_the_data(evaluated: Evaluated, small: Path) -> None:
    evaluated()
    said = inside(small, "score", "last", "--evaluators", "function_call_match", COLUMNS="300").out
    assert " · datasets/small.jsonl · 6 rows · recorded answers of small-" in said


def test_the_report_begins_with_the_same_sentences_and_table(evaluated: Evaluated, small: Path) -> None:
    lines = evaluated({"r0": call(people="2"), "r3": call()})
    assert inside(small, "report", "last", "--out", "report.html").code == 0
    page = (small / "report.html").read_text("utf-8")
    found = re.search(r'id="head"[^>]*>(.*?)</script>', page, re.DOTALL)
    assert found is not None
    first = json.loads(found[1])["first"]
    assert first["sentences"] == lines[1:4]
    assert [" ".join(" ".join(row).split()) for row in first["rows"]] == [
        " ".join(line.split()) for line in lines[6:11]
    ]


ANSWERS: dict[str, object] = {
    "r0": call(people=2),
    "r2": call(name="cancel", people=4),
    "r3": "I'm sorry, but I can't help with that.",
    "r4": '<tool_call>{"name": "book", "arguments": {"day": "2026-0',
}
SERVING, MODEL = "failed because of how the model is served", "failed because of the model"


def test_a_run_tells_its_causes_with_a_row_and_what_to_try(small: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Causes of serving come before those of the model."""
    replay(small, right_answers(ANSWERS))
    gates = ("--fail-under", "cause.cut_off<=10%", "--fail-under", "cause.refusal<=0.2")
    said = here(capsys, *EVALUATE, "--details", *gates, "--markdown", "out.md", "--junit", "out.xml")
    assert said.code == 3, said
    details = said.out.partition(SERVING)[2]
    assert 0 < details.index("cut off at the token limit") < details.index(MODEL)
    assert "try: raise max_tokens" in said.out
    assert "e.g. r4" in said.out
    assert "called a function that is not among the tools" in said.out
    page = (small / "out.md").read_text("utf-8")
    assert page.index(f"**{SERVING}**") < page.index(f"**{MODEL}**")
    assert "| 1 | 16.7% | cut off at the token limit e.g. `r4` |" in page
    assert "gate NOT met  required cause.cut_off <= 10%" in said.out
    assert "gate met      required cause.refusal <= 20%" in said.out


def test_the_next_step_after_a_gate_is_to_compare_with_its_base(small: Path) -> None:
    right = right_answers()
    for name in ("first", "second"):
        replay(small, right, name)
        assert inside(small, *EVALUATE[:-1], name).code == 0
    gate = ("--no-worse-than", "small-first", "--margin", "0.9")
    said = inside(small, *EVALUATE[:-1], "second", *gate, COLUMNS="300")
    assert "Next, compare with the gate's base:  tunecheck compare small-first-" in said.out


def test_the_next_step_compares_with_no_run_that_only_has_errors(small: Path) -> None:
    replay(small, {"other": "yes"})
    assert inside(small, *EVALUATE).code == 1
    replay(small, right_answers())
    assert "Next, look at every row:" in inside(small, *EVALUATE, COLUMNS="300").out


def several(small: Path, *more: str) -> Said:
    right = right_answers()
    replay(small, right | {"r0": call(people="2")}, "old")
    replay(small, right, "new")
    return inside(small, "evaluate", "--dataset", "small.jsonl", "--endpoint", "old,new", *more, COLUMNS="300")


def test_several_endpoints_make_one_run_each_side_by_side_in_one_table(small: Path) -> None:
    said = several(small)
    lines = [" ".join(line.split()) for line in said.out.splitlines()]
    assert said.code == 0
    assert lines[1] == "match passed: old 5 of 6 (83.3%); new 6 of 6 (100.0%)."
    cause = "a number written as text, 1 of 1 row with a known cause, e.g. r0"
    assert lines[2].startswith(f"old: Main cause of failures: {cause}")
    assert lines[5:9] == [
        "old new",
        "match 5 of 6 83.3% 6 of 6 100.0%",
        "function_call_match 6 of 6 100.0% 6 of 6 100.0%",
        "rows with a known cause 1 0",
    ]
    assert inside(small, "evaluate", "--dataset", "small.jsonl", "--endpoint", "new").code == 0  # names alike
    names = sorted(path.name.rsplit("-", 2)[0] for path in (small / "eval_results").iterdir())
    assert names == ["small-new", "small-new", "small-old"]
    compare = lines[3].partition(": ")[2].split()[1:]
    assert compare[0] == "compare"
    assert inside(small, *compare).code == 0


def test_rows_with_an_error_are_counted_beside_each_endpoint(small: Path) -> None:
    replay(small, right_answers({"r5": None}), "old")
    replay(small, right_answers(), "new")
    said = inside(small, "evaluate", "--dataset", "small.jsonl", "--endpoint", "old,new", COLUMNS="300")
    assert "match passed: old 5 of 5 (100.0%), 1 row with an error; new 6 of 6 (100.0%)." in said.out


def test_the_endpoint_of_which_every_row_failed_is_named(small: Path) -> None:
    replay(small, {"another": "answer"}, "old")
    replay(small, right_answers(), "new")
    said = inside(small, "evaluate", "--dataset", "small.jsonl", "--endpoint", "old,new")
    assert said.code == 1
    assert re.search(
        r"^error: every row of (small-old-\S+) ended in an error: see `tunecheck report eval_results/\1`$",
        said.err,
        re.MULTILINE,
    )


def test_data_without_calls_has_the_first_evaluator_as_primary_metric_everywhere(small: Path) -> None:
    rows = ({"id": name, "query": "Hi", "ground_truth": "Hello", "response": name} for name in ("Hello", "Bye"))
    (small / "texts.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    run = ("evaluate", "--dataset", "texts.jsonl", "--response-column", "response", "--evaluators", "f1_score,match")
    assert inside(small, *run, "--dry-run", "--json").json()["primary"] == "f1_score"
    for name in ("old", "new"):
        assert "f1_score: 1 of 2 rows passed (50.0%)." in inside(small, *run, "--name", name, COLUMNS="300").out
    assert inside(small, "compare", "old", "new", "--json").json()["decision"]["metric"] == "f1_score"


def test_rows_that_failed_without_a_known_cause_are_not_among_those_that_causes_are_counted_from(small: Path) -> None:
    (small / "evaluators").mkdir()
    judge = 'return {"own": 0, "own_result": "fail", "own_reason": "too blunt"}'
    (small / "evaluators" / "own.py").write_text(f"def own(response):\n    {judge}\n")
    replay(small, right_answers({"r0": call(people=9)}))
    said = inside(small, *EVALUATE, "--evaluators", "match,own", COLUMNS="300").out
    assert re.search(r"^rows with a known cause +1 ", said, re.MULTILINE)


def test_after_more_than_two_endpoints_the_next_step_is_to_select(small: Path) -> None:
    several(small)
    said = inside(small, "evaluate", "--dataset", "small.jsonl", "--endpoint", "old,new,simulated", COLUMNS="300")
    assert "Next, choose one of these runs: tunecheck select small-old-" in " ".join(said.out.split())
    assert re.search(r"^match +83.3% +100.0% +\d", said.out, re.MULTILINE)


def test_an_endpoint_with_a_problem_of_serving_is_examined_before_runs_are_compared(small: Path) -> None:
    right = right_answers()
    replay(small, right | {"r4": '<tool_call>{"name": "book", "arguments": {"day": "2026-0'}, "old")
    replay(small, right, "new")
    said = inside(small, "evaluate", "--dataset", "small.jsonl", "--endpoint", "new,old", COLUMNS="300")
    assert re.search(r"Next, find out how the endpoint is served:  tunecheck \S+ old", said.out)


def test_an_endpoint_without_any_call_is_examined_before_runs_are_compared(evaluated: Evaluated) -> None:
    no_call = dict.fromkeys(right_answers(), "I will see to it.")
    assert evaluated(no_call)[3].endswith(":  tunecheck check recorded")
    assert "tunecheck compare" in evaluated(no_call | {"r0": call(people=9)})[3]


def test_several_endpoints_print_a_list_of_objects_as_json(small: Path) -> None:
    found = several(small, "--json").json()
    assert [each["metrics"]["match.binary_aggregate"] for each in found] == [5 / 6, 1.0]


def test_the_worst_end_of_several_runs_is_the_exit_code(small: Path) -> None:
    said = several(small, "--fail-under", "match>=0.9")
    assert said.code == 3
    old = "match passed: old 5 of 6 (83.3%), gate NOT met: required match >= 90%, found 83.3%; new"
    assert old in " ".join(said.out.split())
    assert re.search(r"^old: gate NOT met +required", said.out, re.MULTILINE)


def test_the_command_of_the_next_step_stays_on_one_line_of_a_narrow_terminal(evaluated: Evaluated, small: Path) -> None:
    evaluated({}, "--name", "one")
    lines = evaluated({}, "--name", "two", columns="60")
    assert any(re.fullmatch(r"  tunecheck compare one-\w+-\w+ two-\w+-\w+", line) for line in lines)
    said = inside(small, "compare", "one", "two", COLUMNS="60").out
    assert re.search(r"^  tunecheck report two-\w+-\w+ --against one-\w+-\w+$", said, re.MULTILINE)


def test_answers_to_repeated_rows_are_not_counted_as_rows(small: Path) -> None:
    wrong = right_answers({"r0": call(people="2")})
    replay(small, {f"{row}{trial}": answer for row, answer in wrong.items() for trial in ("", "#2", "#3")})
    lines = inside(small, *EVALUATE, "--repeat", "3", COLUMNS="300").out.splitlines()
    assert "a number written as text, 3 of 3 answers with a known cause" in lines[2]
    assert any("all 18 answers" in line for line in lines)
    assert any(line.startswith("answers with a known cause") for line in lines)
    assert any(line.endswith(" · 18 answers · endpoint recorded") for line in lines)
    again = inside(small, *EVALUATE, "--repeat", "3", COLUMNS="300").out.splitlines()[3]
    compared = inside(small, *again.partition(":  ")[2].split()[1:], COLUMNS="300").out
    assert compared.count("18 answers, 3 for each row") == 2
