"""`tunecheck bfcl score`: the published scores, rows of any shape, and trees of any layout."""

import csv
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from msgspec import to_builtins
from tests.bfcl_check_parts import (
    CONVERSATIONS,
    Row,
    as_tools,
    check_conversation,
    entries,
    plain,
    published,
    right_result,
    services,
)
from tests.bfcl_copy import bfcl_copy
from tests.cli_parts import inside
from tests.tables import cases
from tests.text_fragments import WITH_NAN

from tunecheck import ConfigurationError, DataError
from tunecheck.episodes import CallMode, GroundTruth, RowVerdict, deviations
from tunecheck_bfcl import score_results
from tunecheck_bfcl._dialect import LeaderboardAttempt

both_modes = pytest.mark.parametrize("compat", [True, False], ids=["bfcl", "strict"])

MODELS = {"2025-11-12-main": "openai/gpt-oss-20b (FC) (vLLM)", "v0.11.0": "openai/gpt-oss-120b (FC) (vLLM)"}

COLUMNS = {"Non-Live AST Acc": "non_live", "Live Acc": "live", "Irrelevance Detection": "irrelevance"}
"""The leaderboard's columns that need no category which was not published."""

PARTS = {
    "Non-Live Multiple AST": "multiple",
    "Live Simple AST": "live_simple",
    "Live Multiple AST": "live_multiple",
    "Relevance Detection": "live_relevance",
    "Multi Turn Base": "multi_turn_base",
    "Multi Turn Miss Func": "multi_turn_miss_func",
    "Multi Turn Miss Param": "multi_turn_miss_param",
}


def score_one(path: Path, *, compat: bool = True) -> Any:
    (model,) = score_results(path, compat=compat, data=bfcl_copy()).models.values()
    return model


# -- published runs ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("run", ["v0.11.0", "2025-11-12-main"])
def test_a_published_run_has_its_verdicts_accuracies_and_figures(run: str, shared_data: Path) -> None:
    folder = shared_data / "bfcl_runs" / run
    model = score_one(folder / "result")
    rows = 0
    for conversations in (True, False):
        for path, category, failed in published(shared_data, conversations=conversations):
            if run in path.parts:
                verdicts = model.categories[category].verdicts
                given = [json.loads(line)["id"] for line in path.read_text("utf-8").splitlines()]
                assert [name for name, _ in verdicts] == given
                assert {name: plain(verdict) for name, verdict in verdicts} == {
                    name: (name not in failed, failed.get(name)) for name in given
                }
                rows += len(verdicts)
    assert rows == 4_241
    line = published_line(folder / "score" / "data_overall.csv", MODELS[run])
    figures = model.figures("v4")
    assert {name: f"{figures[figure]:.2%}" for name, figure in COLUMNS.items()} == {
        name: line[name] for name in COLUMNS
    }
    accuracies = {name: model.categories[category].accuracy for name, category in PARTS.items()}
    assert {name: f"{accuracy:.2%}" for name, accuracy in accuracies.items()} == {name: line[name] for name in PARTS}
    of_conversations = published_line(folder / "score" / "data_multi_turn.csv", MODELS[run])
    for name in ("Base", "Miss Func", "Miss Param"):
        assert of_conversations[name] == line[f"Multi Turn {name}"]


def published_line(path: Path, model: str) -> dict[str, str]:
    with path.open(encoding="utf-8", newline="") as opened:
        (line,) = (line for line in csv.DictReader(opened) if line["Model"] == model)
    return line


def test_a_figure_is_left_out_where_one_of_its_categories_is_missing(tmp_path: Path) -> None:
    model = score_one(write(tmp_path, [right("multi_turn_base_0")]))
    assert model.categories["multi_turn_base"].accuracy == 1
    assert model.categories["multi_turn_base"].missing == 199
    assert {*model.figures("v3").values(), *model.figures("v4").values()} == {None}


def test_a_figure_of_pooled_categories_is_the_share_of_their_rows_to_the_last_digit(tmp_path: Path) -> None:
    for category, answered in (("simple", 150), ("multiple", 800), ("parallel", 9), ("parallel_multiple", 13)):
        lines = [
            {"id": name, "result": first_values(row) if number < answered else "none"}
            for number, (name, row) in enumerate(entries(f"live_{category}").items())
        ]
        write(tmp_path, lines, f"live_{category}")
    model = score_one(tmp_path)
    right = sum(score.correct for score in model.categories.values())
    assert 800 < right < 972
    assert model.figures("v4")["live"] == right / 1_351


