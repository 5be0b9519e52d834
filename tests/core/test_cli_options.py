"""Options of a command: described once, given on the command line, in a file or by a recorded run."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import pytest
from hypothesis import given, strategies as st
from tests.tables import cases

from tunecheck import ConfigurationError, Run
from tunecheck.cli import (
    RUNNING,
    Invocation,
    Options,
    ResumableOptions,
    argument,
    command,
    flag,
    option,
    recorded_options,
    settings_by_evaluator,
)
from tunecheck.cli._evaluate.evaluator_choice import mapping_layers
from tunecheck.cli._options import option_fields, parse_assignments, parse_names
from tunecheck.cli._running import as_recorded, merge_resumed_options, read_config
from tunecheck.plugins import JSON, dumps


class BrewOptions(ResumableOptions):
    """Options of every kind."""

    command: ClassVar[str] = "judge calibrate"

    bean: str | None = argument("What to brew.", "BEAN", default=None)
    strength: int | None = option("How strong.", "N", RUNNING, least=1, most=5, fixed=True)
    milk: bool = flag("With milk.")
    guests: list[str] | None = option("For whom.", "A,B", names=True)
    add: dict[str, JSON] | None = option("What else.", "NAME=VALUE")
    cup: str = option("Where to.", "CUP", default="mug", recorded=False)


def brewed(*arguments: str) -> BrewOptions:
    seen: list[BrewOptions] = []

    @command(BrewOptions)
    def brew(options: BrewOptions, invocation: Invocation) -> int:
        """Brew."""
        seen.append(options)
        return 0

    assert brew.run(brew.parse("brew", arguments), Invocation()) == 0
    return seen[0]


FULL = BrewOptions(
    bean="arabica", strength=3, milk=True, guests=["ada", "eve"], add={"sugar": 2, "note": "hot"}, cup="x"
)


def test_a_field_is_an_option_of_the_command_line() -> None:
    words = "arabica --strength 3 --milk --guests ada,eve --add sugar=2 --add note=hot --cup x"
    assert brewed(*words.split()) == FULL
    assert brewed() == BrewOptions()


def test_a_field_is_a_key_of_a_configuration_file(tmp_path: Path) -> None:
    path = tmp_path / "brew.yaml"
    path.write_text("strength: 3\nmilk: true\nguests: [ada, eve]\nadd: {sugar: 2, note: hot}\ncup: x\nbean: arabica\n")
    assert read_config(BrewOptions, str(path)) == FULL
    path.write_text("strength: 9\n")
    with pytest.raises(ConfigurationError, match=r"line 1: strength: must be a whole number of at most 5"):
        read_config(BrewOptions, str(path))


def test_a_run_keeps_what_is_recorded_and_gives_it_back() -> None:
    kept = as_recorded(FULL)
    assert kept["judge_calibrate"] == {key: value for key, value in FULL.given().items() if key != "cup"}
    assert recorded_options(BrewOptions, "r", kept) == replace(FULL, cup="mug")


@pytest.mark.parametrize("given", [{"milk": True}, {"strength": 3}, {"strength": None}, {"guests": ["bob"]}])
def test_a_run_goes_on_with_what_it_recorded_and_what_is_given_over_it(given: Mapping[str, object]) -> None:
    recorded = BrewOptions(strength=3, guests=["ada"])
    options = merge_resumed_options(BrewOptions(**given), recorded, Run(Path("r")))  # type: ignore[arg-type]
    assert options.strength == 3
    assert (options.milk, options.guests) == (given.get("milk", False), given.get("guests", ["ada"]))


def test_a_fixed_option_is_refused_with_another_value() -> None:
    with pytest.raises(
        ConfigurationError, match="--strength cannot change when run r is resumed: leave --strength out"
    ):
        merge_resumed_options(BrewOptions(strength=4), BrewOptions(strength=3), Run(Path("r")))


def test_every_option_of_evaluate_has_a_help() -> None:
    described = option_fields(Options).values()
    assert [each.name for each in described if not each.hidden and not each.help] == []


VARIED = """\
evaluators: bleu, match
set: {bleu.threshold: 0.4, match.ordered: true}
mapping:
  response: ${target.text}
  bleu.response: ${data.x}
