"""Comparable runs and files: our runs by any of their names, Azure's results, BFCL's scores; and the others."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.cli_parts import write_lines
from tests.comparison_parts import declares, passes, row, verdict, write_run
from tests.tables import cases

from tunecheck import ConfigurationError, DataError, assert_no_regression, compare, evaluate, select


def azure(folder: Path, name: str, rows: list[dict[str, object]], *, nan: bool = False) -> Path:
    path = folder / name / "evaluation_results.json"
    path.parent.mkdir()
    text = json.dumps({"rows": rows, "metrics": {}, "studio_url": None})
    path.write_text(text.replace('"NaN"', "NaN") if nan else text, "utf-8")
    return path


def azure_row(number: int, score: object, result: object, **more: object) -> dict[str, object]:
    return {
        "inputs.query": f"q{number}",
        "inputs.response": "an answer",
        "outputs.f1.f1_score": score,
        "outputs.f1.f1_result": result,
        "outputs.f1.f1_threshold": 0.5,
        **more,
    }


def test_a_run_is_found_by_its_folder_its_id_its_beginning_or_as_the_last(tmp_path: Path) -> None:
    first, second = passes(tmp_path, "one", [True]), passes(tmp_path, "two", [False])
    for base, new in ((first, second), (first.name, "last"), ("one", str(second / "eval_results.jsonl"))):
        assert compare(base, new, results_dir=tmp_path).new.id == second.name


def test_what_evaluate_returned_can_be_compared_at_once(tmp_path: Path) -> None:
    data = [{"id": f"r{number}", "text": "x" * number} for number in range(12)]
    evaluators = [lambda text, least=least: {"long": len(text) >= least} for least in (2, 9)]
    results = [evaluate(data=data, evaluators={"long": each}, results_dir=tmp_path) for each in evaluators]
    found = compare(*results).metrics["long"]
    assert (found.kind, found.base.value, found.new.value) == ("binary", 10 / 12, 3 / 12)
    assert found.verdict == "worse"


@pytest.mark.parametrize("text", ['{"rows": [{"inputs.query": "q"},', "[]", '{"rows": 1}'])
def test_a_file_that_azure_did_not_write_or_only_in_part_is_refused(tmp_path: Path, text: str) -> None:
    new = azure(tmp_path, "a", [])
    new.write_text(text, "utf-8")
    with pytest.raises(DataError, match=r"evaluation_results\.json: the file is not a JSON object .*: evaluate again"):
        compare(passes(tmp_path, "b", [True]), new)


def test_azures_results_are_read_and_its_empty_cells_are_errors(tmp_path: Path) -> None:
    base = azure(tmp_path, "a", [azure_row(n, 0.9, "pass") for n in range(4)])
    rows = [azure_row(0, 0.1, "fail"), azure_row(1, "NaN", "NaN"), azure_row(2, 0.9, "pass"), azure_row(3, 0.8, "pass")]
    rows[1]["outputs.f1.f1_threshold"] = "NaN"
    new = azure(tmp_path, "b", rows, nan=True)
    found = compare(base, new.parent)
    metric = found.metrics["f1"]
    assert metric.key == "f1.binary_aggregate"
    assert (metric.difference.n, metric.b, metric.c) == (3, 1, 0)
    assert metric.new_rows.errors == 1
    assert found.base.source == "azure"
    mean = compare(base, new, metrics="f1.f1_score").metrics["f1.f1_score"]
    assert mean.kind == "score"
    assert [mean.base.value, mean.new.value] == pytest.approx([0.9, 0.6])


def test_azures_rows_pair_by_content_and_the_answer_is_none_of_it(tmp_path: Path) -> None:
    rows = [azure_row(n, 0.9, "pass") for n in range(3)]
    other = [azure_row(n, 0.9, "pass") | {"inputs.response": "ANOTHER"} for n in (2, 0, 1)]
    pairs = compare({"rows": rows}, {"rows": other}).pairs
    assert (pairs.by_content, pairs.only_in_base) == (3, ())


def test_a_run_pairs_with_azures_results_of_the_same_data(tmp_path: Path) -> None:
    data = [{"id": f"r{n}", "query": f"question {n}", "extra": {"deep": n}} for n in range(3)]
    ours = evaluate(
        data=data,
        target=lambda query: {"answer": query},
        evaluators={"f1": lambda answer: {"f1": 0.5}},
        results_dir=tmp_path,
    )
    theirs = [
        {f"inputs.{key}": value for key, value in each.items()}
        | {"inputs.extra.deep": 0, "outputs.answer": "x", "outputs.f1.f1": 0.75}
        for each in data
    ]
    found = compare(ours, {"rows": theirs})
    assert found.pairs.paired == 3
    assert not found.pairs.by_id_alone
    assert found.metrics["f1"].difference.value == 0.25


def test_an_unfinished_run_says_how_to_finish_it(tmp_path: Path) -> None:
    base, new = passes(tmp_path, "a", [True]), passes(tmp_path, "b", [True], status="interrupted")
    (new / "eval_results.jsonl").unlink()
    with pytest.raises(
        ConfigurationError, match=rf"not finished \(interrupted\): finish it with .* resume='{new.name}'"
    ):
        compare(base, new)


def test_a_damaged_line_is_named(tmp_path: Path) -> None:
    base, new = passes(tmp_path, "a", [True, True]), passes(tmp_path, "b", [True, True])
    text = (new / "eval_results.jsonl").read_text()
    (new / "eval_results.jsonl").write_text(text[:-20])
    with pytest.raises(DataError, match=r"eval_results.jsonl: line 2 is damaged .*: restore the file"):
        compare(base, new)


def test_a_byte_that_is_no_character_is_found_in_any_row_and_column(tmp_path: Path) -> None:
    base, new = passes(tmp_path, "a", [True] * 600), passes(tmp_path, "b", [True] * 600)
    lines = (new / "eval_results.jsonl").read_bytes().splitlines()
    lines[550] = lines[550].replace(b"completed", b"comple\xffed")
    (new / "eval_results.jsonl").write_bytes(b"\n".join(lines))
    with pytest.raises(DataError, match=r"line 551 is damaged \(the text is not UTF-8"):
        compare(base, new)


@pytest.mark.parametrize("content", ["[1]", "nonsense", '{"rows": 5}', '{"rows": [1]}', '{"rows": [{"a": 1}', ""])
def test_a_file_that_is_no_result_is_an_error_in_one_line(tmp_path: Path, content: str) -> None:
    path = tmp_path / "x.json"
    path.write_text(content)
    with pytest.raises(ConfigurationError) as caught:
        compare(passes(tmp_path, "a", [True]), path)
    assert "x.json" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_run_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    base = passes(tmp_path, "a", [True])
    with pytest.raises(
        ConfigurationError,
        match=r"newer Tunecheck wrote this file \(format_version 2; this version reads at most 1\): update",
    ):
        compare(base, passes(tmp_path, "b", [True], format_version=2))


@cases("comparison")
def test_a_manifest_may_say_anything_of_its_evaluators(tmp_path: Path, evaluators: object) -> None:
    base, new = passes(tmp_path, "a", [True, True]), passes(tmp_path, "b", [True, False], evaluators=evaluators)
    found = compare(base, new).metrics["match"]
    assert (found.base.value, found.new.value) == (1, 0.5)


@pytest.mark.parametrize("decide", [compare, select, assert_no_regression])
def test_errors_name_the_argument_and_the_option_that_accept_simulated_answers(
    tmp_path: Path, decide: Callable[..., object]
) -> None:
    base, new = (passes(tmp_path, name, [True, False], simulated=True) for name in "ab")
    with pytest.raises(ConfigurationError, match=r"give --allow-simulated \(allow_simulated=True\) to compare"):
        decide(base, new)


def test_a_single_simulated_answer_makes_a_run_simulated(tmp_path: Path) -> None:
    rows = [row(0, verdict("match", True), {"outputs.simulated": True}), row(1, verdict("match", True))]
    with pytest.raises(ConfigurationError, match="simulated"):
        compare(passes(tmp_path, "a", [True, True]), write_run(tmp_path, "b", rows, declares("match")))


def score_tree(folder: Path, model: str, failed: list[str], rows: int = 4) -> Path:
    """The leaderboard's score and result files of one category."""
    name = "BFCL_v4_simple_python"
    ids = [f"simple_python_{number}" for number in range(rows)]
    results = [{"id": each, "result": "x"} for each in ids]
    write_lines(folder / "result" / model / "non_live" / f"{name}_result.json", results)
    counts = {"accuracy": 0, "correct_count": rows - len(failed), "total_count": rows}
    errors = [{"id": each, "valid": False, "error": ["wrong"], "error_type": "value_error:string"} for each in failed]
    write_lines(folder / "score" / model / "non_live" / f"{name}_score.json", [counts, *errors])
    return folder