def test_a_figure_of_pooled_categories_is_left_out_where_one_has_no_row_that_is_scored(tmp_path: Path) -> None:
    for category in ("simple", "multiple", "parallel_multiple"):
        write(tmp_path, [{"id": next(iter(entries(f"live_{category}"))), "result": "none"}], f"live_{category}")
    write(tmp_path, [{"id": "live_parallel_999-9-9", "result": "none"}], "live_parallel")
    model = score_one(tmp_path)
    assert model.categories["live_parallel"].total == 0
    assert {*model.figures("v3").values(), *model.figures("v4").values()} == {None}


def first_values(row: Any) -> list[Row]:
    """Calls with the first of the possible values of each argument that must be given."""
    calls = [(name, options) for call in row["ground_truth"] for name, options in call.items()]
    given = [
        (name, {key: each[0] for key, each in options.items() if each and "" not in each}) for name, options in calls
    ]
    return [{name.replace(".", "_"): json.dumps(arguments)} for name, arguments in given]


# -- rows of any shape -------------------------------------------------------------------------------------------------


def right(name: str, category: str = "multi_turn_base", **more: object) -> Row:
    return {"id": name, "result": right_result(entries(category)[name]), **more}


def write(folder: Path, lines: Sequence[object], category: str = "multi_turn_base", model: str = "m") -> Path:
    """A result file of a model; a line is bytes, or written as JSON."""
    path = folder / model / f"BFCL_v4_{category}_result.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(
        b"".join((line if isinstance(line, bytes) else json.dumps(line).encode()) + b"\n" for line in lines)
    )
    return path


ZERO, ONE, TWO, THREE = (f"multi_turn_base_{number}" for number in range(4))
UNREADABLE = (False, "unreadable_row")
EMPTY, FORCED, FAILED = (
    (False, f"multi_turn:{kind}") for kind in ("empty_turn_model_response", "force_terminated", "inference_error")
)
NOBODY = (None, "unknown_id")
DEEP = b"[" * 9_999 + b"]" * 9_999

BROKEN: list[tuple[object, str, tuple[bool | None, str]]] = [
    (b"{", "row-1", UNREADABLE),
    ([], "row-2", UNREADABLE),
    ([["ls()"]], "row-3", UNREADABLE),
    (None, "row-4", UNREADABLE),
    (ZERO, "row-5", UNREADABLE),
    ({"result": []}, "row-6", UNREADABLE),
    ({"id": 7, "result": []}, "row-7", UNREADABLE),
    ({"id": "", "result": []}, "row-8", UNREADABLE),
    (b'{"id": "multi_turn_base_1", "result": [[', ONE, UNREADABLE),
    (b"\xff\xfe\x00", "row-10", UNREADABLE),
    (b'{"id": "multi_turn_base_1", "result": ' + DEEP + b"}", ONE, UNREADABLE),
    ({"id": TWO}, TWO, UNREADABLE),
    ({"id": TWO, "result": None}, TWO, FAILED),
    ({"id": TWO, "result": "Error during inference: 500", "traceback": "…"}, TWO, FAILED),
    ({"id": TWO, "result": []}, TWO, FORCED),
    ({"id": THREE, "result": ["cd()"] * 3}, THREE, FORCED),
    ({"id": ZERO, "result": ["cd()"] * 4}, ZERO, EMPTY),
    ({"id": ZERO, "result": [[], [None], [5, [{}]], {}]}, ZERO, EMPTY),
    ({"id": ZERO, "result": [[[[[]]]], 5, [], []]}, ZERO, FAILED),
    ({"id": "\ud83d", "result": []}, "\ud83d", NOBODY),
    ({"id": "multi_turn_base_200", "result": []}, "multi_turn_base_200", NOBODY),
    ({"id": "simple_python_0", "result": []}, "simple_python_0", NOBODY),
]
"""Lines of a result file, with the id of each, its verdict and error type."""


@both_modes
def test_every_line_of_a_file_has_its_verdict_in_its_place(compat: bool, tmp_path: Path) -> None:
    lines = [line for line, *_ in BROKEN]
    score = score_one(write(tmp_path, [*lines, right("multi_turn_base_0"), right("multi_turn_base_0")]), compat=compat)
    verdicts = score.categories["multi_turn_base"].verdicts
    assert [(name, plain(verdict)) for name, verdict in verdicts[:-2]] == [(name, how) for _, name, how in BROKEN]
    assert [(name, *plain(verdict)) for name, verdict in verdicts[-2:]] == [("multi_turn_base_0", True, None)] * 2
    assert all(verdict.message for _, verdict in verdicts[:-2])
    assert score.categories["multi_turn_base"].total == len(BROKEN) + 2 - 3
    assert score.categories["multi_turn_base"].missing == 200 - 4


