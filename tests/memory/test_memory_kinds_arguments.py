"""Arguments of data sets: each is checked where the configuration says it, with an error that says what may stand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from tunecheck import ConfigurationError, PluginError
from tunecheck.plugins import JSON, discover
from tunecheck_memory import find_kind

DEFAULTS: dict[str, dict[str, JSON]] = {
    "colours": {"colour_changes": 3},
    "names": {"name_changes": 3},
    "name_list": {"name_changes": 3},
    "shopping": {"item_changes": 3},
    "locations": {"known_locations": 5},
    "locations_directions": {"known_locations": 5},
    "jokes": {"jokes_told": 3, "minutes_low": 30, "minutes_high": 240, "joke_prefix": ""},
    "sallyanne": {"question_type": "any"},
    "kv": {"num_kv_pairs": 140, "nested_levels": 0},
    "trigger_response": {"trigger_activations": 3, "rouge_score_threshold": 0.75},
    "chapterbreak": {"split": "all", "max_message_size": 1024},
    "delayed_recall": {},
    "instruction_recall": {},
    "how_to_think": {},
    "prospective_memory": {},
    "conflicting_personal_info": {},
    "spy_meeting": {},
    "restaurant": {},
}
"""The published benchmark's arguments and their defaults."""


@pytest.mark.parametrize("name", DEFAULTS)
def test_a_kind_has_the_published_arguments_with_their_defaults(name: str) -> None:
    assert dict(find_kind(name).arguments) == DEFAULTS[name]
    assert set(find_kind(name).argument_names()) == set(DEFAULTS[name])


def test_every_kind_that_is_there_is_one_of_the_eighteen() -> None:
    assert {plugin.name for plugin in discover("memory")} >= set(DEFAULTS)
    assert len(DEFAULTS) == 18


@pytest.mark.parametrize(
    ("name", "argument", "value", "may_be"),
    [
        ("colours", "colour_changes", 0, "colour_changes must be a whole number from 1 to 38, not 0"),
        ("colours", "colour_changes", 39, "from 1 to 38, not 39"),
        ("colours", "colour_changes", True, "not True"),
        ("colours", "colour_changes", "3", "not '3'"),
        ("names", "name_changes", 2.0, "not 2.0"),
        ("name_list", "name_changes", None, "not None"),
        ("shopping", "item_changes", [], "not []"),
        ("locations", "known_locations", 1, "from 2 to 40, not 1"),
        ("locations_directions", "known_locations", 41, "from 2 to 40, not 41"),
        ("jokes", "jokes_told", 1000, "from 1 to 50, not 1000"),
        ("jokes", "minutes_low", 0, "from 1 to 10,080, not 0"),
        ("jokes", "minutes_low", 300, "minutes_low (300) must not exceed minutes_high (240)"),
        ("jokes", "joke_prefix", 3, "joke_prefix must be a text"),
        ("jokes", "joke_prefix", "x" * 501, "at most 500 characters"),
        ("sallyanne", "question_type", "theory", "must be one of any, world_model, theory_of_mind, not 'theory'"),
        ("sallyanne", "question_type", "theory_of_mnd", "did you mean 'theory_of_mind'?"),
        ("kv", "num_kv_pairs", 0, "from 1 to 100,000, not 0"),
        ("kv", "nested_levels", -1, "from 0 to 10, not -1"),
        ("trigger_response", "trigger_activations", 0, "from 1 to 100, not 0"),
        ("trigger_response", "rouge_score_threshold", 1.5, "must be a number from 0 to 1, not 1.5"),
        ("trigger_response", "rouge_score_threshold", float("nan"), "not nan"),
        ("chapterbreak", "split", "pg", "must be one of all, goodai, pg19, ao3"),
        ("chapterbreak", "max_message_size", 10, "from 50 to 1,000,000, not 10"),
        ("restaurant", "tip", 3, "the data set 'restaurant' has no argument 'tip'; it takes none"),
        ("colours", "color_changes", 3, "has no argument 'color_changes'; did you mean 'colour_changes'?"),
    ],
)
def test_what_cannot_be_is_refused_with_what_can(name: str, argument: str, value: Any, may_be: str) -> None:
    with pytest.raises(ConfigurationError) as error:
        find_kind(name, {argument: value})
    assert may_be in str(error.value)
    assert "\n" not in str(error.value)


values: st.SearchStrategy[Any] = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.lists(st.integers()), st.just({"a": [1]})
)


@given(st.sampled_from([(name, argument) for name, own in DEFAULTS.items() for argument in own]), values)
def test_any_value_is_taken_or_refused_in_one_line(which: tuple[str, str], value: Any) -> None:
    name, argument = which
    try:
        find_kind(name, {argument: value})
    except ConfigurationError as error:
        assert len(str(error)) < 300


def test_an_unknown_name_is_answered_with_the_closest_one() -> None:
    with pytest.raises(PluginError, match="there is no data set 'colour'; did you mean 'colours'"):
        find_kind("colour")


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(PluginError, match=r"haiku\.py: there is no such file; .* beside the configuration"):
        find_kind("kinds/haiku.py", folder=tmp_path)