def test_rows_that_passed_come_from_the_result_files_beside_bfcls_scores(tmp_path: Path) -> None:
    base = score_tree(tmp_path / "a", "big", ["simple_python_0"])
    new = score_tree(tmp_path / "b", "small", ["simple_python_0", "simple_python_3"])
    found = compare(base / "score", new)
    assert list(found.metrics) == ["bfcl_pooled"]
    (lost,) = found.metrics["bfcl_pooled"].regressed
    assert (lost.row_id, lost.new_reason) == ("simple_python_3", "value_error:string: wrong")


def test_our_verdict_files_compare_with_the_leaderboards_scores(tmp_path: Path) -> None:
    base = score_tree(tmp_path / "a", "big", ["simple_python_0"])
    lines = [
        {"id": f"simple_python_{n}", "valid": [True, False, None, True][n], "error_type": None, "message": "why"}
        for n in range(4)
    ]
    ours = write_lines(tmp_path / "ours" / "simple_python.verdicts.jsonl", lines).parent
    metric = compare(base, ours).metrics["bfcl_pooled"]
    assert (metric.b, metric.c) == (1, 1)
    assert metric.new_rows.not_applicable == 1


def test_a_verdict_on_a_row_whose_id_has_half_of_a_character_is_read(tmp_path: Path) -> None:
    base = score_tree(tmp_path / "a", "big", ["simple_python_0"], rows=1)
    lines = [{"id": "\ud800", "valid": True}, {"id": "simple_python_0", "valid": True}]
    ours = write_lines(tmp_path / "ours" / "simple_python.verdicts.jsonl", lines).parent
    assert compare(base, ours).metrics["bfcl_pooled"].c == 1