@both_modes
@pytest.mark.parametrize("category", ["irrelevance", "live_relevance", "simple_java", "parallel_multiple"])
def test_every_line_of_single_questions_has_its_verdict_too(category: str, compat: bool, tmp_path: Path) -> None:
    name = next(iter(entries(category)))
    results: list[object] = [None, 5, {}, [], "text", [[]], [None], [{}], [{"f": None}], [{"f": "{"}], {"f": "{}"}]
    lines = [*(line for line, *_ in BROKEN[:12]), *({"id": name, "result": result} for result in results)]
    verdicts = score_one(write(tmp_path, lines, category), compat=compat).categories[category].verdicts
    assert len(verdicts) == len(lines)
    assert [plain(verdict) for _, verdict in verdicts[:8]] == [(False, "unreadable_row")] * 8
    assert [each for each, _ in verdicts[12:]] == [name] * len(results)
    assert all(verdict.valid is not None for _, verdict in verdicts[12:])


def test_the_command_writes_one_line_for_every_row_and_ends_well(tmp_path: Path) -> None:
    write(tmp_path / "res", [*(line for line, *_ in BROKEN), b"", right("multi_turn_base_0")])
    for mode in ("bfcl", "strict"):
        arguments = ("bfcl", "score", "res", "--compat", mode, "--out", mode, "--data", str(bfcl_copy()))
        said = inside(tmp_path, *arguments)
        assert (said.code, said.err) == (0, "")
        assert f"1 of {len(BROKEN) - 2:,}" in said.out
        assert "(3 not scored) (196 missing)" in said.out
        lines = (tmp_path / mode / "multi_turn_base.verdicts.jsonl").read_bytes().splitlines()
        found = [json.loads(line) for line in lines]
        assert {tuple(line) for line in found} == {("id", "valid", "error_type", "turn", "message")}
        assert [(line["id"], line["valid"], line["error_type"]) for line in found] == [
            *((name, *how) for _, name, how in BROKEN),
            ("multi_turn_base_0", True, None),
        ]
        summary = json.loads((tmp_path / mode / "summary.json").read_bytes())
        part = summary["categories"]["multi_turn_base"]
        assert (part["total"], part["not_scored"], part["missing"]) == (len(BROKEN) - 2, 3, 196)


def test_a_file_cut_off_in_its_last_line_is_scored_up_to_there(tmp_path: Path) -> None:
    whole = [right(f"multi_turn_base_{number}") for number in range(3)]
    path = write(tmp_path, whole)
    path.write_bytes(path.read_bytes()[:-40])
    verdicts = score_one(path).categories["multi_turn_base"].verdicts
    assert [(name, *plain(verdict)) for name, verdict in verdicts] == [
        ("multi_turn_base_0", True, None),
        ("multi_turn_base_1", True, None),
        ("multi_turn_base_2", False, "unreadable_row"),
    ]


@pytest.mark.parametrize("first", [[], [[]], [{"id": "multi_turn_base_1", "result": []}], ["["]])
def test_lines_of_which_the_first_is_a_list_are_lines_all_the_same(first: object, tmp_path: Path) -> None:
    verdicts = score_one(write(tmp_path, [first, right(ZERO), right(ONE)])).categories["multi_turn_base"].verdicts
    assert [(name, verdict.valid) for name, verdict in verdicts] == [("row-1", False), (ZERO, True), (ONE, True)]


@cases("bfcl")
def test_a_conversation_whose_record_says_that_it_was_ended_by_force_fails_strictly(marks: Row, tmp_path: Path) -> None:
    path = write(tmp_path, [right("multi_turn_base_0", **marks)])
    for compat, expected in ((True, (True, None)), (False, (False, "multi_turn:force_terminated"))):
        ((_, verdict),) = score_one(path, compat=compat).categories["multi_turn_base"].verdicts
        assert plain(verdict) == expected


@pytest.mark.parametrize("log", [None, 5, [None], [5, "x"], [{"step_0": 5}], [{"step_0": [None, [], {"role": []}]}]])
def test_a_log_of_any_shape_says_nothing(log: object, tmp_path: Path) -> None:
    row = right("multi_turn_base_0", inference_log=log, note="forced to quit")
    ((_, verdict),) = score_one(write(tmp_path, [row]), compat=False).categories["multi_turn_base"].verdicts
    assert verdict.valid


