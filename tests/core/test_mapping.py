"""Column mapping: which value each parameter of an evaluator or a target gets."""

import contextlib
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st
from tests.pipeline_parts import Answering, column, rows_of, run
from tests.tables import cases

from tunecheck import ConfigurationError
from tunecheck.pipeline import Constant, Reference, parse_mapping, read_layers
from tunecheck.pipeline._mapping import make_binder, read_signature

ROW: dict[str, Any] = {
    "a": {"b": {"c": "deep"}, "list": [{"name": "first"}, {"name": "second"}]},
    "plain": "text",
    "with space": "spaced",
    "with-hyphen": "hyphened",
    "naïve": "accented",
    "meta.id": "dotted",
    "outer": {"in.ner": {"x": "half dotted"}},
    "it's": "quoted",
    "0": "digit",
    "empty": None,
    "__proto__": "proto",
}


def resolve(reference: str) -> object:
    mapped = parse_mapping({"p": reference}, "here")["p"]
    assert isinstance(mapped, Reference)
    return mapped.value_in(ROW, {"response": "answered", "usage": {"tokens": [1, 2]}})


@cases("pipeline")
def test_a_reference_finds_its_value(reference: str, value: object) -> None:
    assert resolve(reference) == value


@pytest.mark.parametrize("value", [1, 0.5, True, None, "en", "", "$5", "{x}", "database.x", ["a", 1], {"k": [None]}])
def test_anything_that_is_no_reference_stands_for_itself(value: object) -> None:
    assert parse_mapping({"p": value}, "here") == {"p": Constant(value)}  # type: ignore[arg-type]


@pytest.mark.parametrize("value", ["data.query", "target.response"])
def test_a_reference_without_its_braces_is_refused_with_the_right_spelling(value: str) -> None:
    with pytest.raises(ConfigurationError, match=f"^here, parameter 'p': '{value}' is a fixed text") as told:
        parse_mapping({"p": value}, "here")
    assert str(told.value).endswith(f"write '${{{value}}}'")


@cases("pipeline")
def test_what_looks_like_a_reference_and_is_none_is_refused_with_its_place(value: str) -> None:
    with pytest.raises(ConfigurationError, match=r"config\['x'\], parameter 'p': .* is not a reference") as refusal:
        parse_mapping({"p": value}, "config['x']")
    assert len(str(refusal.value)) < 700


def test_a_path_of_thousands_of_steps_is_refused_in_a_short_line() -> None:
    test_what_looks_like_a_reference_and_is_none_is_refused_with_its_place("${data.a" + ".a" * 3000 + "}")


@cases("pipeline")
def test_references_of_other_systems_say_what_is_meant_here(written: str, meant: str) -> None:
    with pytest.raises(ConfigurationError) as refusal:
        parse_mapping({"p": written}, "here")
    assert str(refusal.value) == meant


def test_a_literal_that_is_no_data_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"parameter 'k': the value is neither a reference nor JSON: .*object"):
        seen(tmp_path, {"e": {"column_mapping": {"k": object()}}})
    assert not (tmp_path / "runs").exists()


@given(st.text())
def test_no_text_in_a_mapping_does_anything_but_bind_or_be_refused(text: str) -> None:
    for value in (text, f"${{data{text}}}", f"${{data.{text}}}", f"${{target[{text}]}}"):
        with contextlib.suppress(ConfigurationError):
            mapped = parse_mapping({"p": value}, "here")
            binder = make_binder(read_signature(lambda p=None: p, "e"), mapping=mapped, owner="e")
            binder(ROW, {})


@given(st.dictionaries(st.text(), st.text() | st.none() | st.integers() | st.dictionaries(st.text(), st.text())))
def test_no_configuration_does_anything_but_be_read_or_be_refused(config: dict[str, Any]) -> None:
    with contextlib.suppress(ConfigurationError):
        read_layers(config, ["e"], {})


Evaluator = Callable[..., object]


def told(response: object = "default", ground_truth: object = "default", lang: object = "default") -> dict[str, Any]:
    return {"response": response, "ground_truth": ground_truth, "lang": lang}


DATA = [{"response": "from data", "answer": "the answer", "ground_truth": "gt column", "alt": "alternative"}]


