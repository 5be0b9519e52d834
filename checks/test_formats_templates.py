"""Calls as official chat templates write them, read back exactly: by family and kind of arguments, whole and cut.

Two thirds of the cases, by a seeded hash, were looked at while the profiles were written; the other third was not.
"""

from __future__ import annotations

import random
from collections import Counter

import pytest
from checks.chat_templates import chat_templates
from checks.formats_cases import Case, all_cases, as_pairs, exactly

from tunecheck import read_calls


@pytest.fixture(scope="module")
def cases() -> list[Case]:
    return all_cases(chat_templates())


@pytest.mark.parametrize("held_out", [False, True], ids=["looked at", "held out"])
def test_calls_in_the_form_of_their_family_are_read_exactly(cases: list[Case], held_out: bool) -> None:
    counted: Counter[str] = Counter()
    missed = []
    for case in cases:
        if case.held_out is held_out:
            reading = read_calls(case.raw, tools=case.tools)
            right = exactly(as_pairs(reading), case.calls)
            silent = not reading.calls and reading.problem is None
            counted["right" if right else "silent" if silent else "wrong"] += 1
            missed += [] if right else [f"{case.family}, {case.label}"]
    print(dict(counted), missed)
    assert counted.total() > 700
    assert counted["right"] >= 0.99 * counted.total(), missed
    assert counted["silent"] <= 3, missed


def test_calls_that_are_cut_off_have_a_reason_and_are_never_another_call(cases: list[Case]) -> None:
    chance = random.Random(5)
    counted: Counter[str] = Counter()
    for case in cases:
        if len(case.calls) > 1 or not exactly(as_pairs(read_calls(case.raw, tools=case.tools)), case.calls):
            continue
        after_name = case.raw.rindex(case.calls[0][0]) + len(case.calls[0][0])
        reading = read_calls(case.raw[: chance.randint(after_name, len(case.raw) - 1)], tools=case.tools)
        if reading.problem:
            counted["reason"] += 1
        elif reading.calls:
            counted["whole" if exactly(as_pairs(reading), case.calls) else "another call"] += 1
        else:
            counted["silent"] += 1
    print(dict(counted))
    assert counted["another call"] <= 0.001 * counted.total()
    assert counted["silent"] <= 0.01 * counted.total()