def test_a_half_written_score_file_is_refused(tmp_path: Path) -> None:
    base = score_tree(tmp_path / "a", "big", ["simple_python_0", "simple_python_1"])
    path = next((base / "score").rglob("*_score.json"))
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:-1]))
    with pytest.raises(DataError, match="counts 2 failed rows in line 1 but has 1; repeat `bfcl evaluate`"):
        compare(base, base)


def test_scores_without_their_results_say_where_those_were_looked_for(tmp_path: Path) -> None:
    base = score_tree(tmp_path / "a", "big", [])
    next((base / "result").rglob("*_result.json")).unlink()
    with pytest.raises(DataError, match=r"lists only failed rows; .*which has all rows, at .*result.big"):
        compare(base, base)


def test_results_that_nobody_scored_say_how_to_score_them(tmp_path: Path) -> None:
    base = score_tree(tmp_path / "a", "big", [])
    with pytest.raises(ConfigurationError, match="tunecheck bfcl score"):
        compare(base, base / "result")


def test_the_scores_of_two_models_are_not_one_run(tmp_path: Path) -> None:
    base = score_tree(tmp_path / "a", "big", [])
    score_tree(tmp_path / "a", "small", [])
    with pytest.raises(DataError, match="has scores of 2 models or runs; give one folder"):
        compare(base, base)


def test_scores_are_looked_for_some_levels_below_a_folder_and_not_on_the_whole_disk(tmp_path: Path) -> None:
    base, ours = score_tree(tmp_path / "a", "big", ["simple_python_0"], rows=1), tmp_path / "ours"
    near = ours / "runs" / "one" / "bfcl_score" / "model" / "non_live"
    for folder in (near, near / "a" / "b", ours / ".cache"):
        write_lines(folder / "simple_python.verdicts.jsonl", [{"id": "simple_python_0", "valid": folder == near}])
    assert compare(base, ours).metrics["bfcl_pooled"].c == 1