def seen(tmp_path: Path, config: dict[str, Any] | None = None, **arguments: Any) -> dict[str, Any]:
    """The arguments that the evaluator `told` got, by parameter."""
    result = run(tmp_path, arguments.pop("data", DATA), evaluators={"e": told}, evaluator_config=config, **arguments)
    (row,) = rows_of(result)
    assert not [key for key in row if key.startswith("error")], row
    return {name: row[f"outputs.e.{name}"] for name in ("response", "ground_truth", "lang")}


@cases("pipeline")
def test_a_parameter_takes_this_value(tmp_path: Path, config: Any, answer: Any, parameters: list[str]) -> None:
    """`parameters` are those of `told`; the target gives the answer."""
    target = {} if answer is None else {"target": Answering(lambda row: answer)}
    assert [*seen(tmp_path, config, **target).values()] == parameters


def test_what_the_data_set_declares_is_the_lowest_layer(tmp_path: Path) -> None:
    (tmp_path / "d.jsonl").write_text('{"response": "r", "answer": "a", "alt": "b"}\n')
    (tmp_path / "d.yaml").write_text('column_mapping: {ground_truth: "${data.answer}", lang: "de"}\n')
    assert seen(tmp_path, data=tmp_path / "d.jsonl") == {"response": "r", "ground_truth": "a", "lang": "de"}
    config = {"default": {"ground_truth": "${data.alt}"}}
    assert seen(tmp_path, config, data=tmp_path / "d.jsonl") == {"response": "r", "ground_truth": "b", "lang": "de"}


@cases("pipeline")
def test_a_configuration_of_another_shape_is_an_error(tmp_path: Path, config: Any, said: str) -> None:
    with pytest.raises(ConfigurationError, match=f"^{re.escape(said)}$"):
        seen(tmp_path, config)


@cases("pipeline")
def test_a_typo_is_an_error_before_the_first_row(tmp_path: Path, mapping: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigurationError, match=f"^{re.escape(said)}$"):
        seen(tmp_path, {"default": {"column_mapping": mapping}})
    assert not (tmp_path / "runs").exists()


def test_a_typo_in_a_target_s_known_columns_is_an_error_before_the_first_call(tmp_path: Path) -> None:
    target = Answering(columns=frozenset({"response", "usage"}))
    with pytest.raises(ConfigurationError, match=r"names no column: there is no 'respnse'; did you mean 'response'"):
        seen(tmp_path, {"default": {"response": "${target.respnse}"}}, target=target)
    assert target.asked == []


def test_a_missing_required_parameter_names_the_columns_there_are(tmp_path: Path) -> None:
    for data, known in (
        (DATA, "${data.alt}, ${data.answer}, ${data.ground_truth}, ${data.response}"),
        ([{}], "no columns"),
    ):
        option = "--mapping context='${data.COLUMN}' (in Python: column_mapping in evaluator_config)"
        said = f"evaluator 'e' needs 'context', 'query': give {option}; the data has {known}"
        with pytest.raises(ConfigurationError, match=f"^{re.escape(said)}$"):
            run(tmp_path, data, evaluators={"e": lambda context, query, lang=1: 1})


def test_a_column_that_one_row_lacks_is_that_row_s_error(tmp_path: Path) -> None:
    data = [{"a": {"b": 1}}, {"a": {}}, {"a": {"b": 3}}]
    result = run(tmp_path, data, evaluators={"e": lambda x: x}, evaluator_config={"e": {"x": "${data.a.b}"}})
    assert column(result, "outputs.e.e") == [1, None, 3]
    (error,) = [entry for entry in column(result, "error.e") if entry]
    problem = "this row has no value for parameter 'x', which is mapped to ${data.a.b}"
    assert error["message"] == f"evaluator 'e': {problem}; add the column, or map another column"


