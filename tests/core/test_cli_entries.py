"""`name=value` options, and the layers that options come in."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st
from tests.tables import cases

from tunecheck import ConfigurationError
from tunecheck.cli import Options, settings_by_evaluator
from tunecheck.cli._evaluate.evaluator_choice import mapping_layers
from tunecheck.cli._options import parse_assignments, parse_names
from tunecheck.plugins import dumps


def test_names_stand_between_commas() -> None:
    assert parse_names("bleu, match,", "--evaluators") == ["bleu", "match"]


def test_a_name_given_twice_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="names 'bleu' twice"):
        parse_names("bleu,match,bleu", "--evaluators")


def test_no_name_at_all_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="names nothing"):
        parse_names(" , ", "--evaluators")


@cases("cli")
def test_a_value_is_json_where_it_reads_as_json_and_text_elsewhere(text: str, value: object) -> None:
    assert parse_assignments([f"e.p={text}"], "--set") == {"e.p": value}


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists, max_leaves=5))
def test_any_json_value_comes_through_as_it_is(value: object) -> None:
    assert parse_assignments([f"e.p={dumps(value).decode()}"], "--set") == {"e.p": value}


def test_an_assignment_without_an_equals_sign_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"--set 'bleu\.threshold': write name=value"):
        parse_assignments(["bleu.threshold"], "--set")


def test_the_same_name_twice_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"gives 'a\.b' twice"):
        parse_assignments(["a.b=1", "a.b=2"], "--set")


def test_settings_are_sorted_by_evaluator() -> None:
    entries = {"bleu.threshold": 0.4, "match.ordered": True, "bleu.render_calls": False}
    assert settings_by_evaluator(entries, ["bleu", "match"]) == {
        "bleu": {"threshold": 0.4, "render_calls": False},
        "match": {"ordered": True},
    }


def test_a_setting_of_an_evaluator_that_takes_no_part_is_told_which_was_meant() -> None:
    with pytest.raises(ConfigurationError, match="this run has no evaluator 'blue'; did you mean 'bleu'"):
        settings_by_evaluator({"blue.threshold": 1}, ["bleu"])


def test_a_setting_without_an_evaluator_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"write evaluator\.parameter=value"):
        settings_by_evaluator({"threshold": 1}, ["bleu"])


def test_a_mapping_without_a_dot_belongs_to_the_default_layer() -> None:
    entries = {"response": "${target.text}", "bleu.response": "${data.a}", "target.messages": "${data.prompt}"}
    assert mapping_layers(entries, ["bleu"]) == {
        "default": {"response": "${target.text}"},
        "bleu": {"response": "${data.a}"},
        "target": {"messages": "${data.prompt}"},
    }


def test_a_mapping_of_an_unknown_evaluator_is_told_which_was_meant() -> None:
    with pytest.raises(ConfigurationError, match="this run has no evaluator 'blue'; did you mean 'bleu'"):
        mapping_layers({"blue.response": "x"}, ["bleu"])


def test_a_zero_is_given_and_a_flag_that_is_not_set_is_not() -> None:
    options = Options.of_command_line({"workers": 0, "seed": 0, "max_error_rate": 0.0, "quiet": False, "set": []})
    assert options == Options(workers=0, seed=0, max_error_rate=0.0)


def test_options_given_win_over_those_below_and_entries_are_merged() -> None:
    upper = Options(limit=3, set={"bleu.threshold": 0.4})
    lower = Options(limit=9, name="x", set={"bleu.threshold": 0.1, "match.ordered": True})
    merged = upper.over(lower)
    assert (merged.limit, merged.name, merged.set) == (3, "x", {"bleu.threshold": 0.4, "match.ordered": True})


def test_a_response_column_given_does_away_with_an_endpoint_below() -> None:
    merged = Options(response_column="answer").over(Options(endpoint="prod", dataset="d.jsonl"))
    assert (merged.endpoint, merged.response_column, merged.dataset) == (None, "answer", "d.jsonl")


def test_what_belongs_to_one_start_only_is_not_recorded() -> None:
    options = Options(dataset="d.jsonl", quiet=True, json=True, debug=True, resume="r", results_dir="x", workers=0)
    assert options.recorded() == {"dataset": "d.jsonl", "workers": 0}
