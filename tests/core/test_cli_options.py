"""A command's options are described once: what is made of one field."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import pytest

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
)
from tunecheck.cli._options import option_fields
from tunecheck.cli._stored_options import as_recorded, merge_resumed_options, read_config
from tunecheck.plugins import JSON


@dataclass(frozen=True, kw_only=True)
class BrewOptions(ResumableOptions):
    """Options of every kind."""

    command: ClassVar[str] = "memory run"

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

    assert brew(brew.parse("brew", arguments), Invocation()) == 0
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
    with pytest.raises(ConfigurationError, match=r"line 1: Expected `int` <= 5 - at `\$\.strength`"):
        read_config(BrewOptions, str(path))


def test_a_run_keeps_what_is_recorded_and_gives_it_back() -> None:
    kept = as_recorded(FULL)
    assert kept["memory_run"] == {key: value for key, value in FULL.given().items() if key != "cup"}
    assert recorded_options(BrewOptions, "r", kept) == replace(FULL, cup="mug")


@pytest.mark.parametrize("given", [{"milk": True}, {"strength": 3}, {"strength": None}, {"guests": ["bob"]}])
def test_a_run_goes_on_with_what_it_recorded_and_what_is_given_over_it(given: Mapping[str, object]) -> None:
    recorded = BrewOptions(strength=3, guests=["ada"])
    options = merge_resumed_options(BrewOptions(**given), recorded, Run(Path("r")))  # type: ignore[arg-type]
    assert options.strength == 3
    assert (options.milk, options.guests) == (given.get("milk", False), given.get("guests", ["ada"]))


def test_a_fixed_option_is_refused_with_another_value() -> None:
    with pytest.raises(ConfigurationError, match="--strength: run r goes on as it was begun; leave --strength out"):
        merge_resumed_options(BrewOptions(strength=4), BrewOptions(strength=3), Run(Path("r")))


def test_every_option_of_evaluate_has_a_help() -> None:
    described = option_fields(Options).values()
    assert [each.name for each in described if not each.description.hidden and not each.description.help] == []