ids = st.sampled_from(["multi_turn_base_0", "simple_python_0", "irrelevance_0", "", "x"])
columns = {"id": ids | WITH_NAN, **dict.fromkeys(("result", "forced_quit", "inference_log"), WITH_NAN)}
lines_of_rows = st.fixed_dictionaries({}, optional=columns).map(json.dumps).map(str.encode)
damaged = st.tuples(lines_of_rows, st.integers(0, 60), st.binary(max_size=3)).map(
    lambda drawn: drawn[0][: drawn[1]] + drawn[2] + drawn[0][drawn[1] :]
)
raw_lines = (lines_of_rows | damaged | st.binary(max_size=20) | WITH_NAN.map(json.dumps).map(str.encode)).filter(
    lambda line: b"\n" not in line and line.strip() != b""
)


@given(
    lines=st.lists(raw_lines, min_size=1, max_size=4).filter(lambda lines: lines[0].lstrip()[:1] != b"["),
    category=st.sampled_from(["multi_turn_base", "simple_python", "irrelevance"]),
    compat=st.booleans(),
    mode=st.sampled_from(["tools", "text"]),
)
@settings(suppress_health_check=list(HealthCheck))
def test_whatever_stands_in_a_file_each_line_has_a_verdict(
    lines: list[bytes], category: str, compat: bool, mode: Any, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.getbasetemp() / f"BFCL_v4_{category}_result.json"
    path.write_bytes(b"\n".join(lines))
    (model,) = score_results(path, compat=compat, mode=mode, data=bfcl_copy()).models.values()
    score = model.categories[category]
    assert len(score.verdicts) == len(lines)
    for name, verdict in score.verdicts:
        assert isinstance(name, str)
        assert isinstance(verdict, RowVerdict)
        assert (verdict.valid is True) == (verdict.error_type is None)
        assert verdict.valid or verdict.message
    json.dumps(to_builtins(score.summary()))


# -- trees -------------------------------------------------------------------------------------------------------------


def test_models_are_told_apart_by_their_folders_whatever_they_are_called(tmp_path: Path) -> None:
    names = ["my_model-FC", "a b", "m@v1", "m+1", "1model", "Zoë"]
    for number, name in enumerate(names):
        row = right("multi_turn_base_0")
        wrong: Row = {**row, "result": [[*turn, as_tools([("rm", {"file_name": "x"})])] for turn in row["result"][:-1]]}
        write(tmp_path / "result", [row if number % 2 else wrong], model=f"{name}/multi_turn")
    models = score_results(tmp_path / "result", data=bfcl_copy()).models
    assert {name: model.categories["multi_turn_base"].accuracy for name, model in models.items()} == {
        name: number % 2 for number, name in enumerate(names)
    }


def test_iterations_of_one_model_are_told_apart_by_the_folders_above_it(tmp_path: Path) -> None:
    row = right("multi_turn_base_0")
    for folder, model in (("r1", "m"), ("r2", "m/multi_turn"), ("r2", "other")):
        write(tmp_path / "runs" / folder, [{**row, "result": []} if folder == "r1" else row], model=model)
    scores = score_results(tmp_path / "runs", data=bfcl_copy())
    accuracies = {name: model.categories["multi_turn_base"].accuracy for name, model in scores.models.items()}
    assert accuracies == {"r1/m": 0, "r2/m": 1, "other": 1}
    scores.write(tmp_path / "scores")
    for name in accuracies:
        assert (tmp_path / "scores" / name / "summary.json").is_file()
    # Files outside the folder are named by the links in it.
    for folder in ("r1", "r2"):
        (tmp_path / "links" / folder).mkdir(parents=True)
        linked = write(tmp_path / "elsewhere" / folder, [row])
        (tmp_path / "links" / folder / linked.name).symlink_to(linked)
    assert [*score_results(tmp_path / "links", data=bfcl_copy()).models] == ["r1", "r2"]


def test_how_names_with_dots_are_called_may_be_said_outright(tmp_path: Path) -> None:
    rows: Any = entries("simple_python").values()
    row = next(row for row in rows if "." in row["functions"][0]["name"])
    (call,) = first_values(row)
    result = [dict(zip([row["functions"][0]["name"]], call.values(), strict=True))]
    path = write(tmp_path, [{"id": row["id"], "result": result}], "simple_python")
    names: Any
    for names, right in (("auto", 1), ("dotted", 1), ("underscored", 0)):
        (model,) = score_results(path, names=names, data=bfcl_copy()).models.values()
        assert model.categories["simple_python"].correct == right
    names = "doted"
    with pytest.raises(ConfigurationError, match="names: 'doted' is unknown; did you mean 'dotted'"):
        score_results(path, names=names, data=bfcl_copy())


def test_old_and_new_names_of_categories_and_rows_are_the_same(tmp_path: Path) -> None:
    row = next(iter(entries("simple_java").values()))
    for folder, line in (("v4", "simple_java_0"), ("v3", "java_0")):
        path = tmp_path / folder / "m" / f"BFCL_{folder}_{line.removesuffix('_0')}_result.json"
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps({"id": line, "result": "no call"}) + "\n", "utf-8")
        ((name, verdict),) = score_one(tmp_path / folder).categories["simple_java"].verdicts
        assert (name, verdict.error_type) == (row["id"], "ast_decoder:decoder_wrong_output_format")