@pytest.mark.parametrize(
    ("data", "evaluator", "config", "got"),
    [
        ([{"a": {"b": 1}}, {"a": {}}], lambda x=9: {"got": x}, {"e": {"x": "${data.a.b}"}}, [1, 9]),
        ([{"x": None}, {"x": 1}], lambda x: {"got": x is None}, None, [True, False]),
        ([{"a": 1}] * 3, lambda a, seen: seen.append(a) or {"got": seen}, {"e": {"seen": [0]}}, [[0, 1]] * 3),
        (
            [{"answer": "x", "alt": "y", "response": "z"}],
            lambda **given: {"got": given},
            {"default": {"response": "${data.alt}"}, "e": {"anything": "${data.answer}", "fixed": 3}},
            [{"answer": "x", "alt": "y", "response": "y", "anything": "x", "fixed": 3}],
        ),
    ],
    ids=[
        "a default where a row is a fixed text column",
        "an explicit null as None",
        "a constant afresh on each row",
        "every column and what is mapped for keywords of any name",
    ],
)
def test_an_evaluator_is_given(tmp_path: Path, data: Any, evaluator: Evaluator, config: Any, got: list[Any]) -> None:
    result = run(tmp_path, data, evaluators={"e": evaluator}, evaluator_config=config)
    assert column(result, "outputs.e.got") == got


def test_leaves_of_objects_are_never_guessed(tmp_path: Path) -> None:
    """Azure feeds `query` from `expected.arguments.query` here."""
    data = [{"query": "What is the weather in Paris?", "expected": {"arguments": {"query": "paris weather"}}}]
    result = run(tmp_path, data, evaluators={"e": lambda query: {"got": query}})
    assert column(result, "outputs.e.got") == ["What is the weather in Paris?"]
    with pytest.raises(ConfigurationError, match="needs 'arguments'"):
        run(tmp_path, data, evaluators={"e": lambda arguments: 1})


def test_keywords_of_any_name_get_the_target_s_columns_before_the_data_s(tmp_path: Path) -> None:
    row = {"q": "asked", "response": "in the data"}
    answer = {"response": "of the target", "extra": 1}
    evaluators = {"e": lambda **given: {"given": given}}
    result = run(tmp_path, [row], target=lambda q: answer, evaluators=evaluators)
    assert column(result, "outputs.e.given") == [{"q": "asked", **answer}]


def test_the_first_parameter_without_a_value_is_named_whatever_the_order_of_the_mapping() -> None:
    def asked(first: object, second: object, **others: object) -> None: ...

    mapping = parse_mapping({"other": "${data.x}", "second": "${data.y}", "first": "${data.z}"}, "here")
    with pytest.raises(KeyError, match="'first'"):
        make_binder(read_signature(asked, "e"), mapping, "e")({}, {})


def test_a_text_that_is_the_name_of_a_column_is_refused_as_a_constant(tmp_path: Path) -> None:
    config = {"e": {"column_mapping": {"ground_truth": "answer"}}}
    said = "evaluator 'e', parameter 'ground_truth': 'answer' is a fixed text, not a column: write '${data.answer}'"
    with pytest.raises(ConfigurationError, match=f"^{re.escape(said)}$"):
        run(tmp_path, [{"answer": "x"}], evaluators={"e": lambda ground_truth: {"n": 1}}, evaluator_config=config)


def test_a_function_as_target_is_mapped_by_an_entry_of_its_own(tmp_path: Path) -> None:
    found = seen(
        tmp_path,
        {"target": {"column_mapping": {"question": "${data.alt}"}}, "default": {"question": "${data.answer}"}},
        target=lambda question: f"asked {question}",
    )
    assert found["response"] == "asked alternative"


def test_the_default_mapping_speaks_of_evaluators_and_not_of_the_target(tmp_path: Path) -> None:
    config = {"default": {"column_mapping": {"response": "${target.text}", "ground_truth": "${data.answer}"}}}
    found = seen(tmp_path, config, target=lambda response, ground_truth: {"text": f"{response}, {ground_truth}"})
    assert found["response"] == "from data, gt column"


def test_a_target_s_missing_parameter_is_an_error_before_the_first_call(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="the target needs 'quesion'"):
        seen(tmp_path, target=lambda quesion: 1)
    with pytest.raises(ConfigurationError, match="names no column: there is no 'questin'"):
        seen(tmp_path, {"target": {"q": "${data.questin}"}}, target=lambda q: 1)


def test_a_target_of_whole_rows_takes_no_mapping(tmp_path: Path) -> None:
    problem = "only a function, or an endpoint that gets one request for each row, takes a mapping: leave"
    with pytest.raises(ConfigurationError, match=problem):
        seen(tmp_path, {"target": {"q": "${data.alt}"}}, target=Answering())