group-by: [city, length]
seed: 0
fail-under: match>=0.5
max_error_rate: 0
allow-simulated: true
results-dir: out
"""


def written(folder: Path, text: str) -> str:
    (folder / "eval.yaml").write_text(text, "utf-8")
    return str(folder / "eval.yaml")


def test_a_file_has_names_with_dashes_or_underscores_and_values_as_on_the_command_line(tmp_path: Path) -> None:
    assert read_config(Options, written(tmp_path, VARIED)) == Options(
        evaluators=["bleu", "match"],
        set={"bleu.threshold": 0.4, "match.ordered": True},
        mapping={"response": "${target.text}", "bleu.response": "${data.x}"},
        group_by=["city", "length"],
        seed=0,
        fail_under=["match>=0.5"],
        max_error_rate=0.0,
        allow_simulated=True,
        results_dir="out",
    )


def test_an_empty_file_gives_nothing(tmp_path: Path) -> None:
    assert read_config(Options, written(tmp_path, "# nothing yet\n")) == Options()


@cases("cli")
def test_a_mistake_is_named_with_file_line_and_key(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(ConfigurationError, match=problem):
        read_config(Options, written(tmp_path, text))


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"nope\.yaml: cannot be read"):
        read_config(Options, str(tmp_path / "nope.yaml"))


def test_a_record_of_another_version_is_refused_by_name() -> None:
    with pytest.raises(ConfigurationError, match="jury: unknown key; known: allow_changed_evaluator, "):
        recorded_options(Options, "r", {"jury": "gpt"})


def test_names_stand_between_commas() -> None:
    assert parse_names("bleu, match,", "--evaluators") == ["bleu", "match"]


@pytest.mark.parametrize(
    ("parse", "refusal"),
    [
        (lambda: parse_names("bleu,match,bleu", "--evaluators"), "names 'bleu' twice"),
        (lambda: parse_names(" , ", "--evaluators"), "is empty"),
        (
            lambda: parse_assignments(["bleu.threshold"], "--set"),
            r"--set 'bleu\.threshold' has no name or no `=`: write name=value",
        ),
        (lambda: parse_assignments(["a.b=1", "a.b=2"], "--set"), r"gives 'a\.b' twice"),
        (lambda: settings_by_evaluator({"threshold": 1}, ["bleu"]), r"write evaluator\.parameter=value"),
    ],
)
def test_names_and_assignments_that_cannot_be_meant_are_refused(parse: Callable[[], object], refusal: str) -> None:
    with pytest.raises(ConfigurationError, match=refusal):
        parse()


@cases("cli")
def test_a_value_is_json_where_it_reads_as_json_and_text_elsewhere(text: str, value: object) -> None:
    assert parse_assignments([f"e.p={text}"], "--set") == {"e.p": value}


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists, max_leaves=5))
def test_any_json_value_comes_through_as_it_is(value: object) -> None:
    assert parse_assignments([f"e.p={dumps(value).decode()}"], "--set") == {"e.p": value}


def test_settings_are_sorted_by_evaluator() -> None:
    entries = {"bleu.threshold": 0.4, "match.ordered": True, "bleu.render_calls": False}
    assert settings_by_evaluator(entries, ["bleu", "match"]) == {
        "bleu": {"threshold": 0.4, "render_calls": False},
        "match": {"ordered": True},
    }


def test_a_mapping_without_a_dot_belongs_to_the_default_layer() -> None:
    entries = {"response": "${target.text}", "bleu.response": "${data.a}", "target.messages": "${data.prompt}"}
    assert mapping_layers(entries, ["bleu"]) == {
        "default": {"response": "${target.text}"},
        "bleu": {"response": "${data.a}"},
        "target": {"messages": "${data.prompt}"},
    }


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