def test_what_cannot_be_scored_says_why_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("x")
    write(tmp_path / "memory", [{}], category="memory_kv")
    write(tmp_path / "twice", [{}])
    write(tmp_path / "twice", [{}], model="m/multi_turn")
    for name, target in (("endless", "/dev/zero"), ("loop", "BFCL_v4_simple_python_result.json")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "BFCL_v4_simple_python_result.json").symlink_to(target)
    for path, why in (
        ("nothing", "there is no such file or folder"),
        ("notes.txt", "rename the file to BFCL_v4"),
        ("memory", "Tunecheck cannot score"),
        ("twice", "both hold multi_turn_base results of m; remove one file"),
        ("endless", "is not a regular file"),
        ("loop", "is not a regular file"),
    ):
        with pytest.raises(DataError, match=why):
            score_results(tmp_path / path, data=bfcl_copy())
        said = inside(tmp_path, "bfcl", "score", path, "--data", str(bfcl_copy()))
        assert (said.code, said.err.count("\n")) == (2, 1)
        assert why in said.err


# -- conversations of two published runs and those of the ground truth; test_bfcl_check_scoring has all verdicts


@pytest.mark.parametrize("compat", [True, False])
def test_a_failing_published_row_says_what_is_wrong(shared_data: Path, compat: bool) -> None:
    for path, category, _ in published(shared_data, conversations=True):
        for line in path.read_text("utf-8").splitlines()[:40]:
            record = json.loads(line)
            row = entries(category)[record["id"]]
            verdict = check_conversation(row, record["result"], compat=compat, services=services(), mode="tools")
            assert verdict.valid or verdict.message, record["id"]
            if verdict.error_type in ("multi_turn:instance_state_mismatch", "multi_turn:execution_response_mismatch"):
                assert verdict.turn is not None
                assert verdict.causes, record["id"]


@pytest.mark.parametrize("mode", ["tools", "text"])
@pytest.mark.parametrize("category", CONVERSATIONS)
def test_no_ground_truth_conversation_fails_against_itself(category: str, mode: CallMode) -> None:
    unreadable = 0
    for row in entries(category).values():
        truth: Any = row["ground_truth"]
        result: Any = right_result(row, mode)
        if [len(turn) for turn in result] != [len(turn) for turn in truth]:
            unreadable += 1
            continue
        verdict = check_conversation(row, result, compat=True, services=services(), mode=mode)
        assert verdict.valid, (row["id"], verdict)
    # Some calls of that category are not Python, and no model can make them; they are replayed in the next test.
    assert unreadable == (16 if category == "multi_turn_composite" else 0)


def test_the_ground_truth_of_every_conversation_replayed_twice_gives_the_same_results_and_states() -> None:
    rows = [row for category in CONVERSATIONS for row in entries(category).values()]
    assert len(rows) == 1_000
    for row in rows:
        entry = GroundTruth.read(row)
        one, other = (LeaderboardAttempt(services(), entry, role="model") for _ in range(2))
        for turn in entry.turns:
            for item in turn:
                assert [result.text for result in one.make_truth([item])] == [
                    result.text for result in other.make_truth([item])
                ]
            assert not [*deviations(one.backend.states(), other.backend.states())], row["id"]


@pytest.mark.parametrize("category", [name for name in CONVERSATIONS if name != "multi_turn_composite"])
def test_no_ground_truth_conversation_fails_strictly(category: str) -> None:
    for row in entries(category).values():
        verdict = check_conversation(row, right_result(row), compat=False, services=services())
        assert verdict.valid, (row["id"], verdict)
